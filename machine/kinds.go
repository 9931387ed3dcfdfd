package machine

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/dense"
)

// Kind names a way to predict. Its entry in the table [Kinds] says what it can do.
type Kind string

// The kinds.
const (
	KindRidge    Kind = "ridge"    // φ·w + intercept
	KindLogistic Kind = "logistic" // softmax of φ·w + intercept
	KindGP       Kind = "gp"       // as ridge, with a variance
	KindSmoother Kind = "smoother" // Σ φ1(x)·φ2(x_j) y_j / Σ φ1(x)·φ2(x_j)
	KindDensity  Kind = "density"  // log mean φ1(x)·φ2(x_j)
)

// KindInfo describes a kind. All code that depends on the kind of a model reads it here: to add a kind, add an entry.
type KindInfo struct {
	Kind  Kind
	About string // one line for people
	Tasks []Task // tasks that it supports, the default first

	Penalised     bool // it has a penalty λ
	LeastSquares  bool // least squares on the same features finds a good bandwidth and number of features for it
	Bayesian      bool // it has a variance, and its λ maximises the evidence
	Averages      bool // it weights rows by the kernel: positive features keep the weights positive
	Positive      bool // it is undefined for features of both signs
	Probabilities bool // its class scores are probabilities; for one that Averages, only if features are positive
	ClassWeights  bool // classes may be given weights
	Exact         bool // it can use the exact kernel of all rows: FitExact

	tensors []string // fields of Model that it has, by their names in a file
	softmax bool     // φ·w + intercept are logits
	// sums is nil for kinds whose fit is not a function of sums: such a kind is fitted by passes over the rows.
	sums func(Setup) (Sums, error)
}

var (
	linear   = []string{"weights", "intercept"}
	averages = []string{"log_scale", "mass"}
)

// kinds is the table of kinds. The first kind of a task is the default.
var kinds = []KindInfo{
	{Kind: KindRidge, About: "kernel ridge regression, for numbers and for classes", Tasks: []Task{Regression,
		Classification},
		Penalised: true, LeastSquares: true, ClassWeights: true, Exact: true, tensors: linear,
		sums: sumsOf(NewRidge)},
	{Kind: KindLogistic, About: "multinomial logistic regression: probabilities of classes",
		Tasks:     []Task{Classification},
		Penalised: true, LeastSquares: true, Probabilities: true, ClassWeights: true, tensors: linear, softmax: true},
	{Kind: KindGP, About: "Gaussian-process regression: numbers with a variance", Tasks: []Task{Regression},
		Penalised: true, LeastSquares: true, Bayesian: true, tensors: slices.Concat(linear, []string{"noise", "centre",
			"factor"}),
		sums: sumsOf(newGP)},
	{Kind: KindSmoother, About: "Nadaraya-Watson weighted means, for numbers and for classes", Tasks: []Task{Regression,
		Classification},
		Averages: true, Probabilities: true, tensors: slices.Concat(linear, averages),
		sums: sumsOf(newSmoother)},
	{Kind: KindDensity, About: "log density and anomaly score of rows, without a target", Tasks: []Task{Unsupervised},
		Averages: true, Positive: true, tensors: slices.Concat(averages, []string{"quantiles"}),
		sums: sumsOf(newDensity)},
}

// Kinds returns all kinds. The first kind of a task is the default.
func Kinds() []KindInfo { return slices.Clone(kinds) }

// KindsOf returns the kinds for a task, the default first.
func KindsOf(t Task) []Kind {
	var out []Kind
	for _, k := range kinds {
		if slices.Contains(k.Tasks, t) {
			out = append(out, k.Kind)
		}
	}
	return out
}

// Info returns the entry of a kind; an unknown kind is ErrSetup.
func (k Kind) Info() (KindInfo, error) {
	for _, e := range kinds {
		if e.Kind == k {
			return e, nil
		}
	}
	return KindInfo{}, fmt.Errorf("kind %q, want %s: %w", k, kindNames(), ErrSetup)
}

// Summed reports whether a model of this kind can be made from sums over rows, so that there are [Sums].
func (k KindInfo) Summed() bool { return k.sums != nil }

// has reports whether models of the kind have a tensor.
func (k KindInfo) has(tensor string) bool { return slices.Contains(k.tensors, tensor) }

func kindNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k.Kind))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Sums accumulate rows. They hold everything that a model of their kind needs, in memory of the size of the model,
// however many rows there are. Sums of parts merge, and can be saved and continued.
//
// The same rows in the same blocks give the same bits. Other blocks and other orders of merging agree up to rounding.
// Sums must not be used by two calls at the same time.
type Sums interface {
	// Add adds rows x with targets y: numbers, or one column of class indices; a density ignores y. After an error the
	// sums contain the complete blocks before the failed one and nothing else. Errors count rows from the first row
	// ever added.
	Add(x, y dense.Matrix[float64]) error
	// Merge adds the rows of o, which must be of the same kind, map, task and shape: otherwise it is ErrMismatch.
	Merge(o Sums) error
	// Len is the number of rows added.
	Len() int64
	// AppendBinary appends the sums to b. A fit that continues from them is bit-identical to one that was never
	// interrupted.
	AppendBinary(b []byte) ([]byte, error)
	// Size is the number of bytes that Write writes.
	Size() int64
	// Write writes the bytes of AppendBinary. Ridge sums are written row by row, without a copy in memory.
	Write(w io.Writer) error
	// Read reads into sums of no rows the size bytes that Write wrote for sums of the same kind and setup. Sums of
	// another map, task or shape are ErrMismatch; any other damage is ErrCorrupt. The setup bounds the memory, whatever
	// the bytes claim. The sums are unusable after an error.
	Read(r io.Reader, size int64) error
	// Like returns empty sums of the same kind and setup. Ridge sums share the scratch memory for features, so only one
	// of them may be used at a time.
	Like() (Sums, error)
	// Model returns the model of the rows so far, with penalty λ if the kind has one.
	Model(lambda float64) (*Model, error)
}

// NewSums returns the sums of no rows for a kind of model.
func NewSums(k Kind, s Setup) (Sums, error) {
	e, err := k.summed(&s)
	if err != nil {
		return nil, err
	}
	return e.sums(s)
}

// summed returns the entry of a kind that has sums for the task of s. An empty task becomes the first task of the kind.
func (k Kind) summed(s *Setup) (KindInfo, error) {
	e, err := k.Info()
	if err != nil {
		return e, err
	}
	if !e.Summed() {
		return e, fmt.Errorf("rows of a %s model do not add up: %w", k, ErrSetup)
	}
	if s.Task == "" {
		s.Task = e.Tasks[0]
	}
	return e, e.does(s.Task)
}

// does returns an error if the kind does not support task t.
func (k KindInfo) does(t Task) error {
	if !slices.Contains(k.Tasks, t) {
		return fmt.Errorf("%s model for task %q: %w", k.Kind, t, ErrSetup)
	}
	return nil
}

// sumsOf adapts a constructor of concrete sums to the interface.
func sumsOf[S Sums](f func(Setup) (S, error)) func(Setup) (Sums, error) {
	return func(s Setup) (Sums, error) {
		sums, err := f(s)
		if err != nil {
			return nil, err // not a nil pointer inside a non-nil interface
		}
		return sums, nil
	}
}

// otherSums is the error of merging sums of different kinds.
func otherSums(a, b Sums) error { return fmt.Errorf("%T merged into %T: %w", b, a, ErrMismatch) }
