package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// errorSums accumulates the deviation of estimates from exact kernel values, pair by pair. Values come as
// logarithms, so that nothing overflows.
type errorSums struct {
	pairs      int
	rel        float64 // Σ (κ̂/κ - 1)
	rel2       squares // Σ (κ̂/κ - 1)²
	maxRel     float64
	abs2       squares // Σ (κ̂ - κ)²
	norm2      squares // Σ κ²
	noRelative bool    // κ may be 0 or change sign (Bessel), so relative errors mean nothing
}

// add records the estimate value·e^{logScale} of the kernel sign·e^{logKernel}.
func (s *errorSums) add(value, logScale, sign, logKernel float64) {
	s.pairs++
	// Take the difference in units of the larger of the two: a kernel of e^{-800} must not vanish against its
	// estimate.
	logValue := logScale + math.Log(math.Abs(value))
	if unit := math.Max(logValue, logKernel); !math.IsInf(unit, -1) {
		s.abs2.add(math.Copysign(math.Exp(logValue-unit), value)-sign*math.Exp(logKernel-unit), unit)
	}
	if math.IsInf(logKernel, -1) { // an exact zero of the Bessel kernel
		s.noRelative = true
		return
	}
	s.norm2.add(1, logKernel)
	rel := math.Copysign(math.Exp(logValue-logKernel), value)*sign - 1
	s.rel += rel
	s.rel2.add(rel, 0)
	s.maxRel = math.Max(s.maxRel, math.Abs(rel))
}

func (s *errorSums) merge(o errorSums) {
	s.pairs += o.pairs
	s.rel += o.rel
	s.rel2.merge(o.rel2)
	s.maxRel = math.Max(s.maxRel, o.maxRel)
	s.abs2.merge(o.abs2)
	s.norm2.merge(o.norm2)
	s.noRelative = s.noRelative || o.noRelative
}

// rms is the root mean square of the relative error over pairs.
func (s *errorSums) rms() float64 { return math.Exp((s.rel2.log() - math.Log(float64(s.pairs))) / 2) }

// frobenius is the norm of the difference of the matrices, relative to the exact one.
func (s *errorSums) frobenius() float64 { return math.Exp((s.abs2.log() - s.norm2.log()) / 2) }

// squares is a sum of squares that may lie outside the range of float64: sum·e^{2·top}. The zero value is
// empty.
type squares struct{ sum, top float64 }

// add adds (v·e^{log})².
func (s *squares) add(v, log float64) {
	if v == 0 {
		return
	}
	s.merge(squares{sum: 1, top: log + math.Log(math.Abs(v))})
}

func (s *squares) merge(o squares) {
	switch {
	case o.sum == 0:
	case s.sum == 0:
		*s = o
	case o.top > s.top:
		s.sum, s.top = o.sum+s.sum*math.Exp(2*(s.top-o.top)), o.top
	default:
		s.sum += o.sum * math.Exp(2*(o.top-s.top))
	}
}

// log is the logarithm of the sum, -Inf if it is empty.
func (s squares) log() float64 {
	if s.sum == 0 {
		return math.Inf(-1)
	}
	return math.Log(s.sum) + 2*s.top
}

// measureRows and measureCols bound the part of the matrix held at a time.
const measureRows, measureCols = 256, 4096

// measure adds the errors of one map over all pairs of rows. Estimates are computed exactly as gram -o computes
// them, in the same precision, but in the log domain, so that kernels beyond its range count, too. Exact values
// are computed in float64.
func measure[T dense.Float](
	ctx context.Context, m *randfeat.Map[T], target kernel.Kernel, x, y dense.Matrix[T], sums *errorSums,
) error {
	sums.noRelative = sums.noRelative || target.Kind == kernel.Bessel
	var ws randfeat.Workspace[T]
	n, c := min(measureRows, x.Rows), min(measureCols, y.Rows)
	log, sign := dense.New[float64](n, c), dense.New[float64](n, c)
	for b := 0; b < y.Rows; b += c {
		yb := y.RowRange(b, min(b+c, y.Rows))
		wideY := dense.Convert[float64](yb)
		for a := 0; a < x.Rows; a += n {
			if err := ctx.Err(); err != nil {
				return err
			}
			xb := x.RowRange(a, min(a+n, x.Rows))
			wideX := dense.Convert[float64](xb)
			l, s := log.RowRange(0, xb.Rows).ColRange(0, yb.Rows), sign.RowRange(0, xb.Rows).ColRange(0, yb.Rows)
			if err := m.LogGram(l, s, xb, yb, &ws); err != nil {
				return err
			}
			// One sum per row, merged in order: the result does not depend on the number of threads.
			rows, bad := make([]errorSums, xb.Rows), make([]int, xb.Rows)
			par.For(xb.Rows, 1+65536/(yb.Rows*x.Cols), func(lo, hi int) {
				for i := lo; i < hi; i++ {
					bad[i] = rows[i].addRow(target, wideX.Row(i), wideY, l.Row(i), s.Row(i))
				}
			})
			for i, r := range rows {
				if bad[i] >= 0 {
					return fmt.Errorf("the estimate of X row %d and Y row %d is not finite: choose a larger --scale",
						a+i, b+bad[i])
				}
				sums.merge(r)
			}
		}
	}
	return nil
}

// addRow records the estimates of x with all rows of y and returns the first that is not finite, or -1.
func (s *errorSums) addRow(target kernel.Kernel, x []float64, y dense.Matrix[float64], log, sign []float64) (bad int) {
	for j, v := range log {
		if math.IsNaN(v) || math.IsInf(v, 1) {
			return j
		}
		exactSign, exact := exactLog(target, x, y.Row(j))
		s.add(sign[j], v, exactSign, exact)
	}
	return -1
}

// exactLog returns the exact kernel as a sign and a logarithm; only the Bessel kernel has signs.
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
	approximate bool    // the coupling follows the closed form only nearly
	rounding    float64 // root mean square, in units of the precision
}

// predictPairs bounds the pairs of a prediction: closed forms cost far more than features.
const predictPairs = 1024

// predict averages the relative mean squared error over pairs that are spread evenly over the two sets.
func predict(ctx context.Context, spec randfeat.Spec, m int, x, y dense.Matrix[float64]) (prediction, error) {
	var p prediction
	ownTarget := hasOwnTarget(spec.Family)
	c := spec.Coupling
	if c == nil {
		c = coupling.IID{}
	}
	// Factorises matrices once instead of at every pair.
	est, err := family.Prepare(spec.Family, spec.Kernel.Dim(spec.Dim))
	if err != nil {
		return p, err
	}
	pairs := mapflags.NewPairSample(x.Rows, y.Rows, predictPairs)
	at := make([]pairPrediction, pairs.N)
	par.For(pairs.N, 8, func(lo, hi int) {
		for k := lo; k < hi && ctx.Err() == nil; k++ {
			i, j := pairs.At(k)
			at[k] = predictPair(spec.Kernel, est, c, m, ownTarget, x.Row(i), y.Row(j))
		}
	})
	if err := ctx.Err(); err != nil {
		return p, err
	}
	var sum, units float64
	for _, q := range at { // in order, so that the reported error is always the same
		if q.err != nil {
			return p, q.err
		}
		sum += math.Exp(q.logMSE)
		units += math.Exp(2 * q.logUnits)
		p.approximate = p.approximate || q.approximate
	}
	p.rms, p.rounding = math.Sqrt(sum/float64(pairs.N)), math.Sqrt(units/float64(pairs.N))
	return p, nil
}

type pairPrediction struct {
	logMSE      float64
	logUnits    float64 // of the error of rounding
	approximate bool
	err         error
}

func predictPair(k kernel.Kernel, est theory.Estimator, c coupling.Coupling, m int, ownTarget bool,
	x, y []float64) pairPrediction {
	moments, err := theory.Of(k, est, c, m, x, y)
	if err != nil {
		return pairPrediction{err: err}
	}
	q := pairPrediction{logMSE: moments.LogRelMSE(), logUnits: moments.LogRounding(1), approximate: moments.Approximate}
	if ownTarget { // the error is measured against the kernel that the family estimates
		q.logMSE = moments.LogRelVar()
	}
	return q
}

// hasOwnTarget reports whether a family estimates another kernel than the requested one (DARK).
func hasOwnTarget(f family.Family) bool {
	_, own := f.(interface {
		Target(kernel.Kernel) kernel.Kernel
	})
	return own
}

// noForm reports whether an error says only that theory has no closed form.
func noForm(err error) bool { return errors.Is(err, theory.ErrNoClosedForm) }
