package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// runTime prints the tables of seconds: exact attention and the choice of choose.Choose, made on one text and timed on
// another, bidirectional, causal and token by token.
func runTime(c *config) error {
	fmt.Printf("%s, %d processors; medians of interleaved rounds. Choices are made on another text than they are timed on, "+
		"for the number of threads. Errors are |ô−o|/|o| of a key/value head with its query heads, and in brackets the "+
		"worst of single query heads.\n\n", kern.Best[float32]().Name, runtime.NumCPU())
	fmt.Println("| heads | tokens | threads | SDPA, ms | exact, ms | chosen, ms | exact / chosen | predicted | error, worst | mean | " +
		"exact heads | exact keys of a row | choosing, share of an exact pass | GFLOP/s, exact | chosen |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	defer func() {
		for _, threads := range c.threads {
			fmt.Printf("\nPeak of the vector units, %d threads: %.0f GFLOP/s.\n", threads, peak(threads)/1e9)
		}
	}()
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
			if n > test.q.Len || n > cal.q.Len {
				continue
			}
			for _, threads := range c.threads {
				runtime.GOMAXPROCS(threads)
				sample := cal.texts(n)
				choice, seconds, err := timeChoice(c, model, sample, threads)
				if err != nil {
					return err
				}
				in := test.cutTo(test.k.Heads, n)
				if err := timeForward(c, model, choice, seconds/float64(sample.q.Batch), in, threads); err != nil {
					return err
				}
				if model == "smollm2" && n >= 2048 {
					if err := timeDecode(c, sample, in, threads); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// timeChoice makes the choice for one length, or reads one that was made before, and says how long it took, rates
// apart.
func timeChoice(c *config, model string, in headInputs, threads int) (*choose.Choice, float64, error) {
	path := ""
	if c.choices != "" {
		path = filepath.Join(c.choices, fmt.Sprintf("%s_%d_%d.json", model, in.q.Len, threads))
		if b, err := os.ReadFile(path); err == nil {
			choice := new(choose.Choice)
			return choice, math.NaN(), json.Unmarshal(b, choice)
		}
	}
	causal := model == "smollm2"
	// Rates are measured once per process.
	if _, err := choose.MeasureRates(causal, false, in.q.Shape, in.k.Shape, in.v.Shape); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	choice, err := choose.Choose(choose.Options{Tol: c.tol, Seed: 1},
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

// texts are parts of n tokens of a sample of joined passages, one per batch entry, or the first n tokens of causal
// texts. Beyond decoderTokens causal texts are joined too.
func (in headInputs) texts(n int) headInputs {
	size, most := n, 8
	if in.q.Heads > in.k.Heads {
		size, most = max(n, decoderTokens), in.q.Len
	}
	for _, s := range []*seq{&in.q, &in.k, &in.v} {
		s.Batch, s.StrideB, s.Len = max(1, min(most, s.Len/size)), size*s.StrideL, n
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
	errs, single := groupErrors(out, want, in.k.Heads), headErrors(out, want)
	same := 0
	var clusters, seconds float64
	for h := range choice.Heads {
		p := &choice.Heads[h]
		if p.Method == choose.Exact {
			same++
			clusters += float64(in.k.Len)
			if choice.Causal {
				clusters -= float64(in.k.Len) / 2
			}
		} else if p.Centroid.Chunk > 0 && p.Centroid.Keys == 0 {
			clusters += float64(p.Centroid.Clusters) * float64(in.k.Len/p.Centroid.Chunk) / 2
		} else {
			clusters += float64(p.Centroid.Clusters)
		}
		seconds += p.Seconds
	}
	rows := float64(in.q.Heads) * float64(in.q.Len)
	each := 2 * float64(in.q.Dim+in.v.Dim)
	pairs := rows * float64(in.k.Len)
	if choice.Causal {
		pairs /= 2
	}
	done := float64(report.Exact) + rows*clusters/float64(in.k.Heads)
	predicted := "–"
	if seconds > 0 {
		exact := choice.Rates.Seconds(choose.Plan{Method: choose.Exact}, choice.Causal, in.k.Len, in.q.Dim, in.v.Dim)
		predicted = fmt.Sprintf("%.2f", exact*float64(len(choice.Heads))/seconds)
		each := 1e3 * float64(in.q.Len*in.q.Heads/len(choice.Heads))
		c.log("%s %d: predicted %.2f ms, exact %.2f ms", model, in.q.Len, seconds*each,
			exact*float64(len(choice.Heads))*each)
	}
	share := "–"
	if !math.IsNaN(choosing) {
		share = fmt.Sprintf("%.2f", choosing/t[0])
	}
	kind := "bidirectional"
	if choice.Causal {
		kind = "causal"
	}
	peer, err := sdpa(c, model, in.q.Len, threads, choice.Causal)
	if err != nil {
		return err
	}
	fmt.Printf("| %s, %d query heads on %d, %s | %d | %d | %s | %.2f | %.2f | %.2f | %s | %.3f (%.3f) | %.3f | %d of %d | %.0f | "+
		"%s | %.0f | %.0f |\n", model, in.q.Heads, in.k.Heads, kind, in.q.Len, threads, peer, 1e3*t[0], 1e3*t[1],
		t[0]/t[1], predicted, slices.Max(errs), slices.Max(single), mean(errs), same, len(choice.Heads),
		float64(report.Exact)/float64(max(1, report.Rows)), share, each*pairs/t[0]/1e9, each*done/t[1]/1e9)
	for h, p := range choice.Heads {
		c.log("%s %d head %d: %v, expected error %.3f, at most %.3f", model, in.q.Len, h, p.Plan, p.Expected.Error,
			p.Expected.High)
	}
	return nil
}

// sdpa is the milliseconds of PyTorch's exact attention over the same heads, if there is a Python for it.
func sdpa(c *config, model string, n, threads int, causal bool) (string, error) {
	if c.torch == "" {
		return "–", nil
	}
	flag := "0"
	if causal {
		flag = "1"
	}
	out, err := exec.Command(c.torch, "heads/sdpa.py", filepath.Join(c.weights, model+"_test_heads.safetensors"),
		fmt.Sprint(n), fmt.Sprint(threads), fmt.Sprint(c.rounds), flag).Output()
	if err != nil {
		return "", fmt.Errorf("heads/sdpa.py by %s, run from the folder bench: %w", c.torch, err)
	}
	ms, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return fmt.Sprintf("%.2f", ms), err
}

// peak is the multiply-adds per second, times two, of so many goroutines, the best of a few rounds.
func peak(threads int) (best float64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	tab := kern.Best[float32]()
	for range 5 {
		var flops atomic.Int64
		start := time.Now()
		par.Each(threads, threads, func(_, _ int) {
			for range 200 {
				flops.Add(int64(kern.Peak(tab, 40_000)))
			}
		})
		best = max(best, float64(flops.Load())/time.Since(start).Seconds())
	}
	return best
}

// groupErrors is headErrors of the query heads of every key/value head together.
func groupErrors(got, want seq, heads int) []float64 {
	group := got.Heads / heads
	out := make([]float64, heads)
	for h := range out {
		var diff, size float64
		for g := range group {
			x, y := got.Head(0, h*group+g), want.Head(0, h*group+g)
			for l := range y.Rows {
				for i, w := range y.Row(l) {
					d := float64(x.Row(l)[i]) - float64(w)
					diff, size = diff+d*d, size+float64(w)*float64(w)
				}
			}
		}
		out[h] = math.Sqrt(diff / size)
	}
	return out
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// decodeSteps tokens are decoded one by one at the end of the text.
const decodeSteps = 512

// timeDecode compares one token at a time: exact attention over all keys, and a state whose plans are chosen for that.
func timeDecode(c *config, cal, in headInputs, threads int) error {
	n := in.q.Len - decodeSteps
	begin := time.Now()
	choice, err := choose.Choose(choose.Options{Tol: c.tol, Decode: true, Seed: 1},
		attention.Visibility{Causal: true}, 0, cal.q, cal.k, cal.v)
	if err != nil {
		return err
	}
	choosing := time.Since(begin).Seconds()
	start, err := choose.NewChunks[float32](choice, 1, in.q.Heads)
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
	errs, single := groupErrors(got, want, in.k.Heads), headErrors(got, want)
	exact := t[0] / decodeSteps
	flops := 2 * float64(n) * float64(in.q.Dim+in.v.Dim) * float64(in.q.Heads)
	r := start.Report()
	for h, p := range choice.Heads {
		c.log("decode %d head %d: %v, expected error %.3f, at most %.3f", in.q.Len, h, p.Plan, p.Expected.Error,
			p.Expected.High)
	}
	c.log("decode %d: choosing took %.3f s, %.0f exact keys of a row of the prompt", in.q.Len, choosing,
		float64(r.Exact)/float64(max(1, r.Rows)))
	fmt.Printf("| smollm2, %d query heads on %d, decode step | %d | %d | | %.3f | %.3f | %.2f | | %.3f (%.3f) | "+
		"%.3f | | | | %.0f | |\n", in.q.Heads, in.k.Heads, in.q.Len, threads, 1e3*exact, 1e3*chosen, exact/chosen,
		slices.Max(errs), slices.Max(single), mean(errs), flops/exact/1e9)
	return nil
}

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
