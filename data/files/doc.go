// Package files detects the format of files, and reads many of them as one table: CSV, NDJSON, Parquet, npy, npz and
// xlsx, given by names, patterns and directories.
//
// [OpenBytes] and [OpenReader] open one table. [Expand] turns arguments into a list of files, and [Open] opens them as
// a [Table]. Workers on other machines open the same table from its [Manifest], which records names, sizes and how to
// read the files. [RegisterStore] adds names such as s3://bucket/file. [Create] and [NewWriter] write.
//
// The order of the files is the order of the rows: as named, and within a pattern or a directory by name, byte by byte,
// so part-10 comes before part-2. All files have the columns of the first one; columns in another order are found by
// name. Any other difference (a name, a type, a header, a file without rows) is an error that names the file.
//
// Folders named column=value, as Hive and Spark write them, add a column to the files directly below them. A file that
// has the column itself keeps its own. Parquet files without rows are accepted.
package files
