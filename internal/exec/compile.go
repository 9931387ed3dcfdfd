// Package exec runs a lowered map (package internal/plan) on the CPU. Its meaning is defined by plan.Side.Eval; this
// package only makes it fast.
//
// # Order of use
//
//  1. [Compile] one [Side] for queries and one for keys. It multiplies data-aware matrices, shifts and scales into the
//     projection matrix and picks the CPU kernels, so a map costs one matrix product however it was composed.
//  2. Call [Side.Run] (features, with or without a log scale per row), [Side.RunChecked] (the same for unvalidated
//     rows), [Side.Log] (exponents and values) or [Side.Scaled] (features at scales that the caller chooses).
//  3. For derivatives, call [CompileBackward] once per side and then [Backward.Run].
//
// A Side and a Backward are immutable and serve any number of goroutines. A [Workspace] belongs to one call at a time;
// a warm one makes calls free of allocation.
//
// # Rules that every function keeps
//
//   - Log domain. Each row carries a float64 log scale, so a float32 feature never overflows, whatever the norm of the
//     input. Terms that all features of a row share (−|x|²/2) stay in float64 until the last step.
//   - Independence. The features of a row do not depend on the rows around it. Block sizes may therefore follow the
//     cache, and callers may split rows among goroutines in any way, without changing a bit.
//   - No sums across rows, except [Sums], which runs on a single goroutine to keep their order.
//
// # Files
//
//	compile.go   Side, leaf: a plan.Side with all linear steps folded together
//	project.go   t = Ω·Mix·u by a dense product or by fast transforms
//	quad.go      row terms: quadratics of x in float64
//	fn.go        the table of functions; fn_*.go one function each
//	run.go       Workspace, Run: features with a scale per row; assembly of blocks
//	log.go       Log, Scaled: features as value·exp(exponent)
//	vjp.go       Backward: vector-Jacobian products and sums for learning
package exec

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
)

// A worker maps its rows in blocks. A large block reuses a panel of the projection for more rows, but its features
// should stay in the second-level cache until their function is applied: blockBytes is the size of one block.
const (
	minBlock, maxBlock = 16, 128
	blockBytes         = 512 << 10
	// groupBytes is the size of a group of exponents whose row maximum is needed first. Such a group is read twice more
	// (maximum, exponential), so it should stay closer to the core than a block.
	groupBytes = 128 << 10
)

// Side is a compiled plan.Side. It is immutable and safe for concurrent use.
type Side[T dense.Float] struct {
	// dim is the number of input columns, out the number of features of a row.
	dim, out int
	leaves   []leaf[T]
	blocks   []plan.Block
	// outer is a log factor of the whole row. Compile moves it into the row term of the leaf where it can.
	outer plan.Quadratic
	// For gated sides: a block with a gate is kept only for rows whose image gateLin·x is nearest to that centre.
	centres dense.Matrix[float64]
	gateLin plan.Linear
	gated   bool
	// simple says that the side is one ungated leaf with coefficient 1. Such a leaf writes straight into the output,
	// without scratch features and without a pass that assembles blocks.
	simple bool
	block  int // rows mapped together
	total  int // features of all leaves
	work   int // estimated multiply-adds per row; decides how many rows pay for another goroutine
	tab    *kern.Table[T]
	// quads are the packed matrices of all row terms that have a full matrix, one Panel each; leaf.quad and outerQuad
	// are indices into it, or noQuad.
	quads     []kern.Panel[float64]
	outerQuad int
}

// leaf is a plan.Leaf with every linear step before the projection folded into re and im. Its Lin is never absent:
// compileLeaf replaces an absent one by the identity, so that readers need no special case.
type leaf[T dense.Float] struct {
	plan.Leaf
	fn         fn[T]
	width      int                   // number of features
	offset     int                   // where its features begin in a scratch row of Side.total features
	inner      int                   // dimension of u
	re, im     projection[T]         // exponents (Mix, Bias) and phases (MixIm, BiasIm)
	row, rowIm plan.Quadratic        // row terms as functions of x instead of u; unused by explicit functions
	quad       int                   // index of row in Side.quads, or noQuad
	bias       []T                   // Bias in T if fn.biasApart; nil otherwise (re.bias has it)
	pureTrig   bool                  // sine and cosine of a dense projection: no modulus, no phase per row
	powers     kern.Panel[float64]   // Ω packed in float64, for Monomial and Columns
	columns    dense.Matrix[float64] // Ωᵀ, for Columns with the Laplace kernel: its distance is a sum over coordinates
	squares    []float64             // |ω_f|², for Columns
}

// Compile prepares a side for inputs of dim columns. s must be valid (plan does not check it here), with at least one
// leaf and one block. The result shares the matrices of s that it does not fold, so the caller must not change them.
func Compile[T dense.Float](s plan.Side, dim int, tab *kern.Table[T]) *Side[T] {
	c := &Side[T]{dim: dim, out: s.OutDim(dim), blocks: s.Blocks, outer: s.Outer, centres: s.Centres,
		gateLin: s.CentreLin, gated: !s.Centres.IsEmpty(), tab: tab, leaves: make([]leaf[T], 0, len(s.Leaves))}
	offset := 0
	for _, l := range s.Leaves {
		cl := compileLeaf(l, dim, tab)
		cl.offset = offset
		offset += cl.width
		// The function of a feature counts as eight multiply-adds of the projection.
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
	// The size of a block changes speed only: features do not depend on the rows around them.
	c.block = min(max(blockBytes/(offset*int(unsafe.Sizeof(T(0)))), minBlock), maxBlock)
	b := s.Blocks[0]
	c.simple = len(s.Blocks) == 1 && !c.gated && b.Rho == plan.None && b.Coef == 1 && len(s.Leaves) == 1
	if l := &c.leaves[0]; c.simple && l.fn.rowFactor {
		// One row term instead of two; for Gaussian trigonometric features they cancel.
		l.row, c.outer = l.row.Add(c.outer, dim), plan.Quadratic{}
	}
	// After the merge above, because a merged outer term has no matrix of its own.
	c.outerQuad = c.addQuad(&c.outer)
	for i := range c.leaves {
		c.leaves[i].quad = c.addQuad(&c.leaves[i].row)
		if c.leaves[i].quad != noQuad {
			c.work += 2 * dim * dim
		}
	}
	return c
}

// compileLeaf folds Lin and Shift into the projections of a leaf and, unless its function is explicit, into its row
// terms.
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
