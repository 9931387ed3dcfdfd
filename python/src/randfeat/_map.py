"""Feature maps and Gram matrices on NumPy arrays."""

from __future__ import annotations

import ctypes as C
import json
from typing import Any, Mapping

import numpy as np

from . import _lib
from ._lib import Handle, array, check, lib, matrix

# Work of one call, in multiply-adds. Python handles Ctrl-C between calls, so a call takes about a tenth of a second.
_CALL = 1 << 26


def _named(v: Any) -> Any:
    return {"name": v} if isinstance(v, str) else v


def spec_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON form of a spec: names of family, coupling and kernel become objects."""
    s = dict(spec)
    for key in ("family", "coupling"):
        if s.get(key) is not None:
            s[key] = _named(s[key])
    if "kernel" in s:
        s["kernel"] = kernel_of(s["kernel"])
    s.setdefault("m", 0)
    return s


def kernel_of(k: Any, scale: float | None = None) -> dict[str, Any]:
    k = {"kind": k} if isinstance(k, str) else dict(k)
    if scale is not None:
        k["scale"] = float(scale)
    return k


class Map:
    """A drawn feature map: ``map(x) @ map.keys(y).T`` estimates the kernel between the rows of x and y.

    Parameters
    ----------
    spec : mapping
        What to draw: ``family`` (see `families`), ``dim`` (columns of the input), and optionally ``kernel``
        ("gaussian" or ``{"kind": "softmax", "scale": 2.0}``), ``coupling`` (see `couplings`), ``m`` (number of
        projections) and ``seed``. Names stand for objects without parameters.
    features : int, optional
        Largest number of features, instead of ``m``. Families of sines and cosines have an even number.
    fit, fit_keys : array of shape (n, dim), optional
        Queries and keys to which the parameters of the family are fitted, if it has any; fit_keys defaults to fit.

    Attributes
    ----------
    spec : dict
        The complete spec, with fitted parameters. It draws the same map again.
    n_features, dim : int
    positive : bool
        Whether features are never negative.
    symmetric : bool
        Whether queries and keys have the same features.

    Examples
    --------
    >>> import numpy as np, randfeat
    >>> x = np.random.default_rng(0).normal(size=(50, 4)) / 2
    >>> m = randfeat.Map({"kernel": "softmax", "family": "oprf", "dim": 4, "seed": 7}, features=4096, fit=x)
    >>> estimate = m.gram(x, x)
    >>> float(np.abs(estimate / np.exp(x @ x.T) - 1).mean().round(1))
    0.0
    """

    def __init__(
        self, spec: Mapping[str, Any], features: int | None = None, fit: Any = None, fit_keys: Any = None
    ):
        x = None if fit is None else matrix(fit, "fit")
        y = None if fit_keys is None else matrix(fit_keys, "fit_keys")
        if y is not None and x is None:
            raise ValueError("fit_keys needs fit")
        request = _lib.dumps({"spec": spec_of(spec), "features": int(features or 0), "fit": x is not None})
        h, info = _lib.call("rf_map_new", request, _ref(x), _ref(y))
        d = json.loads(info or "{}")
        self._h = Handle(h)
        self._rows: dict[str, Any] = {}
        self.spec: dict[str, Any] = d["spec"]
        self.dim: int = d["dim"]
        self.n_features: int = d["features"]
        self.positive: bool = d["positive"]
        self.symmetric: bool = d["symmetric"]

    def __call__(self, x: Any, out: np.ndarray | None = None, n_jobs: int | None = None) -> np.ndarray:
        """Features of the rows of x as queries, in the precision of x.

        Parameters
        ----------
        x : array of shape (n, dim)
        out : array of shape (n, n_features), optional
            Array to write to. Its rows must be contiguous.
        n_jobs : int, optional
            Number of threads. -1 means all processors, None as many as OMP_NUM_THREADS says, or else all.

        Returns
        -------
        array of shape (n, n_features)
        """
        return self._features(x, out, n_jobs, 0, None)

    def keys(self, x: Any, out: np.ndarray | None = None, n_jobs: int | None = None) -> np.ndarray:
        """Features of the rows of x as keys. For symmetric maps they equal those of queries."""
        return self._features(x, out, n_jobs, 1, None)

    def log_features(self, x: Any, keys: bool = False, n_jobs: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Features divided by ``exp(log_scale)`` of their row, so that they do not overflow, and log_scale.

        Examples
        --------
        >>> import numpy as np, randfeat
        >>> m = randfeat.Map({"kernel": "softmax", "family": "positive", "dim": 2, "m": 64})
        >>> phi, log_scale = m.log_features(np.full((1, 2), 40.0))
        >>> bool(np.isfinite(phi).all()), log_scale.shape
        (True, (1,))
        """
        x = matrix(x)
        scale = np.empty(len(x))
        return self._features(x, None, n_jobs, int(keys), scale), scale

    def _row(self, x: np.ndarray, keys: int) -> np.ndarray:
        """Features of one row. It avoids the array descriptors, which take longer than the features."""
        char = x.dtype.char
        kind = self._rows.get(char)
        if kind is None:
            kind = self._rows[char] = (C.c_double if char == "d" else C.c_float) * self.n_features
        buffer, e = kind(), C.c_void_p()
        b = x.tobytes()
        check(lib().rf_map_row(self._h.h, b, x.shape[1], buffer, self.n_features, ord(char), keys, C.byref(e)), e)
        return np.frombuffer(buffer, x.dtype).reshape(1, -1)

    def _features(
        self, x: Any, out: np.ndarray | None, n_jobs: int | None, keys: int, scale: np.ndarray | None
    ) -> np.ndarray:
        if type(x) is not np.ndarray or x.ndim != 2 or x.dtype.char not in "fd" or not x.dtype.isnative:
            x = matrix(x)
        n = x.shape[0]
        if n == 1 and out is None and scale is None:
            return self._row(x, keys)
        if out is None:
            out = np.empty((n, self.n_features), x.dtype)
        elif out.shape != (n, self.n_features) or out.dtype != x.dtype:
            raise ValueError(f"out is {out.dtype} of shape {out.shape}, want {x.dtype} of {(n, self.n_features)}")
        a, o, e, w = array(x), array(out), C.c_void_p(), _lib.workers(n_jobs)
        apply = lib().rf_map_apply
        step = max(1024, _CALL // (self.n_features * (self.dim + 8)))
        if n <= step:
            p = None if scale is None else scale.ctypes.data
            check(apply(self._h.h, C.byref(a), C.byref(o), p, keys, w, C.byref(e)), e)
            return out
        for lo in range(0, n, step):
            a, o = array(x[lo : lo + step]), array(out[lo : lo + step])
            p = None if scale is None else scale[lo:].ctypes.data
            check(apply(self._h.h, C.byref(a), C.byref(o), p, keys, w, C.byref(e)), e)
        return out

    def gram(self, x: Any, y: Any = None, n_jobs: int | None = None) -> np.ndarray:
        """Estimates of the kernel between the rows of x (queries) and y (keys; None: x)."""
        x, y = _pair(x, y)
        out = np.empty((len(x), len(y)), x.dtype)
        w = _lib.workers(n_jobs)

        def part(a: np.ndarray, o: np.ndarray) -> None:
            e = C.c_void_p()
            status = lib().rf_map_gram(self._h.h, _ref(a), _ref(y), _ref(o), w, C.byref(e))
            check(status, e)

        return _parts(part, x, out, self.n_features + self.dim)

    def __reduce__(self) -> Any:
        return Map, (self.spec,)

    def __repr__(self) -> str:
        return f"Map({json.dumps(self.spec)})"


def _ref(a: np.ndarray | None) -> Any:
    return None if a is None else C.byref(array(a))


def _pair(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    x = matrix(x)
    y = x if y is None else matrix(y, "y")
    if x.dtype != y.dtype:
        x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"x has {x.shape[1]} columns and y has {y.shape[1]}")
    return x, y


def _parts(part: Any, x: np.ndarray, out: np.ndarray, cost: int) -> np.ndarray:
    if out.size == 0:
        return out
    step = max(256, _CALL // (max(1, out.shape[1]) * cost))
    for lo in range(0, len(x), step):
        part(x[lo : lo + step], out[lo : lo + step])
    return out


def gram(x: Any, y: Any = None, kernel: Any = "gaussian", scale: float = 1.0) -> np.ndarray:
    """The exact kernel between the rows of x and y.

    Parameters
    ----------
    x, y : array of shape (n, d), (m, d)
        None for y means x.
    kernel : str
        One of `kernels`: "gaussian" is ``exp(-|u-v|²/2)``, "softmax" ``exp(u·v)``.
    scale : float
        u = x/scale and v = y/scale.

    Returns
    -------
    array of shape (n, m)

    Examples
    --------
    >>> import numpy as np, randfeat
    >>> randfeat.gram(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """
    x, y = _pair(x, y)
    out = np.empty((len(x), len(y)), x.dtype)
    k = _lib.dumps(kernel_of(kernel, scale))

    def part(a: np.ndarray, o: np.ndarray) -> None:
        e = C.c_void_p()
        check(lib().rf_kernel_gram(k, _ref(a), _ref(y), _ref(o), C.byref(e)), e)

    if x is y and out.size < _CALL:  # one call computes only half of a symmetric matrix
        part(x, out)
        return out
    return _parts(part, x, out, x.shape[1] + 8)


def families() -> list[dict[str, Any]]:
    """List the families: nonlinearities that turn projections into features.

    Examples
    --------
    >>> import randfeat
    >>> [f["name"] for f in randfeat.families()][:3]
    ['trig', 'positive', 'hyperbolic']
    """
    return json.loads(_lib.text("rf_catalog", b"families"))


def couplings() -> list[dict[str, Any]]:
    """List the couplings: joint distributions of the projections.

    Examples
    --------
    >>> import randfeat
    >>> "orthogonal" in [c["name"] for c in randfeat.couplings()]
    True
    """
    return json.loads(_lib.text("rf_catalog", b"couplings"))


def kernels() -> list[str]:
    """List the names of the kernels.

    Examples
    --------
    >>> import randfeat
    >>> randfeat.kernels()[:2]
    ['gaussian', 'softmax']
    """
    return json.loads(_lib.text("rf_catalog", b"kernels"))
