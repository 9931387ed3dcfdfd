package centroid

import (
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
)

// replayCase is a visibility of two batches of 300 keys, with queries from position from on.
type replayCase struct {
	name string
	from int
	attention.Visibility
}

func replayCases(length int) []replayCase {
	mask := func(seen func(b, j int) bool) (out []bool) {
		for i := range 2 * length {
			out = append(out, seen(i/length, i%length))
		}
		return out
	}
	ids := func(lengths ...int) (out []int32) {
		for i, n := range lengths {
			out = append(out, slices.Repeat([]int32{int32(i)}, n)...)
		}
		return out
	}
	causal := attention.Visibility{Causal: true}
	list := []replayCase{{"all", 0, causal}, {"left", 0, causal}, {"right", 0, causal}, {"holes", 0, causal},
		{"segments", 0, causal}, {"suffix", 170, causal}, {"suffix, holes", 170, causal}, {"key segments", 170, causal}}
	list[1].KeyMask = mask(func(b, j int) bool { return j >= 90*b })
	list[2].KeyMask = mask(func(b, j int) bool { return j < length-200*b })
	holes := mask(func(b, j int) bool { return j%(3+b) != 1 && j > 20*b })
	list[3].KeyMask = holes
	list[4].KeyMask, list[4].Segments = holes, ids(length, 10, 200, length-210)
	list[6].KeyMask = holes
	short := length - 170
	list[7].Segments, list[7].KeySegments = ids(short, 10, short-10), ids(length, 1, length-1)
	return list
}

// With a tiny Share every key is exact, whichever keys are visible; the queries of rows that see no key are empty.
func TestReplayVisibilities(t *testing.T) {
	const length, dim = 300, 16
	q, k, v := batches(length, dim)
	for _, c := range replayCases(length) {
		a := &Attention{Visibility: c.Visibility, Specs: []Spec{Sketch{Clusters: 6, Chunk: 32, Window: 10, Sinks: 3,
			Share: 1e-30}}}
		q := window(q, 0, 0, q.Heads, c.from, length)
		q.Batch = 2
		out, want := attention.NewSeq[float32](2, 4, q.Len, dim), attention.NewSeq[float32](2, 4, q.Len, dim)
		for i := range out.Data {
			out.Data[i] = 99
		}
		for b := range 2 { // masked keys may hold anything
			for j := range length {
				if c.KeyMask != nil && !c.KeyMask[b*length+j] {
					k.Head(b, 1).Row(j)[0] = float32(math.NaN())
				}
			}
		}
		r, err := a.Forward(out, q, k, v)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		exact, err := (&attention.Exact[float32]{Visibility: c.Visibility}).Forward(want, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		if r.Rows != exact.Rows || r.Empty != exact.Empty {
			t.Errorf("%s: %d rows, %d empty, want %d and %d", c.name, r.Rows, r.Empty, exact.Rows, exact.Empty)
		}
		for i, w := range want.Data {
			if math.Abs(float64(out.Data[i]-w)) > 1e-5 {
				t.Fatalf("%s: number %d is %v, want %v", c.name, i, out.Data[i], w)
			}
		}
		q, k, v = batches(length, dim)
	}
}

// A window much longer than the text takes no memory.
func TestReplayLongWindow(t *testing.T) {
	q, k, v := grouped(1, 20, 16, 3)
	a := &Attention{Visibility: attention.Visibility{Causal: true},
		Specs: []Spec{Sketch{Clusters: 6, Chunk: 32, Window: 1 << 20, Share: 0.1}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := a.Forward(attention.NewSeq[float32](1, 2, 20, 16), q, k, v); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<22 {
		t.Errorf("%d bytes for 20 keys", n)
	}
}

// batches are two batches of the same heads.
func batches(length, dim int) (q, k, v attention.Seq[float32]) {
	q, k, v = grouped(4, length, dim, 3)
	for _, s := range []*attention.Seq[float32]{&q, &k, &v} {
		s.Batch, s.Heads = 2, s.Heads/2
		s.StrideB = s.Heads * s.StrideH
	}
	return q, k, v
}

// Rows of masked and packed sequences are bit-identical to those of the visible keys alone.
func TestReplayAlone(t *testing.T) {
	const length, dim = 300, 16
	q, k, v := batches(length, dim)
	specs := []Spec{Sketch{Clusters: 6, Chunk: 32, Window: 10, Sinks: 3, Share: 0.02}}
	for _, c := range replayCases(length) {
		if c.from > 0 { // other queries weigh the keys
			continue
		}
		a := &Attention{Visibility: c.Visibility, Specs: specs}
		out := attention.NewSeq[float32](2, 4, length, dim)
		if _, err := a.Forward(out, q, k, v); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for b := range 2 {
			for _, s := range c.Spans(nil, b, length, length) {
				var at []int32
				for j := s.K0; j < s.K1; j++ {
					if c.KeyMask == nil || c.KeyMask[b*length+j] {
						at = append(at, int32(j))
					}
				}
				alone := &Attention{Visibility: attention.Visibility{Causal: true}, Specs: specs}
				part := func(s attention.Seq[float32]) attention.Seq[float32] {
					return positionsOf(window(s, b, 0, s.Heads, 0, length), at)
				}
				want := attention.NewSeq[float32](1, 4, len(at), dim)
				if _, err := alone.Forward(want, part(q), part(k), part(v)); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(part(out).Data, want.Data) {
					t.Errorf("%s: batch %d, span %v differs from its visible keys alone", c.name, b, s)
				}
			}
		}
	}
}

// Forward, At and Trials have the same bits at any number of threads.
func TestReplayThreads(t *testing.T) {
	const length, dim = 700, 16
	q, k, v := grouped(2, length, dim, 3)
	rows := []int{699, 3, 400, 41, 656, 255, 257}
	spec := Sketch{Clusters: 6, Chunk: 32, Window: 10, Sinks: 3, Share: 0.02}
	a := &Attention{Visibility: attention.Visibility{Causal: true}, Specs: []Spec{spec}}
	a.KeyMask = slices.Repeat([]bool{true}, length)
	a.KeyMask[5], a.KeyMask[300] = false, false
	var want attention.Seq[float32]
	var report attention.Report
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, procs := range []int{1, 2, 7} {
		runtime.GOMAXPROCS(procs)
		out := attention.NewSeq[float32](1, 4, length, dim)
		r, err := a.Forward(out, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		if want.Data == nil {
			want, report = out, r
		}
		if r != report || !slices.Equal(out.Data, want.Data) {
			t.Errorf("Forward differs with %d threads: %+v, was %+v", procs, r, report)
		}
		trials, err := NewTrials(a.Visibility, 0, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		some := attention.NewSeq[float32](1, 4, len(rows), dim)
		for name, at := range map[string]func() error{
			"At":     func() error { return a.At(some, rows, q, k, v) },
			"Trials": func() error { return trials.At(some, rows, spec) },
		} {
			clear(some.Data)
			if err := at(); err != nil {
				t.Fatal(err)
			}
			for h := range 4 {
				for i, l := range rows {
					if !slices.Equal(some.Head(0, h).Row(i), want.Head(0, h).Row(l)) {
						t.Errorf("%s, head %d, row %d differs from Forward with %d threads", name, h, l, procs)
					}
				}
			}
		}
	}
}

// Bytes counts what the heads of a state refer to, but for some bytes per chunk.
func TestChunksBytes(t *testing.T) {
	const length, dim = 700, 16
	q, k, v := grouped(2, length, dim, 3)
	spec := Sketch{Clusters: 16, Chunk: 64, Sinks: 3, Share: 0.02}
	c, err := NewChunks(&Attention{Specs: []Spec{spec}}, q.Shape, v.Shape)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Step(attention.NewSeq[float32](1, 4, length, dim), q, k, v); err != nil {
		t.Fatal(err)
	}
	got, want := c.Bytes(), referred(reflect.ValueOf(c.heads))
	if few := int64(2 * 300 * length / spec.Chunk); got > want || got < want-few-2*1000 {
		t.Errorf("%+v: %d bytes, the heads refer to %d", spec, got, want)
	}
}

// referred is the size of the elements of the slices in x, and of all that these refer to.
func referred(x reflect.Value) (n int64) {
	switch x.Kind() {
	case reflect.Pointer:
		if !x.IsNil() {
			n = int64(x.Type().Elem().Size()) + referred(x.Elem())
		}
	case reflect.Slice:
		n = int64(x.Cap()) * int64(x.Type().Elem().Size())
		for i := range x.Len() {
			n += referred(x.Index(i))
		}
	case reflect.Struct:
		for i := range x.NumField() {
			n += referred(x.Field(i))
		}
	}
	return n
}
