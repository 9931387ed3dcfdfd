package mapflags

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/npy"
)

// ReadSet reads the rows of an argument and refuses sets that no map accepts.
func ReadSet(env *cli.Env, path string) (npy.Array, error) {
	var x npy.Array
	var err error
	if path == "-" {
		path = "stdin"
		x, err = npy.Read(env.Stdin)
		if err != nil {
			err = fmt.Errorf("stdin: %w", err)
		}
	} else {
		x, err = cli.Await(env, func() (npy.Array, error) { return npy.ReadAny(path) })
	}
	if err != nil {
		return x, err
	}
	if x.Rows() == 0 {
		return x, fmt.Errorf("%s has no rows: %w", path, dense.ErrShape)
	}
	if err := x.CheckFinite(); err != nil {
		return x, fmt.Errorf("%s: %w", path, err)
	}
	return x, nil
}

// FitSpec fits the parameters of the family to the rows, and notes surprises: too few rows, or nothing to fit.
func FitSpec(env *cli.Env, spec randfeat.Spec, queries, keys dense.Matrix[float64]) (randfeat.Spec, error) {
	if f, fits := spec.Family.(family.Fitter); fits {
		env.Warn(family.Warning(f, min(queries.Rows, keys.Rows), spec.Kernel.Dim(spec.Dim)))
	} else {
		env.Note("note: the family %s has no parameters to fit", spec.Family.Name())
	}
	fitted, err := randfeat.Fit(spec, queries, keys)
	if err != nil {
		return spec, fmt.Errorf("--fit: %w", err)
	}
	return fitted, nil
}
