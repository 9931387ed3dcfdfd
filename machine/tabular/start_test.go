package tabular

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startsSmall makes margins of some hundred rows begin at smaller fits.
func startsSmall(t *testing.T) {
	t.Helper()
	iterativeSmall(t)
	old := startedRows
	startedRows = 100
	t.Cleanup(func() { startedRows = old })
}

// Margins begin at the weights of the first scored fit, which begins at those of the learning curve: fewer products
// give a model as good, whatever the number of threads, and after an interruption too.
func TestMarginsStart(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	startsSmall(t)
	src, o := waves(500, 3).csv(t), Options{Seed: 5, Learn: learn("class"), Loss: lossMargins}
	m, r := mustFit(t, src, o)
	model, report := outcome(t, m, r)
	products := func(r *Report) int {
		found := regexp.MustCompile(`gradients: (\d+) products`).FindStringSubmatch(strings.Join(r.Notes, "\n"))
		if found == nil {
			t.Fatalf("notes %q", r.Notes)
		}
		n, _ := strconv.Atoi(found[1])
		return n
	}
	func() {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
		again, _ := mustFit(t, src, o)
		if !bytes.Equal(modelBytes(t, again), model) {
			t.Error("other bytes with three threads")
		}
	}()

	startedRows = 1000
	from0, r0 := mustFit(t, src, o)
	startedRows = 100
	fresh := waves(4000, 77)
	a, b := evaluate(t, m, fresh)[0].Value, evaluate(t, from0, fresh)[0].Value
	if n, n0 := products(r), products(r0); n > n0*3/4 || a < b-0.005 {
		t.Errorf("%d products and accuracy %.4f from a start, %d and %.4f without", n, a, n0, b)
	}

	o.Checkpoint, o.CheckpointEvery = filepath.Join(t.TempDir(), "c"), time.Nanosecond
	ctx, cancel := context.WithCancel(t.Context())
	o.Scaling = scalingStandard
	o.Progress = func(stage string, _, _ int64) {
		if stage == "steps" {
			cancel()
		}
	}
	if _, _, err := Fit(ctx, src, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Progress = nil
	m2, r2, err := Fit(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	if b, rep := outcome(t, m2, r2); !bytes.Equal(b, model) || !bytes.Equal(rep, report) {
		t.Errorf("another model or report after an interruption:\n%s\n%s", report, rep)
	}
}

// A start has the weights of each row of the smaller fit at the same row of the larger one, and 0 at the others.
func TestStartsAreOfTheSameRows(t *testing.T) {
	startsSmall(t)
	o, err := Options{Seed: 2, Learn: learn("class"), Loss: lossMargins, Scaling: scalingStandard}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	src := waves(500, 3)
	c := chosenFor(t, job{ctx: t.Context(), src: src, o: o})
	if err := c.chain(); err != nil {
		t.Fatal(err)
	}
	if c.less == nil || c.less.less == nil {
		t.Fatal("no smaller fits")
	}
	for _, of := range []*chosen{c, c.less} {
		start, err := of.start()
		if err != nil {
			t.Fatal(err)
		}
		m, err := fitFold(of.less)
		if err != nil {
			t.Fatal(err)
		}
		held := map[string]int{} // rows of the smaller model, by what they are in the table
		key := func(row int64) string { return fmt.Sprint(src.rows[row]) }
		for i, row := range of.less.tableRows() {
			held[key(row)] = i
			if got, want := of.less.s.y.At(i, 0), src.rows[row][4]; got != want {
				t.Fatalf("row %d of the part has class %g, row %d of the table has %g", i, got, row, want)
			}
		}
		found := 0
		for i, row := range of.tableRows() {
			if got, want := of.s.y.At(i, 0), src.rows[row][4]; got != want {
				t.Fatalf("row %d of the sample has class %g, row %d of the table has %g", i, got, row, want)
			}
			at, ok := held[key(row)]
			for k, v := range start.Weights.Row(i) {
				want := 0.0
				if ok {
					want = m.Weights.At(at, k)
				}
				if v != want {
					t.Fatalf("row %d starts at %g, want %g", row, v, want)
				}
			}
			if ok {
				found++
			}
		}
		if n := of.less.s.len(); found != n || n >= of.s.len() || n < of.s.len()/3 {
			t.Errorf("%d of %d rows begin at the weights of a fit of %d", found, of.s.len(), n)
		}
	}
}

// Squares have no smaller fits, nor have tables whose scored folds choose for themselves.
func TestOtherFitsStartAtNothing(t *testing.T) {
	startsSmall(t)
	for name, o := range map[string]Options{
		"squares":   {Learn: learn("class"), Loss: lossSquares},
		"one fold":  {Learn: learn("class"), Loss: lossMargins, Folds: 1},
		"own folds": {Learn: learn("class"), Loss: lossMargins},
	} {
		if apartRows = 200; name == "own folds" {
			apartRows = 10000
		}
		o.Scaling = scalingStandard
		o, err := o.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		c := chosenFor(t, job{ctx: t.Context(), src: waves(300, 3), o: o})
		if err := c.chain(); err != nil || c.less != nil {
			t.Errorf("%s: a smaller fit, error %v", name, err)
		}
	}
}
