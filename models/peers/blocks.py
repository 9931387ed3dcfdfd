"""Reference values of quantised blocks, by the package gguf of llama.cpp, for the tests of package weights.

    pip install gguf
    python models/peers/blocks.py > models/weights/testdata/blocks.json
"""
import base64, json

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

rng = np.random.default_rng(1)
HALVES = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q4_K: [0, 2], T.Q6_K: [208], T.F16: [0], T.BF16: [], T.Q5_0: [0], T.Q5_1: [0, 2],
          T.Q5_K: [0, 2]}
out = []
for kind, at in HALVES.items():
    numbers, size = GGML_QUANT_SIZES[kind]
    blocks = 3 if size > 2 else 40
    raw = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    for a in at:  # scales that are numbers
        raw[:, a : a + 2] = rng.normal(size=(blocks, 1)).astype(np.float16).view(np.uint8)
    if kind == T.BF16:
        raw = (rng.normal(size=(blocks, 1)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    x = dequantize(raw.reshape(1, -1), kind).astype(np.float32)
    assert x.size == blocks * numbers
    b64 = lambda a: base64.b64encode(a.tobytes()).decode()
    out.append({"type": kind.name, "data": b64(raw), "float32": b64(x)})
print(json.dumps(out, indent=0))
