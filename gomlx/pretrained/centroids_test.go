package pretrained

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Models with clusters of keys attend as the graph of one layer does and are the same after saving and loading.
func TestCentroids(t *testing.T) {
	ids := [][]int32{{5, 5, 2, 9, 9, 1, 0, 4}, {8, 6, 7, 5, 3, 0, 9, 10}, {1, 2, 3, 4, 5, 6, 7, 8}}
	for _, c := range []struct {
		name string
		spec rfx.Clusters
		more int // exact keys
	}{
		{"bert", rfx.Clusters{Clusters: 2, Block: 2, Sinks: 1}, 0},
		{"llama", rfx.Clusters{Clusters: 2, Block: 2, Sinks: 1, Spread: true}, 0},
		{"llama", rfx.Clusters{Clusters: 2, Block: 2, Sinks: 1, Spread: true}, 8},
		{"gemma3", rfx.Clusters{Clusters: 2, Block: 2}, 0},
		{"gpt2", rfx.Clusters{Block: 2, Sinks: 1}, 0},
	} {
		m, other := load(t, filepath.Join("testdata", c.name)), load(t, filepath.Join("testdata", c.name))
		a, err := other.Calibrate(open(), Plan{Centroids: &c.spec, Exact: c.more}, ids)
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
		var errs []float64
		for l, row := range rows {
			if other.exact(l) != m.Local(l) {
				t.Errorf("%s, layer %d: exact %v", c.name, l, other.exact(l))
			}
			if !m.Local(l) {
				errs = append(errs, row...)
			}
		}
		slices.Sort(errs)
		both, err := Compare(open(), m, other, ids)
		if err != nil {
			t.Fatal(err)
		}
		if c.more > 0 { // all keys there are
			if both.Attention > 1e-4 || both.Logits > 1e-4 {
				t.Errorf("%s: with all keys exact %+v", c.name, both)
			}
			_, err := other.Generate(open(), ids[0], 1, func([]float32) int32 { return 0 })
			if !errors.Is(err, ErrModel) {
				t.Errorf("generation with exact keys of clusters: %v", err)
			}
		} else if want := errs[len(errs)/2]; math.Abs(both.Attention-want) > 1e-4 || want < 1e-3 {
			t.Errorf("%s: error of attention %v, by the graph of one layer %v", c.name, both.Attention, want)
		}
		dir := filepath.Join(t.TempDir(), "out")
		if err := other.Save(dir); err != nil {
			t.Fatal(err)
		}
		again, err := Compare(open(), other, load(t, dir), ids)
		if err != nil {
			t.Fatal(err)
		}
		if again.Attention != 0 || again.Logits != 0 || !m.Causal() && again.CosineWorst < 1-1e-6 {
			t.Errorf("%s: after saving %+v", c.name, again)
		}
	}
}

// Clusters that do not fit a model are refused.
func TestBadCentroids(t *testing.T) {
	m := load(t, filepath.Join("testdata", "bert"))
	ids := [][]int32{{5, 5, 2, 9, 9, 1, 0, 4}}
	a, err := m.Calibrate(open(), Plan{Centroids: &rfx.Clusters{Clusters: 2, Block: 2}}, ids)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(a *Attention){
		"no spec":      func(a *Attention) { a.Centroids = nil },
		"few layers":   func(a *Attention) { a.Centres = a.Centres[:1] },
		"few heads":    func(a *Attention) { a.Centres = [][]*rfx.Centres{a.Centres[0], a.Centres[1][:1]} },
		"a window too": func(a *Attention) { a.Window = 1 },
		"exact keys":   func(a *Attention) { a.Exact = 1 },
		"no clusters":  func(a *Attention) { a.Centroids = &rfx.Clusters{Block: 2} },
		"no order":     func(a *Attention) { a.Centroids = &rfx.Clusters{Clusters: 2, Spread: true} },
	} {
		bad := a
		change(&bad)
		if err := m.SetAttention(bad); !errors.Is(err, ErrModel) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
