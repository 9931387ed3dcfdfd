"""The C interface of the native library (randfeat.h), through ctypes. The first call loads the library."""

from __future__ import annotations

import ctypes as C
import json
import os
import sys
import threading
import time
import weakref
from typing import Any, Callable

import numpy as np

ABI = 1


class RandfeatError(ValueError):
    """An argument cannot be used. The message says which one and why."""


class InputError(RandfeatError):
    """The rows or columns of a table cannot be used."""


class NoClosedFormError(RandfeatError):
    """No closed form is known for this kernel, family and coupling."""


class InternalError(RuntimeError):
    """A bug in randfeat. Please report it with its message."""


class Cancelled(Exception):
    """A job was cancelled."""


class SurpriseWarning(UserWarning):
    """Rows differ from the training data: unseen levels, values out of range, missing values."""


class Array(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("rows", C.c_int64),
        ("cols", C.c_int64),
        ("row_stride", C.c_int64),
        ("col_stride", C.c_int64),
        ("dtype", C.c_int32),
    ]


class Seq(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("batch", C.c_int64),
        ("heads", C.c_int64),
        ("length", C.c_int64),
        ("dim", C.c_int64),
        ("stride_batch", C.c_int64),
        ("stride_head", C.c_int64),
        ("stride_length", C.c_int64),
        ("dtype", C.c_int32),
    ]


_text = C.POINTER(C.c_void_p)  # rf_text *
_handle, _handles = C.c_uint64, C.POINTER(C.c_uint64)
_array, _seq = C.POINTER(Array), C.POINTER(Seq)
_i32, _i64s = C.c_int32, C.POINTER(C.c_int64)

# name: (types of the arguments, type of the result)
_FUNCTIONS: dict[str, tuple[list[Any], Any]] = {
    "rf_abi": ([], _i32),
    "rf_version": ([_text], None),
    "rf_free": ([C.c_void_p], None),
    "rf_release": ([_handle], None),
    "rf_live": ([], C.c_int64),
    "rf_threads": ([_i32], _i32),
    "rf_collect": ([], None),
    "rf_job_wait": ([_handle, _i32, C.POINTER(_i32), _text, _i64s, _i64s, _text], _i32),
    "rf_job_cancel": ([_handle], None),
    "rf_job_result": ([_handle, _handles, _text, _text], _i32),
    "rf_map_new": ([C.c_char_p, _array, _array, _handles, _text, _text], _i32),
    "rf_map_apply": ([_handle, _array, _array, C.c_void_p, _i32, _i32, _text], _i32),
    "rf_map_row": ([_handle, C.c_char_p, C.c_int64, C.c_void_p, C.c_int64, _i32, _i32, _text], _i32),
    "rf_map_gram": ([_handle, _array, _array, _array, _i32, _text], _i32),
    "rf_kernel_gram": ([C.c_char_p, _array, _array, _array, _text], _i32),
    "rf_catalog": ([C.c_char_p, _text, _text], _i32),
    "rf_formulas": ([_text, _text], _i32),
    "rf_formula": ([C.c_char_p, C.c_char_p, _text, _text], _i32),
    "rf_moments": ([C.c_char_p, _array, _array, _array, _text, _text], _i32),
    "rf_advise": ([_array, _array, C.c_char_p, _handles, _text, _text], _i32),
    "rf_table_columns": ([_array, C.c_char_p, _handles, _text], _i32),
    "rf_table_arrow": ([C.c_void_p, _handles, _text, _text], _i32),
    "rf_table_join": ([_handle, _handle, _handles, _text], _i32),
    "rf_fit": ([_handle, C.c_char_p, _i32, _handles, _handles, _text, _text], _i32),
    "rf_model_read": ([C.c_char_p, C.c_int64, _handles, _text], _i32),
    "rf_model_write": ([_handle, _text, _i64s, _text], _i32),
    "rf_model_info": ([_handle, _text, _text], _i32),
    "rf_predictor_new": ([_handle, C.c_char_p, _handles, _text, _text], _i32),
    "rf_predict": ([_handle, _handle, _array, _handles, _text, _text], _i32),
    "rf_predict_rows": ([_handle, _array, _array, _handles, _text, _text], _i32),
    "rf_predict_row": ([_handle, C.c_char_p, C.c_int64, C.c_void_p, C.c_int64, _text, _text], _i32),
    "rf_attention_choose": ([_seq, _seq, _seq, C.c_char_p, _i32, _handles, _handles, _text, _text], _i32),
    "rf_attention_read": ([C.c_char_p, _handles, _text], _i32),
    "rf_attention_run": ([_handle, _seq, _seq, _seq, _seq, _i32, C.c_double, _i32, _handles, _text, _text], _i32),
    "rf_test_panic": ([_i32, _text], _i32),
}

_lock = threading.Lock()
_loaded: Any = None
_forked = False


def library_path() -> str:
    """The library file: RANDFEAT_LIBRARY, or the one installed with this package."""
    name = {"win32": "randfeat.dll", "darwin": "librandfeat.dylib"}.get(sys.platform, "librandfeat.so")
    return os.environ.get("RANDFEAT_LIBRARY") or os.path.join(os.path.dirname(__file__), name)


def _load(path: str) -> Any:
    try:
        library = C.CDLL(path)
    except OSError as err:
        raise ImportError(f"randfeat cannot load its library {path}: {err}") from err
    for name, (arguments, result) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    if library.rf_abi() != ABI:
        raise ImportError(f"{path} is the library of another version of randfeat: install the package again")
    return library


def _after_fork() -> None:
    global _forked
    _forked = _loaded is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def lib() -> Any:
    """Return the library and load it if necessary. Raises in a forked child, where Go's threads do not exist."""
    global _loaded
    if _forked:
        raise RuntimeError(
            "randfeat was used before this process was forked, and its threads do not survive a fork: start processes "
            "by 'forkserver' or 'spawn' (multiprocessing.get_context), or with joblib (loky)"
        )
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _load(library_path())
    return _loaded


def take(p: C.c_void_p) -> str | None:
    """Return a text of the library and free it."""
    if not p.value:
        return None
    s = C.string_at(p.value).decode("utf-8", "replace")
    lib().rf_free(p)
    p.value = None
    return s


_KINDS: dict[int, type[Exception]] = {
    1: RandfeatError,
    2: InputError,
    3: Cancelled,
    4: InternalError,
    5: NoClosedFormError,
    6: InternalError,
}


def check(status: int, err: C.c_void_p) -> None:
    """Raise the error of a call."""
    if status:
        raise _KINDS.get(status, InternalError)(take(err) or "unknown error")


class Handle:
    """Owns an object of the library and keeps the memory alive that it reads. Garbage collection releases both."""

    __slots__ = ("h", "keep", "_finalizer", "__weakref__")

    def __init__(self, h: int, keep: Any = None):
        self.h, self.keep = h, keep
        self._finalizer = weakref.finalize(self, _release, h, keep)
        self._finalizer.atexit = False


def _release(h: int, keep: Any) -> None:
    if not _forked:
        _loaded.rf_release(h)


_BY_SIZE = {"f4": "f", "f8": "d", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "l",
            "u8": "L", "b1": "?"}  # fmt: skip
# By NumPy's letter of a type. Which of l and q has 64 bits depends on the system.
_CODES = {c: ord(_BY_SIZE[np.dtype(c).str[1:]]) for c in "fdbBhHiIlLqQ?"}


def known(dtype: np.dtype) -> bool:
    """Whether the library reads arrays of a type."""
    return dtype.char in _CODES and dtype.isnative


def array(a: np.ndarray) -> Array:
    """Describe an array of one or two dimensions for the library. The caller must keep the array alive."""
    if a.ndim == 2:
        (rows, cols), (rs, cs) = a.shape, a.strides
    else:
        rows, cols, rs, cs = a.shape[0], 1, a.strides[0], a.itemsize
    return Array(a.__array_interface__["data"][0], rows, cols, rs, cs, _CODES[a.dtype.char])


def matrix(x: Any, name: str = "x") -> np.ndarray:
    """x as a matrix of float32 or float64."""
    a = np.asarray(x)
    if a.dtype != np.float32 and a.dtype != np.float64 or not a.dtype.isnative:
        if a.dtype.kind not in "fiub":
            raise TypeError(f"{name} must hold numbers, not {a.dtype}")
        a = a.astype(np.float32 if a.dtype.kind == "f" and a.itemsize <= 4 else np.float64)
    if a.ndim != 2:
        raise ValueError(f"{name} has {a.ndim} dimensions, want 2: reshape(-1, 1) makes a column, reshape(1, -1) a row")
    return a


def call(name: str, *arguments: Any) -> tuple[int, str | None]:
    """Call a function whose last arguments are a handle, a text and err. Return the handle and the text."""
    h, s, e = C.c_uint64(), C.c_void_p(), C.c_void_p()
    check(getattr(lib(), name)(*arguments, C.byref(h), C.byref(s), C.byref(e)), e)
    return h.value, take(s)


def text(name: str, *arguments: Any) -> str:
    """Call a function whose last arguments are a text and err. Return the text."""
    s, e = C.c_void_p(), C.c_void_p()
    check(getattr(lib(), name)(*arguments, C.byref(s), C.byref(e)), e)
    return take(s) or ""


def dumps(v: Any) -> bytes:
    return json.dumps(v, default=_plain).encode()


def _plain(v: Any) -> Any:
    if isinstance(v, np.generic):
        return v.item()
    if isinstance(v, np.ndarray):
        return v.tolist()
    raise TypeError(f"{v!r} has no JSON form")


def _omp() -> int:
    try:
        return max(0, int(os.environ.get("OMP_NUM_THREADS", "0")))
    except ValueError:
        return 0


_default_workers = _omp()  # read once: it takes as long as computing a row of features


def workers(n_jobs: int | None) -> int:
    """Threads of a call, 0 for all. n_jobs follows scikit-learn; None uses OMP_NUM_THREADS, which joblib sets."""
    if n_jobs is None:
        return _default_workers
    n = int(n_jobs)
    if n == 0:
        raise ValueError("n_jobs == 0 has no meaning: -1 is for all processors")
    if n == -1:
        return 0
    return n if n > 0 else max(1, (os.cpu_count() or 1) + 1 + n)


class Bar:
    """A progress bar on stderr: one line that is redrawn in terminals and notebooks, otherwise one line per stage."""

    def __init__(self, out: Any = None):
        self.out = out or sys.stderr
        self.live = bool(getattr(self.out, "isatty", lambda: False)()) or "ipykernel" in sys.modules
        self.stage, self.wide, self.start = "", 0, time.monotonic()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if not self.live:
            if stage != self.stage:
                self.stage = stage
                print(f"randfeat: {stage}, after {time.monotonic() - self.start:.1f} s", file=self.out, flush=True)
            return
        if stage == "choose":  # how many trials come is not known
            total = 0
        share = min(1.0, done / total) if total > 0 else 0.0
        part = int(20 * share)
        s = f"{stage:<10}[{'#' * part}{'.' * (20 - part)}]"
        s += f" {100 * share:3.0f} %" if total > 0 else f" {done}"
        s += f" {time.monotonic() - self.start:6.1f} s"
        print("\r" + s.ljust(self.wide), end="", file=self.out, flush=True)
        self.wide = len(s)

    def end(self) -> None:
        if self.live and self.wide:
            print("\r" + " " * self.wide + "\r", end="", file=self.out, flush=True)


def job(start: Callable[[Any, Any], int], keep: Any, progress: Any = None) -> tuple[int, str | None]:
    """Run a job, which start(job, err) starts. Ctrl-C cancels it: Python handles signals between waits of 0.1 s."""
    h = C.c_uint64()
    e = C.c_void_p()
    check(start(C.byref(h), C.byref(e)), e)
    owner = Handle(h.value, keep)
    finished, stage, done, total = C.c_int32(), C.c_void_p(), C.c_int64(), C.c_int64()
    wait = lib().rf_job_wait
    try:
        while True:
            # ctypes releases the GIL during the call.
            status = wait(h, 100, C.byref(finished), C.byref(stage), C.byref(done), C.byref(total), C.byref(e))
            check(status, e)
            s = take(stage)
            if finished.value:
                break
            if progress and s:
                progress(s, done.value, total.value)
    except BaseException:
        lib().rf_job_cancel(h)
        _abandon(owner)
        raise
    finally:
        if progress:
            progress.end()
    return call("rf_job_result", h)


def _abandon(owner: Handle) -> None:
    """Wait for a cancelled job. If it takes long, a thread waits on, so that the memory it reads stays alive."""
    if _finished(owner, 200):
        return

    def rest() -> None:
        while not _finished(owner, 1000):
            pass

    threading.Thread(target=rest, name="randfeat-cancelled", daemon=True).start()


def _finished(owner: Handle, ms: int) -> bool:
    finished, e = C.c_int32(), C.c_void_p()
    lib().rf_job_wait(owner.h, ms, C.byref(finished), None, None, None, C.byref(e))
    take(e)
    return bool(finished.value)


def set_num_threads(n: int) -> int:
    """Limit the number of threads that compute at the same time, over all calls.

    Parameters
    ----------
    n : int
        Number of threads, at least 1.

    Returns
    -------
    int
        The previous number.
    """
    if int(n) < 1:
        raise ValueError(f"n = {n}, want at least 1")
    return int(lib().rf_threads(int(n)))


def version() -> dict[str, str]:
    """Versions of the package, of the library and of the Go that built it.

    Examples
    --------
    >>> import randfeat
    >>> sorted(randfeat.version())[:2]
    ['go', 'package']
    """
    from . import __version__

    s = C.c_void_p()
    lib().rf_version(C.byref(s))
    return {"package": __version__, **json.loads(take(s) or "{}")}
