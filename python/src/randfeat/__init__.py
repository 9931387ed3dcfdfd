"""Kernel machines, random features and attention, computed by a native library.

>>> import numpy as np, randfeat
>>> x = np.random.default_rng(0).normal(size=(1000, 8))
>>> phi = randfeat.Map({"family": "trig", "coupling": "orthogonal", "dim": 8}, features=512)(x)
>>> phi.shape
(1000, 512)
>>> exact = randfeat.gram(x[:100])
>>> bool(np.abs(phi[:100] @ phi[:100].T - exact).max() < 0.3)
True

For tables
    `RandFeatRegressor`, `RandFeatClassifier`, `AnomalyDetector`, and `load` for the file of a fitted model.
For features
    `Map`, `RandomFeatures` (a transformer of scikit-learn), `gram`, `advise`, `families`, `couplings`.
For theory
    `theory`: closed forms of the errors of random features.
For attention
    `attention`: exact attention, and a faster method for each head within a tolerance.

The estimators need scikit-learn (``pip install randfeat[sklearn]``); everything else needs NumPy alone.
"""

import sys as _sys

__version__ = "0.1.0"

if _sys.platform == "linux" and getattr(_sys.implementation, "_multiarch", "").endswith("musl"):
    raise ImportError(
        "randfeat does not run on Alpine Linux or other systems with musl: shared libraries of Go need glibc "
        "(golang/go#54805). Use an image with glibc, such as python:3-slim instead of python:3-alpine."
    )

_WHERE = {
    "RandomFeatures": "_estimators",
    "RandFeatRegressor": "_estimators",
    "RandFeatClassifier": "_estimators",
    "AnomalyDetector": "_estimators",
    "Map": "_map",
    "gram": "_map",
    "families": "_map",
    "couplings": "_map",
    "kernels": "_map",
    "Model": "_model",
    "Report": "_model",
    "load": "_model",
    "advise": "_advise",
    "Advice": "_advise",
    "theory": "",
    "attention": "",
    "RandfeatError": "_lib",
    "InputError": "_lib",
    "NoClosedFormError": "_lib",
    "InternalError": "_lib",
    "SurpriseWarning": "_lib",
    "set_num_threads": "_lib",
    "version": "_lib",
}

__all__ = list(_WHERE)


def __getattr__(name):
    # Submodules are imported at first use: importing NumPy and scikit-learn takes 100 times as long as the rest.
    import importlib

    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _WHERE[name] == "":
        return importlib.import_module("." + name, __name__)
    value = getattr(importlib.import_module("." + _WHERE[name], __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(list(globals()) + __all__)
