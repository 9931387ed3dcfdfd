package linalg

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat/dense"
)

// Margins changes the fit to squared hinge losses: targets y are 0 and 1, and predictions beyond them are not errors.
// It minimises Σ(1−f)₊² over rows with target 1, plus Σ(f)₊² over the others, plus λ αᵀKα, separately for each column
// (the L2 support-vector machine; Keerthi & DeCoste 2005, §2). d must be the least-squares fit to y with the same λ.
//
// The least-squares loss to the targets max(1, f) and min(0, f) of the present f bounds the hinge loss from above and
// touches it at f. Fitting these targets again and again therefore descends (majorisation; Groenen, Nalbantov & Bioch
// 2008). Each fit takes two substitutions with the factor of d, 2n² multiply-adds per column. Steps are accelerated
// (Nesterov 1983) and restarted when they turn back (O'Donoghue & Candès 2015). Margins ends after the given number of
// steps, or when a step changes f by less than tolerance on average. It overwrites the elements below a float32 factor.
func (d *Dual) Margins(y dense.Matrix[float64], lambda float64, steps int) error {
	const tolerance = 1e-3
	n, outs := y.Rows, y.Cols
	f, z, t := dense.New[float64](n, outs), dense.New[float64](n, outs), dense.New[float64](n, outs)
	// A factor in float32 belongs to a penalty that is larger by its shift. It serves for most of the way; the last
	// steps are exact.
	exact, near := d.mixed == nil || d.mixed.rough, lambda
	if !exact {
		near += mixedShift(n)
	}
	for i := range n {
		for c, v := range y.Row(i) {
			f.Row(i)[c] = v - float64(lambda*d.Alpha.At(i, c)) // Kα + b
		}
		copy(z.Row(i), f.Row(i))
	}
	fast, err := d.fast()
	if err != nil {
		return err
	}
	theta := 1.0
	for done := 0; done < steps; done++ {
		for i := range n {
			ti, zi := t.Row(i), z.Row(i)
			for c, v := range y.Row(i) {
				if v > 0 {
					ti[c] = max(1, zi[c])
				} else {
					ti[c] = min(0, zi[c])
				}
			}
		}
		if err := d.again(t, exact, fast); err != nil {
			return err
		}
		turn, moved := 0.0, 0.0
		for i := range n {
			fi, zi, ti, ai := f.Row(i), z.Row(i), t.Row(i), d.Alpha.Row(i)
			for c := range fi {
				next := ti[c] - float64(near*ai[c])
				turn += float64((zi[c] - next) * (next - fi[c]))
				moved += math.Abs(next - fi[c])
				ti[c] = next
			}
		}
		if turn > 0 {
			theta = 1
		}
		after := (1 + math.Sqrt(1+float64(4*theta*theta))) / 2
		ahead := (theta - 1) / after
		for i := range n {
			fi, zi, ti := f.Row(i), z.Row(i), t.Row(i)
			for c, v := range ti {
				zi[c] = v + float64(ahead*(v-fi[c]))
				fi[c] = v
			}
		}
		theta = after
		if small := moved < tolerance*float64(n*outs); small && exact {
			break
		} else if !exact && (small || done >= steps-exactSteps-1) {
			exact, near, theta, done = true, lambda, 1, max(done, steps-exactSteps-1)
		}
	}
	return nil
}

// exactSteps is the number of last steps, with exact solves, if the factor is float32.
const exactSteps = 3

// fast returns a function that sets z to the solution for the right-hand sides r with the factor of d, as it is.
func (d *Dual) fast() (func(z, r dense.Matrix[float64]) error, error) {
	if d.mixed == nil {
		return func(z, r dense.Matrix[float64]) error {
			for i := range r.Rows {
				copy(z.Row(i), r.Row(i))
			}
			return errors.Join(SolveT(d.U, z), Solve(d.U, z))
		}, nil
	}
	s, err := newSolver(d.mixed.u)
	return func(z, r dense.Matrix[float64]) error { s.columns(z, r); return nil }, err
}

// again fits other targets with the factor of d, by the solutions of fast. If exact is true, those of a float32 factor
// are refined.
func (d *Dual) again(y dense.Matrix[float64], exact bool, fast func(z, r dense.Matrix[float64]) error) error {
	clear(d.Intercept)
	for i, v := range d.ones {
		for c, t := range y.Row(i) {
			d.Intercept[c] += float64(v * t)
		}
	}
	for c := range d.Intercept {
		d.Intercept[c] /= d.sum
	}
	err := fast(d.Alpha, y)
	if err == nil && exact && d.mixed != nil && !d.mixed.rough {
		err = d.mixed.solve(d.Alpha, y, marginTolerance)
	}
	if err != nil {
		return err
	}
	for i, v := range d.ones {
		a := d.Alpha.Row(i)
		for c, b := range d.Intercept {
			a[c] -= float64(v * b)
		}
	}
	if d.Alpha.CheckFinite() != nil {
		return ErrNotPositive
	}
	return nil
}
