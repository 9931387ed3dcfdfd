package models

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/models/decoder"
)

// Check compares chosen attention with exact attention on a text.
type Check struct {
	Tokens  int `json:"tokens"`  // tokens read
	Context int `json:"context"` // tokens per window
	// Exact and Chosen are the perplexities of the text in windows of Context tokens. The first token of a window
	// has no predecessor and does not count.
	Exact  float64     `json:"perplexity_exact"`
	Chosen float64     `json:"perplexity_chosen"`
	Ratio  float64     `json:"ratio"` // Chosen / Exact
	Heads  []HeadCheck `json:"heads"`
	Speeds []Speed     `json:"speeds"`
}

// HeadCheck compares one key/value head, with the query heads of its group, with exact attention.
type HeadCheck struct {
	Layer  int    `json:"layer"`
	Head   int    `json:"head"`
	Method string `json:"method"` // exact or centroid
	// Reads is the number of keys and centroids that a token at the end of a window reads.
	Reads float64 `json:"reads"`
	// Expected and Measured are relative errors |ô−o|/|o|. Expected is the calibration's estimate for other text.
	// Measured is the error on the second half of the first window of this text.
	Expected choose.Estimate `json:"expected"`
	Measured float64         `json:"measured"`
}

// Speed has the tokens per second of reading Tokens tokens and of generating after them.
type Speed struct {
	Tokens         int     `json:"tokens"`
	ReadExact      float64 `json:"read_exact"`
	ReadChosen     float64 `json:"read_chosen"`
	GenerateExact  float64 `json:"generate_exact"`
	GenerateChosen float64 `json:"generate_chosen"`
}

const (
	// checkWindows is the largest number of windows that count for perplexities.
	checkWindows = 8
	// speedSteps is the number of tokens that are timed one by one for a speed of generation.
	speedSteps = 24
)

// Check compares attention a with exact attention on a text: errors per head, perplexities and speeds. Use text that
// the calibration has not seen. context is the number of tokens per window; 0 means the length of the calibration.
// Only the first eight windows of a long text count.
func (d *Decoder) Check(ctx context.Context, a *Attention, ids []int32, context int) (*Check, error) {
	exact := d.exact()
	chosen, err := exact.With(a)
	if err != nil {
		return nil, err
	}
	if context == 0 {
		context = a.Choice.Length
	}
	n := min(context, d.Context(), len(ids))
	if n < 2 {
		return nil, fmt.Errorf("windows of %d tokens: want at least two, give more text", n)
	}
	c := &Check{Context: n}
	if c.Heads, err = exact.checkHeads(ctx, a, ids[:n]); err != nil {
		return nil, err
	}
	if c.Tokens, c.Exact, c.Chosen, err = perplexities(ctx, exact, chosen, ids, n); err != nil {
		return nil, err
	}
	c.Ratio = c.Chosen / c.Exact
	for _, length := range []int{256, 1024, 4096, 8192, 16384, 32768} {
		if length+speedSteps > min(len(ids), d.Context()) || length > n {
			break
		}
		v, err := speed(ctx, exact, chosen, ids[:length+speedSteps])
		if err != nil {
			return nil, err
		}
		c.Speeds = append(c.Speeds, v)
	}
	return c, nil
}

// perplexities computes the perplexities of two decoders on the first windows of n tokens. Every window starts a new
// session.
func perplexities(ctx context.Context, exact, other *Decoder, ids []int32, n int) (tokens int, a, b float64,
	err error) {
	var sums [2]float64
	count := 0
	for ; len(ids) >= n && tokens < checkWindows*n; ids = ids[n:] {
		for i, m := range []*Decoder{exact, other} {
			s, err := m.Session()
			if err != nil {
				return 0, 0, 0, err
			}
			loss, k, err := s.Score(ctx, ids[:n])
			if err != nil {
				return 0, 0, 0, err
			}
			sums[i] += loss
			count += i * k
		}
		tokens += n
	}
	return tokens, math.Exp(sums[0] / float64(count)), math.Exp(sums[1] / float64(count)), nil
}

// speed times the reading of all tokens but the last speedSteps. It then feeds these one by one to both sessions in
// turns, so that changes in the load of the machine hit both.
func speed(ctx context.Context, exact, chosen *Decoder, ids []int32) (Speed, error) {
	n := len(ids) - speedSteps
	var read [2]float64
	var sessions [2]*Session
	var steps [2][]float64
	for i, m := range []*Decoder{exact, chosen} {
		s, err := m.Session()
		if err != nil {
			return Speed{}, err
		}
		start := time.Now()
		if err := s.Read(ctx, ids[:n]); err != nil {
			return Speed{}, err
		}
		read[i], sessions[i] = float64(n)/time.Since(start).Seconds(), s
	}
	for _, id := range ids[n:] {
		for i, s := range sessions {
			start := time.Now()
			if err := s.Read(ctx, []int32{id}); err != nil {
				return Speed{}, err
			}
			steps[i] = append(steps[i], time.Since(start).Seconds())
		}
	}
	return Speed{n, read[0], read[1], 1 / median(steps[0]), 1 / median(steps[1])}, nil
}

// checkHeads measures the error of each head alone. Every layer gets the queries, keys and values of a pass with
// exact attention, so errors of earlier layers do not add up.
func (d *Decoder) checkHeads(ctx context.Context, a *Attention, ids []int32) ([]HeadCheck, error) {
	c, n := d.model.Config(), len(ids)
	group := c.Heads / c.KVHeads
	choice := a.at(n)
	out := make([]HeadCheck, 0, len(choice.Heads))
	err := d.recorded(ctx, [][]int32{ids}, func(r *record) error {
		for l := range r.layers {
			plans := choice.Range((r.first+l)*c.KVHeads, (r.first+l+1)*c.KVHeads)
			states := d.model.Parts(func(int) []decoder.Part { return layerParts(plans) })
			st, err := states(r.first + l)
			if err != nil {
				return err
			}
			q, k, v := r.layer(l, 0)
			got, want := attention.NewSeq[float32](1, q.Heads, n, q.Dim), r.part(r.out, l, 0)
			if err := st.Step(got, q, k, v); err != nil {
				return err
			}
			for h := range plans.Heads {
				p := &plans.Heads[h]
				x := HeadCheck{Layer: r.first + l, Head: h, Method: string(p.Method), Reads: float64(n),
					Expected: p.Expected}
				if p.Method != choose.Exact {
					x.Reads = sketch(p).StepCost(n)
					x.Measured = relativeError(got, want, h*group, (h+1)*group)
				}
				out = append(out, x)
			}
		}
		return ctx.Err()
	})
	return out, err
}

// relativeError is the root of Σ|ô−o|²/Σ|o|² of query heads lo to hi−1, over the second half of the positions. Early
// positions see few keys and are nearly exact.
func relativeError(got, want attention.Seq[float32], lo, hi int) float64 {
	var diff, size float64
	for h := lo; h < hi; h++ {
		x, y := got.Head(0, h), want.Head(0, h)
		for l := y.Rows / 2; l < y.Rows; l++ {
			for i, w := range y.Row(l) {
				d := float64(x.Row(l)[i]) - float64(w)
				diff, size = diff+d*d, size+float64(w)*float64(w)
			}
		}
	}
	if size == 0 {
		return math.Sqrt(diff)
	}
	return math.Sqrt(diff / size)
}
