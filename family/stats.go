package family

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
)

// ErrStats is returned by Fit when the statistics are empty or lack a part the family needs.
var ErrStats = errors.New("statistics do not suffice")

// Stats are streaming, mergeable statistics of embedded queries and keys: O(d) per row, O(d²) if covariances are kept.
// Fitting sees nothing else of the data (docs/theory.md §3.1).
type Stats struct {
	Query, Key *Moments
}

// Options says which costlier parts of the statistics to keep.
type Options struct {
	Covariance bool // d×d covariances: adaptive, DARK, importance, full complex exponential
	Sample     int  // number of rows kept: centres of clustered hybrids, some bases of DARK; 0 keeps none
}

// defaultSample is the number of rows kept for a fit that needs a sample.
const defaultSample = 2048

// union is the options that satisfy both o and p.
func (o Options) union(p Options) Options {
	return Options{Covariance: o.Covariance || p.Covariance, Sample: max(o.Sample, p.Sample)}
}

// NewStats returns empty statistics for rows of dim columns.
func NewStats(dim int, o Options) *Stats {
	return &Stats{Query: newMoments(dim, o), Key: newMoments(dim, o)}
}

// Merge adds the statistics of other data. Both must have been made with the same dimension and options.
func (s *Stats) Merge(o *Stats) error {
	if s.lacks() || o.lacks() {
		return fmt.Errorf("merging statistics that were not made by NewStats: %w", ErrStats)
	}
	if err := s.Query.fits(o.Query); err != nil {
		return fmt.Errorf("query statistics: %w", err)
	}
	if err := s.Key.fits(o.Key); err != nil { // before anything is added
		return fmt.Errorf("key statistics: %w", err)
	}
	s.Query.merge(o.Query)
	s.Key.merge(o.Key)
	return nil
}

// lacks reports whether a side is missing because the value was not made by NewStats.
func (s *Stats) lacks() bool { return s == nil || s.Query == nil || s.Key == nil }

func (s *Stats) isEmpty() bool { return s.lacks() || s.Query.n == 0 || s.Key.n == 0 }

// MeanNorm2 is the mean of |x + s·y|² over all pairs, s = ±1 (CRT eq 8); NaN if there are none.
func (s *Stats) MeanNorm2(sign float64) float64 {
	if s.isEmpty() {
		return math.NaN()
	}
	return s.Query.meanNorm2() + s.Key.meanNorm2() + 2*sign*dense.Dot(s.Query.mean, s.Key.mean)
}

// S is the mean of Σ_l x_l² y_l² over all pairs (CRT eq 12); NaN if there are none.
func (s *Stats) S() float64 {
	if s.isEmpty() {
		return math.NaN()
	}
	var t float64
	for l := range s.Query.mean {
		t += s.Query.second(l) * s.Key.second(l)
	}
	return t
}

// T is the mean of |x_l y_l| over all pairs, for each l (CRT eq 14); nil if there are none.
func (s *Stats) T() []float64 {
	if s.isEmpty() {
		return nil
	}
	t := make([]float64, s.Query.Dim())
	for l := range t {
		t[l] = s.Query.abs[l] * s.Key.abs[l]
	}
	return t
}

func statsError(f Family, format string, args ...any) error {
	return fmt.Errorf("family %s: %s: %w", f.Name(), fmt.Sprintf(format, args...), ErrStats)
}

// ready checks that there are data on both sides and that the squares of their mean square norms, the largest numbers
// in any fit, are finite.
func (s *Stats) ready(f Family) error {
	if s.isEmpty() {
		return statsError(f, "no queries or no keys")
	}
	if s.Query.Dim() < 1 || s.Query.Dim() != s.Key.Dim() {
		return statsError(f, "queries have %d columns and keys %d", s.Query.Dim(), s.Key.Dim())
	}
	if t := s.Query.meanNorm2() + s.Key.meanNorm2(); !dense.IsFinite(1e3 * t * t) {
		return statsError(f, "moments are not finite: the rows are too large (mean square norms of queries and keys add up to %.3g)", t)
	}
	return nil
}

// readyAbs is ready, and checks that the means of |x_l| are known.
func (s *Stats) readyAbs(f Family) error {
	if err := s.ready(f); err != nil {
		return err
	}
	if s.Query.abs == nil || s.Key.abs == nil {
		return statsError(f, "mean absolute values are not known after a linear map without sampled rows (Options.Sample)")
	}
	return nil
}

// readyMin is ready, and checks that the smallest coordinates are known.
func (s *Stats) readyMin(f Family) error {
	if err := s.ready(f); err != nil {
		return err
	}
	if s.Query.min == nil || s.Key.min == nil {
		return statsError(f, "smallest coordinates are not known after a linear map without sampled rows (Options.Sample)")
	}
	return nil
}

// readyCov is ready, and checks that covariances were kept.
func (s *Stats) readyCov(f Family) error {
	if err := s.ready(f); err != nil {
		return err
	}
	if s.Query.cov.IsEmpty() || s.Key.cov.IsEmpty() {
		return statsError(f, "needs covariances (Options.Covariance)")
	}
	return nil
}

// shiftToPositive returns c, just below all coordinates seen, and the statistics of x - c, y - c (CRT §3.2.3).
func (s *Stats) shiftToPositive() (*Stats, []float64) {
	c := make([]float64, s.Query.Dim())
	for l := range c {
		lowest := min(s.Query.min[l], s.Key.min[l])
		c[l] = lowest - plusFloor*max(1, math.Abs(lowest)) // strictly below even when ε is less than one ulp
	}
	return &Stats{Query: s.Query.minus(c), Key: s.Key.minus(c)}, c
}

// Moments are the statistics of one set of rows. Sums of deviations are kept about the running mean, so a mean far from
// zero costs no digits.
type Moments struct {
	n         int
	mean      []float64
	abs       []float64             // mean of |x_l|
	min       []float64             // smallest x_l
	diag      []float64             // Σ (x_l - mean_l)²
	cov       dense.Matrix[float64] // Σ (x-mean)(x-mean)ᵀ, empty unless asked for
	sample    bottomSample
	dev, prev []float64 // scratch of addRow and merge
}

func newMoments(dim int, o Options) *Moments {
	m := &Moments{mean: make([]float64, dim), abs: make([]float64, dim), min: make([]float64, dim),
		diag: make([]float64, dim), dev: make([]float64, dim), prev: make([]float64, dim),
		sample: bottomSample{size: o.Sample}}
	for l := range m.min {
		m.min[l] = math.Inf(1)
	}
	if o.Covariance {
		m.cov = dense.New[float64](dim, dim)
	}
	return m
}

// N is the number of rows seen.
func (m *Moments) N() int { return m.n }

// Dim is the number of columns.
func (m *Moments) Dim() int { return len(m.mean) }

// Mean is the mean row.
func (m *Moments) Mean() []float64 { return append([]float64(nil), m.mean...) }

// Covariance is the covariance matrix, divided by n; zero before any row, empty unless Options asked for it.
func (m *Moments) Covariance() dense.Matrix[float64] {
	c := m.cov.Clone()
	for i := range c.Data {
		c.Data[i] /= float64(max(m.n, 1))
	}
	return c
}

// Add records the rows of x, by Welford's update: no cancellation however far the mean is from zero.
func (m *Moments) Add(x dense.Matrix[float64]) error {
	if x.Cols != m.Dim() {
		return fmt.Errorf("rows have %d columns, want %d: %w", x.Cols, m.Dim(), dense.ErrShape)
	}
	if err := x.CheckFinite(); err != nil {
		return err
	}
	for i := range x.Rows {
		m.addRow(x.Row(i))
	}
	return nil
}

// addRow is Welford's update.
func (m *Moments) addRow(x []float64) {
	m.n++
	inv := 1 / float64(m.n)
	for l, v := range x {
		m.prev[l] = v - m.mean[l]
		m.mean[l] += m.prev[l] * inv
		m.dev[l] = v - m.mean[l]
		m.diag[l] += m.prev[l] * m.dev[l]
		m.abs[l] += (math.Abs(v) - m.abs[l]) * inv
		m.min[l] = min(m.min[l], v)
	}
	if !m.cov.IsEmpty() {
		for i, p := range m.prev {
			row := m.cov.Row(i)
			for j, d := range m.dev {
				row[j] += p * d
			}
		}
	}
	m.sample.add(x)
}

// fits returns an error if o cannot be merged into m.
func (m *Moments) fits(o *Moments) error {
	if m.Dim() != o.Dim() || m.cov.IsEmpty() != o.cov.IsEmpty() || m.sample.size != o.sample.size {
		return fmt.Errorf("statistics of different dimensions or options: %w", dense.ErrShape)
	}
	return nil
}

// merge is the pairwise update of Chan, Golub and LeVeque for two sets.
func (m *Moments) merge(o *Moments) {
	if o.n == 0 {
		return
	}
	n := float64(m.n + o.n)
	w := float64(o.n) / n
	cross := float64(m.n) * w
	for l := range m.mean {
		d := o.mean[l] - m.mean[l]
		m.prev[l] = d
		m.diag[l] += o.diag[l] + cross*d*d
		m.mean[l] += w * d
		m.abs[l] += w * (o.abs[l] - m.abs[l])
		m.min[l] = min(m.min[l], o.min[l])
	}
	if !m.cov.IsEmpty() {
		for i, di := range m.prev {
			row, or := m.cov.Row(i), o.cov.Row(i)
			for j, dj := range m.prev {
				row[j] += or[j] + cross*di*dj
			}
		}
	}
	m.n += o.n
	m.sample.merge(&o.sample)
}

// second is the mean of x_l².
func (m *Moments) second(l int) float64 { return m.diag[l]/float64(m.n) + m.mean[l]*m.mean[l] }

// meanNorm2 is the mean of |x|².
func (m *Moments) meanNorm2() float64 {
	var s float64
	for l := range m.mean {
		s += m.second(l)
	}
	return s
}

// minus is the statistics of x - c for c ≤ all x, where |x_l - c_l| = x_l - c_l. Only the parts that fits of shifted
// families need are set.
func (m *Moments) minus(c []float64) *Moments {
	out := &Moments{n: m.n, mean: make([]float64, len(c)), abs: make([]float64, len(c)), diag: m.diag}
	for l, v := range c {
		out.mean[l] = m.mean[l] - v
		out.abs[l] = out.mean[l]
	}
	return out
}
