package machine

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// FitCalibration finds the parameters ε and a of Model.Calibration that turn scores of classes into probabilities,
//
//	p_k ∝ g(s_k)^a,  g(s) = ε·log(1 + e^{s/ε}).
//
// Scores of least squares on indicators estimate probabilities, but they can be below 0 or above 1, and the penalty
// shrinks them. g(s) is close to s well above 0 and to ε·e^{s/ε} below. So a = 1 with a small ε keeps good estimates,
// and a large ε gives the scaling of Platt 1999 ("Probabilistic outputs for support vector machines") without its
// offset. g is increasing: the largest score stays the largest.
//
// The scores must be out of fold, because scores of training rows are too confident. ε and a minimise the log loss with
// smoothed targets as in Platt 1999, so that a stays finite if no row is wrong: a row of a class of n rows counts as
// another class by 2/K · 1/(n+2). Over all rows this adds up to about two rows, as with Platt's two classes. weights
// may be nil.
//
// With shifted there is an offset b_k per class, p_k ∝ e^{b_k}·g(s_k)^a, fitted after ε and a. The offsets move the
// decision border to where the weighted losses want it. Weights in the fit alone do not move the border of a model that
// interpolates.
func FitCalibration(scores dense.Matrix[float64], classes []int, weights []float64, shifted bool) ([]float64, error) {
	n, k := scores.Rows, scores.Cols
	if weights != nil && len(weights) != n {
		return nil, fmt.Errorf("%d weights of %d rows: %w", len(weights), n, dense.ErrShape)
	}
	if n != len(classes) || k < 2 {
		return nil, fmt.Errorf("%d×%d scores and %d classes: %w", n, k, len(classes), dense.ErrShape)
	}
	if n == 0 {
		return nil, fmt.Errorf("calibration on no rows: %w", ErrNoRows)
	}
	if err := scores.CheckFinite(); err != nil {
		return nil, fmt.Errorf("scores: %w", err)
	}
	rows := make([]float64, k)
	for i, c := range classes {
		if c < 0 || c >= k {
			return nil, fmt.Errorf("class %d of %d: %w", c, k, ErrClass)
		}
		if weights == nil {
			rows[c]++
		} else {
			rows[c] += weights[i]
		}
	}
	c := calibrating{z: dense.New[float64](n, k), classes: classes, weights: weights, other: make([]float64, k),
		shift: make([]float64, k), targets: make([]float64, n), tab: kern.Best[float64]()}
	for j := range rows {
		c.other[j] = 2 / (rows[j] + 2) / float64(k*(k-1))
	}
	var best []float64
	least, a := math.Inf(1), 1.0
	// A coarse grid suffices: the loss is flat in ε, and a compensates most of it.
	for step := -8; step <= 1; step++ {
		eps := math.Ldexp(1, step)
		for i := range n {
			z := c.z.Row(i)
			for j, s := range scores.Row(i) {
				z[j] = logSoft(s, eps)
			}
		}
		c.aim()
		var loss float64
		a, loss = c.minimise(a)
		for turn := 0; shifted && turn < maxTurns; turn++ {
			c.match(a)
			last := loss
			if a, loss = c.minimise(a); last-loss < 1e-7 {
				break
			}
		}
		if loss < least {
			if least, best = loss, []float64{eps, a}; shifted {
				best = append(best, c.shift...)
			}
		}
	}
	return best, nil
}

// logSoft is log g(s).
func logSoft(s, eps float64) float64 {
	switch t := s / eps; {
	case t > 36:
		return math.Log(s)
	case t < -36:
		return math.Log(eps) + t
	default:
		return math.Log(eps * math.Log1p(math.Exp(t)))
	}
}

// maxTurns bounds the alternating updates of a and the shifts.
const maxTurns = 100

// calibrating is the log loss of softmax(a·z + shift).
type calibrating struct {
	z       dense.Matrix[float64]
	classes []int
	weights []float64 // nil means 1
	other   []float64 // by class of a row: smoothed target of every other class
	shift   []float64 // offset of each class
	targets []float64 // by row, see aim

	tab        *kern.Table[float64]
	p          []float64 // exponentials of calibrationRows rows
	tops, sums [calibrationRows]float64
}

// match moves the shifts towards the stationary point of the loss, where each class has the predicted weight that its
// targets demand. One call is one step of iterative scaling (Darroch & Ratcliff 1972, "Generalized iterative scaling
// for log-linear models").
func (c *calibrating) match(a float64) {
	k := len(c.shift)
	want, have := make([]float64, k), make([]float64, k)
	for lo := 0; lo < c.z.Rows; lo += calibrationRows {
		hi := min(lo+calibrationRows, c.z.Rows)
		p, _, sums := c.powers(a, lo, hi)
		for i, y := range c.classes[lo:hi] {
			w := 1.0
			if c.weights != nil {
				w = c.weights[lo+i]
			}
			for j, e := range p[i*k:][:k] {
				have[j] += w * e / sums[i]
				want[j] += w * c.other[y]
			}
			want[y] += w * (1 - float64(k)*c.other[y])
		}
	}
	for j := range c.shift {
		if have[j] > 0 && want[j] > 0 { // a class without weight determines no shift
			c.shift[j] += math.Log(want[j] / have[j])
		}
	}
}

// minimise finds a between 2⁻¹⁰ and 2¹⁰ by Newton's method, safeguarded by a bracket: the loss is convex in a.
func (c *calibrating) minimise(start float64) (a, loss float64) {
	low, high := 0x1p-10, 0x1p10
	a = min(max(start, low), high)
	for range 60 {
		var first, second float64
		loss, first, second = c.at(a)
		if first > 0 {
			high = a
		} else {
			low = a
		}
		next := a - first/second
		if !(next > low && next < high) {
			next = math.Sqrt(low * high)
		}
		if math.Abs(next-a) <= 1e-6*a {
			break
		}
		a = next
	}
	return a, loss
}

// calibrationRows is the number of rows whose exponentials are computed together, while they are in cache.
const calibrationRows = 256

// at returns the mean loss at a and its first two derivatives.
func (c *calibrating) at(a float64) (loss, first, second float64) {
	k, n := c.z.Cols, 0.0
	offsets := c.offsets()
	for lo := 0; lo < c.z.Rows; lo += calibrationRows {
		hi := min(lo+calibrationRows, c.z.Rows)
		p, tops, sums := c.powers(a, lo, hi)
		for i := lo; i < hi; i++ {
			mean, square, z := 0.0, 0.0, c.z.Row(i)
			for j, e := range p[(i-lo)*k:][:k] {
				mean += e * z[j]
				square += e * z[j] * z[j]
			}
			sum := sums[i-lo]
			mean /= sum
			w := 1.0
			if c.weights != nil {
				w = c.weights[i]
			}
			n += w
			loss += w * (tops[i-lo] - a*c.targets[i] - offsets[c.classes[i]])
			first += w * (mean - c.targets[i])
			second += w * max(square/sum-mean*mean, 0)
		}
		c.tab.Log(sums)
		for i, l := range sums {
			if c.weights != nil {
				l *= c.weights[lo+i]
			}
			loss += l
		}
	}
	return loss / n, first / n, second / n
}

// powers returns exp(a·z_ij + shift_j − top_i) of rows lo to hi−1 with their largest exponents top_i and their sums.
// The next call overwrites them.
func (c *calibrating) powers(a float64, lo, hi int) (p, tops, sums []float64) {
	k := c.z.Cols
	c.p = buf.Sized(c.p, calibrationRows*k)
	p, tops, sums = c.p[:(hi-lo)*k], c.tops[:hi-lo], c.sums[:hi-lo]
	for i := lo; i < hi; i++ {
		t, top := p[(i-lo)*k:][:k], math.Inf(-1)
		for j, v := range c.z.Row(i) {
			t[j] = a*v + c.shift[j]
			top = max(top, t[j])
		}
		for j := range t {
			t[j] -= top
		}
		tops[i-lo] = top
	}
	c.tab.Exp(p, 0)
	for i := range sums {
		sums[i] = 0
		for _, e := range p[i*k:][:k] {
			sums[i] += e
		}
	}
	return p, tops, sums
}

// aim computes targets, the expectations of z under the smoothed targets of the rows.
func (c *calibrating) aim() {
	for i, y := range c.classes {
		z, sum := c.z.Row(i), 0.0
		for _, v := range z {
			sum += v - z[y]
		}
		c.targets[i] = z[y] + c.other[y]*sum
	}
}

// offsets are the expectations of the shifts under the smoothed targets, by class of a row.
func (c *calibrating) offsets() []float64 {
	offsets := make([]float64, len(c.shift))
	for y, own := range c.shift {
		for _, v := range c.shift {
			offsets[y] += v - own
		}
		offsets[y] = own + c.other[y]*offsets[y]
	}
	return offsets
}

// Calibrated reports whether scores of classes become probabilities by Model.Calibration.
func (m *Model) Calibrated() bool { return len(m.Calibration) > 0 }

// Calibrate turns the class scores of one row into probabilities, in place. The model must be Calibrated.
func (m *Model) Calibrate(scores []float64) {
	eps, a := m.Calibration[0], m.Calibration[1]
	top := math.Inf(-1)
	for k, s := range scores {
		scores[k] = a * logSoft(s, eps)
		if len(m.Calibration) > 2 {
			scores[k] += m.Calibration[2+k]
		}
		top = max(top, scores[k])
	}
	sum := 0.0
	for k, v := range scores {
		scores[k] = math.Exp(v - top)
		sum += scores[k]
	}
	for k := range scores {
		scores[k] /= sum
	}
}

// validateCalibration checks the number and the signs of the parameters.
func (m *Model) validateCalibration() error {
	if m.Calibration == nil {
		return nil
	}
	kind, err := m.Kind.Info()
	if err != nil {
		return err
	}
	switch {
	case m.Task != Classification || kind.softmax:
		return fmt.Errorf("%s model of a %s with a calibration of scores: %w", m.Kind, m.Task, ErrSetup)
	case len(m.Calibration) != 2 && len(m.Calibration) != 2+m.Outputs:
		return fmt.Errorf("calibration of %d numbers, want 2 or %d: %w", len(m.Calibration), 2+m.Outputs,
			dense.ErrShape)
	}
	for i, v := range m.Calibration {
		if i < 2 && !(v > 0) || !dense.IsFinite(v) {
			return fmt.Errorf("number %d of the calibration is %g, want a positive number, or any for a class: %w", i+1, v,
				ErrSetup)
		}
	}
	return nil
}
