package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/plan"
)

// Workspace holds scratch memory between calls. The zero value is ready. Two calls must not use it at the same time;
// one call may use it from several goroutines of its own, each with its own scratch.
type Workspace[T dense.Float] struct {
	// Workers limits the goroutines of a call; 0 means GOMAXPROCS.
	Workers int
	group   par.Group
	scratch []scratch[T]
	// job, logs and vjp hold a *job[T], a *logJob[T] and a *vjpJob[T] after the first call that needs them (reuse).
	// With those types, every package that has a Workspace would compile all of Side, and every program would link it.
	job, logs, vjp par.Job
	col            []T // bias + col of a fused Scaled
}

// reuse returns the job in the slot of a Workspace. It makes one at the first call, so that later calls do not
// allocate.
func reuse[J any, P interface {
	*J
	par.Job
}](slot *par.Job) P {
	j, ok := (*slot).(P)
	if !ok {
		j = new(J)
		*slot = j
	}
	return j
}

// scratch is the memory of one worker. grow sizes it for a block; "a block × n" below means one row of n elements for
// each row of the block.
type scratch[T dense.Float] struct {
	features  []T               // a block × all leaf features
	values    []T               // like features: the factors before the exponentials of a log form
	factors   []T               // a block × all output features: values of Scaled
	rows      []float64         // row terms of a block
	modulus   []T               // a block × projections: exponents of a modulus, or free for shifts and maxima
	exponents []T               // a block × the features of a leaf that runs through its log form
	pre       []T               // one row before a fast projection
	fast      []T               // scratch of the fast transforms
	u         []float64         // one row of leaf inputs
	logs      []float64         // log|u|
	powers    []float64         // exponents of one row of monomials
	columns   []float64         // two of a block × landmarks: values and exponents of kernel columns
	mixed     []float64         // a block × columns of White
	inputs    []float64         // a block × coordinates of u, the inputs of kernel columns
	x         []float64         // one row of inputs
	scale     []float64         // log scales: row i of leaf k at k·Side.block + i
	norms     []float64         // |x_i|² of the current block; a view, not owned
	quads     []float64         // full row terms: row i of matrix k at k·Side.block + i
	wide      []float64         // a block × inputs, in float64
	image     []float64         // the same multiplied by the matrix of a row term
	zero      [maxBlock]float64 // always zero: the outer terms of leaves that are assembled
	squares   [maxBlock]float64 // norms of a block, if RunChecked computes them
	terms     [maxBlock]float64 // row terms of a leaf
	outer     [maxBlock]float64 // outer row terms of the side
	bad       int               // first row that RunChecked refused, or −1
	at        []int             // coordinates of one row: negative ones at the front, zero ones at the end (split)
	vjp       vjpScratch[T]
}

// job is one Run as the worker goroutines see it.
type job[T dense.Float] struct {
	side     *Side[T]
	dst, x   dense.Matrix[T]
	logScale []float64
	norms    []float64 // |x_i|²; nil means that check computes them and refuses rows beyond limit
	limit    float64
	ws       *Workspace[T]
}

// OutDim is the number of features of a row.
func (s *Side[T]) OutDim() int { return s.out }

// Run maps the rows of x into dst. Row i of dst is φ(x_i)·exp(−logScale[i]), or φ(x_i) if logScale is nil. norms holds
// |x_i|². The caller must have checked that shapes agree and x is finite; that check yields the norms.
func (s *Side[T]) Run(dst dense.Matrix[T], logScale []float64, x dense.Matrix[T], norms []float64, ws *Workspace[T]) {
	s.run(job[T]{side: s, dst: dst, x: x, logScale: logScale, norms: norms, ws: ws})
}

// RunChecked is Run for unchecked x. It computes the norms of a block just before mapping it, while the rows are in
// cache. It returns the first row whose |x|² exceeds limit or is NaN, or −1. If it returns a row, dst and logScale are
// undefined.
func (s *Side[T]) RunChecked(dst dense.Matrix[T], logScale []float64, x dense.Matrix[T], limit float64,
	ws *Workspace[T]) int {
	return s.run(job[T]{side: s, dst: dst, x: x, logScale: logScale, limit: limit, ws: ws})
}

// run does the work of Run and RunChecked. Workers see rows in any order, so the smallest refused row over all workers
// is the first one.
func (s *Side[T]) run(j job[T]) int {
	ws := j.ws
	workers := s.workers(ws, j.x.Rows)
	for i := range workers {
		s.grow(&ws.scratch[i], min(s.block, j.x.Rows))
		ws.scratch[i].bad = -1
	}
	shared := reuse[job[T]](&ws.job)
	*shared = j
	ws.group.Do(j.x.Rows, workers, shared)
	*shared = job[T]{}
	bad := -1
	for _, sc := range ws.scratch[:workers] {
		if sc.bad >= 0 && (bad < 0 || sc.bad < bad) {
			bad = sc.bad
		}
	}
	return bad
}

// grow makes room in sc for blocks of rows rows of this side. It keeps memory that is large enough, so a Workspace that
// serves several sides grows to the largest.
func (s *Side[T]) grow(sc *scratch[T], rows int) {
	proj, inner, fast, through, columns, mixed, inputs := 0, s.dim, 0, 0, 0, 0, 0
	for i := range s.leaves {
		l := &s.leaves[i]
		proj = max(proj, l.Omega.Rows.Rows)
		inner = max(inner, l.inner)
		if l.Fn == plan.Columns {
			columns, mixed = max(columns, l.Omega.Rows.Rows), max(mixed, l.White.Cols)
			inputs = max(inputs, l.inner)
		}
		if l.fn.run == nil && !l.fn.flat {
			through = max(through, l.width)
		}
		for _, p := range []*projection[T]{&l.re, &l.im} {
			if p.fast != nil {
				inner = max(inner, p.fast.Dim())
				fast = max(fast, p.fast.Scratch())
			}
		}
	}
	if s.gated {
		inner = max(inner, s.centres.Cols)
	}
	if !s.simple {
		sc.features = buf.Sized(sc.features, rows*s.total)
	}
	sc.modulus = buf.Sized(sc.modulus, rows*proj)
	sc.exponents = buf.Sized(sc.exponents, rows*through)
	sc.pre = buf.Sized(sc.pre, inner)
	sc.fast = buf.Sized(sc.fast, fast)
	sc.u = buf.Sized(sc.u, inner)
	sc.logs = buf.Sized(sc.logs, inner)
	sc.powers = buf.Sized(sc.powers, proj)
	sc.columns = buf.Sized(sc.columns, 2*rows*columns)
	sc.mixed = buf.Sized(sc.mixed, rows*mixed)
	sc.inputs = buf.Sized(sc.inputs, rows*inputs)
	sc.x = buf.Sized(sc.x, s.dim)
	sc.scale = buf.Sized(sc.scale, s.block*len(s.leaves))
	sc.at = buf.Sized(sc.at, inner)
}

// Run maps rows lo to hi−1.
func (j *job[T]) Run(worker, lo, hi int) {
	s, sc := j.side, &j.ws.scratch[worker]
	step := s.block
	if s.gated {
		step = 1 // rows of one block may need different leaves
	}
	plain := j.logScale == nil
	for a := lo; a < hi; a += step {
		b := min(a+step, hi)
		x, dst := j.x.RowRange(a, b), j.dst.RowRange(a, b)
		if j.norms != nil {
			sc.norms = j.norms[a:b]
		} else if sc.norms = sc.squares[:x.Rows]; !j.check(a, x, sc) {
			return
		}
		s.fillQuads(x, sc)
		outer := sc.outer[:x.Rows]
		s.terms(outer, &s.outer, s.outerQuad, x, sc)
		if s.simple {
			s.leaves[0].run(s, dst, sc.scale, x, sc, plain, outer)
		} else {
			s.assemble(dst, x, sc)
			for i, o := range outer {
				sc.scale[i] += o
				if plain {
					s.tab.Scale(dst.Row(i), T(math.Exp(sc.scale[i])))
				}
			}
		}
		if !plain {
			copy(j.logScale[a:b], sc.scale)
		}
	}
}

// check computes the norms of a block that starts at row a and reports whether all are within the limit. After a
// refused row a worker does nothing more: par hands out ranges in increasing order, so all rows it would still get come
// later.
func (j *job[T]) check(a int, x dense.Matrix[T], sc *scratch[T]) bool {
	if sc.bad >= 0 {
		return false
	}
	j.side.tab.Norms(sc.norms, x)
	for i, n := range sc.norms {
		// A sum of squares is finite only if all its terms are.
		if !(n <= j.limit) {
			sc.bad = a + i
			return false
		}
	}
	return true
}

// assemble computes the leaves into scratch and writes the blocks of every row. Leaves have scales of their own; each
// block is multiplied by exp(its scale − the largest scale of the row). sc.scale[i] becomes the scale of row i.
func (s *Side[T]) assemble(dst, x dense.Matrix[T], sc *scratch[T]) {
	gate := plan.None
	if s.gated {
		gate = s.nearest(x.Row(0), sc)
	}
	total := s.total
	for i := range s.leaves {
		if l := &s.leaves[i]; s.needs(i, gate) {
			out := dense.Matrix[T]{Rows: x.Rows, Cols: l.width, Stride: total, Data: sc.features[l.offset:]}
			l.run(s, out, sc.scale[i*s.block:], x, sc, false, sc.zero[:x.Rows])
		}
	}
	for i := range x.Rows {
		row := sc.features[i*total:]
		scale := s.top(i, gate, sc)
		out, at := dst.Row(i), 0
		for _, b := range s.blocks {
			base, n := &s.leaves[b.Base], s.blockWidth(b)
			block := out[at : at+n]
			at += n
			if !live(b, gate) {
				clear(block)
				continue
			}
			coef := T(b.Coef * math.Exp(s.blockScale(b, i, sc)-scale))
			phi := row[base.offset : base.offset+base.width]
			if b.Rho == plan.None {
				for k, v := range phi {
					block[k] = coef * v
				}
				continue
			}
			rho := s.leaves[b.Rho]
			for p, r := range row[rho.offset : rho.offset+rho.width] {
				seg := block[p*base.width : (p+1)*base.width]
				for k, v := range phi {
					seg[k] = coef * r * v
				}
			}
		}
		sc.scale[i] = scale // overwrites the scale of leaf 0, which row i no longer needs
	}
}

// live reports whether a block is kept for rows whose nearest centre is gate.
func live(b plan.Block, gate int) bool { return b.Gate == plan.None || b.Gate == gate }

// top is the scale of row i: the largest scale of its live blocks. Blocks keep their proportions and none overflows. A
// row whose blocks are all off consists of zeros, at any scale.
func (s *Side[T]) top(i, gate int, sc *scratch[T]) float64 {
	top := math.Inf(-1)
	for _, b := range s.blocks {
		if live(b, gate) {
			top = max(top, s.blockScale(b, i, sc))
		}
	}
	return finiteMax(top)
}

// blockScale is the log scale of block b in row i: that of its base plus that of its coefficient.
func (s *Side[T]) blockScale(b plan.Block, i int, sc *scratch[T]) float64 {
	v := sc.scale[b.Base*s.block+i]
	if b.Rho != plan.None {
		v += sc.scale[b.Rho*s.block+i]
	}
	return v
}

// needs reports whether some live block uses the leaf.
func (s *Side[T]) needs(leaf, gate int) bool {
	for _, b := range s.blocks {
		if (b.Base == leaf || b.Rho == leaf) && live(b, gate) {
			return true
		}
	}
	return false
}

// nearest is the index of the centre closest to gateLin·x, in float64; the first wins a tie, as in plan.Side.Eval.
func (s *Side[T]) nearest(x []T, sc *scratch[T]) int {
	for i, v := range x {
		sc.x[i] = float64(v)
	}
	u := sc.x
	if !s.gateLin.IsZero() {
		u = sc.u[:s.centres.Cols]
		s.gateLin.Apply(u, sc.x)
	}
	best, at := math.Inf(1), 0
	for c := range s.centres.Rows {
		var d float64
		for k, v := range s.centres.Row(c) {
			d += (u[k] - v) * (u[k] - v)
		}
		if d < best {
			best, at = d, c
		}
	}
	return at
}
