package linear

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
)

func linear[T dense.Float](t testing.TB, f family.Family, d, m int, causal bool) *Attention[T] {
	return &Attention[T]{Visibility: attention.Visibility{Causal: causal}, Maps: []randfeat.FeatureMap[T]{testMap[T](t,
		f, d, m)}}
}

// Queries and keys of norm up to 10³ in float32: no overflow, no NaN, and for positive maps every output is a convex
// combination of values.
func TestLinearLargeNorms(t *testing.T) {
	stattest.SkipRace(t)
	const d, m, dv, length = 8, 32, 3, 300
	for name, f := range linearFamilies(t, d) {
		for _, causal := range []bool{false, true} {
			for _, window := range []int{0, 20} {
				for _, norm := range []float64{30, 1000} {
					q, k, v := normals[float32](1, 1, length, d, 1, 1), normals[float32](1, 1, length, d, 1, 2),
						normals[float32](1, 1, length, dv, 1, 3)
					for i := range length {
						for _, s := range []attention.Seq[float32]{q, k} {
							row := s.Head(0, 0).Row(i)
							c := norm / math.Sqrt(float64(dense.Norm2(row)))
							if i%3 == 1 {
								c /= 500 // mixed with short ones
							}
							for l := range row {
								row[l] *= float32(c)
							}
						}
					}
					a := linear[float32](t, f, d, m, causal)
					a.Window = window
					out := attention.NewSeq[float32](1, 1, length, dv)
					report, err := a.Forward(out, q, k, v)
					label := fmt.Sprintf("%s, causal %t, window %d, norm %g", name, causal, window, norm)
					if err != nil {
						t.Errorf("%s: %v", label, err)
						continue
					}
					lo, hi := slices.Min(v.Data), slices.Max(v.Data)
					for i, x := range out.Data {
						if !dense.IsFinite(float64(x)) || a.Maps[0].Positive() && (x < lo-1e-4 || x > hi+1e-4) {
							t.Errorf("%s: row %d is %v, values are in [%v, %v]", label, i/dv, x, lo, hi)
							break
						}
					}
					if zero := report.Zero + report.Negative + report.Empty; !a.Maps[0].Signed() &&
						name != "zero-one" && zero > 0 {
						t.Errorf("%s: %+v", label, report)
					}
				}
			}
		}
	}
}

// With float64 as the judge, norms of 30 lose only what rounding of the exponents explains.
func TestLinearLargeNormsAccurate(t *testing.T) {
	const d, m, dv, length = 8, 32, 3, 200
	q, k, v := normals[float32](1, 1, length, d, 10, 1), normals[float32](1, 1, length, d, 10, 2),
		normals[float32](1, 1, length, dv, 1, 3)
	for _, causal := range []bool{false, true} {
		out, want := attention.NewSeq[float32](1, 1, length, dv), attention.NewSeq[float64](1, 1, length, dv)
		_, err := linear[float32](t, family.Positive{}, d, m, causal).Forward(out, q, k, v)
		_, err64 := linear[float64](t, family.Positive{}, d, m, causal).Forward(want, widened(q), widened(k),
			widened(v))
		must(t, err, err64)
		// Exponents of size 100 have roundings of 4e-6; a handful of them add up in a product.
		if d := differ(t, out.Head(0, 0), want.Head(0, 0), make([]float64, length)); !(d <= 1e-3) {
			t.Errorf("causal %t: off by %.2g", causal, d)
		}
	}
}

// The future does not change the past: not even by a key 10³ times larger in the same chunk.
func TestLinearCausality(t *testing.T) {
	stattest.SkipRace(t)
	const d, m, dv, length, at = 8, 32, 3, 300, 201
	for name, f := range linearFamilies(t, d) {
		for _, window := range []int{0, 20} {
			a := linear[float32](t, f, d, m, true)
			a.Window = window
			q, k, v := normals[float32](1, 1, length, d, 1, 1), normals[float32](1, 1, length, d, 1, 2),
				normals[float32](1, 1, length, dv, 1, 3)
			before, after := attention.NewSeq[float32](1, 1, length, dv), attention.NewSeq[float32](1, 1, length, dv)
			_, err := a.Forward(before, q, k, v)
			must(t, err)
			for i := at; i < length; i++ {
				for c := range d {
					q.Head(0, 0).Row(i)[c] *= -1
					k.Head(0, 0).Row(i)[c] *= 1000
				}
				for c := range dv {
					v.Head(0, 0).Row(i)[c] -= 1000
				}
			}
			_, err = a.Forward(after, q, k, v)
			must(t, err)
			// Bit for bit in all earlier chunks; those of a window's features stand back by the window.
			for i := range min(at/causalRows*causalRows, (at-window)/causalRows*causalRows+window) {
				if !slices.Equal(before.Head(0, 0).Row(i), after.Head(0, 0).Row(i)) {
					t.Errorf("%s, window %d: row %d of an earlier chunk changed", name, window, i)
					break
				}
			}
			if d := relative(after.Head(0, 0).RowRange(0, at), before.Head(0, 0).RowRange(0, at)); !(d <= 1e-6) {
				t.Errorf("%s, window %d: the past changed by %.2g", name, window, d)
			}
		}
	}
}

// Padding equals truncation, even if the padding is not finite. Keys that were masked in the values alone would still
// count in the denominators.
func TestLinearPadding(t *testing.T) {
	const d, m, dv, length = 8, 32, 3, 150
	q, k, v := normals[float64](1, 2, length, d, 1, 1), normals[float64](1, 2, length, d, 1, 2),
		normals[float64](1, 2, length, dv, 1, 3)
	forward := func(a *Attention[float64], q, k, v attention.Seq[float64]) attention.Seq[float64] {
		t.Helper()
		out := attention.NewSeq[float64](q.Batch, q.Heads, q.Len, v.Dim)
		_, err := a.Forward(out, q, k, v)
		must(t, err)
		return out
	}
	same := func(name string, got, want attention.Seq[float64], tol float64) {
		t.Helper()
		for h := range want.Heads {
			if d := relative(got.Head(0, h), want.Head(0, h)); !(d <= tol) {
				t.Errorf("%s: off by %.2g", name, d)
			}
		}
	}
	for name, f := range linearFamilies(t, d) {
		a := linear[float64](t, f, d, m, false)
		if !a.Maps[0].Positive() {
			continue // the same code; denominators near zero would only amplify rounding
		}
		const cut = 90
		short := func(s attention.Seq[float64]) attention.Seq[float64] { s.Len = cut; return s }
		bad := normals[float64](1, 2, length, d, 1, 2)
		mask := make([]bool, length)
		for j := range length {
			mask[j] = j < cut
			if !mask[j] {
				bad.Head(0, 1).Row(j)[0] = math.NaN()
			}
		}
		for _, causal := range []bool{false, true} {
			for _, window := range []int{0, 10} {
				padded := &Attention[float64]{Visibility: attention.Visibility{Causal: causal, KeyMask: mask},
					Maps:   a.Maps,
					Window: window}
				truncated := &Attention[float64]{Visibility: attention.Visibility{Causal: causal}, Maps: a.Maps,
					Window: window}
				got := short(forward(padded, q, bad, v))
				ref := forward(truncated, short(q), short(k), short(v))
				same(fmt.Sprintf("%s, padded, causal %t, window %d", name, causal, window), got, ref, 1e-12)
			}
		}
	}
}

// Packed sequences equal separate ones.
func TestLinearPacked(t *testing.T) {
	const d, m, dv, length = 6, 16, 3, 90
	q, k, v := normals[float64](1, 1, length, d, 1, 1), normals[float64](1, 1, length, d, 1, 2),
		normals[float64](1, 1, length, dv, 1, 3)
	ends := []int{0, 1, 40, 90}
	ids := make([]int32, length)
	for s := range len(ends) - 1 {
		for i := ends[s]; i < ends[s+1]; i++ {
			ids[i] = int32(10 - s)
		}
	}
	for _, causal := range []bool{false, true} {
		for _, window := range []int{0, 7} {
			a := linear[float64](t, family.OPRF{A: -0.1}, d, m, causal)
			a.Window, a.Segments = window, ids
			out := attention.NewSeq[float64](1, 1, length, dv)
			_, err := a.Forward(out, q, k, v)
			must(t, err)
			b := linear[float64](t, family.OPRF{A: -0.1}, d, m, causal)
			b.Window = window
			for s := range len(ends) - 1 {
				lo, hi := ends[s], ends[s+1]
				want := dense.New[float64](hi-lo, dv)
				_, err := b.Forward(attention.One(want), attention.One(q.Head(0, 0).RowRange(lo, hi)),
					attention.One(k.Head(0, 0).RowRange(lo, hi)),
					attention.One(v.Head(0, 0).RowRange(lo, hi)))
				must(t, err)
				if !slices.Equal(out.Head(0, 0).RowRange(lo, hi).Clone().Data, want.Data) {
					t.Errorf("causal %t, window %d, sequence %d: other bits than alone", causal, window, s)
				}
			}
		}
	}
}

// No key visible: zeros, counted.
func TestLinearEmpty(t *testing.T) {
	const d, m, dv, length = 6, 16, 3, 20
	q, v := normals[float32](2, 1, length, d, 1, 1), normals[float32](2, 1, length, dv, 1, 3)
	for _, causal := range []bool{false, true} {
		for _, window := range []int{0, 5} {
			a := linear[float32](t, family.Positive{}, d, m, causal)
			a.Window = window
			a.KeyMask = make([]bool, 2*length)
			for j := range length {
				a.KeyMask[length+j] = true
			}
			out := normals[float32](2, 1, length, dv, 1, 4)
			report, err := a.Forward(out, q, q, v)
			must(t, err)
			if report.Empty != length || report.Rows != 2*length {
				t.Errorf("causal %t, window %d: %+v", causal, window, report)
			}
			if slices.ContainsFunc(out.Head(0, 0).Data, func(x float32) bool { return x != 0 }) {
				t.Errorf("causal %t, window %d: a row without keys is not zero", causal, window)
			}
			if slices.Contains(out.Head(1, 0).Data, 0) {
				t.Errorf("causal %t, window %d: a row with keys has a zero", causal, window)
			}
		}
	}
}

// Wrong numbers are named by sequence, batch, head, position and column.
func TestLinearNotFinite(t *testing.T) {
	const d, dv, length = 4, 3, 300
	for _, causal := range []bool{false, true} {
		for _, window := range []int{0, 9} {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				for _, name := range []string{"q", "k", "v"} {
					q, k, v := normals[float32](2, 2, length, d, 1, 1), normals[float32](2, 1, length, d, 1, 2),
						normals[float32](2, 1, length, dv, 1, 3)
					s, want := map[string]attention.Seq[float32]{"q": q, "k": k, "v": v}[name],
						name+": batch 1, head 0, position 150, column 2 is"
					s.Head(1, 0).Row(150)[2] = float32(bad)
					a := linear[float32](t, family.Positive{}, d, 8, causal)
					a.Window = window
					_, err := a.Forward(attention.NewSeq[float32](2, 2, length, dv), q, k, v)
					if !errors.Is(err, dense.ErrNotFinite) || !strings.Contains(err.Error(), want) {
						t.Errorf("causal %t, window %d: %v, want %q", causal, window, err, want)
					}
				}
			}
		}
	}
	// After an error the same value works again.
	a := linear[float32](t, family.Positive{}, d, 8, true)
	q, v := normals[float32](1, 1, 10, d, 1, 1), normals[float32](1, 1, 10, dv, 1, 3)
	q.Data[3] = float32(math.NaN())
	if _, err := a.Forward(attention.NewSeq[float32](1, 1, 10, dv), q, q, v); err == nil {
		t.Error("no error")
	}
	q.Data[3] = 1
	if r, err := a.Forward(attention.NewSeq[float32](1, 1, 10, dv), q, q, v); err != nil || r.Rows != 10 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLinearErrors(t *testing.T) {
	seq := attention.NewSeq[float32]
	m := testMap[float32](t, family.Positive{}, 4, 8)
	for name, c := range map[string]struct {
		a            *Attention[float32]
		out, q, k, v attention.Seq[float32]
		want         error
	}{
		"no map": {&Attention[float32]{}, seq(1, 2, 3, 5), seq(1, 2, 3, 4), seq(1, 2, 3, 4), seq(1, 2, 3, 5),
			dense.ErrShape},
		"nil map": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{nil}}, seq(1, 2, 3, 5), seq(1, 2, 3, 4),
			seq(1, 2, 3, 4), seq(1, 2, 3, 5), randfeat.ErrSpec},
		"three maps": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m, m, m}}, seq(1, 2, 3, 5),
			seq(1, 2, 3, 4), seq(1, 2, 3, 4), seq(1, 2, 3, 5), dense.ErrShape},
		"dim": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}, seq(1, 2, 3, 5), seq(1, 2, 3, 3),
			seq(1, 2, 3, 3), seq(1, 2, 3, 5), dense.ErrShape},
		"heads": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}, seq(1, 3, 3, 5), seq(1, 3, 3, 4),
			seq(1, 2, 3, 4), seq(1, 2, 3, 5), dense.ErrShape},
		"out": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}, seq(1, 2, 3, 4), seq(1, 2, 3, 4),
			seq(1, 2, 3, 4), seq(1, 2, 3, 5), dense.ErrShape},
		"values": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}, seq(1, 2, 3, 5), seq(1, 2, 3, 4),
			seq(1, 2, 3, 4), seq(1, 2, 2, 5), dense.ErrShape},
		"window": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}, Window: -1}, seq(1, 2, 3, 5),
			seq(1, 2, 3, 4), seq(1, 2, 3, 4), seq(1, 2, 3, 5), dense.ErrShape},
		"chunk": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}, Chunk: -1}, seq(1, 2, 3, 5),
			seq(1, 2, 3, 4), seq(1, 2, 3, 4), seq(1, 2, 3, 5), dense.ErrShape},
		"mask": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m},
			Visibility: attention.Visibility{KeyMask: make([]bool, 2)}}, seq(1, 2, 3, 5), seq(1, 2, 3, 4), seq(1, 2, 3,
			4), seq(1,
			2, 3, 5), dense.ErrShape},
		"too long keys": {&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}, seq(1, 1, 1, 5), seq(1, 1, 1,
			4),
			attention.One(dense.Matrix[float32]{Rows: 1, Cols: 4, Stride: 4, Data: []float32{1e20, 0, 0, 0}}), seq(1, 1,
				1, 5),
			dense.ErrNotFinite},
	} {
		if _, err := c.a.Forward(c.out, c.q, c.k, c.v); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// Steady use allocates nothing, alone and on several goroutines.
func TestLinearAllocations(t *testing.T) {
	const d, m, dv, length = 16, 64, 16, 2*maxSegment + 100
	q, k, v := normals[float32](1, 1, length, d, 1, 1), normals[float32](1, 1, length, d, 1, 2),
		normals[float32](1, 1, length, dv, 1, 3)
	out := attention.NewSeq[float32](1, 1, length, dv)
	for _, causal := range []bool{false, true} {
		for _, window := range []int{0, 30} {
			a := linear[float32](t, family.Positive{}, d, m, causal)
			a.Window = window
			a.KeyMask = make([]bool, length)
			for j := range length {
				a.KeyMask[j] = j%100 != 7
			}
			run := func() {
				if _, err := a.Forward(out, q, k, v); err != nil {
					t.Fatal(err)
				}
			}
			run()
			if n := testing.AllocsPerRun(5, run); n != 0 {
				t.Errorf("causal %t, window %d: %v allocations", causal, window, n)
			}
		}
	}
}
