package sampling

import (
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// tree is a binary heap of sums of features: node i has the children 2i and 2i+1, node 1 is the root, and nodes n to
// 2n−1 are leaves, one per block of classes. A heap with any number of leaves is a full binary tree, and adding a leaf
// moves only one other.
type tree[T dense.Float] struct {
	n      int // leaves
	f      int // features
	sums   []T
	live   []int32 // number of classes below a node that are not removed
	nodeOf []int32 // leaf node of a block
	block  []int32 // block of a leaf node
}

func (t *tree[T]) sum(node int) []T { return t.sums[node*t.f : (node+1)*t.f : (node+1)*t.f] }

// children are the sums of nodes 2i and 2i+1, which are adjacent: one product serves both.
func (t *tree[T]) children(node int) dense.Matrix[T] {
	return dense.Matrix[T]{Rows: 2, Cols: t.f, Stride: t.f, Data: t.sums[2*node*t.f : (2*node+2)*t.f]}
}

func (t *tree[T]) isLeaf(node int) bool { return node >= t.n }

// reset makes an empty tree of n leaves, block i in leaf n+i.
func (t *tree[T]) reset(n, f int) {
	t.n, t.f = n, f
	t.sums = buf.Zeroed(t.sums, 2*n*f)
	t.live = buf.Zeroed(t.live, 2*n)
	t.nodeOf, t.block = buf.Sized(t.nodeOf, n), buf.Sized(t.block, 2*n)
	for i := range n {
		t.nodeOf[i], t.block[n+i] = int32(n+i), int32(i)
	}
}

// grow adds a leaf for the next block: the first leaf moves down a level, and its old place becomes the parent of both.
func (t *tree[T]) grow() {
	old := t.n // the first leaf
	moved := t.block[old]
	t.sums = append(t.sums, make([]T, 2*t.f)...)
	t.live = append(t.live, 0, 0)
	t.block = append(t.block, moved, int32(len(t.nodeOf)))
	copy(t.sum(2*old), t.sum(old))
	t.live[2*old] = t.live[old]
	t.nodeOf[moved] = int32(2 * old)
	t.nodeOf = append(t.nodeOf, int32(2*old+1))
	t.n++
}

// join sets an inner node to the sum of its children.
func (t *tree[T]) join(node int) {
	dst, a, b := t.sum(node), t.sum(2*node), t.sum(2*node+1)
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
	t.live[node] = t.live[2*node] + t.live[2*node+1]
}

// climb recomputes all nodes above changed leaves. nodes is overwritten. Parents have smaller numbers than their
// children, so rounds in descending order reach the root; nodes above leaves of two levels may be recomputed twice.
func (t *tree[T]) climb(nodes []int) {
	slices.Sort(nodes)
	slices.Reverse(nodes)
	for {
		out := nodes[:0]
		for _, node := range nodes {
			if p := node / 2; p > 0 && (len(out) == 0 || out[len(out)-1] != p) {
				t.join(p)
				out = append(out, p)
			}
		}
		if nodes = out; len(nodes) == 0 {
			return
		}
	}
}

// Rebuild chooses the scales of features again and recomputes all sums. Updates call it if a class outgrows the scales,
// or once as many classes have changed as there are.
func (s *Sampler[T]) Rebuild() error {
	for all := range 2 { // first by a sample; by all classes if some exceed the sample's scales
		if err := s.columns.choose(s.m, s.classes, s.dead, all == 1); err != nil {
			return err
		}
		s.tree.reset((s.classes.Rows+s.block-1)/s.block, s.m.OutDim())
		fits, err := s.fill()
		if err != nil {
			return err
		}
		if fits {
			break
		}
	}
	for i := s.tree.n - 1; i > 0; i-- {
		s.tree.join(i)
	}
	s.changed = 0
	s.bound.ready = false
	return nil
}

// chunkRows is about the number of classes that a worker maps at a time: their features stay in cache.
const chunkRows = 512

// fill sums all blocks; fits is false if some sum is beyond the scales.
func (s *Sampler[T]) fill() (fits bool, err error) {
	crew := s.crews.Get()
	defer s.crews.Put(crew)
	per := max(1, chunkRows/s.block)
	chunks := (s.tree.n + per - 1) / per
	step := fillStep[T]{s: s, per: per, bad: make([]bool, chunks)}
	err = crew.Do(chunks, workers(s.options.Workers), &step)
	return !slices.Contains(step.bad, true), err
}

type fillStep[T dense.Float] struct {
	s   *Sampler[T]
	per int
	bad []bool
}

func (f *fillStep[T]) Item(w *worker[T], i int) error {
	first := i * f.per
	last := min(first+f.per, f.s.tree.n)
	if err := f.s.sumBlocks(w, first, last); err != nil {
		return err
	}
	for b := first; b < last; b++ {
		f.bad[i] = f.bad[i] || f.s.columns.outgrown(f.s.tree.sum(int(f.s.tree.nodeOf[b])))
	}
	return nil
}

// sumBlocks computes the sums of blocks first to last−1 from the features of their classes, always from scratch, so
// equal classes give equal bits.
func (s *Sampler[T]) sumBlocks(w *worker[T], first, last int) error {
	lo, hi := first*s.block, min(last*s.block, s.classes.Rows)
	phi, err := s.keyFeatures(w, lo, hi)
	if err != nil {
		return err
	}
	for b := first; b < last; b++ {
		node := int(s.tree.nodeOf[b])
		from, to := b*s.block, min((b+1)*s.block, hi)
		sum := s.tree.sum(node)
		clear(sum)
		live := int32(0)
		for id := from; id < to; id++ {
			if s.dead[id] {
				clear(phi.Row(id - lo)) // adding zero changes no bit
			} else {
				live++
			}
		}
		s.tab.ColSum(sum, phi.RowRange(from-lo, to-lo))
		s.tree.live[node] = live
	}
	return nil
}

// keyFeatures returns the scaled features of classes lo to hi−1, in the memory of w.
func (s *Sampler[T]) keyFeatures(w *worker[T], lo, hi int) (dense.Matrix[T], error) {
	w.keys = buf.Shaped(w.keys, hi-lo, s.m.OutDim())
	w.shift = buf.Zeroed(w.shift, hi-lo)
	w.ws.Workers = 1
	err := s.m.KeysScaled(w.keys, s.columns.key, w.shift, s.classes.RowRange(lo, hi), &w.ws)
	return w.keys, err
}

// worker is the scratch memory of one goroutine.
type worker[T dense.Float] struct {
	ws    randfeat.Workspace[T]
	keys  dense.Matrix[T]
	shift []float64

	// The current query: itself, its scaled features, and its vector for scores.
	query, phi, inner []T
	phiLog            float64 // φ1(q)_f = phi_f·exp(phiLog − scale_f)
	counts            Counts

	e, value     dense.Matrix[T]
	row          [1]float64
	logs, weight []float64
	scores       []T
	pair         [2]T
	items        []item
	gumbel, leaf []entry
	total        Counts
	tried        int
}
