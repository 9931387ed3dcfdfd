package machine

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
)

// Losses hold the losses of one model on every row of a table, in the order of the rows. [Differences] compares two
// models by them. It keeps three numbers per row, and two more per target.
type Losses struct {
	task    Task
	outputs int
	// For classes: whether the largest score is right, log loss and Brier score.
	right       []bool
	log, square []float64
	unlikely    bool // scores are not probabilities
	// For numbers: absolute error (square holds the squared one), means over targets; squared errors by target.
	abs    []float64
	errors [][]float64
	y      [][]float64 // targets
}

// NewLosses returns empty losses for predictions of a task with this number of outputs or classes. A density has no
// losses: the error is ErrSetup.
func NewLosses(task Task, outputs int) (*Losses, error) {
	if task != Regression && task != Classification || outputs < 1 {
		return nil, fmt.Errorf("losses of a %s with %d outputs: %w", task, outputs, ErrSetup)
	}
	l := &Losses{task: task, outputs: outputs}
	if task == Regression {
		l.errors, l.y = make([][]float64, outputs), make([][]float64, outputs)
	}
	return l, nil
}

// Len is the number of rows.
func (l *Losses) Len() int { return max(len(l.right), len(l.square)) }

// Add adds rows: y holds targets or class indices, pred the predictions.
func (l *Losses) Add(y, pred dense.Matrix[float64]) error {
	want := 1
	if l.task == Regression {
		want = l.outputs
	}
	if y.Rows != pred.Rows || y.Cols != want || pred.Cols != l.outputs {
		return fmt.Errorf("%d×%d targets and %d×%d predictions: %w", y.Rows, y.Cols, pred.Rows, pred.Cols,
			dense.ErrShape)
	}
	for i := range pred.Rows {
		p := pred.Row(i)
		if l.task == Classification {
			if err := l.addClass(y.At(i, 0), p); err != nil {
				return err
			}
			continue
		}
		square, abs := 0.0, 0.0
		for k, v := range p {
			d := y.At(i, k) - v
			square, abs = square+d*d, abs+math.Abs(d)
			l.errors[k] = append(l.errors[k], d*d)
			l.y[k] = append(l.y[k], y.At(i, k))
		}
		l.square = append(l.square, square/float64(len(p)))
		l.abs = append(l.abs, abs/float64(len(p)))
	}
	return nil
}

func (l *Losses) addClass(class float64, p []float64) error {
	truth := int(class)
	if float64(truth) != class || truth < 0 || truth >= l.outputs {
		return fmt.Errorf("class %g of %d: %w", class, l.outputs, ErrClass)
	}
	square, likely := brier(p, truth)
	l.unlikely = l.unlikely || !likely
	l.right = append(l.right, Class(p) == truth)
	l.log = append(l.log, -math.Log(min(max(p[truth], minProbability), 1)))
	l.square = append(l.square, square)
	return nil
}

// Difference is the score of a second model minus the score of a first model, on the same rows.
type Difference struct {
	Score Score `json:"score"`
	// Better is "first" or "second" if the interval excludes 0, and empty otherwise.
	Better string `json:"better,omitempty"`
}

// Differences returns the scores of b minus the scores of a, each with a 95 % interval for new rows. The intervals come
// from differences of losses row by row, so rows that both models find hard do not widen them.
//
//	accuracy         Newcombe 1998 ("Improved confidence intervals for the difference between binomial proportions
//	                 based on paired data", Stat. Med. 17, 2635–2650), method 10
//	log loss, Brier  mean differences, Student's after Hall's transformation
//	RMSE             differences of squared errors, each over twice its RMSE (the delta method)
//	R²               differences of squared errors over the variance of the target
//	MAE              mean differences
func (a *Losses) Differences(b *Losses) ([]Difference, error) {
	if a.task != b.task || a.outputs != b.outputs || a.Len() != b.Len() {
		return nil, fmt.Errorf("losses of %d rows of a %s with %d outputs, and of %d rows of a %s with %d: %w", a.Len(),
			a.task, a.outputs, b.Len(), b.task, b.outputs, ErrMismatch)
	}
	if a.Len() == 0 {
		return nil, fmt.Errorf("no rows to compare models on: %w", ErrNoRows)
	}
	if a.task == Classification {
		out := []Difference{decided(paired2x2(a.right, b.right), true)}
		if !a.unlikely && !b.unlikely {
			out = append(out, decided(meanDifference("log loss", a.log, b.log, 1, 1), false),
				decided(meanDifference("Brier", a.square, b.square, 1, 1), false))
		}
		return out, nil
	}
	out := []Difference{decided(rootDifference(a.square, b.square), false)}
	if s, ok := explained(a, b); ok {
		out = append(out, decided(s, true))
	}
	out = append(out, decided(meanDifference("MAE", a.abs, b.abs, 1, 1), false))
	for k := 0; a.outputs > 1 && k < a.outputs; k++ {
		s := rootDifference(a.errors[k], b.errors[k])
		s.Output = k + 1
		out = append(out, decided(s, false))
	}
	return out, nil
}

// decided says which model is better, if the interval excludes 0; higher means that larger scores are better.
func decided(s Score, higher bool) Difference {
	d := Difference{Score: s}
	switch {
	case s.Low > 0:
		d.Better = "second"
	case s.High < 0:
		d.Better = "first"
	}
	if d.Better != "" && !higher {
		d.Better = map[string]string{"first": "second", "second": "first"}[d.Better]
	}
	return d
}

// meanDifference is the mean of b_i/db − a_i/da, with its interval.
func meanDifference(name string, a, b []float64, da, db float64) Score {
	var m moments
	for i := range a {
		m.add(b[i]/db - a[i]/da)
	}
	s := Score{Name: name, Value: m.mean, Rows: int64(len(a))}
	s.Low, s.High = skewed(m.mean, m.standardError(), m.skewness(), m.n)
	return s
}

// rootDifference is the difference of the roots of the mean squares, with the interval of the delta method.
func rootDifference(a, b []float64) Score {
	ra, rb := math.Sqrt(mean(a)), math.Sqrt(mean(b))
	if ra == 0 || rb == 0 { // the root has no derivative at 0: compare the squares themselves
		s := meanDifference("MSE", a, b, 1, 1)
		return s
	}
	s := meanDifference("RMSE", a, b, 2*ra, 2*rb)
	// The mean of b²/2rb − a²/2ra is (rb − ra)/2. The other half has no first-order error.
	half := s.Value
	s.Value, s.Low, s.High = rb-ra, rb-ra+s.Low-half, rb-ra+s.High-half
	return s
}

// explained is the difference of the mean R² over targets; false if a target is constant.
func explained(a, b *Losses) (Score, bool) {
	d := make([]float64, a.Len())
	for k := range a.outputs {
		var truth moments
		for _, y := range a.y[k] {
			truth.add(y)
		}
		v := truth.m2 / float64(a.Len())
		if !(v > 0) {
			return Score{}, false
		}
		lost := (mean(b.errors[k]) - mean(a.errors[k])) / v
		for i, y := range a.y[k] {
			// The variance of the target is an estimate too, so its influence is included.
			u := (y - truth.mean) * (y - truth.mean) / v
			d[i] += ((b.errors[k][i]-a.errors[k][i])/v - lost*(u-1)) / float64(a.outputs)
		}
	}
	s := meanDifference("R²", d, make([]float64, len(d)), 1, 1)
	return s, true
}

// paired2x2 is the difference of two shares over the same rows, b minus a, with Newcombe's interval (see Differences).
func paired2x2(a, b []bool) Score {
	var both, first, second, none float64
	for i := range a {
		switch {
		case a[i] && b[i]:
			both++
		case a[i]:
			first++
		case b[i]:
			second++
		default:
			none++
		}
	}
	n := float64(len(a))
	pa, pb := (both+first)/n, (both+second)/n
	la, ua := wilson(pa, n)
	lb, ub := wilson(pb, n)
	phi := 0.0
	if product := (both + first) * (second + none) * (both + second) * (first + none); product > 0 {
		top := both*none - first*second
		switch { // the continuity correction of method 10
		case top > n/2:
			top -= n / 2
		case top >= 0:
			top = 0
		}
		phi = top / math.Sqrt(product)
	}
	side := func(x, y float64) float64 { return math.Sqrt(max(0, x*x-2*phi*x*y+y*y)) }
	return Score{Name: "accuracy", Value: pb - pa, Rows: int64(len(a)), Low: pb - pa - side(pb-lb, ua-pa),
		High: pb - pa + side(ub-pb, pa-la)}
}

// wilson is the score interval of a share p of n (Wilson 1927).
func wilson(p, n float64) (low, high float64) {
	centre, d := p+z95*z95/(2*n), z95*math.Sqrt(p*(1-p)/n+z95*z95/(4*n*n))
	return (centre - d) / (1 + z95*z95/n), (centre + d) / (1 + z95*z95/n)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
