package data

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

// ReadMatrix reads a matrix of an npy file or a safetensors file: name.safetensors if it holds one tensor,
// name.safetensors:tensor otherwise. The header is checked against the size of the file before memory is
// allocated.
func ReadMatrix(path string) (dense.Matrix[float64], error) {
	a, err := npy.ReadAny(path)
	return a.Float64(), err
}

// WriteMatrix writes an npy file. It replaces an existing file in one step or leaves it unchanged.
func WriteMatrix[T dense.Float](path string, m dense.Matrix[T]) error { return npy.WriteFile(path, m) }
