"""Logits and losses of a GGUF file by PyTorch, in float32, for the test of package decoder on real weights.

    pip install torch transformers gguf
    python peers/smollm2.py FOLDER FILE.gguf IDS.json OUT.json      # IDS.json: a list of token ids
"""
import json, sys

import torch
from transformers import AutoModelForCausalLM

torch.set_grad_enabled(False)
folder, name, ids, out = sys.argv[1:]
ids = json.load(open(ids))
m = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
logits = m(torch.tensor([ids])).logits[0]
loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")
picks = [0, 5, 20, len(ids) - 1]
short = lambda t: [float(f"{v:.7g}") for v in t.tolist()]
json.dump({"ids": ids, "positions": picks, "logits": [short(logits[i][::128]) for i in picks], "loss": short(loss)},
          open(out, "w"))
