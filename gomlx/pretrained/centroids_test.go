package pretrained

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention/centroid"
)

// An encoder with clusters of keys attends as package centroid does, is the same after saving and loading, and what
// does not fit it is refused.
func TestCentroids(t *testing.T) {
	m, other := load(t, filepath.Join("testdata", "bert")), load(t, filepath.Join("testdata", "bert"))
	ids := [][]int32{{5, 5, 2, 9, 9, 1, 0, 4}, {8, 6, 7, 5, 3, 0, 9, 10}, {1, 2, 3, 4, 5, 6, 7, 8}}
	plan := Plan{Centroids: &centroid.Spec{Clusters: 2, Block: 2, Sinks: 1}}
	a, err := other.Calibrate(open(), plan, ids)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.SetAttention(a); err != nil {
		t.Fatal(err)
	}
	rows, err := m.Errors(open(), a, ids)
	if err != nil {
		t.Fatal(err)
	}
	errs := slices.Concat(rows...)
	slices.Sort(errs)
	c, err := Compare(open(), m, other, ids)
	if err != nil {
		t.Fatal(err)
	}
	if want := errs[len(errs)/2]; math.Abs(c.Attention-want) > 1e-4 || want < 1e-3 {
		t.Errorf("error of attention %v, by the library %v", c.Attention, want)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := other.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Compare(open(), other, load(t, dir), ids)
	if err != nil {
		t.Fatal(err)
	}
	if again.Attention != 0 || again.CosineWorst < 1-1e-6 {
		t.Errorf("after saving %+v", again)
	}
	if _, err := load(t, filepath.Join("testdata", "gpt2")).Calibrate(open(), plan, ids); !errors.Is(err, ErrModel) {
		t.Errorf("a decoder: %v", err)
	}
	for name, change := range map[string]func(a *Attention){
		"no spec":      func(a *Attention) { a.Centroids = nil },
		"few layers":   func(a *Attention) { a.Centres = a.Centres[:1] },
		"few heads":    func(a *Attention) { a.Centres = [][]*centroid.Centres{a.Centres[0], a.Centres[1][:1]} },
		"a window too": func(a *Attention) { a.Window = 1 },
		"top clusters": func(a *Attention) { a.Centroids = &centroid.Spec{Clusters: 2, Top: 1} },
	} {
		bad := a
		change(&bad)
		if err := m.SetAttention(bad); !errors.Is(err, ErrModel) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
