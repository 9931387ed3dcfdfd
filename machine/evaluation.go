package machine

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
)

// Score is a measure of predictions with a 95 % interval that assumes independent rows. Low and High are NaN if there
// are too few rows or if Note gives another reason. NaN and infinities are null in JSON.
type Score struct {
	Name   string // accuracy, log loss, RMSE, …
	Output int    // from 1: the score of one output alone; 0 means all outputs
	Value  float64
	Low    float64
	High   float64
	Rows   int64  // number of rows it is taken over
	Note   string // why there are no limits, if there are none
}

type scoreJSON struct {
	Name   string   `json:"name"`
	Output int      `json:"output,omitempty"`
	Value  *float64 `json:"value"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	Rows   int64    `json:"rows"`
	Note   string   `json:"note,omitempty"`
}

// MarshalJSON writes {"name":…,"value":…,"low":…,"high":…,"rows":…}.
func (s Score) MarshalJSON() ([]byte, error) {
	number := func(v float64) *float64 {
		if !dense.IsFinite(v) {
			return nil
		}
		return &v
	}
	return json.Marshal(scoreJSON{s.Name, s.Output, number(s.Value), number(s.Low), number(s.High), s.Rows,
		s.Note})
}

// UnmarshalJSON reads the output of MarshalJSON; null is NaN.
func (s *Score) UnmarshalJSON(b []byte) error {
	var j scoreJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	number := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	*s = Score{j.Name, j.Output, number(j.Value), number(j.Low), number(j.High), j.Rows, j.Note}
	return nil
}

// minProbability keeps the log loss of one sure mistake finite: 2⁻⁵², as scikit-learn does for float64.
const minProbability = 0x1p-52

// Evaluation compares predictions with the truth, block by block, in memory that does not grow with the number of rows.
// Evaluations of parts merge.
type Evaluation struct {
	kind    Kind
	task    Task
	outputs int
	n       int64

	// Classification.
	confusion     [][]int64
	weights       [][]tally // the same with weights; nil without weights
	unlikely      bool      // some class scores are not probabilities: no log loss, Brier score and reliability
	loss, squares lossSums
	bins          [len(binEnds)]binSums
	ranks         ranks
	models        []*ranks // the ranks of each model, if several predicted the rows; nil: one model

	// For regression: means over outputs by row, and sums by output.
	mse, mae moments
	perMSE   []moments
	r2       []r2Sums
	logs     moments      // log density of the targets under mean and variance
	covered  tally        // per row, the share of its outputs inside their intervals
	varied   tally        // weights of the rows that have intervals
	ranged   int64        // number of rows that have intervals
	limits   [][2]float64 // 90 % intervals per output, as Model.Interval; nil means those of variances

	// Density.
	score moments
}

// Evaluation returns an empty evaluation for predictions of this model. It knows whether class scores are
// probabilities: those of ridge are if they are calibrated, those of a kernel average if its features are positive.
func (m *Model) Evaluation() (*Evaluation, error) {
	e := NewEvaluation(m.Kind, m.Task, m.Outputs)
	if m.Calibrated() {
		e.unlikely = false
		return e, nil
	}
	for k := 0; !m.Residuals.IsEmpty() && m.IntervalBy == "" && k < m.Outputs; k++ {
		low, high, err := m.Interval(k, 0.9)
		if err != nil {
			return nil, err
		}
		if math.IsInf(low, -1) || math.IsInf(high, 1) { // of too few rows
			e.limits = nil
			break
		}
		e.limits = append(e.limits, [2]float64{low, high})
	}
	if kind, err := m.Kind.Info(); err != nil || !kind.Averages || m.Task != Classification {
		return e, err
	}
	fm, err := randfeat.NewWithOmega[float64](m.Spec, m.Omega)
	if err != nil {
		return nil, err
	}
	e.unlikely = e.unlikely || !fm.Positive()
	return e, nil
}

// NewEvaluation returns the evaluation of no rows; outputs is the number of targets or classes.
func NewEvaluation(kind Kind, task Task, outputs int) *Evaluation {
	e := &Evaluation{kind: kind, task: task, outputs: outputs}
	switch task {
	case Classification:
		e.confusion = make([][]int64, outputs)
		for i := range e.confusion {
			e.confusion[i] = make([]int64, outputs)
		}
		info, err := kind.Info()
		e.unlikely = err != nil || !info.Probabilities
		e.ranks.classes = outputs
	case Regression:
		e.perMSE, e.r2 = make([]moments, outputs), make([]r2Sums, outputs)
	}
	return e
}

// Probable reports whether all scores of classes so far were probabilities.
func (e *Evaluation) Probable() bool { return e.task == Classification && !e.unlikely }

// TakeProbabilities takes log loss, Brier score and reliability from o, an evaluation of some of the same rows with
// calibrated scores. Counts and ranks remain those of e, so calibration cannot change which class was predicted.
func (e *Evaluation) TakeProbabilities(o *Evaluation) error {
	if e.task != Classification || o.task != e.task || o.outputs != e.outputs {
		return fmt.Errorf("probabilities of a %s of %d for a %s of %d: %w", o.task, o.outputs, e.task, e.outputs,
			ErrMismatch)
	}
	e.unlikely, e.loss, e.squares, e.bins = o.unlikely, o.loss, o.squares, o.bins
	return nil
}

// Len is the number of rows added.
func (e *Evaluation) Len() int64 { return e.n }

// Add compares rows. y holds targets or the class index, as [Rows] returns them; a density has no y. pred holds
// predictions, or log densities; variance holds the variances of [Predictor.Variance], or is empty.
func (e *Evaluation) Add(y, pred, variance dense.Matrix[float64]) error {
	return e.AddWeighted(y, pred, variance, nil)
}

// AddWeighted is Add for rows with weights, which must not be negative; nil means all 1. Means and shares are weighted,
// and intervals use the effective sample size. Confusion still counts rows.
func (e *Evaluation) AddWeighted(y, pred, variance dense.Matrix[float64], weights []float64) error {
	if err := e.check(y, pred, variance); err != nil {
		return err
	}
	if weights != nil && len(weights) != pred.Rows {
		return fmt.Errorf("%d weights of %d rows: %w", len(weights), pred.Rows, dense.ErrShape)
	}
	for i, w := range weights {
		if !(w >= 0) || !dense.IsFinite(w) {
			return fmt.Errorf("weight of row %d is %g, want a number that is not negative: %w", e.n+int64(i), w, ErrSetup)
		}
	}
	if weights != nil && e.weights == nil && e.task == Classification {
		e.weigh()
	}
	for i := range pred.Rows {
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		switch p := pred.Row(i); e.task {
		case Classification:
			e.addClass(int(y.At(i, 0)), p, w)
		case Regression:
			e.addTargets(y.Row(i), p, w)
			var v []float64
			if variance.Cols > 0 {
				v = variance.Row(i)
				e.addVariance(y.Row(i), p, v, w)
			}
			if v != nil || e.limits != nil {
				e.addCovered(y.Row(i), p, v, w)
			}
		default:
			e.score.addWeighted(p[0], w)
		}
	}
	e.n += int64(pred.Rows)
	return nil
}

func (e *Evaluation) check(y, pred, variance dense.Matrix[float64]) error {
	if pred.Cols != e.outputs {
		return fmt.Errorf("predictions of %d columns, want %d: %w", pred.Cols, e.outputs, dense.ErrShape)
	}
	if err := pred.Check(); err != nil {
		return fmt.Errorf("predictions: %w", err)
	}
	if e.task == Unsupervised {
		for i := range pred.Rows {
			if v := pred.At(i, 0); math.IsNaN(v) || math.IsInf(v, 1) {
				return fmt.Errorf("log density %g: %w", v, dense.ErrNotFinite)
			}
		}
		return nil
	}
	if err := finite("predictions", pred, e.n); err != nil {
		return err
	}
	s := Setup{Task: e.task, Outputs: e.outputs}
	if y.Rows != pred.Rows || y.Cols != s.TargetColumns() {
		return fmt.Errorf("targets are %d×%d, want %d×%d: %w", y.Rows, y.Cols, pred.Rows, s.TargetColumns(),
			dense.ErrShape)
	}
	if err := finite("targets", y, e.n); err != nil {
		return err
	}
	for i := 0; e.task == Classification && i < y.Rows; i++ {
		if c := y.At(i, 0); c != math.Trunc(c) || c < 0 || c >= float64(e.outputs) {
			return fmt.Errorf("target of row %d is %g, want a class from 0 to %d: %w", e.n+int64(i), c, e.outputs-1,
				ErrClass)
		}
	}
	if e.task != Regression || variance.Cols == 0 {
		return nil
	}
	if variance.Rows != pred.Rows || variance.Cols != e.outputs {
		return fmt.Errorf("variances are %d×%d, want %d×%d: %w", variance.Rows, variance.Cols, pred.Rows, e.outputs,
			dense.ErrShape)
	}
	if err := finite("variances", variance, e.n); err != nil {
		return err
	}
	for i := range variance.Rows {
		for _, v := range variance.Row(i) {
			if v <= 0 { // no density
				return fmt.Errorf("variance of row %d is %g, want more than 0: %w", e.n+int64(i), v, ErrSetup)
			}
		}
	}
	return nil
}

// weigh starts to keep weights beside the counts; rows so far have weight 1.
func (e *Evaluation) weigh() {
	e.weights = make([][]tally, len(e.confusion))
	for i, row := range e.confusion {
		e.weights[i] = make([]tally, len(row))
		for j, n := range row {
			e.weights[i][j] = counted(n)
		}
	}
	e.ranks.weigh()
}

// cell is the weighted count of rows of class truth that were predicted as class predicted.
func (e *Evaluation) cell(truth, predicted int) tally {
	if e.weights == nil {
		return counted(e.confusion[truth][predicted])
	}
	return e.weights[truth][predicted]
}

// brier is the Brier score of probabilities p of the classes, and whether they are probabilities. float32 predictions
// of many classes sum to 1 only within about 1e-4.
func brier(p []float64, truth int) (square float64, likely bool) {
	sum, likely := 0.0, true
	for k, v := range p {
		likely = likely && !(v < -1e-6 || v > 1+1e-6)
		sum += v
		if k == truth {
			v--
		}
		square += v * v
	}
	return square, likely && !(math.Abs(sum-1) > 1e-3)
}

// addClass adds a row of class truth with the scores p. For the upper limits of losses it also sums the losses of
// mistakes: extra over the mistakes seen, fear over the mistakes that the model's own probabilities predict (see
// lossSums).
func (e *Evaluation) addClass(truth int, p []float64, weight float64) {
	top := Class(p)
	e.confusion[truth][top]++
	if e.weights != nil {
		e.weights[truth][top].add(weight)
	}
	e.ranks.add(truth, p, weight)
	if e.unlikely {
		return
	}
	square, likely := brier(p, truth)
	e.unlikely = !likely
	bounded := func(v float64) float64 { return min(max(v, minProbability), 1) }
	rest, logs, squares := 0.0, 0.0, 0.0 // of the other classes
	for k, v := range p {
		if k != top {
			v = bounded(v)
			rest += v
			logs += v * math.Log(bounded(p[top])/v)
			squares += v * 2 * (p[top] - v)
		}
	}
	e.loss.addWeighted(-math.Log(bounded(p[truth])), weight)
	e.squares.addWeighted(square, weight)
	e.bins[binOf(p[top])].add(min(max(p[top], 0), 1), top == truth, weight)
	e.loss.fear += weight * (logs / rest)
	e.squares.fear += weight * (squares / rest)
	if top != truth {
		e.loss.wrong.add(weight)
		e.squares.wrong.add(weight)
		e.loss.extra += weight * math.Log(bounded(p[top])/bounded(p[truth]))
		e.squares.extra += weight * (2 * (p[top] - p[truth]))
	}
}

// Class returns the class with the largest score, the first of equal ones.
func Class(scores []float64) int {
	best := 0
	for k, v := range scores {
		if v > scores[best] {
			best = k
		}
	}
	return best
}

// addTargets adds squared and absolute errors of a row.
func (e *Evaluation) addTargets(y, p []float64, weight float64) {
	square, abs := 0.0, 0.0
	for k, v := range p {
		d := y[k] - v
		square += d * d
		abs += math.Abs(d)
		e.perMSE[k].addWeighted(d*d, weight)
		e.r2[k].add(y[k], d*d, weight)
	}
	e.mse.addWeighted(square/float64(len(p)), weight)
	e.mae.addWeighted(abs/float64(len(p)), weight)
}

// addVariance adds the log density of the targets under a normal law with the predicted mean and variance.
func (e *Evaluation) addVariance(y, p, variance []float64, weight float64) {
	sum := 0.0
	for k, v := range variance {
		d := y[k] - p[k]
		sum -= 0.5 * (math.Log(2*math.Pi*v) + d*d/v)
	}
	e.logs.addWeighted(sum, weight)
}

// addCovered counts targets inside their 90 % intervals: the model's own, or those of a normal law with its variance.
func (e *Evaluation) addCovered(y, p, variance []float64, weight float64) {
	e.ranged++
	e.varied.add(weight)
	covered := 0
	for k, v := range p {
		limits, sd := [2]float64{-z90, z90}, 1.0
		if e.limits != nil {
			limits = e.limits[k]
		}
		if variance != nil {
			sd = math.Sqrt(variance[k])
		}
		if d := y[k] - v; limits[0]*sd <= d && d <= limits[1]*sd {
			covered++
		}
	}
	e.covered.add(weight * float64(covered) / float64(len(p)))
}

// Merge adds the rows of o, which must be of the same kind, task and outputs. Sums are added, so the result depends on
// the order of merging only by rounding, except for ranks once rows are dropped.
func (e *Evaluation) Merge(o *Evaluation) error {
	if e.kind != o.kind || e.task != o.task || e.outputs != o.outputs {
		return fmt.Errorf("evaluation of a %s %s with %d outputs and one of a %s %s with %d: %w",
			e.kind, e.task, e.outputs, o.kind, o.task, o.outputs, ErrMismatch)
	}
	e.n += o.n
	if e.weights == nil && o.weights != nil {
		e.weigh()
	}
	for i := range e.weights {
		for j := range e.weights[i] {
			e.weights[i][j].merge(o.cell(i, j))
		}
	}
	for i, row := range o.confusion {
		for j, c := range row {
			e.confusion[i][j] += c
		}
	}
	e.unlikely = e.unlikely || o.unlikely
	e.loss.merge(o.loss)
	e.squares.merge(o.squares)
	for i, b := range o.bins {
		e.bins[i].merge(b)
	}
	e.ranks.merge(o.ranks)
	e.mse.merge(o.mse)
	e.mae.merge(o.mae)
	for k := range e.r2 {
		e.perMSE[k].merge(o.perMSE[k])
		e.r2[k].merge(o.r2[k])
	}
	e.logs.merge(o.logs)
	e.covered.merge(o.covered)
	e.varied.merge(o.varied)
	e.ranged += o.ranged
	e.score.merge(o.score)
	return nil
}

// Scores are the measures, the main one first:
//
//	classification  accuracy, balanced accuracy, area under the ROC curve (the mean over classes, each against all
//	                others); log loss, Brier, calibration error ([Reliability]) where the model has probabilities
//	regression      RMSE, R², MAE; with variances: mean log density of the targets; with variances or prediction
//	                intervals: coverage of those of 90 %; with several outputs RMSE and R² of each
//	density         mean log density
//
// There are none without rows.
func (e *Evaluation) Scores() []Score {
	if e.n == 0 {
		return nil
	}
	switch e.task {
	case Classification:
		out := []Score{e.accuracy(), e.balanced()}
		if s := meanArea(e.ranked(), e.outputs); !math.IsNaN(s.Value) { // not of rows of one class
			out = append(out, s)
		}
		if r := e.Reliability(); r != nil {
			out = append(out, e.loss.score("log loss"), e.squares.score("Brier"), Score{Name: "calibration error",
				Value: r.Error, Low: math.NaN(), High: math.NaN(), Rows: e.loss.n})
		}
		return out
	case Regression:
		return e.regression()
	}
	return []Score{e.score.score("mean log density", math.Inf(-1))}
}

// ranked returns the ranks of every model that predicted rows.
func (e *Evaluation) ranked() []*ranks {
	if e.models != nil {
		return e.models
	}
	return []*ranks{&e.ranks}
}

// Confusion counts rows of a classification by true class and, within, by predicted class.
func (e *Evaluation) Confusion() [][]int64 {
	out := make([][]int64, len(e.confusion))
	for i, row := range e.confusion {
		out[i] = append([]int64(nil), row...)
	}
	return out
}

func (e *Evaluation) accuracy() Score {
	var right, all tally
	for c := range e.confusion {
		right.merge(e.cell(c, c))
		for k := range e.confusion {
			all.merge(e.cell(c, k))
		}
	}
	p, low, high := shareOf(right, all)
	return Score{Name: "accuracy", Value: p, Low: low, High: high, Rows: e.n}
}

// balanced is the mean recall of the classes that occur. Its interval combines the intervals of the classes as in Zou
// and Donner 2008, "Construction of confidence limits about effect measures: a general approach" (MOVER). Unlike an
// interval by the delta method, it has a width even if all rows of a class are right.
func (e *Evaluation) balanced() Score {
	sum, below, above, classes := 0.0, 0.0, 0.0, 0.0
	for c := range e.confusion {
		var all tally
		for k := range e.confusion {
			all.merge(e.cell(c, k))
		}
		if all.w == 0 {
			continue
		}
		p, low, high := shareOf(e.cell(c, c), all)
		sum += p
		below += (p - low) * (p - low)
		above += (high - p) * (high - p)
		classes++
	}
	v := sum / classes
	return Score{Name: "balanced accuracy", Value: v, Low: v - math.Sqrt(below)/classes, High: v +
		math.Sqrt(above)/classes, Rows: e.n}
}

func (e *Evaluation) regression() []Score {
	out := []Score{rmse(e.mse, e.outputs)}
	sum := Score{Name: "R²", Rows: e.n}
	for k := range e.r2 {
		s, ok := e.r2[k].score()
		if !ok {
			sum.Rows = 0
			break
		}
		// The standard error of an average over outputs is at most the average of their standard errors: outputs of a
		// row may be correlated.
		sum.Value += s.Value / float64(e.outputs)
		sum.Low += s.Low / float64(e.outputs)
		sum.High += s.High / float64(e.outputs)
	}
	if sum.Rows > 0 {
		out = append(out, sum.orNone())
	}
	mae := Score{Name: "MAE", Value: e.mae.mean, Rows: e.mae.n}
	mae.Low, mae.High = e.mae.errorLimits(normalSizes, e.outputs)
	mae.High = min(mae.High, out[0].High) // the MAE is never above the RMSE
	out = append(out, mae)
	if e.varied.w > 0 {
		p := e.covered.w / e.varied.w
		// Outputs of one row are not independent, so a row counts as one observation.
		low, high := proportion(p, e.varied.effective())
		if e.logs.n > 0 {
			out = append(out, e.logs.score("mean log density of the targets", math.Inf(-1)))
		}
		out = append(out, Score{Name: "coverage of 90 % intervals", Value: p, Low: low, High: high, Rows: e.ranged})
	}
	for k := 0; k < e.outputs && e.outputs > 1; k++ {
		s := rmse(e.perMSE[k], 1)
		s.Output = k + 1
		out = append(out, s)
		if s, ok := e.r2[k].score(); ok {
			s.Output = k + 1
			out = append(out, s.orNone())
		}
	}
	return out
}

// tooUncertain is the note of an R² without an interval.
const tooUncertain = "too uncertain, it would reach from below -10 to above 0"

// orNone drops an interval of R² that reaches from below −10 to above 0. Such intervals mostly come from single rows
// with errors larger than all others together. The squared error is in the numerator, but in the denominator only if
// the target itself is far off, so the lower limit could be any number, such as −9e15.
func (s Score) orNone() Score {
	if s.Name == "R²" && s.Low < -10 && s.High > 0 {
		s.Low, s.High, s.Note = math.NaN(), math.NaN(), tooUncertain
	}
	return s
}

// rmse takes the root of the limits of the mean square over the given number of outputs.
func rmse(m moments, outputs int) Score {
	low, high := m.errorLimits(normalSquares, outputs)
	return Score{Name: "RMSE", Value: math.Sqrt(m.mean), Low: math.Sqrt(low), High: math.Sqrt(high), Rows: m.n}
}

// r2Sums holds the sums for R² = 1 − A/B, where A is the mean of the squared errors e and B the variance of y, and for
// the variance of its influence (A/B·(y−ȳ)² − e)/B. Powers of y are taken about the first y to avoid cancellation. Sums
// are weighted; fields that end in 2 use squared weights, for the variance of the influence.
type r2Sums struct {
	rows  int64
	of    tally
	shift float64
	u, u2 [7]float64 // Σ (y−shift)^k
	e, e2 [5]float64 // Σ e (y−shift)^k
	ee    [3]float64 // Σ e² (y−shift)^k
	ee2   [1]float64 // Σ e²
	eee   float64    // Σ e³
}

func (s *r2Sums) add(y, e, weight float64) {
	if s.rows == 0 {
		s.shift = y
	}
	s.rows++
	s.of.add(weight)
	d, p := y-s.shift, 1.0
	for k := range s.u {
		s.u[k] += weight * p
		s.u2[k] += weight * weight * p
		if k < len(s.e) {
			s.e[k] += weight * (e * p)
			s.e2[k] += weight * weight * (e * p)
		}
		if k < len(s.ee) {
			s.ee[k] += weight * (e * e * p)
		}
		p *= d
	}
	s.ee2[0] += weight * weight * (e * e)
	s.eee += weight * (e * e * e)
}

// merge adds the rows of o, after moving its sums to the shift of s.
func (s *r2Sums) merge(o r2Sums) {
	if o.rows == 0 {
		return
	}
	if s.rows == 0 {
		s.shift = o.shift
	}
	d := o.shift - s.shift
	for _, x := range [][2][]float64{{s.u[:], o.u[:]}, {s.e[:], o.e[:]}, {s.ee[:], o.ee[:]}, {s.u2[:], o.u2[:]},
		{s.e2[:], o.e2[:]}, {s.ee2[:], o.ee2[:]}} {
		moved(x[1], d)
		addTo(x[0], x[1])
	}
	s.rows += o.rows
	s.of.merge(o.of)
	s.eee += o.eee
}

// moved turns sums of w·x^k into sums of w·(x+d)^k, by the binomial theorem.
func moved(sums []float64, d float64) {
	for k := len(sums) - 1; k > 0; k-- {
		v, c, p := 0.0, 1.0, 1.0 // c = k over j, p = d^j
		for j := 0; j <= k; j++ {
			v += c * p * sums[k-j]
			c = c * float64(k-j) / float64(j+1)
			p *= d
		}
		sums[k] = v
	}
}

// score returns false if all targets are equal: R² is then undefined.
func (s r2Sums) score() (Score, bool) {
	n := s.of.w
	if !(n > 0) {
		return Score{}, false
	}
	d := -s.u[1] / n
	for _, x := range [][]float64{s.u[:], s.e[:], s.ee[:], s.u2[:], s.e2[:]} {
		moved(x, d)
	}
	a, b := s.e[0]/n, s.u[2]/n
	if !(b > 0) {
		return Score{}, false
	}
	q := a / b
	m2 := max(q*q*s.u[4]-2*q*s.e[2]+s.ee[0], 0)
	m3 := q*q*q*s.u[6] - 3*q*q*s.e[4] + 3*q*s.ee[2] - s.eee
	influence := moments{n: s.rows, of: s.of, m2: m2, m3: m3}
	influence.squares.m2 = max(q*q*s.u2[4]-2*q*s.e2[2]+s.ee2[0], 0)
	low, high := skewed(1-q, influence.standardError()/b, influence.skewness(), influence.effective())
	// The influence function describes small changes. Heavy-tailed errors move A far, and B with it, while the
	// explained part B − A stays. Each side therefore takes the wider of the two intervals.
	errors := moments{n: s.rows, of: s.of, mean: a, m2: max(s.ee[0]-n*a*a, 0), m3: s.eee - 3*a*s.ee[0] + 2*n*a*a*a}
	errors.squares.mean, errors.squares.m2 = a, max(s.ee2[0]-2*a*s.e2[0]+s.of.w2*a*a, 0)
	least, most := errors.errorLimits(normalSquares, 1)
	total := b
	if b > a {
		total = b - a + most
	}
	low, high = min(low, 1-most/total), max(high, 1-least/b)
	return Score{Name: "R²", Value: 1 - q, Low: low, High: min(high, 1), Rows: s.rows}, true
}
