package watch

import "github.com/randfeat/randfeat/data"

// Histogram is the old and the new distribution of a column, for pictures.
type Histogram struct {
	// Edges are the ends of the bins of numbers, in the units of the table; nil for levels.
	Edges []float64
	// Names are the levels, the last ones all others and missing values; nil for numbers.
	Names    []string
	Old, New []float64 // share of rows in every bin or level
}

// histogramLevels is the number of levels that a picture shows.
const histogramLevels = 8

// Histogram returns the distribution of a column of a report. Numbers have bins that hold about equally many rows of
// the fit; missing values are left out.
func (m *Monitor) Histogram(c Column) Histogram {
	r, f := m.r, &m.r.fields[c.field]
	s := &r.schema.Fields[c.field]
	a, b := r.sums[f.at:f.at+f.cells], m.sums[f.at:f.at+f.cells]
	last := f.cells - 1
	var h Histogram
	if len(f.edges) > 0 && s.Kind != data.Boolean {
		na, nb := max(1, sum(a[:last])), max(1, sum(b[:last]))
		for k, e := range f.edges {
			h.Edges = append(h.Edges, s.Mean+e*s.Scale)
			if k > 0 {
				h.Old, h.New = append(h.Old, a[k]/na), append(h.New, b[k]/nb)
			}
		}
		// Rows beyond the range are shown at its ends.
		if n := len(h.Old); n > 0 {
			h.New[0] += b[0] / nb
			h.New[n-1] += b[last-1] / nb
		}
		return h
	}
	add := func(name string, x, y float64) {
		h.Names = append(h.Names, name)
		h.Old, h.New = append(h.Old, x/r.rows), append(h.New, y/m.rows)
	}
	switch {
	case len(f.edges) == 3:
		add("false", a[0]+a[1], b[0]+b[1])
		add("true", a[2]+a[3], b[2]+b[3])
	case len(f.edges) > 0 || f.levels == 0:
		add("present", sum(a[:last]), sum(b[:last]))
	default:
		n := min(f.kept, histogramLevels)
		for k := range n {
			add(s.Levels[k], a[k], b[k])
		}
		add("other", sum(a[n:last]), sum(b[n:last]))
	}
	add("missing", a[last], b[last])
	return h
}
