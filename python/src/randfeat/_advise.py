"""Advice: which feature map to use for given rows, by measured errors."""

from __future__ import annotations

import html
import json
from typing import Any, Sequence

from . import _lib
from ._map import Map, _ref, kernel_of


class Advice(dict):
    """The report of `advise`: a dict that notebooks show as a page.

    ``advice["ranking"]`` lists the candidates with errors and intervals, best first. ``advice.spec`` is the spec of the
    recommended map, and ``advice.map()`` draws it.
    """

    page: str = ""

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the recommended map, fitted to all rows."""
        return self["spec"]

    @property
    def best(self) -> dict[str, Any]:
        """The recommended candidate."""
        return self["ranking"][self["best"]]

    def map(self, seed: int | None = None) -> Map:
        """Draw the recommended map, with another seed if one is given."""
        return Map(self.spec if seed is None else {**self.spec, "seed": int(seed)})

    def save(self, path: str) -> None:
        """Write the report as a page of HTML."""
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.page)

    def __str__(self) -> str:
        lines = [self.get("about", ""), self.get("verdict", "")]
        for i, c in enumerate(self["ranking"][:10]):
            mark = "*" if i == self["best"] and not self.get("useless") else " "
            interval = f"[{c['low']:.4g}, {c['high']:.4g}]" if "low" in c else "heavy tail" if c.get("error") else ""
            lines.append(f"{mark} {c['name']:<28} {c.get('error', 0):.4g}  {interval}")
        return "\n".join(lines + [f"- {r}" for r in self["reasons"]])

    def _repr_html_(self) -> str:
        # A frame keeps the styles of the page away from the notebook.
        return (
            f'<iframe srcdoc="{html.escape(self.page, quote=True)}" style="width: 100%; height: 40em; border: 0" '
            'title="advice of randfeat"></iframe>'
        )


def advise(
    X: Any,
    Y: Any = None,
    *,
    kernel: Any = "gaussian",
    scale: float | None = None,
    features: int | None = None,
    target: float | None = None,
    positive: bool = False,
    loss: str | None = None,
    measure: str | None = None,
    unbiased: bool = False,
    families: Sequence[str] | None = None,
    couplings: Sequence[str] | None = None,
    rows: int | None = None,
    draws: int | None = None,
    brief: bool = False,
    random_state: int = 1,
    verbose: int = 0,
) -> Advice:
    """Rank feature maps for given rows by measured errors, with reasons.

    Parameters
    ----------
    X, Y : array of shape (n, d), (m, d)
        Queries and keys. None for Y means that both are X, as in kernel machines.
    kernel : str or dict
        Such as "gaussian" or "softmax".
    scale : float, optional
        Bandwidth of the kernel.
    features : int, optional
        Number of features of each map; None means 256.
    target : float, optional
        Instead of features: reach this error with as few features as possible.
    positive : bool
        Consider only maps with positive features, as attention needs them.
    loss : {"relative", "absolute"}, optional
        Kind of error; None means relative for softmax and absolute for other kernels.
    measure : {"rms", "typical"}, optional
        Rank by the root mean square or by the typical error.
    unbiased : bool
        Leave out Nyström features, which are biased and fitted to the rows.
    families, couplings : list of str, optional
        Restrict the candidates.
    rows, draws : int, optional
        Rows on which errors are measured, and the largest number of draws per candidate.
    brief : bool
        Leave out the curves of error against the number of features.
    random_state : int
    verbose : int
        1 shows a progress bar.

    Returns
    -------
    Advice

    Examples
    --------
    >>> import numpy as np, randfeat
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> advice = randfeat.advise(x, families=["trig", "positive"], couplings=["iid", "orthogonal"], rows=32, draws=8,
    ...                          brief=True, unbiased=True)
    >>> advice.best["family"]
    'trig'
    >>> advice.map().n_features
    256
    """
    x = _lib.matrix(X, "X")
    y = None if Y is None else _lib.matrix(Y, "Y")
    if features and target:
        raise ValueError("features and target exclude each other")
    options = {
        "kernel": kernel_of(kernel, scale), "features": features, "target": target, "positive": positive,
        "loss": loss, "measure": measure, "unbiased": unbiased, "families": families, "couplings": couplings,
        "rows": rows, "draws": draws, "brief": brief, "seed": int(random_state),
    }  # fmt: skip
    o = _lib.dumps({k: v for k, v in options.items() if v is not None})
    run = _lib.lib().rf_advise
    _, body = _lib.job(
        lambda j, err: run(_ref(x), _ref(y), o, j, None, err), (x, y), _lib.Bar() if verbose else None
    )
    d = json.loads(body or "{}")
    advice = Advice(d["report"])
    advice["about"] = d["about"]
    advice.page = d["html"]
    return advice
