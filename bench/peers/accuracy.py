"""The accuracy of scikit-learn's pipelines and exact kernels on the rows, splits and grids of a job (JSON, see
accuracy/protocol.go); answers {method: {scores, scale, lambda, seconds}} on stdout.

  python accuracy.py job.json
"""

import json
import sys
import time
import warnings

import numpy as np
from scipy.linalg import solve
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

warnings.filterwarnings("ignore", category=ConvergenceWarning)


class Exact:
    """KernelRidge on centred targets: the exact kernel's version of ours."""

    def __init__(self, alpha, gamma):
        self.machine = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma)

    def fit(self, x, y):
        self.mean = y.mean(axis=0)
        self.machine.fit(x, y - self.mean)
        return self

    def predict(self, x):
        return self.machine.predict(x) + self.mean


def loss(job, predicted, y):
    """The number of wrong classes or the sum of squared errors."""
    return float(np.sum(predicted != y)) if job["classes"] else float(np.sum((predicted - y) ** 2))


def points(job, predicted, y):
    e = loss(job, predicted, y)
    return 100 * (1 - e / (len(y) if job["classes"] else np.sum((y - y.mean()) ** 2)))


def folds(trial, tried):
    tune = np.array(trial["tune"])
    of = np.arange(len(tune)) % trial["folds"]
    return [(tune[of != k], tune[of == k]) for k in range(tried)]


def gamma(scale):
    """exp(−|x−y|²/(2s²)) as exp(−γ|x−y|²)."""
    return 1 / (2 * scale * scale)


def feature_map(kind, job, scale, trial):
    return kind(gamma=gamma(scale), n_components=job["features"], random_state=trial["seed"])


def ridge(job, alpha):
    return (RidgeClassifier if job["classes"] else Ridge)(alpha=alpha, solver="cholesky")


def logistic(job, penalty):
    return LogisticRegression(C=1 / penalty, max_iter=job["max_iter"], tol=job["tolerance"])


def targets(job, y):
    return np.eye(job["classes"])[y.astype(int)] if job["classes"] else y[:, None]


def labels(job, p):
    return p.argmax(axis=1) if job["classes"] else p[:, 0]


def best(job, x, y, trial, tried, scales, penalties, path):
    """The first of the best of the grid: path(fit, held, scale) yields predictions of the rows held for every penalty."""
    parts = folds(trial, tried)
    found = None
    for scale in scales:
        sums = np.zeros(len(penalties))
        for fit, held in parts:
            for i, predicted in enumerate(path(fit, held, scale)):
                sums[i] += loss(job, predicted, y[held])
        for i, p in enumerate(penalties):
            if found is None or sums[i] < found[0]:
                found = (sums[i], scale, p)
    return found[1], found[2]


def solutions(gram, right, penalties):
    """(gram + λI)⁻¹ right for every λ."""
    for p in penalties:
        a = gram.copy()
        a.flat[:: len(a) + 1] += p
        yield solve(a, right, assume_a="pos", overwrite_a=True, check_finite=False)


def pipelines(job, x, y, out):
    for trial in job["trials"]:
        train, test = np.array(trial["train"]), np.array(trial["test"])
        for name, kind in (("RBFSampler", RBFSampler), ("Nystroem", Nystroem)):

            def features(fit, held, scale):
                m = feature_map(kind, job, scale, trial).fit(x[fit])
                return m.transform(x[fit]), m.transform(x[held])

            def ridge_path(fit, held, scale):  # what Ridge does, with one product for all penalties
                a, b = features(fit, held, scale)
                t = targets(job, y[fit])
                mean, centre = a.mean(axis=0), t.mean(axis=0)
                a -= mean
                for w in solutions(a.T @ a, a.T @ (t - centre), job["lambdas"]):
                    yield labels(job, (b - mean) @ w + centre)

            def logistic_path(fit, held, scale):
                a, b = features(fit, held, scale)
                for p in job["logistic"]:
                    yield logistic(job, p).fit(a, y[fit]).predict(b)

            start = time.perf_counter()
            scale, penalty = best(job, x, y, trial, trial["tried"], job["scales"], job["lambdas"], ridge_path)
            a, b = features(train, test, scale)
            model = ridge(job, penalty).fit(a, y[train])
            add(job, out, name + " ridge", model.predict(b), y[test], scale, penalty, start)
            if not job["classes"]:
                continue
            start = time.perf_counter()
            around = job["scales"][job["scales"].index(scale):][:2]  # that of the ridge and the next smaller one
            scale, penalty = best(job, x, y, trial, 1, around, job["logistic"], logistic_path)
            a, b = features(train, test, scale)
            model = logistic(job, penalty).fit(a, y[train])
            add(job, out, name + " logistic", model.predict(b), y[test], scale, penalty, start)


def exact(job, x, y, out):
    for trial in job["trials"]:
        train, test = np.array(trial["train"]), np.array(trial["test"])

        def ridge_path(fit, held, scale):  # what KernelRidge does, with one kernel matrix for all penalties
            k, l = rbf_kernel(x[fit], gamma=gamma(scale)), rbf_kernel(x[held], x[fit], gamma=gamma(scale))
            t = targets(job, y[fit])
            centre = t.mean(axis=0)
            for w in solutions(k, t - centre, job["lambdas"]):
                yield labels(job, l @ w + centre)

        def vector_path(fit, held, scale):
            for c in job["costs"]:
                yield SVC(C=c, gamma=gamma(scale), cache_size=500).fit(x[fit], y[fit]).predict(x[held])

        start = time.perf_counter()
        scale, penalty = best(job, x, y, trial, trial["tried"], job["scales"], job["lambdas"], ridge_path)
        model = Exact(penalty, gamma(scale)).fit(x[train], targets(job, y[train]))
        add(job, out, "exact KRR", labels(job, model.predict(x[test])), y[test], scale, penalty, start)
        if not job["classes"]:
            continue
        start = time.perf_counter()
        scale, cost = best(job, x, y, trial, trial["tried"], job["scales"], job["costs"], vector_path)
        model = SVC(C=cost, gamma=gamma(scale), cache_size=500).fit(x[train], y[train])
        add(job, out, "exact SVM", model.predict(x[test]), y[test], scale, cost, start)


def add(job, out, name, predicted, y, scale, penalty, start):
    r = out.setdefault(name, {"scores": [], "scale": [], "lambda": [], "seconds": 0.0})
    r["scores"].append(points(job, predicted, y))
    r["scale"].append(scale)
    r["lambda"].append(penalty)
    r["seconds"] += time.perf_counter() - start


def main():
    with open(sys.argv[1]) as f:
        job = json.load(f)
    x, y = np.load(job["x"]), np.load(job["y"])[:, 0]
    out = {}
    (exact if job["exact"] else pipelines)(job, x, y, out)
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
