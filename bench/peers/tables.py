#!/usr/bin/env python3
"""Our defaults against those of others on tables that no default of ours was chosen on.

    pip install randfeat[sklearn] pandas statsmodels vega_datasets xrfm
    python tables.py [--splits 3] [--rows 5000] [--only fair,cars] [--skip xrfm] [--results FILE]

The tables come with the packages scikit-learn, statsmodels and vega_datasets, so that nothing is downloaded. Every model
has its defaults; a table is split into 70 % for the fit and 30 % for the score, in --splits random ways. Scores are R² of
numbers and accuracy of classes, with the standard error over splits; seconds are those of fit and predict. Models that
are not installed are left out. Categories are given to each model in the form that suits it: as they are to ours and to
HistGradientBoosting, as one-hot columns to the SVM and xrfm, as codes to the forest. --results keeps every run in a file
of JSON lines: a second call with the same file runs only what is missing, so that an interrupted comparison goes on.
"""

import argparse
import importlib.util
import json
import os
import platform
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR

import randfeat


def tables():
    """name: frame, target, whether it has classes"""
    d = load_diabetes(as_frame=True)
    yield "diabetes", d.data, d.target, False
    b = load_breast_cancer(as_frame=True)
    yield "breast cancer", b.data, b.target, True
    if importlib.util.find_spec("statsmodels"):
        from statsmodels import datasets

        f = datasets.fair.load_pandas().data
        yield "fair, affairs", f.drop(columns="affairs"), (f["affairs"] > 0).astype(int), True
        yield "fair, marriage", f.drop(columns=["affairs", "rate_marriage"]), f["rate_marriage"], False
        a = datasets.anes96.load_pandas().data
        yield "anes96, vote", a.drop(columns=["vote", "PID"]), a["vote"].astype(int), True
        r = datasets.randhie.load_pandas().data
        yield "randhie, visits", r.drop(columns="mdvis"), np.log1p(r["mdvis"]), False
        s = datasets.star98.load_pandas().data
        yield "star98, above", s.drop(columns=["NABOVE", "NBELOW"]), s["NABOVE"] / (s["NABOVE"] + s["NBELOW"]), False
        h = datasets.modechoice.load_pandas().data
        yield "mode choice", h.drop(columns=["individual", "choice"]), h["choice"].astype(int), True
    if importlib.util.find_spec("vega_datasets"):
        from vega_datasets import data

        c = data.cars().dropna(subset=["Miles_per_Gallon"])
        c = c.assign(Origin=c["Origin"].astype("category")).drop(columns="Name")
        yield "cars, mileage", c.drop(columns="Miles_per_Gallon"), c["Miles_per_Gallon"], False
        yield "cars, origin", c.drop(columns="Origin"), c["Origin"].astype(str), True


def numbers(frame):
    """Dates become days; categories stay."""
    frame = frame.reset_index(drop=True).copy()
    for c in frame:
        if frame[c].dtype.kind == "M":
            frame[c] = (frame[c] - pd.Timestamp("1970-01-01")).dt.days
    return frame


def encoded(model, one_hot):
    levels = make_column_selector(dtype_include=["category", "object", "string"])
    rest = make_column_selector(dtype_exclude=["category", "object", "string"])
    codes = OneHotEncoder(handle_unknown="ignore", sparse_output=False) if one_hot else OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1
    )
    scale = make_pipeline(SimpleImputer(), StandardScaler()) if one_hot else SimpleImputer()
    return make_pipeline(make_column_transformer((codes, levels), (scale, rest)), model)


class XRFM(BaseEstimator):
    """xRFM with its defaults: it wants a part of the rows for its own choices."""

    def __init__(self, classes, seed):
        self.classes, self.seed = classes, seed

    def fit(self, X, y):
        from xrfm import xRFM

        a, b, ya, yb = train_test_split(X, y, test_size=0.2, random_state=self.seed)
        metric = "accuracy" if self.classes else "mse"
        self.model_ = xRFM(device="cpu", tuning_metric=metric, random_state=self.seed, verbose=False)
        if self.classes:
            self.labels_, codes = np.unique(y, return_inverse=True)
            lookup = {v: i for i, v in enumerate(self.labels_)}
            ya, yb = (np.array([lookup[v] for v in part]) for part in (ya, yb))
        else:
            self.mean_, self.scale_ = float(np.mean(ya)), float(np.std(ya)) or 1.0
            ya, yb = (((np.asarray(v, float) - self.mean_) / self.scale_)[:, None].astype(np.float32) for v in (ya, yb))
        self.model_.fit(a.astype(np.float32), ya, b.astype(np.float32), yb)
        return self

    def predict(self, X):
        p = np.asarray(self.model_.predict(X.astype(np.float32)))
        return self.labels_[p.astype(int).ravel()] if self.classes else p.ravel() * self.scale_ + self.mean_


def models(classes, seed):
    yield "randfeat", randfeat.RandFeatClassifier(random_state=seed) if classes else randfeat.RandFeatRegressor(
        random_state=seed
    )
    boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    yield "HistGradientBoosting", boosting(random_state=seed, categorical_features="from_dtype")
    forest = RandomForestClassifier if classes else RandomForestRegressor
    yield "RandomForest", encoded(forest(random_state=seed, n_jobs=-1), False)
    yield "SVM", encoded(SVC() if classes else SVR(), True)
    if importlib.util.find_spec("xrfm") and importlib.util.find_spec("torch"):
        yield "xrfm", encoded(XRFM(classes, seed), True)


def score(model, X, y, classes):
    p = model.predict(X)
    if classes:
        return float(np.mean(np.asarray(p) == np.asarray(y)))
    return 1 - float(np.mean((p - y) ** 2) / np.var(y))


def kept(path):
    """The runs of a file: (table, rows, split, model): score, seconds."""
    if not path or not os.path.exists(path):
        return {}
    with open(path) as f:
        return {tuple(r[:4]): tuple(r[4:]) for r in map(json.loads, f)}


def main():
    o = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    o.add_argument("--splits", type=int, default=3)
    o.add_argument("--rows", type=int, default=5000, help="most rows of a table")
    o.add_argument("--only", default="", help="words of the names of tables, with commas")
    o.add_argument("--skip", default="", help="names of models, with commas")
    o.add_argument("--results", help="file that keeps the runs, to go on from")
    o = o.parse_args()
    warnings.simplefilter("ignore")
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors, {randfeat.version()}\n")
    print("| table | rows × columns | model | score | ± | seconds |\n|---|---|---|---|---|---|")
    totals, wins = {}, {}
    known = kept(o.results)
    for name, frame, target, classes in tables():
        if o.only and not any(w in name for w in o.only.split(",")):
            continue
        keep = np.random.default_rng(0).permutation(len(frame))[: o.rows]
        frame, target = numbers(frame.iloc[keep]), np.asarray(target)[keep]
        found = {}
        for split in range(o.splits):
            a, b, ya, yb = train_test_split(frame, target, test_size=0.3, random_state=split,
                                            stratify=target if classes else None)  # fmt: skip
            for label, model in models(classes, split):
                if label in o.skip.split(","):
                    continue
                key = (name, len(frame), split, label)
                if key not in known:
                    start = time.perf_counter()
                    model.fit(a, ya)
                    value = score(model, b, yb, classes)
                    known[key] = value, time.perf_counter() - start
                    if o.results:
                        with open(o.results, "a") as f:
                            print(json.dumps([*key, *known[key]]), file=f)
                found.setdefault(label, []).append(known[key])
        best = max(np.mean([v for v, _ in r]) for r in found.values())
        for label, runs in found.items():
            values, seconds = zip(*runs)
            mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            mark = "**" if mean == best else ""
            print(f"| {name} | {len(frame)} × {frame.shape[1]} | {label} | {mark}{mean:.4f}{mark} | {error:.4f} "
                  f"| {np.mean(seconds):.2f} |", flush=True)  # fmt: skip
            totals.setdefault(label, []).append((mean, np.mean(seconds)))
            wins[label] = wins.get(label, 0) + (mean == best)
    print("\n| model | mean score | best on | seconds of all tables |\n|---|---|---|---|")
    for label, runs in totals.items():
        means, seconds = zip(*runs)
        print(f"| {label} | {np.mean(means):.4f} | {wins[label]} of {len(runs)} | {sum(seconds):.1f} |")


if __name__ == "__main__":
    main()
