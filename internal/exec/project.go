package exec

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/plan"
)

// projection computes t = Ω·Mix·u + bias for u = Lin·x − Shift. It takes one of three forms:
//
//   - dense: w is Ω·Mix·Lin, multiplied once in float64, so a map costs one product however it was composed;
//     −Ω·Mix·Shift is in bias;
//   - fast: Ω is a structured product (Hadamard, Givens) that is never formed; the linear part is a separate step, pre;
//   - absent: t does not depend on x and is bias alone.
type projection[T dense.Float] struct {
	rows int // projections m
	w    kern.Panel[T]
	fast *omega.Transform[T]
	pre  preMap[T] // before fast
	bias []T       // one per projection, with −Ω·Mix·Shift in the dense form; nil means zero
}

// preMap is x ↦ Lin·x − shift in T; an empty dense matrix means gain·x.
type preMap[T dense.Float] struct {
	gain  T
	dense dense.Matrix[T]
	shift []T
}

// absent reports whether t does not depend on x.
func (p *projection[T]) absent() bool { return !p.isDense() && p.fast == nil }

func (p *projection[T]) isDense() bool { return p.w.Rows > 0 }

// fastPays reports whether a structured projection of inputs of dim columns is cheaper by fast transforms than as a
// dense product. It compares the measured costs of the table, not operation counts (BenchmarkFastOrDense).
func fastPays[T dense.Float](tab *kern.Table[T], f *omega.Structured, dim int) bool {
	return f != nil && len(f.Blocks)*f.N*tab.Structured < f.Rows*dim
}

// compileProjection prepares one projection (Mix and Bias, or MixIm and BiasIm) of a leaf for inputs of dim columns.
// The Lin of the leaf must not be absent.
func compileProjection[T dense.Float](l *plan.Leaf, mix plan.Linear, bias []float64, dim int,
	tab *kern.Table[T]) projection[T] {
	p := projection[T]{rows: l.Omega.Rows.Rows}
	if mix.IsZero() {
		p.bias = narrow[T](bias)
		return p
	}
	pre := mix.Compose(l.Lin, dim)
	if f := l.Omega.Fast; fastPays(tab, f, dim) {
		p.fast, p.bias = omega.NewTransform(f, tab), narrow[T](bias)
		if pre.Dense.IsEmpty() && pre.Diag == nil {
			p.pre.gain = T(pre.Gain)
		} else {
			p.pre.dense = dense.Convert[T](pre.Matrix(dim))
		}
		if l.Shift != nil {
			s := make([]float64, f.Dim)
			mix.Apply(s, l.Shift)
			p.pre.shift = narrow[T](s)
		}
		return p
	}
	w := weights(l.Omega.Rows, pre)
	same, ok := any(w).(dense.Matrix[T]) // Pack copies: float64 needs no conversion before
	if !ok {
		same = dense.Convert[T](w)
	}
	tab.Pack(&p.w, same)
	p.bias = foldShift[T](l, mix, bias)
	return p
}

// weights is the matrix Ω·pre of a projection, in float64. It may be omega itself: do not write to it.
func weights(omega dense.Matrix[float64], pre plan.Linear) dense.Matrix[float64] {
	switch {
	case !pre.Dense.IsEmpty():
		return plan.Mul(omega, pre.Dense)
	case pre.Diag != nil:
		w := omega.Clone()
		for i := range w.Rows {
			for j, v := range pre.Diag {
				w.Data[i*w.Stride+j] *= v
			}
		}
		return w
	case pre.Gain == 1:
		return omega
	}
	w := omega.Clone()
	for i := range w.Data {
		w.Data[i] *= pre.Gain
	}
	return w
}

// foldShift returns bias − Ω·mix·Shift, summed in float64 before it is rounded to T.
func foldShift[T dense.Float](l *plan.Leaf, mix plan.Linear, bias []float64) []T {
	if l.Shift == nil {
		return narrow[T](bias)
	}
	omega := l.Omega.Rows
	s := make([]float64, omega.Cols)
	mix.Apply(s, l.Shift)
	out := make([]T, omega.Rows)
	for f := range out {
		v := -dense.Dot(omega.Row(f), s)
		if bias != nil {
			v += bias[f]
		}
		out[f] = T(v)
	}
	return out
}

// project writes t for all rows of x into dst, x.Rows × m.
func (p *projection[T]) project(s *Side[T], dst, x dense.Matrix[T], sc *scratch[T]) {
	switch {
	case p.isDense():
		s.tab.MulT(dst, x, &p.w, p.bias)
	case p.fast != nil:
		for i := range x.Rows {
			p.fast.Apply(dst.Row(i), p.before(x.Row(i), sc), sc.fast)
			addBias(dst.Row(i), p.bias)
		}
	default:
		zero(dst)
		for i := range x.Rows {
			copy(dst.Row(i), p.bias)
		}
	}
}

// before applies pre to one row; the result lives in scratch until the next call.
func (p *projection[T]) before(x []T, sc *scratch[T]) []T {
	v := sc.pre[:p.fast.Dim()]
	if p.pre.dense.IsEmpty() {
		for k, c := range x {
			v[k] = p.pre.gain * c
		}
	} else {
		for k := range v {
			v[k] = dense.Dot(p.pre.dense.Row(k), x)
		}
	}
	for k, c := range p.pre.shift {
		v[k] -= c
	}
	return v
}

// narrow converts to T; nil stays nil, which means zero.
func narrow[T dense.Float](x []float64) []T {
	if x == nil {
		return nil
	}
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = T(v)
	}
	return out
}
