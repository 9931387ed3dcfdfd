package attention

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/stattest"
)

// visible is the rule of Visibility and Window for one query and key, written without blocks and ranges.
func visible(vis *Visibility, window, b, lenQ, lenK, i, j int) bool {
	if vis.KeyMask != nil && !vis.KeyMask[b*lenK+j] {
		return false
	}
	q0, q1, k0, k1 := 0, lenQ, 0, lenK
	if vis.Segments != nil {
		qs := vis.Segments[b*lenQ : (b+1)*lenQ]
		ks := vis.keySegments()[b*lenK : (b+1)*lenK]
		if qs[i] != ks[j] {
			return false
		}
		for q0 = i; q0 > 0 && qs[q0-1] == qs[i]; q0-- {
		}
		for q1 = i + 1; q1 < lenQ && qs[q1] == qs[i]; q1++ {
		}
		for k0 = j; k0 > 0 && ks[k0-1] == ks[j]; k0-- {
		}
		for k1 = j + 1; k1 < lenK && ks[k1] == ks[j]; k1++ {
		}
	}
	p, at := i-q0+(k1-k0)-(q1-q0), j-k0
	switch {
	case vis.Causal && at > p:
		return false
	case window > 0 && at <= p-window:
		return false
	case window > 0 && at >= p+window:
		return false
	}
	return true
}

// naiveProbabilities are the attention weights of one batch and query head: an L×L matrix in float64.
func naiveProbabilities[T dense.Float](a *Exact[T], q, k Seq[T], b, h int) [][]float64 {
	scale := a.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.Dim))
	}
	qs, ks := q.Head(b, h), k.Head(b, h*k.Heads/q.Heads)
	p := make([][]float64, q.Len)
	for i := range p {
		p[i] = make([]float64, k.Len)
		top := math.Inf(-1)
		for j := range p[i] {
			p[i][j] = math.Inf(-1)
			if visible(&a.Visibility, a.Window, b, q.Len, k.Len, i, j) {
				var s float64
				for c, x := range qs.Row(i) {
					s += float64(x) * float64(ks.At(j, c))
				}
				p[i][j] = s * scale
				top = max(top, p[i][j])
			}
		}
		if math.IsInf(top, -1) {
			clear(p[i])
			continue
		}
		var sum float64
		for j, s := range p[i] {
			p[i][j] = math.Exp(s - top)
			sum += p[i][j]
		}
		for j := range p[i] {
			p[i][j] /= sum
		}
	}
	return p
}

func naiveExact[T dense.Float](a *Exact[T], q, k, v Seq[T]) Seq[T] {
	out := NewSeq[T](q.Batch, q.Heads, q.Len, v.Dim)
	for b := range q.Batch {
		for h := range q.Heads {
			vs, dst := v.Head(b, h*v.Heads/q.Heads), out.Head(b, h)
			for i, row := range naiveProbabilities(a, q, k, b, h) {
				for c := range v.Dim {
					var s float64
					for j, w := range row {
						s += w * float64(vs.At(j, c))
					}
					dst.Set(i, c, T(s))
				}
			}
		}
	}
	return out
}

func gaussianSeq[T dense.Float](seed uint64, batch, heads, length, dim int) Seq[T] {
	r := rand.New(rand.NewPCG(seed, 1))
	s := NewSeq[T](batch, heads, length, dim)
	for i := range s.Data {
		s.Data[i] = T(r.NormFloat64())
	}
	return s
}

// maxDiff is the largest difference relative to the largest element of want.
func maxDiff[T dense.Float](t *testing.T, got, want Seq[T]) float64 {
	t.Helper()
	var diff, top float64
	for b := range want.Batch {
		for h := range want.Heads {
			x, y := got.Head(b, h), want.Head(b, h)
			for i := range y.Rows {
				for c, w := range y.Row(i) {
					top = max(top, math.Abs(float64(w)))
					e := math.Abs(float64(x.At(i, c)) - float64(w))
					if math.IsNaN(e) {
						t.Fatalf("batch %d, head %d, row %d, column %d: %v", b, h, i, c, x.At(i, c))
					}
					diff = max(diff, e)
				}
			}
		}
	}
	if top == 0 {
		return diff
	}
	return diff / top
}

func sameBits[T dense.Float](got, want Seq[T]) error {
	for b := range want.Batch {
		for h := range want.Heads {
			x, y := got.Head(b, h), want.Head(b, h)
			for i := range y.Rows {
				for c, w := range y.Row(i) {
					if g := x.At(i, c); math.Float64bits(float64(g)) != math.Float64bits(float64(w)) {
						return fmt.Errorf("batch %d, head %d, row %d, column %d: %v, want %v", b, h, i, c, g, w)
					}
				}
			}
		}
	}
	return nil
}

// tolerance of sums of a few hundred values of order 1.
func tolerance[T dense.Float]() float64 {
	if _, double := any(T(0)).(float64); double {
		return 1e-13
	}
	return 2e-6
}

// exactCase is a shape with everything that visibility allows.
type exactCase struct {
	name                    string
	batch, heads, kvHeads   int
	lenQ, lenK, dim, valDim int
	causal                  bool
	window                  int
	mask, segments          bool
	scale                   float64
}

// exactCases are off the grid of blocks and tiles, with one axis after the other.
var exactCases = []exactCase{
	{name: "one key", batch: 1, heads: 1, kvHeads: 1, lenQ: 1, lenK: 1, dim: 3, valDim: 2},
	{name: "plain", batch: 2, heads: 2, kvHeads: 2, lenQ: 137, lenK: 137, dim: 16, valDim: 24},
	{name: "causal", batch: 1, heads: 2, kvHeads: 2, lenQ: 300, lenK: 300, dim: 20, valDim: 20, causal: true},
	{name: "more keys", batch: 1, heads: 1, kvHeads: 1, lenQ: 70, lenK: 290, dim: 8, valDim: 9, causal: true},
	{name: "more queries", batch: 1, heads: 1, kvHeads: 1, lenQ: 290, lenK: 70, dim: 8, valDim: 9, causal: true},
	{name: "decode", batch: 2, heads: 4, kvHeads: 2, lenQ: 1, lenK: 261, dim: 16, valDim: 8, causal: true},
	{name: "groups", batch: 2, heads: 6, kvHeads: 2, lenQ: 150, lenK: 150, dim: 12, valDim: 5, causal: true,
		scale: 0.7},
	{name: "window", batch: 1, heads: 2, kvHeads: 1, lenQ: 401, lenK: 401, dim: 8, valDim: 8, causal: true,
		window: 150},
	{name: "short window", batch: 1, heads: 1, kvHeads: 1, lenQ: 290, lenK: 290, dim: 8, valDim: 8, causal: true,
		window: 1},
	{name: "band", batch: 1, heads: 2, kvHeads: 2, lenQ: 300, lenK: 300, dim: 8, valDim: 8, window: 40},
	{name: "band of more queries", batch: 1, heads: 1, kvHeads: 1, lenQ: 300, lenK: 130, dim: 8, valDim: 8,
		window: 131},
	{name: "mask", batch: 3, heads: 2, kvHeads: 2, lenQ: 270, lenK: 270, dim: 8, valDim: 8, mask: true},
	{name: "segments", batch: 2, heads: 2, kvHeads: 1, lenQ: 333, lenK: 333, dim: 8, valDim: 8, causal: true,
		segments: true},
	{name: "everything", batch: 2, heads: 4, kvHeads: 2, lenQ: 333, lenK: 333, dim: 8, valDim: 8, causal: true,
		segments: true, mask: true, window: 33},
}

func exactOf[T dense.Float](c exactCase) (a *Exact[T], q, k, v Seq[T]) {
	q = gaussianSeq[T](1, c.batch, c.heads, c.lenQ, c.dim)
	k = gaussianSeq[T](2, c.batch, c.kvHeads, c.lenK, c.dim)
	v = gaussianSeq[T](3, c.batch, c.kvHeads, c.lenK, c.valDim)
	a = &Exact[T]{Scale: c.scale, Window: c.window, Visibility: Visibility{Causal: c.causal}}
	r := rand.New(rand.NewPCG(4, 4))
	if c.mask {
		a.KeyMask = make([]bool, c.batch*c.lenK)
		for b := range c.batch { // random keys and a tail of a whole block; batch 1 has none
			for j := range c.lenK {
				a.KeyMask[b*c.lenK+j] = b != 1 && j < c.lenK-140*(b%2+1)/2 && r.IntN(3) > 0
			}
		}
	}
	if c.segments {
		id := int32(5)
		for range c.batch {
			for i := range c.lenQ {
				if r.IntN(60) == 0 || i == 0 {
					id++
				}
				a.Segments = append(a.Segments, id)
			}
		}
	}
	return a, q, k, v
}

func TestExactEqualsNaive(t *testing.T) {
	stattest.SkipRace(t)
	for _, c := range exactCases {
		t.Run(c.name, func(t *testing.T) {
			t.Run("float32", func(t *testing.T) { checkForward[float32](t, c) })
			t.Run("float64", func(t *testing.T) { checkForward[float64](t, c) })
		})
	}
}

func checkForward[T dense.Float](t *testing.T, c exactCase) {
	a, q, k, v := exactOf[T](c)
	out := gaussianSeq[T](9, c.batch, c.heads, c.lenQ, c.valDim)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	if e := maxDiff(t, out, naiveExact(a, q, k, v)); e > tolerance[T]() {
		t.Errorf("differs from the L×L matrix by %.2g", e)
	}
}

func TestExactGolden(t *testing.T) {
	raw, err := os.ReadFile("../testdata/closed_forms.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID       string
			Inputs   json.RawMessage
			Expected json.RawMessage
			RTol     float64
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, c := range file.Cases {
		if !strings.HasPrefix(c.ID, "attention.exact#") {
			continue
		}
		found++
		var in struct {
			Q      [][]float64 `json:"Q"`
			K      [][]float64 `json:"K_"`
			V      [][]float64 `json:"V_"`
			Causal bool        `json:"causal"`
		}
		var want [][]float64
		if err := errors.Join(json.Unmarshal(c.Inputs, &in), json.Unmarshal(c.Expected, &want)); err != nil {
			t.Fatal(err)
		}
		q, k, v := dense.MustFromRows(in.Q), dense.MustFromRows(in.K), dense.MustFromRows(in.V)
		out := dense.New[float64](q.Rows, v.Cols)
		a := Exact[float64]{Visibility: Visibility{Causal: in.Causal}}
		if _, err := a.Forward(One(out), One(q), One(k), One(v)); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			for j, w := range want[i] {
				if math.Abs(out.At(i, j)-w) > c.RTol*math.Abs(w) {
					t.Errorf("%s: row %d, column %d is %v, want %v", c.ID, i, j, out.At(i, j), w)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no case of attention.exact in the file")
	}
}

// forwarder is any attention of this package that needs no maps.
type forwarder[T dense.Float] = Attention[Seq[T]]

// methods are the ones under test, with the given visibility.
func methods[T dense.Float](vis Visibility) map[string]forwarder[T] {
	return map[string]forwarder[T]{
		"exact":    &Exact[T]{Visibility: vis},
		"window":   &Exact[T]{Visibility: vis, Window: 37},
		"constant": &Constant[T]{Visibility: vis},
	}
}

func forward[T dense.Float](t *testing.T, f forwarder[T], q, k, v Seq[T]) Seq[T] {
	t.Helper()
	out := gaussianSeq[T](99, q.Batch, q.Heads, q.Len, v.Dim)
	if _, err := f.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	return out
}

// slice is the positions [lo, hi) of one batch.
func slice[T dense.Float](s Seq[T], b, lo, hi int) Seq[T] {
	s.Data = s.Data[b*s.StrideB+lo*s.StrideL:]
	s.Batch, s.Len = 1, hi-lo
	return s
}

func TestGroupsEqualRepeatedHeads(t *testing.T) {
	q := gaussianSeq[float32](1, 2, 6, 130, 16)
	k, v := gaussianSeq[float32](2, 2, 2, 130, 16), gaussianSeq[float32](3, 2, 2, 130, 8)
	repeat := func(s Seq[float32]) Seq[float32] {
		r := NewSeq[float32](s.Batch, 6, s.Len, s.Dim)
		for b := range s.Batch {
			for h := range 6 {
				copy(r.Head(b, h).Data, s.Head(b, h/3).Data)
			}
		}
		return r
	}
	for name, f := range methods[float32](Visibility{Causal: true}) {
		if err := sameBits(forward(t, f, q, k, v), forward(t, f, q, repeat(k), repeat(v))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPackedEqualsSeparate(t *testing.T) {
	lens := []int{1, 150, 40, 129}
	var ids []int32
	for n, l := range lens {
		for range l {
			ids = append(ids, int32(9-n))
		}
	}
	q, k, v := gaussianSeq[float32](1, 1, 2, len(ids), 16), gaussianSeq[float32](2, 1, 1, len(ids), 16),
		gaussianSeq[float32](3, 1, 1, len(ids), 8)
	for _, causal := range []bool{false, true} {
		alone := methods[float32](Visibility{Causal: causal})
		for name, f := range methods[float32](Visibility{Causal: causal, Segments: ids}) {
			got := forward(t, f, q, k, v)
			at := 0
			for _, l := range lens {
				want := forward(t, alone[name], slice(q, 0, at, at+l), slice(k, 0, at, at+l), slice(v, 0, at, at+l))
				if err := sameBits(slice(got, 0, at, at+l), want); err != nil {
					t.Errorf("%s, causal %v, sequence at %d: %v", name, causal, at, err)
				}
				at += l
			}
		}
	}
}

func TestKeySegments(t *testing.T) {
	// Queries of 7 see the keys of 7, wherever these are; id 8 has no keys.
	vis := Visibility{Segments: []int32{7, 7, 8}, KeySegments: []int32{5, 5, 7, 7, 7}}
	q, k, v := gaussianSeq[float64](1, 1, 1, 3, 4), gaussianSeq[float64](2, 1, 1, 5, 4),
		gaussianSeq[float64](3, 1, 1, 5, 2)
	plain := methods[float64](Visibility{})
	for name, f := range methods[float64](vis) {
		got := forward(t, f, q, k, v)
		if err := sameBits(slice(got, 0, 0, 2), forward(t, plain[name], slice(q, 0, 0, 2), slice(k, 0, 2, 5),
			slice(v, 0, 2, 5))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := sameBits(slice(got, 0, 2, 3), NewSeq[float64](1, 1, 1, 2)); err != nil {
			t.Errorf("%s, no keys: %v", name, err)
		}
	}
}

func TestFutureLeavesThePastBitForBit(t *testing.T) {
	const length = 300
	q, k, v := gaussianSeq[float32](1, 1, 1, length, 16), gaussianSeq[float32](2, 1, 1, length, 16),
		gaussianSeq[float32](3, 1, 1, length, 8)
	for _, cut := range []int{1, 31, 100, 128, 255} {
		k2, v2 := k, v
		k2.Data, v2.Data = append([]float32(nil), k.Data...), append([]float32(nil), v.Data...)
		for i := range k2.Data[cut*16:] {
			k2.Data[cut*16+i] *= -1000
		}
		for i := range v2.Data[cut*8:] {
			v2.Data[cut*8+i] *= 1e30
		}
		for name, f := range methods[float32](Visibility{Causal: true}) {
			if err := sameBits(slice(forward(t, f, q, k2, v2), 0, 0, cut),
				slice(forward(t, f, q, k, v), 0, 0, cut)); err != nil {
				t.Errorf("%s, future from %d: %v", name, cut, err)
			}
		}
	}
}

func TestWindowOfAllKeysIsNone(t *testing.T) {
	q, k, v := gaussianSeq[float32](1, 1, 2, 200, 16), gaussianSeq[float32](2, 1, 2, 260, 16),
		gaussianSeq[float32](3, 1, 2, 260, 8)
	for _, causal := range []bool{false, true} {
		want := forward(t, &Exact[float32]{Visibility: Visibility{Causal: causal}}, q, k, v)
		for _, w := range []int{260, 261, math.MaxInt} {
			got := forward(t, &Exact[float32]{Visibility: Visibility{Causal: causal}, Window: w}, q, k, v)
			if err := sameBits(got, want); err != nil {
				t.Errorf("causal %v, window %d: %v", causal, w, err)
			}
		}
	}
}

func TestEmptyAndMasked(t *testing.T) {
	for name, f := range methods[float32](Visibility{}) {
		for _, s := range [][2]int{{0, 0}, {0, 5}, {5, 0}} {
			q, k, v := gaussianSeq[float32](1, 2, 2, s[0], 4), gaussianSeq[float32](2, 2, 2, s[1], 4),
				gaussianSeq[float32](3, 2, 2, s[1], 3)
			if err := sameBits(forward(t, f, q, k, v), NewSeq[float32](2, 2, s[0], 3)); err != nil {
				t.Errorf("%s, %d queries on %d keys: %v", name, s[0], s[1], err)
			}
		}
	}
	q, k, v := gaussianSeq[float32](1, 1, 1, 140, 4), gaussianSeq[float32](2, 1, 1, 140, 4),
		gaussianSeq[float32](3, 1, 1, 140, 3)
	for name, f := range methods[float32](Visibility{KeyMask: make([]bool, 140)}) {
		if err := sameBits(forward(t, f, q, k, v), NewSeq[float32](1, 1, 140, 3)); err != nil {
			t.Errorf("%s, all masked: %v", name, err)
		}
	}
	// One key takes all the weight: a copy of its value.
	q, k, v = gaussianSeq[float32](1, 1, 1, 1, 4), gaussianSeq[float32](2, 1, 1, 1, 4),
		gaussianSeq[float32](3, 1, 1, 1, 3)
	for name, f := range methods[float32](Visibility{}) {
		if e := maxDiff(t, forward(t, f, q, k, v), v); e > 1e-6 {
			t.Errorf("%s: one key changes its value by %.2g", name, e)
		}
	}
}

// hiddenKeys masks some keys, among them whole blocks, and puts others into segments that no query has.
func hiddenKeys(batch, length int) Visibility {
	n := batch * length
	vis := Visibility{KeyMask: make([]bool, n), Segments: make([]int32, n), KeySegments: make([]int32, n)}
	for i := range n {
		l := i % length
		vis.KeyMask[i] = l%7 != 3 && (l < length/2 || l >= length/2+length/4)
		vis.Segments[i], vis.KeySegments[i] = 1, 1
		if l < length/5 {
			vis.KeySegments[i] = 9
		} else if l >= length*9/10 {
			vis.Segments[i], vis.KeySegments[i] = 2, 2
		}
	}
	return vis
}

// fillHidden sets the rows of hidden keys.
func fillHidden[T dense.Float](vis *Visibility, x T, seqs ...Seq[T]) {
	for _, s := range seqs {
		for b := range s.Batch {
			for h := range s.Heads {
				for j := range s.Len {
					if i := b*s.Len + j; !vis.KeyMask[i] || vis.KeySegments != nil && vis.KeySegments[i] == 9 {
						for c := range s.Dim {
							s.Head(b, h).Set(j, c, x)
						}
					}
				}
			}
		}
	}
}

// What hidden keys and their values hold does not change a bit of outputs and gradients, whether it is looked for or
// not.
func TestHiddenKeysMayHoldAnything(t *testing.T) {
	stattest.SkipRace(t)
	t.Run("float32", checkHidden[float32])
	t.Run("float64", checkHidden[float64])
}

func checkHidden[T dense.Float](t *testing.T) {
	const length, d, dv = 700, 5, 3 // more than a block of keys
	for _, lenQ := range []int{length, 3} {
		for _, causal := range []bool{false, true} {
			vis := hiddenKeys(2, length)
			vis.Causal = causal
			if lenQ != length { // decoding
				vis.Segments, vis.KeySegments = nil, nil
			}
			q := gaussianSeq[T](1, 2, 4, lenQ, d)
			k, v := gaussianSeq[T](2, 2, 2, length, d), gaussianSeq[T](3, 2, 2, length, dv)
			list := map[string]forwarder[T]{
				"exact":              &Exact[T]{Visibility: vis},
				"exact unchecked":    &Exact[T]{Visibility: vis, Unchecked: true},
				"exact window":       &Exact[T]{Visibility: vis, Window: 90},
				"exact keep":         &Exact[T]{Visibility: vis, Keep: new(Normalisers[T])},
				"constant":           &Constant[T]{Visibility: vis},
				"constant unchecked": &Constant[T]{Visibility: vis, Unchecked: true},
			}
			for name, f := range list {
				run := func(x T) []Seq[T] {
					fillHidden(&vis, x, k, v)
					all := []Seq[T]{forward(t, f, q, k, v)}
					if a, ok := f.(*Exact[T]); ok {
						g := backward(t, a, all[0], q, k, v)
						all = append(all, g[:]...)
					}
					return all
				}
				want := run(0)
				for _, x := range []float64{math.NaN(), math.Inf(-1)} {
					got := run(T(x))
					for i, s := range got {
						if err := sameBits(s, want[i]); err != nil {
							t.Errorf("%s, %d queries, causal %v, hidden %v, result %d: %v", name, lenQ, causal, x, i,
								err)
						}
						if err := s.CheckFinite(name); err != nil {
							t.Error(err)
						}
					}
					if len(got) > 1 {
						zero := [2]Seq[T]{NewSeq[T](2, 2, length, d), NewSeq[T](2, 2, length, dv)}
						for i, z := range zero {
							copy(z.Data, got[2+i].Data)
							fillHidden(&vis, 0, z)
							if err := sameBits(got[2+i], z); err != nil {
								t.Errorf("%s: the gradient of a hidden key is not 0: %v", name, err)
							}
						}
					}
				}
			}
			// A key that counts is still looked at.
			fillHidden(&vis, T(math.NaN()), k, v)
			v.Head(1, 1).Set(200, 2, T(math.Inf(1)))
			for name, f := range methods[T](vis) {
				_, err := f.Forward(NewSeq[T](2, 4, lenQ, dv), q, k, v)
				if !errors.Is(err, dense.ErrNotFinite) || !strings.Contains(err.Error(),
					"v: batch 1, head 1, position 200, column 2") {
					t.Errorf("%s: error %v", name, err)
				}
			}
		}
	}
}

func TestLargeQueriesStayFinite(t *testing.T) {
	q, k, v := gaussianSeq[float32](1, 1, 1, 200, 64), gaussianSeq[float32](2, 1, 1, 200, 64),
		gaussianSeq[float32](3, 1, 1, 200, 8)
	for i := range q.Data {
		q.Data[i] *= 1000
		k.Data[i] *= 1000
	}
	a := &Exact[float32]{Visibility: Visibility{Causal: true}}
	out := forward(t, a, q, k, v)
	dq, dk, dv := NewSeq[float32](1, 1, 200, 64), NewSeq[float32](1, 1, 200, 64), NewSeq[float32](1, 1, 200, 8)
	if err := a.Backward(dq, dk, dv, v, out, q, k, v); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Seq[float32]{"out": out, "dq": dq, "dk": dk, "dv": dv} {
		if err := s.CheckFinite(name); err != nil {
			t.Error(err)
		}
	}
	// Weights add up to one, so outputs stay between the extreme values.
	for c := range 8 {
		lo, hi := math.Inf(1), math.Inf(-1)
		for i := range 200 {
			lo, hi = min(lo, float64(v.Head(0, 0).At(i, c))), max(hi, float64(v.Head(0, 0).At(i, c)))
			if o := float64(out.Head(0, 0).At(i, c)); o < lo-1e-5 || o > hi+1e-5 {
				t.Fatalf("row %d, column %d is %v, values are in [%v, %v]", i, c, o, lo, hi)
			}
		}
	}
}

func TestLongSumsInFloat32(t *testing.T) {
	// Equal weights on equal values. A float32 sum of 2^17 times 0.1 ends at 13107, where every addition rounds 0.1 by
	// 0.4 %; sums of 4096 end at 410, where that is 0.006 %.
	const length, value = 1 << 17, 0.1
	q, k := NewSeq[float32](1, 1, 1, 2), NewSeq[float32](1, 1, length, 2)
	v := NewSeq[float32](1, 1, length, 1)
	for j := range v.Data {
		v.Data[j] = value
	}
	out := forward(t, &Exact[float32]{}, q, k, v)
	if e := math.Abs(float64(out.Data[0])/value - 1); e > 1e-4 {
		t.Errorf("the mean of %d equal values is off by %.2g", length, e)
	}
}

// Rows whose shift comes from the keys before, whatever the later ones are, have the softmax, and bits that depend on
// nothing but the keys they see: scores rise within what a shift allows, beyond it and beyond the range of numbers, on
// both sides of where blocks of keys begin.
func TestShiftsOfEarlierKeys(t *testing.T) {
	const length, d = 1100, 8
	for _, rise := range []float32{3, 30, 300} {
		for _, causal := range []bool{false, true} {
			a := &Exact[float32]{Visibility: Visibility{Causal: causal}, Scale: 1}
			q, k, v := gaussianSeq[float32](1, 1, 1, length, d), gaussianSeq[float32](2, 1, 1, length, d),
				gaussianSeq[float32](3, 1, 1, length, d)
			for _, j := range []int{512, 700, 1023, 1024} { // some queries find these far above, others far below
				for c := range d {
					k.Head(0, 0).Row(j)[c] = rise * q.Head(0, 0).Row(length - 1)[c] / d
				}
			}
			out := forward[float32](t, a, q, k, v)
			if e := maxDiff(t, out, naiveExact(a, q, k, v)); e > 1e-5 {
				t.Errorf("rise %v, causal %v: off by %v", rise, causal, e)
			}
			if !causal {
				continue
			}
			for _, n := range []int{545, 1025, 1056} {
				part := forward[float32](t, a, slice(q, 0, 0, n), slice(k, 0, 0, n), slice(v, 0, 0, n))
				if err := sameBits(part, slice(out, 0, 0, n)); err != nil {
					t.Errorf("rise %v, the first %d: %v", rise, n, err)
				}
			}
		}
	}
}

func TestNotFiniteIsNamed(t *testing.T) {
	bad := func(s Seq[float32], x float32) Seq[float32] {
		s.Data = append([]float32(nil), s.Data...)
		s.Head(1, 1).Set(17, 2, x)
		return s
	}
	q, k, v := gaussianSeq[float32](1, 2, 2, 40, 4), gaussianSeq[float32](2, 2, 2, 40, 4),
		gaussianSeq[float32](3, 2, 2, 40, 4)
	out, nan, inf := NewSeq[float32](2, 2, 40, 4), float32(math.NaN()), float32(math.Inf(1))
	for name, f := range methods[float32](Visibility{}) {
		calls := map[string]error{}
		_, calls["v"] = f.Forward(out, q, k, bad(v, nan))
		if e, ok := f.(*Exact[float32]); ok {
			_, calls["q"] = f.Forward(out, bad(q, inf), k, v)
			_, calls["k"] = f.Forward(out, q, bad(k, -inf), v)
			calls["dout"] = e.Backward(q, k, v, bad(out, nan), out, q, k, v)
		}
		for arg, err := range calls {
			where := arg + ": batch 1, head 1, position 17, column 2"
			if !errors.Is(err, dense.ErrNotFinite) || !strings.Contains(err.Error(), where) {
				t.Errorf("%s: error %v does not say %q", name, err, where)
			}
		}
	}
	if _, err := (&Exact[float32]{Unchecked: true}).Forward(out, q, k, bad(v, nan)); err != nil {
		t.Errorf("unchecked: %v", err)
	}
	// Sums of squares of finite float64 numbers may overflow.
	big := gaussianSeq[float64](1, 1, 1, 3, 2)
	big.Data[3] = 1e200
	if _, err := (&Exact[float64]{}).Forward(NewSeq[float64](1, 1, 3, 2), gaussianSeq[float64](2, 1, 1, 3, 2),
		gaussianSeq[float64](3, 1, 1, 3, 2), big); err != nil {
		t.Errorf("large but finite: %v", err)
	}
}

func TestWrongShapes(t *testing.T) {
	s := func(b, h, l, d int) Seq[float32] { return NewSeq[float32](b, h, l, d) }
	for name, c := range map[string]struct{ out, q, k, v Seq[float32] }{
		"batch": {s(1, 2, 3, 4), s(1, 2, 3, 4), s(2, 2, 3, 4), s(2, 2, 3, 4)},
		"dim":   {s(1, 2, 3, 4), s(1, 2, 3, 4), s(1, 2, 3, 5), s(1, 2, 3, 4)},
		"heads": {s(1, 3, 3, 4), s(1, 3, 3, 4), s(1, 2, 3, 4), s(1, 2, 3, 4)},
		"none":  {s(1, 3, 3, 4), s(1, 3, 3, 4), s(1, 0, 3, 4), s(1, 0, 3, 4)},
		"len":   {s(1, 2, 3, 4), s(1, 2, 3, 4), s(1, 2, 3, 4), s(1, 2, 4, 4)},
		"out":   {s(1, 2, 3, 4), s(1, 2, 3, 4), s(1, 2, 3, 4), s(1, 2, 3, 5)},
		"data": {s(1, 2, 3, 4), Seq[float32]{Shape: Shape{1, 2, 3, 4}, StrideB: 24, StrideH: 12, StrideL: 4},
			s(1, 2, 3, 4), s(1, 2, 3, 4)},
	} {
		for method, f := range methods[float32](Visibility{}) {
			if _, err := f.Forward(c.out, c.q, c.k, c.v); !errors.Is(err, dense.ErrShape) {
				t.Errorf("%s, %s: error %v", name, method, err)
			}
		}
	}
	x := s(1, 1, 3, 4)
	for name, a := range map[string]*Exact[float32]{
		"window": {Window: -1}, "mask": {Visibility: Visibility{KeyMask: make([]bool, 2)}},
		"scale": {Scale: math.NaN()},
	} {
		if _, err := a.Forward(x, x, x, x); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := a.Backward(x, x, x, x, x, x, x, x); err == nil {
			t.Errorf("%s: no error in Backward", name)
		}
	}
	a := &Exact[float32]{}
	if err := a.Backward(x, x, s(1, 1, 3, 5), x, x, x, x, x); !errors.Is(err, dense.ErrShape) {
		t.Errorf("wrong dv: error %v", err)
	}
	a.Keep = new(Normalisers[float32])
	if err := a.Backward(x, x, x, x, x, x, x, x); !errors.Is(err, dense.ErrShape) {
		t.Errorf("normalisers of no Forward: error %v", err)
	}
}

// Sequences of impossible sizes cannot be made.
func TestNewSeqPanics(t *testing.T) {
	for _, s := range [][4]int{{-1, 1, 1, 1}, {-1, -1, 1, 1}, {1, 1, -2, 0}, {1 << 32, 1 << 32, 1, 1},
		{1, 1 << 31, 1 << 31, 16}} {
		for name, f := range map[string]func(a, b, c, d int) Seq[float32]{"NewSeq": NewSeq[float32],
			"NewSeqBLHD": NewSeqBLHD[float32]} {
			func() {
				defer func() {
					if e := recover(); e == nil || !strings.HasPrefix(fmt.Sprint(e), "attention: ") {
						t.Errorf("%s of %d: %v", name, s, e)
					}
				}()
				f(s[0], s[1], s[2], s[3])
			}()
		}
	}
}

// blhd is a copy in the layout batch, position, head, dim.
func blhd[T dense.Float](s Seq[T]) Seq[T] {
	r := NewSeqBLHD[T](s.Batch, s.Len, s.Heads, s.Dim)
	for b := range s.Batch {
		for h := range s.Heads {
			for l := range s.Len {
				copy(r.Head(b, h).Row(l), s.Head(b, h).Row(l))
			}
		}
	}
	return r
}

func TestLayoutDoesNotMatter(t *testing.T) {
	q, k, v := gaussianSeq[float32](1, 2, 4, 150, 16), gaussianSeq[float32](2, 2, 2, 150, 16),
		gaussianSeq[float32](3, 2, 2, 150, 8)
	for name, f := range methods[float32](Visibility{Causal: true}) {
		want := forward(t, f, q, k, v)
		out := NewSeqBLHD[float32](2, 150, 4, 8)
		if _, err := f.Forward(out, blhd(q), blhd(k), blhd(v)); err != nil {
			t.Fatal(err)
		}
		if err := sameBits(out, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if a, ok := f.(*Exact[float32]); ok {
			g := backward(t, a, want, q, k, v)
			dq, dk, dv := NewSeqBLHD[float32](2, 150, 4, 16), NewSeqBLHD[float32](2, 150, 2, 16),
				NewSeqBLHD[float32](2, 150, 2, 8)
			if err := a.Backward(dq, dk, dv, blhd(gradOf(want)), out, blhd(q), blhd(k), blhd(v)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(sameBits(dq, g[0]), sameBits(dk, g[1]), sameBits(dv, g[2])); err != nil {
				t.Errorf("%s backward: %v", name, err)
			}
		}
	}
}

func TestSameBitsOnAnyNumberOfThreads(t *testing.T) {
	for _, c := range exactCases {
		a, q, k, v := exactOf[float32](c)
		run := func(threads int) (Seq[float32], [3]Seq[float32]) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			// Enough batches to pay for the goroutines are too slow here; a small grain is as good.
			a.calls = par.Pool[any]{}
			tab, err := kern.Chosen[float32]()
			if err != nil {
				t.Fatal(err)
			}
			small, slot := *tab, a.calls.Get()
			small.Grain = 1
			par.Held[exactCall[float32]](slot).tab = &small
			a.calls.Put(slot)
			out := forward(t, a, q, k, v)
			return out, backward(t, a, out, q, k, v)
		}
		out, g := run(1)
		for _, threads := range []int{2, 8} {
			out2, g2 := run(threads)
			if err := errors.Join(sameBits(out2, out), sameBits(g2[0], g[0]), sameBits(g2[1], g[1]),
				sameBits(g2[2], g[2])); err != nil {
				t.Errorf("%s, %d threads: %v", c.name, threads, err)
			}
		}
	}
}

func TestExactDoesNotAllocate(t *testing.T) {
	stattest.SkipRace(t) // sync.Pool forgets at random under the race detector
	for _, causal := range []bool{false, true} {
		q, k, v := gaussianSeq[float32](1, 1, 2, 300, 16), gaussianSeq[float32](2, 1, 1, 300, 16),
			gaussianSeq[float32](3, 1, 1, 300, 8)
		out, dq, dk, dv := NewSeq[float32](1, 2, 300, 8), NewSeq[float32](1, 2, 300, 16),
			NewSeq[float32](1, 1, 300, 16), NewSeq[float32](1, 1, 300, 8)
		mask := make([]bool, 300)
		for j := range 290 {
			mask[j] = true
		}
		a := &Exact[float32]{Visibility: Visibility{Causal: causal, KeyMask: mask}, Window: 200}
		if n := testing.AllocsPerRun(5, func() { _, _ = a.Forward(out, q, k, v) }); n > 0 {
			t.Errorf("causal %v: Forward allocates %v times", causal, n)
		}
		if n := testing.AllocsPerRun(5, func() { _ = a.Backward(dq, dk, dv, out, out, q, k, v) }); n > 0 {
			t.Errorf("causal %v: Backward allocates %v times", causal, n)
		}
	}
}

func BenchmarkExact(b *testing.B) {
	for _, length := range []int{2048, 4096, 8192, 16384} {
		for _, causal := range []bool{false, true} {
			q, k, v := gaussianSeq[float32](1, 1, 1, length, 64), gaussianSeq[float32](2, 1, 1, length, 64),
				gaussianSeq[float32](3, 1, 1, length, 64)
			out, dq, dk, dv := NewSeq[float32](1, 1, length, 64), NewSeq[float32](1, 1, length, 64),
				NewSeq[float32](1, 1, length, 64), NewSeq[float32](1, 1, length, 64)
			flops := 4 * 64 * float64(length) * float64(length)
			if causal {
				flops /= 2
			}
			name := fmt.Sprintf("L=%d/causal=%v", length, causal)
			keep := &Exact[float32]{Visibility: Visibility{Causal: causal}, Keep: new(Normalisers[float32])}
			b.Run(name, func(b *testing.B) {
				a := &Exact[float32]{Visibility: Visibility{Causal: causal}}
				for b.Loop() {
					if _, err := a.Forward(out, q, k, v); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
			if _, err := keep.Forward(out, q, k, v); err != nil {
				b.Fatal(err)
			}
			for _, kept := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/backward/kept=%v", name, kept), func(b *testing.B) {
					a := keep
					if !kept {
						a = &Exact[float32]{Visibility: Visibility{Causal: causal}}
					}
					for b.Loop() {
						if err := a.Backward(dq, dk, dv, out, out, q, k, v); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(2.5*flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}
