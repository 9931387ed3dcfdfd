package data

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
)

// MarkColumns names columns that describe the rows themselves: weight, group and time. An empty name means
// none.
type MarkColumns struct {
	Weight string // how much a row counts: a non-negative number
	Group  string // rows that belong together, such as those of a patient or a customer: any text
	Time   string // when a row was recorded: a number, or a date
}

// Names returns the columns that are set.
func (c MarkColumns) Names() []string {
	return slices.DeleteFunc([]string{c.Weight, c.Group, c.Time}, func(n string) bool { return n == "" })
}

// Marks holds the values of the mark columns, one entry per row; a slice is nil if its column was not named.
// They stay in memory: 8, 4 and 8 bytes per row.
type Marks struct {
	Weight []float64
	Group  []uint32 // numbered in the order of their first rows
	Groups int
	Time   []float64 // dates as days since 1970
}

// Read reads the mark columns of a table in one pass. Errors name the place: a weight that is missing,
// negative or not a number; a missing group or time; times that are neither all numbers nor all dates of one
// form.
func (c MarkColumns) Read(src Source) (*Marks, error) {
	columns := src.Columns()
	want := make([]Kind, len(columns))
	for j := range want {
		want[j] = Skip
	}
	find := func(name, what string) (int, error) {
		if name == "" {
			return -1, nil
		}
		j := slices.Index(columns, name)
		if j < 0 {
			return j, &InputError{Place: src.Name(), Err: ErrSchema, Detail: noColumn(name, what, columns)}
		}
		want[j] = Text
		return j, nil
	}
	weight, err := find(c.Weight, "weight")
	group, err2 := find(c.Group, "group")
	when, err3 := find(c.Time, "time")
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	r, err := src.Open(want)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m := markReading{of: c, numbers: map[string]uint32{}}
	var b Block
	for {
		err := r.Read(&b, 1024)
		if err == io.EOF {
			return m.marks(src)
		}
		if err != nil {
			return nil, err
		}
		for i := range b.Rows {
			if weight >= 0 {
				err = m.weight(b.Cols[weight].Text[i])
			}
			if group >= 0 && err == nil {
				err = m.group(b.Cols[group].Text[i])
			}
			if when >= 0 && err == nil {
				err = m.time(b.Cols[when].Text[i])
			}
			if err != nil {
				var e *InputError
				if errors.As(err, &e) {
					e.Place = r.Where(i)
				}
				return nil, err
			}
		}
	}
}

// markReading gathers the marks of rows. Its errors lack the place.
type markReading struct {
	of      MarkColumns
	m       Marks
	sum     float64 // of the weights
	numbers map[string]uint32
	times   timeReading
}

func (r *markReading) weight(t []byte) error {
	v, ok := cell.ParseNumber(t)
	switch {
	case t == nil:
		return columnError("", r.of.Weight, dense.ErrNotFinite,
			"the weight is missing: give the row one, 0 if it is not to count")
	case !ok || !(v >= 0) || !dense.IsFinite(v):
		return columnError("", r.of.Weight, dense.ErrNotFinite, "the weight is %s, want a number that is not negative",
			cell.Quote(t))
	}
	r.m.Weight = append(r.m.Weight, v)
	r.sum += v
	return nil
}

func (r *markReading) group(t []byte) error {
	if t == nil {
		return columnError("", r.of.Group, ErrSchema,
			"the group is missing: a row of no group may be of any, give it one of its own")
	}
	n, ok := r.numbers[string(t)]
	if !ok {
		n = uint32(len(r.numbers))
		r.numbers[string(t)] = n
	}
	r.m.Group = append(r.m.Group, n)
	return nil
}

func (r *markReading) time(t []byte) error {
	if t == nil {
		return columnError("", r.of.Time, dense.ErrNotFinite, "the time is missing: remove the row, or give it one")
	}
	if !r.times.add(t) {
		return columnError("", r.of.Time, ErrSchema, "%s is no time that goes with those before: want all numbers, or dates "+
			"of one form such as 2026-01-31 or 2026-01-31T12:00:00", cell.Quote(t))
	}
	return nil
}

// marks are those of all rows. Only all weights together tell whether any row counts.
func (r *markReading) marks(src Source) (*Marks, error) {
	r.m.Groups, r.m.Time = len(r.numbers), r.times.values()
	if r.m.Weight != nil && !(r.sum > 0 && dense.IsFinite(r.sum)) {
		return nil, &InputError{Place: src.Name(), Err: dense.ErrNotFinite, Column: r.of.Weight,
			Detail: fmt.Sprintf("the weights of all rows sum to %g, want a positive number", r.sum)}
	}
	return &r.m, nil
}

// timeReading reads a column in all ways that its cells allow so far: as numbers, and as dates in every order.
// A single pass decides.
type timeReading struct {
	ways [1 + len(dateOrders)][]float64 // values by way: numbers, then the orders of dateOrders
	not  [1 + len(dateOrders)]bool
	// plain says that some date is not separated by points.
	plain bool
}

// add reads a cell and reports whether any way is left.
func (r *timeReading) add(t []byte) bool {
	left := false
	for k := range r.ways {
		if r.not[k] {
			continue
		}
		v, ok := 0.0, false
		if k == 0 {
			v, ok = cell.ParseNumber(t)
			ok = ok && !math.IsNaN(v) && !math.IsInf(v, 0)
		} else {
			var at moment
			var point bool
			at, point, ok = parseTime(t, dateOrders[k-1])
			v = at.days()
			r.plain = r.plain || ok && !point
		}
		if !ok {
			r.not[k], r.ways[k] = true, nil
			continue
		}
		r.ways[k] = append(r.ways[k], v)
		left = true
	}
	return left
}

// values returns the values of the first way that is left: numbers, then dates with the year first. Between day
// and month it follows the rule of fields (dates.of): month first, but day first if all dates are separated by
// points.
func (r *timeReading) values() []float64 {
	order := []int{0, 1, 3, 2}
	if !r.plain {
		order = []int{0, 1, 2, 3}
	}
	for _, k := range order {
		if !r.not[k] {
			return r.ways[k]
		}
	}
	return nil
}

// Keep returns the marks of the given rows, in order.
func (m *Marks) Keep(rows []int64) *Marks {
	if m == nil {
		return nil
	}
	out := &Marks{Groups: m.Groups}
	for _, i := range rows {
		if m.Weight != nil {
			out.Weight = append(out.Weight, m.Weight[i])
		}
		if m.Group != nil {
			out.Group = append(out.Group, m.Group[i])
		}
		if m.Time != nil {
			out.Time = append(out.Time, m.Time[i])
		}
	}
	return out
}
