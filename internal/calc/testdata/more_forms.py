#!/usr/bin/env python3
"""Reference values for the closed forms that testdata/closed_forms.json leaves out, into more_forms.json.

    pip install mpmath && python3 more_forms.py > more_forms.json

40-digit arithmetic and definitions (integrals, textbook series) rather than the stable forms of package theory. The
schema is that of closed_forms.json; inputs are the doubles nearest to the printed numbers.
"""
import json
from collections import Counter
from itertools import product
from mpmath import (mp, mpf, mpc, quad, exp, log, sqrt, sin, cos, cosh, pi, gamma, besselj, hyp1f1, inf, expm1, re,
                    findroot, fabs)

mp.dps = 40
cases = []


def out(v):
    if isinstance(v, dict):
        return {k: out(x) for k, x in v.items()}
    if v is None or isinstance(v, (int, str)):
        return v
    if v == inf or v == -inf:
        return "inf" if v > 0 else "-inf"
    return float(mp.nstr(v, 17))


def num(v):
    if isinstance(v, (bool, str)):
        return v
    if isinstance(v, list):
        return [num(x) for x in v]
    return v if isinstance(v, int) else mpf(v)


def add(name, f, inputs, rtol=1e-12, atol=1e-13):
    for given in inputs:
        n = sum(c["formula"] == name for c in cases) + 1
        value = f(**{k: num(v) for k, v in given.items()})
        cases.append({"id": f"{name}#{n}", "formula": name, "inputs": given, "expected": out(value), "rtol": rtol, "atol": atol})


# One projection.

def complex_exponential(z):
    bilinear = sum(mpc(*c) ** 2 for c in z)
    return log((re(exp(bilinear)) + exp(sum(fabs(mpc(*c)) ** 2 for c in z))) / 2 - 1)


add("logrv.complex_exponential_z", complex_exponential, [
    {"z": [[0.5, 0.25], [-1.0, 0.75]]}, {"z": [[0.0, 0.001], [0.001, 0.0], [0.0, -0.002]]}, {"z": [[0.0, 1.5]]}, {"z": [[20.0, 3.0]]}])


def adaptive(rho, v):
    return log(expm1(sum(log(cosh(log(r) / 2)) + r * t * t for r, t in zip(rho, v))))


add("logrv.adaptive_v", adaptive, [
    {"rho": [0.5, 1.0, 0.125], "v": [1.0, -0.25, 3.0]}, {"rho": [1.0], "v": [1e-6]}, {"rho": [0.001, 0.01], "v": [40.0, -25.0]}])


def normals(lo, hi, step):
    """Points and weights of the trapezoidal rule for N(0, 1): for entire functions it converges like e^{−2π²/step²}."""
    n = int((hi - lo) / step)
    points = [lo + step * k for k in range(n + 1)]
    return [(w, exp(-w * w / 2) * step / sqrt(2 * pi)) for w in points]


def residual(xx, yy, xy):
    """Integral over the plane of x and y."""
    x1 = sqrt(xx)
    y1 = xy / x1
    y2 = sqrt(yy - y1 * y1)
    g = lambda a, sq: exp(a - sq / 2) - 1 - a
    with mp.workdps(25):
        axis = normals(mpf(-12), mpf(16), mpf("0.25"))
        second = sum(ws * g(s * x1, xx) ** 2 * sum(wt * g(s * y1 + t * y2, yy) ** 2 for t, wt in axis) for s, ws in axis)
    return log(second - (exp(xy) - 1 - xy) ** 2) - 2 * xy


add("logrv.residual", residual, [
    {"xx": 1.0, "yy": 1.0, "xy": 0.5}, {"xx": 0.5, "yy": 2.0, "xy": -0.75}, {"xx": 0.0625, "yy": 0.25, "xy": 0.0}], rtol=1e-9)


def second_gerf(d, A_re, A_im, s, V_):
    """E (Re f1 f2)²/K² by quadrature: f1 f2/K = p is a product over coordinates, and (Re p)² = (Re p² + |p|²)/2."""
    a = mpc(A_re, A_im)
    b = sqrt(s * (1 - 4 * a))
    dd = sqrt(1 - 4 * a)  # D² of one coordinate

    def moments(v):
        # f1 f2 = D² exp(2Aω² + B ω(x + s y) − s(x² + y²)/2), K = exp(xy): the exponent is −s v²/2, v = x + s y.
        p = [(dd * exp(2 * a * w * w + b * w * v - s * v * v / 2), weight) for w, weight in normals(mpf(-40), mpf(40), mpf("0.125"))]
        return sum(q * q * w for q, w in p), sum(fabs(q) ** 2 * w for q, w in p)

    with mp.workdps(30):
        one, zero = moments(sqrt(V_)), moments(mpf(0))
        return log((re(one[0] * zero[0] ** (d - 1)) + re(one[1] * zero[1] ** (d - 1))) / 2)


add("logsecond.gerf", second_gerf, [
    {"d": 1, "A_re": -0.125, "A_im": 0.0, "s": 1, "V_": 2.0}, {"d": 3, "A_re": -0.0625, "A_im": 0.03125, "s": 1, "V_": 1.5},
    {"d": 5, "A_re": 0.03125, "A_im": -0.015625, "s": -1, "V_": 0.75}, {"d": 2, "A_re": 0.0, "A_im": 0.0, "s": -1, "V_": 1.0}], rtol=1e-11)

# Coupled projections.


def sphere(d, f):
    """Mean over φ with density ∝ sin^{d−1} on [0, π]."""
    w = lambda p: sin(p) ** (d - 1)
    grid = [0, pi / 4, pi / 2, 3 * pi / 4, pi]
    return quad(lambda p: f(sin(p)) * w(p), grid) / quad(w, grid)


def conformity(d, t, c):
    """E 1F1(d; d/2; (t/2)(1 + c sin φ)), t of either sign."""
    return sphere(d, lambda s: hyp1f1(d, mpf(d) / 2, t / 2 * (1 + c * s)))


add("conformity.angle_log", lambda d, v2, cos: log(conformity(d, v2, cos)), [
    {"d": 2, "v2": 1.0, "cos": -0.5}, {"d": 8, "v2": 0.001, "cos": 0.25}, {"d": 16, "v2": 30.0, "cos": -0.0625}, {"d": 3, "v2": 9.0, "cos": 1.0}])


def kappa(shape, coupling, d, t):
    if coupling == "iid" or t == 0:
        return mpf(0)
    c = -1 / mpf(d - 1) if coupling == "simplex" else mpf(0)
    if shape == "trigonometric":
        return exp(t) * (conformity(d, -t, c) + conformity(d, -t, -c)) / 2 - 1
    if shape == "hyperbolic":
        return exp(-t) * (conformity(d, t, c) + conformity(d, t, -c)) / 2 - 1
    return exp(-t) * conformity(d, t, c) - 1


def kappa_parts(**k):
    v = kappa(**k)
    return {"sign": int(mp.sign(v)), "log_abs": log(fabs(v)) if v else -inf}


def pair_fraction(m, d):
    q, r = divmod(m, d)
    return mpf(q * d * (d - 1) + r * (r - 1)) / (m * m)


shapes, couplings = ["exponential", "trigonometric", "hyperbolic"], ["orthogonal", "simplex"]
add("coupled.kappa", kappa_parts, [{"shape": s, "coupling": c, "d": d, "t": t}
    for s in shapes for c in couplings for d, t in [(4, 0.25), (16, 9.0)]]
    + [{"shape": "hyperbolic", "coupling": "iid", "d": 4, "t": 1.0}, {"shape": "trigonometric", "coupling": "orthogonal", "d": 64, "t": 1e-6}], rtol=1e-10)
add("mse.rel_log", lambda log_rv, m, **k: log(exp(log_rv) / m + pair_fraction(m, k["d"]) * kappa(**k)), [
    {"shape": "exponential", "coupling": "simplex", "d": 8, "m": 8, "log_rv": 0.75, "t": 1.0},
    {"shape": "trigonometric", "coupling": "orthogonal", "d": 8, "m": 19, "log_rv": -0.5, "t": 1.0},
    {"shape": "hyperbolic", "coupling": "simplex", "d": 5, "m": 13, "log_rv": 2.0, "t": 2.0},
    {"shape": "hyperbolic", "coupling": "iid", "d": 5, "m": 13, "log_rv": 2.0, "t": 2.0}], rtol=1e-10)

# Concentration.


def upper_tail(d, A, v2, m, eta):
    """Chernoff's bound from E e^{uY}, Y = (1−4A)^{d/2} exp(2A|ω|² + B ω·v − v²/2), in one or two dimensions."""
    b, front = sqrt(1 - 4 * A), (1 - 4 * A) ** (mpf(d) / 2)
    with mp.workdps(20):
        axis = normals(mpf(-10), mpf(10), mpf("0.1" if d == 1 else "0.2"))
        across = axis if d == 2 else [(mpf(0), mpf(1))]
        y = [(front * exp(2 * A * (w * w + r * r) + b * w * sqrt(v2) - v2 / 2), p * q) for w, p in axis for r, q in across]

        def at(u):  # log E e^{uY} and its derivative
            e = [(z, p * exp(u * z)) for z, p in y]
            total = sum(p for _, p in e)
            return log(total), sum(z * p for z, p in e) / total

        lo, hi = mpf(0), mpf(1)
        while at(hi)[1] < 1 + eta:
            hi *= 2
        u = findroot(lambda t: at(t)[1] - 1 - eta, (lo, hi), solver="anderson", tol=1e-24)
        return -m * (u * (1 + eta) - at(u)[0])


add("crt.upper_tail_log", upper_tail, [
    {"d": 1, "A": -0.25, "v2": 1.0, "m": 10, "eta": 0.5}, {"d": 1, "A": -0.0625, "v2": 0.25, "m": 100, "eta": 0.125},
    {"d": 2, "A": -0.125, "v2": 0.5, "m": 20, "eta": 0.25}], rtol=1e-9)
add("count.hoeffding_log", lambda log_sup, eta, fail, pairs: log(exp(2 * log_sup) * log(2 * pairs / fail) / (2 * eta ** 2)), [
    {"log_sup": 1.5, "eta": 0.1, "fail": 0.01, "pairs": 1}, {"log_sup": 400.0, "eta": 0.5, "fail": 0.05, "pairs": 1048576}])
add("count.chebyshev_log", lambda log_rv, eta, fail, pairs: log(pairs * exp(log_rv) / (eta ** 2 * fail)), [
    {"log_rv": -2.5, "eta": 0.1, "fail": 0.01, "pairs": 1}, {"log_rv": 800.0, "eta": 0.5, "fail": 0.05, "pairs": 65536}])

# Hybrids.


def bipolar(E_lam2, E_1mlam2, E_lam1mlam, m, xx, yy, xy, shared):
    v2, z2 = xx + yy + 2 * xy, xx + yy - 2 * xy
    total = E_lam2 * (cosh(v2) - 1) + E_1mlam2 * (cosh(z2) - 1)
    if shared:
        total -= 2 * (1 - cos(xx - yy)) * E_lam1mlam
    return log(total / m) + 2 * xy


add("hrf.bipolar_mse_log", bipolar, [
    {"E_lam2": 0.3, "E_1mlam2": 0.4, "E_lam1mlam": 0.15, "m": 8, "xx": 1.0, "yy": 2.0, "xy": 0.5, "shared": True},
    {"E_lam2": 0.3, "E_1mlam2": 0.4, "E_lam1mlam": 0.15, "m": 8, "xx": 1.0, "yy": 2.0, "xy": 0.5, "shared": False},
    {"E_lam2": 1.0, "E_1mlam2": 0.0, "E_lam1mlam": 0.0, "m": 1, "xx": 400.0, "yy": 500.0, "xy": -100.0, "shared": False}])


def eps_pp(theta, r, m):
    v2 = 2 * r * r * (1 + cos(theta))  # √MSE/SM with MSE/SM² = (cosh v² − 1)/m
    return log(sqrt((cosh(v2) - 1) / m))


add("hrf.eps_pp_log", eps_pp, [{"theta": 0.0, "r": 1.0, "m": 4}, {"theta": 2.5, "r": 2.0, "m": 64}, {"theta": 3.0, "r": 20.0, "m": 1}])

# ORF′.


def j(d, z):
    return mpf(1) if z == 0 else gamma(mpf(d) / 2) * (2 / z) ** (mpf(d) / 2 - 1) * besselj(mpf(d) / 2 - 1, z)


def constants(d):
    n = mpf(d)
    b = 2 ** mpf("0.25") * n ** mpf("0.75") * sqrt(1 - 4 / (2 * sqrt(mpf(2)) * n ** mpf("1.5") - n))
    c = sqrt(n * n / 4 - 1) * sqrt(1 - 8 / (n * n - 2 * n - 4)) if d >= 5 else b
    return max(b, c), max((n / 2) ** mpf("0.75"), sqrt(n * n / 4 - 1) / 2)


def ranges(d):
    if d < 2:
        return {"kernel": None, "variance": None, "improvement": None}
    kernel, improvement = constants(d)
    return {"kernel": kernel, "variance": kernel / 2, "improvement": improvement}


def variance_bounds(d, p, z):
    part = lambda a, b: (1 + exp(2 * a)) / (2 * p) + (1 - mpf(1) / p) * exp(a) - exp(b)
    return {"lower": part(-z * z, -z * z / d), "upper": part(-z * z / d, -z * z)}


places = [{"d": 1, "z": 2.0}, {"d": 3, "z": 1e-3}, {"d": 16, "z": 0.75}, {"d": 64, "z": 12.0}]
add("orf.mean", j, places, atol=1e-15)
add("orf.bias", lambda d, z: j(d, z) - exp(-z * z / 2), places, rtol=1e-11, atol=0)
add("orf.ranges", ranges, [{"d": d} for d in (1, 2, 4, 5, 64)])
add("orf.kernel_bounds", lambda d, z: {"lower": exp(-z * z / 2), "upper": exp(-z * z / (2 * d))}, [{"d": 3, "z": 1.0}, {"d": 64, "z": 20.0}])
add("orf.variance_bounds", variance_bounds, [{"d": 4, "p": 4, "z": 0.5}, {"d": 64, "p": 16, "z": 1e-3}], rtol=1e-10, atol=0)

# Couplings.


def hd_cumulants(k, v):
    # ω·v over all signs, ω = c (first row of H D_1 … H D_k), E c⁴ = n(n+2), E c⁶ = n(n+2)(n+4). The signs of D_k act on v.
    n = len(v)
    signs = list(product((1, -1), repeat=n))
    rows = {(1,) * n: 1}
    for i in range(k):
        flipped = Counter()
        for row, count in rows.items():
            for s in signs:
                flipped[tuple(a * b for a, b in zip(row, s))] += count
        rows = flipped
        if i < k - 1:
            rows = Counter()
            for row, count in flipped.items():
                rows[tuple(sum(a * (-1) ** bin(i & l).count("1") for i, a in enumerate(row)) for l in range(n))] += count
    total, m4, m6 = sum(rows.values()), mpf(0), mpf(0)
    for row, count in rows.items():
        p = sum(a * b for a, b in zip(row, v)) / mpf(n) ** (mpf(k) / 2)
        m4, m6 = m4 + count * p ** 4, m6 + count * p ** 6
    m2 = sum(a * a for a in v)
    m4, m6 = m4 * n * (n + 2) / total, m6 * n * (n + 2) * (n + 4) / total
    return {"c4": (m4 - 3 * m2 ** 2) / 24, "c6": (m6 - 15 * m4 * m2 + 30 * m2 ** 3) / 720}


add("coupling.hd_cumulants", hd_cumulants, [
    {"k": 1, "v": [0.5, -1.0, 0.25, 2.0]}, {"k": 2, "v": [0.5, -1.0, 0.25, 2.0]}, {"k": 3, "v": [1.5, 0.0, 0.0, 0.0]},
    {"k": 3, "v": [0.5, -1.0, 0.25, 2.0]}, {"k": 2, "v": [1.0, 0.5, 0.0, -0.75, 0.0, 0.25, 1.25, -0.5]},
    {"k": 4, "v": [1.0, -0.5]}], rtol=1e-11)

print(json.dumps({"schema": 1, "title": "closed forms beyond closed_forms.json", "count": len(cases), "cases": cases}, indent=1))
