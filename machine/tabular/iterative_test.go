package tabular

import (
	"bytes"
	"context"
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// iterativeSmall makes tables of some hundred rows large ones.
func iterativeSmall(t *testing.T) {
	t.Helper()
	rows, apart := iterativeRows, apartRows
	first, more, judged := farFirst, farRows, farJudged
	iterativeRows, apartRows = 200, 200
	farFirst, farRows, farJudged = 100, 200, 100
	t.Cleanup(func() {
		iterativeRows, apartRows = rows, apart
		farFirst, farRows, farJudged = first, more, judged
	})
}

// A fit by conjugate gradients is the direct one of its settings, whatever the number of threads; its stated score is
// that of rows that it has not seen; and one that was interrupted ends with the same bytes.
func TestIterativeFit(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	iterativeSmall(t)
	for _, target := range []string{"y", "class"} {
		src, o := waves(400, 3).csv(t), Options{Seed: 5, Learn: learn(target)}
		m, r := mustFit(t, src, o)
		if m.Weights.Rows != 400 || !strings.Contains(strings.Join(r.Notes, "\n"), "conjugate gradients") {
			t.Errorf("%s: %d centres of 400 rows, notes %q", target, m.Weights.Rows, r.Notes)
		}
		model, report := outcome(t, m, r)
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			one, _ := mustFit(t, src, o)
			if b := modelBytes(t, one); !bytes.Equal(b, model) {
				t.Errorf("%s: other bytes with one thread", target)
			}
		}()
		iterativeRows = 10000
		given := o
		given.Kernel, given.Bandwidth, given.Lambda = m.Spec.Kernel.Kind.String(), m.Spec.Kernel.Scale, m.Lambda
		if ch := chosenIn(r, "loss"); ch != nil {
			given.Loss = ch.Value
		}
		given.Folds = 1
		direct, _ := mustFit(t, src, given)
		iterativeRows = 200
		fresh := waves(4000, 77).csv(t)
		a, b := evaluate(t, m, fresh)[0], evaluate(t, direct, fresh)[0]
		if math.Abs(a.Value-b.Value) > 0.005 {
			t.Errorf("%s: %s %.4f on new rows, %.4f by the direct fit", target, a.Name, a.Value, b.Value)
		}
		if s := r.Scores[0]; a.Value < s.Low || a.Value > s.High {
			t.Errorf("%s: %s %.4f on new rows, stated %.4f to %.4f", target, a.Name, a.Value, s.Low, s.High)
		}
		// Interrupted in the fit of all rows, after the choices.
		o.Scaling, o.Checkpoint, o.CheckpointEvery = scalingStandard, filepath.Join(t.TempDir(), "c"), time.Nanosecond
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = func(stage string, _, _ int64) {
			if stage == "steps" {
				cancel()
			}
		}
		if _, _, err := Fit(ctx, src, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		o.Progress = nil
		again, rep, err := Fit(t.Context(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		if m2, r2 := outcome(t, again, rep); !bytes.Equal(m2, model) || !bytes.Equal(r2, report) {
			t.Errorf("%s: another model or report after an interruption:\n%s\n%s", target, report, r2)
		}
	}
}

// unsearched is a fit with settings that were given, as if they were open.
func unsearched(t *testing.T, src data.Source) *chosen {
	t.Helper()
	o, err := Options{Seed: 1, Folds: 1, Learn: data.LearnOptions{Targets: []string{"y"}}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	o.Bandwidth, o.Lambda = 1, 1
	f := chosenFor(t, job{ctx: t.Context(), src: src, o: o})
	f.o.Bandwidth, f.o.Lambda = 0, 0
	return f
}

// A far search goes from a bad setting to a better one, and what it compares is the loss of the direct fit.
func TestFarSearch(t *testing.T) {
	iterativeSmall(t)
	f := unsearched(t, stairs(700, 1))
	c := &chooser{f: &search{job: f.job}, s: f.s, d: &decision{}}
	s := &far{c: c, order: shuffled(700, 1)}
	s.take(300)
	start := farPoint{kind: kernel.Laplace, at: exactPoint{2, 10}}
	top, err := s.descend(start, farDescent...)
	if err != nil {
		t.Fatal(err)
	}
	first := s.all[s.find(start)]
	if !(mean(top.loss) < 0.9*mean(first.loss)) || !(top.at.lambda < start.at.lambda) {
		t.Errorf("from %v with loss %.4f to %v with %.4f", start.at, mean(first.loss), top.at, mean(top.loss))
	}
	x, z := s.x.RowRange(0, s.rows), s.x.RowRange(s.rows, s.x.Rows)
	spec := top.spec
	spec.Dim, spec.M, spec.Family = x.Cols, x.Rows, f.d.Spec.Family
	m, err := machine.FitExact(machine.Setup{Spec: spec, Task: machine.Regression, Outputs: 1}, x,
		s.t.RowRange(0, s.rows), top.at.lambda)
	if err != nil {
		t.Fatal(err)
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		t.Fatal(err)
	}
	pred, truth := dense.New[float64](z.Rows, 1), s.t.RowRange(s.rows, s.x.Rows)
	if err := p.Predict(pred, z, nil); err != nil {
		t.Fatal(err)
	}
	var direct trial
	judgeAll(machine.Regression, &direct, pred, truth, truth)
	if a, b := mean(direct.loss), mean(top.loss); math.Abs(a-b) > 0.01*a {
		t.Errorf("loss %.5f by the direct fit, %.5f by conjugate gradients", a, b)
	}
}

// A quick fit chooses once and scores one fold, whose rows it has not seen.
func TestQuick(t *testing.T) {
	m, r := mustFit(t, waves(500, 1), Options{Learn: learn("y"), Quick: true})
	if r.ScoredOn != "100 rows in 1 of 5 folds; each fold was predicted without its rows" {
		t.Errorf("scored on %q", r.ScoredOn)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.HasPrefix(n, "quick: ") }) {
		t.Errorf("notes %q do not say what a quick fit leaves out", r.Notes)
	}
	_, slow := mustFit(t, waves(500, 1), Options{Learn: learn("y")})
	if s := evaluate(t, m, waves(3000, 9))[0]; s.Value > 1.05*slow.Scores[0].Value {
		t.Errorf("%s %.3f of a quick fit, %.3f of another", s.Name, s.Value, slow.Scores[0].Value)
	}
}

// A λ near 0 of a kernel with a peak is raised to one that conjugate gradients solve where that is no worse, and stays
// where the target is smooth and has no noise. One that is large enough stays, and one of a smooth kernel.
func TestLift(t *testing.T) {
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Folds: 1}
	for _, c := range []struct {
		name   string
		src    *numbers
		kind   kernel.Kind
		scale  float64
		lambda float64
		want   bool
	}{
		{"noise", repeats(conjugateRows+100, 1), kernel.Matern12, 2, 1e-7, true},
		{"laplace", repeats(conjugateRows+100, 1), kernel.Laplace, 2, 1e-7, true},
		{"no noise", sines(conjugateRows+100, 1, false, sumOfSines), kernel.Matern12, 1000, 1e-7, false},
		{"large enough", repeats(conjugateRows+100, 1), kernel.Matern12, 2, 2.2e-5, false},
		{"few rows", repeats(conjugateRows-1, 1), kernel.Matern12, 2, 1e-7, false},
		{"smooth", repeats(conjugateRows+100, 1), kernel.Gaussian, 2, 1e-5, false},
	} {
		of, order := searched(t, c.src, o)
		e := of.exactSearch(order)
		e.at = exactPoint{c.scale, c.lambda}
		if err := e.rows(firstRows); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.tries.take(c.kind), e.try([]exactPoint{e.at}), e.lift()); err != nil {
			t.Fatal(err)
		}
		if got := e.at.lambda > c.lambda; got != c.want {
			t.Errorf("%s: λ = %g becomes %g", c.name, c.lambda, e.at.lambda)
		}
		if n := len(order); c.want && e.at.lambda < solvablePenalty(c.kind, n*5/4) {
			t.Errorf("%s: λ = %g of %d rows is too small for conjugate gradients", c.name, e.at.lambda, n)
		}
	}
}

// Conjugate gradients solve smaller penalties of a kernel with a peak than of a smooth one.
func TestPeaksAreSolvable(t *testing.T) {
	const n = conjugateRows
	lambda := 0x1p-25 * n
	for _, kind := range []kernel.Kind{kernel.Matern12, kernel.Laplace, kernel.Gaussian} {
		o := Options{Seed: 1, Folds: 1, Learn: data.LearnOptions{Targets: []string{"y"}}, Kernel: kind.String(),
			Bandwidth: 2, Lambda: lambda}
		o, err := o.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		f := &final{chosen: chosenFor(t, job{ctx: t.Context(), src: repeats(n, 1), o: o}), log: new(journal)}
		want := kind != kernel.Gaussian
		if got := f.conjugates(n, lambda); got != want {
			t.Errorf("%v, λ = %g: conjugate gradients %t, want %t", kind, lambda, got, want)
		}
		if !want {
			continue
		}
		f.d.Missed = 0.5
		m, err := f.fitIterative(f.setup(f.d.Spec), f.s.x, f.s.y, lambda)
		if err != nil || m == nil {
			t.Errorf("%v, λ = %g: not solved by conjugate gradients: %v, notes %q", kind, lambda, err, f.log.notes)
		}
	}
}

// The products before a factorisation grow with the rows, as the time of a factorisation does beside that of a product.
func TestFewProducts(t *testing.T) {
	for n, want := range map[int]int{2000: 40, 4000: 40, 10000: 100} {
		if got := fewProducts(n); got != want {
			t.Errorf("%d products for %d rows, want %d", got, n, want)
		}
	}
}

// A quick fit leaves kernels that its probe tries on more rows to the probe, and takes one that is far better there.
func TestQuickProbes(t *testing.T) {
	for _, c := range []struct {
		rows            int
		quick           bool
		matern, laplace bool
	}{{600, true, false, false}, {800, true, true, false}, {2100, true, true, true}, {2100, false, false, false},
		{thinRows, true, false, false}} {
		o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Folds: 1, Quick: c.quick}
		of, order := searched(t, repeats(c.rows, 1), o)
		e := of.exactSearch(order)
		e.open = true
		if a, b := e.probes(kernel.Matern12), e.probes(kernel.Laplace); a != c.matern || b != c.laplace ||
			e.probes(kernel.Matern32) {
			t.Errorf("%d rows, quick %t: matern12 left to a probe %t, laplace %t", c.rows, c.quick, a, b)
		}
	}
	_, r := mustFit(t, repeats(2100, 1), Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Quick: true})
	if ch := choice(t, r, "kernel"); ch.Value != kernel.Matern12.String() && ch.Value != kernel.Laplace.String() {
		t.Errorf("kernel %s, because %s", ch.Value, ch.Why)
	}
}
