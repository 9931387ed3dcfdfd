package tabular

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// board is n rows of three columns of which the first two say whether a point is on a black field of a board of 4×4.
func board(n int, seed uint64) *numbers {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &numbers{names: []string{"a", "b", "c", "class"}}
	for range n {
		a, b, c := r.Float64(), r.Float64(), r.Float64()
		s.rows = append(s.rows, []float64{a, b, c, float64((int(4*a) + int(4*b)) % 2)})
	}
	return s
}

// Narrow kernels are found: a board needs a kernel narrower than its fields, for which random features must be many.
func TestExactKernelFindsNarrowKernels(t *testing.T) {
	o := Options{Learn: data.LearnOptions{Targets: []string{"class"}}, Folds: 1}
	m, r := mustFit(t, board(700, 1), o)
	if ch := choice(t, r, "map"); ch.Value != MapExact || !family.InfoOf(m.Spec.Family).KernelColumns ||
		m.Weights.Rows != 700 {
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

// What is given is kept, and the score is of fits without the fold.
func TestExactKernelAsAsked(t *testing.T) {
	m, r := mustFit(t, waves(200, 1), Options{Learn: learn("y", "z"), Map: MapExact, Bandwidth: 1.5, Lambda: 0.2})
	if m.Spec.Kernel.Scale != 1.5 || m.Lambda != 0.2 || m.Weights.Rows != 200 || m.Outputs != 2 || len(r.Scores) == 0 ||
		r.ScoredOn != "all rows in 5 folds; each fold was predicted without its rows; "+
			"scores are extrapolated to all rows" {
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

// A fit with an exact kernel that is stopped after its choices does not make them again.
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

// A fit whose choices were made without a fold calibrates by the rows of that fold, also after it was stopped.
func TestApartResumes(t *testing.T) {
	old, pair := apartRows, sharedRows
	apartRows, sharedRows = 250, 100
	defer func() { apartRows, sharedRows = old, pair }()
	for _, target := range []string{"class", "y"} {
		o := Options{Learn: learn(target), Folds: 3, Kernel: kernel.Gaussian.String(), Scaling: scalingStandard}
		want, _ := mustFit(t, waves(400, 1), o)
		o.Checkpoint = filepath.Join(t.TempDir(), "ck")
		ctx, cancel := context.WithCancel(context.Background())
		o.Progress = func(stage string, _, _ int64) {
			if stage == stageFit {
				cancel()
			}
		}
		if _, _, err := Fit(ctx, waves(400, 1), o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		o.Progress = nil
		m, _ := mustFit(t, waves(400, 1), o)
		if !bytes.Equal(modelBytes(t, m), modelBytes(t, want)) {
			t.Errorf("%s: other bytes after a stop", target)
		}
	}
}

// rule is n rows whose class, of three, is told by six columns of four values each, but for a share of noise.
func rule(n int, seed uint64, noise float64) *numbers {
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

// Margins are chosen where columns tell classes without doubt and least squares does not, and are better on new rows;
// squares stay where classes are noise.
func TestLosses(t *testing.T) {
	t.Parallel()
	o := Options{Learn: data.LearnOptions{Targets: []string{"class"}, Task: data.Classification,
		Categorical: []string{"a", "b", "c", "d", "e", "f"}}, Folds: 1, Scaling: scalingStandard,
		Kernel: kernel.Gaussian.String()}
	_, few := mustFit(t, rule(150, 1, 0), o)
	if slices.ContainsFunc(few.Choices, func(c Choice) bool { return c.Name == "loss" }) {
		t.Errorf("a loss was chosen by 150 rows")
	}
	m, r := mustFit(t, rule(400, 1, 0), o)
	ch := choice(t, r, "loss")
	if ch.Value != lossMargins || len(ch.Trials) != 2 {
		t.Errorf("loss %+v", ch)
	}
	fresh := rule(2000, 2, 0)
	margins := evaluate(t, m, fresh)[0].Value
	o.Loss = lossSquares
	m, _ = mustFit(t, rule(400, 1, 0), o)
	squares := evaluate(t, m, fresh)[0].Value
	t.Logf("accuracy %.4f, squares %.4f", margins, squares)
	if 1-margins > (1-squares)/2 {
		t.Errorf("accuracy %.4f with margins, %.4f with squares", margins, squares)
	}
	o.Loss = ""
	if _, r = mustFit(t, rule(400, 3, 0.6), o); choice(t, r, "loss").Value != lossSquares {
		t.Errorf("noise: loss %+v", choice(t, r, "loss"))
	}
	for _, bad := range []Options{{Loss: "hinge", Learn: o.Learn}, {Loss: lossMargins, Map: MapRandom, Learn: o.Learn},
		{Loss: lossMargins, Learn: data.LearnOptions{Targets: []string{"class"}, Task: data.Regression}}} {
		if _, _, err := Fit(context.Background(), rule(400, 1, 0), bad); !errors.Is(err, machine.ErrSetup) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Where margins are surely better with columns as they are, scalings, kernels and settings are those of margins: what
// suits squares best there makes as many errors with either loss.
func TestMarginsAreChosenFirst(t *testing.T) {
	o := Options{Learn: data.LearnOptions{Targets: []string{"class"}, Task: data.Classification,
		Categorical: []string{"a", "b", "c", "d", "e", "f"}}, Folds: 1}
	m, r, err := Fit(context.Background(), rule(500, 1, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	got := evaluate(t, m, rule(2000, 2, 0))[0].Value
	t.Logf("accuracy %.4f, %s kernel, scaling %s", got, choice(t, r, "kernel").Value, choice(t, r, "scaling").Value)
	if ch := choice(t, r, "loss"); ch.Value != lossMargins ||
		!strings.Contains(ch.Why, "by more than two standard errors") {
		t.Errorf("loss %+v", ch)
	}
	if got < 0.998 { // fitted widths and a rough kernel, which squares like better, have 0.996
		t.Errorf("accuracy %.4f", got)
	}
}
