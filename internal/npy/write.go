package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/localfile"
)

// Write writes m as a row-major, little-endian npy array of its own element type.
func Write[T dense.Float](w io.Writer, m dense.Matrix[T]) error {
	nw, err := NewWriter[T](w, m.Rows, m.Cols)
	if err != nil {
		return err
	}
	if err := nw.WriteRows(m); err != nil {
		return err
	}
	return nw.Close()
}

// WriteFile writes m to path. The file appears complete or not at all: see [localfile.File].
func WriteFile[T dense.Float](path string, m dense.Matrix[T]) error {
	f, err := localfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := Write(f, m); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Commit()
}

// Writer writes an array block by block, so that a result never has to be held as a whole.
type Writer[T dense.Float] struct {
	w          io.Writer
	buf        []byte
	rows, cols int
	written    int
}

// NewWriter writes the header of a rows×cols array. There may be no rows, but there must be columns.
func NewWriter[T dense.Float](w io.Writer, rows, cols int) (*Writer[T], error) {
	if rows < 0 || cols < 1 {
		return nil, fmt.Errorf("npy array of %d×%d: %w", rows, cols, dense.ErrShape)
	}
	return NewTensorWriter[T](w, []int{rows, cols})
}

// NewTensorWriter writes the header of an array of one or more dimensions. Its rows are the runs along the last
// dimension, in row-major order.
func NewTensorWriter[T dense.Float](w io.Writer, shape []int) (*Writer[T], error) {
	if len(shape) == 0 || len(shape) > maxDims {
		return nil, fmt.Errorf("npy array of %d dimensions: %w", len(shape), dense.ErrShape)
	}
	n := &Writer[T]{w: w, buf: make([]byte, 0, WriteBytes), rows: 1, cols: shape[len(shape)-1]}
	for i, d := range shape {
		if d < 0 || d > math.MaxInt/8/max(n.rows, 1) {
			return nil, fmt.Errorf("npy array of shape %s: %w", Dims(shape), dense.ErrShape)
		}
		if i < len(shape)-1 {
			n.rows *= d
		}
	}
	n.buf = append(n.buf, HeaderBytes(dtypeOf[T](), shape)...)
	return n, nil
}

// WriteBytes is how much is collected before it is written.
const WriteBytes = 1 << 16

// WriteRows appends the rows of m.
func (n *Writer[T]) WriteRows(m dense.Matrix[T]) error {
	if m.Rows > 0 && m.Cols != n.cols || n.written+m.Rows > n.rows {
		return fmt.Errorf("%d×%d rows after %d of a %d×%d array: %w", m.Rows, m.Cols, n.written, n.rows, n.cols,
			dense.ErrShape)
	}
	if err := m.Check(); err != nil {
		return err
	}
	for i := range m.Rows {
		if err := n.writeRow(m.Row(i)); err != nil {
			return err
		}
	}
	n.written += m.Rows
	return nil
}

func (n *Writer[T]) writeRow(row []T) error {
	const block = 1024 // elements between looks at the buffer
	for len(row) > 0 {
		if len(n.buf)+8*block > cap(n.buf) {
			if err := n.flush(); err != nil {
				return err
			}
		}
		part := row[:min(block, len(row))]
		row = row[len(part):]
		switch part := any(part).(type) {
		case []float32:
			for _, v := range part {
				n.buf = binary.LittleEndian.AppendUint32(n.buf, math.Float32bits(v))
			}
		case []float64:
			for _, v := range part {
				n.buf = binary.LittleEndian.AppendUint64(n.buf, math.Float64bits(v))
			}
		}
	}
	return nil
}

func (n *Writer[T]) flush() error {
	_, err := n.w.Write(n.buf)
	n.buf = n.buf[:0]
	return err
}

// Close flushes; missing rows are an error. It does not close the underlying writer.
func (n *Writer[T]) Close() error {
	if n.written != n.rows {
		return fmt.Errorf("%d of %d rows written: %w", n.written, n.rows, dense.ErrShape)
	}
	return n.flush()
}

func dtypeOf[T dense.Float]() DType {
	var zero T
	if _, ok := any(zero).(float32); ok {
		return Float32
	}
	return Float64
}
