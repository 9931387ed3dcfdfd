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

// Values of Options.Code besides those of data.Code.
const (
	codeLevels = "levels" // one column for each of the most frequent levels, as many as Learn.MaxLevels says
	codeAll    = "all"    // one column for each of at most 2048 levels
)

// Options are the choices of the caller. [Fit] chooses every field that is zero.
type Options struct {
	// Learn says what the columns are for. No targets: a density.
	Learn data.LearnOptions
	// Schema is used instead of learning one.
	Schema *data.Schema

	// Marks name columns that describe rows: weights, groups and times. They are not used for predictions unless Keep
	// or another list of Learn names them.
	//
	// Weight: each row counts weight times, in the fit, in choices, in scores and their intervals, and in prediction
	// intervals. It is multiplied by the class weight. Rows of weight 0 are left out. A small table with weights gives
	// the same model as the table with its rows repeated. In tables of more than 2048 rows, learning columns, column
	// widths and the quantiles of a density ignore the weights.
	//
	// Group: rows of one group resemble each other more than new rows will, because new rows belong to other groups,
	// such as patients, customers or films. No group is split between folds, so choices and scores refer to unseen
	// groups. Intervals of scores and of predictions refer to new groups.
	//
	// Time: predictions are for rows later than the training rows. Folds are periods of time. Choices and scores use
	// models of all earlier rows, and prediction intervals use the errors of these models. Group and Time exclude each
	// other.
	Marks data.MarkColumns
	// Horizon is how far ahead predictions are made, in the units of the column Marks.Time, or in days for dates.
	// Scores use models of rows that are at least Horizon older. Choices use all earlier rows.
	Horizon float64
	Keep    []string // columns of Marks that are fields as well

	Kind     machine.Kind      // empty: ridge, or density without targets
	Family   family.Family     // nil: trig, or oprf where features must be positive
	Coupling coupling.Coupling // nil: orthogonal, or simplex for positive features
	// Kernel is one of Values("kernel"). Empty means Gaussian. With the exact kernel and with landmarks, and without a
	// given bandwidth, another kernel is chosen if it is better by more than a standard error.
	Kernel    string
	Bandwidth float64 // s
	Lambda    float64 // penalty on the sum of losses
	Features  int     // F; 0: by a learning curve
	Budget    int     // largest number of features of the learning curve; 0: 2048
	// Memory bounds the bytes of a fit; 0: what docs/machines.md, "Memory", says. Exact kernels keep fewer values in
	// memory and compute them again, trials use fewer rows, and models have fewer features.
	Memory int64
	// Map is one of Values("map"). Empty means: for ridge, the exact kernel up to 60,000 rows (20,000 with Marks or
	// ClassWeights); for ridge with more rows, the better of the other maps, unless a feature option is set; for the
	// other kinds, random features.
	Map string
	// Scaling says what numeric columns are divided by: one of Values("scaling"); empty: chosen by trial. A given
	// bandwidth is in units of the scaling "standard".
	Scaling string
	// Code says how the levels of a column become numbers, by column: one of Values("code"). For columns with more
	// levels than Learn.MaxLevels, and for identifiers that are whole numbers, the default is chosen by trial.
	Code map[string]string
	// Loss of classes of an exact kernel is one of Values("loss"); empty: by trial.
	Loss string
	// ClassWeights are in the order of the classes of the schema. They multiply the weights of rows in the fit, in
	// choices and in probabilities, but not in scores.
	ClassWeights []float64

	Seed    uint64
	Folds   int  // of the cross-validation; 0: 5, 1: no cross-validation
	Sample  int  // rows on which choices are tried; 0: 8192
	Float32 bool // features and their products in float32
	Block   int  // rows handled together; 0: 1024

	// IntervalBy names a categorical column. Prediction intervals of a regression are then made separately for each
	// level.
	IntervalBy string
	// Quick saves time at the cost of a slightly worse model. Choices are made once, on the rows outside one fold, and
	// only that fold is scored, by a model of the other rows. Fewer settings and fewer rows are tried, no margins, and
	// a metric only for classes.
	Quick bool

	// Compare also scores the mean (or the most frequent class) and a linear model on the same folds. The model is not
	// affected.
	Compare bool

	// Checkpoint names a file from which an interrupted fit continues. CheckpointEvery is the time between two versions
	// of it; 0: 30 s. If a version cannot be written, the fit warns and continues.
	Checkpoint      string
	CheckpointEvery time.Duration

	// Progress, if set, receives the progress of a stage: rows done of total, with total 0 if unknown. For "choose" it
	// counts trials, with an estimated total. For "steps" it counts the steps of logistic regression and of conjugate
	// gradients.
	Progress func(stage string, done, total int64)
	// Warn, if set, receives warnings immediately. Without it they appear only in the notes of the report.
	Warn func(text string)
}

// LearnOptions returns Learn with the columns of Marks skipped, unless they are named for something else.
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
	// MapNystrom uses kernels with some rows, turned into the features of the best approximation that these rows
	// allow.
	MapNystrom = "nystrom"
)

// kernelKind returns the kernel that the caller set, or the Gaussian.
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
	scalingStandard = "standard" // numbers by their standard deviation
	scalingCommon   = "common"   // all numbers by one number: columns of one unit, such as pixels
	scalingRobust   = "robust"   // numbers by their interquartile range over 1.35, their standard deviation if normal
	scalingNone     = "none"     // numbers as they are
	// scalingLearned is a metric of the standardised columns, learned from the gradients of a fit: see package
	// machine/internal/metric.
	scalingLearned = "learned"
)

// The losses of classes, for exact kernels.
const (
	lossSquares = "squares" // squared errors of the indicators of classes
	lossMargins = "margins" // squared hinge: see machine.Setup.Margins
)

// Values lists what an option of text may be: "map", "kernel", "scaling", "loss" or "code". Kernels are those with
// κ(x, x) = 1 and no negative values.
func Values(option string) []string {
	var out []string
	switch option {
	case "map":
		return []string{MapRandom, MapExact, MapNystrom}
	case "scaling":
		return []string{scalingStandard, scalingCommon, scalingRobust, scalingNone, scalingLearned}
	case "loss":
		return []string{lossSquares, lossMargins}
	case "kernel":
		for _, k := range kernel.Kinds() {
			if k != kernel.Softmax && !k.Signed() {
				out = append(out, k.String())
			}
		}
	case "code":
		return []string{codeLevels, codeAll, string(data.CodeHashed), string(data.CodeCounts), string(data.CodeMeans)}
	}
	return out
}
