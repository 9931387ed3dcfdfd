package randfeat_test

import (
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest/cases"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/randfeattest"
)

func TestConformance(t *testing.T) {
	const d, m = 5, 13
	for _, f := range allFamilies(t, d) {
		t.Run(f.Name, func(t *testing.T) {
			randfeattest.Map(t, randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax, Scale: 1.3}, Family: f.Family,
				Dim: d, M: m, Seed: 3})
		})
	}
	for _, c := range cases.Couplings(t) {
		t.Run("coupling-"+c.Name, func(t *testing.T) {
			randfeattest.Map(t, randfeat.Spec{Family: family.OPRF{A: -0.1}, Coupling: c.Value, Dim: d, M: m, Seed: 3})
		})
	}
	// Large enough for the structured projections to be multiplied by fast transforms.
	for _, c := range []coupling.Coupling{coupling.Hadamard{}, coupling.FastSimplex{}} {
		t.Run("fast-"+c.Name(), func(t *testing.T) {
			randfeattest.Map(t, randfeat.Spec{Family: family.OPRF{A: -0.01}, Coupling: c, Dim: 300, M: 700, Seed: 3})
		})
	}
	t.Run("matrix-kernel", func(t *testing.T) {
		mat := dense.New[float64](3, d)
		rng.Normals(mat.Data, rng.Stream(6))
		randfeattest.Map(t, randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Gaussian, Scale: 2, M: mat},
			Family: family.Hyperbolic{}, Dim: d, M: m})
	})
	for _, kind := range spectralKinds() {
		for _, f := range accepting(t, allFamilies(t, d), kind, d) {
			t.Run(f.Name+"-"+kind.String(), func(t *testing.T) {
				randfeattest.Map(t, randfeat.Spec{Kernel: kernel.Kernel{Kind: kind}, Family: f.Family, Dim: d, M: m})
			})
		}
	}
}
