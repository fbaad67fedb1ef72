"""Correlations: a release of hushcov beside counts above medians, on Gaussian copulas.

Everybody protects one record that is replaced, as the rival was published. "nothing" is known, or
"scales": medians, means and standard deviations are public. Noise is seeded: nothing here is a
private release.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov._arrays import FloatArray
from hushcov.exceptions import HushcovError
from hushcov.report.style import BLUE, LOOKS, log_ticks, new_figure, tidy
from hushcov_lab.rivals.correlations import Correlations, median_split
from hushcov_lab.rivals.study import Study

_FEATURES = {"quick": (2, 5, 10), "full": (2, 5, 10, 20)}
_EPSILONS = (0.3, 1.0, 3.0)
_RECORDS = {"quick": (2_000, 10_000), "full": (2_000, 5_000, 10_000, 50_000)}
_TRIALS = {"quick": 2, "full": 10}
_MARGINS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "normal": np.asarray,
    "lognormal": np.exp,
}
_NEIGHBOUR = 0.5  # the correlation of neighbouring features
_OURS = "hushcov"


def cells(preset: str, folder: Path | None) -> list[dict[str, Any]]:
    """Return the cells: margins, numbers of features and records, budgets, trials."""
    return [
        {"margins": margins, "p": p, "n": n, "epsilon": epsilon, "delta": n**-2.0, "seed": seed}
        for margins in _MARGINS
        for p in _FEATURES[preset]
        for epsilon in (_EPSILONS if preset == "full" and margins == "normal" else (1.0,))
        for n in _RECORDS[preset]
        for seed in range(_TRIALS[preset] * (5 if p == 2 else 1))  # one pair says little
    ]


def measure(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask every method for all correlations of one table."""
    p, pairs = cell["p"], np.triu_indices(cell["p"], 1)
    truth = _NEIGHBOUR ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    generator = np.random.default_rng([cell["n"], p, cell["seed"]])
    normal = generator.standard_normal((cell["n"], p)) @ np.linalg.cholesky(truth).T
    X = _MARGINS[cell["margins"]](normal)
    rows = []
    for method, knows, find in _methods(cell, X):
        started = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # seeded
                found = find()
        except HushcovError:
            found = None
        seconds = time.perf_counter() - started
        row = {"method": method, "knows": knows, "answered": found is not None, "seconds": seconds}
        if found is not None:
            inside = (found.lower <= truth[pairs]) & (truth[pairs] <= found.upper)
            row["rmse"] = float(np.sqrt(np.mean((found.values - truth[pairs]) ** 2)))
            row["coverage"] = float(inside.mean())
            row["width"] = float((found.upper - found.lower).mean())
        rows.append(cell | row)
    return rows


def _methods(
    cell: dict[str, Any], X: FloatArray
) -> Iterator[tuple[str, str, Callable[[], Correlations]]]:
    """Name every method, what is public, and how it finds correlations."""
    epsilon, delta, p = cell["epsilon"], cell["delta"], cell["p"]
    medians = _MARGINS[cell["margins"]](np.zeros(p))
    public = {"nothing": None, "scales": medians}
    for name, spent in (("median split, as published", 0.0), ("median split, Gaussian", delta)):
        for knows, told in public.items():
            noise = np.random.default_rng([cell["seed"], int(spent > 0), int(told is not None)])
            said = "" if told is None else ", medians known"
            yield name + said, knows, partial(median_split, X, epsilon, spent, noise, told)
    yield f"{_OURS}, ranks", "nothing", partial(_released, cell, X, {"transforms": "rank"})
    if cell["margins"] == "normal":  # the correlation of others is not that of the copula
        told_scales = {"assume_centered": True, "feature_scale": 1.0}
        yield _OURS, "nothing", partial(_released, cell, X, {})
        yield f"{_OURS}, scales known", "scales", partial(_released, cell, X, told_scales)
        yield "not private", "all", partial(_sample, X)


def _released(cell: dict[str, Any], X: FloatArray, options: dict[str, Any]) -> Correlations:
    fitted = PrivateSparseCovariance(
        epsilon=cell["epsilon"], delta=cell["delta"], random_state=cell["seed"], **options
    ).fit(X)
    table, p = fitted.pairs(), X.shape[1]
    found: FloatArray = np.full((3, p, p), np.nan)
    columns = (table[name] for name in ("feature_1", "feature_2"))
    i, j = ([int(re.sub(r"\D", "", name)) for name in column] for column in columns)
    for at, name in enumerate(("correlation", "correlation_lower", "correlation_upper")):
        found[at, i, j] = found[at, j, i] = table[name]
    values, lower, upper = found[:, np.triu(np.ones((p, p), dtype=bool), 1)]
    nothing = np.isnan(values)  # nothing was found of a pair: any correlation is possible
    return Correlations(
        np.where(nothing, 0.0, values),
        np.where(nothing, -1.0, lower),
        np.where(nothing, 1.0, upper),
    )


def _sample(X: FloatArray) -> Correlations:
    """Return sample correlations, with Fisher's intervals."""
    values = np.asarray(np.corrcoef(X.T))[np.triu_indices(X.shape[1], 1)]
    half = 1.96 / np.sqrt(len(X) - 3)
    lower, upper = (np.tanh(np.arctanh(values) + side * half) for side in (-1, 1))
    return Correlations(values, lower, upper)


def draw(rows: list[dict[str, Any]]) -> Any:
    """Draw RMSE over the number of records at epsilon 1: a panel for each number of features."""
    rows = [row for row in rows if row["epsilon"] == 1 and row["answered"]]
    kinds = list(dict.fromkeys((row["margins"], row["p"]) for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    figure = new_figure(15.0, 6.4)
    columns = (len(kinds) + 1) // 2
    panels = figure.subplots(2, columns, squeeze=False, sharey=True)
    for axes, (margins, p) in zip(panels.ravel(), kinds, strict=False):
        here = [row for row in rows if (row["margins"], row["p"]) == (margins, p)]
        sizes = sorted({row["n"] for row in here})
        for place, method in enumerate(methods):
            mine = [
                [r["rmse"] for r in here if (r["method"], r["n"]) == (method, n)] for n in sizes
            ]
            means = [float(np.sqrt(np.mean(np.square(e)))) if e else np.nan for e in mine]
            axes.plot(sizes, means, label=method, **_look(method, place))
        axes.set(xscale="log", yscale="log", title=f"{margins}, {p} features")
        log_ticks(axes.xaxis, sizes)
        tidy(axes)
    for axes in panels[-1]:
        axes.set_xlabel("records")
    for axes in panels[:, 0]:
        axes.set_ylabel("RMSE of correlations")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=9)
    return figure


def _look(method: str, place: int) -> dict[str, Any]:
    """Blue for hushcov, grey for what is not private; dashed where scales or medians are told."""
    line = "--" if method.endswith("known") else ":" if method.endswith("ranks") else "-"
    if method == "not private":
        return {"color": "0.6", "linewidth": 2.5}
    if method.startswith(_OURS):
        return {"color": BLUE, "marker": "o", "linestyle": line, "linewidth": 2.4, "zorder": 3}
    colour, marker = LOOKS[1 + place // 2]
    return {"color": colour, "marker": marker, "linestyle": line, "linewidth": 1.2}


STUDY = Study(
    name="correlations",
    title="Correlations of Gaussian copulas",
    cells=cells,
    measure=measure,
    draw=draw,
    caption="RMSE of all correlations over the number of records, epsilon 1. Counts above medians "
    "get Laplace noise as published, or Gaussian noise by our accounting; dashed where medians, or "
    "means and scales, are public. Of lognormal margins hushcov releases correlations of ranks.",
)
