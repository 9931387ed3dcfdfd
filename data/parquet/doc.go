// Package parquet reads and writes tables in Apache Parquet files, as a [data.Source] and a [data.Writer].
//
// Columns must be flat: numbers, bools (as true and false, or 0 and 1), decimals and byte arrays (as text; bytes that
// are not UTF-8, and not said to be text, as hexadecimal digits). Dates and times are texts of ISO 8601.
// Every encoding and compression that writers use is read (snappy, gzip, zstd, brotli, lz4 and lz4_raw), page by page.
// Memory is bounded by what is in the file, not by what it promises: a page may decompress to 16 MiB or 64 times its
// size, all that are held at a time to 256 MiB and 16 times the size of the file, and runs of equal values take none.
//
// Metadata is decoded by parquet-go. Its reader of rows is not used: it brings protobuf, geometry and a reflection over
// Go types along (5 MB of a program), and in version 0.32 reads some pages compressed by lz4 as empty texts.
package parquet
