// Package data reads and writes the matrices that the command line works on.
//
// The format is NumPy's npy: two-dimensional arrays of float32 or float64. [ReadNPYFile] keeps the element type of
// the file; [WriteNPYFile] replaces its target in one step or leaves it alone. Input is never trusted: a header that
// promises more than the file holds is an error before it is an allocation.
package data
