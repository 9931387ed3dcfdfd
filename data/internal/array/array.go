package array

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/npy"
)

// member is an array that contributes columns to a table: a matrix, or a vector as one column. It keeps no open
// file; stream opens it again for every reader.
type member struct {
	name   string // for messages
	h      npy.Header
	first  int // number of its first column in the table
	cols   int
	size   int64                         // bytes of the array with its header; -1: unknown
	file   int64                         // bytes of the file that the array is in, 0 for a stream
	stream func() (io.ReadCloser, error) // opens it at the header
}

const (
	maxHeldBytes = 256 << 20
	maxHeldRatio = 16
)

// maxHeld is how many bytes an array in column order may take that is compressed, and is held in memory therefore: 256
// MiB, or 16 times the size of its file if that is more. A small file can claim and expand to 1000 times its size.
func maxHeld(file int64) int64 { return max(maxHeldBytes, maxHeldRatio*file) }

// newMember reads the header and checks the shape, and the size if it is known, before any data are read.
func newMember(name string, size int64, open func() (io.ReadCloser, error)) (*member, error) {
	s, err := open()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	h, err := npy.ReadHeader(s)
	if err != nil {
		return nil, &data.InputError{Place: name, Detail: err.Error(), Err: err}
	}
	m := &member{name: name, h: h, size: size, stream: open, cols: 1}
	switch len(h.Shape) {
	case 1:
	case 2:
		m.cols = h.Shape[1]
	default:
		return nil, raw.Errorf(name, "an array of %s, want rows × columns or one column", npy.DimCount(len(h.Shape)))
	}
	m.h.Fortran = h.Fortran && m.cols > 1 // one column is the same in both orders, and row order can be streamed
	if m.cols == 0 {
		return nil, raw.Errorf(name, "the array has no columns")
	}
	if size >= 0 {
		if err := npy.CheckSize(h, size-h.Size); err != nil {
			return nil, &data.InputError{Place: name, Detail: err.Error(), Err: err}
		}
	}
	return m, nil
}

// arraySource is a table made of arrays with equal numbers of rows, whose columns stand side by side.
type arraySource struct {
	name    string
	members []*member
	columns []string
	rows    int
}

// NoRows reports that the arrays are empty.
func (s *arraySource) NoRows() bool { return s.rows == 0 }

// OpenNPY opens a matrix, or a vector as one column. size is the length of the file, -1 for a stream that open opens
// once.
func OpenNPY(name string, size int64, open func() (io.ReadCloser, error), o data.Options) (data.Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return openNPY(raw.File{Name: name, Size: size, Open: open}, o)
}

func openNPY(in raw.File, o data.Options) (data.Source, error) {
	open := func() (io.ReadCloser, error) {
		r, c, err := in.Text()
		if err != nil {
			return nil, err
		}
		if at, ok := c.(io.ReaderAt); ok {
			// unzip returned its bufio.Reader: the file is not compressed.
			if _, plain := r.(interface{ Peek(int) ([]byte, error) }); plain {
				return struct {
					io.Reader
					io.ReaderAt
					io.Closer
				}{r, at, c}, nil
			}
		}
		return struct {
			io.Reader
			io.Closer
		}{r, c}, nil
	}
	size := int64(-1)
	probe := open
	if in.Size < 0 { // a stream is opened once: put the bytes that the header probe reads back in front
		s, err := open()
		if err != nil {
			return nil, err
		}
		var seen bytes.Buffer
		probe = func() (io.ReadCloser, error) {
			return struct {
				io.Reader
				io.Closer
			}{io.TeeReader(s, &seen), raw.Memory{}}, nil
		}
		used := false
		open = func() (io.ReadCloser, error) {
			if used {
				return nil, fmt.Errorf("%s can be read only once: write it to a file first", in.Name)
			}
			used = true
			return struct {
				io.Reader
				io.Closer
			}{io.MultiReader(&seen, s), s}, nil
		}
	}
	m, err := newMember(in.Name, size, probe)
	if err != nil {
		return nil, err
	}
	m.stream, m.file = open, max(in.Size, 0)
	// The size of a compressed file says nothing about the array, so only a plain file can be checked now.
	if in.Size >= 0 {
		if s, err := open(); err == nil {
			if _, plain := s.(io.ReaderAt); plain {
				m.size = in.Size
				err = npy.CheckSize(m.h, in.Size-m.h.Size)
			}
			s.Close()
			if err != nil {
				return nil, &data.InputError{Place: in.Name, Detail: err.Error(), Err: err}
			}
		}
	}
	if err := raw.CheckWidth(in.Name, m.cols, o.MaxColumns); err != nil {
		return nil, err
	}
	return &arraySource{name: in.Name, members: []*member{m}, columns: raw.ColumnNames("c", m.cols),
			rows: m.h.Shape[0]},
		nil
}

// maxBlockText bounds the text of a block.
const maxBlockText = 32 << 20

// OpenNPZ opens the arrays of an archive as the columns of a table. open must return files that implement io.ReaderAt.
func OpenNPZ(name string, size int64, open func() (io.ReadCloser, error), o data.Options) (data.Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return openNPZ(raw.File{Name: name, Size: size, Open: open}, o)
}

func openNPZ(in raw.File, o data.Options) (data.Source, error) {
	if in.Size < 0 {
		return nil, raw.Errorf(in.Name, "an npz file cannot be read from a stream: write it to a file first")
	}
	openZip := in.Zip
	z, c, err := openZip()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s := &arraySource{name: in.Name, rows: -1}
	if len(z.File) > raw.MaxMembers {
		return nil, raw.Errorf(in.Name, "%d arrays, the limit is %d", len(z.File), raw.MaxMembers)
	}
	for i, f := range z.File {
		base, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			return nil, raw.Errorf(in.Name, "the archive holds %s, want npy arrays only (an Excel file? save it as CSV)", cell.Quote(f.Name))
		}
		open := func() (io.ReadCloser, error) {
			z, c, err := openZip()
			if err != nil {
				return nil, err
			}
			// The file is opened again for every reader, and may have been replaced in between.
			if i >= len(z.File) || z.File[i].Name != f.Name {
				c.Close()
				return nil, raw.Errorf(in.Name, "the file changed while it was read")
			}
			r, err := z.File[i].Open()
			if err != nil {
				c.Close()
				return nil, &data.InputError{Place: in.Name, Detail: fmt.Sprintf("%s: %v", f.Name, err), Err: err}
			}
			return struct {
				io.Reader
				io.Closer
			}{r, closers{r, c}}, nil
		}
		m, err := newMember(in.Name+":"+f.Name, int64(min(f.UncompressedSize64, math.MaxInt64)), open)
		if err != nil {
			return nil, err
		}
		m.file = in.Size
		if s.rows >= 0 && m.h.Shape[0] != s.rows {
			return nil, raw.Errorf(m.name, "%d rows, but %s has %d: the arrays of a table have one row each per row",
				m.h.Shape[0], s.members[0].name, s.rows)
		}
		s.rows, m.first = m.h.Shape[0], len(s.columns)
		if err := raw.CheckWidth(m.name, m.first+m.cols, o.MaxColumns); err != nil {
			return nil, err
		}
		s.members = append(s.members, m)
		if m.cols == 1 {
			s.columns = append(s.columns, base)
		} else {
			s.columns = append(s.columns, raw.ColumnNames(base, m.cols)...)
		}
	}
	if len(s.members) == 0 {
		return nil, raw.Errorf(in.Name, "the archive holds no arrays")
	}
	return s, raw.CheckNames(in.Name, s.columns)
}

type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, c := range c {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (s *arraySource) Name() string      { return s.name }
func (s *arraySource) Columns() []string { return s.columns }

// Integer reports whether column j has an integer type; see [data.As].
func (s *arraySource) Integer(j int) bool { return s.member(j).h.Dtype == npy.Int64 }

// member returns the array of column j.
func (s *arraySource) member(j int) *member {
	i, _ := slices.BinarySearchFunc(s.members, j, func(m *member, j int) int { return m.first + m.cols - 1 - j })
	return s.members[i]
}

func (s *arraySource) Open(want []data.Kind) (data.Reader, error) {
	kinds, err := data.CheckKinds(want, len(s.columns), func(j int) data.Kind {
		if s.member(j).h.Dtype == npy.Bool {
			return data.Text
		}
		return data.Number
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	r := &arrayReader{s: s, want: kinds}
	for _, m := range s.members {
		p := &memberReader{member: m}
		if err := p.open(); err != nil {
			r.Close()
			return nil, err
		}
		r.parts = append(r.parts, p)
	}
	return r, nil
}

// arrayReader reads the rows of all arrays in step.
type arrayReader struct {
	s     *arraySource
	want  []data.Kind
	parts []*memberReader
	row   int // first row of the next block
	first int // first row of the last block
	text  []byte
}

func (r *arrayReader) Columns() []string  { return r.s.columns }
func (r *arrayReader) Where(i int) string { return fmt.Sprintf("%s: row %d", r.s.name, r.first+i+1) }

func (r *arrayReader) Close() error {
	var errs []error
	for _, p := range r.parts {
		errs = append(errs, p.c.Close())
	}
	return errors.Join(errs...)
}

func (r *arrayReader) Read(b *data.Block, max int) error {
	b.Reset(int64(r.row), r.want)
	if r.row == r.s.rows {
		for _, p := range r.parts {
			if err := p.atEnd(); err != nil {
				return err
			}
		}
		return io.EOF
	}
	// A number takes at most 24 bytes as text, which bounds the text of the block before it is made.
	n := min(max, r.s.rows-r.row, 1+maxBlockText/(24*len(r.s.columns)))
	for _, p := range r.parts {
		values, err := p.rows(r.row, n)
		if err != nil {
			return err
		}
		for k := range p.cols {
			j := p.first + k
			col := &b.Cols[j]
			at, step := k, p.cols
			if p.h.Fortran {
				at, step = k*n, 1
			}
			switch r.want[j] {
			case data.Number:
				col.Num = slices.Grow(col.Num, n)
				for i := range n {
					col.Num = append(col.Num, values[at+i*step])
				}
			case data.Text:
				for i := range n {
					v := values[at+i*step]
					if math.IsNaN(v) {
						b.AppendText(j, nil)
						continue
					}
					switch p.h.Dtype {
					case npy.Bool:
						r.text = strconv.AppendBool(r.text[:0], v != 0)
					case npy.Int64:
						r.text = strconv.AppendInt(r.text[:0], p.ints[at+i*step], 10)
					default:
						r.text = append(r.text[:0], cell.Canonical(v)...)
					}
					b.AppendBare(j, r.text)
				}
			}
		}
	}
	b.Rows, r.first = n, r.row
	r.row += n
	return nil
}

// memberReader reads rows of one array as float64, in the order of the file: row by row, or column by column
// for Fortran order, which needs random access.
type memberReader struct {
	*member
	r  io.Reader
	at io.ReaderAt // set for Fortran order only
	c  io.Closer
	// Buffers of the last rows: raw bytes, then the values in the type of the file, then as float64. ints keeps
	// all 64 bits for text.
	buf    []byte
	f32    []float32
	ints   []int64
	values []float64
}

func (p *memberReader) open() error {
	s, err := p.stream()
	if err != nil {
		return err
	}
	p.r, p.c = s, s
	if _, err := npy.ReadHeader(s); err != nil {
		s.Close()
		return &data.InputError{Place: p.name, Detail: err.Error(), Err: err}
	}
	if !p.h.Fortran {
		return nil
	}
	if at, ok := s.(io.ReaderAt); ok {
		p.at = io.NewSectionReader(at, p.h.Size, math.MaxInt64-p.h.Size)
		return nil
	}
	// Compressed and in column order: the first row already needs nearly all of the data, so hold all of it.
	// The header has been checked, but the limit guards against a member that is longer than it says.
	want := int64(p.h.Elements()) * int64(p.h.Width)
	if want > maxHeld(p.file) {
		s.Close()
		return raw.Errorf(p.name, "a compressed array of %d bytes in column order, which is held in memory: the limit is %d, "+
			"or %d times the size of the file; save it in row order, or uncompressed", want, maxHeldBytes, maxHeldRatio)
	}
	body, err := io.ReadAll(io.LimitReader(s, want+1))
	if err == nil {
		err = npy.CheckSize(p.h, int64(len(body)))
	}
	if err != nil {
		s.Close()
		return &data.InputError{Place: p.name, Detail: err.Error(), Err: err}
	}
	p.at = bytes.NewReader(body)
	p.r = bytes.NewReader(nil)
	return nil
}

// rows returns the values of n rows starting at row first. They are valid until the next call.
func (p *memberReader) rows(first, n int) ([]float64, error) {
	count := n * p.cols
	p.buf = slices.Grow(p.buf[:0], count*p.h.Width)[:count*p.h.Width]
	var err error
	if p.at == nil {
		_, err = io.ReadFull(p.r, p.buf)
	} else {
		w := p.h.Width
		for k := 0; k < p.cols && err == nil; k++ {
			var got int
			if got, err = p.at.ReadAt(p.buf[k*n*w:(k+1)*n*w], int64(k*p.h.Shape[0]+first)*int64(w)); got == n*w {
				err = nil // the end of the file may be reported with its last bytes
			}
		}
	}
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = npy.Errorf(npy.FaultTruncated, "the file ends before row %d of %d", first+n, p.h.Shape[0])
		}
		var corrupt flate.CorruptInputError
		if errors.Is(err, npy.ErrFormat) || errors.Is(err, zip.ErrChecksum) || errors.As(err, &corrupt) {
			return nil, &data.InputError{Place: p.name, Detail: err.Error(), Err: err}
		}
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	p.values = slices.Grow(p.values[:0], count)[:count]
	switch p.h.Dtype {
	case npy.Float64:
		err = npy.DecodeFloat64(p.values, p.buf, p.h)
	case npy.Float32:
		p.f32 = slices.Grow(p.f32[:0], count)[:count]
		err = npy.DecodeFloat32(p.f32, p.buf, p.h)
		for i, v := range p.f32 {
			p.values[i] = float64(v)
		}
	default:
		p.ints = slices.Grow(p.ints[:0], count)[:count]
		err = npy.DecodeInt(p.ints, p.buf, p.h)
		for i, v := range p.ints {
			p.values[i] = float64(v)
		}
	}
	if err != nil {
		return nil, &data.InputError{Place: p.name, Detail: err.Error(), Err: err}
	}
	return p.values, nil
}

// atEnd checks that nothing follows the array. Reading to the end also makes the decompressor verify its
// checksum.
func (p *memberReader) atEnd() error {
	if p.at != nil {
		return nil
	}
	n, err := io.ReadFull(p.r, make([]byte, 1))
	if n > 0 {
		err = npy.Errorf(npy.FaultTrailing, "data follow the %s array", p.h.Dims())
	} else if err == io.EOF {
		return nil
	}
	return &data.InputError{Place: p.name, Detail: err.Error(), Err: err}
}
