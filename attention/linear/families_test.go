package linear

import (
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest/cases"
	"github.com/randfeat/randfeat/kernel"
)

// normalRows is a rows×cols matrix of N(0, scale²) values around centre.
func normalRows(rows, cols int, scale, centre float64, seed uint64) dense.Matrix[float64] {
	m := dense.New[float64](rows, cols)
	rng.Normals(m.Data, rng.Stream(seed))
	for i := range m.Data {
		m.Data[i] = centre + scale*m.Data[i]
	}
	return m
}

// kernelFamilies are the examples of all families that estimate a kernel, fitted to data like those of the tests.
func kernelFamilies(t testing.TB, d int) map[string]family.Family {
	t.Helper()
	out := map[string]family.Family{}
	for _, f := range cases.Estimators(t, normalRows(300, d, 0.25, 0.1, 1), normalRows(300, d, 0.3, -0.1, 2)) {
		if !f.Biased {
			out[f.Name] = f.Family
		}
	}
	return out
}

// randomSeq is a sequence of N(centre, scale²) values.
func randomSeq[T dense.Float](batch, heads, length, dim int, scale, centre float64, seed uint64) attention.Seq[T] {
	s := attention.NewSeq[T](batch, heads, length, dim)
	v := make([]float64, len(s.Data))
	rng.Normals(v, rng.Stream(seed))
	for i := range v {
		s.Data[i] = T(centre + scale*v[i])
	}
	return s
}

// oneMap is a map for attention over rows of d columns.
func oneMap[T dense.Float](t testing.TB, f family.Family, c coupling.Coupling, d, m int, seed uint64) *randfeat.Map[T] {
	t.Helper()
	mp, err := randfeat.New[T](randfeat.Spec{Kernel: kernel.Attention(d), Family: f, Coupling: c, Dim: d, M: m,
		Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return mp
}
