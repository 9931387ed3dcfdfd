package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// textBlocks cuts a text file into blocks. Block i has the records that begin after the first line end from byte i·size
// on, up to the beginning of the next block. A line end inside quotes is not a boundary, and the text around it does
// not show whether it is inside. The text after it is therefore read both ways, with open and with closed quotes. If
// exactly one way gives records with a field for every column, it is used; otherwise no block begins there, and block i
// is empty.
//
// A wrong guess is detected, not read: the reader of the block before reaches its end inside quotes, which is an error.
// The first block begins at a known boundary. So if all blocks are read without an error, they are exactly the records
// of the file.
type textBlocks struct {
	in    input
	size  int64 // bytes of a block
	n     int
	least int64 // where rows may begin
	// probe finds the first record in the text from some place on, -1 if it cannot be told; enough says that more text
	// would not help. whole says that the file ends there.
	probe func(text []byte, whole bool) (begin int, enough bool)
	text  *textEncoding // of the beginning of the file; nil: ASCII

	mu     sync.Mutex
	starts map[int]int64 // of blocks that have been looked for; -1: it is empty
}

// newTextBlocks cuts what can be read at any place, uncompressed, in an encoding that has line ends as single bytes.
func newTextBlocks(in input, o Options, least int64, probe func([]byte, bool) (int, bool)) (*textBlocks, error) {
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

// wide reports whether characters take two bytes.
func (s *encodingState) wide() bool {
	e := s.is.Load()
	return e != nil && e.order != nil
}

// The text that is looked at to find the beginning of a block.
const (
	probeBytes    = 64 << 10
	maxProbeBytes = 4 << 20
)

// start is where block i begins, -1 if it is empty. It depends on the file and the size of blocks alone.
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
	// A record that begins behind the next place to look from belongs to that one's block.
	if begin < 0 || s > from+t.size || s >= t.in.size || s < t.least {
		s = -1
	}
	t.starts[i] = s
	return s, nil
}

// block is the text of block i, and where it begins in the file.
func (t *textBlocks) block(i int) (in input, lo int64, err error) {
	if i < 0 || i >= t.n {
		return in, 0, fmt.Errorf("%s has %d blocks, there is no number %d", t.in.name, t.n, i)
	}
	at, c, err := t.in.plain()
	if err != nil {
		return in, 0, err
	}
	if at == nil {
		return in, 0, inputError(t.in.name, "the file has changed since it was opened")
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
			return nil, inputError(t.in.name, "the file has changed since it was opened")
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

// fresh is the state of the encoding before any rows were read.
func (t *textBlocks) fresh() *encodingState {
	if t.in.encoding == nil {
		return nil
	}
	s := &encodingState{assume: t.in.encoding.assume}
	s.is.Store(t.text)
	return s
}

// lines is how many line ends stand before a place.
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

// section is a part of a file.
type section struct {
	*io.SectionReader
	io.Closer
}

// lineCount is how many lines of a file come before a block of it: counted when a message wants it, unless who has read
// them says it before.
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
		c.n, _ = c.count() // a file that can no longer be read has other troubles
		c.known.Store(true)
	})
	return c.n
}

// set tells the number.
func (c *lineCount) set(n int64) {
	if c != nil {
		c.once.Do(func() { c.n = n; c.known.Store(true) })
	}
}

func (c *lineCount) quick() bool { return c == nil || c.known.Load() }

// cutSource is a source of a text format. Its blocks are sources of the same format.
type cutSource[S any] interface {
	block(i int) (S, error)
	open(kinds []Kind) (*textReader, error)
}

// openText opens a source that t cuts into blocks.
func openText[S cutSource[S]](s S, t *textBlocks, columns []string, want []Kind) (Reader, error) {
	kinds, err := CheckKinds(want, len(columns), func(int) Kind { return Text })
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

// blocksReader reads all blocks of a file, one after the other.
type blocksReader struct {
	t       *textBlocks
	columns []string
	open    func(i int) (*textReader, error)
	now     *textReader // nil: before the block of number at
	at      int
	row     int64
	lines   int64 // before the block
	text    *textEncoding
}

func (r *blocksReader) Columns() []string  { return r.columns }
func (r *blocksReader) Where(i int) string { return r.now.Where(i) }

// QuickWhere is true: who has read the blocks before knows their lines.
func (r *blocksReader) QuickWhere() bool { return r.now.QuickWhere() }

func (r *blocksReader) Close() error {
	if r.now == nil {
		return nil
	}
	now := r.now
	r.now = nil
	return now.Close()
}

func (r *blocksReader) Read(b *Block, most int) error {
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
				return mixedText(r.t.in.name, r.text.name, e.name)
			}
			r.text = e
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

// cutQuotes adds to an error about quotes in a block that does not end the file what else may be its cause.
func cutQuotes(err error) error {
	var e *InputError
	if !errors.Is(err, ErrQuotes) || !errors.As(err, &e) {
		return err
	}
	return &InputError{Place: e.Place, Err: errors.Join(ErrQuotes, ErrUnits),
		Detail: e.Detail + "; if they are as they should be, a field of many lines was cut: read the file in larger units"}
}
