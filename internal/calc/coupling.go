package calc

import (
	"fmt"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/omega"
)

// couplingEntries are the steps of the couplings: docs/theory.md §4.
func couplingEntries() []Entry {
	return []Entry{
		formula("coupling.simplex_multiply", "SimRF Alg 1: S x", omega.SimplexMultiply, vector("x")),
		{
			Name: "coupling.simplex_plus", Reference: "SimRF eq 17: sweeps from w_i = norms_i s_i, then W = [w] R",
			Inputs: []Input{vector("norms"), integer("passes", 0, maxPasses), matrix("R")},
			eval: func(in values) (any, error) {
				r, err := omega.SimplexPlusSweeps(in.vec("norms"), in.i("passes"), in.mat("R"))
				if err != nil {
					return nil, err
				}
				return Object{{"W", r.W}, {"resultant_norm_after_each_pass", r.Resultant}}, nil
			},
		},
		{
			Name: "coupling.hd_product", Reference: "SimRF eq 89: H D_1 … H D_k x; signs[i] is the diagonal of D_{i+1}, the " +
				"last is applied first",
			Inputs: []Input{matrix("signs"), vector("x"), dimension("n")},
			eval: func(in values) (any, error) {
				return result(hdProduct(in.mat("signs").ToRows(), in.vec("x"), in.i("n")))
			},
		},
		{
			Name: "coupling.hd_cumulants",
			Reference: "docs/theory.md §4.6: cumulants k4/24 and k6/720 of ω·v, rows of k factors HD in dimension len(v); " +
				"the mean of an estimate over the kernel is exp(c4 ± c6), − for trig",
			Inputs: []Input{integer("k", 1, 64), vector("v")},
			eval: func(in values) (any, error) {
				v, k := in.vec("v"), in.i("k")
				e, _ := coupling.Excess(coupling.Hadamard{K: k}, len(v), len(v))
				if e.Dim != len(v) {
					return nil, outOfRange("v", len(v), "a power of two of coordinates")
				}
				p := forms.PowersOf(v)
				c4, c6 := forms.RowCumulants(e.Dim, e.Fourth, e.Sixth, p.Two, p.Four, p.Six)
				return Object{{"c4", c4}, {"c6", c6}}, nil
			},
		},
		{
			Name: "coupling.halton", Reference: "docs/theory.md §4.10: shifted Halton rows without digit permutation",
			Inputs: []Input{natural("m"), vector("shift")},
			eval: func(in values) (any, error) {
				if in.i("m") > maxElements/len(in.vec("shift")) {
					return nil, outOfRange("m", in.i("m"), "fewer rows")
				}
				return result(omega.HaltonRows(in.i("m"), in.vec("shift")))
			},
		},
		formula("coupling.haar_from_gaussian", "the factor Q of G = QR with diag R > 0",
			omega.HaarFromGaussian, matrix("G")),
		{
			Name: "coupling.conformity_objective", Reference: "SimRF eq 12: conformity of fixed vectors, and the gradient of " +
				"its sum",
			Inputs: []Input{matrix("W"), nonnegative("v")},
			eval: func(in values) (any, error) {
				r, err := omega.ConformityObjective(in.mat("W"), in.f("v"))
				if err != nil {
					return nil, err
				}
				return Object{{"rho", r.Rho}, {"grad_sum", r.GradSum}}, nil
			},
		},
		formula("coupling.pair_fraction", "docs/theory.md §5: share of ordered pairs of projections inside a block",
			forms.PairFraction, natural("m"), dimension("d")),
		{
			Name: "coupling.padded_wrong_norms", Reference: "docs/theory.md §4.6: 1F1(d/2; n/2; -z2/2), what chi_d norms " +
				"after padding to n estimate",
			Inputs: []Input{dimension("d"), dimension("n"), nonnegative("z2")},
			eval: func(in values) (any, error) {
				if in.i("n") < in.i("d") {
					return nil, outOfRange("n", in.i("n"), "at least d")
				}
				return forms.PaddedKernel(in.i("d"), in.i("n"), in.f("z2")), nil
			},
		},
	}
}

// hdProduct is (H D_1)(H D_2)…(H D_k) x (SimRF eq 89) with signs[i] the diagonal of D_{i+1}, so that the last
// one is applied first; H is the orthonormal Hadamard matrix in Sylvester order and x is padded with zeros to the
// power of two n.
func hdProduct(signs [][]float64, x []float64, n int) ([]float64, error) {
	if n < 1 || n&(n-1) != 0 {
		return nil, fmt.Errorf("coupling: n = %d is not a power of two: %w", n, dense.ErrShape)
	}
	if len(x) > n {
		return nil, fmt.Errorf("coupling: x has %d coordinates, n is %d: %w", len(x), n, dense.ErrShape)
	}
	for i, s := range signs {
		if len(s) != n {
			return nil, fmt.Errorf("coupling: signs[%d] has %d entries, n is %d: %w", i, len(s), n, dense.ErrShape)
		}
	}
	ones, y := make([]float64, n), make([]float64, n)
	for i := range ones {
		ones[i] = 1
	}
	s := &omega.Structured{Dim: len(x), N: n, Rows: n, Blocks: []omega.HDBlock{{Signs: signs, Norms: ones}}}
	omega.NewTransform(s, kern.Reference[float64]()).Apply(y, x, make([]float64, n))
	return y, nil
}

// result adapts a function with an error to an entry.
func result[T []float64 | dense.Matrix[float64] | float64](v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}
