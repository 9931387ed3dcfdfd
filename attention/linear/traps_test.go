package linear

import (
	"math"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
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

// Trap 3: a stabiliser may be shared by all keys, or move between the sides of a feature. A maximum per key changes the
// result, one over the sequence leaks the future.
func TestTrapStabiliserOverTheWrongAxes(t *testing.T) {
	const d, length, dv = 8, 300, 4
	q, k, v := randomSeq[float32](1, 1, length, d, 1, 0, 51), randomSeq[float32](1, 1, length, d, 1, 0, 52),
		randomSeq[float32](1, 1, length, dv, 1, 0, 53)
	mp := oneMap[float32](t, family.Positive{}, nil, d, 64, 1)
	a := &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{mp}}
	out, _ := forwardLinear(t, a, q, k, v)
	// The definition, in float64, right and with a maximum per key taken out.
	ref, err := randfeat.NewWithOmega[float64](mp.Spec(), mp.Omega())
	if err != nil {
		t.Fatal(err)
	}
	phi, psi := dense.New[float64](length, 64), dense.New[float64](length, 64)
	scale := make([]float64, length) // of a key: its largest feature, in logarithms
	if err := ref.Queries(phi, make([]float64, length), dense.Convert[float64](q.Head(0, 0)), nil); err != nil {
		t.Fatal(err)
	}
	if err := ref.Keys(psi, scale, dense.Convert[float64](k.Head(0, 0)), nil); err != nil {
		t.Fatal(err)
	}
	define := func(keep float64) attention.Seq[float32] {
		s := attention.NewSeq[float32](1, 1, length, dv)
		for i := range length {
			var den float64
			num := make([]float64, dv)
			for j := range length {
				w := dense.Dot(phi.Row(i), psi.Row(j)) * math.Exp(keep*scale[j])
				den += w
				for c, x := range v.Head(0, 0).Row(j) {
					num[c] += w * float64(x)
				}
			}
			for c, x := range num {
				s.Head(0, 0).Row(i)[c] = float32(x / den)
			}
		}
		return s
	}
	if e := apart(define(1), out, length); e > 1e-5 {
		t.Errorf("relative difference to the definition %.1g", e)
	}
	if e := apart(define(0), out, length); e < 1e-2 {
		t.Errorf("no power: a maximum per key changes outputs by %.1g only", e)
	}
	// Causal: the past is the same whatever comes later, even keys that dwarf it.
	a.Causal = true
	past, _ := forwardLinear(t, a, q, k, v)
	huge := attention.NewSeq[float32](1, 1, length, d)
	copy(huge.Data, k.Data)
	const from = 200 // inside of a chunk
	for i := from * d; i < length*d; i++ {
		huge.Data[i] *= 1000
	}
	got, _ := forwardLinear(t, a, q, huge, v)
	if e := apart(past, got, from); e > 1e-6 {
		t.Errorf("keys 1000 times larger from position %d on change earlier outputs by %.1g", from, e)
	}
	if e := apart(past, got, 128); e != 0 {
		t.Errorf("and those of earlier chunks by %.1g", e)
	}
}

// Trap 4: padding masked in the values only is still counted by the denominator.
func TestTrapPaddingMaskedOnlyInV(t *testing.T) {
	const d, length, dv, pad = 8, 70, 4, 20
	q, k, v := randomSeq[float32](2, 2, length, d, 1, 0, 61), randomSeq[float32](2, 2, length, d, 1, 0, 62),
		randomSeq[float32](2, 2, length, dv, 1, 0, 63)
	short := func(s attention.Seq[float32]) attention.Seq[float32] {
		s.Len = length - pad
		return s
	}
	mask := make([]bool, 2*length)
	for i := range mask {
		mask[i] = i%length < length-pad
	}
	zeroed := attention.NewSeq[float32](2, 2, length, dv)
	for b := range 2 {
		for h := range 2 {
			for l := range length - pad {
				copy(zeroed.Head(b, h).Row(l), v.Head(b, h).Row(l))
			}
		}
	}
	for name, f := range kernelFamilies(t, d) {
		mp := oneMap[float32](t, f, nil, d, 32, 1)
		for _, causal := range []bool{false, true} {
			a := &Attention[float32]{Visibility: attention.Visibility{Causal: causal},
				Maps: []randfeat.FeatureMap[float32]{mp}}
			want, _ := forwardLinear(t, a, short(q), short(k), short(v))
			wrong, _ := forwardLinear(t, a, q, k, zeroed)
			a.KeyMask = mask
			got, _ := forwardLinear(t, a, q, k, v)
			if e := apart(want, got, length-pad); !(e < 2e-4) { // signed families divide by small denominators
				t.Errorf("%s, causal = %v: masked and truncated keys differ by %.1g", name, causal, e)
			}
			if e := apart(want, wrong, length-pad); !causal && !(e > 1e-2) {
				t.Errorf("%s: no power: keys masked in the values only change outputs by %.1g", name, e)
			}
		}
	}
}

// Trap 5: causal attention must not hold the prefix sums of every position, L×m×d numbers.
func TestTrapCausalMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("memory does not depend on the kernels: run without -short")
	}
	const d, m, length = 64, 256, 8192
	q, k, v := randomSeq[float32](1, 1, length, d, 1, 0, 71), randomSeq[float32](1, 1, length, d, 1, 0, 72),
		randomSeq[float32](1, 1, length, d, 1, 0, 73)
	out := attention.NewSeq[float32](1, 1, length, d)
	for name, f := range map[string]family.Family{"positive": family.Positive{}, "trig": family.Trig{}} {
		mp := oneMap[float32](t, f, nil, d, m, 1)
		for _, window := range []int{0, 64} {
			used := func(length int) int64 {
				a := Attention[float32]{Visibility: attention.Visibility{Causal: true},
					Maps:   []randfeat.FeatureMap[float32]{mp},
					Window: window}
				short := func(s attention.Seq[float32]) attention.Seq[float32] {
					s.Len = length
					return s
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, err := a.Forward(short(out), short(q), short(k), short(v)); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				return int64(after.TotalAlloc - before.TotalAlloc)
			}
			long, short := used(length), used(length/2)
			t.Logf("%s, window %d: %d KiB at %d keys, %d KiB at %d; L×m×d would be %d KiB", name, window, long>>10,
				length, short>>10, length/2, length*m*d*4>>10)
			// The sums of segments under way in parallel are all that grows: one per worker.
			if limit := int64(8<<20) * int64(runtime.GOMAXPROCS(0)); long > limit {
				t.Errorf("%s, window %d: %d bytes allocated, limit %d", name, window, long, limit)
			}
		}
	}
}

// Trap 7: sums over long sequences need more than float32. Keys that are all alike make every term count the same.
func TestTrapLongSums(t *testing.T) {
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

// Trap 8: negative and zero denominators are neither clipped nor hidden. Every quotient is taken as it is, and counted.
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
