package tabular

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/machine"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

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
		if scaling == "" && r.Metric == nil {
			t.Errorf("metric %+v", choice(t, r, "metric"))
		}
		return evaluate(t, m, irrelevant(1000, 2))[1].Value
	}
	chosen, standard := r2(""), r2(scalingStandard)
	t.Logf("R² %.3f; standard %.3f", chosen, standard)
	if chosen < 0.975 || standard > 0.95 {
		t.Errorf("R² %.3f with a column of 250 levels, standard %.3f", chosen, standard)
	}
}

// pixels returns rows of 12 columns of one unit, of which the first two vary most and decide alone.
func pixels(n int, seed uint64) *numbers {
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

func TestScalings(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many searches")
	}
	learn := data.LearnOptions{Targets: []string{"y"}}
	rmse := map[string]float64{}
	for _, scaling := range append(Values("scaling"), "") {
		m, r, err := Fit(context.Background(), pixels(250, 1), Options{Learn: learn, Scaling: scaling, Folds: 1})
		if err != nil {
			t.Fatal(err)
		}
		ch := choice(t, r, "scaling")
		if ch.Given != (scaling != "") || ch.Given && ch.Value != scaling || !ch.Given && len(ch.Trials) < 2 {
			t.Errorf("%q: %+v", scaling, ch)
		}
		rmse[scaling] = evaluate(t, m, pixels(1000, 2))[0].Value
	}
	t.Log(rmse)
	if rmse[""] > 1.1*rmse[scalingCommon] || rmse[scalingCommon] > 0.1*rmse[scalingStandard] {
		t.Errorf("RMSE %v", rmse)
	}
	// Robust and standard scalings are the same up to what the middle half of normal columns says. A metric of the
	// standard scaling finds the two columns.
	if math.Abs(math.Log(rmse[scalingRobust]/rmse[scalingStandard])) > 0.3 ||
		math.Abs(math.Log(rmse[scalingNone]/rmse[scalingCommon])) > 0.1 ||
		rmse[scalingLearned] > 0.2*rmse[scalingStandard] {
		t.Errorf("RMSE %v", rmse)
	}
}

func TestScalingErrors(t *testing.T) {
	schema, _, err := data.Learn(waves(100, 1), learn("y"))
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"unknown": {Scaling: "some", Learn: learn("y")},
		"density": {Scaling: scalingLearned, Learn: learn()}, "schema": {Scaling: scalingCommon, Schema: schema}} {
		if _, _, err := Fit(context.Background(), waves(100, 1), o); !errors.Is(err, machine.ErrSetup) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestScalingIsInTheSchema(t *testing.T) {
	src, o := pixels(250, 1), Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Folds: 1}
	fit := func() *machine.Model {
		m, r, err := Fit(context.Background(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		if ch := choice(t, r, "scaling"); len(ch.Trials) < 2 || ch.Value != scalingCommon {
			t.Errorf("scaling %+v", ch)
		}
		return m
	}
	m := fit()
	if f := m.Schema.Fields; !(f[2].Weight < f[0].Weight/2 && f[2].Weight < f[1].Weight/2) {
		t.Errorf("the third column varies least: %+v", f)
	}
	old := runtime.GOMAXPROCS(1)
	again := fit()
	runtime.GOMAXPROCS(old)
	if !bytes.Equal(modelBytes(t, m), modelBytes(t, again)) {
		t.Error("other bytes with one goroutine")
	}
}

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
