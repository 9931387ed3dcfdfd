package pretrained

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Output is the result of a forward pass.
type Output struct {
	Hidden *Node  // [batch, length, width], after the last norm
	Heads  []Head // of every layer
}

// Forward builds the graph of a model whose weights are in a store (Fill), on token ids [batch, length]. mask
// [batch, length] is false for padding; nil means no padding.
func (m *Model) Forward(scope *model.Scope, ids, mask *Node) Output {
	if ids.Rank() != 2 {
		panic(fmt.Errorf("token ids %s, want [batch, length]", ids.Shape()))
	}
	if n := ids.Shape().Dimensions[1]; n > m.Positions {
		panic(fmt.Errorf("%w: %d tokens, the model has positions for %d", ErrModel, n, m.Positions))
	}
	n := net{Model: m, scope: scope.Store().Scope("/" + scopeName), g: ids.Graph(), see: rfx.Visible{Mask: mask}}
	return n.forward(ids)
}

func (n net) forward(ids *Node) Output {
	switch n.Type {
	case "bert":
		return n.bert(ids)
	case "gpt2":
		return n.gpt2(ids)
	}
	return n.llama(ids)
}

// Logits returns the logits of a decoder [batch, length, vocabulary].
func (m *Model) Logits(scope *model.Scope, hidden *Node) *Node {
	return net{Model: m, scope: scope.Store().Scope("/" + scopeName), g: hidden.Graph()}.logits(hidden)
}

func (n net) logits(hidden *Node) *Node {
	name := "model.embed_tokens.weight"
	switch {
	case n.Type == "gpt2":
		name = "wte.weight"
	case !n.Tied:
		name = "lm_head.weight"
	case !n.Causal():
		panic(fmt.Errorf("%w: a %s predicts no next token", ErrModel, n.Type))
	}
	return Einsum("blw,vw->blv", hidden, n.weight(name))
}

// Embedding returns the mean of the rows that are not masked, normalised to length 1, as sentence encoders do.
func Embedding(hidden, mask *Node) *Node {
	if mask != nil {
		on := ConvertDType(ExpandAxes(mask, -1), hidden.DType())
		hidden = Mul(hidden, on)
	}
	sum := ReduceSum(hidden, 1)
	return Div(sum, Sqrt(ReduceAndKeep(Square(sum), ReduceSum, -1)))
}

// net is the model in one graph.
type net struct {
	*Model
	scope *model.Scope
	g     *Graph
	see   rfx.Visible
	still func(name string) bool // weights that are not trained; nil: none
	text  *text                  // generation: the text before; nil: not generating
}

// weight returns a variable of the store. If the store does not have it yet, it is created for a trainer to fill.
func (n net) weight(name string) *Node {
	v := n.scope.GetVariable(name)
	if v == nil {
		v = n.scope.VariableWithShape(name, shapes.Make(dtypes.Float32, n.weights[name].shape...))
		v.SetTrainable(n.still == nil || !n.still(name))
	}
	return v.NodeValue(n.g)
}

func (n net) has(name string) bool { _, ok := n.weights[name]; return ok }

// linear returns Wx + b with W [out, in]; GPT-2 has [in, out].
func (n net) linear(x *Node, name string) *Node {
	how := "bli,oi->blo"
	if n.Type == "gpt2" {
		how = "bli,io->blo"
	}
	y := Einsum(how, x, n.weight(name+".weight"))
	if n.has(name + ".bias") {
		y = Add(y, Reshape(n.weight(name+".bias"), 1, 1, -1))
	}
	return y
}

// norm is the layer norm over the last axis, or the RMS norm if the model has rotary positions. Gemma adds 1 to the
// weights.
func (n net) norm(x *Node, name string) *Node {
	w := n.weight(name + ".weight")
	last := make([]int, x.Rank())
	for i := range last {
		last[i] = 1
	}
	last[len(last)-1] = w.Shape().Dimensions[0]
	if n.Theta == 0 {
		x = Sub(x, ReduceAndKeep(x, ReduceMean, -1))
	}
	x = Div(x, Sqrt(AddScalar(ReduceAndKeep(Square(x), ReduceMean, -1), n.Eps)))
	if n.gemma() {
		w = AddScalar(w, 1)
	}
	x = Mul(x, Reshape(w, last...))
	if n.has(name + ".bias") {
		x = Add(x, Reshape(n.weight(name+".bias"), last...))
	}
	return x
}

// rows returns the rows of an embedding for ids.
func (n net) rows(name string, ids *Node) *Node { return Gather(n.weight(name), ExpandAxes(ids, -1)) }

// first returns the first rows of an embedding, for positions or token types.
func (n net) first(name string, rows int) *Node { return n.from(n.weight(name), rows) }

// from returns rows of a position table [1, rows, ·]: the first ones or, in generation, those of the tokens to read.
func (n net) from(table *Node, rows int) *Node {
	if n.text == nil {
		return ExpandAxes(Slice(table, AxisRangeFromStart(rows)), 0)
	}
	at := Add(Iota(n.g, shapes.Make(dtypes.Int32, 1, rows), 1), n.text.from)
	return Gather(table, ExpandAxes(at, -1))
}

// heads reshapes [batch, length, heads·dim] to [batch, heads, length, dim]. join undoes it.
func (n net) heads(x *Node, heads int) *Node {
	d := x.Shape().Dimensions
	return TransposeAllAxes(Reshape(x, d[0], d[1], heads, n.HeadDim), 0, 2, 1, 3)
}

func (n net) join(x *Node) *Node {
	d := x.Shape().Dimensions
	return Reshape(TransposeAllAxes(x, 0, 2, 1, 3), d[0], d[2], d[1]*d[3])
}

// gelu is x·Φ(x). GPT-2 and Gemma use its tanh approximation, geluTanh.
func gelu(x *Node) *Node {
	return Mul(x, MulScalar(AddScalar(Erf(MulScalar(x, math.Sqrt2/2)), 1), 0.5))
}

func geluTanh(x *Node) *Node {
	inner := MulScalar(Add(x, MulScalar(Mul(x, Square(x)), 0.044715)), math.Sqrt(2/math.Pi))
	return Mul(x, MulScalar(AddScalar(Tanh(inner), 1), 0.5))
}

// qkv returns queries, keys and values [batch, heads, length, dim] of the rows that the attention of a layer reads,
// with rotary positions applied.
func (n net) qkv(l int, in *Node) (q, k, v *Node) {
	p := n.layer(l)
	switch n.Type {
	case "bert":
		part := func(name string) *Node { return n.heads(n.linear(in, p+"attention.self."+name), n.Heads) }
		return part("query"), part("key"), part("value")
	case "gpt2":
		all := n.linear(in, p+"attn.c_attn")
		part := func(i int) *Node {
			return n.heads(SliceAxis(all, 2, AxisRange(i*n.Width, (i+1)*n.Width)), n.Heads)
		}
		return part(0), part(1), part(2)
	}
	theta := n.Theta
	if n.Local(l) {
		theta = n.LocalTheta
	}
	part := func(name string, heads int) *Node {
		y := n.heads(n.linear(in, p+"self_attn."+name+"_proj"), heads)
		if name == "v" {
			return y
		}
		if n.QKNorm {
			y = n.norm(y, p+"self_attn."+name+"_norm")
		}
		return n.rotate(y, theta)
	}
	return part("q", n.Heads), part("k", n.KVHeads), part("v", n.KVHeads)
}

// mix applies the attention of a layer to its rows and joins the heads. It records the heads in out.
func (n net) mix(l int, in *Node, out *Output) *Node {
	q, k, v := n.qkv(l, in)
	h := n.attend(l, q, k, v)
	h.In = in
	out.Heads = append(out.Heads, h)
	return n.join(h.Out)
}

// bert is an encoder of post-norm blocks (Devlin et al. 2018, arXiv:1810.04805).
func (n net) bert(ids *Node) Output {
	x := n.rows("embeddings.word_embeddings.weight", ids)
	x = Add(x, n.first("embeddings.position_embeddings.weight", ids.Shape().Dimensions[1]))
	x = Add(x, n.first("embeddings.token_type_embeddings.weight", 1))
	x = n.norm(x, "embeddings.LayerNorm")
	var out Output
	for l := range n.Layers {
		p := n.layer(l)
		x = n.norm(Add(x, n.linear(n.mix(l, x, &out), p+"attention.output.dense")), p+"attention.output.LayerNorm")
		y := n.linear(gelu(n.linear(x, p+"intermediate.dense")), p+"output.dense")
		x = n.norm(Add(x, y), p+"output.LayerNorm")
	}
	out.Hidden = x
	return out
}

// gpt2 is a decoder of pre-norm blocks (Radford et al. 2019).
func (n net) gpt2(ids *Node) Output {
	x := Add(n.rows("wte.weight", ids), n.first("wpe.weight", ids.Shape().Dimensions[1]))
	var out Output
	for l := range n.Layers {
		p := n.layer(l)
		x = Add(x, n.linear(n.mix(l, n.norm(x, p+"ln_1"), &out), p+"attn.c_proj"))
		x = Add(x, n.linear(geluTanh(n.linear(n.norm(x, p+"ln_2"), p+"mlp.c_fc")), p+"mlp.c_proj"))
	}
	out.Hidden = n.norm(x, "ln_f")
	return out
}

// llama is a decoder with RMS norms, rotary positions, grouped queries and gated units (Touvron et al. 2023,
// arXiv:2302.13971). Gemma (arXiv:2403.08295, arXiv:2503.19786) scales embeddings, adds 1 to the weights of norms
// and uses gelu in the gate. Its third version also normalises queries, keys and the output of each block.
func (n net) llama(ids *Node) Output {
	x := n.rows("model.embed_tokens.weight", ids)
	if n.gemma() {
		x = MulScalar(x, math.Sqrt(float64(n.Width)))
	}
	after := func(x *Node, name string) *Node {
		if !n.QKNorm {
			return x
		}
		return n.norm(x, name)
	}
	var out Output
	for l := range n.Layers {
		p := n.layer(l)
		y := n.linear(n.mix(l, n.norm(x, p+"input_layernorm"), &out), p+"self_attn.o_proj")
		before := "post_attention_layernorm"
		if n.QKNorm {
			before = "pre_feedforward_layernorm"
		}
		x = Add(x, after(y, p+"post_attention_layernorm"))
		in := n.norm(x, p+before)
		g := n.linear(in, p+"mlp.gate_proj")
		if n.gemma() {
			g = geluTanh(g)
		} else {
			g = Mul(g, Sigmoid(g))
		}
		y = n.linear(Mul(g, n.linear(in, p+"mlp.up_proj")), p+"mlp.down_proj")
		x = Add(x, after(y, p+"post_feedforward_layernorm"))
	}
	out.Hidden = n.norm(x, "model.norm")
	return out
}

// rotate rotates the pairs (x_i, x_{i+d/2}) at position p by the angle p·θ^{−2i/d} (Su et al. 2021,
// arXiv:2104.09864).
func (n net) rotate(x *Node, theta float64) *Node {
	length, dim := x.Shape().Dimensions[2], x.Shape().Dimensions[3]
	half, end := dim/2, length
	if n.text != nil {
		end = n.text.length
	}
	cos, sin := make([]float32, end*half), make([]float32, end*half)
	for p := range end {
		for i := range half {
			s, c := math.Sincos(float64(p) * math.Pow(theta, -2*float64(i)/float64(dim)))
			cos[p*half+i], sin[p*half+i] = float32(c), float32(s)
		}
	}
	table := func(v []float32) *Node {
		c := n.from(Const(x.Graph(), tensors.FromFlatDataAndDimensions(v, end, half)), length)
		return ConvertDType(ExpandAxes(c, 0), x.DType())
	}
	c, s := table(cos), table(sin)
	a, b := SliceAxis(x, 3, AxisRangeFromStart(half)), SliceAxis(x, 3, AxisRangeToEnd(half))
	return Concatenate([]*Node{Sub(Mul(a, c), Mul(b, s)), Add(Mul(b, c), Mul(a, s))}, 3)
}
