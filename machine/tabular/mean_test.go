package tabular

import (
	"context"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
	"math"
	"path/filepath"
	"reflect"
	"testing"
)

func TestMeanOfMachines(t *testing.T) {
	means := 0
	for _, n := range []int{50, 90, 120, 250, 300} {
		target := "class"
		src, o := waves(n, 31), Options{Learn: learn(target), Folds: 1}
		m, r := mustFit(t, src, o)
		list := m.Spec.Family.(family.Landmarks).Also
		if len(list) == 0 {
			continue // one machine is clearly better
		}
		means++
		if m.Weights.Rows%(1+len(list)) != 0 || chosenIn(r, "also") == nil {
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
		var also []member
		c, err := begin(job{ctx: context.Background(), src: src, o: must(t, o), weighs: true}, new(journal), nil)
		if err == nil {
			also = c.d.Members[1:]
		}
		if err != nil || len(also) != len(list) {
			t.Fatalf("%s: %d further machines, want %d: %v", target, len(also), len(list), err)
		}
		want := dense.New[float64](x.Rows, m.Outputs)
		for i, p := range c.d.Members {
			scale := m.Spec.Kernel.Scale
			if i > 0 {
				scale *= list[i-1].Scale
			}
			one := Options{Schema: m.Schema, Folds: 1, Kernel: p.Kernel.String(), Bandwidth: scale, Lambda: p.Lambda}
			alone, _ := mustFit(t, src, one)
			if list := alone.Spec.Family.(family.Landmarks).Also; len(list) > 0 {
				t.Errorf("%s: a given %v kernel comes with %+v", target, p.Kernel, list)
			}
			addScaled(want, raw(t, alone, x), p.Share)
		}
		for i, v := range want.Data {
			if math.Abs(got.Data[i]-v) > 1e-9 {
				t.Errorf("%s: prediction %d is %g, the mean of the machines is %g", target, i, got.Data[i], v)
			}
		}
	}
	if means == 0 {
		t.Error("no table has a mean")
	}
	for name, o := range map[string]Options{"λ": {Lambda: 0.1}, "bandwidth": {Bandwidth: 2},
		"margins": {Loss: lossMargins}, "rows": {}} {
		o.Learn, o.Folds = learn("class"), 1
		n := 120
		if name == "rows" {
			n = meanRows + 50
		}
		m, _ := mustFit(t, waves(n, 31), o)
		if list := m.Spec.Family.(family.Landmarks).Also; len(list) > 0 {
			t.Errorf("given %s: further kernels %+v", name, list)
		}
	}
}

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
