package tabular

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/kernel/metric"
	"github.com/randfeat/randfeat/machine"
)

// decision holds the choices made on the sample, as plain data with a JSON form. A checkpoint stores it. JSON keeps
// every bit of a float64, so a resumed fit has the same map and λ. Projections are not stored: they are drawn again
// from Spec.Seed.
type decision struct {
	Spec    randfeat.Spec `json:"spec"`
	Lambda  float64       `json:"lambda"`
	Open    bool          `json:"open,omitempty"` // all rows will decide on λ, near Lambda
	Choices []Choice      `json:"choices"`
	Notes   []string      `json:"notes,omitempty"`
	Rows    int64         `json:"rows"` // of the table
	Sampled int           `json:"sampled"`
	Last    uint64        `json:"last,omitempty"`    // largest priority of the sampled rows
	Exact   bool          `json:"exact,omitempty"`   // the kernel of all rows, no random features
	Large   bool          `json:"large,omitempty"`   // by conjugate gradients
	Tried   bool          `json:"tried,omitempty"`   // some choice was between alternatives tried on the sample
	Margins bool          `json:"margins,omitempty"` // the loss of an exact kernel: squared hinge
	// Narrow says that features of landmarks and their products are float32.
	Narrow bool `json:"narrow,omitempty"`
	// Missed is the out-of-fold error of the choice, the root of the mean square of standardised targets; 0: unknown.
	Missed float64 `json:"missed,omitempty"`
	// Metric describes the metric of the kernel.
	Metric *machine.Metric `json:"metric,omitempty"`
	// Apart says that the choices were made without the first fold that is scored.
	Apart bool `json:"apart,omitempty"`
	// Guide lists what was worth trying, for the searches of scored folds.
	Guide *guide `json:"guide,omitempty"`
	// Codes are those of columns of levels.
	Codes map[string]string `json:"codes,omitempty"`

	fields []float64        // weights of the fields, which the columns get; nil: they keep theirs
	marks  []coupling.Omega // landmarks, if the map has some
	// faultless says that the search of an exact kernel ended without errors of classes.
	faultless bool
}

// guide lists what the search on all rows took, or nearly took. The searches of scored folds try only this and the
// standard alternatives (standard scaling, Gaussian kernel, squares, no metric). They judge each by their own rows, and
// fit bandwidth, λ, widths of columns and metric to them. So a fold learns from its held-out rows only which few kinds
// of settings are worth a trial, and near which bandwidth and λ.
type guide struct {
	Scaling string      // of columns, before a metric
	First   bool        // margins were chosen before the scaling
	Margins bool        // margins were chosen, with a metric or without
	Kernel  kernel.Kind // without a metric
	Rows    int         // of the last trials
	// Factor is the bandwidth in median distances, and Lambda the penalty, of least squares without a metric.
	Factor float64
	Lambda float64
	Metric *guideChain // that won the race; nil: none was worth a search
}

// guideChain is a kind of metrics with a kernel.
type guideChain struct {
	Kernel kernel.Kind
	Kind   metric.Kind
}

// chosen is a fit whose choices are made: the columns with the codes and weights that were chosen, and the choices.
type chosen struct {
	*job
	d     *decision
	rows  machine.Rows
	s     *sample  // as the columns encode it; nil: not needed any more
	was   *resumed // what a checkpoint held; nil: nothing
	apart *chosen  // the fit without the first fold that is scored, if its choices serve all rows
	twin  bool     // it has the settings of another fit, whose probabilities its held rows calibrate
}

// resumed is what a checkpoint holds besides the columns.
type resumed struct {
	d        *decision
	sums     *foldSums
	logistic *machine.LogisticState
}

// lends reports whether the first fold that is scored has a model of the same settings, so that its rows calibrate
// this one. Not with weights of classes: too few rows of a rare class may be in the fold. It depends on the decision
// alone, which a checkpoint keeps, and not on whether the model of the fold has begun.
func (c *chosen) lends() bool { return c.d.Apart && c.o.ClassWeights == nil }

// nests reports whether the score is that of whole fits without a fold. A density of more rows than the sample has
// scores of its own, those of its calibration.
func (c *chosen) nests() bool {
	return c.o.Folds > 1 && (c.task != machine.Unsupervised || c.d.Tried && c.d.Rows == int64(c.d.Sampled))
}

// prior are choices that were made for other rows of the table.
type prior struct {
	schema *data.Schema
	task   machine.Task
	d      *decision
	last   int // the last fold without which they were made
}

// setup is the setup of the sums of the decision.
func (d *decision) setup(j *job) (machine.Setup, error) {
	s := j.setup(d.Spec)
	s.Float32 = s.Float32 || d.Narrow
	var err error
	s.Omega, err = d.drawn()
	return s, err
}

// drawn are the projections of the decision: drawn from its seed, or landmarks, which are rows.
func (d *decision) drawn() ([]coupling.Omega, error) {
	if !family.InfoOf(d.Spec.Family).KernelColumns {
		return randfeat.Draw(d.Spec)
	}
	if d.marks == nil {
		return nil, fmt.Errorf("no landmarks: %w", machine.ErrCorrupt)
	}
	return d.marks, nil
}
