package main

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
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
	g, err := readGGUF(filepath.Join(folder, "smollm2.gguf"))
	if err != nil {
		return nil, err
	}
	m := &smollm2{}
	var width, hidden, vocabulary int
	for name, dst := range map[string]*int{"block_count": &m.layers, "attention.head_count": &m.heads,
		"attention.head_count_kv": &m.kvHeads, "embedding_length": &width, "feed_forward_length": &hidden,
		"vocab_size": &vocabulary} {
		if *dst, err = g.number("llama." + name); err != nil {
			return nil, err
		}
	}
	if m.layers > len(g.tensors) || width%m.heads != 0 || m.heads%m.kvHeads != 0 {
		return nil, fmt.Errorf("%d layers of %d heads, %d of keys, %d wide: %w", m.layers, m.heads, m.kvHeads, width,
			errGGUF)
	}
	m.dim = width / m.heads
	m.eps = g.numbers["llama.attention.layer_norm_rms_epsilon"]
	// Converters to GGUF reorder the rows of q and k so that pairs are neighbours.
	m.rope = attention.RoPE[float32]{Base: g.numbers["llama.rope.freq_base"], Interleaved: true}
	if m.embed, err = g.matrix("token_embd.weight", vocabulary, width); err != nil {
		return nil, err
	}
	m.output = newLinear(m.embed, nil)
	if m.norm, err = g.vector("output_norm.weight", width); err != nil {
		return nil, err
	}
	m.blocks = make([]llamaBlock, m.layers)
	for l := range m.blocks {
		b := &m.blocks[l]
		for name, dst := range map[string]*[]float32{"attn_norm": &b.attnNorm, "ffn_norm": &b.ffnNorm} {
			if *dst, err = g.vector(fmt.Sprintf("blk.%d.%s.weight", l, name), width); err != nil {
				return nil, err
			}
		}
		kv := m.kvHeads * m.dim
		for name, p := range map[string]struct {
			dst        **linear
			rows, cols int
		}{"attn_q": {&b.q, width, width}, "attn_k": {&b.k, kv, width}, "attn_v": {&b.v, kv, width},
			"attn_output": {&b.out, width, width}, "ffn_gate": {&b.gate, hidden, width},
			"ffn_up": {&b.up, hidden, width}, "ffn_down": {&b.down, width, hidden}} {
			w, err := g.matrix(fmt.Sprintf("blk.%d.%s.weight", l, name), p.rows, p.cols)
			if err != nil {
				return nil, err
			}
			*p.dst = newLinear(w, nil)
		}
	}
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
