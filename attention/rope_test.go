package attention

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

var ropes = map[string]RoPE[float64]{
	"halves":      {},
	"interleaved": {Interleaved: true},
	"partial":     {Dim: 6, Base: 500},
	"both":        {Dim: 4, Base: 1e6, Interleaved: true},
}

func rotated(t *testing.T, r RoPE[float64], x Seq[float64], offset int) Seq[float64] {
	t.Helper()
	y := blhd(x)
	if err := r.Apply(y, offset); err != nil {
		t.Fatal(err)
	}
	return y
}

func TestRoPEDependsOnTheDistance(t *testing.T) {
	// The same query and key at all positions: their products are constant along diagonals.
	const length = 30
	q, k := gaussianSeq[float64](1, 1, 1, 1, 10), gaussianSeq[float64](2, 1, 1, 1, 10)
	repeat := func(s Seq[float64]) Seq[float64] {
		r := NewSeq[float64](1, 1, length, s.Dim)
		for l := range length {
			copy(r.Head(0, 0).Row(l), s.Data)
		}
		return r
	}
	for name, r := range ropes {
		x, y := rotated(t, r, repeat(q), 0).Head(0, 0), rotated(t, r, repeat(k), 0).Head(0, 0)
		changes := false
		for i := range length {
			for j := range length {
				want := dense.Dot(x.Row(max(i-j, 0)), y.Row(max(j-i, 0)))
				if got := dense.Dot(x.Row(i), y.Row(j)); math.Abs(got-want) > 1e-12 {
					t.Fatalf("%s: product of positions %d and %d is %v, at the start %v", name, i, j, got, want)
				}
				changes = changes || math.Abs(want-dense.Dot(q.Data, k.Data)) > 0.01
			}
		}
		if !changes {
			t.Errorf("%s: products do not depend on the positions", name)
		}
	}
}

func TestRoPEOffset(t *testing.T) {
	x := gaussianSeq[float64](1, 2, 3, 40, 10)
	for name, r := range ropes {
		all, tail := rotated(t, r, x, 5), NewSeq[float64](2, 3, 15, 10)
		for b := range 2 {
			for h := range 3 {
				copy(tail.Head(b, h).Data, x.Head(b, h).RowRange(25, 40).Data)
			}
		}
		tail = rotated(t, r, tail, 30)
		for b := range 2 {
			if err := sameBits(slice(tail, b, 0, 15), slice(all, b, 25, 40)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestRoPEInverse(t *testing.T) {
	x, g := gaussianSeq[float64](1, 2, 3, 40, 10), gaussianSeq[float64](2, 2, 3, 40, 10)
	for name, r := range ropes {
		y := rotated(t, r, x, 1000)
		back := blhd(y)
		pulled := blhd(g)
		if err := errors.Join(r.Inverse(back, 1000), r.Inverse(pulled, 1000)); err != nil {
			t.Fatal(err)
		}
		if e := maxDiff(t, back, x); e > 1e-14 {
			t.Errorf("%s: inverse is off by %.2g", name, e)
		}
		// ⟨g, R x⟩ = ⟨Rᵀ g, x⟩: the inverse is the gradient.
		left, right := dense.Dot(blhd(g).Data, y.Data), dense.Dot(pulled.Data, blhd(x).Data)
		if math.Abs(left-right) > 1e-12*math.Abs(left) {
			t.Errorf("%s: ⟨g, Rx⟩ = %v, ⟨Rᵀg, x⟩ = %v", name, left, right)
		}
	}
}

func TestRoPEColumns(t *testing.T) {
	// At position 1 the first pair turns by one radian; columns from Dim on stay.
	x := NewSeq[float64](1, 1, 1, 6)
	for c := range x.Data {
		x.Data[c] = float64(c + 1)
	}
	s, c := math.Sincos(1)
	for _, k := range []struct {
		r     RoPE[float64]
		other int
	}{{RoPE[float64]{Dim: 4}, 2}, {RoPE[float64]{Dim: 4, Interleaved: true}, 1}} {
		y := rotated(t, k.r, x, 1)
		u, v := x.Data[0], x.Data[k.other]
		if y.Data[0] != u*c-v*s || y.Data[k.other] != u*s+v*c {
			t.Errorf("%+v: pair (%v, %v) became (%v, %v)", k.r, u, v, y.Data[0], y.Data[k.other])
		}
		if y.Data[4] != 5 || y.Data[5] != 6 {
			t.Errorf("%+v: columns beyond Dim became %v", k.r, y.Data[4:])
		}
	}
}

func TestRoPEFarPositions(t *testing.T) {
	// Angles of position 10⁶ against 200-bit arithmetic: base^(−c/n) rounds to 1e-16, so the angle to 1e-10.
	const at, n = 1_000_000, 8
	x := NewSeq[float64](1, 1, 1, 2*n)
	for c := range n {
		x.Data[c] = 1
	}
	y := rotated(t, RoPE[float64]{Base: 256}, x, at) // frequencies 2^−c: exact
	twoPi, _, _ := big.ParseFloat("6.283185307179586476925286766559005768394338798750211641949889", 10, 200,
		big.ToNearestEven)
	for c := range n {
		angle := new(big.Float).SetPrec(200).SetFloat64(at * math.Pow(2, -float64(c)))
		turns, _ := new(big.Float).Quo(angle, twoPi).Int(nil)
		angle.Sub(angle, new(big.Float).SetPrec(200).Mul(twoPi, new(big.Float).SetInt(turns)))
		a, _ := angle.Float64()
		if e := math.Hypot(y.Data[c]-math.Cos(a), y.Data[n+c]-math.Sin(a)); e > 2e-10 {
			t.Errorf("pair %d is off by %.2g", c, e)
		}
	}
	// float32 data get the same angles.
	z := Seq[float32]{Data: make([]float32, 2*n), Shape: Shape{1, 1, 1, 2 * n}, StrideB: 2 * n, StrideH: 2 * n,
		StrideL: 2 * n}
	for c := range n {
		z.Data[c] = 1
	}
	if err := (RoPE[float32]{Base: 256}).Apply(z, at); err != nil {
		t.Fatal(err)
	}
	for c, v := range z.Data {
		if v != float32(y.Data[c]) {
			t.Errorf("column %d in float32 is %v, want %v", c, v, y.Data[c])
		}
	}
}

func TestRoPEErrors(t *testing.T) {
	x := NewSeq[float64](1, 1, 2, 5)
	for _, r := range []RoPE[float64]{{}, {Dim: 3}, {Dim: 6}, {Dim: -2}} {
		if err := r.Apply(x, 0); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%+v on 5 columns: error %v", r, err)
		}
	}
	for _, base := range []float64{-1, math.NaN(), math.Inf(1)} {
		if err := (RoPE[float64]{Dim: 4, Base: base}).Apply(x, 0); err == nil {
			t.Errorf("base %v: no error", base)
		}
	}
}
