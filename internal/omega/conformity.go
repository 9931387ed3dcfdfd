package omega

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/special"
)

// MinimiseConformity turns the rows of w, keeping their norms, to a local minimum of the conformity. The variable
// is an unnormalised direction per row, w_i = c_i g_i/|g_i|; the objective is the logarithm of the sum, which has
// the same minimiser and neither overflows nor needs a scale.
func MinimiseConformity(w dense.Matrix[float64], v float64) {
	if w.Rows < 2 {
		return
	}
	p := newConformityProblem(w, v)
	start := append([]float64(nil), w.Data...)
	for i, c := range p.norms {
		Scale(start[i*w.Cols:(i+1)*w.Cols], 1/c)
	}
	settings := &optimize.Settings{MajorIterations: 200, GradientThreshold: 1e-7}
	// A failed line search at the rounding floor still leaves the best point found.
	if r, _ := optimize.Minimize(optimize.Problem{Func: p.value, Grad: p.gradient}, start, settings,
		&optimize.LBFGS{}); r != nil && r.F <= p.value(start) {
		start = r.X
	}
	p.place(start)
	for i := range w.Rows {
		copy(w.Row(i), p.w.Row(i))
	}
}

// conformityProblem holds the buffers of the objective.
type conformityProblem struct {
	v     float64
	norms []float64
	w     dense.Matrix[float64] // rows at the point evaluated last
	grad  dense.Matrix[float64] // ∂/∂w_i
	logs  []float64             // log Φ of every pair
	// The optimiser asks for the value and then for the gradient of the same point, whose scale is the value.
	point []float64
	log   float64
}

func newConformityProblem(w dense.Matrix[float64], v float64) *conformityProblem {
	p := &conformityProblem{v: v, norms: make([]float64, w.Rows), w: w.Clone(),
		grad: dense.New[float64](w.Rows, w.Cols)}
	for i := range p.norms {
		p.norms[i] = math.Sqrt(dense.Norm2(w.Row(i)))
	}
	return p
}

// place sets the rows to c_i g_i/|g_i|.
func (p *conformityProblem) place(g []float64) {
	copy(p.w.Data, g)
	for i, c := range p.norms {
		row := p.w.Row(i)
		Scale(row, c/math.Sqrt(dense.Norm2(row)))
	}
}

// value is log Σ_{i≠j} Φ at g.
func (p *conformityProblem) value(g []float64) float64 {
	if slices.Equal(p.point, g) {
		return p.log
	}
	p.place(g)
	p.point = append(p.point[:0], g...)
	p.log, p.logs = conformityLog(p.w, p.v, p.logs)
	return p.log
}

// gradient writes ∂ value/∂g_i = (c_i/|g_i|)(I − ĝĝᵀ) ∂/∂w_i.
func (p *conformityProblem) gradient(dst, g []float64) {
	log := p.value(g) // places the rows, too
	conformityGradient(p.grad, p.w, p.v, log)
	d := p.w.Cols
	for i, c := range p.norms {
		gi, gw, out := g[i*d:(i+1)*d], p.grad.Row(i), dst[i*d:(i+1)*d]
		n2 := dense.Norm2(gi)
		radial := dense.Dot(gi, gw) / n2
		f := c / math.Sqrt(n2)
		for j := range out {
			out[j] = f * (gw[j] - radial*gi[j])
		}
	}
}

// conformityLog is log Σ_{i≠j} Φ(|w_i+w_j|²). It collects the terms in logs, whose memory is reused.
func conformityLog(w dense.Matrix[float64], v float64, logs []float64) (float64, []float64) {
	half := float64(w.Cols) / 2
	logs = logs[:0]
	largest := math.Inf(-1)
	eachPair(w, func(_, _ int, t float64) {
		l := special.Hyp0F1Log(half, v*v*t/4)
		logs = append(logs, l)
		largest = max(largest, l)
	})
	var sum float64
	for _, l := range logs {
		sum += math.Exp(l - largest)
	}
	return largest + math.Log(2*sum), logs
}

// conformityGradient writes e^{−shift} ∂/∂w_i Σ_{i≠j} Φ = e^{−shift} 4 Σ_{j≠i} Φ′(|w_i+w_j|²)(w_i+w_j) with
// Φ′(t) = (v²/(2d)) 0F1(; d/2+1; v² t/4).
func conformityGradient(dst, w dense.Matrix[float64], v, shift float64) {
	clear(dst.Data)
	d := float64(w.Cols)
	eachPair(w, func(i, j int, t float64) {
		f := 4 * v * v / (2 * d) * math.Exp(special.Hyp0F1Log(d/2+1, v*v*t/4)-shift)
		wi, wj, gi, gj := w.Row(i), w.Row(j), dst.Row(i), dst.Row(j)
		for k, a := range wi {
			s := f * (a + wj[k])
			gi[k] += s
			gj[k] += s
		}
	})
}

// eachPair calls f with |w_i+w_j|² for all i < j.
func eachPair(w dense.Matrix[float64], f func(i, j int, t float64)) {
	for i := range w.Rows {
		wi := w.Row(i)
		for j := i + 1; j < w.Rows; j++ {
			var t float64
			for k, b := range w.Row(j) {
				s := wi[k] + b
				t += s * s
			}
			f(i, j, t)
		}
	}
}

// ConformityResult is the result of [ConformityObjective].
type ConformityResult struct {
	Rho     float64     `json:"rho"`      // mean of Φ over ordered pairs
	GradSum [][]float64 `json:"grad_sum"` // ∂/∂w_i of the sum of Φ over ordered pairs
}

// ConformityObjective is the conformity of fixed vectors w_1, …, w_m (SimRF eqs 10 and 12; docs/theory.md §4.9),
//
//	ρ = (1/(m(m−1))) Σ_{i≠j} Φ(|w_i+w_j|²),  Φ(t) = 0F1(; d/2; v² t/4),
//
// the mean of exp(v e·(w_i+w_j)) over pairs and over a common random rotation, together with the gradient of the
// sum (without the factor 1/(m(m−1))). It needs at least two rows. Values above the range of float64 become +Inf.
func ConformityObjective(w dense.Matrix[float64], v float64) (ConformityResult, error) {
	if err := w.Check(); err != nil {
		return ConformityResult{}, fmt.Errorf("coupling: W: %w", err)
	}
	if w.Rows < 2 || w.Cols < 1 {
		return ConformityResult{}, fmt.Errorf("coupling: W is %d×%d, want at least two rows: %w", w.Rows, w.Cols,
			dense.ErrShape)
	}
	m := float64(w.Rows)
	grad := dense.New[float64](w.Rows, w.Cols)
	conformityGradient(grad, w, v, 0)
	log, _ := conformityLog(w, v, nil)
	return ConformityResult{
		Rho:     math.Exp(log) / (m * (m - 1)),
		GradSum: grad.ToRows(),
	}, nil
}
