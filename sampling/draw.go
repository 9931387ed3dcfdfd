package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/rng"
)

// Draws are classes drawn for queries, K for each: those of query i are at [i·K, (i+1)·K).
type Draws struct {
	K   int
	IDs []int
	// LogProb is the log probability of each draw: of the class, or, without replacement, of the class among those
	// that the draws before it have left. Draws of Exact have none.
	LogProb []float64
	// LogCount corrects sums: Σ_j f(class_j)/exp(LogCount_j) over the draws of a query has the mean Σ_c f(c) over all
	// classes. With replacement it is log K + LogProb. Without, it is the log probability that the class is among the
	// K largest, given the perturbed score of the largest that was left out (Kool, van Hoof and Welling 2019, §4.1).
	LogCount []float64
	Counts   Counts
	Tried    int // draws that Exact made, rejected ones included
}

// Of returns the draws of query i. They share memory with d.
func (d *Draws) Of(i int) Draws {
	lo, hi := i*d.K, (i+1)*d.K
	out := Draws{K: d.K, IDs: d.IDs[lo:hi]}
	if d.LogProb != nil {
		out.LogProb, out.LogCount = d.LogProb[lo:hi], d.LogCount[lo:hi]
	}
	return out
}

// Queries is the number of queries.
func (d *Draws) Queries() int { return len(d.IDs) / max(1, d.K) }

func (d *Draws) reset(queries, k int) {
	d.K, d.Counts, d.Tried = k, Counts{}, 0
	d.IDs = buf.Sized(d.IDs, queries*k)
	d.LogProb, d.LogCount = buf.Sized(d.LogProb, queries*k), buf.Sized(d.LogCount, queries*k)
}

// check returns ErrRequest for requests that cannot be met with this number of classes.
func (r Request) check(classes int) error {
	switch {
	case r.K < 1:
		return fmt.Errorf("%d draws per query, want at least 1: %w", r.K, ErrRequest)
	case r.Distinct && r.K > classes:
		return fmt.Errorf("%d distinct draws of %d classes: %w", r.K, classes, ErrRequest)
	case r.Workers < 0 || r.Tries < 0:
		return fmt.Errorf("%d workers, %d tries: %w", r.Workers, r.Tries, ErrRequest)
	}
	return nil
}

// Draw draws for every row of q. It reuses the memory of dst.
func (s *Sampler[T]) Draw(dst *Draws, q dense.Matrix[T], r Request) error {
	if err := r.check(s.Len()); err != nil {
		return err
	}
	one := s.drawOne
	if r.Distinct {
		one = s.drawDistinct
	}
	dst.reset(q.Rows, r.K)
	return s.each(q, r.Workers, dst, func(w *worker[T], i int) error {
		return one(w, dst.Of(i), rng.Stream(r.Seed, 's', uint64(r.First+i)))
	})
}

// each prepares every query and calls one, on several goroutines.
func (s *Sampler[T]) each(q dense.Matrix[T], limit int, dst *Draws, one func(w *worker[T], i int) error) error {
	if err := checkRows("queries", q, s.classes.Cols); err != nil {
		return err
	}
	crew := s.crews.Get()
	defer s.crews.Put(crew)
	for _, w := range crew.Workers {
		w.total, w.tried = Counts{}, 0
	}
	err := crew.Do(q.Rows, workers(limit), &queryStep[T]{s, q, one})
	for _, w := range crew.Workers {
		dst.Counts.add(w.total)
		dst.Tried += w.tried
		w.query, w.total, w.tried = nil, Counts{}, 0
	}
	return err
}

// queryStep is the step whose items are queries. Items do not depend on each other.
type queryStep[T dense.Float] struct {
	s   *Sampler[T]
	q   dense.Matrix[T]
	one func(w *worker[T], i int) error
}

func (st *queryStep[T]) Item(w *worker[T], i int) error {
	if err := st.s.prepare(w, st.q.Row(i)); err != nil {
		return fmt.Errorf("query %d: %w", i, err)
	}
	if err := st.one(w, i); err != nil {
		return fmt.Errorf("query %d: %w", i, err)
	}
	w.total.add(w.counts)
	return nil
}

// item is one draw on its way down the tree: u is uniform on [0, 1) given the current node, and at is its place in dst.
type item struct {
	u  float64
	at int
}

// below1 is the largest number below 1.
const below1 = 1 - 0x1p-53

// drawOne draws with replacement. All draws of a query go down together, so that each node is evaluated once.
func (s *Sampler[T]) drawOne(w *worker[T], dst Draws, src rand.Source) error {
	w.items = buf.Sized(w.items, dst.K)
	for i := range w.items {
		w.items[i] = item{rng.Uniform(src), i}
	}
	if err := s.descend(w, dst, 1, w.items, 0); err != nil {
		return err
	}
	logK := math.Log(float64(dst.K))
	for i, l := range dst.LogProb {
		dst.LogCount[i] = logK + l
	}
	return nil
}

// descend takes items from a node to their classes. logp is the log probability of the node. Each item's u decides the
// branch and is then rescaled to be uniform given that branch; the left group recurses, the right one continues the
// loop.
func (s *Sampler[T]) descend(w *worker[T], dst Draws, node int, items []item, logp float64) error {
	for !s.tree.isLeaf(node) {
		left, right := s.branch(w, node)
		n := 0 // items that go left
		for i, it := range items {
			if it.u >= left {
				items[i].u = min(below1, (it.u-left)/(1-left))
				continue
			}
			items[i].u = min(below1, it.u/left)
			items[n], items[i] = items[i], items[n]
			n++
		}
		if n > 0 && n < len(items) {
			if err := s.descend(w, dst, 2*node, items[:n], logp+math.Log(left)); err != nil {
				return err
			}
			items, n = items[n:], 0
		}
		if n > 0 {
			node, logp = 2*node, logp+math.Log(left)
		} else {
			node, logp = 2*node+1, logp+math.Log(right)
		}
	}
	first, err := s.inside(w, node)
	if err != nil {
		return err
	}
	for _, it := range items {
		c := pick(w.weight, it.u)
		dst.IDs[it.at], dst.LogProb[it.at] = first+c, logp+w.weight[c]
	}
	return nil
}

// pick is the class at quantile u of log probabilities.
func pick(log []float64, u float64) int {
	last := 0
	for i, l := range log {
		p := math.Exp(l)
		if u < p {
			return i
		}
		u -= p
		if p > 0 {
			last = i
		}
	}
	return last // rounding: the probabilities add up to a little less than 1
}
