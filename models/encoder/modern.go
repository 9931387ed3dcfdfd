package encoder

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/models/internal/nn"
)

// loadModern loads ModernBERT (Warner et al. 2024, arXiv:2412.13663). Its projections and norms have no biases. The
// first layer has no norm before its attention, because the embeddings are normalised.
func (m *Model) loadModern(l *loader) {
	c, p := &m.config, ""
	if l.Has("model.embeddings.tok_embeddings.weight") { // of a model with a head for a task
		p = "model."
	}
	m.words = l.Tensor(p+"embeddings.tok_embeddings.weight", c.Vocab, c.Hidden)
	m.norm, m.bias = l.Vector(p+"embeddings.norm.weight", c.Hidden), make([]float32, c.Hidden)
	for i := range c.Layers {
		q := fmt.Sprintf("%slayers.%d.", p, i)
		b := block{
			qkv:     l.linear(3*c.Hidden, c.Hidden, false, q+"attn.Wqkv"),
			out:     l.linear(c.Hidden, c.Hidden, false, q+"attn.Wo"),
			up:      l.linear(2*c.FFN, c.Hidden, false, q+"mlp.Wi"),
			down:    l.linear(c.Hidden, c.FFN, false, q+"mlp.Wo"),
			ffnNorm: l.Vector(q+"mlp_norm.weight", c.Hidden),
		}
		if i > 0 {
			b.attnNorm = l.Vector(q+"attn_norm.weight", c.Hidden)
		}
		m.blocks = append(m.blocks, b)
		l.Packed()
	}
	m.last = l.Vector(p+"final_norm.weight", c.Hidden)
}

// modern takes x through the layers: x += attention(norm(x)), x += ffn(norm(x)), then a last norm. Some layers see all
// tokens, the others a window; both rotate queries and keys to positions, by different angles. The unit of the
// feed-forward part is act(a)·b, both from one projection.
func (r *run) modern(m *Model, batch [][]int32, x, y, z, qkv nn.Matrix) error {
	c, k, half := &m.config, m.kernels, m.config.HeadDim/2
	wide := shaped(&r.wide, x.Rows, 2*c.FFN)
	for kind, freqs := range [][]float64{c.RopeFreqs, c.RopeLocal} {
		r.cos[kind], r.sin[kind] = buf.Sized(r.cos[kind], x.Rows*half), buf.Sized(r.sin[kind], x.Rows*half)
		at := 0
		for _, ids := range batch {
			for i := range ids {
				for _, f := range freqs {
					sin, cos := math.Sincos(float64(i) * f)
					r.sin[kind][at], r.cos[kind][at] = float32(sin), float32(cos)
					at++
				}
			}
		}
	}
	eachRow := func(f func(i int)) {
		nn.Rows(x.Rows, rowGrain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				f(i)
			}
		})
	}
	norm := func(weight []float32) {
		eachRow(func(i int) { k.Model.LayerNorm(z.Row(i), x.Row(i), weight, m.bias, float32(c.NormEps)) })
	}
	add := func() { eachRow(func(i int) { k.Table.MulAdd(x.Row(i), z.Row(i), 1) }) }
	for l := range m.blocks {
		b, h, kind := &m.blocks[l], z, 0
		if c.Windows[l] > 0 {
			kind = 1
		}
		if b.attnNorm == nil {
			h = x
		} else {
			norm(b.attnNorm)
		}
		r.mul.Do(k, qkv, h, b.qkv)
		eachRow(func(i int) {
			row, cos, sin := qkv.Row(i), r.cos[kind][i*half:(i+1)*half], r.sin[kind][i*half:(i+1)*half]
			for h := range 2 * c.Heads {
				v := row[h*c.HeadDim : (h+1)*c.HeadDim]
				k.Model.Rotate(v[:half], v[half:], cos, sin)
			}
		})
		if err := r.attend(m, l, y, qkv); err != nil {
			return err
		}
		r.mul.Do(k, z, y, b.out)
		add()
		norm(b.ffnNorm)
		r.mul.Do(k, wide, z, b.up)
		eachRow(func(i int) {
			row := wide.Row(i)
			m.activate(row[:c.FFN])
			for j, v := range row[c.FFN:] {
				row[j] *= v
			}
		})
		r.mul.Do(k, z, wide.ColRange(0, c.FFN), b.down)
		add()
	}
	norm(m.last)
	eachRow(func(i int) { copy(x.Row(i), z.Row(i)) })
	return nil
}
