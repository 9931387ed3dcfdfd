package machine

import (
	"cmp"
	"fmt"
	"math"
	"sort"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// Model is a fitted machine as plain data. Nothing in this package changes it.
type Model struct {
	Kind    Kind
	Task    Task
	Outputs int // targets or classes; 1 for a density
	Spec    randfeat.Spec
	Omega   []coupling.Omega
	Rows    int64   // rows it was fitted on
	Weight  float64 // sum of the weights, for a GP fitted to weighted rows; otherwise 0
	Lambda  float64 // penalty of ridge, GP and logistic regression

	// Weights is F×Outputs: w, or for a smoother Σ_j φ2(x_j)_f y_j e^{−t_f}. A density has none.
	Weights dense.Matrix[float64]
	// Intercept is added to φ·w. For a smoother it is the mean target, the answer where no weight is left.
	Intercept []float64

	// A GP has Noise, the variance of the noise of every output; Centre, the mean feature; and Factor, the upper
	// triangle of U⁻¹ with UᵀU = Σ(φ−Centre)(φ−Centre)ᵀ + λI.
	Noise  []float64
	Centre []float64
	Factor dense.Matrix[float64]

	// Smoothers and densities have LogScale, the references t_f, and Mass, Σ_j φ2(x_j)_f e^{−t_f}. LogScale is −Inf
	// where Mass is 0.
	LogScale []float64
	Mass     []float64

	// Calibration holds the parameters ε and a that turn class scores into probabilities ([FitCalibration]), followed
	// by one offset per class if there are any (shifted). nil leaves scores as they are.
	Calibration []float64

	// Residuals are the limits of prediction intervals ([Model.Interval]), from differences between held-out targets
	// and their predictions. There are two rows per output: the lower limits at tail probabilities 0, 1/1000, …, 1/2,
	// and the upper ones. For a GP they are in units of the standard deviation of the prediction. Empty means no
	// prediction intervals.
	Residuals dense.Matrix[float64]

	// GroupResiduals are Residuals for each level of the column IntervalBy, one level after the other
	// ([Model.SetGroups]). Empty means that all rows share the same intervals.
	GroupResiduals dense.Matrix[float64]
	IntervalBy     string

	// Quantiles are log densities of calibration rows at equal steps of probability, ascending.
	Quantiles []float64

	// Schema says how the columns of a table become x and which are the targets; nil means that rows are numbers.
	Schema *data.Schema

	// History says where the model comes from; nil means unknown.
	History *History

	// Sketch tells rows of the fit from others; nil means that it is not known which they were.
	Sketch *RowSketch

	// Extra are strings of the caller that are saved with the model.
	Extra map[string]string
}

// Anomaly is the fraction of calibration rows with a higher log density than score: near 1 for outliers. It is NaN for
// a model without Quantiles.
func (m *Model) Anomaly(score float64) float64 {
	q := m.Quantiles
	if len(q) < 2 || math.IsNaN(score) {
		return math.NaN()
	}
	i := sort.SearchFloat64s(q, score) // q[i−1] < score ≤ q[i]
	switch i {
	case 0:
		if score < q[0] {
			return 1
		}
		i = 1
	case len(q):
		return 0
	}
	lo, hi := q[i-1], q[i]
	part := 1.0
	if hi > lo && !math.IsInf(lo, -1) {
		part = (score - lo) / (hi - lo)
	}
	return 1 - (float64(i-1)+part)/float64(len(q)-1)
}

// Validate reports fields that are missing or inconsistent. Every function of this package that takes a model calls it.
func (m *Model) Validate() error {
	fm, err := randfeat.NewWithOmega[float64](m.Spec, m.Omega)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return m.validate(fm.OutDim(), fm.Positive())
}

// validate is Validate for a map of f features; positive says that none can be negative.
func (m *Model) validate(f int, positive bool) error {
	k := m.Outputs
	kind, err := m.Kind.Info()
	if err != nil {
		return err
	}
	if err := kind.does(m.Task); err != nil {
		return err
	}
	if kind.Positive && !positive {
		return fmt.Errorf("%s with a family that is not positive: %w", m.Kind, ErrSetup)
	}
	if k < 1 || m.Task == Classification && k < 2 || m.Task == Unsupervised && k != 1 {
		return fmt.Errorf("%s model with %d outputs: %w", m.Task, k, ErrSetup)
	}
	if m.Rows < 1 || !(m.Lambda >= 0) || !dense.IsFinite(m.Lambda) {
		return fmt.Errorf("model of %d rows with λ = %g: %w", m.Rows, m.Lambda, ErrSetup)
	}
	if !(m.Weight >= 0) || !dense.IsFinite(m.Weight) {
		return fmt.Errorf("model of rows of weight %g: %w", m.Weight, ErrSetup)
	}
	for _, part := range []struct {
		name       string
		a          dense.Matrix[float64]
		rows, cols int
		minusInf   bool
		positive   bool
	}{
		{name: "weights", a: m.Weights, rows: f, cols: k},
		{name: "intercept", a: row(m.Intercept), rows: 1, cols: k},
		{name: "noise", a: row(m.Noise), rows: 1, cols: k, positive: true},
		{name: "centre", a: row(m.Centre), rows: 1, cols: f},
		{name: "factor", a: m.Factor, rows: f, cols: f},
		{name: "log_scale", a: row(m.LogScale), rows: 1, cols: f, minusInf: true},
		{name: "mass", a: row(m.Mass), rows: 1, cols: f},
		{name: "quantiles", a: row(m.Quantiles), rows: 1, cols: len(m.Quantiles), minusInf: true},
	} {
		if !kind.has(part.name) {
			if !part.a.IsEmpty() {
				return fmt.Errorf("%s model with %s: %w", m.Kind, part.name, ErrSetup)
			}
			continue
		}
		if part.a.Rows != part.rows || part.a.Cols != part.cols {
			return fmt.Errorf("%s is %d×%d, want %d×%d: %w", part.name, part.a.Rows, part.a.Cols, part.rows, part.cols,
				dense.ErrShape)
		}
		if err := part.a.Check(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		for i := range part.a.Rows {
			for j, v := range part.a.Row(i) {
				if !dense.IsFinite(v) && !(part.minusInf && math.IsInf(v, -1)) || part.positive && v < 0 {
					return fmt.Errorf("%s: entry %d, %d is %g: %w", part.name, i, j, v, dense.ErrNotFinite)
				}
			}
		}
	}
	if !sort.Float64sAreSorted(m.Quantiles) {
		return fmt.Errorf("quantiles are not in order: %w", ErrSetup)
	}
	for _, check := range []func() error{m.validateCalibration, m.validateResiduals, m.validateGroups,
		m.History.validate} {
		if err := check(); err != nil {
			return err
		}
	}
	return m.validateSchema()
}

// validateSchema checks that rows encoded by the schema have the shape that the model takes.
func (m *Model) validateSchema() error {
	s := m.Schema
	if s == nil {
		return nil
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if w := s.Width(); w != m.Spec.Dim {
		return fmt.Errorf("schema of %d encoded columns for a map of %d: %w", w, m.Spec.Dim, dense.ErrShape)
	}
	if want := (Setup{Task: m.Task, Outputs: m.Outputs}).TargetColumns(); len(s.Targets) != want {
		return fmt.Errorf("schema of %d targets for a %s of %d outputs: %w", len(s.Targets), m.Task, m.Outputs,
			ErrSetup)
	}
	for _, t := range s.Targets {
		classes := 0
		if m.Task == Classification {
			classes = m.Outputs
		}
		if len(t.Classes) != classes {
			return fmt.Errorf("target %q has %d classes, want %d: %w", t.Name, len(t.Classes), classes, ErrSetup)
		}
	}
	return nil
}

// LogDensity turns a prediction of a density model, the log mean kernel, into the log density of the encoded row. For a
// Gaussian kernel of bandwidth s in d dimensions that subtracts d·log(s√(2π)). Other kernels have no density, and the
// score is returned unchanged.
func (m *Model) LogDensity(score float64) float64 {
	k := m.Spec.Kernel
	if k.Kind != kernel.Gaussian || !k.M.IsEmpty() {
		return score
	}
	s := k.Scale
	s = cmp.Or(s, 1)
	return score - float64(m.Spec.Dim)*math.Log(s*math.Sqrt(2*math.Pi))
}

// row is v as a matrix of one row.
func row(v []float64) dense.Matrix[float64] {
	return dense.Matrix[float64]{Rows: 1, Cols: len(v), Stride: len(v), Data: v}
}

// Limits reports whether numbers outside the range of the training rows are clamped to that range (see
// data.Encoder.Limit). Regression and classification clamp. A GP does not, because its variance must grow away from the
// data; nor does a density, which must recognise rows far from the data.
func (m *Model) Limits() bool {
	kind, err := m.Kind.Info()
	return err == nil && m.Task != Unsupervised && !kind.Bayesian
}
