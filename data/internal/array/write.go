package array

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/npy"
)

// Create starts a table in an npz file, with one float64 array per column, under the column's name. All
// kinds must be Number. The format stores one array after the other, so the columns wait in a temporary file
// until Close. Memory does not depend on the number of rows. The file appears at path only when Close succeeds.
func Create(path string, columns []string, kinds []data.Kind) (data.Writer, error) {
	if len(columns) == 0 || len(columns) != len(kinds) || len(columns) > raw.MaxMembers {
		return nil, fmt.Errorf("%s: %d columns of %d kinds to write, an npz file holds 1 to %d: %w", path, len(columns),
			len(kinds), raw.MaxMembers, dense.ErrShape)
	}
	for j, k := range kinds {
		if k != data.Number {
			return nil, fmt.Errorf("%s: column %s is %v, an npz file holds numbers only: write CSV, NDJSON or Parquet",
				path, cell.Quote(columns[j]), k)
		}
		// Readers treat the name of a member as a path, so separators are refused.
		if columns[j] == "" || strings.ContainsAny(columns[j], "/\\\x00") {
			return nil, fmt.Errorf("%s: column %s cannot be the name of an array: rename it, or write CSV, NDJSON or Parquet", path, cell.Quote(columns[j]))
		}
	}
	if err := raw.CheckNames(path, columns); err != nil {
		return nil, err
	}
	file, err := localfile.Create(path)
	if err != nil {
		return nil, err
	}
	spool, err := os.CreateTemp("", "randfeat-*.tmp")
	if err != nil {
		file.Abort()
		return nil, err
	}
	// On Unix an open file can be removed, so that not even a killed process leaves it behind. Elsewhere Abort
	// removes it.
	removed := os.Remove(spool.Name()) == nil
	return &npzWriter{path: path, columns: columns, kinds: kinds, file: file, spool: spool, removed: removed}, nil
}

// npzWriter appends each block to the temporary file, column by column. Close copies the columns together:
// column j of a block of n rows begins 8·j·n bytes into the block.
type npzWriter struct {
	path    string
	columns []string
	kinds   []data.Kind
	file    *localfile.File
	spool   *os.File
	removed bool
	blocks  []int // rows of each block, in order
	buf     []byte
	err     error
}

func (w *npzWriter) WriteBlock(b *data.Block) error {
	if w.err == nil {
		w.err = w.write(b)
	}
	return w.err
}

func (w *npzWriter) write(b *data.Block) error {
	if err := b.Check(w.kinds); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if b.Rows == 0 {
		return nil
	}
	w.buf = w.buf[:0]
	for j := range w.kinds {
		for _, v := range b.Cols[j].Num {
			w.buf = binary.LittleEndian.AppendUint64(w.buf, math.Float64bits(v))
		}
	}
	if _, err := w.spool.Write(w.buf); err != nil {
		return localfile.CannotWrite(w.path, fmt.Errorf("temporary file: %w", err))
	}
	w.blocks = append(w.blocks, b.Rows)
	return nil
}

func (w *npzWriter) Close() error {
	defer w.Abort()
	if w.err != nil {
		return w.err
	}
	rows := 0
	for _, n := range w.blocks {
		rows += n
	}
	z := zip.NewWriter(w.file)
	for j, name := range w.columns {
		out, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
		if err == nil {
			_, err = out.Write(npy.HeaderBytes(npy.Float64, []int{rows}))
		}
		at := int64(0)
		for _, n := range w.blocks {
			if err == nil {
				_, err = io.Copy(out, io.NewSectionReader(w.spool, at+int64(j)*int64(n)*8, int64(n)*8))
			}
			at += int64(len(w.columns)) * int64(n) * 8
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.path, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	return w.file.Commit()
}

func (w *npzWriter) Abort() {
	w.err = errors.Join(w.err, errClosed)
	w.file.Abort()
	if w.spool != nil {
		w.spool.Close()
		if !w.removed {
			os.Remove(w.spool.Name())
		}
		w.spool = nil
	}
}

// NewWriter writes an npy array of float64. patch, if not nil, is the file behind w, whose header is corrected at the
// end; otherwise the array is held in memory until Close.
func NewWriter(w io.Writer, patch io.WriterAt, kinds []data.Kind) data.Writer {
	return &npyTable{w: w, patch: patch, kinds: kinds}
}

var errClosed = errors.New("the writer is closed")

// npyTable is a float64 matrix. The npy header has the same length for any number of rows, so a preliminary one
// is written first and overwritten at the end.
type npyTable struct {
	w     io.Writer
	kinds []data.Kind
	buf   []byte
	patch io.WriterAt // nil: everything is kept in memory until the end
	rows  int
}

func (n *npyTable) WriteBlock(b *data.Block) error {
	if err := b.Check(n.kinds); err != nil {
		return err
	}
	if n.rows == 0 && n.patch != nil && len(n.buf) == 0 {
		n.buf = append(n.buf, npy.HeaderBytes(npy.Float64, []int{0, len(n.kinds)})...)
	}
	for i := range b.Rows {
		for j := range n.kinds {
			v := math.Float64bits(b.Cols[j].Num[i])
			n.buf = append(n.buf, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48),
				byte(v>>56))
		}
		if n.patch != nil {
			if err := n.spill(false); err != nil {
				return err
			}
		}
		n.rows++
	}
	return nil
}

func (n *npyTable) Close() error {
	head := npy.HeaderBytes(npy.Float64, []int{n.rows, len(n.kinds)})
	if n.patch == nil || n.rows == 0 {
		n.buf = append(head, n.buf...)
		if n.rows == 0 {
			n.buf = head
		}
		return n.spill(true)
	}
	if err := n.spill(true); err != nil {
		return err
	}
	_, err := n.patch.WriteAt(head, 0)
	return err
}

// spill writes the collected rows if there are many, or in any case if all is set.
func (n *npyTable) spill(all bool) error {
	if len(n.buf) < npy.WriteBytes && !all {
		return nil
	}
	_, err := n.w.Write(n.buf)
	n.buf = n.buf[:0]
	return err
}

// Abort keeps what has been written.
func (n *npyTable) Abort() {}
