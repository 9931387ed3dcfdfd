package linear

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

func newState[T dense.Float](t testing.TB, f family.Family, d, m, dv int) *State[T] {
	t.Helper()
	return stateOf(t, testMap[T](t, f, d, m), dv)
}

// stateOf is an empty state of one head.
func stateOf[T dense.Float](t testing.TB, m randfeat.FeatureMap[T], dv int) *State[T] {
	t.Helper()
	s, err := (&Attention[T]{Maps: []randfeat.FeatureMap[T]{m}}).NewState(shape(1, 1, m.InDim()), shape(1, 1, dv))
	must(t, err)
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
	stattest.SkipRace(t)
	const d, m, dv, length = 6, 20, 4, maxSegment + 700
	k, v := normals[float32](1, 1, length, d, 1, 1), normals[float32](1, 1, length, dv, 1, 2)
	for j := range length { // references rise now and then
		for c := range d {
			k.Head(0, 0).Row(j)[c] *= float32(12 * math.Exp(-float64(j)/300))
		}
	}
	q := normals[float32](1, 1, 9, d, 1, 3)
	for name, f := range linearFamilies(t, d) {
		if name == "angular" || name == "bipolar" {
			continue // thousands of features
		}
		s, o := newState[float32](t, f, d, m, dv), newState[float32](t, f, d, m, dv)
		must(t, s.Append(k, v))
		for lo, n := 0, 1; lo < length; lo, n = lo+n, n%700+97 {
			hi := min(lo+n, length)
			must(t, o.Append(cut(k, lo, hi), cut(v, lo, hi)))
		}
		if s.Len() != length || o.Len() != length {
			t.Errorf("%s: lengths %d, %d", name, s.Len(), o.Len())
		}
		a, b := attention.NewSeq[float32](1, 1, q.Len, dv), attention.NewSeq[float32](1, 1, q.Len, dv)
		all := attention.NewSeq[float32](1, 1, q.Len, dv)
		must(t, s.Read(a, q), o.Read(b, q))
		if !slices.Equal(a.Data, b.Data) {
			t.Errorf("%s: appending in parts changes bits", name)
		}
		lin := &Attention[float32]{Maps: s.maps}
		if _, err := lin.Forward(all, q, k, v); err != nil {
			t.Fatal(err)
		}
		if d := relative(a.Head(0, 0), all.Head(0, 0)); s.maps[0].Positive() && !(d <= 1e-5) {
			t.Errorf("%s: differs from Forward by %.2g", name, d)
		}
	}
}

func TestStateMergeFork(t *testing.T) {
	const d, m, dv, length = 6, 20, 4, 900
	k, v := normals[float64](1, 1, length, d, 1, 1), normals[float64](1, 1, length, dv, 1, 2)
	for j := range length {
		for c := range d {
			k.Head(0, 0).Row(j)[c] *= 30 * math.Exp(-float64(j)/100)
		}
	}
	q := normals[float64](1, 1, 9, d, 1, 3)
	f := family.OPRF{A: -0.1}
	part := func(lo, hi int) *State[float64] {
		s := newState[float64](t, f, d, m, dv)
		must(t, s.Append(cut(k, lo, hi), cut(v, lo, hi)))
		return s
	}
	read := func(s *State[float64]) dense.Matrix[float64] {
		out := attention.NewSeq[float64](1, 1, q.Len, dv)
		must(t, s.Read(out, q))
		return out.Head(0, 0)
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
	// Appending goes on after a merge; a fork goes its own way.
	c := part(0, 100)
	must(t, c.Merge(part(100, 300)))
	fork := c.Fork()
	before := read(fork)
	must(t, c.Append(cut(k, 300, length), cut(v, 300, length)))
	if d := relative(read(c), want); !(d <= 1e-13) {
		t.Errorf("append after merge: off by %.2g", d)
	}
	if !slices.Equal(read(fork).Data, before.Data) || fork.Len() != 300 {
		t.Error("a fork changed with its original")
	}
	// Merged with itself a state has every key twice, which shows beside other keys.
	twice, both := part(200, length), part(200, length)
	must(t, twice.Merge(twice), both.Merge(part(200, length)))
	must(t, twice.Append(cut(k, 0, 200), cut(v, 0, 200)), both.Append(cut(k, 0, 200), cut(v, 0, 200)))
	if d := relative(read(twice), read(both)); !(d <= 1e-13) || twice.Len() != both.Len() {
		t.Errorf("merged with itself: off by %.2g, %d keys", d, twice.Len())
	}
	if copied := twice.Fork(); copied.Report() != twice.Report() || copied.Report().Rows != int64(q.Len) {
		t.Errorf("a fork reports %+v, its origin %+v", copied.Report(), twice.Report())
	}
	c = part(0, 0)
	if out := read(c); slices.ContainsFunc(out.Data, func(v float64) bool { return v != 0 }) || c.Len() != 0 {
		t.Error("a state of no keys must give zeros")
	}
	if r := c.Report(); r.Empty != int64(q.Len) || r.Rows != int64(q.Len) {
		t.Errorf("report %+v", r)
	}
}

func TestStateErrors(t *testing.T) {
	s := newState[float32](t, family.Positive{}, 3, 4, 2)
	x := func(rows, cols int) attention.Seq[float32] { return attention.NewSeq[float32](1, 1, rows, cols) }
	bad := x(2, 3)
	bad.Data[5] = float32(math.NaN())
	big := x(1, 3)
	big.Data[0] = 1e20
	window := Attention[float32]{Maps: s.maps, Window: 2}
	ring, err := window.NewState(shape(1, 1, 3), shape(1, 1, 2))
	must(t, err)
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
		{ring.Merge(ring), errors.ErrUnsupported},
		{s.UnmarshalBinary(nil), attention.ErrCorrupt},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("case %d: %v, want %v", i, c.err, c.want)
		}
	}
	if s.Len() != 0 {
		t.Errorf("failed calls left %d keys", s.Len())
	}
}

// Decoding a step allocates nothing.
func TestStateAllocations(t *testing.T) {
	const d, dv = 16, 16
	s := newState[float32](t, family.Positive{}, d, 64, dv)
	k, v := normals[float32](1, 1, 2*maxSegment, d, 1, 1), normals[float32](1, 1, 2*maxSegment, dv, 1, 2)
	out := attention.NewSeq[float32](1, 1, 1, dv)
	must(t, s.Append(k, v), s.Read(out, cut(k, 0, 1)))
	i := 0
	if n := testing.AllocsPerRun(300, func() {
		row := cut(k, i, i+1)
		must(t, s.Append(row, cut(v, i, i+1)), s.Read(out, row))
		i++
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

// savedState is a state of n keys and its bytes.
func savedState(t testing.TB, n int) (*randfeat.Map[float32], *State[float32], []byte) {
	m := testMap[float32](t, family.Positive{}, 3, 4)
	s := stateOf(t, m, 2)
	must(t, s.Append(normals[float32](1, 1, n, 3, 1, 1), normals[float32](1, 1, n, 2, 1, 2)))
	b, err := s.MarshalBinary()
	must(t, err)
	return m, s, b
}

func TestStateCodec(t *testing.T) {
	const d, dv, length = 4, 3, maxSegment + 50
	q := normals[float32](1, 2, length+20, d, 1, 3)
	k, v := normals[float32](1, 1, length+20, d, 1, 1), normals[float32](1, 1, length+20, dv, 1, 2)
	for _, f := range []family.Family{family.Positive{}, family.Trig{}, family.ELU{}} {
		for _, exact := range [][2]int{{0, 0}, {9, 0}, {0, 3}, {9, 3}} { // window and sinks
			for _, seen := range []int{0, 2, 7, length} { // some while sinks and window are filling
				a := linear[float32](t, f, d, 6, true)
				a.Window, a.Sinks = exact[0], exact[1]
				s, err := a.NewState(q.Shape, v.Shape)
				must(t, err)
				o, err := a.NewState(q.Shape, v.Shape)
				must(t, err)
				must(t, s.Append(cut(k, 0, seen), cut(v, 0, seen)))
				out, got := attention.NewSeq[float32](1, 2, 20, dv), attention.NewSeq[float32](1, 2, 20, dv)
				must(t, s.Read(out, cut(q, 0, 20)))
				b, err := s.AppendBinary([]byte("prefix"))
				must(t, err)
				must(t, o.UnmarshalBinary(b[len("prefix"):]))
				if o.Len() != s.Len() || o.Report() != s.Report() {
					t.Errorf("%s: %d keys, %+v; want %d, %+v", f.Name(), o.Len(), o.Report(), s.Len(), s.Report())
				}
				again, err := o.MarshalBinary()
				must(t, err)
				if !bytes.Equal(again, b[len("prefix"):]) {
					t.Errorf("%s: equal states, other bytes", f.Name())
				}
				// The copy goes on with the same bits.
				to := seen + 20
				must(t, s.Step(out, cut(q, seen, to), cut(k, seen, to), cut(v, seen, to)))
				must(t, o.Step(got, cut(q, seen, to), cut(k, seen, to), cut(v, seen, to)))
				if !slices.Equal(out.Data, got.Data) {
					t.Errorf("%s, window and sinks %d, after %d: a saved state goes on with other bits", f.Name(),
						exact, seen)
				}
			}
		}
	}
}

// A state of version 0.1.0 reads: testdata/state-0.1.0.bin is that of these 300 keys, which version 0.1.0 read with
// these outputs.
func TestStateOfVersion1(t *testing.T) {
	m, s, _ := savedState(t, 0)
	b, err := os.ReadFile("testdata/state-0.1.0.bin")
	must(t, err)
	must(t, s.UnmarshalBinary(b))
	out := attention.NewSeq[float32](1, 1, 2, 2)
	must(t, s.Read(out, normals[float32](1, 1, 2, 3, 1, 3)))
	want := []float32{0.07234944, 0.0014014688, 0.076701276, 0.009223804}
	if s.Len() != 300 || s.Report().Rows != 4 ||
		relative(out.Head(0, 0), dense.Matrix[float32]{Rows: 2, Cols: 2, Stride: 2,
			Data: want}) > 1e-5 {
		t.Errorf("%d keys, %+v, outputs %v, want 300 keys and %v", s.Len(), s.Report(), out.Data, want)
	}
	// Written again it has the present version, and reads to the same state.
	again, err := s.MarshalBinary()
	must(t, err)
	_, second, _ := savedState(t, 0)
	must(t, second.UnmarshalBinary(again))
	if now, err := second.MarshalBinary(); err != nil || !bytes.Equal(now, again) || bytes.Equal(again, b) {
		t.Errorf("read and saved again, the state has other bytes: %v", err)
	}
	same := attention.NewSeq[float32](1, 1, 2, 2)
	must(t, second.Read(same, normals[float32](1, 1, 2, 3, 1, 3)))
	if !slices.Equal(same.Data, out.Data) {
		t.Errorf("read and saved again, the state has the outputs %v, want %v", same.Data, out.Data)
	}
	two, err := (&Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}).NewState(shape(1, 2, 3), shape(1, 2, 2))
	must(t, err)
	if err := two.UnmarshalBinary(b); !errors.Is(err, attention.ErrMismatch) {
		t.Errorf("into a state of two heads: %v", err)
	}
	for i := range b {
		changed := bytes.Clone(b)
		changed[i] ^= 1 << (i % 8)
		if err := s.UnmarshalBinary(changed); !errors.Is(err, attention.ErrCorrupt) {
			t.Fatalf("byte %d changed: %v", i, err)
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
	m, s, b := savedState(t, 300)
	refused := func(b []byte) error {
		err := s.UnmarshalBinary(b)
		if now, _ := s.MarshalBinary(); !bytes.Equal(now, savedBytes(t, 300)) {
			t.Fatal("a refused state has changed the one that was to read it")
		}
		return err
	}
	for i := range b {
		if err := refused(b[:i]); !errors.Is(err, attention.ErrCorrupt) {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
		flipped := bytes.Clone(b)
		flipped[i] ^= 1 << (i % 8)
		if err := refused(flipped); !errors.Is(err, attention.ErrCorrupt) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	header := len(stateFormat.Magic)
	count := func(i int) int { return header + 36 + 8*i }
	body := stateFormat.HeaderSize()
	put := func(at int, n uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], n); return b }
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		want   error
	}{
		"version":     {func(b []byte) []byte { b[header]++; return b }, attention.ErrCorrupt},
		"precision":   {func(b []byte) []byte { b[header+2] = 8; return b }, attention.ErrMismatch},
		"fingerprint": {func(b []byte) []byte { b[header+4]++; return b }, attention.ErrMismatch},
		"batch":       {put(count(0), 2), attention.ErrMismatch},
		"columns":     {put(count(4), 1<<60), attention.ErrMismatch},
		"window":      {put(count(5), 1), attention.ErrMismatch},
		"tokens":      {put(count(7), 301), attention.ErrCorrupt},
		"negative":    {put(count(8), 1<<63), attention.ErrCorrupt},
		"totals":      {put(body, 257), attention.ErrCorrupt},
		"many totals": {put(body, 1<<63), attention.ErrCorrupt},
		"long part": {func(b []byte) []byte { // though the keys add up
			return put(body+8, segment)(put(body, 300-segment)(b))
		}, attention.ErrCorrupt},
		"set":          {put(body+16, 2), attention.ErrCorrupt},
		"base":         {put(body+24, math.Float64bits(math.NaN())), attention.ErrCorrupt},
		"sum":          {put(len(b)-sha256.Size-8, math.Float64bits(math.Inf(1))), attention.ErrCorrupt},
		"longer":       {func(b []byte) []byte { return append(b, 0) }, attention.ErrCorrupt},
		"another name": {func(b []byte) []byte { b[0]++; return b }, attention.ErrCorrupt},
	} {
		if err := refused(resealed(b, c.change)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := s.UnmarshalBinary(resealed(b, func(b []byte) []byte { return b })); err != nil {
		t.Errorf("resealing alone must not hurt: %v", err)
	}
	if err := stateOf(t, testMap[float32](t, family.Positive{}, 3, 4), 2).UnmarshalBinary(b); err != nil {
		t.Errorf("an equal map: %v", err)
	}
	other, err := randfeat.New[float32](m.Spec().WithSeed(99))
	must(t, err)
	if err := stateOf(t, other, 2).UnmarshalBinary(b); !errors.Is(err, attention.ErrMismatch) {
		t.Errorf("a redrawn map: %v", err)
	}
}

func savedBytes(t testing.TB, n int) []byte {
	_, _, b := savedState(t, n)
	return b
}

// FuzzUnmarshalState: arbitrary bytes never panic, and what is accepted has the fingerprint of the map. The checksum is
// made right, or nothing but the first check would ever run.
func FuzzUnmarshalState(f *testing.F) {
	old, err := os.ReadFile("testdata/state-0.1.0.bin")
	must(f, err)
	for _, b := range [][]byte{savedBytes(f, 0), savedBytes(f, 7), savedBytes(f, maxSegment), old} {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	q, out := attention.NewSeq[float32](1, 1, 2, 3), attention.NewSeq[float32](1, 1, 2, 2)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= sha256.Size {
			b = resealed(b, func(b []byte) []byte { return b })
		}
		m, s, _ := savedState(t, 0)
		if err := s.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, attention.ErrCorrupt) && !errors.Is(err, attention.ErrMismatch) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		at := len(stateFormat.Magic)
		want := s.fingerprint()
		if b[at] == 1 {
			want = m.Fingerprint()
		}
		if !bytes.Equal(b[at+4:at+36], want[:]) {
			t.Fatal("accepted another fingerprint")
		}
		must(t, s.Read(out, q))
	})
}

func BenchmarkState(b *testing.B) {
	const d, m, dv = 64, 256, 64
	for _, seen := range []int{100, 1_000_000} {
		b.Run(fmt.Sprintf("step/seen=%d", seen), func(b *testing.B) {
			fm, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Positive{},
				Dim: d, M: m})
			must(b, err)
			s := stateOf(b, fm, dv)
			k, v := normals[float32](1, 1, 10000, d, 1, 1), normals[float32](1, 1, 10000, dv, 1, 2)
			for n := 0; n < seen; n += 10000 {
				c := min(10000, seen-n)
				must(b, s.Append(cut(k, 0, c), cut(v, 0, c)))
			}
			out := attention.NewSeq[float32](1, 1, 1, dv)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				must(b, s.Append(cut(k, i, i+1), cut(v, i, i+1)), s.Read(out, cut(k, i, i+1)))
				i = (i + 1) % 10000
			}
		})
	}
}

// Values that are not made by their constructors give errors, no panics.
func TestZeroValues(t *testing.T) {
	var s State[float32]
	x := attention.NewSeq[float32](1, 1, 1, 2)
	_, saving := s.MarshalBinary()
	for name, err := range map[string]error{"Append": s.Append(x, x), "Read": s.Read(x, x), "Merge": s.Merge(&s),
		"Step": s.Step(x, x, x, x), "MarshalBinary": saving, "UnmarshalBinary": s.UnmarshalBinary(nil)} {
		if !errors.Is(err, randfeat.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
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
