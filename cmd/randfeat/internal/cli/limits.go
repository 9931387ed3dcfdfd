package cli

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
)

// Limits that turn a slip of a digit into a message instead of an exhausted machine.
const (
	MaxElements = 1 << 27 // elements of a matrix held in memory: 1 GiB of float64
	maxOutput   = 1 << 37 // elements of a file of features: 1 TiB of float64
	MaxSpec     = 1 << 30 // bytes of a JSON file with a specification or a choice
)

// CheckSize refuses a spec whose projections do not fit into memory, before anything is drawn. source names the
// flag or file that m came from. Invalid specs pass, because the library explains them better.
func CheckSize(spec randfeat.Spec, source string) error {
	if spec.Family == nil || spec.Dim < 1 || spec.M < 1 {
		return nil // the library reports the error
	}
	dim := spec.Kernel.Dim(spec.Dim)
	if spec.M > MaxElements/max(dim, 1) {
		return Misused("%s is %d: projections of %d columns are limited to %d", source, spec.M, dim,
			MaxElements/max(dim, 1))
	}
	draws, err := spec.Family.Draws(spec.Kernel.Kind, dim, spec.M)
	if err != nil {
		return nil // the library reports this, too
	}
	total := 0.0
	for _, d := range draws {
		if d.Rows > 0 && d.Dim > 0 { // a negative number is an overflow in the family's own count
			total += float64(d.Rows) * float64(d.Dim)
		} else {
			total = math.Inf(1)
		}
	}
	if total > MaxElements {
		return Misused("%s is %d: the projections of the family %s take %.3g numbers, the limit is %d", source, spec.M,
			spec.Family.Name(), total, MaxElements)
	}
	return nil
}

// CheckFeatures refuses a map whose features do not fit into memory, for the smallest number of rows that a
// command holds at a time.
func CheckFeatures(features, rows int, source string) error {
	if features < 1 || rows > MaxElements/features {
		return Misused("%s gives %d features for each of %d rows held at a time: more than %d numbers", source,
			features, rows, MaxElements)
	}
	return nil
}

// CheckMemory refuses work that needs at least this many bytes if the process cannot have them. source names
// the cause, such as a flag. Otherwise the runtime would end the process with a stack trace and exit status 2,
// which means misuse.
func CheckMemory(bytes float64, source string) error {
	if most := memory(); most > 0 && bytes > float64(most) {
		return fmt.Errorf("%s takes at least %.1f GiB of memory, this process can have %.1f GiB", source, bytes/(1<<30),
			float64(most)/(1<<30))
	}
	return nil
}

// WithFeatures gives a spec the number of projections that make at most this many features. A family with fewer
// features for any number of projections keeps its own. A family with more features even for one projection is
// an error if the user asked for the number, and keeps its smallest map otherwise.
func WithFeatures(spec randfeat.Spec, features int, asked bool) (randfeat.Spec, error) {
	spec, err := spec.WithFeatures(features)
	if !errors.Is(err, randfeat.ErrFeatures) {
		return spec, err
	}
	least, sizeErr := spec.OutDim()
	switch {
	case sizeErr != nil:
		return spec, sizeErr
	case least > features && asked:
		return spec, Misused("--features is %d: %w", features, err)
	}
	return spec, nil
}

// CheckOutput refuses a file of features that no disk holds.
func CheckOutput(features, rows int, source string) error {
	if int64(features) > maxOutput/int64(rows) {
		return Misused("%s gives %d features for each of %d rows: a file of more than %d numbers", source, features,
			rows, int64(maxOutput))
	}
	return nil
}

// BlockRows returns the number of rows of features to hold at a time: at most most, fewer for very wide rows.
func BlockRows(features, most int) int {
	return max(1, min(most, MaxElements/4/features))
}

// CheckLogScales refuses log scales that are not finite, which huge inputs give. first is the number of the
// first row.
func CheckLogScales(set string, first int, logScale []float64) error {
	for i, s := range logScale {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return fmt.Errorf("the log scale of row %d of %s is %v: the row is too large for this map, choose a larger --scale", first+i, set, s)
		}
	}
	return nil
}
