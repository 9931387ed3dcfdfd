package choose

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/internal/heads"
)

// Plans for decoding keep the tolerance token by token on another text, read less than all keys where the tolerance
// allows it, and all of them where it does not.
func TestChooseDecode(t *testing.T) {
	const length, dim, group, steps = 1500, 32, 2, 200
	q, k, v := heads.Generate[float32](2*group, length, dim, 1)
	k, v = headRange(k, 0, 2), headRange(v, 0, 2)
	tq, tk, tv := heads.Generate[float32](2*group, length, dim, 2)
	tk, tv = headRange(tk, 0, 2), headRange(tv, 0, 2)
	vis := attention.Visibility{Causal: true}
	want := attention.NewSeq[float32](1, 2*group, length, dim)
	_, err := (&attention.Exact[float32]{Visibility: vis}).Forward(want, tq, tk, tv)
	must(t, err)
	keys := map[float64]float64{}
	for _, tol := range []float64{0.2, 1e-9} {
		c, err := Choose(Options{Tol: tol, Decode: true}, vis, 0, q, k, v)
		must(t, err)
		b, err := json.Marshal(c)
		must(t, err)
		saved := new(Choice)
		must(t, json.Unmarshal(b, saved))
		if !reflect.DeepEqual(c, saved) {
			t.Errorf("tol %v: another choice after saving", tol)
		}
		state, err := NewChunks(saved, q.Shape, v.Shape)
		must(t, err)
		out := attention.NewSeq[float32](1, 2*group, length, dim)
		must(t, state.Step(cut(out, 0, length-steps), cut(tq, 0, length-steps), cut(tk, 0, length-steps),
			cut(tv, 0, length-steps)))
		before := state.Report()
		for l := length - steps; l < length; l++ {
			must(t, state.Step(cut(out, l, l+1), cut(tq, l, l+1), cut(tk, l, l+1), cut(tv, l, l+1)))
		}
		after := state.Report()
		keys[tol] = float64(after.Exact-before.Exact) / float64(after.Rows-before.Rows)
		for h := range 2 {
			var diff, size float64
			for g := range group {
				for l := length - steps; l < length; l++ {
					for i, w := range want.Head(0, h*group+g).Row(l) {
						d := float64(out.Head(0, h*group+g).Row(l)[i] - w)
						diff, size = diff+d*d, size+float64(w*w)
					}
				}
			}
			if e := math.Sqrt(diff / size); e > max(tol, 1e-5) {
				t.Errorf("tol %v, head %d: error %v, expected %+v", tol, h, e, c.Heads[h].Expected)
			}
		}
	}
	if keys[0.2] > length/3 || keys[1e-9] < length*9/10 {
		t.Errorf("%v exact keys of a token by tolerance", keys)
	}
	for _, o := range []Options{{Decode: true, Budget: 3}, {Decode: true, Plans: []Plan{{Method: Exact}}}} {
		if _, err := Choose(o, vis, 0, q, k, v); !errors.Is(err, ErrChoice) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Choose(Options{Decode: true}, attention.Visibility{}, 0, q, k, v); !errors.Is(err, ErrChoice) {
		t.Errorf("not causal: %v", err)
	}
	for _, p := range []Plan{{Method: Exact},
		{Method: Centroid, Centroid: centroid.Prefix{Clusters: 8, Chunk: 64, Queries: 64, Keys: 8}}} {
		whole := &Choice{Causal: true, Dim: dim, ValueDim: dim, Heads: []Head{{Plan: p}}}
		_, err := NewChunks(whole, q.Shape, v.Shape)
		if !errors.Is(err, ErrChoice) || !strings.Contains(err.Error(), "choose with Decode") {
			t.Errorf("a choice for whole sequences, %v: %v", p, err)
		}
	}
}

// Padded texts, packed texts and queries of the last positions alone can be chosen on, and the tolerance holds on their
// visible keys.
func TestChooseDecodeVisible(t *testing.T) {
	const length, dim = 1000, 32
	q, k, v := heads.Generate[float32](4, length, dim, 1, 2)
	k, v = headRange(k, 0, 2), headRange(v, 0, 2)
	causal := attention.Visibility{Causal: true}
	padded, packed := causal, causal
	for i := range 2 * length {
		padded.KeyMask = append(padded.KeyMask, i < length || i%length >= 300)
		packed.Segments = append(packed.Segments, int32(i%length/400))
	}
	for _, c := range []struct {
		name string
		from int
		vis  attention.Visibility
	}{{"padding", 0, padded}, {"segments", 0, packed}, {"suffix", 400, causal}} {
		q := cut(q, c.from, length)
		choice, err := Choose(Options{Tol: 0.2, Decode: true}, c.vis, 0, q, k, v)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if _, err := NewChunks(choice, q.Shape, v.Shape); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		check, err := NewCheck(c.vis, 0, q, k, v, 400, 3)
		must(t, err)
		a, err := New(choice)
		must(t, err)
		a.Visibility = c.vis
		errs, _, err := check.Errors(a)
		must(t, err)
		for h, e := range errs {
			if e.Error > 0.2 || choice.Heads[h/2].Expected.Rows == 0 ||
				choice.Heads[h/2].Centroid.(centroid.Sketch).Share < 1e-20 {
				t.Errorf("%s, head %d: error %v, %+v", c.name, h, e.Error, choice.Heads[h/2])
			}
		}
	}
}
