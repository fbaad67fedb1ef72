"""What it costs not to know means, scales and bounds, and what units of the columns change.

    python benchmarks/studies/preparation.py ../shared/data --seeds 5
    python benchmarks/studies/preparation.py ../shared/data --seeds 5 --tables held-out

The error is the operator norm of the error of the correlation matrix over that of the correlation
matrix. Every table is fitted as it is ("raw"), and standardised: with nothing known, with the mean
known, with mean and scale known, with the scale alone, and within the bounds of its columns.
FOLDER holds .npz files with X and y. The other tables are simulated, or come with scikit-learn,
statsmodels and skfolio. Those of `HELD_OUT` were not looked at while rules were chosen.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import hushcov
from hushcov_lab.rivals.tables import SIMULATED, load_table, read_npz

HELD_OUT = ("elevators", "randhie", "factors", "digits", "visits")
_FEWEST_OTHERS = 5  # records that differ from the most frequent value of a column
_SURVEY_RECORDS = 20_000
#: Options of a fit of the standardised table; every ratio is over the first.
WAYS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "mean": {"assume_centered": True},
    "mean, scale": {"assume_centered": True, "feature_scale": 1.0},
    "scale": {"feature_scale": 1.0},
    "bounds": {},
}
RAW = "raw"


def survey(seed: int, flags: int, rarest: float) -> np.ndarray:
    """Draw answers of three factors: flags from `rarest` to one half, counts and amounts."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((_SURVEY_RECORDS, 3))
    loads = rng.standard_normal((3, flags + 10)) * 0.5
    latent = factors @ loads + rng.standard_normal((_SURVEY_RECORDS, flags + 10))
    latent /= np.sqrt((loads**2).sum(axis=0) + 1)
    order = np.argsort(np.argsort(latent[:, :flags], axis=0), axis=0)
    shares = np.geomspace(rarest, 0.5, flags)
    yes = order >= (_SURVEY_RECORDS * (1 - shares)).astype(int)
    counts = rng.poisson(np.exp(0.5 * latent[:, flags : flags + 5]))
    amounts = np.exp(0.6 * latent[:, flags + 5 :] + 3).round(2)
    return np.column_stack([yes, counts, amounts]).astype(float)


def _statsmodels(name: str) -> np.ndarray:
    import statsmodels.datasets

    frame = getattr(statsmodels.datasets, name).load_pandas().data
    return np.asarray(frame.to_numpy(float))


def _sklearn(name: str) -> np.ndarray:
    import sklearn.datasets

    return np.column_stack(getattr(sklearn.datasets, f"load_{name}")(return_X_y=True))


def _returns(name: str) -> np.ndarray:
    import skfolio.datasets

    prices = getattr(skfolio.datasets, f"load_{name}_dataset")()
    return np.asarray(prices.pct_change().dropna().to_numpy(float))


def _simulated(name: str) -> np.ndarray:
    table = load_table(name, None, 0)
    return np.column_stack([table.X, table.y])


MADE: dict[str, Callable[[], np.ndarray]] = {
    **{name: lambda name=name: _simulated(name) for name in SIMULATED},
    "survey": lambda: survey(1, 30, 0.01),
    "census": lambda: survey(2, 80, 0.005),
    "visits": lambda: survey(3, 50, 0.002),
    **{name: lambda name=name: _statsmodels(name) for name in ("randhie", "fair", "anes96")},
    **{name: lambda name=name: _sklearn(name) for name in ("digits", "breast_cancer", "wine")},
    **{name: lambda name=name: _returns(name) for name in ("sp500", "factors")},
}


def tables(folder: Path | None) -> dict[str, Callable[[], np.ndarray]]:
    """Return what makes every table, by name."""
    files = [] if folder is None else sorted(folder.glob("*.npz"))
    return MADE | {file.stem: lambda file=file: np.column_stack(read_npz(file)) for file in files}


def varying(rows: np.ndarray) -> np.ndarray:
    """Leave out columns that hardly vary."""
    common = [np.unique(column, return_counts=True)[1].max() for column in rows.T]
    return np.asarray(rows[:, np.array(common) <= len(rows) - _FEWEST_OTHERS])


def fits(rows: np.ndarray) -> Iterable[tuple[str, np.ndarray, dict[str, Any]]]:
    """Return every way to fit a table: its name, the records and the options."""
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    for name, known in WAYS.items():
        bounds = np.column_stack([z.min(axis=0), z.max(axis=0)])
        yield name, z, {"bounds": bounds} if name == "bounds" else known
    yield RAW, rows, {}


def error_of(estimator: Any, rows: np.ndarray) -> float:
    """Return the relative error of the correlations of an estimator that was fitted to `rows`."""
    scale, truth = rows.std(axis=0), np.corrcoef(rows, rowvar=False)
    covariance = estimator.covariance_
    found = np.asarray(covariance.todense() if hasattr(covariance, "todense") else covariance)
    wrong = found / np.multiply.outer(scale, scale) - truth
    return float(np.linalg.norm(wrong, 2) / np.linalg.norm(truth, 2))


def measure(rows: np.ndarray, seeds: int) -> tuple[dict[str, float], dict[str, str]]:
    """Return the median error of every way to fit a table, and what was released."""
    errors, said = {}, {}
    for way, records, options in fits(rows):
        own, kinds = [], []
        for seed in range(seeds):
            estimator = hushcov.PrivateSparseCovariance(
                epsilon=1.0,
                delta=1e-6,
                on_hopeless="warn",
                on_large_delta="warn",
                random_state=seed,
                **options,
            ).fit(records)
            scale = estimator.feature_scale_ / records.std(axis=0)
            structure = estimator.release_.making.structure
            kinds.append(
                f"{structure.kind if structure else '?'} scales {(scale == 0).sum()} lost, "
                f"{scale[scale > 0].min(initial=9):.2f} to {scale.max():.2f}"
            )
            own.append(error_of(estimator, records))
        errors[way] = float(np.median(own))
        said[way] = kinds[0]
    return errors, said


def main() -> None:
    """Print errors, ratios, and their geometric means and extremes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="*", default=[], help="names, or held-out, or all")
    parser.add_argument("--details", action="store_true", help="print what was found of scales")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # public tables: nothing to protect, nothing to refuse
    known = tables(asked.folder)
    names = [name for name in known if name not in HELD_OUT]
    if asked.tables == ["held-out"]:
        names = [name for name in known if name in HELD_OUT]
    elif asked.tables:
        names = list(known) if asked.tables == ["all"] else asked.tables
    ways = [*WAYS, RAW]
    print(f"| table | rows x columns | {' | '.join(ways)} |\n|{'---|' * (2 + len(ways))}")
    ratios: dict[str, list[float]] = {way: [] for way in ways[1:]}
    for name in track(names, "tables", transient=True):
        rows = varying(known[name]())
        errors, said = measure(rows, asked.seeds)
        over = {way: errors[way] / errors["nothing"] for way in ratios}
        cells = [f"{errors['nothing']:.3f}"]
        cells += [f"{errors[way]:.3f} ({over[way]:.2f})" for way in ratios]
        print(f"| {name} | {len(rows):,} x {rows.shape[1]} | {' | '.join(cells)} |", flush=True)
        if asked.details:
            print("\n".join(f"    {way}: {words}" for way, words in said.items()))
        for way, ratio in over.items():
            ratios[way].append(ratio)
    for way, own in ratios.items():
        middle = math.exp(np.mean(np.log(own)))
        print(f"{way} over nothing: {middle:.2f}, from {min(own):.2f} to {max(own):.2f}")


if __name__ == "__main__":
    main()
