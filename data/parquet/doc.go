// Package parquet reads and writes tables in Apache Parquet files, as a [data.Source] and a [data.Writer].
//
// Call [Open] for a file, [OpenFile] for an object in a store or in memory, and [Create] to write. Package data/files
// does this by itself for names that end in .parquet.
//
// Columns must be flat: numbers, bools (as true and false, or 0 and 1), decimals and byte arrays (as text; bytes that
// are neither UTF-8 nor declared to be text become hexadecimal digits). Dates and times are texts of ISO 8601. Every
// encoding and compression that writers use is read (snappy, gzip, zstd, brotli, lz4 and lz4_raw), page by page.
//
// Memory is bounded by the contents of the file, not by its claims: a page may decompress to 16 MiB or 64 times its
// size, all pages that are held at a time to 256 MiB and 16 times the size of the file, and runs of equal values take
// none.
//
// parquet-go decodes the metadata. Its reader of rows is not used: it brings protobuf, geometry and reflection over Go
// types along (5 MB of a program), and in version 0.32 reads some pages compressed by lz4 as empty texts.
//
// footer.go reads the schema, page.go the pages of a column, decode.go the encodings, cell.go single values; read.go
// puts rows together, budget.go bounds their memory. write.go is the writer.
package parquet
