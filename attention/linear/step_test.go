package linear

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// cut is positions lo to hi−1.
func cut[T dense.Float](s attention.Seq[T], lo, hi int) attention.Seq[T] {
	s.Data, s.Len = s.Data[lo*s.StrideL:], hi-lo
	return s
}

// A prompt, then steps of one and of several tokens, equal the batch result.
func TestStateStep(t *testing.T) {
	stattest.SkipRace(t)
	const d, m, dv, qHeads, kvHeads, batch, length = 6, 20, 4, 4, 2, 2, 211
	q, k, v := normals[float32](batch, qHeads, length, d, 1, 1), normals[float32](batch, kvHeads, length, d, 1, 2),
		normals[float32](batch, kvHeads, length, dv, 1, 3)
	exact := [][2]int{{0, 0}, {10, 0}, {0, 3}, {10, 70}} // windows and sinks
	if stattest.Full() {
		exact = append(exact, [][2]int{{1, 0}, {300, 0}, {1, 300}}...)
	}
	for name, f := range linearFamilies(t, d) {
		for _, window := range exact {
			a := linear[float32](t, f, d, m, true)
			a.Window, a.Sinks = window[0], window[1]
			want := attention.NewSeq[float32](batch, qHeads, length, dv)
			report, err := a.Forward(want, q, k, v)
			must(t, err)
			b := linear[float32](t, f, d, m, true)
			b.Window, b.Sinks, b.Chunk = window[0], window[1], 7 // another grid
			dec, err := b.NewState(q.Shape, v.Shape)
			must(t, err)
			got := attention.NewSeq[float32](batch, qHeads, length, dv)
			var fork *State[float32]
			for lo, n := 0, 53; lo < length; {
				hi := min(lo+n, length)
				must(t, dec.Step(cut(got, lo, hi), cut(q, lo, hi), cut(k, lo, hi), cut(v, lo, hi)))
				lo, n = hi, 1+17*(lo%3/2)
				if fork == nil && lo > 100 {
					fork = dec.Fork()
				}
			}
			if dec.Len() != length || dec.Report().Rows != report.Rows {
				t.Errorf("%s: %d tokens, %+v", name, dec.Len(), dec.Report())
			}
			worst := 0.0
			for bt := range batch {
				for h := range qHeads {
					worst = max(worst, relative(got.Head(bt, h), want.Head(bt, h)))
				}
			}
			// Signed features have denominators near zero, which amplify rounding without bound.
			if a.Maps[0].Positive() && !(worst <= 1e-5) {
				t.Errorf("%s, window and sinks %d: differs from the batch by %.2g", name, window, worst)
			}
			// The fork does not know what the original did after it.
			lo := fork.Len()
			again := attention.NewSeq[float32](batch, qHeads, length-lo, dv)
			must(t, fork.Step(again, cut(q, lo, length), cut(k, lo, length), cut(v, lo, length)))
			worst = 0
			for bt := range batch {
				for h := range qHeads {
					worst = max(worst, relative(again.Head(bt, h), want.Head(bt, h).RowRange(lo, length)))
				}
			}
			if a.Maps[0].Positive() && !(worst <= 1e-5) {
				t.Errorf("%s, window and sinks %d: the fork differs from the batch by %.2g", name, window, worst)
			}
			// Tokens appended without queries, then the query of the last token alone.
			dec, err = b.NewState(q.Shape, v.Shape)
			must(t, err)
			must(t, dec.Append(cut(k, 0, 53), cut(v, 0, 53)), dec.Append(cut(k, 53, length), cut(v, 53, length)))
			last := attention.NewSeq[float32](batch, qHeads, 1, dv)
			must(t, dec.Read(last, cut(q, length-1, length)))
			worst = 0
			for bt := range batch {
				for h := range qHeads {
					worst = max(worst, relative(last.Head(bt, h), want.Head(bt, h).RowRange(length-1, length)))
				}
			}
			if a.Maps[0].Positive() && !(worst <= 1e-5) {
				t.Errorf("%s, window and sinks %d: reading differs from the batch by %.2g", name, window, worst)
			}
			dec, err = b.NewState(q.Shape, v.Shape)
			must(t, err)
			must(t, dec.Step(cut(got, 0, 1), cut(q, 0, 1), cut(k, 0, 1), cut(v, 0, 1)))
			// One key: its value, whatever the weight.
			if r := dec.Report(); dec.Len() != 1 || r.Rows != batch*qHeads {
				t.Errorf("%s: after one token %d tokens, %+v", name, dec.Len(), r)
			}
			if x := relative(got.Head(1, 3).RowRange(0, 1), v.Head(1, 1).RowRange(0, 1)); a.Maps[0].Positive() &&
				name != "relu-pure" && !(x <= 1e-6) {
				t.Errorf("%s, window and sinks %d: the first token gives %v, its value is %v", name, window,
					got.Head(1, 3).Row(0), v.Head(1, 1).Row(0))
			}
		}
	}
}

// shape is the shape of sequences of any length.
func shape(batch, heads, dim int) attention.Shape {
	return attention.Shape{Batch: batch, Heads: heads, Dim: dim}
}

// Long sequences cross segments: totals and parts have references of their own.
func TestStateLong(t *testing.T) {
	const d, m, dv, length = 4, 8, 3, 2*maxSegment + 500
	q, k, v := normals[float32](1, 1, length, d, 1, 1), normals[float32](1, 1, length, d, 1, 2),
		normals[float32](1, 1, length, dv, 1, 3)
	for _, grow := range []bool{false, true} {
		for j := range length {
			for c := range d {
				if grow { // short keys first: the totals stay far above the parts that follow
					k.Head(0, 0).Row(j)[c] *= float32(1 + float64(j)/500)
				}
			}
		}
		for _, window := range []int{0, 40} {
			a := linear[float32](t, family.Positive{}, d, m, true)
			a.Window = window
			want, got := attention.NewSeq[float32](1, 1, length, dv), attention.NewSeq[float32](1, 1, length, dv)
			_, err := a.Forward(want, q, k, v)
			must(t, err)
			dec, err := a.NewState(q.Shape, v.Shape)
			must(t, err)
			must(t, dec.Step(cut(got, 0, 1000), cut(q, 0, 1000), cut(k, 0, 1000), cut(v, 0, 1000)))
			for i := 1000; i < length; i++ {
				must(t, dec.Step(cut(got, i, i+1), cut(q, i, i+1), cut(k, i, i+1), cut(v, i, i+1)))
			}
			if x := relative(got.Head(0, 0), want.Head(0, 0)); !(x <= 1e-5) {
				t.Errorf("grow %t, window %d: off by %.2g", grow, window, x)
			}
			judge, exact := linear[float64](t, family.Positive{}, d, m, true), attention.NewSeq[float64](1, 1, length,
				dv)
			judge.Window = window
			_, err = judge.Forward(exact, widened(q), widened(k), widened(v))
			must(t, err)
			if x := differ(t, got.Head(0, 0), exact.Head(0, 0), make([]float64, length)); !(x <= 1e-4) {
				t.Errorf("grow %t, window %d: off by %.2g from float64", grow, window, x)
			}
		}
	}
}

func TestStateStepAllocations(t *testing.T) {
	const d, dv, heads = 16, 16, 2
	for _, threads := range []int{1, 2} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		for _, window := range []int{0, 9} {
			a := linear[float32](t, family.Positive{}, d, 64, true)
			a.Window = window
			const prompt = maxSegment + 10
			q, v, out := normals[float32](1, heads, prompt, d, 1, 1), normals[float32](1, heads, prompt, dv, 1, 2),
				attention.NewSeq[float32](1, heads, prompt, dv)
			dec, err := a.NewState(q.Shape, v.Shape)
			must(t, err)
			must(t, dec.Step(out, q, q, v))
			i := 0
			step := func() {
				must(t, dec.Step(cut(out, i, i+1), cut(q, i, i+1), cut(q, i, i+1), cut(v, i, i+1)))
				i++
			}
			step()
			if n := testing.AllocsPerRun(200, step); n != 0 {
				t.Errorf("%d threads, window %d: %v allocations per step", threads, window, n)
			}
		}
	}
}

func TestStateStepErrors(t *testing.T) {
	a := linear[float32](t, family.Positive{}, 4, 8, true)
	for i, c := range [][5]int{{0, 1, 1, 4, 3}, {1, 3, 2, 4, 3}, {1, 1, 1, 5, 3}, {1, 1, 1, 4, 0}, {1, 1, 0, 4, 3}} {
		if _, err := a.NewState(shape(c[0], c[1], c[3]), shape(c[0], c[2], c[4])); !errors.Is(err, dense.ErrShape) {
			t.Errorf("case %d: %v", i, err)
		}
	}
	masked := linear[float32](t, family.Positive{}, 4, 8, true)
	masked.KeyMask = []bool{true}
	if _, err := masked.NewState(shape(1, 1, 4), shape(1, 1, 3)); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
	dec, err := a.NewState(shape(1, 2, 4), shape(1, 1, 3))
	must(t, err)
	seq := attention.NewSeq[float32]
	bad := seq(1, 1, 2, 4)
	bad.Data[5] = float32(math.Inf(1))
	for i, c := range []struct {
		out, q, k, v attention.Seq[float32]
		want         error
	}{
		{seq(1, 2, 2, 3), seq(1, 2, 2, 4), seq(1, 1, 2, 4), seq(1, 1, 1, 3), dense.ErrShape},
		{seq(1, 2, 2, 3), seq(1, 2, 2, 4), seq(1, 2, 2, 4), seq(1, 1, 2, 3), dense.ErrShape},
		{seq(1, 2, 2, 4), seq(1, 2, 2, 4), seq(1, 1, 2, 4), seq(1, 1, 2, 3), dense.ErrShape},
		{seq(1, 2, 2, 3), seq(1, 2, 2, 4), bad, seq(1, 1, 2, 3), dense.ErrNotFinite},
	} {
		if err := dec.Step(c.out, c.q, c.k, c.v); !errors.Is(err, c.want) {
			t.Errorf("case %d: %v", i, err)
		}
	}
	if dec.Len() != 0 || dec.Report() != (attention.Report{}) {
		t.Error("failed steps left something behind")
	}
	if err := dec.Step(seq(1, 2, 0, 3), seq(1, 2, 0, 4), seq(1, 1, 0, 4), seq(1, 1, 0, 3)); err != nil {
		t.Error(err)
	}
}

// Steps of a group of query heads do not depend on the number of threads.
func TestStateDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const d, dv, heads, length = 16, 16, 8, 600
	q, v := normals[float32](1, heads, length, d, 1, 1), normals[float32](1, heads, length, dv, 1, 2)
	var first []float32
	for _, threads := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(threads)
		dec, err := linear[float32](t, family.Positive{}, d, 256, true).NewState(q.Shape, v.Shape)
		must(t, err)
		out := attention.NewSeq[float32](1, heads, length, dv)
		must(t, dec.Step(cut(out, 0, 550), cut(q, 0, 550), cut(q, 0, 550), cut(v, 0, 550)))
		for i := 550; i < length; i++ {
			must(t, dec.Step(cut(out, i, i+1), cut(q, i, i+1), cut(q, i, i+1), cut(v, i, i+1)))
		}
		if first == nil {
			first = out.Data
		} else if !slices.Equal(first, out.Data) {
			t.Errorf("%d threads give other bits", threads)
		}
	}
}

// BenchmarkDecode is one token of 8 heads: the time must not depend on the tokens seen.
func BenchmarkDecode(b *testing.B) {
	const d, m, dv, heads, length = 64, 256, 64, 8, 10000
	q, k, v, out := normals[float32](1, heads, length, d, 1, 1), normals[float32](1, heads, length, d, 1, 2),
		normals[float32](1, heads, length, dv, 1, 3), attention.NewSeq[float32](1, heads, length, dv)
	fm, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Positive{}, Dim: d,
		M: m})
	must(b, err)
	for _, window := range []int{0, 128} {
		for _, seen := range []int{100, 10_000, 1_000_000} {
			b.Run(fmt.Sprintf("window=%d/heads=%d/m=%d/d=%d/seen=%d", window, heads, m, d, seen), func(b *testing.B) {
				a := &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{fm}, Window: window}
				dec, err := a.NewState(q.Shape, v.Shape)
				must(b, err)
				for n := 0; n < seen; n += length {
					c := min(length, seen-n)
					must(b, dec.Step(cut(out, 0, c), cut(q, 0, c), cut(k, 0, c), cut(v, 0, c)))
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					must(b, dec.Step(cut(out, i, i+1), cut(q, i, i+1), cut(k, i, i+1), cut(v, i, i+1)))
					i = (i + 1) % length
				}
			})
		}
	}
}
