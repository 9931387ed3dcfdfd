package tabular

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// Numbers of features of trials, powers of two so that searches and the learning curve meet at the same maps, which are
// then tried once (chooser.known). A trial of L penalties takes n·F²/2 multiply-adds for ΦᵀΦ and K·L·F³/6 for its
// factorisations: with n = 8192, K = 5 and L = 7 these are equal at F = 700, so up to trialFeatures a search of λ costs
// less than the map it is for; beyond it the learning curve tries one λ per map.
const (
	firstFeatures  = 64  // of the learning curve
	coarseFeatures = 256 // of the first search of a bandwidth: a quarter of the cost of the second, or less
	trialFeatures  = 512 // of the second
)

// chooser makes the choices on the sample one after the other; a joint search would cost the product of all grids.
// Known interactions are searched again: more features want narrower kernels (ladder, refit), and λ follows both.
//
// The search is not nested. All trials share the folds of the sample, and the parameters of a family and the median
// distance are computed from all inputs of the sample, held out or not. This is sound because trials only compare
// settings: none of their scores is reported as the score of the model.
type chooser struct {
	f    *search
	s    *sample
	rows int64
	try  tries
	d    *decision

	spec   randfeat.Spec // family, coupling and seed; then bandwidth and size
	lambda float64
	median float64
	last   []trial // penalties at the final map
	known  map[tried][]trial

	done, planned int64 // trials
}

// search is the state of one search: the job, and what earlier choices hand on to later ones.
type search struct {
	*job
	start  exactPoint // where a search of an exact kernel may begin, if any
	loss   *Choice    // margins, if they were chosen before all else
	fields []float64  // weights of the fields; nil: the columns keep theirs
	// rescaled says why a later search went back to the standard scaling; empty: none did.
	rescaled string
	marks    []coupling.Omega // landmarks, if the map has some
	learned  *learned         // the metric that the kernel has, if any
}

// searchAll makes all choices on a sample of a table of n rows. It gives the columns of the sample the weights of the
// scaling that it chose.
func searchAll(of *job, s *sample, n int64) (*decision, error) {
	f := &search{job: of}
	scaling, err := f.chooseScaling(s, n)
	if err != nil {
		return nil, err
	}
	d, err := f.chooseWithMetric(s, n, scaling)
	if err != nil {
		return nil, err
	}
	f.noteRescaled(scaling)
	if scaling != nil {
		d.Choices = slices.Insert(d.Choices, 1, *scaling)
		d.Tried = d.Tried || !scaling.Given
	}
	d.fields, d.marks = f.fields, f.marks
	return d, nil
}

// noteRescaled says in the choice of a scaling that a later search went back to the standard one.
func (f *search) noteRescaled(scaling *Choice) {
	if scaling != nil && f.rescaled != "" {
		scaling.Value, scaling.Why, f.rescaled = scalingStandard, f.rescaled, ""
	}
}

// choose decides everything except a penalty that all rows can decide better. For logistic regression it searches all
// settings but λ with least squares, which has closed forms; the same maps suit both.
//
// The order matters. First the family, because bandwidths and feature counts of two families are not comparable. Then s
// with λ, which trade off against each other. Then F, whose learning curve is meaningful only at a good s. Last λ
// again, at the final map.
func (f *search) choose(s *sample, rows int64) (*decision, error) {
	switch {
	case rows <= int64(f.exactLimit()):
		return f.chooseExact(s, rows)
	case f.o.Loss != "":
		return nil, fmt.Errorf("loss %s for a model without an exact kernel of classes: leave it out: %w", f.o.Loss,
			machine.ErrSetup)
	case f.o.Map == MapNystrom && !(f.info.LeastSquares && f.info.Summed()):
		return nil, fmt.Errorf("a %s model has no features of landmarks here: leave the map out: %w", f.kind,
			machine.ErrSetup)
	case f.o.Map == MapNystrom:
		return f.chooseNystrom(s, rows)
	case f.o.Features > maxFeatures:
		return f.chooseLarge(s, rows)
	case f.o.Map == MapExact && !f.info.Exact:
		return nil, fmt.Errorf("a %s model has no exact kernel: leave the map out: %w", f.kind, machine.ErrSetup)
	case f.o.Map == MapExact:
		return nil, fmt.Errorf("%s: %d rows are too many for an exact kernel, the limit is %d (fewer if rows are wide): "+
			"leave the map to be chosen, or give fewer rows: %w", f.src.Name(), rows, f.exactLimit(), machine.ErrSetup)
	}
	c := &chooser{f: f, s: s, rows: rows, d: &decision{Rows: rows, Sampled: s.len(), Last: s.last},
		known: map[tried][]trial{}}
	c.spec = randfeat.Spec{Kernel: kernel.Kernel{Kind: f.kernelKind()}, Dim: s.x.Cols, Seed: f.o.Seed}
	if f.info.LeastSquares {
		c.try = &ridgeTries{ctx: f.ctx, s: s, task: f.task, evidence: f.info.Bayesian}
	} else {
		c.try = &sumTries{ctx: f.ctx, s: s, kind: f.kind, setup: f.setup(c.spec)}
	}
	c.median = medianDistance(s, f.kernelKind(), f.o.Seed)
	c.noteModel()
	c.noteKernel()
	c.planned = c.plan()
	f.progress(stageChoose, 0, c.planned)
	for _, step := range []func() error{c.chooseFamily, c.chooseBandwidth, c.chooseFeatures, c.moreFeatures, c.refit,
		c.chooseMap, c.choosePenalty} {
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	// A single trial chooses nothing: rows it was tried on make an honest score.
	c.d.Spec, c.d.Lambda, c.d.Tried = c.spec, c.lambda, c.d.Open
	for _, ch := range c.d.Choices {
		c.d.Tried = c.d.Tried || !ch.Given && len(ch.Trials) > 1
	}
	return c.d, nil
}

func (c *chooser) chosen(ch Choice) { c.d.Choices = append(c.d.Choices, ch) }

func (c *chooser) noteModel() {
	ch := Choice{Name: "model", Value: string(c.f.kind), Given: c.f.o.Kind != "", Why: "as asked"}
	if !ch.Given {
		ch.Why = "least squares: one pass over the rows, penalties and folds in closed form"
		if c.f.task == machine.Unsupervised {
			ch.Why = "no target was named"
		}
	}
	c.chosen(ch)
	if c.rows > int64(c.s.len()) {
		c.d.Notes = append(c.d.Notes, fmt.Sprintf("choices were tried on a sample of %d of the %d rows", c.s.len(),
			c.rows))
	}
}

// at is the spec with bandwidth s and about features features; parameters of the family are fitted where that is
// wanted.
func (c *chooser) at(s float64, features int) (randfeat.Spec, error) {
	return c.specOf(c.spec, s, features)
}

func (c *chooser) specOf(spec randfeat.Spec, s float64, features int) (randfeat.Spec, error) {
	spec.Kernel = kernel.Kernel{Kind: spec.Kernel.Kind, Scale: s}
	if c.fitted(spec.Family) {
		var err error
		if spec, err = randfeat.Fit(spec, c.s.x, c.s.x); err != nil {
			return spec, err
		}
	}
	spec, err := spec.WithFeatures(features)
	if errors.Is(err, randfeat.ErrFeatures) {
		return spec, nil // its smallest map; the report says how many features it has
	}
	return spec, err
}

// limit is the largest number of features worth trying: about as many as there are rows. With F = n the features can
// fit any targets; more features only approximate the kernel better.
func (c *chooser) limit() int {
	most := firstFeatures
	for int64(most) < c.rows && (most <= trialFeatures || int64(2*most) <= c.rows) {
		most *= 2
	}
	if c.f.o.Budget == defaultBudget {
		most = min(most, int(math.Sqrt(mostProducts/float64(c.rows))))
	}
	return min(most, c.f.o.Budget, c.f.mostFeaturesFor())
}

// mostProducts bounds n·F² where no budget was given: of more than 500,000 rows there are fewer features, so that a fit
// takes minutes, and time grows with the rows alone.
const mostProducts = 2.1e12

// searchFeatures is the number of features of the search of a bandwidth.
func (c *chooser) searchFeatures() int {
	if c.f.o.Features > 0 {
		return min(c.f.o.Features, trialFeatures)
	}
	return min(c.limit(), trialFeatures)
}

// finalLimit is the largest number of features that the model may get.
func (c *chooser) finalLimit() int {
	if c.f.o.Features > 0 {
		return c.f.o.Features
	}
	return c.limit()
}

// grid are the penalties centre·10^lo to centre·10^hi, per steps a decade, or the one that was given.
func (c *chooser) grid(centre float64, lo, hi float64, per int) []float64 {
	if c.f.o.Lambda > 0 {
		return []float64{c.f.o.Lambda}
	}
	if c.unpenalised() {
		return []float64{0}
	}
	var g []float64
	for i := int(math.Round(lo * float64(per))); i <= int(math.Round(hi*float64(per))); i++ {
		g = append(g, centre*math.Pow(10, float64(i)/float64(per)))
	}
	return g
}

// fixedPenalty reports whether there is no λ to choose.
func (c *chooser) fixedPenalty() bool { return c.f.o.Lambda > 0 || c.unpenalised() }

func (c *chooser) unpenalised() bool { return !c.f.info.Penalised }

func short(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
