package main

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/gguf"
	"github.com/randfeat/randfeat/models/weights"
)

// smollm2 is a Llama: RMS norms, rotary positions, grouped queries, gated units, and an output layer that is the
// embedding (Touvron et al. 2023, arXiv:2302.13971; Allal et al. 2025, arXiv:2502.02737).
type smollm2 struct {
	layers, heads, kvHeads, dim int
	rope                        attention.RoPE[float32]
	eps                         float64
	embed                       matrix
	output                      *linear
	norm                        []float32
	blocks                      []llamaBlock
}

type llamaBlock struct {
	attnNorm, ffnNorm            []float32
	q, k, v, out, gate, up, down *linear
}

func loadSmolLM2(folder string) (*smollm2, error) {
	f, err := gguf.Open(filepath.Join(folder, "smollm2.gguf"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := f.Config()
	if c.Architecture != "llama" || c.QKVBias || !c.TiedEmbeddings {
		return nil, fmt.Errorf("%s: no Llama without biases whose output is its embedding", f.Path())
	}
	m := &smollm2{layers: c.Layers, heads: c.Heads, kvHeads: c.KVHeads, dim: c.HeadDim, eps: c.NormEps}
	// The frequency of pair 1 is base^(−2/dim).
	m.rope = attention.RoPE[float32]{Base: math.Pow(c.RopeFreqs[1], -float64(c.HeadDim)/2)}
	get := func(name string, rows, cols int) matrix {
		shape := []int{rows, cols}
		if rows == 1 {
			shape = shape[1:]
		}
		t, failed := weights.Get(f, name, shape...)
		if failed != nil {
			if err == nil {
				err = failed
			}
			return matrix{}
		}
		return matrix{Rows: rows, Cols: cols, Stride: cols, Data: t.Floats(nil)}
	}
	m.embed = get("model.embed_tokens.weight", c.Vocab, c.Hidden)
	m.norm = get("model.norm.weight", 1, c.Hidden).Data
	width, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for l := range c.Layers {
		p := fmt.Sprintf("model.layers.%d.", l)
		b := llamaBlock{attnNorm: get(p+"input_layernorm.weight", 1, c.Hidden).Data,
			ffnNorm: get(p+"post_attention_layernorm.weight", 1, c.Hidden).Data}
		for _, w := range []struct {
			dst        **linear
			name       string
			rows, cols int
		}{{&b.q, "self_attn.q_proj", width, c.Hidden}, {&b.k, "self_attn.k_proj", kv, c.Hidden},
			{&b.v, "self_attn.v_proj", kv, c.Hidden}, {&b.out, "self_attn.o_proj", c.Hidden, width},
			{&b.gate, "mlp.gate_proj", c.FFN, c.Hidden}, {&b.up, "mlp.up_proj", c.FFN, c.Hidden},
			{&b.down, "mlp.down_proj", c.Hidden, c.FFN}} {
			x := get(p+w.name+".weight", w.rows, w.cols)
			if err != nil {
				return nil, err
			}
			*w.dst = newLinear(x, nil)
		}
		m.blocks = append(m.blocks, b)
	}
	if err != nil {
		return nil, err
	}
	m.output = newLinear(m.embed, nil)
	return m, nil
}

// run is the hidden state after the last norm.
func (m *smollm2) run(ids []int32, f attend) (matrix, error) {
	x := dense.New[float32](len(ids), m.embed.Cols)
	for i, id := range ids {
		copy(x.Row(i), m.embed.Row(int(id)))
	}
	for l := range m.blocks {
		b := &m.blocks[l]
		h := rmsNorm(x, b.attnNorm, m.eps)
		q, k, v := headsOf(b.q.apply(h), m.heads), headsOf(b.k.apply(h), m.kvHeads), headsOf(b.v.apply(h), m.kvHeads)
		for _, s := range []seq{q, k} {
			if err := m.rope.Apply(s, 0); err != nil {
				return matrix{}, err
			}
		}
		o := dense.New[float32](x.Rows, x.Cols)
		if err := f(l, headsOf(o, m.heads), q, k, v); err != nil {
			return matrix{}, fmt.Errorf("layer %d: %w", l, err)
		}
		add(x, b.out.apply(o))
		h = rmsNorm(x, b.ffnNorm, m.eps)
		gate, up := b.gate.apply(h), b.up.apply(h)
		each(gate, silu)
		for i := range gate.Rows {
			tab.Mul(gate.Row(i), up.Row(i))
		}
		add(x, b.down.apply(gate))
	}
	return rmsNorm(x, m.norm, m.eps), nil
}

// surprise is −log p of every token but the first, given those before it.
func (m *smollm2) surprise(hidden matrix, ids []int32) []float64 {
	out := make([]float64, len(ids)-1)
	rows(len(out), func(lo, hi int) {
		logits := dense.New[float32](hi-lo, m.output.w.Rows)
		tab.MulT(logits, hidden.RowRange(lo, hi), &m.output.w, nil)
		for i := lo; i < hi; i++ {
			row := logits.Row(i - lo)
			top, own := tab.Max(row), float64(row[ids[i+1]])
			out[i] = float64(top) + math.Log(float64(tab.ExpSum(row, top))) - own
		}
	})
	return out
}
