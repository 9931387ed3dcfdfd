package data

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/number"
	"github.com/randfeat/randfeat/internal/quote"
)

// columnLearner holds everything learned about a column so far. Learners of consecutive parts merge; the result does
// not depend on where the table was cut.
type columnLearner struct {
	name    string
	role    role
	missing int64
	numbers moments
	counts  *counts // nil: not counted, or no longer
	whole   bool    // all numbers are integers
	texts   int64   // that are no numbers
	bools   int64   // of them, those that are true or false
	words   int64   // of them, those that mean a missing value among numbers and dates
	styles  styles  // of a field, target or column that is said to be numeric
	dates   dates
	wide    octaves    // of the numbers
	bad     [5]oddCell // the first cell that is no number of point and comma style, no date of each order
	word    oddCell    // the first of the words
	order   sequence   // of a field
	ids     *sketch    // of a field whose name is that of identifiers
	sample  string     // the first of the texts
	at      spot       // of it
	shards  shardKinds
	strict  bool // places of cells are wanted even if they take time
	buf     []byte

	spellings int // before canonicalise counted those of one number together
}

// oddCell is a cell that is unlike others, and its place.
type oddCell struct {
	sample string // empty: there is none
	at     spot
}

// merge keeps the first.
func (c *oddCell) merge(o oddCell) {
	if c.sample == "" {
		*c = o
	}
}

// spot is the place of a row.
type spot struct {
	file string
	unit Unit
	row  int64  // in the unit, from 0
	text string // for messages, if it is known
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

// clone is a copy that the methods which decide may change.
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

// add takes the cells of column j of a block. quick says that calling where for every block is cheap.
func (l *columnLearner) add(b *Block, j int, file string, where func(int) string, quick bool) error {
	c := &b.Cols[j]
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
		v, ok := number.Parse(t)
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
				l.word = oddCell{sample: quote.Short(t), at: place(i)}
			}
		} else if l.role == asField || l.role == asTarget || l.role == asNumeric {
			l.read(t, v, c.IsBare(i), func() spot { return place(i) })
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
			l.sample, l.at = quote.Short(t), place(i)
			if l.counts == nil && l.role == asField { // counting had stopped: the numbers before were many
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

// read takes a cell as a number of every style and a date of every order.
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
			*c = oddCell{sample: quote.Short(t), at: place()}
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

// notNumeric is a cell that keeps a column which is said to be numeric from being so.
func notNumeric(place, column string, text []byte) error {
	_, _, point := scanStyled(text, false)
	if _, _, comma := scanStyled(text, true); point || comma {
		return columnError(place, column, nil, "column %s is %s, where others are written otherwise: write numbers in one way",
			quote.Short(column), quote.Short(text))
	}
	return columnError(place, column, nil, "column %s is %s, want a number", quote.Short(column), quote.Short(text))
}

// number takes a number; NaN is missing. text is its spelling in the file, if it has one.
func (l *columnLearner) number(v float64, text []byte, i int, where func(int) string) error {
	if math.IsNaN(v) {
		if l.role == asTarget {
			return columnError(where(i), l.name, ErrMissingTarget, missingTarget, quote.Short(l.name))
		}
		l.missing++
		return nil
	}
	if math.IsInf(v, 0) {
		return columnError(where(i), l.name, dense.ErrNotFinite, "column %s is infinite", quote.Short(l.name))
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
		l.buf = append(l.buf[:0], number.Canonical(v)...)
		text = l.buf
	}
	l.counts.add(text)
	l.stopCounting()
	return nil
}

// stopCounting stops counting distinct values once a column of numbers has too many.
func (l *columnLearner) stopCounting() {
	if l.counts != nil && l.texts == 0 && l.role == asField && len(l.counts.of) > numericTracked {
		l.counts = nil
	}
}

// merge adds the cells behind, which o has seen.
func (l *columnLearner) merge(o *columnLearner) {
	switch field := l.role == asField; {
	case l.counts != nil && o.counts != nil:
		l.counts.merge(o.counts)
	case field && l.counts == nil && o.texts > 0: // as if the first text of o came to l
		l.counts = newCounts(numericTracked)
		l.counts.lost = max(1, l.numbers.n)
		l.counts.merge(o.counts)
	case field && o.counts == nil && l.texts > 0: // the numbers of o were many, and are not known one by one
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

// shardKind is whether the cells of a column in a shard are numbers, other texts, or both.
type shardKind struct {
	shard        int
	name         string // of the file
	number, text bool
}

// shardKinds looks for one shard with only numbers in a column and another with only texts, which is probably a
// mistake. For a range of shards it keeps the first and the last, which may continue outside the range, and in between
// the first shard of each kind.
type shardKinds struct {
	open          [2]shardKind
	n             int       // of open that are set: one if first and last are the same
	numbers, text shardKind // name is empty: none
}

func (s *shardKinds) add(k shardKind) {
	if s.n > 0 && s.open[s.n-1].shard == k.shard {
		last := &s.open[s.n-1]
		last.number, last.text = last.number || k.number, last.text || k.text
		return
	}
	s.merge(&shardKinds{open: [2]shardKind{k}, n: 1})
}

// merge adds a range behind.
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

// close notes a shard that nothing more comes of.
func (s *shardKinds) close(k shardKind) {
	if k.number && !k.text && s.numbers.name == "" {
		s.numbers = k
	}
	if k.text && !k.number && s.text.name == "" {
		s.text = k
	}
}

// conflict names the first file of numbers only and the first of texts only.
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

// numbersRows says why a column of numbers only identifies rows; "" if it does not.
func (l *columnLearner) numbersRows(columns []string, j int, rows int64) string {
	if l.role != asField || l.numbers.n != rows || !l.whole || rows < leastNumbered {
		return ""
	}
	// Counts of numbers that repeat are kept up to numericTracked, far below half of many rows.
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
