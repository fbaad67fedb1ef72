"""Attacks on eigenvectors and eigenvalues that are released apart.

A release is computed from a noisy Gram matrix, perhaps noisy eigenvalues and noisy counts of norms.
The proof covers an attacker who sees all of these, so that is who attacks here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushcov.audit import pairs
from hushcov.audit.attack import DELTA, EPSILON, FEATURES, Attack, matrix_statistics
from hushcov.audit.bounds import Promise
from hushcov.audit.pairs import Pair
from hushcov.audit.statistics import Statistic
from hushcov.audit.targets import Draw
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.separate import (
    Choice,
    MatrixNoise,
    SeparateParameters,
    choose,
    draw_transcript,
    matrix_noise,
    recombine,
    release_separate,
    rounded_eigenvalues,
    separate_parameters,
)
from hushcov.mechanisms.separate.choice import squared_edges
from hushcov.mechanisms.separate.mechanism import draw_counts
from hushcov.noise import Entropy
from hushcov.records import ArrayRecords, FeatureGrid, norm_histogram, row_bounded_gram

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# Eigenvalues this many records apart keep their order, and norms this common keep their bound.
_APART = 40


@dataclass(frozen=True, eq=False)
class SeparateTarget:
    """`release_separate`: released integers, noisy counts, noisy Gram matrix, noisy eigenvalues.

    Matrices are given row by row. There are counts only where the norm bound is chosen; eigenvalues
    are zeros where none are released.
    """

    parameters: SeparateParameters

    @property
    def promise(self) -> Promise:
        """Gaussians alone: one Gaussian curve."""
        inputs = self.parameters.inputs
        return Promise(inputs.epsilon, inputs.delta, gaussian=True)

    def draws(self, pair: Pair) -> tuple[Draw, Draw]:
        """Count and sum once for each choice; draw all noise each time."""
        return self._draw(pair.first), self._draw(pair.second)

    def releases(self, pair: Pair) -> tuple[Draw, Draw]:
        """Whole releases: their integers and noisy counts."""
        return self._release(pair.first), self._release(pair.second)

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

    def _draw(self, rows: FloatArray) -> Draw:
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
            parts = (released.ravel(), *seen, transcript.gram.ravel(), eigenvalues)
            return np.concatenate(parts).astype(np.float64)

        return draw

    def _release(self, rows: FloatArray) -> Draw:
        records, scale = ArrayRecords(rows), np.ones(rows.shape[1])

        def draw(generator: np.random.Generator) -> FloatArray:
            entropy = Entropy(generator, private=False)
            release = release_separate(records, scale, self.parameters, entropy)
            counts = np.array(release.parameters["noisy_counts"] or [], dtype=np.int64)
            return np.concatenate([release.integers.ravel(), counts]).astype(np.float64)

        return draw


class _Exact:
    """The exact statistics of one dataset, each computed when it is first asked for."""

    def __init__(self, parameters: SeparateParameters, rows: FloatArray) -> None:
        self._parameters = parameters
        self._records = ArrayRecords(rows)
        self._grid = FeatureGrid(np.ones(rows.shape[1]), parameters.radius, parameters.half_width)
        self._sums: dict[Choice, tuple[IntArray, IntArray | None, MatrixNoise]] = {}
        edges = squared_edges(parameters.norm_bound)
        self.counts = norm_histogram(self._records, self._grid, edges)

    def sums(self, choice: Choice) -> tuple[IntArray, IntArray | None, MatrixNoise]:
        """Gram matrix, eigenvalues if they are released, and the noise of both."""
        if choice not in self._sums:
            gram = row_bounded_gram(self._records, self._grid, choice.norm_bound)
            noise = matrix_noise(self._parameters, choice.method, choice.norm_bound)
            values = None if noise.eigenvalue_sigma is None else rounded_eigenvalues(gram)
            self._sums[choice] = gram, values, noise
        return self._sums[choice]


def ends_of_the_spectrum(n_features: int, shorter: float) -> Pair:
    """A record along the first axis against one along the last, by `shorter` times as long.

    The other records lie along the axes, more on each than on the one before. So the first record
    raises the largest eigenvalue and its replacement the smallest, and no order changes.
    """
    axes = np.eye(n_features)
    others = np.repeat(axes[::-1], _APART * np.arange(1, n_features + 1), axis=0)
    return pairs.replacement("ends of spectrum", axes[0], shorter * axes[-1], others)


def _attacks(mechanism: str) -> tuple[Attack, ...]:
    method, constants = _AUDITED[mechanism]
    d = FEATURES
    # Where norms are counted, the replacement is just short enough to be in another bin.
    shorter = 0.84 if method == "adaptive" else 1.0
    neighbours = (
        ends_of_the_spectrum(d, shorter),
        pairs.sign_flips(_APART, d, pairs.HUGE),
        pairs.sign_flips_among_others(_APART, d, pairs.HUGE),
        pairs.huge_or_zero(_APART, d),
    )
    return tuple(_attack(mechanism, method, constants, pair) for pair in neighbours)


def _attack(mechanism: str, method: str, constants: str, pair: Pair) -> Attack:
    inputs = ReleaseInputs(pair.n_records, pair.n_features, 1, EPSILON, DELTA)
    parameters = separate_parameters(inputs, method=method, constants=constants, row_norm=1.0)
    target = SeparateTarget(parameters)
    along_change, trace, fitted = matrix_statistics(pair)
    statistics = (*target.statistics(pair), along_change, trace)
    if method != "adaptive":  # weights of all counts would be fitted to the luck of few runs
        statistics = (*statistics, fitted)
    return Attack(mechanism, target, pair, statistics)


_AUDITED = {
    "separate-gauss": ("gauss", "sound"),
    "separate-eigen": ("separate", "sound"),
    "separate-paper": ("separate", "paper"),
    "separate-adaptive": ("adaptive", "sound"),
}

BUILDERS: dict[str, Callable[[str], tuple[Attack, ...]]] = dict.fromkeys(_AUDITED, _attacks)
