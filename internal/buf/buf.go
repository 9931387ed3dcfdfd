// Package buf reuses memory: scratch that lives in workspaces grows to the largest call and is never allocated again.
package buf

import "github.com/randfeat/randfeat/dense"

// Sized is n elements of arbitrary value, in the memory of b if that suffices.
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

// Shaped is a packed matrix of arbitrary elements, in the memory of m if that suffices.
func Shaped[T dense.Float](m dense.Matrix[T], rows, cols int) dense.Matrix[T] {
	if cap(m.Data) < rows*cols {
		return dense.New[T](rows, cols)
	}
	return dense.Matrix[T]{Rows: rows, Cols: cols, Stride: cols, Data: m.Data[:rows*cols]}
}
