"""Attention in PyTorch, timed as `rfx bench` times it: the same rows of JSON. ms is of calls that are each waited for,
queued_ms of calls of which the last alone is.

    python3 peers/attention.py --lengths 1024,4096 --dtypes float32,bfloat16
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F


def features(x, w):
    """Positive features of x / d^(1/4) with the usual stabiliser: one maximum for all rows, kept apart."""
    x = x * x.shape[-1] ** -0.25
    e = (x @ w.T).float() - x.float().square().sum(-1, keepdim=True) / 2
    return torch.exp(e - e.amax((-1, -2), keepdim=True)).to(x.dtype)


def performer(q, k, v, w):
    q, k = features(q, w), features(k, w)
    state, z = k.transpose(-1, -2) @ v, k.sum(-2)
    return (q @ state) / (q * z.unsqueeze(-2)).sum(-1, keepdim=True)


def causal_performer(q, k, v, w, chunk=128):
    q, k = features(q, w), features(k, w)
    v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    cut = lambda x: x.reshape(*x.shape[:2], -1, chunk, x.shape[-1])
    q, k, v = cut(q), cut(k), cut(v)
    states = (k.transpose(-1, -2) @ v).float()
    before = (states.cumsum(2) - states).to(q.dtype)
    out = q @ before + torch.tril(q @ k.transpose(-1, -2)) @ v
    out = out.reshape(*out.shape[:2], -1, out.shape[-1])
    return out[..., :-1] / out[..., -1:]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lengths", default="1024,4096")
    p.add_argument("--dtypes", default="float32")
    p.add_argument("--methods", default="eager,compiled,sdpa")
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--m", type=int, default=128)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--calls", type=int, default=10)
    a = p.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None
    for length in map(int, a.lengths.split(",")):
        for dtype in a.dtypes.split(","):
            t = getattr(torch, dtype)
            torch.manual_seed(1)
            *data, dout = (torch.randn(1, a.heads, length, a.dim, device=device).to(t) for _ in range(4))
            w = torch.randn(a.m, a.dim, device=device).to(t)
            for causal in (False, True):
                plain = causal_performer if causal else performer
                for backward in (False, True):
                    for method in a.methods.split(","):
                        if method == "empty":
                            fn = lambda q, k, v: q[..., :1, :] + k[..., :1, :] + v[..., :1, :]
                        elif method == "sdpa":
                            fn = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                        else:
                            fn = lambda q, k, v: plain(q, k, v, w)
                        def step(fn=fn):
                            q, k, v = (x.detach().requires_grad_(backward) for x in data)
                            out = fn(q, k, v)
                            return torch.autograd.grad(out, (q, k, v), dout) if backward else out
                        row = dict(method="torch " + method, length=length, heads=a.heads, features=a.m, dtype=dtype,
                                   causal=causal, backward=backward)
                        try:
                            if method == "compiled":
                                torch._dynamo.reset()
                                compiled = torch.compile(fn)
                                step = (lambda s, c: lambda: s(c))(step, compiled)
                            for _ in range(3):
                                step()
                            for name, wait in (("ms", True), ("queued_ms", False)):
                                times = []
                                for _ in range(a.rounds):
                                    start = time.perf_counter()
                                    for _ in range(a.calls):
                                        step()
                                        if wait:
                                            finish()
                                    finish()
                                    times.append((time.perf_counter() - start) * 1e3 / a.calls)
                                row[name] = statistics.median(times)
                        except Exception as e:  # out of memory, no compiler: said in the row
                            row["error"] = str(e).split("\n")[0][:200]
                        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
