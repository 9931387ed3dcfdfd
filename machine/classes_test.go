package machine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

// The area by its definition, over all pairs, with ties.
func TestAUC(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for _, n := range [][2]int{{1, 1}, {5, 3}, {40, 70}} {
		pos, neg := make([]float64, n[0]), make([]float64, n[1])
		for _, v := range [][]float64{pos, neg} {
			for i := range v {
				v[i] = float64(r.IntN(9))
			}
		}
		want := 0.0
		for _, p := range pos {
			for _, q := range neg {
				switch {
				case p > q:
					want++
				case p == q:
					want += 0.5
				}
			}
		}
		want /= float64(n[0] * n[1])
		if s := AUC(pos, neg); !close12(s.Value, want) || s.Rows != int64(n[0]+n[1]) {
			t.Errorf("%v: %+v, want %g", n, s, want)
		}
	}
	if s := AUC(nil, []float64{1}); !math.IsNaN(s.Value) || !math.IsNaN(s.Low) {
		t.Errorf("no positives: %+v", s)
	}
}

// Newcombe 2006, part 2, table II gives method 5; here against its definition and by coverage.
func TestAUCInterval(t *testing.T) {
	for _, c := range [][3]float64{{0.5, 20, 30}, {0.9, 10, 200}, {1, 10, 10}, {0, 5, 50}, {0.99, 1000, 1000}} {
		v, m, n := c[0], c[1], c[2]
		low, high := aucInterval(v, []pairs{{positive: tally{m, m}, negative: tally{n, n}}})
		if low < 0 || high > 1 || low > v || high < v || high-low < 1e-3 {
			t.Errorf("%v: %g to %g", c, low, high)
		}
		// Weights of 3 and 5 change nothing: sizes are effective ones, (Σw)²/Σw².
		heavy := []pairs{{positive: tally{3 * m, 9 * m}, negative: tally{5 * n, 25 * n}}}
		if l, h := aucInterval(v, heavy); math.Abs(l-low)+math.Abs(h-high) > 1e-12 {
			t.Errorf("%v: %g to %g, with weights %g to %g", c, low, high, l, h)
		}
		for _, l := range []float64{low, high} {
			if l <= 0 || l >= 1 {
				continue
			}
			k := (m+n)/2 - 1
			want := 1.959963984540054 * math.Sqrt(l*(1-l)/(m*n)*(1+k*(1-l)/(2-l)+k*l/(1+l)))
			if math.Abs(math.Abs(v-l)-want) > 1e-9 {
				t.Errorf("%v: limit %g does not solve the equation", c, l)
			}
		}
	}
	// Normal scores one standard deviation apart: the AUC is Φ(1/√2).
	r := rand.New(rand.NewPCG(3, 3))
	truth, held := 0.5*math.Erfc(-0.5), 0
	const repeats = 1000
	for range repeats {
		var pos, neg []float64
		for i := range 150 {
			if v := r.NormFloat64(); i%3 == 0 {
				pos = append(pos, v+1)
			} else {
				neg = append(neg, v)
			}
		}
		if s := AUC(pos, neg); s.Low <= truth && truth <= s.High {
			held++
		}
	}
	// 3.5 standard deviations of the binomial count are 2.4 %; the variance is that of another family of laws.
	if got := float64(held) / repeats; got < 0.95-0.03 || got > 0.95+0.03 {
		t.Errorf("the interval holds the truth in %.1f %% of samples", 100*got)
	}
}

// folds are the evaluations of five folds of n rows, each predicted by a model with an intercept of its own: the log
// odds of the classes in the other folds, as a fit finds it. A share of the rows is positive; scores of the classes are
// normal and gap standard deviations apart.
func folds(n int, share, gap float64, r *rand.Rand) (out []*Evaluation) {
	const parts = 5
	labels, positives := make([]float64, n), 0.0
	for i := range labels {
		if r.Float64() < share {
			labels[i] = 1
		}
		positives += labels[i]
	}
	for f := range parts {
		fold := labels[f*n/parts : (f+1)*n/parts]
		others := positives
		for _, l := range fold {
			others -= l
		}
		intercept := math.Log((others + 0.5) / (float64(n-len(fold)) - others + 0.5))
		y, p := dense.New[float64](len(fold), 1), dense.New[float64](len(fold), 2)
		for i, l := range fold {
			s := 1 / (1 + math.Exp(-(intercept + gap*(l-0.5) + r.NormFloat64())))
			y.Data[i] = l
			copy(p.Row(i), []float64{1 - s, s})
		}
		e := NewEvaluation(KindLogistic, Classification, 2)
		if err := e.Add(y, p, dense.Matrix[float64]{}); err != nil {
			panic(err)
		}
		out = append(out, e)
	}
	return out
}

// With several classes, area and limits are the means of those of each class against the rest. A class that does not
// occur does not count.
func TestAUCOfSeveralClasses(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 41))
	all := ranks{classes: 4}
	for i := range 90 {
		p := []float64{r.Float64(), r.Float64(), r.Float64(), r.Float64()}
		p[i%3] += 0.5
		all.add(i%3, p, 1)
	}
	models := []*ranks{&all}
	var want Score
	for c := range 3 {
		s := areaOf(models, c)
		want.Value, want.Low, want.High = want.Value+s.Value/3, want.Low+s.Low/3, want.High+s.High/3
	}
	got := meanArea(models, 4)
	same := close12(got.Value, want.Value) && close12(got.Low, want.Low) && close12(got.High, want.High)
	if !same || got.Rows != 90 {
		t.Errorf("mean area %+v, want %+v", got, want)
	}
}

// The area over the models of folds is that within folds: unbiased for few rows, with an interval that holds. A ranking
// of all rows together is too low, because models of folds with few positives have larger intercepts.
func TestAUCOfFolds(t *testing.T) {
	stattest.SkipRace(t)
	const repeats = 1500
	r := rand.New(rand.NewPCG(4, 60))
	for _, c := range []struct {
		rows       int
		share, gap float64
	}{{40, 0.5, 1}, {60, 0.5, 0}, {60, 0.5, 1}, {60, 0.3, 2}, {60, 0.2, 1}, {200, 0.5, 2}, {200, 0.1, 1}} {
		truth := 0.5 * math.Erfc(-c.gap/2)
		var within, together moments
		held := 0.0
		for i := range repeats {
			parts := folds(c.rows, c.share, c.gap, r)
			var models []*ranks
			var all ranks
			all.classes = 2
			for _, p := range parts {
				models = append(models, &p.ranks)
				all.merge(p.ranks)
			}
			s := areaOf(models, 1)
			if i == 0 {
				e, _, err := ScoresOfModels(parts)
				if err != nil || e.Classes()[1].AUC != s {
					t.Errorf("scores of models have the area %+v, want %+v, %v", e.Classes()[1].AUC, s, err)
				}
			}
			within.add(s.Value)
			together.add(areaOf([]*ranks{&all}, 1).Value)
			if s.Low <= truth && truth <= s.High {
				held++
			}
		}
		held /= repeats
		t.Logf("%v: area %.4f, truth %.4f, together %.4f; holds %.3f", c, within.mean, truth, together.mean, held)
		bound := stattest.Bound(1e-3, 14)
		if z := (within.mean - truth) / within.standardError(); math.Abs(z) > bound {
			t.Errorf("%v: mean area %.4f, want %.4f: z = %.1f", c, within.mean, truth, z)
		}
		if z := (together.mean - truth) / together.standardError(); z > -bound {
			t.Errorf("%v: no power: the area of all rows together is %.4f, the truth %.4f", c, together.mean, truth)
		}
		// Three standard deviations of the count are 1.7 %; Hanley and McNeil's variance is that of another law.
		if held < 0.93 || held > 0.985 {
			t.Errorf("%v: the interval holds the truth in %.1f %% of samples", c, 100*held)
		}
	}
}

// Of more numbers than are kept, evenly spaced rows count, in one piece or merged of parts at other steps.
func TestRanksAreBounded(t *testing.T) {
	stattest.SkipRace(t)
	const n = maxRanked + maxRanked/2
	var whole, a, b ranks
	for _, r := range []*ranks{&whole, &a, &b} {
		r.classes = 2
	}
	p := []float64{0, 0}
	for i := range n {
		p[1] = float64(i%1000) / 1000
		truth := 0
		if i%1000 >= 300 && i%7 != 0 {
			truth = 1
		}
		whole.add(truth, p, 1)
		if i < n-1000 {
			a.add(truth, p, 1)
		} else {
			b.add(truth, p, 1)
		}
	}
	a.merge(b)
	for _, r := range []*ranks{&whole, &a} {
		if len(r.scores) > maxRanked || len(r.scores) < n/2 || r.rows != n || r.step != 2 {
			t.Fatalf("%d scores of %d rows at steps of %d", len(r.scores), r.rows, r.step)
		}
	}
	if x, y := areaOf([]*ranks{&whole}, 1), areaOf([]*ranks{&a}, 1); math.Abs(x.Value-y.Value) > 1e-4 || x.Value < 0.8 {
		t.Errorf("%+v of all, %+v merged", x, y)
	}
}

// Scores of classes by their definitions, and the pairs that are confused most.
func TestClasses(t *testing.T) {
	e := NewEvaluation(KindRidge, Classification, 4)
	e.confusion = [][]int64{{50, 3, 0, 0}, {10, 5, 0, 0}, {0, 2, 0, 0}, {0, 0, 0, 0}}
	for c, row := range e.confusion {
		for k, n := range row {
			p := make([]float64, 4)
			p[k] = 1
			for range n {
				e.ranks.add(c, p, 1)
			}
		}
	}
	got := e.Classes()
	for c, want := range [][5]float64{
		{53, 60, 50.0 / 60, 50.0 / 53, 2 * 50.0 / (60 + 53)},
		{15, 10, 0.5, 1.0 / 3, 2 * 5.0 / 25},
		{2, 0, math.NaN(), 0, 0},
		{0, 0, math.NaN(), math.NaN(), math.NaN()},
	} {
		s := got[c]
		values := []float64{float64(s.Rows), float64(s.Predicted), s.Precision.Value, s.Recall.Value, s.F1.Value}
		for i, v := range values {
			if math.IsNaN(v) != math.IsNaN(want[i]) || !math.IsNaN(v) && !close12(v, want[i]) {
				t.Errorf("class %d: %+v, want %v", c, s, want)
				break
			}
		}
		for _, x := range []Score{s.Precision, s.Recall, s.F1} {
			if !math.IsNaN(x.Value) && !(x.Low <= x.Value && x.Value <= x.High && x.High-x.Low > 0.05 && x.High <= 1) {
				t.Errorf("class %d: interval of %+v", c, x)
			}
		}
	}
	// Class 0 has (1 + a − b)/2 with a = 50/53 of its rows and b = 10/17 of the others.
	if v := got[0].AUC.Value; !close12(v, (1+50.0/53-10.0/17)/2) || !math.IsNaN(got[3].AUC.Value) {
		t.Errorf("AUC %g, and %g without rows", v, got[3].AUC.Value)
	}
	want := []Confused{{1, 0, 10, 10.0 / 15}, {0, 1, 3, 3.0 / 53}}
	if top := e.LargestConfusions(2); !slices.Equal(top, want) {
		t.Errorf("largest confusions %v, want %v", top, want)
	}
}

// Intervals of precision, recall and F1 of a rare class cover the truth.
func TestClassIntervalsCover(t *testing.T) {
	const reps, n = 400, 200
	w := classWorld("", []float64{0.9, 0.1}, []float64{0.95, 0.7}, 0.9)
	tp, fp, fn := 0.1*0.7, 0.9*0.05, 0.1*0.3
	truth := []float64{tp / (tp + fp), 0.7, 2 * tp / (2*tp + fp + fn)}
	held := make([]int, 3)
	r := rand.New(rand.NewPCG(5, 5))
	y, p := dense.New[float64](n, 1), dense.New[float64](n, 2)
	for range reps {
		e := NewEvaluation(KindLogistic, Classification, 2)
		for i := range n {
			w.row(r, y.Row(i), p.Row(i))
		}
		if err := e.Add(y, p, dense.Matrix[float64]{}); err != nil {
			t.Fatal(err)
		}
		c := e.Classes()[1]
		for i, s := range []Score{c.Precision, c.Recall, c.F1} {
			if s.Low <= truth[i] && truth[i] <= s.High {
				held[i]++
			}
		}
	}
	for i, h := range held {
		if z := stattest.Z(float64(h)/reps, 0.95, math.Sqrt(0.95*0.05), reps); z < -stattest.Bound(1e-4, 3) {
			t.Errorf("interval %d covers %.3f", i, float64(h)/reps)
		}
	}
}

// True probabilities have a calibration error that chance explains; overconfident ones have a larger error.
func TestReliability(t *testing.T) {
	const n = 20000
	r := rand.New(rand.NewPCG(8, 1))
	y, p, sure := dense.New[float64](n, 1), dense.New[float64](n, 2), dense.New[float64](n, 2)
	for i := range n {
		q := r.Float64()
		if r.Float64() < q {
			y.Set(i, 0, 1)
		}
		p.Set(i, 0, 1-q)
		p.Set(i, 1, q)
		odds := math.Pow(q/(1-q), 3)
		sure.Set(i, 1, odds/(1+odds))
		sure.Set(i, 0, 1/(1+odds))
	}
	of := func(p dense.Matrix[float64]) *Reliability {
		whole, half := NewEvaluation(KindLogistic, Classification, 2), NewEvaluation(KindLogistic, Classification, 2)
		for _, err := range []error{whole.Add(y.RowRange(0, n/2), p.RowRange(0, n/2), dense.Matrix[float64]{}),
			half.Add(y.RowRange(n/2, n), p.RowRange(n/2, n), dense.Matrix[float64]{}), whole.Merge(half)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return whole.Reliability()
	}
	good, bad := of(p), of(sure)
	if good.Error > 2*good.Chance || good.Error < good.Chance/3 {
		t.Errorf("true probabilities: error %.4f, by chance %.4f", good.Error, good.Chance)
	}
	if bad.Error < 10*bad.Chance {
		t.Errorf("too sure: error %.4f, by chance %.4f", bad.Error, bad.Chance)
	}
	rows := int64(0)
	for _, b := range good.Bins {
		rows += b.Right.Rows
		if b.Said < b.From || b.Said > b.To || b.Right.Low > b.Said || b.Right.High < b.Said {
			t.Errorf("bin %+v", b)
		}
	}
	if rows != n || len(good.Bins) != 7 { // two classes: from 0.5 on
		t.Errorf("%d rows in %d bins", rows, len(good.Bins))
	}
	ridge := NewEvaluation(KindRidge, Classification, 2)
	if err := ridge.Add(y, p, dense.Matrix[float64]{}); err != nil || ridge.Reliability() != nil {
		t.Errorf("reliability of scores that are no probabilities: %v", err)
	}
}
