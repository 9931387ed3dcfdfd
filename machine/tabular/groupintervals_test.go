package tabular

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// devices is a table of three devices whose errors have standard deviations 0.1, 0.5 and 2, and a rare fourth.
func devices(n int, seed uint64) *numbers {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &numbers{names: []string{"device", "x", "y"}}
	for i := range n {
		d, x := i%3, rng.NormFloat64()
		if i%100 == 99 {
			d = 3
		}
		sd := []float64{0.1, 0.5, 2, 1}[d]
		s.rows = append(s.rows, []float64{float64(d), x, x + sd*rng.NormFloat64()})
	}
	return s
}

// TestIntervalsByGroupCover: on fresh rows, intervals by group hold 90 % of the observations of every group. Intervals
// of all rows hold nearly all of the first and too few of the third.
func TestIntervalsByGroupCover(t *testing.T) {
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}, Categorical: []string{"device"}}, Seed: 1,
		IntervalBy: "device", Bandwidth: 3, Lambda: 1}
	m, r, err := Fit(context.Background(), devices(900, 1), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(r.Notes, " "), "1 of the 4 levels of device have fewer than 19 rows") {
		t.Errorf("notes %q", r.Notes)
	}
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if m, err = machine.Read(b.Bytes()); err != nil { // as a file keeps it
		t.Fatal(err)
	}
	fresh := devices(9000, 2)
	held := func(m *machine.Model) map[string]float64 {
		rows, err := machine.ModelRows(fresh, m, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := machine.NewPredictor[float64](m)
		if err != nil {
			t.Fatal(err)
		}
		c := m.GroupCoverage()
		var ws machine.Workspace[float64]
		err = rows.Each(1000, func(x, y dense.Matrix[float64]) error {
			pred := dense.New[float64](x.Rows, 1)
			if err := p.Predict(pred, x, &ws); err != nil {
				return err
			}
			return c.Add(x, y, pred, dense.Matrix[float64]{})
		})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, s := range c.Scores() {
			out[s.Group] = s.Covered.Value
		}
		return out
	}
	// Limits of about 300 residuals hold 0.9 with a standard deviation of √(0.09/300) = 0.017, 3000 fresh rows of a
	// group are counted with 0.005.
	got := held(m)
	for _, group := range []string{"0", "1", "2"} {
		if math.Abs(got[group]-0.9) > 0.07 {
			t.Errorf("group %s: %.3f of fresh rows are covered", group, got[group])
		}
	}
	pooled := *m
	pooled.GroupResiduals = m.GroupResiduals.Clone()
	for i := range pooled.GroupResiduals.Rows {
		copy(pooled.GroupResiduals.Row(i), m.Residuals.Row(i%2))
	}
	if all := held(&pooled); all["0"] < 0.99 || all["2"] > 0.83 {
		t.Errorf("intervals of all rows cover %v: this table cannot tell", all)
	}
	if got["3"] == 0 {
		t.Error("a rare group has no intervals")
	}
}

func TestIntervalByErrors(t *testing.T) {
	src := devices(300, 3)
	for want, o := range map[string]Options{
		"does not predict from it": {Learn: data.LearnOptions{Targets: []string{"y"}}, IntervalBy: "z"},
		"name it as categorical":   {Learn: data.LearnOptions{Targets: []string{"y"}}, IntervalBy: "x"},
		"more than 1 fold": {Learn: data.LearnOptions{Targets: []string{"y"}, Categorical: []string{"device"}},
			Folds: 1, IntervalBy: "device"},
		"those of a regression": {Learn: data.LearnOptions{Targets: []string{"device"}}, IntervalBy: "x"},
	} {
		if _, _, err := Fit(context.Background(), src, o); err == nil || !strings.Contains(err.Error(), want) ||
			!errors.Is(err, machine.ErrSetup) {
			t.Errorf("%s: %v", want, err)
		}
	}
	schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Choose(context.Background(), Table{Schema: schema}, Options{IntervalBy: "device"}); err == nil ||
		!strings.Contains(err.Error(), "rows in one place") {
		t.Error(err)
	}
}
