import numpy as np
import pytest

from randfeat import attention


def naive(q, k, v, causal=False):
    s = np.einsum("...id,...jd->...ij", q.astype(float), k.astype(float)) / np.sqrt(q.shape[-1])
    if causal:
        n, m = s.shape[-2:]
        s = np.where(np.arange(m) <= np.arange(n)[:, None] + m - n, s, -np.inf)
    w = np.exp(s - s.max(axis=-1, keepdims=True))
    return w @ v.astype(float) / w.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(33, 8), (2, 33, 8), (2, 3, 33, 8), (2, 2, 3, 9, 8)])
def test_exact(rng, shape, causal):
    q, k, v = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
    out = attention.exact(q, k, v, causal=causal)
    assert out.dtype == np.float32 and np.allclose(out, naive(q, k, v, causal), atol=1e-5)


def test_any_order_of_axes(rng):
    q, k, v = (rng.normal(size=(2, 40, 3, 8)).astype(np.float32) for _ in range(3))  # batch, position, head, dim
    a = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
    assert np.allclose(attention.exact(*a), naive(*a), atol=1e-5)


def test_calibrated(rng):
    q, k, v = (rng.normal(size=(1, 2, 256, 8)).astype(np.float32) for _ in range(3))
    a = attention.calibrate(q, k, v, tol=0.1, by_cost=True)
    out, exact = a(q, k, v), attention.exact(q, k, v)
    assert np.linalg.norm(out - exact) < 0.1 * np.linalg.norm(exact)
    again = attention.load(a.to_json())
    assert np.array_equal(again(q, k, v), out)
    assert "<table>" in a._repr_html_() and len(a.methods) == 2


def test_errors(rng):
    x = rng.normal(size=(4, 8)).astype(np.float32)
    with pytest.raises(ValueError, match="tol"):
        attention.calibrate(x, x, x, tol=2)
    with pytest.raises(ValueError, match="empty"):
        attention.exact(x[:0], x, x)
    with pytest.raises(ValueError):
        attention.exact(x, x[:, :4], x)
    with pytest.raises(ValueError, match="finite"):
        attention.exact(x * np.nan, x, x)


def test_tensors(rng):
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(rng.normal(size=(2, 16, 8)).astype(np.float32)) for _ in range(3))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    out = attention.exact(q, k, v)
    assert isinstance(out, torch.Tensor) and torch.allclose(out, want, atol=1e-5)
