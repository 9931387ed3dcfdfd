package models

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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

// Retrieval counts how many single facts of a long text the model still finds.
type Retrieval struct {
	Context int     `json:"context"`
	Texts   int     `json:"texts"`
	Factor  int     `json:"factor"` // 1: the full context
	Codes   int     `json:"codes"`  // asked for
	Right   int     `json:"right"`  // codes with all digits right
	Digits  float64 `json:"digits"` // share of right digits
}

// needles are the owners of the hidden codes.
var needles = []string{"Lisbon", "Walter", "the garden", "the library", "Helsinki", "the blue car", "Margaret",
	"the old bridge"}

// CheckNeedles hides eight four-digit codes in texts of context tokens, spread evenly over ids, and asks for each of
// them: after the full context (factor 1 in the result) and after compacting it by every factor. A digit counts as
// right if it is the most probable token after the correct digits before it.
func (d *Decoder) CheckNeedles(ctx context.Context, ids []int32, context, texts int, factors []int) (
	[]Retrieval, error) {
	const reserve = 64 // tokens of a question
	if context < 512 || texts < 1 || context > len(ids) || context+reserve > d.Context() {
		return nil, fmt.Errorf("%d texts of %d tokens, want at least 1 of at least 512; %d tokens are given and the model "+
			"reads at most %d", texts, context, len(ids), d.Context())
	}
	out := make([]Retrieval, 1+len(factors))
	var digits, right = make([]int, len(out)), make([]int, len(out))
	for i := range texts {
		at := 0
		if texts > 1 {
			at = i * (len(ids) - context) / (texts - 1)
		}
		text, ask := d.hide(ids[at:at+context], context, uint64(i))
		s, err := d.keeping(ctx, text)
		if err != nil {
			return nil, err
		}
		for j := range out {
			c := s
			if j > 0 {
				c = s.Fork()
				if err := c.Compact(factors[j-1]); err != nil {
					return nil, err
				}
			}
			for _, q := range ask {
				n, of, err := c.Fork().answers(ctx, q[0], q[1])
				if err != nil {
					return nil, err
				}
				out[j].Codes++
				digits[j], right[j] = digits[j]+of, right[j]+n
				if n == of {
					out[j].Right++
				}
			}
		}
	}
	for j := range out {
		o := &out[j]
		o.Context, o.Texts, o.Factor, o.Digits = context, texts, 1, float64(right[j])/float64(max(1, digits[j]))
		if j > 0 {
			o.Factor = factors[j-1]
		}
	}
	return out, nil
}

// hide inserts the codes into a text at even distances and returns questions with their answers. The text keeps its
// length: its end is cut off.
func (d *Decoder) hide(ids []int32, context int, seed uint64) (text []int32, ask [][2][]int32) {
	draw := rand.New(rand.NewPCG(seed, 5))
	var facts [][]int32
	rest := context
	for _, name := range needles {
		code := fmt.Sprintf("%04d", draw.IntN(10000))
		fact := d.tokens.EncodeText(nil, fmt.Sprintf(" The secret code of %s is %s. ", name, code))
		facts, rest = append(facts, fact), rest-len(fact)
		ask = append(ask, [2][]int32{d.tokens.EncodeText(nil, fmt.Sprintf("\n\nThe secret code of %s is", name)),
			d.tokens.EncodeText(nil, " "+code)})
	}
	from := 0
	for i, fact := range facts {
		to := (2*i + 1) * rest / (2 * len(facts))
		text = append(append(text, ids[from:to]...), fact...)
		from = to
	}
	return append(text, ids[from:rest]...), ask
}

// answers counts the tokens of an answer that contain digits (of) and those of them that are the most probable token
// after the correct tokens before them (right).
func (s *Session) answers(ctx context.Context, ask, answer []int32) (right, of int, err error) {
	if err := s.Read(ctx, ask); err != nil {
		return 0, 0, err
	}
	for _, id := range answer {
		if strings.ContainsAny(s.decoder.tokens.Stream().Next(id), "0123456789") {
			of++
			best := 0
			for i, x := range s.next {
				if x > s.next[best] {
					best = i
				}
			}
			if int32(best) == id {
				right++
			}
		}
		if err := s.Read(ctx, []int32{id}); err != nil {
			return 0, 0, err
		}
	}
	return right, of, nil
}

// median returns the upper median of x. It sorts x in place.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
