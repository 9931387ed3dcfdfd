package pretrained

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

var open = sync.OnceValue(func() compute.Backend {
	b, _, err := backend.Open("go")
	if err != nil {
		panic(err)
	}
	return b
})

// folders are the tiny models of testdata/make.py, one of every architecture.
var folders = []string{"bert", "gpt2", "llama", "gemma", "gemma3"}

func load(t testing.TB, dir string) *Model {
	t.Helper()
	m, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func reference(t *testing.T, name string) (ids [][]int32, hidden [][][]float64) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name, "hidden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		IDs    [][]int32     `json:"ids"`
		Hidden [][][]float64 `json:"hidden"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r.IDs, r.Hidden
}

// call runs a graph on ids and a mask of equal rows.
func call(t *testing.T, m *Model, ids [][]int32, mask [][]bool,
	fn func(s *model.Scope, o Output) []*graph.Node) []*tensors.Tensor {
	t.Helper()
	store := model.NewStore()
	if err := m.Fill(store); err != nil {
		t.Fatal(err)
	}
	out, err := model.CallOnceN(open(), store, func(s *model.Scope, ids, mask *graph.Node) []*graph.Node {
		return fn(s, m.Forward(s, ids, mask))
	}, ids, mask)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func hiddenOf(_ *model.Scope, o Output) []*graph.Node { return []*graph.Node{o.Hidden} }

func ones(ids [][]int32) [][]bool {
	var out [][]bool
	for _, row := range ids {
		out = append(out, slices.Repeat([]bool{true}, len(row)))
	}
	return out
}

// Hidden states equal the output of an independent implementation with the same weights.
func TestEqualsOthers(t *testing.T) {
	for _, name := range folders {
		m := load(t, filepath.Join("testdata", name))
		ids, want := reference(t, name)
		got := tensors.MustCopyFlatData[float32](call(t, m, ids, ones(ids), hiddenOf)[0])
		var worst, largest float64
		for b := range want {
			for l := range want[b] {
				for c, w := range want[b][l] {
					worst = max(worst, math.Abs(w-float64(got[(b*len(want[b])+l)*m.Width+c])))
					largest = max(largest, math.Abs(w))
				}
			}
		}
		if !(worst < 1e-5*largest) { // both computed in float32
			t.Errorf("%s: hidden states up to %.1f differ by %.1e", name, largest, worst)
		}
	}
}

// Padding changes nothing before it, and a decoder sees no later token.
func TestMaskAndOrder(t *testing.T) {
	for _, name := range folders {
		m := load(t, filepath.Join("testdata", name))
		ids, _ := reference(t, name)
		for _, converted := range []bool{false, true} {
			if converted {
				convertAll(t, m, ids, "positive", 0, 0)
			}
			short := [][]int32{ids[0][:5], ids[1][:5]}
			want := tensors.MustCopyFlatData[float32](call(t, m, short, ones(short), hiddenOf)[0])
			mask := ones(ids)
			if !m.Causal() {
				for i := range mask {
					for j := 5; j < len(mask[i]); j++ {
						mask[i][j] = false
					}
				}
			}
			got := tensors.MustCopyFlatData[float32](call(t, m, ids, mask, hiddenOf)[0])
			for b := range short {
				for i := range 5 * m.Width {
					g, w := got[b*len(ids[0])*m.Width+i], want[b*5*m.Width+i]
					if math.Abs(float64(g-w)) > 1e-5 {
						t.Fatalf("%s, converted %v: hidden state %d is %v, without what follows %v", name, converted, i, g, w)
					}
				}
			}
		}
	}
}

func convertAll(t *testing.T, m *Model, ids [][]int32, name string, window, sinks int) {
	t.Helper()
	plan := Plan{Spec: randfeat.Spec{Coupling: coupling.Orthogonal{}, M: 8, Seed: 3}, Window: window, Sinks: sinks}
	var err error
	switch name {
	case "none":
		plan.Centroids = &rfx.Clusters{Window: window, Sinks: sinks, Block: 2}
	case "centroid":
		plan.Centroids = &rfx.Clusters{Clusters: 3, Window: window, Sinks: sinks, Block: 2, Spread: m.Causal()}
	default:
		if plan.Spec.Family, err = family.Parse(name); err != nil {
			t.Fatal(err)
		}
	}
	a, err := m.Calibrate(open(), plan, ids)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.SetAttention(a); err != nil {
		t.Fatal(err)
	}
}

// A converted model attends as package attention does with the specs of its file; after saving and loading its hidden
// states have the same bits.
func TestConverted(t *testing.T) {
	for _, name := range folders {
		for _, how := range []struct {
			family        string
			window, sinks int
		}{{"oprf", 0, 0}, {"adaptive", 2, 1}, {"dark", 0, 0}} {
			m := load(t, filepath.Join("testdata", name))
			ids, _ := reference(t, name)
			convertAll(t, m, ids, how.family, how.window, how.sinks)
			out := call(t, m, ids, ones(ids), func(_ *model.Scope, o Output) []*graph.Node {
				all := []*graph.Node{o.Hidden}
				for _, h := range o.Heads {
					all = append(all, h.Q, h.K, h.V, h.Out)
				}
				return all
			})
			compared := 0
			for l, specs := range m.Attention.Heads {
				if len(specs) == 0 {
					continue
				}
				maps, err := linear.NewMaps[float32](specs)
				if err != nil {
					t.Fatal(err)
				}
				var s [4]seq
				for i := range s {
					if s[i], err = fromTensor(out[1+4*l+i]); err != nil {
						t.Fatal(err)
					}
				}
				a := linear.Attention[float32]{Visibility: attention.Visibility{Causal: m.Causal()}, Maps: maps,
					Window: how.window, Sinks: how.sinks}
				got := attention.NewSeq[float32](len(ids), m.Heads, len(ids[0]), m.HeadDim)
				if _, err := a.Forward(got, s[0], s[1], s[2]); err != nil {
					t.Fatal(err)
				}
				for i, w := range got.Data {
					if g := s[3].Data[i]; math.Abs(float64(g-w)) > 1e-4*(1+math.Abs(float64(w))) {
						t.Fatalf("%s %s layer %d: %v, package attention has %v", name, how.family, l, g, w)
					}
					compared++
				}
			}
			if compared == 0 {
				t.Errorf("%s: no layer was converted", name)
			}
			dir := filepath.Join(t.TempDir(), "converted")
			if err := m.Save(dir); err != nil {
				t.Fatal(err)
			}
			again := call(t, load(t, dir), ids, ones(ids), hiddenOf)[0]
			if !slices.Equal(tensors.MustCopyFlatData[float32](again), tensors.MustCopyFlatData[float32](out[0])) {
				t.Errorf("%s %s: another model after saving and loading", name, how.family)
			}
			if err := m.Save(dir); err == nil {
				t.Error("a folder with a model was written over")
			}
		}
	}
}

// The errors that a conversion states fall with the number of features, and are those of the heads.
func TestErrors(t *testing.T) {
	m := load(t, "testdata/llama")
	ids, _ := reference(t, "llama")
	var last float64 = math.Inf(1)
	for _, n := range []int{4, 64, 1024} {
		a, err := m.Calibrate(open(), Plan{Spec: randfeat.Spec{Family: family.OPRF{}, M: n, Seed: 1}}, ids)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := m.Errors(open(), a, ids)
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for _, row := range rows {
			for _, e := range row {
				sum += e / float64(m.Layers*m.Heads)
			}
		}
		if !(sum < 0.6*last) {
			t.Errorf("%d projections: mean error %.3f after %.3f", n, sum, last)
		}
		last = sum
	}
}

// Family dark begins with the kernel of the model: its errors are those of its base. With a temperature it whitens.
func TestDarkBegins(t *testing.T) {
	m := load(t, "testdata/llama")
	ids, _ := reference(t, "llama")
	errs := func(f family.Family) [][]float64 {
		a, err := m.Calibrate(open(), Plan{Spec: randfeat.Spec{Family: f, M: 8, Seed: 1}}, ids)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := m.Errors(open(), a, ids)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	base := errs(family.OPRF{})
	whitened := errs(family.DARK{Base: family.OPRF{}, Temperature: 0.125})
	for l, row := range errs(family.DARK{Base: family.OPRF{}}) {
		for h, e := range row {
			if math.Abs(e-base[l][h]) > 1e-5 || math.Abs(e-whitened[l][h]) < 1e-5 {
				t.Errorf("layer %d, head %d: error %v, of the base %v, whitened %v", l, h, e, base[l][h],
					whitened[l][h])
			}
		}
	}
}

// Comparing a model with itself finds no difference; with a conversion, some.
func TestCompare(t *testing.T) {
	for _, name := range []string{"bert", "gpt2"} {
		m, other := load(t, filepath.Join("testdata", name)), load(t, filepath.Join("testdata", name))
		ids, _ := reference(t, name)
		ids = append(ids, []int32{5, 5, 2, 9, 9, 1, 0, 4}, []int32{8, 6, 7, 5, 3, 0, 9, 10})
		same, err := Compare(open(), m, other, ids)
		if err != nil {
			t.Fatal(err)
		}
		convertAll(t, other, ids, "positive", 0, 0)
		differ, err := Compare(open(), m, other, ids)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := m.Errors(open(), other.Attention, ids)
		if err != nil {
			t.Fatal(err)
		}
		errs := slices.Concat(rows...)
		slices.Sort(errs)
		if same.Attention != 0 || math.Abs(differ.Attention-errs[len(errs)/2]) > 1e-4 {
			t.Errorf("%s: error of attention %v, by the library %v; beside itself %v", name, differ.Attention,
				errs[len(errs)/2], same.Attention)
		}
		if name == "bert" {
			if same.CosineWorst < 1-1e-5 || same.Rank != 1 || !(differ.CosineWorst < 1-1e-5) {
				t.Errorf("bert: itself %+v, converted %+v", same, differ)
			}
			holds(t, "cosine", differ.CosineInterval, differ.Cosine)
			holds(t, "rank", differ.RankInterval, differ.Rank)
			continue
		}
		if same.Logits != 0 || same.Perplexity[0] != same.Perplexity[1] || !(differ.Logits > 1e-3) ||
			differ.Cache[0] != 4*2*2*8*8 || differ.Cache[1] != 4*2*2*8*(4+2) {
			t.Errorf("gpt2: itself %+v, converted %+v", same, differ)
		}
		holds(t, "ratio", differ.RatioInterval, differ.Perplexity[1]/differ.Perplexity[0])
		if same.RatioInterval != [2]float64{1, 1} {
			t.Errorf("gpt2 beside itself: %v", same.RatioInterval)
		}
	}
}

func holds(t *testing.T, name string, interval [2]float64, value float64) {
	t.Helper()
	if !(interval[0] < interval[1] && interval[0] <= value && value <= interval[1]) {
		t.Errorf("%s: %v in %v", name, value, interval)
	}
}

func TestBadModels(t *testing.T) {
	edit := func(change func(config map[string]any, f *tensorfile.File)) string {
		dir := t.TempDir()
		var config map[string]any
		b, err := os.ReadFile("testdata/llama/config.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &config); err != nil {
			t.Fatal(err)
		}
		if b, err = os.ReadFile("testdata/llama/model.safetensors"); err != nil {
			t.Fatal(err)
		}
		f, err := tensorfile.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		change(config, f)
		b, _ = json.Marshal(config)
		if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(filepath.Join(dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if _, err := f.WriteTo(out); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	set := func(key string, value any) string {
		return edit(func(c map[string]any, _ *tensorfile.File) { c[key] = value })
	}
	for _, c := range []struct{ dir, says string }{
		{edit(func(_ map[string]any, f *tensorfile.File) { f.Tensors = f.Tensors[1:] }), "has no tensor"},
		{edit(func(_ map[string]any, f *tensorfile.File) { f.Tensors[0].DType = "I32" }), "elements of type I32"},
		{edit(func(_ map[string]any, f *tensorfile.File) { copy(f.Tensors[0].Data, []byte{0, 0, 0xc0, 0x7f}) }), "NaN"},
		{edit(func(_ map[string]any, f *tensorfile.File) {
			f.Tensors = append(f.Tensors, tensorfile.Tensor{Name: "extra", DType: "F32", Shape: []int{0}})
		}), ""},
		{set("model_type", "mamba"), `model_type "mamba"`},
		{set("hidden_size", 16), "config.json says"},
		{set("num_key_value_heads", 3), "not a multiple"},
		{set("hidden_act", "relu"), `activation "relu"`},
		{set("num_hidden_layers", 1<<40), "layers"},
		{set("rope_scaling", map[string]any{"rope_type": "yarn", "factor": 4}), "yarn"},
		{set("attn_logit_softcapping", 50), "capped"},
		{t.TempDir(), "config.json"},
	} {
		m, err := Load(c.dir)
		if c.says == "" {
			if err != nil || !slices.Equal(m.Unused, []string{"extra"}) {
				t.Errorf("a tensor without a place: %v", err)
			}
			continue
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want an error with %q, got %v", c.says, err)
		}
	}
	m := load(t, "testdata/llama")
	for says, ids := range map[string][]int32{"id 99": {1, 99}, "positions for 16": slices.Repeat([]int32{1}, 17)} {
		if _, err := m.Errors(open(), Attention{}, [][]int32{ids}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want an error with %q, got %v", says, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, name := range folders {
		b, err := os.ReadFile(filepath.Join("testdata", name, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := parseConfig(b); err == nil && c.Layers <= 64 {
			c.weights()
		}
	})
}
