package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
)

// Limits that turn a slip of a digit into a message instead of an exhausted machine.
const (
	maxElements = 1 << 27 // of a matrix held in memory: 1 GiB of float64
	maxOutput   = 1 << 37 // of a file of features: 1 TiB of float64
)

// checkSize refuses a spec whose projections do not fit into memory, before anything is drawn. source names the flag
// or file that m came from.
func checkSize(spec randfeat.Spec, source string) error {
	if spec.Family == nil || spec.Dim < 1 || spec.M < 1 {
		return nil // the library says what is wrong with it
	}
	dim := spec.Kernel.Dim(spec.Dim)
	if spec.M > maxElements/max(dim, 1) {
		return misused("%s is %d: projections of %d columns are limited to %d", source, spec.M, dim,
			maxElements/max(dim, 1))
	}
	draws, err := spec.Family.Draws(spec.Kernel.Kind, dim, spec.M)
	if err != nil {
		return nil // likewise
	}
	total := 0.0
	for _, d := range draws {
		if d.Rows > 0 && d.Dim > 0 { // overflow of a family's own count is negative
			total += float64(d.Rows) * float64(d.Dim)
		} else {
			total = math.Inf(1)
		}
	}
	if total > maxElements {
		return misused("%s is %d: the projections of the family %s take %.3g numbers, the limit is %d", source, spec.M,
			spec.Family.Name(), total, maxElements)
	}
	return nil
}

// checkFeatures refuses a map whose features, for the least number of rows that a command holds at a time, do not fit
// into memory.
func checkFeatures(features, rows int, source string) error {
	if features < 1 || rows > maxElements/features {
		return misused("%s gives %d features for each of %d rows held at a time: more than %d numbers", source,
			features, rows, maxElements)
	}
	return nil
}

// withFeatures gives a spec the projections that make at most so many features. A family that has fewer whatever the
// number of projections keeps them. One that has more even with one projection is refused if the number was asked for,
// and has its smallest map if not.
func withFeatures(spec randfeat.Spec, features int, asked bool) (randfeat.Spec, error) {
	spec, err := spec.WithFeatures(features)
	if !errors.Is(err, randfeat.ErrFeatures) {
		return spec, err
	}
	least, sizeErr := spec.OutDim()
	switch {
	case sizeErr != nil:
		return spec, sizeErr
	case least > features && asked:
		return spec, misused("--features (-m) is %d: %w", features, err)
	}
	return spec, nil
}

// checkOutput refuses a file of features that no disk holds.
func checkOutput(features, rows int, source string) error {
	if int64(features) > maxOutput/int64(rows) {
		return misused("%s gives %d features for each of %d rows: a file of more than %d numbers", source, features,
			rows, int64(maxOutput))
	}
	return nil
}

// blockRows is the number of rows of features to hold at a time: at most most, and fewer of very wide ones.
func blockRows(features, most int) int {
	return max(1, min(most, maxElements/4/features))
}

// checkLogScales refuses log scales that are not finite, which huge inputs give: first is the number of the first row.
func checkLogScales(set string, first int, logScale []float64) error {
	for i, s := range logScale {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return fmt.Errorf("the log scale of row %d of %s is %v: the row is too large for this map, choose a larger --scale", first+i, set, s)
		}
	}
	return nil
}
