"""One table in every form gives the same bits."""

import datetime
import os
import shutil
import subprocess

import numpy as np
import pytest

import randfeat


def pandas_of(columns):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({**columns, "colour": pd.Series(columns["colour"], dtype=object)})


def polars_of(columns):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({k: (v if k != "day" else pl.Series(v)) for k, v in columns.items()})
    return frame.with_columns(size=pl.col("size").fill_nan(None))


def pyarrow_of(columns):
    pa = pytest.importorskip("pyarrow")
    whole = pa.table({**columns, "size": pa.array(columns["size"], from_pandas=True)})
    return pa.concat_tables([whole.slice(0, 40), whole.slice(40, 3), whole.slice(43)])  # chunks with offsets


def duckdb_of(columns):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.from_arrow(pyarrow_of(columns))


FORMS = {"pandas": pandas_of, "polars": polars_of, "pyarrow": pyarrow_of, "duckdb": duckdb_of}


@pytest.fixture(scope="module")
def model(mixed):
    columns, price = mixed
    return randfeat.RandFeatRegressor(folds=2, random_state=0).fit(pandas_of(columns), price)


@pytest.mark.parametrize("form", FORMS)
def test_predictions_have_the_same_bits(mixed, model, form):
    columns, price = mixed
    want = model.predict(pandas_of(columns))
    assert model.score(pandas_of(columns), price) > 0.8
    assert np.array_equal(model.predict(FORMS[form](columns)), want)
    assert np.array_equal(model.model_.predict(FORMS[form](columns)), want)


@pytest.mark.parametrize("form", ["polars", "pyarrow", "duckdb"])
def test_fits_have_the_same_bits(mixed, model, form):
    columns, price = mixed
    other = randfeat.RandFeatRegressor(folds=2, random_state=0).fit(FORMS[form](columns), price)
    assert other.model_.to_bytes() == model.model_.to_bytes()
    assert list(other.feature_names_in_) == list(columns)


def test_mapping_of_columns(mixed, model):
    columns, _ = mixed
    assert np.array_equal(model.predict(columns), model.predict(pandas_of(columns)))


@pytest.mark.parametrize("kind", ["category", "string", "Int64", "boolean", "datetime64[s]", "object dates"])
def test_types_of_pandas(mixed, model, kind):
    pd = pytest.importorskip("pandas")
    columns, _ = mixed
    frame = pandas_of(columns)
    want = model.predict(frame)
    if kind in ("category", "string"):
        frame["colour"] = frame["colour"].astype(kind)
    elif kind == "Int64":
        frame["rooms"] = frame["rooms"].astype("Int64")
    elif kind == "boolean":
        frame["garden"] = frame["garden"].astype("boolean")
    elif kind == "object dates":
        frame["day"] = pd.Series([datetime.date(1970, 1, 1) + datetime.timedelta(days=int(d)) for d in
                                  columns["day"].astype("datetime64[D]").astype(int)], dtype=object)
    else:
        frame["day"] = frame["day"].astype(kind)
    assert np.array_equal(model.predict(frame), want)


def test_arrow_types(mixed, model):
    pa = pytest.importorskip("pyarrow")

    def cast(column, kind):
        return (column.cast(pa.int8()) if pa.types.is_decimal(kind) else column).cast(kind)

    columns, _ = mixed
    table = pyarrow_of(columns)
    want = model.predict(table)
    for name, kind in (
        ("colour", pa.dictionary(pa.int8(), pa.string())), ("colour", pa.large_string()),
        ("colour", pa.string_view()), ("rooms", pa.int8()), ("rooms", pa.uint64()), ("rooms", pa.float16()),
        ("rooms", pa.decimal128(10, 2)), ("rooms", pa.decimal64(10, 2)), ("rooms", pa.decimal128(30, 2)), ("day", pa.timestamp("us")),
        ("day", pa.timestamp("ns", "UTC")), ("day", pa.date64()),
    ):  # fmt: skip
        i = table.column_names.index(name)
        other = table.set_column(i, name, cast(table.column(name), kind))
        assert np.array_equal(model.predict(other), want), kind


def test_arrays_with_any_strides(mixed, model):
    """Go reads elements that lie in order in place and copies others: reversed, not aligned, repeated."""
    columns, _ = mixed
    want = model.predict(pandas_of(columns))
    size, rooms = columns["size"], columns["rooms"]
    packed = np.zeros(len(size), dtype=[("skip", "u1"), ("size", "f8"), ("rooms", "i8")])
    packed["size"], packed["rooms"] = size, rooms
    assert not packed["size"].flags.aligned
    for s, r in [
        (size[::-1].copy()[::-1], rooms[::-1].copy()[::-1]),
        (np.repeat(size, 3)[::3], np.repeat(rooms, 2)[::2]),
        (packed["size"], packed["rooms"]),
    ]:
        assert np.array_equal(model.model_.predict({**columns, "size": s, "rooms": r}), want)
    same = np.full(len(size), 0.25)
    got = model.model_.predict({**columns, "size": np.broadcast_to(0.25, len(size))})
    assert np.array_equal(got, model.model_.predict({**columns, "size": same}))


def test_one_row_is_like_many(rng):
    x = rng.normal(size=(60, 3))
    m = randfeat.RandFeatRegressor(folds=1, map="exact", bandwidth=1.0, alpha=0.1).fit(x, x[:, 0]).model_
    many = m.predict(x)
    assert all(m.predict(x[i : i + 1])[0] == many[i] for i in range(60))
    assert m.predict(x[:1].astype(">f8"))[0] == many[0]
    assert m.predict(np.asfortranarray(x)[5:6])[0] == many[5]
    with pytest.raises(randfeat.RandfeatError, match="x3|columns"):
        m.predict(np.zeros((1, 4)))
    with pytest.warns(randfeat.SurpriseWarning, match="x1"):
        m.predict(np.array([[0.0, 1e6, 0.0]]))
    for dtype in (np.float32, np.float64):
        f = randfeat.Map({"family": "trig", "dim": 3, "m": 8})
        z = x.astype(dtype)
        assert np.array_equal(f(z[3:4]), f(z)[3:4]) and f(z[3:4]).dtype == dtype


def test_missing_levels_of_a_dictionary(mixed, model):
    pa = pytest.importorskip("pyarrow")
    columns, _ = mixed
    levels = ["red", None, "green", "blue"]
    codes = pa.array([levels.index(c) for c in columns["colour"]], pa.int8())
    table = pyarrow_of(columns)
    at = table.column_names.index("colour")
    coded = table.set_column(at, "colour", pa.DictionaryArray.from_arrays(codes, pa.array(levels)))
    assert np.array_equal(model.predict(coded), model.predict(pandas_of(columns)))


def test_time_zones_agree(mixed, model):
    pa = pytest.importorskip("pyarrow")
    columns, _ = mixed
    frame = pandas_of(columns)
    frame["day"] = frame["day"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    table = pyarrow_of(columns)
    i = table.column_names.index("day")
    other = table.set_column(i, "day", table.column("day").cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")))
    assert np.array_equal(model.predict(frame), model.predict(other))


def test_unusable_columns_are_named(mixed):
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(randfeat.InputError, match='column "l": its Arrow type'):
        randfeat.RandFeatRegressor().fit(pa.table({"l": [[1], [2]], "x": [1.0, 2.0]}), [1.0, 2.0])
    pd = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="'l'.*must be a string or a number, not list"):
        randfeat.RandFeatRegressor().fit(pd.DataFrame({"l": [[1], [2]], "x": [1.0, 2.0]}), [1.0, 2.0])


def test_other_columns_are_errors(mixed, model):
    columns, _ = mixed
    with pytest.raises(ValueError, match="feature names"):
        model.predict(polars_of({k: v for k, v in columns.items() if k != "rooms"}))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pandas_of(columns).rename(columns={"rooms": "room"}))
    with pytest.raises(randfeat.InputError, match="rooms"):
        model.model_.predict({k: v for k, v in columns.items() if k != "rooms"})


def command():
    """The command randfeat: RANDFEAT_COMMAND, or one in the path."""
    return os.environ.get("RANDFEAT_COMMAND") or shutil.which("randfeat")


@pytest.mark.skipif(not command(), reason="RANDFEAT_COMMAND names no randfeat command")
def test_the_command_predicts_the_same(mixed, model, tmp_path):
    columns, _ = mixed
    frame = pandas_of(columns)
    model.save(tmp_path / "model.rf")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    subprocess.run([command(), "predict", str(tmp_path / "model.rf"), str(tmp_path / "rows.csv"), "-o",
                    str(tmp_path / "out.csv")], check=True, capture_output=True)  # fmt: skip
    out = np.genfromtxt(tmp_path / "out.csv", skip_header=1)
    assert np.array_equal(out, model.predict(frame))


@pytest.mark.skipif(not command(), reason="RANDFEAT_COMMAND names no randfeat command")
def test_loads_models_of_the_command(mixed, tmp_path):
    columns, price = mixed
    frame = pandas_of(columns)
    frame.assign(price=price).to_csv(tmp_path / "rows.csv", index=False)
    subprocess.run([command(), "fit", str(tmp_path / "rows.csv"), "--target", "price", "--folds", "2", "-o",
                    str(tmp_path / "model.rf")], check=True, capture_output=True)  # fmt: skip
    m = randfeat.load(tmp_path / "model.rf")
    assert m.targets == ["price"] and m.task == "regression" and m.report["scores"]
    assert np.corrcoef(m.predict(frame), price)[0, 1] > 0.9
