package machine

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Intervals have 95 % coverage and assume independent rows. With few rows and heavy tails they contain the truth a
// little less often: 0.887 of the time for R² of 15 lognormal errors that are not centred, and at least 0.90 for all
// other scores from 15 to 1000 rows with lognormal errors (centred and not), t₃ errors, a tenth of rows with three
// times the error, rare mistakes and rare classes.
const (
	outside = 0.05
	// heavySide is the probability of missing on the side of the longer tail once skewness is felt. A small sample
	// mostly lacks the rows that make the tail heavy, so its skewness is too small; a fifth of the usual probability
	// compensates.
	heavySide = outside / 10
	// felt is the relative size γ/√n of Hall's correction from which skewness counts in full.
	felt = 0.1
)

// z90 and z95 are the two-sided 90 % and 95 % points of the normal law.
const (
	z90 = 1.6448536269514722
	z95 = 1.959963984540054
)

// skewed is the interval of an estimate with standard error se that is a mean of n numbers of skewness γ: Student's
// after the cubic transformation of Hall 1992 ("On the removal of skewness by transformation", J. R. Statist. Soc. B
// 54, 221–228),
//
//	g(T) = T + γT²/(3√n) + γ²T³/(27n) + γ/(6√n),
//
// which is monotone and takes the skewness out of T = (estimate − truth)/se. The plain interval of losses with one long
// tail misses on that side: 0.62 of the time it covers the mean square of 20 lognormal errors, this one 0.91.
//
// The expansion behind g holds for small a = γ/√n only. For a quantile y on the heavy side g⁻¹ reaches furthest, to
// 4|y|, at a = 9/(8|y|), and comes back for larger a: more skewness would make the interval shorter. There a stays at
// 9/(8|y|).
func skewed(estimate, se, skewness float64, n int64) (low, high float64) {
	if n < 2 || math.IsNaN(se) {
		return math.NaN(), math.NaN()
	}
	if se == 0 {
		return estimate, estimate
	}
	law := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
	root := math.Sqrt(float64(n))
	a := math.Abs(skewness) / root
	heavy := outside / 2 * math.Pow(2*heavySide/outside, min(1, a/felt))
	inverse := func(y, a float64) float64 {
		if a < 1e-6 {
			return y
		}
		return 3 / a * (math.Cbrt(1+a*(y-a/6)) - 1)
	}
	y := law.Quantile(heavy)
	light, far := se*inverse(law.Quantile(1-outside/2), a), -se*inverse(y, min(a, -9/(8*y)))
	if skewness < 0 {
		return estimate - far, estimate + light
	}
	return estimate - light, estimate + far
}

// proportion is the interval of Clopper & Pearson 1934 for a share p of n. Its coverage is never below 95 %, also near
// 0 and 1, where Wilson's interval falls to 0.83.
func proportion(p, n float64) (low, high float64) {
	k := p * n
	low, high = 0, 1
	if k > 0 {
		low = mathext.InvRegIncBeta(k, n-k+1, outside/2)
	}
	if k < n {
		high = mathext.InvRegIncBeta(k+1, n-k, 1-outside/2)
	}
	return low, high
}

// moments are the count, mean and sums of squared and cubed deviations of numbers, which merge (Pébay 2008, "Formulas
// for robust, one-pass parallel computation of covariances and arbitrary-order statistical moments", eq. 2.1 and 2.3).
//
// Numbers may have weights: means and sums are then weighted. squares holds the same sums with squared weights, which
// give the standard error of a weighted mean.
type moments struct {
	n            int64
	of           tally
	mean, m2, m3 float64
	squares      struct{ mean, m2 float64 }
}

// add adds a number of weight 1.
func (m *moments) add(v float64) { m.addWeighted(v, 1) }

func (m *moments) addWeighted(v, weight float64) {
	one := moments{n: 1, of: tally{weight, weight * weight}, mean: v}
	one.squares.mean = v
	m.merge(one)
}

// merge adds the numbers of o. Numbers of weight 0 only count. A log density may be −Inf; the mean is then −Inf and no
// interval exists.
func (m *moments) merge(o moments) {
	if o.of.w == 0 {
		m.n += o.n
		return
	}
	if m.of.w == 0 {
		o.n += m.n
		*m = o
		return
	}
	if math.IsInf(m.mean, -1) || math.IsInf(o.mean, -1) {
		m.of.merge(o.of)
		*m = moments{n: m.n + o.n, of: m.of, mean: math.Inf(-1), m2: math.NaN(), m3: math.NaN()}
		m.squares.mean, m.squares.m2 = math.Inf(-1), math.NaN()
		return
	}
	a, b := m.of.w2, o.of.w2
	d := o.squares.mean - m.squares.mean
	m.squares.m2 += o.squares.m2 + d*d*(a*b/(a+b))
	m.squares.mean += d * (b / (a + b))
	a, b = m.of.w, o.of.w
	m.of.merge(o.of)
	n, d := a+b, o.mean-m.mean
	m.m3 += o.m3 + d*d*d*(a*b*(a-b)/(n*n)) + 3*d*(a*o.m2-b*m.m2)/n
	m.m2 += o.m2 + d*d*(a*b/n)
	m.mean += d * (b / n)
	m.n += o.n
}

// standardError is the standard error of the mean, NaN for fewer than two numbers: √(Σw²(v−mean)²)/Σw with weights.
func (m *moments) standardError() float64 {
	n := m.of.effective()
	if m.n < 2 || !(n > 1) {
		return math.NaN()
	}
	if m.of.w2 == m.of.w {
		return math.Sqrt(m.m2 / (n - 1) / n)
	}
	d := m.squares.mean - m.mean
	return math.Sqrt((m.squares.m2+m.of.w2*d*d)*n/(n-1)) / m.of.w
}

// effective is the effective sample size of the interval.
func (m *moments) effective() int64 { return int64(math.Round(m.of.effective())) }

// skewness is the weighted third standardised moment, 0 if all numbers are equal.
func (m *moments) skewness() float64 {
	if m.m2 == 0 {
		return 0
	}
	return math.Sqrt(m.of.w) * m.m3 / math.Pow(m.m2, 1.5)
}

// score is the mean with its interval, whose limits are not below least.
func (m *moments) score(name string, least float64) Score {
	low, high := skewed(m.mean, m.standardError(), m.skewness(), m.effective())
	return Score{Name: name, Value: m.mean, Low: max(low, least), High: high, Rows: m.n}
}

// shape describes a law apart from its scale, as far as the interval of a mean depends on it.
type shape struct {
	variance float64 // over the square of the mean
	skewness float64
}

// The squares and the absolute values of normal errors.
var (
	normalSquares = shape{variance: 2, skewness: 2 * math.Sqrt2}
	normalSizes   = shape{variance: math.Pi/2 - 1, skewness: math.Sqrt2 * (4 - math.Pi) / math.Pow(math.Pi-2, 1.5)}
)

// doubtRows is the number of rows at which a sample with lighter tails than normal errors counts half.
const doubtRows = 500

// errorLimits returns the limits of a mean of losses, each itself a mean over outputs. The upper limit assumes that
// losses vary at least as much as those of normal errors (least), for independent outputs. Reason: the rows that make a
// tail are mostly absent from a small sample, which then looks as even as uniform errors and promises a short interval.
// Without this the upper limit of the RMSE of 15 centred lognormal errors is too low in 0.27 of samples, with it in
// 0.08. The price is a longer interval for errors with lighter tails. More rows are trusted more: the minimum falls as
// doubtRows/(doubtRows + n).
func (m *moments) errorLimits(least shape, outputs int) (low, high float64) {
	n, se, skewness := m.effective(), m.standardError(), m.skewness()
	low, high = skewed(m.mean, se, skewness, n)
	rows := m.of.effective()
	part := doubtRows / (doubtRows + rows)
	se = max(se, m.mean*math.Sqrt(part*least.variance/float64(outputs)/rows))
	skewness = max(skewness, part*least.skewness/math.Sqrt(float64(outputs)))
	_, above := skewed(m.mean, se, skewness, n)
	return max(low, 0), max(high, above)
}

// lossSums holds the sums of a loss of probabilities that is small for a right class and much larger for a wrong one.
type lossSums struct {
	moments
	wrong tally
	extra float64 // Σ over wrong rows of the loss beyond that of the most likely class
	fear  float64 // Σ over all rows of the expected loss of a mistake, by the model's probabilities of other classes
}

func (l *lossSums) merge(o lossSums) {
	l.moments.merge(o.moments)
	l.wrong.merge(o.wrong)
	l.extra += o.extra
	l.fear += o.fear
}

// score has an upper limit that allows for mistakes that are not among the rows: a few confident mistakes make up most
// of the loss, and rows without one show no spread at all. Up to π_U of the rows may be wrong (Clopper–Pearson), and
// one more mistake costs the mean of the mistakes seen and of one that the model's own probabilities predict.
func (l *lossSums) score(name string) Score {
	s := l.moments.score(name, 0)
	n, wrong := l.of.w, l.wrong.w
	_, _, most := shareOf(l.wrong, l.of)
	more := s.Value + (most-wrong/n)*(l.extra+l.fear/n)/(wrong+1)
	if l.n < 2 {
		return s
	}
	s.High = max(s.High, more)
	return s
}

// ScoresOfModels returns the scores over the rows of all parts, and the evaluation of all rows. Each part was predicted
// by one model, fitted by the same procedure to other rows, as in cross-validation. The intervals are for one more such
// model.
//
// The rows of a part share a model, so intervals from rows alone are too short (Bates, Hastie & Tibshirani 2024,
// "Cross-validation: what does it estimate and how well does it do it?", JASA 119, 1434–1445). Let models differ by a
// variance σ². The mean over K parts contains σ²/K and one more model contains σ², so σ²(1 + 1/K) is added to the
// variance of the rows. σ² is estimated from the differences between parts beyond the noise of their rows. Few parts
// determine it poorly, so it is averaged with half of that noise, which counts as four further parts. The quantile is
// Student's with the corresponding degrees of freedom, or the normal one if there is only one part.
func ScoresOfModels(parts []*Evaluation) (*Evaluation, []Score, error) {
	return scoresOf(parts, func(s *Score, of *moments) {
		k := float64(len(parts))
		rows := (s.High - s.Low) / (2 * z95)
		noise := k * rows * rows // of one part
		spread, quantile := usualSpread*noise, z95
		if of != nil && k > 1 {
			df := usualParts + k - 1
			spread = (usualParts*spread + (k-1)*max(of.m2/(k-1)-noise, 0)) / df
			quantile = distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - outside/2)
		}
		widened := func(half float64) float64 {
			return max(half, quantile*math.Sqrt(half*half/(z95*z95)+spread*(1+1/k)))
		}
		s.Low, s.High = s.Value-widened(s.Value-s.Low), s.Value+widened(s.High-s.Value)
	})
}

const (
	usualSpread = 0.5 // prior: variance between models relative to the noise of a part
	usualParts  = 4   // number of parts that the prior counts as
)

// ScoresOfGroups is [ScoresOfModels] for parts that consist of whole groups of similar rows. Rows of one group do not
// show how much groups differ; the parts do, however few. The interval is Student's over the parts where that is wider.
func ScoresOfGroups(parts []*Evaluation) (*Evaluation, []Score, error) {
	k := float64(len(parts))
	return scoresOf(parts, func(s *Score, of *moments) {
		if of == nil || k < 2 {
			return
		}
		t := distuv.StudentsT{Sigma: 1, Nu: k - 1}.Quantile(1 - outside/2)
		rows, parts := (s.High-s.Low)/(2*t), of.standardError() // compared at the same quantile
		half := t * math.Sqrt(parts*parts+max(k*(parts*parts-rows*rows), 0))
		s.Low, s.High = min(s.Low, s.Value-half), max(s.High, s.Value+half)
	})
}

// scoresOf returns the scores of all rows. widen widens each interval according to the scores of the parts; it gets nil
// if a part has no such score, as for R² with equal targets.
func scoresOf(parts []*Evaluation, widen func(s *Score, of *moments)) (*Evaluation, []Score, error) {
	if len(parts) == 0 {
		return nil, nil, fmt.Errorf("scores of no models: %w", ErrNoRows)
	}
	all := NewEvaluation(parts[0].kind, parts[0].task, parts[0].outputs)
	all.unlikely, all.limits = parts[0].unlikely, parts[0].limits
	by := map[string]*moments{}
	key := func(s Score) string { return fmt.Sprint(s.Output, " ", s.Name) }
	for _, p := range parts {
		if err := all.Merge(p); err != nil {
			return nil, nil, err
		}
		all.models = append(all.models, &p.ranks)
		for _, s := range p.Scores() {
			if by[key(s)] == nil {
				by[key(s)] = new(moments)
			}
			by[key(s)].add(s.Value)
		}
	}
	scores := all.Scores()
	for i := range scores {
		s := &scores[i]
		of := by[key(*s)]
		if of != nil && of.n < int64(len(parts)) {
			of = nil
		}
		widen(s, of)
		least, most := s.limits()
		s.Low, s.High = max(s.Low, least), min(s.High, most)
		*s = s.orNone()
	}
	return all, scores, nil
}

// Extrapolate extrapolates accuracies, RMSE, R² and MAE to models of more rows. The evaluation e holds the rows of
// scores, predicted by models of fewer rows; by times the difference is added to each score. Intervals move with their
// score and are widened by the noise of the difference, for a correlation of 1/2 between both scores. ROC AUC and
// scores of probabilities are unchanged.
//
// The law behind it is error = a + b·n^−½ with twice as many rows in scores as in e. A curve steeper than that has a
// limit a below 0, which no error has: then a is 0, so that an error falls by at most (√2 − 1)·by of itself.
func (e *Evaluation) Extrapolate(scores []Score, by float64) []Score {
	out := slices.Clone(scores)
	widen := math.Sqrt((1+by)*(1+by) + by*by - by*(1+by))
	for i := range out {
		s := &out[i]
		switch s.Name {
		case "accuracy", "balanced accuracy", "RMSE", "R²", "MAE":
		default:
			continue
		}
		j := slices.IndexFunc(e.Scores(), func(o Score) bool { return o.Name == s.Name && o.Output == s.Output })
		if j < 0 {
			continue
		}
		least, most := s.limits()
		low, high := widen*(s.Value-s.Low), widen*(s.High-s.Value)
		s.Value = s.steepest(s.Value+by*(s.Value-e.Scores()[j].Value), 1-by*(math.Sqrt2-1))
		s.Low, s.High = max(s.Value-low, least), min(s.Value+high, most)
		*s = s.orNone()
	}
	return out
}

// steepest limits the continuation of a score: at least the share left of its error remains. Of R² it is the share of
// the root mean square.
func (s *Score) steepest(value, left float64) float64 {
	least, most := s.limits()
	switch {
	case least == 0 && math.IsInf(most, 1):
		return max(value, left*s.Value)
	case s.Name == "R²":
		left *= left
	}
	return max(min(value, most-left*(most-s.Value)), least)
}

// limits are the smallest and largest possible values of a score.
func (s *Score) limits() (least, most float64) {
	least, most = math.Inf(-1), math.Inf(1)
	switch s.Name {
	case "RMSE", "MAE", "log loss", "Brier":
		least = 0
	case "R²":
		most = 1
	case "accuracy", "balanced accuracy", "ROC AUC", "calibration error", "coverage of 90 % intervals":
		least, most = 0, 1
	}
	return least, most
}
