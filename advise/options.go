package advise

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// shown is the number of candidates whose times are measured and whose errors are measured again; predictions
// is the number of candidates whose closed forms are evaluated.
const shown, predictions = 12, 48

// Loss says which errors of the kernel count.
type Loss string

// The losses.
const (
	// |κ̂−κ|/κ: every pair counts alike, however small its kernel. It is the default for the softmax kernel, whose
	// values span many orders of magnitude and are normalised by attention.
	lossRelative Loss = "relative"
	// |κ̂−κ| over the root mean square of κ: the Frobenius norm of the error of a Gram matrix. It is the
	// default for the Gaussian kernel: kernel machines depend on the matrix, in which far pairs hardly count.
	lossAbsolute Loss = "absolute"
)

// Costs says where the cost per row comes from.
type Costs string

// The costs.
const (
	costModel    Costs = "model"    // counted operations at nominal speeds: the same everywhere
	costMeasured Costs = "measured" // timed on this machine
)

// Options set the budget and the candidates. At most one of Features, Target and PerToken may be positive; none means
// 256 features.
type Options struct {
	Kernel   kernel.Kernel
	Features int           // output size of the maps
	Target   float64       // error to reach with as few features as possible
	PerToken time.Duration // time for the features of a row, on one core
	Positive bool          // positive features only, as attention needs them
	Loss     Loss          // "relative" or "absolute"; "": relative for softmax, absolute for Gaussian
	Measure  Measure       // error to rank candidates by, "rms" or "typical"; "": rms
	Unbiased bool          // leave out Nyström features, which are biased and fitted to rows
	// Families and Couplings restrict the candidates, by name; nil means all sensible ones.
	Families, Couplings []string
	Rows                int   // rows of each side to measure errors on, per fold; 0: 128
	Draws               int   // most draws of the projections per candidate; 0: 128
	Costs               Costs // "model" or "measured"; "": model
	Brief               bool  // no curves
	Seed                uint64
	// Progress, if set, is called with the current stage, on the goroutine of the caller.
	Progress func(stage string, done, total int)
}

// ErrOptions marks options that contradict each other or name nothing.
var ErrOptions = errors.New("invalid options of advise")

// errRows is returned for sets that are too small to fit to one part and measure on another, and for equal rows.
var errRows = errors.New("no advice on these rows")

const (
	defaultFeatures = 256
	defaultRows     = 128
	defaultDraws    = 128
	maxFeatures     = 1 << 14 // most features that Target and PerToken may use
	maxBudget       = 1 << 16 // most features that Features may ask for
	minRows         = 8
	maxRows         = 1024
	maxDraws        = 4096
)

// complete checks the options for rows of dim columns and fills in defaults.
func (o Options) complete(dim int) (Options, error) {
	bad := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf(format+": %w", append(args, ErrOptions)...)
	}
	budgets := 0
	for _, set := range []bool{o.Features != 0, o.Target != 0, o.PerToken != 0} {
		if set {
			budgets++
		}
	}
	if budgets > 1 {
		return bad("features, a target error and a time per token are three budgets: give one")
	}
	if budgets == 0 {
		o.Features = defaultFeatures
	}
	o.Rows = cmp.Or(o.Rows, defaultRows)
	o.Draws = cmp.Or(o.Draws, defaultDraws)
	o.Costs = cmp.Or(o.Costs, costModel)
	o.Measure = cmp.Or(o.Measure, measureRMS)
	if o.Loss == "" {
		if o.Loss = lossRelative; o.Kernel.Kind == kernel.Gaussian {
			o.Loss = lossAbsolute
		}
	}
	switch {
	case o.Features < 0 || o.Features > maxBudget:
		return bad("%d features, want 1 to %d", o.Features, maxBudget)
	case o.Target < 0 || !dense.IsFinite(o.Target):
		return bad("a target error of %v, want a positive number", o.Target)
	case o.PerToken < 0:
		return bad("a time per token of %v, want a positive one", o.PerToken)
	case o.Rows < minRows || o.Rows > maxRows:
		return bad("a pilot of %d rows, want %d to %d", o.Rows, minRows, maxRows)
	case o.Draws < 4 || o.Draws > maxDraws:
		return bad("%d draws, want 4 to %d", o.Draws, maxDraws)
	case o.Costs != costModel && o.Costs != costMeasured:
		return bad("costs %q, want %q or %q", o.Costs, costModel, costMeasured)
	case o.Measure != measureRMS && o.Measure != measureTypical:
		return bad("measure %q, want %q or %q", o.Measure, measureRMS, measureTypical)
	case o.Loss != lossRelative && o.Loss != lossAbsolute:
		return bad("loss %q, want %q or %q", o.Loss, lossRelative, lossAbsolute)
	case o.Kernel.Kind == kernel.Bessel:
		return bad("the bessel kernel has one family, trig, and nothing to choose")
	}
	known := func(what string, names []string, all []string) error {
		for _, n := range names {
			if !slices.Contains(all, n) {
				return fmt.Errorf("%s %q, want some of %s: %w", what, n, strings.Join(all, ", "), ErrOptions)
			}
		}
		return nil
	}
	if err := errors.Join(known("family", o.Families, family.Names()),
		known("coupling", o.Couplings, couplingNames())); err != nil {
		return o, err
	}
	return o, o.Kernel.Validate(dim)
}

func couplingNames() []string {
	var out []string
	for _, i := range coupling.List() {
		out = append(out, i.Name)
	}
	return out
}

func (o *Options) progress(stage string, done, total int) {
	if o.Progress != nil {
		o.Progress(stage, done, total)
	}
}

// finite returns v, or the largest number if v is infinite or NaN, which JSON cannot hold.
func finite(v float64) float64 {
	if math.IsNaN(v) {
		return math.MaxFloat64
	}
	return min(max(v, -math.MaxFloat64), math.MaxFloat64)
}
