package main

import (
	"context"
	"errors"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// errorSums accumulates the deviation of estimates from exact kernel values, pair by pair. Estimates and kernels come
// as logarithms of scale, so that nothing overflows.
type errorSums struct {
	pairs      int
	rel, rel2  float64 // Σ (κ̂/κ - 1) and its squares
	maxRel     float64
	top        float64 // log of the unit of abs2 and norm2
	abs2       float64 // Σ (κ̂ - κ)²
	norm2      float64 // Σ κ²
	noRelative bool    // κ may vanish or change sign (Bessel)
}

// add records the estimate value·e^{logScale} of sign·e^{logKernel}.
func (s *errorSums) add(value, logScale, sign, logKernel float64) {
	s.pairs++
	if math.IsInf(logKernel, -1) { // an exact zero of the Bessel kernel
		s.noRelative = true
		abs := value * math.Exp(logScale-s.top)
		s.abs2 += abs * abs
		return
	}
	if s.norm2 == 0 || logKernel > s.top {
		shrink := math.Exp(2 * (s.top - logKernel))
		s.abs2, s.norm2, s.top = s.abs2*shrink, s.norm2*shrink, logKernel
	}
	unit := math.Exp(logKernel - s.top)
	rel := value*math.Exp(logScale-logKernel)*sign - 1
	s.rel += rel
	s.rel2 += rel * rel
	s.maxRel = math.Max(s.maxRel, math.Abs(rel))
	s.abs2 += rel * rel * unit * unit
	s.norm2 += unit * unit
}

func (s *errorSums) merge(o errorSums) {
	if o.pairs == 0 {
		return
	}
	if s.pairs == 0 {
		*s = o
		return
	}
	top := math.Max(s.top, o.top)
	a, b := math.Exp(2*(s.top-top)), math.Exp(2*(o.top-top))
	s.abs2, s.norm2, s.top = a*s.abs2+b*o.abs2, a*s.norm2+b*o.norm2, top
	s.pairs += o.pairs
	s.rel += o.rel
	s.rel2 += o.rel2
	s.maxRel = math.Max(s.maxRel, o.maxRel)
	s.noRelative = s.noRelative || o.noRelative
}

// rms is the root mean square of the relative error over pairs.
func (s *errorSums) rms() float64 { return math.Sqrt(s.rel2 / float64(s.pairs)) }

// frobenius is the norm of the difference of the matrices relative to that of the exact one.
func (s *errorSums) frobenius() float64 { return math.Sqrt(s.abs2 / s.norm2) }

// measureRows is the number of rows whose features are held at a time.
const measureRows = 256

// measure adds the errors of one map over all pairs of rows.
func measure(ctx context.Context, m *randfeat.Map[float64], target kernel.Kernel, x, y dense.Matrix[float64], sums *errorSums) error {
	sums.noRelative = sums.noRelative || target.Kind == kernel.Bessel
	var ws randfeat.Workspace[float64]
	phiX, phiY := dense.New[float64](min(measureRows, x.Rows), m.OutDim()), dense.New[float64](min(measureRows, y.Rows), m.OutDim())
	sx, sy := make([]float64, phiX.Rows), make([]float64, phiY.Rows)
	for b := 0; b < y.Rows; b += measureRows {
		yb := y.RowRange(b, min(b+measureRows, y.Rows))
		if err := m.Keys(phiY.RowRange(0, yb.Rows), sy[:yb.Rows], yb, &ws); err != nil {
			return err
		}
		for a := 0; a < x.Rows; a += measureRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			xb := x.RowRange(a, min(a+measureRows, x.Rows))
			if err := m.Queries(phiX.RowRange(0, xb.Rows), sx[:xb.Rows], xb, &ws); err != nil {
				return err
			}
			// One sum per row, merged in order: the result does not depend on the number of threads.
			rows := make([]errorSums, xb.Rows)
			par.For(xb.Rows, 1+65536/(yb.Rows*m.OutDim()), func(lo, hi int) {
				for i := lo; i < hi; i++ {
					for j := range yb.Rows {
						sign, logK := exactLog(target, xb.Row(i), yb.Row(j))
						rows[i].add(dense.Dot(phiX.Row(i), phiY.Row(j)), sx[i]+sy[j], sign, logK)
					}
				}
			})
			for _, r := range rows {
				sums.merge(r)
			}
		}
	}
	return nil
}

// exactLog is the exact kernel as a sign and a logarithm; only the Bessel kernel has signs.
func exactLog(k kernel.Kernel, x, y []float64) (sign, log float64) {
	if k.Kind != kernel.Bessel {
		return 1, k.Log(x, y)
	}
	v := k.Eval(x, y)
	return math.Copysign(1, v), math.Log(math.Abs(v))
}

// prediction is the error that theory gives for a spec, averaged over pairs.
type prediction struct {
	rms         float64
	approximate bool   // the rows follow the law of the closed form only nearly
	warning     string // the combination is known to hurt
}

// predictPairs bounds the pairs that a prediction looks at; closed forms cost far more than features.
const predictPairs = 1024

// predict averages the relative mean squared error over pairs spread evenly over the two sets.
func predict(ctx context.Context, spec randfeat.Spec, m int, x, y dense.Matrix[float64]) (prediction, error) {
	var p prediction
	ownTarget := hasOwnTarget(spec.Family)
	c := spec.Coupling
	if c == nil {
		c = coupling.IID{}
	}
	total := x.Rows * y.Rows
	n := min(total, predictPairs)
	at := make([]pairPrediction, n)
	par.For(n, 8, func(lo, hi int) {
		for k := lo; k < hi && ctx.Err() == nil; k++ {
			pair := int(int64(k) * int64(total) / int64(n))
			u, v := x.Row(pair/y.Rows), y.Row(pair%y.Rows)
			at[k] = predictPair(spec, c, m, ownTarget, u, v)
			if k%16 == 0 { // one pair in sixteen tells whether the combination hurts on these data
				at[k].warning = theory.Warning(spec.Kernel, spec.Family, c, u, v)
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return p, err
	}
	var sum float64
	for _, q := range at { // in order: the first error and the first warning are always the same
		if q.err != nil {
			return p, q.err
		}
		sum += math.Exp(q.logMSE)
		p.approximate = p.approximate || q.approximate
		if p.warning == "" {
			p.warning = q.warning
		}
	}
	p.rms = math.Sqrt(sum / float64(n))
	return p, nil
}

type pairPrediction struct {
	logMSE      float64
	approximate bool
	warning     string
	err         error
}

func predictPair(spec randfeat.Spec, c coupling.Coupling, m int, ownTarget bool, x, y []float64) pairPrediction {
	moments, err := theory.Of(spec.Kernel, spec.Family, c, m, x, y)
	if err != nil {
		return pairPrediction{err: err}
	}
	q := pairPrediction{logMSE: moments.LogRelMSE(), approximate: moments.Approximate}
	if ownTarget { // the error is measured against what the family estimates
		q.logMSE = moments.LogRelVar()
	}
	return q
}

// hasOwnTarget reports whether a family estimates another kernel than the one it is asked for (DARK).
func hasOwnTarget(f family.Family) bool {
	_, own := f.(interface {
		Target(kernel.Kernel) kernel.Kernel
	})
	return own
}

// noForm reports whether an error only says that theory has no closed form.
func noForm(err error) bool { return errors.Is(err, theory.ErrNoClosedForm) }
