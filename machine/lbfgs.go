package machine

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/randfeat/randfeat/dense"
)

// stored is the number of steps that L-BFGS remembers.
const stored = 20

// LogisticState is the state of a fit after a step. L-BFGS remembers only its last steps, so a fit that continues from
// here is bit-identical to one that was never interrupted.
type LogisticState struct {
	Iterations int
	Passes     int
	Loss       float64 // at the last point
	// Points holds the last points, at most 21 and oldest first: W, F×K by rows, then the intercept. Gradients are
	// those of the mean loss at these points.
	Points, Gradients [][]float64
}

// check reports why a fit with the given number of parameters and iterations cannot start from s.
func (s *LogisticState) check(size, limit int) error {
	n := len(s.Points)
	if s.Iterations < 0 || s.Iterations > limit || s.Passes < s.Iterations || n != min(s.Iterations, stored)+1 ||
		len(s.Gradients) != n {
		return fmt.Errorf("start of logistic regression: %d points and %d gradients after %d of %d iterations: %w", n,
			len(s.Gradients), s.Iterations, limit, ErrMismatch)
	}
	for _, v := range slices.Concat(s.Points, s.Gradients) {
		if len(v) != size {
			return fmt.Errorf("start of logistic regression: %d weights, want %d: %w", len(v), size, ErrMismatch)
		}
		if i := slices.IndexFunc(v, func(x float64) bool { return !dense.IsFinite(x) }); i >= 0 {
			return fmt.Errorf("start of logistic regression: weight %d is %g: %w", i, v[i], dense.ErrNotFinite)
		}
	}
	if !dense.IsFinite(s.Loss) {
		return fmt.Errorf("start of logistic regression: a loss of %g: %w", s.Loss, dense.ErrNotFinite)
	}
	return nil
}

func (s *LogisticState) clone() *LogisticState {
	c := *s
	c.Points, c.Gradients = nil, nil
	for i := range s.Points {
		c.Points, c.Gradients = append(c.Points, slices.Clone(s.Points[i])),
			append(c.Gradients, slices.Clone(s.Gradients[i]))
	}
	return &c
}

// last is the newest point and its gradient.
func (s *LogisticState) last() (x, gradient []float64) {
	n := len(s.Points) - 1
	return s.Points[n], s.Gradients[n]
}

// push appends a copy of l as the newest point and drops the oldest if there are too many.
func (s *LogisticState) push(l *optimize.Location) {
	for _, h := range []struct {
		kept *[][]float64
		v    []float64
	}{{&s.Points, l.X}, {&s.Gradients, l.Gradient}} {
		if k := *h.kept; len(k) > stored {
			oldest := k[0]
			copy(k, k[1:])
			k[stored] = oldest
			copy(oldest, h.v)
		} else {
			*h.kept = append(k, slices.Clone(h.v))
		}
	}
	s.Loss = l.F
}

// minimise moves s by L-BFGS until no entry of the gradient exceeds tolerance, for at most limit iterations in all, or
// until rounding leaves no lower point. eval writes the gradient and returns the loss; step, if not nil, is called
// between iterations. Only errors of eval and step are returned; s is then the state of the last iteration, except that
// Passes counts all calls.
//
// The history of L-BFGS is rebuilt from the stored points, so a resumed fit takes the same steps as an uninterrupted
// one.
func (s *LogisticState) minimise(tolerance float64, limit int, eval func(gradient, x []float64) (float64, error),
	step func(*LogisticState) error) error {
	x, gradient := s.last()
	now := &optimize.Location{X: slices.Clone(x), F: s.Loss, Gradient: slices.Clone(gradient)}
	memory := &optimize.LBFGS{Store: stored}
	dir := make([]float64, len(x))
	n := len(s.Points) - 1
	for i := range n {
		p := &optimize.Location{X: s.Points[i], Gradient: s.Gradients[i]}
		if i == 0 {
			memory.InitDirection(p, dir)
		} else {
			memory.NextDirection(p, dir)
		}
	}
	var next optimize.NextDirectioner = memory
	if n > 0 {
		next = resumed{memory}
	}
	search := &optimize.LinesearchMethod{NextDirectioner: next, Linesearcher: &optimize.Bisection{}}
	if largest(gradient) <= tolerance || s.Iterations >= limit {
		return nil
	}
	// At the minimum a line search fails because rounding hides any progress. That is not an error: the gradient
	// decides.
	at := slices.Clone(x) // the point at which now.F and now.Gradient were computed
	for op, failed := search.Init(now); failed == nil; op, failed = search.Iterate(now) {
		if op != optimize.MajorIteration {
			// The search asks for the loss and then for the gradient at the same point: compute both once.
			if slices.Equal(at, now.X) {
				continue
			}
			copy(at, now.X)
			var err error
			if now.F, err = eval(now.Gradient, now.X); err != nil {
				return err
			}
			s.Passes++
			continue
		}
		s.push(now)
		s.Iterations++
		if largest(now.Gradient) <= tolerance || s.Iterations >= limit {
			return nil
		}
		if step != nil {
			if err := step(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// resumed is an L-BFGS whose history already contains the steps before its first point.
type resumed struct{ *optimize.LBFGS }

func (r resumed) InitDirection(at *optimize.Location, dir []float64) float64 {
	return r.NextDirection(at, dir)
}

func largest(v []float64) float64 {
	top := 0.0
	for _, x := range v {
		top = max(top, math.Abs(x))
	}
	return top
}
