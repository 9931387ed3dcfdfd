import json
import os

import numpy as np
import pytest

import randfeat
from randfeat import theory

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "..", "testdata", "closed_forms.json")


def close(got, want, rtol, atol):
    if isinstance(want, dict):
        return all(close(got[k], v, rtol, atol) for k, v in want.items())
    if isinstance(want, list):
        return len(got) == len(want) and all(close(g, w, rtol, atol) for g, w in zip(got, want))
    if want is None:
        return got != got
    want = float(want)
    return got == want or abs(got - want) <= rtol * abs(want) + atol


@pytest.mark.skipif(not os.path.exists(GOLDEN), reason="the reference values are in a checkout only")
def test_reference_values():
    with open(GOLDEN, encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    for c in cases[:: max(1, len(cases) // 500)]:
        name = c["formula"].split(" | ")[0].strip()
        got = theory.evaluate(name, **c["inputs"])
        assert close(got, c["expected"], c.get("rtol", 0), c.get("atol", 0)), c["id"]


def test_moments_predict_measured_errors():
    r = np.random.default_rng(0)
    x, y = r.normal(size=(1, 4)) / 2, r.normal(size=(1, 4)) / 2
    spec = {"kernel": "softmax", "family": "positive", "coupling": "orthogonal", "dim": 4, "m": 16}
    m = theory.moments(spec, x, y)
    draws = np.array([randfeat.Map({**spec, "seed": s}).gram(x, y)[0, 0] for s in range(4000)])
    assert abs(draws.mean() - m["kernel"][0]) < 5 * draws.std() / np.sqrt(len(draws))
    squares = (draws - m["kernel"][0]) ** 2
    assert abs(squares.mean() - m["mse"][0]) < 5 * squares.std() / np.sqrt(len(draws))


def test_errors():
    with pytest.raises(AttributeError, match="no formula logrv.trigg"):
        theory.logrv.trigg
    with pytest.raises(randfeat.RandfeatError, match="did you mean logrv.trig"):
        theory.evaluate("logrv.trgi", z2=1.0)
    with pytest.raises(randfeat.RandfeatError, match="z2"):
        theory.logrv.trig(z2=-1.0)
    with pytest.raises(randfeat.NoClosedFormError):
        theory.moments({"family": "relu", "kernel": "softmax", "dim": 2, "m": 4}, np.ones((1, 2)), np.ones((1, 2)))


def test_advice(rng):
    x = rng.normal(size=(150, 3))
    a = randfeat.advise(x, families=["trig", "positive"], couplings=["iid", "orthogonal"], rows=32, draws=8, brief=True,
                        unbiased=True)  # fmt: skip
    assert a.best["family"] == "trig" and a.map(seed=5).spec["seed"] == 5
    assert a._repr_html_().startswith("<iframe") and "trig" in str(a)
    with pytest.raises(randfeat.RandfeatError):
        randfeat.advise(np.ones((100, 3)))
