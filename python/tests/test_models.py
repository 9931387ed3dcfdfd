import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import randfeat


@pytest.fixture(scope="module")
def waves():
    r = np.random.default_rng(2)
    x = r.uniform(-3, 3, size=(300, 2))
    return x, np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * r.normal(size=300)


@pytest.fixture(scope="module")
def regressor(waves):
    return randfeat.RandFeatRegressor(folds=3).fit(*waves)


def test_regression_and_its_intervals(waves, regressor):
    x, y = waves
    assert regressor.score(x, y) > 0.97
    r = np.random.default_rng(3)
    fresh = r.uniform(-3, 3, size=(2000, 2))
    truth = np.sin(fresh[:, 0]) + 0.5 * fresh[:, 1] + 0.1 * r.normal(size=2000)
    low, high = regressor.predict_interval(fresh, 0.9).T
    share = np.mean((low <= truth) & (truth <= high))
    # 300 rows of calibration and 2000 fresh ones: a standard deviation of 0.019 about 0.9
    assert 0.9 - 4 * 0.019 < share < 0.9 + 4 * 0.019
    assert regressor.report_["choices"] and regressor.report_["scores"][0]["low"] > 0
    assert "<table>" in regressor.report_._repr_html_() and "RMSE" in str(regressor.report_)


def test_same_seed_same_bytes_on_any_threads(waves, regressor):
    for n_jobs in (1, 2):
        other = randfeat.RandFeatRegressor(folds=3, n_jobs=n_jobs).fit(*waves)
        assert other.model_.to_bytes() == regressor.model_.to_bytes()


def test_saved_pickled_cloned(waves, regressor, tmp_path):
    x, _ = waves
    regressor.save(tmp_path / "model.rf")
    want = regressor.predict(x)
    assert np.array_equal(randfeat.load(tmp_path / "model.rf").predict(x), want)
    again = pickle.loads(pickle.dumps(regressor))
    assert np.array_equal(again.predict(x), want) and again.report_ == regressor.report_
    assert not hasattr(clone(regressor), "model_")
    assert [p.name for p in tmp_path.iterdir()] == ["model.rf"]
    with pytest.raises(randfeat.RandfeatError):
        randfeat.Model.from_bytes(regressor.model_.to_bytes()[:-5])


@pytest.mark.parametrize("labels", [["b", "a", "c"], [3, -1, 10], [2.0, 1.0, 0.0], [True, False], ["01", "1.5", "x"], ["2.0", "10"]])
def test_classes_of_any_type(labels):
    r = np.random.default_rng(4)
    x = r.normal(size=(150, 2))
    codes = (x[:, 0] > 0).astype(int) + ((x[:, 1] > 0).astype(int) if len(labels) > 2 else 0)
    y = np.array(labels)[codes]
    m = randfeat.RandFeatClassifier(folds=2).fit(x, y)
    assert m.score(x, y) > 0.85 and m.predict(x).dtype == y.dtype
    p = m.predict_proba(x)
    assert p.shape == (150, len(labels)) and np.allclose(p.sum(axis=1), 1)
    assert np.array_equal(m.classes_[p.argmax(axis=1)], m.predict(x))
    if y.dtype.kind in "US" and "2.0" not in labels:  # numbers are spelled 2 in the file
        assert m.model_.predict(x[:3]).tolist() == m.predict(x[:3]).tolist()


def test_weights_are_repeated_rows(waves):
    x, y = waves[0][:60], waves[1][:60]
    w = np.random.default_rng(5).integers(0, 4, 60)
    a = randfeat.RandFeatRegressor(folds=2).fit(x, y, sample_weight=w)
    b = randfeat.RandFeatRegressor(folds=2).fit(np.repeat(x, w, axis=0), np.repeat(y, w))
    assert np.allclose(a.predict(x), b.predict(x), rtol=1e-6, atol=1e-8)
    c = randfeat.RandFeatRegressor(folds=2).fit(x, y)
    assert not np.allclose(a.predict(x), c.predict(x), rtol=1e-3, atol=1e-3)


def test_anomalies():
    r = np.random.default_rng(6)
    x = r.normal(size=(500, 2))
    d = randfeat.AnomalyDetector(contamination=0.1, folds=2).fit(x)
    assert abs(np.mean(d.predict(x) == -1) - 0.1) < 0.005
    fresh = r.normal(size=(2000, 2))
    # the anomaly of fresh rows is uniform on [0, 1]: 500 rows of calibration leave 0.02 at the median
    assert abs(np.median(d.anomaly(fresh)) - 0.5) < 0.1
    assert d.anomaly([[6.0, 6.0]])[0] > 0.99 and d.predict([[6.0, 6.0]])[0] == -1


def test_drop_in(waves):
    x, y = waves
    pipe = make_pipeline(StandardScaler(), randfeat.RandomFeatures(200, gamma=0.3, random_state=0), Ridge(1e-2))
    assert cross_val_score(pipe, x, y, cv=3).mean() > 0.95
    grid = GridSearchCV(pipe, {"randomfeatures__gamma": [1e-4, 0.3]}, cv=2).fit(x, y)
    assert grid.best_params_ == {"randomfeatures__gamma": 0.3}
    both = ColumnTransformer(
        [("a", randfeat.RandomFeatures(50, random_state=0), [0]), ("b", "passthrough", [1])]
    ).fit(x)
    assert both.transform(x).shape == (300, 51)
    assert len(both.get_feature_names_out()) == 51
    fixed = randfeat.RandFeatRegressor(folds=1, map="exact", kernel="gaussian", bandwidth=1.0, alpha=0.1)
    assert cross_val_score(fixed, x, y, cv=3).mean() > 0.9


def test_pandas_output(waves):
    pytest.importorskip("pandas")
    t = randfeat.RandomFeatures(10, random_state=0).set_output(transform="pandas")
    frame = t.fit_transform(waves[0])
    assert list(frame.columns[:2]) == ["randomfeatures0", "randomfeatures1"]


@pytest.mark.long
def test_grid_search_in_processes(waves):
    x, y = waves
    grid = GridSearchCV(
        randfeat.RandFeatRegressor(folds=1, map="exact"), {"bandwidth": [0.5, 1.0]}, cv=2, n_jobs=2
    ).fit(x, y)
    assert grid.best_score_ > 0.9


def test_progress_is_shown(waves, capsys):
    randfeat.RandFeatRegressor(folds=2, verbose=1).fit(*waves)
    err = capsys.readouterr().err
    assert "randfeat: " in err or err == ""  # a short fit may end before the first look


def test_parameters_are_checked(waves):
    x, y = waves
    for bad in ({"alpha": -1.0}, {"folds": 0}, {"bandwidth": 0.0}, {"map": "none"}, {"kernel": "round"}):
        with pytest.raises(ValueError):
            randfeat.RandFeatRegressor(**bad).fit(x, y)
    with pytest.raises(ValueError, match="coverage"):
        randfeat.RandFeatRegressor(folds=2).fit(x[:50], y[:50]).predict_interval(x, 1.5)
    with pytest.raises(randfeat.RandfeatError, match="held out|residual|interval|fold"):
        randfeat.RandFeatRegressor(folds=1).fit(x[:50], y[:50]).predict_interval(x)


def test_surprises_are_warnings(regressor):
    with pytest.warns(randfeat.SurpriseWarning, match="x0"):
        regressor.model_.predict(np.array([[99.0, 0.0]]))


def test_seed_of_the_program():
    """Everything that draws has the default seed of the program, 1."""
    for f in (randfeat.RandomFeatures, randfeat.RandFeatRegressor, randfeat.RandFeatClassifier,
              randfeat.AnomalyDetector, randfeat.advise, randfeat.attention.calibrate):  # fmt: skip
        assert inspect.signature(f).parameters["random_state"].default == 1, f


def test_rbf_is_gaussian():
    x = np.random.default_rng(3).normal(size=(60, 3))
    rbf, gaussian = (randfeat.RandomFeatures(32, kernel=k, gamma=0.3).fit_transform(x) for k in ("rbf", "gaussian"))
    assert np.array_equal(rbf, gaussian)
    rbf, gaussian = (randfeat.RandFeatRegressor(folds=1, map="exact", bandwidth=1.0, alpha=0.1, kernel=k).fit(x, x[:, 0]).predict(x)
                     for k in ("rbf", "gaussian"))
    assert np.array_equal(rbf, gaussian)
