package data

import "io"

// File is an open file of a store, such as an object store. ReadAt must be safe for concurrent calls, as
// io.ReaderAt demands: goroutines that parse one file share it.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// OpenFile is Open for a file that is not in the file system. file opens it, once to inspect it and again for
// every reader; size is its length in bytes. name is used in messages and for its extension.
func OpenFile(name string, size int64, file func() (File, error), o Options) (Source, error) {
	return open(input{name: name, size: size, open: func() (stream, error) { return file() }}, o)
}
