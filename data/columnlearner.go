package data

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
)

// columnLearner holds the statistics of a column. Text cells are interpreted in all possible ways at once
// (plain numbers, two number styles, three date orders, levels), because one pass must suffice and only all
// rows together decide. Learners of consecutive parts merge.
type columnLearner struct {
	name    string
	role    role
	missing int64
	numbers moments
	counts  *counts // of values as texts; nil: not counted, or no longer
	whole   bool    // all numbers are integers
	texts   int64   // cells that are no plain numbers
	bools   int64   // texts that are true or false
	words   int64   // texts that mean a missing value among numbers and dates
	styles  styles  // of a field, a target or a column declared numeric
	dates   dates
	wide    octaves    // the plain numbers by magnitude, to find outliers
	bad     [5]oddCell // first cell that is not: a number in point style, in comma style, a date in each order
	word    oddCell    // first of the words
	order   sequence   // of a field: do its values number the rows?
	ids     *sketch    // of a column named like an identifier: distinct values
	sample  string     // first of the texts
	at      spot       // place of sample
	shards  shardKinds // which files have numbers, which have texts
	strict  bool       // find the places of cells even if that is slow
	buf     []byte     // memory for the spelling of a number

	spellings int // distinct spellings before canonicalise merged them
}

// oddCell is a cell to name in messages, and its place.
type oddCell struct {
	sample string // empty: there is none
	at     spot
}

// merge keeps the first cell; o comes later in the table.
func (c *oddCell) merge(o oddCell) {
	if c.sample == "" {
		*c = o
	}
}

// spot is the place of a row. A place by unit and row is always known; the text with the line number may be
// expensive to find out, so messages fall back to the former.
type spot struct {
	file string
	unit Unit
	row  int64  // in the unit, from 0
	text string // for messages; empty if finding it would have been slow
}

func (s spot) String() string {
	if s.text != "" || s.file == "" {
		return s.text
	}
	if s.unit.Block == 0 {
		return fmt.Sprintf("%s: row %d", s.file, s.row+1)
	}
	return fmt.Sprintf("%s: row %d of block %d", s.file, s.row+1, s.unit.Block+1)
}

func newColumnLearner(name string, r role, strict bool) *columnLearner {
	l := &columnLearner{name: name, role: r, whole: true, strict: strict}
	if identifierName(name) {
		l.ids = new(sketch)
	}
	return l
}

// clone returns a copy that finish may change. Only the counts are changed there, so only they are copied
// deeply.
func (l *columnLearner) clone() *columnLearner {
	out := *l
	if l.counts != nil {
		c := *l.counts
		c.of = make(map[string]*int64, len(l.counts.of))
		for t, n := range l.counts.of {
			m := *n
			c.of[t] = &m
		}
		out.counts = &c
	}
	return &out
}

// add takes the cells of column j of a block. quick says that calling where for every cell is cheap.
func (l *columnLearner) add(b *Block, j int, file string, where func(int) string, quick bool) error {
	c := &b.Cols[j]
	// The deferred call compares with these, to see which kinds of cells this block had.
	numbers, texts := l.numbers.n, l.texts-l.words
	defer func() {
		l.shards.add(shardKind{shard: b.Unit.Shard, name: file, number: l.numbers.n > numbers,
			text: l.texts-l.words > texts})
	}()
	starts := b.Unit.Block == 0 && b.Row == 0
	if c.Num != nil {
		for i, v := range c.Num {
			l.order.add(v, starts && i == 0)
			if err := l.number(v, nil, i, where); err != nil {
				return err
			}
		}
		return nil
	}
	place := func(i int) spot {
		s := spot{file: file, unit: b.Unit, row: b.Row + int64(i)}
		if quick || l.strict {
			s.text = where(i)
		}
		return s
	}
	for i, t := range c.Text {
		if t == nil {
			l.order.add(math.NaN(), false)
			if err := l.number(math.NaN(), nil, i, where); err != nil {
				return err
			}
			continue
		}
		// Every text goes through the plain parser once; its result feeds all interpretations.
		v, ok := cell.ParseNumber(t)
		l.order.add(v, starts && i == 0)
		if ok && math.IsNaN(v) || !ok && l.role == asNumeric && isMissingWord(t) {
			if err := l.number(math.NaN(), nil, i, where); err != nil {
				return err
			}
			continue
		}
		word := !ok && isMissingWord(t)
		if word {
			if l.words++; l.words == 1 {
				l.word = oddCell{sample: cell.Quote(t), at: place(i)}
			}
		} else if l.role == asField || l.role == asTarget || l.role == asNumeric {
			l.read(t, v, c.IsBare(i), func() spot { return place(i) })
			// A declared numeric column fails at the first cell that neither style reads. At this point each
			// style has failed on some cell, so no single style reads all.
			if badPoint, badComma := l.styles.bad(); l.role == asNumeric && badPoint > 0 && badComma > 0 {
				return notNumeric(where(i), l.name, t)
			}
		}
		if ok {
			if err := l.number(v, t, i, where); err != nil {
				return err
			}
			continue
		}
		if _, ok := parseBool(t); ok {
			l.bools++
		}
		if l.texts++; l.texts == 1 {
			l.sample, l.at = cell.Quote(t), place(i)
			// Counting had stopped because of many distinct numbers; they are lost.
			if l.counts == nil && l.role == asField {
				l.counts = newCounts(numericTracked)
				l.counts.lost = max(1, l.numbers.n)
			}
		}
		if l.counts != nil {
			l.counts.add(t)
		}
	}
	return nil
}

// read interprets a cell as a number of every style and, if it is no plain number, as a date of every order.
func (l *columnLearner) read(t []byte, v float64, bare bool, place func() spot) {
	var is [5]bool
	var differs bool
	is[0], is[1], differs = l.styles.add(t, v, bare)
	if math.IsNaN(v) {
		dates := l.dates.add(t)
		copy(is[2:], dates[:])
	}
	note := func(c *oddCell) {
		if c.sample == "" {
			*c = oddCell{sample: cell.Quote(t), at: place()}
		}
	}
	for k := range is {
		if !is[k] {
			note(&l.bad[k])
		}
	}
	if differs {
		note(&l.styles.differs)
	}
}

// notNumeric is the error for a cell of a declared numeric column that cannot be read, or is written in another
// style than others.
func notNumeric(place, column string, text []byte) error {
	_, _, point := scanStyled(text, false)
	if _, _, comma := scanStyled(text, true); point || comma {
		return columnError(place, column, nil, "column %s is %s, where others are written otherwise: write numbers in one way",
			cell.Quote(column), cell.Quote(text))
	}
	return columnError(place, column, nil, "column %s is %s, want a number", cell.Quote(column), cell.Quote(text))
}

// number takes a number; NaN is missing. text is its spelling in the file, nil if the format has typed numbers.
func (l *columnLearner) number(v float64, text []byte, i int, where func(int) string) error {
	if math.IsNaN(v) {
		if l.role == asTarget {
			return columnError(where(i), l.name, ErrMissingTarget, missingTarget, cell.Quote(l.name))
		}
		l.missing++
		return nil
	}
	if math.IsInf(v, 0) {
		return columnError(where(i), l.name, dense.ErrNotFinite, "column %s is infinite", cell.Quote(l.name))
	}
	l.numbers.add(v)
	if l.role == asField || l.role == asNumeric {
		l.wide.add(v)
	}
	if l.ids != nil {
		l.ids.add(v)
	}
	l.whole = l.whole && v == math.Trunc(v)
	if l.counts == nil {
		return nil
	}
	if text == nil {
		l.buf = append(l.buf[:0], cell.Canonical(v)...)
		text = l.buf
	}
	l.counts.add(text)
	l.stopCounting()
	return nil
}

// stopCounting gives up counting the values of a column of numbers once there are too many: they cannot be
// levels then.
func (l *columnLearner) stopCounting() {
	if l.counts != nil && l.texts == 0 && l.role == asField && len(l.counts.of) > numericTracked {
		l.counts = nil
	}
}

// merge adds the statistics of o, whose cells follow. The result must equal that of adding the cells one by one, apart
// from rounding and from counts that are not exact.
func (l *columnLearner) merge(o *columnLearner) {
	switch field := l.role == asField; {
	case l.counts != nil && o.counts != nil:
		l.counts.merge(o.counts)
	case field && l.counts == nil && o.texts > 0: // as if the first text of o had been added to l
		l.counts = newCounts(numericTracked)
		l.counts.lost = max(1, l.numbers.n)
		l.counts.merge(o.counts)
	// The numbers of o were many and are not known one by one: count them as lost.
	case field && o.counts == nil && l.texts > 0:
		l.counts.lost += o.numbers.n
		l.counts.total += o.numbers.n
	default:
		l.counts = nil
	}
	if l.texts == 0 {
		l.sample, l.at = o.sample, o.at
	}
	l.missing += o.missing
	l.texts += o.texts
	l.bools += o.bools
	l.words += o.words
	l.wide.merge(&o.wide)
	for k := range l.bad {
		l.bad[k].merge(o.bad[k])
	}
	l.word.merge(o.word)
	l.order.merge(&o.order)
	if l.ids != nil {
		l.ids.merge(o.ids)
	}
	l.whole = l.whole && o.whole
	l.numbers.merge(o.numbers)
	l.styles.merge(&o.styles)
	l.dates.merge(&o.dates)
	l.shards.merge(&o.shards)
	l.stopCounting()
}

// shardKind says whether the cells of a column in a shard are numbers, texts, or both.
type shardKind struct {
	shard        int
	name         string // of the file
	number, text bool
}

// shardKinds looks for one shard with only numbers in a column and another with only texts, which is probably a
// mistake. For a range of shards it keeps the first and the last shard, which may continue outside the range,
// and the first completed shard of each kind in between. This is all that merging ranges needs, however many
// shards there are.
type shardKinds struct {
	open          [2]shardKind // the first and the last shard
	n             int          // how many of open are set: one if they are the same
	numbers, text shardKind    // first completed shard of only numbers, of only texts; empty name: none
}

func (s *shardKinds) add(k shardKind) {
	if s.n > 0 && s.open[s.n-1].shard == k.shard {
		last := &s.open[s.n-1]
		last.number, last.text = last.number || k.number, last.text || k.text
		return
	}
	s.merge(&shardKinds{open: [2]shardKind{k}, n: 1})
}

// merge appends a range that follows.
func (s *shardKinds) merge(o *shardKinds) {
	if o.n == 0 {
		return
	}
	if s.n == 0 {
		*s = *o
		return
	}
	all := make([]shardKind, 0, 4)
	all = append(all, s.open[:s.n]...)
	rest := o.open[:o.n]
	if last := &all[len(all)-1]; last.shard == rest[0].shard {
		last.number, last.text = last.number || rest[0].number, last.text || rest[0].text
		rest = rest[1:]
	}
	all = append(all, rest...)
	for _, k := range all[1:max(1, len(all)-1)] {
		s.close(k)
	}
	if s.numbers.name == "" {
		s.numbers = o.numbers
	}
	if s.text.name == "" {
		s.text = o.text
	}
	s.open, s.n = [2]shardKind{all[0]}, 1
	if len(all) > 1 {
		s.open[1], s.n = all[len(all)-1], 2
	}
}

// close records a shard that no further cells come from.
func (s *shardKinds) close(k shardKind) {
	if k.number && !k.text && s.numbers.name == "" {
		s.numbers = k
	}
	if k.text && !k.number && s.text.name == "" {
		s.text = k
	}
}

// conflict returns the first file of only numbers and the first of only texts; ok is false unless both exist.
func (s shardKinds) conflict() (numbers, text string, ok bool) {
	var all shardKinds
	if s.n > 0 {
		all.close(s.open[0])
	}
	all.close(s.numbers)
	all.close(s.text)
	if s.n > 1 {
		all.close(s.open[1])
	}
	return all.numbers.name, all.text.name, all.numbers.name != "" && all.text.name != ""
}

// numbersRows explains why a column of numbers only identifies rows; "" if it does not.
func (l *columnLearner) numbersRows(columns []string, j int, rows int64) string {
	if l.role != asField || l.numbers.n != rows || !l.whole || rows < leastNumbered {
		return ""
	}
	// Counts of repeated numbers are exact only up to numericTracked distinct values.
	repeats := l.counts != nil && l.counts.exact() && 2*int64(len(l.counts.of)) < rows
	switch {
	case l.order.numbers(rows) && !timeName(l.name):
		return "numbers the rows in order"
	case indexName(columns, j) && l.numbers.min >= 0 && !repeats:
		return "numbers the rows, as the index of a data frame does"
	case l.ids != nil && l.ids.distinct() >= 0.8*float64(rows):
		return "identifies the rows by numbers that nearly always differ"
	}
	return ""
}
