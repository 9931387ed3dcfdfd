// Package exec runs a lowered map (package internal/plan) on the CPU.
//
// Call [Compile] once per side. It folds data-aware matrices, shifts and scales into the projection matrix and picks
// the CPU kernels. [Side.Run] then maps blocks of rows without allocation, with a [Workspace] that belongs to one
// goroutine at a time. A Side is immutable and serves any number of goroutines.
//
// Exponents stay in the log domain: each row carries a float64 log scale, so a float32 feature never overflows,
// whatever the norm of the input. The features of a row do not depend on the rows around it. Block sizes may
// therefore follow the cache, and callers may split rows among goroutines in any way, without changing a bit.
package exec

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
)

// Rows are mapped in blocks: large ones reuse a panel of the projection for more rows, but the features of a block
// should stay in the second-level cache until their function is applied.
const (
	minBlock, maxBlock = 16, 128
	blockBytes         = 512 << 10
	// Exponents that need their maximum first are made in smaller groups: two more passes read them.
	groupBytes = 128 << 10
)

// Side is a compiled plan.Side. It is immutable and safe for concurrent use.
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

// leaf is a plan.Leaf with everything before the projection folded into it; its Lin is never absent.
type leaf[T dense.Float] struct {
	plan.Leaf
	fn         fn[T]
	width      int // features
	offset     int // of its features in a scratch row
	inner      int // dimension of u
	re, im     projection[T]
	row, rowIm plan.Quadratic        // of x, unless explicit
	quad       int                   // of row, in Side.quads, or noQuad
	bias       []T                   // Bias, where it is apart from re
	pureTrig   bool                  // nothing but sine and cosine of a dense projection
	powers     kern.Panel[float64]   // Ω of monomials and columns
	columns    dense.Matrix[float64] // and transposed, where distances are sums over coordinates
	squares    []float64             // |ω|² of columns
}

// Compile prepares a side for inputs of dim columns.
func Compile[T dense.Float](s plan.Side, dim int, tab *kern.Table[T]) *Side[T] {
	c := &Side[T]{dim: dim, out: s.OutDim(dim), blocks: s.Blocks, outer: s.Outer, centres: s.Centres,
		gateLin: s.CentreLin, gated: !s.Centres.IsEmpty(), tab: tab}
	offset := 0
	for _, l := range s.Leaves {
		cl := compileLeaf(l, dim, tab)
		cl.offset = offset
		offset += cl.width
		c.work += 8 * cl.width
		for _, p := range []*projection[T]{&cl.re, &cl.im} {
			if !p.absent() {
				c.work += p.rows * dim
			}
		}
		if l.Fn == plan.Columns {
			c.work += cl.Omega.Rows.Rows * (dim + cl.White.Cols)
		}
		c.leaves = append(c.leaves, cl)
	}
	c.work += c.out
	c.total = offset
	c.block = min(max(blockBytes/(offset*int(unsafe.Sizeof(T(0)))), minBlock), maxBlock)
	b := s.Blocks[0]
	c.simple = len(s.Blocks) == 1 && !c.gated && b.Rho == plan.None && b.Coef == 1 && len(s.Leaves) == 1
	if l := &c.leaves[0]; c.simple && l.fn.rowFactor {
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
	if l.Lin.IsZero() {
		l.Lin = plan.Scalar(1)
	}
	c := leaf[T]{Leaf: l, fn: functions[T]()[l.Fn], width: l.Features(dim), inner: l.InnerDim(dim)}
	bias := l.Bias
	if c.fn.biasApart {
		c.bias, bias = narrow[T](l.Bias), nil
	}
	c.re = compileProjection(&l, l.Mix, bias, dim, tab)
	c.im = compileProjection(&l, l.MixIm, l.BiasIm, dim, tab)
	if !c.fn.explicit {
		c.row = l.Row.Compose(l.Lin, l.Shift, dim)
		c.rowIm = l.RowIm.Compose(l.Lin, l.Shift, dim)
	}
	if c.fn.prepare != nil {
		c.fn.prepare(&c)
	}
	return c
}
