package machine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

// world makes rows of predictions whose scores are known.
type world struct {
	name  string
	kind  Kind
	task  Task
	out   int
	row   func(r *rand.Rand, y, p []float64)
	truth map[string]float64 // of scores by name
	// recall of the classes: the truth of balanced accuracy, over those that occur
	recall []float64
	auc    []float64 // of the classes, the truth of their mean over those that occur
}

// classWorld predicts class c with probability conf, the rest shared equally; it is right with probability recall[c].
func classWorld(name string, prior, recall []float64, conf float64) world {
	k := len(prior)
	other := (1 - conf) / float64(k-1)
	w := world{name: name, kind: KindLogistic, task: Classification, out: k, recall: recall,
		truth: map[string]float64{}}
	right := 0.0
	for c := range prior {
		right += prior[c] * recall[c]
	}
	brier := func(p float64) float64 { // of the probability of the true class
		s := (1-conf)*(1-conf) + float64(k-1)*other*other
		if p != conf {
			s = conf*conf + (1-other)*(1-other) + float64(k-2)*other*other
		}
		return s
	}
	for c := range prior {
		// A class scores conf or other, in a of its own rows and in b of all others: the area is (1 + a − b)/2.
		b := 0.0
		for d := range prior {
			if d != c {
				b += prior[d] * (1 - recall[d]) / float64(k-1) / (1 - prior[c])
			}
		}
		w.auc = append(w.auc, (1+recall[c]-b)/2)
	}
	w.truth["accuracy"] = right
	w.truth["log loss"] = -right*math.Log(conf) - (1-right)*math.Log(other)
	w.truth["Brier"] = right*brier(conf) + (1-right)*brier(other)
	w.row = func(r *rand.Rand, y, p []float64) {
		u, c := r.Float64(), 0
		for c < k-1 && u >= prior[c] {
			u -= prior[c]
			c++
		}
		said := c
		if r.Float64() >= recall[c] {
			said = (c + 1 + r.IntN(k-1)) % k
		}
		for j := range p {
			p[j] = other
		}
		p[said] = conf
		y[0] = float64(c)
	}
	return w
}

// errorWorld predicts y = f + e by f ~ N(0, 4); mean, abs and square are moments of e.
func errorWorld(name string, e func(r *rand.Rand) float64, mean, abs, square float64) world {
	return world{name: name, kind: KindRidge, task: Regression, out: 1,
		row: func(r *rand.Rand, y, p []float64) {
			p[0] = 2 * r.NormFloat64()
			y[0] = p[0] + e(r)
		},
		truth: map[string]float64{"RMSE": math.Sqrt(square), "MAE": abs, "R²": 1 - square/(4+square-mean*mean)}}
}

func t3(r *rand.Rand) float64 {
	s := 0.0
	for range 3 {
		v := r.NormFloat64()
		s += v * v
	}
	return r.NormFloat64() / math.Sqrt(s/3)
}

func worlds() []world {
	lognormal := func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) }
	return []world{
		classWorld("calibrated", []float64{0.5, 0.5}, []float64{0.8, 0.8}, 0.8),
		classWorld("rare sure mistakes", []float64{0.5, 0.5}, []float64{0.98, 0.98}, 0.9999),
		classWorld("rarer and surer", []float64{0.5, 0.5}, []float64{0.995, 0.995}, 1-1e-9),
		classWorld("rare class", []float64{0.57, 0.4, 0.03}, []float64{0.95, 0.9, 0.3}, 0.9),
		errorWorld("normal errors", func(r *rand.Rand) float64 { return r.NormFloat64() }, 0, math.Sqrt(2/math.Pi), 1),
		errorWorld("t3 errors", t3, 0, 2*math.Sqrt(3)/math.Pi, 3),
		errorWorld("lognormal errors", lognormal, math.Exp(0.5), math.Exp(0.5), math.Exp(2)),
		// Predictions of a fit have errors of mean 0. E|X − e^½| = 2e^½(2Φ(½) − 1), the mean deviation of the lognormal
		// law.
		errorWorld("centred lognormal errors", func(r *rand.Rand) float64 { return lognormal(r) - math.Exp(0.5) }, 0,
			2*math.Exp(0.5)*math.Erf(math.Sqrt2/4), math.Exp(2)-math.E),
		errorWorld("a tenth of sd 3", func(r *rand.Rand) float64 {
			if e := r.NormFloat64(); r.Float64() >= 0.1 {
				return e
			} else {
				return 3 * e
			}
		}, 0, 1.2*math.Sqrt(2/math.Pi), 1.8),
		{name: "log densities with outliers", kind: KindDensity, task: Unsupervised, out: 1,
			row:   func(r *rand.Rand, _, p []float64) { p[0] = 1 - lognormal(r) },
			truth: map[string]float64{"mean log density": 1 - math.Exp(0.5)}},
	}
}

// coverage is how often intervals of n rows hold the truth, and how often there is one, by score.
func (w world) coverage(n, reps int, scores func(*Evaluation) []Score) (covered, stated map[string]int) {
	covered, stated = map[string]int{}, map[string]int{}
	r := rand.New(rand.NewPCG(uint64(n), 99))
	p := dense.New[float64](n, w.out)
	y := dense.New[float64](n, (Setup{Task: w.task, Outputs: w.out}).TargetColumns())
	for range reps {
		for i := range n {
			var target []float64
			if y.Cols > 0 {
				target = y.Row(i)
			}
			w.row(r, target, p.Row(i))
		}
		e := NewEvaluation(w.kind, w.task, w.out)
		if err := e.Add(y, p, dense.Matrix[float64]{}); err != nil {
			panic(err)
		}
		for _, s := range scores(e) {
			truth, ok := w.truth[s.Name]
			if of := map[string][]float64{"balanced accuracy": w.recall, "ROC AUC": w.auc}[s.Name]; of != nil {
				sum, classes := 0.0, 0.0
				for c, row := range e.Confusion() {
					if slices.Max(row) > 0 {
						sum, classes = sum+of[c], classes+1
					}
				}
				truth, ok = sum/classes, true
			}
			if s.Name == "calibration error" {
				continue // no interval
			}
			if !ok {
				panic("no truth of " + s.Name)
			}
			if math.IsNaN(s.Low) || math.IsNaN(s.High) {
				continue
			}
			stated[s.Name]++
			if s.Low <= truth && truth <= s.High {
				covered[s.Name]++
			}
		}
	}
	return covered, stated
}

// Intervals of 95 % cover about 0.90 of the time or more: with few rows, heavy tails, rare mistakes and rare classes.
// With many normal errors they cover 0.95 of the time, not always.
func TestIntervalsCover(t *testing.T) {
	stattest.SkipRace(t)
	const least = 0.90
	reps, sizes := 200, []int{15, 50, 1000}
	if stattest.Full() {
		reps, sizes = 1000, []int{15, 30, 50, 200, 1000}
	}
	all := worlds()
	bound := stattest.Bound(1e-3, 5*len(all)*len(sizes))
	for _, w := range all {
		for _, n := range sizes {
			covered, stated := w.coverage(n, reps, (*Evaluation).Scores)
			line := fmt.Sprintf("%-27s n = %-4d", w.name, n)
			for _, name := range []string{"accuracy", "balanced accuracy", "ROC AUC", "log loss", "Brier", "RMSE", "R²",
				"MAE",
				"mean log density"} {
				if stated[name] == 0 {
					continue
				}
				got := float64(covered[name]) / float64(stated[name])
				line += fmt.Sprintf("  %s %.3f", name, got)
				if z := (got - least) / math.Sqrt(least*(1-least)/float64(stated[name])); z < -bound {
					t.Errorf("%s, %d rows: the interval of %s covers %.3f", w.name, n, name, got)
				}
				if n == 1000 && w.name == "normal errors" && got > 0.99 {
					t.Errorf("%d normal errors: the interval of %s is too wide: it covers %.3f", n, name, got)
				}
			}
			t.Log(line)
		}
	}
}

// The test above has power: the intervals that these replaced, normal ones of the mean, do not pass.
func TestPlainIntervalsDoNotCover(t *testing.T) {
	const z = 1.959963984540054
	plain := func(m moments, name string, f func(float64) float64) Score {
		se := m.standardError()
		return Score{Name: name, Low: f(m.mean - z*se), High: f(m.mean + z*se)}
	}
	root := func(v float64) float64 { return math.Sqrt(max(v, 0)) }
	same := func(v float64) float64 { return v }
	for _, w := range worlds() {
		var of func(e *Evaluation) []Score
		switch w.name {
		case "rare sure mistakes":
			of = func(e *Evaluation) []Score {
				return []Score{plain(e.loss.moments, "log loss", same), plain(e.squares.moments, "Brier", same)}
			}
		case "lognormal errors":
			of = func(e *Evaluation) []Score { return []Score{plain(e.mse, "RMSE", root)} }
		default:
			continue
		}
		covered, stated := w.coverage(20, 300, of)
		for name, n := range stated {
			if got := float64(covered[name]) / float64(n); got > 0.75 {
				t.Errorf("%s: plain intervals of %s cover %.2f", w.name, name, got)
			}
		}
	}
}

// Intervals of cross-validation cover the score of one more model, where models differ by up to half of the noise that
// the rows of a part have, of however many parts. Those of the rows alone, which leave the spread of models out, do
// not.
func TestIntervalsCoverOneMoreModel(t *testing.T) {
	stattest.SkipRace(t)
	const reps, rows, right, least = 300, 300, 0.85, 0.93
	counts := []int{1, 2, 5}
	spreads := []float64{0, 0.5}
	bound := stattest.Bound(1e-3, 2*len(counts)*len(spreads))
	for _, k := range counts {
		for _, spread := range spreads {
			r := rand.New(rand.NewPCG(uint64(k), uint64(100*spread)))
			model := func() float64 { return right + math.Sqrt(spread*right*(1-right)/rows)*r.NormFloat64() }
			covered, alone := map[string]int{}, 0
			for range reps {
				parts := make([]*Evaluation, k)
				for j := range parts {
					parts[j] = NewEvaluation(KindRidge, Classification, 2)
					p := model()
					pred, y := dense.New[float64](rows, 2), dense.New[float64](rows, 1)
					for i := range rows {
						c := i % 2
						if y.Set(i, 0, float64(c)); r.Float64() >= p {
							c = 1 - c
						}
						pred.Set(i, c, 1)
					}
					if err := parts[j].Add(y, pred, dense.Matrix[float64]{}); err != nil {
						t.Fatal(err)
					}
				}
				truth := model()
				all, scores, err := ScoresOfModels(parts)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range scores[:2] { // accuracy and balanced accuracy, the same on average here
					if s.Low <= truth && truth <= s.High {
						covered[s.Name]++
					}
				}
				if s := all.Scores()[0]; s.Low <= truth && truth <= s.High {
					alone++
				}
			}
			for name, n := range covered {
				got := float64(n) / reps
				t.Logf("%d parts, spread %.2f: %s %.3f, rows alone %.3f", k, spread, name, got, float64(alone)/reps)
				if z := (got - least) / math.Sqrt(least*(1-least)/reps); z < -bound {
					t.Errorf("%d parts, spread %.2f: the interval of %s covers %.3f", k, spread, name, got)
				}
			}
			if got := float64(alone) / reps; k > 1 && spread == 0.5 &&
				(got-least)/math.Sqrt(least*(1-least)/reps) > -bound {
				t.Errorf("%d parts: intervals of rows alone cover %.3f: the test shows nothing", k, got)
			}
		}
	}
}

// rightOf is the evaluation of n rows of two classes, of which so many are predicted right.
func rightOf(t *testing.T, n, right int) *Evaluation {
	t.Helper()
	e := NewEvaluation(KindRidge, Classification, 2)
	pred, y := dense.New[float64](n, 2), dense.New[float64](n, 1)
	for i := range n {
		c := i % 2
		if y.Set(i, 0, float64(c)); i >= right {
			c = 1 - c
		}
		pred.Set(i, c, 1)
	}
	if err := e.Add(y, pred, dense.Matrix[float64]{}); err != nil {
		t.Fatal(err)
	}
	return e
}

// The interval of groups is Student's with one degree of freedom less than there are parts, for the score of one more
// part: three parts of accuracy 0.7, 0.8 and 0.9 have the standard error 0.1/√3.
func TestScoresOfGroupsAreStudents(t *testing.T) {
	const n = 1000
	all, scores, err := ScoresOfGroups([]*Evaluation{rightOf(t, n, 700), rightOf(t, n, 800), rightOf(t, n, 900)})
	if err != nil {
		t.Fatal(err)
	}
	const student = 4.302652729911275 // 0.975 quantile with two degrees of freedom
	rows := all.Scores()[0]
	ofRows, ofParts := (rows.High-rows.Low)/(2*student), 0.1/math.Sqrt(3)
	half := student * math.Sqrt(ofParts*ofParts+3*(ofParts*ofParts-ofRows*ofRows))
	s := scores[0]
	if s.Name != "accuracy" || math.Abs(s.Value-0.8) > 1e-12 || math.Abs(s.High-min(0.8+half, 1)) > 1e-9 ||
		math.Abs(s.Low-(0.8-half)) > 1e-9 {
		t.Errorf("%+v, want 0.8 ± %g", s, half)
	}
}

// Intervals of few groups hold the score of one more group at least 0.93 of the time.
func TestScoresOfGroupsCover(t *testing.T) {
	stattest.SkipRace(t)
	const reps, rows, least = 1000, 500, 0.93
	bound := stattest.Bound(1e-3, 2)
	for _, k := range []int{3, 5} {
		r := rand.New(rand.NewPCG(uint64(k), 31))
		accuracy := func() float64 { return 0.7 + 0.04*r.NormFloat64() }
		covered := 0
		for range reps {
			parts := make([]*Evaluation, k)
			for j := range parts {
				p, right := accuracy(), 0
				for range rows {
					if r.Float64() < p {
						right++
					}
				}
				parts[j] = rightOf(t, rows, right)
			}
			_, scores, err := ScoresOfGroups(parts)
			if err != nil {
				t.Fatal(err)
			}
			if truth := accuracy(); scores[0].Low <= truth && truth <= scores[0].High {
				covered++
			}
		}
		got := float64(covered) / reps
		if z := (got - least) / math.Sqrt(least*(1-least)/reps); z < -bound {
			t.Errorf("%d groups: the interval covers one more in %.3f", k, got)
		} else {
			t.Logf("%d groups: %.3f", k, got)
		}
	}
}

// The standard error of a weighted mean is √(Σw²(v−m)² · n/(n−1))/Σw about the weighted mean m, with the effective
// number n = (Σw)²/Σw². Weights that grow with the values tell m from the mean by squared weights.
func TestWeightedStandardError(t *testing.T) {
	values := []float64{0.1, 0.4, 0.9, 1.6, 2.5, 3.6, 4.9}
	var whole, first, rest moments
	w, w2, sum := 0.0, 0.0, 0.0
	for i, v := range values {
		weight := 1 + v
		whole.addWeighted(v, weight)
		if i < 3 {
			first.addWeighted(v, weight)
		} else {
			rest.addWeighted(v, weight)
		}
		w, w2, sum = w+weight, w2+weight*weight, sum+weight*v
	}
	first.merge(rest)
	squares := 0.0
	for _, v := range values {
		squares += (1 + v) * (1 + v) * (v - sum/w) * (v - sum/w)
	}
	n := w * w / w2
	want := math.Sqrt(squares*n/(n-1)) / w
	for name, m := range map[string]moments{"added": whole, "merged": first} {
		if got := m.standardError(); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: standard error %g, want %g", name, got, want)
		}
	}
}

// More skewness does not bring the limit on its side nearer, and it reaches at most about 4 quantiles. The place of the
// maximum neglects a/6, which is a thousandth of the limit at most.
func TestSkewnessDoesNotShortenIntervals(t *testing.T) {
	const n = 20
	const student = 2.860934606464979 // 0.995 quantile with 19 degrees of freedom
	last := 0.0
	for skewness := 0.5; skewness < 4.3; skewness += 0.1 { // 20 numbers have at most 18/√19
		_, high := skewed(0, 1, skewness, n)
		if high < 0.999*last {
			t.Errorf("skewness %.1f: %g, less than %g", skewness, high, last)
		}
		last = high
		if low, _ := skewed(0, 1, -skewness, n); low != -high {
			t.Errorf("skewness −%.1f: %g, want %g", skewness, low, -high)
		}
	}
	if last > 4.1*student || last < 3.9*student {
		t.Errorf("the furthest limit is %g standard errors away, want about %g", last, 4*student)
	}
}

// Quantiles of scores reach from the smallest to the largest, linear between them.
func TestQuantilesOfScores(t *testing.T) {
	var c Calibration
	for i := range 11 {
		c.Add(float64((7 * i) % 11)) // 0 to 10
	}
	q := c.Quantiles()
	for _, at := range []int{0, 1, 250, 999, 1000} {
		if want := float64(at) / 100; math.Abs(q[at]-want) > 1e-12 {
			t.Errorf("quantile %d is %g, want %g", at, q[at], want)
		}
	}
}
