package tabular

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/internal/metric"
)

// ridgeline is a table of a wave along one direction of several columns; of random targets if w is nil.
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

// Rows left out in closed form are those of fits without them, and the losses those of exactTries.
func TestQuickLeavesOut(t *testing.T) {
	const n, from, outs = 60, 20, 2
	x, y := dense.New[float32](n, 3), dense.New[float32](n, outs)
	src := rng.Stream(5)
	big := make([]float64, n*(3+outs))
	rng.Normals(big, src)
	for i := range x.Data {
		x.Data[i] = float32(big[i])
	}
	for i := range y.Data {
		y.Data[i] = float32(big[len(x.Data)+i])
	}
	for _, kind := range []kernel.Kind{kernel.Gaussian, kernel.Matern12, kernel.Matern32, kernel.Laplace} {
		var q quick
		q.setRows(kind, x, y, nil)
		at := exactPoint{2, 0.1}
		fits, err := q.try([]exactPoint{{1, 0.3}, at}, from)
		if err != nil || len(fits) != 2 {
			t.Fatal(fits, err)
		}
		for _, i := range []int{from, n/2 + 1, n - 1} {
			rest, targets := dense.New[float64](n-1, 3), dense.New[float64](n-1, outs)
			for k, to := 0, 0; k < n; k++ {
				if k != i {
					for l, v := range x.Row(k) {
						rest.Set(to, l, float64(v))
					}
					for l, v := range y.Row(k) {
						targets.Set(to, l, float64(v))
					}
					to++
				}
			}
			s := machine.Setup{Task: machine.Regression, Outputs: outs}
			s.Spec.Kernel, s.Spec.Dim, s.Spec.M = kernel.Kernel{Kind: kind, Scale: at.scale}, 3, n-1
			m, err := machine.FitExact(s, rest, targets, at.lambda)
			if err != nil {
				t.Fatal(err)
			}
			p, err := machine.NewPredictor[float64](m)
			if err != nil {
				t.Fatal(err)
			}
			pred, row := dense.New[float64](1, outs), dense.Convert[float64](x.RowRange(i, i+1))
			if err := p.Predict(pred, row, nil); err != nil {
				t.Fatal(err)
			}
			want := squared(pred.Row(0), dense.Convert[float64](y.RowRange(i, i+1)).Row(0))
			if got := fits[1].loss[i-from]; math.Abs(got-want) > 1e-4*(1+want) {
				t.Errorf("%v: row %d left out: loss %g, %g of a fit without it", kind, i, got, want)
			}
		}
	}
}

// searching is a chooser of a sample with a target that the caller changes.
func searching(t *testing.T, src data.Source) (*chooser, []int) {
	t.Helper()
	c, _ := searched(t, src, Options{Learn: onlyY, Folds: 1})
	return c, c.order()
}

// A metric that rows are judged by knows nothing of their targets: those of one half change no bit of the metric of the
// other, and all of that of their own.
func TestMetricsOfHalvesAreApart(t *testing.T) {
	c, order := searching(t, ridgeline(400, 1, slanted))
	of := &chain{kernel: kernel.Gaussian, kind: metric.FullRoot, rounds: []round{{1, 0.1}, {1, 0.1}, {1, 0.1}}}
	before, err := c.halves(of, order)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range order[len(order)/2:] {
		c.s.t.Row(i)[0] = -c.s.t.At(i, 0) + float64(i%3)
	}
	after, err := c.halves(of, order)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before[0].Data, after[0].Data) {
		t.Error("the metric of one half depends on targets of the other")
	}
	if slices.Equal(before[1].Data, after[1].Data) {
		t.Error("the metric of a half does not depend on its targets")
	}
}

// Where nothing is to be learned the stated score is that of chance, with a metric or without: it is learned inside the
// folds. A wave along a direction has one, and is predicted far better.
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
	if choice(t, r, "scaling").Value != scalingLearned || m.Spec.Kernel.M.IsEmpty() {
		t.Fatalf("no metric: %+v", r.Choices)
	}
	other := ridgeline(1000, 2, slanted)
	a, b := evaluate(t, before, other)[1].Value, evaluate(t, m, other)[1].Value
	if b < 0.9 || b < a+0.2 {
		t.Errorf("R² %g with a metric, %g without", b, a)
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

// Models with a metric come back from their files, for all maps, and are the same at any number of threads.
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

// A fit with a metric that is stopped after its choices goes on with it, also where a fold's choices serve all rows.
func TestMetricResumes(t *testing.T) {
	old, pair := apartRows, sharedRows
	apartRows, sharedRows = 250, 100
	defer func() { apartRows, sharedRows = old, pair }()
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

// Columns of another part of a table are found by what they mean.
func TestCarriedMetric(t *testing.T) {
	from := &data.Schema{Fields: []data.Field{{Name: "a", Kind: data.Numeric, Missing: true},
		{Name: "b", Kind: data.Categorical, Levels: []string{"x", "y"}}}}
	to := &data.Schema{Fields: []data.Field{{Name: "a", Kind: data.Numeric},
		{Name: "b", Kind: data.Categorical, Levels: []string{"y", "z", "x"}}}}
	m := dense.New[float64](5, 5)
	for i := range m.Data {
		m.Data[i] = float64(i)
	}
	got := carried(m, from, to)
	want := dense.New[float64](6, 5) // a, y, z, x, other; z is new
	for i := range 5 {
		for j, k := range []int{0, 3, -1, 2, 4} {
			if k >= 0 {
				want.Set(i, j, m.At(i, k))
			}
		}
	}
	want.Set(5, 2, (0+6+12+18+24)/5.0)
	if got.Rows != 6 || !slices.Equal(got.Data, want.Data) {
		t.Errorf("%v, want %v", got.ToRows(), want.ToRows())
	}
	if same := carried(m, from, from); !slices.Equal(same.Data, m.Data) {
		t.Errorf("%v for the same columns", same.ToRows())
	}
}

// What cannot have a metric says why.
func TestMetricRefused(t *testing.T) {
	src := ridgeline(100, 1, slanted)
	for name, o := range map[string]Options{
		"density":   {Kind: machine.KindDensity},
		"bandwidth": {Learn: onlyY, Bandwidth: 1},
		"weights":   {Learn: onlyY, Marks: data.MarkColumns{Weight: "x1"}},
		"groups":    {Learn: onlyY, Marks: data.MarkColumns{Group: "x1"}},
	} {
		if o.Scaling = scalingLearned; o.Marks.Weight != "" {
			for _, row := range src.rows {
				row[1] = math.Abs(row[1])
			}
		}
		if _, _, err := Fit(context.Background(), src, o); !errors.Is(err, machine.ErrSetup) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Prediction intervals come from rows that are left out in the coordinates of the metric, too.
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

// Encoded columns of one column have names of their own.
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
