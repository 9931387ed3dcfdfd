# %% [markdown]
# # A table, from a DataFrame to a model file
#
# The table has numbers, categories, dates, truth values and missing values. Nothing is encoded by hand.

# %%
import numpy as np
import pandas as pd

import randfeat

rng = np.random.default_rng(0)
n = 450
frame = pd.DataFrame(
    {
        "size": rng.gamma(4, 20, n),
        "rooms": rng.integers(1, 6, n),
        "district": pd.Categorical(rng.choice(["north", "south", "harbour"], n)),
        "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        "garden": rng.random(n) < 0.3,
    }
)
price = (
    2.0 * np.sqrt(frame["size"])
    + 3.0 * (frame["district"] == "harbour")
    + 1.5 * frame["garden"]
    + 0.004 * (frame["sold"] - frame["sold"].min()).dt.days
    + rng.normal(size=n)
)
frame.loc[::19, "size"] = np.nan
frame.head()

# %% [markdown]
# Everything that is left open is chosen: scaling of columns, kernel, bandwidth, penalty. The report says what was chosen
# and why, and how well rows are predicted by models that have not seen them.

# %%
train, test = slice(0, 250), slice(250, None)
model = randfeat.RandFeatRegressor(folds=3, random_state=0).fit(frame[train], price[train])
model.report_

# %% [markdown]
# The score of the report was made without the rows below. Its interval should hold what they give.

# %%
rmse = float(np.sqrt(np.mean((model.predict(frame[test]) - price[test]) ** 2)))
score = model.report_["scores"][0]
print(f"fresh rows: {rmse:.3f}; report: {score['value']:.3f} [{score['low']:.3f}, {score['high']:.3f}]")

# %% [markdown]
# Prediction intervals hold the share of new observations that they are asked for.

# %%
low, high = model.predict_interval(frame[test], coverage=0.9).T
print(f"{np.mean((low <= price[test]) & (price[test] <= high)):.3f} of the fresh rows are inside")

# %% [markdown]
# The model file is that of the command `randfeat`: `randfeat serve model.rf` answers predictions over HTTP.

# %%
import os
import tempfile

path = os.path.join(tempfile.mkdtemp(), "model.rf")
model.save(path)
again = randfeat.load(path)
assert np.array_equal(again.predict(frame[test]), model.predict(frame[test]))
again

# %% [markdown]
# Classes have calibrated probabilities.

# %%
expensive = np.where(price > price.median(), "above", "below")
classifier = randfeat.RandFeatClassifier(folds=2, random_state=0).fit(frame[train], expensive[train])
print(classifier.score(frame[test], expensive[test]))
pd.DataFrame(classifier.predict_proba(frame[test])[:3], columns=classifier.classes_)
