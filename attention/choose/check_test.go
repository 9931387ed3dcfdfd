package choose

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/heads"
	"github.com/randfeat/randfeat/internal/rng"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func normals(batch, heads, length, dim int, scale float64, seed uint64) attention.Seq[float32] {
	s := attention.NewSeq[float32](batch, heads, length, dim)
	x := make([]float64, len(s.Data))
	rng.Normals(x, rng.Stream(seed))
	for i, v := range x {
		s.Data[i] = float32(scale * v)
	}
	return s
}

// visibilities of two batches of n positions, with and without what hides keys.
func visibilities(n int) map[string]attention.Visibility {
	mask, segments := make([]bool, 2*n), make([]int32, 2*n)
	for i := range mask {
		mask[i] = i%n > 2 && i%5 != 0 && (i < n || i%n < n/2)
		segments[i] = int32(i % n / (n/3 + 1))
	}
	return map[string]attention.Visibility{
		"all": {}, "causal": {Causal: true}, "mask": {KeyMask: mask}, "causal mask": {Causal: true, KeyMask: mask},
		"segments": {Segments: segments}, "causal segments": {Causal: true, Segments: segments, KeyMask: mask},
	}
}

// The exact rows of a check are those of exact attention over everything, rows that see no key are left out, and the
// error of an output is that over the sampled rows by definition.
func TestCheck(t *testing.T) {
	const n, d, dv = 60, 6, 5
	q, k, v := normals(2, 4, n, d, 1, 1), normals(2, 2, n, d, 1, 2),
		normals(2, 2, n, dv, 1, 3)
	for name, vis := range visibilities(n) {
		c, err := NewCheck(vis, 0.7, q, k, v, 20, 9)
		must(t, err)
		exact := &attention.Exact[float32]{Visibility: vis, Scale: 0.7}
		want := attention.NewSeq[float32](2, 4, n, dv)
		report, err := exact.Forward(want, q, k, v)
		must(t, err)
		errs, all, err := c.Errors(exact)
		must(t, err)
		if len(errs) != 4 || all.Error > 1e-6 {
			t.Errorf("%s: exact attention has the error %v", name, all)
		}
		seen := 0
		other := normals(2, 4, n, dv, 0.1, 4)
		var diff, size float64
		for b := range 2 {
			for _, i := range c.Rows() {
				if dense.Norm2(want.Head(b, 0).Row(i)) > 0 {
					seen++
				}
				for l, x := range want.Head(b, 1).Row(i) {
					if dense.Norm2(want.Head(b, 1).Row(i)) > 0 {
						diff += math.Pow(float64(other.Head(b, 1).Row(i)[l]-x), 2)
						size += float64(x) * float64(x)
					}
				}
			}
		}
		if errs[0].Rows != seen || name == "all" && seen != 40 || report.Empty == 0 && seen != 40 {
			t.Errorf("%s: %d rows, %d see a key", name, errs[0].Rows, seen)
		}
		errs, _, err = c.ErrorsOf(other)
		must(t, err)
		if e := math.Sqrt(diff / size); math.Abs(errs[1].Error-e) > 1e-6*e || !(errs[1].Low < e && e < errs[1].High) {
			t.Errorf("%s: error %v, want %v", name, errs[1], e)
		}
	}
}

// Rows are spread over the sequence, different for every seed, and no landmarks.
func TestCheckRows(t *testing.T) {
	const length, n = 512, 48
	mark := map[int]bool{}
	for _, n := range []int{fewLandmarks, 32} {
		for m := range n {
			mark[(2*m+1)*length/(2*n)] = true
		}
	}
	a, b := sampleRows(length, n, 0, length, 1, nil), sampleRows(length, n, 0, length, 2, nil)
	if slices.Equal(a, b) || len(a) != n || !slices.IsSorted(a) {
		t.Errorf("rows %v and %v", a, b)
	}
	for i, r := range a {
		if mark[r] || r < i*length/n || r >= (i+1)*length/n {
			t.Errorf("row %d of part %d", r, i)
		}
	}
	if r := sampleRows(3, 10, 0, 3, 1, nil); !slices.Equal(r, []int{0, 1, 2}) {
		t.Errorf("rows %v of three", r)
	}
}

// The interval holds the error over all rows about as often as it says, over heads and samples: 90 %, and no less than
// 80 % of 240.
func TestCheckInterval(t *testing.T) {
	if testing.Short() {
		t.Skip("many samples")
	}
	const n = 12
	q, k, v := heads.Generate[float32](n, 256, 32, 1)
	a := &centroid.Attention{Specs: []centroid.Spec{centroid.Blocks{Clusters: 24, Queries: 8, Keys: 32}}}
	out := attention.NewSeq[float32](1, n, 256, 32)
	_, err := a.Forward(out, q, k, v)
	must(t, err)
	whole, err := NewCheck(attention.Visibility{}, 0, q, k, v, 256, 0)
	must(t, err)
	truth, _, err := whole.ErrorsOf(out)
	must(t, err)
	inside, total, bias := 0, 0, 0.0
	for seed := range uint64(20) {
		c, err := NewCheck(attention.Visibility{}, 0, q, k, v, 48, seed)
		must(t, err)
		errs, _, err := c.ErrorsOf(out)
		must(t, err)
		for h, e := range errs {
			if total++; e.Low <= truth[h].Error && truth[h].Error <= e.High {
				inside++
			}
			bias += math.Log(e.Error / truth[h].Error)
		}
	}
	if share := float64(inside) / float64(total); share < 0.8 {
		t.Errorf("%.2f of %d intervals hold the error", share, total)
	}
	if bias /= float64(total); math.Abs(bias) > 0.05 {
		t.Errorf("estimates are off by %.3f in the mean logarithm", bias)
	}
}

func TestCheckErrors(t *testing.T) {
	q, k := normals(1, 1, 8, 4, 1, 1), normals(1, 1, 8, 4, 1, 2)
	if _, err := NewCheck(attention.Visibility{}, 0, q, k, k, -1, 0); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
	if _, err := NewCheck(attention.Visibility{}, 0, q, normals(1, 1, 8, 5, 1, 2), k, 0, 0); !errors.Is(err,
		dense.ErrShape) {
		t.Error(err)
	}
	c, err := NewCheck(attention.Visibility{}, 0, q, k, k, 0, 0)
	must(t, err)
	if _, _, err := c.ErrorsOf(normals(1, 1, 7, 4, 1, 2)); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
	k.Data[5] = float32(math.NaN())
	if _, err := NewCheck(attention.Visibility{}, 0, q, k, k, 0, 0); !errors.Is(err, dense.ErrNotFinite) {
		t.Error(err)
	}
}
