package linalg

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// KernelRows sets dst to the kernels of some rows with all rows.
type KernelRows func(dst dense.Matrix[float64], rows []int) error

// SolveMargins is the fit of [Dual.Margins] by Newton's method. Rows beyond their target have α = 0, and the others
// solve a least-squares problem among themselves. Each step takes the rows that are not beyond their target now, until
// this set no longer changes (Keerthi & DeCoste 2005, §3; Chapelle 2007, "Training a support vector machine in the
// primal", §4.4). Steps begin on every 16th row, and the number of rows is doubled level by level, so that most rows
// are known to be beyond their target before they are first used. Only rows that are once active need their kernels.
// A step with a active rows takes a³/6 multiply-adds. SolveMargins reports false if all steps together would take more
// than most of them, or if a matrix is singular. An error is one of k.
func SolveMargins(k KernelRows, y dense.Matrix[float64], lambda, most float64) (*Dual, bool, error) {
	return solveMargins(&keptRows{of: k, rows: make([][]float64, y.Rows)}, y, lambda, most, 1)
}

// MarginsWorth reports whether SolveMargins is likely to succeed for the rows of which k and y are every eighth:
// whether its first levels, which use no others, stay within most, which is for all rows.
func MarginsWorth(k, y dense.Matrix[float64], lambda, most float64) bool {
	kept := &keptRows{rows: make([][]float64, y.Rows)}
	for i := range kept.rows {
		kept.rows[i] = k.Row(i)
	}
	_, ok, _ := solveMargins(kept, y, lambda, most, MarginsEvery) // no error: all rows are there
	return ok
}

// keptRows holds the rows of a kernel matrix that were needed so far.
type keptRows struct {
	of   KernelRows
	rows [][]float64 // nil: not needed yet
}

// need computes those of the given rows that are missing.
func (k *keptRows) need(rows []int) error {
	var missing []int
	for _, i := range rows {
		if k.rows[i] == nil {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	m := dense.New[float64](len(missing), len(k.rows))
	if err := k.of(m, missing); err != nil {
		return err
	}
	for at, i := range missing {
		k.rows[i] = m.Row(at)
	}
	return nil
}

// MarginsEvery is the share of the rows that MarginsWorth takes.
const MarginsEvery = 8

// solveMargins is SolveMargins if every is 1. Else the rows are one in every of those that the budget is for.
func solveMargins(k *keptRows, y dense.Matrix[float64], lambda, most float64, every int) (*Dual, bool, error) {
	n := y.Rows
	all := n * every
	d := &Dual{Alpha: dense.New[float64](n, y.Cols), Intercept: make([]float64, y.Cols)}
	cube := func(a int) float64 { return float64(a) * float64(a) * float64(a) / 6 }
	left := most
	for c := range y.Cols {
		m := &margin{k: k, lambda: lambda, y: make([]float64, n), f: make([]float64, n), alpha: make([]float64, n),
			b: 0.5}
		for i := range n {
			m.y[i], m.f[i] = y.At(i, c), m.b
		}
		for stride := activeLevels / every; stride > 0; stride /= 2 {
			m.rows = m.rows[:0]
			for i := 0; i < n; i += stride {
				m.rows = append(m.rows, i)
			}
			for step := range activeSteps {
				a := m.active()
				if m.last != nil && slices.Equal(a, m.last) {
					break
				}
				// Expected cost of the steps on all rows, for this class and the remaining ones, if the further rows
				// are as often active as those that this level added.
				later := 0.0
				if stride*every < activeLevels && step == 0 {
					later = float64(3*(y.Cols-c)) * cube(min(max(2*stride*every*(len(a)-len(m.last)), len(a)), all))
				}
				if left -= cube(len(a)); left < later {
					return nil, false, nil
				}
				if err := k.need(a); err != nil {
					return nil, false, err
				}
				moved, ok := m.step(a)
				if !ok {
					return nil, false, nil
				}
				if moved < activeTolerance || stride > 1 && step+1 >= activeFirst {
					break
				}
			}
		}
		for i, v := range m.alpha {
			d.Alpha.Set(i, c, v)
		}
		d.Intercept[c] = m.b
	}
	if d.Alpha.CheckFinite() != nil {
		return nil, false, nil
	}
	return d, true, nil
}

const (
	activeLevels    = 16   // the first level uses one row in this many
	activeFirst     = 6    // steps at most on a part of the rows
	activeSteps     = 40   // steps at most on all rows
	activeTolerance = 1e-5 // mean change of f at which a level ends
	activeShort     = 1e-3 // a row that was not active becomes active only if it is short by more than this
)

// margin is the fit of one class: f = Kα + b.
type margin struct {
	k       *keptRows
	y, f    []float64
	alpha   []float64
	b       float64
	lambda  float64
	rows    []int                 // rows of the current level
	last    []int                 // rows that were active in the last step
	u       dense.Matrix[float64] // kernels of the active rows, then their factor
	forward []float64             // change of f by a full step
}

// active returns the rows that are not beyond their target. Rows that were beyond and are now short of it only by
// rounding stay out: in tables of levels whole groups of rows lie exactly on their margin, and would otherwise flip
// forever.
func (m *margin) active() []int {
	var out []int
	for _, i := range m.rows {
		if s := math.Abs(m.short(i, m.f[i])); s > activeShort || s > 0 && m.alpha[i] != 0 {
			out = append(out, i)
		}
	}
	return out
}

// short is the signed amount by which a prediction f of row i falls short of its target, 0 if it is beyond it.
func (m *margin) short(i int, f float64) float64 {
	if m.y[i] > 0 {
		return max(1-f, 0)
	}
	return min(-f, 0)
}

// step solves for the active rows a and moves there, or as far along the line as the objective falls. It returns the
// mean change of f, and false if the system is singular.
func (m *margin) step(a []int) (float64, bool) {
	m.last = a
	n, alpha, b := len(m.y), make([]float64, len(m.y)), 0.0
	if len(a) > 0 {
		m.u = buf.Shaped(m.u, len(a), len(a))
		u, t := m.u, dense.New[float64](len(a), 1)
		par.For(len(a), 16, func(lo, hi int) {
			for r := lo; r < hi; r++ {
				row, from := u.Row(r), m.k.rows[a[r]]
				for c := r; c < len(a); c++ {
					row[c] = from[a[c]]
				}
			}
		})
		for r, i := range a {
			t.Set(r, 0, m.y[i])
		}
		d, err := SolveDual(u, t, m.lambda)
		if err != nil {
			return 0, false
		}
		for r, i := range a {
			alpha[i] = d.Alpha.At(r, 0)
		}
		b = d.Intercept[0]
	}
	// alpha becomes the change of α, df the change of f by a full step.
	tab := kern.Best[float64]()
	if m.forward == nil {
		m.forward = make([]float64, n)
	}
	df := m.forward
	db := b - m.b
	var rows []int
	for i := range alpha {
		if alpha[i] -= m.alpha[i]; alpha[i] != 0 {
			rows = append(rows, i)
		}
	}
	par.For((n+stripe-1)/stripe, 1+(1<<16)/(stripe*(1+len(rows))), func(lo, hi int) {
		lo, hi = lo*stripe, min(hi*stripe, n)
		part := df[lo:hi]
		for i := range part {
			part[i] = db
		}
		for _, i := range rows {
			tab.MulAdd(part, m.k.rows[i][lo:hi], alpha[i])
		}
	})
	q1, q2, moved := 0.0, 0.0, 0.0 // αᵀKΔ, ΔᵀKΔ
	for i, v := range df {
		q1 += float64(m.alpha[i] * (v - db))
		q2 += float64(alpha[i] * (v - db))
		moved += math.Abs(v)
	}
	slope := func(t float64) float64 { // derivative of half the objective at step length t
		s := float64(m.lambda * (q1 + float64(t*q2)))
		for _, i := range m.rows {
			s -= float64(m.short(i, m.f[i]+float64(t*df[i])) * df[i])
		}
		return s
	}
	// The objective is convex in t. If a full step goes too far, the slope there is positive, and the minimum is where
	// it is 0.
	t := 1.0
	if slope(1) > activeSlope*math.Abs(slope(0)) {
		lo, hi := 0.0, 1.0
		for range 30 {
			if t = (lo + hi) / 2; slope(t) > 0 {
				hi = t
			} else {
				lo = t
			}
		}
	}
	for i, v := range df {
		m.f[i] += float64(t * v)
		m.alpha[i] += float64(t * alpha[i])
	}
	m.b += float64(t * db)
	return t * moved / float64(n), true
}

// activeSlope is the part of the initial slope that may remain.
const activeSlope = 1e-3
