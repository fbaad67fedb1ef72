"""The default with nothing known beside the best mechanism in hindsight: `docs/research.md`.

    python benchmarks/studies/unknown_structure.py --cells "50,30000;200,30000" --repetitions 2
    python benchmarks/studies/unknown_structure.py --tables all
    python benchmarks/studies/unknown_structure.py --part sparse --repetitions 5

Columns have scales over two decades and offsets; means, scales and sparsity are found privately,
by all of them. Errors are operator norms in units of the standard deviations, over the norm of the
correlation matrix: of the truth for families, of the sample for tables.

The part `sparse` compares the default with `ScreenedCovariance` on sparse families. Both are told
the true row sparsity, and the default is fitted once more without it. Means and scales are known in
the first half of the table and found privately in the second.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from unknown_tables import TABLES, Missing

from hushcov import (
    GaussianCovariance,
    PrivateSparseCovariance,
    ScreenedCovariance,
    SeparateCovariance,
)
from hushcov.exceptions import HushcovError
from hushcov.metrics import operator_norm
from hushcov.simulate import FAMILIES, gaussian_records, structured_covariance

CELLS = "25,100000;50,30000;200,30000;200,100000"
SPARSE_CELLS = "50,30000;200,30000;200,100000;500,50000"
SPARSE = ("block", "banded", "random", "random-20", "mixed-blocks", "hubs", "identity")
SPARSITIES = (3, 5, 10, 20, 40)
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "on_hopeless": "warn"}
LOSS, WORST = 1.5, 2.2  # over the best: what nine cells of ten and all of them should stay below
NONZERO = 1e-9  # part of the largest entry below which an entry is a rounding error
Matrix = npt.NDArray[np.float64]
Row = dict[str, Any]


def contenders(d: int) -> dict[str, Any]:
    """What is known in hindsight to be best is one of these."""
    common = BUDGET
    found = {
        "gaussian": GaussianCovariance(**common),
        "threshold": GaussianCovariance(threshold="universal", **common),
        "separate": SeparateCovariance(**common),
    }
    told = {f"k={k}": k for k in SPARSITIES if k <= d}
    return found | {name: ScreenedCovariance(row_sparsity=k, **common) for name, k in told.items()}


def relative_error(estimate: Matrix, truth: Matrix, unit: Matrix) -> float:
    """Error in units of the standard deviations, over the norm."""
    units = np.multiply.outer(unit, unit)
    return operator_norm(estimate / units - truth / units) / operator_norm(truth / units)


def fitted(estimator: Any, records: Matrix, truth: Matrix, unit: Matrix) -> float:
    """The error of a fit; infinite where it is refused."""
    try:
        estimator.fit(records)
    except HushcovError:
        return math.inf
    return relative_error(estimator.covariance_, truth, unit)


def compared(name: str, draws: Iterator[tuple[Matrix, Matrix]]) -> Row:
    """The default beside the best on the same records: medians over draws, and what it says."""
    errors: dict[str, list[float]] = {}
    said, seconds = [], []
    for records, truth in draws:
        n, d = records.shape
        unit = np.sqrt(np.diag(truth))
        unit = np.where(unit > 0, unit, 1.0)
        start = time.perf_counter()
        ours = PrivateSparseCovariance(**BUDGET)
        error = fitted(ours, records, truth, unit)
        seconds.append(time.perf_counter() - start)
        errors.setdefault("ours", []).append(error)
        said.append(_said(ours, error))
        for each, estimator in contenders(d).items():
            errors.setdefault(each, []).append(fitted(estimator, records, truth, unit))
    medians = {each: float(np.median(values)) for each, values in errors.items()}
    ours_error = medians.pop("ours")
    best = min(medians, key=lambda each: medians[each])
    return {
        "name": name,
        "d": d,
        "n": n,
        "best": best,
        "best_error": medians[best],
        "error": ours_error,
        "ratio": ours_error / medians[best],
        "others": medians,
        "runs": said,
        "seconds": float(np.median(seconds)),
    }


def _said(estimator: Any, error: float) -> Row:
    """What a release says of itself, and whether its interval has the error."""
    if math.isinf(error):
        return {"error": error, "inside": False, "kind": "refused"}
    structure = estimator.release_.making.structure
    return {
        "error": error,
        "inside": structure.least <= error <= structure.most,
        "kind": structure.kind,
        "rank": structure.rank,
        "why": structure.why,
        "estimate": [structure.error, structure.least, structure.most],
        "kept": structure.kept,
        "threshold": estimator.release_.making.threshold,
        "noise_sd": estimator.release_.noise_sd,
    }


def family_draws(name: str, d: int, n: int, repetitions: int) -> Iterator[tuple[Matrix, Matrix]]:
    """Records of a family, drawn anew for each repetition."""
    for seed in range(repetitions):
        yield family_draw(name, d, n, seed)


def family_draw(name: str, d: int, n: int, seed: int) -> tuple[Matrix, Matrix]:
    """Records of a family with scales over two decades and offsets, and their covariance."""
    correlation = structured_covariance(name, d, random_state=7)
    scale = np.geomspace(1, 100, d)
    offset = 3 * np.random.default_rng(d).standard_normal(d) * scale
    truth = correlation * np.multiply.outer(scale, scale)
    return gaussian_records(correlation, n, random_state=seed) * scale + offset, truth


def table_draws(records: Matrix, repetitions: int) -> Iterator[tuple[Matrix, Matrix]]:
    """The same records every time; the noise is new."""
    truth = np.cov(records, rowvar=False)
    for _ in range(repetitions):
        yield records, truth


def shown(row: Row) -> str:
    """One line of the table."""
    last = row["runs"][-1]
    inside = sum(run["inside"] for run in row["runs"])
    kind = last["kind"] + (f" {last['rank']}" if last.get("rank") else "")
    low, high = last.get("estimate", [math.nan] * 3)[1:]
    return (
        f"{row['name']:15s} {row['d']:5d} {row['n']:8d}  best {row['best']:9s} "
        f"{row['best_error']:.4f}  ours {row['error']:.4f}  ratio {row['ratio']:.2f}  {kind:9s} "
        f"[{low:.3f}, {high:.3f}] inside {inside}/{len(row['runs'])}  {row['seconds']:.1f} s"
    )


def summary(rows: list[Row]) -> str:
    """Geometric mean, share above 1.5 and largest of error over best, and how often inside."""
    ratios = np.array([row["ratio"] for row in rows])
    runs = [run["inside"] for row in rows for run in row["runs"]]
    above, far = np.mean(ratios > LOSS), np.mean(ratios > WORST)
    return (
        f"{len(rows)} cells: geometric mean {np.exp(np.log(ratios).mean()):.3f}, "
        f"above {LOSS}: {above:.2f}, above {WORST}: {far:.2f}, "
        f"largest {ratios.max():.2f}, error inside its interval {np.mean(runs):.2f} of {len(runs)}"
    )


def told(name: str, d: int, n: int, repetitions: int, *, known: bool) -> Row:
    """Mean logarithms of errors of the default, with and without row sparsity, and of screened."""
    errors: dict[str, list[float]] = {"told": [], "untold": [], "screened": []}
    for seed in range(repetitions):
        if known:
            truth = structured_covariance(name, d, random_state=7)
            records = gaussian_records(truth, n, random_state=seed)
        else:
            records, truth = family_draw(name, d, n, seed)
        common = BUDGET | ({"assume_centered": True, "feature_scale": 1.0} if known else {})
        k = int(np.count_nonzero(np.abs(truth) > NONZERO * np.abs(truth).max(), axis=1).max())
        unit = np.sqrt(np.diag(truth))
        estimators = {
            "told": PrivateSparseCovariance(row_sparsity=k, **common),
            "untold": PrivateSparseCovariance(**common),
            "screened": ScreenedCovariance(row_sparsity=k, **common),
        }
        for each, estimator in estimators.items():
            errors[each].append(fitted(estimator, records, truth, unit))
    logs = {each: np.log(values) for each, values in errors.items()}
    found: Row = {"name": name, "d": d, "n": n, "k": k, "known": known, "errors": errors}
    for each in ("told", "untold"):
        found[each] = float(np.exp(np.mean(logs[each] - logs["screened"])))
    return found | {"screened": float(np.exp(logs["screened"].mean()))}


def print_sparse(asked: argparse.Namespace) -> list[Row]:
    """Print and return the errors of the default over those of screened, on sparse families."""
    rows = []
    names = SPARSE if asked.families == list(FAMILIES) else asked.families
    for known in (True, False):
        print("means and scales are", "known" if known else "found privately", flush=True)
        for cell in (asked.cells or SPARSE_CELLS).split(";"):
            d, n = map(int, cell.split(","))
            for name in names:
                row = told(name, d, n, asked.repetitions, known=known)
                rows.append(row)
                print(
                    f"{name:15s} {d:5d} {n:8d}  k {row['k']:3d}  screened {row['screened']:.4f}  "
                    f"default over it: told k {row['told']:.2f}, untold {row['untold']:.2f}",
                    flush=True,
                )
        for each in ("told", "untold"):
            ratios = np.array([row[each] for row in rows if row["known"] == known])
            print(
                f"{each}: geometric mean {np.exp(np.log(ratios).mean()):.3f}, "
                f"largest {ratios.max():.2f}, above 1.1: {np.mean(ratios > 1.1):.2f}"
            )
    return rows


def rows_of(asked: argparse.Namespace) -> Iterator[Row]:
    """Everything that was asked for."""
    for name in asked.tables:
        try:
            records = TABLES[name]()
        except Missing as missing:
            print(f"{name}: not run, {missing}", flush=True)
            continue
        yield compared(name, table_draws(records, asked.repetitions))
    if asked.tables:
        return
    for cell in (asked.cells or CELLS).split(";"):
        d, n = map(int, cell.split(","))
        for name in asked.families:
            yield compared(name, family_draws(name, d, n, asked.repetitions))


def _names(known: Any) -> Any:
    def parsed(text: str) -> list[str]:
        names = list(known) if text == "all" else text.split(",")
        if not set(names) <= set(known):
            raise argparse.ArgumentTypeError(f"some of {', '.join(known)}, with commas, or all")
        return names

    return parsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("all", "sparse"), default="all")
    parser.add_argument("--cells", help="d,n;d,n;...")
    parser.add_argument("--families", default="all", type=_names(FAMILIES))
    parser.add_argument("--tables", default=[], type=_names(TABLES), help="instead of families")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where all numbers are written")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # simulated or public: nothing to protect, nothing to refuse
    rows = []
    if asked.part == "sparse":
        rows = print_sparse(asked)
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1) + "\n")
        return
    for row in rows_of(asked):
        rows.append(row)
        print(shown(row), flush=True)
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    if rows:
        print(summary(rows))


if __name__ == "__main__":
    main()
