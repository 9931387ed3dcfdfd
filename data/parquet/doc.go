// Package parquet reads and writes tables in the Parquet format.
//
// It reads columns that are not nested, in every encoding and compression that writers use (snappy, gzip, zstd, brotli,
// lz4_raw), page by page, and takes memory in proportion to a page and to what is in the file, not to what the file
// promises. Metadata and packed differences are decoded by parquet-go; its reader of rows is not used, because it brings
// protobuf, geometry and a reflection over Go types along (5 MB of a program), and in version 0.32 reads some pages
// compressed by lz4 as empty texts.
package parquet
