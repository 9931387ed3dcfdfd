package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/charset"
	"github.com/randfeat/randfeat/data/internal/raw"
)

// textBlocks cuts a text file into blocks of about size bytes. Block i has the records that begin after the
// first line end at or after byte i·size, up to the beginning of the next block. A line end inside quotes is
// not a boundary, and the text around it does not show whether it is inside. The text after it is therefore
// read both ways, with open and with closed quotes. If exactly one way gives records with a field for every
// column, it is used; otherwise no block begins there, and block i is empty.
//
// A wrong guess is detected, not read: the reader of the block before reaches its end inside quotes, which is
// an error. The first block begins at a known boundary. So if all blocks are read without an error, they are
// exactly the records of the file.
//
// Where blocks begin depends only on the contents and on size. Every machine that opens the file therefore sees
// the same blocks, which the merge tree relies on.
type textBlocks struct {
	in    input
	size  int64 // bytes of a block
	n     int
	least int64 // first byte at which rows may begin
	// probe finds the first record in the text after some offset; -1 means that the text does not decide.
	// enough says that more text would not help. whole says that the file ends with the text.
	probe func(text []byte, whole bool) (begin int, enough bool)
	text  *charset.Encoding // encoding that the beginning of the file decided; nil: ASCII so far

	// starts caches the offset of each block; -1 means that the block is empty. mu guards it: readers of
	// several blocks ask at once.
	mu     sync.Mutex
	starts map[int]int64
}

// newTextBlocks cuts an input that can be read at any offset, in an encoding in which the byte '\n' is always a
// line end. Anything else, and anything no larger than one block, is a single block.
func newTextBlocks(in input, o data.Options, least int64, probe func([]byte, bool) (int, bool)) (*textBlocks, error) {
	t := &textBlocks{in: in, size: o.UnitBytes, n: 1, least: least, probe: probe, starts: map[int]int64{}}
	if in.encoding != nil {
		t.text = in.encoding.is.Load()
	}
	if in.size <= o.UnitBytes || in.encoding == nil || !in.encoding.cuts() || in.encoding.wide() {
		return t, nil
	}
	at, c, err := in.plain()
	if err != nil || at == nil {
		return t, err
	}
	t.n = int((in.size + t.size - 1) / t.size)
	return t, c.Close()
}

// wide reports whether characters take two bytes (UTF-16): then a byte '\n' may be half of another character.
func (s *encodingState) wide() bool {
	e := s.is.Load()
	return e.Wide()
}

// The text that is inspected to find the beginning of a block. It grows fourfold while the records in it do not
// decide. The bound keeps a file with huge fields from being read again for every block.
const (
	probeBytes    = 64 << 10
	maxProbeBytes = 4 << 20
)

// start returns where block i begins, -1 if it is empty.
func (t *textBlocks) start(at io.ReaderAt, i int) (int64, error) {
	if i == 0 {
		return 0, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.starts[i]; ok {
		return s, nil
	}
	from := int64(i) * t.size
	begin, enough := -1, false
	for n := int64(probeBytes); !enough; n *= 4 {
		text := make([]byte, min(n, t.in.size-from))
		if _, err := at.ReadAt(text, from); err != nil && err != io.EOF {
			return 0, t.in.wrap(err)
		}
		whole := from+int64(len(text)) >= t.in.size
		if begin, enough = t.probe(text, whole); begin > 0 && text[begin-1] != '\n' {
			begin = -1 // the last line has no end
		}
		if whole || n >= maxProbeBytes {
			break
		}
	}
	s := from + int64(begin)
	// A record that begins at or after the next block's offset is found by that block.
	if begin < 0 || s > from+t.size || s >= t.in.size || s < t.least {
		s = -1
	}
	t.starts[i] = s
	return s, nil
}

// block returns an input for the text of block i and its offset in the file. An empty block has no text. Block
// i ends where the next non-empty block begins.
func (t *textBlocks) block(i int) (in input, lo int64, err error) {
	if i < 0 || i >= t.n {
		return in, 0, fmt.Errorf("%s has %d blocks, there is no number %d", t.in.name, t.n, i)
	}
	at, c, err := t.in.plain()
	if err != nil {
		return in, 0, err
	}
	if at == nil {
		return in, 0, raw.Errorf(t.in.name, "the file has changed since it was opened")
	}
	defer c.Close()
	if lo, err = t.start(at, i); err != nil {
		return in, 0, err
	}
	hi := t.in.size
	for k := i + 1; k < t.n && lo >= 0; k++ {
		next, err := t.start(at, k)
		if err != nil {
			return in, 0, err
		}
		if next >= 0 {
			hi = next
			break
		}
	}
	if lo < 0 {
		lo, hi = 0, 0
	}
	in = t.in
	in.encoding = t.fresh()
	in.size = hi - lo
	in.open = func() (stream, error) {
		s, err := t.in.open()
		if err != nil {
			return nil, err
		}
		at, ok := s.(io.ReaderAt)
		if !ok {
			s.Close()
			return nil, raw.Errorf(t.in.name, "the file has changed since it was opened")
		}
		return section{io.NewSectionReader(at, lo, hi-lo), s}, nil
	}
	in.before = &lineCount{count: func() (int64, error) { return t.lines(lo) }}
	if lo == 0 {
		in.before = nil
	}
	in.inside = hi < t.in.size
	return in, lo, nil
}

// fresh returns the encoding state as it was when the file was opened. Each block starts from it and not from
// what other blocks found, so a block decodes the same way on every machine; differences between blocks are
// detected afterwards (mixedText).
func (t *textBlocks) fresh() *encodingState {
	if t.in.encoding == nil {
		return nil
	}
	s := &encodingState{assume: t.in.encoding.assume}
	s.is.Store(t.text)
	return s
}

// lines counts the line ends before an offset.
func (t *textBlocks) lines(before int64) (n int64, err error) {
	at, c, err := t.in.plain()
	if err != nil || at == nil {
		return 0, err
	}
	defer c.Close()
	buf := make([]byte, 1<<18)
	for off := int64(0); off < before; {
		k, err := at.ReadAt(buf[:min(int64(len(buf)), before-off)], off)
		n += int64(bytes.Count(buf[:k], []byte("\n")))
		if off += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// section is a range of a file; Close closes the file.
type section struct {
	*io.SectionReader
	io.Closer
}

// lineCount is the number of lines of a file before a block. Counting means reading everything before the
// block, so it happens only when a message needs the number, or not at all if the reader of the previous blocks
// provides it.
type lineCount struct {
	count func() (int64, error)
	once  sync.Once
	known atomic.Bool
	n     int64
}

func (c *lineCount) lines() int64 {
	if c == nil {
		return 0
	}
	c.once.Do(func() {
		c.n, _ = c.count() // if the file can no longer be read, another error reports it
		c.known.Store(true)
	})
	return c.n
}

// set provides the number, unless it has been counted already.
func (c *lineCount) set(n int64) {
	if c != nil {
		c.once.Do(func() { c.n = n; c.known.Store(true) })
	}
}

// quick reports whether lines returns without reading the file.
func (c *lineCount) quick() bool { return c == nil || c.known.Load() }

// cutSource is a source of a text format whose blocks are sources of the same type.
type cutSource[S any] interface {
	block(i int) (S, error)
	open(kinds []data.Kind) (*textReader, error)
}

// openText opens a text source: directly if it is one block, otherwise block after block.
func openText[S cutSource[S]](s S, t *textBlocks, columns []string, want []data.Kind) (data.Reader, error) {
	kinds, err := data.CheckKinds(want, len(columns), func(int) data.Kind { return data.Text })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.in.name, err)
	}
	if t.n == 1 {
		return s.open(kinds)
	}
	return &blocksReader{t: t, columns: columns, open: func(i int) (*textReader, error) {
		b, err := s.block(i)
		if err != nil {
			return nil, err
		}
		return b.open(kinds)
	}}, nil
}

// blocksReader reads all blocks of a file in order. It gives the same rows as one reader of the whole file, but
// also the unit of each block, and it checks that all blocks decided on one encoding.
type blocksReader struct {
	t       *textBlocks
	columns []string
	open    func(i int) (*textReader, error)
	now     *textReader // reader of block number at; nil: not yet opened
	at      int
	row     int64
	lines   int64             // line ends before the current block
	text    *charset.Encoding // encoding that a previous block decided; nil: ASCII so far
}

func (r *blocksReader) Columns() []string  { return r.columns }
func (r *blocksReader) Where(i int) string { return r.now.Where(i) }

// QuickWhere serves quickWhere. It is true once a block is open, because this reader has counted the lines of
// the blocks before it.
func (r *blocksReader) QuickWhere() bool { return r.now.QuickWhere() }

func (r *blocksReader) Close() error {
	if r.now == nil {
		return nil
	}
	now := r.now
	r.now = nil
	return now.Close()
}

func (r *blocksReader) Read(b *data.Block, most int) error {
	for {
		if r.now == nil {
			if r.at == r.t.n {
				return io.EOF
			}
			var err error
			if r.now, err = r.open(r.at); err != nil {
				return err
			}
			r.now.in.before.set(r.lines)
		}
		err := r.now.Read(b, most)
		if err == nil {
			b.First, b.Unit.Block = r.row, r.at
			r.row += int64(b.Rows)
			return nil
		}
		if err != io.EOF {
			return err
		}
		if e := r.now.in.encoding.is.Load(); e != nil && e != trustedText {
			if r.text != nil && r.text != e {
				return &data.InputError{Place: r.t.in.name, Err: data.ErrEncoding,
					Detail: charset.Mixed(r.text.Name, e.Name)}
			}
			r.text = e
			// The source reports this encoding from now on; see [data.As].
			r.t.in.encoding.is.CompareAndSwap(nil, e)
		}
		r.lines += r.now.lineEnds()
		if err := r.Close(); err != nil {
			return err
		}
		r.at++
	}
}

// ErrUnits marks errors that larger units (Options.UnitBytes) may avoid.
var ErrUnits = errors.New("units too small")

// cutQuotes extends an error about quotes in a block that does not end the file: the file may be fine and the
// cut wrong.
func cutQuotes(err error) error {
	var e *data.InputError
	if !errors.Is(err, ErrQuotes) || !errors.As(err, &e) {
		return err
	}
	return &data.InputError{Place: e.Place, Err: errors.Join(ErrQuotes, ErrUnits),
		Detail: e.Detail + "; if they are as they should be, a field of many lines was cut: read the file in larger units"}
}
