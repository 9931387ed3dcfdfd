package pretrained

import "fmt"

// tensor is a weight of an architecture. A dimension of −1 may have any size.
type tensor struct {
	name  string
	shape []int
}

// weights lists all weights of an architecture under their published names.
func (c Config) weights() []tensor {
	var all []tensor
	add := func(name string, shape ...int) { all = append(all, tensor{name, shape}) }
	norm := func(name string) {
		add(name+".weight", c.Width)
		if c.Theta == 0 { // layer norms have a bias, RMS norms do not
			add(name+".bias", c.Width)
		}
	}
	dense := func(name string, out, in int) { // with bias
		add(name+".weight", out, in)
		add(name+".bias", out)
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	switch c.Type {
	case "bert":
		add("embeddings.word_embeddings.weight", c.Vocabulary, c.Width)
		add("embeddings.position_embeddings.weight", c.Positions, c.Width)
		add("embeddings.token_type_embeddings.weight", -1, c.Width)
		norm("embeddings.LayerNorm")
	case "gpt2":
		add("wte.weight", c.Vocabulary, c.Width)
		add("wpe.weight", c.Positions, c.Width)
		norm("ln_f")
	default:
		add("model.embed_tokens.weight", c.Vocabulary, c.Width)
		norm("model.norm")
		if !c.Tied {
			add("lm_head.weight", c.Vocabulary, c.Width)
		}
	}
	for l := range c.Layers {
		p := c.layer(l)
		switch c.Type {
		case "bert":
			for _, part := range []string{"query", "key", "value"} {
				dense(p+"attention.self."+part, c.Width, c.Width)
			}
			dense(p+"attention.output.dense", c.Width, c.Width)
			norm(p + "attention.output.LayerNorm")
			dense(p+"intermediate.dense", c.Hidden, c.Width)
			dense(p+"output.dense", c.Width, c.Hidden)
			norm(p + "output.LayerNorm")
		case "gpt2": // its matrices are [in, out]
			conv := func(name string, out, in int) {
				add(name+".weight", in, out)
				add(name+".bias", out)
			}
			norm(p + "ln_1")
			conv(p+"attn.c_attn", 3*c.Width, c.Width)
			conv(p+"attn.c_proj", c.Width, c.Width)
			norm(p + "ln_2")
			conv(p+"mlp.c_fc", c.Hidden, c.Width)
			conv(p+"mlp.c_proj", c.Width, c.Hidden)
		default:
			norm(p + "input_layernorm")
			add(p+"self_attn.q_proj.weight", q, c.Width)
			add(p+"self_attn.k_proj.weight", kv, c.Width)
			add(p+"self_attn.v_proj.weight", kv, c.Width)
			add(p+"self_attn.o_proj.weight", c.Width, q)
			norm(p + "post_attention_layernorm")
			add(p+"mlp.gate_proj.weight", c.Hidden, c.Width)
			add(p+"mlp.up_proj.weight", c.Hidden, c.Width)
			add(p+"mlp.down_proj.weight", c.Width, c.Hidden)
			if c.QKNorm {
				add(p+"self_attn.q_norm.weight", c.HeadDim)
				add(p+"self_attn.k_norm.weight", c.HeadDim)
				norm(p + "pre_feedforward_layernorm")
				norm(p + "post_feedforward_layernorm")
			}
		}
	}
	return all
}

// layer returns the prefix of the names of a layer.
func (c Config) layer(l int) string {
	switch c.Type {
	case "bert":
		return fmt.Sprintf("encoder.layer.%d.", l)
	case "gpt2":
		return fmt.Sprintf("h.%d.", l)
	}
	return fmt.Sprintf("model.layers.%d.", l)
}
