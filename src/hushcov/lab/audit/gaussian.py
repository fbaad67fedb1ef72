"""Attacks where all noise is Gaussian: the Gaussian release, the scales, and CoinPress."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hushcov._arrays import FloatArray, IndexArray, IntArray
from hushcov.accounting import gaussian_epsilon
from hushcov.lab.audit import neighbours
from hushcov.lab.audit.attack import (
    DELTA,
    FEATURES,
    FITTED,
    RECORDS,
    Attack,
    Draw,
    Handmade,
    Promise,
    Statistic,
    Target,
    Turned,
    bounded_gram,
    flat,
    inputs_of,
    matrix_statistics,
    outer_change,
    records_of,
    remembered,
)
from hushcov.lab.audit.neighbours import HUGE, Pair, Turn, replaced
from hushcov.mechanisms.gaussian import GaussianParameters, gaussian_parameters, release_gaussian
from hushcov.mechanisms.gaussian import mechanism as gaussian
from hushcov.noise import Entropy, rounded_normal
from hushcov.peers.coinpress import NAME as COINPRESS
from hushcov.peers.coinpress import (
    CoinPressParameters,
    coinpress_parameters,
    release_coinpress,
    run_steps,
    transformed_gram,
)
from hushcov.steps.scales import ScaleParameters, release_scales, scale_parameters
from hushcov.sums.counts import log2_histogram
from hushcov.tables.sources import ArrayRecords


@dataclass(frozen=True, eq=False)
class GaussianTarget(Target):
    """`release_gaussian`: all entries of the released integers, row by row.

    With `weights` only their weighted sum is kept, for matrices too large to keep them all.
    """

    parameters: GaussianParameters
    weights: FloatArray | None = None
    release_by = release_gaussian

    def quick(self, rows: FloatArray) -> Draw:
        """Clip and sum once; draw the noise matrix each time."""
        p, d = self.parameters, rows.shape[1]
        gram = bounded_gram(rows, p, p.norm_bound)

        def draw(generator: np.random.Generator) -> FloatArray:
            noise = gaussian.symmetric_noise(generator, d, p.sigma, p.diagonal_sigma)
            return self._seen(gram + noise)

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """The released integers, or their weighted sum."""
        return self._seen(self.release(rows, entropy).integers)

    def _seen(self, integers: IntArray) -> FloatArray:
        entries = flat(integers)
        return entries if self.weights is None else np.atleast_1d(entries @ self.weights)


@dataclass(frozen=True, eq=False)
class ScalesTarget(Target):
    """`release_scales`: the noisy counts that the replaced record moves.

    All other counts have the same law on both datasets and are independent of these.
    """

    parameters: ScaleParameters
    delta: float
    moved: IndexArray

    @property
    def promise(self) -> Promise:
        """One Gaussian curve, read at the given delta."""
        mu = self.parameters.mu * self.parameters.neighbours.most_rows
        epsilon = gaussian_epsilon(mu, self.delta)
        return Promise(epsilon, self.delta, gaussian=True)

    def quick(self, rows: FloatArray) -> Draw:
        """Count once; draw the noise of all counts each time."""
        exact = _counts(rows)

        def draw(generator: np.random.Generator) -> FloatArray:
            noise = rounded_normal(generator, self.parameters.sigma, len(exact))
            return flat((exact + noise)[self.moved])

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """The noisy counts of a whole release."""
        records = records_of(rows, self.parameters.n_records)
        scales = release_scales(records, self.parameters, entropy)
        return flat(scales.noisy_counts.ravel()[self.moved])


def _counts(rows: FloatArray) -> IntArray:
    return log2_histogram(ArrayRecords(rows)).ravel()


def _gaussian(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    n, d = RECORDS, FEATURES
    found = [
        _attack(name, turn(pair))
        for pair in (
            neighbours.sign_flips(n, d, HUGE),
            neighbours.sign_flips_among_others(n, d, HUGE),
            neighbours.axes(n, d, HUGE),
            neighbours.huge_or_zero(n, d),
        )
    ]
    # At norms from four times the radius on, the noise is the same everywhere.
    wide = turn(neighbours.disjoint(2, 32, HUGE))
    parameters = gaussian_parameters(inputs_of(wide, 2), radius=1.0, row_norm=4.0)
    change = outer_change(wide.before, wide.after)
    target = GaussianTarget(parameters, weights=np.triu(change).ravel())
    found.append(Attack(name, target, wide, (Statistic("along change", np.ones(1)),)))
    return tuple(found)


def _attack(name: str, pair: Pair) -> Attack:
    parameters = gaussian_parameters(inputs_of(pair))
    return Attack(name, GaussianTarget(parameters), pair, matrix_statistics(pair))


def _scales(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    n, d = RECORDS, FEATURES
    found = []
    for pair in (turn(neighbours.octaves(n, d)), turn(neighbours.huge_or_zero(n, d))):
        # Noise is a whole number. At this budget, an epsilon of about 4, it is not rounded up.
        size = math.sqrt(pair.neighbours.moved(replaced=2 * d, removed=d))
        sigma = math.ceil(size) * pair.neighbours.most_rows
        mu = size / sigma * (1 + 1e-12)
        parameters = scale_parameters(pair.n_records, d, mu, pair.neighbours)
        change = _counts(pair.second) - _counts(pair.first)
        moved = np.flatnonzero(change)
        along = Statistic("along change", flat(change[moved]))
        target = ScalesTarget(parameters, DELTA, moved)
        found.append(Attack(name, target, pair, (along, FITTED)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class CoinPressTarget(Target):
    """`release_coinpress`: the released integers, then the noisy Gram matrix of every step.

    The matrices of the steps are not released, but the guarantee covers them too.
    """

    parameters: CoinPressParameters
    release_by = release_coinpress

    def quick(self, rows: FloatArray) -> Draw:
        """Sum once for a matrix that comes again; draw the noise of every step each time."""
        records, scale = ArrayRecords(rows), np.ones(rows.shape[1])
        # The first matrix is always the same, and so are all where the bounds leave no choice.
        gram_of = remembered(transformed_gram(records, scale, self.parameters))

        def draw(generator: np.random.Generator) -> FloatArray:
            transcript = run_steps(gram_of, self.parameters, generator)
            return flat(transcript.integers, *transcript.noisy_grams)

        return draw


def all_steps(pair: Pair, parameters: CoinPressParameters) -> Statistic:
    """The best weights for the matrices of all steps, if none of them turns the records."""
    d, least = pair.n_features, min(parameters.sigmas)
    change = outer_change(pair.first[0], pair.second[0])
    weights = [np.zeros(d * d)]  # of the released integers, which follow from the matrices
    for sigma, diagonal_sigma in zip(parameters.sigmas, parameters.diagonal_sigmas, strict=True):
        # Each entry over its variance; one off the diagonal is there twice.
        weight = np.full((d, d), (least / sigma) ** 2 / 2)
        np.fill_diagonal(weight, (least / diagonal_sigma) ** 2)
        weights.append((change * weight).ravel())
    return Statistic("all steps", np.concatenate(weights))


def _coinpress(name: str) -> tuple[Attack, ...]:
    def attack(title: str, pair: Pair, bounds: tuple[float, float]) -> Attack:
        parameters = coinpress_parameters(inputs_of(pair), eigenvalue_bounds=bounds)
        statistics: tuple[Statistic, ...] = (all_steps(pair, parameters),)
        if bounds[0] < bounds[1]:
            statistics += matrix_statistics(pair)
        target, named = CoinPressTarget(parameters), replace(pair, name=title)
        return Attack(name, target, named, statistics, slowness=2)

    n, d = RECORDS, 2
    axes, flips = neighbours.axes(n, d, HUGE), neighbours.sign_flips(n, d, HUGE)
    # Many records whose second moments are the identity: the matrix is so too, nearly.
    others = math.sqrt(d) * np.tile(np.eye(d), (500, 1))
    among_others = neighbours.replacement("", axes.first[0], axes.second[0], others)
    return (
        # Equal bounds leave no choice of the matrix: every step sees the whole change.
        attack("axes, equal bounds", axes, (1.0, 1.0)),
        attack("axes among others", among_others, (0.25, 4.0)),
        attack("axes, wide bounds", axes, (0.01, 100.0)),
        attack("flips, equal bounds", flips, (1.0, 1.0)),
    )


HANDMADE: Handmade = {
    gaussian.NAME: {"": _gaussian},
    "scales": {"": _scales},
    COINPRESS: {"": _coinpress},
}

TURNED: dict[str, Turned] = {
    gaussian.NAME: _gaussian,
    "scales": _scales,
}
