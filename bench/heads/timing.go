package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/internal/kern"
)

// runTime prints the tables of seconds: exact attention and the choice of choose.Choose, made on one text and timed on
// another, bidirectional, causal and token by token.
func runTime(c *config) error {
	fmt.Printf("%s, %d processors; medians of interleaved rounds; errors |ô−o|/|o| on another text than the choice has"+
		" seen\n\n", kern.Best[float32]().Name, runtime.NumCPU())
	fmt.Println("| heads | tokens | threads | exact, ms | chosen, ms | exact / chosen | error, worst | mean | exact heads " +
		"| keys of a row | choosing, share of an exact pass | exact, GFLOP/s |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, model := range c.models {
		cal, err := sampleHeads(c, model, "cal")
		if err != nil {
			return err
		}
		test, err := sampleHeads(c, model, "test")
		if err != nil {
			return err
		}
		for _, n := range c.lengths {
			if n > test.q.Len {
				continue
			}
			heads := test.k.Heads
			sample := cal.texts(n)
			choice, seconds, err := timeChoice(c, model, sample)
			if err != nil {
				return err
			}
			for _, threads := range c.threads {
				runtime.GOMAXPROCS(threads)
				each := seconds / float64(sample.q.Batch)
				if err := timeForward(c, model, choice, each, test.cutTo(heads, n), threads); err != nil {
					return err
				}
				if model == "smollm2" && n >= 2048 {
					if err := timeDecode(c, choice, test.cutTo(heads, n), threads); err != nil {
						return err
					}
				}
			}
			runtime.GOMAXPROCS(c.threads[0])
		}
	}
	return nil
}

// timeChoice makes the choice for one length, or reads one that was made before, and says how long it took, rates
// apart.
func timeChoice(c *config, model string, in headInputs) (*choose.Choice, float64, error) {
	path := ""
	if c.choices != "" {
		path = filepath.Join(c.choices, fmt.Sprintf("%s_%d.json", model, in.q.Len))
		if b, err := os.ReadFile(path); err == nil {
			choice := new(choose.Choice)
			return choice, math.NaN(), json.Unmarshal(b, choice)
		}
	}
	causal := model == "smollm2"
	rates, err := choose.MeasureRates[float32](causal, false, in.k.Len, in.q.Dim, in.v.Dim)
	if err != nil {
		return nil, 0, err
	}
	start := time.Now()
	choice, err := choose.Choose(choose.Options{Tol: c.tol, Rates: rates, Seed: 1},
		attention.Visibility{Causal: causal}, 0, in.q, in.k, in.v)
	seconds := time.Since(start).Seconds()
	if err != nil || path == "" {
		return choice, seconds, err
	}
	b, err := json.Marshal(choice)
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	return choice, seconds, err
}

// calibrationTexts is the number of texts of n tokens of all that a bidirectional choice is made on: joined passages
// have no beginning, so that a part of them is as good a text as the whole.
func calibrationTexts(all, n int) int { return max(1, min(4, all/n)) }

// texts are parts of n tokens of a sample of joined passages, one per batch entry, or the first n tokens of a causal
// text.
func (in headInputs) texts(n int) headInputs {
	if in.q.Heads > in.k.Heads {
		return in.cutTo(in.k.Heads, n)
	}
	for _, s := range []*seq{&in.q, &in.k, &in.v} {
		s.Batch, s.StrideB, s.Len = calibrationTexts(s.Len, n), n*s.StrideL, n
	}
	return in
}

// medians times functions one after the other, round by round.
func medians(rounds int, list ...func() error) ([]float64, error) {
	times := make([][]float64, len(list))
	for r := range rounds + 1 {
		for i, f := range list {
			start := time.Now()
			if err := f(); err != nil {
				return nil, err
			}
			if r > 0 { // the first warms up
				times[i] = append(times[i], time.Since(start).Seconds())
			}
		}
	}
	out := make([]float64, len(list))
	for i := range out {
		slices.Sort(times[i])
		out[i] = times[i][len(times[i])/2]
	}
	return out, nil
}

func timeForward(c *config, model string, choice *choose.Choice, choosing float64, in headInputs, threads int) error {
	a, err := choose.New[float32](choice)
	if err != nil {
		return err
	}
	ex := &attention.Exact[float32]{Visibility: attention.Visibility{Causal: choice.Causal}}
	out := attention.NewSeq[float32](1, in.q.Heads, in.q.Len, in.v.Dim)
	want := attention.NewSeq[float32](1, in.q.Heads, in.q.Len, in.v.Dim)
	var report attention.Report
	t, err := medians(c.rounds,
		func() error { _, err := ex.Forward(want, in.q, in.k, in.v); return err },
		func() (err error) { report, err = a.Forward(out, in.q, in.k, in.v); return err })
	if err != nil {
		return err
	}
	errs := headErrors(out, want)
	same := 0
	for _, h := range choice.Heads {
		if h.Method == choose.Exact {
			same++
		}
	}
	pairs := float64(in.q.Len) * float64(in.k.Len)
	if choice.Causal {
		pairs /= 2
	}
	flops := 2 * pairs * float64(in.q.Dim+in.v.Dim) * float64(in.q.Heads)
	var mean float64
	for _, e := range errs {
		mean += e / float64(len(errs))
	}
	share := "–"
	if !math.IsNaN(choosing) {
		share = fmt.Sprintf("%.2f", choosing/t[0])
	}
	kind := "bidirectional"
	if choice.Causal {
		kind = "causal"
	}
	fmt.Printf("| %s, %d query heads on %d, %s | %d | %d | %.2f | %.2f | %.2f | %.3f | %.3f | %d of %d | %.0f | %s | %.0f |\n",
		model, in.q.Heads, in.k.Heads, kind, in.q.Len, threads, 1e3*t[0], 1e3*t[1], t[0]/t[1], slices.Max(errs), mean,
		same, len(choice.Heads), float64(report.Exact)/float64(max(1, report.Rows)), share, flops/t[0]/1e9)
	for h, p := range choice.Heads {
		c.log("%s %d head %d: %v, expected error %.3f, at most %.3f", model, in.q.Len, h, p.Plan, p.Expected.Error,
			p.Expected.High)
	}
	return nil
}

// decodeSteps tokens are decoded one by one at the end of the text.
const decodeSteps = 32

// timeDecode compares one token at a time: exact attention over all keys, and a cache.
func timeDecode(c *config, choice *choose.Choice, in headInputs, threads int) error {
	n := in.q.Len - decodeSteps
	specs := make([]centroid.Spec, len(choice.Heads))
	for h := range specs {
		specs[h] = decodeSpec
		if p := choice.Heads[h].Centroid; p != nil && p.Chunk > 0 {
			specs[h] = *p
		}
	}
	a := &centroid.Attention[float32]{Specs: specs, Unchecked: true}
	a.Causal = true
	start, err := a.NewChunks(1, in.q.Heads, in.k.Heads, in.q.Dim, in.v.Dim)
	if err != nil {
		return err
	}
	prompt := in.cutTo(in.k.Heads, n)
	out := attention.NewSeq[float32](1, in.q.Heads, n, in.v.Dim)
	if err := start.Step(out, prompt.q, prompt.k, prompt.v); err != nil {
		return err
	}
	ex := &attention.Exact[float32]{Visibility: attention.Visibility{Causal: true}, Unchecked: true}
	one := func(s seq, at int) seq {
		s.Data = s.Data[at*s.StrideL:]
		s.Len = 1
		return s
	}
	want := attention.NewSeq[float32](1, in.q.Heads, decodeSteps, in.v.Dim)
	got := attention.NewSeq[float32](1, in.q.Heads, decodeSteps, in.v.Dim)
	t, err := medians(c.rounds, func() error {
		for i := range decodeSteps {
			p := in.cutTo(in.k.Heads, n+i+1)
			if _, err := ex.Forward(one(want, i), one(in.q, n+i), p.k, p.v); err != nil {
				return err
			}
		}
		return nil
	}, func() error {
		state := start.Fork()
		begin := time.Now()
		for i := range decodeSteps {
			if err := state.Step(one(got, i), one(in.q, n+i), one(in.k, n+i), one(in.v, n+i)); err != nil {
				return err
			}
		}
		c.decode = append(c.decode, time.Since(begin).Seconds()) // without the copy of the state
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(c.decode)
	chosen := c.decode[len(c.decode)/2] / decodeSteps
	c.decode = c.decode[:0]
	errs := headErrors(got, want)
	var mean float64
	for _, e := range errs {
		mean += e / float64(len(errs))
	}
	exact := t[0] / decodeSteps
	flops := 2 * float64(n) * float64(in.q.Dim+in.v.Dim) * float64(in.q.Heads)
	fmt.Printf("| smollm2, %d query heads on %d, decode step | %d | %d | %.3f | %.3f | %.2f | %.3f | %.3f | | | | %.0f |\n",
		in.q.Heads, in.k.Heads, in.q.Len, threads, 1e3*exact, 1e3*chosen, exact/chosen, slices.Max(errs), mean,
		flops/exact/1e9)
	return nil
}

// decodeSpec is that of heads whose choice has no chunks.
var decodeSpec = centroid.Spec{Clusters: 32, Chunk: 512, Together: 64, Window: 64, Sinks: 4, Top: 8, Landmarks: 8,
	Passes: 1, Seed: 1}

// numbers reads a list of numbers.
func numbers(s string) (out []int, err error) {
	for _, f := range strings.Split(s, ",") {
		var n int
		if _, err := fmt.Sscanf(f, "%d", &n); err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no list of positive numbers", s)
		}
		out = append(out, n)
	}
	return out, nil
}
