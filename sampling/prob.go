package sampling

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// LogProb writes the log probability with which Draw, with replacement, draws each class of ids for a query. It costs
// O(F log n) per class.
func (s *Sampler[T]) LogProb(dst []float64, q []T, ids []int) error {
	if len(dst) != len(ids) {
		return fmt.Errorf("%d numbers for %d classes: %w", len(dst), len(ids), dense.ErrShape)
	}
	if err := s.known(ids); err != nil {
		return err
	}
	return s.with(q, func(w *worker[T]) error {
		for i, id := range ids {
			node := int(s.tree.nodeOf[id/s.block])
			logp := s.path(w, node)
			first, err := s.inside(w, node)
			if err != nil {
				return err
			}
			dst[i] = logp + w.weight[id-first]
		}
		return nil
	})
}

// path is the log probability of a node: the sum over branches from the root down, in the order of descend, so that it
// has the same bits.
func (s *Sampler[T]) path(w *worker[T], node int) float64 {
	logp := 0.0
	for depth := bits.Len(uint(node)) - 2; depth >= 0; depth-- {
		child := node >> depth
		l, r := s.branch(w, child/2)
		if child&1 == 1 {
			l = r
		}
		logp += math.Log(l)
	}
	return logp
}

// Distribution writes the probability with which Draw draws each class for a query; removed classes have 0. It
// evaluates the whole tree: O(nF/Block), and the features or scores of all classes.
func (s *Sampler[T]) Distribution(dst []float64, q []T) (Counts, error) {
	var c Counts
	if len(dst) != s.classes.Rows {
		return c, fmt.Errorf("%d numbers for %d classes: %w", len(dst), s.classes.Rows, dense.ErrShape)
	}
	err := s.with(q, func(w *worker[T]) error {
		logs := buf.Zeroed([]float64(nil), 2*s.tree.n)
		for node := 1; node < 2*s.tree.n; node++ {
			if !s.tree.isLeaf(node) {
				l, r := s.branch(w, node)
				logs[2*node], logs[2*node+1] = logs[node]+math.Log(l), logs[node]+math.Log(r)
				continue
			}
			first, err := s.inside(w, node)
			if err != nil {
				return err
			}
			for i, l := range w.weight {
				dst[first+i] = math.Exp(logs[node] + l)
			}
		}
		c = w.counts
		return nil
	})
	return c, err
}

// with prepares one query and calls do with its worker.
func (s *Sampler[T]) with(q []T, do func(w *worker[T]) error) error {
	x := dense.Matrix[T]{Rows: 1, Cols: len(q), Stride: max(1, len(q)), Data: q}
	if err := checkRows("queries", x, s.classes.Cols); err != nil {
		return err
	}
	crew := s.crews.Get()
	defer s.crews.Put(crew)
	crew.Hire(1)
	w := crew.Workers[0]
	if err := s.prepare(w, q); err != nil {
		return err
	}
	defer func() { w.query = nil }()
	return do(w)
}
