# %% [markdown]
# # Choosing an estimator of a kernel
#
# Random features turn a kernel into products of vectors. Which family of features, with which coupling of its
# projections, has the smallest error on given rows? Theory knows some answers; `advise` measures all of them.

# %%
import numpy as np

import randfeat
from randfeat import theory

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 8)) * np.linspace(0.2, 1.0, 8)

# %% [markdown]
# The error of one map at one pair of rows, before anything is drawn, and measured over 500 draws.

# %%
spec = {"family": "trig", "coupling": "orthogonal", "dim": 8, "m": 64}
expected = theory.moments(spec, x[:1], x[1:2])
draws = np.array([randfeat.Map({**spec, "seed": s}).gram(x[:1], x[1:2])[0, 0] for s in range(500)])
print("standard deviation: theory", float(np.sqrt(expected["variance"][0])), "measured", draws.std())
assert abs(draws.std() / np.sqrt(expected["variance"][0]) - 1) < 0.2

# %% [markdown]
# The advice ranks candidates by errors on rows that they were not fitted to.

# %%
advice = randfeat.advise(
    x, features=128, families=["trig", "positive", "oprf", "nystrom"], couplings=["iid", "orthogonal", "simplex"],
    rows=48, draws=16, brief=True,
)
print(advice)

# %% [markdown]
# In a notebook the advice shows itself as a page. Its map can be used at once, or in a pipeline of scikit-learn.

# %%
best = advice.map()
error = np.abs(best.gram(x[:100]) - randfeat.gram(x[:100])).mean()
print(best.spec["family"]["name"], f"mean error {error:.4f}")
advice

# %%
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

y = np.sin(x.sum(axis=1)) + 0.1 * rng.normal(size=len(x))
for family in ("trig", "positive"):
    pipe = make_pipeline(randfeat.RandomFeatures(256, gamma=0.3, family=family, random_state=0), Ridge(0.01))
    print(f"{family:<10} {cross_val_score(pipe, x, y, cv=3).mean():.3f}")
