package randfeat

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// Fit returns the spec with family parameters chosen from queries x and keys y (pass the same set twice for a kernel
// machine). A family without parameters is returned unchanged. Only the statistics that the family needs are collected,
// so the cost is O(d) per row, or O(d²) for families that need covariances (Fitter.Needs). [HeldOut] estimates the
// error on other rows.
func Fit(s Spec, x, y dense.Matrix[float64]) (Spec, error) {
	if s.Family == nil {
		return s, fmt.Errorf("no family: %w", ErrSpec)
	}
	f, ok := s.Family.(family.Fitter)
	if !ok {
		return s, nil
	}
	st, err := NewStats(s, f.Needs())
	if err != nil {
		return s, err
	}
	if err := st.AddQueries(x); err != nil {
		return s, err
	}
	if err := st.AddKeys(y); err != nil {
		return s, err
	}
	var fitted family.Family
	if k, ok := f.(family.KernelFitter); ok {
		fitted, err = k.FitKernel(s.Kernel.Kind, st.Stats)
	} else {
		fitted, err = f.Fit(st.Stats)
	}
	if err != nil {
		return s, err
	}
	s.Family = fitted
	return s, nil
}

// Stats are the streaming statistics of queries and keys that fitting needs, taken after the kernel's embedding
// (bandwidth, matrix). Statistics of parts of the data merge.
type Stats struct {
	*family.Stats
	kernel kernel.Kernel
	dim    int
}

// NewStats returns empty statistics for the inputs of a spec.
func NewStats(s Spec, o family.Options) (*Stats, error) {
	if s.Dim < 1 {
		return nil, fmt.Errorf("dim = %d, want at least 1: %w", s.Dim, ErrSpec)
	}
	if err := s.Kernel.Validate(s.Dim); err != nil {
		return nil, err
	}
	return &Stats{Stats: family.NewStats(s.Kernel.Dim(s.Dim), o), kernel: s.Kernel, dim: s.Dim}, nil
}

// AddQueries records a block of queries.
func (s *Stats) AddQueries(x dense.Matrix[float64]) error {
	if s.lacks() {
		return errNoStats
	}
	return s.add("x", s.Query, x)
}

// AddKeys records a block of keys.
func (s *Stats) AddKeys(y dense.Matrix[float64]) error {
	if s.lacks() {
		return errNoStats
	}
	return s.add("y", s.Key, y)
}

// Merge adds the statistics of other data with the same kernel, dimension and options. A different kernel or dimension
// is ErrSpec.
func (s *Stats) Merge(o *Stats) error {
	if s.lacks() || o.lacks() {
		return errNoStats
	}
	if s.dim != o.dim {
		return fmt.Errorf("statistics of rows with %d and %d columns: %w", s.dim, o.dim, ErrSpec)
	}
	if !sameKernel(s.kernel, o.kernel) {
		return fmt.Errorf("statistics after the embeddings of different kernels: %w", ErrSpec)
	}
	return s.Stats.Merge(o.Stats)
}

var errNoStats = fmt.Errorf("statistics that were not made by NewStats: %w", ErrSpec)

// lacks reports whether the value was not made by NewStats.
func (s *Stats) lacks() bool { return s == nil || s.Stats == nil || s.Query == nil || s.Key == nil }

// sameKernel compares kernels by value.
func sameKernel(a, b kernel.Kernel) bool {
	if a.Kind != b.Kind || a.Gain() != b.Gain() || a.M.Rows != b.M.Rows || a.M.Cols != b.M.Cols {
		return false
	}
	for i := range a.M.Rows {
		if !slices.Equal(a.M.Row(i), b.M.Row(i)) {
			return false
		}
	}
	return true
}

func (s *Stats) add(name string, side *family.Moments, x dense.Matrix[float64]) error {
	if x.Cols != s.dim {
		return fmt.Errorf("%s has %d columns, want %d: %w", name, x.Cols, s.dim, dense.ErrShape)
	}
	if err := kernel.CheckSet(name, x); err != nil {
		return err
	}
	row := dense.New[float64](1, s.kernel.Dim(s.dim))
	for i := range x.Rows {
		s.kernel.Embed(row.Data, x.Row(i))
		if err := side.Add(row); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
