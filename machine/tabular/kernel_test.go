package tabular

import (
	"bytes"
	"context"
	"errors"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func board(n int, seed uint64) *numbers {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &numbers{names: []string{"a", "b", "c", "class"}}
	for range n {
		a, b, c := r.Float64(), r.Float64(), r.Float64()
		s.rows = append(s.rows, []float64{a, b, c, float64((int(4*a) + int(4*b)) % 2)})
	}
	return s
}

func TestExactKernelFindsNarrowKernels(t *testing.T) {
	o := Options{Learn: data.LearnOptions{Targets: []string{"class"}}, Folds: 1}
	m, r := mustFit(t, board(700, 1), o)
	if ch := choice(t, r, "map"); ch.Value != MapExact || !family.InfoOf(m.Spec.Family).KernelColumns ||
		m.Weights.Rows%700 != 0 {
		t.Errorf("map %+v, %d features of family %s", ch, m.Weights.Rows, m.Spec.Family.Name())
	}
	if b, l := choice(t, r, "bandwidth"), choice(t, r, "lambda"); b.Number != m.Spec.Kernel.Scale ||
		l.Number != m.Lambda ||
		len(b.Trials) < 2 || len(l.Trials) < 2 {
		t.Errorf("bandwidth %+v, λ %+v", b, l)
	}
	exact := evaluate(t, m, board(4000, 2))[0].Value
	if exact < 0.80 {
		t.Errorf("accuracy %.3f", exact)
	}
	t.Logf("accuracy %.3f", exact)
	if testing.Short() {
		return
	}
	old := runtime.GOMAXPROCS(1)
	again, _ := mustFit(t, board(700, 1), o)
	runtime.GOMAXPROCS(old)
	if !bytes.Equal(modelBytes(t, m), modelBytes(t, again)) {
		t.Error("other bytes with one goroutine")
	}
}

func TestExactKernelAsAsked(t *testing.T) {
	m, r := mustFit(t, waves(200, 1), Options{Learn: learn("y", "z"), Map: MapExact, Bandwidth: 1.5, Lambda: 0.2})
	if m.Spec.Kernel.Scale != 1.5 || m.Lambda != 0.2 || m.Weights.Rows != 200 || m.Outputs != 2 || len(r.Scores) == 0 ||
		r.ScoredOn != "all rows in 5 folds, dealt 6 times; each fold was predicted without its rows" {
		t.Errorf("s = %g, λ = %g, %d landmarks, scored on %q", m.Spec.Kernel.Scale, m.Lambda, m.Weights.Rows,
			r.ScoredOn)
	}
	if m, _ = mustFit(t, waves(200, 1), Options{Learn: learn("y"), Map: MapRandom,
		Folds: 1}); m.Spec.Family != (family.Trig{}) {
		t.Errorf("family %s, random features were asked for", m.Spec.Family.Name())
	}
	for name, o := range map[string]Options{
		"features": {Features: 64}, "family": {Family: family.Trig{}}, "gp": {Kind: machine.KindGP},
		"float32": {Float32: true},
	} {
		o.Map, o.Learn = MapExact, learn("y")
		if _, _, err := Fit(context.Background(), waves(50, 1), o); !errors.Is(err, machine.ErrSetup) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Equal rows of a constant target have no best setting, but a model.
	same := &numbers{names: []string{"a", "b", "y"}}
	for i := range 60 {
		same.rows = append(same.rows, []float64{float64(i % 2), float64(i % 3), 5})
	}
	m, _ = mustFit(t, same, Options{Learn: data.LearnOptions{Targets: []string{"y"}, Task: data.Regression}, Folds: 1})
	if v := evaluate(t, m, same)[0].Value; !(math.Abs(v) < 1e-6) {
		t.Errorf("RMSE %g of a constant target", v)
	}
}

func TestExactKernelResumes(t *testing.T) {
	o := Options{Learn: learn("y"), Folds: 1, Scaling: scalingStandard, Checkpoint: filepath.Join(t.TempDir(), "ck")}
	want, _ := mustFit(t, waves(300, 1), Options{Learn: o.Learn, Folds: 1})
	ctx, cancel := context.WithCancel(context.Background())
	o.Progress = func(stage string, _, _ int64) {
		if stage == stageFit {
			cancel()
		}
	}
	if _, _, err := Fit(ctx, waves(300, 1), o); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Progress = func(stage string, _, _ int64) {
		if stage == stageChoose {
			t.Error("choices are made again")
		}
	}
	m, r := mustFit(t, waves(300, 1), o)
	if !bytes.Equal(modelBytes(t, m), modelBytes(t, want)) || choice(t, r, "map").Value != MapExact {
		t.Errorf("other bytes after a stop, choices %+v", r.Choices)
	}
}

func ruled(n int, seed uint64, noise float64) *numbers {
	r := rand.New(rand.NewPCG(seed, 4))
	s := &numbers{names: []string{"a", "b", "c", "d", "e", "f", "class"}}
	for range n {
		v := make([]int, 6)
		for i := range v {
			v[i] = r.IntN(4)
		}
		class := 0
		if v[0] > 0 && v[1] > 0 && v[2]+v[3] > 2 {
			class = 1 + (v[2]+v[4])/4
		}
		if r.Float64() < noise {
			class = r.IntN(3)
		}
		row := make([]float64, 7)
		for i, c := range v {
			row[i] = float64(c)
		}
		row[6] = float64(class)
		s.rows = append(s.rows, row)
	}
	return s
}

func TestLosses(t *testing.T) {
	t.Parallel()
	o := Options{Learn: data.LearnOptions{Targets: []string{"class"}, Task: data.Classification,
		Categorical: []string{"a", "b", "c", "d", "e", "f"}}, Folds: 1, Scaling: scalingStandard,
		Kernel: kernel.Gaussian.String()}
	_, few := mustFit(t, ruled(150, 1, 0), o)
	if slices.ContainsFunc(few.Choices, func(c Choice) bool { return c.Name == "loss" }) {
		t.Errorf("a loss was chosen by 150 rows")
	}
	m, r := mustFit(t, ruled(400, 1, 0), o)
	ch := choice(t, r, "loss")
	if ch.Value != lossMargins || len(ch.Trials) != 2 {
		t.Errorf("loss %+v", ch)
	}
	fresh := ruled(2000, 2, 0)
	margins := evaluate(t, m, fresh)[0].Value
	o.Loss = lossSquares
	m, _ = mustFit(t, ruled(400, 1, 0), o)
	squares := evaluate(t, m, fresh)[0].Value
	t.Logf("accuracy %.4f, squares %.4f", margins, squares)
	if 1-margins > (1-squares)/2 {
		t.Errorf("accuracy %.4f with margins, %.4f with squares", margins, squares)
	}
	o.Loss = ""
	if _, r = mustFit(t, ruled(400, 3, 0.6), o); choice(t, r, "loss").Value != lossSquares {
		t.Errorf("noise: loss %+v", choice(t, r, "loss"))
	}
	for _, bad := range []Options{{Loss: "hinge", Learn: o.Learn}, {Loss: lossMargins, Map: MapRandom, Learn: o.Learn},
		{Loss: lossMargins, Learn: data.LearnOptions{Targets: []string{"class"}, Task: data.Regression}}} {
		if _, _, err := Fit(context.Background(), ruled(400, 1, 0), bad); !errors.Is(err, machine.ErrSetup) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestKernelIsChosen(t *testing.T) {
	t.Parallel()
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Folds: 1}
	m, r := mustFit(t, stairs(500, 1), o)
	ch := choice(t, r, "kernel")
	if ch.Given || ch.Value == kernel.Gaussian.String() || ch.Value != m.Spec.Kernel.Kind.String() ||
		len(ch.Trials) < 3 {
		t.Errorf("stairs: %+v", ch)
	}
	o.Kernel = "gaussian"
	smooth, _ := mustFit(t, stairs(500, 1), o)
	rough, gauss := evaluate(t, m, stairs(2000, 2))[0].Value, evaluate(t, smooth, stairs(2000, 2))[0].Value
	t.Logf("RMSE %.3f with the %s kernel, %.3f with the Gaussian one", rough, ch.Value, gauss)
	if rough > 0.95*gauss {
		t.Error("the rough kernel is no better")
	}
	m, r = mustFit(t, waves(300, 1), Options{Learn: learn("y"), Folds: 1})
	if ch := choice(t, r, "kernel"); ch.Value != kernel.Gaussian.String() || m.Spec.Kernel.Kind != kernel.Gaussian ||
		len(ch.Trials) < 2 {
		t.Errorf("waves: %+v", ch)
	}
}

func TestKernelAsAsked(t *testing.T) {
	for _, name := range Values("kernel") {
		for _, o := range []Options{{Map: MapExact, Lambda: 0.1}, {Map: MapNystrom, Features: 40}, {Map: MapRandom,
			Features: 64}, {Map: MapRandom, Features: 64, Bandwidth: 2, Lambda: 0.1}} {
			o.Learn, o.Folds, o.Kernel = learn("y"), 1, name
			m, r := mustFit(t, waves(250, 2), o)
			if ch := choice(t, r, "kernel"); m.Spec.Kernel.Kind.String() != name || !ch.Given || ch.Value != name {
				t.Errorf("%s, %s: %v, %+v", name, o.Map, m.Spec.Kernel.Kind, ch)
			}
			if rmse := evaluate(t, m, waves(500, 3))[0].Value; rmse > 0.6 { // the noise is 0.3, the spread 0.7 and more
				t.Errorf("%s, %s: RMSE %g", name, o.Map, rmse)
			}
		}
	}
	for says, o := range map[string]Options{
		"want gaussian, laplace": {Kernel: "softmax"},
		"only trig does":         {Kernel: "matern32", Family: family.OPRF{}},
		"only trig has it":       {Kernel: "matern32", Kind: machine.KindSmoother},
	} {
		o.Learn = learn("y")
		if _, _, err := Fit(context.Background(), waves(100, 1), o); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

type counted struct {
	*numbers
	opened int
}

func (s *counted) Open(want []data.Kind) (data.Reader, error) {
	s.opened++
	return s.numbers.Open(want)
}

func TestManyFeatures(t *testing.T) {
	o := Options{Learn: learn("y"), Folds: 1, Features: maxFeatures + 2}
	m, r := mustFit(t, waves(300, 4), o)
	if m.Weights.Rows != maxFeatures+2 || choice(t, r, "features").Number != maxFeatures+2 ||
		!strings.Contains(strings.Join(r.Notes, "\n"), "conjugate gradients") {
		t.Errorf("%d features, notes %q", m.Weights.Rows, r.Notes)
	}
	o.Features, o.Map = 0, MapExact
	o.Bandwidth, o.Lambda, o.Kernel = m.Spec.Kernel.Scale, m.Lambda, m.Spec.Kernel.Kind.String()
	of := o
	of.Schema, of.Learn = m.Schema, data.LearnOptions{}
	exact, _ := mustFit(t, waves(300, 4), of)
	many, all := evaluate(t, m, waves(2000, 5))[0].Value, evaluate(t, exact, waves(2000, 5))[0].Value
	if many > 1.05*all {
		t.Errorf("RMSE %.3f, the exact kernel has %.3f", many, all)
	}
	t.Logf("RMSE %.4f, exact %.4f, %q", many, all, r.Notes)
	// Passes are bounded where a poor preconditioner and no penalty keep iterations from their end, and the table
	// itself is read four times a fit at most, and twice for every fold whose residuals make intervals.
	largeSketch = 4
	defer func() { largeSketch = 0 }()
	src, steps := &counted{numbers: waves(100, 4)}, int64(0)
	_, r = mustFit(t, src, Options{Learn: o.Learn, Features: maxFeatures + 2, Bandwidth: 0.3, Lambda: 1e-9, Folds: 2,
		Progress: func(stage string, done, _ int64) {
			if stage == "steps" {
				steps = max(steps, done)
			}
		}})
	if notes := strings.Join(r.Notes, "\n"); steps != largeSteps || src.opened > 12+2*2 ||
		!strings.Contains(notes, "not converged") {
		t.Errorf("%d steps, the table was read %d times, notes %q", steps, src.opened, notes)
	}
	t.Logf("%d steps, the table was read %d times", steps, src.opened)
	for says, o := range map[string]Options{
		"ridge of random features alone": {Kind: machine.KindLogistic, Features: maxFeatures + 2},
		"no checkpoint":                  {Features: maxFeatures + 2, Checkpoint: "x"},
		"want 1 to":                      {Features: mostFeatures + 1},
		"features of rows with weights":  {Features: maxFeatures + 2, Marks: data.MarkColumns{Weight: "x"}},
		"at most 16384 can have them":    {Features: maxFeatures + 2, ClassWeights: []float64{1, 2}},
		"margins of rows with weights":   {Loss: lossMargins, ClassWeights: []float64{1, 2}},
		"use squares":                    {Loss: lossMargins, Marks: data.MarkColumns{Weight: "x"}},
	} {
		o.Learn = learn("y")
		src := &counted{numbers: waves(100, 1)}
		if _, _, err := Fit(context.Background(), src, o); !errors.Is(err, machine.ErrSetup) ||
			!strings.Contains(err.Error(), says) || src.opened > 0 {
			t.Errorf("%v does not say %q, or after the table was read %d times", err, says, src.opened)
		}
	}
}

// Fits that are solved by conjugate gradients choose again on more rows, and the reasons state those.
func TestMoreRowsChooseAgain(t *testing.T) {
	limit, rows, judged := iterativeRows, beyondRows, beyondJudged
	defer func() { iterativeRows, beyondRows, beyondJudged = limit, rows, judged }()
	iterativeRows, beyondRows, beyondJudged = 600, 500, 100
	m, r := mustFit(t, board(700, 1), Options{Learn: data.LearnOptions{Targets: []string{"class"}}, Folds: 1})
	for _, name := range []string{"lambda", "bandwidth"} {
		if ch := choice(t, r, name); len(ch.Trials) == 0 || !strings.Contains(ch.Why, "on 500 rows") {
			t.Errorf("%+v", ch)
		}
	}
	if got := evaluate(t, m, board(4000, 2))[0].Value; got < 0.80 {
		t.Errorf("accuracy %.3f", got)
	}
}
