package rfx_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/internal/stattest/cases"
	"github.com/randfeat/randfeat/kernel"
)

const dim = 8

func spec(f family.Family, m int, seed uint64) randfeat.Spec {
	return randfeat.Spec{Kernel: kernel.Attention(dim), Family: f, Coupling: coupling.IID{}, Dim: dim, M: m, Seed: seed}
}

// families are all registered ones, fitted where they can be. Columns of kernels have no graph: NewMap must refuse
// them.
func families(t testing.TB) []cases.Family {
	x, y := cases.Rows(300, dim, 0.1, 0.5, 1), cases.Rows(300, dim, -0.1, 0.6, 2)
	return slices.DeleteFunc(cases.Families(t, x, y), func(f cases.Family) bool {
		if f.Family.Name() != "nystrom" && f.Name != "landmarks-several" {
			return false
		}
		if _, err := rfx.NewMap(spec(f.Family, 8, 1)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s is not refused: %v", f.Name, err)
		}
		return true
	})
}

func newMap(t testing.TB, specs ...randfeat.Spec) *rfx.Map {
	t.Helper()
	m, err := rfx.NewMap(specs...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func onHost[T dense.Float](t testing.TB, see attention.Visibility, specs ...randfeat.Spec) *linear.Attention[T] {
	t.Helper()
	maps, err := linear.NewMaps[T](specs)
	if err != nil {
		t.Fatal(err)
	}
	return &linear.Attention[T]{Maps: maps, Visibility: see}
}

// Features of every family equal those of the library.
func TestFeaturesEqualTheLibrary(t *testing.T) {
	x := sequence[float64](1, 1, 20, dim, 0.5, 0.1, 3)
	for _, f := range families(t) {
		t.Run(f.Name, func(t *testing.T) {
			s := spec(f.Family, 12, 5)
			m := newMap(t, s)
			core, err := randfeat.New[float64](s)
			if err != nil {
				t.Fatal(err)
			}
			want := dense.New[float64](20, core.OutDim())
			got := run(t, func(in []*graph.Node) []*graph.Node {
				return []*graph.Node{m.Queries(in[0]).Plain(), m.Keys(in[0]).Plain()}
			}, x)
			for i := range 2 {
				fill := core.Queries
				if i == 1 {
					fill = core.Keys
				}
				if err := fill(want, nil, x.Head(0, 0), nil); err != nil {
					t.Fatal(err)
				}
				if d := differ(got[i], want.Data); d > 1e-12 {
					t.Errorf("side %d differs by %.1e", i, d)
				}
			}
		})
	}
}

// Outputs and gradients of every family, both directions, with padding, grouped heads and a map per head, equal those
// of package attention.
func TestAttentionEqualsTheLibrary(t *testing.T) {
	const batch, heads, kvHeads, length = 2, 4, 2, 75
	q := sequence[float64](batch, heads, length, dim, 0.6, 0.1, 11)
	k := sequence[float64](batch, kvHeads, length, dim, 0.6, -0.1, 12)
	v := sequence[float64](batch, kvHeads, length, 5, 1, 0, 13)
	dout := sequence[float64](batch, heads, length, 5, 1, 0, 14)
	mask := make([]bool, batch*length)
	nested := make([][]bool, batch)
	for i := range mask {
		mask[i] = i%length != 9 && i%length < 70-i/length*20
		nested[i/length] = append(nested[i/length], mask[i])
	}
	for _, f := range families(t) {
		for _, causal := range []bool{false, true} {
			name := f.Name
			if causal {
				name += "/causal"
			}
			t.Run(name, func(t *testing.T) {
				specs := linear.HeadSpecs(spec(f.Family, 8, 7), kvHeads)
				a := rfx.Attention{Map: newMap(t, specs...), Causal: causal, Chunk: 32}
				got := call[float64](t, func(in []*graph.Node) []*graph.Node {
					out := a.Forward(in[0], in[1], in[2], rfx.Visible{Mask: in[4]})
					loss := graph.ReduceAllSum(graph.Mul(out, in[3]))
					return append([]*graph.Node{out}, graph.Gradient(loss, in[0], in[1], in[2])...)
				}, tensor(q), tensor(k), tensor(v), tensor(dout), nested)

				core := onHost[float64](t, attention.Visibility{Causal: causal, KeyMask: mask}, specs...)
				for i, want := range library(t, core, q, k, v, dout) {
					if d := differ(got[i], want); d > 1e-8 {
						t.Errorf("result %d (output, dq, dk, dv) differs by %.1e", i, d)
					}
				}
			})
		}
	}
}
