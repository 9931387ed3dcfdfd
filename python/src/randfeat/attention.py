"""Attention on NumPy arrays and on CPU tensors of PyTorch.

`exact` is softmax attention in O(length) memory. `calibrate` finds the fastest method for each head whose error stays
within a tolerance on data like the given sample, and returns a callable.

Arrays have the shape (..., length, dim), with batch and heads in front, and are computed in float32.
"""

from __future__ import annotations

import ctypes as C
import html
import json
import math
from typing import Any

import numpy as np

from . import _lib
from ._lib import Handle, Seq, lib

__all__ = ["Attention", "calibrate", "exact", "load"]


def _is_tensor(x: Any) -> bool:
    return type(x).__module__.split(".")[0] == "torch"


def _view(x: Any, name: str) -> np.ndarray:
    """x as [batch, head, position, dim] in float32, copied only if necessary."""
    if _is_tensor(x):
        if x.device.type != "cpu":
            raise ValueError(f"{name} is on {x.device}: randfeat computes on the CPU, use {name}.cpu()")
        x = x.detach()
        a = x.float().numpy() if x.dtype.is_floating_point else x.numpy()
    else:
        a = np.asarray(x)
    if a.dtype != np.float32:
        a = a.astype(np.float32)
    if a.ndim < 2:
        raise ValueError(f"{name} has {a.ndim} dimensions, want (..., length, dim)")
    if a.size == 0:
        raise ValueError(f"{name} is empty: its shape is {a.shape}")
    a = a.reshape((math.prod(a.shape[:-3]), *a.shape[-3:])) if a.ndim > 3 else a[(None,) * (4 - a.ndim)]
    if a.strides[3] != 4 or any(s < 0 or s % 4 for s in a.strides[:3]):
        a = np.ascontiguousarray(a)
    return a


def _seq(a: np.ndarray) -> Any:
    s = [n // 4 for n in a.strides[:3]]
    return C.byref(Seq(a.__array_interface__["data"][0], *a.shape, *s, ord("f")))


def _run(h: int, q: Any, k: Any, v: Any, causal: bool, scale: float, n_jobs: int | None, keep: Any) -> Any:
    tensor = _is_tensor(q)
    shape = tuple(q.shape[:-1]) + (v.shape[-1],)
    a, b, c = _view(q, "q"), _view(k, "k"), _view(v, "v")
    out = np.empty(a.shape[:3] + (c.shape[3],), np.float32)
    sq, sk, sv, so, w = _seq(a), _seq(b), _seq(c), _seq(out), _lib.workers(n_jobs)
    run = lib().rf_attention_run
    if a.shape[0] * a.shape[1] * a.shape[2] * b.shape[2] * a.shape[3] < 1 << 31:
        e = C.c_void_p()
        _lib.check(run(h, sq, sk, sv, so, causal, scale, w, None, None, C.byref(e)), e)
    else:  # as a job, so that Ctrl-C can interrupt it
        _lib.job(
            lambda j, err: run(h, sq, sk, sv, so, causal, scale, w, j, None, err), (a, b, c, out, keep)
        )
    out = out.reshape(shape)
    if tensor:
        import torch

        return torch.from_numpy(out).to(q.dtype)
    return out


def exact(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None, n_jobs: int | None = None) -> Any:
    """Softmax attention, ``softmax(q kᵀ scale) v``, without storing a length × length matrix.

    Parameters
    ----------
    q, k, v : array or CPU tensor of shape (..., length, dim)
        k and v may have fewer heads than q: then neighbouring heads of q share them.
    causal : bool
        Every query sees the keys up to its own position. The last query is at the position of the last key.
    scale : float, optional
        None means 1/√dim.
    n_jobs : int, optional

    Returns
    -------
    array or tensor
        float32 for arrays, the type of q for tensors.

    Examples
    --------
    >>> import numpy as np
    >>> from randfeat import attention
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 2, 128, 16)).astype("float32")
    >>> out = attention.exact(q, k, v, causal=True)
    >>> out.shape, bool(np.allclose(out[:, 0], v[:, 0]))
    ((2, 128, 16), True)
    """
    return _run(0, q, k, v, bool(causal), _scale(scale), n_jobs, None)


def _scale(scale: float | None) -> float:
    if scale is None:
        return 0.0
    if not scale > 0 or not math.isfinite(scale):
        raise ValueError(f"scale = {scale}, want a positive number, or None for 1/√dim")
    return float(scale)


class Attention:
    """Attention with a method for every head, chosen by `calibrate`. Call it with queries, keys and values.

    Attributes
    ----------
    choice : dict
        The chosen method, expected error and cost of every head. `to_json` and `load` preserve it.
    """

    def __init__(self, handle: Handle, choice: dict[str, Any]):
        self._h, self.choice = handle, choice

    def __call__(self, q: Any, k: Any, v: Any, n_jobs: int | None = None) -> Any:
        """Attention of q over k and v: arrays or CPU tensors of shape (..., length, dim)."""
        return _run(self._h.h, q, k, v, bool(self.choice.get("causal")), 0.0, n_jobs, self._h)

    @property
    def methods(self) -> list[str]:
        """The method of every key/value head: exact, centroid or features."""
        return [h["method"] for h in self.choice["heads"]]

    def to_json(self) -> str:
        """The choice as JSON, for `load` and for the Go package attention/choose."""
        return json.dumps(self.choice)

    def __reduce__(self) -> Any:
        return load, (self.to_json(),)

    def __repr__(self) -> str:
        return f"<randfeat.attention.Attention {len(self.methods)} heads: {', '.join(sorted(set(self.methods)))}>"

    def _repr_html_(self) -> str:
        rows = []
        for i, h in enumerate(self.choice["heads"]):
            e = h.get("expected") or {}
            rows.append(
                f"<tr><td>{i}</td><td>{html.escape(h['method'])}</td><td>{h.get('cost', 0):.0f}</td>"
                f"<td>{e.get('error', 0):.3g}</td></tr>"
            )
        return (
            f"<p>attention for {self.choice['length']} keys, {'causal, ' if self.choice.get('causal') else ''}"
            f"tolerance {self.choice.get('tol', 0):g}</p>"
            f"<table><tr><th>head</th><th>method</th><th>cost</th><th>expected error</th></tr>{''.join(rows)}</table>"
        )


def calibrate(
    q: Any,
    k: Any,
    v: Any,
    tol: float = 0.1,
    causal: bool = False,
    scale: float | None = None,
    *,
    by_cost: bool = False,
    random_state: int = 1,
    n_jobs: int | None = None,
) -> Attention:
    """Choose for every head the fastest method whose error stays within a tolerance, for data like q, k and v.

    Parameters
    ----------
    q, k, v : array or CPU tensor of shape (..., length, dim)
        From texts like those that the model will see. Several texts, one per batch entry, are better than one.
    tol : float
        Largest expected relative error ``|out - exact| / |exact|`` of a head on other texts.
    causal : bool
    scale : float, optional
        None means 1/√dim.
    by_cost : bool
        Rank methods by multiply-adds instead of seconds, which gives the same choice on all machines.
    random_state : int
    n_jobs : int, optional

    Returns
    -------
    Attention
        A callable with a JSON form. Exact attention is among the candidates, so the result is rarely slower.

    Notes
    -----
    Choosing takes a second or two. Keep the result as long as the model and the kind of its input stay the same.

    Examples
    --------
    >>> import numpy as np
    >>> from randfeat import attention
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 1, 2, 256, 8)).astype("float32")
    >>> attend = attention.calibrate(q, k, v, tol=0.1, by_cost=True)
    >>> out = attend(q, k, v)
    >>> exact = attention.exact(q, k, v)
    >>> bool(np.linalg.norm(out - exact) <= 0.15 * np.linalg.norm(exact))
    True
    >>> attention.load(attend.to_json()).methods == attend.methods
    True
    """
    if not 0 < tol < 1:
        raise ValueError(f"tol = {tol}, want a relative error between 0 and 1")
    a, b, c = _view(q, "q"), _view(k, "k"), _view(v, "v")
    o = _lib.dumps(
        {"tol": float(tol), "causal": bool(causal), "scale": _scale(scale), "seed": int(random_state),
         "by_cost": bool(by_cost)}
    )  # fmt: skip
    sq, sk, sv, w = _seq(a), _seq(b), _seq(c), _lib.workers(n_jobs)
    run = lib().rf_attention_choose
    h, choice = _lib.job(lambda j, err: run(sq, sk, sv, o, w, j, None, None, err), (a, b, c))
    return Attention(Handle(h), json.loads(choice or "{}"))


def load(text: str) -> Attention:
    """Read an attention from the text of `Attention.to_json`."""
    h, e = C.c_uint64(), C.c_void_p()
    _lib.check(lib().rf_attention_read(text.encode(), C.byref(h), C.byref(e)), e)
    return Attention(Handle(h.value), json.loads(text))
