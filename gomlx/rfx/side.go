package rfx

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
)

// off is the exponent of terms that do not count: masked keys, blocks of other gates, states without keys. It is far
// below every real exponent, and finite, because the difference of two infinities would be NaN.
const off = -1e9

// builder adds the graph of one side (queries or keys) for one input. The constants of several maps are stacked by
// heads.
type builder struct {
	x       *Node // [batch, heads, length, dim]
	sides   []plan.Side
	heads   int // heads of the constants; 1 if one map serves all
	name    string
	numbers Numbers // nil: constants of the graph
	count   int     // numbers requested so far, for their names
	apart   bool    // leave the common term of a row out of its exponents
	row     *Node   // the part left out [batch, heads, length, 1]; nil: none
}

func (m *Map) side(name string, x *Node, pick func(plan.Pair) plan.Side) Features {
	return m.builder(name, x, pick).features()
}

// builder prepares one side of the map for rows x. Neighbouring heads share a map if there are fewer maps than
// heads.
func (m *Map) builder(name string, x *Node, pick func(plan.Pair) plan.Side) *builder {
	if x.Rank() != 4 || x.Shape().Dimensions[3] != m.dim {
		panic(fmt.Errorf("rfx: rows of shape %s for a map of [batch, heads, length, %d]", x.Shape(), m.dim))
	}
	heads := x.Shape().Dimensions[1]
	b := &builder{x: x, heads: 1, name: name, numbers: m.numbers}
	if len(m.pairs) > 1 {
		if heads%len(m.pairs) != 0 {
			panic(fmt.Errorf("rfx: %d heads are not a multiple of %d maps", heads, len(m.pairs)))
		}
		b.heads = heads
	}
	for h := range b.heads {
		b.sides = append(b.sides, pick(m.pairs[h*len(m.pairs)/b.heads]))
	}
	return b
}

// features evaluates plan.Side: the leaves, then the blocks of them, each scaled and gated, side by side.
func (b *builder) features() Features {
	first := b.sides[0]
	leaves := make([]Features, len(first.Leaves))
	for i := range leaves {
		leaves[i] = b.leaf(i)
	}
	outer := b.quadratic(b.x, func(s plan.Side) plan.Quadratic { return s.Outer })
	if b.apart {
		b.row, outer = sum(b.row, outer), nil
	}
	gate := b.gate()
	var parts []Features
	for i, block := range first.Blocks {
		f := leaves[block.Base]
		if block.Rho != plan.None {
			f = kron(leaves[block.Rho], f)
		}
		f = b.scale(f, i)
		if outer != nil {
			f.Log = Add(f.Log, outer)
		}
		if block.Gate != plan.None {
			on := Equal(gate, Scalar(b.x.Graph(), gate.DType(), block.Gate))
			f.Log = Where(BroadcastToShape(on, f.Log.Shape()), f.Log, FillScalar(b.x.Graph(), f.Log.Shape(), off))
			f.Value = Mul(orOnes(f), ConvertDType(on, b.x.DType()))
		}
		parts = append(parts, f)
	}
	return concat(parts)
}

// scale multiplies by the coefficient of a block. A positive coefficient goes into the exponent, so that positive
// features stay plain exponentials.
func (b *builder) scale(f Features, block int) Features {
	positive, one := true, true
	c := make([]float64, b.heads)
	for h, s := range b.sides {
		c[h] = s.Blocks[block].Coef
		positive, one = positive && c[h] > 0, one && c[h] == 1
	}
	switch {
	case one:
	case positive:
		for h, v := range c {
			c[h] = math.Log(v)
		}
		f.Log = Add(f.Log, b.constant(c))
	default:
		f.Value = Mul(orOnes(f), b.constant(c))
	}
	return f
}

// kron returns the Kronecker product of features; the index of rho is the slow one.
func kron(rho, base Features) Features {
	pair := func(a, b *Node, op func(a, b *Node) *Node) *Node {
		d := a.Shape().Dimensions
		m, n := d[3], b.Shape().Dimensions[3]
		a, b = ExpandAxes(a, -1), ExpandAxes(b, -2)
		full := []int{d[0], d[1], d[2], m, n}
		return Reshape(op(BroadcastToDims(a, full...), BroadcastToDims(b, full...)), d[0], d[1], d[2], m*n)
	}
	out := Features{Log: pair(rho.Log, base.Log, Add)}
	if rho.Value != nil || base.Value != nil {
		out.Value = pair(orOnes(rho), orOnes(base), Mul)
	}
	return out
}

// orOnes returns the values of f, or ones if they are implicit.
func orOnes(f Features) *Node {
	if f.Value != nil {
		return f.Value
	}
	return OnesLike(f.Log)
}

// concat puts features side by side. Values are implicit only if they are in all parts.
func concat(parts []Features) Features {
	if len(parts) == 1 {
		return parts[0]
	}
	var logs, values []*Node
	signed := false
	for _, f := range parts {
		signed = signed || f.Value != nil
	}
	for _, f := range parts {
		logs = append(logs, f.Log)
		if signed {
			values = append(values, orOnes(f))
		}
	}
	out := Features{Log: Concatenate(logs, -1)}
	if signed {
		out.Value = Concatenate(values, -1)
	}
	return out
}

// gate returns the index of the nearest centre of each row [batch, heads, length, 1], or nil without centres.
func (b *builder) gate() *Node {
	centres := b.sides[0].Centres
	if centres.Rows == 0 {
		return nil
	}
	u := b.linear(b.x, func(s plan.Side) plan.Linear { return s.CentreLin }, true)
	c := b.matrix(centres.Rows, centres.Cols, func(s plan.Side) dense.Matrix[float64] { return s.Centres })
	n := ReduceAndKeep(Square(c), ReduceSum, -1) // [heads or 1, centres, 1]
	dist := Sub(Transpose(ExpandAxes(n, 0), 2, 3), MulScalar(b.project(u, c), 2))
	return ExpandAxes(ArgMin(StopGradient(dist), -1), -1)
}

// leaf computes leaf i of every side, term by term as plan.Leaf defines it.
func (b *builder) leaf(i int) Features {
	at := func(s plan.Side) *plan.Leaf { return &s.Leaves[i] }
	l := at(b.sides[0])
	lin := func(s plan.Side) plan.Linear { return at(s).Lin }
	var u *Node
	x, gain := b.x, b.gain(lin, true) // u = gain·x
	if gain != nil {
		u = Mul(x, gain)
	} else {
		u = b.linear(x, lin, true)
		x = u
	}
	if shift := b.vector(func(s plan.Side) []float64 { return at(s).Shift }); shift != nil {
		u = Sub(u, shift)
		x, gain = u, nil
	}
	if l.Floor > 0 {
		u = MaxScalar(u, l.Floor)
		x, gain = u, nil
	}
	p := point{u: u, conj: l.Conj, eps: l.Eps}
	m := l.Omega.Rows.Rows
	p.omega = func() *Node {
		return b.matrix(m, l.Omega.Rows.Cols, func(s plan.Side) dense.Matrix[float64] { return at(s).Omega.Rows })
	}
	p.project = b.project
	p.t = b.projection(x, gain, m, at, func(l *plan.Leaf) plan.Linear { return l.Mix })
	p.bias = b.vector(func(s plan.Side) []float64 { return at(s).Bias })
	p.row = b.quadratic(u, func(s plan.Side) plan.Quadratic { return at(s).Row })
	if b.apart && len(b.sides[0].Leaves) == 1 && rowInLog[l.Fn] {
		b.row, p.row = p.row, nil
	}
	p.theta = sum(b.projection(x, gain, m, at, func(l *plan.Leaf) plan.Linear { return l.MixIm }),
		b.vector(func(s plan.Side) []float64 { return at(s).BiasIm }),
		b.quadratic(u, func(s plan.Side) plan.Quadratic { return at(s).RowIm }))
	d := u.Shape().Dimensions
	p.zeros = func() *Node { return Zeros(u.Graph(), shapes.Make(u.DType(), d[0], d[1], d[2], m)) }
	return functions[l.Fn](&p)
}

// projection returns Ω·mix·u [batch, heads, length, m] for u = gain·x, or nil if mix is absent. The gain multiplies
// the matrix instead of all rows.
func (b *builder) projection(x, gain *Node, m int, at func(plan.Side) *plan.Leaf,
	mix func(*plan.Leaf) plan.Linear) *Node {
	if mix(at(b.sides[0])).IsZero() {
		return nil
	}
	inner := x.Shape().Dimensions[3]
	w := b.matrix(m, inner, func(s plan.Side) dense.Matrix[float64] {
		l := at(s)
		return plan.Mul(l.Omega.Rows, mix(l).Matrix(inner))
	})
	if gain != nil {
		w = Mul(w, Reshape(gain, b.heads, 1, 1))
	}
	return b.project(x, w)
}

// gain returns the linear maps as one number per head, or nil if some head has a matrix or a diagonal, or if all are
// absent. If only some are absent, they count as 1 with identity, and as 0 without.
func (b *builder) gain(of func(plan.Side) plan.Linear, identity bool) *Node {
	absent := true
	gain := make([]float64, b.heads)
	for h, s := range b.sides {
		l := of(s)
		if absent = absent && l.IsZero(); !l.Dense.IsEmpty() || l.Diag != nil {
			return nil
		}
		if gain[h] = l.Gain; identity && l.IsZero() {
			gain[h] = 1
		}
	}
	if absent {
		return nil
	}
	return b.constant(gain)
}

// linear returns l·u. If l is absent, it returns u with identity, and nil without.
func (b *builder) linear(u *Node, of func(plan.Side) plan.Linear, identity bool) *Node {
	if gain := b.gain(of, identity); gain != nil {
		return Mul(u, gain)
	}
	dim := u.Shape().Dimensions[3]
	absent, diagonal, rows := true, true, dim
	for _, s := range b.sides {
		l := of(s)
		absent = absent && l.IsZero()
		diagonal = diagonal && l.Dense.IsEmpty()
		if !l.Dense.IsEmpty() {
			rows = l.Dense.Rows
		}
	}
	switch {
	case absent && identity:
		return u
	case absent:
		return nil
	}
	full := func(s plan.Side) plan.Linear {
		if l := of(s); !l.IsZero() || !identity {
			return l
		}
		return plan.Scalar(1)
	}
	if diagonal {
		return Mul(u, b.vector(func(s plan.Side) []float64 {
			l := full(s)
			if l.Diag != nil {
				return l.Diag
			}
			d := make([]float64, dim)
			for i := range d {
				d[i] = l.Gain
			}
			return d
		}))
	}
	return b.project(u, b.matrix(rows, dim, func(s plan.Side) dense.Matrix[float64] { return full(s).Matrix(dim) }))
}

// quadratic is a quadratic of rows as nodes. Absent terms are nil.
type quadratic struct {
	constant *Node // [1, heads or 1, 1, 1]
	linear   *Node // [1, heads or 1, 1, dim]
	scale    *Node // of |u|² [1, heads or 1, 1, 1], if its matrices are multiples of the identity
}

// terms returns the terms of a quadratic, but for other matrices.
func (b *builder) terms(of func(plan.Side) plan.Quadratic) (q quadratic) {
	c := make([]float64, b.heads)
	zero := true
	for h, s := range b.sides {
		c[h] = of(s).Const
		zero = zero && c[h] == 0
	}
	if !zero {
		q.constant = b.constant(c)
	}
	q.linear = b.vector(func(s plan.Side) []float64 { return of(s).Lin })
	q.scale = b.gain(func(s plan.Side) plan.Linear { return of(s).Quad }, false)
	return q
}

// form returns the value of a quadratic without its constant at u [batch, heads, length, 1], or nil if it is zero.
func (b *builder) form(q quadratic, u *Node, of func(plan.Side) plan.Quadratic) *Node {
	var terms []*Node
	if q.linear != nil {
		terms = append(terms, ReduceAndKeep(Mul(u, q.linear), ReduceSum, -1))
	}
	if q.scale != nil {
		terms = append(terms, ReduceAndKeep(Mul(u, Mul(u, q.scale)), ReduceSum, -1))
	} else if qu := b.linear(u, func(s plan.Side) plan.Linear { return of(s).Quad }, false); qu != nil {
		terms = append(terms, ReduceAndKeep(Mul(u, qu), ReduceSum, -1))
	}
	return sum(terms...)
}

// quadratic returns the value of a quadratic at u [batch, heads, length, 1], or nil if it is zero.
func (b *builder) quadratic(u *Node, of func(plan.Side) plan.Quadratic) *Node {
	q := b.terms(of)
	return sum(q.constant, b.form(q, u, of))
}

// sum adds the terms that are not nil, with broadcasting. It returns nil if all are.
func sum(terms ...*Node) *Node {
	var s *Node
	for _, t := range terms {
		switch {
		case t == nil:
		case s == nil:
			s = t
		default:
			s = Add(s, t)
		}
	}
	return s
}

// project returns u·wᵀ for w [heads or 1, rows, dim].
func (b *builder) project(u, w *Node) *Node {
	if b.heads == 1 {
		return Einsum("bhld,md->bhlm", u, Squeeze(w, 0))
	}
	return Einsum("bhld,hmd->bhlm", u, w)
}

// constant returns one number per head [1, heads or 1, 1, 1].
func (b *builder) constant(c []float64) *Node { return b.tensor(c, 1, b.heads, 1, 1) }

// vector returns one vector per head [1, heads or 1, 1, n]. A nil vector counts as zeros; if all are nil, so is the
// result.
func (b *builder) vector(of func(plan.Side) []float64) *Node {
	n := 0
	for _, s := range b.sides {
		n = max(n, len(of(s)))
	}
	if n == 0 {
		return nil
	}
	all := make([]float64, n*b.heads)
	for h, s := range b.sides {
		copy(all[h*n:(h+1)*n], of(s))
	}
	return b.tensor(all, 1, b.heads, 1, n)
}

// matrix returns one matrix per head [heads or 1, rows, cols].
func (b *builder) matrix(rows, cols int, of func(plan.Side) dense.Matrix[float64]) *Node {
	all := make([]float64, 0, b.heads*rows*cols)
	for _, s := range b.sides {
		m := of(s)
		for i := range rows {
			all = append(all, m.Row(i)...)
		}
	}
	return b.tensor(all, b.heads, rows, cols)
}

// tensor returns numbers as a node in the precision of x: a constant, or the node that b.numbers supplies. Names
// count up in the order of the calls, which is the same in every graph of a map.
func (b *builder) tensor(data []float64, dims ...int) *Node {
	if b.numbers != nil {
		name := fmt.Sprintf("%s%d", b.name, b.count)
		b.count++
		c := b.numbers(name, numberTensor(data, b.x.DType(), dims))
		return ConvertDType(c, b.x.DType())
	}
	c := ConstTensor(b.x.Graph(), tensors.FromFlatDataAndDimensions(data, dims...))
	if b.x.DType() != dtypes.Float64 {
		c = ConvertDType(c, b.x.DType())
	}
	return c
}
