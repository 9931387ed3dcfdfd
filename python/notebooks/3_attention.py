# %% [markdown]
# # The attention of a small model
#
# Heads of trained models differ: some look at a few keys, some at nearly all alike. `calibrate` finds a method for each
# head whose error stays within a tolerance. Here the heads come from a small model that is made by hand, with one local
# head, one head that looks at few keys anywhere and one that averages.

# %%
import time

import numpy as np

from randfeat import attention

rng = np.random.default_rng(0)
length, dim, topics = 1024, 32, 24


def text():
    """Tokens of a text with a few topics, as vectors."""
    centres = rng.normal(size=(topics, dim))
    return centres[np.sort(rng.integers(0, topics, length))] + 0.3 * rng.normal(size=(length, dim))


def heads(x):
    """Queries, keys and values of three heads."""
    w = np.random.default_rng(7).normal(size=(3, dim, dim)) / np.sqrt(dim)
    scales = np.array([1.5, 0.8, 0.1])[:, None, None]
    k = np.einsum("ld,hde->hle", x, w)
    return (scales * k).astype("f4"), k.astype("f4"), np.stack([x] * 3).astype("f4")


q, k, v = (np.stack(a) for a in zip(*[heads(text()) for _ in range(2)]))
q.shape

# %%
attend = attention.calibrate(q, k, v, tol=0.1, by_cost=True)
attend

# %% [markdown]
# The error on another text, which the choice has not seen, of every head.

# %%
q2, k2, v2 = (a[None] for a in heads(text()))
start = time.perf_counter()
exact = attention.exact(q2, k2, v2)
middle = time.perf_counter()
out = attend(q2, k2, v2)
end = time.perf_counter()
for h, method in enumerate(attend.methods):
    error = np.linalg.norm(out[0, h] - exact[0, h]) / np.linalg.norm(exact[0, h])
    print(f"head {h}: {method:<9} error {error:.4f}")
    assert error < 0.2
print(f"exact {1e3 * (middle - start):.1f} ms, calibrated {1e3 * (end - middle):.1f} ms")

# %% [markdown]
# The choice is plain JSON: keep it with the model, and read it in Go with the package attention/choose.

# %%
saved = attend.to_json()
assert np.array_equal(attention.load(saved)(q2, k2, v2), out)
print(len(saved), "characters")
