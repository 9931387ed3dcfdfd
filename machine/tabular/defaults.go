package tabular

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

// Limits and defaults. Defaults trade time for accuracy: a trial costs Sample·F² for its products and K·F³ per penalty,
// the fit n·F², scores K·F³.
const (
	defaultBudget = 2048 // 0.44 GB for ridge with 5 folds
	defaultFolds  = 5
	defaultSample = 8192 // 4 per feature of the budget
	defaultBlock  = 1024
	defaultEvery  = 30 * time.Second

	minSample   = 64      // with fewer rows, the standard errors that decide mean little
	maxFeatures = 1 << 14 // 2 GiB for one ΦᵀΦ, and there is one per fold
	// mostFeatures is the limit for ridge by conjugate gradients, which has no ΦᵀΦ.
	mostFeatures = 1 << 17
	maxFolds     = 64      // each fold has its own sums and a block of rows
	maxWidth     = 1 << 16 // as many as a table may have columns
	maxBlock     = 1 << 16
	// blockCells and sampleCells bound the matrix elements of a block and of the sample: 32 and 256 MiB.
	blockCells  = 1 << 22
	sampleCells = 1 << 25
)

// withDefaults checks everything that does not depend on the table, and fills in fields that are zero.
func (o Options) withDefaults() (Options, error) {
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	if o.Folds == 0 {
		o.Folds = defaultFolds
	}
	if o.Sample == 0 {
		o.Sample = defaultSample
	}
	if o.CheckpointEvery == 0 {
		o.CheckpointEvery = defaultEvery
	}
	var kind machine.KindInfo // empty if the kind is left open
	if o.Kind != "" {
		var err error
		if kind, err = o.Kind.Info(); err != nil {
			return o, err
		}
	}
	return o, o.check(kind)
}

// check reports a combination of options that cannot be used, as far as that does not depend on the table.
func (o *Options) check(kind machine.KindInfo) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), machine.ErrSetup)
	}
	weighs := o.ClassWeights != nil || o.Marks.Weight != ""
	switch {
	case !(o.Bandwidth >= 0) || math.IsInf(o.Bandwidth, 1):
		return bad("bandwidth %g, want a positive number, or 0 to have one chosen", o.Bandwidth)
	case !(o.Lambda >= 0) || math.IsInf(o.Lambda, 1):
		return bad("λ = %g, want a positive number, or 0 to have one chosen", o.Lambda)
	case o.Lambda > 0 && o.Kind != "" && !kind.Penalised:
		return bad("λ = %g for a %s, which has no penalty: leave it out", o.Lambda, o.Kind)
	case o.Features < 0 || o.Features > mostFeatures:
		return bad("%d features, want 1 to %d, or 0 to have a number chosen", o.Features, mostFeatures)
	case o.Features > maxFeatures && (o.Kind != "" && !kind.Exact || o.Map == MapNystrom):
		return bad("%d features are for ridge of random features alone, others have at most %d", o.Features, maxFeatures)
	case o.Features > maxFeatures && o.Checkpoint != "":
		return bad("%d features are fitted by passes over the rows that no checkpoint keeps: leave it out, or at most %d "+
			"features", o.Features, maxFeatures)
	case o.Features > maxFeatures && weighs:
		return bad("%d features of rows with weights, at most %d can have them: ask for fewer, or leave the weights out",
			o.Features, maxFeatures)
	case o.Loss == lossMargins && weighs:
		return bad("margins of rows with weights: use squares, or leave the weights out")
	case o.Budget < 2 || o.Budget > maxFeatures:
		return bad("a budget of %d features, want 2 to %d", o.Budget, maxFeatures)
	case o.Memory < 0 || o.Memory > 0 && o.Memory < leastMemory:
		return bad("a budget of %d bytes, want at least %d, or 0 for no bound of its own", o.Memory, int64(leastMemory))
	case o.Folds < 1 || o.Folds > maxFolds:
		return bad("%d folds, want 2 to %d, or 1 for no cross-validation", o.Folds, maxFolds)
	case o.Sample < minSample:
		return bad("a sample of %d rows, want at least %d", o.Sample, minSample)
	case o.Block < 0 || o.Block > maxBlock:
		return bad("blocks of %d rows, want 1 to %d, or 0 for %d", o.Block, maxBlock, defaultBlock)
	case o.Map != "" && !slices.Contains(Values("map"), o.Map):
		return bad("map %q, want %s", o.Map, strings.Join(Values("map"), ", "))
	case o.Map == MapNystrom && (o.Family != nil || o.Coupling != nil || o.Float32):
		return bad("features of landmarks have no family, no coupling and no float32: leave them out")
	case o.Map == MapNystrom && o.Kind != "" && !(kind.LeastSquares && kind.Summed()):
		return bad("a %s model has no features of landmarks here: leave the map out", o.Kind)
	case o.Map == MapExact && (o.Family != nil || o.Coupling != nil || o.Features > 0 || o.Budget != defaultBudget ||
		o.Float32):
		return bad("an exact kernel has no random features: leave family, coupling, features, budget and float32 out")
	case o.Kernel != "" && !slices.Contains(Values("kernel"), o.Kernel):
		return bad("kernel %q, want %s", o.Kernel, strings.Join(Values("kernel"), ", "))
	case o.Kernel != "" && !o.kernelKind().Exponential() && o.Family != nil &&
		o.Family.Name() != (family.Trig{}).Name():
		return bad("family %s does not have the %s kernel, only trig does: leave one of them out", o.Family.Name(), o.Kernel)
	case o.Scaling != "" && !slices.Contains(Values("scaling"), o.Scaling):
		return bad("scaling %q, want %s", o.Scaling, strings.Join(Values("scaling"), ", "))
	case o.Loss != "" && !slices.Contains(Values("loss"), o.Loss):
		return bad("loss %q, want %s", o.Loss, strings.Join(Values("loss"), ", "))
	case o.Scaling != "" && o.Schema != nil:
		return bad("scaling %s with a schema, which has its own: leave one of them out", o.Scaling)
	case o.Map == MapExact && o.Kind != "" && !kind.Exact:
		return bad("a %s model has no exact kernel: leave the map out", o.Kind)
	case o.CheckpointEvery < 0:
		return bad("a checkpoint every %v, want a positive time", o.CheckpointEvery)
	case o.ClassWeights != nil && o.Kind != "" && !kind.ClassWeights:
		return bad("class weights for a %s model, which has none: only %s has them", kindName(o.Kind),
			joined(weighted()))
	}
	if err := errors.Join(o.checkCodes(), o.checkCompare()); err != nil {
		return err
	}
	switch marks := o.Marks.Names(); {
	case !(o.Horizon >= 0) || math.IsInf(o.Horizon, 1) || o.Horizon > 0 && o.Marks.Time == "":
		return bad("a horizon of %g, want a positive number, and a column of times that it is in", o.Horizon)
	case o.Marks.Group != "" && o.Marks.Time != "":
		return bad("folds of groups (%s) and of time (%s): name one of them", o.Marks.Group, o.Marks.Time)
	case len(slices.Compact(slices.Sorted(slices.Values(marks)))) < len(marks):
		return bad("a column is named twice as weight, group or time")
	default:
		for _, name := range marks {
			if slices.Contains(o.Learn.Targets, name) {
				return bad("the target %s cannot also be weight, group or time", name)
			}
		}
		for _, name := range o.Keep {
			if !slices.Contains(marks, name) {
				return bad("column %s is to be kept, but is neither weight, group nor time: other columns are kept anyway", name)
			}
		}
	}
	for _, w := range o.ClassWeights {
		if !(w > 0) || math.IsInf(w, 1) {
			return bad("class weight %g, want positive numbers", w)
		}
	}
	if o.Schema != nil {
		return o.Schema.Validate()
	}
	return nil
}

func kindName(k machine.Kind) string {
	if k == "" {
		return "default"
	}
	return string(k)
}

// weighted returns the kinds of model that support class weights.
func weighted() []machine.Kind {
	var out []machine.Kind
	for _, k := range machine.Kinds() {
		if k.ClassWeights {
			out = append(out, k.Kind)
		}
	}
	return out
}

func joined(kinds []machine.Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// checkCodes checks the part of Code that does not depend on the table.
func (o *Options) checkCodes() error {
	for _, column := range slices.Sorted(maps.Keys(o.Code)) {
		if c := o.Code[column]; !slices.Contains(Values("code"), c) {
			return errLevels(column, fmt.Sprintf("code %q, want %s", c, strings.Join(Values("code"), ", ")))
		}
	}
	if o.Schema == nil {
		return nil
	}
	if len(o.Code) > 0 {
		return fmt.Errorf("codes of levels with a schema, which has its own: leave one of them out: %w", machine.ErrSetup)
	}
	for i := range o.Schema.Fields {
		if f := &o.Schema.Fields[i]; f.Code == data.CodeMeans {
			return errLevels(f.Name, "the schema has means of the target of a table that is fitted again, with which "+
				"every row would know its own: learn the columns from the table")
		}
	}
	return nil
}

// checkCompare refuses Compare if there is nothing to compare.
func (o *Options) checkCompare() error {
	info, _ := o.Kind.Info() // withDefaults has checked the kind
	switch {
	case o.Compare && o.Folds == 1:
		return fmt.Errorf("a comparison needs folds that are held out: ask for more than 1: %w", machine.ErrSetup)
	case o.Compare && o.Schema == nil && len(o.Learn.Targets) == 0 || o.Compare &&
		slices.Contains(info.Tasks, machine.Unsupervised):
		return fmt.Errorf("a comparison needs a target, a density has none: %w", machine.ErrSetup)
	}
	return nil
}

// errLevels is the error for a column that cannot have a code.
func errLevels(column, why string) error {
	return fmt.Errorf("column %q: %s: %w", column, why, machine.ErrSetup)
}
