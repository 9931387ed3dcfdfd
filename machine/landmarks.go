package machine

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/krr"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// whitening turns columns of the kernel into Nyström features (family.Landmarks): φ(x) = R⁻ᵀ k_m(x) with K_mm = RᵀR.
// Then φ(x)·φ(y) = k_m(x)ᵀ K_mm⁻¹ k_m(y), which equals κ(x, y) if x or y is a landmark and is the best approximation
// from the landmarks elsewhere (Williams & Seeger 2001, eq. 8). K_mm^(−1/2) instead of R⁻ᵀ would only rotate the
// features, which does not change a penalised sum of squares. Ridge, Gaussian processes and logistic regression are
// fitted to φ; their models keep R⁻¹w, so a prediction needs only columns of the kernel.
type whitening struct {
	r, inverse dense.Matrix[float64] // R and R⁻¹, upper triangles
	stripes    []kern.Panel[float64] // R⁻¹ packed by stripes of columns
	narrow     []kern.Panel[float32] // the same, if features are float32
}

// ridgeOfColumns is added to the diagonal of K_mm, which is 1. It is a thousandth of the smallest pivot of Landmarks.
const ridgeOfColumns = 1e-11

// whitened returns the whitening of a landmark family, nil for other families.
func (s Setup) whitened() (*whitening, error) {
	r, err := s.landmarkRoot()
	if err != nil || r.Rows == 0 {
		return nil, err
	}
	w := &whitening{r: r, inverse: dense.New[float64](r.Rows, r.Rows)}
	if err := linalg.Inverse(w.inverse, w.r); err != nil {
		return nil, err
	}
	if s.Float32 {
		w.narrow = packed[float32](w.inverse)
	} else {
		w.stripes = packed[float64](w.inverse)
	}
	return w, nil
}

// roughKernel reports whether features of landmarks may be float32. Kernels with a peak have well-conditioned matrices:
// the smallest pivot of a thousand landmarks is far above the rounding of float32. Smooth kernels come down to 10⁻⁸.
func roughKernel(k kernel.Kind) bool { return k == kernel.Laplace || k == kernel.Matern12 }

// leastPivot is the smallest pivot of landmarks with features in float32.
const leastPivot = 1e-4

// landmarkRoot returns R with K_mm = RᵀR, empty for families without kernel columns.
func (s Setup) landmarkRoot() (r dense.Matrix[float64], err error) {
	if !family.InfoOf(s.Spec.Family).KernelColumns {
		return r, nil
	}
	switch {
	case s.Float32 && !roughKernel(s.Spec.Kernel.Kind):
		return r, fmt.Errorf("family %s in float32: its features are solutions of a system that is not "+
			"well-conditioned: use float64: %w", s.Spec.Family.Name(), ErrSetup)
	case len(s.Spec.Family.(family.Landmarks).Also) > 0:
		return r, fmt.Errorf("family %s of several kernels: fit each kernel alone: %w", s.Spec.Family.Name(), ErrSetup)
	case !hasLandmarks(s.Spec.Kernel) || len(s.Omega) != 1:
		return r, fmt.Errorf("family %s of a %v kernel, want one with κ(x, x) = 1 and no negative values: %w",
			s.Spec.Family.Name(), s.Spec.Kernel.Kind, ErrSetup)
	}
	z := s.Omega[0].Rows // embedded
	r = dense.New[float64](z.Rows, z.Rows)
	if err := kernel.Gram(kernel.Kernel{Kind: s.Spec.Kernel.Kind}, r, z, z); err != nil {
		return r, err
	}
	for i := range z.Rows {
		r.Row(i)[i] += ridgeOfColumns
	}
	err = linalg.Cholesky(r)
	if errors.Is(err, linalg.ErrNotPositive) {
		return r, fmt.Errorf("landmarks that are nearly equal (%w): choose them with Landmarks, or fewer: %w", err, ErrSetup)
	}
	for i := range r.Rows {
		if v := r.At(i, i); s.Float32 && err == nil && v*v < leastPivot {
			return r, fmt.Errorf("family %s in float32, landmark %d is nearly equal to others: use float64: %w",
				s.Spec.Family.Name(), i, ErrSetup)
		}
	}
	return r, err
}

// hasLandmarks reports whether κ(x, x) = 1, which the tolerances here assume, and whether family landmarks supports the
// kernel.
func hasLandmarks(k kernel.Kernel) bool { return k.Kind != kernel.Softmax && !k.Kind.Signed() }

// whitenCols is the number of columns of the triangle that are packed and multiplied together. Wider stripes would
// multiply more of the zeros below the diagonal.
const whitenCols = 256

// packed copies the triangle into the layout of MulT, by stripes of columns, once. Otherwise every block of rows would
// pack it again.
func packed[T dense.Float](triangle dense.Matrix[float64]) []kern.Panel[T] {
	tab := kern.Best[T]()
	n := triangle.Rows
	stripes := make([]kern.Panel[T], (n+whitenCols-1)/whitenCols)
	par.For(len(stripes), 1, func(lo, hi int) {
		for s := lo; s < hi; s++ {
			j, end := s*whitenCols, min((s+1)*whitenCols, n)
			columns := dense.New[T](end-j, end)
			for i := range end {
				for c, v := range triangle.Row(i)[j:end] {
					columns.Set(c, i, T(v))
				}
			}
			tab.Pack(&stripes[s], columns)
		}
	})
	return stripes
}

// whiten overwrites kernel columns with features, φ = R⁻ᵀ k_m row by row.
func whiten[T dense.Float](phi dense.Matrix[T], stripes []kern.Panel[T]) {
	tab := kern.Best[T]()
	par.For(phi.Rows, 1+tab.Grain/(phi.Cols*phi.Cols), func(lo, hi int) {
		out := dense.New[T](min(hi-lo, predictRows), phi.Cols)
		for ; lo < hi; lo += predictRows {
			part := phi.RowRange(lo, min(lo+predictRows, hi))
			to := out.RowRange(0, part.Rows)
			for s := range stripes {
				j, end := s*whitenCols, min((s+1)*whitenCols, phi.Cols)
				tab.MulT(to.ColRange(j, end), part.ColRange(0, end), &stripes[s], nil)
			}
			for i := range part.Rows {
				copy(part.Row(i), to.Row(i))
			}
		}
	})
}

// weights turns weights of features into weights of kernel columns, R⁻¹w, in place.
func (w *whitening) weights(m dense.Matrix[float64]) error { return linalg.Solve(w.r, m) }

// Landmarks chooses at most m rows of x as landmarks of a kernel with κ(x, x) = 1, by randomly pivoted Cholesky (Chen,
// Epperly, Tropp & Webber 2023, arXiv:2207.06503). Each row is drawn with probability proportional to the part of its
// kernel that earlier landmarks do not explain. Isolated rows are taken as soon as a draw finds them, and dense regions
// get as many landmarks as they need. If fewer than m rows explain all, fewer are returned. It takes n·m²/2
// multiply-adds and 8nm bytes. The result is in the order of the draw and determined by the seed.
//
// The second result holds the chosen rows, embedded by the kernel: the projections of family.Landmarks.
func Landmarks(k kernel.Kernel, x dense.Matrix[float64], m int, seed uint64) ([]int, []coupling.Omega, error) {
	if !hasLandmarks(k) || m < 1 || x.Rows < 1 {
		return nil, nil, fmt.Errorf("%d landmarks of %d rows with a %v kernel, want at least one and a kernel with κ(x, x) = 1 "+
			"and no negative values: %w", m, x.Rows, k.Kind, ErrSetup)
	}
	if err := finite("x", x, 0); err != nil {
		return nil, nil, err
	}
	rows, err := krr.Pivots(k, x, m, seed)
	omega := dense.New[float64](len(rows), k.Dim(x.Cols))
	for i, r := range rows {
		k.Embed(omega.Row(i), x.Row(r))
	}
	return rows, []coupling.Omega{{Rows: omega}}, err
}
