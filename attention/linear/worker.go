package linear

import (
	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/kernel"
)

// windowRows is memory for the denominators of unfinished rows.
type windowRows struct{ den, scale []float64 }

// windowScratch is the memory of exact weights, with the kernel of one map prepared.
type windowScratch[T dense.Float] struct {
	of    [32]byte // fingerprint of the map whose kernel is prepared
	ready bool
	kind  kernel.Kind
	gain  float64
	embed kern.Panel[T] // gain·M of a kernel with a matrix
	// Embedded queries and keys.
	u, v      dense.Matrix[T]
	a         dense.Matrix[T] // weights
	bias      []T             // exponent terms of keys
	row       []float64       // exponent terms of queries
	lo, hi    []int           // keys in the window of each query
	embedding bool            // the kernel has a matrix
}

// worker is the scratch memory of one goroutine, and the counts of its work. use prepares it for a stream; every method
// below assumes that.
type worker[T dense.Float] struct {
	m   randfeat.FeatureMap[T]
	tab *kern.Table[T]
	ws  randfeat.Workspace[T]

	phiK, phiQ dense.Matrix[T] // features of a chunk of keys and of queries
	lent       dense.Matrix[T] // features of all keys of a stream, if Backward keeps them
	value      dense.Matrix[T] // factors of signed features; no rows for other maps
	col        []T             // −tau
	shift      []float64       // log scales of a chunk of rows, scratch
	scale      []float64       // r_i of a chunk of queries
	den        []T             // denominators of a chunk of queries
	look       int             // number of keys tried together, see next
	probe      dense.Matrix[T] // queries that guess looks at

	starS dense.Matrix[T] // sums of a view that has two addends
	starZ []T

	kBuf, vBuf, qBuf, outBuf dense.Matrix[T] // gathered rows
	pos                      []int           // positions of gathered keys
	count                    []int           // number of keys of the chunk that each query sees

	packed kern.Panel[T]   // features of the keys of a chunk, for its triangle
	lifted dense.Matrix[T] // the same divided by unlift
	unlift T
	sub    kern.Panel[T]   // the first keys of packed
	a      dense.Matrix[T] // scores of a chunk
	ones   []T
	extra  []T

	mem               memory[T] // of a stream that this worker runs alone
	seeds             sums[T]   // its seeds
	step              memory[T] // a memory before one chunk, see memory.at
	win               windowScratch[T]
	rows              windowRows
	forward, backward stream[T]
	main              stream[T] // of a State
	sinks             stream[T]

	checks bool // outputs may be not finite and are to be checked
	report attention.Report
	bad    bool // an output was not finite
}

// huge stands for −tau of a feature that no key has had. Any key with the feature exceeds e^lag then and raises the
// reference; a key without it keeps e = −Inf, where −Inf + Inf would be NaN.
const huge = 1e30

// use prepares the worker for a stream of a call.
func (w *worker[T]) use(c *streams[T], s *stream[T]) {
	w.useMap(s.m, c.tab, s.rows, c.checks || !s.m.Positive())
}

// useMap prepares the worker for a map and chunks of the given rows; checks says that outputs may be not finite.
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

// lentKeys is the place for the features of the keys at positions lo to hi−1; empty if they have none.
func (w *worker[T]) lentKeys(lo, hi int) dense.Matrix[T] {
	if w.lent.IsEmpty() {
		return w.lent
	}
	return w.lent.RowRange(lo, hi)
}

// values is scratch for the factors of rows signed features, empty for maps without them.
func (w *worker[T]) values(rows int) dense.Matrix[T] {
	if w.value.Rows == 0 {
		return dense.Matrix[T]{}
	}
	return w.value.RowRange(0, rows)
}
