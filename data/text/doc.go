// Package text reads and writes delimited text, NDJSON and JSON arrays of objects.
//
//	src, err := text.Open("train.csv", data.Options{})
//
// Format, delimiter, header line and encoding are detected. Files may be compressed by gzip, zstd or bzip2. Package
// data/files opens files of any format, and many files as one table.
//
// # Map of the files
//
// open.go detects the format and chooses a reader. decode.go turns other encodings into UTF-8. lines.go cuts records,
// csv.go and ndjson.go parse them, csvsniff.go guesses delimiter and header, jsonarray.go translates arrays into lines.
// pieces.go runs these parsers on several goroutines, with quotes.go to find where records end; textblocks.go cuts a
// file into units. write.go writes.
package text
