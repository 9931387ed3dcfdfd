package calc

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/internal/forms"
)

// darkEntries are docs/theory.md §5.6.
func darkEntries() []Entry {
	return []Entry{
		formula("dark.sigma_eigs", "DARK Thm 3.2: eigenvalues of the optimal proposal",
			forms.DarkSigmaEigs, vector("lam")),
		{
			Name: "dark.expected_variance", Reference: "DARK Thm 3.2: q, k ~ N(0, diag lam), one projection, isotropic and " +
				"optimal proposal",
			Inputs: []Input{vector("lam")},
			eval: func(in values) (any, error) {
				lam := in.vec("lam")
				if err := allNonnegative("lam", lam); err != nil {
					return nil, err
				}
				return Object{
					{"log_second_iso", forms.LogSecondDarkIsotropic(lam)},
					{"log_second_opt", forms.LogSecondDarkOptimal(lam)},
					{"log_EK2", forms.LogKernelSquareDark(lam)},
					{"log_V_iso", forms.LogVarDarkIsotropic(lam)},
					{"log_V_opt", forms.LogVarDarkOptimal(lam)},
				}, nil
			},
		},
		{
			Name: "dark.second_moment_gaussian_proposal_log",
			Reference: "docs/theory.md §5.6: proposal variances s in the " +
				"eigenbasis of the data",
			Inputs: []Input{vector("lam"), vector("s")},
			eval: func(in values) (any, error) {
				if err := checkLengths(in, "lam", "s"); err != nil {
					return nil, err
				}
				return forms.LogSecondDarkGaussian(in.vec("lam"), in.vec("s")), nil
			},
		},
		{
			Name: "dark.sigma_matrix", Reference: "DARK Thm 3.2: Σ* = (I + 2Λ)(I - 2Λ)^{-1}",
			Inputs: []Input{matrix("Lam")},
			eval: func(in values) (any, error) {
				lam, err := symmetric(in, "Lam")
				if err != nil {
					return nil, err
				}
				sigma, err := forms.DarkSigma(lam)
				if err != nil {
					return nil, err
				}
				return symmetricRows(sigma), nil
			},
		},
		{
			Name: "dark.prop41_log_weight", Reference: "DARK Prop 4.1: log p_Σ(w)/p_I(w)",
			Inputs: []Input{matrix("Sigma"), vector("w")},
			eval: func(in values) (any, error) {
				if err := checkLengths(in, "Sigma", "w"); err != nil {
					return nil, err
				}
				sigma, err := symmetric(in, "Sigma")
				if err != nil {
					return nil, err
				}
				return result(forms.DarkLogWeight(sigma, in.vec("w")))
			},
		},
	}
}

func allNonnegative(key string, v []float64) error {
	for i, x := range v {
		if x < 0 {
			return outOfRange(fmt.Sprintf("%s[%d]", key, i), x, "a number ≥ 0")
		}
	}
	return nil
}

// symmetric reads a square matrix that is symmetric up to rounding.
func symmetric(in values, key string) (*mat.SymDense, error) {
	m := in.mat(key)
	if err := checkSquare(in, key, m.Rows); err != nil {
		return nil, err
	}
	s := mat.NewSymDense(m.Rows, nil)
	for i := range m.Rows {
		for j := i; j < m.Cols; j++ {
			a, b := m.At(i, j), m.At(j, i)
			if math.Abs(a-b) > 1e-9*math.Max(math.Abs(a), math.Abs(b)) {
				return nil, outOfRange(key, fmt.Sprintf("not symmetric: [%d][%d] = %v, [%d][%d] = %v", i, j, a, j, i,
					b),
					"a symmetric matrix")
			}
			s.SetSym(i, j, (a+b)/2)
		}
	}
	return s, nil
}

// checkCovariance reports a matrix that is not symmetric positive definite.
func checkCovariance(in values, key string) error {
	s, err := symmetric(in, key)
	if err != nil {
		return err
	}
	var chol mat.Cholesky
	if !chol.Factorize(s) {
		return outOfRange(key, "not positive definite", "a covariance with positive eigenvalues")
	}
	return nil
}

func symmetricRows(s *mat.SymDense) [][]float64 {
	rows := make([][]float64, s.SymmetricDim())
	for i := range rows {
		rows[i] = make([]float64, len(rows))
		for j := range rows {
			rows[i][j] = s.At(i, j)
		}
	}
	return rows
}
