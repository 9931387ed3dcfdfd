package attention

import "testing"

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
