"""What learned metrics and the choice of kernels of few rows change: two programs on the same splits of all tables.

  python metric.py run DATA BEFORE NOW OUT.jsonl [SEEDS [JOBS [MOST [PARTS]]]]   # BEFORE and NOW are randfeat programs
  python metric.py report OUT.jsonl ...                                          # Markdown

SEEDS are separated by commas (4401,4402,4403), JOBS run side by side with one thread each (all cores), tables are cut
to MOST training rows (6000), PARTS are letters: t the tables of table.py without images, g generated ones (a wave along a
direction of 20 columns, and boston with 100 columns of noise), s small ones, of 50, 100 and 160 rows of some tables,
q NOW with --quick as a third side.

Seeds that were looked at while building: 4401–4403, 7601–7603, 7701, 7702, 8001, 8101–8103, 9001, 9101 and 9301; others may be too.
The longest jobs begin first. It needs NumPy, and of DATA the tables of table.py.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import table

SMALL = ("wine", "ionosphere", "boston", "banknote", "car", "cmc", "yeast", "red quality", "abalone, rings")
SIZES = (50, 100, 160)
NOISE = 100


def generated(name, data, seed):
    r = np.random.default_rng(seed)
    if name == "sin(2w·x)":
        x, w = r.standard_normal((2000, 20)), r.standard_normal(20)
        y = np.sin(2 * x @ (w / np.linalg.norm(w))) + 0.1 * r.standard_normal(2000)
        a = np.column_stack([x, y]).round(6).astype(str)
        return a[:1000], a[1000:]
    return tuple(np.hstack([r.standard_normal((len(a), NOISE)).round(5).astype(str), a])
                 for a in table.split(data, "boston", seed))


def rows(name, data, seed, most):
    """Training and test rows of a job, and whether there are classes."""
    if name in ("sin(2w·x)", f"boston + {NOISE} noise"):
        return *generated(name, data, seed), False
    if "@" in name:
        name, n = name.split("@")
        a, _ = table.rows_of(data, name)
        p = np.random.default_rng(1000 * seed + int(n)).permutation(len(a))
        return a[p[: int(n)]], a[p[int(n) :]][:1000], table.SETS[name][3]
    train, test = table.split(data, name, seed)
    return train[:most], test, table.SETS[name][3]


def job(data, program, name, seed, most, *flags):
    train, test, classes = rows(name, data, seed, most)
    table.SETS[name] = ("", -1, (), classes)
    before = os.environ.get("GOMAXPROCS")
    predicted, more = table.fit(program, name, train, test, flags)
    assert os.environ.get("GOMAXPROCS") == before
    stated = [s for s in more["scores"] if s[0] in ("accuracy", "R²")][0]
    return {"set": name, "seed": seed, "train": len(train), "points": table.score(name, predicted, test[:, -1]),
            "stated": 100 * stated[1], "low": stated[2] and 100 * stated[2], "high": stated[3] and 100 * stated[3],
            "cpu": more["cpu"], "choices": more["choices"]}


def run(data, before, now, out, seeds="4401,4402,4403", jobs="0", most="6000", parts="tgs"):
    names = [s for s in table.SETS if "mnist" not in s and s not in table.LEVELS] if "t" in parts else []
    names.sort(key=lambda s: s not in ("chess", "campaign", "backdoor", "nursery", "abalone", "white quality, classes"))
    names += ["sin(2w·x)", f"boston + {NOISE} noise"] if "g" in parts else []
    names += [f"{s}@{n}" for s in SMALL for n in SIZES if "s" in parts and (s, n) != ("wine", 160)]
    todo = [(n, int(s), side) for n in names for s in seeds.split(",") 
            for side in ("before", "now", "quick")[: 3 if "q" in parts else 2]]

    def one(task):
        name, seed, side = task
        program = [now, "--quick"] if side == "quick" else [{"before": before, "now": now}[side]]
        p = subprocess.run([sys.executable, __file__, "job", data, program[0], name, str(seed), most, *program[1:]],
                           env={**os.environ, "GOMAXPROCS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if p.returncode:
            print(name, seed, side, p.stderr.decode()[-300:], file=sys.stderr)
            return
        line = {**json.loads(p.stdout), "side": side}
        with open(out, "a") as f:
            f.write(json.dumps(line) + "\n")

    with ThreadPoolExecutor(int(jobs) or os.cpu_count()) as pool:
        list(pool.map(one, todo))


def report(files):
    cells = {}
    for file in files:
        for line in open(file):
            r = json.loads(line)
            cells[r["set"], r["seed"], r["side"]] = r
    names = list(dict.fromkeys(k[0] for k in cells))
    more = "quick − now | CPU-s | " if any(k[2] == "quick" for k in cells) else ""
    print(f"| table | rows | seeds | before | now | now − before | stated − test, now | CPU-s before | now | {more}scaling |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|" + ("---:|---:|" if more else "") + "---|")
    gains, biases, small, cover, cost = {}, {}, {}, {}, [0, 0]
    quick, fast = {}, []
    for name in names:
        seeds = [s for s in sorted({k[1] for k in cells if k[0] == name})
                 if (name, s, "before") in cells and (name, s, "now") in cells]
        if not seeds:
            continue
        a, b = ([cells[name, s, side] for s in seeds] for side in ("before", "now"))
        points = [np.mean([r["points"] for r in x]) for x in (a, b)]
        cpu = [np.mean([r["cpu"] for r in x]) for x in (a, b)]
        bias = np.mean([r["stated"] - r["points"] for r in b])
        if "@" in name:
            n = int(name.split("@")[1])
            small[name] = points[1] - points[0]
            for side, x in (("before", a), ("now", b)):
                cover.setdefault((n, side), []).extend(
                    r["low"] <= r["points"] <= r["high"] for r in x if r["low"] is not None and r["high"] is not None)
            biases.setdefault(f"@{n}", []).append(bias)
        elif "+" not in name and "sin" not in name:
            gains[name] = points[1] - points[0]
            biases.setdefault("tables", []).append(bias)
            cost[0], cost[1] = cost[0] + cpu[0], cost[1] + cpu[1]
        q = [cells[name, s, "quick"] for s in seeds if (name, s, "quick") in cells]
        if len(q) == len(seeds):
            quick[name] = np.mean([r["points"] for r in q]) - points[1]
            fast.append((np.mean([r["cpu"] for r in q]), cpu[1]))
        taken = [r["choices"].get("scaling") == "learned" for r in b]
        print(f"| {name} | {b[0]['train']} | {len(seeds)} | {points[0]:.2f} | {points[1]:.2f} | {points[1] - points[0]:+.2f} | "
              f"{bias:+.2f} | {cpu[0]:.2f} | {cpu[1]:.2f} | "
              + (f"{quick[name]:+.2f} | {fast[-1][0]:.2f} | " if name in quick else "") + f"{sum(taken)} of {len(taken)} learned |")

    def mean(v):
        v = list(v)
        return f"{np.mean(v):+.2f} ± {np.std(v, ddof=1) / len(v) ** 0.5:.2f}"

    if len(gains) > 1:
        worst = min(gains, key=gains.get)
        print(f"\nTables: {mean(gains.values())} points over {len(gains)}; the worst is {worst}, {gains[worst]:+.2f}. "
              f"CPU time {cost[1] / cost[0]:.2f} times that before.")
    if len(quick) > 1:
        a, b = np.sum(fast, axis=0)
        print(f"\n--quick: {mean(quick.values())} points, {a / b:.2f} of the CPU time; the worst is "
              f"{min(quick, key=quick.get)}, {min(quick.values()):+.2f}.")
    if len(small) > 1:
        print(f"\nSmall tables: {mean(small.values())} points over {len(small)}.")
    for key, v in biases.items():
        if len(v) > 1:
            print(f"\nStated − test of {key}: {mean(v)} points.")
    for key, v in sorted(cover.items()):
        print(f"\nIntervals of {key[0]} rows, {key[1]}: {np.mean(v):.2f} of {len(v)} hold the score on new rows.")


if __name__ == "__main__":
    if sys.argv[1] == "job":
        data, program, name, seed, most, *flags = sys.argv[2:]
        print(json.dumps(job(data, program, name, int(seed), int(most), *flags)))
    elif sys.argv[1] == "run":
        run(*sys.argv[2:])
    else:
        report(sys.argv[2:])
