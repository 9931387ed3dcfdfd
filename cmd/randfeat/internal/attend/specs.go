package attend

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/qkv"
	"github.com/randfeat/randfeat/family"
)

// attendSpecs returns the maps of --method features: fitted, one per key/value head, or one for all. few warns
// of a fit to few rows.
func attendSpecs(env *cli.Env, f *attendFlags, in *qkv.Input) (specs []randfeat.Spec, few string,
	err error) {
	if f.fitDefault && !in.CanFit() {
		env.Note("note: there is no query or no key to fit the family %s to: positive features, not fitted", f.family)
		f.family, f.fit, f.fitDefault = fallbackFamily, false, false
	}
	spec, err := f.spec1(in.Q.Dim)
	if err != nil {
		return nil, "", err
	}
	if err := cli.CheckSize(spec, "--features"); err != nil {
		return nil, "", err
	}
	specs = []randfeat.Spec{spec}
	if f.fit {
		if specs, few, err = fitHeads(env, f, spec, in); err != nil {
			return nil, "", err
		}
	}
	var features int
	for i := range specs {
		if specs[i], err = cli.WithFeatures(specs[i], f.m, f.asked); err != nil {
			break
		}
		if features, err = specs[i].OutDim(); err != nil {
			break
		}
	}
	if errors.Is(err, family.ErrParam) {
		return nil, "", fmt.Errorf("%w; %s", err, parameterHint(spec.Family, f.fit))
	}
	if err != nil {
		return nil, "", err
	}
	return specs, few, cli.CheckFeatures(features, mapflags.LibraryRows, "--features")
}

// parameterHint says how to give a family the parameters that it lacks.
func parameterHint(f family.Family, fit bool) string {
	parameters := "..."
	if _, ok := f.(family.LFK); ok {
		parameters = `"w": [[...], ...]`
	}
	hint := fmt.Sprintf("set parameters with --family '{\"name\": %q, %s}'", f.Name(), parameters)
	if _, fits := f.(family.Fitter); fits && !fit {
		hint += " or fit them with --fit"
	}
	return hint
}

// fitHeads fits the family to each key/value head, on all queries and keys that are not padding.
func fitHeads(env *cli.Env, f *attendFlags, spec randfeat.Spec, in *qkv.Input) (specs []randfeat.Spec,
	few string, err error) {
	name := spec.Family.Name()
	if _, fits := spec.Family.(family.Fitter); !fits {
		env.Note("note: --fit changes nothing: there is no rule that fits the family %s to data", name)
	}
	stats, err := linear.NewHeadStats[float32](spec, in.K.Heads)
	if err != nil {
		return nil, "", err
	}
	queries, keys := in.FitMasks()
	if err := stats.Add(in.Q, in.K, queries, keys); err != nil {
		return nil, "", err
	}
	specs, err = stats.Fit()
	switch {
	case err != nil && f.fitDefault:
		return nil, "", fmt.Errorf("fitting the family used without --family: %w; name one that needs no fit, such as --family %s", err, fallbackFamily)
	case err != nil:
		return nil, "", fmt.Errorf("--fit: %w; leave --fit out and set parameters of --family %s, or use --family %s", err,
			name, fallbackFamily)
	}
	return specs, stats.Warning(), nil
}
