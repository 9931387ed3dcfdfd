package family

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// The second moment of a positive map is exponential in the data, so a covariance that is too small in one direction,
// as every eigenvalue of few rows may be, costs orders of magnitude on fresh pairs. Fits that invert covariances use
// the estimates of this file instead of the raw ones.

// estimate is a centre and the second moment about it that a row not seen yet should be expected to have.
type estimate struct {
	n      float64
	centre []float64
	second dense.Matrix[float64]
	// noise is the mean squared error of second relative to the square of its trace, sizeNoise the variance of the
	// logarithm of that trace, were the rows Gaussian.
	noise, sizeNoise float64
}

// fitSample is the number of rows kept to tell outliers from spread.
const fitSample = 512

// outlierTrace: if the variance of all rows exceeds that of the sampled rows without outliers by more than this factor,
// the sampled rows stand for the data.
const outlierTrace = 1.5

// fresh is the estimate about a shrunk mean, or about zero.
func (m *Moments) fresh(centred bool) estimate {
	m, rows := m.robust()
	e := estimate{n: float64(m.n), centre: make([]float64, m.Dim()), second: m.Covariance()}
	keep := 0.0
	if centred {
		keep = m.keptMean(e.second)
	}
	for i, v := range m.mean {
		e.centre[i] = keep * v
	}
	// The kept part of the mean has a variance of its own, and the covariance, which is divided by n, lacks another
	// 1/n.
	grow := 1.0
	if m.n > 1 {
		grow += keep * keep * 2 / (e.n - 1)
	}
	rest := (1 - keep) * (1 - keep)
	for i, a := range m.mean {
		row := e.second.Row(i)
		for j, b := range m.mean {
			row[j] = grow*row[j] + rest*a*b
		}
	}
	if vanishes(e.second) {
		return e
	}
	tails := excess(rows)
	inv, n := 1/freedom(e.second), e.n/(1+tails/2)
	e.sizeNoise = 2 * inv / n * few(e.n)
	d := float64(m.Dim())
	w := isotropicRows(n, d)
	if rows.Rows >= 3 {
		// A normal likelihood does not see tails, and few rows do not show them: their kurtosis is known to √(24/n).
		w = max(likeliest(e, rows), min(1, tails+math.Sqrt(24/e.n))*w)
	}
	w = max(w, oracleWeight(inv, n, d))
	shrink(e.second, w)
	left := 1 - w
	e.noise = left * left * (1 + inv) / n * few(e.n)
	return e
}

// keptMean is the share of the mean to subtract: 1 far from the origin, 0 where the mean may be one of rows about
// zero. It is the positive-part rule of James and Stein with a threshold of three standard deviations of |mean|²,
// a wrong centre costs more than a mean left in place.
func (m *Moments) keptMean(cov dense.Matrix[float64]) float64 {
	t := trace(cov)
	if m.n < 2 || t == 0 {
		return math.Min(1, float64(m.n-1))
	}
	n := float64(m.n)
	noise := t / (n - 1) * (1 + 3*math.Sqrt(2/freedom(cov))) * few(n)
	return max(0, 1-noise/dense.Norm2(m.mean))
}

// excess is the mean excess kurtosis κ ≥ 0 of the columns that vary. The variance of a sample variance is (2+κ)/n, so n
// rows with heavy tails determine the covariance as well as n/(1+κ/2) Gaussian rows.
func excess(x dense.Matrix[float64]) float64 {
	var sum, columns float64
	for l := range x.Cols {
		var mean, m2, m4 float64
		for i := range x.Rows {
			mean += x.At(i, l) / float64(x.Rows)
		}
		for i := range x.Rows {
			v := x.At(i, l) - mean
			m2 += v * v / float64(x.Rows)
		}
		if m2 == 0 {
			continue
		}
		for i := range x.Rows {
			v := (x.At(i, l) - mean) * (x.At(i, l) - mean) / m2
			m4 += v * v / float64(x.Rows)
		}
		sum += m4 - 3
		columns++
	}
	if columns == 0 {
		return 0
	}
	return max(0, sum/columns)
}

// few widens thresholds for n rows, because the estimate of their noise is uncertain too.
func few(n float64) float64 { return (n + 3) / (n - 1) }

// freedom is (tr C)²/tr C², the number of equal directions that a covariance is worth, between 1 and d.
func freedom(cov dense.Matrix[float64]) float64 {
	t, t2 := trace(cov), 0.0
	for i := range cov.Rows {
		for _, v := range cov.Row(i) {
			t2 += v / t * (v / t)
		}
	}
	return 1 / t2
}

// shrink moves c towards the multiple of the identity with its trace.
func shrink(c dense.Matrix[float64], w float64) {
	t, d := trace(c), float64(c.Rows)
	for i := range c.Rows {
		row := c.Row(i)
		for j := range row {
			row[j] *= 1 - w
		}
		row[i] += w * t / d
	}
}

// oracleWeight is the oracle-approximating weight of isotropic variance for n normal rows (Chen, Wiesel, Eldar and Hero
// 2010, eq 23), 1 for isotropic data; inv is tr C²/(tr C)².
func oracleWeight(inv, n, d float64) float64 {
	w := ((1-2/d)*inv + 1) / ((n + 1 - 2/d) * (inv - 1/d))
	if !(w >= 0 && w < 1) {
		return 1
	}
	return w
}

// isotropicRows is the weight of 2d rows of isotropic data beside n others, fewer where n is large.
func isotropicRows(n, d float64) float64 {
	r := n / (2 * d)
	return 1 / (1 + max(r, r*r))
}

// likeliest is the weight of isotropic variance with the largest mean log likelihood of sampled rows under a normal
// law, each without its own part of C (Theiler 2012). With u a row about the centre, Σ = (1-w)n/(n-1)·C + w·tr(C)/d·I
// and r = uᵀΣ^{-1}u, leaving the row out takes b·uuᵀ from Σ, b = (1-w)/(n-1), and -2 log likelihood is
// log det Σ + log(1-br) + r/(1-br).
func likeliest(e estimate, rows dense.Matrix[float64]) float64 {
	c, n := e.second, e.n
	values, u, err := eigSym(c)
	if err != nil || n < 3 {
		return 1
	}
	iso := trace(c) / float64(c.Rows)
	squares := dense.New[float64](rows.Rows, c.Rows) // of the rows in the eigenbasis
	for i := range rows.Rows {
		row := squares.Row(i)
		for l, v := range rows.Row(i) {
			for k, a := range u.Row(l) {
				row[k] += a * (v - e.centre[l])
			}
		}
		for k := range row {
			row[k] *= row[k]
		}
	}
	best, least := 1.0, math.Inf(1)
	variance := make([]float64, c.Rows)
	for w := 1.0; w > 1e-4; w *= math.Sqrt2 / 2 {
		logDet, b := 0.0, (1-w)/(n-1)
		for k, v := range values {
			variance[k] = 1 / ((1-w)*n/(n-1)*max(v, 0) + w*iso)
			logDet -= math.Log(variance[k])
		}
		var sum float64
		for i := range squares.Rows {
			r := dense.Dot(squares.Row(i), variance)
			left := 1 - b*r
			if left <= 0 {
				sum = math.Inf(1)
				break
			}
			sum += logDet + math.Log(left) + r/left
		}
		if sum < least {
			best, least = w, sum
		}
	}
	return best
}

// robust is m and its sampled rows; or the moments of these with the outliers drawn in, where rows beyond them make up
// much of the variance of m.
func (m *Moments) robust() (*Moments, dense.Matrix[float64]) {
	rows := m.sample.matrix(m.Dim())
	if rows.Rows < 3 {
		return m, rows
	}
	near := rows.Clone()
	drawIn(near)
	in := newMoments(m.Dim(), Options{Covariance: true})
	if in.Add(near) != nil || trace(m.cov)/float64(m.n) <= outlierTrace*trace(in.cov)/float64(in.n) {
		return m, rows
	}
	return in, near
}

// drawIn moves outliers to the median distance from the median: at most one row or 2 % of the rows, if they are farther
// than twenty times that distance and farther than all others.
func drawIn(x dense.Matrix[float64]) {
	mid := make([]float64, x.Cols)
	column := make([]float64, x.Rows)
	for l := range mid {
		for i := range column {
			column[i] = x.At(i, l)
		}
		slices.Sort(column)
		mid[l] = column[x.Rows/2]
	}
	dist := column
	for i := range dist {
		dist[i] = 0
		for l, v := range x.Row(i) {
			dist[i] = math.Hypot(dist[i], v-mid[l])
		}
	}
	sorted := slices.Sorted(slices.Values(dist))
	half := sorted[x.Rows/2]
	most := max(20*half, sorted[x.Rows-1-max(1, x.Rows/50)])
	for i, r := range dist {
		if r > most {
			for l, v := range x.Row(i) {
				x.Row(i)[l] = mid[l] + (v-mid[l])*(half/r)
			}
		}
	}
}

// Warning says when the smaller of two sets, with this many rows and dim columns after the kernel's embedding, is too
// small for the fit of f; "" otherwise. Such a fit stays close to OPRF, or to positive features for families without a
// proposal.
func Warning(f Fitter, rows, dim int) string {
	if !f.Needs().Covariance || rows >= 2*dim {
		return ""
	}
	return fmt.Sprintf("%s is fitted to %d rows of %d columns, too few to know their covariances: parameters are kept close to "+
		"those of isotropic rows; fit to at least %d", f.Name(), rows, dim, 2*dim)
}
