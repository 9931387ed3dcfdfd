package auto

import (
	"time"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

// Options are the choices of the caller; what is zero is chosen here.
type Options struct {
	// Learn says what the columns are for. No targets: a density.
	Learn data.LearnOptions
	// Schema is used instead of learning one.
	Schema *data.Schema

	Kind      machine.Kind      // empty: ridge, or density without targets
	Family    family.Family     // nil: trig, or oprf where features must be positive
	Coupling  coupling.Coupling // nil: orthogonal, or simplex for positive features
	Bandwidth float64           // s
	Lambda    float64           // penalty on the sum of losses
	Features  int               // F; 0: by a learning curve
	Budget    int               // most features of the learning curve; 0: 2048
	// Map is one of Maps; empty: the exact kernel for ridge of at most 20,000 rows, the better of the others for ridge
	// of more, unless something is said of features; random features for the other kinds.
	Map string
	// Scaling says what numeric columns are divided by: see the constants; empty: chosen by trial. A bandwidth that is
	// given is in units of ScalingStandard.
	Scaling string
	// ClassWeights are in the order of the classes of the schema. Logistic regression weighs the losses of rows by
	// them, ridge the calibrated probabilities of classes.
	ClassWeights []float64

	Seed    uint64
	Folds   int  // of the cross-validation; 0: 5, 1: no cross-validation
	Sample  int  // rows on which choices are tried; 0: 8192
	Float32 bool // features and their products in float32
	Block   int  // rows handled together; 0: 1024

	// Checkpoint names a file that lets a fit go on after it was interrupted; CheckpointEvery is the time between two
	// versions of it; 0: 30 s.
	Checkpoint      string
	CheckpointEvery time.Duration

	// Progress, if set, is told how far a stage is: rows done of total, which is 0 where it is unknown; of "choose",
	// trials done of about as many as there will be; of "steps", those of logistic regression.
	Progress func(stage string, done, total int64)
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

// The scalings of columns, which decide how much each counts in distances.
const (
	ScalingStandard = "standard" // numbers by their standard deviation
	ScalingCommon   = "common"   // all numbers by one number: columns of one unit, such as pixels
	ScalingRobust   = "robust"   // numbers by their interquartile range over 1.35, their standard deviation if normal
	ScalingNone     = "none"     // numbers as they are
	ScalingFitted   = "fitted"   // every column by a width of its own, that of largest marginal likelihood
)

// Scalings are all scalings.
func Scalings() []string {
	return []string{ScalingStandard, ScalingCommon, ScalingRobust, ScalingNone, ScalingFitted}
}
