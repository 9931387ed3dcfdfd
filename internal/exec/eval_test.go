package exec_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/exec"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/internal/stattest/cases"
	"github.com/randfeat/randfeat/kernel"
)

// drawer draws plans that use every field a leaf has, each present or absent by a throw of the coin.
type drawer struct {
	*rand.Rand
	src rand.Source
}

func newDrawer(seed, stream uint64) drawer {
	src := rng.Stream(seed, stream)
	return drawer{rand.New(src), src}
}

func (d drawer) coin() bool { return d.IntN(2) == 0 }

// vector is n normal numbers of the given size.
func (d drawer) vector(n int, size float64) []float64 {
	v := make([]float64, n)
	rng.Normals(v, d.src)
	for i := range v {
		v[i] *= size
	}
	return v
}

func (d drawer) matrix(rows, cols int, size float64) dense.Matrix[float64] {
	return dense.Matrix[float64]{Rows: rows, Cols: cols, Stride: cols, Data: d.vector(rows*cols, size)}
}

// linear is a map from cols to rows coordinates of any form, of norm about size; absent only if optional.
func (d drawer) linear(rows, cols int, size float64, optional bool) plan.Linear {
	form := d.IntN(4)
	switch {
	case rows != cols || form == 0:
		return plan.Linear{Dense: d.matrix(rows, cols, size/math.Sqrt(float64(cols)))}
	case form == 1:
		return plan.Linear{Diag: d.vector(cols, size)}
	case form == 2 && optional:
		return plan.Linear{}
	}
	return plan.Scalar(size * (d.Float64() + 0.5))
}

func (d drawer) quadratic(dim int) plan.Quadratic {
	q := plan.Quadratic{Const: d.NormFloat64()}
	if d.coin() {
		q.Lin = d.vector(dim, 0.3)
	}
	if d.coin() {
		q.Quad = d.linear(dim, dim, 0.3, false)
	}
	return q
}

// leaf is a leaf of the function f for inputs of dim columns, with m projections.
func (d drawer) leaf(f plan.Fn, dim, m int) plan.Leaf {
	inner := dim
	l := plan.Leaf{Fn: f}
	if d.coin() {
		inner = 1 + d.IntN(dim+2)
		l.Lin = d.linear(inner, dim, 1, false)
	}
	if d.coin() {
		l.Shift = d.vector(inner, 0.5)
	}
	mid := inner
	if d.coin() && f != plan.Monomial {
		mid = 1 + d.IntN(inner+2)
	}
	if d.coin() {
		l.Row = d.quadratic(inner)
	}
	optional := func(v []float64) []float64 {
		if d.coin() {
			return nil
		}
		return v
	}
	switch f {
	case plan.ELU:
		l.Row = plan.Quadratic{}
		if d.coin() {
			l.Floor = 0.1
		}
		return l
	case plan.Monomial:
		l.Omega.Rows = dense.New[float64](m, inner)
		for i := range l.Omega.Rows.Data {
			l.Omega.Rows.Data[i] = float64(max(0, d.IntN(6)-2))
		}
		l.Bias = optional(d.vector(m, 0.5))
		if d.coin() {
			l.Floor = 0.1
		}
		return l
	}
	if f == plan.Columns {
		kinds := slices.DeleteFunc(kernel.Kinds(), kernel.Kind.Signed)
		l.Omega.Rows, l.Kernel = d.matrix(m, inner, 1), kinds[d.IntN(len(kinds))]
		if d.coin() {
			l.White = d.matrix(m, 1+d.IntN(m+1), 1)
		}
		return l
	}
	if mid >= 16 && d.coin() { // padded rows of smaller ones may be 0, whose sign is any
		o, err := coupling.Hadamard{}.Sample(m, mid, coupling.Law{}, d.src)
		if err != nil {
			panic(err)
		}
		l.Omega = o
	} else {
		l.Omega.Rows = d.matrix(m, mid, 1)
	}
	size := 1 / math.Sqrt(float64(mid))
	l.Mix = d.linear(mid, inner, size, mid == inner)
	l.Bias = optional(d.vector(m, 0.5))
	if f == plan.SinCos || f == plan.Complex {
		l.MixIm = d.linear(mid, inner, size, mid == inner)
		l.BiasIm = optional(d.vector(m, 1))
		if d.coin() {
			l.RowIm = d.quadratic(inner)
		}
		l.Conj = d.coin() // without a meaning for SinCos
	}
	if f == plan.ReLU {
		l.Eps = 0.01 * d.Float64()
	}
	return l
}

// side has the leaf l, and possibly others: alone, with a coefficient, in a Kronecker product, behind a gate.
func (d drawer) side(l plan.Leaf, dim int) plan.Side {
	s := plan.Side{Leaves: []plan.Leaf{l}}
	if d.coin() {
		s.Outer = d.quadratic(dim)
	}
	s.Blocks = []plan.Block{{Coef: 1, Rho: plan.None, Base: 0, Gate: plan.None}}
	if d.coin() {
		return s
	}
	for range 1 + d.IntN(2) {
		s.Leaves = append(s.Leaves, d.leaf(plan.Fn(d.IntN(int(plan.Fns))), dim, 1+d.IntN(4)))
	}
	centres := 0
	if d.coin() {
		centres = 2 + d.IntN(2)
		cols := 1 + d.IntN(dim+1)
		s.CentreLin = d.linear(cols, dim, 1, cols == dim)
		s.Centres = d.matrix(centres, cols, 1)
	}
	s.Blocks = nil
	for range 1 + d.IntN(3) {
		b := plan.Block{Coef: d.NormFloat64(), Base: d.IntN(len(s.Leaves)), Rho: plan.None, Gate: plan.None}
		if d.coin() {
			b.Rho = d.IntN(len(s.Leaves))
		}
		if centres > 0 && d.IntN(3) > 0 {
			b.Gate = d.IntN(centres)
		}
		s.Blocks = append(s.Blocks, b)
	}
	return s
}

// Every way through the package gives the features that the plan defines: plain, scaled and checked runs, the log form,
// features with given scales, derivatives; all functions with all that a leaf may hold, in both precisions, on every
// kernel.
func TestAllPathsAgreeWithEval(t *testing.T) {
	draws := 40
	if !stattest.Full() {
		draws = 15
	}
	for f := range plan.Fns {
		t.Run(f.String(), func(t *testing.T) {
			compared, skipped := 0, 0
			for seed := range draws {
				c, s := checkDrawn(t, f, uint64(seed), seed%5 == 4)
				compared, skipped = compared+c, skipped+s
			}
			if skipped*20 > compared {
				t.Errorf("%d derivatives compared, %d skipped at kinks", compared, skipped)
			}
		})
	}
}

// The same for the plans of every family, of every kernel that it has.
func TestFamiliesAgreeWithEval(t *testing.T) {
	const d = 5
	x, y := cases.Rows(200, d, 0.2, 0.5, 1), cases.Rows(200, d, -0.1, 0.5, 2)
	for _, f := range cases.Families(t, x, y) {
		for _, kind := range kernel.Kinds() {
			k := kernel.Kernel{Kind: kind}
			if kind == kernel.Softmax {
				k.Scale = 1.2
			}
			spec := randfeat.Spec{Kernel: k, Family: f.Family, Dim: d, M: 7, Seed: 3}
			omega, err := randfeat.Draw(spec)
			if errors.Is(err, family.ErrKernel) {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			pair, err := randfeat.Lower(spec, omega)
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			compared := 0
			for _, s := range []plan.Side{pair.Query, pair.Key} {
				c, _ := checkSide(t, s, x.RowRange(0, 3))
				compared += c
			}
			if t.Failed() || compared == 0 {
				t.Fatalf("%s, %v kernel (%d derivatives compared)", f.Name, k.Kind, compared)
			}
		}
	}
}

// FuzzPlans is TestAllPathsAgreeWithEval for any draw.
func FuzzPlans(f *testing.F) {
	f.Add(uint64(plan.Residual), uint64(1)<<40, false)
	f.Fuzz(func(t *testing.T, fn, seed uint64, large bool) {
		checkDrawn(t, plan.Fn(fn%uint64(plan.Fns)), seed, large)
	})
}

// checkDrawn draws a side with a leaf of function f and compares it with Eval. A large one has one leaf, which is
// projected by fast transforms if its projections have them.
func checkDrawn(t *testing.T, f plan.Fn, seed uint64, large bool) (compared, skipped int) {
	t.Helper()
	d := newDrawer(uint64(f), seed)
	var s plan.Side
	var x dense.Matrix[float64]
	if large {
		l := d.leaf(f, 32, 32+d.IntN(9))
		s, x = plan.Single(l), d.matrix(3, 32, 0.5)
	} else {
		dim := 1 + d.IntN(6)
		s, x = d.side(d.leaf(f, dim, 1+d.IntN(9)), dim), d.matrix(3, dim, 0.8)
		for range d.IntN(3) { // zeros are special to monomials
			x.Data[d.IntN(len(x.Data))] = 0
		}
	}
	compared, skipped = checkSide(t, s, x)
	if t.Failed() {
		t.Fatalf("seed %d: %+v", seed, s)
	}
	return compared, skipped
}

func checkSide(t *testing.T, s plan.Side, x dense.Matrix[float64]) (compared, skipped int) {
	t.Helper()
	checkPlan(t, s, x, 5e-14, kern.Available[float64]())
	checkPlan(t, s, x, 1e-5, kern.Available[float32]())
	checkVJP(t, s, x, 1e-4, kern.Available[float32]())
	return checkVJP(t, s, x, 1e-8, kern.Available[float64]())
}

// checkPlan compares every path of the compiled side with Eval. tol is relative to a feature, and to what its inputs
// contribute to it: a compiled map is exact for inputs that are off by tol.
func checkPlan[T dense.Float](t *testing.T, s plan.Side, x64 dense.Matrix[float64], tol float64,
	tables []*kern.Table[T]) {
	t.Helper()
	x := dense.Convert[T](x64)
	x64 = dense.Convert[float64](x)
	tiny := 0x1p-1020
	if T(tiny) == 0 {
		tiny = 0x1p-124
	}
	var paths []path
	for _, tab := range tables {
		c := exec.Compile(s, x.Cols, tab)
		if c.OutDim() != s.OutDim(x.Cols) {
			t.Fatalf("%d features, the plan has %d", c.OutDim(), s.OutDim(x.Cols))
		}
		for _, p := range allPaths(c, tab, x) {
			p.name = tab.Name + ", " + p.name
			paths = append(paths, p)
		}
	}
	for i := range x.Rows {
		value, e := s.EvalLog(x64.Row(i))
		cond := conditions(s, x64.Row(i), value, e)
		for _, p := range paths {
			for f, want := range value {
				// Relative to exp(e), which may be −10 for one leaf and 10 for another.
				got := p.at(i, f)
				if want != 0 {
					got *= math.Exp(p.scale[i] - e[f])
				}
				underflow := tiny * math.Exp(p.scale[i]-e[f])
				if !(math.Abs(got-want) <= tol*(max(1, math.Abs(want))+cond[f])+underflow) {
					t.Errorf("%T, %s: row %d, feature %d is %v·exp(%v), Eval gives %v", T(0), p.name, i, f, got, e[f],
						want)
					return
				}
			}
		}
	}
}

// path is a result of one way through the package: feature f of row i is at(i, f)·exp(scale_i).
type path struct {
	name  string
	at    func(i, f int) float64
	scale []float64
}

// allPaths maps the rows of x by every function that gives features.
func allPaths[T dense.Float](s *exec.Side[T], tab *kern.Table[T], x dense.Matrix[T]) []path {
	n, out := x.Rows, s.OutDim()
	var ws exec.Workspace[T]
	norms := make([]float64, n)
	tab.Norms(norms, x)
	var paths []path
	add := func(name string, scale []float64, at func(i, f int) float64) {
		paths = append(paths, path{name, at, scale})
	}
	run := func(name string, logScale []float64, f func(dst dense.Matrix[T])) {
		dst := dense.New[T](n, out)
		for i := range dst.Data {
			dst.Data[i] = T(math.NaN()) // whatever stood there is overwritten
		}
		f(dst)
		add(name, logScale, func(i, f int) float64 { return float64(dst.At(i, f)) })
	}
	zeros, scale := make([]float64, n), make([]float64, n)
	run("Run", zeros, func(dst dense.Matrix[T]) { s.Run(dst, nil, x, norms, &ws) })
	run("Run with scales", scale, func(dst dense.Matrix[T]) { s.Run(dst, scale, x, norms, &ws) })
	run("RunChecked", zeros, func(dst dense.Matrix[T]) { s.RunChecked(dst, nil, x, math.Inf(1), &ws) })

	col, shift, back := make([]T, out), make([]float64, n), make([]float64, n)
	for i := range shift {
		shift[i] = scale[i] + float64(i) // as callers do: near the size of the row
		back[i] = shift[i]
	}
	run("Scaled without columns", back, func(dst dense.Matrix[T]) { s.Scaled(dst, nil, shift, x, norms, &ws) })
	for f := range col {
		col[f] = T(f%3) * 0.5
	}
	dst := dense.New[T](n, out)
	s.Scaled(dst, col, shift, x, norms, &ws)
	add("Scaled", back, func(i, f int) float64 { return float64(dst.At(i, f)) * math.Exp(-float64(col[f])) })

	e, value, row := dense.New[T](n, out), dense.New[T](n, out), make([]float64, n)
	s.Log(e, value, row, x, norms, &ws)
	add("Log", row, func(i, f int) float64 {
		if value.At(i, f) == 0 {
			return 0
		}
		return float64(value.At(i, f)) * math.Exp(float64(e.At(i, f)))
	})
	if !s.Signed() {
		bare := dense.New[T](n, out)
		s.Log(bare, dense.Matrix[T]{}, row, x, norms, &ws)
		add("Log without values", row, func(i, f int) float64 { return math.Exp(float64(bare.At(i, f))) })
	}
	return paths
}

// conditions is Σ_k |∂φ_f/∂x_k·x_k| relative to exp(e_f): how much of a rounding of the inputs a feature shows. It is
// huge next to a jump, where a rounding decides a sign or a gate.
func conditions(s plan.Side, x, value, e []float64) []float64 {
	const h = 1e-6
	c, y := make([]float64, len(value)), append([]float64(nil), x...)
	for k, v := range x {
		y[k] = v * (1 + h)
		moved, at := s.EvalLog(y)
		y[k] = v
		for f, m := range moved {
			switch {
			case !math.IsInf(e[f], -1) && !math.IsInf(at[f], -1):
				c[f] += math.Abs(m*math.Exp(at[f]-e[f])-value[f]) / h
			case e[f] != at[f]:
				c[f] += 1 / h
			}
		}
	}
	return c
}

// checkVJP compares derivatives with differences of Eval, to within tol of the terms that they are sums of.
func checkVJP[T dense.Float](t *testing.T, s plan.Side, x64 dense.Matrix[float64], tol float64,
	tables []*kern.Table[T]) (compared, skipped int) {
	t.Helper()
	x := dense.Convert[T](x64)
	x64 = dense.Convert[float64](x)
	n, out := x.Rows, s.OutDim(x.Cols)
	d := newDrawer(uint64(out), 99)
	dphi, col := dense.Convert[T](d.matrix(n, out, 1)), make([]T, out)
	for f := range col {
		col[f] = T(f%3) * 0.5
	}
	norms, shift := make([]float64, n), make([]float64, n)
	for i := range n {
		norms[i] = dense.Norm2(x64.Row(i))
		_, e := s.EvalLog(x64.Row(i))
		shift[i] = max(-500, slices.Max(e))
	}
	var results []dense.Matrix[T]
	var names []string
	for _, tab := range tables {
		c := exec.Compile(s, x.Cols, tab)
		b := exec.CompileBackward(c)
		var ws exec.Workspace[T]
		phi := dense.New[T](n, out)
		c.Scaled(phi, col, shift, x, norms, &ws)
		for name, given := range map[string]dense.Matrix[T]{"": {}, " with features": phi} {
			dx := dense.New[T](n, x.Cols)
			for i := range dx.Data {
				dx.Data[i] = T(math.NaN())
			}
			b.Run(dx, dphi, given, x, col, shift, norms, nil, &ws)
			results, names = append(results, dx), append(names, tab.Name+name)
		}
	}
	for i := range n {
		y := append([]float64(nil), x64.Row(i)...)
		// loss is Σ_f dphi_f φ_f·exp(col_f − shift), and the sum of the moduli of its terms.
		loss := func() (sum, size float64) {
			value, e := s.EvalLog(y)
			for f, v := range value {
				if v != 0 {
					a := float64(dphi.At(i, f)) * v * math.Exp(e[f]+float64(col[f])-shift[i])
					sum += a
					size += math.Abs(a)
				}
			}
			return sum, size
		}
		here, size := loss()
		for k := range y {
			at := y[k]
			// differences are the slope over 2h, and how much the slopes of its halves differ.
			differences := func(h float64) (slope, bend float64) {
				y[k] = at + h
				above, _ := loss()
				y[k] = at - h
				below, _ := loss()
				y[k] = at
				return (above - below) / (2 * h), math.Abs(above-2*here+below) / h
			}
			const h = 1e-5
			a, bend := differences(h)
			b, _ := differences(h / 2)
			// A kink or a jump; what is smooth differs by some h², and bends by some h.
			if math.Abs(a-b) > 2e-9*(1+size) || bend > 1e-3*(size+math.Abs(a)) {
				skipped++
				continue
			}
			compared++
			want := b + (b-a)/3
			for r, dx := range results {
				if got := float64(dx.At(i, k)); !(math.Abs(got-want) <= tol*(1+size+math.Abs(want))) {
					t.Errorf("%s, %T: derivative %d of row %d is %v, differences of Eval give %v (terms of %.3g)",
						names[r], T(0), k, i, got, want, size)
					return compared, skipped
				}
			}
		}
	}
	return compared, skipped
}
