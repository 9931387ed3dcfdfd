package family

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/krr"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Nystrom is the family of Nyström features, F of them, signed:
//
//	φ(x) = R⁻ᵀ k_m(x),  K_mm = RᵀR,  φ(x)·φ(y) = k_m(x)ᵀ K_mm⁻¹ k_m(y)
//
// with k_m(x) the kernels of x with the landmarks (Williams & Seeger 2001). This is κ(x, y) if x or y is a landmark,
// and the best approximation that the landmarks allow elsewhere. It is fitted to data and biased: it is as good as the
// landmarks are near, and φ(x)·φ(x) ≤ κ(x, x). Every kernel without negative values has it.
type Nystrom struct {
	N    int    `json:"n,omitempty"`    // number of landmarks that a fit chooses; 0 means 256
	Pick string `json:"pick,omitempty"` // "pivots" (also if empty), "greedy" or "leverage"
	Seed uint64 `json:"seed,omitempty"` // of the random choice
	// Rows are the landmarks, embedded by the kernel; a fit chooses them among a sample of queries and keys.
	Rows dense.Matrix[float64] `json:"rows,omitzero"`
}

// The ways to choose landmarks.
const (
	pickPivots   = "pivots"   // randomly pivoted Cholesky: probability ∝ the unexplained part of κ(x, x)
	pickGreedy   = "greedy"   // pivoted Cholesky: always the row with the largest unexplained part
	pickLeverage = "leverage" // probability ∝ approximate ridge leverage scores
)

// picks are the ways to choose landmarks.
func picks() []string { return []string{pickPivots, pickGreedy, pickLeverage} }

// defaultLandmarks is the default of Nystrom.N.
const defaultLandmarks = 256

// Name is "nystrom".
func (Nystrom) Name() string { return "nystrom" }

// Draws asks for nothing: the landmarks are given or fitted and decide the number of features, m is not used.
func (f Nystrom) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if !kind.Signed() {
		kind = kernel.Gaussian
	}
	if m >= 0 {
		m = 1
	}
	if err := checkSizes(f, kind, dim, m); err != nil {
		return nil, err
	}
	if err := f.validate(); err != nil {
		return nil, err
	}
	if f.Rows.Rows < 1 {
		return nil, paramError(f, "no landmarks (set rows or fit them)")
	}
	if f.Rows.Cols != dim {
		return nil, paramError(f, "landmarks of %d columns, the inputs have %d", f.Rows.Cols, dim)
	}
	return nil, nil
}

func (f Nystrom) validate() error {
	if f.N < 0 {
		return paramError(f, "n is %d, want a number of landmarks", f.N)
	}
	if f.Pick != "" && !slices.Contains(picks(), f.Pick) {
		return paramError(f, "pick is %q, want %s", f.Pick, strings.Join(picks(), ", "))
	}
	return nil
}

// Lower implements Family.
func (f Nystrom) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega); err != nil {
		return plan.Pair{}, err
	}
	z := coupling.Omega{Rows: f.Rows}
	if err := need(f, []coupling.Omega{z}, dim); err != nil {
		return plan.Pair{}, err
	}
	r, err := krr.Root(kernel.Kernel{Kind: kind}, f.Rows, 0)
	if errors.Is(err, linalg.ErrNotPositive) || errors.Is(err, dense.ErrNotFinite) {
		return plan.Pair{}, paramError(f, "the kernels of the landmarks are singular up to rounding, or overflow (%v)", err)
	}
	if err != nil {
		return plan.Pair{}, err
	}
	white := dense.New[float64](r.Rows, r.Rows)
	if err := linalg.Inverse(white, r); err != nil {
		return plan.Pair{}, err
	}
	for i := range white.Rows { // entries below the diagonal of an inverse are undefined
		clear(white.Row(i)[:i])
	}
	return symmetric(plan.Leaf{Fn: plan.Columns, Kernel: kind, Omega: z, White: white}), nil
}

// Form returns an error: the map is fitted to data and biased.
func (Nystrom) Form(kernel.Kind, []float64, []float64) (forms.Form, error) {
	return forms.Form{}, forms.NoForm("landmarks (fitted to data, no unbiasedness)")
}

// Needs asks for a sample of rows.
func (f Nystrom) Needs() Options { return Options{Sample: max(defaultSample, 4*f.landmarks())} }

// landmarks is the effective N.
func (f Nystrom) landmarks() int {
	return cmp.Or(f.N, defaultLandmarks)
}

// Fit is FitKernel for the Gaussian kernel.
func (f Nystrom) Fit(s *Stats) (Family, error) { return f.FitKernel(kernel.Gaussian, s) }

// FitKernel chooses landmarks for a kernel among the sampled queries and keys. It chooses fewer than N if these explain
// all sampled rows.
func (f Nystrom) FitKernel(kind kernel.Kind, s *Stats) (Family, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	if s.isEmpty() || s.Query.Dim() != s.Key.Dim() || s.Query.Dim() < 1 {
		return nil, statsError(f, "no queries, no keys, or rows of different lengths")
	}
	x := distinctRows(s.Query.sample.matrix(s.Query.Dim()), s.Key.sample.matrix(s.Key.Dim()))
	if x.Rows == 0 {
		return nil, statsError(f, "no sampled rows (Options.Sample)")
	}
	k := kernel.Kernel{Kind: kind}
	if kind.Signed() {
		return nil, checkSizes(f, kind, x.Cols, 1)
	}
	var rows []int
	var err error
	switch n := f.landmarks(); f.Pick {
	case pickGreedy:
		rows, err = krr.Greedy(k, x, n)
	case pickLeverage:
		rows, err = krr.Leverage(k, x, n, f.Seed)
	default:
		rows, err = krr.Pivots(k, x, n, f.Seed)
	}
	if err != nil {
		return nil, statsError(f, "%v", err)
	}
	if len(rows) == 0 {
		return nil, statsError(f, "the kernels of the rows overflow: scale them")
	}
	f.Rows = x.Pick(rows)
	return f, nil
}

// distinctRows returns the rows of both sets without duplicates: queries and keys of a kernel machine are the same
// rows.
func distinctRows(a, b dense.Matrix[float64]) dense.Matrix[float64] {
	out := dense.Matrix[float64]{Cols: a.Cols, Stride: a.Cols}
	seen := map[uint64]bool{}
	for _, m := range []dense.Matrix[float64]{a, b} {
		for i := range m.Rows {
			if h := hashRow(m.Row(i)); !seen[h] {
				seen[h] = true
				out.Data = append(out.Data, m.Row(i)...)
				out.Rows++
			}
		}
	}
	return out
}
