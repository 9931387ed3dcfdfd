package linear_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
)

// elu is the map of Katharopoulos et al. 2020, elu(x) + 1.
func elu(d int) *randfeat.FuncMap[float64] {
	return &randfeat.FuncMap[float64]{Name: "elu+1", In: d, Out: d, NonNegative: true,
		Query: func(phi, x []float64) {
			for i, v := range x {
				if phi[i] = 1 + v; v < 0 {
					phi[i] = math.Exp(v)
				}
			}
		}}
}

// A map of one's own: linear attention with the features elu(x) + 1, causal.
func ExampleAttention_ownMap() {
	q := dense.MustFromRows([][]float64{{1, 0}, {0, 1}, {2, -1}})
	v := dense.MustFromRows([][]float64{{1}, {2}, {4}})
	out := dense.New[float64](3, 1)
	a := linear.Attention[float64]{Visibility: attention.Visibility{Causal: true},
		Maps: []randfeat.FeatureMap[float64]{elu(2)}}
	if _, err := a.Forward(attention.One(out), attention.One(q), attention.One(q), attention.One(v)); err != nil {
		panic(err)
	}
	fmt.Printf("%.3f\n", out.Data)
	// Output: [1.000 1.556 2.619]
}

// TestFuncMap: linear attention with a map of functions is its definition, with one scale for all features of a row or
// others.
func TestFuncMap(t *testing.T) {
	const d, n = 3, 7
	m := elu(d)
	x, v := dense.New[float64](n, d), dense.New[float64](n, 2)
	for i := range x.Data {
		x.Data[i] = math.Sin(float64(3 * i))
	}
	for i := range v.Data {
		v.Data[i] = math.Cos(float64(5 * i))
	}
	phi := dense.New[float64](n, d)
	if err := m.QueriesScaled(phi, nil, make([]float64, n), x, nil); err != nil {
		t.Fatal(err)
	}
	out := dense.New[float64](n, 2)
	a := linear.Attention[float64]{Maps: []randfeat.FeatureMap[float64]{m}}
	if _, err := a.Forward(attention.One(out), attention.One(x), attention.One(x), attention.One(v)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		for c := range 2 {
			sum, want := 0.0, 0.0
			for j := range n {
				w := dense.Dot(phi.Row(i), phi.Row(j))
				sum += w
				want += w * v.At(j, c)
			}
			if got := out.At(i, c); math.Abs(got-want/sum) > 1e-12 {
				t.Errorf("output %d, %d is %v, want %v", i, c, got, want/sum)
			}
		}
	}
	scaled := dense.New[float64](n, d)
	shift := make([]float64, n)
	shift[1] = 2
	if err := m.KeysScaled(scaled, []float64{0, math.Log(3), math.Inf(-1)}, shift, x, nil); err != nil {
		t.Fatal(err)
	}
	for f, factor := range []float64{1, 3, 0} {
		if got, want := scaled.At(1, f), factor*phi.At(1, f)*math.Exp(-2); math.Abs(got-want) > 1e-15 {
			t.Errorf("scaled feature %d is %v, want %v", f, got, want)
		}
	}
	if err := m.QueriesScaled(phi, nil, shift, v, nil); !errors.Is(err, dense.ErrShape) {
		t.Errorf("rows of another length: %v", err)
	}
	x.Set(2, 1, math.NaN())
	if err := m.QueriesScaled(phi, nil, shift, x, nil); err == nil {
		t.Error("a feature that is not a number is no error")
	}
}
