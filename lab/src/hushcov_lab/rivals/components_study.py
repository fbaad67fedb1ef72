"""Principal components: a release of hushcov beside private PCA, on spiked models.

Everybody protects one unit that is added or removed. Methods differ in what they are told:
"bounds" (means are zero, and how long records are at most), "means" (means are zero) or "nothing".
Noise is seeded: nothing here is a private release.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hushcov import PrivateSparseCovariance, SeparateCovariance
from hushcov._arrays import FloatArray
from hushcov.exceptions import HushcovError
from hushcov.report.style import BLUE, LOOKS, log_ticks, new_figure, tidy
from hushcov_lab.rivals.components import (
    LengthBounds,
    analyze_gauss,
    k_dp_pca,
    lost_share,
    noisy_power_method,
    spiked_bounds,
    spiked_units,
    subspace_error,
    top_eigenvectors,
)
from hushcov_lab.rivals.study import Study

#: Spiked models by name: deviation of the noise, first and last spike, numbers of spikes and of
#: features.
_FIGURE = {"first": 10.0, "last": 5.0, "k": 2, "d": 200}
SETTINGS: dict[str, dict[str, Any]] = {
    "figure 1a": {"model": "normal", "sigma": 0.025, **_FIGURE},
    "figure 1b": {"model": "normal", "sigma": 0.001, **_FIGURE},
    "figure 1a, fixed": {"model": "fixed", "sigma": 0.025, **_FIGURE},
    "figure 1b, fixed": {"model": "fixed", "sigma": 0.001, **_FIGURE},
    "spiked": {"model": "normal", "sigma": 1.0, "first": 10.0, "last": 10.0, "k": 5, "d": 100},
}
_DELTA = 0.01  # of figure 1
_RECORDS = {"quick": (5_000, 20_000), "full": (2_000, 5_000, 10_000, 20_000, 50_000)}
_TRIALS = {"quick": 1, "full": 10}
_OURS, _EVEN = "hushcov", ", rows of length 1"


def cells(preset: str, folder: Path | None) -> list[dict[str, Any]]:
    """Return the cells: settings, numbers of records and trials; no table is read."""
    return [
        {
            "setting": name,
            **setting,
            "n": n,
            "epsilon": 1.0,
            "delta": n**-2.0 if name == "spiked" else _DELTA,
            "seed": seed,
        }
        for name, setting in SETTINGS.items()
        for n in _RECORDS[preset]
        for seed in range(_TRIALS[preset])
    ]


def measure(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask every method for the components of one table."""
    generator = np.random.default_rng([cell["n"], cell["d"], cell["seed"]])
    spikes, sigma = np.linspace(cell["first"], cell["last"], cell["k"]), cell["sigma"]
    basis = np.linalg.qr(generator.standard_normal((cell["d"], len(spikes))))[0]
    units = spiked_units(cell["model"], cell["n"], basis, spikes, sigma, generator)
    bounds = spiked_bounds(cell["model"], cell["n"], cell["d"], spikes, sigma)
    rows = []
    for method, knows, find in _methods(cell, units, bounds):
        started = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # seeded, a large delta, hopeless sizes
                found = find()
        except HushcovError:
            found = None
        seconds = time.perf_counter() - started
        row = {"method": method, "knows": knows, "answered": found is not None, "seconds": seconds}
        if found is not None:
            row["error"] = subspace_error(found, basis)
            row["lost"] = lost_share(found, basis, spikes, sigma)
        rows.append(cell | row)
    return rows


def _methods(
    cell: dict[str, Any], units: FloatArray, bounds: LengthBounds
) -> Iterator[tuple[str, str, Callable[[], FloatArray]]]:
    """Name every method, what it is told, and how it finds components."""
    k, budget = cell["k"], (cell["epsilon"], cell["delta"])
    rivals: Any = {"Analyze Gauss": analyze_gauss, "noisy power method": noisy_power_method}
    for place, (name, rival) in enumerate(rivals.items()):
        for found, told in enumerate((bounds, None)):
            noise = np.random.default_rng([cell["seed"], place, found])
            knows = "bounds" if told else "means"
            yield f"{name}, {knows} known", knows, partial(rival, units, k, budget, told, noise)
    noise = np.random.default_rng([cell["seed"], 9])
    yield "k-DP-PCA", "means", partial(k_dp_pca, units, k, budget, None, noise)
    known: Any = {"assume_centered": True, "feature_scale": 1.0, "row_norm": bounds.norm}
    yield "Separate, bounds known", "bounds", partial(_eigenvectors, cell, units, known)
    yield "Separate", "nothing", partial(_eigenvectors, cell, units, {})
    yield _OURS, "nothing", partial(_factors, cell, units, {})
    even = units / np.linalg.norm(units, axis=2, keepdims=True)
    # Rows of length 1 that may all be the same: |A_i| is at most their number.
    one, noise = LengthBounds(units.shape[1] ** 0.5, 1.0), np.random.default_rng([cell["seed"], 10])
    even_gauss = partial(analyze_gauss, even, k, budget, one, noise)
    yield f"Analyze Gauss{_EVEN}", "means", even_gauss
    yield f"{_OURS}{_EVEN}", "means", partial(_factors, cell, even, {})
    yield f"{_OURS}, components()", "nothing", partial(_asked, cell, units, {})
    rows = units.reshape(-1, units.shape[2])
    yield "not private", "all", partial(top_eigenvectors, rows.T @ rows, k)


def _fitted(kind: Any, cell: dict[str, Any], units: FloatArray, options: dict[str, Any]) -> Any:
    n, rows, d = units.shape
    of_units, unit = ({"max_rows_per_unit": rows}, np.repeat(np.arange(n), rows))
    return kind(
        epsilon=cell["epsilon"],
        delta=cell["delta"],
        neighbours="add-remove",
        random_state=cell["seed"],
        on_large_delta="warn",
        on_hopeless="warn",
        **options,
        **(of_units if rows > 1 else {}),
    ).fit(units.reshape(-1, d), **({"unit": unit} if rows > 1 else {}))


def _eigenvectors(cell: dict[str, Any], units: FloatArray, options: dict[str, Any]) -> FloatArray:
    fitted = _fitted(SeparateCovariance, cell, units, options)
    return top_eigenvectors(fitted.covariance_, cell["k"])


def _factors(cell: dict[str, Any], units: FloatArray, options: dict[str, Any]) -> FloatArray:
    """Take the factors of a release, or eigenvectors where there are not as many."""
    k, fitted = cell["k"], _fitted(PrivateSparseCovariance, cell, units, options)
    if len(fitted.components_) < k:
        return top_eigenvectors(fitted.covariance_, k)
    return np.asarray(np.linalg.svd(fitted.components_)[2][:k].T)


def _asked(cell: dict[str, Any], units: FloatArray, options: dict[str, Any]) -> FloatArray:
    """Ask for components of the covariance; features that are left out have loadings of zero."""
    k, d = cell["k"], units.shape[2]
    fitted = _fitted(PrivateSparseCovariance, cell, units, options)
    answer, found = fitted.components(k, correlation=False), np.zeros((d, k))
    found[[int(name[1:]) for name in answer.features]] = answer.loadings
    return found


def draw(rows: list[dict[str, Any]]) -> Any:
    """Draw errors over the number of records: a panel for each setting, a curve for each method."""
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    n_lines = math.ceil((len(settings) + 1) / _COLUMNS)
    figure = new_figure(13.0, 0.6 + 3.7 * n_lines)
    panels = figure.subplots(n_lines, _COLUMNS, squeeze=False, sharey=True).ravel()
    for axes, setting in zip(panels, settings, strict=False):
        here = [row for row in rows if row["setting"] == setting and row["answered"]]
        sizes = sorted({row["n"] for row in here})
        for method in methods:
            mine = [
                [r["error"] for r in here if (r["method"], r["n"]) == (method, n)] for n in sizes
            ]
            medians = [float(np.median(group)) if group else math.nan for group in mine]
            axes.plot(sizes, medians, label=method, markersize=4, **_look(method))
        axes.set(xscale="log", yscale="log", xlabel="records")
        axes.set_title(
            f"{setting}: sigma {here[0]['sigma']:g}, {here[0]['d']} features", fontsize=10
        )
        log_ticks(axes.xaxis, sizes[:: max(1, len(sizes) // 2)])
        tidy(axes)
    for axes in panels[::_COLUMNS]:
        axes.set_ylabel("error of the space of components")
    for axes in panels[len(settings) :]:
        axes.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower right", frameon=False, fontsize=10)
    return figure


_COLUMNS = 3  # of panels; the last place is that of the legend
_COLOURS = dict(zip(("Analyze", "noisy", "k-DP-PCA", "Separate"), LOOKS[1:], strict=False))


def _look(method: str) -> dict[str, Any]:
    """Blue for hushcov, grey for what is not private; dashed where bounds are told."""
    if method == "not private":
        return {"color": "0.6", "linewidth": 2.5}
    if method.startswith(_OURS):
        line = {_OURS: "-", f"{_OURS}{_EVEN}": ":"}.get(method, "-.")
        return {"color": BLUE, "marker": "o", "linestyle": line, "linewidth": 2.4, "zorder": 3}
    colour, marker = next(look for name, look in _COLOURS.items() if method.startswith(name))
    line = "--" if method.endswith("bounds known") else ":" if method.endswith(_EVEN) else "-"
    return {"color": colour, "marker": marker, "linestyle": line, "linewidth": 1.2}


STUDY = Study(
    name="components",
    title="Principal components of spiked models",
    cells=cells,
    measure=measure,
    draw=draw,
    caption="|U U' - V V'| over its largest value, by the number of records; medians. "
    "Dashed rivals are told bounds on records, others that means are zero; hushcov and Separate "
    "know nothing. In the fixed model units differ by noise of deviation sigma alone.",
)
