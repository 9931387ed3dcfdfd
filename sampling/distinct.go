package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/internal/rng"
)

// entry is a node or a class, with the largest perturbed log probability of the classes below it.
type entry struct {
	g, logp float64
	node    int // −1 for a class
	id      int
}

// gumbelOf draws a standard Gumbel number.
func gumbelOf(src rand.Source) float64 { return -math.Log(-math.Log(rng.Open(src))) }

// conditioned is the Gumbel number g of a child, conditioned on the maximum of the children being most instead of z
// (Kool, van Hoof and Welling 2019, appendix B.3): −log(e^{−most} − e^{−z} + e^{−g}), computed without cancellation.
func conditioned(g, z, most float64) float64 {
	if g == z {
		return most
	}
	v := most - g + math.Log1p(-math.Exp(g-z))
	return most - max(0, v) - math.Log1p(math.Exp(-math.Abs(v)))
}

// expand replaces a parent by its children: their perturbed log probabilities are drawn given that their maximum is the
// parent's. Children of probability 0 are left out.
func (w *queue) expand(parent entry, children []entry, src rand.Source) {
	z := math.Inf(-1)
	for i := range children {
		children[i].g = children[i].logp + gumbelOf(src)
		z = max(z, children[i].g)
	}
	for _, c := range children {
		if !math.IsInf(c.logp, -1) {
			c.g = conditioned(c.g, z, parent.g)
			w.push(c)
		}
	}
}

// queue is a heap with the largest entry first.
type queue []entry

func (q *queue) push(e entry) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 && h[(i-1)/2].g < h[i].g {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		i = (i - 1) / 2
	}
	*q = h
}

func (q *queue) pop() entry {
	h := *q
	top, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && h[c+1].g > h[c].g {
			c++
		}
		if h[i].g >= h[c].g {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	*q = h
	return top
}

// drawDistinct draws without replacement: it takes classes in the order of their perturbed log probabilities, opening
// only nodes that can contain the next one.
func (s *Sampler[T]) drawDistinct(w *worker[T], dst Draws, src rand.Source) error {
	q := queue(w.gumbel[:0])
	defer func() { w.gumbel = q[:0] }()
	q.push(entry{g: gumbelOf(src), node: 1})
	left := 1.0 // probability of the classes not drawn yet
	next := func() (entry, error) {
		for len(q) > 0 {
			e := q.pop()
			if e.node < 0 {
				return e, nil
			}
			if err := s.open(w, &q, e, src); err != nil {
				return e, err
			}
		}
		return entry{g: math.Inf(-1), node: -2}, nil
	}
	for i := range dst.K {
		e, err := next()
		if err != nil {
			return err
		}
		if e.node == -2 {
			return fmt.Errorf("%d distinct draws: only %d classes have a positive probability: %w", dst.K, i,
				ErrRequest)
		}
		if left < 1e-3 { // 1 minus the sum of the drawn probabilities would cancel: sum the others
			left = math.Exp(e.logp)
			for _, o := range q {
				left += math.Exp(o.logp)
			}
		}
		dst.IDs[i], dst.LogCount[i] = e.id, e.logp
		dst.LogProb[i] = min(0, e.logp-math.Log(left))
		left -= math.Exp(e.logp)
	}
	threshold, err := next()
	if err != nil {
		return err
	}
	for i, l := range dst.LogCount {
		dst.LogCount[i] = inclusion(l - threshold.g)
	}
	return nil
}

// inclusion is log(1 − exp(−e^a)): the log probability that a Gumbel number at a above a threshold exceeds it.
func inclusion(a float64) float64 {
	if a > 5 {
		return -math.Exp(-math.Exp(a)) // log(1 − tiny)
	}
	return math.Log(-math.Expm1(-math.Exp(a)))
}

// open replaces a node in the queue by its children, and a leaf by its classes.
func (s *Sampler[T]) open(w *worker[T], q *queue, e entry, src rand.Source) error {
	if !s.tree.isLeaf(e.node) {
		l, r := s.branch(w, e.node)
		q.expand(e, []entry{{logp: e.logp + math.Log(l), node: 2 * e.node},
			{logp: e.logp + math.Log(r), node: 2*e.node + 1}}, src)
		return nil
	}
	first, err := s.inside(w, e.node)
	if err != nil {
		return err
	}
	w.leaf = w.leaf[:0]
	for i, l := range w.weight {
		w.leaf = append(w.leaf, entry{logp: e.logp + l, node: -1, id: first + i})
	}
	q.expand(e, w.leaf, src)
	return nil
}
