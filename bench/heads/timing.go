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
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// runTime prints a table that compares the time of exact attention with the plans of choose.Choose: bidirectional,
// causal, and decoding token by token. It chooses on the sample "cal" and times on the sample "test".
func runTime(c *config) error {
	fmt.Printf("Kernels: %s; %d processors. Times are medians of interleaved rounds. Plans are chosen on one text and "+
		"timed on another, separately for each number of threads. Errors are |ô−o|/|o| of a key/value head over all "+
		"of its query heads; in brackets, the error of the worst single query head.\n\n",
		kern.Best[float32]().Name, runtime.NumCPU())
	fmt.Println("| heads | tokens | threads | SDPA, ms | exact, ms | chosen, ms | exact / chosen | predicted | " +
		"error, worst | mean | exact heads | exact keys per row | choosing time / exact pass | " +
		"GFLOP/s, exact (share of peak) | chosen |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	c.peak = map[int]float64{}
	for _, threads := range c.threads {
		c.peak[threads] = peak(threads)
	}
	defer func() {
		for _, threads := range c.threads {
			fmt.Printf("\nPeak of the vector units with %d threads: %.0f GFLOP/s.\n", threads, c.peak[threads]/1e9)
		}
	}()
	for _, model := range c.models {
		for _, n := range c.lengths {
			name := sampleOf(model, n)
			cal, err := sampleHeads(c, name, "cal")
			if err != nil {
				return err
			}
			test, err := sampleHeads(c, name, "test")
			if err != nil {
				return err
			}
			if n > test.q.Len || n > cal.q.Len {
				continue
			}
			for _, threads := range c.threads {
				runtime.GOMAXPROCS(threads)
				sample := cal.texts(n)
				choice, seconds, err := timeChoice(c, name, sample, threads)
				if err != nil {
					return err
				}
				in := test.cutTo(test.k.Heads, n)
				if err := timeForward(c, name, choice, seconds/float64(sample.q.Batch), in, threads); err != nil {
					return err
				}
				if model == "smollm2" && n >= 2048 {
					if err := timeDecode(c, name, sample, in, threads); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// timeChoice chooses plans for the length of in and returns the seconds that this took, without the measurement of
// rates. With -choices it reads a stored choice if there is one; the seconds are then NaN. The file name has the model,
// the length and the threads, but not the tolerance.
func timeChoice(c *config, model string, in headInputs, threads int) (*choose.Choice, float64, error) {
	path := ""
	if c.choices != "" {
		path = filepath.Join(c.choices, fmt.Sprintf("%s_%d_%d.json", model, in.q.Len, threads))
		if b, err := os.ReadFile(path); err == nil {
			choice := new(choose.Choice)
			return choice, math.NaN(), json.Unmarshal(b, choice)
		}
	}
	causal := model != "minilm"
	// Measure the rates before the clock starts. Choose then finds them, since they are measured once per process.
	if _, err := choose.MeasureRates(causal, in.q.Shape, in.k.Shape, in.v.Shape); err != nil {
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

// texts returns a view of the sample as a batch of texts of n tokens each. An encoder sample is cut into at most 8
// consecutive parts. Of a decoder sample, recognised by its grouped query heads, it takes the first n tokens of every
// text of decoderTokens tokens, or of the one longer text.
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

// medians returns the median seconds of every function. Each round calls all functions in turn, so that changes in the
// speed of the machine affect all of them.
func medians(rounds int, list ...func() error) ([]float64, error) {
	times := make([][]float64, len(list))
	for r := range rounds + 1 {
		for i, f := range list {
			start := time.Now()
			if err := f(); err != nil {
				return nil, err
			}
			if r > 0 { // the first round is a warm-up
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

// timeForward times exact attention and the choice on in, and prints a line of the table. choosing is the time of the
// choice in seconds per text, or NaN if unknown.
func timeForward(c *config, model string, choice *choose.Choice, choosing float64, in headInputs, threads int) error {
	a, err := choose.New(choice)
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
	// clusters is the number of centroids per row, summed over heads. An exact head counts its visible keys instead,
	// because attention.Exact does not report them.
	var clusters, seconds float64
	for h := range choice.Heads {
		p := &choice.Heads[h]
		if p.Method == choose.Exact {
			same++
			clusters += float64(in.k.Len)
			if choice.Causal {
				clusters -= float64(in.k.Len) / 2
			}
		}
		switch s := p.Centroid.(type) {
		case centroid.Blocks:
			clusters += float64(s.Clusters)
		case centroid.Prefix:
			clusters += float64(s.Clusters)
		}
		seconds += p.Seconds
	}
	rows := float64(in.q.Heads) * float64(in.q.Len)
	each := 2 * float64(in.q.Dim+in.v.Dim) // floating-point operations per query and key
	pairs := rows * float64(in.k.Len)
	if choice.Causal {
		pairs /= 2
	}
	done := float64(report.Exact) + rows*clusters/float64(in.k.Heads)
	predicted := "–"
	if seconds > 0 {
		exact := choice.Rates.Seconds(choose.Plan{Method: choose.Exact}, choice.Causal, in.k.Len, in.q.Dim, in.v.Dim)
		predicted = fmt.Sprintf("%.2f", exact*float64(len(choice.Heads))/seconds)
		each := 1e3 * float64(in.q.Len*in.q.Heads/len(choice.Heads)) // rows per key/value head, and 1e3 for ms
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
	fmt.Printf("| %s, %d query heads on %d, %s | %d | %d | %s | %.2f | %.2f | %.2f | %s | %.3f (%.3f) | %.3f | "+
		"%d of %d | %.0f | %s | %s | %s |\n", model, in.q.Heads, in.k.Heads, kind, in.q.Len, threads, peer,
		1e3*t[0], 1e3*t[1], t[0]/t[1], predicted, slices.Max(errs), slices.Max(single), mean(errs), same,
		len(choice.Heads), float64(report.Exact)/float64(max(1, report.Rows)), share,
		c.rate(each*pairs/t[0], threads), c.rate(each*done/t[1], threads))
	for h, p := range choice.Heads {
		c.log("%s %d head %d: %v, error %.3f, expected %.3f, upper end %.3f", model, in.q.Len, h, p.Plan, errs[h],
			p.Expected.Error, p.Expected.High)
	}
	return nil
}

// sdpa returns the milliseconds of PyTorch's exact attention on the same heads, or a dash without -torch.
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
		return "", fmt.Errorf("running heads/sdpa.py with %s (the working directory must be bench): %w", c.torch, err)
	}
	ms, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return fmt.Sprintf("%.2f", ms), err
}

// rate formats operations per second as GFLOP/s with their share of the peak.
func (c *config) rate(flops float64, threads int) string {
	return fmt.Sprintf("%.0f (%.0f %%)", flops/1e9, 100*flops/c.peak[threads])
}

// peak returns the floating-point operations per second of the multiply-add units with the given number of threads, the
// best of several rounds.
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

// groupErrors returns |ô−o|/|o| of every key/value head, over all query heads of its group.
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

// decodeSteps is the number of tokens, the last ones of the text, that timeDecode decodes one by one.
const decodeSteps = 512

// timeDecode times decoding one token at a time: exact attention over all keys, and a state with plans chosen for
// decoding. The state reads the prompt before the clock starts.
func timeDecode(c *config, model string, cal, in headInputs, threads int) error {
	n := in.q.Len - decodeSteps
	begin := time.Now()
	choice, err := choose.Choose(choose.Options{Tol: c.tol, Decode: true, Seed: 1},
		attention.Visibility{Causal: true}, 0, cal.q, cal.k, cal.v)
	if err != nil {
		return err
	}
	choosing := time.Since(begin).Seconds()
	start, err := choose.NewChunks(choice, in.q.Shape, in.v.Shape)
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
		c.decode = append(c.decode, time.Since(begin).Seconds()) // excludes Fork, which copies the state
		return nil
	})
	if err != nil {
		return err
	}
	c.decode = c.decode[1:] // without the warm-up round, as medians does
	slices.Sort(c.decode)
	chosen := c.decode[len(c.decode)/2] / decodeSteps
	c.decode = c.decode[:0]
	errs, single := groupErrors(got, want, in.k.Heads), headErrors(got, want)
	exact := t[0] / decodeSteps
	flops := 2 * float64(n) * float64(in.q.Dim+in.v.Dim) * float64(in.q.Heads)
	r := start.Report()
	for h, p := range choice.Heads {
		c.log("decode %d head %d: %v, error %.3f, expected %.3f, upper end %.3f", in.q.Len, h, p.Plan, errs[h],
			p.Expected.Error, p.Expected.High)
	}
	c.log("decode %d: choosing took %.3f s, %.0f exact keys per row of the prompt", in.q.Len, choosing,
		float64(r.Exact)/float64(max(1, r.Rows)))
	fmt.Printf("| %s, %d query heads on %d, decode step | %d | %d | | %.3f | %.3f | %.2f | | %.3f (%.3f) | "+
		"%.3f | | | | %s | |\n", model, in.q.Heads, in.k.Heads, in.q.Len, threads, 1e3*exact, 1e3*chosen, exact/chosen,
		slices.Max(errs), slices.Max(single), mean(errs), c.rate(flops/exact, threads))
	return nil
}

// numbers parses a comma-separated list of positive integers.
func numbers(s string) (out []int, err error) {
	for _, f := range strings.Split(s, ",") {
		var n int
		if _, err := fmt.Sscanf(f, "%d", &n); err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a comma-separated list of positive integers", s)
		}
		out = append(out, n)
	}
	return out, nil
}
