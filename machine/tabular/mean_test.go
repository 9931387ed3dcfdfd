package tabular

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

// A model of few rows predicts the mean of the machines that it lists, and its file keeps all of them. A given kernel,
// bandwidth or λ, margins, and more rows have one machine.
func TestMeanOfMachines(t *testing.T) {
	for target, n := range map[string]int{"y": 120, "class": 250} {
		src, o := waves(n, 31), Options{Learn: learn(target), Folds: 1}
		m, r := mustFit(t, src, o)
		list := m.Spec.Family.(family.Landmarks).Also
		if len(list) < 2 || m.Weights.Rows != n*(1+len(list)) || chosenIn(r, "also") == nil {
			t.Fatalf("%s: further kernels %+v, %d weights, choices %+v", target, list, m.Weights.Rows, r.Choices)
		}
		path := filepath.Join(t.TempDir(), "m.rf")
		if err := m.Save(path); err != nil {
			t.Fatal(err)
		}
		read, err := machine.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		x := dense.New[float64](9, m.Spec.Dim)
		for i := range x.Data {
			x.Data[i] = 2 * math.Sin(float64(3*i+1))
		}
		got, again := raw(t, m, x), raw(t, read, x)
		if !reflect.DeepEqual(got, again) {
			t.Errorf("%s: the file predicts %v, the model %v", target, again, got)
		}
		// Fit every machine alone.
		var also []exactPart
		c, err := begin(job{ctx: context.Background(), src: src, o: must(t, o), weighs: true}, nil, new(journal), nil)
		if err == nil {
			also = c.d.Also
		}
		if err != nil || len(also) != len(list) {
			t.Fatalf("%s: %d further machines, want %d: %v", target, len(also), len(list), err)
		}
		want := dense.New[float64](x.Rows, m.Outputs)
		for i, p := range append([]exactPart{{m.Spec.Kernel.Kind, m.Spec.Kernel.Scale, m.Lambda}}, also...) {
			one, share := Options{Schema: m.Schema, Folds: 1, Kernel: p.Kernel.String(), Bandwidth: p.Scale,
				Lambda: p.Lambda}, alsoShare
			if i == 0 {
				share = 1 - alsoShare*float64(len(also))
			} else if k := list[i-1]; k.Kind != p.Kernel ||
				math.Abs(k.Scale*m.Spec.Kernel.Scale-p.Scale) > 1e-12*p.Scale {
				t.Errorf("%s: kernel %+v of a model of bandwidth %g, want %+v", target, k, m.Spec.Kernel.Scale, p)
			}
			alone, _ := mustFit(t, src, one)
			if list := alone.Spec.Family.(family.Landmarks).Also; len(list) > 0 {
				t.Errorf("%s: a given %v kernel comes with %+v", target, p.Kernel, list)
			}
			addScaled(want, raw(t, alone, x), share)
		}
		for i, v := range want.Data {
			if math.Abs(got.Data[i]-v) > 1e-9 {
				t.Errorf("%s: prediction %d is %g, the mean of the machines is %g", target, i, got.Data[i], v)
			}
		}
	}
	for name, o := range map[string]Options{"λ": {Lambda: 0.1}, "bandwidth": {Bandwidth: 2},
		"margins": {Loss: lossMargins}, "rows": {}} {
		o.Learn, o.Folds = learn("class"), 1
		n := 120
		if name == "rows" {
			n = meanRows
		}
		m, _ := mustFit(t, waves(n, 31), o)
		if list := m.Spec.Family.(family.Landmarks).Also; len(list) > 0 {
			t.Errorf("given %s: further kernels %+v", name, list)
		}
	}
}

// raw predicts without calibration.
func raw(t *testing.T, m *machine.Model, x dense.Matrix[float64]) dense.Matrix[float64] {
	t.Helper()
	plain := *m
	plain.Calibration = nil
	p, err := machine.NewPredictor[float64](&plain)
	if err != nil {
		t.Fatal(err)
	}
	out := dense.New[float64](x.Rows, m.Outputs)
	if err := p.Predict(out, x, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func must(t *testing.T, o Options) Options {
	t.Helper()
	o.Scaling = scalingStandard
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Rows left out are predicted by the mean of all machines without them, and a checkpoint keeps the machines.
func TestLeftOutByTheMean(t *testing.T) {
	src, o := waves(40, 32), Options{Learn: learn("y")}
	c, err := begin(job{ctx: context.Background(), src: src, o: must(t, o), weighs: true}, nil, new(journal), nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fitAll(c, new(journal), nil)
	if err != nil {
		t.Fatal(err)
	}
	left, err := f.exactLeftOut()
	if err != nil || len(left.rows) != 40 || len(c.d.Also) < 2 {
		t.Fatalf("%d rows left out, machines %+v: %v", len(left.rows), c.d.Also, err)
	}
	for i, row := range left.rows {
		at := 0
		for c.s.rows[at] != row {
			at++
		}
		rest := &sample{x: dense.New[float64](39, c.s.x.Cols), y: dense.New[float64](39, c.s.y.Cols)}
		for from, to := 0, 0; from < 40; from++ {
			if from != at {
				copy(rest.x.Row(to), c.s.x.Row(from))
				copy(rest.y.Row(to), c.s.y.Row(from))
				to++
			}
		}
		m, err := f.solveExact(rest, c.d.Spec, c.d.Lambda)
		if err != nil {
			t.Fatal(err)
		}
		// Trials are float32.
		if want := raw(t, m, c.s.x.RowRange(at, at+1)).At(0, 0); math.Abs(left.pred.At(i, 0)-want) > 1e-3 {
			t.Errorf("row %d is predicted as %g, a fit without it gives %g", row, left.pred.At(i, 0), want)
		}
	}
	b, err := json.Marshal(c.d)
	var back decision
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || !reflect.DeepEqual(back.Also, c.d.Also) {
		t.Errorf("a checkpoint keeps %+v of %+v: %v", back.Also, c.d.Also, err)
	}
}

// Features of several kernels have no whitening: sums of them are refused.
func TestSeveralKernelsAreNotSummed(t *testing.T) {
	m, _ := mustFit(t, waves(60, 33), Options{Learn: learn("y"), Folds: 1})
	s := machine.Setup{Spec: m.Spec, Omega: m.Omega, Task: m.Task, Outputs: 1}
	if _, err := machine.NewRidge(s); err == nil {
		t.Error("sums of the features of several kernels are accepted")
	}
}

// Scored folds have the machines of the model, although they have fewer rows.
func TestFoldsAverageAsTheModel(t *testing.T) {
	o := must(t, Options{Learn: learn("y")})
	for _, n := range []int{300, meanRows + 20, meanRows + 200} {
		c, err := begin(job{ctx: context.Background(), src: waves(n, 31), o: o, weighs: true}, nil, new(journal), nil)
		if err != nil {
			t.Fatal(err)
		}
		sub, _, err := withoutFold(c, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if mean := n < meanRows; len(c.d.Also) > 0 != mean || len(sub.d.Also) > 0 != mean {
			t.Errorf("%d rows: the model averages %+v, the model of a fold %+v", n, c.d.Also, sub.d.Also)
		}
	}
}

// Options.Quick averages below leastScaling rows only, also if the choices are made outside a fold.
func TestQuickMean(t *testing.T) {
	for _, n := range []int{leastScaling - 1, leastScaling, leastScaling + 20} {
		m, _ := mustFit(t, waves(n, 31), Options{Learn: learn("y"), Quick: true})
		if list := m.Spec.Family.(family.Landmarks).Also; len(list) > 0 != (n < leastScaling) {
			t.Errorf("%d rows: further kernels %+v", n, list)
		}
	}
}
