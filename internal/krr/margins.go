package krr

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// MarginSteps is the usual limit of the steps of a fit with margins, here and in linalg.Dual.Margins.
const MarginSteps = 40

// Margins fits targets y of 0 and 1 by squared hinge losses, which do not count predictions beyond the target as
// errors. For each column it minimises
//
//	J = ½Σ short(f)² + ½λ αᵀKα,  f = Kα + b,  short = max(1−f, 0) for target 1, min(−f, 0) for target 0,
//
// subject to 1ᵀα = 0, as linalg.Dual.Margins does. start is the initial guess; nil means α = 0.
//
// The gradient by α is K·g with g = λα − short, and the gradient by b is −Σ short. The Hessian is at most K(K + λI),
// the Hessian of squared errors, so the direction −P⁻¹g of their preconditioner suits this loss too. In the inner
// product of K this is the method of nonlinear conjugate gradients (Polak & Ribière 1969, with restarts). One step:
//
//  1. Compute g from f, and the preconditioned direction z = −P⁻¹g − δb·P⁻¹1, with δb such that 1ᵀ(α + z) = 0.
//  2. Compute Kz, the only product with K of the step, in float32 tiles.
//  3. Update d = z + βd and Kd = Kz + βKd; β = 0 restarts.
//  4. Search exactly along d, for every column; f is updated by Kd and never recomputed.
//
// A column is done when a step changes its f by less than o.Tolerance on average; later products leave it out. The
// iteration ends when this holds for the mean of all columns, or after o.Steps steps. Result.Residual is the last
// change. The error wraps [ErrNotPositive] if λ is too small for the precision; errors of o.Progress end the fit.
func Margins(s *Kernels, sk *Sketch, y dense.Matrix[float64], lambda float64, start *Fit, o Options) (*Fit, Result,
	error) {
	var done Result
	p, err := sk.with(lambda)
	if err != nil {
		return nil, done, fmt.Errorf("%w (%w)", ErrNotPositive, err)
	}
	m := startOf(s, y, lambda, start)
	d, err := newDescent(s, p, m)
	if err != nil {
		return nil, done, err
	}
	outs := float64(y.Cols)
	fit := &Fit{Alpha: m.alpha.Clone(), Intercept: slices.Clone(m.b)}
	live := make([]int, y.Cols) // the columns of y that are still moving
	for c := range live {
		live[c] = c
	}
	for done.Steps < o.Steps {
		d.gradient()
		if err := d.turn(); err != nil {
			return nil, done, err
		}
		done.Steps++
		moved := m.search(d.d, d.kd, d.db)
		done.Residual = 0
		var moving []int
		for c, v := range moved {
			// Columns that are done count as zero, so the mean is over all of them at every step.
			if done.Residual += v / outs; v >= o.Tolerance {
				moving = append(moving, c)
			}
		}
		if o.Progress != nil {
			if err := o.Progress(done.Steps, done.Residual); err != nil {
				return nil, done, err
			}
		}
		if done.Converged = done.Residual < o.Tolerance; done.Converged {
			break
		}
		if len(moving) < len(live) {
			m.write(fit, live)
			d.keep(moving)
			live = picked(live, moving)
		}
	}
	m.write(fit, live)
	if fit.Alpha.CheckFinite() != nil {
		return nil, done, ErrNotPositive
	}
	return fit, done, nil
}

// startOf is the point where the descent starts: a fit of before, or α = 0 and the share of each class.
func startOf(s *Kernels, y dense.Matrix[float64], lambda float64, start *Fit) *hinge {
	n, outs := y.Rows, y.Cols
	m := &hinge{y: y, lambda: lambda, alpha: dense.New[float64](n, outs), f: dense.New[float64](n, outs),
		b: make([]float64, outs)}
	if start != nil {
		copy(m.alpha.Data, start.Alpha.Data)
		copy(m.b, start.Intercept)
		s.Product(m.f, m.alpha)
	} else {
		for c, sum := range columnSums(y) {
			m.b[c] = sum / float64(n)
		}
	}
	for i := range n {
		for c, v := range m.b {
			m.f.Row(i)[c] += v
		}
	}
	return m
}

// descent are the directions of the conjugate gradients: columns of its matrices belong to columns of m.
type descent struct {
	m *hinge
	s *Kernels
	p *preconditioner
	// ones = P⁻¹1 and ko = K·ones correct each direction and its product so that 1ᵀα stays 0. sum is 1ᵀP⁻¹1.
	ones, ko dense.Matrix[float64]
	sum      float64

	z, kz     dense.Matrix[float64] // the preconditioned direction and its product with K
	d, kd     dense.Matrix[float64] // the conjugate one
	g, before dense.Matrix[float64] // the gradient by α without its factor K, now and a step before
	db        []float64             // the direction of b
	last      []float64             // z·gradient of the step before: negative, the denominator of β
	shorts    []float64             // Σ short, minus the gradient by b
	shorted   []float64             // shorts of the step before
}

func newDescent(s *Kernels, p *preconditioner, m *hinge) (*descent, error) {
	n, outs := m.y.Rows, m.y.Cols
	d := &descent{m: m, s: s, p: p, ones: dense.New[float64](n, 1), ko: dense.New[float64](n, 1)}
	for _, of := range []*dense.Matrix[float64]{&d.z, &d.kz, &d.d, &d.kd, &d.g, &d.before} {
		*of = dense.New[float64](n, outs)
	}
	for _, of := range []*[]float64{&d.db, &d.last, &d.shorts, &d.shorted} {
		*of = make([]float64, outs)
	}
	one := dense.New[float64](n, 1)
	for i := range one.Data {
		one.Data[i] = 1
	}
	if err := p.apply(d.ones, one); err != nil {
		return nil, err
	}
	s.Product(d.ko, d.ones)
	for _, v := range d.ones.Data {
		d.sum += v
	}
	if !(d.sum > 0) { // P is positive definite: this is rounding
		return nil, ErrNotPositive
	}
	return d, nil
}

// gradient computes g and shorts from f, and keeps those of the step before.
func (d *descent) gradient() {
	copy(d.before.Data, d.g.Data)
	copy(d.shorted, d.shorts)
	clear(d.shorts)
	for i := range d.g.Rows {
		gi, fi, ai, yi := d.g.Row(i), d.m.f.Row(i), d.m.alpha.Row(i), d.m.y.Row(i)
		for c := range gi {
			sh := short(yi[c], fi[c])
			d.shorts[c] += sh
			gi[c] = float64(d.m.lambda*ai[c]) - sh
		}
	}
}

// turn computes the next direction d, its product kd and db from the gradient.
func (d *descent) turn() error {
	if err := d.p.apply(d.z, d.g); err != nil {
		return err
	}
	d.s.Product(d.kz, d.z)
	// The solution of Pz + δb·1 = −g with 1ᵀ(α + z) = 0. The condition on α + z, not on z alone, also removes what
	// rounding has added to 1ᵀα.
	zs, as := columnSums(d.z), columnSums(d.m.alpha)
	nb := make([]float64, len(d.db))
	for c := range nb {
		nb[c] = (as[c] - zs[c]) / d.sum
	}
	for i := range d.z.Rows {
		zi, ki := d.z.Row(i), d.kz.Row(i)
		for c, v := range nb {
			zi[c] = -zi[c] - float64(v*d.ones.Data[i])
			ki[c] = -ki[c] - float64(v*d.ko.Data[i]) // K·z without another product
		}
	}
	// Polak and Ribière's β = max(0, ⟨new gradient − old, z⟩/⟨old gradient, old z⟩), with the parts of α and of b.
	now, old := dots(d.g, d.kz), dots(d.before, d.kz)
	for c := range now {
		now[c] -= float64(nb[c] * d.shorts[c])
		old[c] -= float64(nb[c] * d.shorted[c])
		beta := 0.0 // the first step has no last one
		if d.last[c] < 0 {
			beta = max(0, (now[c]-old[c])/d.last[c])
		}
		if !dense.IsFinite(beta) {
			beta = 0
		}
		d.last[c] = now[c]
		d.db[c] = nb[c] + float64(beta*d.db[c])
		for at := c; at < len(d.d.Data); at += len(nb) { // column c: all four are packed
			d.d.Data[at] = d.z.Data[at] + float64(beta*d.d.Data[at])
			d.kd.Data[at] = d.kz.Data[at] + float64(beta*d.kd.Data[at])
		}
	}
	return nil
}

// keep leaves out the columns that are done: products with K cost as much as there are columns.
func (d *descent) keep(which []int) {
	for _, of := range []*dense.Matrix[float64]{&d.m.y, &d.m.alpha, &d.m.f, &d.z, &d.kz, &d.d, &d.kd, &d.g, &d.before} {
		*of = columns(*of, which)
	}
	for _, of := range []*[]float64{&d.m.b, &d.db, &d.last, &d.shorts, &d.shorted} {
		*of = picked(*of, which)
	}
}

// write copies the present point to the columns live of a fit.
func (m *hinge) write(fit *Fit, live []int) {
	for a, c := range live {
		fit.Intercept[c] = m.b[a]
		for i := range m.alpha.Rows {
			fit.Alpha.Set(i, c, m.alpha.At(i, a))
		}
	}
}

// columns returns a copy of some columns of a.
func columns(a dense.Matrix[float64], which []int) dense.Matrix[float64] {
	out := dense.New[float64](a.Rows, len(which))
	for i := range a.Rows {
		for to, c := range which {
			out.Row(i)[to] = a.At(i, c)
		}
	}
	return out
}

// picked returns some elements of a.
func picked[T any](a []T, which []int) []T {
	out := make([]T, len(which))
	for i, c := range which {
		out[i] = a[c]
	}
	return out
}

// hinge is the current point of the descent; f = Kα + b always.
type hinge struct {
	y, alpha, f dense.Matrix[float64]
	b           []float64
	lambda      float64
}

// short returns how far prediction f falls short of target y, 0 or 1: the derivative of −½short² by f.
func short(y, f float64) float64 {
	if y > 0 {
		return max(1-f, 0)
	}
	return min(-f, 0)
}

// search moves along the direction (d, db) to the minimum of J, for every column by itself, and returns the mean
// absolute change of f in every column. kd is K·d.
func (m *hinge) search(d, kd dense.Matrix[float64], db []float64) []float64 {
	n, outs := m.y.Rows, m.y.Cols
	moved := make([]float64, outs)
	par.For(outs, 1, func(from, to int) {
		y, f, change := make([]float64, n), make([]float64, n), make([]float64, n) // of one column
		for c := from; c < to; c++ {
			q1, q2 := 0.0, 0.0 // αᵀKd, dᵀKd
			for i := range n {
				k := kd.At(i, c)
				q1 += float64(m.alpha.At(i, c) * k)
				q2 += float64(d.At(i, c) * k)
				y[i], f[i], change[i] = m.y.At(i, c), m.f.At(i, c), k+db[c]
			}
			// slope returns the first and the second derivative of J along the direction at t.
			slope := func(t float64) (s, curve float64) {
				s, curve = float64(m.lambda*(q1+float64(t*q2))), float64(m.lambda*q2)
				for i, k := range change {
					if sh := short(y[i], f[i]+float64(t*k)); sh != 0 {
						s -= float64(sh * k)
						curve += float64(k * k)
					}
				}
				return s, curve
			}
			t := leastOf(slope)
			for i, k := range change {
				k = float64(t * k)
				m.f.Row(i)[c] += k
				moved[c] += math.Abs(k)
				m.alpha.Row(i)[c] += float64(t * d.At(i, c))
			}
			m.b[c] += float64(t * db[c])
			moved[c] /= float64(n)
		}
	})
	return moved
}

// leastOf returns the minimum of a convex, piecewise quadratic function on t ≥ 0, given its first and second
// derivatives. Newton steps are exact within a piece. The bracket [lo, hi] of points on either side of the minimum
// catches steps that leave it; without an upper end, t doubles.
func leastOf(slope func(t float64) (s, curve float64)) float64 {
	lo, hi, t := 0.0, math.Inf(1), 1.0
	for range 20 {
		s, curve := slope(t)
		if s > 0 {
			hi = t
		} else {
			lo = t
		}
		if s == 0 || !(curve > 0) {
			break
		}
		next := t - s/curve
		if !(next > lo && next < hi) {
			if math.IsInf(hi, 1) {
				next = 2 * t
			} else {
				next = (lo + hi) / 2
			}
		}
		if math.Abs(next-t) <= 1e-6*t {
			t = next
			break
		}
		t = next
	}
	if !dense.IsFinite(t) {
		return 0
	}
	return t
}

func columnSums(a dense.Matrix[float64]) []float64 {
	sum := make([]float64, a.Cols)
	for i := range a.Rows {
		for c, v := range a.Row(i) {
			sum[c] += v
		}
	}
	return sum
}
