package models_test

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/repro/training/models"
)

var open = sync.OnceValue(func() compute.Backend {
	b, _, err := backend.Open("go")
	if err != nil {
		panic(err)
	}
	return b
})

func decoder(attention string) models.Config {
	return models.Config{Kind: models.Decoder, Vocab: 13, Length: 40, Layers: 2, Width: 16, Heads: 4, KVHeads: 2,
		Hidden: 24, Attention: attention}
}

func tokens(n int) []int32 {
	src := rng.Stream(5)
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(src.Uint64() % 13)
	}
	return x
}

// initial are random parameters, larger than those that training begins with, so that attention matters.
func initial(t testing.TB, c models.Config) *model.Store {
	t.Helper()
	store := model.NewStore()
	exec, err := model.NewExec(open(), store, func(s *model.Scope, x *graph.Node) *graph.Node { return c.Next(s, x) })
	if err != nil {
		t.Fatal(err)
	}
	x := tensors.FromFlatDataAndDimensions(tokens(c.Length), 1, c.Length)
	if err := compileAndFill(exec, store, c, []any{x}); err != nil {
		t.Fatal(err)
	}
	return store
}

func compileAndFill(exec *model.Exec, store *model.Store, c models.Config, batch []any) error {
	var at []shapes.Shape
	for _, x := range batch {
		at = append(at, x.(*tensors.Tensor).Shape())
	}
	if _, err := exec.Compile(at...); err != nil {
		return err
	}
	for v := range store.IterVariables() {
		if v.HasValue() {
			continue
		}
		w := c.Initial(v.Path(), v.Shape().Dimensions, 3)
		if strings.HasSuffix(v.Path(), "embeddings") {
			for i := range w {
				w[i] *= 50
			}
		}
		if err := v.SetValue(tensors.FromFlatDataAndDimensions(w, v.Shape().Dimensions...)); err != nil {
			return err
		}
	}
	return nil
}

func logits(t testing.TB, c models.Config, store *model.Store, x []int32) []float32 {
	t.Helper()
	out, err := model.CallOnce(open(), store, func(s *model.Scope, x *graph.Node) *graph.Node { return c.Next(s, x) },
		tensors.FromFlatDataAndDimensions(x, 1, len(x)))
	if err != nil {
		t.Fatal(err)
	}
	return tensors.MustCopyFlatData[float32](out)
}

// The state of constant size gives the logits of full recomputation at every token, after prompts of any length, with
// learned and with rotated positions, grouped queries, M and every kind of features.
func TestGenerationEqualsRecomputation(t *testing.T) {
	cases := []models.Config{decoder("positive:orthogonal:16"), decoder("oprf:simplex:16"), decoder("relu:iid:16"),
		decoder("lfk:iid:8"), decoder("centroid:3")}
	cases[0].Window, cases[0].Sinks = 4, 2
	cases[1].Rotary, cases[1].Sinks = true, 1
	cases[2].Dark = true
	cases[4].Window, cases[4].Sinks, cases[4].Block, cases[4].Rotary, cases[4].Dark = 2, 1, 4, true, true
	for _, c := range cases {
		t.Run(c.Attention, func(t *testing.T) {
			store := initial(t, c)
			text := tokens(33)
			want := logits(t, c, store, text)
			for _, prompt := range []int{1, 19} {
				at := prompt
				read := func(got []float32) int32 {
					for i, x := range got {
						if w := want[(at-1)*c.Vocab+i]; math.Abs(float64(x-w)) > 2e-4*(1+math.Abs(float64(w))) {
							t.Fatalf("prompt of %d: after %d tokens logit %d is %g, recomputed %g", prompt, at, i, x, w)
						}
					}
					at++
					return text[at-1]
				}
				got, err := c.Generate(open(), store, text[:prompt], len(text)-prompt, read)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, text[prompt:]) {
					t.Errorf("%v is not what was chosen", got)
				}
			}
		})
	}
}

// A token does not see what follows it, by any attention.
func TestCausal(t *testing.T) {
	for _, kind := range []string{"exact", "mean", "random", "self", "adaptive:orthogonal:8"} {
		c := decoder(kind)
		store := initial(t, c)
		x := tokens(24)
		a := logits(t, c, store, x)
		for i := 12; i < len(x); i++ {
			x[i] = (x[i] + 5) % 13
		}
		b := logits(t, c, store, x)
		for i := range 12 * c.Vocab {
			if math.Abs(float64(a[i]-b[i])) > 1e-5*(1+math.Abs(float64(a[i]))) {
				t.Fatalf("%s: logit %d of token %d changes from %g to %g with later tokens", kind, i%c.Vocab, i/c.Vocab,
					a[i], b[i])
			}
		}
		if a[23*c.Vocab] == b[23*c.Vocab] {
			t.Errorf("%s: the last logits do not see the change", kind)
		}
	}
}

func TestBadSizes(t *testing.T) {
	change := func(f func(*models.Config)) models.Config {
		c := decoder("exact")
		f(&c)
		return c
	}
	for word, c := range map[string]models.Config{
		"kind":       change(func(c *models.Config) { c.Kind = "nosuch" }),
		"vocabulary": change(func(c *models.Config) { c.Vocab = 0 }),
		"multiple":   change(func(c *models.Config) { c.Heads = 3 }),
		"key/value":  change(func(c *models.Config) { c.KVHeads = 3 }),
		"even":       change(func(c *models.Config) { c.Rotary, c.Heads, c.Width = true, 4, 12 }),
		"layers":     change(func(c *models.Config) { c.Layers = 0 }),
		"GiB":        change(func(c *models.Config) { c.Length = 1 << 20 }),
		"classes":    change(func(c *models.Config) { c.Kind = models.Classifier }),
		"patches":    {Kind: models.ViT, Side: 28, Patch: 5, Layers: 1, Width: 4, Heads: 1, Classes: 2},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
	c := decoder("exact")
	store := model.NewStore()
	for word, call := range map[string]func() ([]int32, error){
		"positions": func() ([]int32, error) { return c.Generate(open(), store, tokens(30), 12, layer.Greedy) },
		"prompt":    func() ([]int32, error) { return c.Generate(open(), store, nil, 1, layer.Greedy) },
		"token 13":  func() ([]int32, error) { return c.Generate(open(), store, []int32{13}, 1, layer.Greedy) },
	} {
		if _, err := call(); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
	_, err := model.CallOnce(open(), store, func(s *model.Scope, x *graph.Node) *graph.Node { return c.Next(s, x) },
		tensors.FromFlatDataAndDimensions(tokens(41), 1, 41))
	if err == nil || !strings.Contains(err.Error(), "41 tokens") {
		t.Errorf("41 tokens for 40 positions: %v", err)
	}
}
