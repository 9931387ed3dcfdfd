package choose

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// CompareOptions sets how many rows and keys [Compare] samples. The zero value has sensible defaults.
type CompareOptions struct {
	Rows int    // query rows sampled per head, over all batches; 0 means 32
	Keys int    // keys per row in the double sums of the prediction, drawn from the attention if more; 0 means 256
	Seed uint64 // seeds the sample
	// Exact also runs and times exact attention over all rows: O(L²).
	Exact bool
	// Unpredicted skips the predictions.
	Unpredicted bool
}

// LinearErrors are the errors of a sample of rows against exact attention with the kernel that the map estimates
// (Spec.Target).
type LinearErrors struct {
	Rows   int     // rows compared: the sampled rows that see a key
	Output float64 // ‖ô-o‖_F/‖o‖_F
	Row    float64 // root mean square of |â_i-a_i|₂/|a_i|₂, a_i the attention of query i over its keys
	// Variation is the mean of ½ Σ_j |â_ij-a_ij|, the share of the attention on the wrong keys. It can exceed 1 for
	// signed features.
	Variation float64
	// Rounding is ‖ô-Σ_j â_j v_j‖_F/‖o‖_F with â in float64: the part of Output that comes from the precision of T.
	Rounding  float64
	Predicted prediction
}

// comparison is the result of [Compare].
type comparison struct {
	LinearErrors                  // over all heads together
	Heads        []LinearErrors   // by query head
	Report       attention.Report // of the linear attention over all rows
	Linear       time.Duration    // time of linear attention over all rows
	Exact        time.Duration    // time of exact attention over all rows; 0 unless requested
}

// Compare runs linear attention and measures its errors on a sample of rows of every query head. It also predicts these
// errors by theory. The visibility, window and sinks of a apply. Masked keys, and keys of segments without a query, may
// hold any value. The work beyond linear attention is O(Heads·Rows·L·(m + d)).
func Compare[T dense.Float](a *linear.Attention[T], q, k, v attention.Seq[T], opt CompareOptions) (comparison, error) {
	opt.Rows, opt.Keys = cmp.Or(opt.Rows, 32), cmp.Or(opt.Keys, 256)
	if opt.Rows < 0 || opt.Keys < 2 {
		return comparison{}, fmt.Errorf("comparing %d rows with %d keys, want at least 1 and 2: %w", opt.Rows, opt.Keys,
			dense.ErrShape)
	}
	if err := q.Check("q"); err != nil {
		return comparison{}, err
	}
	if err := v.Check("v"); err != nil {
		return comparison{}, err
	}
	var c comparison
	out := attention.NewSeq[T](q.Batch, q.Heads, q.Len, v.Dim)
	start := time.Now()
	var err error
	if c.Report, err = a.Forward(out, q, k, v); err != nil {
		return c, err
	}
	c.Linear = time.Since(start)
	if opt.Exact {
		if c.Exact, err = timeExact(a, q, k, v); err != nil {
			return c, err
		}
	}
	counts := a.SeenKeys(nil, k.Batch, q.Len, k.Len)
	maps := make([]*reference64, len(a.Maps))
	for h, m := range a.Maps {
		if maps[h], err = newReference64(m, opt.Unpredicted); err != nil {
			return c, fmt.Errorf("map %d: %w", h, err)
		}
	}
	totals := make([]comparisonSums, q.Heads)
	errs := make([]error, q.Heads)
	par.For(q.Heads, 1, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			cmp := headComparison[T]{a: a, out: out, q: q, k: k, v: v, opt: opt, h: h, kv: h / (q.Heads / k.Heads),
				counts: counts}
			cmp.ref = maps[min(cmp.kv, len(maps)-1)]
			errs[h] = cmp.run(&totals[h])
		}
	})
	var all comparisonSums
	for h := range totals {
		if errs[h] != nil {
			return c, fmt.Errorf("head %d: %w", h, errs[h])
		}
		c.Heads = append(c.Heads, totals[h].errors())
		all.add(&totals[h])
	}
	c.LinearErrors = all.errors()
	return c, nil
}

// timeExact runs exact attention over the same keys. Its time does not depend on the kernel.
func timeExact[T dense.Float](a *linear.Attention[T], q, k, v attention.Seq[T]) (time.Duration, error) {
	e := attention.Exact[T]{Visibility: a.Visibility, Unchecked: a.Unchecked}
	if len(a.Maps) > 0 {
		g := a.Maps[0].Target().Gain()
		e.Scale = g * g
	}
	out := attention.NewSeq[T](q.Batch, q.Heads, q.Len, v.Dim)
	start := time.Now()
	_, err := e.Forward(out, q, k, v)
	return time.Since(start), err
}

// reference64 is a map in float64, with the same projections, with its target kernel and its predictor (nil if no
// predictions are requested).
type reference64 struct {
	m         *randfeat.Map[float64]
	target    kernel.Kernel
	predictor *predictor
}

// drawn is implemented by maps that return their spec and projections, as *randfeat.Map does. From these a comparison
// computes the map again in float64.
type drawn interface {
	Spec() randfeat.Spec
	Omega() []coupling.Omega
}

// newReference64 returns an error that wraps kernel.ErrKernel for kernels without exact weights here, and
// errors.ErrUnsupported for a map that is not drawn.
func newReference64[T dense.Float](m randfeat.FeatureMap[T], unpredicted bool) (*reference64, error) {
	target := m.Target()
	if !target.Kind.Exponential() {
		return nil, fmt.Errorf("comparisons are with exact weights of a gaussian or softmax kernel, not %v: %w", target.Kind,
			kernel.ErrKernel)
	}
	d, ok := m.(drawn)
	if !ok {
		return nil, fmt.Errorf("a %T does not tell its spec and projections: %w", m, errors.ErrUnsupported)
	}
	m64, err := randfeat.NewWithOmega[float64](d.Spec(), d.Omega())
	if err != nil {
		return nil, err
	}
	r := &reference64{m: m64, target: target}
	if !unpredicted {
		r.predictor = newPredictor(m64.Spec())
	}
	return r, nil
}

// comparisonSums accumulates squared errors over rows: of outputs (diff, norm, rounding) and of attention (row,
// variation).
type comparisonSums struct {
	rows                 int
	diff, norm, rounding float64
	row, variation       float64
	predicted            predictionSum
}

func (e *comparisonSums) add(o *comparisonSums) {
	e.rows += o.rows
	e.diff += o.diff
	e.norm += o.norm
	e.rounding += o.rounding
	e.row += o.row
	e.variation += o.variation
	e.predicted.merge(&o.predicted)
}

// errors turns the sums into LinearErrors.
func (e *comparisonSums) errors() LinearErrors {
	root := func(num, den float64) float64 {
		if num <= 0 {
			return 0
		}
		return math.Sqrt(num / den)
	}
	n := float64(e.rows)
	out := LinearErrors{Rows: e.rows, Output: root(e.diff, e.norm), Row: root(e.row, n),
		Rounding: root(e.rounding, e.norm)}
	if e.rows > 0 {
		out.Variation = e.variation / n
	}
	out.Predicted = e.predicted.prediction()
	return out
}

// headComparison compares the sampled rows of one query head.
type headComparison[T dense.Float] struct {
	a            *linear.Attention[T]
	out, q, k, v attention.Seq[T]
	opt          CompareOptions
	h, kv        int
	counts       []bool // see attention.Visibility.SeenKeys
	ref          *reference64
}

// maxCells bounds the number of rows×keys that a block holds in float64.
const maxCells = 1 << 22

// run samples rows and compares them in blocks of one batch and at most maxCells numbers.
func (c *headComparison[T]) run(e *comparisonSums) error {
	if c.ref.predictor != nil {
		e.predicted = c.ref.predictor.sum()
	}
	at := 0
	rows := drawRows(c.q.Batch*c.q.Len, c.opt.Rows, rng.Stream(c.opt.Seed, uint64(c.h)))
	for at < len(rows) {
		b := rows[at] / c.q.Len
		n := at
		for n < len(rows) && rows[n]/c.q.Len == b && (n == at || (n-at+1)*c.k.Len <= maxCells) {
			n++
		}
		positions := make([]int, n-at)
		for i := range positions {
			positions[i] = rows[at+i] % c.q.Len
		}
		if err := c.block(e, b, positions); err != nil {
			return err
		}
		at = n
	}
	return nil
}

// drawRows draws n of the numbers 0 to total−1 without replacement, in ascending order.
func drawRows(total, n int, src rand.Source) []int {
	if n >= total {
		n = total
	}
	// Floyd's algorithm: n draws, no list of all rows.
	r, seen := rand.New(src), map[int]bool{}
	out := make([]int, 0, n)
	for j := total - n; j < total; j++ {
		v := r.IntN(j + 1)
		if seen[v] {
			v = j
		}
		seen[v] = true
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// block compares query rows of batch b at the given positions. In float64 it computes the exact logarithms of weights
// and the logarithms of their estimates, normalises both, and applies both to the values. The logarithms keep weights
// of very different sizes finite.
func (c *headComparison[T]) block(e *comparisonSums, b int, positions []int) error {
	q, k, v := c.q.Head(b, c.h), c.k.Head(b, c.kv), c.v.Head(b, c.kv)
	n, m := len(positions), c.ref.m
	rows := dense.New[float64](n, q.Cols)
	for i, p := range positions {
		for l, x := range q.Row(p) {
			rows.Row(i)[l] = float64(x)
		}
	}
	phi, phiScale := dense.New[float64](n, m.OutDim()), make([]float64, n)
	if err := m.Queries(phi, phiScale, rows, nil); err != nil {
		return err
	}
	dim := c.ref.target.Dim(q.Cols)
	x, xNorms := dense.New[float64](n, dim), make([]float64, n)
	for i := range n {
		c.ref.target.Embed(x.Row(i), rows.Row(i))
		xNorms[i] = dense.Norm2(x.Row(i))
	}
	var mask []bool
	if c.a.KeyMask != nil {
		mask = c.a.KeyMask[b*c.k.Len : (b+1)*c.k.Len]
	}
	seen := make([]keyRange, n)
	for i, p := range positions {
		lo, hi, at := c.a.Keys(b, p, c.q.Len, c.k.Len)
		seen[i] = keyRange{k0: lo, k1: hi, p: at, window: c.a.Window, sinks: lo}
		for n := c.a.Sinks; n > 0 && seen[i].sinks < hi; seen[i].sinks++ {
			if mask == nil || mask[seen[i].sinks] {
				n--
			}
		}
	}
	// weights and estimates are logarithms until normalise; negative has the sign of an estimate.
	weights, estimates := dense.New[float64](n, c.k.Len), dense.New[float64](n, c.k.Len)
	negative := make([]bool, n*c.k.Len)
	const step = 128
	tab, err := kern.Chosen[float64]()
	if err != nil {
		return err
	}
	psi, psiScale := dense.New[float64](step, m.OutDim()), make([]float64, step)
	y, norms := dense.New[float64](step, dim), make([]float64, step)
	dots, logs := dense.New[float64](n, step), dense.New[float64](n, step)
	var ws randfeat.Workspace[float64]
	var panel kern.Panel[float64]
	for k0 := 0; k0 < k.Rows; k0 += step {
		k1 := min(k0+step, k.Rows)
		keys := c.rows64(k, b, k0, k1)
		if err := m.Keys(psi.RowRange(0, k1-k0), psiScale[:k1-k0], keys, &ws); err != nil {
			return err
		}
		for j := range k1 - k0 {
			c.ref.target.Embed(y.Row(j), keys.Row(j))
			norms[j] = dense.Norm2(y.Row(j))
		}
		dots, logs = buf.Shaped(dots, n, k1-k0), buf.Shaped(logs, n, k1-k0)
		tab.Pack(&panel, psi.RowRange(0, k1-k0))
		tab.MulT(dots, phi, &panel, nil)
		tab.Pack(&panel, y.RowRange(0, k1-k0))
		tab.MulT(logs, x, &panel, nil)
		for i := range n {
			w, est, neg := weights.Row(i)[k0:k1], estimates.Row(i)[k0:k1], negative[i*c.k.Len+k0:]
			for j := range w {
				if !seen[i].sees(k0+j) || mask != nil && !mask[k0+j] {
					w[j], est[j] = math.Inf(-1), math.Inf(-1)
					continue
				}
				w[j] = logs.At(i, j)
				if c.ref.target.Kind != kernel.Softmax { // −|x−y|²/2
					w[j] -= (xNorms[i] + norms[j]) / 2
				}
				if est[j] = w[j]; !seen[i].exact(k0 + j) {
					dot := dots.At(i, j)
					est[j] = math.Log(math.Abs(dot)) + phiScale[i] + psiScale[j]
					neg[j] = dot < 0
				}
			}
		}
	}
	any := make([]bool, n)
	for i := range n {
		a, est := weights.Row(i), estimates.Row(i)
		if any[i] = seen[i].k0 < seen[i].k1 && normalise(a, nil); any[i] {
			normalise(est, negative[i*c.k.Len:(i+1)*c.k.Len])
		} else {
			clear(a)
			clear(est)
		}
	}
	outputs, estimated := dense.New[float64](n, v.Cols), dense.New[float64](n, v.Cols)
	for k0 := 0; k0 < k.Rows; k0 += step {
		k1 := min(k0+step, k.Rows)
		values := c.rows64(v, b, k0, k1)
		tab.Product(outputs, weights.ColRange(k0, k1), values, true)
		tab.Product(estimated, estimates.ColRange(k0, k1), values, true)
	}
	for i, p := range positions {
		if !any[i] {
			continue // sees no key
		}
		err := c.row(e, b, p, x.Row(i), weights.Row(i), estimates.Row(i), outputs.Row(i), estimated.Row(i), k, v,
			seen[i])
		if err != nil {
			return err
		}
	}
	return nil
}

// rows64 returns rows k0 to k1−1 of keys or values in float64. Rows that no query sees may hold anything; they become
// zeros.
func (c *headComparison[T]) rows64(m dense.Matrix[T], b, k0, k1 int) dense.Matrix[float64] {
	out := dense.Convert[float64](m.RowRange(k0, k1))
	for j := k0; c.counts != nil && j < k1; j++ {
		if !c.counts[b*c.k.Len+j] {
			clear(out.Row(j - k0))
		}
	}
	return out
}

// normalise replaces logarithms by weights with sum 1, negative where negative says so. It returns false and clears w
// if there is no weight or their sum is 0.
func normalise(w []float64, negative []bool) bool {
	top := math.Inf(-1)
	for _, v := range w {
		top = max(top, v)
	}
	if math.IsInf(top, -1) {
		clear(w)
		return false
	}
	var sum float64
	for j, v := range w {
		w[j] = math.Exp(v - top)
		if negative != nil && negative[j] {
			w[j] = -w[j]
		}
		sum += w[j]
	}
	if sum == 0 {
		clear(w)
		return false
	}
	for j := range w {
		w[j] /= sum
	}
	return true
}

// keyRange describes the keys of one query at position p: it sees keys [k0, k1). The weights of keys within the window
// around p, and of keys before sinks, are exact.
type keyRange struct{ k0, k1, p, window, sinks int }

func (v keyRange) sees(j int) bool { return j >= v.k0 && j < v.k1 }

// exact reports whether the weight of key j is computed exactly, because j is in the window or a sink.
func (v keyRange) exact(j int) bool {
	return j < v.sinks || v.window > 0 && j > v.p-v.window && j < v.p+v.window
}

// row adds the errors of one query. x is the embedded query, a and est its exact and estimated attention, o and oEst
// the outputs by these in float64.
func (c *headComparison[T]) row(e *comparisonSums, b, p int, x, a, est, o, oEst []float64, k, v dense.Matrix[T],
	w keyRange) error {
	var diff, norm, variation float64
	for j := w.k0; j < w.k1; j++ {
		d := est[j] - a[j]
		diff += d * d
		norm += a[j] * a[j]
		variation += math.Abs(d) / 2
	}
	e.rows++
	e.row += diff / norm
	e.variation += variation
	for l, got := range c.out.Head(b, c.h).Row(p) {
		e.diff += (float64(got) - o[l]) * (float64(got) - o[l])
		e.rounding += (float64(got) - oEst[l]) * (float64(got) - oEst[l])
		e.norm += o[l] * o[l]
	}
	if c.ref.predictor == nil {
		return nil
	}
	pred, err := c.ref.predictor.row(x, c.keysOf(a, o, k, v, w, uint64(b*c.q.Len+p)))
	if err != nil {
		return err
	}
	e.predicted.add(pred, dense.Norm2(o), norm)
	return nil
}

// keysOf returns the keys for the prediction of one row: all that have attention, or opt.Keys draws from the attention.
// label makes the draws of rows independent.
func (c *headComparison[T]) keysOf(a, o []float64, k, v dense.Matrix[T], w keyRange, label uint64) rowKeys {
	seen := 0
	for j := w.k0; j < w.k1; j++ {
		if a[j] > 0 {
			seen++
		}
	}
	n, sampled := seen, seen > c.opt.Keys
	var pick []int
	if sampled {
		n = c.opt.Keys
		pick = drawFrom(a[w.k0:w.k1], n, rng.Stream(c.opt.Seed, uint64(c.h), label))
	} else {
		for j := w.k0; j < w.k1; j++ {
			if a[j] > 0 {
				pick = append(pick, j-w.k0)
			}
		}
	}
	dim := c.ref.target.Dim(k.Cols)
	out := rowKeys{Embedded: dense.New[float64](n, dim), Attention: make([]float64, n), Exact: make([]bool, n),
		Deviations: dense.New[float64](n, v.Cols), Sampled: sampled}
	raw := make([]float64, k.Cols)
	for s, j := range pick {
		j += w.k0
		for l, x := range k.Row(j) {
			raw[l] = float64(x)
		}
		c.ref.target.Embed(out.Embedded.Row(s), raw)
		out.Attention[s], out.Exact[s] = a[j], w.exact(j)
		for l, x := range v.Row(j) {
			out.Deviations.Row(s)[l] = float64(x) - o[l]
		}
	}
	return out
}

// drawFrom draws n indices independently, with probabilities p, and returns them in ascending order. It never returns
// an index of probability 0, even if rounding leaves the sum of p below a draw.
func drawFrom(p []float64, n int, src rand.Source) []int {
	r := rand.New(src)
	u := make([]float64, n)
	for s := range u {
		u[s] = r.Float64()
	}
	slices.Sort(u)
	out := make([]int, n)
	last := len(p) - 1
	for last > 0 && p[last] == 0 {
		last--
	}
	sum, at := 0.0, 0
	for s, v := range u {
		for at < last && sum+p[at] <= v {
			sum += p[at]
			at++
		}
		out[s] = at
	}
	return out
}
