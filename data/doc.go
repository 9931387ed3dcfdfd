// Package data reads and writes the arrays and tables that the command line works on.
//
// Arrays are NumPy's npy. [ReadNPYFile] reads a matrix of float32 or float64 and keeps the element type of the file,
// [ReadNPYTensorFile] an array of any shape, of floats, integers or bools. [WriteNPYFile] replaces its target in one
// step or leaves it alone.
//
// Tables are delimited text, NDJSON, npy and npz; Parquet is in the package data/parquet. [Open] finds out what a file
// is: the format, the delimiter, whether the first line names the columns, compression by gzip. A [Source] is read in
// blocks, as often as needed, so that its size does not matter. [Learn] reads it once and decides what each column is;
// the [Schema] that it returns belongs to a model, and its [Encoder] turns later tables into numbers by the names of
// their columns. [Create] writes predictions.
//
// Large files, and with the package data/files many of them, are cut into units of fixed size. A [Learner] learns some
// of them anywhere; merged along one tree they give the schema of [Learn], bit for bit.
//
// Input is never trusted: a header that promises more than the file holds is an error before it is an allocation, rows
// and columns are bounded, and errors name the file, the line and the column.
package data
