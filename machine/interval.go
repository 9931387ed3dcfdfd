package machine

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Intervals are of 95 %. They take rows for independent and hold for few rows and heavy tails: tests count how often
// they cover the truth, at least 0.90 for n from 20 to 1000 with lognormal and t₃ errors, rare mistakes and rare
// classes.
const (
	outside = 0.05
	// heavySide is the chance of missing on the side of the longer tail once skewness is felt. The rows that make such
	// a tail heavy are mostly not in the sample, whose skewness is then too small; a fifth of the usual chance makes
	// up for that.
	heavySide = outside / 10
	// felt is γ/√n, the relative size of Hall's correction, from which on skewness is felt in full.
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
	inverse := func(y float64) float64 {
		if a < 1e-6 {
			return y
		}
		return 3 / a * (math.Cbrt(1+a*(y-a/6)) - 1)
	}
	light, far := se*inverse(law.Quantile(1-outside/2)), -se*inverse(law.Quantile(heavy))
	if skewness < 0 {
		return estimate - far, estimate + light
	}
	return estimate - light, estimate + far
}

// proportion is the interval of Clopper & Pearson 1934 for a share p of n: it covers at least as often as it says, also
// near 0 and 1, where Wilson's falls to 0.83.
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
// Numbers may have weights: means and sums are then weighted. squares are the same with the squares of the weights, by
// which the error of a weighted mean is known.
type moments struct {
	n            int64
	of           tally
	mean, m2, m3 float64
	squares      struct{ mean, m2 float64 }
}

func (m *moments) add(v float64) { m.addWeighted(v, 1) }

func (m *moments) addWeighted(v, weight float64) {
	one := moments{n: 1, of: tally{weight, weight * weight}, mean: v}
	one.squares.mean = v
	m.merge(one)
}

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

// standardError is that of the mean, NaN for fewer than two numbers: √(Σw²(v−mean)²)/Σw with weights.
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

// effective is the number of rows that its interval is of.
func (m *moments) effective() int64 { return int64(math.Round(m.of.effective())) }

func (m *moments) skewness() float64 {
	if m.m2 == 0 {
		return 0
	}
	return math.Sqrt(m.of.w) * m.m3 / math.Pow(m.m2, 1.5)
}

// score is the mean with its interval; no limit is below least.
func (m *moments) score(name string, least float64) Score {
	low, high := skewed(m.mean, m.standardError(), m.skewness(), m.effective())
	return Score{Name: name, Value: m.mean, Low: max(low, least), High: high, Rows: m.n}
}

// lossSums are those of a loss of probabilities that is small for a right class and much larger for a wrong one.
type lossSums struct {
	moments
	wrong tally
	extra float64 // Σ over wrong rows of what the mistake cost beyond the loss of the most likely class
	fear  float64 // Σ over all rows of what a mistake would cost by the model's own probabilities of the other classes
}

func (l *lossSums) merge(o lossSums) {
	l.moments.merge(o.moments)
	l.wrong.merge(o.wrong)
	l.extra += o.extra
	l.fear += o.fear
}

// score has an upper limit that knows of mistakes that did not happen to be among the rows: few sure ones make up most
// of a loss, and rows without one show no spread at all. Up to π_U of rows may be wrong (Clopper–Pearson), and one more
// mistake costs as much as those seen and one that the model fears.
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

// ScoresOfModels are the scores of the rows of all parts, each of which one model predicted that was fitted by the same
// procedure on other rows, as in cross-validation: what to expect of one more such model. Rows of a part share a model,
// so intervals of rows alone are too short (Bates, Hastie & Tibshirani 2024, "Cross-validation: what does it estimate
// and how well does it do it?", JASA 119, 1434–1445). What the scores of the parts differ by beyond the noise of their
// rows is the spread of models, which the mean over parts shares and one more model has in full: Student's interval of
// the parts with that variance added is taken where it is wider. Of fewer than four parts a spread is hardly known:
// intervals are then those of rows. The evaluation is that of all rows.
func ScoresOfModels(parts []*Evaluation) (*Evaluation, []Score, error) {
	return scoresOf(parts, fewParts)
}

// ScoresOfGroups is ScoresOfModels of parts that are whole groups of rows which resemble each other: rows of a group do
// not tell how much groups differ, parts do, however few.
func ScoresOfGroups(parts []*Evaluation) (*Evaluation, []Score, error) { return scoresOf(parts, 2) }

func scoresOf(parts []*Evaluation, few int) (*Evaluation, []Score, error) {
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
		for _, s := range p.Scores() {
			if by[key(s)] == nil {
				by[key(s)] = new(moments)
			}
			by[key(s)].add(s.Value)
		}
	}
	scores := all.Scores()
	if len(parts) < few {
		return all, scores, nil
	}
	k := float64(len(parts))
	law := distuv.StudentsT{Sigma: 1, Nu: k - 1}
	for i := range scores {
		s := &scores[i]
		m := by[key(*s)]
		if m == nil || m.n < int64(len(parts)) { // a part whose targets are all equal has no R²
			continue
		}
		rows := (s.High - s.Low) / (2 * law.Quantile(1-outside/2)) // compared at the same quantile
		parts := m.standardError()
		models := max(k*(parts*parts-rows*rows), 0)
		half := law.Quantile(1-outside/2) * math.Sqrt(parts*parts+models)
		least, most := s.limits()
		s.Low, s.High = max(min(s.Low, s.Value-half), least), min(max(s.High, s.Value+half), most)
	}
	return all, scores, nil
}

const fewParts = 4

// limits are those of the values that a score can have.
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
