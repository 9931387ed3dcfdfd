package attention

import (
	"math"
	"testing"
)

func TestConstantIsTheRunningMean(t *testing.T) {
	v := Seq[float64]{Data: []float64{1, 3, 8, 0}, Shape: Shape{1, 1, 4, 1}, StrideB: 4, StrideH: 4, StrideL: 1}
	for _, c := range []struct {
		vis  Visibility
		want []float64
	}{
		{Visibility{}, []float64{3, 3, 3, 3}},
		{Visibility{Causal: true}, []float64{1, 2, 4, 3}},
		{Visibility{Causal: true, KeyMask: []bool{false, true, true, false}}, []float64{0, 3, 5.5, 5.5}},
		{Visibility{Causal: true, Segments: []int32{4, 4, 2, 2}}, []float64{1, 2, 8, 4}},
	} {
		got := forward(t, &Constant[float64]{Visibility: c.vis}, v, v, v)
		for i, w := range c.want {
			if got.Data[i] != w {
				t.Errorf("%+v: row %d is %v, want %v", c.vis, i, got.Data[i], w)
			}
		}
	}
}

// uniformWeights reads the weights of one head from an identity matrix of values.
func uniformWeights(t *testing.T, a *uniform[float64], heads, length int) []Seq[float64] {
	t.Helper()
	q := NewSeq[float64](1, heads, length, 1)
	v := NewSeq[float64](1, heads, length, length)
	for h := range heads {
		for j := range length {
			v.Head(0, h).Set(j, j, 1)
		}
	}
	out := forward(t, a, q, q, v)
	rows := make([]Seq[float64], heads)
	for h := range rows {
		rows[h] = One(out.Head(0, h))
	}
	return rows
}

func TestUniformWeights(t *testing.T) {
	const length = 400
	w := uniformWeights(t, &uniform[float64]{Seed: 1}, 2, length)
	other := uniformWeights(t, &uniform[float64]{Seed: 2}, 2, length)
	// Weights u/Σu with u uniform: mean of n·w is 1, and the second moment of n·w is (1/3)/(1/2)² = 4/3 up to O(1/n).
	// Over n² = 160000 weights the standard error of the second moment is √(16/5 − 16/9)/400 = 0.003; the bound is 6
	// of them and the O(1/n) bias.
	for h, s := range w {
		var second, lag, top float64
		for i := range length {
			row := s.Head(0, 0).Row(i)
			var sum float64
			for j, x := range row {
				sum += x
				top = max(top, x*length)
				second += x * x
				lag += x * row[(j+1)%length]
			}
			if math.Abs(sum-1) > 1e-13 {
				t.Fatalf("weights of row %d add up to %v", i, sum)
			}
		}
		if math.Abs(second-4./3) > 0.018+3./length {
			t.Errorf("head %d: second moment %v, want 4/3", h, second)
		}
		// Neighbours are independent: E (n w_j)(n w_{j+1}) = 1 up to O(1/n), standard error √(16/9 − 1)/400 = 0.0022.
		if math.Abs(lag-1) > 0.013+3./length {
			t.Errorf("head %d: product of neighbours %v, want 1", h, lag)
		}
		if top > 2.4 {
			t.Errorf("head %d: a weight is %v times the mean, uniform ones reach 2", h, top)
		}
		if sameBits(s, other[h]) == nil {
			t.Errorf("head %d: seeds 1 and 2 give the same weights", h)
		}
	}
	if sameBits(w[0], w[1]) == nil {
		t.Error("two heads have the same weights")
	}
	// Causal weights are the same ones, normalised over fewer keys.
	for h, s := range uniformWeights(t, &uniform[float64]{Seed: 1, Visibility: Visibility{Causal: true}}, 2, length) {
		for i := range length {
			var sum float64
			for _, x := range w[h].Head(0, 0).Row(i)[:i+1] {
				sum += x
			}
			for j, x := range s.Head(0, 0).Row(i) {
				want := w[h].Head(0, 0).At(i, j) / sum
				if j > i {
					want = 0
				}
				if math.Abs(x-want) > 1e-13 {
					t.Fatalf("head %d, row %d, column %d: causal weight %v, want %v", h, i, j, x, want)
				}
			}
		}
	}
}
