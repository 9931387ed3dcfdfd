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

// Sizes of a picture.
const (
	histogramLevels = 8
	histogramBins   = 8 // within the range of the fit
)

// Histogram returns the distribution of a column of a report. Bins of numbers hold about equally many rows of the fit;
// values beyond its range are in a bin at either end, and missing values are left out.
func (m *Monitor) Histogram(c Column) Histogram {
	r, f := m.r, &m.r.fields[c.field]
	s := &r.schema.Fields[c.field]
	a, b := r.sums[f.at:f.at+f.cells], m.sums[f.at:f.at+f.cells]
	last := f.cells - 1
	var h Histogram
	if len(f.edges) > 0 && s.Kind != data.Boolean {
		na, nb := max(1, sum(a[:last])), max(1, sum(b[:last]))
		at := func(e float64) float64 { return s.Mean + e*s.Scale }
		low, high := at(f.edges[0]), at(f.edges[len(f.edges)-1])
		beyond := (high - low) / histogramBins
		if b[0] > 0 {
			h.Edges, h.Old, h.New = append(h.Edges, low-beyond), append(h.Old, 0), append(h.New, b[0]/nb)
		}
		h.Edges = append(h.Edges, low)
		step := (len(f.edges)-2)/histogramBins + 1
		for k := 1; k < len(f.edges); k += step {
			end := min(k+step, len(f.edges))
			h.Edges = append(h.Edges, at(f.edges[end-1]))
			h.Old, h.New = append(h.Old, sum(a[k:end])/na), append(h.New, sum(b[k:end])/nb)
		}
		if b[last-1] > 0 {
			h.Edges, h.Old, h.New = append(h.Edges, high+beyond), append(h.Old, 0), append(h.New, b[last-1]/nb)
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
