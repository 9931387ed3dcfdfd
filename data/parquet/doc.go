// Package parquet reads and writes tables in Apache Parquet files, as a [data.Source] and a [data.Writer].
//
// Columns must be flat: numbers, bools (as 0 and 1) and byte arrays (as text). Decimals, dates and times are the numbers
// that the file holds, decimals scaled. It is a package of its own so that only its users carry the dependency on
// github.com/parquet-go/parquet-go.
package parquet
