package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// job is everything that ours and the peers share. The peers get it as JSON.
type job struct {
	X        string    `json:"x"` // npy files of the encoded rows
	Y        string    `json:"y"`
	Classes  int       `json:"classes"` // 0: regression
	Features int       `json:"features"`
	tuning   int       // features while tuning, if fewer suffice there
	Scales   []float64 `json:"scales"`    // s of exp(−|x−y|²/(2s²)), largest first
	Lambdas  []float64 `json:"lambdas"`   // ridge: on the sum of squared errors, largest first
	Logistic []float64 `json:"logistic"`  // logistic: λ/2·|W|² on the sum of losses, largest first
	Costs    []float64 `json:"costs"`     // C of the support-vector machine, smallest first
	MaxIter  int       `json:"max_iter"`  // of logistic regression
	Tol      float64   `json:"tolerance"` // largest entry of the gradient of its mean loss
	Trials   []trial   `json:"trials"`
	Exact    bool      `json:"exact"` // exact kernels instead of features
}

// trial is one random split. Choices are made on Tune, a part of Train: its row i is in fold i mod Folds.
type trial struct {
	Seed  int   `json:"seed"`
	Train []int `json:"train"`
	Test  []int `json:"test"`
	Tune  []int `json:"tune"`
	Folds int   `json:"folds"`
	Tried int   `json:"tried"` // folds that are predicted: all, or only the first
}

// result has the results of one method, by trial.
type result struct {
	Scores   []float64 `json:"scores"` // points: % correct, or 100·R²
	Scale    []float64 `json:"scale,omitempty"`
	Lambda   []float64 `json:"lambda,omitempty"`
	Features []int     `json:"features,omitempty"` // if they were chosen
	Seconds  float64   `json:"seconds"`
}

const (
	tuneRows          = 3000
	exactRows         = 5000
	exactTuneRows     = 2000
	exactTuneFeatures = 2048
)

func newJob(s set, t *table) job {
	j := job{Classes: len(t.classes), Features: s.features, tuning: s.features, MaxIter: 200, Tol: 1e-4,
		Lambdas: []float64{10, 1, 0.1, 0.01, 1e-3, 1e-4}, Logistic: []float64{1, 0.1, 0.01, 1e-3},
		Costs: []float64{1, 10, 100, 1000}}
	median := medianDistance(t.x)
	for _, f := range []float64{2, 1, 0.5, 0.25, 0.125} {
		j.Scales = append(j.Scales, f*median)
	}
	for i := range s.trials {
		j.Trials = append(j.Trials, newTrial(s, t, i))
	}
	return j
}

// newTrial draws a split: a fifth for testing, or rows of the set's own test part.
func newTrial(s set, t *table, seed int) trial {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	n := t.x.Rows
	var train, test []int
	if t.fixed > 0 {
		train, test = r.Perm(t.fixed), r.Perm(n-t.fixed)
		for i := range test {
			test[i] += t.fixed
		}
	} else {
		p := r.Perm(n)
		test, train = p[:n/5], p[n/5:]
	}
	train, test = train[:min(len(train), maxTrain)], test[:min(len(test), maxTest)]
	tr := trial{Seed: seed, Train: train, Test: test}
	tr.tune(tuneRows)
	return tr
}

// tune takes rows for the choices. One fold suffices if there are many rows.
func (t *trial) tune(most int) {
	t.Folds, t.Tried = 3, 3
	if len(t.Train) > most {
		t.Tried = 1
	}
	t.Tune = t.Train[:min(len(t.Train), most)]
}

// exact returns the job with fewer rows, so that kernel matrices fit into memory.
func (j job) exact(large int) job {
	j.Exact, j.Features, j.tuning = true, large, min(large, exactTuneFeatures)
	trials := 5
	if len(j.Trials[0].Train) > exactRows {
		trials = 3
	}
	j.Trials = slices.Clone(j.Trials[:min(trials, len(j.Trials))])
	for i := range j.Trials {
		t := &j.Trials[i]
		t.Train = t.Train[:min(len(t.Train), exactRows)]
		t.tune(exactTuneRows)
	}
	return j
}

// more returns the job with four times the features. Choices are still made with fewer.
func (j job) more() job {
	j.Features *= 4
	return j
}

// auto returns the job with fewer trials.
func (j job) auto() job {
	j.Trials = j.Trials[:min(5, len(j.Trials))]
	if len(j.Trials[0].Train) > exactRows {
		j.Trials = j.Trials[:3]
	}
	return j
}

// around returns the bandwidths that logistic regression tries: that of the ridge and the next smaller one.
func (j job) around(scale float64) []float64 {
	i := slices.Index(j.Scales, scale)
	return j.Scales[i:min(i+2, len(j.Scales))]
}

// fold returns the rows to fit and to predict.
func (t trial) fold(k int) (fit, held []int) {
	for i, row := range t.Tune {
		if i%t.Folds == k {
			held = append(held, row)
		} else {
			fit = append(fit, row)
		}
	}
	return fit, held
}

// medianDistance is the median distance of 2000 random pairs of different rows.
func medianDistance(x dense.Matrix[float64]) float64 {
	r := rand.New(rand.NewPCG(0, 1))
	var all []float64
	for len(all) < 2000 {
		a, b := x.Row(r.IntN(x.Rows)), x.Row(r.IntN(x.Rows))
		sum := 0.0
		for i := range a {
			sum += (a[i] - b[i]) * (a[i] - b[i])
		}
		if sum > 0 {
			all = append(all, math.Sqrt(sum))
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func rows(m dense.Matrix[float64], index []int) dense.Matrix[float64] {
	out := dense.New[float64](len(index), m.Cols)
	for i, k := range index {
		copy(out.Row(i), m.Row(k))
	}
	return out
}
