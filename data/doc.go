// Package data reads and writes arrays and tables.
//
// # Tables
//
// [Open] finds the format, the delimiter, the header line and the compression of a file. It returns a [Source],
// which can be read in blocks as often as needed, so its size does not matter. [Learn] reads it once and decides
// what each column is. The [Schema] that it returns belongs to a model; its [Encoder] turns later tables into
// numbers, by the names of their columns:
//
//	src, err := data.Open("train.csv", data.Options{})
//	schema, summary, err := data.Learn(src, data.LearnOptions{Targets: []string{"price"}})
//
// Formats are delimited text, NDJSON, JSON, xlsx, npy and npz; import package data/parquet for Parquet. [Columns] is
// a table in memory. [Create] writes predictions.
//
// Large files, and many files with package data/files, are cut into units of fixed size. A [Learner] learns some
// units anywhere. Merged along one tree, learners give the schema of Learn, bit for bit.
//
// # Arrays
//
// [ReadNPYFile] reads a matrix of float32 or float64 and keeps the element type of the file; [ReadNPYTensorFile]
// reads an array of any shape, of floats, integers or bools; [ReadArrayFile] also reads tensors of safetensors
// files. [WriteNPYFile] replaces its target in one step or leaves it alone.
//
// # Safety
//
// Input is never trusted. A header that promises more than the file holds is an error before it is an allocation,
// rows and columns are bounded, and errors name the file, the line and the column.
package data
