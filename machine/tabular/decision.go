package tabular

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
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
	// Also holds further kernel machines. The model predicts a mean of all (mean.go).
	Also []exactPart `json:"also,omitempty"`
	// Narrow says that features of landmarks and their products are float32.
	Narrow bool `json:"narrow,omitempty"`
	// Missed is the out-of-fold error of the choice, the root of the mean square of standardised targets; 0: unknown.
	Missed float64 `json:"missed,omitempty"`
	// Metric describes the metric of the kernel.
	Metric *machine.Metric `json:"metric,omitempty"`
	// Apart says that the choices were made without the first fold that is scored.
	Apart bool `json:"apart,omitempty"`
	// Guide limits the searches of scored folds.
	Guide *guide `json:"guide,omitempty"`
	// Codes holds the code of every column of levels.
	Codes map[string]string `json:"codes,omitempty"`

	fields []float64        // new weights of the fields; nil: the columns keep theirs
	marks  []coupling.Omega // landmarks; nil: the map has none
	// faultless says that the search of an exact kernel ended without errors of classes.
	faultless bool
	// far is the trial of the choice in a far search, and farRows the number of rows that it was fitted to; 0: none.
	far     trial
	farRows int
}

// chosen is a fit after its choices: the job with the chosen codes and weights of columns, and the decision.
type chosen struct {
	*job
	d     *decision
	rows  machine.Rows
	s     *sample  // encoded by the columns; nil: no longer needed
	was   *resumed // contents of a checkpoint; nil: none
	apart *chosen  // the fit without the first scored fold, if its choices serve all rows
	twin  bool     // the fit has the settings of another one, and its held-out rows calibrate that one's probabilities
	// less is the fit of some of its rows at whose weights it begins; nil: none.
	less *chosen
	// model is the result of fitFold; nil: not fitted yet.
	model *machine.Model
}

// resumed holds the contents of a checkpoint besides the columns.
type resumed struct {
	d        *decision
	sums     *foldSums
	logistic *machine.LogisticState
}

// lends reports whether the held-out rows of the first scored fold calibrate the model, because the fold's model has
// the same settings. With weights of classes they do not: the fold may have too few rows of a rare class. The result
// depends only on the decision, which a checkpoint stores, so a resumed fit does the same.
func (c *chosen) lends() bool { return c.d.Apart && c.o.ClassWeights == nil }

// nests reports whether whole fits without a fold supply the score. A density of more rows than the sample is scored by
// its calibration instead.
func (c *chosen) nests() bool {
	return c.o.Folds > 1 && (c.task != machine.Unsupervised || c.d.Tried && c.d.Rows == int64(c.d.Sampled))
}

// prior holds choices that were made for other rows of the table.
type prior struct {
	schema *data.Schema
	task   machine.Task
	d      *decision
	last   int // last of the folds that the choices have not seen
}

// setup is the setup of the sums of the decision.
func (d *decision) setup(j *job) (machine.Setup, error) {
	s := j.setup(d.Spec)
	s.Float32 = s.Float32 || d.Narrow
	var err error
	s.Omega, err = d.drawn()
	return s, err
}

// drawn returns the projections of the decision: landmarks, or projections drawn from its seed.
func (d *decision) drawn() ([]coupling.Omega, error) {
	if !family.InfoOf(d.Spec.Family).KernelColumns {
		return randfeat.Draw(d.Spec)
	}
	if d.marks == nil {
		return nil, fmt.Errorf("no landmarks: %w", machine.ErrCorrupt)
	}
	return d.marks, nil
}
