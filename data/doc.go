// Package data reads and writes the arrays that the command line works on.
//
// The format is NumPy's npy. [ReadNPYFile] reads a matrix of float32 or float64 and keeps the element type of the file,
// [ReadNPYTensorFile] an array of any shape, of floats, integers or bools. [WriteNPYFile] replaces its target in one step
// or leaves it alone. Input is never trusted: a header that promises more than the file holds is an error before it is an
// allocation.
package data
