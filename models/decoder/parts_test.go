package decoder_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/decoder"
)

// Heads of a layer may remember in different ways. With a window over the whole text all of them are exact.
func TestParts(t *testing.T) {
	f, r := open(t, "llama")
	c := f.Config()
	cache := func(heads, kvHeads int) (decoder.State, error) {
		a := centroid.Attention{Specs: []centroid.Spec{centroid.Sketch{Clusters: 4, Chunk: 16, Share: 0.1, Sinks: 2,
			Window: 64}}}
		return centroid.NewChunks(&a, attention.Shape{Batch: 1, Heads: heads, Dim: c.HeadDim},
			attention.Shape{Batch: 1, Heads: kvHeads, Dim: c.HeadDim})
	}
	for _, quantised := range []bool{false, true} {
		m, err := decoder.New(f, decoder.Options{Quantised: quantised})
		if err != nil {
			t.Fatal(err)
		}
		for _, parts := range [][]decoder.Part{
			{{KVHeads: c.KVHeads}},
			{{KVHeads: 1}, {KVHeads: c.KVHeads - 1, New: cache}},
			{{KVHeads: 1, New: cache}, {KVHeads: c.KVHeads - 1}},
		} {
			memory := func() func(int) (decoder.State, error) {
				return m.Parts(func(int) []decoder.Part { return parts })
			}
			a := session(t, f, decoder.Options{Quantised: quantised}, memory())
			next(t, a, r.IDs[:20]...)
			fork := a.Fork()
			next(t, fork, 1, 2, 3)
			b := session(t, f, decoder.Options{Quantised: quantised}, memory())
			restore(t, b, a)
			x := slices.Clone(next(t, a, r.IDs[20:]...))
			if want := 1e-4; !quantised && !(furthest(x, r.Logits[3]) <= want) {
				t.Errorf("%d parts: %v from PyTorch", len(parts), furthest(x, r.Logits[3]))
			}
			plain := session(t, f, decoder.Options{Quantised: quantised}, nil)
			next(t, plain, r.IDs[:20]...)
			if d := furthest(x, next(t, plain, r.IDs[20:]...)); !(d <= 0.1) {
				t.Errorf("%d parts, quantised %v: %v from exact attention", len(parts), quantised, d)
			}
			if y := next(t, b, r.IDs[20:]...); !slices.Equal(x, y) {
				t.Errorf("%d parts, quantised %v: a restored session goes on differently", len(parts), quantised)
			}
			if fork.Len() != 23 || a.Len() != 40 || a.Bytes() == 0 {
				t.Errorf("%d and %d tokens, %d bytes", fork.Len(), a.Len(), a.Bytes())
			}
		}
	}
	m := must(t, f)
	for _, wrong := range [][]decoder.Part{nil, {{KVHeads: c.KVHeads + 1}}, {{KVHeads: 0}, {KVHeads: c.KVHeads}},
		{{KVHeads: 1}}} {
		if _, err := m.NewSession(m.Parts(func(int) []decoder.Part { return wrong })); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// restore makes b the text of a, and tries damaged states first.
func restore(t *testing.T, b, a *decoder.Session) {
	t.Helper()
	for i, st := range a.States() {
		data, err := st.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		u := b.States()[i].(interface{ UnmarshalBinary([]byte) error })
		for _, bad := range [][]byte{nil, data[:7], data[:len(data)-1], append(slices.Clone(data), 0)} {
			if u.UnmarshalBinary(bad) == nil {
				t.Errorf("%d of %d bytes were accepted", len(bad), len(data))
			}
		}
		if err := u.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Restore(a.Len(), b.States()); err != nil {
		t.Fatal(err)
	}
}
