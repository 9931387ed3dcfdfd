package data

import (
	"bytes"

	"github.com/randfeat/randfeat/internal/cell"
)

// parseBool reads a truth value: true or false, in any case. Other words that may mean one (yes, t, 1) may also
// mean something else; they are levels or numbers.
func parseBool(b []byte) (v, ok bool) {
	switch {
	case len(b) == 4 && bytes.EqualFold(b, []byte("true")):
		return true, true
	case len(b) == 5 && bytes.EqualFold(b, []byte("false")):
		return false, true
	}
	return false, false
}

// boolAt reads a text of a boolean field as 0 or 1. Formats without truth values store these numbers.
func boolAt(text []byte) (v float64, ok bool) {
	if b, ok := parseBool(text); ok {
		if b {
			return 1, true
		}
		return 0, true
	}
	v, ok = cell.ParseNumber(cell.TrimBlanks(text))
	return v, ok && (v == 0 || v == 1)
}

// boolean reports whether a column holds only truth values. Beside true and false, the numbers 0 and 1 count,
// too.
func (l *columnLearner) boolean() bool {
	if l.texts == 0 || l.texts != l.bools || l.counts == nil || !l.counts.exact() {
		return false
	}
	return l.numbers.n == 0 || l.whole && l.numbers.min >= 0 && l.numbers.max <= 1
}

// truths returns the moments of a boolean column, from its counts. Unlike moments.add it is exact, whatever the
// order.
func (l *columnLearner) truths() moments {
	n, ones := int64(0), int64(0)
	for t, count := range l.counts.of {
		v, _ := boolAt([]byte(t))
		n, ones = n+*count, ones+*count*int64(v)
	}
	m := moments{n: n, mean: float64(ones) / float64(n)}
	m.m2 = float64(n) * m.mean * (1 - m.mean)
	if m.max = 1; ones == 0 {
		m.max = 0
	}
	if ones == n {
		m.min = 1
	}
	return m
}
