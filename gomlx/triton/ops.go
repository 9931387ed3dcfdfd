package triton

import (
	"fmt"
	"slices"
)

func (v Value) binary(code string, w Value) Value {
	both := common(v, w)
	if v.elem != w.elem || v.ptr || w.ptr {
		panic(fmt.Sprintf("triton: %s of %s and %s in kernel %s", code, v.mlir(), w.mlir(), v.k.Name))
	}
	return v.k.emit(op{code: code, in: both}, both[0].like())
}

// Arithmetic of numbers of one type. Div of integers rounds toward zero, Rem is its remainder.
func (v Value) Add(w Value) Value { return v.binary("add", w) }
func (v Value) Sub(w Value) Value { return v.binary("sub", w) }
func (v Value) Mul(w Value) Value { return v.binary("mul", w) }
func (v Value) Div(w Value) Value { return v.binary("div", w) }
func (v Value) Rem(w Value) Value { return v.binary("rem", w) }
func (v Value) Max(w Value) Value { return v.binary("max", w) }
func (v Value) Min(w Value) Value { return v.binary("min", w) }
func (v Value) And(w Value) Value { return v.binary("and", w) }

// Plus and Times take constants of the value's own type.
func (v Value) Plus(x float64) Value  { return v.Add(v.k.constant(v.elem, x)) }
func (v Value) Times(x float64) Value { return v.Mul(v.k.constant(v.elem, x)) }

func (v Value) compare(mode string, w Value) Value {
	both := common(v, w)
	if v.elem != w.elem {
		panic(fmt.Sprintf("triton: %s compared with %s in kernel %s", v.mlir(), w.mlir(), v.k.Name))
	}
	return v.k.emit(op{code: "compare", mode: mode, in: both}, v.k.value(I1, false, both[0].shape))
}

// Comparisons.
func (v Value) Less(w Value) Value      { return v.compare("lt", w) }
func (v Value) LessEqual(w Value) Value { return v.compare("le", w) }
func (v Value) Greater(w Value) Value   { return v.compare("gt", w) }
func (v Value) Equal(w Value) Value     { return v.compare("eq", w) }

// Where returns v where the mask on is true and other elsewhere.
func (v Value) Where(on, other Value) Value {
	all := common(on, v, other)
	if on.elem != I1 || v.elem != other.elem {
		panic(fmt.Sprintf("triton: choice of %s and %s in kernel %s", v.mlir(), other.mlir(), v.k.Name))
	}
	return v.k.emit(op{code: "select", in: all}, all[1].like())
}

func (v Value) unary(code string) Value {
	if v.elem != F32 || v.ptr {
		panic(fmt.Sprintf("triton: %s of %s in kernel %s", code, v.mlir(), v.k.Name))
	}
	return v.k.emit(op{code: code, in: []Value{v}}, v.like())
}

// Exp2 and Log2 are the exponential and the logarithm to base 2, which GPUs compute in one instruction.
func (v Value) Exp2() Value { return v.unary("exp2") }
func (v Value) Log2() Value { return v.unary("log2") }

// To converts numbers to another type.
func (v Value) To(e Elem) Value {
	if v.elem == e {
		return v
	}
	return v.k.emit(op{code: "convert", in: []Value{v}}, v.k.value(e, false, v.shape))
}

// Column and Row make [n, 1] and [1, n] of a tile [n].
func (v Value) Column() Value { return v.expand(1) }
func (v Value) Row() Value    { return v.expand(0) }

func (v Value) expand(axis int) Value {
	return v.k.emit(op{code: "expand", in: []Value{v}, ints: []int{axis}},
		v.k.value(v.elem, v.ptr, slices.Insert(slices.Clone(v.shape), axis, 1)))
}

// T transposes a matrix.
func (v Value) T() Value {
	if len(v.shape) != 2 {
		panic(fmt.Sprintf("triton: transposed %s in kernel %s", v.mlir(), v.k.Name))
	}
	return v.k.emit(op{code: "trans", in: []Value{v}}, v.k.value(v.elem, v.ptr, []int{v.shape[1], v.shape[0]}))
}

// Sum and Most reduce one axis, by addition and to the largest number.
func (v Value) Sum(axis int) Value  { return v.reduce("add", axis) }
func (v Value) Most(axis int) Value { return v.reduce("max", axis) }

func (v Value) reduce(mode string, axis int) Value {
	if axis >= len(v.shape) || v.elem != F32 {
		panic(fmt.Sprintf("triton: axis %d of %s reduced in kernel %s", axis, v.mlir(), v.k.Name))
	}
	return v.k.emit(op{code: "reduce", mode: mode, in: []Value{v}, ints: []int{axis}},
		v.k.value(v.elem, false, slices.Delete(slices.Clone(v.shape), axis, axis+1)))
}

// Precision says how float32 matrices are multiplied.
type Precision string

// TF32 rounds operands to 11 bits, Three makes three such products of the parts of each operand, which is nearly
// float32, and Full multiplies float32 numbers without tensor cores.
const (
	TF32  Precision = "tf32"
	Three Precision = "tf32x3"
	Full  Precision = "ieee"
)

// Dot is the matrix product [n, k]·[k, m] of numbers of one type, plus sum: float32 [n, m]. All sizes are at least
// 16.
func (v Value) Dot(w Value, p Precision, sum ...Value) Value {
	fits := len(v.shape) == 2 && len(w.shape) == 2 && v.elem == w.elem && v.elem.Float()
	if !fits || v.shape[1] != w.shape[0] || min(v.shape[0], v.shape[1], w.shape[1]) < 16 {
		panic(fmt.Sprintf("triton: product of %s and %s in kernel %s", v.mlir(), w.mlir(), v.k.Name))
	}
	shape := []int{v.shape[0], w.shape[1]}
	if len(sum) == 0 {
		sum = []Value{v.k.Zeros(shape...)}
	}
	if !slices.Equal(sum[0].shape, shape) || sum[0].elem != F32 {
		panic(fmt.Sprintf("triton: product %v added to %s in kernel %s", shape, sum[0].mlir(), v.k.Name))
	}
	return v.k.emit(op{code: "dot", mode: string(p), in: []Value{v, w, sum[0]}}, v.k.value(F32, false, shape))
}
