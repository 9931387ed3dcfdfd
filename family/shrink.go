package family

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// The second moment of a positive map is exponential in the data. If a covariance is too small in one direction, as the
// small eigenvalues of few rows always are, the error on fresh pairs grows by orders of magnitude. Fits that invert
// covariances therefore use the estimates of this file instead of the raw ones (docs/theory.md §2.18).

// estimate is a centre and the expected second moment about it of rows that the fit has not seen.
type estimate struct {
	n      float64 // rows that it is based on
	centre []float64
	second dense.Matrix[float64]
	// noise is the mean squared error of second relative to the square of its trace, and sizeNoise the variance of the
	// logarithm of that trace, both as they would be for Gaussian rows.
	noise, sizeNoise float64
}

// fitSample is the number of rows kept to tell outliers from spread.
const fitSample = 512

// outlierTrace is a ratio of variances: if the variance of all rows exceeds that of the sampled rows without outliers
// by more, the sampled rows are used in place of all.
const outlierTrace = 1.5

// fresh estimates centre and second moment of fresh rows, about a shrunk mean if centred and about zero otherwise. Its
// steps are: drop outliers (robust); shrink the mean (keptMean); add the part of the mean that was not kept to the
// second moment; shrink the second moment towards an isotropic one by the largest of three weights (likelihood, oracle,
// and a minimum for few rows or heavy tails).
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
	// The kept part of the mean is an estimate with a variance of its own, and the covariance is divided by n instead
	// of n−1: each accounts for one factor of about 1 + 1/n.
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
		// A normal likelihood is blind to heavy tails, and few rows do not show them: the standard error of their
		// kurtosis is √(24/n).
		w = max(likeliest(e, rows), min(1, tails+math.Sqrt(24/e.n))*w)
	}
	w = max(w, oracleWeight(inv, n, d))
	shrink(e.second, w)
	left := 1 - w
	e.noise = left * left * (1 + inv) / n * few(e.n)
	return e
}

// keptMean is the share of the mean to subtract: 1 far from the origin, 0 if the mean could be that of rows about zero.
// It is the positive-part rule of James and Stein with a threshold of three standard deviations of |mean|², because a
// wrong centre costs more than a mean left in place.
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

// few widens thresholds for small n, where the estimate of the noise is uncertain itself.
func few(n float64) float64 { return (n + 3) / (n - 1) }

// freedom is (tr C)²/tr C², the effective number of directions of a covariance, between 1 and d.
func freedom(cov dense.Matrix[float64]) float64 {
	t, t2 := trace(cov), 0.0
	for i := range cov.Rows {
		for _, v := range cov.Row(i) {
			t2 += v / t * (v / t)
		}
	}
	return 1 / t2
}

// shrink moves c by the weight w towards the multiple of the identity with the same trace.
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

// isotropicRows is the weight of 2d isotropic pseudo-rows beside n rows; it falls faster once n exceeds 2d.
func isotropicRows(n, d float64) float64 {
	r := n / (2 * d)
	return 1 / (1 + max(r, r*r))
}

// likeliest is the weight w of isotropic variance that maximises the mean leave-one-out log likelihood of the sampled
// rows under a normal law (Theiler 2012). Let u be a row about the centre, Σ = (1-w)n/(n-1)·C + w·tr(C)/d·I and r =
// uᵀΣ^{-1}u. Leaving the row out subtracts b·uuᵀ from Σ with b = (1-w)/(n-1), and -2 log likelihood is log det Σ +
// log(1-br) + r/(1-br). In the eigenbasis of C all weights share one decomposition.
func likeliest(e estimate, rows dense.Matrix[float64]) float64 {
	c, n := e.second, e.n
	values, u, err := eigSym(c)
	if err != nil || n < 3 {
		return 1
	}
	iso := trace(c) / float64(c.Rows)
	squares := dense.New[float64](rows.Rows, c.Rows) // squared coordinates of the rows in the eigenbasis
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

// robust returns m and its sampled rows. If outliers make up much of the variance of m, it returns instead the moments
// of the sampled rows with outliers pulled in, and these rows.
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

// drawIn moves outliers to the median distance from the median. Outliers are at most one row or 2 % of the rows,
// farther than twenty times the median distance and farther than all other rows.
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

// Warning returns a sentence if the smaller of two sets, with this many rows and dim columns after the kernel's
// embedding, is too small for the fit of f, and "" otherwise. Such a fit stays close to OPRF, or to positive features
// for families without a proposal.
func Warning(f Fitter, rows, dim int) string {
	if !f.Needs().Covariance || rows >= 2*dim {
		return ""
	}
	return fmt.Sprintf("%s is fitted to %d rows of %d columns, too few to know their covariances: parameters are kept close to "+
		"those of isotropic rows; fit to at least %d", f.Name(), rows, dim, 2*dim)
}
