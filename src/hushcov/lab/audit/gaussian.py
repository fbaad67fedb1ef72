"""Attacks where noise is on matrices: the Gaussian release, scales, CoinPress, and eigenvectors.

A release of Dong et al.'s is computed from a noisy Gram matrix, perhaps noisy eigenvalues and noisy
counts of norms. The proof covers an attacker who sees all of these, so that is who attacks here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hushcov._arrays import FloatArray, IndexArray, IntArray
from hushcov.accounting import gaussian_epsilon
from hushcov.lab.audit.attack import (
    DELTA,
    FEATURES,
    FITTED,
    HUGE,
    RECORDS,
    Attack,
    Draw,
    Handmade,
    Pair,
    Promise,
    Statistic,
    Target,
    Turn,
    Turned,
    axes,
    bounded_gram,
    disjoint,
    flat,
    huge_or_zero,
    inputs_of,
    matrix_statistics,
    octaves,
    outer_change,
    records_of,
    remembered,
    replaced,
    replacement,
    sign_flips,
    sign_flips_among_others,
    summed,
)
from hushcov.mechanisms.gaussian import mechanism as gaussian
from hushcov.mechanisms.gaussian.mechanism import (
    GaussianParameters,
    gaussian_parameters,
    release_gaussian,
)
from hushcov.noise import Entropy, rounded_normal
from hushcov.peers import eigen_sampling as sampling
from hushcov.peers.coinpress import NAME as COINPRESS
from hushcov.peers.coinpress import (
    CoinPressParameters,
    coinpress_parameters,
    release_coinpress,
    run_steps,
    transformed_gram,
)
from hushcov.peers.eigen_sampling import EigenSamplingParameters
from hushcov.peers.separate import NAME as SEPARATE
from hushcov.peers.separate import (
    MatrixNoise,
    SeparateChoice,
    SeparateParameters,
    choose,
    draw_counts,
    draw_transcript,
    matrix_noise,
    recombine,
    release_separate,
    rounded_eigenvalues,
    separate_parameters,
    squared_edges,
)
from hushcov.steps.scales import ScaleParameters, release_scales, scale_parameters
from hushcov.sums.counts import log2_histogram, norm_histogram
from hushcov.sums.grids import FeatureGrid
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
        """Return the released integers, or their weighted sum."""
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
        """Return the noisy counts of a whole release."""
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
            sign_flips(n, d, HUGE),
            sign_flips_among_others(n, d, HUGE),
            axes(n, d, HUGE),
            huge_or_zero(n, d),
        )
    ]
    # At norms from four times the radius on, the noise is the same everywhere.
    wide = turn(disjoint(2, 32, HUGE))
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
    for pair in (turn(octaves(n, d)), turn(huge_or_zero(n, d))):
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
    """Return the best weights for the matrices of all steps, if none of them turns the records."""
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
    turned, flips = axes(n, d, HUGE), sign_flips(n, d, HUGE)
    # Many records whose second moments are the identity: the matrix is so too, nearly.
    others = math.sqrt(d) * np.tile(np.eye(d), (500, 1))
    among_others = replacement("", turned.first[0], turned.second[0], others)
    return (
        # Equal bounds leave no choice of the matrix: every step sees the whole change.
        attack("axes, equal bounds", turned, (1.0, 1.0)),
        attack("axes among others", among_others, (0.25, 4.0)),
        attack("axes, wide bounds", turned, (0.01, 100.0)),
        attack("flips, equal bounds", flips, (1.0, 1.0)),
    )


# Eigenvalues this many records apart keep their order, and norms this common keep their bound.
_APART = 40
# Smaller than elsewhere: without a Gaussian curve, events of probability e^-epsilon must be seen.
_EPSILON = 3.0
# Records before the replacement; with more of them directions hardly ever leave their axis, and
# with fewer they are not often on it.
_COPIES = 3


@dataclass(frozen=True, eq=False)
class SeparateTarget(Target):
    """`release_separate`: released integers, noisy counts, noisy Gram matrix, noisy eigenvalues.

    Matrices are given row by row. There are counts only where the norm bound is chosen; eigenvalues
    are zeros where none are released.
    """

    parameters: SeparateParameters
    release_by = release_separate

    def statistics(self, pair: Pair) -> tuple[Statistic, ...]:
        """Return the log-likelihood ratio of all noisy integers, and what counts say alone.

        While the choice stays the declared one, no statistic tells the datasets better apart than
        the first.
        """
        first, second = _Exact(self.parameters, pair.first), _Exact(self.parameters, pair.second)
        declared, sigma = self.parameters.method, self.parameters.histogram_sigma
        method = declared if sigma is None else "gauss"
        gram, eigenvalues, noise = first.sums(SeparateChoice(method, self.parameters.norm_bound))
        other_gram, others, _ = second.sums(SeparateChoice(method, self.parameters.norm_bound))
        change = np.triu(other_gram - gram).astype(np.float64)
        deviation = np.full(change.shape, float(noise.sigma))
        np.fill_diagonal(deviation, float(noise.diagonal_sigma))
        released, matrix = np.zeros(change.size), (change / deviation**2).ravel()
        if sigma is not None:
            counts = (second.counts - first.counts) / sigma**2
            ratio = Statistic("likelihood", np.concatenate([released, counts, matrix]))
            return ratio, Statistic("counts", np.concatenate([released, counts]))
        if eigenvalues is None or others is None or noise.eigenvalue_sigma is None:
            return (Statistic("likelihood", np.concatenate([released, matrix])),)
        spectrum = (others - eigenvalues) / float(noise.eigenvalue_sigma) ** 2
        return (Statistic("likelihood", np.concatenate([released, matrix, spectrum])),)

    def quick(self, rows: FloatArray) -> Draw:
        """Count and sum once for each choice; draw all noise each time."""
        parameters = self.parameters
        exact = _Exact(parameters, rows)

        def draw(generator: np.random.Generator) -> FloatArray:
            choice = SeparateChoice(parameters.method, parameters.norm_bound)
            seen: list[IntArray] = []
            if parameters.histogram_sigma is not None:
                seen.append(draw_counts(generator, exact.counts, parameters))
                choice = choose(parameters, seen[0])
            transcript = draw_transcript(generator, *exact.sums(choice))
            released = recombine(transcript, parameters, choice)
            eigenvalues = transcript.eigenvalues
            if eigenvalues is None:
                eigenvalues = np.zeros(len(released), dtype=np.int64)
            return flat(released, *seen, transcript.gram, eigenvalues)

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the released integers, and noisy counts if there are any."""
        release = self.release(rows, entropy)
        return flat(release.integers, release.parameters["noisy_counts"] or [])


class _Exact:
    """The exact statistics of one dataset, each computed when it is first asked for."""

    def __init__(self, parameters: SeparateParameters, rows: FloatArray) -> None:
        grid = FeatureGrid(np.ones(rows.shape[1]), parameters.radius, parameters.half_width)
        edges = squared_edges(parameters.norm_bound)
        self.counts = norm_histogram(ArrayRecords(rows), grid, edges)

        @remembered
        def sums(choice: SeparateChoice) -> tuple[IntArray, IntArray | None, MatrixNoise]:
            """Gram matrix, eigenvalues if they are released, and the noise of both."""
            gram = bounded_gram(rows, parameters, choice.norm_bound)
            noise = matrix_noise(parameters, choice.method, choice.norm_bound)
            values = None if noise.eigenvalue_sigma is None else rounded_eigenvalues(gram)
            return gram, values, noise

        self.sums = sums


def ends_of_the_spectrum(n_features: int, shorter: float) -> Pair:
    """Return a record along the first axis against one along the last, by `shorter` times as long.

    The other records lie along the axes, more on each than on the one before. So the first record
    raises the largest eigenvalue and its replacement the smallest, and no order changes.
    """
    axes = np.eye(n_features)
    others = np.repeat(axes[::-1], _APART * np.arange(1, n_features + 1), axis=0)
    return replacement("ends of spectrum", axes[0], shorter * axes[-1], others)


def _separate(name: str, *, method: str) -> tuple[Attack, ...]:
    d = FEATURES
    # Where norms are counted, the replacement is just short enough to be in another bin.
    shorter = 0.84 if method == "adaptive" else 1.0
    found = (
        ends_of_the_spectrum(d, shorter),
        sign_flips(_APART, d, HUGE),
        sign_flips_among_others(_APART, d, HUGE),
        huge_or_zero(_APART, d),
    )
    return tuple(_separate_attack(name, method, pair) for pair in found)


def _separate_attack(name: str, method: str, pair: Pair) -> Attack:
    parameters = separate_parameters(inputs_of(pair), method=method, row_norm=1.0)
    target = SeparateTarget(parameters)
    along_change, trace, fitted = matrix_statistics(pair)
    statistics = (*target.statistics(pair), along_change, trace)
    if method != "adaptive":  # weights of all counts would be fitted to the luck of few runs
        statistics = (*statistics, fitted)
    return Attack(name, target, pair, statistics)


@dataclass(frozen=True, eq=False)
class EigenSamplingTarget(Target):
    """`release_eigen_sampling`: all entries of the released integers.

    Quick draws go on with the noisy eigenvalues and with how much likelier eigenvalues and
    directions are on the second dataset, up to what normalises directions. The proof covers these
    as well, though only the matrix is released.
    """

    parameters: EigenSamplingParameters
    pair: Pair
    release_by = sampling.release_eigen_sampling

    @property
    def promise(self) -> Promise:
        """Pure differential privacy."""
        return Promise(self.parameters.inputs.epsilon, 0.0, gaussian=False)

    def quick(self, rows: FloatArray) -> Draw:
        """Clip and sum once; draw eigenvalues and directions each time."""
        grams = self._gram(self.pair.first), self._gram(self.pair.second)
        moved = np.array([sampling.rounded_eigenvalues(each) for each in grams])
        gram = self._gram(rows)
        exact = sampling.rounded_eigenvalues(gram)

        def draw(generator: np.random.Generator) -> FloatArray:
            eigenvalues, directions = sampling.sample_spectrum(
                generator, gram, exact, self.parameters
            )
            first, second = np.abs(eigenvalues - moved).sum(axis=1)
            loss = (first - second) / self.parameters.eigenvalue_scale
            loss += self._direction_loss(grams[1] - grams[0], eigenvalues, directions)
            return flat(sampling.assembled(eigenvalues, directions), eigenvalues, [loss])

        return draw

    def _gram(self, rows: FloatArray) -> IntArray:
        return bounded_gram(rows, self.parameters, self.parameters.norm_bound)

    def _direction_loss(
        self, change: IntArray, eigenvalues: IntArray, directions: FloatArray
    ) -> float:
        """The log of the ratio of the densities of directions, but for normalising constants."""
        shares = np.array(sampling.shares(eigenvalues, self.parameters))
        sampled = directions[:, : len(shares)]
        scores = np.sum(sampled * (change @ sampled), axis=0)
        return float(shares @ scores / sampling.SHARES * self.parameters.direction_rate)


def _eigen_sampling(name: str) -> tuple[Attack, ...]:
    single = huge_or_zero(RECORDS, 1)
    return (
        _eigen_attack(name, replace(single, name="huge or 0, 1 feat.")),
        _eigen_attack(name, _among_copies(2)),
        _eigen_attack(name, _among_copies(3)),
        _eigen_attack(name, sign_flips_among_others(RECORDS, 3, HUGE)),
    )


def _among_copies(n_features: int) -> Pair:
    """Return a record among copies of itself against one orthogonal to it.

    The largest eigenvalue falls and the second rises, by as much as a record can do, and
    directions near the replacement become likelier.
    """
    first, second = HUGE * np.eye(n_features)[:2]
    others = np.tile(first, (_COPIES - 1, 1))
    return replacement(f"copies, {n_features} feat.", first, second, others)


def _eigen_attack(name: str, pair: Pair) -> Attack:
    n, d = pair.n_records, pair.n_features
    # A bound that a record along one axis reaches.
    parameters = sampling.eigen_sampling_parameters(
        sampling.pure_inputs(n, d, 1, _EPSILON), row_norm=1.0
    )
    columns = d * d + d + 1
    statistics = (*matrix_statistics(pair), summed("loss", [columns - 1], columns))
    # Every direction takes its time.
    return Attack(name, EigenSamplingTarget(parameters, pair), pair, statistics, slowness=d)


HANDMADE: Handmade = {
    gaussian.NAME: {"": _gaussian},
    "scales": {"": _scales},
    COINPRESS: {"": _coinpress},
    SEPARATE: {
        "gauss": partial(_separate, method="gauss"),
        "eigen": partial(_separate, method="separate"),
        "adaptive": partial(_separate, method="adaptive"),
    },
    sampling.NAME: {"": _eigen_sampling},
}

TURNED: dict[str, Turned] = {
    gaussian.NAME: _gaussian,
    "scales": _scales,
}
