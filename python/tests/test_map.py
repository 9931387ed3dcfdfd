import pickle

import numpy as np
import pytest

import randfeat

SPEC = {"family": "trig", "coupling": "orthogonal", "dim": 5, "seed": 3}


def test_features_estimate_the_kernel(rng):
    x, y = rng.normal(size=(40, 5)), rng.normal(size=(30, 5))
    m = randfeat.Map(SPEC, features=8192)
    exact = randfeat.gram(x, y)
    assert np.allclose(exact, np.exp(-0.5 * ((x[:, None] - y) ** 2).sum(axis=2)), rtol=1e-12)
    # one feature pair has a variance of at most 1/2, 4096 of them of 1/8192: 6 standard deviations
    assert np.abs(m(x) @ m.keys(y).T - exact).max() < 6 / np.sqrt(8192)
    assert np.allclose(m.gram(x, y), m(x) @ m.keys(y).T, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_strides(rng, dtype):
    m = randfeat.Map(SPEC, features=64)
    x = rng.normal(size=(5000, 5)).astype(dtype)
    want = m(x)
    assert want.dtype == dtype
    wide = np.zeros((10000, 11), dtype)
    wide[::2, ::2][:, :5] = x
    for other in (np.asfortranarray(x), x[::-1][::-1], wide[::2, ::2][:, :5], x.T.copy().T):
        assert np.array_equal(m(other), want)
    assert np.array_equal(m(x[::-1]), want[::-1])
    assert np.array_equal(m(x[:1]), want[:1])
    assert m(x[:0]).shape == (0, 64)


def test_bits_do_not_depend_on_threads(rng):
    m = randfeat.Map(SPEC, features=128)
    x = rng.normal(size=(3000, 5))
    assert np.array_equal(m(x, n_jobs=1), m(x, n_jobs=2))


def test_spec_draws_the_same_map(rng):
    x = rng.normal(size=(20, 5)) / 3
    m = randfeat.Map({**SPEC, "kernel": "softmax", "family": "oprf"}, features=64, fit=x)
    assert m.spec["family"]["a"] != 0
    for other in (randfeat.Map(m.spec), pickle.loads(pickle.dumps(m))):
        assert np.array_equal(other(x), m(x))


def test_log_features_do_not_overflow():
    m = randfeat.Map({"kernel": "softmax", "family": "positive", "dim": 2, "m": 32})
    phi, scale = m.log_features(np.full((3, 2), 50.0, np.float32))
    assert np.isfinite(phi).all() and np.isfinite(scale).all() and phi.max() > 0


def test_errors():
    m = randfeat.Map(SPEC, features=64)
    with pytest.raises(randfeat.RandfeatError, match="3 columns"):
        m(np.zeros((2, 3)))
    with pytest.raises(randfeat.RandfeatError, match="not a finite"):
        m(np.full((2, 5), np.nan))
    with pytest.raises(ValueError, match="dimensions"):
        m(np.zeros(5))
    with pytest.raises(randfeat.RandfeatError, match="did you mean|unknown family"):
        randfeat.Map({**SPEC, "family": "trigg"}, features=64)
    with pytest.raises(ValueError, match="out is"):
        m(np.zeros((2, 5)), out=np.zeros((2, 5)))


def test_panics_are_exceptions():
    from randfeat import _lib

    for where in (0, 1):
        e = _lib.C.c_void_p()
        with pytest.raises(randfeat.InternalError, match="a test of"):
            _lib.check(_lib.lib().rf_test_panic(where, _lib.C.byref(e)), e)


def test_released_handles_are_errors():
    from randfeat import _lib

    with pytest.raises(randfeat.InternalError, match="released or never given"):
        _lib.text("rf_model_info", 12345678)
