package centroid

import (
	"encoding/binary"
	"errors"

	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
)

// Decoding is Forward, bit by bit, with calibrated centres and with those of the first keys.
func TestDecodingIsForward(t *testing.T) {
	decodingIsForward[float32](t)
	decodingIsForward[float64](t)
}

func decodingIsForward[T dense.Float](t *testing.T) {
	in := makeInput[T](3, 2, 4, 2, 150, 150, 6, 5, 0.7)
	for i, s := range append([]Spec{{Sinks: 2, Window: 8, Block: 8}}, causalSpecs...) {
		for _, own := range []bool{false, true} {
			a := &Attention[T]{Specs: []Spec{s}}
			if a.Causal = true; !own {
				a.Centres = centresOf[T](t, s, 4, 2, 6, 5)
			}
			want := attention.NewSeq[T](2, 4, 150, 5)
			report, err := a.Forward(want, in.q, in.k, in.v)
			if err != nil {
				t.Fatal(err)
			}
			c := newCache(t, a, 2, 4, 2, 6, 5)
			got := steps[T](t, c, in, 1, 2, 29)
			if !slices.Equal(got.Data, want.Data) {
				t.Errorf("spec %d, own centres %v: decoding differs by %.3g", i, own, worst(got, want))
			}
			if c.Len() != 150 || c.Report() != report {
				t.Errorf("%d tokens, %+v, Forward has %+v", c.Len(), c.Report(), report)
			}
		}
	}
}

// Tokens of another cache are as good as those of a step.
func TestCachesMerge(t *testing.T) {
	in := makeInput[float32](3, 2, 4, 2, 150, 150, 6, 5, 0.7)
	for _, s := range causalSpecs {
		a := &Attention[float32]{Specs: []Spec{s}, Centres: centresOf[float32](t, s, 4, 2, 6, 5)}
		take := func(p, n int) input[float32] {
			return input[float32]{piece(in.q, p, n), piece(in.k, p, n), piece(in.v, p, n)}
		}
		want, x, y := newCache(t, a, 2, 4, 2, 6, 5), newCache(t, a, 2, 4, 2, 6, 5), newCache(t, a, 2, 4, 2, 6, 5)
		steps[float32](t, want, take(0, 100), 100)
		steps[float32](t, x, take(0, 43), 43)
		steps[float32](t, y, take(43, 57), 20)
		if err := x.Join(y); err != nil {
			t.Fatal(err)
		}
		if x.Len() != 100 || y.Len() != 57 {
			t.Errorf("%d and %d tokens", x.Len(), y.Len())
		}
		if !slices.Equal(steps[float32](t, x, take(100, 50), 9).Data, steps[float32](t, want, take(100, 50), 50).Data) {
			t.Errorf("%+v: merged caches go on differently", s)
		}
		if err := y.Merge(y); err != nil || y.Len() != 114 {
			t.Errorf("with itself: %v, %d tokens", err, y.Len())
		}
		other := &Attention[float32]{Specs: a.Specs, Centres: a.Centres, Scale: 2}
		if err := x.Merge(newCache(t, other, 2, 4, 2, 6, 5)); !errors.Is(err, attention.ErrMismatch) {
			t.Errorf("another scale: %v", err)
		}
		slots := newSlots[float32](t, SlotSpec{Budget: 130}, 2, 4, 2, 6, 5)
		if err := x.Join(slots); !errors.Is(err, attention.ErrMismatch) {
			t.Errorf("slots: %v", err)
		}
	}
}

// Residual numbers survive their bytes.
func TestQuanta(t *testing.T) {
	for _, bits := range []int{4, 8} {
		_, limit := quantum(bits)
		const width, r, n = 8, 5, 41
		var a quanta
		want := make([]int8, n*r)
		for i := range want {
			want[i] = int8(i*37%(2*int(limit)+1)) - int8(limit)
		}
		for j := range n {
			a.put(j, width, bits, want[j*r:(j+1)*r])
		}
		wide := make([]float64, (n+width-1)/width*width*r)
		widen(wide, &a, 0, bits)
		for j := range n {
			got := make([]int8, r)
			a.get(got, j, width, bits)
			if !slices.Equal(got, want[j*r:(j+1)*r]) {
				t.Fatalf("%d bits, member %d: %v, want %v", bits, j, got, want[j*r:(j+1)*r])
			}
			for i, v := range got {
				if w := wide[j/width*width*r+i*width+j%width]; w != float64(v) {
					t.Fatalf("%d bits, member %d: %v in a panel, want %v", bits, j, w, v)
				}
			}
		}
		if want := (n + width - 1) / width * width * r * bits / 8; len(a.data) != want {
			t.Errorf("%d bits: %d bytes, want %d", bits, len(a.data), want)
		}
	}
}

func TestCachesAreChecked(t *testing.T) {
	s := causalSpecs[0]
	a := &Attention[float32]{Specs: []Spec{s}, Centres: centresOf[float32](t, s, 4, 2, 6, 5)}
	for name, f := range map[string]func(a *Attention[float32]) (*Cache[float32], error){
		"other heads":     func(a *Attention[float32]) (*Cache[float32], error) { return NewCache(a, 1, 3, 3, 6, 5) },
		"other dimension": func(a *Attention[float32]) (*Cache[float32], error) { return NewCache(a, 1, 4, 2, 7, 5) },
		"a mask": func(a *Attention[float32]) (*Cache[float32], error) {
			a.KeyMask = []bool{true}
			return NewCache(a, 1, 4, 2, 6, 5)
		},
		"half a group": func(a *Attention[float32]) (*Cache[float32], error) { return NewCache(a, 1, 5, 2, 6, 5) },
	} {
		b := &Attention[float32]{Specs: a.Specs, Centres: a.Centres}
		if _, err := f(b); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []Spec{{Window: 1 << 28}, {Clusters: 1 << 22}} {
		wide := &Attention[float32]{Specs: []Spec{s}}
		if _, err := NewCache(wide, 1, 1, 1, 4, 4); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	var none Cache[float32]
	if err := none.Step(attention.Seq[float32]{}, attention.Seq[float32]{}, attention.Seq[float32]{},
		attention.Seq[float32]{}); !errors.Is(err, attention.ErrMismatch) {
		t.Errorf("a zero cache: %v", err)
	}
}

// Bytes with a valid seal, whatever they say, are a state or an error, and need no more memory than there are bytes.
func FuzzSavedState(f *testing.F) {
	in := makeInput[float32](4, 1, 2, 1, 30, 30, 4, 3, 0.7)
	spec := Spec{Clusters: 2, Sinks: 2, Window: 4, Block: 4, Spread: true, Top: 1, Keys: 3, Residual: 2}
	centres := centresOf[float32](f, spec, 2, 1, 4, 3)
	make3 := func(f testing.TB, i uint8) (State[float32], seal.Format, [32]byte) {
		if i%3 == 0 {
			small := SlotSpec{Budget: 16, Sinks: 2, Window: 4, Block: 4, Residual: 2}
			s, err := NewSlots[float32](small, 0, centres, 1, 2, 1, 4, 3)
			if err != nil {
				f.Fatal(err)
			}
			return s, slotsFormat, s.fingerprint()
		}
		a := &Attention[float32]{Specs: []Spec{spec}}
		if i%3 == 1 {
			a.Centres = centres
		}
		c := newCache(f, a, 1, 2, 1, 4, 3)
		return c, cacheFormat, c.fingerprint()
	}
	for i := range uint8(3) {
		for _, n := range []int{0, 7, 30} {
			s, format, _ := make3(f, i)
			steps(f, s, input[float32]{piece(in.q, 0, n), piece(in.k, 0, n), piece(in.v, 0, n)}, 8)
			b, err := s.AppendBinary(nil)
			if err != nil {
				f.Fatal(err)
			}
			_, body, err := format.Open(b)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(i, uint64(n), body)
		}
	}
	f.Add(uint8(1), uint64(1)<<31, []byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, i uint8, length uint64, body []byte) {
		s, format, print := make3(t, i)
		b := format.Begin(nil, seal.Header{Flag: 4, Fingerprint: print, Counts: make([]uint64, stateCounts)})
		binary.LittleEndian.PutUint64(b[len(b)-8*stateCounts:], length)
		b = seal.Close(append(b, body...), 0)
		type loader interface{ UnmarshalBinary([]byte) error }
		if err := s.(loader).UnmarshalBinary(b); err != nil {
			if !errors.Is(err, attention.ErrCorrupt) && !errors.Is(err, attention.ErrMismatch) {
				t.Fatal(err)
			}
			return
		}
		out := attention.NewSeq[float32](1, 2, 9, 3)
		if err := s.Step(out, piece(in.q, 0, 9), piece(in.k, 0, 9), piece(in.v, 0, 9)); err != nil {
			t.Fatal(err)
		}
		if c, err := s.AppendBinary(nil); err != nil || len(c) <= len(b)-8*4*2 {
			t.Fatalf("%d bytes after a step, %d before: %v", len(c), len(b), err)
		}
	})
}
