"""Fitted models. Their files are those of the command randfeat."""

from __future__ import annotations

import ctypes as C
import html
import json
import os
import re
import tempfile
import threading
import warnings
from typing import Any, Sequence

import numpy as np

from . import _lib, _table
from ._lib import Handle, check, lib


class Report(dict):
    """The report of a fit: a dict that notebooks show as a page.

    ``report["choices"]`` says what was chosen and why. ``report["scores"]`` has out-of-fold scores with intervals.
    ``report["notes"]`` lists what the user should know.
    """

    def __str__(self) -> str:
        lines = []
        for s in self.get("scores") or []:
            lines.append(f"{s['name']:<12} {s['value']:.4g}  [{s['low']:.4g}, {s['high']:.4g}]")
        if self.get("scored_on"):
            lines.append(f"scored on {self['scored_on']}")
        for c in self.get("choices") or []:
            lines.append(f"{c['name']:<12} {c['value']}  ({c['why']})")
        lines += [f"note: {n}" for n in self.get("notes") or []]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        scores = [
            (s["name"], f"<b>{s['value']:.4g}</b>", f"{s['low']:.4g} to {s['high']:.4g}")
            for s in self.get("scores") or []
        ]
        h = html.escape
        choices = [(h(c["name"]), f"<b>{h(c['value'])}</b>", h(c["why"])) for c in self.get("choices") or []]
        notes = "".join(f"<li>{h(n)}</li>" for n in self.get("notes") or [])
        head = f"<b>{h(str(self.get('task', '')))}</b> by {h(str(self.get('kind', 'a model')))}"
        if self.get("rows"):
            head += f", {self['rows']} rows, {self.get('seconds', 0):.1f} s"
        return (
            f"<div><p>{head}</p>{_html_table(('score', 'value', '95 % interval'), scores)}"
            f"<small>{h(self.get('scored_on') or '')}</small>"
            + (f"<ul>{notes}</ul>" if notes else "")
            + f"<details><summary>choices</summary>{_html_table(('choice', 'value', 'why'), choices)}</details></div>"
        )


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    cells = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in r) + "</tr>" for r in rows)
    return "<table><tr>" + "".join(f"<th>{h}</th>" for h in head) + f"</tr>{cells}</table>"


# Predictions of more work than this run as a job, so that Ctrl-C can stop them.
_LONG = 20000


class Model:
    """A fitted model. It predicts tables whose columns have the same names as in the fit.

    `load` reads one from a file; fitted estimators have one as ``model_``.

    Attributes
    ----------
    task : str
        "regression", "classification" or "unsupervised".
    kind : str
        Such as "ridge", "gp", "logistic", "density".
    fields, targets : list of str
        Columns that the model reads, and columns that it predicts.
    classes : list of str
        Classes of a classification.
    report : Report
    info : dict
        Everything else, such as the schema of the columns.
    """

    def __init__(self, handle: Handle, report: Any = None):
        self._h = handle
        self.info: dict[str, Any] = json.loads(_lib.text("rf_model_info", handle.h))
        history = self.info.get("history") or {}
        self.report = Report(report or {**history, "rows": self.info["rows"]})
        self.report.setdefault("task", self.info["task"])
        self.report.setdefault("kind", self.info["kind"])
        self.kind: str = self.info["kind"]
        self.task: str = self.info["task"]
        schema = self.info.get("schema") or {}
        self.fields: list[str] = [f["name"] for f in schema.get("fields") or []]
        self.targets: list[str] = [t["name"] for t in schema.get("targets") or []]
        self.classes: list[str] = (schema.get("targets") or [{}])[0].get("classes") or []
        self._ignored = schema.get("ignored") or []
        self._predictors: dict[Any, tuple[Handle, list[str]]] = {}
        self._rows: dict[int, tuple[Handle, list[str], Any]] = {}  # by the number of columns
        self._labels = np.array(self.classes)
        self._lock = threading.Lock()

    @classmethod
    def from_bytes(cls, b: bytes, report: Any = None) -> Model:
        """Read a model from the bytes of its file."""
        h, e = C.c_uint64(), C.c_void_p()
        check(lib().rf_model_read(b, len(b), C.byref(h), C.byref(e)), e)
        return cls(Handle(h.value), report)

    def to_bytes(self) -> bytes:
        """The bytes of the model's file."""
        e, p, n = C.c_void_p(), C.c_void_p(), C.c_int64()
        check(lib().rf_model_write(self._h.h, C.byref(p), C.byref(n), C.byref(e)), e)
        b = C.string_at(p.value or 0, n.value)
        lib().rf_free(p)
        return b

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file atomically. The command ``randfeat`` and `load` read it."""
        path = os.fspath(path)
        b = self.to_bytes()
        fd, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=os.path.dirname(path) or ".")
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(b)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def __reduce__(self) -> Any:
        return Model.from_bytes, (self.to_bytes(), dict(self.report))

    def predictor(self, columns: tuple[str, ...], **options: Any) -> tuple[Handle, list[str]]:
        """Return a predictor for tables with these columns, and the names of its output columns."""
        key = (columns, tuple(sorted(options.items())))
        with self._lock:
            found = self._predictors.get(key)
        if found is None:
            h, info = _lib.call("rf_predictor_new", self._h.h, _lib.dumps({"columns": columns, **options}))
            found = Handle(h), json.loads(info or "{}")["columns"]
            with self._lock:
                if len(self._predictors) > 16:
                    self._predictors.clear()
                self._predictors[key] = found
        return found

    def matrix_names(self, d: int) -> tuple[str, ...]:
        """Names for the columns of a matrix: x0, x1, … if the model was fitted to a matrix, otherwise its fields."""
        known = [n for n in self.fields + self._ignored if re.fullmatch(r"x\d+", n)]
        if len(known) == len(self.fields + self._ignored):
            return tuple(f"x{j}" for j in range(d))
        if d != len(self.fields):
            raise _lib.InputError(f"X has {d} columns, the model has {len(self.fields)} fields: {self.fields}")
        return tuple(self.fields)

    def predict_columns(self, X: Any, n_jobs: int | None = None, **options: Any) -> dict[str, np.ndarray]:
        """Predict all columns that the command ``randfeat predict`` writes.

        Parameters
        ----------
        X : table or array
            A DataFrame of pandas, polars, pyarrow or duckdb, a mapping of names to arrays, or a matrix of numbers.
        n_jobs : int, optional
            Number of threads; -1 or None means all processors.
        probabilities, scores, variance, float32, strict : bool
            Optional columns, computation in float32, and errors instead of warnings for unexpected rows.
        interval : float
            Coverage of prediction intervals.

        Returns
        -------
        dict of arrays
            ``prediction`` (for classifications the number of the class), ``p_<class>``, ``score_<class>``,
            ``variance``, ``lower``, ``upper``, or ``log_density`` and ``anomaly``.
        """
        out, names = self._predict(X, n_jobs, options)
        return {n: out[:, j] for j, n in enumerate(names)}

    def _predict(
        self, X: Any, n_jobs: int | None, options: dict[str, Any], warn: bool = True
    ) -> tuple[np.ndarray, list[str]]:
        if not options and type(X) is np.ndarray and X.ndim == 2 and X.shape[0] == 1 and X.dtype.char == "d":
            if not X.dtype.isnative:
                X = X.astype(np.float64)
            return self._predict_row(X, warn)
        if n_jobs is not None:
            options["workers"] = _lib.workers(n_jobs)
        s, e = C.c_void_p(), C.c_void_p()
        if type(X) is np.ndarray and X.ndim == 2 and _lib.known(X.dtype):
            p, names = self.predictor(self.matrix_names(X.shape[1]), **options)
            n, keep = X.shape[0], X
            run, x = lib().rf_predict_rows, C.byref(_lib.array(X))
        else:
            if not isinstance(X, _table.Table):
                X = self._columns(X)
            p, names = self.predictor(X.names, **options)
            n, keep = X.rows, X
            run, x = lib().rf_predict, X.h
        out = np.empty((n, len(names)))
        o = C.byref(_lib.array(out))
        if n <= _LONG // 64 or n * self.info["spec"].get("m", 1) <= _LONG * 256:
            check(run(p.h, x, o, None, C.byref(s), C.byref(e)), e)
            found = _lib.take(s)
        else:
            _, found = _lib.job(lambda j, err: run(p.h, x, o, j, None, err), (keep, p, out))
        if warn and found and found != "null":
            _surprised(json.loads(found))
        return out, names

    def _predict_row(self, x: np.ndarray, warn: bool) -> tuple[np.ndarray, list[str]]:
        """Predict one row. It avoids the array descriptors, which take longer than the prediction."""
        d = x.shape[1]
        found = self._rows.get(d)
        if found is None:
            p, names = self.predictor(self.matrix_names(d))
            found = self._rows[d] = p, names, C.c_double * len(names)
        p, names, kind = found
        out, s, e = kind(), C.c_void_p(), C.c_void_p()
        check(lib().rf_predict_row(p.h, x.tobytes(), d, out, len(names), C.byref(s), C.byref(e)), e)
        if s.value:
            surprises = _lib.take(s)
            if warn:
                _surprised(json.loads(surprises or "[]"), 5)
        return np.frombuffer(out).reshape(1, -1), names

    def _columns(self, X: Any) -> _table.Table:
        if _table.is_table(X):
            return _table.table(X)
        a = np.asarray(X)
        if a.ndim != 2:
            raise ValueError(f"X has {a.ndim} dimensions, want 2: reshape(1, -1) makes one row")
        names = self.matrix_names(a.shape[1])
        return _table.from_columns([_table.column(n, a[:, j]) for j, n in enumerate(names)])

    def predict(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Predict numbers, classes (as texts) or log densities. Several targets give one column each."""
        out, names = self._predict(X, n_jobs, {})
        if self.task == "classification":
            return self._labels[out[:, 0].astype(np.int64)]
        if self.task == "regression" and len(self.targets) > 1:
            return out[:, : len(self.targets)]
        return out[:, 0]

    def predict_proba(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Calibrated probabilities, one column for each of ``classes``."""
        return self._predict(X, n_jobs, {"probabilities": True})[0][:, 1:]

    def predict_interval(self, X: Any, coverage: float = 0.9, n_jobs: int | None = None) -> np.ndarray:
        """Prediction intervals: lower and upper limits that contain this share of new observations."""
        out, names = self._predict(X, n_jobs, {"interval": float(coverage)})
        return out[:, [names.index("lower"), names.index("upper")]]

    def anomaly(self, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """For densities: the share of rows of the training distribution that are less unusual. Near 1 for outliers."""
        out, names = self._predict(X, n_jobs, {})
        if "anomaly" not in names:
            raise _lib.RandfeatError("the model has no calibrated quantiles of a density")
        return out[:, names.index("anomaly")]

    def __repr__(self) -> str:
        return f"<randfeat.Model {self.kind} {self.task}: {', '.join(self.targets) or 'density'}, {self.info['rows']} rows>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def _surprised(found: list[dict[str, Any]], level: int = 4) -> None:
    for s in found:
        if not s.get("usual"):
            warnings.warn(s["text"], _lib.SurpriseWarning, stacklevel=level)


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model file that an estimator, `Model.save` or the command ``randfeat fit`` wrote.

    Examples
    --------
    >>> import numpy as np, randfeat, tempfile, os
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = randfeat.RandFeatRegressor(random_state=0).fit(x, x[:, 0])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.rf")
    >>> model.save(path)
    >>> bool((randfeat.load(path).predict(x) == model.predict(x)).all())
    True
    """
    with open(path, "rb") as f:
        return Model.from_bytes(f.read())


def fit(table: _table.Table, options: dict[str, Any], n_jobs: int | None = None, verbose: Any = 0) -> Model:
    """Fit a model to a table, as a job."""
    o, w = _lib.dumps(options), _lib.workers(n_jobs)
    run = lib().rf_fit
    h, report = _lib.job(
        lambda j, err: run(table.h, o, w, j, None, None, err), table, _lib.Bar() if verbose else None
    )
    return Model(Handle(h), json.loads(report or "{}"))
