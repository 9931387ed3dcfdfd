package kernel_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

func TestFromSigma(t *testing.T) {
	x, y := []float64{0.3, -0.5, 0.8}, []float64{0.4, 0.1, -0.6}
	for name, sigma := range map[string]dense.Matrix[float64]{
		"full": dense.MustFromRows([][]float64{{2, 0.5, 0}, {0.5, 1, -0.3}, {0, -0.3, 0.7}}),
		// MᵀM of the golden M
		"singular": dense.MustFromRows([][]float64{{0.25, 0.1, 0}, {0.1, 0.4, -0.18}, {0, -0.18, 0.09}}),
	} {
		k, err := kernel.FromSigma(sigma)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want float64
		for i := range 3 {
			want += x[i] * dense.Dot(sigma.Row(i), y)
		}
		if got := k.Log(x, y); math.Abs(got-want) > 1e-14 {
			t.Errorf("%s: xᵀΣy = %v, want %v", name, got, want)
		}
		if name == "singular" && k.M.Rows != 2 {
			t.Errorf("rank %d, want 2", k.M.Rows)
		}
	}
	for says, c := range map[string]struct {
		sigma dense.Matrix[float64]
		want  error
	}{
		"not positive semidefinite": {dense.MustFromRows([][]float64{{1, 2}, {2, 1}}), kernel.ErrKernel},
		"not symmetric":             {dense.MustFromRows([][]float64{{1, 0.5}, {0, 1}}), kernel.ErrKernel},
		"zero":                      {dense.New[float64](2, 2), kernel.ErrKernel},
		"square":                    {dense.New[float64](2, 3), dense.ErrShape},
		"row 0, column 1":           {dense.MustFromRows([][]float64{{1, math.NaN()}, {0, 1}}), dense.ErrNotFinite},
	} {
		if _, err := kernel.FromSigma(c.sigma); !errors.Is(err, c.want) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
