import numpy as np
import pytest


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also run the tests that take long or measure times")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long"):
        return
    for item in items:
        defaults = ("[RandFeatRegressor()-", "[RandFeatClassifier()-", "[AnomalyDetector()-")
        if "long" in item.keywords or any(d in item.name for d in defaults):
            item.add_marker(pytest.mark.skip(reason="needs --long"))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def mixed():
    """A table with numbers, integers, categories, truth values, dates, texts and missing values, as plain lists."""
    r = np.random.default_rng(1)
    n = 150
    size = r.normal(size=n).round(3)
    rooms = r.integers(1, 7, n)
    colour = [["red", "green", "blue"][i] for i in r.integers(0, 3, n)]
    garden = r.integers(0, 2, n).astype(bool)
    days = np.datetime64("2024-01-01") + r.integers(0, 300, n)
    price = size + 0.3 * rooms + np.where(garden, 0.5, 0.0) + np.where(np.array(colour) == "red", 0.7, 0.0)
    price = (price + 0.1 * r.normal(size=n)).round(4)
    size = size.copy()
    size[::17] = np.nan
    colour = [None if i % 23 == 5 else c for i, c in enumerate(colour)]
    return {"size": size, "rooms": rooms, "colour": colour, "garden": garden, "day": days}, price
