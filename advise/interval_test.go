package advise

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// effects is a fold of n rows on each side whose squared error at a pair is e^{a_i + b_j}, with one effect per row in
// one set. κ² = e^{(a_i + b_j)/2} where errors are absolute.
func effects(n int, same, absolute bool, r *rand.Rand) (*study, *entrant) {
	a, b := make([]float64, n), make([]float64, n)
	for i := range n {
		a[i], b[i] = 0.5*r.NormFloat64(), 0.3*r.NormFloat64()
		if same {
			b[i] = a[i]
		}
	}
	f := &fold{x: dense.New[float64](n, 1), y: dense.New[float64](n, 1), same: same}
	e := &entrant{draws: make([]draw, 2), sums: []rowSums{f.newSums()}}
	f.squares = f.newSums()
	for i := range n {
		for j := range n {
			if same && i == j {
				continue
			}
			v, k := 2*math.Exp(a[i]+b[j]), 1.0 // two draws
			if absolute {
				k = math.Exp((a[i] + b[j]) / 2)
			}
			e.sums[0].pair(f, i*n+j, v)
			f.squares.pair(f, i*n+j, k)
		}
	}
	return &study{folds: []*fold{f}}, e
}

// The jackknife over rows estimates how much the error differs between sets of rows.
func TestJackknifeOfRows(t *testing.T) {
	const sets, n = 600, 40
	for name, c := range map[string]struct{ same, absolute bool }{"one set": {true, false}, "two sets": {false, false},
		"one set, absolute": {true, true}, "two sets, absolute": {false, true}} {
		var logs stattest.Moments
		stated := 0.0
		r := rand.New(rng.Stream(9))
		for range sets {
			s, e := effects(n, c.same, c.absolute, r)
			f := s.folds[0]
			rows, _ := ofSide(e.sums[0].x, f.squares.x, 1, 1, 0, nil, c.same)
			if !c.same {
				y, _ := ofSide(e.sums[0].y, f.squares.y, 1, 1, 0, nil, false)
				rows = rows.plus(y)
			}
			logs.Add(math.Log(sum(e.sums[0].x)/sum(f.squares.x)) / 2)
			stated += rows.value / 4 / sets
		}
		// The variance of the sets is known to √(2/600) = 6 %, the jackknife is a little too large.
		if f := stated / logs.Var(); f < 0.8 || f > 1.3 {
			t.Errorf("%s: variance %.4g over sets of rows, the jackknife says %.4g", name, logs.Var(), stated)
		}
	}
}

// The variance of a mean is estimated without bias, and its own variance is that of the estimates.
func TestVariationOfMean(t *testing.T) {
	const sets, n = 4000, 60
	for name, draw := range map[string]func(r *rand.Rand) float64{"normal": (*rand.Rand).NormFloat64,
		"exponential": (*rand.Rand).ExpFloat64} {
		r := rand.New(rng.Stream(31))
		var means, values stattest.Moments
		noise := 0.0
		for range sets {
			v := make([]float64, n)
			for i := range v {
				v[i] = draw(r)
			}
			got := ofMean(v)
			means.Add(mean(v))
			values.Add(got.value)
			noise += got.noise / sets
		}
		// Both variances are known to about 3 %; kurtosis of 60 values is a little too small.
		if f := values.Mean() / means.Var(); f < 0.92 || f > 1.08 {
			t.Errorf("%s: variance of the mean %.3g, estimated %.3g", name, means.Var(), values.Mean())
		}
		if f := noise / values.Var(); f < 0.6 || f > 1.25 {
			t.Errorf("%s: variance of that estimate %.3g, estimated %.3g", name, values.Var(), noise)
		}
	}
}

// Rows, draws and their interaction add up to the variance of the mean: the interaction counts once.
func TestInteractionCountsOnce(t *testing.T) {
	const sets, n, m = 1500, 24, 12
	r := rand.New(rng.Stream(32))
	var logs stattest.Moments
	stated, twice := 0.0, 0.0
	for range sets {
		row, drawn := make([]float64, n), make([]float64, m)
		for i := range row {
			row[i] = 0.1 * r.NormFloat64()
		}
		for k := range drawn {
			drawn[k] = 0.05 * r.NormFloat64()
		}
		f := &fold{x: dense.New[float64](n, 1), y: dense.New[float64](n, 1)}
		f.squares = f.newSums()
		e := &entrant{draws: make([]draw, m), sums: []rowSums{f.newSums()}}
		for pair := range n * n {
			f.squares.pair(f, pair, 1)
		}
		for k := range m {
			own := f.newSums()
			for i := range n {
				v := 1 + row[i] + drawn[k] + 0.8*r.NormFloat64() // the same with every y
				for j := range n {
					own.pair(f, i*n+j, v)
				}
				e.draws[k].square += v / n
			}
			e.sums[0].add(own, false)
		}
		s := &study{folds: []*fold{f}}
		logs.Add(2 * math.Log(e.rms().value))
		stated += s.uncertainty(e).value / sets
		rows, _ := ofSide(e.sums[0].x, f.squares.x, 1, 1, 0, nil, false)
		totals := make([]float64, m)
		for k, d := range e.draws {
			totals[k] = d.square
		}
		twice += (rows.value + ofMean(totals).scaled(1/mean(totals)).value) / sets
	}
	if f := stated / logs.Var(); f < 0.88 || f > 1.12 {
		t.Errorf("variance of the logarithm %.3g, stated %.3g", logs.Var(), stated)
	}
	if twice < 1.4*logs.Var() {
		t.Errorf("no power: without the correction %.3g of %.3g", twice, logs.Var())
	}
}

// An interval that reaches beyond twice the error is not stated, and few draws widen it by Student's quantile.
func TestIntervalOfFewDraws(t *testing.T) {
	s := &study{Options: Options{Measure: measureRMS}, folds: []*fold{{same: true, squares: rowSums{x: []float64{1}}}}}
	entrant := func(n int, spread float64) *entrant {
		e := pareto(family.Trig{}, 4, 0.01)
		rows := []float64{0} // they do not vary
		e.sums = []rowSums{{x: rows, y: rows}}
		e.draws = e.draws[:n]
		for i := range e.draws {
			e.draws[i].square = 0.01 * (1 + spread*float64(i%2*2-1))
		}
		return e
	}
	for n, want := range map[int]float64{4: 2.35, 64: 1.67} { // t with 3 and 63 degrees of freedom
		low, high, ok := s.interval(entrant(n, 0.1))
		sd := 0.1 / math.Sqrt(float64(n-1)) / 2
		if got := math.Log(high/low) / 2 / sd; !ok || math.Abs(got-want) > 0.1*want {
			t.Errorf("%d draws: an interval of %.2f standard deviations, want %.2f", n, got, want)
		}
	}
	if low, high, ok := s.interval(entrant(2, 0.5)); ok {
		t.Errorf("an interval of %g to %g around 0.1 is stated", low, high)
	}
}

// Quantiles of the errors, from counts.
func TestQuantiles(t *testing.T) {
	var h histogram
	r := rand.New(rng.Stream(33))
	for range 200000 {
		v := math.Exp(2 * r.NormFloat64())
		h[cell(v*v)]++
	}
	for p, want := range map[float64]float64{0.5: 1, 0.95: math.Exp(2 * 1.6449)} {
		if got := h.quantile(p); math.Abs(got/want-1) > 0.03 {
			t.Errorf("%g quantile %g, want %g", p, got, want)
		}
	}
	if got := new(histogram).quantile(0.5); got != 0 {
		t.Errorf("without errors %g", got)
	}
}
