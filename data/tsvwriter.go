package data

import "io"

// NewTSVWriter is [NewWriter] for fields separated by tabs.
func NewTSVWriter(w io.Writer, columns []string, kinds []Kind) (Writer, error) {
	rows, err := newRowWriter(w, CSV, '\t', columns, kinds)
	if err != nil {
		return nil, err
	}
	return &streamWriter{rows}, nil
}
