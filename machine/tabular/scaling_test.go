package tabular

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/machine"
)

// The gradient of the evidence is that of its differences.
func TestWidthsGradient(t *testing.T) {
	w := &widths{x: dense.New[float64](40, 4), field: []int{0, 1, 1, 2}}
	rng.Normals(w.x.Data, rng.Stream(1))
	targets := dense.New[float64](40, 2)
	rng.Normals(targets.Data, rng.Stream(2))
	w.t = dense.Convert[float32](targets)
	p := []float64{-0.3, 0.2, -1, -3}
	g, none := make([]float64, 4), make([]float64, 4)
	if _, err := w.evidence(g, p); err != nil {
		t.Fatal(err)
	}
	const h = 3e-3 // of float32: roundings of 1e-5 of a value, over 2h
	for i := range p {
		v := [2]float64{}
		for k, s := range []float64{-h, h} {
			q := append([]float64(nil), p...)
			q[i] += s
			var err error
			if v[k], err = w.evidence(none, q); err != nil {
				t.Fatal(err)
			}
		}
		if d := (v[1] - v[0]) / (2 * h); math.Abs(d-g[i]) > 3e-3*(1+math.Abs(d)) {
			t.Errorf("derivative %d is %g, differences give %g", i, g[i], d)
		}
	}
}

// irrelevant is a table of two numbers that matter and a text of many levels that does not.
func irrelevant(n int, seed uint64) data.Source {
	r := rand.New(rand.NewPCG(seed, 9))
	var b bytes.Buffer
	fmt.Fprintln(&b, "a,b,level,y")
	for range n {
		x, z := r.NormFloat64(), r.NormFloat64()
		fmt.Fprintf(&b, "%.6f,%.6f,L%d,%.6f\n", x, z, r.IntN(250), math.Sin(2*x)+z*z/2+0.1*r.NormFloat64())
	}
	src, err := text.OpenBytes("irrelevant.csv", b.Bytes(), data.Options{})
	if err != nil {
		panic(err)
	}
	return src
}

// A column of 250 levels that does not matter costs next to nothing.
func TestIrrelevantLevels(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several searches")
	}
	// A product over columns minds such a column less: what is compared here is scalings of the Gaussian kernel.
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}, MaxLevels: 250}, Folds: 1, Kernel: "gaussian"}
	r2 := func(scaling string) float64 {
		o.Scaling = scaling
		m, r, err := Fit(context.Background(), irrelevant(500, 1), o)
		if err != nil {
			t.Fatal(err)
		}
		// A metric may be learned of columns that were fitted before.
		if c := choice(t, r, "scaling"); scaling == "" && c.Value != scalingFitted &&
			!strings.Contains(c.Why, "a metric of fitted columns") {
			t.Errorf("scaling %+v", c)
		}
		return evaluate(t, m, irrelevant(1000, 2))[1].Value
	}
	chosen, standard := r2(""), r2(scalingStandard)
	t.Logf("R² %.3f; standard %.3f", chosen, standard)
	if chosen < 0.975 || standard > 0.95 {
		t.Errorf("R² %.3f with a column of 250 levels, standard %.3f", chosen, standard)
	}
}

// Columns of one unit, most of which are noise of small size, want one scale.
func TestScalings(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many searches")
	}
	make := func(n int, seed uint64) *numbers {
		r := rand.New(rand.NewPCG(seed, 7))
		s := &numbers{names: []string{"y"}}
		for j := range 12 {
			s.names = append(s.names, fmt.Sprint("p", j))
		}
		for range n {
			row := []float64{0}
			for j := range 12 {
				v := 0.05 * r.NormFloat64()
				if j < 2 {
					v = 2 * r.Float64()
				}
				row = append(row, v)
			}
			row[0] = math.Sin(2*row[1]) * math.Cos(2*row[2])
			s.rows = append(s.rows, row)
		}
		return s
	}
	learn := data.LearnOptions{Targets: []string{"y"}}
	rmse := map[string]float64{}
	for _, scaling := range append(Values("scaling"), "") {
		m, r, err := Fit(context.Background(), make(250, 1), Options{Learn: learn, Scaling: scaling, Folds: 1})
		if err != nil {
			t.Fatal(err)
		}
		ch := choice(t, r, "scaling")
		if ch.Given != (scaling != "") || ch.Given && ch.Value != scaling || !ch.Given && len(ch.Trials) < 3 {
			t.Errorf("%q: %+v", scaling, ch)
		}
		rmse[scaling] = evaluate(t, m, make(1000, 2))[0].Value
	}
	t.Log(rmse)
	// Fitted widths are better still, but 125 rows do not tell so by two standard errors.
	if rmse[""] > 1.1*rmse[scalingCommon] || max(rmse[scalingCommon], rmse[scalingFitted]) > 0.1*rmse[scalingStandard] {
		t.Errorf("RMSE %v", rmse)
	}
	// Robust and standard scalings are the same up to what the middle half of normal columns says.
	if math.Abs(math.Log(rmse[scalingRobust]/rmse[scalingStandard])) > 0.3 ||
		math.Abs(math.Log(rmse[scalingNone]/rmse[scalingCommon])) > 0.1 {
		t.Errorf("RMSE %v", rmse)
	}
}

func TestScalingErrors(t *testing.T) {
	schema, _, err := data.Learn(waves(100, 1), learn("y"))
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"unknown": {Scaling: "some", Learn: learn("y")},
		"density": {Scaling: scalingFitted, Learn: learn()}, "schema": {Scaling: scalingCommon, Schema: schema}} {
		if _, _, err := Fit(context.Background(), waves(100, 1), o); !errors.Is(err, machine.ErrSetup) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A chosen scaling is that of the model's schema, and the same at any number of goroutines.
func TestScalingIsInTheSchema(t *testing.T) {
	src, o := board(400, 1), Options{Learn: data.LearnOptions{Targets: []string{"class"}}, Folds: 1}
	fit := func() *machine.Model {
		m, r, err := Fit(context.Background(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		if ch := choice(t, r, "scaling"); len(ch.Trials) < 2 || ch.Value != scalingFitted {
			t.Errorf("scaling %+v", ch)
		}
		return m
	}
	m := fit()
	if f := m.Schema.Fields; !(f[2].Weight < f[0].Weight/2 && f[2].Weight < f[1].Weight/2) {
		t.Errorf("the third column does not matter: %+v", f)
	}
	old := runtime.GOMAXPROCS(1)
	again := fit()
	runtime.GOMAXPROCS(old)
	if !bytes.Equal(modelBytes(t, m), modelBytes(t, again)) {
		t.Error("other bytes with one goroutine")
	}
}

// One outlier makes the standard deviation of a column say nothing of its other values: the robust scaling does not
// depend on it, and is chosen where it is better.
func TestRobustScalingOfAnOutlier(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		outliers []float64
		standard bool // the standard scaling does as well: the schema leaves gross outliers out of its scale
	}{
		{"one", []float64{1e7}, true},
		{"three", []float64{1e12, 1e12, 1e12}, true},
		{"a ladder, none gross beside the next", []float64{60, 3e3, 1e5, 3e6, 1e7}, false},
	} {
		src, clean := waves(400, 6), waves(1000, 7)
		for i, v := range c.outliers {
			src.rows[17+i][0] = v
		}
		r2 := func(scaling string) float64 {
			m, _, err := Fit(t.Context(), src, Options{Learn: learn("y"), Scaling: scaling, Folds: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range evaluate(t, m, clean) {
				if s.Name == "R²" {
					return s.Value
				}
			}
			t.Fatal("no R²")
			return 0
		}
		standard, robust, chosen := r2(scalingStandard), r2(scalingRobust), r2("")
		if robust < 0.8 || chosen < 0.8 || (standard >= 0.8) != c.standard {
			t.Errorf("%s: R² %.3f standard, %.3f robust, %.3f chosen", c.name, standard, robust, chosen)
		}
	}
}

// Widths of columns are fitted to more rows where the table is too large for an exact kernel and no part of it is
// scored, as memory allows.
func TestRowsOfWidths(t *testing.T) {
	for _, c := range []struct {
		rows, memory int64
		folds, want  int
	}{{5000, 0, 5, widthRows}, {int64(iterativeLimit * exactRows), 0, 1, widthRows},
		{int64(iterativeLimit*exactRows) + 1, 0, 5, widthRows}, // the exact kernel of a part of the rows
		{int64(iterativeLimit*exactRows) + 1, 0, 1, moreWidthRows}, {1 << 20, 2 << 30, 1, moreWidthRows},
		{1 << 20, leastMemory, 1, 1121}} {
		o, err := Options{Learn: learn("y"), Memory: c.memory, Folds: c.folds}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		j := &job{o: o, schema: &data.Schema{Fields: []data.Field{{Name: "x", Kind: data.Numeric}}}, outputs: 1,
			deal: newDealer(o.Seed, nil)}
		if j.info, err = machine.KindRidge.Info(); err != nil {
			t.Fatal(err)
		}
		if got := j.widthRows(c.rows); got != c.want {
			t.Errorf("%d rows, %d bytes: widths of %d rows, want %d", c.rows, c.memory, got, c.want)
		}
	}
}
