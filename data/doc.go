// Package data has tables, their schemas and their encoding as numbers.
//
// # Tables
//
// First open a table, here with package data/text. A [Source] is read in blocks, as often as needed, so files may be
// larger than memory:
//
//	src, err := text.Open("train.csv", data.Options{})
//
// Then learn its schema. [Learn] reads the table once and decides how each column is used:
//
//	schema, summary, err := data.Learn(src, data.LearnOptions{Targets: []string{"price"}})
//
// A model keeps the [Schema]. Its [Encoder] turns later tables into numbers; it finds columns by name:
//
//	next, err := text.Open("new.csv", data.Options{})
//	encoder, err := schema.Encoder(next.Columns(), false)
//	reader, err := next.Open(encoder.Kinds())
//	err = reader.Read(&block, 1024)
//	err = encoder.Encode(x, dense.Matrix[float64]{}, &block, reader.Where)
//
// The packages data/text and data/parquet read and write one kind of format each. Package data/files detects the
// format, reads npy, npz and xlsx as well, and many files as one table. [Columns] is a table in memory.
//
// # Parts of a table
//
// Large files, and many files with package data/files, are cut into units of about 32 MiB ([Unit]). A [Learner]
// learns some units on any machine. Learners that are merged along one fixed tree give the schema
// of Learn, bit for bit.
//
// # Concurrency
//
// A Source may be opened by several goroutines at once, unless it is a stream, which can be opened once. A
// [Reader] and a [Writer] belong to one goroutine; a Reader of text parses on several goroutines of its own.
// Several goroutines may share an [Encoder] that has no [Watch]. A [Block] and the slices in it are valid until
// the next Read into the same Block.
//
// # Limits
//
// Input is never trusted. A header that promises more than the file holds is an error before anything is
// allocated. Rows and columns are bounded ([Options]). Errors name the file, the line and the column; errors.As
// with *[InputError] gets the parts.
//
// # Map of the files
//
//   - Opening: options.go has formats and options.
//   - Memory: block.go has the types that readers fill, columns.go the table in memory.
//   - Learning: learner.go is the driver, columnlearner.go the statistics of one column; styles and dates of
//     its texts are in numberstyle.go and datetime.go, counts of levels in counts.go, outliers in octaves.go,
//     row numbers in rownumbers.go. learn.go and reading.go turn statistics into fields, learnercodec.go saves
//     them. units.go has the merge tree.
//   - Encoding: schema.go describes, encode.go applies; codes.go, datetime.go and words.go encode levels,
//     times and texts; watch.go reports values unlike the training rows; fielddecode.go inverts a field.
//   - Rows: drop.go leaves rows out, marks.go reads weights, groups and times, missing.go says which texts
//     mean a missing value.
package data
