package watch

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/kernel"
)

// Sizes of the statistics of a row, which bound a reference to 200 kB.
const (
	bandwidths = 3
	mostBins   = 32     // bins of a column of numbers, without those beyond its range
	leastBins  = 4      // of a column of a wide table
	binBytes   = 100000 // bytes for the bins of all columns of a reference
	mostPairs  = 512    // pairs of columns whose product is tested
	mostFields = 2000   // columns that are tested one by one; the joint test reads all
)

// Standardised values are clipped where outliers would dominate: at ±clipped for products, at ±away for random
// features, at ±capped for means.
const (
	clipped = 3
	away    = 5
	capped  = 1e6
)

// scales are the bandwidths in units of the median distance between two rows.
var scales = [bandwidths]float64{0.25, 0.6, 1.5}

// layout says which statistics a row has and where their sums begin. A row contributes a vector of numbers, and one
// count per column.
type layout struct {
	schema   *data.Schema
	maps     [bandwidths]*randfeat.Map[float32]
	features int // of one map
	fields   []field
	columns  []encoded // encoded columns that enter pairs
	pairs    []pair
	moved    []bool // encoded columns of times, which move on by themselves: they enter no joint test

	// Offsets: features of all maps, values and squares of columns, of products of pairs, and of numbers,
	// rows far from the fit, predictions, counts.
	atColumns, atPairs, atMeans, atFar, atPredictions, atCounts, size int
}

// field is a column of the table. It has one count per cell: bins of numbers (below the fit, within, above), or levels
// and other; then missing.
type field struct {
	first, indicator int       // encoded columns: the first one, and the one of missing values
	edges            []float64 // of numbers: upper ends of the bins, the first one below the smallest value of the fit
	levels           int       // encoded columns of levels, with other; 0: not a column of levels
	kept             int       // levels that are counted one by one; the rest counts as other
	mean             int       // number of its mean among those of numbers; −1: none
	at, cells        int       // its counts
}

// encoded is an encoded column with its mean and scale in the reference.
type encoded struct {
	col         int
	mean, scale float64
}

// pair is two of the columns of a layout.
type pair struct{ a, b int }

// draw draws the maps of random features. median is the median distance between two rows.
func (l *layout) draw(median float64, projections int, seed uint64) error {
	for b, s := range scales {
		m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Gaussian, Scale: s * median},
			Family: family.Trig{}, Coupling: coupling.Orthogonal{}, Dim: l.schema.Width(), M: projections,
			Seed: seed + uint64(b)})
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		l.maps[b], l.features = m, m.OutDim()
	}
	return nil
}

// place computes the offsets for rows with the given number of statistics of predictions.
func (l *layout) place(predictions int) {
	l.moved = make([]bool, l.schema.Width())
	first := 0
	for i := range l.schema.Fields {
		f := &l.schema.Fields[i]
		for j := range f.Width() - 1 { // the last one says that a time is missing
			l.moved[first+j] = f.Kind == data.Time
		}
		first += f.Width()
	}
	l.atColumns = bandwidths * l.features
	l.atPairs = l.atColumns + 2*len(l.columns)
	l.atMeans = l.atPairs + 2*len(l.pairs)
	l.atFar = l.atMeans
	for i := range l.fields {
		f := &l.fields[i]
		f.mean = -1
		if len(f.edges) > 0 {
			f.mean = (l.atFar - l.atMeans) / 2
			l.atFar += 2
		}
	}
	l.atPredictions = l.atFar + 1
	l.atCounts = l.atPredictions + predictions
	l.size = l.atCounts
	for i := range l.fields {
		f := &l.fields[i]
		f.at = l.size
		switch {
		case len(f.edges) > 0:
			f.cells = len(f.edges) + 2
		default:
			f.cells = f.kept + 2
		}
		l.size += f.cells
	}
}

// cell returns the count of a row among those of the field.
func (f *field) cell(row []float64) int {
	switch {
	case row[f.indicator] != 0:
		return f.cells - 1
	case len(f.edges) > 0:
		return f.bin(row[f.first])
	}
	for k := range f.kept {
		if row[f.first+k] != 0 {
			return k
		}
	}
	return f.kept // other, or a text
}

// bin returns the first bin whose upper end is not below z, or the number of edges.
func (f *field) bin(z float64) int {
	lo, hi := 0, len(f.edges)
	for lo < hi {
		if mid := (lo + hi) / 2; f.edges[mid] < z {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// statistics holds those of a block of rows, and the memory to compute them.
type statistics struct {
	vector dense.Matrix[float32] // the numbers of every row: atCounts columns
	cells  []int32               // offsets of the counts of every row, one per field
	x, phi dense.Matrix[float32]
	u      []float32
	ws     randfeat.Workspace[float32]
}

// of computes the statistics of encoded rows, except for those of predictions, which are 0. A row is far from the fit
// if its mean kernel with the rows of the fit is below limit; centre is the mean of the features of the widest kernel.
func (s *statistics) of(l *layout, x dense.Matrix[float64], centre []float32, limit float32) error {
	s.x, s.phi = buf.Shaped(s.x, x.Rows, x.Cols), buf.Shaped(s.phi, x.Rows, l.features)
	s.vector = buf.Shaped(s.vector, x.Rows, l.atCounts)
	for i := range x.Rows {
		row := s.x.Row(i)
		for j, v := range x.Row(i) {
			row[j] = float32(min(max(v, -away), away))
			if l.moved[j] {
				row[j] = 0
			}
		}
	}
	s.ws.Workers = 1
	for b, m := range l.maps {
		if err := m.Queries(s.phi, nil, s.x, &s.ws); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		for i := range x.Rows {
			copy(s.vector.Row(i)[b*l.features:], s.phi.Row(i))
		}
	}
	s.u, s.cells = buf.Sized(s.u, len(l.columns)), s.cells[:0]
	for i := range x.Rows {
		row, v := x.Row(i), s.vector.Row(i)
		for k, c := range l.columns {
			u := float32(min(max((row[c.col]-c.mean)/c.scale, -clipped), clipped))
			s.u[k], v[l.atColumns+2*k], v[l.atColumns+2*k+1] = u, u, u*u
		}
		for k, p := range l.pairs {
			u := s.u[p.a] * s.u[p.b]
			v[l.atPairs+2*k], v[l.atPairs+2*k+1] = u, u*u
		}
		for k := range l.fields {
			f := &l.fields[k]
			if f.mean >= 0 {
				z := min(max(row[f.first], -capped), capped) // 0 if missing
				v[l.atMeans+2*f.mean], v[l.atMeans+2*f.mean+1] = float32(z), float32(z*z)
			}
			s.cells = append(s.cells, int32(f.at+f.cell(row)))
		}
		v[l.atFar] = 0
		if kernelMean(v[l.atColumns-l.features:], centre) < limit {
			v[l.atFar] = 1
		}
		clear(v[l.atPredictions:])
	}
	return nil
}

// kernelMean is the mean kernel between a row and the rows whose mean feature is centre.
func kernelMean(phi, centre []float32) (s float32) {
	for f, c := range centre {
		s += phi[f] * c
	}
	return s
}
