package centroid

import (
	"errors"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/heads"
)

// Trials have the bits of At whatever came before, and cluster once for specs that differ in exact keys alone.
func TestTrials(t *testing.T) {
	const length = 300
	q, k, v := heads.Generate[float32](2, length, 16, 3)
	mask := make([]bool, length)
	segments := make([]int32, length)
	for i := range mask {
		mask[i] = i%7 != 3
		segments[i] = int32(i / 140)
	}
	rows := []int{0, 5, 139, 140, 277, 299}
	specs := []Blocks{{Clusters: 8, Queries: 16, Keys: 2}, {Clusters: 8, Queries: 16, Keys: 20},
		{Clusters: 16, Queries: 16, Keys: 5}, {Clusters: 8, Queries: 16, Keys: 3}, {Clusters: 24, Queries: 32, Keys: 9},
		{Clusters: 24, Queries: 32, Keys: 9, Seed: 1}, {Clusters: 5, Queries: 16, Keys: 9},
		{Clusters: 8, Queries: 16, Keys: 2}, {Clusters: 500, Queries: 16, Keys: 2}}
	for _, vis := range []attention.Visibility{{}, {KeyMask: mask}, {Segments: segments}} {
		trials, err := NewTrials(vis, 0, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range specs {
			got, want := attention.NewSeq[float32](1, 2, len(rows), 16), attention.NewSeq[float32](1, 2, len(rows), 16)
			if err := trials.At(got, rows, s); err != nil {
				t.Fatal(err)
			}
			a := Attention{Visibility: vis, Specs: []Spec{s}}
			if err := a.At(want, rows, q, k, v); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Data, want.Data) {
				t.Errorf("spec %d, %+v: other bits than At", i, s)
			}
		}
		// 8, 16, 24, 24 with a seed, 5, 8 again as three others came between, 500.
		if trials.calls.made != 7 {
			t.Errorf("%d clusterings, want 7", trials.calls.made)
		}
		if err := trials.At(attention.NewSeq[float32](1, 2, 1, 16), []int{length}, specs[0]); !errors.Is(err,
			dense.ErrShape) {
			t.Errorf("a row that does not exist: %v", err)
		}
	}
	causal, err := NewTrials(attention.Visibility{Causal: true}, 0, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	if err := causal.At(attention.NewSeq[float32](1, 2, 1, 16), []int{3}, specs[0]); !errors.Is(err, ErrSpec) {
		t.Errorf("causal with bidirectional blocks: %v", err)
	}
}
