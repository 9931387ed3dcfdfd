package machine_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// plane is an exact kernel that has learned y = 3a − 2b from a grid that is dense and wide: nearly linear within.
// Columns a and b are independent, so the contribution of a is 3(a − mean a), in closed form.
func plane(t *testing.T) (*machine.Model, dense.Matrix[float64]) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	n := 300
	x, y := dense.New[float64](n, 2), dense.New[float64](n, 1)
	for i := range n {
		x.Set(i, 0, 2*rng.Float64()-1)
		x.Set(i, 1, 2*rng.Float64()-1)
		y.Set(i, 0, 3*x.At(i, 0)-2*x.At(i, 1))
	}
	spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Gaussian, Scale: 3}, Dim: 2, M: n,
		Family: family.Landmarks{}}
	m, err := machine.FitExact(machine.Setup{Spec: spec, Task: machine.Regression, Outputs: 1}, x, y, 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	m.Schema = &data.Schema{Fields: []data.Field{{Name: "a", Kind: data.Numeric, Mean: 10, Scale: 5},
		{Name: "b", Kind: data.Numeric, Scale: 1}}, Targets: []data.Target{{Name: "y", Scale: 1}}}
	return m, x
}

func TestPartialDependenceOfAPlane(t *testing.T) {
	m, x := plane(t)
	d, err := m.PartialDependence(context.Background(), x, "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	b := 0.0
	for i := range x.Rows {
		b += x.At(i, 1) / float64(x.Rows)
	}
	share := 0.0
	for _, p := range d.Points {
		want := 3*(*p.Value-10)/5 - 2*b
		if math.Abs(p.Mean-want) > 0.01 || !(p.Low < p.Mean && p.Mean < p.High) {
			t.Errorf("at %s: %+v, want %g", p.Label, p, want)
		}
		share += p.Share
	}
	if len(d.Points) != 25 || math.Abs(share-1) > 1e-9 || d.Output != "y" || d.Rows != 300 {
		t.Errorf("%d points, shares %g, output %q", len(d.Points), share, d.Output)
	}
	if _, err := m.PartialDependence(context.Background(), x, "c", 0); !errors.Is(err, machine.ErrSetup) {
		t.Error(err)
	}
}

// Contributions of an additive model are known: each interval must hold the truth, but for 5 % of them, and parts add
// up.
func TestContributionsOfAPlane(t *testing.T) {
	m, x := plane(t)
	mean := [2]float64{}
	for i := range x.Rows {
		mean[0] += x.At(i, 0) / float64(x.Rows)
		mean[1] += x.At(i, 1) / float64(x.Rows)
	}
	held, all := 0, 0
	for i := range 60 {
		e, err := m.Contributions(context.Background(), slices.Clone(x.Row(i)), x, 0,
			machine.ExplainOptions{Orders: 60, Seed: uint64(i)})
		if err != nil {
			t.Fatal(err)
		}
		sum := e.Mean
		for _, p := range e.Parts {
			want := 3 * (x.At(i, 0) - mean[0])
			if p.Column == "b" {
				want = -2 * (x.At(i, 1) - mean[1])
			}
			if p.Low <= want && want <= p.High {
				held++
			}
			all++
			sum += p.Part
		}
		if math.Abs(sum-e.Prediction) > 1e-9 {
			t.Errorf("row %d: mean and parts sum to %g, the prediction is %g", i, sum, e.Prediction)
		}
	}
	// 120 intervals of 95 %, two of a row hanging together: 114 ± 2.4·√2.
	if held < 102 || held == all {
		t.Errorf("%d of %d intervals hold the truth", held, all)
	}
}

func TestNeighbours(t *testing.T) {
	m, x := plane(t)
	got, err := m.Neighbours(x.Row(7), 3)
	if err != nil || len(got) != 3 {
		t.Fatal(err, got)
	}
	if math.Abs(got[0].Similarity-1) > 1e-12 || got[1].Similarity > got[0].Similarity || got[0].Values["a"] == "" {
		t.Errorf("%+v", got)
	}
	plain := got[0].Values
	mix := dense.MustFromRows([][]float64{{2, 0.5}, {-1, 3}})
	for name, metric := range map[string]dense.Matrix[float64]{"full": mix, "rank 1": mix.RowRange(0, 1)} {
		learned := *m
		learned.Spec.Kernel.M = metric
		rows := m.Omega[0].Rows
		learned.Omega = []coupling.Omega{{Rows: dense.New[float64](rows.Rows, metric.Rows)}}
		for i := range rows.Rows {
			for j := range metric.Rows {
				learned.Omega[0].Rows.Set(i, j, dense.Dot(metric.Row(j), rows.Row(i)))
			}
		}
		near, err := learned.Neighbours(x.Row(7), 1)
		if err != nil || near[0].Similarity < 1-1e-9 {
			t.Fatal(name, err, near)
		}
		if full := maps.Equal(near[0].Values, plain); full != (name == "full") || !full && len(near[0].Values) > 0 {
			t.Errorf("under a metric of %s: %v, want %v", name, near[0].Values, plain)
		}
	}
	spec := randfeat.Spec{Family: family.Trig{}, Coupling: coupling.Orthogonal{}, Dim: 2, M: 8, Seed: 1}
	sums, err := machine.NewSums(machine.KindRidge, machine.Setup{Spec: spec, Task: machine.Regression, Outputs: 1})
	if err != nil {
		t.Fatal(err)
	}
	y := dense.New[float64](x.Rows, 1)
	if err := sums.Add(x, y); err != nil {
		t.Fatal(err)
	}
	random, err := sums.Model(1)
	if err != nil {
		t.Fatal(err)
	}
	random.Schema = m.Schema
	if _, err := random.Neighbours(x.Row(7), 3); !errors.Is(err, machine.ErrSetup) {
		t.Errorf("random features: %v", err)
	}
}
