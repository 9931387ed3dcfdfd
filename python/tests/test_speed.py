"""The speeds that the package promises, on a machine that does nothing else: pytest --long -s tests/test_speed.py."""

import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.kernel_ridge import KernelRidge

import randfeat

pytestmark = pytest.mark.long


def medians(*calls, repeat=7):
    """Median seconds of calls, in turns."""
    times = [[] for _ in calls]
    for c in calls:
        c()
    for _ in range(repeat):
        for t, c in zip(times, calls):
            start = time.perf_counter()
            c()
            t.append(time.perf_counter() - start)
    return [float(np.median(t)) for t in times]


def test_import():
    code = "import time; t = time.perf_counter(); import randfeat; print(time.perf_counter() - t)"
    t = min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout) for _ in range(7))
    print(f"import: {1e3 * t:.2f} ms")
    assert t < 10e-3


def test_one_row():
    m = randfeat.Map({"family": "trig", "dim": 8}, features=64)
    x = np.zeros((1, 8))
    r = np.random.default_rng(0)
    X = r.normal(size=(100, 8))
    model = randfeat.RandFeatRegressor(folds=1, map="random", max_features=64, bandwidth=2.0, alpha=1.0).fit(X, X[:, 0])

    def many(f):
        def run():
            for _ in range(1000):
                f(x)

        return run

    a, b = medians(many(m), many(model.model_.predict))
    print(f"one row: features {1e3 * a:.2f} µs, prediction of a model {1e3 * b:.2f} µs")
    assert a < 10e-3 and b < 10e-3


@pytest.mark.parametrize("dtype, least", [(np.float32, 3), (np.float64, 5)])
def test_features(dtype, least):
    x = np.random.default_rng(0).normal(size=(20000, 64)).astype(dtype)
    ours = randfeat.RandomFeatures(1024, gamma=0.01, random_state=0, n_jobs=2).fit(x)
    theirs = RBFSampler(gamma=0.01, n_components=1024, random_state=0).fit(x)
    a, b = medians(lambda: ours.transform(x), lambda: theirs.transform(x))
    print(f"20000 × 64 → 1024, {dtype.__name__}: {1e3 * a:.0f} ms, RBFSampler {1e3 * b:.0f} ms, {b / a:.1f} times")
    assert b / a > least


def test_kernel_ridge():
    r = np.random.default_rng(0)
    x = r.normal(size=(4000, 16))
    y = np.sin(x).sum(axis=1)
    gamma = 1 / 32
    ours = randfeat.RandFeatRegressor(map="exact", kernel="gaussian", bandwidth=4.0, alpha=0.1, scaling="standard", folds=1)
    theirs = KernelRidge(kernel="rbf", gamma=gamma, alpha=0.1)
    a, b = medians(lambda: ours.fit(x, y).score(x, y), lambda: theirs.fit(x, y).score(x, y), repeat=3)
    print(f"exact kernel ridge, 4000 rows: {a:.2f} s, KernelRidge {b:.2f} s, {b / a:.1f} times")
    assert abs(ours.score(x, y) - theirs.score(x, y)) < 0.01
    assert b / a > 3
