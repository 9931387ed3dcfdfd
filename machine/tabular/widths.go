package tabular

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// widths fits one width per field of the kernel ("automatic relevance determination"). It maximises the log marginal
// likelihood of the targets under a Gaussian process with kernel exp(−½ Σ_f w_f²|x_f−y_f|²), the best variance, and
// noise λ relative to it (Rasmussen & Williams 2006, eqs. 5.1, 5.8 and 5.9). Classes are fitted as their indicators.
// A step takes n³/2 multiply-adds in float32, which is accurate enough because the ascent uses only the signs of the
// gradient.
type widths struct {
	x      dense.Matrix[float64] // rows
	u, t   dense.Matrix[float32] // weighted rows, centred targets
	field  []int                 // the field of every column
	k, inv dense.Matrix[float32]
	s      dense.Matrix[float32]
	mean   float64 // mean logarithm of the widths at the start
}

// firstNoise is the λ at the start of an ascent.
const firstNoise = 0.1

const (
	// widthSteps is the number of steps on a third of the rows; each first multiplies or divides a width by e^0.3.
	// They go most of the way, at 1/27 of the cost per step. lastSteps follow on all rows.
	widthSteps, firstStep = 40, 0.3
	lastSteps, laterStep  = 16, 0.1
	fewWidthRows          = 96 // so few rows are not divided
	// An ascent ends when it gains less than widthGain in widthPause steps. One standard error of one width is ½.
	widthPause = 4
	widthGain  = 0.2
	// widthPrior is the standard deviation of the logarithm of a width around the mean of all. It is large enough
	// for columns that do not matter, and keeps hundreds of widths from fitting noise.
	widthPrior = 2.0
	// Few rows with little noise are fitted equally well by kernels so wide that they are polynomials, with no noise
	// at all. Such widths say nothing about more rows. So kernels wider than the median distance, and λ below
	// firstNoise, have priors with these standard deviations of their logarithms.
	meanPrior, lambdaPrior = 1.0, 2.0
	widest                 = 5.0 // of the logarithms; beyond it a column is out of the distance, or all of it
)

// fittedWeights maximises the marginal likelihood on some rows of the sample, starting from the given widths. It
// returns widths with mean logarithm 0, and the bandwidth and penalty that belong to them.
func (c *chooser) fittedWeights(rows []int, from []float64) ([]float64, exactPoint, error) {
	w := c.newWidths(rows)
	weighted := w.x.Clone()
	weigh(weighted, c.f.columnWeights(from))
	scale := medianDistance(&sample{x: weighted}, kernel.Gaussian, c.f.o.Seed)
	p := make([]float64, len(from)+1) // log widths, log λ
	for i, v := range from {
		p[i] = math.Log(v / scale)
	}
	p[len(from)] = math.Log(firstNoise)
	w.mean = mean(p[:len(from)])
	few := w
	var err error
	if len(rows) >= 3*fewWidthRows {
		few = c.newWidths(rows[:len(rows)/3])
		few.mean = w.mean
	}
	if p, err = few.ascend(c, p, widthSteps, firstStep); err == nil && few != w {
		p, err = w.ascend(c, p, lastSteps, laterStep)
	}
	if err != nil {
		return nil, exactPoint{}, err
	}
	centre, out := mean(p[:len(from)]), make([]float64, len(from))
	for i := range out {
		out[i] = math.Exp(max(min(p[i]-centre, widest), -widest))
	}
	return out, exactPoint{math.Exp(-centre), math.Exp(p[len(from)])}, nil
}

// newWidths takes some rows of the sample and centres their targets.
func (c *chooser) newWidths(rows []int) *widths {
	x, _, t := c.s.picked(rows)
	w := &widths{x: x}
	for i := range c.f.schema.Fields {
		for range c.f.schema.Fields[i].Width() {
			w.field = append(w.field, i)
		}
	}
	for k := range t.Cols {
		mean := 0.0
		for i := range t.Rows {
			mean += t.At(i, k) / float64(t.Rows)
		}
		for i := range t.Rows {
			t.Set(i, k, t.At(i, k)-mean)
		}
	}
	w.t = dense.Convert[float32](t)
	return w
}

// ascend follows the signs of the gradient. Every parameter has its own step, which grows while the sign stays and
// shrinks when it changes (Rprop: Riedmiller & Braun 1993; here iRprop⁻, Igel & Hüsken 2000). This needs no line
// search, and a single steep direction does not dominate. It returns the best point.
func (w *widths) ascend(c *chooser, p []float64, most int, first float64) ([]float64, error) {
	step, last := make([]float64, len(p)), make([]float64, len(p))
	for i := range step {
		step[i] = first
	}
	g := make([]float64, len(p))
	top, at := math.Inf(-1), append([]float64(nil), p...)
	mark := top // best value widthPause steps ago
	for n := range most {
		if n%widthPause == 0 {
			if top-mark < widthGain {
				break
			}
			mark = top
		}
		if err := c.f.ctx.Err(); err != nil {
			return nil, err
		}
		v, err := w.evidence(g, p)
		if errors.Is(err, linalg.ErrNotPositive) { // too wide, or too little noise: go back, in small steps
			copy(p, at)
			p[len(p)-1] += 1
			clear(last)
			for i := range step {
				step[i] /= 2
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if v > top {
			top = v
			copy(at, p)
		}
		for i, d := range g {
			switch {
			case d*last[i] > 0:
				step[i] = min(1.2*step[i], 1)
			case d*last[i] < 0:
				step[i] /= 2
				d = 0
			}
			if last[i] = d; d != 0 {
				p[i] += math.Copysign(step[i], d)
			}
		}
	}
	return at, nil
}

// evidence returns the log marginal likelihood at p, up to a constant, and writes its gradient to g. It returns
// ErrNotPositive if λ is too small for float32.
func (w *widths) evidence(g, p []float64) (float64, error) {
	n, f := w.x.Rows, len(p)-1
	outs, lambda := float64(w.t.Cols), math.Exp(p[f])
	if lambda < quickLeast(n) {
		return 0, linalg.ErrNotPositive
	}
	tab := kern.Best[float32]()
	columns := make([]float64, w.x.Cols)
	for j := range columns {
		columns[j] = math.Exp(p[w.field[j]])
	}
	w.u = buf.Shaped(w.u, n, w.x.Cols)
	for i := range n {
		for j, v := range w.x.Row(i) {
			w.u.Row(i)[j] = float32(v * columns[j])
		}
	}
	w.s, w.inv, w.k = buf.Shaped(w.s, n, n), buf.Shaped(w.inv, n, n), buf.Shaped(w.k, n, n)
	if err := kernel.Gram(kernel.Kernel{Kind: kernel.Gaussian}, w.s, w.u, w.u); err != nil {
		return 0, err
	}
	for i := range n {
		copy(w.k.Row(i)[i:], w.s.Row(i)[i:])
		w.k.Row(i)[i] += float32(lambda)
	}
	if err := linalg.Cholesky(w.k); err != nil {
		return 0, err
	}
	alpha := w.t.Clone()
	if err := errors.Join(linalg.SolveT(w.k, alpha), linalg.Solve(w.k, alpha), linalg.Inverse(w.inv, w.k)); err != nil {
		return 0, err
	}
	q := 0.0
	for i, a := range alpha.Data {
		q += float64(a) * float64(w.t.Data[i])
	}
	if !(q > 0) {
		return 0, linalg.ErrNotPositive
	}
	half := float64(n) * outs / 2
	value := -half*math.Log(q) - outs/2*linalg.LogDet(w.k)
	linalg.InverseProduct(w.k, w.inv) // M = U⁻¹U⁻ᵀ, in place of U
	// S = K ∘ P with P = (2·half/q) ααᵀ − outs·M.
	diagonal := w.weighted(alpha, 2*half/q)
	su := dense.New[float32](n, w.u.Cols)
	par.For(n, 16, func(lo, hi int) { tab.Product(su.RowRange(lo, hi), w.s.RowRange(lo, hi), w.u, false) })
	clear(g)
	for i := range n {
		r := 0.0
		for _, v := range w.s.Row(i) {
			r += float64(v)
		}
		for j, v := range w.u.Row(i) {
			g[w.field[j]] -= float64(v) * (r*float64(v) - float64(su.At(i, j)))
		}
		g[f] += lambda / 2 * diagonal[i]
	}
	centre := mean(p[:f])
	off, noise := min(centre-w.mean, 0)/meanPrior, min(p[f]-math.Log(firstNoise), 0)/lambdaPrior
	value -= (off*off + noise*noise) / 2
	g[f] -= noise / lambdaPrior
	for i, v := range p[:f] {
		d := (v - centre) / widthPrior
		value -= d * d / 2
		g[i] -= d/widthPrior + off/(meanPrior*float64(f))
	}
	return value, nil
}

// weighted multiplies s by P = c·ααᵀ − outs·k elementwise and returns the diagonal of P. k holds the upper triangle.
func (w *widths) weighted(alpha dense.Matrix[float32], c float64) []float64 {
	n, outs := w.s.Rows, float32(alpha.Cols)
	diagonal := make([]float64, n)
	columns := dense.New[float32](alpha.Cols, n)
	for i := range n {
		for k, v := range alpha.Row(i) {
			columns.Set(k, i, v)
		}
	}
	tab := kern.Best[float32]()
	par.For(n, 16, func(lo, hi int) {
		p := make([]float32, n)
		for i := lo; i < hi; i++ {
			row := p[i:]
			copy(row, w.k.Row(i)[i:])
			tab.Scale(row, -outs)
			for k, v := range alpha.Row(i) {
				tab.MulAdd(row, columns.Row(k)[i:], float32(c)*v)
			}
			diagonal[i] = float64(row[0])
			tab.Mul(w.s.Row(i)[i:], row)
		}
	})
	for i := range n {
		for j := range i {
			w.s.Row(i)[j] = w.s.At(j, i)
		}
	}
	return diagonal
}
