package sampling

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
)

// Loss is the sampled-softmax loss of queries with true classes t (Bengio and Senécal 2008; Rawat et al. 2019, eq 5):
//
//	−o_t + log(exp(o_t) + Σ_j exp(o_j − LogCount_j)),   o = q·c/Tau
//
// The sum is over draws other than t; its mean is Σ_{c≠t} exp(o_c) whatever the sampler, so the loss tends to that of
// the full softmax as the number of draws grows. With all classes drawn without replacement it is the full loss.
type Loss[T dense.Float] struct {
	Tau     float64 // 0 means 1
	Workers int     // 0 means one per core
}

// Gradient holds the derivatives of losses. Forward reuses its memory.
type Gradient[T dense.Float] struct {
	Query dense.Matrix[T] // row i is the derivative by query i
	// Class has a row per query: the derivative by the embedding of the true class is Class[i][0]·q_i, by that of draw
	// j it is Class[i][1+j]·q_i.
	Class dense.Matrix[T]
}

// Forward writes the loss of every query and, unless g is nil, its gradient. d has draws for every query, or for one
// query that all share.
func (l Loss[T]) Forward(loss []float64, g *Gradient[T], q, classes dense.Matrix[T], targets []int, d *Draws) error {
	if err := l.check(loss, q, classes, targets, d); err != nil {
		return err
	}
	if g != nil {
		g.Query, g.Class = buf.Shaped(g.Query, q.Rows, q.Cols), buf.Shaped(g.Class, q.Rows, d.K+1)
	}
	var crew par.Crew[[]float64]
	return crew.Do(q.Rows, workers(l.Workers), &lossStep[T]{l, loss, g, q, classes, targets, d})
}

func (l Loss[T]) check(loss []float64, q, classes dense.Matrix[T], targets []int, d *Draws) error {
	if err := checkRows("queries", q, classes.Cols); err != nil {
		return err
	}
	switch {
	case len(loss) != q.Rows || len(targets) != q.Rows:
		return fmt.Errorf("%d losses and %d true classes for %d queries: %w", len(loss), len(targets), q.Rows,
			dense.ErrShape)
	case d.Queries() != 1 && d.Queries() != q.Rows:
		return fmt.Errorf("draws of %d queries for %d: %w", d.Queries(), q.Rows, dense.ErrShape)
	case len(d.LogCount) != len(d.IDs):
		return fmt.Errorf("draws without LogCount, as of Exact: %w", ErrRequest)
	case l.Tau < 0 || math.IsNaN(l.Tau):
		return fmt.Errorf("temperature %g: %w", l.Tau, ErrRequest)
	}
	for _, ids := range [][]int{targets, d.IDs} {
		for _, id := range ids {
			if id < 0 || id >= classes.Rows {
				return fmt.Errorf("no class %d: %w", id, ErrRequest)
			}
		}
	}
	return nil
}

type lossStep[T dense.Float] struct {
	l          Loss[T]
	loss       []float64
	g          *Gradient[T]
	q, classes dense.Matrix[T]
	targets    []int
	d          *Draws
}

// Item is one query: logits of the true class and the draws, their log-sum-exp, and the softmax as the gradient.
func (s *lossStep[T]) Item(logits *[]float64, i int) error {
	q, target := s.q.Row(i), s.targets[i]
	d := s.d.Of(0)
	if s.d.Queries() > 1 {
		d = s.d.Of(i)
	}
	gain := 1.0
	if s.l.Tau > 0 {
		gain = 1 / s.l.Tau
	}
	*logits = buf.Sized(*logits, d.K+1)
	o := *logits
	o[0] = gain * dot(q, s.classes.Row(target))
	most := o[0]
	for j, id := range d.IDs {
		o[1+j] = math.Inf(-1)
		if id != target {
			o[1+j] = gain*dot(q, s.classes.Row(id)) - d.LogCount[j]
		}
		most = max(most, o[1+j])
	}
	sum := 0.0
	for _, v := range o {
		sum += math.Exp(v - most)
	}
	all := most + math.Log(sum)
	s.loss[i] = all - o[0]
	if s.g == nil {
		return nil
	}
	dq, coef := s.g.Query.Row(i), s.g.Class.Row(i)
	clear(dq)
	for j, v := range o {
		id, p := target, math.Exp(v-all)
		if j == 0 {
			p = math.Expm1(o[0] - all) // p − 1, without cancellation
		} else {
			id = d.IDs[j-1]
		}
		coef[j] = T(gain * p)
		if p == 0 {
			continue
		}
		for k, c := range s.classes.Row(id) {
			dq[k] += coef[j] * c
		}
	}
	return nil
}

func dot[T dense.Float](a, b []T) float64 {
	s := 0.0
	for i, v := range a {
		s += float64(v) * float64(b[i])
	}
	return s
}

// AddClasses adds the derivatives by class embeddings to rows of dst, query after query: dst[id] += factor·∂/∂c_id.
// Only the rows of true classes and draws change.
func (g *Gradient[T]) AddClasses(dst, q dense.Matrix[T], targets []int, d *Draws, factor T) error {
	if dst.Cols != q.Cols || len(targets) != q.Rows || g.Class.Rows != q.Rows || g.Class.Cols != d.K+1 ||
		d.Queries() != 1 && d.Queries() != q.Rows {
		return fmt.Errorf("gradients of other queries or draws: %w", dense.ErrShape)
	}
	for i, target := range targets {
		ids := d.Of(0).IDs
		if d.Queries() > 1 {
			ids = d.Of(i).IDs
		}
		for j, c := range g.Class.Row(i) {
			id := target
			if j > 0 {
				id = ids[j-1]
			}
			if c == 0 {
				continue
			}
			if id < 0 || id >= dst.Rows {
				return fmt.Errorf("no class %d: %w", id, ErrRequest)
			}
			row := dst.Row(id)
			for k, v := range q.Row(i) {
				row[k] += factor * c * v
			}
		}
	}
	return nil
}
