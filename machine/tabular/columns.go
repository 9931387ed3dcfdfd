package tabular

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/kernel/metric"
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
	// Rows that widths and metrics are learned from.
	widthRows, moreWidthRows = 256, 2048
	metricRows               = 1024
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
	return c.Scaling == scalingFitted || c.Metric.Rounds > 0 || f.cross != nil
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
	if c.Scaling == scalingFitted {
		some := f.hashed(rows)
		some = some[:min(len(some), f.widthsFrom(len(rows)))]
		var err error
		if l.fields, err = f.kept.widths(f, x, some, l.fields); err != nil {
			return nil, x, err
		}
	}
	if c.Metric.Rounds > 0 {
		some := f.hashed(rows)
		some = some[:min(len(some), metricRows)]
		u := l.apply(f.job, pick(x, some))
		var err error
		if l.metric, err = f.learnMetric(u, pick(f.s.t, some), c); err != nil {
			return nil, x, err
		}
	}
	return l, x, nil
}

// learnMetric learns a metric of the columns x from fits to targets t: each round takes the average outer product of
// the gradients of a fit in the metric so far.
func (f *frame) learnMetric(x, t matrix, c Candidate) (m matrix, err error) {
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
		fit, err := w.factor(w.k, targets, nil, max(p.Lambda, floatLeast(n)))
		if err != nil {
			return m, err
		}
		g, err := metric.AGOP(kernel.Kernel{Kind: c.Kernel, Scale: s, M: m}, u, fit.alpha.Clone(), at,
			c.Metric.Kind.Full())
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

// widthsFrom is the number of rows that widths are fitted to, for a model of n rows. 384 rows tell which columns
// matter, but not how narrow a kernel of very many rows may be along each. With 60,000 rows of 30 columns, of which 5
// matter, 1448 landmarks had an R² of 0.891 with widths of 512 rows (4096 landmarks too), and of 0.898 with 2048.
func (j *job) widthsFrom(n int) int {
	if limit := j.exactLimit(); limit > 0 && n > limit {
		return max(widthRows, min(moreWidthRows, j.trialRows()))
	}
	return widthRows
}

// columnsKept keeps widths of columns by the rows that they were fitted to: a part of a frame and the frame itself
// often have the same first rows.
type columnsKept struct {
	mu sync.Mutex
	by map[string]*learned
}

// widths returns widths of the columns of x, fitted to some rows.
func (k *columnsKept) widths(f *frame, x matrix, rows []int, from []float64) ([]float64, error) {
	key := fmt.Sprint(f.codes)
	for _, i := range rows {
		key += " " + strconv.FormatInt(f.s.rows[i], 36)
	}
	k.mu.Lock()
	l := k.by[key]
	k.mu.Unlock()
	if l != nil && f.cross == nil {
		return l.fields, nil
	}
	out, err := newWidths(f.job, pick(x, rows), pick(f.s.t, rows)).fit(f.job, from)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.by[key] = &learned{fields: out}
	return out, nil
}
