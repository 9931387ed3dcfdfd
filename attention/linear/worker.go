package linear

import (
	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/kernel"
)

// windowRows keeps the denominators of unfinished rows.
type windowRows struct{ den, scale []float64 }

// windowScratch is the memory of exact weights.
type windowScratch[T dense.Float] struct {
	of        [32]byte // the map whose kernel is prepared
	ready     bool
	kind      kernel.Kind
	gain      float64
	embed     kern.Panel[T] // gain·M
	u, v      dense.Matrix[T]
	a         dense.Matrix[T] // weights
	bias      []T
	row       []float64
	lo, hi    []int
	embedding bool
}

// worker is the scratch memory of one goroutine, and the counts of what it has done.
type worker[T dense.Float] struct {
	m   randfeat.FeatureMap[T]
	tab *kern.Table[T]
	ws  randfeat.Workspace[T]

	phiK, phiQ dense.Matrix[T] // a chunk of features
	lent       dense.Matrix[T] // where those of all keys of a stream are kept, if they are
	value      dense.Matrix[T] // factors of signed features
	col        []T             // −tau
	shift      []float64
	scale      []float64 // r_i of a chunk of queries
	den        []T
	look       int // keys tried together
	probe      dense.Matrix[T]

	starS dense.Matrix[T] // of a view
	starZ []T

	kBuf, vBuf, qBuf, outBuf dense.Matrix[T] // gathered rows
	pos                      []int           // positions of gathered keys
	count                    []int           // keys of the chunk seen by each query

	packed kern.Panel[T]   // features of the keys of a chunk
	lifted dense.Matrix[T] // they, multiplied by 1/unlift
	unlift T
	sub    kern.Panel[T]   // the first of them
	a      dense.Matrix[T] // scores of a chunk
	ones   []T
	extra  []T

	mem               memory[T] // of a stream that one worker runs
	seeds             sums[T]   // and its references
	step              memory[T] // before a chunk
	win               windowScratch[T]
	rows              windowRows
	forward, backward stream[T]
	main              stream[T] // of a decoder
	sinks             stream[T]

	checks bool
	report attention.Report
	bad    bool // an output was not finite
}

// huge stands for −tau of a feature that no key has had: any key with the feature exceeds it, and −Inf stays −Inf.
const huge = 1e30

// use prepares for a stream of a call.
func (w *worker[T]) use(c *streams[T], s *stream[T]) {
	w.useMap(s.m, c.tab, s.rows, c.checks || !s.m.Positive())
}

// useMap prepares for a map and chunks of the given rows; checks says that outputs may not be finite.
func (w *worker[T]) useMap(m randfeat.FeatureMap[T], tab *kern.Table[T], rows int, checks bool) {
	f := m.OutDim()
	w.m, w.tab, w.ws.Workers, w.checks = m, tab, 1, checks
	w.phiK, w.phiQ = buf.Shaped(w.phiK, rows, f), buf.Shaped(w.phiQ, rows, f)
	if m.Signed() {
		w.value = buf.Shaped(w.value, rows, f)
	} else {
		w.value = dense.Matrix[T]{Data: w.value.Data[:0]}
	}
	w.col = buf.Sized(w.col, f)
	w.shift, w.scale, w.den, w.extra = buf.Sized(w.shift, rows), buf.Sized(w.scale, rows), buf.Sized(w.den, rows),
		buf.Sized(w.extra, rows)
	w.look = rows
	if len(w.ones) < rows {
		w.ones = buf.Sized(w.ones, rows)
		for i := range w.ones {
			w.ones[i] = 1
		}
	}
	w.count = buf.Sized(w.count, rows)
	w.a = buf.Shaped(w.a, rows, rows)
}

// lentKeys is where the features of the keys at positions lo to hi−1 are kept; empty: nowhere.
func (w *worker[T]) lentKeys(lo, hi int) dense.Matrix[T] {
	if w.lent.IsEmpty() {
		return w.lent
	}
	return w.lent.RowRange(lo, hi)
}

// values is the scratch for the values of rows features, empty for maps that have none.
func (w *worker[T]) values(rows int) dense.Matrix[T] {
	if w.value.Rows == 0 {
		return dense.Matrix[T]{}
	}
	return w.value.RowRange(0, rows)
}
