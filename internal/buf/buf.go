// Package buf reuses memory. Scratch in a workspace grows to the size of the largest call and is never allocated again.
package buf

import "github.com/randfeat/randfeat/dense"

// Sized returns n elements of arbitrary value, in the memory of b if its capacity suffices. Old elements are not
// copied.
func Sized[E any](b []E, n int) []E {
	if cap(b) < n {
		return make([]E, n)
	}
	return b[:n]
}

// Zeroed is Sized with all elements zero.
func Zeroed[E any](b []E, n int) []E {
	b = Sized(b, n)
	clear(b)
	return b
}

// Shaped returns a packed rows × cols matrix of arbitrary elements, in the memory of m if its capacity suffices.
func Shaped[T dense.Float](m dense.Matrix[T], rows, cols int) dense.Matrix[T] {
	if cap(m.Data) < rows*cols {
		return dense.New[T](rows, cols)
	}
	return dense.Matrix[T]{Rows: rows, Cols: cols, Stride: cols, Data: m.Data[:rows*cols]}
}
