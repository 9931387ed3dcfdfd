package tabular

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/machine"
)

func choice(t testing.TB, r *Report, name string) Choice {
	t.Helper()
	for _, c := range r.Choices {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the report has no choice %q: %+v", name, r.Choices)
	return Choice{}
}

// Everything is chosen, with a reason, and what was tried is in the report.
func TestEveryChoiceIsMadeAndStated(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many fits")
	}
	const rows = "800 rows; each was predicted without itself"
	const folds = "all rows in 5 folds; each fold was predicted without its rows"
	src := waves(800, 1)
	for _, c := range []struct {
		kind    machine.Kind
		targets []string
		tried   []string
		least   float64 // of the main score, or the most if it is an error
		name    string
		on      string
	}{
		{"", []string{"y"}, []string{"bandwidth", "features", "lambda"}, 0.4, "RMSE", rows}, // the noise is 0.3
		{"", []string{"class"}, []string{"bandwidth", "features", "lambda"}, 0.85, "accuracy", rows},
		{machine.KindGP, []string{"y"}, []string{"bandwidth", "features", "lambda"}, 0.4, "RMSE", rows},
		{machine.KindLogistic, []string{"class"}, []string{"bandwidth", "features", "lambda"}, 0.85, "accuracy",
			"480 rows in 3 of 5 folds; each fold was predicted without its rows"},
		{machine.KindSmoother, []string{"class"}, []string{"family", "bandwidth", "features"}, 0.8, "accuracy", folds},
		{machine.KindDensity, nil, []string{"family", "bandwidth", "features"}, math.Inf(-1), "mean log density",
			folds},
	} {
		m, r := mustFit(t, src, Options{Kind: c.kind, Learn: learn(c.targets...), Seed: 2, Budget: 128})
		for _, name := range []string{"model", "family", "coupling", "bandwidth", "features"} {
			if ch := choice(t, r, name); ch.Given != (name == "model" && c.kind != "") || ch.Why == "" ||
				ch.Value == "" {
				t.Errorf("%s: choice %+v", m.Kind, ch)
			}
		}
		for _, name := range c.tried {
			ch := choice(t, r, name)
			if len(ch.Trials) < 2 {
				t.Errorf("%s: %s was chosen without trials: %+v", m.Kind, name, ch)
			}
			for _, tr := range ch.Trials {
				if !dense.IsFinite(tr.Score) || tr.Metric == "" {
					t.Errorf("%s: trial %+v of %s", m.Kind, tr, name)
				}
			}
		}
		if s := m.Spec.Kernel.Scale; s != choice(t, r, "bandwidth").Number {
			t.Errorf("%s: bandwidth %g, the report says %+v", m.Kind, s, choice(t, r, "bandwidth"))
		}
		if slices.Contains(c.tried, "lambda") && (m.Lambda <= 0 || m.Lambda != choice(t, r, "lambda").Number) {
			t.Errorf("%s: λ = %g, the report says %+v", m.Kind, m.Lambda, choice(t, r, "lambda"))
		}
		if r.Rows != 800 || r.Width != 2 || r.Summary == nil ||
			r.ScoredOn != c.on || m.Schema == nil || m.Rows != 800 {
			t.Errorf("%s: report %+v", m.Kind, r)
		}
		s := r.Scores[0]
		if good := s.Value >= c.least; s.Name != c.name || (c.name == "RMSE") == good || !(s.Low <= s.Value &&
			s.Value <= s.High) {
			t.Errorf("%s: score %+v, want %s of %g", m.Kind, s, c.name, c.least)
		}
	}
}

// What the caller gives is used as it is.
func TestChoicesCanBeOverridden(t *testing.T) {
	src := waves(400, 1)
	m, r := mustFit(t, src, Options{Kind: machine.KindRidge, Family: family.Trig{}, Coupling: coupling.IID{},
		Bandwidth: 1.25, Lambda: 0.5, Features: 96, Learn: learn("y")})
	for _, c := range r.Choices {
		if !c.Given || c.Why != "as asked" || len(c.Trials) > 0 && c.Name != "bandwidth" {
			t.Errorf("choice %+v was given", c)
		}
	}
	if len(r.Choices) != 7 || m.Spec.Kernel.Scale != 1.25 || m.Lambda != 0.5 || m.Weights.Rows != 96 ||
		m.Spec.Coupling != (coupling.IID{}) {
		t.Errorf("model %+v with choices %+v", m.Spec, r.Choices)
	}
	m, r = mustFit(t, src, Options{Kind: machine.KindDensity, Family: family.OPRF{A: -0.2},
		Coupling: coupling.Orthogonal{}, Bandwidth: 0.8, Features: 64, Learn: learn()})
	if m.Spec.Family != (family.OPRF{A: -0.2}) || m.Spec.Coupling != (coupling.Orthogonal{}) || len(m.Mass) != 64 ||
		choice(t, r, "family").Trials != nil {
		t.Errorf("model %+v with choices %+v", m.Spec, r.Choices)
	}
	// Without parameters the family is fitted.
	m, _ = mustFit(t, src, Options{Kind: machine.KindSmoother, Family: family.OPRF{}, Bandwidth: 0.8, Features: 64,
		Learn: learn("y")})
	if f, ok := m.Spec.Family.(family.OPRF); !ok || f.A >= 0 {
		t.Errorf("family %+v, want a fitted one", m.Spec.Family)
	}
	if _, r = mustFit(t, src, Options{Folds: 1, Learn: learn("y"), Features: 64}); r.Scores != nil || r.ScoredOn != "" {
		t.Errorf("one fold has scores %+v", r.Scores)
	}
	m, r = mustFit(t, src, Options{Folds: 1, Learn: learn(), Features: 64})
	if len(m.Quantiles) == 0 || r.Scores != nil {
		t.Errorf("a density without scores has %d quantiles, scores %+v", len(m.Quantiles), r.Scores)
	}
}

// Class weights move predictions to the class that is worth more.
func TestClassWeights(t *testing.T) {
	src := waves(600, 3)
	o := Options{Kind: machine.KindLogistic, Learn: learn("class"), Bandwidth: 1, Lambda: 0.1, Features: 64}
	_, even := mustFit(t, src, o)
	o.ClassWeights = []float64{1, 8}
	_, heavy := mustFit(t, src, o)
	a, b := even.Confusion[0][1]+even.Confusion[1][1], heavy.Confusion[0][1]+heavy.Confusion[1][1]
	if b < a+20 {
		t.Errorf("class 1 was predicted %d times, %d times with weight 8", a, b)
	}
}

// The number of goroutines, the size of reads and the format of the file change nothing.
func TestSameBytes(t *testing.T) {
	for name, o := range map[string]Options{
		"ridge":    {Learn: learn("y"), Budget: 128},
		"classes":  {Learn: learn("class"), Budget: 128, Float32: true, Sample: 300},
		"logistic": {Kind: machine.KindLogistic, Learn: learn("class"), Budget: 128},
		"smoother": {Kind: machine.KindSmoother, Learn: learn("y"), Budget: 128},
		"density":  {Kind: machine.KindDensity, Learn: learn(), Budget: 128},
	} {
		o.Seed, o.Block = 5, 64
		if name != "ridge" {
			o.Scaling = scalingStandard // the choice of scalings is the same for all kinds
		}
		if testing.Short() && name != "ridge" && name != "density" {
			continue // whole fits, one of each way to make sums
		}
		src := waves(400, 4)
		before := runtime.GOMAXPROCS(4)
		m, r := mustFit(t, src, o)
		runtime.GOMAXPROCS(1)
		src.most = 7
		m1, r1 := mustFit(t, src, o)
		runtime.GOMAXPROCS(before)
		if !bytes.Equal(modelBytes(t, m), modelBytes(t, m1)) || fmt.Sprint(r.Scores) != fmt.Sprint(r1.Scores) {
			t.Errorf("%s: the model depends on GOMAXPROCS or on the size of reads", name)
		}
		if name != "ridge" && name != "classes" {
			continue // reading and drawing are the same for all kinds
		}
		if m1, r1 = mustFit(t, src.csv(t), o); !bytes.Equal(modelBytes(t, m), modelBytes(t, m1)) ||
			fmt.Sprint(r.Scores) != fmt.Sprint(r1.Scores) {
			t.Errorf("%s: a stream of text and numbers in memory give different models", name)
		}
		o.Seed = 6
		if m1, _ = mustFit(t, src, o); bytes.Equal(modelBytes(t, m), modelBytes(t, m1)) {
			t.Errorf("%s: the seed has no effect", name)
		}
	}
}

// The score is that of models fitted without the fold of the row, one by one.
func TestScoreIsOfUnseenRows(t *testing.T) {
	src := waves(300, 5)
	const folds = 4
	schema, _, err := data.Learn(src, learn("y"))
	if err != nil {
		t.Fatal(err)
	}
	m, r := mustFit(t, src, Options{Schema: schema, Seed: 8, Folds: folds, Features: 128, Bandwidth: 0.3, Lambda: 0.01,
		Block: 50})
	rows, err := machine.TableRows(src, m.Schema, true)
	if err != nil {
		t.Fatal(err)
	}
	var x, y dense.Matrix[float64]
	if err := rows.Each(1000, func(a, b dense.Matrix[float64]) error {
		x, y = a.Clone(),
			b.Clone()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for k := range x.Rows { // each row is predicted without itself
		one, err := machine.NewRidge(machine.Setup{Spec: m.Spec, Omega: m.Omega, Task: machine.Regression, Outputs: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Rows {
			if i != k {
				if err := one.Add(x.RowRange(i, i+1), y.RowRange(i, i+1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		without, err := one.Model(0.01)
		if err != nil {
			t.Fatal(err)
		}
		p, err := machine.NewPredictor[float64](without)
		if err != nil {
			t.Fatal(err)
		}
		out := dense.New[float64](x.Rows, 1)
		if err := p.Predict(out, x, nil); err != nil {
			t.Fatal(err)
		}
		for i := range x.Rows {
			if i == k {
				sum += (out.At(i, 0) - y.At(i, 0)) * (out.At(i, 0) - y.At(i, 0))
			}
		}
	}
	want := math.Sqrt(sum / float64(x.Rows))
	// Targets are standardised in one of the two, and sums are grouped differently: 1e-8 of rounding with this λ.
	if got := r.Scores[0].Value; math.Abs(got-want) > 1e-7*want {
		t.Errorf("cross-validated RMSE %.10g, fold by fold %.10g", got, want)
	}
	// A score of rows that the model has seen would be far lower: the kernel is narrow.
	if seen := evaluate(t, m, src)[0].Value; seen > 0.8*want {
		t.Errorf("RMSE %g of seen rows, %g of others: the test cannot tell them apart", seen, want)
	}
}

// The interval of the score covers what the model reaches on many new rows.
func TestIntervalCoversNewRows(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many fits")
	}
	for _, c := range []struct {
		kind   machine.Kind
		target string
	}{{machine.KindRidge, "y"}, {machine.KindRidge, "class"}, {machine.KindGP, "y"}, {machine.KindLogistic, "class"},
		{machine.KindDensity, ""}} {
		m, r := mustFit(t, waves(1500, 6), Options{Kind: c.kind, Learn: learn(strings.Fields(c.target)...),
			Budget: 128})
		got := evaluate(t, m, waves(20000, 7))
		if s := r.Scores[0]; got[0].Name != s.Name || got[0].Value < s.Low || got[0].Value > s.High {
			t.Errorf("%s: cross-validated %+v, new rows %+v", c.kind, s, got[0])
		}
	}
}

// The interval of the score covers the error of the model on new rows, although bandwidth, penalty and features were
// chosen by out-of-fold errors of few rows. That error itself, of the best of all that was tried, is too small: its
// interval covered 0.62 of the time.
func TestScoreIsNotThatOfTheChoices(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many fits")
	}
	const fits, least = 30, 0.90
	covered, optimistic := 0, 0.0
	for i := range uint64(fits) {
		o := Options{Learn: learn("y"), Seed: i, Budget: 128, Scaling: scalingStandard} // one choice less: time
		m, r := mustFit(t, waves(200, 1000+i), o)
		s := r.Scores[0]
		truth := evaluate(t, m, waves(4000, 5000+i))[0].Value
		if s.Low <= truth && truth <= s.High {
			covered++
		}
		best := 0.0
		for _, tr := range choice(t, r, "lambda").Trials {
			best = max(best, tr.Score)
		}
		scale := m.Schema.Targets[0].Scale
		optimistic += math.Log(truth/(scale*math.Sqrt(1-best))) / fits
	}
	got := float64(covered) / fits
	t.Logf("covered %.2f; error of new rows / out-of-fold error of the choice %.2f", got, math.Exp(optimistic))
	if z := (got - least) / math.Sqrt(least*(1-least)/fits); z < -stattest.Bound(1e-2, 1) {
		t.Errorf("the interval covers %.2f", got)
	}
	if optimistic < 0.03 {
		t.Errorf("the error of the choice is only %.2f too small: the test shows nothing", math.Exp(optimistic))
	}
}

// Targets of very different sizes weigh the same.
func TestTwoTargets(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many fits")
	}
	for _, kind := range []machine.Kind{machine.KindRidge, machine.KindGP, machine.KindSmoother} {
		m, _ := mustFit(t, waves(1000, 8), Options{Kind: kind, Learn: learn("y", "z"), Features: 256})
		test := waves(4000, 9)
		p, err := machine.NewPredictor[float64](m)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := machine.TableRows(test, m.Schema, true)
		if err != nil {
			t.Fatal(err)
		}
		var sse, sst [2]float64
		err = rows.Each(4000, func(x, y dense.Matrix[float64]) error {
			out := dense.New[float64](x.Rows, 2)
			if err := p.Predict(out, x, nil); err != nil {
				return err
			}
			for i := range x.Rows {
				for k, tg := range m.Schema.Targets {
					sse[k] += math.Pow(out.At(i, k)-y.At(i, k), 2)
					sst[k] += math.Pow(y.At(i, k)-tg.Mean, 2)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// Noise leaves 0.87 and 0.95 to be reached.
		for k := range sse {
			if r2 := 1 - sse[k]/sst[k]; r2 < 0.8 {
				t.Errorf("%s: R² of target %d is %.3f", kind, k, r2)
			}
		}
	}
}

// More rows than the sample: all rows are in the model, and the rows of the sample state the score.
func TestMoreRowsThanTheSample(t *testing.T) {
	for target, metric := range map[string]string{"y": "GCV R²",
		"class": "out-of-fold accuracy less half of the Brier score"} {
		m, r := mustFit(t, waves(3000, 10), Options{Learn: learn(target), Sample: 500, Features: 64})
		if ch := choice(t, r, "lambda"); len(ch.Trials) < 3 || ch.Trials[0].Metric != metric || ch.Number != m.Lambda {
			t.Errorf("λ: %+v", ch)
		}
		if m.Rows != 3000 || r.Scores[0].Rows != 500 || r.ScoredOn != "500 rows; each was predicted without itself" ||
			!strings.Contains(strings.Join(r.Notes, "\n"), "a sample of 500 of the 3000 rows") {
			t.Errorf("model of %d rows, score %+v, notes %q", m.Rows, r.Scores[0], r.Notes)
		}
	}
	_, r := mustFit(t, waves(1000, 10), Options{Kind: machine.KindLogistic, Learn: learn("class"), Sample: 300,
		Features: 32})
	if r.Scores[0].Rows != 300 {
		t.Errorf("scored on %q, %+v", r.ScoredOn, r.Scores[0])
	}
	if _, r = mustFit(t, waves(1000, 10), Options{Learn: learn(), Sample: 900,
		Features: 32}); r.Scores[0].Rows != 900 {
		t.Errorf("scored on %q, %+v", r.ScoredOn, r.Scores[0])
	}
}

func TestErrors(t *testing.T) {
	good := waves(100, 11)
	csv := func(content string) data.Source {
		src, err := text.OpenBytes("bad.csv", []byte(content), data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	schema := func(classes ...string) *data.Schema {
		return &data.Schema{Fields: []data.Field{{Name: "a", Kind: data.Numeric, Scale: 1}},
			Targets: []data.Target{{Name: "class", Classes: classes}}, Ignored: []string{"b", "y", "z"}}
	}
	one := waves(50, 1)
	for _, r := range one.rows {
		r[4] = 1
	}
	for _, c := range []struct {
		name string
		src  data.Source
		o    Options
		err  error
		text string
	}{
		{"unknown model", good, Options{Kind: "forest"}, machine.ErrSetup, "forest"},
		{"negative bandwidth", good, Options{Bandwidth: -1}, machine.ErrSetup, "bandwidth -1"},
		{"NaN penalty", good, Options{Lambda: math.NaN()}, machine.ErrSetup, "λ = NaN"},
		{"penalty of a smoother", good, Options{Kind: machine.KindSmoother, Lambda: 1}, machine.ErrSetup, "no penalty"},
		{"penalty of a density", good, Options{Lambda: 1}, machine.ErrSetup, "no penalty"},
		{"too many features", good, Options{Features: 1 << 20}, machine.ErrSetup, "1048576 features, want 1 to 131072"},
		{"budget", good, Options{Budget: 1}, machine.ErrSetup, "budget of 1"},
		{"folds", good, Options{Folds: -1}, machine.ErrSetup, "-1 folds"},
		{"sample", good, Options{Sample: 3}, machine.ErrSetup, "sample of 3"},
		{"block", good, Options{Block: -3}, machine.ErrSetup, "blocks of -3"},
		{"weights of a smoother", good, Options{Kind: machine.KindSmoother, ClassWeights: []float64{1, 2},
			Learn: learn("class")}, machine.ErrSetup, "only ridge, logistic"},
		{"weights of a number", good, Options{ClassWeights: []float64{1, 2}, Learn: learn("y")}, machine.ErrSetup,
			"which has no classes"},
		{"weights of other classes", good, Options{Kind: machine.KindLogistic, ClassWeights: []float64{1, 2, 3},
			Learn: learn("class")}, dense.ErrShape, "3 class weights for the 2 classes"},
		{"negative weight", good, Options{Kind: machine.KindLogistic, ClassWeights: []float64{1, -2},
			Learn: learn("class")},
			machine.ErrSetup, "class weight -2"},
		{"no target", good, Options{Kind: machine.KindRidge, Learn: learn()}, machine.ErrSetup, "needs a target"},
		{"target of a density", good, Options{Kind: machine.KindDensity, Learn: learn("y")}, machine.ErrSetup,
			"density has no target"},
		{"gp of classes", good, Options{Kind: machine.KindGP, Learn: learn("class")}, machine.ErrSetup,
			"gp model is for regression"},
		{"logistic of numbers", good, Options{Kind: machine.KindLogistic, Learn: learn("y")}, machine.ErrSetup,
			"logistic model is for classification"},
		{"two targets with classes", good, Options{Learn: learn("y", "class")}, machine.ErrSetup, "one target"},
		{"unknown target", good, Options{Learn: data.LearnOptions{Targets: []string{"why"}}}, data.ErrInput, "why"},
		{"signed density", good, Options{Family: family.Trig{}, Learn: learn()}, machine.ErrSetup, "positive"},
		{"asymmetric ridge", good, Options{Family: family.Adaptive{C: []float64{1, 2}}, Learn: learn("y")},
			machine.ErrSetup,
			"differently"},
		{"one class in the rows", one, Options{Schema: schema("0", "1")}, machine.ErrClass,
			`"class" is "1" in every row`},
		{"one class learned", one, Options{Learn: data.LearnOptions{Targets: []string{"class"},
			Task: data.Classification}},
			data.ErrInput, "one class"},
		{"fewer rows than folds", waves(3, 1), Options{Learn: learn("y")}, machine.ErrNoRows,
			"3 rows cannot be divided into 5 folds"},
		{"missing target", csv("a,y\n1,2\n2,NaN\n3,4\n"), Options{Learn: data.LearnOptions{Targets: []string{"y"}}},
			dense.ErrNotFinite, "bad.csv:3"},
		{"constant target of a gp", csv("a,y\n1,2\n2,2\n3,2\n4,2\n"),
			Options{Kind: machine.KindGP, Learn: data.LearnOptions{Targets: []string{"y"}, Task: data.Regression}},
			machine.ErrSetup, `target "y" is the same in every row`},
		{"constant columns only", csv("a,y\n1,2\n1,3\n1,4\n"),
			Options{Learn: data.LearnOptions{Targets: []string{"y"}}},
			data.ErrSchema, "no column is left"},
		{"empty columns only", csv("a,y\n,2\n,3\n,4\n"), Options{Learn: data.LearnOptions{Targets: []string{"y"}}},
			data.ErrSchema, "no column is left"},
		{"bad schema", good, Options{Schema: &data.Schema{}}, data.ErrSchema, "no column"},
	} {
		m, r, err := Fit(context.Background(), c.src, c.o)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) || m != nil || r != nil {
			t.Errorf("%s: error %v, want %v with %q", c.name, err, c.err, c.text)
		}
	}
}

// Constant and empty columns beside good ones are left out, and the report says so.
func TestUselessColumns(t *testing.T) {
	src := waves(200, 12)
	src.names = append(src.names, "same", "none")
	for i := range src.rows {
		src.rows[i] = append(src.rows[i], 3, math.NaN())
	}
	m, r := mustFit(t, src, Options{Learn: learn("y"), Features: 32})
	notes := strings.Join(r.Notes, "\n")
	if m.Spec.Dim != 2 || !strings.Contains(notes, "same") || !strings.Contains(notes, "none") {
		t.Errorf("%d columns, notes %q", m.Spec.Dim, r.Notes)
	}
}

// Constant targets and rows that are all alike are legal.
func TestDegenerateRows(t *testing.T) {
	src := waves(60, 13)
	for i := range src.rows {
		src.rows[i][2] = 5
	}
	m, r := mustFit(t, src, Options{Learn: data.LearnOptions{Targets: []string{"y"}, Task: data.Regression,
		Skip: []string{"z", "class"}}, Features: 16})
	if s := r.Scores[0].Value; s > 1e-9 || math.Abs(m.Intercept[0]-5) > 1e-9 {
		t.Errorf("RMSE %g of a constant, intercept %g", s, m.Intercept[0])
	}
	few := waves(6, 14)
	if m, r = mustFit(t, few, Options{Learn: learn("y")}); m.Rows != 6 || r.Scores[0].Rows != 6 {
		t.Errorf("six rows: model of %d, score %+v", m.Rows, r.Scores[0])
	}
}

func TestCancel(t *testing.T) {
	for _, stage := range []string{stageLearn, stageSample, stageChoose, stageFit} {
		ctx, cancel := context.WithCancel(context.Background())
		type report struct {
			stage string
			done  int64
		}
		var last report
		after := 0
		_, _, err := Fit(ctx, waves(1500, 15), Options{Learn: learn("y"), Features: 32, Block: 20,
			Scaling: scalingStandard,
			Progress: func(s string,
				done, total int64) {
				if ctx.Err() != nil {
					after++
				} else if last = (report{s, done}); s == stage && done > 0 {
					cancel()
				}
				if total > 0 && done > total {
					t.Errorf("%s: %d of %d", s, done, total)
				}
			}})
		cancel()
		if !errors.Is(err, context.Canceled) || last.stage != stage || last.done >= 1500 || after > 0 {
			t.Errorf("cancelled in %q: error %v, last %+v, %d more reports", stage, err, last, after)
		}
	}
}

// A family gets the features asked for, or the nearest number below that it can make, whatever the law of its size:
// affine in the projections (residual: 1 + d + m) or several for each (hyperbolic).
func TestFeaturesAskedFor(t *testing.T) {
	for _, c := range []struct {
		family     family.Family
		asked, got int
	}{
		{family.Trig{}, 64, 64}, {family.Residual{}, 64, 64}, {family.Residual{}, 200, 200},
		{family.Hyperbolic{}, 101, 100},
	} {
		m, r := mustFit(t, waves(200, 1), Options{Learn: learn("y"), Family: c.family, Features: c.asked, Bandwidth: 1,
			Lambda: 1e-2, Folds: 2})
		n, err := m.Spec.OutDim()
		if err != nil {
			t.Fatal(err)
		}
		if ch := choice(t, r, "features"); n != c.got || ch.Number != float64(c.got) ||
			(c.got != c.asked) != strings.Contains(ch.Why, "nearest") {
			t.Errorf("%s with %d features asked for: %d, the report says %+v", c.family.Name(), c.asked, n, ch)
		}
	}
}

// Smoothers of classes and densities are tried with positive families only: others give no probabilities and no
// logarithm. A family whose projections are not normal gets the coupling that is defined for them.
func TestFamiliesOfAverages(t *testing.T) {
	rows := waves(200, 3)
	for _, c := range []struct {
		src data.Source
		o   Options
	}{
		{rows, Options{Kind: machine.KindSmoother, Learn: learn("class"), Features: 64}},
		{rows, Options{Kind: machine.KindDensity, Learn: learn(), Features: 64}},
	} {
		_, r := mustFit(t, c.src, c.o)
		ch := choice(t, r, "family")
		if len(ch.Trials) < 2 {
			t.Errorf("%s: %d families tried", c.o.Kind, len(ch.Trials))
		}
		for _, tr := range ch.Trials {
			name, _, _ := strings.Cut(tr.Label, " ")
			f, err := family.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := randfeat.New[float64](randfeat.Spec{Family: f, Dim: 2, M: 4})
			if err != nil || !m.Positive() {
				t.Errorf("%s was tried with %s: %v", c.o.Kind, name, err)
			}
		}
	}
	m, r := mustFit(t, rows, Options{Kind: machine.KindSmoother, Family: family.Poisson{}, Features: 64,
		Learn: learn("y")})
	if got := choice(t, r, "coupling"); got.Value != "iid" || got.Given || m.Spec.Family.Name() != "poisson" {
		t.Errorf("%s × %s (%s), want poisson × iid", m.Spec.Family.Name(), got.Value, got.Why)
	}
}

// The features of a process are as many as its variances need, and few ones that were asked for come with a warning.
func TestVariancesThatCanBeBelieved(t *testing.T) {
	src := waves(300, 17)
	warned := func(r *Report) bool {
		return strings.Contains(strings.Join(r.Notes, "\n"), "of the features are used up")
	}
	_, r := mustFit(t, src, Options{Kind: machine.KindGP, Learn: learn("y"), Features: 24, Bandwidth: 0.5, Folds: 1})
	if !warned(r) {
		t.Errorf("no warning of 24 features: %q", r.Notes)
	}
	_, r = mustFit(t, src, Options{Kind: machine.KindGP, Learn: learn("y"), Bandwidth: 0.5, Folds: 1})
	ch := choice(t, r, "features")
	if warned(r) || !strings.Contains(ch.Why, "variances can be believed") {
		t.Errorf("%s features (%s), notes %q", ch.Value, ch.Why, r.Notes)
	}
}

// A family fitted to fewer rows than its covariances need is noted once, however often it was fitted.
func TestNoteOfFewRows(t *testing.T) {
	for _, c := range []struct {
		f     family.Family
		rows  int
		times int
	}{{family.Adaptive{}, 7, 1}, {family.Adaptive{}, 40, 0}, {family.OPRF{}, 7, 0}} {
		src := waves(c.rows, 21)
		src.names = append(src.names, "third", "fourth")
		for i := range src.rows {
			src.rows[i] = append(src.rows[i], float64(i*i%11), float64(i*i%7))
		}
		_, r := mustFit(t, src, Options{Kind: machine.KindSmoother, Family: c.f, Learn: learn("y"), Features: 16})
		notes := strings.Join(r.Notes, "\n")
		if n := strings.Count(notes, "adaptive is fitted to 7 rows of 4 columns"); n != c.times || n == 0 &&
			strings.Contains(notes, "is fitted to") {
			t.Errorf("%s, %d rows: notes %q", c.f.Name(), c.rows, r.Notes)
		}
	}
}

// With few features and hardly any noise ever smaller penalties are better, down to those at which the features of some
// rows are singular up to rounding, and those of others not: a fit goes on with the next larger one.
func TestSingularPenaltyIsRaised(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := &numbers{names: []string{"a", "b", "y"}}
	for range 400 {
		a, b := r.Float64(), r.Float64()
		s.rows = append(s.rows, []float64{a, b, math.Sin(3*a) + b*b + 1e-5*r.NormFloat64()})
	}
	for seed := range uint64(6) {
		m, rep := mustFit(t, s, Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Kind: machine.KindRidge,
			Family: family.Trig{}, Budget: 32, Seed: seed})
		if at := len(rep.Choices) - 1; rep.Choices[at].Number != m.Lambda {
			t.Errorf("seed %d: λ = %g is stated, that of the model is %g", seed, rep.Choices[at].Number, m.Lambda)
		}
		if r2 := rep.Scores[1].Value; r2 < 0.999 {
			t.Errorf("seed %d: R² = %g", seed, r2)
		}
	}
}

// What is given is not tried: with everything given, no trial is made.
func TestFixedChoicesCostNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      Options
		trials int64
	}{
		{"all", Options{Family: family.Trig{}, Coupling: coupling.IID{}, Bandwidth: 1, Features: 64, Lambda: 0.1}, 0},
		{"gp", Options{Kind: machine.KindGP, Bandwidth: 1, Features: 64, Lambda: 0.1}, 0},
		{"smoother", Options{Kind: machine.KindSmoother, Family: family.OPRF{}, Bandwidth: 1, Features: 64}, 0},
		{"all but λ", Options{Family: family.Trig{}, Bandwidth: 1, Features: 64}, 12},
	} {
		trials := int64(0)
		c.o.Learn, c.o.Progress = learn("y"), func(stage string, done, _ int64) {
			if stage == stageChoose {
				trials = max(trials, done)
			}
		}
		m, r := mustFit(t, waves(300, 3), c.o)
		if trials > c.trials {
			t.Errorf("%s: %d trials, want %d at most", c.name, trials, c.trials)
		}
		if m.Spec.Kernel.Scale != 1 || m.Weights.Rows != 64 || c.o.Lambda > 0 && m.Lambda != 0.1 || len(r.Scores) == 0 {
			t.Errorf("%s: s = %g, %d features, λ = %g", c.name, m.Spec.Kernel.Scale, m.Weights.Rows, m.Lambda)
		}
	}
}
