package choose

import (
	"fmt"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// exponentialLaw is the law of single-exponential features: the families for which one projection ω gives
//
//	ŵ_j/w_j = Re exp( α_j + β_j·ω + Σ_l γ_l ω_l² ),   ω ~ N(0, I)
//
// (positive, trig, hyperbolic, OPRF, GERF, complex-exp, adaptive, importance, zero-one, DARK over them). The linear
// part β_j = P x + R y_j + s is read from the lowered map, γ from its biases at chosen ω, and α_j follows from E ŵ_j =
// w_j. With E exp(b·ω + Σ c_l ω_l²) = Π (1-2c_l)^{-1/2} exp(½ Σ b_l²/(1-2c_l)) the covariances have a closed form
// [derived]:
//
//	E f_j f_k = exp( α_j + α_k - ½ Σ log(1-4γ_l) + ½ Σ (β_jl+β_kl)²/(1-4γ_l) ),
//	E Re f_j Re f_k = ½ Re( E f_j f_k + E f_j f̄_k )
//
// For positive features this is cov = expm1( (x+y_j)·(x+y_k) ), for trig cosh( (x-y_j)·(x-y_k) ) - 1.
type exponentialLaw struct {
	branches   []branch // by query centre, then key centre; a single one without centres
	qc, kc     dense.Matrix[float64]
	gamma      []complex128
	plusMinus  bool // features at +ω and −ω (hyperbolic): the mean of both signs of β
	realValued bool // exponents are real, so conjugate terms equal the plain ones
}

// branch is the linear part of the exponent for one pair of centres.
type branch struct {
	query, key [2]dense.Matrix[float64] // real and imaginary parts of P and R; an empty matrix stands for zero
	shift      [2][]float64
}

// newExponentialLaw reads the law of a family from its lowered map. The error wraps theory.ErrNoClosedForm if the map
// does not have the form above: several draws, other laws of projections, other functions, or blocks that are not one
// per pair of centres.
func newExponentialLaw(f family.Family, dim int) (*exponentialLaw, error) {
	none := forms.NoForm(fmt.Sprintf("covariances of the weights of two keys (family %s)", f.Name()))
	draws, err := f.Draws(kernel.Softmax, dim, 1)
	if err != nil {
		return nil, err
	}
	if len(draws) != 1 || draws[0].Law.Kind != coupling.Normal {
		return nil, none
	}
	d := draws[0].Dim
	pair, err := f.Lower(kernel.Softmax, dim, []coupling.Omega{{Rows: quadraticProbes(d)}})
	if err != nil {
		return nil, err
	}
	q, k := pair.Query, pair.Key
	if len(q.Blocks) != len(k.Blocks) || len(q.Blocks) != max(1, q.Centres.Rows)*max(1, k.Centres.Rows) {
		return nil, none
	}
	out := &exponentialLaw{qc: q.Centres, kc: k.Centres, realValued: true}
	var rotation dense.Matrix[float64]
	for i, b := range q.Blocks {
		if b.Rho != plan.None || k.Blocks[i].Rho != plan.None || (b.Gate >= 0 || q.Centres.Rows > 0) &&
			(b.Gate != i/k.Centres.Rows || k.Blocks[i].Gate != i%k.Centres.Rows) {
			return nil, none
		}
		ql, kl := q.Leaves[b.Base], k.Leaves[k.Blocks[i].Base]
		sign := 1.0 // sign of the phase of the key
		switch ql.Fn {
		case plan.Exp:
		case plan.ExpPM:
			out.plusMinus = true
		case plan.SinCos, plan.Complex:
			if ql.Conj == kl.Conj {
				sign = -1
			}
			out.realValued = false
		default:
			return nil, none
		}
		gamma, rot, ok := quadraticTerm(ql, kl, sign, d)
		if !ok || out.gamma != nil && !same(gamma, out.gamma) {
			return nil, none
		}
		out.gamma, rotation = gamma, rot
		var br branch
		br.query[0], br.query[1] = exponentOf(ql.Mix, ql, dim, 1), exponentOf(ql.MixIm, ql, dim, 1)
		br.key[0], br.key[1] = exponentOf(kl.Mix, kl, dim, 1), exponentOf(kl.MixIm, kl, dim, sign)
		br.shift[0] = shiftOf(d, ql.Mix, ql.Shift, kl.Mix, kl.Shift, 1)
		br.shift[1] = shiftOf(d, ql.MixIm, ql.Shift, kl.MixIm, kl.Shift, sign)
		br.rotate(rotation)
		out.branches = append(out.branches, br)
	}
	return out, nil
}

// quadraticProbes returns the projections that determine a quadratic form: 0, e_l, and e_l + e_k for l < k.
func quadraticProbes(d int) dense.Matrix[float64] {
	p := dense.New[float64](1+d+d*(d-1)/2, d)
	n := 1 + d
	for l := range d {
		p.Set(1+l, l, 1)
		for k := l + 1; k < d; k++ {
			p.Set(n, l, 1)
			p.Set(n, k, 1)
			n++
		}
	}
	return p
}

// quadraticTerm reads ωᵀΓω from the biases of both sides at the probes and diagonalises it. It returns γ and the
// rotation to apply to the linear part, which is empty if Γ is diagonal already. ok is false for a complex Γ that is
// not diagonal.
func quadraticTerm(q, k plan.Leaf, sign float64, d int) (gamma []complex128, rotation dense.Matrix[float64], ok bool) {
	at := func(f int) complex128 {
		var re, im float64
		for _, side := range []struct {
			leaf plan.Leaf
			sign float64
		}{{q, 1}, {k, sign}} {
			if side.leaf.Bias != nil {
				re += side.leaf.Bias[f]
			}
			if side.leaf.BiasIm != nil {
				im += side.sign * side.leaf.BiasIm[f]
			}
		}
		return complex(re, im)
	}
	gamma = make([]complex128, d)
	for l := range gamma {
		gamma[l] = at(1+l) - at(0)
	}
	full := mat.NewSymDense(d, nil)
	diagonal, isReal := true, true
	n := 1 + d
	for l := range d {
		full.SetSym(l, l, real(gamma[l]))
		isReal = isReal && imag(gamma[l]) == 0
		for m := l + 1; m < d; m++ {
			off := (at(n) - at(0) - gamma[l] - gamma[m]) / 2
			full.SetSym(l, m, real(off))
			if cmplx.Abs(off) > 1e-12*(1+cmplx.Abs(gamma[l])+cmplx.Abs(gamma[m])) {
				diagonal = false
				isReal = isReal && imag(off) == 0
			}
			n++
		}
	}
	if diagonal {
		return gamma, rotation, true
	}
	var e mat.EigenSym
	if !isReal || !e.Factorize(full, true) {
		return nil, rotation, false
	}
	for l, v := range e.Values(nil) {
		gamma[l] = complex(v, 0)
	}
	var vec mat.Dense
	e.VectorsTo(&vec)
	rotation = dense.New[float64](d, d) // ω = Vh, so β·ω = (Vᵀβ)·h
	for l := range d {
		for m := range d {
			rotation.Set(l, m, vec.At(m, l))
		}
	}
	return gamma, rotation, true
}

func same(a, b []complex128) bool {
	for l, v := range a {
		if cmplx.Abs(v-b[l]) > 1e-12*(1+cmplx.Abs(v)) {
			return false
		}
	}
	return true
}

// exponentOf returns sign·mix·Lin as a matrix over embedded inputs, or an empty matrix if mix is zero.
func exponentOf(mix plan.Linear, l plan.Leaf, dim int, sign float64) dense.Matrix[float64] {
	if mix.IsZero() {
		return dense.Matrix[float64]{}
	}
	if !l.Lin.IsZero() {
		mix = mix.Compose(l.Lin, dim)
	}
	m := mix.Matrix(dim).Clone()
	for i := range m.Data {
		m.Data[i] *= sign
	}
	return m
}

// shiftOf returns the constant part s of the linear term: −mix·shift, summed over both sides.
func shiftOf(d int, qMix plan.Linear, qShift []float64, kMix plan.Linear, kShift []float64, sign float64) []float64 {
	out, part := make([]float64, d), make([]float64, d)
	if qShift != nil && !qMix.IsZero() {
		qMix.Apply(part, qShift)
		for i, v := range part {
			out[i] -= v
		}
	}
	if kShift != nil && !kMix.IsZero() {
		kMix.Apply(part, kShift)
		for i, v := range part {
			out[i] -= sign * v
		}
	}
	return out
}

// rotate expresses the linear part in the coordinates in which Γ is diagonal.
func (b *branch) rotate(r dense.Matrix[float64]) {
	if r.IsEmpty() {
		return
	}
	for c := range 2 {
		if !b.query[c].IsEmpty() {
			b.query[c] = plan.Mul(r, b.query[c])
		}
		if !b.key[c].IsEmpty() {
			b.key[c] = plan.Mul(r, b.key[c])
		}
		s := make([]float64, len(b.shift[c]))
		plan.Linear{Dense: r}.Apply(s, b.shift[c])
		b.shift[c] = s
	}
}

// nearestRow returns the index of the centre nearest to x, the first of equals.
func nearestRow(centres dense.Matrix[float64], x []float64) int {
	best, at := math.Inf(1), 0
	for c := range centres.Rows {
		var d float64
		for l, v := range centres.Row(c) {
			d += (v - x[l]) * (v - x[l])
		}
		if d < best {
			best, at = d, c
		}
	}
	return at
}

// At implements weightLaw. All terms that belong to one key are computed once, so that a pair takes O(d).
func (e *exponentialLaw) At(x []float64, y dense.Matrix[float64]) func(j, k int) float64 {
	d, n := len(e.gamma), y.Rows
	beta := [2]dense.Matrix[float64]{dense.New[float64](n, d), dense.New[float64](n, d)}
	first := 0
	if !e.qc.IsEmpty() {
		first = nearestRow(e.qc, x) * e.kc.Rows
	}
	part := make([]float64, d)
	for j := range n {
		b := first
		if !e.kc.IsEmpty() {
			b += nearestRow(e.kc, y.Row(j))
		}
		br := &e.branches[b]
		for c := range 2 {
			row := beta[c].Row(j)
			copy(row, br.shift[c])
			for _, side := range []struct {
				m dense.Matrix[float64]
				v []float64
			}{{br.query[c], x}, {br.key[c], y.Row(j)}} {
				if side.m.IsEmpty() {
					continue
				}
				plan.Linear{Dense: side.m}.Apply(part, side.v)
				for l, v := range part {
					row[l] += v
				}
			}
		}
	}
	// plain and conj are the weights of β_j·β_k and of β_j·β̄_k. half and halfConj collect the terms of one key.
	plain, conj := make([]complex128, d), make([]float64, d)
	var logOne, logPlain complex128
	var logConj float64
	for l, g := range e.gamma {
		plain[l], conj[l] = 1/(1-4*g), 1/(1-4*real(g))
		logOne += cmplx.Log(1-2*g) / 2
		logPlain -= cmplx.Log(1-4*g) / 2
		logConj -= math.Log(1-4*real(g)) / 2
		if 1-4*real(g) <= 0 {
			logConj = math.Inf(1) // the variance is infinite
		}
	}
	if math.IsInf(logConj, 1) {
		return func(j, k int) float64 { return math.Inf(1) }
	}
	half, halfConj := make([]complex128, n), make([]complex128, n)
	for j := range n {
		alpha, a, b := logOne, complex128(0), complex128(0)
		for l, g := range e.gamma {
			v := complex(beta[0].At(j, l), beta[1].At(j, l))
			alpha -= v * v / (2 * (1 - 2*g))
			a += v * v * plain[l] / 2
			b += v * v * complex(conj[l]/2, 0)
		}
		half[j] = alpha + a + logPlain/2
		halfConj[j] = alpha + b + complex(logConj/2, 0)
	}
	if e.realValued {
		return func(j, k int) float64 {
			var dot float64
			bj, bk := beta[0].Row(j), beta[0].Row(k)
			for l, w := range conj {
				dot += w * bj[l] * bk[l]
			}
			s := real(half[j]) + real(half[k])
			if e.plusMinus {
				return (math.Expm1(s+dot) + math.Expm1(s-dot)) / 2
			}
			return math.Expm1(s + dot)
		}
	}
	return func(j, k int) float64 {
		var dot, dotConj complex128
		jr, ji, kr, ki := beta[0].Row(j), beta[1].Row(j), beta[0].Row(k), beta[1].Row(k)
		for l, w := range conj {
			u, v := complex(jr[l], ji[l]), complex(kr[l], ki[l])
			dot += u * v * plain[l]
			dotConj += u * cmplx.Conj(v) * complex(w, 0)
		}
		return (real(cmplx.Exp(half[j]+half[k]+dot))+real(cmplx.Exp(halfConj[j]+cmplx.Conj(halfConj[k])+dotConj)))/2 - 1
	}
}
