"""The peers of bench/watch on its splits: a folder of NAME.old.csv and NAME.new.csv. One JSON line per split.

alibi-detect and evidently want older numbers: pip install lightgbm alibi-detect evidently, in an environment of its own.
"""

import json, os, sys, time, warnings

warnings.filterwarnings("ignore")
os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np
import pandas as pd
from scipy import stats
from scipy.spatial.distance import cdist

try:
    from alibi_detect.cd import TabularDrift
except ImportError:
    TabularDrift = None
try:
    from evidently import Report
    from evidently.presets import DataDriftPreset
except ImportError:
    Report = None
from lightgbm import LGBMClassifier

rng = np.random.default_rng(0)


def kinds(old, new):
    """Columns of numbers; others are levels."""
    return [c for c in old if pd.api.types.is_numeric_dtype(old[c]) and pd.api.types.is_numeric_dtype(new[c])
            and old[c].nunique() > 10]


def encoded(old, new):
    """Standardised numbers with an indicator of missing values, and one column per level."""
    both, parts = pd.concat([old, new]), []
    for c in both:
        if c in numbers:
            v = both[c].astype(float)
            parts += [((v.fillna(old[c].mean()) - old[c].mean()) / (old[c].std() or 1)).clip(-10, 10), v.isna() * 1.0]
        else:
            parts.append(pd.get_dummies(both[c].astype(str)).astype(float))
    x = pd.concat([pd.DataFrame(np.asarray(p)) for p in parts], axis=1).to_numpy()
    return x[: len(old)], x[len(old):]


def mmd(x, y, permutations=100):
    """Kernel two-sample test, median bandwidth, permutations (alibi-detect's MMDDrift without its backends)."""
    z = np.vstack([x, y])
    d = cdist(z, z, "sqeuclidean")
    k = np.exp(-d / np.median(d[d > 0]))
    np.fill_diagonal(k, 0)
    n, m = len(x), len(y)
    w = np.full((permutations + 1, n + m), -1.0 / m)
    w[0, :n] = 1.0 / n
    for i in range(1, permutations + 1):
        w[i, rng.permutation(n + m)[:n]] = 1.0 / n
    t = ((w @ k) * w).sum(1)
    return (t >= t[0]).mean()


def classifier(x, y):
    """Accuracy of boosted trees on the half that they have not seen, against chance."""
    z, t = np.vstack([x, y]), np.r_[np.zeros(len(x)), np.ones(len(y))]
    i = rng.permutation(len(z))
    h = len(z) // 2
    model = LGBMClassifier(n_estimators=60, num_leaves=15, verbose=-1, n_jobs=1).fit(z[i[:h]], t[i[:h]])
    right = int((model.predict(z[i[h:]]) == t[i[h:]]).sum())
    return stats.binomtest(right, len(z) - h, 0.5, alternative="greater").pvalue


def columns(old, new):
    """KS of numbers and chi-squared of levels, Bonferroni: alibi-detect's TabularDrift if it is there."""
    if TabularDrift is not None:
        code = {c: {v: i for i, v in enumerate(pd.unique(old[c].astype(str)))} for c in old if c not in numbers}
        def table(f):
            out = np.zeros(f.shape)
            for j, c in enumerate(f):
                out[:, j] = f[c].fillna(old[c].median()) if c in numbers else f[c].astype(str).map(code[c]).fillna(-1)
            return out
        levels = {j: None for j, c in enumerate(old) if c not in numbers}
        d = TabularDrift(table(old), p_val=0.05, categories_per_feature=levels or None)
        return float(d.predict(table(new))["data"]["is_drift"] == 0)
    p = [stats.ks_2samp(old[c].dropna(), new[c].dropna()).pvalue for c in numbers]
    return min(1, min(p) * len(p)) if p else 1.0


def evidently(old, new):
    """Evidently's default: half of the columns drift, each by its own test."""
    result = Report([DataDriftPreset()]).run(new, old).dict()
    for metric in result["metrics"]:
        if "DriftedColumnsCount" in metric.get("metric_name", metric.get("metric_id", "")):
            return 0.0 if metric["value"]["share"] >= 0.5 else 1.0
    raise ValueError("no count of drifted columns")


folder = sys.argv[1]
for name in sorted(f[: -len(".old.csv")] for f in os.listdir(folder) if f.endswith(".old.csv")):
    old, new = (pd.read_csv(f"{folder}/{name}.{k}.csv") for k in ("old", "new"))
    numbers = kinds(old, new)
    x, y = encoded(old, new)
    for peer, test in (("MMD", lambda: mmd(x, y)), ("columns", lambda: columns(old, new)),
                       ("classifier", lambda: classifier(x, y)), ("Evidently", lambda: evidently(old, new))):
        if peer == "Evidently" and Report is None:
            continue
        began = time.time()
        try:
            p = float(test())
        except Exception as e:
            print(f"{name} {peer}: {type(e).__name__}: {e}"[:300], file=sys.stderr)
            continue
        print(json.dumps({"split": name, "peer": peer, "p": p, "seconds": time.time() - began}), flush=True)
