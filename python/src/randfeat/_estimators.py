"""Estimators with the interface of scikit-learn."""

from __future__ import annotations

import numbers
import os
import warnings
from typing import Any, Sequence

import numpy as np

try:
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        OutlierMixin,
        RegressorMixin,
        TransformerMixin,
    )
    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as err:
    raise ImportError(
        f"the estimators of randfeat need scikit-learn 1.6 or later (pip install 'randfeat[sklearn]'): {err}"
    ) from err

from . import _lib, _table
from ._map import Map
from ._model import Model, Report, fit as _fit_table


def _seed(random_state: Any) -> int:
    if isinstance(random_state, numbers.Integral):
        return int(random_state) & (2**63 - 1)
    return int(check_random_state(random_state).randint(2**31))


class RandomFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random features of a kernel: inner products of transformed rows estimate the kernel.

    Parameters
    ----------
    n_components : int
        Largest number of features. Families of sines and cosines have an even number.
    kernel : {"gaussian", "laplace", "matern12", "matern32", "matern52", "softmax"}
        The kernel to estimate. "rbf" is another name of "gaussian".
    gamma : float or "scale"
        Width: ``exp(-gamma |x-y|²)`` for gaussian, ``exp(gamma x·y)`` for softmax; for the others gamma multiplies the
        distance. "scale" is ``1 / (n_features * X.var())``.
    family : str or dict
        Nonlinearity, one of `randfeat.families`; a dict has parameters, such as ``{"name": "oprf", "a": -0.1}``.
    coupling : str or dict
        Joint distribution of the projections, one of `randfeat.couplings`.
    fit_family : bool
        Fit the parameters of the family to the rows, if it has any.
    random_state : int, RandomState or None
        Seed of the projections: 1 unless given, as in the program; None draws one.
    n_jobs : int or None
        Number of threads; -1 or None means all processors.

    Attributes
    ----------
    map_ : Map
        The drawn map.

    Examples
    --------
    >>> import numpy as np
    >>> from randfeat import RandomFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> features = RandomFeatures(512, gamma=0.5, random_state=0).fit_transform(X)
    >>> exact = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    >>> bool(np.abs(features @ features.T - exact).mean() < 0.05)
    True
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        kernel: str = "gaussian",
        gamma: float | str = 1.0,
        family: Any = "trig",
        coupling: Any = "orthogonal",
        fit_family: bool = True,
        random_state: Any = 1,
        n_jobs: int | None = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.family = family
        self.coupling = coupling
        self.fit_family = fit_family
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> RandomFeatures:
        """Draw the map for rows like those of X.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : ignored
        """
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        n = self.n_components
        if not isinstance(n, numbers.Integral) or n < 1:
            raise ValueError(f"n_components = {n!r}, want a whole number of at least 1")
        spec = {
            "kernel": {"kind": self.kernel, "scale": self._scale(X)},
            "family": self.family,
            "coupling": self.coupling,
            "dim": X.shape[1],
            "seed": _seed(self.random_state),
        }
        rows = X if self.fit_family else None
        try:
            self.map_ = Map(spec, int(n), fit=rows)
        except _lib.RandfeatError as err:
            if "no number of projections" not in str(err):
                raise
            self.map_ = Map({**spec, "m": 1}, fit=rows)  # the smallest there is
        self._n_features_out = self.map_.n_features
        return self

    def _scale(self, X: np.ndarray) -> float:
        gamma = self.gamma
        if isinstance(gamma, str):
            if gamma != "scale":
                raise ValueError(f"gamma = {gamma!r}, want a positive number or 'scale'")
            variance = float(X.var())
            gamma = 1 / (X.shape[1] * variance) if variance > 0 else 1.0
        if not gamma > 0 or not np.isfinite(gamma):
            raise ValueError(f"gamma = {gamma!r}, want a positive number or 'scale'")
        if self.kernel in ("gaussian", "rbf"):
            return float(np.sqrt(0.5 / gamma))
        return float(1 / np.sqrt(gamma)) if self.kernel == "softmax" else float(1 / gamma)

    def transform(self, X: Any) -> np.ndarray:
        """Features of rows, as queries. float32 input gives float32 features."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return self.map_(X, n_jobs=self.n_jobs)

    def transform_keys(self, X: Any) -> np.ndarray:
        """Features of rows as keys. For some families of the softmax kernel they differ from those of queries."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return self.map_.keys(X, n_jobs=self.n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


_PARAMETERS = """model : str, optional
        Kind of model: "ridge" (least squares), "gp" (Gaussian process), "smoother" (weighted means), and for classes
        also "logistic". None chooses.
    map : {"exact", "random", "nystrom"}, optional
        How the kernel is computed. None uses the exact kernel for up to 20,000 rows, and the better of random features
        and landmarks beyond.
    kernel : str, optional
        One of `randfeat.kernels`, or "rbf" for "gaussian". None chooses.
    bandwidth : float, optional
        Bandwidth of the kernel, in units of standardised columns. None chooses.
    alpha : float, optional
        Penalty on the sum of losses. None chooses.
    max_features : int, optional
        Number of random features or landmarks. None chooses.
    scaling : str, optional
        Scaling of columns: "standard", "common", "robust", "none" or "learned". None chooses.
    folds : int
        Folds of the cross-validation behind choices, scores, probabilities and intervals. 1 means no cross-validation
        and none of these.
    categorical_features, text_features : list of str, optional
        Columns to treat as categories even if they hold numbers, and columns to treat as texts of words. Other columns
        are recognised. The columns of arrays are named x0, x1, …
    random_state : int, RandomState or None
        Seed of folds, samples and projections, 1 unless given, as in the program. The same seed and rows give the same model on any number of threads.
    n_jobs : int or None
        Number of threads. -1 means all processors, None as many as OMP_NUM_THREADS says, or else all.
    verbose : int
        1 shows a progress bar."""


class _Base(BaseEstimator):
    """The common part of the estimators for tables."""

    def __init__(
        self,
        *,
        model: str | None = None,
        map: str | None = None,
        kernel: str | None = None,
        bandwidth: float | None = None,
        alpha: float | None = None,
        max_features: int | None = None,
        scaling: str | None = None,
        folds: int = 5,
        categorical_features: Sequence[str] | None = None,
        text_features: Sequence[str] | None = None,
        random_state: Any = 1,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.model = model
        self.map = map
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.max_features = max_features
        self.scaling = scaling
        self.folds = folds
        self.categorical_features = categorical_features
        self.text_features = text_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _table(self, X: Any, reset: bool) -> tuple[Any, tuple[str, ...]]:
        """X as a table of the native library or as a matrix of numbers, and the names of its columns."""
        if _table.is_table(X):
            names = self._names(X, reset)
            t = _table.table(X)
            if t.rows == 0:
                raise ValueError(f"Found array with 0 sample(s) (shape=(0, {len(names)})) while a minimum of 1 is required.")
            return t, tuple(names)
        X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")
        if np.isinf(X).any():
            raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
        return X, tuple(f"x{j}" for j in range(X.shape[1]))

    def _names(self, X: Any, reset: bool) -> list[str]:
        """The names of a table's columns. Unless reset is set, they must equal those of the fit."""
        names = _table.names_of(X)
        if _table.is_pandas(X):  # scikit-learn's own checks of names
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:
            self.feature_names_in_ = np.array(names, dtype=object)
            self.n_features_in_ = len(names)
        else:
            known = list(getattr(self, "feature_names_in_", names))
            if names != known:
                missing, extra = [n for n in known if n not in names], [n for n in names if n not in known]
                what = (f" missing {missing}" if missing else "") + (f" unseen at fit time {extra}" if extra else "")
                raise ValueError(f"The feature names should match those that were passed during fit:{what or ' order'}")
        if len(set(names)) < len(names):
            raise ValueError(f"the columns have names that occur twice: {names}")
        return names

    def _fit(self, X: Any, y: Any, target: _table.Column | None, task: str, sample_weight: Any) -> None:
        t, names = self._table(X, True)
        rows = len(t) if isinstance(t, np.ndarray) else t.rows
        if rows < 2:
            raise ValueError(f"Found array with n_samples = {rows}, want at least 2 rows to fit a model to")
        if isinstance(t, np.ndarray):
            t = _table.from_columns(_table.matrix_columns(t, names))
        added: list[_table.Column] = []
        learn: dict[str, Any] = {
            "Categorical": list(self.categorical_features or []),
            "Text": list(self.text_features or []),
        }
        if target is not None:
            if len(target[1]) != rows:
                raise ValueError(
                    f"Found input variables with inconsistent numbers of samples: {[rows, len(target[1])]}"
                )
            name = getattr(y, "name", None)
            target[0]["name"] = _free(name if isinstance(name, str) and name else "target", names)
            added.append(target)
            learn["Targets"], learn["Task"] = [target[0]["name"]], task
        marks = {}
        if sample_weight is not None:
            w = _weights(sample_weight, rows)
            marks["Weight"] = _free("sample_weight", list(names) + [c[0]["name"] for c in added])
            added.append(({"name": marks["Weight"], "sort": "number"}, w))
        if added:
            t = _table.join(t, _table.from_columns(added))
        options = {
            "columns": learn,
            "marks": marks,
            "model": self.model,
            "map": self.map,
            "kernel": "gaussian" if self.kernel == "rbf" else self.kernel,
            "bandwidth": self.bandwidth,
            "lambda": self.alpha,
            "features": self.max_features,
            "scaling": self.scaling,
            "folds": self.folds,
            "seed": _seed(self.random_state),
        }
        for name in ("bandwidth", "alpha", "max_features", "folds"):
            v = getattr(self, name)
            if v is not None and not v > 0:
                raise ValueError(f"{name} = {v!r}, want more than 0")
        self.model_: Model = _fit_table(
            t, {k: v for k, v in options.items() if v is not None}, self.n_jobs, self.verbose
        )
        self.report_: Report = self.model_.report

    def _predict(self, X: Any, **options: Any) -> tuple[np.ndarray, list[str]]:
        check_is_fitted(self)
        t, _ = self._table(X, False)
        return self.model_._predict(t, self.n_jobs, options, warn=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file. `randfeat.load` and the command ``randfeat`` read it.

        Parameters
        ----------
        path : str
            The file is written atomically.
        """
        check_is_fitted(self)
        self.model_.save(path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class RandFeatRegressor(RegressorMixin, _Base):
    """Kernel regression that chooses every setting left at None.

    Tables may have numbers, categories, dates, booleans, texts and missing values.

    Parameters
    ----------
    PARAMETERS

    Attributes
    ----------
    model_ : Model
    report_ : Report
        What was chosen and why, and out-of-fold scores with intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from randfeat import RandFeatRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(200, 1))
    >>> model = RandFeatRegressor().fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.0]]).round(2)
    array([0.84])
    >>> model.report_["scores"][0]["name"]
    'RMSE'
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RandFeatRegressor:
        """Fit a model.

        Parameters
        ----------
        X : DataFrame of pandas, polars, pyarrow or duckdb, mapping of columns, or array of shape (n, n_features)
        y : array of n numbers
        sample_weight : array of n numbers, optional
            A weight of 2 counts the row twice.
        """
        y, target = _vector(y)
        values = y.astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError("Input y contains NaN or infinity.")
        self._fit(X, target, ({"sort": "number"}, values), "regression", sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict rows."""
        return self._predict(X)[0][:, 0]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Prediction intervals: limits that contain a share of new observations.

        Parameters
        ----------
        X : table or array
        coverage : float
            The share, between 0 and 1.

        Returns
        -------
        array of shape (n, 2)
            Lower and upper limits, from out-of-fold errors.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage = {coverage!r}, want a share between 0 and 1, such as 0.9")
        out, names = self._predict(X, interval=float(coverage))
        return out[:, [names.index("lower"), names.index("upper")]]


class RandFeatClassifier(ClassifierMixin, _Base):
    """Kernel classification that chooses every setting left at None, with calibrated probabilities.

    Parameters
    ----------
    PARAMETERS

    Attributes
    ----------
    classes_ : array
    model_ : Model
    report_ : Report
        What was chosen and why, and out-of-fold scores with intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from randfeat import RandFeatClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = RandFeatClassifier().fit(X, y)
    >>> model.predict([[1.0, 1.0], [1.0, -1.0]])
    array(['same', 'other'], dtype='<U5')
    >>> model.predict_proba([[1.0, 1.0]]).shape
    (1, 2)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RandFeatClassifier:
        """Fit a model.

        Parameters
        ----------
        X : DataFrame of pandas, polars, pyarrow or duckdb, mapping of columns, or array of shape (n, n_features)
        y : array of n classes
        sample_weight : array of n numbers, optional
            A weight of 2 counts the row twice.
        """
        y, target = _vector(y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        seen = codes.reshape(-1)
        if sample_weight is not None:
            w = _weights(sample_weight, len(seen))
            seen = seen[w > 0]
        if len(np.unique(seen)) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        levels = [_label(c) for c in self.classes_]
        column = ({"sort": "text", "levels": levels}, codes.reshape(-1))
        self._fit(X, target, column, "classification", sample_weight)
        self._order = np.array([_place(c, levels) for c in self.model_.classes])
        return self

    def _scores(self, X: Any, what: str) -> np.ndarray:
        values = self._predict(X, **{what: True})[0][:, 1:]
        out = np.zeros((len(values), len(self.classes_)))
        out[:, self._order] = values
        return out

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, one column for each of ``classes_``, calibrated on out-of-fold predictions."""
        return self._scores(X, "probabilities")

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        check_is_fitted(self)
        scores = self._scores(X, "probabilities" if self.model_.info["probabilities"] else "scores")
        return self.classes_[scores.argmax(axis=1)]


class AnomalyDetector(OutlierMixin, _Base):
    """Finds unusual rows by an estimated density, calibrated on held-out rows.

    Parameters
    ----------
    contamination : float
        Share of the training rows that count as outliers.
    bandwidth : float, optional
        Bandwidth of the kernel, in units of standardised columns. None chooses.
    max_features : int, optional
        Number of random features. None chooses.
    scaling, folds, categorical_features, text_features, random_state, n_jobs, verbose
        As for `RandFeatRegressor`.

    Attributes
    ----------
    offset_ : float
        The log density below which rows are outliers.
    model_ : Model
    report_ : Report

    Examples
    --------
    >>> import numpy as np
    >>> from randfeat import AnomalyDetector
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> detector = AnomalyDetector().fit(X)
    >>> detector.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    >>> detector.anomaly([[9.0, 9.0]])
    array([1.])
    """

    def __init__(
        self,
        *,
        contamination: float = 0.05,
        bandwidth: float | None = None,
        max_features: int | None = None,
        scaling: str | None = None,
        folds: int = 5,
        categorical_features: Sequence[str] | None = None,
        text_features: Sequence[str] | None = None,
        random_state: Any = 1,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.contamination = contamination
        self.bandwidth = bandwidth
        self.max_features = max_features
        self.scaling = scaling
        self.folds = folds
        self.categorical_features = categorical_features
        self.text_features = text_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    model, map, kernel, alpha = "density", None, None, None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> AnomalyDetector:
        """Fit a density.

        Parameters
        ----------
        X : table or array
        y : ignored
        sample_weight : array of n numbers, optional
            A weight of 2 counts the row twice.
        """
        c = self.contamination
        if not isinstance(c, numbers.Real) or not 0 < c <= 0.5:
            raise ValueError(f"contamination = {c!r}, want a share above 0 and at most 0.5")
        self._fit(X, None, None, "", sample_weight)
        scores = self.score_samples(X)
        if sample_weight is None:
            self.offset_ = float(np.percentile(scores, 100 * c))
        else:
            self.offset_ = _weighted_quantile(scores, np.asarray(sample_weight, dtype=float), c)
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of each row: large for usual rows."""
        return self._predict(X)[0][:, 0]

    def decision_function(self, X: Any) -> np.ndarray:
        """Log density minus the threshold: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """1 for usual rows, -1 for outliers."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def anomaly(self, X: Any) -> np.ndarray:
        """The share of rows from the training distribution that are less unusual: near 1 for outliers."""
        out, names = self._predict(X)
        if "anomaly" not in names:
            raise _lib.RandfeatError("too few rows to calibrate anomalies: fit with more than one fold")
        return out[:, names.index("anomaly")]


def _weighted_quantile(v: np.ndarray, w: np.ndarray, q: float) -> float:
    """numpy.percentile of rows repeated by their weights. Weights need not be whole numbers."""
    order = np.argsort(v, kind="stable")
    v, w = v[order], w[order]
    v, w = v[w > 0], w[w > 0]
    last = np.cumsum(w)  # row i stands for places last[i] - w[i] to last[i]
    at = q * max(0.0, last[-1] - 1)
    lower = v[min(np.searchsorted(last, np.floor(at), side="right"), len(v) - 1)]
    upper = v[min(np.searchsorted(last, np.floor(at) + 1, side="right"), len(v) - 1)]
    return float(lower + (at - np.floor(at)) * (upper - lower))


def _label(c: Any) -> str:
    """The text of a class: 1.0 becomes "1", as in a table."""
    return str(int(c)) if isinstance(c, (float, np.floating)) and float(c).is_integer() else str(c)


def _place(name: str, levels: list[str]) -> int:
    """The index of a class of the model among the levels. Numbers may be spelled differently."""
    if name in levels:
        return levels.index(name)
    return next(i for i, text in enumerate(levels) if _same_number(name, text))


def _same_number(a: str, b: str) -> bool:
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def _weights(sample_weight: Any, rows: int) -> np.ndarray:
    """Check the weights of rows and return them."""
    w = _check_sample_weight(sample_weight, np.empty((rows, 1)), dtype=np.float64, ensure_non_negative=True)
    if not w.any():
        raise ValueError("all sample weights are zero")
    return w


def _vector(y: Any) -> tuple[np.ndarray, Any]:
    """y as a vector, and y itself for its name."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    a = np.asarray(y)
    if a.ndim == 2 and a.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=3
        )
    return column_or_1d(a), y


for _c in (RandFeatRegressor, RandFeatClassifier):
    _c.__doc__ = (_c.__doc__ or "").replace("PARAMETERS", _PARAMETERS)
