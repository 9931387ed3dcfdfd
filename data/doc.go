// Package data reads and writes tables and arrays.
//
// # Tables
//
// First open a table. [Open] detects the format, the delimiter, the header line and the compression of a file, and
// returns a [Source]. A Source is read in blocks, as often as needed, so files may be larger than memory:
//
//	src, err := data.Open("train.csv", data.Options{})
//
// Then learn its schema. [Learn] reads the table once and decides how each column is used:
//
//	schema, summary, err := data.Learn(src, data.LearnOptions{Targets: []string{"price"}})
//
// A model keeps the [Schema]. Its [Encoder] turns later tables into numbers; it finds columns by name:
//
//	next, err := data.Open("new.csv", data.Options{})
//	encoder, err := schema.Encoder(next.Columns(), false)
//	reader, err := next.Open(encoder.Kinds())
//	err = reader.Read(&block, 1024)
//	err = encoder.Encode(x, dense.Matrix[float64]{}, &block, reader.Where)
//
// Formats are delimited text, NDJSON, JSON, xlsx, npy and npz; import package data/parquet for Parquet. [Columns] is a
// table in memory. [Create] writes predictions.
//
// # Parts of a table
//
// Large files, and many files with package data/files, are cut into units of about 32 MiB ([Unit]). A [Learner] learns
// some units on any machine. Learners that are merged along one fixed tree give the schema of Learn, bit for bit.
//
// # Arrays
//
// [ReadMatrix] reads a matrix of an npy or safetensors file, [WriteMatrix] writes one.
//
// # Limits
//
// Input is never trusted. A header that promises more than the file holds is an error before anything is allocated.
// Rows and columns are bounded ([Options]). Errors name the file, the line and the column.
package data
