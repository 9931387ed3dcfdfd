"""scikit-learn's own checks of estimators: all of them, no declared failure. Defaults of fits are checked with --long."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import randfeat

ESTIMATORS = [
    randfeat.RandomFeatures(random_state=0),
    randfeat.RandomFeatures(family="oprf", kernel="softmax", gamma=0.1, coupling="simplex", random_state=0),
    randfeat.RandFeatRegressor(folds=2, scaling="standard"),
    randfeat.RandFeatClassifier(folds=2, scaling="standard", kernel="gaussian"),
    randfeat.AnomalyDetector(folds=2, scaling="standard", max_features=64),
    randfeat.RandFeatRegressor(),
    randfeat.RandFeatClassifier(),
    randfeat.AnomalyDetector(),
]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")


@parametrize_with_checks(ESTIMATORS)
def test_estimator(estimator, check):
    check(estimator)
