"""machine/trees against LightGBM with the same settings, rows, encoded columns and threads:

  go build -o /tmp/bench-trees ./trees
  python peers/trees.py run DATA /tmp/bench-trees THREADS OUT.jsonl [REGEX]   # a line per table and split
  python peers/trees.py report OUT.jsonl ...                                  # Markdown

Both sides get numbers as they are and texts as codes of levels, which are marked. Seconds are those of binning and
boosting, on one thread CPU seconds, against the faster of LightGBM's two layouts. Points are 100·R² or % of classes right
on rows that neither side has seen. Logarithmic losses are in nats.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

import table

warnings.filterwarnings("ignore")
MOST, TEST, SPLITS = 5000, 5000, (7701, 7702, 7703)
OURS = dict(Trees=250, Leaves=15, MinRows=10, Rate=0.04, Lambda=1e-3, Rows=0.8, Columns=0.6)
THEIRS = dict(num_leaves=15, min_data_in_leaf=10, learning_rate=0.04, lambda_l2=1e-3, bagging_fraction=0.8,
              bagging_freq=1, feature_fraction=0.6, verbose=-1, deterministic=True)


def friedman(number, rows, columns, noise, classes=0, missing=0.0):
    """Friedman's generated tables, and one with interactions, missing values and classes."""
    def make():
        from sklearn import datasets
        r = np.random.default_rng(number)
        if number < 4:
            x, y = [datasets.make_friedman1, datasets.make_friedman2, datasets.make_friedman3][number - 1](
                n_samples=rows + TEST, noise=noise, random_state=5)
        else:
            x = r.normal(size=(rows + TEST, columns))
            y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 2 * (x[:, 3] > .5) + .3 * x[:, :20].sum(1)
            y += noise * r.normal(size=len(y))
        if classes:
            y = np.searchsorted(np.quantile(y, np.linspace(0, 1, classes + 1)[1:-1]), y)
        x[r.random(x.shape) < missing] = np.nan
        return x, y, [False] * x.shape[1], classes, rows
    return make


def levels(rows):
    """40, 200 and 1000 levels with effects of their own, two columns of numbers."""
    def make():
        r = np.random.default_rng(9)
        n = rows + TEST
        codes = np.stack([r.integers(0, k, n) for k in (40, 200, 1000)], 1)
        y = sum(r.normal(size=k)[codes[:, j]] for j, k in enumerate((40, 200, 1000)))
        x = np.concatenate([codes, r.normal(size=(n, 2))], 1)
        return x, y + x[:, 3] + np.where(codes[:, 0] % 3 == 0, 2 * x[:, 4], 0), [True] * 3 + [False] * 2, 0, rows
    return make


def learnable(name):
    def make():
        from sklearn import datasets
        d = getattr(datasets, "load_" + name)()
        classes = 0 if name == "diabetes" else len(set(d.target))
        return d.data, d.target, [False] * d.data.shape[1], classes, 0
    return make


GENERATED = {
    "friedman 1": friedman(1, 1000, 10, 1), "friedman 2": friedman(2, 1000, 4, 100), "friedman 3": friedman(3, 1000, 4, .1),
    "interactions": friedman(4, 5000, 20, .5), "interactions, 5 classes": friedman(5, 5000, 20, .5, 5),
    "interactions, missing": friedman(6, 5000, 20, .5, 0, .2), "interactions, 2 classes": friedman(7, 2000, 20, .5, 2, .1),
    "wide": friedman(8, 1000, 270, .5), "wide, 2 classes": friedman(9, 3000, 270, .5, 2), "levels": levels(5000),
    "breast cancer": learnable("breast_cancer"), "diabetes": learnable("diabetes"),
}


def read(data, name):
    """Columns as numbers, the target, marks of levels, classes (0: numbers), training rows (0: four fifths)."""
    if name in GENERATED:
        return GENERATED[name]()
    cells, _ = table.rows_of(data, name)
    columns, marks = zip(*(numbers(c) for c in cells[:, :-1].T))
    classes = table.SETS[name][3]
    y = np.unique(cells[:, -1], return_inverse=True)[1] if classes else cells[:, -1].astype(float)
    return np.stack(columns, 1), y, list(marks), len(set(y)) if classes else 0, 0


def numbers(column):
    """A column of texts as numbers, or as codes of its levels and True."""
    try:
        return np.where(np.isin(column, ("", "?", "NA")), "nan", column).astype(float), False
    except ValueError:
        return np.unique(column, return_inverse=True)[1].astype(float), True


def scores(p, y, classes):
    if not classes:
        return 100 * (1 - np.mean((p[:, 0] - y) ** 2) / np.var(y)), None
    of = p[np.arange(len(y)), y.astype(int)]
    return 100 * np.mean(p.argmax(1) == y), float(-np.mean(np.log(np.maximum(of, 1e-15))))


def ours(binary, threads, seed, x, y, xt, marks, classes):
    with tempfile.TemporaryDirectory() as d:
        for name, a in (("x", x), ("xt", xt), ("y", y)):
            np.ascontiguousarray(a, dtype="<f8").tofile(os.path.join(d, name))
        with open(os.path.join(d, "job.json"), "w") as f:
            json.dump(dict(Rows=len(x), Test=len(xt), Columns=x.shape[1], Classes=classes, Levels=marks,
                           Options=dict(OURS, Seed=seed)), f)
        out = subprocess.run([binary, d], env={**os.environ, "GOMAXPROCS": str(threads)}, stdout=subprocess.PIPE, check=True)
        return np.fromfile(os.path.join(d, "p")).reshape(len(xt), -1), json.loads(out.stdout)


def theirs(threads, seed, x, y, xt, marks, classes, layout):
    import lightgbm
    o = dict(THEIRS, objective="regression" if not classes else "binary" if classes == 2 else "multiclass", seed=seed,
             num_threads=threads, **{layout: True})
    if classes > 2:
        o["num_class"] = classes
    begin, cpu = time.perf_counter(), time.process_time()
    data = lightgbm.Dataset(x, y, categorical_feature=[j for j, m in enumerate(marks) if m])
    model = lightgbm.train(o, data, OURS["Trees"])
    fitted, cpu = time.perf_counter(), time.process_time() - cpu
    p = model.predict(xt, num_threads=threads)
    p = np.stack([1 - p, p], 1) if classes == 2 else p.reshape(len(xt), -1)
    return p, dict(seconds=fitted - begin, cpu=cpu)


def run(data, binary, threads, out, only=""):
    for name in [n for n in (*table.SETS, *GENERATED) if n not in SKIPPED and re.search(only, n)]:
        try:
            x, y, marks, classes, rows = read(data, name)
        except FileNotFoundError:
            continue
        for seed in SPLITS:
            order = np.random.default_rng(seed).permutation(len(y))
            n = rows or min(len(y) * 4 // 5, MOST)
            train, test = order[:n], order[n:n + TEST]
            line = dict(table=name, rows=n, columns=x.shape[1], classes=classes, threads=int(threads), seed=seed)
            args = int(threads), seed, x[train], y[train], x[test], marks, classes
            p, line["ours"] = ours(binary, *args)
            for layout in ("force_col_wise", "force_row_wise"):
                q, line[layout] = theirs(*args, layout)
            line["ours"]["points"], line["ours"]["nats"] = scores(p, y[test], classes)
            line["theirs"] = dict(zip(("points", "nats"), scores(q, y[test], classes)))
            with open(out, "a") as f:
                f.write(json.dumps(line) + "\n")


SKIPPED = ("mnist", "fashion_mnist", "generated", "airfare", "verbagg")


def report(files):
    lines = [json.loads(line) for name in files for line in open(name)]
    tables = list(dict.fromkeys(line["table"] for line in lines))
    threads = sorted({line["threads"] for line in lines})
    head = "| table | rows | columns | classes | ours | LightGBM | difference | nats, difference |"
    print(head + "".join(f" {'CPU-' * (t == 1)}s, {t} thread{'s'[:t > 1]} | ratio |" for t in threads))
    print("|---|" + "---:|" * (7 + 2 * len(threads)))
    means = {}
    for name in tables:
        of = [line for line in lines if line["table"] == name]
        mine = [line for line in of if line["threads"] == threads[0]]
        a, b = (np.mean([line[side]["points"] for line in mine]) for side in ("ours", "theirs"))
        nats = np.mean([line["ours"]["nats"] - line["theirs"]["nats"] for line in mine]) if of[0]["classes"] else None
        cells = [name, str(of[0]["rows"]), str(of[0]["columns"]), str(of[0]["classes"] or ""), f"{a:.2f}", f"{b:.2f}",
                 f"{a - b:+.2f}", "" if nats is None else f"{nats:+.3f}"]
        means.setdefault("points", []).append(a - b)
        if nats is not None:
            means.setdefault("nats", []).append(nats)
        for t in threads:
            at = [line for line in of if line["threads"] == t]
            if not at:
                cells += ["", ""]
                continue
            clock = "cpu" if t == 1 else "seconds"
            best = [min(line["force_col_wise"][clock], line["force_row_wise"][clock]) for line in at]
            ratio = np.median([line["ours"][clock] / s for line, s in zip(at, best)])
            cells += [f"{np.median([line['ours'][clock] for line in at]):.2f}", f"{ratio:.2f}"]
            means.setdefault(t, []).append(ratio)
        print("| " + " | ".join(cells) + " |")
    p = np.array(means["points"])
    print(f"\n{len(tables)} tables: {p.mean():+.2f} ± {p.std(ddof=1) / len(p) ** .5:.2f} points (standard error), "
          f"{np.mean(means.get('nats', [np.nan])):+.4f} nats.", end="")
    for t in threads:
        r = np.array(means[t])
        print(f" {t} thread(s): ratio of seconds {np.exp(np.log(r).mean()):.2f} (geometric mean), {r.min():.2f} to "
              f"{r.max():.2f}.", end="")
    print()


if __name__ == "__main__":
    {"run": run, "report": lambda *files: report(files)}[sys.argv[1]](*sys.argv[2:])
