package linear

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
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
	"github.com/randfeat/randfeat/kernel"
)

func newState[T dense.Float](t testing.TB, f family.Family, d, m, dv int) *State[T] {
	t.Helper()
	s, err := NewState(testMap[T](t, f, d, m), dv)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// relative is the largest difference of rows relative to the largest element of b.
func relative[T dense.Float](a, b dense.Matrix[T]) float64 {
	var worst, size float64
	for i := range b.Rows {
		for j, v := range b.Row(i) {
			d := math.Abs(float64(a.At(i, j) - v))
			if !(d <= worst) {
				worst = d
			}
			size = max(size, math.Abs(float64(v)))
		}
	}
	return worst / max(size, 1e-300)
}

// Reading a state equals bidirectional attention over the appended keys, and dividing the keys among calls does not
// change a bit.
func TestStateAppend(t *testing.T) {
	const d, m, dv, length = 6, 20, 4, maxSegment + 700
	k, v := normals[float32](1, 1, length, d, 1, 1).Head(0, 0), normals[float32](1, 1, length, dv, 1, 2).Head(0, 0)
	for j := range length { // references rise now and then
		for c := range d {
			k.Row(j)[c] *= float32(12 * math.Exp(-float64(j)/300))
		}
	}
	q := normals[float32](1, 1, 9, d, 1, 3).Head(0, 0)
	for name, f := range linearFamilies(t, d) {
		if name == "angular" || name == "bipolar" {
			continue // thousands of features
		}
		s, o := newState[float32](t, f, d, m, dv), newState[float32](t, f, d, m, dv)
		must(t, s.Append(k, v))
		for lo, n := 0, 1; lo < length; lo, n = lo+n, n%700+97 {
			hi := min(lo+n, length)
			must(t, o.Append(k.RowRange(lo, hi), v.RowRange(lo, hi)))
		}
		if s.Len() != length || o.Len() != length {
			t.Errorf("%s: lengths %d, %d", name, s.Len(), o.Len())
		}
		a, b, all := dense.New[float32](q.Rows, dv), dense.New[float32](q.Rows, dv), dense.New[float32](q.Rows, dv)
		must(t, s.Read(a, q), o.Read(b, q))
		if !slices.Equal(a.Data, b.Data) {
			t.Errorf("%s: appending in parts changes bits", name)
		}
		lin := &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{s.Map()}}
		if _, err := lin.Forward(attention.One(all), attention.One(q), attention.One(k), attention.One(v)); err != nil {
			t.Fatal(err)
		}
		if d := relative(a, all); s.Map().Positive() && !(d <= 1e-5) {
			t.Errorf("%s: differs from Forward by %.2g", name, d)
		}
	}
}

func TestStateMergeCloneReset(t *testing.T) {
	const d, m, dv, length = 6, 20, 4, 900
	k, v := normals[float64](1, 1, length, d, 1, 1).Head(0, 0), normals[float64](1, 1, length, dv, 1, 2).Head(0, 0)
	for j := range length {
		for c := range d {
			k.Row(j)[c] *= 30 * math.Exp(-float64(j)/100)
		}
	}
	q := normals[float64](1, 1, 9, d, 1, 3).Head(0, 0)
	f := family.OPRF{A: -0.1}
	part := func(lo, hi int) *State[float64] {
		s := newState[float64](t, f, d, m, dv)
		must(t, s.Append(k.RowRange(lo, hi), v.RowRange(lo, hi)))
		return s
	}
	read := func(s *State[float64]) dense.Matrix[float64] {
		out := dense.New[float64](q.Rows, dv)
		must(t, s.Read(out, q))
		return out
	}
	want := read(part(0, length))
	left, right := part(0, 100), part(300, length)
	must(t, left.Merge(part(100, 300)), left.Merge(part(300, length)))
	middle := part(100, 300)
	must(t, middle.Merge(right))
	other := part(0, 100)
	must(t, other.Merge(middle), other.Merge(newState[float64](t, f, d, m, dv)))
	reversed := part(300, length)
	must(t, reversed.Merge(part(0, 300)))
	for name, s := range map[string]*State[float64]{"(ab)c": left, "a(bc)": other, "cab": reversed} {
		// Sums of a thousand numbers of one sign in another order.
		if d := relative(read(s), want); !(d <= 1e-13) || s.Len() != length {
			t.Errorf("%s: off by %.2g, %d keys", name, d, s.Len())
		}
	}
	// Appending goes on after a merge; a clone goes its own way.
	c := part(0, 100)
	must(t, c.Merge(part(100, 300)))
	fork := c.Clone()
	before := read(fork)
	must(t, c.Append(k.RowRange(300, length), v.RowRange(300, length)))
	if d := relative(read(c), want); !(d <= 1e-13) {
		t.Errorf("append after merge: off by %.2g", d)
	}
	if !slices.Equal(read(fork).Data, before.Data) || fork.Len() != 300 {
		t.Error("a clone changed with its original")
	}
	twice := part(0, length)
	must(t, twice.Merge(twice))
	if d := relative(read(twice), want); !(d <= 1e-13) || twice.Len() != 2*length {
		t.Errorf("merged with itself: off by %.2g, %d keys", d, twice.Len())
	}
	c.Reset()
	if out := read(c); slices.ContainsFunc(out.Data, func(v float64) bool { return v != 0 }) || c.Len() != 0 {
		t.Error("a state of no keys must give zeros")
	}
	if r := c.Report(); r.Empty != int64(q.Rows) || r.Rows != int64(q.Rows) {
		t.Errorf("report %+v", r)
	}
}

func TestStateErrors(t *testing.T) {
	s := newState[float32](t, family.Positive{}, 3, 4, 2)
	x := func(rows, cols int) dense.Matrix[float32] { return dense.New[float32](rows, cols) }
	bad := x(2, 3)
	bad.Set(1, 2, float32(math.NaN()))
	big := x(1, 3)
	big.Set(0, 0, 1e20)
	other := newState[float32](t, family.Positive{}, 3, 5, 2)
	wide := newState[float32](t, family.Positive{}, 3, 4, 3)
	for i, c := range []struct {
		err, want error
	}{
		{s.Append(x(2, 4), x(2, 2)), dense.ErrShape},
		{s.Append(x(2, 3), x(2, 3)), dense.ErrShape},
		{s.Append(x(2, 3), x(1, 2)), dense.ErrShape},
		{s.Append(bad, x(2, 2)), dense.ErrNotFinite},
		{s.Append(big, x(1, 2)), dense.ErrNotFinite},
		{s.Read(x(2, 2), x(1, 3)), dense.ErrShape},
		{s.Read(x(2, 2), bad), dense.ErrNotFinite},
		{s.Merge(other), attention.ErrMismatch},
		{s.Merge(wide), attention.ErrMismatch},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("case %d: %v, want %v", i, c.err, c.want)
		}
	}
	if s.Len() != 0 {
		t.Errorf("failed calls left %d keys", s.Len())
	}
	if _, err := NewState[float32](nil, 2); !errors.Is(err, randfeat.ErrSpec) {
		t.Error(err)
	}
	if _, err := NewState(s.Map(), 0); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
}

// Decoding a step allocates nothing.
func TestStateAllocations(t *testing.T) {
	const d, dv = 16, 16
	s := newState[float32](t, family.Positive{}, d, 64, dv)
	k, v := normals[float32](1, 1, 2*maxSegment, d, 1, 1).Head(0, 0),
		normals[float32](1, 1, 2*maxSegment, dv, 1, 2).Head(0, 0)
	out := dense.New[float32](1, dv)
	must(t, s.Append(k, v), s.Read(out, k.RowRange(0, 1)))
	i := 0
	if n := testing.AllocsPerRun(300, func() {
		row := k.RowRange(i, i+1)
		must(t, s.Append(row, v.RowRange(i, i+1)), s.Read(out, row))
		i++
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func savedStates(t testing.TB) (m *randfeat.Map[float32], saved [][]byte) {
	m = testMap[float32](t, family.Positive{}, 3, 4)
	s, err := NewState(m, 2)
	must(t, err)
	for _, n := range []int{0, 7, maxSegment} {
		must(t, s.Append(normals[float32](1, 1, n, 3, 1, 1).Head(0, 0), normals[float32](1, 1, n, 2, 1, 2).Head(0, 0)))
		b, err := s.MarshalBinary()
		must(t, err)
		saved = append(saved, b)
	}
	return m, saved
}

func TestStateCodec(t *testing.T) {
	t.Run("float32", testStateCodec[float32])
	t.Run("float64", testStateCodec[float64])
}

func testStateCodec[T dense.Float](t *testing.T) {
	const d, dv, length = 4, 3, maxSegment + 50
	q := normals[T](1, 1, 9, d, 1, 3).Head(0, 0)
	k, v := normals[T](1, 1, length+20, d, 1, 1).Head(0, 0), normals[T](1, 1, length+20, dv, 1, 2).Head(0, 0)
	for _, f := range []family.Family{family.Positive{}, family.Trig{}, family.ELU{}} {
		s := newState[T](t, f, d, 6, dv)
		must(t, s.Append(k.RowRange(0, length), v.RowRange(0, length)))
		out := dense.New[T](q.Rows, dv)
		must(t, s.Read(out, q))
		b, err := s.AppendBinary([]byte("prefix"))
		must(t, err)
		o, err := UnmarshalState(s.Map(), b[len("prefix"):])
		must(t, err)
		if o.Len() != s.Len() || o.Report() != s.Report() || o.ValueDim() != dv {
			t.Errorf("%s: %d keys, %+v; want %d, %+v", f.Name(), o.Len(), o.Report(), s.Len(), s.Report())
		}
		// The copy goes on with the same bits.
		got := dense.New[T](q.Rows, dv)
		for _, x := range []*State[T]{s, o} {
			must(t, x.Append(k.RowRange(length, k.Rows), v.RowRange(length, v.Rows)))
		}
		must(t, s.Read(out, q), o.Read(got, q))
		if !slices.Equal(out.Data, got.Data) {
			t.Errorf("%s: a saved state goes on with other bits", f.Name())
		}
		again, err := o.MarshalBinary()
		must(t, err)
		if want, _ := s.MarshalBinary(); !bytes.Equal(again, want) {
			t.Errorf("%s: equal states, other bytes", f.Name())
		}
	}
}

// resealed changes bytes of a saved state and makes its checksum right again.
func resealed(b []byte, change func(b []byte) []byte) []byte {
	body := change(bytes.Clone(b[:len(b)-sha256.Size]))
	sum := sha256.Sum256(body)
	return append(body, sum[:]...)
}

func TestStateCodecRefuses(t *testing.T) {
	m, saved := savedStates(t)
	b := saved[2]
	for i := range b {
		if _, err := UnmarshalState(m, b[:i]); !errors.Is(err, attention.ErrCorrupt) {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
		flipped := bytes.Clone(b)
		flipped[i] ^= 1 << (i % 8)
		if _, err := UnmarshalState(m, flipped); !errors.Is(err, attention.ErrCorrupt) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	header := len(stateFormat.Magic)
	put := func(at int, n uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], n); return b }
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		want   error
	}{
		"version":      {func(b []byte) []byte { b[header]++; return b }, attention.ErrCorrupt},
		"precision":    {func(b []byte) []byte { b[header+2] = 8; return b }, attention.ErrMismatch},
		"fingerprint":  {func(b []byte) []byte { b[header+4]++; return b }, attention.ErrMismatch},
		"features":     {put(header+36, 1<<60), attention.ErrMismatch},
		"columns":      {put(header+44, 1<<60), attention.ErrCorrupt},
		"no columns":   {put(header+44, 0), attention.ErrCorrupt},
		"negative":     {put(header+52, 1<<63), attention.ErrCorrupt},
		"long part":    {put(header+100, segment), attention.ErrCorrupt},
		"set":          {put(header+108, 2), attention.ErrCorrupt},
		"base":         {put(header+116, math.Float64bits(math.NaN())), attention.ErrCorrupt},
		"sum":          {put(len(b)-sha256.Size-8, math.Float64bits(math.Inf(1))), attention.ErrCorrupt},
		"longer":       {func(b []byte) []byte { return append(b, 0) }, attention.ErrCorrupt},
		"another name": {func(b []byte) []byte { b[0]++; return b }, attention.ErrCorrupt},
	} {
		if _, err := UnmarshalState(m, resealed(b, c.change)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := UnmarshalState(m, resealed(b, func(b []byte) []byte { return b })); err != nil {
		t.Errorf("resealing alone must not hurt: %v", err)
	}
	if _, err := UnmarshalState(testMap[float32](t, family.Positive{}, 3, 4), b); err != nil {
		t.Errorf("an equal map: %v", err)
	}
	spec := m.Spec().WithSeed(99)
	other, err := randfeat.New[float32](spec)
	must(t, err)
	if _, err := UnmarshalState(other, b); !errors.Is(err, attention.ErrMismatch) {
		t.Errorf("a redrawn map: %v", err)
	}
	if _, err := UnmarshalState(testMap[float64](t, family.Positive{}, 3, 4), b); !errors.Is(err,
		attention.ErrMismatch) {
		t.Errorf("a float64 map: %v", err)
	}
}

// FuzzUnmarshalState: arbitrary bytes never panic, and what is accepted has the fingerprint of the map. The checksum is
// made right, or nothing but the first check would ever run.
func FuzzUnmarshalState(f *testing.F) {
	m, saved := savedStates(f)
	for _, b := range saved {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	want := m.Fingerprint()
	q, out := dense.New[float32](2, 3), dense.New[float32](2, 2)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= sha256.Size {
			b = resealed(b, func(b []byte) []byte { return b })
		}
		s, err := UnmarshalState(m, b)
		if err != nil {
			if !errors.Is(err, attention.ErrCorrupt) && !errors.Is(err, attention.ErrMismatch) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		at := len(stateFormat.Magic) + 4
		if !bytes.Equal(b[at:at+32], want[:]) {
			t.Fatal("accepted another fingerprint")
		}
		if s.ValueDim() == 2 {
			if err := s.Read(out, q); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkState(b *testing.B) {
	const d, m, dv = 64, 256, 64
	for _, seen := range []int{100, 1_000_000} {
		b.Run(fmt.Sprintf("step/seen=%d", seen), func(b *testing.B) {
			fm, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Positive{},
				Dim: d, M: m})
			must(b, err)
			s, err := NewState(fm, dv)
			must(b, err)
			k, v := normals[float32](1, 1, 10000, d, 1, 1).Head(0, 0), normals[float32](1, 1, 10000, dv, 1, 2).Head(0,
				0)
			for n := 0; n < seen; n += 10000 {
				c := min(10000, seen-n)
				must(b, s.Append(k.RowRange(0, c), v.RowRange(0, c)))
			}
			out := dense.New[float32](1, dv)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				must(b, s.Append(k.RowRange(i, i+1), v.RowRange(i, i+1)), s.Read(out, k.RowRange(i, i+1)))
				i = (i + 1) % 10000
			}
		})
	}
}

// Values that are not made by their constructors give errors, no panics.
func TestZeroValues(t *testing.T) {
	var s State[float64]
	if err := s.Append(dense.New[float64](1, 2), dense.New[float64](1, 2)); !errors.Is(err, attention.ErrMismatch) {
		t.Errorf("Append: %v", err)
	}
	if err := s.Read(dense.New[float64](1, 2), dense.New[float64](1, 2)); !errors.Is(err, attention.ErrMismatch) {
		t.Errorf("Read: %v", err)
	}
	if err := s.Merge(nil); !errors.Is(err, attention.ErrMismatch) {
		t.Errorf("Merge: %v", err)
	}
	var d Decoder[float64]
	if err := d.Step(attention.Seq[float64]{Shape: attention.Shape{Len: 1}},
		attention.Seq[float64]{Shape: attention.Shape{Len: 1}},
		attention.Seq[float64]{Shape: attention.Shape{Len: 1}},
		attention.Seq[float64]{Shape: attention.Shape{Len: 1}}); !errors.Is(err, randfeat.ErrSpec) {
		t.Errorf("Step: %v", err)
	}
}

// Numbers too large for the sums of a positive map are an error, never silent zeros.
func TestLinearOverflow(t *testing.T) {
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(4), Family: family.Positive{}, Dim: 4, M: 16,
		Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ norm, value float32 }{"values": {1, 1e37}, "norms": {1e10, 1},
		"too large norms": {1e16, 1}} {
		q, v, out := attention.NewSeq[float32](1, 1, 2000, 4), attention.NewSeq[float32](1, 1, 2000, 4),
			attention.NewSeq[float32](1, 1, 2000, 4)
		for i := range q.Data {
			q.Data[i] = c.norm * float32(math.Sin(float64(i)))
			v.Data[i] = c.value
		}
		_, err := (&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}).Forward(out, q, q, v)
		if !errors.Is(err, dense.ErrNotFinite) {
			t.Errorf("%s: error = %v", name, err)
		}
		if name == "too large norms" && !strings.Contains(fmt.Sprint(err), "q: batch 0, head 0, position 0") {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}
