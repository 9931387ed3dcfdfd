package sampling_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/internal/stattest/cases"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/sampling"
)

const tau = 1.7

func softmaxSpec(f family.Family, dim, m int) randfeat.Spec {
	return randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax, Scale: math.Sqrt(tau)}, Family: f,
		Coupling: coupling.Orthogonal{}, Dim: dim, M: m, Seed: 5}
}

func build[T dense.Float](t testing.TB, spec randfeat.Spec, classes dense.Matrix[T],
	o sampling.Options) *sampling.Sampler[T] {
	t.Helper()
	m, err := randfeat.New[T](spec)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sampling.New(m, classes.Clone(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rows(n, dim int, sd float64, seed uint64) dense.Matrix[float64] {
	return cases.Rows(n, dim, 0, sd, seed)
}

func distribution[T dense.Float](t testing.TB, s *sampling.Sampler[T], q []T) []float64 {
	t.Helper()
	p := make([]float64, s.Classes().Rows)
	if _, err := s.Distribution(p, q); err != nil {
		t.Fatal(err)
	}
	return p
}

// checkCounts compares frequencies with probabilities: a z-score for every class, and a χ² statistic over those that
// are expected at least five times.
func checkCounts(t *testing.T, count []int, p []float64, n int) {
	t.Helper()
	bound := stattest.Bound(1e-6, len(p))
	chi, cells := 0.0, 0
	for c, k := range count {
		mean := float64(n) * p[c]
		if p[c] == 0 && k > 0 {
			t.Errorf("class %d was drawn %d times with probability 0", c, k)
		}
		if mean < 5 {
			continue
		}
		z := (float64(k) - mean) / math.Sqrt(mean*(1-p[c])+1e-9)
		if math.Abs(z) > bound {
			t.Errorf("class %d: drawn %d times, expected %.1f, z = %.1f (bound %.1f)", c, k, mean, z, bound)
		}
		chi += (float64(k) - mean) * (float64(k) - mean) / mean
		cells++
	}
	if cells > 1 { // Wilson and Hilferty
		df := float64(cells - 1)
		z := (math.Cbrt(chi/df) - 1 + 2/(9*df)) / math.Sqrt(2/(9*df))
		if z > stattest.Bound(1e-6, 1) {
			t.Errorf("χ² = %.1f with %d degrees of freedom, z = %.1f", chi, cells-1, z)
		}
	}
}

// Draws of every family follow the probabilities that come with them, and these are those of LogProb and Distribution.
func TestDrawsFollowTheirProbabilities(t *testing.T) {
	const n, d, draws = 23, 4, 6000
	classes, queries := rows(n, d, 0.6, 1), rows(2, d, 0.6, 2)
	for _, f := range cases.Families(t, queries, classes) {
		for _, within := range []sampling.Within{sampling.ByScore, sampling.ByFeatures} {
			t.Run(fmt.Sprintf("%s-%d", f.Name, within), func(t *testing.T) {
				spec := softmaxSpec(f.Family, d, 24)
				spec.Coupling = nil
				s := build(t, spec, classes, sampling.Options{Within: within, Block: 4})
				var got sampling.Draws
				if err := s.Draw(&got, queries, sampling.Request{K: draws, Seed: 9}); err != nil {
					t.Fatal(err)
				}
				for i := range queries.Rows {
					p := distribution(t, s, queries.Row(i))
					sum := 0.0
					for _, v := range p {
						sum += v
					}
					if math.Abs(sum-1) > 1e-9 {
						t.Errorf("probabilities add up to %g", sum)
					}
					count := make([]int, n)
					one := got.Of(i)
					log := make([]float64, 100)
					if err := s.LogProb(log, queries.Row(i), one.IDs[:len(log)]); err != nil {
						t.Fatal(err)
					}
					for j, id := range one.IDs {
						count[id]++
						got := one.LogProb[j]
						if j < len(log) && log[j] != got || math.Abs(math.Exp(got)-p[id]) > 1e-14 {
							t.Fatalf("class %d: drawn with log probability %v, Distribution has %v", id, got,
								math.Log(p[id]))
						}
						if want := math.Log(draws) + got; one.LogCount[j] != want {
							t.Fatalf("LogCount %v, want %v", one.LogCount[j], want)
						}
					}
					checkCounts(t, count, p, draws)
				}
			})
		}
	}
}

// By features a class has the probability φ(q)·φ(c)/Σ of positive families, whatever the blocks; inside one block
// negative estimates of signed families count as zero, as in the paper.
func TestProbabilitiesAreThoseOfFeatures(t *testing.T) {
	const n, d = 29, 4
	classes, queries := rows(n, d, 0.5, 3), rows(3, d, 0.5, 4)
	negative := 0
	for _, f := range cases.Families(t, queries, classes) {
		spec := softmaxSpec(f.Family, d, 16)
		spec.Coupling = nil
		m, err := randfeat.New[float64](spec)
		if err != nil {
			t.Fatal(err)
		}
		block := 3
		if !m.Positive() {
			block = n
		}
		s := build(t, m.Spec(), classes, sampling.Options{Within: sampling.ByFeatures, Block: block})
		gram := dense.New[float64](queries.Rows, n)
		if err := m.Gram(gram, queries, classes, nil); err != nil {
			t.Fatal(err)
		}
		for i := range queries.Rows {
			sum, clipped := 0.0, 0
			for _, v := range gram.Row(i) {
				sum += max(0, v)
				if v < 0 {
					clipped++
				}
			}
			p := make([]float64, n)
			counts, err := s.Distribution(p, queries.Row(i))
			if err != nil {
				t.Fatal(err)
			}
			if counts.Clipped != clipped {
				t.Errorf("%s: %d estimates clipped, want %d", f.Name, counts.Clipped, clipped)
			}
			negative += clipped
			if sum == 0 {
				continue
			}
			for c, v := range gram.Row(i) {
				if want := max(0, v) / sum; math.Abs(p[c]-want) > 1e-9*want+1e-12 {
					t.Errorf("%s: class %d has %g, its features %g", f.Name, c, p[c], want)
				}
			}
		}
	}
	if negative == 0 {
		t.Error("no estimate was negative: the test shows nothing of signed families")
	}
}

// The target is the softmax with the temperature of the kernel, with or without a matrix; other kernels have their own.
func TestSoftmaxIsTheTarget(t *testing.T) {
	const n, d = 17, 5
	classes, q := rows(n, d, 0.6, 5), rows(1, d, 0.6, 6)
	m := rows(3, d, 0.5, 7)
	for _, k := range []kernel.Kernel{{Kind: kernel.Softmax, Scale: math.Sqrt(tau)}, {Kind: kernel.Softmax, M: m},
		{Kind: kernel.Gaussian, Scale: 1.3}} {
		spec := softmaxSpec(family.Positive{}, d, 4096)
		spec.Kernel = k
		s := build(t, spec, classes, sampling.Options{Block: 4})
		p, want := make([]float64, n), make([]float64, n)
		if err := s.Softmax(p, q.Row(0)); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for c := range want {
			want[c] = k.Eval(q.Row(0), classes.Row(c))
			sum += want[c]
		}
		near := distribution(t, s, q.Row(0))
		for c := range want {
			if want[c] /= sum; math.Abs(p[c]-want[c]) > 1e-12 {
				t.Errorf("%v: class %d has %g, want %g", k.Kind, c, p[c], want[c])
			}
		}
		if dist, err := sampling.Distances(p, near); err != nil || dist.KL > 0.02 {
			t.Errorf("%v: KL %g of 4096 features, %v", k.Kind, dist.KL, err)
		}
	}
}

// Distinct draws are successive sampling: the frequencies of ordered pairs are p_a·p_b/(1−p_a), and so say the log
// probabilities.
func TestDistinctDrawsAreSuccessive(t *testing.T) {
	const n, d, queries = 7, 3, 30000
	classes := rows(n, d, 1.2, 8)
	s := build(t, softmaxSpec(family.Positive{}, d, 12), classes, sampling.Options{Block: 2})
	one := rows(1, d, 1.2, 9)
	q := dense.New[float64](queries, d)
	for i := range queries {
		copy(q.Row(i), one.Row(0))
	}
	p := distribution(t, s, one.Row(0))
	var got sampling.Draws
	if err := s.Draw(&got, q, sampling.Request{K: 3, Distinct: true, Seed: 4}); err != nil {
		t.Fatal(err)
	}
	count, prob := make([]int, n*n), make([]float64, n*n)
	for a := range n {
		for b := range n {
			if a != b {
				prob[a*n+b] = p[a] * p[b] / (1 - p[a])
			}
		}
	}
	var sum stattest.Moments
	f := func(id int) float64 { return math.Sin(float64(id)) * p[id] } // any function of classes
	for i := range queries {
		o := got.Of(i)
		a, b, c := o.IDs[0], o.IDs[1], o.IDs[2]
		if a == b || b == c || a == c {
			t.Fatalf("draws %v are not distinct", o.IDs)
		}
		for j, want := range []float64{p[a], p[b] / (1 - p[a]), p[c] / (1 - p[a] - p[b])} {
			if math.Abs(o.LogProb[j]-math.Log(want)) > 1e-9 {
				t.Fatalf("draw %d of %v has log probability %g, want %g", j, o.IDs, o.LogProb[j], math.Log(want))
			}
		}
		count[a*n+b]++
		total := 0.0
		for j, id := range o.IDs {
			total += f(id) / math.Exp(o.LogCount[j])
		}
		sum.Add(total)
	}
	checkCounts(t, count, prob, queries)
	want := 0.0
	for c := range n {
		want += f(c)
	}
	if z := stattest.Z(sum.Mean(), want, math.Sqrt(sum.Var()), sum.N()); math.Abs(z) > stattest.Bound(1e-6, 1) {
		t.Errorf("corrected sums have mean %g, want %g, z = %.1f", sum.Mean(), want, z)
	}
}

// Every class is drawn once where as many are asked for, also where the rest has almost no probability.
func TestAllClassesDistinct(t *testing.T) {
	const n, d = 50, 3
	classes := rows(n, d, 5, 10)
	s := build(t, softmaxSpec(family.Positive{}, d, 64), classes, sampling.Options{Block: 8})
	q := rows(4, d, 5, 11)
	var got sampling.Draws
	if err := s.Draw(&got, q, sampling.Request{K: n, Distinct: true}); err != nil {
		t.Fatal(err)
	}
	for i := range q.Rows {
		o := got.Of(i)
		ids := slices.Sorted(slices.Values(o.IDs))
		for c, id := range ids {
			if c != id {
				t.Fatalf("classes %v are not all %d", ids, n)
			}
		}
		p := distribution(t, s, q.Row(i))
		for j := range n {
			left := 0.0
			for _, id := range o.IDs[j:] {
				left += p[id]
			}
			if want := math.Log(p[o.IDs[j]] / left); math.Abs(o.LogProb[j]-want) > 1e-6 || o.LogCount[j] != 0 {
				t.Fatalf("draw %d: log probability %g, want %g; LogCount %g", j, o.LogProb[j], want, o.LogCount[j])
			}
		}
	}
}

// After any updates the tree has the bits of its sums built anew, and the probabilities of a sampler that never knew
// other classes.
func TestUpdates(t *testing.T) {
	const d = 4
	all := rows(400, d, 0.5, 12)
	o := sampling.Options{Block: 4, Within: sampling.ByFeatures}
	spec := softmaxSpec(family.Positive{}, d, 32)
	s := build(t, spec, all.RowRange(0, 90), o)
	src := rng.Stream(13)
	model := map[int][]float64{}
	for i := range 90 {
		model[i] = all.Row(i)
	}
	next, grown := 90, 0
	for range 120 {
		switch src.Uint64() % 5 {
		case 0, 1, 2:
			k := int(src.Uint64()%3) + 1
			ids, err := s.Add(all.RowRange(next, next+k))
			if err != nil {
				t.Fatal(err)
			}
			for i, id := range ids {
				if _, ok := model[id]; ok {
					t.Fatalf("id %d is taken", id)
				}
				model[id] = all.Row(next + i)
				grown = max(grown, id)
			}
			next += k
		case 3:
			id := someID(model, src.Uint64())
			row := all.RowRange(next, next+1)
			next++
			if err := s.Set([]int{id}, row); err != nil {
				t.Fatal(err)
			}
			model[id] = row.Row(0)
		default:
			id := someID(model, src.Uint64())
			if err := s.Remove(id); err != nil {
				t.Fatal(err)
			}
			delete(model, id)
		}
		if s.Len() != len(model) {
			t.Fatalf("%d classes, want %d", s.Len(), len(model))
		}
		var alone [][]float64
		for id := range s.Classes().Rows {
			if row, ok := model[id]; ok {
				alone = append(alone, row)
			}
		}
		twin := distribution(t, build(t, spec, dense.MustFromRows(alone), o), all.Row(0))
		for id, p := range distribution(t, s, all.Row(0)) {
			want := 0.0
			if _, ok := model[id]; ok {
				want, twin = twin[0], twin[1:]
			}
			if math.Abs(p-want) > 1e-12 {
				t.Fatalf("class %d of %d has probability %g after updates, want %g", id, s.Len(), p, want)
			}
		}
		if err := sampling.CheckTree(s); err != nil {
			t.Fatal(err)
		}
	}
	if grown < 110 {
		t.Fatalf("the largest id is %d: the tree hardly grew", grown)
	}
}

func someID(model map[int][]float64, r uint64) int {
	var ids []int
	for id := range model {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[r%uint64(len(ids))]
}

// Same seed, same draws at any number of goroutines, and for a query whatever else is drawn.
func TestThreads(t *testing.T) {
	classes, q := dense.Convert[float32](rows(300, 6, 1, 14)), dense.Convert[float32](rows(40, 6, 1, 15))
	for _, distinct := range []bool{false, true} {
		var want sampling.Draws
		for _, workers := range []int{1, 2, 8} {
			s := build(t, softmaxSpec(family.Trig{}, 6, 12), classes, sampling.Options{Workers: workers, Block: 8})
			var got sampling.Draws
			r := sampling.Request{K: 9, Distinct: distinct, Seed: 16, Workers: workers}
			if err := s.Draw(&got, q, r); err != nil {
				t.Fatal(err)
			}
			if workers == 1 {
				want = got
				continue
			}
			if !slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.LogProb, want.LogProb) ||
				!slices.Equal(got.LogCount, want.LogCount) || got.Counts != want.Counts {
				t.Errorf("%d workers draw otherwise than 1", workers)
			}
		}
		s := build(t, softmaxSpec(family.Trig{}, 6, 12), classes, sampling.Options{Block: 8})
		var part sampling.Draws
		r := sampling.Request{K: 9, Distinct: distinct, Seed: 16, First: 25}
		if err := s.Draw(&part, q.RowRange(25, 40), r); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(part.IDs, want.IDs[25*9:]) {
			t.Error("a part of the queries draws otherwise than all")
		}
		if want.Counts.Clipped == 0 {
			t.Error("nothing was clipped: trig features of 300 classes should be negative somewhere")
		}
	}
}

// Far from the origin features span hundreds of powers of e. The float32 tree keeps every class that has a probability
// above the smallest float32, and its probabilities are those of float64.
func TestFarFromTheOrigin(t *testing.T) {
	const n, d = 200, 8
	for _, f := range []family.Family{family.Positive{}, family.OPRF{A: -0.02}, family.Hyperbolic{}} {
		for _, sd := range []float64{1, 4, 12} {
			classes, q := rows(n, d, sd, 17), rows(6, d, sd, 18)
			spec := softmaxSpec(f, d, 32)
			wide := build(t, spec, classes, sampling.Options{Block: 4})
			narrow := build(t, spec, dense.Convert[float32](classes), sampling.Options{Block: 4})
			var got sampling.Draws
			if err := narrow.Draw(&got, dense.Convert[float32](q), sampling.Request{K: 50}); err != nil {
				t.Fatal(err)
			}
			if got.Counts.Lost > 0 {
				t.Errorf("%s, sd %g: %d nodes where all estimates are zero", f.Name(), sd, got.Counts.Lost)
			}
			for i := range q.Rows {
				a := distribution(t, wide, q.Row(i))
				b := distribution(t, narrow, dense.Convert[float32](q).Row(i))
				for c := range a {
					// Exponents of up to 1e4 are rounded to 24 bits.
					if tol := 1e-6 * (1 + 100*sd*sd); math.Abs(a[c]-b[c]) > tol*a[c]+1e-30 {
						t.Errorf("%s, sd %g: class %d has %g, in float64 %g", f.Name(), sd, c, b[c], a[c])
					}
				}
			}
		}
	}
}

// Trigonometric features grow like exp(|c|²/2): classes that outgrow the scales of the tree make it choose new ones.
func TestScalesGrow(t *testing.T) {
	const n, d = 64, 6
	classes := dense.Convert[float32](rows(n, d, 0.3, 19))
	far := dense.Convert[float32](rows(2, d, 8, 20)) // |c|²/2 is about 200
	q := dense.Convert[float32](rows(1, d, 0.3, 21))
	spec := softmaxSpec(family.Trig{}, d, 32)
	o := sampling.Options{Block: 4, Within: sampling.ByFeatures}
	s := build(t, spec, classes, o)
	if err := s.Set([]int{0, 1}, far); err != nil {
		t.Fatal(err)
	}
	moved := classes.Clone()
	copy(moved.Row(0), far.Row(0))
	copy(moved.Row(1), far.Row(1))
	want := distribution(t, build(t, spec, dense.Convert[float64](moved), o), dense.Convert[float64](q).Row(0))
	for c, p := range distribution(t, s, q.Row(0)) {
		if !(math.Abs(p-want[c]) <= 1e-3*want[c]+1e-30) {
			t.Errorf("class %d has %g after two classes went far, in float64 %g", c, p, want[c])
		}
	}
}

// Positive features fall like exp(−|c|²/2): when the last near class goes, all others are far below the scales.
func TestScalesSink(t *testing.T) {
	const n, d = 64, 6
	classes := dense.Convert[float32](rows(n, d, 60, 22))
	for k := range d {
		classes.Row(5)[k] *= 0.003
	}
	q := dense.Convert[float32](rows(1, d, 0.3, 23))
	spec := softmaxSpec(family.Positive{}, d, 32)
	o := sampling.Options{Block: 4, Within: sampling.ByFeatures}
	s := build(t, spec, classes, o)
	if p := distribution(t, s, q.Row(0)); p[5] < 0.99 {
		t.Fatalf("the near class has probability %g only", p[5])
	}
	if err := s.Remove(5); err != nil {
		t.Fatal(err)
	}
	var others [][]float64
	for c := range n {
		if c != 5 {
			others = append(others, dense.Convert[float64](classes).Row(c))
		}
	}
	want := distribution(t, build(t, spec, dense.MustFromRows(others), o), dense.Convert[float64](q).Row(0))
	for c, p := range slices.Delete(distribution(t, s, q.Row(0)), 5, 6) {
		if math.Abs(p-want[c]) > 1e-2*want[c]+1e-25 {
			t.Errorf("class %d has %g without the near class, in float64 %g", c, p, want[c])
		}
	}
}

// Outliers that the sample for the scales does not see are found while summing.
func TestScalesSeeEveryClass(t *testing.T) {
	const n, d = 5000, 6
	classes := dense.Convert[float32](rows(n, d, 0.1, 24))
	for k := range d {
		classes.Row(4322)[k] *= 250 // features of e^500 and more
	}
	o := sampling.Options{Within: sampling.ByFeatures}
	s := build(t, softmaxSpec(family.Trig{}, d, 8), classes, o)
	wide := build(t, softmaxSpec(family.Trig{}, d, 8), dense.Convert[float64](classes), o)
	found := false
	for seed := range uint64(10) { // where the estimate of the outlier is positive, it has all the probability
		q := dense.Convert[float32](rows(1, d, 0.5, 25+seed))
		want := distribution(t, wide, dense.Convert[float64](q).Row(0))[4322]
		if p := distribution(t, s, q.Row(0))[4322]; math.Abs(p-want) > 0.02 {
			t.Errorf("the outlier has %g, in float64 %g", p, want)
		}
		found = found || want > 0.9
	}
	if !found {
		t.Error("no query draws the outlier")
	}
}

// Rejection draws from the softmax itself.
func TestExact(t *testing.T) {
	const n, d, draws = 40, 6, 3000
	classes, q := rows(n, d, 0.5, 24), rows(2, d, 0.5, 25)
	for _, within := range []sampling.Within{sampling.ByScore, sampling.ByFeatures} {
		for _, f := range []family.Family{family.Positive{}, family.OPRF{A: -0.05}, family.Hyperbolic{}} {
			s := build(t, softmaxSpec(f, d, 3), classes, sampling.Options{Within: within, Block: 2})
			if err := s.Set([]int{3}, q.RowRange(0, 1)); err != nil {
				t.Fatal(err)
			}
			var got sampling.Draws
			if err := s.Exact(&got, q, sampling.Request{K: draws, Seed: 26}); err != nil {
				t.Fatal(err)
			}
			for i := range q.Rows {
				p, near := make([]float64, n), distribution(t, s, q.Row(i))
				if err := s.Softmax(p, q.Row(i)); err != nil {
					t.Fatal(err)
				}
				count := make([]int, n)
				for _, id := range got.Of(i).IDs {
					count[id]++
				}
				checkCounts(t, count, p, draws)
				if dist, _ := sampling.Distances(p, near); dist.KL < 0.005 {
					t.Errorf("KL %g without rejection: the test has no power", dist.KL)
				}
			}
			if got.Tried < 2*draws {
				t.Errorf("%d tries for %d draws", got.Tried, 2*draws)
			}
		}
	}
	long := build(t, softmaxSpec(family.Positive{}, d, 8), rows(n, d, 5, 27), sampling.Options{})
	var got sampling.Draws
	err := long.Exact(&got, rows(1, d, 5, 28), sampling.Request{K: 5, Tries: 3})
	if !errors.Is(err, sampling.ErrRequest) || !strings.Contains(err.Error(), "normalise") {
		t.Errorf("rows of norm 12: %v", err)
	}
	signed := build(t, softmaxSpec(family.Trig{}, d, 8), classes, sampling.Options{})
	if err := signed.Exact(&got, q, sampling.Request{K: 1}); !errors.Is(err, sampling.ErrRequest) {
		t.Errorf("trig: %v", err)
	}
}

// The bound of Exact includes classes that came after it was computed: the longest one would be drawn too rarely.
func TestExactAfterUpdates(t *testing.T) {
	const n, d, draws = 60, 3, 8000
	// With one feature the inequality of means is an equality, and a class along the query makes the other one tight.
	s := build(t, softmaxSpec(family.Positive{}, d, 1), rows(n, d, 0.2, 29), sampling.Options{Block: 1})
	q := rows(1, d, 0.8, 30)
	var got sampling.Draws
	if err := s.Exact(&got, q, sampling.Request{K: 1}); err != nil {
		t.Fatal(err)
	}
	long := dense.New[float64](1, d)
	for k, v := range q.Row(0) {
		long.Data[k] = 2 * v
	}
	if _, err := s.Add(long); err != nil {
		t.Fatal(err)
	}
	if err := s.Exact(&got, q, sampling.Request{K: draws}); err != nil {
		t.Fatal(err)
	}
	p, count := make([]float64, n+1), make([]int, n+1)
	if err := s.Softmax(p, q.Row(0)); err != nil {
		t.Fatal(err)
	}
	for _, id := range got.IDs {
		count[id]++
	}
	checkCounts(t, count, p, draws)
}

// Weights have mean 1 under any proposal before they are normalised, and give softmax means after.
func TestWeights(t *testing.T) {
	const n, d, k, queries = 60, 5, 64, 2000
	classes, one := rows(n, d, 0.7, 31), rows(1, d, 0.7, 32)
	s := build(t, softmaxSpec(family.Positive{}, d, 8), classes, sampling.Options{Block: 4})
	q := dense.New[float64](queries, d)
	for i := range queries {
		copy(q.Row(i), one.Row(0))
	}
	p := make([]float64, n)
	if err := s.Softmax(p, one.Row(0)); err != nil {
		t.Fatal(err)
	}
	dist, err := sampling.Distances(p, distribution(t, s, one.Row(0)))
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for c := range p {
		want += p[c] * float64(c)
	}
	for _, distinct := range []bool{false, true} {
		r := sampling.Request{K: k, Distinct: distinct, Seed: 33}
		if distinct {
			r.K = 20
		}
		var got sampling.Draws
		if err := s.Draw(&got, q, r); err != nil {
			t.Fatal(err)
		}
		var mean, share stattest.Moments
		w, score := make([]float64, r.K), make([]float64, r.K)
		for i := range queries {
			o := got.Of(i)
			for j, id := range o.IDs {
				score[j] = dense.Dot(one.Row(0), classes.Row(id)) / tau
			}
			effective, err := o.Weights(w, score)
			if err != nil {
				t.Fatal(err)
			}
			total := 0.0
			for j, id := range o.IDs {
				total += w[j] * float64(id)
			}
			mean.Add(total)
			share.Add(effective / float64(r.K))
		}
		// The bias is of order 1/K of the spread: allow that much beside the error of the mean.
		sd := math.Sqrt(mean.Var())
		if bound := 5*sd/math.Sqrt(queries) + 3*sd*sd/30; math.Abs(mean.Mean()-want) > bound {
			t.Errorf("distinct %v: mean %g, want %g ± %g", distinct, mean.Mean(), want, bound)
		}
		if !distinct && math.Abs(share.Mean()/dist.Effective-1) > 0.1 {
			t.Errorf("effective share %g of %d draws, %g of many", share.Mean(), k, dist.Effective)
		}
	}
	var o sampling.Draws
	if _, err := o.Weights(make([]float64, 2), make([]float64, 3)); !errors.Is(err, dense.ErrShape) {
		t.Errorf("wrong lengths: %v", err)
	}
}

func TestDistances(t *testing.T) {
	p, q := []float64{0.5, 0.25, 0.25, 0}, []float64{0.25, 0.25, 0.25, 0.25}
	d, err := sampling.Distances(p, q)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range [][2]float64{{d.KL, 0.5 * math.Ln2}, {d.Wasserstein, 0.75}, {d.KS, 0.25},
		{d.Effective, 1 / 1.5}} {
		if math.Abs(v[0]-v[1]) > 1e-12 {
			t.Errorf("%+v has %g instead of %g", d, v[0], v[1])
		}
	}
	// A class that the sampler lacks gets no weight: (Σ p)²/Σ p²/q over the other three.
	if d, _ = sampling.Distances(q, p); !math.IsInf(d.KL, 1) || math.Abs(d.Effective-0.5625/0.625) > 1e-12 {
		t.Errorf("KL %g, effective share %g of a distribution that lacks a class", d.KL, d.Effective)
	}
	o := sampling.Draws{LogCount: []float64{0, math.Log(2), math.Log(4)}}
	w := make([]float64, 3) // 8, 2 and 2 before they are normalised
	effective, err := o.Weights(w, []float64{math.Log(8), math.Log(4), math.Log(8)})
	if err != nil || math.Abs(effective-144./72) > 1e-12 || math.Abs(w[0]-8./12) > 1e-12 {
		t.Errorf("%g effective draws with weights %v (%v), want 2", effective, w, err)
	}
	if _, err := sampling.Distances(p, q[:2]); !errors.Is(err, dense.ErrShape) {
		t.Errorf("wrong lengths: %v", err)
	}
	if _, err := sampling.Distances(p, []float64{1, -1, 0.5, 0.5}); !errors.Is(err, dense.ErrNotFinite) {
		t.Errorf("a negative probability: %v", err)
	}
}

func TestFixed(t *testing.T) {
	counts := []float64{1000, 100, 10, 0, 1, 7, 300}
	f, err := sampling.NewFixed(sampling.Unigram(counts, 0.75))
	if err != nil {
		t.Fatal(err)
	}
	const draws = 40000
	var got sampling.Draws
	if err := f.Draw(&got, 2, sampling.Request{K: draws / 2, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	count, p := make([]int, len(counts)), make([]float64, len(counts))
	for j, id := range got.IDs {
		count[id]++
		if got.LogProb[j] != f.LogProb()[id] || got.LogCount[j] != math.Log(draws/2)+got.LogProb[j] {
			t.Fatal("log probabilities of draws are not those of classes")
		}
	}
	for c, l := range f.LogProb() {
		p[c] = math.Exp(l)
	}
	if want := math.Pow(1000.0/100, 0.75); math.Abs(p[0]/p[1]/want-1) > 1e-12 {
		t.Errorf("odds %g, want %g", p[0]/p[1], want)
	}
	checkCounts(t, count, p, draws)
	for _, bad := range [][]float64{nil, {0, 0}, {1, -1}, {math.NaN()}, {math.Inf(1)}} {
		if _, err := sampling.NewFixed(bad); !errors.Is(err, sampling.ErrRequest) {
			t.Errorf("weights %v: %v", bad, err)
		}
	}
	if err := f.Draw(&got, 1, sampling.Request{K: 2, Distinct: true}); !errors.Is(err, sampling.ErrRequest) {
		t.Errorf("distinct: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	const d = 3
	classes := rows(10, d, 1, 34)
	m, err := randfeat.New[float64](softmaxSpec(family.Positive{}, d, 8))
	if err != nil {
		t.Fatal(err)
	}
	nan := classes.Clone()
	nan.Row(4)[1] = math.NaN()
	news := map[string]error{}
	_, news["no map"] = sampling.New[float64](nil, classes, sampling.Options{})
	_, news["no classes"] = sampling.New(m, dense.New[float64](0, d), sampling.Options{})
	_, news["columns"] = sampling.New(m, rows(3, d+1, 1, 35), sampling.Options{})
	_, news["NaN"] = sampling.New(m, nan, sampling.Options{})
	_, news["block"] = sampling.New(m, classes, sampling.Options{Block: -1})
	_, news["within"] = sampling.New(m, classes, sampling.Options{Within: 7})
	s, err := sampling.New(m, classes.Clone(), sampling.Options{Block: 2})
	if err != nil {
		t.Fatal(err)
	}
	before := distribution(t, s, classes.Row(0))
	long := dense.New[float64](1, d)
	long.Data[0] = 1e200
	_, news["add columns"] = s.Add(rows(1, d+1, 1, 36))
	_, news["add NaN"] = s.Add(nan)
	_, news["add too long"] = s.Add(long)
	news["set unknown"] = s.Set([]int{10}, rows(1, d, 1, 37))
	news["set count"] = s.Set([]int{1, 2}, rows(1, d, 1, 37))
	news["set too long"] = s.Set([]int{1}, long)
	news["remove unknown"] = s.Remove(-1)
	news["remove all"] = s.Remove(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	var got sampling.Draws
	news["k"] = s.Draw(&got, classes, sampling.Request{})
	news["distinct"] = s.Draw(&got, classes, sampling.Request{K: 11, Distinct: true})
	news["query columns"] = s.Draw(&got, rows(1, d+1, 1, 38), sampling.Request{K: 1})
	news["query NaN"] = s.Draw(&got, nan, sampling.Request{K: 1})
	news["log unknown"] = s.LogProb(make([]float64, 1), classes.Row(0), []int{77})
	news["log length"] = s.LogProb(make([]float64, 2), classes.Row(0), []int{7})
	_, news["distribution length"] = s.Distribution(make([]float64, 2), classes.Row(0))
	news["exact distinct"] = s.Exact(&got, classes, sampling.Request{K: 1, Distinct: true})
	for what, err := range news {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if after := distribution(t, s, classes.Row(0)); !slices.Equal(before, after) {
		t.Error("refused updates changed the sampler")
	}
	if err := s.Remove(3, 3); err != nil || s.Len() != 9 {
		t.Errorf("removing one class twice: %v, %d left", err, s.Len())
	}
	if err := s.Remove(3); !errors.Is(err, sampling.ErrRequest) {
		t.Errorf("removing it again: %v", err)
	}
}
