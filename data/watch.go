package data

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
)

// ErrSurprise marks errors of a strict [Watch].
var ErrSurprise = errors.New("unlike the table of the fit")

// The ways in which a value can differ from the training rows. They are values of [Surprise].What.
const (
	whatUnseen  = "unseen"  // a level that training did not have, or that was not kept: it counts as other
	whatMissing = "missing" // no value
	whatBelow   = "below"   // a number below the range of the training rows
	whatAbove   = "above"   // a number above the range of the training rows
	whatChanged = "changed" // a column that was left out as constant has another value
	// a text among numbers or dates: it counts as missing
	unread = "unreadable"
	// a decimal point, where training had decimal commas and no points between groups of digits
	whatPointed = "decimal point"
)

// Surprise counts the values of a column that differ from the training rows in one way.
type Surprise struct {
	Column string `json:"column"`
	What   string `json:"what"` // unseen, missing, below, above, changed, unreadable or decimal point
	Rows   int64  `json:"rows"`
	// Usual says that such values also occurred in training: values were missing, or levels were pooled as other.
	Usual bool   `json:"usual,omitempty"`
	First string `json:"first,omitempty"` // the first such value; empty if it is missing
	Where string `json:"where,omitempty"` // its place
	Known string `json:"known,omitempty"` // the limit or the constant in training

	limited bool // the values were replaced by Known
}

// String describes the surprise in a sentence.
func (s Surprise) String() string {
	text := fmt.Sprintf("column %s: %d ", cell.Quote(s.Column), s.Rows)
	values, levels := "values", "levels"
	if s.Rows == 1 {
		values, levels = "value", "level"
	}
	switch s.What {
	case whatUnseen:
		text += levels + " unknown to the model, taken for \"other\""
	case whatMissing:
		text += values + " missing"
		if !s.Usual {
			text += ", none was at the fit"
		}
	case whatBelow, whatAbove:
		text += fmt.Sprintf("%s %s %s, the end of the training range", values, s.What, s.Known)
		if s.limited && s.Rows == 1 {
			text += ", counts as " + s.Known
		} else if s.limited {
			text += ", count as " + s.Known
		}
	case whatChanged:
		text += fmt.Sprintf("%s other than %s, the only one at the fit", values, cell.Quote(s.Known))
	case unread:
		text += fmt.Sprintf("%s unreadable (want %s), taken for missing", values, s.Known)
	case whatPointed:
		text += fmt.Sprintf("%s with a decimal point, where the fit had %s, read as plain numbers", values, s.Known)
	}
	if s.First != "" {
		text += fmt.Sprintf("; the first is %s at %s", cell.Quote(s.First), s.Where)
	} else if s.Where != "" {
		text += fmt.Sprintf("; the first at %s", s.Where)
	}
	return text
}

// Watch counts how rows differ from the training rows, while an [Encoder] encodes them. It belongs to one
// encoder and one goroutine.
type Watch struct {
	// Strict makes the first surprise that is not usual an error, of kind ErrSurprise.
	Strict bool
	// Each, if not nil, is called for every value that is not usual, with its row in the block and the index in
	// Surprises at which it is counted.
	Each func(row, surprise int)

	counts []Surprise
	at     map[[2]string]int // index into counts by column and What
}

// Surprises returns a copy of the counts, in the order of their first occurrence.
func (w *Watch) Surprises() []Surprise {
	if w == nil {
		return nil
	}
	return append([]Surprise(nil), w.counts...)
}

// Reset sets all counts to zero.
func (w *Watch) Reset() { w.counts, w.at = w.counts[:0], nil }

// add counts a value. value and where are called only for the first one of a kind, and for an error, because
// finding a place may be slow.
func (w *Watch) add(row int, column, what, known string, usual bool, value, where func() string) error {
	key := [2]string{column, what}
	i, ok := w.at[key]
	if !ok {
		if w.at == nil {
			w.at = map[[2]string]int{}
		}
		i = len(w.counts)
		w.at[key] = i
		w.counts = append(w.counts, Surprise{Column: column, What: what, Usual: usual, Known: known, First: value(),
			Where: where()})
	}
	w.counts[i].Rows++
	if w.Each != nil && !usual {
		w.Each(row, i)
	}
	if !w.Strict || usual {
		return nil
	}
	s := Surprise{Column: column, What: what, Known: known, First: value()}
	detail := ""
	switch what {
	case whatUnseen:
		detail = fmt.Sprintf("column %s is %s, a level unknown to the model", cell.Quote(column), cell.Quote(s.First))
	case whatMissing:
		detail = fmt.Sprintf("column %s is missing, which it never was at the fit", cell.Quote(column))
	case whatChanged:
		detail = fmt.Sprintf("column %s is %s, and was always %s at the fit", cell.Quote(column),
			cell.Quote(s.First), cell.Quote(known))
	case unread:
		detail = fmt.Sprintf("column %s is %s, want %s", cell.Quote(column), cell.Quote(s.First), known)
	case whatPointed:
		detail = fmt.Sprintf("column %s is %s, with a decimal point where the fit had %s", cell.Quote(column),
			cell.Quote(s.First), known)
	default:
		detail = fmt.Sprintf("column %s is %s, %s %s, the end of the training range", cell.Quote(column), s.First,
			what, known)
	}
	return columnError(where(), column, ErrSurprise, "%s", detail)
}

// Watch counts surprises in rows encoded from now on. Call it before Kinds: columns that were constant in
// training are then read, too.
func (e *Encoder) Watch(w *Watch) {
	e.watch = w
	for j, c := range e.columns {
		if _, ok := e.schema.Constants[c]; ok && e.kinds[j] == Skip {
			e.kinds[j] = Text
			e.constants = append(e.constants, j)
		}
	}
}

// surprised counts the surprises of field k, whose encoded columns begin at first.
func (e *Encoder) surprised(x dense.Matrix[float64], first, k int, c *Column, where func(int) string) error {
	f := &e.schema.Fields[k]
	none := func() string { return "" }
	for i := range x.Rows {
		at := func() string { return where(i) }
		if f.missing(c, i) {
			if err := e.watch.add(i, f.Name, whatMissing, "", f.Missing, none, at); err != nil {
				return err
			}
			continue
		}
		if f.Kind == Categorical {
			if f.Code == "" && x.At(i, first+len(f.Levels)) == 0 || f.Code != "" && e.knows(k, c, i) {
				continue
			}
			err := e.watch.add(i, f.Name, whatUnseen, "", f.Other, func() string { return cellText(c, i) }, at)
			if err != nil {
				return err
			}
			continue
		}
		if f.Kind == Words {
			continue
		}
		v, ok := f.valueAt(c, i)
		if !ok {
			err := e.watch.add(i, f.Name, unread, f.wanted(), false, func() string { return oddCellText(c, i) }, at)
			if err != nil {
				return err
			}
			continue
		}
		if f.pointed(c, i) {
			text := func() string { return cellText(c, i) }
			if err := e.watch.add(i, f.Name, whatPointed, f.Format, false, text, at); err != nil {
				return err
			}
		}
		if f.Range == nil || math.IsNaN(v) {
			continue
		}
		what, limit := whatBelow, f.Range[0]
		switch {
		case v < f.Range[0]:
		case v > f.Range[1]:
			what, limit = whatAbove, f.Range[1]
		default:
			continue
		}
		known := cell.Canonical(limit)
		if f.Kind == Time {
			known = dayText(limit)
		}
		err := e.watch.add(i, f.Name, what, known, false, func() string { return cellText(c, i) }, at)
		if err != nil {
			return err
		}
		e.watch.counts[e.watch.at[[2]string{f.Name, what}]].limited = e.limit && f.Kind == Numeric
	}
	return nil
}

// knows reports whether cell i is a level of field k.
func (e *Encoder) knows(k int, c *Column, i int) bool {
	text, _ := levelText(c, i, nil)
	_, ok := lookup(e.levels[k], text)
	return ok
}

// dayText formats a time in days since 1970.
func dayText(days float64) string {
	return time.Unix(int64(days*86400), 0).UTC().Format("2006-01-02T15:04:05")
}

// oddCellText returns an unreadable cell as text; it may be empty, because only the first unreadable texts are
// kept.
func oddCellText(c *Column, i int) string {
	if c.Num != nil {
		text, _ := c.oddAt(i)
		return text
	}
	return cellText(c, i)
}

// changed compares a column with its constant in training. A missing value says nothing.
func (e *Encoder) changed(j int, c *Column, where func(int) string) error {
	name := e.columns[j]
	want := e.schema.Constants[name]
	number := canonicalText(want)
	for i, t := range c.Text {
		if t == nil || string(t) == want || canonicalText(string(t)) == number {
			continue
		}
		err := e.watch.add(i, name, whatChanged, want, false, func() string { return cellText(c, i) },
			func() string { return where(i) })
		if err != nil {
			return err
		}
	}
	return nil
}

// cellText returns cell i as text, cut to 100 bytes.
func cellText(c *Column, i int) string {
	if c.Num != nil {
		return cell.Canonical(c.Num[i])
	}
	return string(c.Text[i][:min(len(c.Text[i]), 100)])
}
