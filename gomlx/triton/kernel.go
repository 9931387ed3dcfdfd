package triton

import (
	"fmt"
	"slices"
)

// Kernel is a function that many programs of a grid run at once. Its arguments are pointers.
type Kernel struct {
	Name string
	args []arg
	body []op // of the function
	at   *[]op
	ids  int
}

type arg struct {
	name  string
	value Value
}

// op is one operation. Blocks of loops and reductions hold operations themselves.
type op struct {
	code string
	in   []Value
	out  []Value
	num  float64 // of constants
	ints []int   // axes, bounds
	mode string  // predicates, precision
	body []op    // of loops
	vars []Value // of loops: the counter, then the carried values inside
	end  []Value // of loops: the carried values at the end of a turn
}

// New returns an empty kernel.
func New(name string) *Kernel {
	k := &Kernel{Name: name}
	k.at = &k.body
	return k
}

func (k *Kernel) value(e Elem, ptr bool, shape []int) Value {
	for _, n := range shape {
		if n < 1 || n&(n-1) != 0 {
			panic(fmt.Sprintf("triton: a tile of %v in kernel %s: sizes are powers of two", shape, k.Name))
		}
	}
	k.ids++
	return Value{k: k, id: k.ids, elem: e, ptr: ptr, shape: slices.Clone(shape)}
}

// emit appends an operation and returns its result.
func (k *Kernel) emit(o op, out ...Value) Value {
	o.out = out
	*k.at = append(*k.at, o)
	if len(out) == 0 {
		return Value{}
	}
	return out[0]
}

// Arg adds a pointer to numbers of a type. Arguments are the operands of the call and then its results, in order.
func (k *Kernel) Arg(name string, e Elem) Value {
	v := k.value(e, true, nil)
	k.args = append(k.args, arg{name, v})
	return v
}

// Args returns the names of the arguments.
func (k *Kernel) Args() []string {
	var names []string
	for _, a := range k.args {
		names = append(names, a.name)
	}
	return names
}

// Program returns the index of the running program in the grid, for axis 0, 1 or 2.
func (k *Kernel) Program(axis int) Value {
	return k.emit(op{code: "program", ints: []int{axis}}, k.value(I32, false, nil))
}

// Int and Float return constants.
func (k *Kernel) Int(n int) Value { return k.constant(I32, float64(n)) }

// Float returns a float32 constant.
func (k *Kernel) Float(x float64) Value { return k.constant(F32, x) }

// Zeros returns a float32 tile of zeros.
func (k *Kernel) Zeros(shape ...int) Value { return k.Full(0, shape...) }

// Full returns a float32 tile of one number.
func (k *Kernel) Full(x float64, shape ...int) Value { return k.constant(F32, x, shape...) }

func (k *Kernel) constant(e Elem, x float64, shape ...int) Value {
	return k.emit(op{code: "constant", num: x}, k.value(e, false, shape))
}

// Range returns the int32 tile 0, 1, …, n−1.
func (k *Kernel) Range(n int) Value { return k.emit(op{code: "range"}, k.value(I32, false, []int{n})) }

// At moves pointers by offsets, in numbers. Both are broadcast.
func (v Value) At(offset Value) Value {
	if !v.ptr || offset.ptr || offset.elem.Float() {
		panic(fmt.Sprintf("triton: %s moved by %s in kernel %s", v.mlir(), offset.mlir(), v.k.Name))
	}
	both := common(v, offset)
	return v.k.emit(op{code: "addptr", in: both}, both[0].like())
}

// Load reads numbers. With a mask, numbers where it is false are not read and count as zero.
func (k *Kernel) Load(p Value, mask ...Value) Value {
	in := k.memory(p, mask)
	if len(mask) > 0 {
		in = append(in, k.constant(p.elem, 0, in[0].shape...))
	}
	return k.emit(op{code: "load", in: in}, k.value(p.elem, false, in[0].shape))
}

// Store writes numbers, where the mask is true if there is one.
func (k *Kernel) Store(p, x Value, mask ...Value) {
	in := k.memory(p, mask)
	if x = x.to(in[0].shape); x.elem != p.elem {
		panic(fmt.Sprintf("triton: %s stored to %s in kernel %s", x.mlir(), p.mlir(), k.Name))
	}
	k.emit(op{code: "store", in: slices.Insert(in, 1, x)})
}

func (k *Kernel) memory(p Value, mask []Value) []Value {
	if !p.ptr || len(mask) > 1 || len(mask) == 1 && mask[0].elem != I1 {
		panic(fmt.Sprintf("triton: memory access through %s in kernel %s", p.mlir(), k.Name))
	}
	if len(mask) == 0 {
		return []Value{p}
	}
	return common(p, mask[0])
}

// Loop runs body for i = from, from+step, … below to. It carries values from one turn to the next and returns them.
// The bounds are int32 scalars.
func (k *Kernel) Loop(from, to, step Value, carried []Value, body func(i Value, c []Value) []Value) []Value {
	carried = slices.Clone(carried)
	o := op{code: "for", in: append([]Value{from, to, step}, carried...), vars: []Value{k.value(I32, false, nil)}}
	var out []Value
	for _, c := range carried {
		o.vars, out = append(o.vars, c.like()), append(out, c.like())
	}
	outer := k.at
	k.at = &o.body
	o.end = slices.Clone(body(o.vars[0], slices.Clone(o.vars[1:])))
	k.at = outer
	for i, c := range carried {
		if i >= len(o.end) || o.end[i].mlir() != c.mlir() {
			panic(fmt.Sprintf("triton: value %d of a loop in kernel %s changes its type", i, k.Name))
		}
	}
	for i := range out {
		out[i].label = fmt.Sprintf("%d#%d", out[0].id, i)
	}
	k.emit(o, slices.Clone(out)...)
	return out
}
