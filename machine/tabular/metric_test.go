package tabular

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func ridgeline(n int, seed uint64, w []float64) *numbers {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &numbers{}
	for l := range 10 {
		s.names = append(s.names, fmt.Sprintf("x%d", l))
	}
	s.names = append(s.names, "y")
	for range n {
		row, at := make([]float64, 11), 0.0
		for l := range 10 {
			row[l] = r.NormFloat64()
			if w != nil {
				at += w[l] * row[l]
			}
		}
		row[10] = r.NormFloat64()
		if w != nil {
			row[10] = math.Sin(2*at) + 0.1*row[10]
		}
		s.rows = append(s.rows, row)
	}
	return s
}

var onlyY = data.LearnOptions{Targets: []string{"y"}}

var slanted = []float64{0.6, -0.6, 0.3, 0.3, 0.2, -0.2, 0, 0, 0, 0}

func TestMetricIsTakenWhereItHelps(t *testing.T) {
	t.Parallel()
	fit := func(src data.Source, o Options) (*machine.Model, *Report) {
		m, r, err := Fit(context.Background(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		return m, r
	}
	for seed := range uint64(2) {
		_, r := fit(ridgeline(250, 10+seed, nil), Options{Learn: onlyY, Folds: 2, Scaling: scalingLearned})
		if s := r.Scores[1]; s.Name != "R²" || s.Value > 0.05 {
			t.Errorf("seed %d: %s %g of noise", seed, s.Name, s.Value)
		}
	}
	o := Options{Learn: onlyY, Folds: 1, Scaling: scalingStandard}
	before, _ := mustFit(t, ridgeline(400, 1, slanted), o)
	o.Scaling = ""
	m, r := fit(ridgeline(400, 1, slanted), o)
	if choice(t, r, "metric").Value == "none" || m.Spec.Kernel.M.IsEmpty() {
		t.Fatalf("no metric: %+v", r.Choices)
	}
	other := ridgeline(1000, 2, slanted)
	a, b := evaluate(t, before, other)[1].Value, evaluate(t, m, other)[1].Value
	if b < 0.9 || b < a+0.2 {
		t.Errorf("R² %g with a metric, %g without", b, a)
	}
	if len(r.Metric.Directions) == 0 {
		t.Fatalf("metric %+v", r.Metric)
	}
	d := r.Metric.Directions[0]
	first := d.Columns[0].Name
	if r.Metric.Alike < 0.9 || d.Alike < 0.9 || d.Share < 0.5 || first != "x0" && first != "x1" {
		t.Errorf("metric %+v", r.Metric)
	}
	if m.History == nil || m.History.Metric != r.Metric {
		t.Error("the model does not say what it learned")
	}
}

func TestMetricOfEveryMap(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	w := []float64{1, -1, 0, 0, 0, 0, 0, 0, 0, 0}
	src, other := ridgeline(260, 1, w), ridgeline(500, 2, w)
	for _, o := range []Options{{}, {Map: MapNystrom, Features: 100}, {Map: MapRandom, Features: 128},
		{Kind: machine.KindGP, Features: 64}} {
		o.Learn, o.Folds, o.Scaling, o.Kernel = onlyY, 1, scalingLearned, kernel.Gaussian.String()
		var first []byte
		for _, threads := range []int{1, 3} {
			runtime.GOMAXPROCS(threads)
			m, r := mustFit(t, src, o)
			b := modelBytes(t, m)
			if first == nil {
				first = b
				if m.Spec.Kernel.M.IsEmpty() || choice(t, r, "scaling").Value != scalingLearned {
					t.Errorf("%s%s: no metric", o.Kind, o.Map)
				}
				back, err := machine.Read(b)
				if err != nil {
					t.Fatal(err)
				}
				x, y := evaluate(t, m, other)[1].Value, evaluate(t, back, other)[1].Value
				if x != y || x < 0.6 {
					t.Errorf("%s%s: R² %g, %g from the file", o.Kind, o.Map, x, y)
				}
				if back.History.Metric == nil || back.History.Metric.Kind != r.Metric.Kind {
					t.Errorf("%s%s: the file does not describe the metric", o.Kind, o.Map)
				}
			}
			if !bytes.Equal(b, first) {
				t.Errorf("%s%s: other bytes with %d threads", o.Kind, o.Map, threads)
			}
		}
	}
}

func TestMetricResumes(t *testing.T) {
	o := Options{Learn: onlyY, Folds: 3, Scaling: scalingLearned, Kernel: kernel.Gaussian.String()}
	src := ridgeline(400, 1, slanted)
	want, _ := mustFit(t, src, o)
	o.Checkpoint = filepath.Join(t.TempDir(), "ck")
	ctx, cancel := context.WithCancel(context.Background())
	o.Progress = func(stage string, _, _ int64) {
		if stage == stageFit {
			cancel()
		}
	}
	if _, _, err := Fit(ctx, src, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Progress = nil
	m, r := mustFit(t, src, o)
	if !bytes.Equal(modelBytes(t, m), modelBytes(t, want)) || r.Metric == nil {
		t.Error("other bytes after a stop")
	}
}

func TestMetricRefused(t *testing.T) {
	src := ridgeline(100, 1, slanted)
	for name, o := range map[string]Options{
		"density":   {Kind: machine.KindDensity},
		"bandwidth": {Learn: onlyY, Bandwidth: 1},
	} {
		o.Scaling = scalingLearned
		if _, _, err := Fit(context.Background(), src, o); !errors.Is(err, machine.ErrSetup) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Weights, groups and times have metrics too.
func TestMetricOfMarkedRows(t *testing.T) {
	for name, marks := range map[string]data.MarkColumns{"weights": {Weight: "x9"}, "groups": {Group: "x9"},
		"times": {Time: "x9"}} {
		src, other := ridgeline(400, 1, slanted), ridgeline(1000, 2, slanted)
		for i, row := range src.rows {
			switch row[9] = float64(i); name {
			case "weights":
				row[9] = float64(1 + i%3)
			case "groups":
				row[9] = float64(i / 4)
			}
		}
		r2 := map[string]float64{}
		for _, scaling := range []string{scalingStandard, scalingLearned} {
			m, _ := mustFit(t, src, Options{Learn: onlyY, Scaling: scaling, Marks: marks, Folds: 4})
			if m.Spec.Kernel.M.IsEmpty() != (scaling == scalingStandard) {
				t.Errorf("%s, %s: metric %v", name, scaling, m.Spec.Kernel.M)
			}
			r2[scaling] = evaluate(t, m, other)[1].Value
		}
		if r2[scalingLearned] < r2[scalingStandard]+0.1 {
			t.Errorf("%s: R² %v", name, r2)
		}
	}
}

func TestIntervalsWithMetric(t *testing.T) {
	o := Options{Learn: onlyY, Folds: 4, Scaling: scalingLearned, Kernel: kernel.Gaussian.String()}
	m, r := mustFit(t, ridgeline(420, 4, slanted), o)
	low, high, err := m.Interval(0, 0.9)
	if err != nil {
		t.Fatal(err)
	}
	// The noise has 90 % of its values in an interval of length 0.33, those of all targets 2.1.
	if high-low > 1 {
		t.Errorf("interval from %g to %g; scores %+v", low, high, r.Scores)
	}
	if m.Spec.Kernel.M.IsEmpty() {
		t.Error("no metric")
	}
}

func TestShownNames(t *testing.T) {
	s := &data.Schema{Fields: []data.Field{{Name: "when", Kind: data.Time, Clock: true, Missing: true},
		{Name: "who", Kind: data.Categorical, Levels: []string{"a", "b"}, Code: data.CodeMeans,
			Table: make([]float64, 6), Prior: make([]float64, 3), Missing: true},
		{Name: "k", Kind: data.Categorical, Levels: []string{"u", "v"}, Other: true}}}
	want := "when day,when sin year,when cos year,when sin week,when cos week,when sin day,when cos day,when missing," +
		"who mean 1,who mean 2,who count,who missing,k=u,k=v,k=other"
	if got := strings.Join(shownNames(s), ","); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
