package attend

import (
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

type attendFlags struct {
	out                         string
	causal, exact               bool
	heads, kvHeads              int
	mask, segments, keySegments string
	method                      string
	tol, budget                 float64
	saveSpec, spec              string
	clusters, keys              int
	chunk, block                int
	window, sinks               int
	centroid                    centroid.Spec // of --method centroid
	scale                       float64
	dtype                       string
	family, coupling            string
	m                           int
	fit, fitDefault             bool // fitDefault: fitted because no family was named
	asked                       bool // the number of features was given
	seed                        uint64
	compare, demo, trace        bool
	svg                         string
	sample                      int
	sampled                     bool // --sample was given
}

// defaultAttendFamily is fitted and used if no family is named: it has the smallest error on most data.
const defaultAttendFamily = "adaptive"

// spec1 returns the map of one head, for queries of dim columns, before fitting. M is the number of features
// until then: the number of projections that make them may depend on fitted parameters.
func (f *attendFlags) spec1(dim int) (randfeat.Spec, error) {
	spec := randfeat.Spec{Kernel: kernel.Attention(dim), Dim: dim, M: f.m, Seed: f.seed}
	if f.scale > 0 {
		spec.Kernel.Scale = 1 / math.Sqrt(f.scale) // scales both q and k, so the product is scaled by f.scale
	}
	var err error
	if spec.Family, err = family.Parse(f.family); err != nil {
		return spec, cli.Misused("--family: %w", err)
	}
	if spec.Coupling, err = coupling.Parse(f.coupling); err != nil {
		return spec, cli.Misused("--coupling: %w", err)
	}
	return spec, nil
}

const (
	fallbackFamily        = "positive" // if there is nothing to fit to
	defaultAttendCoupling = "orthogonal"
	defaultCompareRows    = 128
)
