package tabular

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine/internal/metric"
)

const (
	// leastScaling is the number of rows below which differences between scalings are noise.
	leastScaling = 200
	// alike is the ratio of the largest to the smallest weight up to which a scaling is not tried.
	alike = 1.25
	// leastRange is the least interquartile range, in standard deviations, that a robust scaling divides by. One
	// outlier among 400 values may make the standard deviation a million times the range. Below leastRange, products
	// of scaled values have too few digits left for distances.
	leastRange = 1e-6
	// A metric is learned from all rows, or from a metricShare of them if these are at least metricRows, but not from
	// more than mostMetricRows.
	metricRows, mostMetricRows = 1024, 4096
	metricShare                = 4
	// metricColumns is the number of columns up to which a metric is learned. Up to fullColumns it may be a full
	// matrix, whose eigenvectors take d³ operations.
	metricColumns = 512
	fullColumns   = 128
	// pointProducts bounds the multiply-adds of the gradients of a round: they are taken at fewer points if necessary.
	// signProducts is the bound for the Laplace kernel, whose gradients are not matrix products.
	pointProducts = 1 << 28
	signProducts  = 1 << 22
	leastPoints   = 128
)

// everyFold is the fold of a model of all rows.
const everyFold = -1

// columnsKey names encoded rows: columns, as a model without a fold of a deal learns them.
type columnsKey struct {
	of         Candidate
	deal, fold int
}

// learned is what a model learns about columns, from its rows alone.
type learned struct {
	fields []float64 // weights of the fields
	metric matrix    // of the weighted columns; empty: none
}

// learns reports whether columns depend on targets, and so on the fold.
func (f *frame) learns(c Candidate) bool {
	return c.Metric.Rounds > 0 || f.cross != nil
}

// encoded returns all rows of the frame as a model without fold k of a deal sees them.
func (e *evaluator) encoded(c Candidate, deal, k int) (matrix, error) {
	key := columnsKey{c.columns(), deal, k}
	if !e.f.learns(c) {
		key.deal, key.fold = 0, everyFold
	}
	e.mu.Lock()
	x, ok := e.columns[key]
	e.mu.Unlock()
	if ok {
		return x, nil
	}
	l, x, err := e.f.learnColumns(e.f.base(k), c, e.f.learnRows(deal, k))
	if err != nil {
		return x, err
	}
	x = l.apply(e.f.job, x)
	e.mu.Lock()
	e.columns[key] = x
	e.mu.Unlock()
	return x, nil
}

// base returns the rows as the schema encodes them, with codes of levels as a model without fold k learns them.
func (f *frame) base(k int) matrix {
	if f.cross == nil {
		return f.s.x
	}
	return f.cross.encode(f.s, f.fold[0], k)
}

// learnRows returns the rows that a model without fold k of a deal learns from.
func (f *frame) learnRows(deal, k int) []int {
	if k == everyFold {
		return seq(f.s.len())
	}
	_, from := f.rows(deal, k)
	return from
}

// apply returns the columns of x with their weights and in the metric.
func (l *learned) apply(j *job, x matrix) matrix {
	out := x
	if slices.ContainsFunc(l.fields, func(v float64) bool { return v != 1 }) {
		out = x.Clone()
		weigh(out, j.columnWeights(l.fields))
	}
	return inMetric(l.metric, out)
}

// learnColumns learns the columns of a candidate from some rows of x.
func (f *frame) learnColumns(x matrix, c Candidate, rows []int) (*learned, matrix, error) {
	l := &learned{fields: f.fieldWeights(c.Scaling, f.s.x)}
	if c.Metric.Rounds > 0 {
		some := f.hashed(rows)
		some = some[:min(len(some), max(metricRows, len(some)/metricShare), mostMetricRows)]
		u := l.apply(f.job, pick(x, some))
		var err error
		var roots []float64
		if f.roots != nil {
			roots = pickValues(f.roots, some, len(some))
		}
		if l.metric, err = f.learnMetric(u, pick(f.s.t, some), roots, c); err != nil {
			return nil, x, err
		}
	}
	return l, x, nil
}

// learnMetric learns a metric of the columns x from fits to targets t: each round takes the average outer product of
// the gradients of a fit in the metric so far. roots of the weights of rows may be nil.
func (f *frame) learnMetric(x, t matrix, roots []float64, c Candidate) (m matrix, err error) {
	u, targets := dense.Convert[float32](x), dense.Convert[float32](t)
	var w solver[float32]
	var near dense.Matrix[float32]
	n, d := x.Rows, x.Cols
	points := pointProducts / (n * d * t.Cols)
	if c.Kernel == kernel.Laplace {
		points = min(points, signProducts/(n*d))
	}
	at := u.RowRange(0, min(n, max(points, leastPoints)))
	for _, p := range c.Metric.At[:c.Metric.Rounds] {
		if err := f.ctx.Err(); err != nil {
			return m, err
		}
		in := u
		if !m.IsEmpty() {
			in = dense.New[float32](n, m.Rows)
			metric.Apply(in, u, dense.Convert[float32](m))
		}
		s := p.Width * medianDistance(dense.Convert[float64](in), c.Kernel, f.o.Seed)
		near = nearRows(near, c.Kernel, in)
		w.k = kernelsOf(w.k, near, c.Kernel, s)
		fit, err := w.factor(w.k, targets, roots, max(p.Lambda, floatLeast(n)))
		if err != nil {
			return m, err
		}
		alpha := fit.alpha.Clone()
		for i, root := range roots {
			for c := range alpha.Row(i) {
				alpha.Row(i)[c] *= float32(root)
			}
		}
		g, err := metric.AGOP(kernel.Kernel{Kind: c.Kernel, Scale: s, M: m}, u, alpha, at, c.Metric.Kind.Full())
		if err != nil {
			return m, err
		}
		if m, err = metric.Matrix(c.Metric.Kind, g); err != nil {
			return m, linalg.ErrNotPositive // a constant function
		}
	}
	return m, nil
}

// inMetric returns x·mᵀ, or x if there is no metric.
func inMetric(m, x matrix) matrix {
	if m.IsEmpty() {
		return x
	}
	out := dense.New[float64](x.Rows, m.Rows)
	metric.Apply(out, x, m)
	return out
}

// fieldWeights returns the weights of the fields in a scaling, for the rows x. Fields that are not numeric have weight
// 1.
func (j *job) fieldWeights(name string, x matrix) []float64 {
	w := make([]float64, len(j.schema.Fields))
	squares, n := 0.0, 0
	for i := range w {
		w[i] = 1
		if fd := &j.schema.Fields[i]; fd.Kind == data.Numeric {
			squares, n = squares+fd.Scale*fd.Scale, n+1
		}
	}
	if !j.weighs {
		return w
	}
	first := 0
	for i := range w {
		fd := &j.schema.Fields[i]
		at := first
		first += fd.Width()
		if fd.Kind != data.Numeric {
			continue
		}
		switch name {
		case scalingCommon:
			w[i] = fd.Scale / math.Sqrt(squares/float64(n))
		case scalingNone:
			w[i] = fd.Scale
		case scalingRobust:
			if r := interquartile(x, at) / 1.349; r > leastRange {
				w[i] = 1 / r
			}
		}
		if !(w[i] > 0) || !dense.IsFinite(w[i]) { // scales near the ends of the range of numbers
			w[i] = 1
		}
	}
	return w
}

// interquartile returns the range of the middle half of a column.
func interquartile(x matrix, col int) float64 {
	v := make([]float64, x.Rows)
	for i := range v {
		v[i] = x.At(i, col)
	}
	slices.Sort(v)
	return v[len(v)*3/4] - v[len(v)/4]
}

// columnWeights returns the weights of the encoded columns.
func (j *job) columnWeights(fields []float64) []float64 {
	var w []float64
	for i := range j.schema.Fields {
		for range j.schema.Fields[i].Width() {
			w = append(w, fields[i])
		}
	}
	return w
}

// weigh multiplies the columns of x.
func weigh(x matrix, w []float64) {
	for i := range x.Rows {
		for j, v := range w {
			x.Row(i)[j] *= v
		}
	}
}

// unweighted returns a copy of a schema without weights.
func unweighted(s *data.Schema) *data.Schema {
	out := *s
	out.Fields = slices.Clone(s.Fields)
	for i := range out.Fields {
		out.Fields[i].Weight = 0
	}
	return &out
}

// weightedFields returns a copy of a schema with these weights.
func weightedFields(s *data.Schema, w []float64) *data.Schema {
	out := unweighted(s)
	for i, v := range w {
		if v != 1 {
			out.Fields[i].Weight = v
		}
	}
	return out
}
