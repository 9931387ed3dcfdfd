package models

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Compaction compares a compacted context with the full one by the tokens that follow it.
type Compaction struct {
	Context int `json:"context"` // tokens that are compacted
	After   int `json:"after"`   // tokens scored after each context
	Texts   int `json:"texts"`
	Factor  int `json:"factor"`
	// Expected is the ratio of perplexities that the calibration predicts; 0 without budgets. Ratio is the measured
	// one, the geometric mean over texts, and Worst the largest ratio of a single text.
	Expected float64 `json:"expected,omitempty"`
	Ratio    float64 `json:"ratio"`
	Worst    float64 `json:"worst"`
	// Seconds of reading and of compacting, and tokens per second generated after the full and after the compacted
	// context. All are medians over texts.
	ReadSeconds    float64 `json:"read_seconds"`
	CompactSeconds float64 `json:"compact_seconds"`
	GenerateFull   float64 `json:"generate_full"`
	GenerateFew    float64 `json:"generate_compacted"`
	BytesFull      int64   `json:"bytes_full"`
	BytesFew       int64   `json:"bytes_compacted"`
}

const (
	// compactAfter is the number of tokens that are scored after a context.
	compactAfter = 512
	// speedSteps is the number of tokens that are timed one by one for a speed of generation.
	speedSteps = 24
)

// CheckCompact reads texts of context tokens each, spread evenly over ids, and compacts each of them by every
// factor. It compares the loss on the 512 tokens that follow with the loss after the full context. Use text that the
// calibration has not seen.
func (d *Decoder) CheckCompact(ctx context.Context, ids []int32, context, texts int, factors []int) (
	[]Compaction, error) {
	n := context + compactAfter
	if context < 2 || texts < 1 || n > min(d.Context(), len(ids)) {
		return nil, fmt.Errorf("%d texts of %d tokens, %d tokens are given and the model reads at most %d", texts, n,
			len(ids), d.Context())
	}
	out := make([]Compaction, len(factors))
	var read, full []float64
	few, shrink := make([][]float64, len(factors)), make([][]float64, len(factors))
	for i := range texts {
		at := 0
		if texts > 1 {
			at = i * (len(ids) - n) / (texts - 1)
		}
		part := ids[at : at+n]
		start := time.Now()
		s, err := d.keeping(ctx, part[:context])
		if err != nil {
			return nil, err
		}
		read = append(read, time.Since(start).Seconds())
		want, steps, err := s.Fork().after(ctx, part[context:])
		if err != nil {
			return nil, err
		}
		full = append(full, steps)
		for j, f := range factors {
			c, o := s.Fork(), &out[j]
			start := time.Now()
			if err := c.Compact(f); err != nil {
				return nil, err
			}
			shrink[j] = append(shrink[j], time.Since(start).Seconds())
			o.BytesFew, o.BytesFull = c.Bytes(), s.Bytes()
			got, steps, err := c.after(ctx, part[context:])
			if err != nil {
				return nil, err
			}
			few[j] = append(few[j], steps)
			o.Ratio += (got - want) / float64(texts)
			o.Worst = max(o.Worst, math.Exp(got-want))
		}
	}
	for j, f := range factors {
		o := &out[j]
		o.Context, o.After, o.Texts, o.Factor, o.Ratio = context, compactAfter, texts, f, math.Exp(o.Ratio)
		if loss := d.budgets(context, f).Loss; !math.IsNaN(loss) {
			o.Expected = math.Exp(loss)
		}
		o.ReadSeconds, o.CompactSeconds = median(read), median(shrink[j])
		o.GenerateFull, o.GenerateFew = 1/median(full), 1/median(few[j])
	}
	return out, nil
}

// keeping returns a session that has read ids and can be compacted.
func (d *Decoder) keeping(ctx context.Context, ids []int32) (*Session, error) {
	s, err := d.Session()
	if err != nil {
		return nil, err
	}
	s.KeepQueries()
	return s, s.Read(ctx, ids)
}

// after returns the mean loss of the next tokens, and the median seconds of a token when the first speedSteps of
// them are read one by one. The timing uses a fork, so the loss is computed from the state before it.
func (s *Session) after(ctx context.Context, ids []int32) (loss, seconds float64, err error) {
	one := s.Fork()
	var times []float64
	for _, id := range ids[:speedSteps] {
		start := time.Now()
		if err := one.Read(ctx, []int32{id}); err != nil {
			return 0, 0, err
		}
		times = append(times, time.Since(start).Seconds())
	}
	sum, count, err := s.Score(ctx, ids)
	return sum / float64(count), median(times), err
}

// median returns the upper median of x. It sorts x in place.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
