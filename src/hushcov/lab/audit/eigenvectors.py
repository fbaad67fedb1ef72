"""Attacks on mechanisms that release eigenvectors and eigenvalues apart.

A release of Dong et al.'s is computed from a noisy Gram matrix, perhaps noisy eigenvalues and noisy
counts of norms. The proof covers an attacker who sees all of these, so that is who attacks here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.lab.audit import neighbours
from hushcov.lab.audit.attack import (
    FEATURES,
    RECORDS,
    Attack,
    Draw,
    Handmade,
    Promise,
    Statistic,
    Target,
    bounded_gram,
    flat,
    inputs_of,
    matrix_statistics,
    remembered,
    summed,
)
from hushcov.lab.audit.neighbours import HUGE, Pair
from hushcov.noise import Entropy
from hushcov.peers import eigen_sampling as sampling
from hushcov.peers.eigen_sampling import EigenSamplingParameters
from hushcov.peers.separate import NAME as SEPARATE
from hushcov.peers.separate import (
    Choice,
    MatrixNoise,
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
from hushcov.sums.counts import norm_histogram
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import ArrayRecords

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
        """The log-likelihood ratio of all noisy integers, and what counts say alone.

        While the choice stays the declared one, no statistic tells the datasets better apart than
        the first.
        """
        first, second = _Exact(self.parameters, pair.first), _Exact(self.parameters, pair.second)
        declared, sigma = self.parameters.method, self.parameters.histogram_sigma
        method = declared if sigma is None else "gauss"
        gram, eigenvalues, noise = first.sums(Choice(method, self.parameters.norm_bound))
        other_gram, others, _ = second.sums(Choice(method, self.parameters.norm_bound))
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
            choice = Choice(parameters.method, parameters.norm_bound)
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
        """The released integers, and noisy counts if there are any."""
        release = self.release(rows, entropy)
        return flat(release.integers, release.parameters["noisy_counts"] or [])


class _Exact:
    """The exact statistics of one dataset, each computed when it is first asked for."""

    def __init__(self, parameters: SeparateParameters, rows: FloatArray) -> None:
        grid = FeatureGrid(np.ones(rows.shape[1]), parameters.radius, parameters.half_width)
        edges = squared_edges(parameters.norm_bound)
        self.counts = norm_histogram(ArrayRecords(rows), grid, edges)

        @remembered
        def sums(choice: Choice) -> tuple[IntArray, IntArray | None, MatrixNoise]:
            """Gram matrix, eigenvalues if they are released, and the noise of both."""
            gram = bounded_gram(rows, parameters, choice.norm_bound)
            noise = matrix_noise(parameters, choice.method, choice.norm_bound)
            values = None if noise.eigenvalue_sigma is None else rounded_eigenvalues(gram)
            return gram, values, noise

        self.sums = sums


def ends_of_the_spectrum(n_features: int, shorter: float) -> Pair:
    """A record along the first axis against one along the last, by `shorter` times as long.

    The other records lie along the axes, more on each than on the one before. So the first record
    raises the largest eigenvalue and its replacement the smallest, and no order changes.
    """
    axes = np.eye(n_features)
    others = np.repeat(axes[::-1], _APART * np.arange(1, n_features + 1), axis=0)
    return neighbours.replacement("ends of spectrum", axes[0], shorter * axes[-1], others)


def _separate(name: str, *, method: str) -> tuple[Attack, ...]:
    d = FEATURES
    # Where norms are counted, the replacement is just short enough to be in another bin.
    shorter = 0.84 if method == "adaptive" else 1.0
    found = (
        ends_of_the_spectrum(d, shorter),
        neighbours.sign_flips(_APART, d, HUGE),
        neighbours.sign_flips_among_others(_APART, d, HUGE),
        neighbours.huge_or_zero(_APART, d),
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
    single = neighbours.huge_or_zero(RECORDS, 1)
    return (
        _eigen_attack(name, replace(single, name="huge or 0, 1 feat.")),
        _eigen_attack(name, _among_copies(2)),
        _eigen_attack(name, _among_copies(3)),
        _eigen_attack(name, neighbours.sign_flips_among_others(RECORDS, 3, HUGE)),
    )


def _among_copies(n_features: int) -> Pair:
    """A record among copies of itself against one orthogonal to it.

    The largest eigenvalue falls and the second rises, by as much as a record can do, and
    directions near the replacement become likelier.
    """
    first, second = HUGE * np.eye(n_features)[:2]
    others = np.tile(first, (_COPIES - 1, 1))
    return neighbours.replacement(f"copies, {n_features} feat.", first, second, others)


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
    SEPARATE: {
        "gauss": partial(_separate, method="gauss"),
        "eigen": partial(_separate, method="separate"),
        "adaptive": partial(_separate, method="adaptive"),
    },
    sampling.NAME: {"": _eigen_sampling},
}
