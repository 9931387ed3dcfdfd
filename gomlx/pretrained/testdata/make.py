"""Writes the tiny models of the tests: random weights, and the hidden states that other people's code computes of them.

    pip install transformers==4.46.3 "jax<0.5" "flax<0.11" safetensors
    python make.py

Gemma 3 has no Flax model: its reference is written out below in NumPy, after the text of transformers 4.50.
"""
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import transformers as t
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors.numpy import save_file

IDS = np.array([[3, 1, 4, 1, 5, 9, 2, 6], [0, 10, 7, 7, 8, 2, 1, 3]])
here = os.path.dirname(os.path.abspath(__file__))


def random(name, shape, rng):
    x = rng.standard_normal(shape) * (0.6 if len(shape) > 1 else 0.2)
    if len(shape) == 1 and ("norm" in name.lower() or "ln_" in name) and name.endswith("weight"):
        x += 1
    return x.astype(np.float32)


def write(folder, config, weights, hidden):
    folder = os.path.join(here, folder)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    save_file({k: np.ascontiguousarray(v) for k, v in weights.items()}, os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "hidden.json"), "w") as f:
        json.dump({"ids": IDS.tolist(), "hidden": np.asarray(hidden, np.float64).round(7).tolist()}, f)


def flax(folder, model_class, config, keep, names):
    """names maps the path of a Flax parameter to the publisher's name and whether its matrix is transposed."""
    model = model_class(config, seed=0, input_shape=(1, 8))
    rng = np.random.default_rng(7)
    weights, params = {}, {}
    for path, x in sorted(flatten_dict(model.params).items()):
        name, transpose = names(path)
        value = random(name, x.shape, rng)
        params[path] = value
        if name:
            weights[name] = value.T if transpose else value
    out = model(IDS, params=unflatten_dict(params), output_hidden_states=True)
    write(folder, {k: v for k, v in config.to_dict().items() if k in keep}, weights, out[0])


def dotted(path, norms=()):
    last = {"kernel": "weight", "embedding": "weight", "scale": "weight"}.get(path[-1], path[-1])
    return ".".join(path[:-1] + (last,)), path[-1] == "kernel"


def bert(path):
    if path[0] == "pooler":
        return "pooler." + dotted(path[1:])[0], path[-1] == "kernel"
    return dotted(path)


def gpt2(path):
    return dotted(path)[0], path[-1] == "kernel"  # Flax keeps [out, in], the publisher [in, out]


def llama(path):
    name, transpose = dotted(path)
    return "model." + name, transpose


def gemma3():
    c = dict(model_type="gemma3_text", hidden_size=8, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             head_dim=4, intermediate_size=12, vocab_size=11, max_position_embeddings=16, rms_norm_eps=1e-6,
             rope_theta=1e6, rope_local_base_freq=1e4, sliding_window=3, sliding_window_pattern=2,
             query_pre_attn_scalar=6, hidden_activation="gelu_pytorch_tanh")
    rng = np.random.default_rng(9)
    w = {}

    def make(name, *shape):
        w[name] = random(name, shape, rng) - (1 if len(shape) == 1 else 0)  # norms multiply by 1 + weight
        return w[name].astype(np.float64)

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * (1 + weight)

    def rope(x, base):
        at = np.arange(x.shape[2])[:, None] * base ** (-np.arange(0, 4, 2) / 4)
        cos, sin = np.concatenate([np.cos(at)] * 2, -1), np.concatenate([np.sin(at)] * 2, -1)
        return x * cos + np.concatenate([-x[..., 2:], x[..., :2]], -1) * sin

    def gelu(x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    x = make("model.embed_tokens.weight", 11, 8)[IDS] * np.sqrt(8)
    b, n = IDS.shape
    for l in range(4):
        p = f"model.layers.{l}."
        local = (l + 1) % 2 != 0
        h = norm(x, make(p + "input_layernorm.weight", 8))
        q = (h @ make(p + "self_attn.q_proj.weight", 16, 8).T).reshape(b, n, 4, 4).transpose(0, 2, 1, 3)
        k = (h @ make(p + "self_attn.k_proj.weight", 8, 8).T).reshape(b, n, 2, 4).transpose(0, 2, 1, 3)
        v = (h @ make(p + "self_attn.v_proj.weight", 8, 8).T).reshape(b, n, 2, 4).transpose(0, 2, 1, 3)
        q = rope(norm(q, make(p + "self_attn.q_norm.weight", 4)), 1e4 if local else 1e6)
        k = rope(norm(k, make(p + "self_attn.k_norm.weight", 4)), 1e4 if local else 1e6)
        s = q @ np.repeat(k, 2, 1).transpose(0, 1, 3, 2) / np.sqrt(6)
        i, j = np.indices((n, n))
        s = np.where((j <= i) & (not local or i - j < 3), s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        a = (s / s.sum(-1, keepdims=True)) @ np.repeat(v, 2, 1)
        a = a.transpose(0, 2, 1, 3).reshape(b, n, 16) @ make(p + "self_attn.o_proj.weight", 8, 16).T
        x = x + norm(a, make(p + "post_attention_layernorm.weight", 8))
        h = norm(x, make(p + "pre_feedforward_layernorm.weight", 8))
        g = gelu(h @ make(p + "mlp.gate_proj.weight", 12, 8).T) * (h @ make(p + "mlp.up_proj.weight", 12, 8).T)
        g = g @ make(p + "mlp.down_proj.weight", 8, 12).T
        x = x + norm(g, make(p + "post_feedforward_layernorm.weight", 8))
    write("gemma3", c, w, norm(x, make("model.norm.weight", 8)))


def main():
    jax.config.update("jax_default_matmul_precision", "highest")
    flax("bert", t.FlaxBertModel,
         t.BertConfig(vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
                      max_position_embeddings=16, layer_norm_eps=1e-12),
         "model_type vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act "
         "max_position_embeddings layer_norm_eps position_embedding_type".split(), bert)
    flax("gpt2", t.FlaxGPT2Model,
         t.GPT2Config(vocab_size=11, n_embd=8, n_layer=2, n_head=2, n_positions=16),
         "model_type vocab_size n_embd n_layer n_head n_positions n_inner activation_function layer_norm_epsilon".split(),
         gpt2)
    sizes = dict(vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 intermediate_size=12, max_position_embeddings=16)
    keep = "model_type rms_norm_eps rope_theta hidden_act head_dim tie_word_embeddings".split() + list(sizes)
    flax("llama", t.FlaxLlamaModel, t.LlamaConfig(**sizes, head_dim=2, rope_theta=500, tie_word_embeddings=True), keep,
         llama)
    flax("gemma", t.FlaxGemmaModel, t.GemmaConfig(**sizes, head_dim=4, hidden_act="gelu_pytorch_tanh",
                                                  hidden_activation="gelu_pytorch_tanh"), keep, llama)
    gemma3()


main()
