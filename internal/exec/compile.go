// Package exec runs a lowered map on the CPU.
//
// Compile folds data-aware matrices, shifts and scales into the projection matrix once; Run then maps blocks of
// rows with no allocation. Exponents stay in the log domain: each row carries a float64 log scale, so a
// float32 feature never overflows, whatever the norm of the input.
package exec

import (
	"unsafe"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
)

// Rows are mapped in blocks: large ones reuse a panel of the projection for more rows, but the features of a block should
// stay in the second-level cache until their function is applied.
const (
	minBlock, maxBlock = 16, 128
	blockBytes         = 512 << 10
	// Exponents that need their maximum first are made in smaller groups: two more passes read them.
	groupBytes = 128 << 10
)

// fastPays says whether a structured projection of inputs of dim columns is cheaper by fast transforms than as a dense
// matrix, by the measured costs of the table.
func fastPays[T dense.Float](tab *kern.Table[T], f *coupling.Structured, dim int) bool {
	return f != nil && len(f.Blocks)*f.N*tab.Structured < f.Rows*dim
}

// Side is a compiled plan.Side.
type Side[T dense.Float] struct {
	dim, out int
	leaves   []leaf[T]
	blocks   []plan.Block
	outer    plan.Quadratic
	centres  dense.Matrix[float64]
	gateLin  plan.Linear
	gated    bool
	// simple: one ungated leaf with coefficient 1, which writes straight into the output.
	simple bool
	block  int // rows mapped together
	total  int // features of all leaves
	work   int // multiply-adds per row, to decide how many rows pay for a goroutine
	tab    *kern.Table[T]
	// quads are the full matrices of row terms, outerQuad that of outer (or noQuad).
	quads     []kern.Panel[float64]
	outerQuad int
}

// leaf is a plan.Leaf with everything before the projection folded into it.
type leaf[T dense.Float] struct {
	plan.Leaf
	width        int // features
	offset       int // of its features in a scratch row
	inner        int // dimension of u
	re, im       projection[T]
	row, rowIm   plan.Quadratic // of x, unless explicit
	quad         int            // of row, in Side.quads, or noQuad
	explicit     bool           // u itself is needed
	pureTrig     bool           // nothing but sine and cosine of a dense projection
	bias, biasIm []T
	powers       kern.Panel[float64] // of a monomial
}

// projection computes t = W x (dense), or Ω(pre(x)) by fast transforms.
type projection[T dense.Float] struct {
	w    kern.Panel[T]
	fast *structured[T]
	pre  preMap[T]
	rows int
}

// preMap is x ↦ Lin·x − shift in T; an empty matrix means gain·x.
type preMap[T dense.Float] struct {
	gain  T
	dense dense.Matrix[T]
	shift []T
}

func (p projection[T]) absent() bool { return p.rows == 0 }

// Compile prepares a side for inputs of dim columns.
func Compile[T dense.Float](s plan.Side, dim int, tab *kern.Table[T]) *Side[T] {
	c := &Side[T]{dim: dim, out: s.OutDim(dim), blocks: s.Blocks, outer: s.Outer, centres: s.Centres,
		gateLin: s.CentreLin, gated: !s.Centres.IsEmpty(), tab: tab}
	offset := 0
	for _, l := range s.Leaves {
		cl := compileLeaf(l, dim, tab)
		cl.offset = offset
		offset += cl.width
		c.work += (cl.re.rows+cl.im.rows)*dim + 8*cl.width
		c.leaves = append(c.leaves, cl)
	}
	c.work += c.out
	c.total = offset
	c.block = min(max(blockBytes/(offset*int(unsafe.Sizeof(T(0)))), minBlock), maxBlock)
	b := s.Blocks[0]
	c.simple = len(s.Blocks) == 1 && !c.gated && b.Rho == plan.None && b.Coef == 1 && len(s.Leaves) == 1
	if l := &c.leaves[0]; c.simple && !l.explicit && l.Fn != plan.ReLU {
		// One row term instead of two; for Gaussian trigonometric features they cancel.
		l.row, c.outer = l.row.Add(c.outer, dim), plan.Quadratic{}
	}
	c.outerQuad = c.addQuad(&c.outer)
	for i := range c.leaves {
		c.leaves[i].quad = c.addQuad(&c.leaves[i].row)
		if c.leaves[i].quad != noQuad {
			c.work += 2 * dim * dim
		}
	}
	return c
}

func compileLeaf[T dense.Float](l plan.Leaf, dim int, tab *kern.Table[T]) leaf[T] {
	lin := l.Lin
	if lin.IsZero() {
		lin = plan.Scalar(1)
	}
	c := leaf[T]{Leaf: l, width: l.Features(dim), inner: l.InnerDim(dim)}
	c.Lin = lin
	c.explicit = l.Fn == plan.Monomial || l.Fn == plan.ELU || l.Fn == plan.Residual
	c.bias, c.biasIm = narrow[T](l.Bias), narrow[T](l.BiasIm)
	switch {
	case l.Fn == plan.ELU:
		return c
	case l.Fn == plan.Monomial:
		// Exponents are sums of many logarithms: float64 in every map.
		kern.Best[float64]().Pack(&c.powers, l.Omega.Rows)
		return c
	}
	c.re = compileProjection(l, l.Mix, dim, tab)
	c.im = compileProjection(l, l.MixIm, dim, tab)
	if c.re.fast == nil && !c.re.absent() {
		c.bias = foldShift[T](l, l.Mix, l.Bias)
	}
	if c.im.fast == nil && !c.im.absent() {
		c.biasIm = foldShift[T](l, l.MixIm, l.BiasIm)
	}
	if !c.explicit {
		c.row = l.Row.Compose(lin, l.Shift, dim)
		c.rowIm = l.RowIm.Compose(lin, l.Shift, dim)
	}
	c.pureTrig = (l.Fn == plan.SinCos || l.Fn == plan.Complex) && !l.Conj && c.re.absent() && c.bias == nil &&
		!c.im.absent() && c.im.fast == nil && constant(&c.rowIm) && c.rowIm.Const == 0
	return c
}

// compileProjection folds Mix·Lin into Ω, or keeps the fast transforms and folds it into the step before them.
func compileProjection[T dense.Float](l plan.Leaf, mix plan.Linear, dim int, tab *kern.Table[T]) projection[T] {
	if mix.IsZero() {
		return projection[T]{}
	}
	pre := mix
	if !l.Lin.IsZero() {
		pre = mix.Compose(l.Lin, dim)
	}
	if f := l.Omega.Fast; fastPays(tab, f, dim) {
		p := projection[T]{rows: f.Rows, fast: compileStructured[T](f)}
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
	if pre.Dense.IsEmpty() && pre.Diag == nil {
		w := l.Omega.Rows.Clone()
		for i := range w.Data {
			w.Data[i] *= pre.Gain
		}
		return densePanel(w, tab)
	}
	return densePanel(plan.Mul(l.Omega.Rows, pre.Matrix(dim)), tab)
}

func densePanel[T dense.Float](w dense.Matrix[float64], tab *kern.Table[T]) projection[T] {
	p := projection[T]{rows: w.Rows}
	tab.Pack(&p.w, dense.Convert[T](w))
	return p
}

// foldShift moves −Ω Mix Shift into the bias.
func foldShift[T dense.Float](l plan.Leaf, mix plan.Linear, bias []float64) []T {
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

// constant reports whether q does not depend on its argument.
func constant(q *plan.Quadratic) bool { return q.Lin == nil && q.Quad.IsZero() }

// quadAt evaluates q at x, whose |x|² is norm2, in float64 whatever the precision of x.
func quadAt[T dense.Float](q *plan.Quadratic, x []T, norm2 float64) float64 {
	s := q.Const
	for i, l := range q.Lin {
		s += l * float64(x[i])
	}
	switch {
	case !q.Quad.Dense.IsEmpty():
		for i, v := range x {
			var r float64
			for j, w := range q.Quad.Dense.Row(i) {
				r += w * float64(x[j])
			}
			s += r * float64(v)
		}
	case q.Quad.Diag != nil:
		for i, v := range x {
			s += q.Quad.Diag[i] * float64(v) * float64(v)
		}
	case q.Quad.Gain != 0:
		s += q.Quad.Gain * norm2
	}
	return s
}
