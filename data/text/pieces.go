package text

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/charset"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/internal/par"
)

// textReader reads the rows of a text format on several goroutines and returns them in order. It works in three
// stages:
//
//  1. take cuts the text after line ends into pieces of about size bytes. It runs on one goroutine at a time.
//  2. work decodes and parses a piece, on any goroutine.
//  3. Read hands out the rows of the pieces in order.
//
// A piece depends on its predecessor in three ways only: the number of its first line, the encoding while it is
// undecided, and the beginning of a record that continues from it. These travel in a link over the channels
// prev and next. par.Stream guarantees that the predecessor's work has begun, so waiting for its link cannot
// deadlock; work sends a link even when it panics.
//
// Plain files and memory are read piece by piece inside work. A stream or a compressed file is read inside
// take, by one goroutine, which only copies and decompresses.
//
// The result does not depend on the number of goroutines or on the size of pieces: tests compare both.
type textReader struct {
	in      input
	columns []string
	want    []data.Kind
	make    func(*lines) rows
	quotes  *quotes // nil: every line is a record
	limit   int     // most bytes of a record

	r     io.Reader
	at    io.ReaderAt // set instead of r if the input can be read anywhere: work reads its own piece
	off   int64       // offset of the next piece
	c     io.Closer
	alone bool      // one worker: pieces are parsed in order, and the parser itself finds where records end
	size  int       // least bytes of a piece
	tail  []byte    // read from r after the last piece; with at, memory for mark
	prev  chan link // holds the link for the next piece to be taken
	begun bool
	held  atomic.Int64 // bytes in pieces that have not been handed out, bounds memory
	stop  atomic.Bool  // a piece has failed: the ones after it will not be needed

	pieces par.Stream[piece]
	now    *piece // the piece whose rows are being handed out
	row    int64
	starts []int64 // line of each row of the last block, for Where
}

// rows parses the records of lines, one per call; io.EOF comes after the last.
type rows interface {
	parseRow(b *data.Block) error
}

// link is the message of a piece to the next one. work receives it as late as possible and sends the next one as early
// as possible, because the chain of links is the sequential part.
type link struct {
	line     int64             // number of the first line of the text, or of rest
	encoding *charset.Encoding // nil: all text so far is ASCII
	skip     int               // bytes of text still to be skipped before the first row
	rest     []byte            // the beginning of a record that is inside quotes; nil: none
	over     bool              // nothing follows: an error or the end of the input
}

// piece is a run of consecutive lines and, after work, the rows in them. par.Stream reuses pieces, so all
// fields are set again by take and work.
type piece struct {
	raw   []byte // as read
	off   int64  // offset in the file, if work is to read it
	text  []byte // memory for decoded text; UTF-8 is parsed in raw
	first bool
	last  bool
	fail  error // the error that ended reading after raw; on the last piece only
	prev  chan link
	next  chan link
	told  bool // its link has been sent

	lines  lines
	rows   rows
	block  data.Block
	starts []int64
	err    error // the error after the rows of the block
	given  int   // rows already handed out
}

// pieceBytes is the size of a piece: a few tenths of a millisecond of work, so that passing it between
// goroutines costs little. Wide rows make pieces larger, so that columns have some rows each. maxPieceBytes
// bounds that, because one byte of text can become a cell of 24 bytes.
const (
	pieceBytes    = 64 << 10
	maxPieceBytes = 256 << 10
	pieceRows     = 64
	// piecesEach is the least number of pieces of a file for each goroutine, so that all finish at about the
	// same time.
	piecesEach = 8
)

// testPiece is the bytes of a piece if tests set it.
var testPiece int

// newTextReader starts after skip bytes of text. width is the approximate length of a row in bytes.
func newTextReader(in input, o data.Options, columns []string, want []data.Kind, q *quotes, skip, width int,
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
	if testPiece > 0 {
		t.size = testPiece
	}
	// in.encoding is nil for text that has been checked before. Text that cannot be cut before it is decoded is
	// decoded by one goroutine.
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
	// A window of four pieces per goroutine keeps all busy while the oldest piece is parsed and handed out.
	window := 1
	if t.alone = workers == 1; !t.alone {
		window = 4 * workers
	}
	t.pieces = par.Stream[piece]{Take: t.take, Work: t.work, Workers: workers, Window: window, Ahead: in.size >= 0,
		Full: func() bool { return t.held.Load() >= int64(window*t.size) }}
	t.prev = chain(link{line: 1, encoding: t.in.encoding.is.Load(), skip: skip})
	return t, nil
}

// chain returns a channel that already contains a link.
func chain(l link) chan link {
	c := make(chan link, 1)
	c <- l
	return c
}

func (t *textReader) Columns() []string { return t.columns }
func (t *textReader) Where(i int) string {
	return fmt.Sprintf("%s:%d", t.in.name, t.in.before.lines()+t.starts[i])
}

// QuickWhere serves quickWhere: it reports whether Where can answer without counting lines.
func (t *textReader) QuickWhere() bool { return t.in.before.quick() }

// lineEnds returns the number of line ends, once all rows have been read: the last link counts them.
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

func (t *textReader) Read(b *data.Block, most int) error {
	b.Reset(t.row, t.want)
	t.starts = t.starts[:0]
	for b.Rows < most && !b.Full() {
		if t.now != nil && t.now.given == t.now.block.Rows {
			if t.now.err != nil {
				return t.now.err
			}
			// The piece is done: release its share of the bound, and let par.Stream reuse it at the next call
			// of Next.
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

// give moves rows of the current piece to a block, at most most.
func (t *textReader) give(b *data.Block, most int) {
	p := t.now
	n := b.Take(&p.block, p.given, min(p.block.Rows, p.given+most))
	t.starts = append(t.starts, p.starts[p.given:p.given+n]...)
	p.given += n
}

// slowBytes: a stream that delivers less per read has a slow writer. Its rows are passed on without waiting for
// a full piece, so that a user of a pipe sees results at once.
const slowBytes = 1 << 12

// take cuts off the next piece and connects it to the chain of links.
func (t *textReader) take(p *piece) par.Took {
	if t.stop.Load() {
		return par.NoItem
	}
	e := t.in.encoding.is.Load()
	unit := 1
	if e.Wide() {
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

// mark finds the end of the next piece: the first line end at or after its size. It reads only a little there;
// work reads the piece itself.
func (t *textReader) mark(p *piece, e *charset.Encoding, unit, longest int) {
	from := t.off + int64(t.size/unit*unit)
	least := from
	if t.in.size > t.off && from >= t.in.size { // the end of the file, if its size has not changed
		from = t.off + (t.in.size-1-t.off)/int64(unit)*int64(unit)
	}
	if cap(t.tail) == 0 {
		t.tail = make([]byte, min(1<<12, 16*t.size))
	}
	for look := t.tail[:cap(t.tail)]; ; {
		n, err := t.at.ReadAt(look, from)
		if k := e.FirstLineEnd(look[:n]); k > 0 {
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

// fetch reads a piece that mark has cut off.
func (t *textReader) fetch(p *piece) {
	n, err := t.at.ReadAt(p.raw, p.off)
	if n < len(p.raw) { // the file has changed
		if p.raw, p.last = p.raw[:n], true; err != io.EOF {
			p.fail = t.in.wrap(err)
		} else if p.off+int64(n) < t.in.size {
			p.fail = raw.Errorf(t.in.name, "the file has become shorter while it was read")
		}
	}
}

// read reads the next piece from a stream; slow reports that the stream is the bottleneck.
func (t *textReader) read(p *piece, e *charset.Encoding, longest int) (slow bool) {
	buf := append(p.raw[:0], t.tail...)
	t.tail = t.tail[:0]
	want, cut := len(buf)+t.size, 0 // tail holds no line end, so it is all part of the next line
	for idle := 0; ; {
		if len(buf) >= want || slow {
			if cut = e.LineEnd(buf); cut > 0 {
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

// work decodes and parses a piece:
//
//  1. Read it, if take did not, and decode it. Decoding waits for the link only if this is the first text
//     beyond ASCII.
//  2. Find where its last complete record ends, for both possibilities, quotes open or closed at its start,
//     until the link arrives and says which.
//  3. Send the next link: the unfinished record, if any, goes with it.
//  4. Parse the complete records. This is most of the work and no longer delays other pieces.
//
// With one worker, step 2 is skipped: the parser finds the end, and the link follows the parsing.
func (t *textReader) work(p *piece) {
	p.block.Reset(0, t.want)
	p.starts = p.starts[:0]
	defer func() {
		if !p.told { // a panic: without a link the next piece would wait forever
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
	text, e, wrong := t.decode(p, func() *charset.Encoding { return await().encoding })
	if p.first && t.in.before == nil {
		text = bytes.TrimPrefix(text, []byte(bom))
	}
	over := p.last || wrong != "" // nothing follows, so the text is parsed to its end, whatever that is
	scan := func(inside bool) (int, bool) {
		if over {
			return len(text), false
		}
		return t.quotes.scan(text, inside)
	}
	// Scan both ways before knowing what comes before, so that the next piece waits as little as possible. Stop
	// as soon as the link is there.
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
	// Text after an error or the end is dropped; pass that on.
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
		scanned = 0 // the scans covered text that is now skipped
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
	} else if end < 0 && len(before.rest)+len(text) > t.limit+1 {
		// The record is too long, or the quotes before are wrong: let the parser report it.
		over, end, still[state] = true, len(text), false
	}
	after.over = over
	after.line += int64(bytes.Count(before.rest, []byte("\n")) + bytes.Count(text, []byte("\n")))
	if end < 0 { // no record ends here: pass everything on
		// Copies: text may lie in raw, which the next user of this piece overwrites. append to before.rest
		// grows it geometrically, so a record over many pieces costs linear time.
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

// tell sends the link to the next piece. The channel has room for one, so it never blocks.
func (p *piece) tell(l link) {
	p.told = true
	p.next <- l
}

// carry leaves the beginning of a record to the next piece. It copies the record, because the piece's memory is
// reused, with room for the rest of it.
func (l *link) carry(record []byte) {
	l.rest = append(make([]byte, 0, 2*len(record)), record...)
	l.line -= int64(bytes.Count(record, []byte("\n")))
}

// decode returns the text of a piece and its encoding, nil if the text is ASCII and the encoding is still
// undecided. so returns the encoding of the text before; it may have to wait for the predecessor. wrong
// describes the invalid bytes after the text.
func (t *textReader) decode(p *piece, so func() *charset.Encoding) (text []byte, e *charset.Encoding, wrong string) {
	e = t.in.encoding.is.Load()
	end := p.last && p.fail == nil
	if e == nil {
		i := charset.ASCIIPrefix(p.raw)
		if i == len(p.raw) {
			return p.raw, nil, ""
		}
		// Another piece may have decided meanwhile, but only the predecessor's decision counts: the first text
		// beyond ASCII in file order decides, at any number of goroutines.
		if e = so(); e == nil {
			if !end && !utf8.FullRune(p.raw[i:]) {
				return p.raw[:i], nil, ""
			}
			if e = charset.UTF8; !charset.Valid(p.raw[i:]) {
				e = t.in.encoding.assume
			}
			t.in.encoding.is.Store(e)
		}
	}
	if e == trustedText {
		return p.raw, e, ""
	}
	text, _, wrong = e.Decode(&p.text, p.raw, p.first, end)
	return text, e, wrong
}

// parse appends the rows of the piece to its block. An error stops the reader: rows before it are still handed
// out.
func (t *textReader) parse(p *piece) {
	if p.rows == nil {
		p.rows = t.make(&p.lines)
	}
	p.block.Reserve(1+bytes.Count(p.lines.buf, []byte("\n")), p.lines.end, t.want)
	for {
		err := p.rows.parseRow(&p.block)
		switch {
		case err == io.EOF:
			return
		// The record continues in the next piece; drop the cells that were parsed of it.
		case err == errMore:
			p.block.Truncate(p.block.Rows)
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

// trustedText is UTF-8 that need not be checked again, such as the output of a decoder.
var trustedText = &charset.Encoding{Name: charset.UTF8.Name}

// cuts reports whether text can be cut after the byte '\n' before it is decoded. Undecided text may still
// become the assumed encoding, so that must allow it.
func (s *encodingState) cuts() bool {
	e := s.is.Load()
	if e == nil {
		e = s.assume
	}
	return e.Cuts()
}
