package data

import (
	"math"
	"slices"
	"strings"
)

// sequence detects whether the numbers of a column merely count its rows: each is one more than the previous
// one. The count may restart at the beginning of a file. Parts can be merged, so it works for tables learned in
// pieces.
type sequence struct {
	n           int64
	first, last float64
	starts      bool // the first cell begins a file
	broken      bool
}

// add takes the next cell, NaN if it is no number; starts says that it is the first cell of a file.
func (s *sequence) add(v float64, starts bool) {
	if !s.broken {
		s.merge(&sequence{n: 1, first: v, last: v, starts: starts, broken: math.IsNaN(v)})
	}
}

// merge appends the cells that o has seen, which follow those of s.
func (s *sequence) merge(o *sequence) {
	switch {
	case o.n == 0 && !o.broken:
	case s.n == 0 && !s.broken:
		*s = *o
	case s.broken || o.broken || o.first != s.last+1 && !(o.starts && (o.first == 0 || o.first == 1)):
		*s = sequence{broken: true}
	default:
		s.n += o.n
		s.last = o.last
	}
	if s.broken {
		*s = sequence{broken: true}
	}
}

// leastNumbered is the number of rows from which a counting column is believed to number rows. In fewer rows,
// 1, 2, 3 may well be data.
const leastNumbered = 10

// numbers reports whether the column is 0, 1, 2, … or 1, 2, 3, … in all rows.
func (s *sequence) numbers(rows int64) bool {
	return !s.broken && s.n == rows && rows >= leastNumbered && (s.first == 0 || s.first == 1)
}

// sketch estimates the number of distinct values by their smallest hashes (Bar-Yossef et al. 2002, "Counting
// distinct elements in a data stream", algorithm 2). A set of smallest hashes does not depend on order or on
// how the table is cut, so merged sketches are identical.
type sketch struct{ least []uint64 } // the sketchSize smallest hashes, increasing

const sketchSize = 256

func (s *sketch) add(v float64) {
	h := math.Float64bits(v) * 0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	s.hash(h ^ h>>32)
}

func (s *sketch) hash(h uint64) {
	if len(s.least) == sketchSize && h >= s.least[sketchSize-1] {
		return
	}
	i, ok := slices.BinarySearch(s.least, h)
	if ok {
		return
	}
	s.least = slices.Insert(s.least, i, h)
	s.least = s.least[:min(len(s.least), sketchSize)]
}

func (s *sketch) merge(o *sketch) {
	if o == nil {
		return
	}
	for _, h := range o.least {
		s.hash(h)
	}
}

// distinct returns the estimate, exact below sketchSize and with a standard error of about 6 % (1/√sketchSize)
// beyond.
func (s *sketch) distinct() float64 {
	if len(s.least) < sketchSize {
		return float64(len(s.least))
	}
	return (sketchSize - 1) / (float64(s.least[sketchSize-1]) / (1 << 64))
}

// identifierName reports whether a column is named like an identifier: id, customer_id, PassengerId. The
// lower-case letter before Id or ID keeps words such as PAID out.
func identifierName(name string) bool {
	if n := len(name); n > 2 && (name[n-2:] == "Id" || name[n-2:] == "ID") && name[n-3]-'a' <= 'z'-'a' {
		return true
	}
	words := nameWords(name)
	switch {
	case len(words) == 0:
		return false
	case words[len(words)-1] == "id" || words[len(words)-1] == "uuid" || words[len(words)-1] == "guid":
		return true
	}
	return len(words) == 1 && (words[0] == "rowid" || words[0] == "idx" || words[0] == "index" || words[0] == "rownum")
}

func nameWords(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return r == '_' || r == '-' || r == ' ' || r == '.' || r == ':'
	})
}

// timeName reports whether the name of a column says that it counts time, or is the x of a function. Such
// numbers carry information even if they number the rows.
func timeName(name string) bool {
	for _, w := range nameWords(name) {
		switch w {
		case "t", "x", "time", "timestamp", "date", "day", "days", "hour", "hours", "minute", "minutes", "second",
			"seconds", "week", "weeks", "month", "months", "quarter", "year", "years", "step", "steps", "epoch", "tick",
			"frame", "period", "age", "position", "distance", "depth", "dose", "cycle", "cycles":
			return true
		}
	}
	return false
}

// indexName reports whether column j has a name that data frames give to their index when they write it: none,
// __index_level_0__, Unnamed: 0. Here a column without a name is called c1.
func indexName(columns []string, j int) bool {
	name := columns[j]
	if strings.HasPrefix(name, "__index_level_") || strings.HasPrefix(name, "Unnamed: ") {
		return true
	}
	if j > 0 || name != "c1" || len(columns) == 1 {
		return false
	}
	return !slices.Contains(columns, "c2")
}
