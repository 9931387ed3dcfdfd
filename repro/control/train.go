package control

import (
	"fmt"
	"math"
	"sync"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/rng"
)

// Config is a training run with evolution strategies.
type Config struct {
	Attention  Attention
	Seed       uint64
	Iterations int
	Directions int // antithetic pairs of perturbations per iteration
	Courses    int // courses per perturbation; all perturbations walk the same ones
	Sigma      float64
	Rate       float64 // length of the first step in parameter space
	Every      int     // iterations between tests
	Tests      int     // courses of a test, the same in every run
	Workers    int     // goroutines; 0 means one. The result does not depend on it
}

// ProjectionSeed is the seed of the policy's projections.
func (c Config) ProjectionSeed() uint64 { return rng.Mix64(c.Seed + 1) }

// Run is the result of a training.
type Run struct {
	At     []int     // iterations
	Reward []float64 // metres on the test courses, without perturbations
	Theta  []float64
}

// Train trains a policy with evolution strategies (Salimans et al. 2017). Perturbations are orthogonal to each other
// (Choromanski et al. 2018) and tried with both signs. The parameters move, with momentum, along the perturbations
// weighted by the differences of their rewards.
func Train(c Config) (*Run, error) {
	workers := max(1, c.Workers)
	type worker struct {
		p     *Masked
		image []float32
		theta []float64
	}
	pool := make([]worker, workers)
	for i := range pool {
		p, err := NewMasked(c.Attention, c.ProjectionSeed())
		if err != nil {
			return nil, err
		}
		pool[i] = worker{p, make([]float32, Pixels), make([]float64, Params)}
	}
	out := &Run{Theta: make([]float64, Params)}
	rng.Normals(out.Theta, rng.Stream(c.Seed, 2))
	for i := range out.Theta {
		out.Theta[i] *= .3
	}
	courses := func(n int, seed uint64) []*Course {
		list := make([]*Course, n)
		for i := range list {
			list[i] = NewCourse(rng.Mix64(seed + uint64(i)))
		}
		return list
	}
	walk := func(w *worker, theta []float64, on []*Course) float64 {
		w.p.Set(theta)
		sum := 0.0
		for _, course := range on {
			sum += Walk(course, w.p, w.image, nil)
		}
		return sum / float64(len(on))
	}
	tests := courses(c.Tests, 1<<40)
	speed, grad := make([]float64, Params), make([]float64, Params)
	reward := make([]float64, 2*c.Directions)
	for it := 0; ; it++ {
		if it%c.Every == 0 || it == c.Iterations {
			out.At, out.Reward = append(out.At, it), append(out.Reward, walk(&pool[0], out.Theta, tests))
		}
		if it == c.Iterations {
			return out, nil
		}
		eps, err := (coupling.Orthogonal{}).Sample(c.Directions, Params, coupling.Law{}, rng.Stream(c.Seed, 3,
			uint64(it)))
		if err != nil {
			return nil, fmt.Errorf("perturbations: %w", err)
		}
		on := courses(c.Courses, rng.Mix64(c.Seed+uint64(it)<<20))
		next := make(chan int)
		var wg sync.WaitGroup
		for i := range pool {
			wg.Go(func() {
				w := &pool[i]
				for n := range next {
					sign := c.Sigma * float64(1-2*(n%2))
					for j, e := range eps.Rows.Row(n / 2) {
						w.theta[j] = out.Theta[j] + sign*e
					}
					reward[n] = walk(w, w.theta, on)
				}
			})
		}
		for n := range reward {
			next <- n
		}
		close(next)
		wg.Wait()
		// Gradients are normalised, because rewards have no fixed scale: a step has the length of the rate, which
		// falls to a tenth.
		var square float64
		for j := range grad {
			grad[j] = 0
			for n := range c.Directions {
				grad[j] += (reward[2*n] - reward[2*n+1]) * eps.Rows.At(n, j)
			}
			square += grad[j] * grad[j]
		}
		if square == 0 {
			continue
		}
		rate := c.Rate * (1 - .9*float64(it)/float64(c.Iterations))
		for j, g := range grad {
			speed[j] = .8*speed[j] + .2*g/math.Sqrt(square)
			out.Theta[j] += rate * speed[j]
		}
	}
}
