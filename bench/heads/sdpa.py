"""Median milliseconds of PyTorch's scaled_dot_product_attention on recorded heads, for `go run ./heads -time -torch PYTHON`.

    python heads/sdpa.py DIR/MODEL_test_heads.safetensors LENGTH THREADS ROUNDS CAUSAL
"""
import json, statistics, struct, sys, time

import numpy as np
import torch

path, length, threads, rounds, causal = sys.argv[1], *map(int, sys.argv[2:6])
torch.set_num_threads(threads)
with open(path, "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()


def tensor(name):
    lo, hi = header[name]["data_offsets"]
    x = np.frombuffer(data[lo:hi], np.float16).reshape(header[name]["shape"])[:, :length]
    return torch.from_numpy(x.astype(np.float32))[None]


q, k, v = tensor("q"), tensor("k"), tensor("v")
group = q.shape[1] // k.shape[1]
k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
times = []
with torch.inference_mode():
    for _ in range(rounds + 1):
        start = time.perf_counter()
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
        times.append(time.perf_counter() - start)
print(1e3 * statistics.median(times[1:]))
