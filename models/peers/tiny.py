"""Tiny random models and what PyTorch computes with them, for the tests of packages encoder and decoder.

    pip install torch transformers safetensors
    python peers/tiny.py        # from models/, writes encoder/testdata and decoder/testdata

Weights are stored in float16; the references are computed in float32 from the rounded weights.
"""
import json, os

import torch
from safetensors.torch import save_file
from transformers import (BertConfig, BertForSequenceClassification, BertModel, LlamaConfig, LlamaForCausalLM,
                          ModernBertConfig, ModernBertForSequenceClassification, ModernBertModel, MPNetConfig, MPNetModel,
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, XLMRobertaConfig,
                          XLMRobertaForSequenceClassification, XLMRobertaModel)

torch.manual_seed(1)


def write(folder, model, config, extra):
    os.makedirs(folder, exist_ok=True)
    for n, p in model.named_parameters():
        p.data.normal_(0, 0.25)
        if "norm" in n.lower() and n.endswith("weight"):
            p.data.add_(1)
        p.data.copy_(p.data.half().float())
    tensors = {n: p.data.half().contiguous() for n, p in model.named_parameters() if not n.startswith("pooler")}
    if config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    keep = {k: v for k, v in config.to_dict().items() if not isinstance(v, dict) or k.startswith("rope") or k == "id2label"}
    keep.update(extra)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(keep, f, indent=1, sort_keys=True)
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    size = os.path.getsize(os.path.join(folder, "model.safetensors"))
    print(folder, size, "bytes")
    model.eval()


def ids(n, vocab):
    return torch.randint(0, vocab, (n,)).tolist()


def rounded(t):
    return [float(f"{v:.7g}") for v in t.tolist()]


def encoder(name, config, cls, lengths):
    m = cls(config) if name == "modernbert" else cls(config, add_pooling_layer=False)
    write("encoder/testdata/" + name, m, config, {"architectures": [cls.__name__]})
    out = []
    for n in lengths:
        seq = ids(n, 60)
        if name in ("mpnet", "roberta"):  # 1 is padding, which has no position
            seq = [i if i != 1 else 2 for i in seq]
        with torch.no_grad():
            h = m(torch.tensor([seq])).last_hidden_state[0]
        mean = h.mean(0)
        out.append({"ids": seq, "mean": rounded(mean / mean.norm()), "cls": rounded(h[0] / h[0].norm())})
    with open(f"encoder/testdata/{name}/reference.json", "w") as f:
        json.dump(out, f)


def ranker(name, config, cls):
    """A classifier of pairs: the second text begins at the position second."""
    m = cls(config)
    write("encoder/testdata/" + name, m, config, {"architectures": [cls.__name__]})
    out = []
    for n in (4, 17, 33):
        seq = [i if i != 1 else 2 for i in ids(n, 60)]
        args = {}
        if name == "bert-rank":
            args["token_type_ids"] = torch.tensor([[0] * (n // 2) + [1] * (n - n // 2)])
        with torch.no_grad():
            y = m(torch.tensor([seq]), **args).logits[0]
        out.append({"ids": seq, "second": n // 2, "logits": rounded(y)})
    with open(f"encoder/testdata/{name}/reference.json", "w") as f:
        json.dump(out, f)


def decoder(name, config, cls):
    m = cls(config)
    write("decoder/testdata/" + name, m, config, {"architectures": [cls.__name__]})
    seq = ids(40, config.vocab_size)
    with torch.no_grad():
        logits = m(torch.tensor([seq])).logits[0]
    picks = [0, 1, 16, 39]
    loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(seq[1:]), reduction="none")
    ref = {"ids": seq, "positions": picks, "logits": [rounded(logits[i]) for i in picks], "loss": rounded(loss)}
    with open(f"decoder/testdata/{name}/reference.json", "w") as f:
        json.dump(ref, f)


encoder("bert", BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                           intermediate_size=40, max_position_embeddings=40, type_vocab_size=2), BertModel,
        (1, 7, 33, 16))
common = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, intermediate_size=40, max_position_embeddings=64,
              rms_norm_eps=1e-5)
decoder("llama", LlamaConfig(num_attention_heads=4, num_key_value_heads=2, rope_theta=100.0, **common),
        LlamaForCausalLM)
decoder("qwen2", Qwen2Config(num_attention_heads=4, num_key_value_heads=1, rope_theta=1000.0, tie_word_embeddings=True,
                             **common), Qwen2ForCausalLM)
# Longer than the last bucket of distances begins.
encoder("mpnet", MPNetConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                             intermediate_size=40, max_position_embeddings=162), MPNetModel, (1, 7, 33, 150))
# Since transformers 5 config.json has another layout of rotary positions; folders above were written by version 4.
small = dict(vocab_size=60, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=40)
encoder("roberta", XLMRobertaConfig(max_position_embeddings=42, type_vocab_size=1, pad_token_id=1, **small),
        XLMRobertaModel, (1, 7, 33, 16))
local = dict(max_position_embeddings=64, local_attention=12, global_attn_every_n_layers=3, pad_token_id=0, bos_token_id=1,
             eos_token_id=2, cls_token_id=1, sep_token_id=2, **small)
encoder("modernbert", ModernBertConfig(**local), ModernBertModel, (1, 7, 33, 50))
ranker("bert-rank", BertConfig(max_position_embeddings=40, num_labels=1, **small), BertForSequenceClassification)
ranker("roberta-rank", XLMRobertaConfig(max_position_embeddings=42, type_vocab_size=1, pad_token_id=1, num_labels=1,
                                        **small), XLMRobertaForSequenceClassification)
ranker("modernbert-rank", ModernBertConfig(num_labels=1, classifier_pooling="mean", **local),
       ModernBertForSequenceClassification)
decoder("qwen3", Qwen3Config(num_attention_heads=4, num_key_value_heads=2, head_dim=16, rope_theta=1000.0, **common),
        Qwen3ForCausalLM)
decoder("llama-biases", LlamaConfig(num_attention_heads=4, num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                                    **common), LlamaForCausalLM)
decoder("llama-yarn", LlamaConfig(num_attention_heads=4, num_key_value_heads=2, rope_parameters=dict(
    rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=100.0), **common), LlamaForCausalLM)
