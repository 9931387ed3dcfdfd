package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

// minilm is all-MiniLM-L6-v2, an encoder like BERT (Devlin et al. 2018, arXiv:1810.04805; Wang et al. 2020,
// arXiv:2002.10957), whose embedding of a text is the normalised mean of its last layer.
type minilm struct {
	heads                int
	words, places, kind  matrix
	normWeight, normBias []float32
	blocks               []bertBlock
}

type bertBlock struct {
	q, k, v, out, up, down             *linear
	attnWeight, attnBias, weight, bias []float32
}

const minilmEps = 1e-12

// tensors are those of a container by name.
type tensors map[string]tensorfile.Tensor

func (w tensors) matrix(name string) (matrix, error) {
	t, ok := w[name]
	if !ok || t.DType != "F32" || len(t.Shape) < 1 || len(t.Shape) > 2 {
		return matrix{}, fmt.Errorf("no matrix of float32 numbers with the name %s", name)
	}
	m := matrix{Rows: 1, Cols: t.Shape[len(t.Shape)-1]}
	if len(t.Shape) == 2 {
		m.Rows = t.Shape[0]
	}
	m.Stride, m.Data = m.Cols, make([]float32, len(t.Data)/4)
	for i := range m.Data {
		m.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return m, nil
}

func loadMiniLM(folder string) (*minilm, error) {
	b, err := os.ReadFile(filepath.Join(folder, "minilm.safetensors"))
	if err != nil {
		return nil, err
	}
	file, err := tensorfile.Parse(b)
	if err != nil {
		return nil, err
	}
	w := tensors{}
	for _, t := range file.Tensors {
		w[t.Name] = t
	}
	m := &minilm{heads: 12}
	var failed error
	get := func(name string) matrix {
		x, err := w.matrix(name)
		if err != nil && failed == nil {
			failed = err
		}
		return x
	}
	m.words, m.places = get("embeddings.word_embeddings.weight"), get("embeddings.position_embeddings.weight")
	m.kind = get("embeddings.token_type_embeddings.weight")
	norm := func(p string) (weight, bias []float32) { return get(p + ".weight").Data, get(p + ".bias").Data }
	m.normWeight, m.normBias = norm("embeddings.LayerNorm")
	lin := func(p string) *linear { return newLinear(get(p+".weight"), get(p+".bias").Data) }
	for l := 0; ; l++ {
		p := fmt.Sprintf("encoder.layer.%d.", l)
		if _, more := w[p+"output.dense.weight"]; !more {
			break
		}
		b := bertBlock{q: lin(p + "attention.self.query"), k: lin(p + "attention.self.key"),
			v: lin(p + "attention.self.value"), out: lin(p + "attention.output.dense"),
			up: lin(p + "intermediate.dense"), down: lin(p + "output.dense")}
		b.attnWeight, b.attnBias = norm(p + "attention.output.LayerNorm")
		b.weight, b.bias = norm(p + "output.LayerNorm")
		m.blocks = append(m.blocks, b)
	}
	return m, failed
}

// run is the embedding of a passage.
func (m *minilm) run(ids []int32, f attend) ([]float32, error) {
	x := dense.New[float32](len(ids), m.words.Cols)
	for i, id := range ids {
		copy(x.Row(i), m.words.Row(int(id)))
		tab.MulAdd(x.Row(i), m.places.Row(i), 1)
		tab.MulAdd(x.Row(i), m.kind.Row(0), 1)
	}
	layerNorm(x, m.normWeight, m.normBias, minilmEps)
	for l := range m.blocks {
		b := &m.blocks[l]
		o := dense.New[float32](x.Rows, x.Cols)
		q, k, v := headsOf(b.q.apply(x), m.heads), headsOf(b.k.apply(x), m.heads), headsOf(b.v.apply(x), m.heads)
		if err := f(l, headsOf(o, m.heads), q, k, v); err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
		y := b.out.apply(o)
		add(y, x)
		layerNorm(y, b.attnWeight, b.attnBias, minilmEps)
		h := b.up.apply(y)
		each(h, gelu)
		x = b.down.apply(h)
		add(x, y)
		layerNorm(x, b.weight, b.bias, minilmEps)
	}
	mean := make([]float32, x.Cols)
	tab.ColSum(mean, x)
	tab.Scale(mean, float32(1/math.Sqrt(tab.Norm2(mean))))
	return mean, nil
}
