package data

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/randfeat/randfeat/dense"
)

// WriteNPY writes m as a row-major, little-endian npy array of its own element type.
func WriteNPY[T dense.Float](w io.Writer, m dense.Matrix[T]) error {
	nw, err := NewNPYWriter[T](w, m.Rows, m.Cols)
	if err != nil {
		return err
	}
	if err := nw.WriteRows(m); err != nil {
		return err
	}
	return nw.Close()
}

// WriteNPYFile writes m to path. The file appears complete or not at all: see [AtomicFile].
func WriteNPYFile[T dense.Float](path string, m dense.Matrix[T]) error {
	f, err := CreateAtomic(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := WriteNPY(f, m); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Commit()
}

// NPYWriter writes an array block by block, so that a result never has to be held as a whole.
type NPYWriter[T dense.Float] struct {
	w          *bufio.Writer
	rows, cols int
	written    int
}

// NewNPYWriter writes the header of a rows×cols array. There may be no rows, but there must be columns.
func NewNPYWriter[T dense.Float](w io.Writer, rows, cols int) (*NPYWriter[T], error) {
	if rows < 0 || cols < 1 {
		return nil, fmt.Errorf("npy array of %d×%d: %w", rows, cols, dense.ErrShape)
	}
	n := &NPYWriter[T]{w: bufio.NewWriterSize(w, 1<<16), rows: rows, cols: cols}
	_, err := n.w.Write(headerBytes(dtypeOf[T](), rows, cols))
	return n, err
}

// WriteRows appends the rows of m.
func (n *NPYWriter[T]) WriteRows(m dense.Matrix[T]) error {
	if m.Rows > 0 && m.Cols != n.cols || n.written+m.Rows > n.rows {
		return fmt.Errorf("%d×%d rows after %d of a %d×%d array: %w", m.Rows, m.Cols, n.written, n.rows, n.cols, dense.ErrShape)
	}
	if err := m.Check(); err != nil {
		return err
	}
	var b [8]byte
	for i := range m.Rows {
		for _, v := range m.Row(i) {
			e := b[:4]
			switch v := any(v).(type) {
			case float32:
				binary.LittleEndian.PutUint32(e, math.Float32bits(v))
			case float64:
				e = b[:8]
				binary.LittleEndian.PutUint64(e, math.Float64bits(v))
			}
			if _, err := n.w.Write(e); err != nil {
				return err
			}
		}
	}
	n.written += m.Rows
	return nil
}

// Close flushes; it is an error if rows are missing. It does not close the underlying writer.
func (n *NPYWriter[T]) Close() error {
	if n.written != n.rows {
		return fmt.Errorf("%d of %d rows written: %w", n.written, n.rows, dense.ErrShape)
	}
	return n.w.Flush()
}

func dtypeOf[T dense.Float]() DType {
	var zero T
	if _, ok := any(zero).(float32); ok {
		return Float32
	}
	return Float64
}
