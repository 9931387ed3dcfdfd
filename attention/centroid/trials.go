package centroid

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/attention"
)

// Trials computes a few rows of attention with one spec after the other, over the same arguments. The rows are
// bit-identical to [Attention.At].
//
// Specs that differ only in the number of exact keys share their clusters: the second such spec costs only its rows.
// The clusters of the last few specs are kept. A Trials must not be used by two calls at the same time.
type Trials struct {
	vis     attention.Visibility
	scale   float64
	q, k, v attention.Seq[float32]
	calls   recent[*call]
	prefix  recent[*prefixCall]
	replays recent[[]replay]
}

// NewTrials checks the arguments as [Attention.Forward] does. Scale 0 means 1/√d.
func NewTrials(vis attention.Visibility, scale float64, q, k, v attention.Seq[float32]) (*Trials, error) {
	t := &Trials{vis: vis, scale: scale, q: q, k: k, v: v}
	if err := checkInputs(&vis, attention.Shape{Batch: q.Batch, Heads: q.Heads, Len: q.Len, Dim: v.Dim}, q, k,
		v); err != nil {
		return nil, err
	}
	if _, err := logitScale(scale, q.Dim); err != nil {
		return nil, err
	}
	return t, t.attention(nil).checkValues(q, k, v)
}

// attention is the attention with one spec.
func (t *Trials) attention(s Spec) *Attention {
	return &Attention{Visibility: t.vis, Scale: t.scale, Specs: []Spec{s}, Unchecked: s != nil}
}

// At computes the given rows of all batches and heads with spec, as [Attention.At] does. No row may occur twice.
func (t *Trials) At(out attention.Seq[float32], rows []int, spec Spec) error {
	a := t.attention(spec)
	if err := a.checkAt(out, rows, t.q, t.k, t.v); err != nil || len(rows) == 0 {
		return err
	}
	// The specs of of have the same clusters as spec.
	switch of := spec.(type) {
	case Blocks:
		of.Keys = 1
		c, err := t.calls.get(of, func() (*call, error) {
			c := new(call)
			if err := c.start(t.attention(of), attention.Seq[float32]{}, t.q, t.k, t.v); err != nil {
				return nil, err
			}
			c.run(true, false)
			return c, nil
		})
		if err != nil {
			return err
		}
		c.out, c.wanted = out, rows
		set := spec.settings()
		for _, p := range c.problems[:c.used] {
			p.spec = &set
		}
		c.run(false, true)
		return nil
	case Prefix:
		of.Keys = 1
		c, err := t.prefix.get(of, func() (*prefixCall, error) {
			c := new(prefixCall)
			return c, c.start(t.attention(of), t.q, t.k, t.v)
		})
		if err != nil {
			return err
		}
		set := spec.settings()
		for _, p := range c.keys.problems[:c.keys.used] {
			p.spec = &set
		}
		c.answer(rows, out)
		return nil
	case Sketch:
		of.Share = 1
		all, err := t.replays.get(of, func() ([]replay, error) { return replays(a, t.q, t.k, t.v) })
		if err != nil {
			return err
		}
		_, err = forwardReplay(a, all, rows, out)
		return err
	}
	return fmt.Errorf("trials of a %T: %w", spec, ErrSpec)
}

// recent keeps the results of the last few specs.
type recent[C any] struct {
	specs   []Spec // the most recently used is last
	results []C
	made    int
}

// keptTrials is the number of clusterings to keep. A list of specs in the order of their cost alternates between a few
// clusterings.
const keptTrials = 3

// get returns the result of a spec, from memory or new.
func (r *recent[C]) get(of Spec, make func() (C, error)) (c C, err error) {
	if i := slices.Index(r.specs, of); i >= 0 {
		c = r.results[i]
		r.specs, r.results = slices.Delete(r.specs, i, i+1), slices.Delete(r.results, i, i+1)
	} else {
		if c, err = make(); err != nil {
			return c, err
		}
		r.made++
	}
	if len(r.specs) == keptTrials {
		r.specs, r.results = slices.Delete(r.specs, 0, 1), slices.Delete(r.results, 0, 1)
	}
	r.specs, r.results = append(r.specs, of), append(r.results, c)
	return c, nil
}
