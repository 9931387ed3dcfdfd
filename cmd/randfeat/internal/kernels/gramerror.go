package kernels

import (
	"context"
	"fmt"
	"io"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
)

// ErrorResult is the error of an approximate Gram matrix: the object of gram --error --json.
type ErrorResult struct {
	Pairs    int `json:"pairs"` // rows of X times rows of Y
	Draws    int `json:"draws"` // draws of the projections; the seeds are spec.seed, spec.seed+1, …
	Features int `json:"features"`
	// DType is the precision of the features: float32 if both inputs are.
	DType string `json:"dtype"`
	// Predicted is the root mean square relative error by theory. If there is no closed form it is absent, and
	// Reason says why.
	Predicted   *float64 `json:"predicted,omitempty"`
	Approximate bool     `json:"approximate,omitempty"` // the closed form holds only nearly for this coupling
	Reason      string   `json:"reason,omitempty"`      // why there is no prediction
	// HeldOut is the prediction for rows that a fit has not seen, from fits to half of the rows
	// (randfeat.HeldOut); absent without a fit or a closed form.
	HeldOut *float64 `json:"held_out,omitempty"`
	// Rounding is the root mean square relative error that the precision adds to signed features, by theory.
	Rounding *float64 `json:"rounding,omitempty"`
	// Measured is the root mean square over pairs and draws of estimate/kernel - 1. It and the next two are
	// absent for kernels with zeros, and if kernel values are beyond float64.
	Measured *float64 `json:"measured,omitempty"`
	MeanBias *float64 `json:"mean_relative,omitempty"`    // mean of estimate/kernel - 1
	Largest  *float64 `json:"largest_relative,omitempty"` // largest |estimate/kernel - 1|
	// Frobenius is |K̂ - K|/|K| of the whole matrices, root mean square over draws.
	Frobenius *float64      `json:"frobenius"`
	Warning   string        `json:"warning,omitempty"`
	Omega     []string      `json:"omega,omitempty"`
	Spec      randfeat.Spec `json:"spec"`
}

const defaultErrorDraws = 8

func gramError[T dense.Float](ctx context.Context, env *cli.Env, f *gramFlags, spec randfeat.Spec, heldOut *float64,
	x, y dense.Matrix[T]) error {
	draws := defaultErrorDraws
	if f.repeat > 0 {
		draws = f.repeat
	}
	if len(f.Omega) > 0 {
		draws = 1
	}
	result := ErrorResult{Pairs: x.Rows * y.Rows, Draws: draws, DType: fmt.Sprintf("%T", *new(T)), Omega: f.Omega,
		HeldOut: heldOut}
	var sums errorSums
	bar := env.Progress("draws", draws)
	defer bar.End()
	for r := range draws {
		m, err := mapflags.Build[T](&f.Flags, spec.WithSeed(spec.Seed+uint64(r)), 1, f.fit)
		if err != nil {
			return err
		}
		if r == 0 {
			result.Spec, result.Features = m.Spec(), m.OutDim()
		}
		if err := measure(ctx, m, spec.Target(), x, y, &sums); err != nil {
			return err
		}
		bar.At(r + 1)
	}
	bar.End()
	result.Frobenius = cli.Number(sums.frobenius())
	if !sums.noRelative {
		n := float64(sums.pairs)
		result.Measured, result.MeanBias, result.Largest = cli.Number(sums.rms()), cli.Number(sums.rel/n),
			cli.Number(sums.maxRel)
	}
	p, err := predict(ctx, spec, result.Spec.M, dense.Convert[float64](x), dense.Convert[float64](y))
	switch {
	case len(f.Omega) > 0:
		result.Reason = "given projections are not random"
	case err == nil:
		result.Predicted, result.Approximate, result.Rounding = cli.Number(p.rms), p.approximate,
			cli.Number(p.rounding*unit[T]())
		if result.Predicted == nil {
			result.Reason = "the predicted error is infinite"
		}
	case noForm(err):
		result.Reason = err.Error()
	default:
		return err
	}
	result.Warning = f.Warning(result.Spec, mapflags.SomeRows(x), mapflags.SomeRows(y))
	if r := result.Rounding; result.Warning == "" && r != nil && *r > 0.1 &&
		(result.Predicted == nil || *r > *result.Predicted) {
		result.Warning = fmt.Sprintf("products of %s features cancel down to a small kernel: rounding them to %s alone makes a relative "+
			"error of about %.2g; use a positive family, or a larger --scale", result.Spec.Family.Name(), result.DType,
			*r)
	}
	env.Warn(result.Warning)
	if env.JSON {
		return env.Object(result)
	}
	return printError(env, f, result)
}

// heldOutError estimates the error of a fit on other rows; nil if that is unknown. A note says why, except for
// a missing closed form, which already explains the missing prediction.
func heldOutError(env *cli.Env, spec randfeat.Spec, x, y dense.Matrix[float64]) *float64 {
	if _, fits := spec.Family.(family.Fitter); !fits {
		return nil
	}
	v, err := randfeat.HeldOut(spec, x, y)
	switch {
	case err == nil && !dense.IsFinite(v):
		env.Note("note: the error on rows held out of the fit is infinite")
	case err == nil:
		return &v
	case !noForm(err):
		env.Note("note: no error on rows held out of the fit: %v", err)
	}
	return nil
}

// unit is the unit roundoff of T.
func unit[T dense.Float]() float64 {
	if _, ok := any(T(0)).(float32); ok {
		return 0x1p-24
	}
	return 0x1p-53
}

func printError(env *cli.Env, f *gramFlags, r ErrorResult) error {
	show := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.4g", *v)
	}
	predicted := show(r.Predicted)
	switch {
	case r.Reason != "":
		predicted += " (" + r.Reason + ")"
	case r.Approximate:
		predicted += " (nearly: the coupling follows the closed form only approximately)"
	}
	return cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintf(w, "predicted relative error\t%s\n", predicted)
		if r.HeldOut != nil {
			fmt.Fprintf(w, "the same on rows held out of the fit\t%s\n", show(r.HeldOut))
		}
		fmt.Fprintf(w, "measured relative error\t%s\n", show(r.Measured))
		if r.Rounding != nil && *r.Rounding > 1e-3 {
			fmt.Fprintf(w, "of it by rounding, at most about\t%s\n", show(r.Rounding))
		}
		fmt.Fprintf(w, "mean of estimate/kernel - 1\t%s\n", show(r.MeanBias))
		fmt.Fprintf(w, "largest relative error\t%s\n", show(r.Largest))
		fmt.Fprintf(w, "Frobenius error of the matrix\t%s\n", show(r.Frobenius))
		fmt.Fprintf(w, "pairs, draws, features\t%d, %d, %d in %s\n", r.Pairs, r.Draws, r.Features, r.DType)
		fmt.Fprintf(w, "family, coupling\t%s, %s\n", r.Spec.Family.Name(), mapflags.CouplingName(r.Spec))
		fmt.Fprintf(w, "randomness\t%s\n", f.Origin(r.Spec))
	})
}
