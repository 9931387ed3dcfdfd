package tabular

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/kernel"
)

// steps is a table with a step in one column, or with noise that a wide kernel averages best.
func steps(n int, seed uint64, noise bool) *numbers {
	r := rand.New(rand.NewPCG(seed, 5))
	s := &numbers{names: []string{"a", "b", "y"}}
	for range n {
		a, b := r.NormFloat64(), r.NormFloat64()
		y := 0.05 * r.NormFloat64()
		for k := range 6 { // a comb of steps, which few landmarks cannot follow
			if a > float64(k)/2-1.25 {
				y += 1 - 2*float64(k%2)
			}
		}
		if noise {
			y = a + 3*r.NormFloat64()
		}
		s.rows = append(s.rows, []float64{a, b, y})
	}
	return s
}

// Beyond the limit of the exact kernel, a part of the rows with it competes with landmarks of all rows. A target that
// needs many centres takes the first, noise the second. Bytes depend neither on threads nor on an interruption, and the
// stated score is that of rows that nothing has seen.
func TestContest(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	iterativeSmall(t)
	old := exactRows
	t.Cleanup(func() { exactRows = old })
	exactRows = 180 // 540 by conjugate gradients, parts of 450
	for want, noise := range map[string]bool{MapExact: false, MapNystrom: true} {
		src := steps(1000, 3, noise)
		o := Options{Seed: 7, Learn: data.LearnOptions{Targets: []string{"y"}}, Sample: 256, Scaling: scalingStandard}
		if noise {
			o.Kernel = kernel.Laplace.String() // whose landmarks are float32
		}
		m, r := mustFit(t, src, o)
		ch := chosenIn(r, "map")
		if ch.Value != want || len(ch.Trials) != 2 {
			t.Errorf("map %s of %v, want %s", ch.Value, ch.Trials, want)
		}
		exact, rows := m.Weights.Rows == 450, int64(1000)
		if exact {
			rows = 450
		}
		if exact != (want == MapExact) || m.Rows != rows {
			t.Errorf("%s: %d centres of %d rows", want, m.Weights.Rows, m.Rows)
		}
		if r.Rows != 1000 {
			t.Errorf("%s: %d rows reported", want, r.Rows)
		}
		var stated, reached float64
		for _, s := range r.Scores {
			if s.Name == "R²" {
				stated = s.Value
			}
		}
		for _, s := range evaluate(t, m, steps(4000, 77, noise)) {
			if s.Name == "R²" {
				reached = s.Value
			}
		}
		if math.Abs(stated-reached) > 0.1 {
			t.Errorf("%s: R² %.3f stated, %.3f on new rows", want, stated, reached)
		}
		model := modelBytes(t, m)
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			if one, _ := mustFit(t, src, o); !bytes.Equal(modelBytes(t, one), model) {
				t.Errorf("%s: other bytes with one thread", want)
			}
		}()
		o.Checkpoint, o.CheckpointEvery = filepath.Join(t.TempDir(), "c"), time.Nanosecond
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = func(stage string, _, _ int64) {
			if stage == "steps" || stage == stageFit { // of all rows, after the choices
				cancel()
			}
		}
		if _, _, err := Fit(ctx, src, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		o.Progress = nil
		again, r2 := mustFit(t, src, o)
		if !bytes.Equal(modelBytes(t, again), model) || r2.Scores[0] != r.Scores[0] {
			t.Errorf("%s: another model or score after an interruption: %v, %v", want, r2.Scores[0], r.Scores[0])
		}
	}
}

// Classes of large tables take part in the contest, too, with any loss.
func TestContestOfClasses(t *testing.T) {
	iterativeSmall(t)
	old := exactRows
	t.Cleanup(func() { exactRows = old })
	exactRows = 180
	for loss, trials := range map[string]int{"": 2, lossSquares: 2, lossMargins: 0} {
		m, r := mustFit(t, waves(900, 3).csv(t), Options{Seed: 5, Learn: learn("class"), Sample: 256, Loss: loss})
		ch := chosenIn(r, "map")
		if len(ch.Trials) != trials || (m.Weights.Rows == 450) != (ch.Value == MapExact) {
			t.Errorf("loss %q: %d centres, map %s of %v", loss, m.Weights.Rows, ch.Value, ch.Trials)
		}
		a := evaluate(t, m, waves(4000, 77).csv(t))[0]
		if s := r.Scores[0]; a.Value < s.Low || a.Value > s.High {
			t.Errorf("loss %q: %s %.4f on new rows, stated %.4f to %.4f", loss, a.Name, a.Value, s.Low, s.High)
		}
	}
}

// The quarter of a fold that judges a contest and the rest that is scored are disjoint and complete.
func TestContestRows(t *testing.T) {
	s := foldSource{deal: newDealer(3, nil), parts: 5, k: 2, inside: true}
	counts := map[heldPart]int{}
	for i := range int64(10000) {
		in := map[heldPart]bool{}
		for _, p := range []heldPart{heldAll, heldContest, heldScore} {
			s.only = p
			if in[p] = s.has(i); in[p] {
				counts[p]++
			}
		}
		if in[heldAll] != (in[heldContest] || in[heldScore]) || in[heldContest] && in[heldScore] {
			t.Fatalf("row %d: %v", i, in)
		}
	}
	if c := float64(counts[heldContest]) / float64(counts[heldAll]); c < 0.2 || c > 0.3 {
		t.Errorf("%.2f of the rows judge the contest, want a quarter", c)
	}
}

// Few rows that do not tell kernels apart take the roughest; a smooth target takes another.
func TestKernelOfFewRows(t *testing.T) {
	for _, smooth := range []bool{false, true} {
		r := rand.New(rand.NewPCG(4, 4))
		s := &numbers{names: []string{"a", "b", "y"}}
		for range 100 {
			a, b := r.NormFloat64(), r.NormFloat64()
			y := math.Copysign(1, a*b) + r.NormFloat64()/2
			if smooth {
				y = math.Sin(a) + b
			}
			s.rows = append(s.rows, []float64{a, b, y})
		}
		_, rep := mustFit(t, s, Options{Seed: 7, Learn: data.LearnOptions{Targets: []string{"y"}}})
		ch := chosenIn(rep, "kernel")
		if rough := ch.Value == kernel.Matern12.String(); rough == smooth || len(ch.Trials) != 5 {
			t.Errorf("smooth target %v: kernel %s of %v", smooth, ch.Value, ch.Trials)
		}
	}
}
