"""Tables of docs/rivals.md about regressions, from the rows of a study that was run.

    hushcov bench regression --preset full --tables FOLDER -o RESULTS
    python benchmarks/studies/regression_table.py RESULTS/regression.parquet
    python benchmarks/studies/regression_table.py losses TABLE,... --tables FOLDER

The first two print medians over splits at epsilon 1: test R^2 with bounds released / given, how
often hushcov is at least as good as every rival (R^2 to three decimals, as in the table), what
share of the R^2 of least squares each method keeps, how often each answers, means over all targets,
and intervals.

`losses` says why hushcov is behind on a table, with nothing known and with bounds: how many columns
its regression uses; test R^2 as it is; test R^2 where columns of the tested records are clipped at
some scales about their means; of the last look alone, with a ridge of 0.03; and of least squares of
records shortened as in that look, without noise. None of it is private.
"""

from __future__ import annotations

import argparse
import math
import statistics
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov._arrays import FloatArray
from hushcov_lab.rivals.coefficients import Coefficients
from hushcov_lab.rivals.regression_study import (
    GIVEN,
    LEAST_SQUARES,
    OURS,
    HeldOut,
    least_squares,
    our_releases,
)
from hushcov_lab.rivals.tables import load_table

_LEAST = 0.02  # R^2 of least squares for a table to count in shares
_SCALES = (4.0, 8.0, 16.0)
_RIDGE = 0.03
_SPLITS = 5

Medians = dict[str, dict[str, float]]


def medians(rows: list[dict[str, Any]], metric: str, epsilon: float = 1.0) -> Medians:
    """Return the median of a metric for each table and method that has one."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["epsilon"] == epsilon and row["answered"] and row.get(metric) is not None:
            found[row["table"]][row["method"]].append(row[metric])
    return {
        table: {name: statistics.median(values) for name, values in each.items()}
        for table, each in found.items()
    }


def written(value: float | None) -> str:
    if value is None:
        return "-"
    return "< -1" if value < -1 else f"{value:.3f}".replace("0.", ".", 1)


def print_methods(rows: list[dict[str, Any]]) -> None:
    r2 = medians(rows, "r2")
    methods = list(dict.fromkeys(row["method"].removesuffix(GIVEN) for row in rows))
    told = {row["method"] for row in rows}
    print("| table (records, columns) | " + " | ".join(methods) + " |")
    print("|---" * (len(methods) + 1) + "|")
    for table, found in r2.items():
        first = next(row for row in rows if row["table"] == table)
        cells = [
            written(found.get(name))
            + (f" / {written(found.get(name + GIVEN))}" if name + GIVEN in told else "")
            for name in methods
        ]
        head = f"{table} ({first['n']:,}, {first['n_columns']})"
        print(f"| {head} | " + " | ".join(cells) + " |")
    ours = [name for name in methods if name.startswith(OURS)]
    rivals = [name for name in methods if name not in (LEAST_SQUARES, *ours)]
    for ending in ("", GIVEN):
        for name in ours:
            best = [
                table
                for table, found in r2.items()
                if round(found.get(name + ending, -np.inf), 3)
                >= max(round(found.get(each + ending, -np.inf), 3) for each in rivals)
            ]
            print(f"{name}{ending}: at least every rival on {len(best)} of {len(r2)}")
        for name in (*ours, *rivals):
            kept = [
                found.get(name + ending, 0.0) / found[LEAST_SQUARES]
                for found in r2.values()
                if found[LEAST_SQUARES] > _LEAST
            ]
            if name + ending in told:
                print(f"{name}{ending}: keeps {statistics.median(kept):.3f}")


def print_answers(rows: list[dict[str, Any]]) -> None:
    shares = defaultdict(list)
    for row in rows:
        shares[row["method"], row["epsilon"]].append(row["answered"])
    for (name, epsilon), answered in shares.items():
        if not all(answered):
            print(f"{name} answers in {np.mean(answered):.2f} of the cells at epsilon {epsilon}")


def print_targets(rows: list[dict[str, Any]]) -> None:
    for table, found in medians(rows, "all_targets").items():
        print(f"{table}: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()))


def print_intervals(rows: list[dict[str, Any]]) -> None:
    covered, width = defaultdict(lambda: defaultdict(list)), medians(rows, "width")
    for row in rows:
        if row["epsilon"] == 1.0 and row.get("covered") is not None:
            covered[row["table"]][row["method"]].append(row["covered"])
    names = [name for name in dict.fromkeys(row["method"] for row in rows) if name != LEAST_SQUARES]
    for table, found in covered.items():
        cells = (
            f"{name} covered {np.mean(found[name]):.2f} width {width[table][name]:.2g}"
            for name in names
            if name in found
        )
        print(f"{table}: " + "; ".join(cells))


def print_losses(table: str, folder: Path | None) -> None:
    target = load_table(table, folder, 0).X.shape[1]
    for name, chosen in our_releases(target).items():
        for given in (False, True):
            found = [explain(table, folder, seed, chosen, given) for seed in range(_SPLITS)]
            values = np.nanmedian(np.array(found), axis=0)
            cells = [f"{values[0]:.3f}", f"{values[1]:.0f} of {values[2]:.0f}"]
            cells += [f"{value:.3f}" for value in values[3:]]
            how = "bounds given" if given else "nothing known"
            print(f"| {table} | {name} | {how} | " + " | ".join(cells) + " |", flush=True)


def explain(
    name: str, folder: Path | None, seed: int, chosen: dict[str, Any], given: bool
) -> tuple[float, ...]:
    """Return R^2 of least squares, columns used and there are, and R^2 in the other ways."""
    split = HeldOut.of(load_table(name, folder, seed), seed)
    n, target = len(split.train), split.train.shape[1] - 1
    known = np.column_stack([split.bounds.lower, split.bounds.upper])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = PrivateSparseCovariance(
            epsilon=1.0,
            delta=float(n) ** -2,
            bounds=known if given else None,
            neighbours="add-remove",
            random_state=seed,
            on_hopeless="warn",
            **chosen,
        ).fit(split.train)
        answer = est.regression(target, on="all")
    release = est._released()
    scale, centre = release.feature_scale, est.location_
    slopes = np.zeros(target)
    slopes[[int(each[1:]) for each in answer.features]] = answer.coefficients
    found = Coefficients(answer.intercept or 0.0, slopes)
    exact = split.r_squared(target, least_squares(*split.towards(target)[:2]))
    scores = [split.r_squared(target, found)]
    for reach in _SCALES:
        clipped = np.clip(split.test, centre - reach * scale, centre + reach * scale)
        clipped[:, target] = split.test[:, target]
        scores.append(HeldOut(split.train, clipped, split.bounds).r_squared(target, found))
    look = release.making.look
    if look is None:
        return exact, float(np.count_nonzero(slopes)), float(target), *scores, np.nan, np.nan
    alone = split.r_squared(target, from_look(look, scale, centre))
    short = split.r_squared(target, shortened(split.train, look, scale, centre))
    return exact, float(np.count_nonzero(slopes)), float(target), *scores, alone, short


def shortened(
    records: FloatArray, look: Any, scale: FloatArray, centre: FloatArray
) -> Coefficients:
    """Return least squares of records that are shortened about as in the look, without noise.

    The bound is the root of the size of the look, around which it chooses its own.
    """
    places, target = look.features, len(scale) - 1
    slopes = np.zeros(target)
    if places[-1] != target:
        return Coefficients(np.nan, slopes)
    rows = (records[:, places] - centre[places]) / scale[places]
    if len(look.basis) > len(places):
        rows = np.column_stack([rows, np.ones(len(rows))])
    norms = np.linalg.norm(rows @ look.basis, axis=1)
    rows *= np.minimum(1.0, math.sqrt(len(look.basis)) / norms)[:, None]
    at = len(places) - 1
    found = np.linalg.lstsq(np.delete(rows, at, axis=1), rows[:, at], rcond=None)[0]
    slopes[places[:-1]] = found[:at] * scale[target] / scale[places[:-1]]
    level = found[at:].sum() * scale[target]  # of the column of ones, where there is one
    return Coefficients(float(centre[target] + level - slopes @ centre[:-1]), slopes)


def from_look(look: Any, scale: FloatArray, centre: FloatArray) -> Coefficients:
    """Return coefficients of the last column from a look alone; NaN where it lacks the target."""
    moments, target = look.moments, len(scale) - 1
    slopes = np.zeros(target)
    if moments.features[-1] != target:
        return Coefficients(np.nan, slopes)
    on = moments.features[:-1]
    found = np.linalg.solve(
        moments.steady[:-1, :-1] + _RIDGE * np.eye(len(on)), moments.steady[:-1, -1]
    )
    slopes[on] = found * scale[target] / scale[on]
    means = centre.copy()
    means[moments.features] += moments.means * scale[moments.features]
    return Coefficients(float(means[target] - slopes @ means[:-1]), slopes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", help="rows of a study, or 'losses'")
    parser.add_argument("names", nargs="?", help="tables, with commas")
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    if options.what == "losses":
        clipped = " | ".join(f"clipped at {reach:g}" for reach in _SCALES)
        print(f"| table | release | told | exact | columns | R^2 | {clipped} | look | no noise |")
        print("|---" * (8 + len(_SCALES)) + "|")
        for name in options.names.split(","):
            print_losses(name, options.tables)
        return
    from pyarrow.parquet import read_table

    rows = read_table(options.what).to_pylist()
    for step in (print_methods, print_answers, print_targets, print_intervals):
        step(rows)


if __name__ == "__main__":
    main()
