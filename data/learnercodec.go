package data

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/data/internal/charset"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/seal"
)

// A learner is saved as a record of package seal. Its fingerprint covers columns and options; its counts are
// the numbers of columns and rows. In the body, texts follow their lengths, integers are varints and floats
// have eight bytes. Counted texts are in increasing order, so that equal learners have equal bytes.
//
// Version 2 is the only one that is read: learners are intermediate results of one computation, not archives.
var learnerFormat = seal.Format{Magic: "randfeat learner\n", Version: 2, Counts: 2}

// AppendBinary appends the saved form of the learner to b.
func (l *Learner) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	b = learnerFormat.Begin(b, seal.Header{Fingerprint: l.fingerprint(),
		Counts: []uint64{uint64(len(l.columns)), uint64(l.rows)}})
	o, err := json.Marshal(l.o)
	if err != nil {
		return nil, err
	}
	w := &learnerWriter{b}
	w.text(l.place)
	w.text(string(o))
	for _, name := range l.columns {
		w.text(name)
	}
	for _, s := range []shardText{l.first, l.last} {
		w.whole(int64(s.shard))
		w.text(s.name)
		w.text(s.encoding)
	}
	for j, c := range l.cols {
		if l.want[j] != Skip {
			w.column(c)
		}
	}
	return seal.Close(w.b, start), nil
}

// MarshalBinary is AppendBinary to an empty slice.
func (l *Learner) MarshalBinary() ([]byte, error) { return l.AppendBinary(nil) }

// UnmarshalBinary reads the form that AppendBinary writes. Damaged or impossible input and other versions are
// errors of kind seal.ErrCorrupt. Memory is proportional to the length of b.
func (l *Learner) UnmarshalBinary(b []byte) error {
	read, err := readLearner(b)
	if err != nil {
		return err
	}
	*l = *read
	return nil
}

// readLearner returns the learner that AppendBinary wrote. Beyond the checksum it verifies everything that
// later code relies on: order, ranges, and that the counts of cells add up.
func readLearner(b []byte) (*Learner, error) {
	corrupt := func(format string, args ...any) error {
		return fmt.Errorf("a saved learner of a schema: %s: %w", fmt.Sprintf(format, args...), seal.ErrCorrupt)
	}
	h, body, err := learnerFormat.Open(b)
	if err != nil {
		return nil, fmt.Errorf("a saved learner of a schema: %w", err)
	}
	r := &learnerReader{b: body}
	place := r.text()
	var o LearnOptions
	options := []byte(r.text())
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, corrupt("%v", err)
	}
	// A name takes at least a byte, so the body bounds the allocation.
	if h.Counts[0] > uint64(min(len(r.b), maxFields)) {
		return nil, corrupt("%d columns in %d bytes", h.Counts[0], len(body))
	}
	columns := make([]string, h.Counts[0])
	for j := range columns {
		columns[j] = r.text()
	}
	if r.bad {
		return nil, corrupt("it ends early")
	}
	l, err := NewLearner(place, columns, o)
	if err != nil {
		return nil, corrupt("%v", err)
	}
	// One state has one saved form. Options that were written differently would break comparisons of bytes.
	if again, err := json.Marshal(l.o); err != nil || !bytes.Equal(again, options) || h.Flag != 0 {
		return nil, corrupt("options that are written otherwise")
	}
	if l.fingerprint() != h.Fingerprint {
		return nil, corrupt("the fingerprint is not that of its columns and options")
	}
	l.rows = int64(h.Counts[1])
	for _, s := range []*shardText{&l.first, &l.last} {
		s.shard, s.name, s.encoding = r.index(), r.text(), r.text()
		if s.encoding != "" && !charset.Known(s.encoding) {
			r.bad = true
		}
	}
	for j, c := range l.cols {
		if l.want[j] == Skip {
			continue
		}
		most := -1
		if c.counts != nil {
			most = c.counts.k
		}
		if r.column(c, most); r.bad || c.missing+c.numbers.n+c.texts != l.rows {
			return nil, corrupt("column %s is damaged", cell.Quote(c.name))
		}
	}
	if r.bad || len(r.b) > 0 {
		return nil, corrupt("%d bytes are left", len(r.b))
	}
	return l, nil
}

type learnerWriter struct{ b []byte }

func (w *learnerWriter) whole(n int64) { w.b = binary.AppendUvarint(w.b, uint64(n)) }
func (w *learnerWriter) text(t string) {
	w.whole(int64(len(t)))
	w.b = append(w.b, t...)
}

// flags packs truth values into a byte, the first into the lowest bit.
func (w *learnerWriter) flags(f ...bool) {
	bits := byte(0)
	for i, set := range f {
		if set {
			bits |= 1 << i
		}
	}
	w.b = append(w.b, bits)
}

func (w *learnerWriter) moments(m moments) {
	w.whole(m.n)
	if m.n > 0 {
		w.b = seal.Append(w.b, m.mean, m.m2, m.min, m.max)
	}
}

func (w *learnerWriter) shard(k shardKind) {
	w.whole(int64(k.shard))
	w.text(k.name)
	w.flags(k.number, k.text)
}

func (w *learnerWriter) spot(s spot) {
	w.text(s.file)
	w.whole(int64(s.unit.Shard))
	w.whole(int64(s.unit.Block))
	w.whole(s.row)
}

// octaves writes their number, or maxOctaves+1 if they were given up, and the key and moments of each.
func (w *learnerWriter) octaves(o *octaves) {
	if o.lost {
		w.whole(maxOctaves + 1)
		return
	}
	w.whole(int64(len(o.of)))
	for _, a := range o.of {
		w.whole(int64(a.key) + octaveKeys)
		w.moments(a.m)
	}
}

// octaveKeys is added to keys to make them positive: keys lie between −1024 and 1024.
const octaveKeys = 2048

// odd returns the cells that messages name, in the order of the saved form.
func (l *columnLearner) odd() []*oddCell {
	out := []*oddCell{&l.word, &l.styles.differs}
	for k := range l.bad {
		out = append(out, &l.bad[k])
	}
	return out
}

func (w *learnerWriter) column(c *columnLearner) {
	w.whole(c.missing)
	w.whole(c.texts)
	w.whole(c.bools)
	w.whole(c.words)
	w.flags(c.whole, c.styles.grouped, c.dates.clock, c.dates.dotted, c.dates.started, c.counts != nil, c.order.starts,
		c.order.broken)
	w.moments(c.numbers)
	w.octaves(&c.wide)
	s := &c.styles
	w.whole(s.n)
	for _, m := range []moments{s.point, s.comma, s.pointShare, s.commaShare} {
		w.moments(m)
	}
	w.octaves(&s.pointWide)
	w.octaves(&s.commaWide)
	for k, m := range c.dates.days {
		w.moments(m)
		w.octaves(&c.dates.wide[k])
	}
	for _, o := range c.odd() {
		w.text(o.sample)
		if o.sample != "" {
			w.spot(o.at)
		}
	}
	if w.whole(c.order.n); c.order.n > 0 {
		w.b = seal.Append(w.b, c.order.first, c.order.last)
	}
	if c.ids != nil {
		w.whole(int64(len(c.ids.least)))
		for _, h := range c.ids.least {
			w.b = binary.LittleEndian.AppendUint64(w.b, h)
		}
	}
	w.text(c.sample)
	w.spot(c.at)
	w.whole(int64(c.shards.n))
	for _, k := range c.shards.open[:c.shards.n] {
		w.shard(k)
	}
	w.shard(c.shards.numbers)
	w.shard(c.shards.text)
	if c.counts == nil {
		return
	}
	w.whole(int64(c.counts.k))
	w.whole(c.counts.total)
	w.whole(c.counts.lost)
	w.whole(c.counts.long)
	texts := make([]string, 0, len(c.counts.of))
	for t := range c.counts.of {
		texts = append(texts, t)
	}
	slices.Sort(texts)
	w.whole(int64(len(texts)))
	for _, t := range texts {
		w.text(t)
		w.whole(*c.counts.of[t])
	}
}

// learnerReader reads from the front of b. Impossible data set bad; everything read afterwards is zero, so
// callers check once at the end.
type learnerReader struct {
	b   []byte
	bad bool
}

func (r *learnerReader) whole() int64 {
	v, n := binary.Uvarint(r.b)
	// Half of the range, so that sums of two do not overflow. The last byte of a longer varint must not be 0:
	// each number has one form.
	if n <= 0 || v > math.MaxInt64/2 || n > 1 && r.b[n-1] == 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return int64(v)
}

// index reads the number of a shard or a block, or a count that must fit an int.
func (r *learnerReader) index() int {
	n := r.whole()
	if n > math.MaxInt32 {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *learnerReader) text() string {
	n := r.whole()
	if n > int64(len(r.b)) {
		r.b, r.bad = nil, true
		return ""
	}
	t := string(r.b[:n])
	r.b = r.b[n:]
	return t
}

func (r *learnerReader) flags(n int) byte {
	if len(r.b) == 0 || r.b[0]>>n != 0 {
		r.b, r.bad = nil, true
		return 0
	}
	f := r.b[0]
	r.b = r.b[1:]
	return f
}

func (r *learnerReader) moments() (m moments) {
	if m.n = r.whole(); m.n == 0 {
		return m
	}
	if len(r.b) < 32 {
		r.b, r.bad = nil, true
		return moments{}
	}
	f := r.float
	// Mean and squares of numbers near the largest float64 may have overflowed, which Schema reports; the range
	// may not.
	if m.mean, m.m2, m.min, m.max = f(), f(), f(), f(); !(m.min <= m.max) || m.m2 < 0 || math.IsInf(m.min, 0) ||
		math.IsInf(m.max, 0) {
		r.bad = true
	}
	return m
}

func (r *learnerReader) uint64() uint64 {
	if len(r.b) < 8 {
		r.b, r.bad = nil, true
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *learnerReader) float() float64 { return math.Float64frombits(r.uint64()) }

func (r *learnerReader) spot() spot {
	return spot{file: r.text(), unit: Unit{Shard: r.index(), Block: r.index()}, row: r.whole()}
}

// octaves reads the octaves of at most n numbers and checks that they are sorted and that the ranges match the
// keys.
func (r *learnerReader) octaves(o *octaves, n int64) {
	*o = octaves{}
	size := r.index()
	if o.lost = size == maxOctaves+1; o.lost {
		return
	}
	if size > maxOctaves {
		r.bad = true
		return
	}
	for range size {
		a := octave{key: r.index() - octaveKeys, m: r.moments()}
		if n -= a.m.n; r.bad || n < 0 || a.m.n == 0 || octaveKey(a.m.min) != a.key || octaveKey(a.m.max) != a.key ||
			len(o.of) > 0 && o.of[len(o.of)-1].key >= a.key {
			r.bad = true
			return
		}
		o.of = append(o.of, a)
	}
}

func (r *learnerReader) shard() shardKind {
	k := shardKind{shard: r.index(), name: r.text()}
	f := r.flags(2)
	k.number, k.text = f&1 != 0, f&2 != 0
	return k
}

// column reads the form that learnerWriter.column wrote; most is how many texts its counts may hold, -1 if it
// has none.
func (r *learnerReader) column(c *columnLearner, most int) {
	c.missing, c.texts, c.bools, c.words = r.whole(), r.whole(), r.whole(), r.whole()
	f := r.flags(8)
	c.whole, c.styles.grouped = f&1 != 0, f&2 != 0
	c.dates.clock, c.dates.dotted, c.dates.started = f&4 != 0, f&8 != 0, f&16 != 0
	c.order.starts, c.order.broken = f&64 != 0, f&128 != 0
	c.numbers = r.moments()
	r.octaves(&c.wide, c.numbers.n)
	s := &c.styles
	s.n = r.whole()
	s.point, s.comma, s.pointShare, s.commaShare = r.moments(), r.moments(), r.moments(), r.moments()
	r.octaves(&s.pointWide, s.n)
	r.octaves(&s.commaWide, s.n)
	if s.n > c.numbers.n+c.texts-c.words || s.point.n+s.pointShare.n > s.n || s.comma.n+s.commaShare.n > s.n {
		r.bad = true
	}
	for k := range c.dates.days {
		c.dates.days[k] = r.moments()
		r.octaves(&c.dates.wide[k], c.dates.days[k].n)
		r.bad = r.bad || c.dates.days[k].n > c.texts-c.words
	}
	for _, o := range c.odd() {
		if o.sample = r.text(); o.sample != "" {
			o.at = r.spot()
		}
	}
	if c.order.n = r.whole(); c.order.n > 0 {
		c.order.first, c.order.last = r.float(), r.float()
	}
	if c.ids != nil {
		c.ids.least = nil
		for n := r.index(); n > 0 && !r.bad; n-- {
			c.ids.least = append(c.ids.least, r.uint64())
			k := len(c.ids.least)
			r.bad = r.bad || k > sketchSize || k > 1 && c.ids.least[k-1] <= c.ids.least[k-2]
		}
	}
	c.sample = r.text()
	c.at = r.spot()
	if c.shards.n = r.index(); c.shards.n > len(c.shards.open) {
		c.shards.n, r.bad = 0, true
	}
	for i := range c.shards.n {
		c.shards.open[i] = r.shard()
	}
	c.shards.numbers, c.shards.text = r.shard(), r.shard()
	c.counts = nil
	if c.bools+c.words > c.texts || c.order.broken && (c.order.n > 0 || c.order.starts) {
		r.bad = true
	}
	if f&32 == 0 {
		// Only fields with many distinct numbers stop counting.
		r.bad = r.bad || most >= 0 && (c.role != asField || c.texts > 0)
		return
	}
	n := newCounts(r.index())
	n.total, n.lost, n.long = r.whole(), r.whole(), r.whole()
	size := r.index()
	if n.k > most || n.k < 1 || size > n.k || size > len(r.b) {
		r.bad = true
		return
	}
	n.of = make(map[string]*int64, size)
	before := ""
	for i := range size {
		t, count := r.text(), r.whole()
		if count < 1 || len(t) > maxLevelBytes || i > 0 && t <= before {
			r.bad = true
			return
		}
		n.of[t], before = &count, t
	}
	// Without losses every cell has been counted. The decisions of finish rely on it.
	sum := n.long
	for _, count := range n.of {
		if sum += *count; sum < 0 {
			r.bad = true
			return
		}
	}
	if r.bad = r.bad || n.lost == 0 && (sum != n.total || n.total != c.numbers.n+c.texts); r.bad {
		return
	}
	c.counts = n
}
