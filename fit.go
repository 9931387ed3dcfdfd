package randfeat

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// fitSample is the number of rows kept for clustering when fitting from whole sets.
const fitSample = 2048

// Fit returns the spec with family parameters chosen from queries x and keys y (pass the same set twice for a kernel
// machine). A family without parameters is returned as it is.
func Fit(s Spec, x, y dense.Matrix[float64]) (Spec, error) {
	if s.Family == nil {
		return s, fmt.Errorf("no family: %w", ErrSpec)
	}
	f, ok := s.Family.(family.Fitter)
	if !ok {
		return s, nil
	}
	st, err := NewStats(s, family.Options{Covariance: true, Sample: fitSample})
	if err != nil {
		return s, err
	}
	if err := st.AddQueries(x); err != nil {
		return s, err
	}
	if err := st.AddKeys(y); err != nil {
		return s, err
	}
	s.Family, err = f.Fit(st.Stats)
	return s, err
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
	if err := s.Kernel.Validate(s.Dim); err != nil {
		return nil, err
	}
	return &Stats{Stats: family.NewStats(s.Kernel.Dim(s.Dim), o), kernel: s.Kernel, dim: s.Dim}, nil
}

// AddQueries records a block of queries.
func (s *Stats) AddQueries(x dense.Matrix[float64]) error { return s.add("x", s.Query, x) }

// AddKeys records a block of keys.
func (s *Stats) AddKeys(y dense.Matrix[float64]) error { return s.add("y", s.Key, y) }

// Merge adds the statistics of other data of the same spec and options.
func (s *Stats) Merge(o *Stats) error { return s.Stats.Merge(o.Stats) }

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
