// Package files reads many files as one table: CSV, NDJSON, Parquet, npy and npz by their names, patterns and
// directories of them.
//
// The order of the files is the order of the rows: as they are named, and within a pattern or a directory by their
// names, byte by byte, so that part-10 stands before part-2. All files have the columns of the first one; in another
// order they are found by name. What differs otherwise (a name, a type, a header, a file without rows) is an error that
// names the file.
//
// Folders named column=value, as Hive and Spark write them, give a column to the files directly below them. A file that
// has the column itself keeps its own. Parquet files without rows are read.
package files
