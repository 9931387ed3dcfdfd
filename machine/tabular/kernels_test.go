package tabular

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// stairs is n rows of two columns and a target with jumps along the axes.
func stairs(n int, seed uint64) *numbers {
	r := rand.New(rand.NewPCG(seed, 4))
	s := &numbers{names: []string{"a", "b", "y"}}
	for range n {
		a, b := r.Float64(), r.Float64()
		s.rows = append(s.rows, []float64{a, b, math.Floor(4*a) + 2*float64(int(4*b)%2) + 0.1*r.NormFloat64()})
	}
	return s
}

// A target with jumps gets a rough kernel, and is predicted better with it; a smooth one keeps the Gaussian kernel.
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

// lattice has classes that depend on a sum of steps of three columns: squares of a Gaussian kernel with a large penalty
// look as good on few rows, errors do not.
func lattice(n int, seed uint64) *numbers {
	r := rand.New(rand.NewPCG(seed, 5))
	s := &numbers{names: []string{"a", "b", "c", "d", "e", "y"}}
	for range n {
		row := make([]float64, 6)
		for j := range 5 {
			row[j] = float64(r.IntN(8))
		}
		row[5] = float64((int(row[0])/3 + int(row[1])/3 + int(row[2])/3) % 3)
		s.rows = append(s.rows, row)
	}
	return s
}

// The Laplace kernel, a product over columns, is found where kernels of distances are all alike.
func TestLaplaceIsFound(t *testing.T) {
	t.Parallel()
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}, Task: data.Classification}, Folds: 1,
		Scaling: scalingStandard, Loss: lossSquares}
	m, r := mustFit(t, lattice(2600, 1), o)
	if ch := choice(t, r, "kernel"); ch.Value != kernel.Laplace.String() || m.Spec.Kernel.Kind != kernel.Laplace {
		t.Errorf("lattice: %+v", ch)
	}
}

// A kernel that few rows do not tell from the Gaussian one is gone on with where more will tell, and only there.
func TestUndecidedKernelsAreConfirmed(t *testing.T) {
	of := func(brier float64, wrong ...int) trial {
		tr := trial{loss: make([]float64, 100), tie: make([]float64, 100)}
		for i := range tr.tie {
			tr.tie[i] = brier + 0.1*float64(i%2)*float64(len(wrong)%2)
		}
		for _, i := range wrong {
			tr.loss[i] = 1
		}
		return tr
	}
	e := &exactSearch{}
	smooth := of(0.5, 1, 2, 3, 4)
	for _, c := range []struct {
		name       string
		other      trial
		last, more bool
	}{
		{"better by far", of(0.3, 1), true, true},
		{"worse squares, fewer errors", of(0.6, 1, 2), false, true},
		{"worse by little", of(0.452, 1, 2, 3, 4, 5), false, true},
		{"worse by far", of(0.6, 1, 2, 3, 4, 5, 6), false, false},
	} {
		last, more := e.worth(smooth, c.other, false), e.worth(smooth, c.other, true)
		if last != c.last || more != c.more {
			t.Errorf("%s: %v by the last rows, %v with more to come", c.name, last, more)
		}
	}
}

// Every kernel can be asked for, with every map that a model may have.
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

// counted counts how often a table is read.
type counted struct {
	*numbers
	opened int
}

func (s *counted) Open(want []data.Kind) (data.Reader, error) {
	s.opened++
	return s.numbers.Open(want)
}

// More features than a factorisation may have: by conjugate gradients, near the exact kernel, and said so.
func TestManyFeatures(t *testing.T) {
	o := Options{Learn: learn("y"), Folds: 1, Features: maxFeatures + 2}
	m, r := mustFit(t, waves(300, 4), o)
	if m.Weights.Rows != maxFeatures+2 || choice(t, r, "features").Number != maxFeatures+2 ||
		!strings.Contains(strings.Join(r.Notes, "\n"), "conjugate gradients") {
		t.Errorf("%d features, notes %q", m.Weights.Rows, r.Notes)
	}
	o.Features, o.Map = 0, MapExact
	o.Bandwidth, o.Lambda, o.Kernel = m.Spec.Kernel.Scale, m.Lambda, m.Spec.Kernel.Kind.String()
	o.Scaling = choice(t, r, "scaling").Value
	exact, _ := mustFit(t, waves(300, 4), o)
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
