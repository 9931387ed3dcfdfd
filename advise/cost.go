package advise

import (
	"context"
	"math"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
)

// Costs of the model, in multiply-adds: one element of a structured product (sign flips and transforms) takes
// about as long as 20, one exponential or sine as 10; a core does 16 per nanosecond.
const (
	structuredCost = 20
	structuredFrom = 64 // columns: below this, maps are as fast with dense products
	functionCost   = 10
	perNanosecond  = 16
)

// extraCosts are costs of families beyond products and one function per feature, in nanoseconds per row, per
// feature and per number of the projections. Powers of integer projections are not products, residual subtracts
// its first order feature by feature, and combined maps consist of several. Measured in float32 with 8 and 64
// columns.
var extraCosts = map[string]struct{ row, feature, number float64 }{
	"poisson":          {number: 1},
	"geometric":        {number: 1},
	"poisson+":         {number: 0.7},
	"geometric+":       {number: 0.7},
	"residual":         {feature: 30},
	"hybrid":           {row: 400},
	"angular":          {row: 400},
	"gaussian-lambda":  {row: 400},
	"bipolar-gaussian": {row: 400},
	"mixture":          {row: 3000},
	"zero-one":         {row: 3000},
}

// modelCost is nanoseconds per row, by counting operations: the same on every machine.
func modelCost(spec randfeat.Spec) (float64, error) {
	n, err := spec.OutDim()
	if err != nil {
		return 0, err
	}
	dim := spec.Kernel.Dim(spec.Dim)
	draws, err := spec.Family.Draws(spec.Kernel.Kind, dim, spec.M)
	if err != nil {
		return 0, err
	}
	ops := float64(functionCost * n)
	fast := coupling.InfoOf(spec.Coupling).Fast
	for _, d := range draws {
		each := float64(d.Dim)
		if fast && !d.IID && d.Dim >= structuredFrom {
			each = structuredCost
		}
		ops += float64(d.Rows) * each
	}
	extra := extraCosts[spec.Family.Name()]
	for _, d := range draws {
		ops += extra.number * perNanosecond * float64(d.Rows) * float64(d.Dim)
	}
	ops += perNanosecond * (extra.row + extra.feature*float64(n))
	if _, ok := spec.Family.(family.Nystrom); ok { // kernels with n landmarks, and a triangle of n²/2
		ops += float64(n)*float64(dim) + float64(n)*float64(n)/2
	}
	return ops / perNanosecond, nil
}

// affordable is the number of features that fit into a time in nanoseconds, given the cost of the entrant's
// features. Landmarks cost n·d + n²/2; the cost of other features is proportional to their number.
func (e *entrant) affordable(dim int, time, cost float64) int {
	n := float64(e.features)
	if e.landmarks {
		n = math.Sqrt(float64(dim*dim)+time/cost*(n*n+2*n*float64(dim))) - float64(dim)
	} else {
		n *= time / cost
	}
	return int(min(max(n, 0), maxFeatures))
}

const (
	equalGrowth = 16 // most features at equal time, as a multiple of the recommended map's
	equalDraws  = 16
)

// equalTime measures the best coupling of every family with as many features as fit into the time of the
// recommended map.
func (s *study) equalTime(ctx context.Context, r *Report, ranked []*entrant) error {
	time := r.Ranking[r.Best].Cost
	var at []*entrant
	var where []int
	seen := map[*variety]bool{ranked[r.Best].variety: true}
	for i, e := range ranked {
		if seen[e.variety] && i != r.Best {
			continue
		}
		seen[e.variety] = true
		cost := r.Ranking[i].Cost
		if i >= shown && s.Costs == costMeasured {
			var err error
			if cost, err = s.timedCost(e.spec(s, 0)); err != nil {
				return err
			}
		}
		n := min(e.affordable(s.dim, time, cost), equalGrowth*r.Features)
		if resized, err := e.resized(s, n); err == nil {
			at, where = append(at, resized), append(where, i)
		}
	}
	if err := s.more(ctx, at, min(s.Draws, equalDraws)); err != nil {
		return err
	}
	for i, e := range at {
		if e.refused == "" {
			low, high, _ := s.interval(e)
			r.Ranking[where[i]].EqualTime = &EqualTime{e.features, finite(s.figure(e).value), low, high}
		}
	}
	return nil
}

// Maps are timed on timedRows rows, timedRuns times. The fastest run counts: the others were disturbed.
const (
	timedRows = 128
	timedRuns = 5
)

// timedCost is nanoseconds per row on this machine, in float32 on one core.
func (s *study) timedCost(spec randfeat.Spec) (float64, error) {
	m, err := randfeat.New[float32](spec)
	if err != nil {
		return 0, err
	}
	x := dense.New[float32](timedRows, spec.Dim)
	from := s.folds[0].x
	for i := range x.Rows {
		for c, v := range from.Row(i % from.Rows) {
			x.Row(i)[c] = float32(v)
		}
	}
	dst, logs := dense.New[float32](timedRows, m.OutDim()), make([]float64, timedRows)
	ws := randfeat.Workspace[float32]{Workers: 1}
	best, err := fastest(func() error { return m.Queries(dst, logs, x, &ws) })
	return best / timedRows, err
}

// fastest is the nanoseconds of the fastest of some runs, after one warm-up.
func fastest(run func() error) (float64, error) {
	best := math.Inf(1)
	for i := range timedRuns + 1 {
		begun := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		if took := float64(time.Since(begun)); i > 0 {
			best = min(best, took)
		}
	}
	return max(best, 1), nil
}

// cost is the time of an entrant's map per row, measured or counted.
func (s *study) cost(e *entrant) (float64, error) {
	if s.Costs == costMeasured {
		return s.timedCost(e.spec(s, 0))
	}
	return modelCost(e.spec(s, 0))
}

// crossover finds the length from which linear attention with a map is faster than exact attention, for values
// with as many columns as keys.
func (s *study) crossover(spec randfeat.Spec) (*Crossover, error) {
	n, err := spec.OutDim()
	if err != nil {
		return nil, err
	}
	var c Crossover
	if s.Costs == costModel {
		row, err := modelCost(spec)
		if err != nil {
			return nil, err
		}
		c.Linear = 2*row + float64(2*n*(s.dim+1))/perNanosecond
		c.Exact = float64(2*s.dim+functionCost) / perNanosecond
	} else if err := s.timeAttention(spec, &c); err != nil {
		return nil, err
	}
	c.Length = int(math.Ceil(c.Linear / c.Exact))
	return &c, nil
}

// timedLength is the length at which attention is timed.
const timedLength = 512

func (s *study) timeAttention(spec randfeat.Spec, c *Crossover) error {
	maps, err := linear.NewMaps[float32]([]randfeat.Spec{spec})
	if err != nil {
		return err
	}
	q, out := attention.NewSeq[float32](1, 1, timedLength, s.dim), attention.NewSeq[float32](1, 1, timedLength, s.dim)
	from := s.folds[0].x
	for i := range timedLength {
		for j, v := range from.Row(i % from.Rows) {
			q.Data[i*s.dim+j] = float32(v)
		}
	}
	linear := linear.Attention[float32]{Maps: maps}
	if c.Linear, err = fastest(func() error { _, err := linear.Forward(out, q, q, q); return err }); err != nil {
		return err
	}
	var exact attention.Exact[float32]
	if c.Exact, err = fastest(func() error { _, err := exact.Forward(out, q, q, q); return err }); err != nil {
		return err
	}
	c.Linear /= timedLength
	c.Exact /= timedLength * timedLength
	return nil
}
