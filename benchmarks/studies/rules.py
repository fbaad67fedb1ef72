"""Errors of the adaptive mechanism without each of its rules: `hushcov.fit.adaptive.rules`.

    python benchmarks/studies/rules.py
    python benchmarks/studies/rules.py --cells "50,10000" --families block,weak-factor --seeds 5

Every rule is a switch of `AdaptiveRules`. For each family and size the default is fitted with all
rules and without each of them, with the same records and the same seeds of the noise. The table has
the geometric mean of the error without a rule over the error with it, and its standard error over
cells; a rule whose ratio is within two standard errors of 1 does not earn its place. Columns have
scales over two decades and offsets. Errors are operator norms in units of the standard deviations.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import warnings
from collections.abc import Iterator
from unittest import mock

import numpy as np
import numpy.typing as npt

from hushcov import PrivateSparseCovariance
from hushcov.fit.adaptive import plan
from hushcov.fit.adaptive.pairs import AdaptiveParameters
from hushcov.fit.adaptive.rules import AdaptiveRules
from hushcov.inputs import ReleaseInputs
from hushcov.metrics import operator_norm
from hushcov.simulate import FAMILIES, gaussian_records, structured_covariance

CELLS = "25,100000;50,30000;200,30000;200,100000"
SWITCHES = tuple(each.name for each in dataclasses.fields(AdaptiveRules) if each.type == "bool")
Matrix = npt.NDArray[np.float64]


def error(rules: AdaptiveRules, X: Matrix, truth: Matrix, seed: int) -> float:
    """Fit the default by these rules, and return its error over the norm of the truth."""

    def parameters(inputs: ReleaseInputs) -> AdaptiveParameters:
        return AdaptiveParameters(inputs, rules)

    estimator = PrivateSparseCovariance(
        epsilon=1.0, delta=1e-6, on_hopeless="warn", random_state=seed
    )
    with warnings.catch_warnings(), mock.patch.object(plan, "AdaptiveParameters", parameters):
        warnings.simplefilter("ignore")
        estimate = estimator.fit(X).covariance_
    deviation = np.sqrt(truth.diagonal())
    units = np.multiply.outer(deviation, deviation)
    return operator_norm((estimate - truth) / units) / operator_norm(truth / units)


def ratios(
    families: list[str], cells: list[tuple[int, int]], seeds: int
) -> Iterator[tuple[str, str, list[float]]]:
    """Yield rule, cell, and the logarithms of the ratios of errors without and with it."""
    for family in families:
        for d, n in cells:
            found: dict[str, list[float]] = {name: [] for name in SWITCHES}
            for seed in range(seeds):
                truth = structured_covariance(family, d, random_state=seed)
                scale = np.geomspace(0.1, 10, d)
                truth = truth * np.multiply.outer(scale, scale)
                X = gaussian_records(truth, n, random_state=10_000 + seed) + 5 * scale
                full = error(AdaptiveRules(), X, truth, seed)
                for name in SWITCHES:
                    without = dataclasses.replace(AdaptiveRules(), **{name: False})
                    found[name].append(math.log(error(without, X, truth, seed) / full))
            for name, logs in found.items():
                yield name, f"{family}, d = {d}, n = {n:,}", logs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--cells", default=CELLS)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    cells = [tuple(map(int, each.split(","))) for each in arguments.cells.split(";")]
    logs: dict[str, list[float]] = {name: [] for name in SWITCHES}
    for name, cell, each in ratios(arguments.families.split(","), cells, arguments.seeds):
        logs[name].append(float(np.mean(each)))
        print(f"{cell}: without {name} {math.exp(logs[name][-1]):.3f}", flush=True)
    print("| rule | error without it over error with it | standard error |\n|---|---|---|")
    for name, each in logs.items():
        spread = np.std(each, ddof=1) / math.sqrt(len(each)) if len(each) > 1 else math.nan
        print(f"| `{name}` | {math.exp(np.mean(each)):.3f} | {spread:.3f} |")


if __name__ == "__main__":
    main()
