"""Private least squares: one release of hushcov beside published rivals, on public tables.

Everybody protects one record that is added or removed, with delta = 1/n^2, and learns from the same
80 % of a table. Noise is seeded: nothing here is a private release.
"""

from __future__ import annotations

import inspect
import itertools
import math
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov._arrays import FloatArray
from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import HushcovError
from hushcov.kernel.accounting import gaussian_epsilon
from hushcov.options import FOR_BOTH, FOR_RELATIONS
from hushcov.report.style import BLUE, LOOKS, log_ticks, new_figure, tidy
from hushcov_lab.rivals.bounds import ColumnBounds
from hushcov_lab.rivals.regression import RIVALS, Coefficients, RivalSilent
from hushcov_lab.rivals.study import Study, Summary
from hushcov_lab.rivals.tables import RegressionTable, load_table, table_names

_EPSILONS = {"quick": (0.3, 1.0, 3.0), "full": (0.1, 0.3, 1.0, 3.0, 10.0)}
_SPLITS = {"quick": 1, "full": 5}
_TRAINED = 0.8
_QUANTILE = 1.96
_CONSTANT_BELOW = 1e-12  # of a deviation, over the largest value: the column is constant
LEAST_SQUARES, OURS, GIVEN = "least squares", "hushcov", ", bounds given"
# Releases of hushcov: of every column with either purpose, and for a target that is declared.
OURS_FOR_RELATIONS, OURS_FOR_TARGET = "hushcov, relations", "hushcov, target declared"
_SPLITTER = "adassp"  # the rival whose budget is split over all targets
_LOWEST = -0.1  # of R^2, in a panel
_COLUMNS = 4  # of panels
_OUR_MARKERS = {OURS: "o", OURS_FOR_RELATIONS: "s", OURS_FOR_TARGET: "*"}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Records to learn from, records to test on, and public bounds: X, and last y."""

    train: FloatArray
    test: FloatArray
    bounds: ColumnBounds

    @classmethod
    def of(cls, table: RegressionTable, seed: int) -> Self:
        """Divide the records at random; ranges of all columns count as public."""
        records = np.column_stack([table.X, table.y])
        order = np.random.default_rng([seed, len(records)]).permutation(len(records))
        at = int(_TRAINED * len(records))
        bounds = ColumnBounds(records.min(axis=0), records.max(axis=0))
        return cls(records[order[:at]], records[order[at:]], bounds)

    def towards(self, target: int) -> tuple[FloatArray, FloatArray, ColumnBounds]:
        """Return the other columns, the target, and the bounds in that order."""
        order = np.r_[np.delete(np.arange(self.train.shape[1]), target), target]
        bounds = ColumnBounds(self.bounds.lower[order], self.bounds.upper[order])
        return self.train[:, order[:-1]], self.train[:, target], bounds

    def r_squared(self, target: int, found: Coefficients) -> float:
        """Return the share of the variance of the target explained in records to test on."""
        y = self.test[:, target]
        error = y - found.intercept - np.delete(self.test, target, axis=1) @ found.coefficients
        return 1 - float(error @ error) / float(np.square(y - y.mean()).sum() or math.nan)


def cells(preset: str, folder: Path | None) -> list[dict[str, Any]]:
    """Return the cells: tables, epsilons and splits."""
    where = None if folder is None else str(folder)
    return [
        {"table": name, "epsilon": epsilon, "seed": seed, "folder": where}
        for name in table_names(folder)
        for seed in range(_SPLITS[preset])
        for epsilon in _EPSILONS[preset]
    ]


def measure(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Fit every method to one split of a table."""
    folder, seed = cell["folder"], cell["seed"]
    table = load_table(cell["table"], None if folder is None else Path(folder), seed)
    split = HeldOut.of(table, seed)
    n, d = split.train.shape
    X, y, _ = split.towards(d - 1)
    known = {"n": n, "n_columns": d - 1, "delta": float(n) ** -2}
    exact = least_squares(X, y)
    rows = []
    for name, fit in _methods(split, {"epsilon": cell["epsilon"], "delta": known["delta"]}, seed):
        row = known | {"method": name, "answered": False}
        started = time.perf_counter()
        try:
            found, every = fit()
        except (HushcovError, RivalSilent) as refused:
            rows.append(row | {"refusal": str(refused)[:200]})
            continue
        row |= {"answered": True, "seconds": time.perf_counter() - started}
        row |= {"r2": split.r_squared(d - 1, found)}
        row |= {"all_targets": None if every is None else _mean_r2(split, every)}
        rows.append(row | compare(found, exact, X.std(axis=0), table.population))
    return rows


# Coefficients of the table's target, and how to have those of any other column.
_Fit = Callable[[], tuple[Coefficients, Callable[[int], Coefficients] | None]]


def _methods(split: HeldOut, spent: dict[str, Any], seed: int) -> Iterator[tuple[str, _Fit]]:
    X, y, bounds = split.towards(split.train.shape[1] - 1)

    def exact() -> tuple[Coefficients, Callable[[int], Coefficients]]:
        return least_squares(X, y), lambda target: least_squares(*split.towards(target)[:2])

    yield LEAST_SQUARES, exact
    for given in (None, bounds):
        for name, options in our_releases(split.train.shape[1] - 1).items():
            release = partial(_release, split.train, given, spent | options, seed)
            yield name + (GIVEN if given else ""), release
    for key, rival in RIVALS.items():
        for given in (None, bounds) if rival.needs_bounds else (None,):
            rng = np.random.default_rng([seed, zlib.crc32(key.encode())])
            every = partial(_one_of_all, split, spent, rng) if given and key == _SPLITTER else None
            fit = partial(rival.fit, X, y, **spent, bounds=given, rng=rng)
            yield rival.title + (GIVEN if given else ""), partial(_with, fit, every)


def our_releases(target: int) -> dict[str, dict[str, Any]]:
    """Return the options of each release of hushcov; one declares a target, if that can be done."""
    releases: dict[str, dict[str, Any]] = {
        OURS: {"purpose": FOR_BOTH},
        OURS_FOR_RELATIONS: {"purpose": FOR_RELATIONS},
    }
    if "target" in inspect.signature(PrivateSparseCovariance).parameters:
        releases[OURS_FOR_TARGET] = {"target": target}
    return releases


def _with(
    fit: Callable[[], Coefficients], every: Callable[[int], Coefficients] | None
) -> tuple[Coefficients, Callable[[int], Coefficients] | None]:
    return fit(), every


def _release(
    records: FloatArray, bounds: ColumnBounds | None, options: dict[str, Any], seed: int
) -> tuple[Coefficients, Callable[[int], Coefficients] | None]:
    """Release once; every target is an answer of that release, unless one was declared."""
    known = None if bounds is None else np.column_stack([bounds.lower, bounds.upper])
    est = PrivateSparseCovariance(
        **options, bounds=known, neighbours="add-remove", random_state=seed, on_hopeless="warn"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of seeded noise, and of sizes that are too small
        est.fit(records)

    def answer(target: int) -> Coefficients:
        found = est.regression(target, on="all")
        places = np.array([int(name[1:]) for name in found.features], dtype=int)
        at = places - (places > target)
        columns = np.full((3, records.shape[1] - 1), [[0.0], [np.nan], [np.nan]])
        columns[:, at] = found.coefficients, found.lower, found.upper
        return Coefficients(found.intercept or 0.0, *columns)

    return answer(records.shape[1] - 1), None if "target" in options else answer


def _one_of_all(
    split: HeldOut, spent: dict[str, Any], rng: np.random.Generator, target: int
) -> Coefficients:
    """Fit the rival to one of all targets, with its part of the budget.

    It is Gaussian where bounds are given, so that T of them at mu/sqrt(T) are one at mu.
    """
    mu = calibrate_gaussian(**spent) / math.sqrt(split.train.shape[1])
    part = gaussian_epsilon(mu, spent["delta"])
    X, y, bounds = split.towards(target)
    return RIVALS[_SPLITTER].fit(X, y, epsilon=part, delta=spent["delta"], bounds=bounds, rng=rng)


def _mean_r2(split: HeldOut, answer: Callable[[int], Coefficients]) -> float:
    """Return the mean over all targets; a refusal, or worse than the mean of the target, is 0."""
    scores = []
    for target in range(split.train.shape[1]):
        try:
            scores.append(max(split.r_squared(target, answer(target)), 0.0))
        except (HushcovError, RivalSilent):
            scores.append(0.0)
    return float(np.nanmean(scores))


def least_squares(X: FloatArray, y: FloatArray) -> Coefficients:
    """Return coefficients with intervals of level 0.95, of equal variances."""
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > _CONSTANT_BELOW * np.abs(X).max(axis=0), scale, np.inf)
    Z, mean = (X - centre) / scale, float(y.mean())
    inverse = np.linalg.pinv(Z.T @ Z, hermitian=True)
    b = inverse @ (Z.T @ (y - mean))
    error = y - mean - Z @ b
    variance = float(error @ error) / max(len(y) - X.shape[1] - 1, 1)
    half = _QUANTILE * np.sqrt(variance * np.diag(inverse)) / scale
    b = b / scale
    return Coefficients(mean - float(centre @ b), b, b - half, b + half)


def compare(
    found: Coefficients, exact: Coefficients, scale: FloatArray, population: FloatArray
) -> dict[str, float | None]:
    """Return the error of coefficients, and how wide their intervals are and what they cover.

    The error is in units of the columns' deviations, over the length of least squares. An interval
    is held against the regression of the population on the columns that the answer has one for.
    """
    error = np.linalg.norm((found.coefficients - exact.coefficients) * scale)
    scores: dict[str, float | None] = {
        "coefficient_error": float(error / np.linalg.norm(exact.coefficients * scale))
    }
    if found.lower is None or found.upper is None or exact.lower is None or exact.upper is None:
        return scores | {"covered": None, "width": None, "finite": None}
    used = np.flatnonzero(~np.isnan(found.lower))
    deviation = np.sqrt(np.diag(population))
    R = population / np.multiply.outer(deviation, deviation)
    truth = np.linalg.lstsq(R[np.ix_(used, used)], R[used, -1], rcond=1e-12)[0]
    truth = truth * deviation[-1] / deviation[used]
    low, high = found.lower[used], found.upper[used]
    finite = np.isfinite(high - low)
    inside = ((low <= truth) & (truth <= high))[finite]
    width = np.full(len(scale), np.inf)
    width[used] = (high - low) / (exact.upper - exact.lower)[used]
    return scores | {
        "covered": float(inside.mean()) if len(inside) else None,
        "width": float(np.median(width)),
        "finite": float(finite.sum() / len(scale)),
    }


def draw(rows: list[dict[str, Any]]) -> Any:
    """Draw test R^2 over epsilon: a panel for each table, a curve for each method."""
    tables = list(dict.fromkeys(row["table"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    n_lines = math.ceil(len(tables) / _COLUMNS)
    figure = new_figure(14.5, 1.6 + 2.2 * n_lines)
    panels = figure.subplots(n_lines, _COLUMNS, squeeze=False).ravel()
    looks = _looks(methods)
    for axes, table in zip(panels, tables, strict=False):
        here = [row for row in rows if row["table"] == table]
        epsilons = sorted({row["epsilon"] for row in here})
        for method in methods:
            found = (
                [
                    r["r2"]
                    for r in here
                    if (r["method"], r["epsilon"]) == (method, epsilon) and r["answered"]
                ]
                for epsilon in epsilons
            )
            values = [np.median(each) if each else math.nan for each in found]
            axes.plot(epsilons, np.maximum(values, _LOWEST), **looks[method], label=method)
        low, high = axes.get_ylim()
        high = max(high, 0.1)
        axes.set(xscale="log", ylim=(min(low, -0.05 * high), 1.05 * high))
        axes.set_title(f"{table} ({here[0]['n']:,} x {here[0]['n_columns']})", fontsize=10)
        log_ticks(axes.xaxis, epsilons)
        tidy(axes)
    for axes in panels[len(tables) :]:
        axes.set_visible(False)
    for axes in panels[::_COLUMNS]:
        axes.set_ylabel("test R^2")
    for axes in panels[max(len(tables) - _COLUMNS, 0) : len(tables)]:
        axes.set_xlabel("epsilon")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=10)
    return figure


def _looks(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Grey for least squares, bold for hushcov; bounds that are given are dashed."""
    rivals = list(dict.fromkeys(name.removesuffix(GIVEN) for name in methods))
    rivals = [name for name in rivals if name not in (LEAST_SQUARES, *_OUR_MARKERS)]
    looks: dict[str, dict[str, Any]] = {LEAST_SQUARES: {"color": "0.6", "linewidth": 3.0}}
    for name, marker in _OUR_MARKERS.items():
        looks[name] = {"color": BLUE, "marker": marker, "linewidth": 2.8, "markersize": 5}
        looks[name]["zorder"] = 3
    for name, (colour, marker) in zip(rivals, itertools.cycle(LOOKS[1:]), strict=False):
        looks[name] = {"color": colour, "marker": marker, "linewidth": 1.2, "markersize": 4}
    given = {"linestyle": "--", "markerfacecolor": "white"}
    return looks | {name + GIVEN: look | given for name, look in looks.items()}


STUDY = Study(
    name="regression",
    title="Private least squares: one release that answers every target, beside rivals for one",
    cells=cells,
    measure=measure,
    draw=draw,
    caption="What to see: the share of the variance explained in records that nobody learnt from, "
    "medians over splits; the grey line is least squares without privacy, and 0 is the mean of the "
    "target. Dashed curves are told the range of every column. A curve is cut at "
    f"{_LOWEST}, and has a gap where the method does not answer. One record is added or removed, "
    "delta = 1/n^2. In brackets: records and columns.",
    summary=Summary("table", "r2", {"epsilon": 1.0}),
)
