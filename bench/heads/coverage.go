package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
)

// coverageLength is the length of the texts that runCoverage chooses on and checks, in tokens.
const coverageLength = 512

// runCoverage measures how often the error intervals of choose.Choose hold on another corpus. It chooses on passages of
// WikiText-2 and checks each passage of Penn Treebank and Shakespeare separately. It prints one table for all models.
//
// It chooses by cost. At this length exact attention is the fastest method, so choices by seconds would all be exact.
func runCoverage(c *config) error {
	fmt.Printf("| model | layers | texts | tol | exact | judged | within tol |" +
		" inside | above | median | 90 %% | worst | spread | cost |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range c.models {
		run, every, causal, err := coverageModel(c, name)
		if err != nil {
			return err
		}
		given, err := passages(c.weights, name+"_cal")
		if err != nil {
			return err
		}
		given = pieces(given)
		other, err := passages(c.weights, name+"_other")
		if err != nil {
			return err
		}
		var fresh [][]headInputs
		for _, ids := range other[:min(len(other), c.passages)] {
			in, err := run(ids)
			if err != nil {
				return err
			}
			fresh = append(fresh, in)
		}
		for _, texts := range []int{1, 4} {
			if err := coverage(c, name, every, causal, given[:min(texts, len(given))], fresh, run); err != nil {
				return err
			}
		}
	}
	return nil
}

// runSeconds is runCoverage for choices by seconds, at the lengths of -time and on the sampled heads. It chooses on the
// texts of the sample "cal" and checks every head on every text of the sample "test".
func runSeconds(c *config) error {
	fmt.Printf("| model | tokens | texts | tol | exact | judged | within tol | inside | above | median | 90 %% | " +
		"worst | spread | cost |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, model := range c.models {
		vis := attention.Visibility{Causal: model == "smollm2"}
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
			given, all := cal.texts(n), test.texts(n)
			choice, err := choose.Choose(choose.Options{Tol: c.coverage, Seed: 1}, vis, 0, given.q, given.k, given.v)
			if err != nil {
				return err
			}
			var fresh [][]headInputs
			for b := range all.q.Batch {
				x := headInputs{q: textOf(all.q, b), k: textOf(all.k, b), v: textOf(all.v, b)}
				x.out = attention.NewSeq[float32](1, x.q.Heads, n, x.v.Dim)
				if _, err := (&attention.Exact[float32]{Visibility: vis}).Forward(x.out, x.q, x.k, x.v); err != nil {
					return err
				}
				fresh = append(fresh, []headInputs{x})
			}
			t, err := judge(choice, vis, 0, fresh, c.coverage)
			if err != nil {
				return err
			}
			fmt.Println(t.line(name, fmt.Sprint(n), given.q.Batch, c.coverage))
			if !vis.Causal {
				continue
			}
			choice, err = choose.Choose(choose.Options{Tol: c.coverage, Seed: 1, Decode: true}, vis, 0, given.q,
				given.k, given.v)
			if err != nil {
				return err
			}
			halves, parts, err := judgeDecode(choice, fresh, c.coverage)
			if err != nil {
				return err
			}
			fmt.Println(halves.line(name+", decode", fmt.Sprint(n), given.q.Batch, c.coverage))
			name = fmt.Sprintf("%s, decode, parts of %d", name, decodeSteps)
			fmt.Println(parts.line(name, fmt.Sprint(n), given.q.Batch, c.coverage))
		}
	}
	return nil
}

// textOf returns a view of batch entry b; it shares the data of s.
func textOf(s seq, b int) seq {
	s.Data, s.Batch = s.Data[b*s.StrideB:], 1
	return s
}

// pieces appends the second half of every passage that is long enough, so that the decoder's few passages give more
// texts. Callers use the first coverageLength tokens of each piece.
func pieces(given [][]int32) [][]int32 {
	for _, ids := range given {
		if len(ids) >= 2*coverageLength {
			given = append(given, ids[len(ids)/2:])
		}
	}
	return given
}

// coverageModel loads a model. run computes the first coverageLength tokens with exact attention and returns the inputs
// and outputs of every layer of the encoder, or of every third layer of the decoder (every = 3) to save time.
func coverageModel(c *config, name string) (run func(ids []int32) ([]headInputs, error), every int, causal bool,
	err error) {
	switch name {
	case "minilm":
		m, err := loadMiniLM(c.weights)
		return func(ids []int32) (layers []headInputs, err error) {
			_, layers, err = m.record(ids[:min(len(ids), coverageLength)])
			return layers, err
		}, 1, false, err
	case "smollm2":
		const every = 3
		m, err := loadSmolLM2(c.weights)
		return func(ids []int32) (layers []headInputs, err error) {
			all, _, err := m.record(ids[:min(len(ids), coverageLength)], allLayers)
			for l := 0; l < len(all); l += every {
				layers = append(layers, all[l])
			}
			return layers, err
		}, every, true, err
	}
	return nil, 0, false, fmt.Errorf("unknown model %q", name)
}

// held collects the results of one line of the table. A check is one head on one passage; exact heads are not checked.
type held struct {
	judged, exact, within, inside, above int // all but exact count checks; exact counts heads
	worst, cost, heads                   float64
	errors                               []float64
	squares, pairs                       float64 // Σ(log e − log e′)²/2 over pairs of checks of a head; number of pairs

	logs [][]float64 // of the errors of every head
}

func (t *held) add(o held) {
	t.judged, t.exact, t.within = t.judged+o.judged, t.exact+o.exact, t.within+o.within
	t.inside, t.above, t.worst = t.inside+o.inside, t.above+o.above, max(t.worst, o.worst)
	t.errors = append(t.errors, o.errors...)
	t.cost, t.heads, t.squares, t.pairs = t.cost+o.cost, t.heads+o.heads, t.squares+o.squares, t.pairs+o.pairs
}

// coverage chooses on the given passages, layer by layer, and checks the choices on the fresh ones.
func coverage(c *config, name string, every int, causal bool, given [][]int32, fresh [][]headInputs,
	run func(ids []int32) ([]headInputs, error)) error {
	var sample [][]headInputs
	for _, ids := range given {
		in, err := run(ids)
		if err != nil {
			return err
		}
		sample = append(sample, in)
	}
	vis := attention.Visibility{Causal: causal}
	var all held
	var lines []string
	for l := range sample[0] {
		pick := func(of func(in headInputs) seq) seq {
			var list []seq
			for _, in := range sample {
				list = append(list, of(in[l]))
			}
			return batches(list)
		}
		choice, err := choose.Choose(choose.Options{Tol: c.coverage, Seed: 1, ByCost: true}, vis, 0,
			pick(func(in headInputs) seq { return in.q }), pick(func(in headInputs) seq { return in.k }),
			pick(func(in headInputs) seq { return in.v }))
		if err != nil {
			return err
		}
		t, err := judge(choice, vis, l, fresh, c.coverage)
		if err != nil {
			return err
		}
		all.add(t)
		lines = append(lines, t.line(name, fmt.Sprint(l*every+1), len(given), c.coverage))
		c.log("%s", lines[l])
	}
	fmt.Println(all.line(name, "all", len(given), c.coverage))
	fmt.Println(strings.Join(lines, "\n"))
	return nil
}

// judge runs a choice on layer l of the fresh passages. The error of a key/value head covers all query heads of its
// group, as in the estimates of Choose; the two must match for the intervals to be comparable.
func judge(choice *choose.Choice, vis attention.Visibility, l int, fresh [][]headInputs, tol float64) (held, error) {
	var t held
	a, err := choose.New(choice)
	if err != nil {
		return t, err
	}
	a.Visibility = vis
	for _, in := range fresh {
		x := in[l]
		out := attention.NewSeq[float32](1, x.q.Heads, x.q.Len, x.v.Dim)
		if _, err := a.Forward(out, x.q, x.k, x.v); err != nil {
			return t, err
		}
		t.check(choice, tol, out, x.out, 0, x.q.Len)
	}
	return t, nil
}

// judgeDecode is judge for a choice for decoding, on the second halves of the passages and on parts of decodeSteps
// tokens of them. Plans that read all keys count as exact.
func judgeDecode(choice *choose.Choice, fresh [][]headInputs, tol float64) (halves, parts held, err error) {
	for _, in := range fresh {
		x := in[0]
		state, err := choose.NewChunks(choice, x.q.Shape, x.v.Shape)
		if err != nil {
			return halves, parts, err
		}
		out := attention.NewSeq[float32](1, x.q.Heads, x.q.Len, x.v.Dim)
		if err := state.Step(out, x.q, x.k, x.v); err != nil {
			return halves, parts, err
		}
		halves.check(choice, tol, out, x.out, x.q.Len/2, x.q.Len)
		for lo := x.q.Len / 2; lo < x.q.Len; lo += decodeSteps {
			parts.check(choice, tol, out, x.out, lo, min(lo+decodeSteps, x.q.Len))
		}
	}
	return halves, parts, nil
}

// check adds the errors of all heads at the positions from lo to hi−1 of a passage.
func (t *held) check(choice *choose.Choice, tol float64, out, want seq, lo, hi int) {
	t.logs = append(t.logs, make([][]float64, len(choice.Heads)-min(len(t.logs), len(choice.Heads)))...)
	group := out.Heads / len(choice.Heads)
	t.cost, t.heads, t.exact = 0, float64(len(choice.Heads)), 0
	for h := range choice.Heads {
		p := &choice.Heads[h]
		t.cost += p.Cost
		if p.Method == choose.Exact || p.Expected.Error == 0 {
			t.exact++
			continue
		}
		a, b := out, want
		for _, s := range []*seq{&a, &b} {
			s.Heads, s.Len = group, hi-lo
			s.Data = s.Data[h*group*s.StrideH+lo*s.StrideL:]
		}
		e, expected := groupError(a, b), p.Expected
		t.judged++
		t.errors = append(t.errors, e)
		if e <= tol {
			t.within++
		}
		if e > expected.High {
			t.above++
		} else if e >= expected.Low {
			t.inside++
		}
		t.worst = max(t.worst, e/tol)
		for _, other := range t.logs[h] {
			t.squares, t.pairs = t.squares+(math.Log(e)-other)*(math.Log(e)-other)/2, t.pairs+1
		}
		t.logs[h] = append(t.logs[h], math.Log(e))
	}
}

// line formats t as a line of the table. The column spread is the standard deviation of a head's log error between
// texts.
func (t *held) line(model, layers string, texts int, tol float64) string {
	share := func(n int) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(max(1, t.judged))) }
	return fmt.Sprintf("| %s | %s | %d | %g | %d of %.0f | %d | %s | %s | %s | %.3f | %.3f | %.2f tol | %.2f | %.0f |",
		model, layers, texts, tol, t.exact, t.heads, t.judged, share(t.within), share(t.inside), share(t.above),
		quantile(t.errors, 0.5), quantile(t.errors, 0.9), t.worst,
		math.Sqrt(t.squares/max(1, t.pairs)), t.cost/t.heads)
}

// groupError returns |ô−o|/|o| over all heads together.
func groupError(got, want seq) float64 {
	var diff, norm float64
	for h := range want.Heads {
		g, w := got.Head(0, h), want.Head(0, h)
		for i := range w.Rows {
			for j, v := range w.Row(i) {
				d := float64(g.At(i, j) - v)
				diff += d * d
				norm += float64(v) * float64(v)
			}
		}
	}
	return math.Sqrt(diff / norm)
}

// batches copies sequences of one batch entry each into one sequence with len(list) entries. Shapes must be equal.
func batches(list []seq) seq {
	out := attention.NewSeq[float32](len(list), list[0].Heads, list[0].Len, list[0].Dim)
	for b, s := range list {
		for h := range s.Heads {
			from, to := s.Head(0, h), out.Head(b, h)
			for i := range from.Rows {
				copy(to.Row(i), from.Row(i))
			}
		}
	}
	return out
}
