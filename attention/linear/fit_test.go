package linear

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

func headStats[T dense.Float](t *testing.T, f family.Family, d, heads int) *HeadStats[T] {
	t.Helper()
	s, err := NewHeadStats[T](randfeat.Spec{Kernel: kernel.Attention(d), Family: f, Dim: d, M: 16, Seed: 7}, heads)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fitHeads[T dense.Float](t *testing.T, s *HeadStats[T]) []randfeat.Spec {
	t.Helper()
	specs, err := s.Fit()
	if err != nil {
		t.Fatal(err)
	}
	return specs
}

// Every fitting family, head by head: the result is that of randfeat.Fit on the queries of the group and the keys of
// the head; heads differ; padding does not count.
func TestHeadStatsFitPerHead(t *testing.T) {
	const d, kv, group, batch, length = 4, 2, 3, 2, 37
	q, k := randomSeq[float32](batch, kv*group, length, d, 0.4, 0.1, 1), randomSeq[float32](batch, kv, length, d, 0.3,
		-0.2, 2)
	for b := range batch { // heads with different data
		for h := range kv {
			m := k.Head(b, h)
			for l := range length {
				m.Row(l)[h] *= float32(1 + h)
			}
		}
	}
	mask := make([]bool, batch*length)
	for i := range mask {
		mask[i] = i%length < length-5*(1+i/length) // paddings of 5 and 10
	}
	poisoned := [2]attention.Seq[float32]{q, k}
	for i, s := range poisoned {
		s.Data = slices.Clone(s.Data)
		for b := range batch {
			for h := range s.Heads {
				for l := range length {
					if !mask[b*length+l] {
						s.Head(b, h).Row(l)[0] = float32(math.NaN())
					}
				}
			}
		}
		poisoned[i] = s
	}
	fitters := 0
	for _, info := range family.List() {
		f, err := family.Parse(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		s := headStats[float32](t, f, d, kv)
		if err := s.Add(poisoned[0], poisoned[1], mask, mask); err != nil {
			t.Fatalf("%s: %v", info.Name, err)
		}
		specs := fitHeads(t, s)
		for h, got := range specs {
			if !info.Fits {
				if want := got.WithSeed(7); !sameJSON(t, want, s.spec) {
					t.Errorf("%s: head %d changed without a fit", info.Name, h)
				}
				continue
			}
			var xs, ys [][]float64
			for b := range batch {
				for l := range length {
					if !mask[b*length+l] {
						continue
					}
					ys = append(ys, dense.Convert[float64](k.Head(b, h)).Row(l))
				}
			}
			for g := h * group; g < (h+1)*group; g++ {
				for b := range batch {
					for l := range length {
						if mask[b*length+l] {
							xs = append(xs, dense.Convert[float64](q.Head(b, g)).Row(l))
						}
					}
				}
			}
			want, err := randfeat.Fit(s.spec, dense.MustFromRows(xs), dense.MustFromRows(ys))
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, want.Family, got.Family) {
				t.Errorf("%s: head %d is fitted differently from its data alone", info.Name, h)
			}
			if _, err := randfeat.New[float32](got); err != nil {
				t.Errorf("%s: head %d: %v", info.Name, h, err)
			}
		}
		if info.Fits {
			fitters++
			if sameJSON(t, specs[0].Family, specs[1].Family) {
				t.Errorf("%s: both heads have the same parameters", info.Name)
			}
		}
	}
	if fitters < 8 {
		t.Errorf("only %d families were fitted", fitters)
	}
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	ja, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	jb, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(ja) == string(jb)
}

// Statistics of parts merge to those of the whole, up to rounding of the means.
func TestHeadStatsMerge(t *testing.T) {
	const d, kv = 3, 2
	q, k := randomSeq[float64](2, kv, 50, d, 0.5, 0.2, 3), randomSeq[float64](2, kv, 50, d, 0.5, -1, 4)
	first, second := q, q
	first.Len, second.Len = 20, 30
	second.Data = q.Data[20*d:]
	kFirst, kSecond := k, k
	kFirst.Len, kSecond.Len = 45, 5
	kSecond.Data = k.Data[45*d:]
	whole, a, b := headStats[float64](t, family.Adaptive{}, d, kv), headStats[float64](t, family.Adaptive{}, d, kv),
		headStats[float64](t, family.Adaptive{}, d, kv)
	for _, err := range []error{whole.Add(q, k, nil, nil), a.Add(first, kFirst, nil, nil),
		b.Add(second, kSecond, nil, nil), a.Merge(b)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want, got := fitHeads(t, whole), fitHeads(t, a)
	for h := range want {
		w, g := want[h].Family.(family.Adaptive), got[h].Family.(family.Adaptive)
		for i, c := range w.C {
			if math.Abs(c-g.C[i]) > 1e-12*(1+math.Abs(c)) || math.Abs(w.Rho[i]-g.Rho[i]) > 1e-12 {
				t.Errorf("head %d: centre %v and rho %v merged, %v and %v in one pass", h, g.C, g.Rho, w.C, w.Rho)
			}
		}
	}
	for name, o := range map[string]*HeadStats[float64]{
		"heads": headStats[float64](t, family.Adaptive{}, d, 3), "family": headStats[float64](t, family.Positive{}, d,
			kv), "dimension": headStats[float64](t, family.Adaptive{}, 5, kv),
	} {
		if err := a.Merge(o); !errors.Is(err, dense.ErrShape) && !errors.Is(err, randfeat.ErrSpec) {
			t.Errorf("statistics of another %s merged: %v", name, err)
		}
	}
}

func TestHeadStatsErrors(t *testing.T) {
	if _, err := NewHeadStats[float32](randfeat.Spec{Dim: 3}, 1); !errors.Is(err, randfeat.ErrSpec) {
		t.Errorf("no family: %v", err)
	}
	if _, err := NewHeadStats[float32](randfeat.Spec{Family: family.OPRF{}, Dim: 3}, 0); !errors.Is(err,
		dense.ErrShape) {
		t.Errorf("no heads: %v", err)
	}
	s := headStats[float64](t, family.OPRF{}, 3, 2)
	if _, err := s.Fit(); !errors.Is(err, family.ErrStats) {
		t.Errorf("fit without data: %v", err)
	}
	good := randomSeq[float64](1, 2, 4, 3, 1, 0, 1)
	bad := randomSeq[float64](1, 2, 4, 3, 1, 0, 1)
	bad.Head(0, 1).Row(2)[1] = math.Inf(1)
	for name, err := range map[string]error{
		"columns":     s.Add(randomSeq[float64](1, 2, 4, 2, 1, 0, 1), good, nil, nil),
		"query heads": s.Add(randomSeq[float64](1, 3, 4, 3, 1, 0, 1), good, nil, nil),
		"key heads":   s.Add(good, randomSeq[float64](1, 4, 4, 3, 1, 0, 1), nil, nil),
		"mask":        s.Add(good, good, nil, make([]bool, 3)),
	} {
		if !errors.Is(err, dense.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := s.Add(good, bad, nil, nil)
	want := "k: batch 0, head 1, position 2, column 1 is +Inf: " + dense.ErrNotFinite.Error()
	if !errors.Is(err, dense.ErrNotFinite) || err.Error() != want {
		t.Errorf("infinite key: %v", err)
	}
	if _, err := s.Fit(); !errors.Is(err, family.ErrStats) {
		t.Errorf("a refused call left data behind: %v", err)
	}
	var zero HeadStats[float64]
	_, fitted := zero.Fit()
	for name, err := range map[string]error{
		"merge with nil": s.Merge(nil), "merge with zero value": s.Merge(&zero), "merge into zero value": zero.Merge(s),
		"add to zero value": zero.Add(attention.Seq[float64]{}, attention.Seq[float64]{}, nil, nil),
		"fit of zero value": fitted,
	} {
		if !errors.Is(err, randfeat.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(HeadSpecs(randfeat.Spec{}, -1)); n != 0 {
		t.Errorf("%d specs for -1 heads", n)
	}
	if _, err := NewMaps[float32]([]randfeat.Spec{{Family: family.Positive{}, Dim: 2, M: 2},
		{Dim: 2, M: 2}}); !errors.Is(err, randfeat.ErrSpec) {
		t.Errorf("spec without a family: %v", err)
	}
}

// Heads have projections of their own, a seed redraws all of them, and seeds nearby share none.
func TestHeadSeeds(t *testing.T) {
	spec := randfeat.Spec{Kernel: kernel.Attention(4), Family: family.OPRF{A: -0.1}, Dim: 4, M: 8, Seed: 5}
	seen := map[[32]byte]string{}
	for name, specs := range map[string][]randfeat.Spec{
		"seed 5": HeadSpecs(spec, 4), "seed 6": redraw(HeadSpecs(spec, 4), 6), "seed 7": HeadSpecs(spec.WithSeed(7), 4),
	} {
		maps, err := NewMaps[float32](specs)
		if err != nil {
			t.Fatal(err)
		}
		for h, m := range maps {
			if other, twice := seen[m.Fingerprint()]; twice {
				t.Errorf("%s, head %d has the map of %s", name, h, other)
			}
			seen[m.Fingerprint()] = name
			if m.(*randfeat.Map[float32]).Spec().Family != spec.Family {
				t.Errorf("%s, head %d: family %v", name, h, m.(*randfeat.Map[float32]).Spec().Family)
			}
		}
		if name == "seed 5" && specs[0].Seed != 5 {
			t.Errorf("head 0 has seed %d, want that of the spec", specs[0].Seed)
		}
	}
	again, err := NewMaps[float32](HeadSpecs(spec, 4))
	if err != nil {
		t.Fatal(err)
	}
	if _, same := seen[again[3].Fingerprint()]; !same {
		t.Error("the same specs gave other maps")
	}
}

// All heads together warn once, of the rows that count.
func TestHeadStatsWarning(t *testing.T) {
	const d, length = 8, 16
	q, k := randomSeq[float32](1, 4, length, d, 0.4, 0, 1), randomSeq[float32](1, 2, length, d, 0.3, 0, 2)
	padded := make([]bool, length)
	for i := range padded {
		padded[i] = i > 0
	}
	for _, c := range []struct {
		f    family.Family
		mask []bool
		want string
	}{
		{family.Adaptive{}, nil, ""},
		{family.Adaptive{}, padded, family.Warning(family.Adaptive{}, length-1, d)},
		{family.OPRF{}, padded, ""},
		{family.Positive{}, padded, ""},
	} {
		s := headStats[float32](t, c.f, d, 2)
		if w := s.Warning(); w != "" {
			t.Errorf("%s without rows: %q", c.f.Name(), w)
		}
		if err := s.Add(q, k, nil, c.mask); err != nil {
			t.Fatal(err)
		}
		if got := s.Warning(); got != c.want {
			t.Errorf("%s, mask %v: %q, want %q", c.f.Name(), c.mask, got, c.want)
		}
	}
	if w := new(HeadStats[float32]).Warning(); w != "" {
		t.Errorf("the zero value: %q", w)
	}
}
