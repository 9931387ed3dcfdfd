// Package parquet reads and writes tables in Apache Parquet files, as a [data.Source] and a [data.Writer].
//
// Columns must be flat: numbers, bools (as 0 and 1) and byte arrays (as text). Decimals, dates and times are the
// numbers that the file holds, decimals scaled. Every encoding and compression that writers use is read (snappy, gzip,
// zstd, brotli, lz4_raw), page by page, in memory that grows with a page and with what is in the file, not with what it
// promises.
//
// Metadata and packed differences are decoded by parquet-go. Its reader of rows is not used: it brings protobuf,
// geometry and a reflection over Go types along (5 MB of a program), and in version 0.32 reads some pages compressed
// by lz4 as empty texts.
package parquet
