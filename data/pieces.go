package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/randfeat/randfeat/internal/par"
)

// textReader reads the rows of a text format on several goroutines. The text is cut after line ends into pieces, which
// are decoded and parsed concurrently and returned in order. Only three things pass from a piece to the next: the
// number of its first line, the encoding while it is undecided, and the beginning of a record that continues there.
//
// Plain files and memory are read piece by piece too. A stream or a compressed file is read by one goroutine, which
// only copies and decompresses.
type textReader struct {
	in      input
	columns []string
	want    []Kind
	make    func(*lines) rows
	quotes  *quotes // nil: every line is a record
	limit   int     // bytes of a record

	r     io.Reader
	at    io.ReaderAt // instead of r: every piece is read by who parses it
	off   int64       // of the next piece there
	c     io.Closer
	alone bool   // one goroutine
	size  int    // bytes of a piece, at least
	tail  []byte // read, and after the last piece
	prev  chan link
	begun bool
	held  atomic.Int64 // bytes in pieces
	stop  atomic.Bool  // a piece has failed: those behind it will not be asked for

	pieces par.Stream[piece]
	now    *piece // whose rows are handed out
	row    int64
	starts []int64 // line of each row of the last block
}

// rows parses the records of lines, one by one; io.EOF is after the last.
type rows interface {
	parseRow(b *Block) error
}

// link is what a piece passes to the next one. A piece waits for the link of its predecessor only if it needs it.
type link struct {
	line     int64         // of the first line of the text, or of rest
	encoding *textEncoding // nil: all text so far is ASCII
	skip     int           // bytes of text before the first row
	rest     []byte        // a record that has begun and is inside quotes; nil: none
	over     bool          // nothing follows
}

// piece is some consecutive lines.
type piece struct {
	raw   []byte // as read
	off   int64  // in the file, where it is still to be read
	text  []byte // memory of what is not parsed in raw
	first bool
	last  bool
	fail  error // what ended the reading behind raw, on the last piece
	prev  chan link
	next  chan link
	told  bool // it has its link

	lines  lines
	rows   rows
	block  Block
	starts []int64
	err    error // behind the rows of the block
	given  int   // rows that have been handed out
}

// pieceBytes is the size of a piece: a few tenths of a millisecond of work. Wide rows make it larger, so that columns
// have some rows; maxPieceBytes bounds that, since a byte can become a cell of 24.
const (
	pieceBytes    = 64 << 10
	maxPieceBytes = 256 << 10
	pieceRows     = 64
	// piecesEach is how many pieces of a file every goroutine gets at least, so that all end at about the same time.
	piecesEach = 8
)

// newTextReader begins behind skip bytes of text. width is about the length of a row.
func newTextReader(in input, o Options, columns []string, want []Kind, q *quotes, skip, width int,
	make func(*lines) rows) (*textReader, error) {
	t := &textReader{in: in, columns: columns, want: want, make: make, quotes: q, limit: o.MaxLine}
	var err error
	if t.at, t.c, err = in.plain(); err == nil && t.at == nil {
		t.r, t.c, err = in.text()
	}
	if err != nil {
		return nil, err
	}
	workers := o.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	t.size = min(max(pieceBytes, pieceRows*width, int(in.size)/(piecesEach*workers)), maxPieceBytes)
	if o.piece > 0 {
		t.size = o.piece
	}
	if in.encoding == nil {
		t.in.encoding = new(encodingState)
		t.in.encoding.is.Store(trustedText)
	} else if !t.in.encoding.cuts() {
		if t.at != nil {
			t.r, t.at = io.NewSectionReader(t.at, 0, math.MaxInt64), nil
		}
		t.r = newDecoder(in.name, t.r, in.encoding)
		t.in.encoding = new(encodingState)
		t.in.encoding.is.Store(trustedText)
	}
	window := 1
	if t.alone = workers == 1; !t.alone {
		window = 4 * workers
	}
	t.pieces = par.Stream[piece]{Take: t.take, Work: t.work, Workers: workers, Window: window, Ahead: in.size >= 0,
		Full: func() bool { return t.held.Load() >= int64(window*t.size) }}
	t.prev = chain(link{line: 1, encoding: t.in.encoding.is.Load(), skip: skip})
	return t, nil
}

// chain is a channel that a link is in.
func chain(l link) chan link {
	c := make(chan link, 1)
	c <- l
	return c
}

func (t *textReader) Columns() []string { return t.columns }
func (t *textReader) Where(i int) string {
	return fmt.Sprintf("%s:%d", t.in.name, t.in.before.lines()+t.starts[i])
}

// QuickWhere reports whether Where need not count lines.
func (t *textReader) QuickWhere() bool { return t.in.before.quick() }

// lineEnds is how many there are, once all rows have been read.
func (t *textReader) lineEnds() int64 {
	l := <-t.prev
	t.prev <- l
	return l.line - 1
}

func (t *textReader) Close() error {
	t.stop.Store(true)
	t.pieces.Close()
	return t.c.Close()
}

func (t *textReader) Read(b *Block, most int) error {
	b.reset(t.row, t.want)
	t.starts = t.starts[:0]
	for b.Rows < most && !b.Full() {
		if t.now != nil && t.now.given == t.now.block.Rows {
			if t.now.err != nil {
				return t.now.err
			}
			t.held.Add(-int64(len(t.now.raw)))
			t.now = nil
		}
		if t.now == nil {
			if t.now = t.pieces.Next(); t.now == nil {
				break
			}
			continue
		}
		t.give(b, most-b.Rows)
	}
	if b.Rows == 0 {
		return io.EOF
	}
	t.row += int64(b.Rows)
	return nil
}

// give appends rows of the piece to a block, up to most.
func (t *textReader) give(b *Block, most int) {
	p := t.now
	lo, hi := p.given, min(p.block.Rows, p.given+most)
	if b.text+p.block.text >= maxBlockText { // which row fills the block?
		for hi = lo; hi < min(p.block.Rows, p.given+most) && !b.Full(); hi++ {
			for j := range p.block.Cols {
				if c := &p.block.Cols[j]; c.Text != nil {
					b.text += len(c.Text[hi])
				}
			}
		}
	} else if lo == 0 {
		b.text += p.block.text // perhaps more than is taken now, far from the bound
	}
	for j := range b.Cols {
		from, to := &p.block.Cols[j], &b.Cols[j]
		switch {
		case from.Num != nil:
			to.takeOdd(from, lo, hi, len(to.Num))
			to.Num = append(to.Num, from.Num[lo:hi]...)
		case from.Text != nil:
			if len(from.Bare) > lo {
				for len(to.Bare) < len(to.Text) {
					to.Bare = append(to.Bare, false)
				}
				to.Bare = append(to.Bare, from.Bare[lo:min(hi, len(from.Bare))]...)
			}
			to.Text = append(to.Text, from.Text[lo:hi]...)
			p.block.arena = nil // the texts are in it
		}
	}
	t.starts = append(t.starts, p.starts[lo:hi]...)
	b.Rows += hi - lo
	p.given = hi
}

// slowBytes: a stream that delivers less per read has a slow writer, so its rows are passed on without waiting for
// more.
const slowBytes = 1 << 12

// take reads the next piece.
func (t *textReader) take(p *piece) par.Took {
	if t.stop.Load() {
		return par.NoItem
	}
	e := t.in.encoding.is.Load()
	unit := 1
	if e != nil && e.order != nil {
		unit = 2
	}
	longest := unit*(t.limit+2) + utf8.UTFMax // a longer line is refused, whatever follows
	p.first, p.last, p.fail, p.err, p.given = !t.begun, false, nil, nil, 0
	slow := false
	if t.at != nil {
		t.mark(p, e, unit, longest)
	} else {
		slow = t.read(p, e, longest)
	}
	t.begun = true
	p.prev, p.next, p.told = t.prev, make(chan link, 1), false
	t.prev = p.next
	t.held.Add(int64(len(p.raw)))
	switch {
	case p.last:
		return par.LastItem
	case slow:
		return par.SlowItem
	}
	return par.Item
}

// mark finds where the next piece ends, by looking for a line end behind its size.
func (t *textReader) mark(p *piece, e *textEncoding, unit, longest int) {
	from := t.off + int64(t.size/unit*unit)
	least := from
	if t.in.size > t.off && from >= t.in.size { // the end of the file, if it is what it was
		from = t.off + (t.in.size-1-t.off)/int64(unit)*int64(unit)
	}
	if cap(t.tail) == 0 {
		t.tail = make([]byte, min(1<<12, 16*t.size))
	}
	for look := t.tail[:cap(t.tail)]; ; {
		n, err := t.at.ReadAt(look, from)
		if k := e.firstLineEnd(look[:n]); k > 0 {
			from += int64(k)
			break
		}
		from += int64(n)
		if err != nil {
			p.last = true
			if err != io.EOF {
				p.fail = t.in.wrap(err)
			}
			break
		}
		if from-least >= int64(longest) {
			p.last = true
			break
		}
	}
	p.off, t.off = t.off, from
	p.raw = slices.Grow(p.raw[:0], int(from-p.off))[:from-p.off]
}

// fetch reads a piece that was marked.
func (t *textReader) fetch(p *piece) {
	n, err := t.at.ReadAt(p.raw, p.off)
	if n < len(p.raw) { // the file has changed
		if p.raw, p.last = p.raw[:n], true; err != io.EOF {
			p.fail = t.in.wrap(err)
		} else if p.off+int64(n) < t.in.size {
			p.fail = inputError(t.in.name, "the file has become shorter while it was read")
		}
	}
}

// read reads the next piece from a stream; slow says that its writer is the slower one.
func (t *textReader) read(p *piece, e *textEncoding, longest int) (slow bool) {
	buf := append(p.raw[:0], t.tail...)
	t.tail = t.tail[:0]
	want, cut := len(buf)+t.size, 0 // in what is left there is no line end
	for idle := 0; ; {
		if len(buf) >= want || slow {
			if cut = e.lineEnd(buf); cut > 0 {
				break
			}
			if slow = false; len(buf) >= longest {
				cut, p.last = len(buf), true
				break
			}
			if len(buf) >= want {
				want = min(2*want, longest)
			}
		}
		if cap(buf) < want {
			buf = append(make([]byte, 0, want), buf...)
		}
		n, err := t.r.Read(buf[len(buf):want])
		buf = buf[:len(buf)+n]
		if idle++; n > 0 {
			idle = 0
		} else if err == nil && idle > 100 {
			err = io.ErrNoProgress
		}
		if err != nil {
			if cut, p.last = len(buf), true; err != io.EOF {
				p.fail = t.in.wrap(err)
			}
			break
		}
		slow = t.in.size < 0 && n < slowBytes
	}
	t.tail = append(t.tail, buf[cut:]...)
	p.raw = buf[:cut]
	return slow
}

// work decodes and parses a piece.
func (t *textReader) work(p *piece) {
	p.block.reset(0, t.want)
	p.starts = p.starts[:0]
	defer func() {
		if !p.told { // a panic: the next piece would wait for ever
			p.tell(link{over: true})
		}
	}()
	if t.at != nil {
		t.fetch(p)
	}
	var before *link
	await := func() *link {
		if before == nil {
			l := <-p.prev
			before = &l
		}
		return before
	}
	text, e, wrong := t.decode(p, func() *textEncoding { return await().encoding })
	if p.first && t.in.before == nil {
		text = bytes.TrimPrefix(text, []byte(bom))
	}
	over := p.last || wrong != "" // it is parsed to its end, whatever that is
	scan := func(inside bool) (int, bool) {
		if over {
			return len(text), false
		}
		return t.quotes.scan(text, inside)
	}
	// Where records end is found before it is known what comes before, for both cases, so that the next piece waits for
	// as little as possible.
	var ends [2]int
	var still [2]bool
	scanned := 0
	if t.alone {
		await()
	}
	for scanned < 2 && before == nil {
		select {
		case l := <-p.prev:
			before = &l
		default:
			ends[scanned], still[scanned] = scan(scanned == 1)
			scanned++
		}
	}
	if await(); before.over {
		p.tell(*before)
		return
	}
	after := link{line: before.line, encoding: before.encoding}
	if after.encoding == nil {
		after.encoding = e
	}
	if before.skip > 0 {
		skip := min(before.skip, len(text))
		after.skip = before.skip - skip
		after.line += int64(bytes.Count(text[:skip], []byte("\n")))
		text = text[skip:]
		scanned = 0
	}
	line := after.line
	state := 0
	if before.rest != nil {
		state = 1
	}
	if scanned <= state && !t.alone {
		ends[state], still[state] = scan(state == 1)
	}
	end := ends[state]
	if t.alone { // the parser finds it
		end, still[state] = len(text), false
	} else if end < 0 && len(before.rest)+len(text) > t.limit+1 { // too long, or wrong before
		over, end, still[state] = true, len(text), false
	}
	after.over = over
	after.line += int64(bytes.Count(before.rest, []byte("\n")) + bytes.Count(text, []byte("\n")))
	if end < 0 { // no record ends here
		after.line, after.rest = line, append(before.rest, text...)
		p.tell(after)
		return
	}
	if still[state] {
		after.carry(text[end:])
	}
	if !t.alone {
		p.tell(after)
	}
	if text = text[:end]; before.rest != nil {
		text = append(before.rest, text...)
	}
	p.lines = lines{in: t.in, limit: t.limit, buf: text, end: len(text), n: -1, line: line, eof: true, fail: p.fail,
		more: t.alone && !over}
	if wrong != "" {
		p.lines.fail = wrongText(t.in.name, text, t.in.before.lines()+line, 0, wrong)
	}
	t.parse(p)
	if t.alone {
		if p.err == errMore {
			p.err = nil
			after.carry(text[p.lines.pos:])
		}
		p.tell(after)
	}
}

// tell gives the next piece its link.
func (p *piece) tell(l link) {
	p.told = true
	p.next <- l
}

// carry leaves the beginning of a record to the next piece.
func (l *link) carry(record []byte) {
	l.rest = append(make([]byte, 0, 2*len(record)), record...)
	l.line -= int64(bytes.Count(record, []byte("\n")))
}

// decode returns the text of a piece and its encoding, or nil if the text is ASCII and the encoding is undecided. so
// returns the encoding of the text before, and may have to wait for it. An error refers to the bytes after the text.
func (t *textReader) decode(p *piece, so func() *textEncoding) (text []byte, e *textEncoding, wrong string) {
	e = t.in.encoding.is.Load()
	end := p.last && p.fail == nil
	if e == nil {
		i := asciiPrefix(p.raw)
		if i == len(p.raw) {
			return p.raw, nil, ""
		}
		if e = so(); e == nil {
			if !end && !utf8.FullRune(p.raw[i:]) {
				return p.raw[:i], nil, ""
			}
			if e = utf8Text; !valid(p.raw[i:]) {
				e = t.in.encoding.assume
			}
			t.in.encoding.is.Store(e)
		}
	}
	if e == trustedText {
		return p.raw, e, ""
	}
	text, _, wrong = e.decode(&p.text, p.raw, p.first, end)
	return text, e, wrong
}

// parse appends the rows of the lines of a piece to its block.
func (t *textReader) parse(p *piece) {
	if p.rows == nil {
		p.rows = t.make(&p.lines)
	}
	if cap(p.block.arena) == 0 && slices.Contains(t.want, Text) {
		p.block.arena = make([]byte, 0, p.lines.end)
	}
	p.block.reserve(1+bytes.Count(p.lines.buf, []byte("\n")), t.want)
	for {
		err := p.rows.parseRow(&p.block)
		switch {
		case err == io.EOF:
			return
		case err == errMore:
			p.block.truncate(p.block.Rows)
			p.err = err
			return
		case err != nil:
			if p.err = err; t.in.inside {
				p.err = cutQuotes(err)
			}
			t.stop.Store(true)
			return
		}
		p.block.Rows++
		p.starts = append(p.starts, p.lines.line)
	}
}

// trustedText is UTF-8 that need not be checked.
var trustedText = &textEncoding{name: utf8Text.name}

// cuts reports whether text can be cut behind line ends before it is decoded.
func (s *encodingState) cuts() bool {
	e := s.is.Load()
	if e == nil {
		e = s.assume
	}
	return e.table == nil || e.table.DecodeByte('\n') == '\n'
}

// lineEnd is the place behind the last line end of raw text, 0 if there is none.
func (e *textEncoding) lineEnd(raw []byte) int {
	if e == nil || e.order == nil {
		return bytes.LastIndexByte(raw, '\n') + 1
	}
	for i := len(raw) &^ 1; i >= 2; i -= 2 {
		if e.order.Uint16(raw[i-2:]) == '\n' {
			return i
		}
	}
	return 0
}

// firstLineEnd is the place behind the first line end of raw text that begins at a character, 0 if there is none.
func (e *textEncoding) firstLineEnd(raw []byte) int {
	if e == nil || e.order == nil {
		return bytes.IndexByte(raw, '\n') + 1
	}
	for i := 2; i <= len(raw); i += 2 {
		if e.order.Uint16(raw[i-2:]) == '\n' {
			return i
		}
	}
	return 0
}

// asciiPrefix is the number of bytes before the first that is not ASCII.
func asciiPrefix(b []byte) int {
	i := 0
	const high = 0x8080808080808080
	for ; i+32 <= len(b); i += 32 {
		c := b[i : i+32 : i+32]
		if (binary.LittleEndian.Uint64(c)|binary.LittleEndian.Uint64(c[8:])|binary.LittleEndian.Uint64(c[16:])|
			binary.LittleEndian.Uint64(c[24:]))&high != 0 {
			break
		}
	}
	for i < len(b) && b[i] < 0x80 {
		i++
	}
	return i
}
