package fused

import "github.com/randfeat/randfeat/gomlx/triton"

// value abbreviates the formulas of kernels.
type value = triton.Value

// kernel is a kernel that knows its tensors by name.
type kernel struct {
	*triton.Kernel
	Shape
	tensors map[string]value
}

func (s Shape) kernel(name string) *kernel {
	return &kernel{triton.New(name), s, map[string]value{}}
}

// tensor returns the pointer of an argument, which is added when it is first asked for.
func (k *kernel) tensor(name string, e triton.Elem) value {
	if v, ok := k.tensors[name]; ok {
		return v
	}
	v := k.Arg(name, e)
	k.tensors[name] = v
	return v
}

// panel is a matrix [rows, cols] among many of the same size in a tensor, of which a kernel touches the rows at.
type panel struct {
	name       string
	elem       triton.Elem
	index      value // which matrix
	at         value // int32 [n]
	rows, cols int   // cols 0: a vector
	even       bool  // all of at exist
}

// pointers returns pointers to the rows of a panel, and a mask of what exists unless everything does.
func (k *kernel) pointers(p panel) (value, []value) {
	width := max(1, p.cols)
	big := k.Int(p.rows * width).To(triton.I64)
	base := k.tensor(p.name, p.elem).At(p.index.To(triton.I64).Mul(big))
	there := p.at.Less(k.Int(p.rows))
	if p.cols == 0 {
		if p.even {
			return base.At(p.at), nil
		}
		return base.At(p.at), []value{there}
	}
	cols := k.Range(power(p.cols))
	ptr := base.At(p.at.Column().Times(float64(p.cols)).Add(cols.Row()))
	inside := cols.Less(k.Int(p.cols)).Row()
	switch narrow := p.cols != power(p.cols); {
	case p.even && !narrow:
		return ptr, nil
	case p.even:
		return ptr, []value{inside}
	case !narrow:
		return ptr, []value{there.Column()}
	}
	return ptr, []value{there.Column().And(inside)}
}

func (k *kernel) read(p panel) value {
	ptr, mask := k.pointers(p)
	return k.Load(ptr, mask...)
}

func (k *kernel) write(p panel, x value) {
	ptr, mask := k.pointers(p)
	k.Store(ptr, x.To(p.elem), mask...)
}

// dot and half multiply in the precision of the shape. half rounds its first operand to it.
func (k *kernel) dot(x, y value, sum ...value) value {
	return x.To(k.elem()).Dot(y, k.Products, sum...)
}

// side is queries or keys with the map of their features.
type side struct {
	rows, weights, bias, scale string // tensors; scale "": no term of |x|²
	row                        string // terms of single rows, "": none
	rowHeads                   int
	heads, length              int
}

// keys and queries are the two sides of a shape.
func (s Shape) keys() side {
	r := side{"k", "wk", "bk", "scale", "", s.Rows, s.KVHeads, s.Keys}
	if s.Rows > 0 {
		r.row = "row"
	}
	return r
}

func (s Shape) queries() side { return side{"q", "wq", "bq", "", "", 0, s.Heads, s.Queries} }

// features computes exponents of one side.
type features struct {
	k     *kernel
	side  side
	w     []value // [block, dim] for every block
	bias  []value // [block]
	scale value
	head  value // which head of which batch entry
}

// features loads the map of a side for a head. first is the first feature; n blocks follow.
func (k *kernel) features(s side, head, first value, n int) features {
	f := features{k: k, side: s, head: head}
	group := s.heads / k.KVHeads
	m := k.Int(0)
	if k.Maps > 1 {
		m = head.Div(k.Int(group)).Rem(k.Int(k.KVHeads))
	}
	for i := range n {
		at := first.Add(k.Int(i * k.block())).Add(k.Range(k.block()))
		f.w = append(f.w, k.read(panel{s.weights, k.elem(), m, at, k.Features, k.Dim, true}))
		f.bias = append(f.bias, k.read(panel{s.bias, triton.F32, m, at, k.Features, 0, true}))
	}
	if s.scale != "" {
		f.scale = k.Load(k.tensor(s.scale, triton.F32).At(m))
	}
	return f
}

// of returns the rows of the side at some positions.
func (f features) at(at value, even bool) value {
	return f.k.read(panel{f.side.rows, f.k.elem(), f.head, at, f.side.length, f.k.Dim, even})
}

// terms returns the terms that all features of a row share [n], Off for rows that do not exist.
func (f features) terms(x, at value, even bool) (t value, some bool) {
	k := f.k
	t = k.Float(0)
	if f.side.scale != "" {
		wide := x.To(triton.F32)
		t, some = wide.Mul(wide).Sum(1).Mul(f.scale), true
	}
	if f.side.row != "" {
		row := f.head
		switch n := f.side.rowHeads; n {
		case f.side.heads:
		case 1:
			row = f.head.Div(k.Int(f.side.heads))
		}
		t, some = t.Add(k.read(panel{f.side.row, triton.F32, row, at, f.side.length, 0, even})), true
	}
	if !even {
		t, some = t.Where(at.Less(k.Int(f.side.length)), k.Float(Off)), true
	}
	return t, some
}

// tall returns the exponents of the features of rows x plus start [n], if given, as [n, block] for every block. With a
// start they are computed anew where they are needed: without, the compiler would hold them in registers from an
// earlier place.
func (f features) tall(x, at value, even bool, start ...value) []value {
	t, some := f.terms(x, at, even)
	var all []value
	for i, w := range f.w {
		var sum []value
		for _, c := range start {
			sum = []value{f.k.Zeros(at.Shape()[0], f.k.block()).Add(c.Column())}
		}
		l := f.k.dot(x, w.T(), sum...).Add(f.bias[i].Row())
		if some {
			l = l.Add(t.Column())
		}
		all = append(all, l)
	}
	return all
}

// largest returns the largest exponent of every row [n].
func largest(logs []value) value {
	m := logs[0].Most(1)
	for _, l := range logs[1:] {
		m = m.Max(l.Most(1))
	}
	return m
}
