package centroid

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// Trials computes a few rows of attention with one spec after the other, over the same arguments. It supports
// bidirectional attention and causal attention with chunks. The rows are bit-identical to [Attention.At].
//
// Specs that differ only in Top share their clusters, and so do bidirectional specs that differ in Window and Block:
// the second such spec costs only its rows. The clusters of the last few specs are kept. A Trials must not be used by
// two calls at the same time.
type Trials[T dense.Float] struct{ all trialer[T] }

// trialer is a *trials; see poolsOf for why Trials does not name it.
type trialer[T dense.Float] interface {
	at(out attention.Seq[T], rows []int, spec Spec) error
}

// trials are the arguments of Trials and the clusterings it keeps.
type trials[T dense.Float] struct {
	vis     attention.Visibility
	scale   float64
	q, k, v attention.Seq[T]
	kept    []clustered[T] // the most recently used is last
	chunks  []chunkedKeys[T]
	prefix  []prefixedKeys[T]
	replays []replayedKeys[T]
	fits    int // for tests: clusterings that were made
}

// clustered is a call whose keys have been grouped by the clusters of a spec.
type clustered[T dense.Float] struct {
	of Spec
	c  *call[T]
}

// chunkedKeys is a call whose chunks have the clusters of a spec.
type chunkedKeys[T dense.Float] struct {
	of Spec
	c  *chunkCall[T]
}

// prefixedKeys is a call whose prefixes have the clusters of a spec.
type prefixedKeys[T dense.Float] struct {
	of Spec
	c  *prefixCall[T]
}

// replayedKeys are the sequences with the clusters of a spec.
type replayedKeys[T dense.Float] struct {
	of  Spec
	all []replay[T]
}

// keptTrials is the number of clusterings to keep. A list of specs in the order of their cost alternates between a few
// clusterings.
const keptTrials = 3

// NewTrials checks the arguments as [Attention.Forward] does. Scale 0 means 1/√d.
func NewTrials[T dense.Float](vis attention.Visibility, scale float64, q, k, v attention.Seq[T]) (*Trials[T], error) {
	t, err := newTrials(vis, scale, q, k, v)
	if err != nil {
		return nil, err
	}
	return &Trials[T]{t}, nil
}

func newTrials[T dense.Float](vis attention.Visibility, scale float64, q, k, v attention.Seq[T]) (trialer[T], error) {
	t := &trials[T]{vis: vis, scale: scale, q: q, k: k, v: v}
	a := &Attention[T]{Visibility: vis, Scale: scale, Specs: []Spec{{Clusters: 1}}}
	out := attention.Shape{Batch: q.Batch, Heads: q.Heads, Len: q.Len, Dim: v.Dim}
	if err := checkArguments(a, out, q, k, v); err != nil {
		return nil, err
	}
	return t, checkValues(a, q, k, v)
}

// At computes the given rows of all batches and heads with spec, as [Attention.At] does. No row may occur twice.
func (t *Trials[T]) At(out attention.Seq[T], rows []int, spec Spec) error {
	return t.all.at(out, rows, spec)
}

func (t *trials[T]) at(out attention.Seq[T], rows []int, spec Spec) error {
	a := &Attention[T]{Visibility: t.vis, Scale: t.scale, Specs: []Spec{spec}}
	if err := checkAt(a, out, rows, t.q, t.k, t.v); err != nil || len(rows) == 0 {
		return err
	}
	if t.vis.Causal {
		return t.atChunks(out, rows, spec)
	}
	c, err := t.clusters(spec)
	if err != nil {
		return err
	}
	c.out, c.wanted = out, rows
	for _, p := range c.problems[:c.used] {
		p.spec = &spec
		p.setTop()
	}
	c.answer()
	return nil
}

// clusters returns a call with the clusters of spec, from memory or new.
func (t *trials[T]) clusters(spec Spec) (*call[T], error) {
	spec.Window, spec.Block = 0, 0
	if spec.tilted() {
		spec.Keys = 1
	} else {
		spec.Top = 1 // so that the risks of clusters are computed
	}
	for i, k := range t.kept {
		if k.of == spec {
			t.kept = append(append(t.kept[:i], t.kept[i+1:]...), k)
			return k.c, nil
		}
	}
	c := new(call[T])
	if len(t.kept) == keptTrials { // the memory of the oldest
		c = t.kept[0].c
		t.kept = append(t.kept[:0], t.kept[1:]...)
	}
	a := &Attention[T]{Visibility: t.vis, Scale: t.scale, Specs: []Spec{spec}}
	if err := c.start(a, attention.Seq[T]{}, t.q, t.k, t.v); err != nil {
		return nil, err
	}
	c.prepare()
	t.fits++
	t.kept = append(t.kept, clustered[T]{spec, c})
	return c, nil
}

// atChunks is At for causal attention.
func (t *trials[T]) atChunks(out attention.Seq[T], rows []int, spec Spec) error {
	if spec.Chunk == 0 {
		return fmt.Errorf("trials of causal attention are of specs with chunks, set chunk: %w", ErrSpec)
	}
	if spec.prefixed() {
		return t.atPrefix(out, rows, spec)
	}
	if spec.Share > 0 {
		return t.atReplay(out, rows, spec)
	}
	of := spec
	of.Top = 1
	var c *chunkCall[T]
	for i, k := range t.chunks {
		if k.of == of {
			t.chunks, c = append(append(t.chunks[:i], t.chunks[i+1:]...), k), k.c
			break
		}
	}
	if c == nil {
		c = new(chunkCall[T])
		if len(t.chunks) == keptTrials { // the memory of the oldest
			c = t.chunks[0].c
			t.chunks = append(t.chunks[:0], t.chunks[1:]...)
		}
		a := &Attention[T]{Visibility: t.vis, Scale: t.scale, Specs: []Spec{of}}
		if err := c.start(a, attention.Seq[T]{}, t.q, t.k, t.v); err != nil {
			return err
		}
		t.fits++
		t.chunks = append(t.chunks, chunkedKeys[T]{of, c})
	}
	for i := range c.streams {
		c.streams[i].spec = &spec
	}
	c.answer(rows, out)
	return nil
}

// atReplay is At for specs with Share.
func (t *trials[T]) atReplay(out attention.Seq[T], rows []int, spec Spec) error {
	of := spec
	of.Share = 1
	a := &Attention[T]{Visibility: t.vis, Scale: t.scale, Specs: []Spec{spec}}
	i := slices.IndexFunc(t.replays, func(k replayedKeys[T]) bool { return k.of == of })
	if i < 0 {
		all, err := replays(a, t.q, t.k, t.v)
		if err != nil {
			return err
		}
		if len(t.replays) == keptTrials {
			t.replays = slices.Delete(t.replays, 0, 1)
		}
		t.fits++
		t.replays = append(t.replays, replayedKeys[T]{of, all})
		i = len(t.replays) - 1
	}
	_, err := forwardReplay(a, t.replays[i].all, rows, out)
	return err
}

// atPrefix is At for causal attention whose blocks weigh the prefix.
func (t *trials[T]) atPrefix(out attention.Seq[T], rows []int, spec Spec) error {
	of := spec
	of.Keys = 1
	var c *prefixCall[T]
	for i, k := range t.prefix {
		if k.of == of {
			t.prefix, c = append(append(t.prefix[:i], t.prefix[i+1:]...), k), k.c
			break
		}
	}
	if c == nil {
		c = new(prefixCall[T])
		if len(t.prefix) == keptTrials { // the memory of the oldest
			c = t.prefix[0].c
			t.prefix = append(t.prefix[:0], t.prefix[1:]...)
		}
		a := &Attention[T]{Visibility: t.vis, Scale: t.scale, Specs: []Spec{of}}
		if err := c.start(a, t.q, t.k, t.v); err != nil {
			return err
		}
		t.fits++
		t.prefix = append(t.prefix, prefixedKeys[T]{of, c})
	}
	for _, p := range c.keys.problems[:c.keys.used] {
		p.spec = &spec
	}
	c.answer(rows, out)
	return nil
}
