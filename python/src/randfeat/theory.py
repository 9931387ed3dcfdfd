"""Closed forms: the error of an estimate, before anything is drawn.

Every formula of `formulas` is a function of this module, by its name:

>>> from randfeat import theory
>>> round(theory.logrv.trig(z2=0.5), 4)
-2.0587
>>> theory.evaluate("oprf.rho", d=64, v2=16.0) == theory.oprf.rho(d=64, v2=16.0)
True

`moments` gives the error of a whole map at pairs of rows.
"""

from __future__ import annotations

import ctypes as C
import functools
import json
import math
from typing import Any, Mapping

import numpy as np

from . import _lib
from ._map import _pair, _ref, spec_of

__all__ = ["formulas", "evaluate", "moments"]


@functools.lru_cache(maxsize=None)
def _table() -> dict[str, dict[str, Any]]:
    return {f["name"]: f for f in json.loads(_lib.text("rf_formulas"))}


def formulas() -> list[dict[str, Any]]:
    """All formulas: name, reference (paper and place) and inputs.

    Examples
    --------
    >>> from randfeat import theory
    >>> [f["inputs"] for f in theory.formulas() if f["name"] == "logrv.trig"]
    [[{'key': 'z2', 'type': 'number ≥ 0'}]]
    """
    return list(_table().values())


def _number(v: Any) -> Any:
    if isinstance(v, str):
        return float(v)
    if isinstance(v, list):
        return [_number(x) for x in v]
    if isinstance(v, dict):
        return {k: _number(x) for k, x in v.items()}
    return math.nan if v is None else v


def _input(v: Any) -> Any:
    if isinstance(v, float) and math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return v


def evaluate(name: str, **inputs: Any) -> Any:
    """Evaluate a formula. All of its inputs are required, by name.

    Parameters
    ----------
    name : str
        One of `formulas`.
    **inputs
        Numbers, lists, arrays.

    Returns
    -------
    float, list or dict

    Examples
    --------
    >>> from randfeat import theory
    >>> theory.evaluate("kernel.log_mahalanobis", x=[1.0, 0.0], y=[2.0, 1.0], M_=[[1.0, 0.0], [0.0, 1.0]])
    2
    """
    body = _lib.dumps({k: _input(v) for k, v in inputs.items()})
    return _number(json.loads(_lib.text("rf_formula", name.encode(), body)))


def moments(spec: Mapping[str, Any], x: Any, y: Any, features: int | None = None) -> dict[str, np.ndarray]:
    """Moments of a map's estimate at pairs of rows: row i of x with row i of y.

    Parameters
    ----------
    spec : mapping
        As for `randfeat.Map`, with the number of projections ``m`` unless features is given.
    x, y : array of shape (n, dim)
    features : int, optional
        Number of features of the map.

    Returns
    -------
    dict of arrays of n numbers
        ``kernel``, ``mean``, ``bias`` (its absolute value), ``variance``, ``mse``, and the logarithm ``log_`` of each,
        which does not overflow. ``approximate`` is True where the form only approximates the coupling.

    Raises
    ------
    NoClosedFormError
        If no closed form is known for this kernel, family and coupling.

    Examples
    --------
    >>> import numpy as np
    >>> from randfeat import theory
    >>> m = theory.moments({"family": "trig", "dim": 2, "m": 100}, np.zeros((1, 2)), np.ones((1, 2)))
    >>> round(float(m["kernel"][0]), 4), round(float(m["variance"][0]), 6)
    (0.3679, 0.003738)
    """
    s = spec_of(spec)
    if features:
        from ._map import Map

        s = Map(s, features=features).spec
    x, y = _pair(x, y)
    out = np.empty((len(x), 6))
    e, w = C.c_void_p(), C.c_void_p()
    status = _lib.lib().rf_moments(_lib.dumps(s), _ref(x), _ref(y), _ref(out), C.byref(w), C.byref(e))
    warning = _lib.take(w)
    _lib.check(status, e)
    if warning:
        import warnings

        warnings.warn(warning, stacklevel=2)
    result = {}
    for j, name in enumerate(("kernel", "mean", "bias", "variance", "mse")):
        result["log_" + name] = out[:, j]
        with np.errstate(over="ignore"):
            result[name] = np.exp(out[:, j])
    result["approximate"] = out[:, 5] != 0
    return result


class _Group:
    """The formulas whose names have the same prefix, as attributes."""

    def __init__(self, prefix: str):
        self._prefix = prefix

    def __dir__(self) -> list[str]:
        return [n[len(self._prefix) + 1 :] for n in _table() if n.startswith(self._prefix + ".")]

    def __getattr__(self, name: str) -> Any:
        full = f"{self._prefix}.{name}"
        if name.startswith("_") or full not in _table():
            raise AttributeError(f"no formula {full}: randfeat.theory.formulas() lists all")
        entry = _table()[full]

        def formula(**inputs: Any) -> Any:
            return evaluate(full, **inputs)

        formula.__name__ = formula.__qualname__ = name
        formula.__doc__ = f"{entry['reference']}\n\nInputs: " + ", ".join(
            f"{i['key']} ({i['type']})" for i in entry["inputs"]
        )
        return formula


def __getattr__(name: str) -> Any:
    if name.startswith("__") or not any(n.startswith(name + ".") for n in _table()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _Group(name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | {n.split(".")[0] for n in _table()})
