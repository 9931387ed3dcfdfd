"""What people get of scikit-learn without further thought, on the rows and splits of a job (JSON, see
accuracy/protocol.go): SVC and HistGradientBoosting with their defaults, and small grids of KernelRidge and Nystroem.
Answers {method: {scores, seconds}} on stdout.

  python defaults.py job.json
"""

import json
import sys
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR

from accuracy import gamma, labels, points, targets

# Rows on which a grid is tried, and rows of a kernel matrix: KernelRidge factors one per setting and fold.
TUNE, KERNEL = 2000, 10000


def grid_ridge(job, x, y, train):
    """KernelRidge by the grid of the job on centred targets."""
    tune = train[:TUNE]
    t = targets(job, y)
    mean = t[train].mean(axis=0)
    found = None
    for scale in job["scales"]:
        for penalty in (1.0, 0.1, 0.01, 0.001):
            wrong = 0.0
            for k in range(3):
                fit, held = tune[np.arange(len(tune)) % 3 != k], tune[np.arange(len(tune)) % 3 == k]
                m = KernelRidge(alpha=penalty, kernel="rbf", gamma=gamma(scale)).fit(x[fit], t[fit] - mean)
                p = labels(job, m.predict(x[held]) + mean)
                wrong += np.sum(p != y[held]) if job["classes"] else np.sum((p - y[held]) ** 2)
            if found is None or wrong < found[0]:
                found = (wrong, scale, penalty)
    rows = train[:KERNEL]
    m = KernelRidge(alpha=found[2], kernel="rbf", gamma=gamma(found[1])).fit(x[rows], t[rows] - mean)
    return lambda z: labels(job, m.predict(z) + mean)


def grid_nystroem(job, x, y, train, seed):
    model = make_pipeline(Nystroem(n_components=min(1000, len(train) // 2), random_state=seed),
                          RidgeClassifier() if job["classes"] else Ridge())
    step = model.steps[-1][0]
    grid = {"nystroem__gamma": [gamma(s) for s in job["scales"]], step + "__alpha": [1.0, 0.1, 0.01]}
    tune = train[:TUNE + 1000]
    model.set_params(nystroem__n_components=min(1000, len(tune) // 2))
    best = GridSearchCV(model, grid, cv=3, refit=False).fit(x[tune], y[tune]).best_params_
    model.set_params(nystroem__n_components=min(1000, len(train) // 2), **best)
    return model.fit(x[train], y[train]).predict


def main():
    with open(sys.argv[1]) as f:
        job = json.load(f)
    x, y = np.load(job["x"]), np.load(job["y"])[:, 0]
    out = {}
    for trial in job["trials"]:
        train, test = np.array(trial["train"]), np.array(trial["test"])
        classes = job["classes"] > 0
        boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        methods = {
            "SVC": lambda: (SVC() if classes else SVR()).fit(x[train], y[train]).predict,
            "HGB": lambda: boosting(random_state=trial["seed"]).fit(x[train], y[train]).predict,
            "KernelRidge grid": lambda: grid_ridge(job, x, y, train),
            "Nystroem grid": lambda: grid_nystroem(job, x, y, train, trial["seed"]),
        }
        for name, fit in methods.items():
            start = time.perf_counter()
            predict = fit()
            r = out.setdefault(name, {"scores": [], "seconds": 0.0})
            r["seconds"] += time.perf_counter() - start
            r["scores"].append(points(job, predict(x[test]), y[test]))
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
