package choose

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/internal/rng"
)

// skewedRows draws rows of texts whose squared errors are lognormal, like those of real heads, around a level of the
// text. The logarithms of the errors of texts deviate by spread.
func skewedRows(r *rand.Rand, texts, n int, spread float64) (s errorSums) {
	for t := range texts {
		level := math.Exp(2 * spread * r.NormFloat64())
		for range n {
			b := math.Exp(0.5 * r.NormFloat64())
			s.add(1e-2*level*b*math.Exp(0.8*r.NormFloat64()-0.32), b, t)
		}
	}
	return s
}

// share says how often within holds.
func share(n int, within func(r *rand.Rand) bool) float64 {
	count := 0
	for i := range n {
		if within(rand.New(rng.Stream(17, uint64(i)))) {
			count++
		}
	}
	return float64(count) / float64(n)
}

// The interval of 64 skewed rows holds the error over all rows, 0.1 here, nearly nine times of ten, and fewer errors
// lie above it than above an interval with a normal quantile.
func TestEstimateHoldsSkewedRows(t *testing.T) {
	above, normal := 0, 0
	got := share(600, func(r *rand.Rand) bool {
		s := skewedRows(r, 1, 64, 0)
		e := s.estimate()
		if e.High < 0.1 {
			above++
		}
		if _, se := logError(s.rows, func(i int) int { return i }); e.Error*math.Exp(1.6449*se) < 0.1 {
			normal++
		}
		return e.Low <= 0.1 && 0.1 <= e.High
	})
	t.Logf("%.3f inside, %d of 600 above; with a normal quantile %d", got, above, normal)
	if got < 0.86 || got > 0.94 || 20*above > 17*normal {
		t.Errorf("%.3f of intervals hold the error, want 0.9; %d of 600 errors are above, with a normal quantile %d", got,
			above, normal)
	}
}

// The expected error holds that of another text more often than nine times of ten if texts differ as much as is
// assumed; if they differ twice as much, four texts still hold it about five times of six.
func TestForecastHoldsAnotherText(t *testing.T) {
	for _, c := range []struct {
		texts, rows int
		spread      float64
		lo, hi      float64
	}{{1, 64, textSpread, 0.93, 0.99}, {4, 32, textSpread, 0.92, 0.985}, {4, 32, 2 * textSpread, 0.79, 0.9}} {
		got := share(250, func(r *rand.Rand) bool {
			s := skewedRows(r, c.texts, c.rows, c.spread)
			next := 0.1 * math.Exp(c.spread*r.NormFloat64())
			e := s.forecast(spreadOf(512))
			return e.Low <= next && next <= e.High
		})
		t.Logf("%d texts that differ by %.2f: %.3f inside", c.texts, c.spread, got)
		if got < c.lo || got > c.hi {
			t.Errorf("%d texts that differ by %.2f: %.3f inside, want %.2f to %.2f", c.texts, c.spread, got, c.lo, c.hi)
		}
	}
}

// Rows whose errors are proportional to their outputs leave nothing uncertain, however much these differ: that is what
// the covariance of numerator and denominator says.
func TestEstimateOfProportionalRows(t *testing.T) {
	var s errorSums
	for i := range 40 {
		b := 1 + float64(i*i)
		s.add(0.04*b, b, 0)
	}
	if e := s.estimate(); math.Abs(e.Error-0.2) > 1e-12 || e.High/e.Low > 1+1e-5 {
		t.Errorf("%+v", e)
	}
}

// Few rows, no errors and infinite errors have intervals too.
func TestEstimateOfFewRows(t *testing.T) {
	var none, few, wrong errorSums
	none.add(0, 1, 0)
	few.add(0.01, 1, 0)
	few.add(0.02, 1, 0)
	wrong.add(1, 0, 0)
	wrong.add(math.NaN(), 1, 0)
	for _, s := range []*errorSums{&few, &wrong} {
		if e := s.forecast(spreadOf(512)); e.High != math.MaxFloat64 || e.Low != 0 {
			t.Errorf("%+v of %v", e, s.rows)
		}
	}
	if e := none.forecast(spreadOf(512)); e.Error != 0 || e.High != 0 {
		t.Errorf("%+v without errors", e)
	}
}
