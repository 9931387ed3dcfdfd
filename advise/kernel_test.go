package advise

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// rows are normal, with the given standard deviation in column c.
func rows(n, d int, seed uint64, sd func(c int) float64) dense.Matrix[float64] {
	m := dense.New[float64](n, d)
	rng.Normals(m.Data, rng.Stream(seed, 3))
	for i := range m.Data {
		m.Data[i] *= sd(i % d)
	}
	return m
}

func flat(s float64) func(int) float64 { return func(int) float64 { return s } }

func falling(c int) float64 { return 1.5 / float64(1+c) }

var small = Options{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Features: 64, Rows: 32, Draws: 16, Seed: 1}

func TestKernelSaysWhatIsKnown(t *testing.T) {
	ctx := context.Background()
	q, k := rows(200, 12, 1, falling), rows(200, 12, 2, falling)
	r, err := Kernel(ctx, q, k, small)
	if err != nil {
		t.Fatal(err)
	}
	// Directions of different variances are what the adaptive family is for (docs/theory.md §2.18).
	if got := r.Ranking[r.Best]; got.Family != "adaptive" || got.Coupling == "iid" {
		t.Errorf("recommended %s on anisotropic data", got.Name)
	}
	if !strings.Contains(strings.Join(r.Reasons, "\n"), "3 of 12 directions carry 80 % of the variance of your queries") &&
		!strings.Contains(strings.Join(r.Reasons, "\n"), "2 of 12 directions carry 80 % of the variance of your queries") {
		t.Errorf("anisotropy is not among the reasons:\n%s", strings.Join(r.Reasons, "\n"))
	}
	// Small logits: terms of the first order are all that matters, and residual has them exactly (§2.19).
	r, err = Kernel(ctx, rows(200, 12, 1, flat(0.1)), rows(200, 12, 2, flat(0.1)), small)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Ranking[r.Best].Family; got != "residual" {
		t.Errorf("recommended %s on small inputs", got)
	}
	positive := small
	positive.Positive, positive.Brief, positive.Draws = true, true, 4
	r, err = Kernel(ctx, q, k, positive)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Ranking {
		if !c.Positive {
			t.Errorf("%s is not positive", c.Name)
		}
	}
}

// The same bits at any number of threads, through JSON and back.
func TestKernelDeterministic(t *testing.T) {
	q := rows(64, 6, 1, falling)
	o := small
	o.Rows, o.Draws = 16, 8
	o.Kernel.Kind = kernel.Gaussian
	var want []byte
	for _, threads := range []int{1, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		r, err := Kernel(context.Background(), q, dense.Matrix[float64]{}, o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		} else if string(got) != string(want) {
			t.Errorf("%d threads: another report", threads)
		}
		if !r.OneSet || r.Loss != lossAbsolute || r.Spec == nil {
			t.Errorf("a report of one set: %+v", r)
		}
	}
	var back Report
	if err := json.Unmarshal(want, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(back); err != nil || string(again) != string(want) {
		t.Errorf("JSON does not survive: %v", err)
	}
}

func TestKernelTarget(t *testing.T) {
	q, k := rows(120, 8, 1, flat(0.3)), rows(120, 8, 2, flat(0.3))
	o := small
	o.Features, o.Target, o.Brief, o.Families = 0, 0.05, true, []string{"positive", "adaptive"}
	r, err := Kernel(context.Background(), q, k, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Target == nil || !r.Target.Reached || r.Ranking[0].Error > 0.05 {
		t.Fatalf("target %+v, best %+v", r.Target, r.Ranking[0])
	}
	if want := "Use " + r.Ranking[r.Best].Name; !strings.HasPrefix(r.Verdict, want) || r.Useless {
		t.Errorf("verdict %q, want %s", r.Verdict, want)
	}
	far := rows(120, 8, 1, flat(40)) // the kernel is 0 for nearly all pairs: nothing with 16 features is useful
	o.Features, o.Target = 16, 0
	if r, err = Kernel(context.Background(), far, rows(120, 8, 2, flat(40)), o); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Verdict, "Use exact attention: no random features") || !r.Useless {
		t.Errorf("errors of %.2g: %q", r.Ranking[r.Best].Error, r.Verdict)
	}
	o.Features, o.Target = 0, 0.05
	if testing.Short() {
		return
	}
	o.Target = 1e-9
	if r, err = Kernel(context.Background(), q, k, o); err != nil {
		t.Fatal(err)
	}
	if r.Target.Reached || !strings.Contains(strings.Join(r.Reasons, "\n"), "No estimator here reaches your target") {
		t.Errorf("an error of 1e-9: %+v, %v", r.Target, r.Reasons)
	}
}

func TestKernelBadInput(t *testing.T) {
	ctx := context.Background()
	q := rows(30, 4, 1, flat(1))
	none := dense.Matrix[float64]{}
	nan := q.Clone()
	nan.Set(3, 2, math.NaN())
	for name, c := range map[string]struct {
		q, k dense.Matrix[float64]
		o    Options
		want error
	}{
		"nothing":          {none, none, small, dense.ErrShape},
		"NaN":              {nan, q, small, dense.ErrNotFinite},
		"NaN in keys":      {q, nan, small, dense.ErrNotFinite},
		"other columns":    {q, rows(30, 5, 1, flat(1)), small, dense.ErrShape},
		"few rows":         {q.RowRange(0, 7), q, small, errRows},
		"two budgets":      {q, q, Options{Features: 8, Target: 0.1}, ErrOptions},
		"negative target":  {q, q, Options{Target: -1}, ErrOptions},
		"unknown family":   {q, q, Options{Families: []string{"best"}}, ErrOptions},
		"unknown coupling": {q, q, Options{Couplings: []string{"best"}}, ErrOptions},
		"bessel":           {q, q, Options{Kernel: kernel.Kernel{Kind: kernel.Bessel}}, ErrOptions},
		"scale":            {q, q, Options{Kernel: kernel.Kernel{Scale: -1}}, kernel.ErrKernel},
		"loss":             {q, q, Options{Loss: "none"}, ErrOptions},
		"draws":            {q, q, Options{Draws: 1}, ErrOptions},
		"measure":          {q, q, Options{Measure: "luck"}, ErrOptions},
		"equal rows":       {dense.New[float64](30, 4), none, small, errRows},
		"no keys":          {q, dense.New[float64](0, 4), small, dense.ErrShape},
	} {
		if r, err := Kernel(ctx, c.q, c.k, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Kernel(done, q, q, small); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// Enormous rows and rows that are zero but for one are answered, with numbers that JSON has.
	huge, one := rows(30, 4, 1, flat(1e80)), dense.New[float64](30, 4)
	one.Set(0, 0, 1e-9)
	for name, x := range map[string]dense.Matrix[float64]{"almost zeros": one, "huge": huge} {
		r, err := Kernel(ctx, x, x, Options{Features: 16, Rows: 8, Draws: 4})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, err = json.Marshal(r); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if text := strings.Join(r.Reasons, " "); strings.Contains(text, "Inf") || strings.Contains(text, "NaN") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
