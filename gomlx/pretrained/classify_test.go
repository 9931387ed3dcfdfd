package pretrained

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/train"
)

// toy is texts of two kinds: one has the token 5, the other has not. Rows 2 and 3 of a batch end in padding.
type toy struct{ padding int32 }

func (s toy) Train(_ uint64, i int) train.Batch { return s.HeldOut(i) }
func (s toy) HeldOut(int) train.Batch {
	ids := []int32{1, 5, 3, 2, 1, 4, 3, 2, 1, 5, 2, s.padding, 1, 4, 2, s.padding}
	valid := make([]bool, len(ids))
	for i := range valid {
		valid[i] = i != 11 && i != 15
	}
	return train.Batch{tensors.FromFlatDataAndDimensions(ids, 4, 4),
		tensors.FromFlatDataAndDimensions([]int32{1, 0, 1, 0}, 4), tensors.FromFlatDataAndDimensions(valid, 4, 4)}
}
func (toy) Held() int  { return 1 }
func (toy) Items() int { return 4 }

// An encoder learns to tell texts apart by a token, with every kind of attention; padding changes nothing.
func TestClassifying(t *testing.T) {
	for _, features := range []bool{false, true} {
		m, err := Load("testdata/bert")
		if err != nil {
			t.Fatal(err)
		}
		if features {
			p := Plan{Spec: randfeat.Spec{Family: family.OPRF{}, M: 8, Seed: 1}}
			a, err := m.Calibrate(open(), p, [][]int32{{1, 5, 3, 2}, {1, 4, 3, 2}})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.SetAttention(a); err != nil {
				t.Fatal(err)
			}
		}
		task := Classifying{Model: m, Classes: 2}
		run := func(padding int32) []float64 {
			r, err := train.New(open(), task, train.Config{Steps: 30, Rate: 3e-2}, toy{padding})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var losses []float64
			for range 30 {
				step, err := r.Step()
				if err != nil {
					t.Fatal(err)
				}
				losses = append(losses, step.Loss)
			}
			if e, err := r.Evaluate(); err != nil || e.Accuracy != 1 {
				t.Errorf("features %t: accuracy %g, %v", features, e.Accuracy, err)
			}
			return losses
		}
		a := run(0)
		b := run(6)
		if slices.ContainsFunc(b, math.IsNaN) || math.Abs(a[0]-b[0]) > 1e-6 || math.Abs(a[29]-b[29]) > 1e-3 {
			t.Errorf("features %t: the padding changes losses %g … %g to %g … %g", features, a[0], a[29], b[0], b[29])
		}
	}
}

// Decoders and single classes are refused.
func TestClassifyingRefuses(t *testing.T) {
	m, err := Load("testdata/llama")
	if err != nil {
		t.Fatal(err)
	}
	if (Classifying{Model: m, Classes: 2}).Validate() == nil {
		t.Error("a decoder classifies")
	}
	if m, err = Load("testdata/bert"); err != nil {
		t.Fatal(err)
	}
	if (Classifying{Model: m, Classes: 1}).Validate() == nil {
		t.Error("one class")
	}
}
