"""Reference embeddings of texts for TestRealEncoders: PyTorch, or onnxruntime where the original is an ONNX file.

    pip install torch transformers tokenizers onnxruntime
    python peers/encoders.py testdata/encoders.json FOLDER[=MODEL.onnx]…

Stores the ids of some texts and the first 24 numbers of their normalised embeddings.
"""
import json, os, sys

import numpy as np
from tokenizers import Tokenizer

TEXTS = ["A cat sat on the mat.", "query: how do I renew the certificate?", "Zürich — 東京, déjà vu! " * 5,
         "Represent this sentence for searching relevant passages: attention", "word " * 250]


def hidden(folder, onnx):
    """A function from ids to the last hidden states."""
    if onnx:
        import onnxruntime
        s = onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"])

        def run(ids):
            x = np.array([ids], dtype=np.int64)
            feed = {"input_ids": x, "attention_mask": np.ones_like(x), "token_type_ids": np.zeros_like(x)}
            return s.run(None, {i.name: feed[i.name] for i in s.get_inputs()})[0][0]

        return run
    import torch
    from transformers import AutoModel
    torch.set_grad_enabled(False)
    m = AutoModel.from_pretrained(folder).eval()
    return lambda ids: m(torch.tensor([ids])).last_hidden_state[0].numpy()


def main():
    out = {}
    for arg in sys.argv[2:]:
        folder, _, onnx = arg.partition("=")
        tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        tok.no_truncation(), tok.no_padding()
        with open(os.path.join(folder, "1_Pooling/config.json")) as f:
            cls = json.load(f)["pooling_mode_cls_token"]
        run, refs = hidden(folder, onnx), []
        for text in TEXTS:
            ids = tok.encode(text).ids
            h = run(ids)
            e = h[0] if cls else h.mean(0)
            e = e / np.linalg.norm(e)
            refs.append({"text": text, "ids": ids, "embedding": [float(f"{v:.7g}") for v in e[:24].tolist()]})
        out[os.path.basename(folder.rstrip("/"))] = refs
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, ensure_ascii=False)


main()
