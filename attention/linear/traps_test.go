package linear

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// forwardLinear runs linear attention with one map.
func forwardLinear[T dense.Float](t testing.TB, a *Attention[T], q, k, v attention.Seq[T]) (attention.Seq[T],
	attention.Report) {
	t.Helper()
	out := attention.NewSeq[T](q.Batch, q.Heads, q.Len, v.Dim)
	r, err := a.Forward(out, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	return out, r
}

// apart is the largest difference of two sequences over their first n positions, relative to the largest value.
func apart[T dense.Float](a, b attention.Seq[T], n int) float64 {
	var diff, size float64
	for i := range a.Batch {
		for h := range a.Heads {
			for l := range n {
				x, y := a.Head(i, h).Row(l), b.Head(i, h).Row(l)
				for c := range x {
					diff = max(diff, math.Abs(float64(x[c])-float64(y[c])))
					size = max(size, math.Abs(float64(x[c])))
				}
			}
		}
	}
	return diff / size
}

// sums over long sequences need more than float32. Keys that are all alike make every term count the same.
func TestTrapLongSums(t *testing.T) {
	stattest.SkipRace(t)
	const d, length, m = 4, 1 << 19, 8
	k, v := attention.NewSeq[float32](1, 1, length, d), attention.NewSeq[float32](1, 1, length, 1)
	noise := randomSeq[float32](1, 1, 1024, d, 0.3, 0, 81)
	var mean float64
	for j := range length {
		copy(k.Head(0, 0).Row(j), noise.Head(0, 0).Row(j%1024))
		v.Data[j] = 1
		if j%2 == 1 { // the second half of the sequence would be lost by a sum that stops growing
			v.Data[j] = 1 + float32(j/(length/2))
		}
		mean += float64(v.Data[j]) / length
	}
	q := randomSeq[float32](1, 1, 16, d, 0.3, 0, 82)
	mp := oneMap[float32](t, family.Positive{}, nil, d, m, 1)
	a := Attention[float32]{Maps: []randfeat.FeatureMap[float32]{mp}}
	got, _ := forwardLinear(t, &a, q, k, v)
	ref, err := randfeat.NewWithOmega[float64](mp.Spec(), mp.Omega())
	if err != nil {
		t.Fatal(err)
	}
	exact := Attention[float64]{Maps: []randfeat.FeatureMap[float64]{ref}}
	want, _ := forwardLinear(t, &exact, asFloat64(q), asFloat64(k), asFloat64(v))
	var worst float64
	for i, x := range want.Data {
		worst = max(worst, math.Abs(float64(got.Data[i])/x-1))
	}
	// The same sums in one float32 each.
	phi := dense.New[float32](1024, m)
	if err := mp.Keys(phi, nil, noise.Head(0, 0), nil); err != nil {
		t.Fatal(err)
	}
	var plain float32
	var sum float64
	for j := range length {
		plain += phi.At(j%1024, 0) * v.Data[j]
		sum += float64(phi.At(j%1024, 0)) * float64(v.Data[j])
	}
	naive := math.Abs(float64(plain)/sum - 1)
	t.Logf("relative error %.1e, of one float32 sum %.1e", worst, naive)
	if worst > 2e-6 {
		t.Errorf("relative error %.1e after %d keys", worst, length)
	}
	if naive < 2e-5 {
		t.Errorf("no power: a plain float32 sum has error %.1e", naive)
	}
}

func asFloat64(s attention.Seq[float32]) attention.Seq[float64] {
	out := attention.NewSeq[float64](s.Batch, s.Heads, s.Len, s.Dim)
	for i, x := range s.Data {
		out.Data[i] = float64(x)
	}
	return out
}

// negative and zero denominators are neither clipped nor hidden. Every quotient is taken as it is, and counted.
func TestTrapTinyDenominators(t *testing.T) {
	const d, length, m, dv = 4, 64, 4, 3 // few features and large inputs: estimates of both signs
	q, k, v := randomSeq[float64](1, 1, length, d, 2.5, 0, 91), randomSeq[float64](1, 1, length, d, 2.5, 0, 92),
		randomSeq[float64](1, 1, length, dv, 1, 0, 93)
	for name, f := range map[string]family.Family{"trig": family.Trig{}, "angular": family.Angular{N: 2}} {
		mp := oneMap[float64](t, f, nil, d, m, 3)
		for _, causal := range []bool{false, true} {
			phi, psi := dense.New[float64](length, mp.OutDim()), dense.New[float64](length, mp.OutDim())
			if err := mp.Queries(phi, nil, q.Head(0, 0), nil); err != nil {
				t.Fatal(err)
			}
			if err := mp.Keys(psi, nil, k.Head(0, 0), nil); err != nil {
				t.Fatal(err)
			}
			a := &Attention[float64]{Visibility: attention.Visibility{Causal: causal},
				Maps: []randfeat.FeatureMap[float64]{mp}}
			got, report := forwardLinear(t, a, q, k, v)
			var negative int64
			for i := range length {
				keys := length
				if causal {
					keys = i + 1
				}
				var den, size float64
				num := make([]float64, dv)
				for j := range keys {
					w := dense.Dot(phi.Row(i), psi.Row(j))
					den += w
					for f, x := range phi.Row(i) {
						size += math.Abs(x * psi.At(j, f)) // bases of a hybrid cancel inside of a weight
					}
					for c, x := range v.Head(0, 0).Row(j) {
						num[c] += w * x
					}
				}
				if den < 0 {
					negative++
				}
				for c, x := range got.Head(0, 0).Row(i) {
					if want := num[c] / den; math.Abs(x-want) > 1e-9*size/math.Abs(den)*(1+math.Abs(want)) {
						t.Errorf("%s, causal = %v: output %d,%d is %v, want the quotient %v as it is", name, causal, i,
							c, x, want)
					}
				}
			}
			if report.Negative != negative || report.Zero != 0 || report.Empty != 0 || report.Rows != length {
				t.Errorf("%s, causal = %v: %+v, want %d negative of %d", name, causal, report, negative, length)
			}
			if negative == 0 {
				t.Errorf("%s, causal = %v: no power: no negative denominator", name, causal)
			}
		}
	}
	// Residual features with nothing random are (1, x): the denominator of q = -k is 1 - |k|² = 0 exactly.
	mp, err := randfeat.New[float64](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax},
		Family: family.Residual{Shrink: 1}, Dim: 1, M: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := &Attention[float64]{Maps: []randfeat.FeatureMap[float64]{mp}}
	one := func(x float64) attention.Seq[float64] { return attention.One(dense.MustFromRows([][]float64{{x}})) }
	got, report := forwardLinear(t, a, one(-1), one(1), one(5))
	if got.Data[0] != 0 || report != (attention.Report{Rows: 1, Zero: 1}) {
		t.Errorf("a zero denominator gives %v and %+v, want 0, counted", got.Data[0], report)
	}
	a.KeyMask = []bool{false}
	got, report = forwardLinear(t, a, one(-1), one(1), one(5))
	if got.Data[0] != 0 || report != (attention.Report{Rows: 1, Empty: 1}) {
		t.Errorf("no key gives %v and %+v, want 0, counted", got.Data[0], report)
	}
}
