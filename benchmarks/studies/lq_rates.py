"""Rates of the adaptive release over l_q balls: `docs/research.md`.

    python benchmarks/studies/lq_rates.py

The decisions are those of `release_adaptive` itself. Three things are emulated so that records need
not be drawn: sums of records are Wishart, the scores of pairs have the mean and deviation of signs,
and noise has the size that the mechanism gives to records of typical norm. "Oracle" is the best in
hindsight of selections of any size at the same noise, and of the whole matrix with any threshold.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import Budget, calibrate_gaussian
from hushcov.kernel.noise import Entropy
from hushcov.mechanisms.adaptive.mechanism import Readers, release_adaptive
from hushcov.mechanisms.adaptive.pairs import (
    DROPPED,
    FIRST_VALUES,
    PRODUCT_NORMS,
    AdaptiveParameters,
    PairValues,
    value_noise,
)
from hushcov.mechanisms.screened.values import DIAGONAL_WEIGHT, PAIR_WEIGHT, SignScreen
from hushcov.postprocess import detection_deviation
from hushcov.release.estimate import estimate
from hushcov.simulate import wishart_moments
from hushcov.steps import Prepared
from hushcov.steps.norms import NormBound
from hushcov_lab.benchmark.results import fitted_slope

Matrix = npt.NDArray[np.float64]
EPSILON, DELTA = 0.1, 1e-6  # so little that noise is larger than sampling errors at all sizes
POWERS = (0.0, 0.3, 0.5, 0.7, 1.0)
SIZE, N = 400, 1_000_000
RECORDS = (200_000, 400_000, 800_000, 1_600_000)
FEATURES = (100, 200, 400, 800)
_LARGEST, _NONZEROS, _ROWS = 0.3, 4, 100
_SIGN_ERROR = 0.77  # of a mean product of signs beside that of the product, times sqrt(n)


def lq_correlation(d: int, q: float, signs: bool, seed: int) -> Matrix:
    """Rows with sizes 0.3 j^(-1/q) at random places; four of them at q = 0.

    With `signs` they are random, otherwise all are positive, so that what is left out adds up.
    """
    generator = np.random.default_rng([seed, d])
    off = np.zeros((d, d))
    for j in range(1, (_NONZEROS if q == 0 else min(_ROWS, d - 1)) + 1):
        order = generator.permutation(d)
        left, right = order[: d // 2], order[d // 2 : 2 * (d // 2)]
        size = _LARGEST * (1.0 if q == 0 else j ** (-1 / q))
        value = size * (generator.choice([-1, 1], d // 2) if signs else 1)
        fresh = off[left, right] == 0
        left, right, value = left[fresh], right[fresh], np.broadcast_to(value, d // 2)[fresh]
        off[left, right] = off[right, left] = value
    return off + np.eye(d) * max(1.0, 0.05 - np.linalg.eigvalsh(off)[0])


def symmetric_normal(generator: np.random.Generator, d: int) -> Matrix:
    """Independent standard normals on and above the diagonal."""
    upper = np.triu(generator.standard_normal((d, d)))
    return upper + np.triu(upper, 1).T


@dataclass(frozen=True, eq=False)
class Emulated:
    """A table that was never drawn: its moments, and scores of its pairs."""

    moments: Matrix
    scores: npt.NDArray[np.int64]
    n_records: int
    n_features: int


def emulated(truth: Matrix, n: int, seed: int) -> Emulated:
    """Moments and scores of n Gaussian records."""
    d = len(truth)
    moments = wishart_moments(truth, n, random_state=seed).covariance
    deviation = np.sqrt(np.diag(moments))
    correlation = moments / np.multiply.outer(deviation, deviation)
    upper = np.triu_indices(d, 1)
    signs = 2 / math.pi * np.arcsin(np.clip(correlation[upper], -1, 1))
    signs += (
        _SIGN_ERROR / math.sqrt(n) * np.random.default_rng([seed, 1]).standard_normal(len(signs))
    )
    return Emulated(moments, np.abs(np.rint(n * signs)).astype(np.int64), n, d)


class EmulatedScreen(SignScreen):
    """Scores that were drawn with the moments."""

    def sums(self, records: Any) -> Any:
        """See `SignScreen.sums`."""
        return records.scores.copy()


class EmulatedMatrix:
    """Looks at the whole matrix, at the noise of the norm bound."""

    def __init__(
        self, records: Any, feature_scale: Any, inputs: Any, bound: NormBound, *_: Any, **__: Any
    ) -> None:
        self._records, self._bound = records, bound.norm
        self._precision, self.looks = 0.0, 0
        self.mean = np.zeros_like(records.moments)

    def _sigma(self, mu: float) -> float:
        return self._bound**2 / (self._records.n_records * mu)

    def look(self, mu: float, budget: Budget, entropy: Entropy) -> None:
        """See `WholeMatrix.look`."""
        budget.gaussian(mu)
        self.looks += 1
        sigma = self._sigma(mu)
        fresh = self._records.moments + sigma * symmetric_normal(entropy.generator, len(self.mean))
        share = sigma**-2 / (self._precision + sigma**-2)
        self.mean = self.mean + share * (fresh - self.mean)
        self._precision += sigma**-2

    @property
    def noise_sd(self) -> tuple[float, float]:
        """See `WholeMatrix.noise_sd`."""
        return (self._precision**-0.5, self._precision**-0.5)

    def noise_after(self, mu: float) -> float:
        """See `WholeMatrix.noise_after`."""
        return float((self._precision + self._sigma(mu) ** -2) ** -0.5)


def emulated_pairs(
    records: Any,
    scale: Any,
    inputs: Any,
    places: Any,
    real: Any,
    norm: Any,
    budget: Budget,
    entropy: Any,
) -> PairValues:
    """Two looks at the values of pairs, and the budget as it is spent there."""
    rows, columns = places
    n, d, generator = records.n_records, records.n_features, entropy.generator
    first_mu = math.sqrt(FIRST_VALUES * budget.left)
    budget.gaussian(math.sqrt(PRODUCT_NORMS * budget.left))
    budget.gaussian(first_mu)
    noise = value_noise(len(rows), inputs, first_mu)
    first = records.moments[rows, columns] + noise * generator.standard_normal(len(rows))
    kept = np.abs(first) > DROPPED * detection_deviation(noise, n)
    rows, columns, first = rows[kept], columns[kept], first[kept]
    mu = budget.mu_left
    budget.gaussian(mu)
    less = value_noise(len(rows), inputs, mu)
    second = records.moments[rows, columns] + less * generator.standard_normal(len(rows))
    share, both = noise**2 / (noise**2 + less**2), (noise**-2 + less**-2) ** -0.5
    on = both * PAIR_WEIGHT / DIAGONAL_WEIGHT
    diagonal = np.diag(records.moments) + on * generator.standard_normal(d)
    return PairValues(rows, columns, first + share * (second - first), diagonal, (both, on), 0.0)


def adaptive_error(truth: Matrix, table: Emulated, seed: int) -> tuple[float, str]:
    """The error of the adaptive release, not divided by the norm, and the kind it chose."""
    d, n = len(truth), table.n_records
    parameters = AdaptiveParameters(ReleaseInputs(n, d, 1, EPSILON, DELTA))
    trace = float(np.trace(truth))
    squared = trace + math.sqrt(2 * float(np.sum(truth**2)))
    norm = NormBound(math.sqrt(squared), 0.0, trace / d)
    prepared = Prepared(table, np.ones(d), norm=norm)  # type: ignore[arg-type]
    entropy = Entropy(np.random.default_rng([seed, 2]), private=False)
    readers = Readers(EmulatedMatrix, emulated_pairs, EmulatedScreen)  # type: ignore[arg-type]
    release = release_adaptive(prepared, parameters, parameters.budget(), entropy, readers=readers)
    structure = release.making.structure
    assert structure is not None
    found = structure.kind + ("" if release.selected is None else ", pairs")
    return float(np.linalg.norm(estimate(release) - truth, 2)), found


def oracle_error(truth: Matrix, table: Emulated, seed: int) -> float:
    """The best in hindsight of selections of any size and whole matrices with any threshold."""
    d, n, generator = len(truth), table.n_records, np.random.default_rng([seed, 3])
    inputs = ReleaseInputs(n, d, 1, EPSILON, DELTA)
    mu = calibrate_gaussian(EPSILON, DELTA)
    upper = np.triu_indices(d, 1)
    errors = []
    for share in (1, 2, 4, 8, 16, 32, 64):
        size = min(len(upper[0]), d * share // 4)
        rate = math.sqrt(0.3 * mu**2 / (4 * size))  # three tenths of the time for the selection
        noisy = rate * table.scores + generator.gumbel(size=len(table.scores))
        best = np.argpartition(-noisy, size - 1)[:size]
        noise = value_noise(size, inputs, math.sqrt(0.7) * mu)
        values = table.moments[upper][best] + noise * generator.standard_normal(size)
        for times in (0, 1, 2, 3):
            made = np.diag(np.diag(table.moments))
            kept = np.abs(values) > times * detection_deviation(noise, n)
            made[upper[0][best[kept]], upper[1][best[kept]]] = values[kept]
            made += np.triu(made, 1).T
            errors.append(float(np.linalg.norm(made - truth, 2)))
    noise = (d + math.sqrt(2 * float(np.sum(truth**2)))) / (n * mu)
    whole = table.moments + noise * symmetric_normal(generator, d)
    for times in (0, 1, 2, 3, 4):
        made = np.where(np.abs(whole) > times * detection_deviation(noise, n), whole, 0.0)
        np.fill_diagonal(made, np.diag(whole))
        errors.append(float(np.linalg.norm(made - truth, 2)))
    return min(errors)


def measured(d: int, n: int, q: float, signs: bool, seeds: int) -> tuple[float, float, str]:
    """Median errors of the adaptive release and of the oracle."""
    ours, best, kinds = [], [], []
    for seed in range(seeds):
        truth = lq_correlation(d, q, signs, seed)
        table = emulated(truth, n, seed)
        error, kind = adaptive_error(truth, table, seed)
        ours.append(error)
        kinds.append(kind)
        best.append(oracle_error(truth, table, seed))
    return float(np.median(ours)), float(np.median(best)), max(kinds, key=kinds.count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--powers", default=",".join(map(str, POWERS)))
    asked = parser.parse_args()
    for signs in (True, False):
        for q in map(float, asked.powers.split(",")):
            over_n = [measured(SIZE, n, q, signs, asked.seeds) for n in RECORDS]
            over_d = [measured(d, N, q, signs, asked.seeds) for d in FEATURES]
            random, worst = (2 - q) / (2 + q), 2 * (1 - q) / (2 + q)
            named = "random signs" if signs else "one sign"
            for axis, values, rows, part in (
                ("n", RECORDS, over_n, -1.0),
                ("d", FEATURES, over_d, 0.5),
            ):
                slopes = [fitted_slope(values, [row[i] for row in rows]) for i in (0, 1)]
                print(
                    f"{named}, q = {q:g}, slope over {axis}: ours {slopes[0]:.2f}, oracle "
                    f"{slopes[1]:.2f}; by argument {part * random:.2f}, worst {part * worst:.2f}; "
                    f"ours over oracle {' '.join(f'{a / b:.2f}' for a, b, _ in rows)}; errors "
                    f"{' '.join(f'{a:.3f}' for a, _, _ in rows)}; {rows[0][2]} .. {rows[-1][2]}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
