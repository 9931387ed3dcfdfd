"""Tables of other libraries as tables of the native library, without copying numbers.

pandas DataFrames are read through NumPy's buffers, mappings of names to arrays likewise, and everything else that has
an Arrow C stream (polars, pyarrow, duckdb) through that stream.
"""

from __future__ import annotations

import ctypes as C
from typing import Any, Mapping, Sequence

import numpy as np

from . import _lib
from ._lib import Array, Handle, check, lib

_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class Table(Handle):
    """A table of the native library, with its number of rows and the names of its columns."""

    __slots__ = ("rows", "names")

    def __init__(self, h: int, rows: int, names: Sequence[str], keep: Any = None):
        super().__init__(h, keep)
        self.rows, self.names = rows, tuple(names)


def is_pandas(x: Any) -> bool:
    return hasattr(x, "iloc") and hasattr(x, "columns") and hasattr(x, "dtypes")


def is_table(x: Any) -> bool:
    """Whether x has columns with names."""
    if hasattr(x, "tocsr"):  # sparse matrices, of which some are mappings
        return False
    return is_pandas(x) or hasattr(x, "__arrow_c_stream__") or isinstance(x, Mapping)


def names_of(x: Any) -> list[str]:
    """The names of the columns of a table."""
    if isinstance(x, Mapping):
        return [str(c) for c in x]
    if hasattr(x, "column_names"):  # pyarrow
        return [str(c) for c in x.column_names]
    return [str(c) for c in x.columns]


def rows_of(x: Any) -> int:
    if isinstance(x, Mapping):
        return len(next(iter(x.values()))) if x else 0
    return len(x)


def table(x: Any) -> Table:
    """Make a table from a DataFrame of any library, or from a mapping of columns."""
    if isinstance(x, Mapping):
        return from_columns([column(str(n), v) for n, v in x.items()])
    if is_pandas(x):
        return from_columns([column(str(n), x.iloc[:, j]) for j, n in enumerate(x.columns)], len(x))
    if hasattr(x, "__arrow_c_stream__"):
        return from_arrow(x)
    raise TypeError(
        f"{type(x).__name__} is no table: want a DataFrame of pandas, polars, pyarrow or duckdb, or a mapping of "
        "names to arrays"
    )


_pointer = C.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = C.c_void_p, [C.py_object, C.c_char_p]


def from_arrow(x: Any) -> Table:
    """Make a table from an object with an Arrow C stream."""
    import json

    capsule = x.__arrow_c_stream__()
    h, info = _lib.call("rf_table_arrow", _pointer(capsule, b"arrow_array_stream"))
    d = json.loads(info or "{}")
    return Table(h, d["rows"], d["columns"], capsule)


Column = tuple[dict[str, Any], np.ndarray]


def from_columns(columns: Sequence[Column], rows: int = 0) -> Table:
    """Make a table from columns of `column`. Its arrays must stay alive as long as the table: it keeps them."""
    infos, arrays = [c[0] for c in columns], [c[1] for c in columns]
    if not arrays:
        raise _lib.InputError("the table has no columns")
    buffer = (Array * len(arrays))(*[_lib.array(a) for a in arrays])
    h, e = C.c_uint64(), C.c_void_p()
    check(lib().rf_table_columns(buffer, _lib.dumps(infos), C.byref(h), C.byref(e)), e)
    return Table(h.value, len(arrays[0]), [i["name"] for i in infos], arrays)


def join(a: Table, b: Table) -> Table:
    """The columns of two tables side by side."""
    h, e = C.c_uint64(), C.c_void_p()
    check(lib().rf_table_join(a.h, b.h, C.byref(h), C.byref(e)), e)
    return Table(h.value, a.rows, a.names + b.names, (a, b))


def matrix_columns(x: np.ndarray, names: Sequence[str]) -> list[Column]:
    """The columns of a matrix of numbers."""
    return [({"name": n, "sort": "number"}, x[:, j]) for j, n in enumerate(names)]


def column(name: str, values: Any) -> Column:
    """Describe a column and return its numbers, codes or times as an array."""
    v, dtype = values, getattr(values, "dtype", None)
    if not hasattr(v, "dtype"):
        v = np.asarray(v)
        dtype = v.dtype
    if hasattr(v, "cat"):  # categories of pandas
        return _codes(name, v.cat.codes.to_numpy(), list(v.cat.categories))
    kind = getattr(dtype, "kind", "O")
    if not isinstance(dtype, np.dtype):  # pandas' own types
        if kind in "iuf":
            return _number(name), v.to_numpy(dtype=np.float64, na_value=np.nan)
        if kind == "b" and not v.isna().any():
            return {"name": name, "sort": "boolean"}, v.to_numpy(dtype=bool)
        if kind == "M":
            if getattr(dtype, "tz", None) is not None:
                v = v.dt.tz_convert("UTC").dt.tz_localize(None)
            v = np.asarray(v.to_numpy() if v.to_numpy().dtype.kind == "M" else v.to_numpy("datetime64[ns]"))
            dtype, kind = v.dtype, "M"
    if isinstance(dtype, np.dtype):
        a = np.asarray(v)
        if kind == "M":
            return _moments(name, a)
        if kind == "b":
            return {"name": name, "sort": "boolean"}, a
        if kind in "iuf":
            return _number(name), a if _lib.known(a.dtype) else a.astype(np.float64)
        if kind == "c":
            raise TypeError(f"column {name!r}: complex data not supported")
        if kind in "US":
            levels, codes = np.unique(a, return_inverse=True)
            return _codes(name, codes, levels.tolist())
    return _objects(name, v)


def _number(name: str) -> dict[str, Any]:
    return {"name": name, "sort": "number"}


def _codes(name: str, codes: np.ndarray, levels: list[Any]) -> Column:
    if levels and all(isinstance(x, (bool, np.bool_)) for x in levels):
        levels = [str(bool(x)).lower() for x in levels]
    texts = [x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in levels]
    return {"name": name, "sort": "text", "levels": texts}, codes


def _moments(name: str, a: np.ndarray) -> Column:
    unit, count = np.datetime_data(a.dtype)
    if unit == "D" and count == 1:
        return {"name": name, "sort": "time", "unit": 0}, a.view(np.int64)
    if unit not in _UNITS or count != 1:
        a, unit = a.astype("datetime64[us]"), "us"
    return {"name": name, "sort": "time", "unit": _UNITS[unit]}, a.view(np.int64)


def _objects(name: str, v: Any) -> Column:
    """A column of Python objects or of pandas' strings: texts, numbers, booleans or dates."""
    try:
        if hasattr(v, "factorize"):
            codes, levels = v.factorize()
            levels = list(levels)
        else:
            codes, levels = _factorize(np.asarray(v, dtype=object))
    except TypeError:  # lists and other values without a hash
        bad = next(x for x in v if type(x).__hash__ is None)
        raise _no_cell(name, bad) from None
    kinds = {type(x) for x in levels}
    if kinds <= {bool, np.bool_} and kinds and len(codes) and codes.min() >= 0:
        return {"name": name, "sort": "boolean"}, np.array([bool(x) for x in levels])[codes]
    if kinds and all(issubclass(k, (int, float, np.integer, np.floating)) and k is not bool for k in kinds):
        numbers = np.append(np.array([float(x) for x in levels]), np.nan)  # code -1, missing, picks the last
        return _number(name), numbers[codes]
    if kinds and all(hasattr(k, "isoformat") for k in kinds):  # dates and times of Python
        if not any(hasattr(x, "hour") for x in levels):
            days = np.append(np.array(levels, dtype="datetime64[D]"), np.datetime64("NaT"))
            return _moments(name, days[codes])
        times = [x.astimezone(_utc()).replace(tzinfo=None) if getattr(x, "tzinfo", None) else x for x in levels]
        return _moments(name, np.append(np.array(times, dtype="datetime64[us]"), np.datetime64("NaT"))[codes])
    for x in levels:
        if not isinstance(x, (str, bytes, bool, int, float, np.generic)):
            raise _no_cell(name, x)
    return _codes(name, np.asarray(codes), levels)


def _no_cell(name: str, x: Any) -> TypeError:
    return TypeError(
        f"column {name!r}: argument must be a string or a number, not {type(x).__name__}; "
        "cells are texts, numbers, truth values or dates"
    )


def _utc() -> Any:
    import datetime

    return datetime.timezone.utc


def _factorize(a: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    seen: dict[Any, int] = {}
    codes = np.empty(len(a), np.int64)
    for i, x in enumerate(a):
        if x is None or x != x:
            codes[i] = -1
            continue
        codes[i] = seen.setdefault(x, len(seen))
    return codes, list(seen)
