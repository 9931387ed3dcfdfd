package tabular

import (
	"slices"
	"time"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// Options are the choices of the caller; what is zero is chosen here.
type Options struct {
	// Learn says what the columns are for. No targets: a density.
	Learn data.LearnOptions
	// Schema is used instead of learning one.
	Schema *data.Schema

	// Marks name columns that say how rows are to be taken; they are not used for predictions, unless Keep or another
	// list of Learn names them.
	//
	// Weight: a row counts so often, in the fit, in choices, in scores and their intervals and in prediction intervals.
	// It multiplies that of the class. Rows of weight 0 are left out. A small table with weights gives the model of the
	// table with its rows repeated; in one of more than 2048 rows learning columns, widths of columns and the quantiles
	// of a density take rows as they are.
	//
	// Group: rows of a group resemble each other more than new rows will, since these are of other groups: patients,
	// customers, pictures of one film. No group is in two folds, in choices and in scores, so that both are of groups
	// that a model has not seen; intervals of scores and of predictions are of new groups.
	//
	// Time: what is predicted comes after what is learned from. Folds are stretches of time; choices and scores are of
	// models of all that came before, and prediction intervals of their errors. Group and Time exclude each other.
	Marks data.MarkColumns
	// Horizon is how far ahead predictions are made, in the units of the column Marks.Time, or in days for dates.
	// Scores are of models of rows that came at least as long before. Choices use all earlier rows.
	Horizon float64
	Keep    []string // columns of Marks that are fields as well

	Kind     machine.Kind      // empty: ridge, or density without targets
	Family   family.Family     // nil: trig, or oprf where features must be positive
	Coupling coupling.Coupling // nil: orthogonal, or simplex for positive features
	// Kernel is one of Kernels; empty: Gaussian, or with the exact kernel and with landmarks another that is better by
	// more than a standard error, unless a bandwidth is given.
	Kernel    string
	Bandwidth float64 // s
	Lambda    float64 // penalty on the sum of losses
	Features  int     // F; 0: by a learning curve
	Budget    int     // most features of the learning curve; 0: 2048
	// Map is one of Maps; empty: the exact kernel for ridge of at most 60,000 rows, 20,000 with Marks or ClassWeights,
	// the better of the others for ridge of more, unless something is said of features; random features for the other
	// kinds.
	Map string
	// Scaling says what numeric columns are divided by: see the constants; empty: chosen by trial. A bandwidth that is
	// given is in units of ScalingStandard.
	Scaling string
	// Code says how levels of a column become numbers, by column: one of CodeNames. Columns of more levels than
	// Learn.MaxLevels, and identifiers that are whole numbers, have a code chosen by trial otherwise.
	Code map[string]string
	// Loss of classes of an exact kernel is one of Losses; empty: by trial.
	Loss string
	// ClassWeights are in the order of the classes of the schema; they multiply the weights of rows in the fit, in
	// choices and in probabilities, not in scores.
	ClassWeights []float64

	Seed    uint64
	Folds   int  // of the cross-validation; 0: 5, 1: no cross-validation
	Sample  int  // rows on which choices are tried; 0: 8192
	Float32 bool // features and their products in float32
	Block   int  // rows handled together; 0: 1024
	// Workers bounds the goroutines of the fit; 0: GOMAXPROCS. It changes no bit of the result.
	Workers int

	// IntervalBy names a categorical column: prediction intervals of a regression are made for each of its levels.
	IntervalBy string
	// Quick makes choices once, on the rows outside one fold, which alone is scored, and looks at fewer settings and
	// fewer rows: for those who wait. The model is a little worse.
	Quick bool

	// Compare also scores the mean, or the most frequent class, and a linear model on the same folds. The model is the
	// same.
	Compare bool

	// Checkpoint names a file that lets a fit go on after it was interrupted; CheckpointEvery is the time between two
	// versions of it; 0: 30 s. A version that cannot be written is a warning: the fit goes on.
	Checkpoint      string
	CheckpointEvery time.Duration

	// Progress, if set, is told how far a stage is: rows done of total, which is 0 where it is unknown; of "choose",
	// trials done of about as many as there will be; of "steps", those of logistic regression and of conjugate
	// gradients.
	Progress func(stage string, done, total int64)
	// Warn, if set, is told at once what else is only among the notes of the report when the fit is done.
	Warn func(text string)
}

// LearnOptions are Learn, with the columns of Marks skipped that are not named for something else.
func (o Options) LearnOptions() data.LearnOptions {
	l := o.Learn
	used := slices.Concat(l.Targets, l.IDs, l.Skip, l.Numeric, l.Categorical, l.Text, o.Keep)
	for _, name := range o.Marks.Names() {
		if !slices.Contains(used, name) {
			l.Skip, used = append(slices.Clip(l.Skip), name), append(used, name)
		}
	}
	return l
}

// The maps that a model may be linear in.
const (
	MapRandom = "random" // random features
	MapExact  = "exact"  // kernels with all rows: exact kernel ridge regression
	// MapNystrom are kernels with some rows, turned into features of the best approximation that these rows allow.
	MapNystrom = "nystrom"
)

// Maps are all maps.
func Maps() []string { return []string{MapRandom, MapExact, MapNystrom} }

// Kernels are the kernels that a model may have: those with κ(x, x) = 1 and no negative values.
func Kernels() []string {
	var out []string
	for _, k := range kernel.Kinds() {
		if k != kernel.Softmax && !k.Signed() {
			out = append(out, k.String())
		}
	}
	return out
}

// kernelKind is the kernel that was asked for, or the Gaussian one.
func (o *Options) kernelKind() kernel.Kind {
	for _, k := range kernel.Kinds() {
		if k.String() == o.Kernel {
			return k
		}
	}
	return kernel.Gaussian
}

// The scalings of columns, which decide how much each counts in distances.
const (
	ScalingStandard = "standard" // numbers by their standard deviation
	ScalingCommon   = "common"   // all numbers by one number: columns of one unit, such as pixels
	ScalingRobust   = "robust"   // numbers by their interquartile range over 1.35, their standard deviation if normal
	ScalingNone     = "none"     // numbers as they are
	ScalingFitted   = "fitted"   // every column by a width of its own, that of largest marginal likelihood
	// ScalingLearned is a metric of the standardised columns, learned from the gradients of a fit: see package
	// kernel/metric.
	ScalingLearned = "learned"
)

// Scalings are all scalings.
func Scalings() []string {
	return []string{ScalingStandard, ScalingCommon, ScalingRobust, ScalingNone, ScalingFitted, ScalingLearned}
}

// The losses of classes, for exact kernels.
const (
	LossSquares = "squares" // squared errors of the indicators of classes
	LossMargins = "margins" // squared hinge: see machine.FitMargins
)

// Losses are all losses.
func Losses() []string { return []string{LossSquares, LossMargins} }
