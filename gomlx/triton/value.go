package triton

import (
	"fmt"
	"slices"
	"strings"
)

// Elem is the type of the numbers of a value.
type Elem string

// The types that kernels compute with. I1 is a truth value.
const (
	F32  Elem = "f32"
	BF16 Elem = "bf16"
	I32  Elem = "i32"
	I64  Elem = "i64"
	I1   Elem = "i1"
)

// Float reports whether the numbers are floating-point.
func (e Elem) Float() bool { return e == F32 || e == BF16 }

// Value is the result of an operation: a scalar (no shape), a tile, or pointers to numbers of its type.
type Value struct {
	k     *Kernel
	id    int
	elem  Elem
	ptr   bool
	shape []int
	label string // name in the text, if it is not the id
}

// Shape returns the sizes of a tile; a scalar has none.
func (v Value) Shape() []int { return v.shape }

// Elem returns the type of the numbers, or of the numbers that pointers point to.
func (v Value) Elem() Elem { return v.elem }

// mlir returns the type in MLIR.
func (v Value) mlir() string {
	e := string(v.elem)
	if v.ptr {
		e = "!tt.ptr<" + e + ">"
	}
	if len(v.shape) == 0 {
		return e
	}
	var b strings.Builder
	for _, n := range v.shape {
		fmt.Fprintf(&b, "%dx", n)
	}
	return "tensor<" + b.String() + e + ">"
}

// like returns a value of the same type and another id.
func (v Value) like() Value { return v.k.value(v.elem, v.ptr, v.shape) }

// size is the number of numbers.
func (v Value) size() int {
	n := 1
	for _, d := range v.shape {
		n *= d
	}
	return n
}

// to broadcasts a value to a shape: scalars anywhere, axes of length 1 to any length.
func (v Value) to(shape []int) Value {
	if slices.Equal(v.shape, shape) {
		return v
	}
	if len(v.shape) == 0 {
		return v.k.emit(op{code: "splat", in: []Value{v}}, v.k.value(v.elem, v.ptr, shape))
	}
	fits := len(v.shape) == len(shape)
	for i := range v.shape {
		fits = fits && (v.shape[i] == shape[i] || v.shape[i] == 1)
	}
	if !fits {
		panic(fmt.Sprintf("triton: %s in kernel %s does not broadcast to %v", v.mlir(), v.k.Name, shape))
	}
	return v.k.emit(op{code: "broadcast", in: []Value{v}}, v.k.value(v.elem, v.ptr, shape))
}

// common broadcasts values to the smallest shape that all fit.
func common(all ...Value) []Value {
	var shape []int
	for _, v := range all {
		if len(v.shape) > 0 && len(shape) > 0 && len(v.shape) != len(shape) {
			panic(fmt.Sprintf("triton: %s and %s in kernel %s: take Column or Row", all[0].mlir(), v.mlir(), v.k.Name))
		}
		if len(shape) == 0 {
			shape = slices.Clone(v.shape)
		}
		for i, n := range v.shape {
			shape[i] = max(shape[i], n)
		}
	}
	out := make([]Value, len(all))
	for i, v := range all {
		out[i] = v.to(shape)
	}
	return out
}
