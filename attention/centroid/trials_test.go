package centroid

import (
	"errors"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// Trials have the bits of At whatever came before, and cluster once for specs that differ in exact keys alone.
func TestTrials(t *testing.T) {
	const length = 300
	q, k, v := speech(3, 2, length, 16)
	mask := make([]bool, length)
	segments := make([]int32, length)
	for i := range mask {
		mask[i] = i%7 != 3
		segments[i] = int32(i / 140)
	}
	rows := []int{0, 5, 139, 140, 277, 299}
	specs := []Spec{{Clusters: 8}, {Clusters: 8, Top: 2}, {Clusters: 8, Top: 3, Window: 4, Block: 8},
		{Clusters: 16, Sinks: 2, Top: 1}, {Clusters: 8, Window: 3}, {Clusters: 24}, {Clusters: 24, Seed: 1},
		{Window: 5}, {Clusters: 8, Top: 1}, {Clusters: 500, Top: 2}}
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
			a := Attention[float32]{Visibility: vis, Specs: []Spec{s}}
			if err := a.At(want, rows, q, k, v); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Data, want.Data) {
				t.Errorf("spec %d, %+v: other bits than At", i, s)
			}
		}
		// 8, 16, 24, 24 with a seed, none, 8 again as three others came between, 500.
		if trials.fits != 7 {
			t.Errorf("%d clusterings, want 7", trials.fits)
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
		t.Errorf("causal without chunks: %v", err)
	}
}

// Rows without a vote get the clusters that the others of their block choose; where all vote, or nobody is said to, the
// trial is At.
func TestVoters(t *testing.T) {
	const length = 300
	q, k, v := speech(3, 2, length, 16)
	rows := []int{3, 70, 130, 131, 260}
	for _, c := range []struct {
		causal bool
		spec   Spec
	}{{false, Spec{Clusters: 24, Keys: 30, Together: 32}},
		{true, Spec{Clusters: 8, Top: 3, Together: 32, Chunk: 32, Window: 8, Sinks: 1}}} {
		vis := attention.Visibility{Causal: c.causal}
		at := func(voters []bool) []float32 {
			trials, err := NewTrials(vis, 0, q, k, v)
			if err != nil {
				t.Fatal(err)
			}
			trials.Voters = voters
			out := attention.NewSeq[float32](1, 2, len(rows), 16)
			if err := trials.At(out, rows, c.spec); err != nil {
				t.Fatal(err)
			}
			return out.Data
		}
		all := at(nil)
		same := make([]bool, length)
		for i := range same {
			same[i] = true
		}
		if !slices.Equal(all, at(same)) {
			t.Errorf("causal %t: other bits where all vote", c.causal)
		}
		few := make([]bool, length)
		for i := range few {
			few[i] = i%8 == 5
		}
		if slices.Equal(all, at(few)) {
			t.Errorf("causal %t: votes of some rows are those of all", c.causal)
		}
		trials, err := NewTrials(vis, 0, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		trials.Voters = few[1:]
		if err := trials.At(attention.NewSeq[float32](1, 2, 1, 16), rows[:1], c.spec); !errors.Is(err, dense.ErrShape) {
			t.Errorf("one voter too few: %v", err)
		}
	}
	// Causal rows of a block without far chunks are exact, whoever votes; with far ones a single voter decides. The
	// block of row 260 has the voter 261 alone, which is asked for too: both orders of asking give the same bits.
	spec := Spec{Clusters: 8, Top: 3, Together: 32, Chunk: 32, Window: 8, Sinks: 1}
	trials, err := NewTrials(attention.Visibility{Causal: true}, 0, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	trials.Voters = make([]bool, length)
	trials.Voters[261] = true
	both, one := attention.NewSeq[float32](1, 2, 2, 16), attention.NewSeq[float32](1, 2, 1, 16)
	if err := trials.At(both, []int{260, 261}, spec); err != nil {
		t.Fatal(err)
	}
	if err := trials.At(one, []int{260}, spec); err != nil {
		t.Fatal(err)
	}
	for h := range 2 {
		if !slices.Equal(both.Head(0, h).Row(0), one.Head(0, h).Row(0)) {
			t.Errorf("head %d: row 260 depends on who is asked for, not on who votes", h)
		}
	}
}
