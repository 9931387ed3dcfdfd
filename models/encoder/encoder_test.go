package encoder_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/encoder"
	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/safetensors"
	"github.com/randfeat/randfeat/models/weights"
)

// reference is one sequence of a tiny random model and its embeddings by PyTorch (peers/tiny.py).
type reference struct {
	IDs       []int32
	Mean, CLS []float32
}

// file is a tiny model whose configuration a test may change.
type file struct {
	weights.File
	config weights.Config
	more   string // a further tensor
}

func (f file) Names() []string {
	if f.more == "" {
		return f.File.Names()
	}
	names := append([]string{f.more}, f.File.Names()...)
	slices.Sort(names)
	return names
}

func (f file) Tensor(name string) (weights.Tensor, error) {
	if name == f.more {
		return weights.Tensor{Name: "stored.gate", Shape: []int{1}, Data: make([]byte, 4)}, nil
	}
	return f.File.Tensor(name)
}

func (f file) Config() weights.Config { return f.config }

func open(t *testing.T) (file, []reference) { return openKind(t, "bert") }

func openKind(t *testing.T, kind string) (file, []reference) {
	t.Helper()
	f, err := safetensors.Open("testdata/" + kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	b, err := os.ReadFile("testdata/" + kind + "/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var refs []reference
	if err := json.Unmarshal(b, &refs); err != nil {
		t.Fatal(err)
	}
	return file{File: f, config: f.Config()}, refs
}

// furthest is the largest difference of two embeddings.
func furthest(x, y []float32) float64 {
	var d float64
	for i, v := range x {
		d = max(d, math.Abs(float64(v-y[i])))
	}
	return d
}

// Embeddings equal those of PyTorch to 1e-5, alone and in ragged batches, whose other sequences change no bit.
func TestEqualsPyTorch(t *testing.T) {
	for _, c := range [][2]string{{"bert", "mean"}, {"bert", "cls"}, {"mpnet", "mean"}, {"mpnet", "cls"},
		{"roberta", "mean"}, {"roberta", "cls"}, {"modernbert", "mean"}, {"modernbert", "cls"}} {
		pooling := c[1]
		f, refs := openKind(t, c[0])
		f.config.Pooling = pooling
		m, err := encoder.New(f, encoder.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var batch [][]int32
		for _, r := range refs {
			batch = append(batch, r.IDs)
		}
		all, one := dense.New[float32](len(batch), m.Dim()), dense.New[float32](1, m.Dim())
		if err := m.Embed(all, batch); err != nil {
			t.Fatal(err)
		}
		for i, r := range refs {
			want := r.Mean
			if pooling == "cls" {
				want = r.CLS
			}
			if d := furthest(all.Row(i), want); !(d <= 1e-5) {
				t.Errorf("%s, %d tokens: %v from PyTorch", c, len(r.IDs), d)
			}
			if err := m.Embed(one, batch[i:i+1]); err != nil {
				t.Fatal(err)
			}
			for j, v := range one.Row(0) {
				if v != all.At(i, j) {
					t.Fatalf("%s: sequence %d alone has %v in column %d, in a batch %v", c, i, v, j, all.At(i, j))
				}
			}
		}
	}
}

// The outputs of classifiers of pairs equal those of PyTorch to 1e-5.
func TestScoresEqualPyTorch(t *testing.T) {
	for _, kind := range []string{"bert-rank", "roberta-rank", "modernbert-rank"} {
		f, err := safetensors.Open("testdata/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := encoder.New(f, encoder.Options{})
		if err != nil || m.Labels() != 1 {
			t.Fatal(m, err)
		}
		b, err := os.ReadFile("testdata/" + kind + "/reference.json")
		if err != nil {
			t.Fatal(err)
		}
		var refs []struct {
			IDs    []int32
			Second int
			Logits []float32
		}
		if err := json.Unmarshal(b, &refs); err != nil {
			t.Fatal(err)
		}
		var batch [][]int32
		var second []int
		for _, r := range refs {
			batch, second = append(batch, r.IDs), append(second, r.Second)
		}
		x := dense.New[float32](len(batch), 1)
		if err := m.Score(x, batch, second); err != nil {
			t.Fatal(err)
		}
		for i, r := range refs {
			if d := furthest(x.Row(i), r.Logits); !(d <= 1e-5) {
				t.Errorf("%s, %d tokens: %v, want %v", kind, len(r.IDs), x.Row(i), r.Logits)
			}
		}
	}
}

// Tensors and settings that the forward pass does not use are refused by their names in the file.
func TestUnusedIsRefused(t *testing.T) {
	f, _ := open(t)
	f.more = "encoder.layer.0.attention.self.gate.weight"
	if _, err := encoder.New(f, encoder.Options{}); !errors.Is(err, weights.ErrFormat) ||
		!strings.Contains(err.Error(), "tensor stored.gate has no place in the architecture bert") {
		t.Error(err)
	}
	f.more = "cls.predictions.bias" // of another task
	if _, err := encoder.New(f, encoder.Options{}); err != nil {
		t.Error(err)
	}
}

// Weights in 8 bits keep the direction of embeddings.
func TestQuantised(t *testing.T) {
	f, refs := open(t)
	m, err := encoder.New(f, encoder.Options{Quantised: true})
	if err != nil {
		t.Fatal(err)
	}
	got := dense.New[float32](1, m.Dim())
	for _, r := range refs {
		if err := m.Embed(got, [][]int32{r.IDs}); err != nil {
			t.Fatal(err)
		}
		if c := dense.Dot(got.Row(0), r.Mean); !(c > 0.999) {
			t.Errorf("%d tokens: cosine %v with float32", len(r.IDs), c)
		}
	}
}

// A caller's attention is asked for every layer, with the segments of the batch.
func TestAttentionIsPluggable(t *testing.T) {
	f, refs := open(t)
	layers := 0
	m, err := encoder.New(f, encoder.Options{Attention: func(l int, out, q, k, v attention.Seq[float32],
		segments []int32) error {
		layers++
		a := attention.Exact[float32]{Visibility: attention.Visibility{Segments: segments}}
		_, err := a.Forward(out, q, k, v)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := dense.New[float32](2, m.Dim())
	if err := m.Embed(got, [][]int32{refs[1].IDs, refs[2].IDs}); err != nil {
		t.Fatal(err)
	}
	if d := furthest(got.Row(1), refs[2].Mean); layers != f.config.Layers || !(d <= 1e-5) {
		t.Errorf("%d layers, %v from PyTorch", layers, d)
	}
}

// What a caller or a file gets wrong is an error that says where.
func TestErrors(t *testing.T) {
	f, refs := open(t)
	m, err := encoder.New(f, encoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dst := dense.New[float32](1, m.Dim())
	for _, ids := range [][]int32{{}, make([]int32, m.MaxTokens()+1), {60}, {-1}} {
		if err := m.Embed(dst, [][]int32{ids}); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%d tokens: %v", len(ids), err)
		}
	}
	if err := m.Embed(dst, [][]int32{refs[0].IDs, refs[1].IDs}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("two sequences for one row: %v", err)
	}
	for _, change := range []func(*weights.Config){
		func(c *weights.Config) { c.Layers = 3 },
		func(c *weights.Config) { c.Vocab = 61 },
		func(c *weights.Config) { c.FFN = 41 },
		func(c *weights.Config) { c.MaxPositions, c.Passage = 41, 41 },
		func(c *weights.Config) { c.Architecture = "llama" },
		func(c *weights.Config) { c.Architecture = "mpnet" },
	} {
		g := f
		change(&g.config)
		if _, err := encoder.New(g, encoder.Options{}); !errors.Is(err, weights.ErrFormat) {
			t.Errorf("%+v: %v", g.config, err)
		}
	}
}

var benchModel = flag.String("model", "", "`folder` of the model to measure")

// BenchmarkEmbed measures tokens per second at two lengths of texts.
//
//	go test ./encoder -run - -bench Embed -model all-MiniLM-L6-v2 -cpu 1,2
func BenchmarkEmbed(b *testing.B) {
	if *benchModel == "" {
		b.Skip("-model names no folder")
	}
	f, err := safetensors.Open(*benchModel)
	if err != nil {
		b.Fatal(err)
	}
	for _, quantised := range []bool{false, true} {
		m, err := encoder.New(f, encoder.Options{Quantised: quantised})
		if err != nil {
			b.Fatal(err)
		}
		name := "float32"
		if quantised {
			name = "quantised"
		}
		for _, n := range []int{128, 512} {
			batch := make([][]int32, 2048/n)
			for i := range batch {
				batch[i] = make([]int32, n)
				for j := range batch[i] {
					batch[i][j] = int32(1000 + (i*n+j)*7919%20000)
				}
			}
			dst := dense.New[float32](len(batch), m.Dim())
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				defer tiny.Rate(b, 2048)()
				for b.Loop() {
					if err := m.Embed(dst, batch); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
