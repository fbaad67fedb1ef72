"""The mechanisms as an attacker meets them: output after output from the same records.

A release certifies itself, summarises the records, draws noise, and computes an estimate. Over
thousands of runs on the same records only the noise changes. So `draws` certifies nothing,
summarises the records once, with the mechanism's own functions, and repeats what is random:
the mechanism's own samplers on the same generator, in the same order. `releases` is the whole
release. From the same seed both give the same numbers, bit for bit, and every audit checks that
before it starts (`check_path`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hushcov.accounting import Event, Gaussian
from hushcov.accounting.gaussian import gaussian_epsilon
from hushcov.lab.audit.bounds import Promise
from hushcov.lab.audit.neighbours import Pair
from hushcov.mechanisms import gaussian
from hushcov.mechanisms.gaussian import GaussianParameters, release_gaussian
from hushcov.mechanisms.multiscale import (
    Moments,
    Parameters,
    TheoremParameters,
    grid_for,
    release_multiscale,
)
from hushcov.mechanisms.multiscale import mechanism as multiscale
from hushcov.mechanisms.scales import ScaleParameters, release_scales
from hushcov.noise import Entropy, rounded_normal
from hushcov.records import (
    ArrayRecords,
    FeatureGrid,
    log2_histogram,
    row_bounded_gram,
    second_moments,
)
from hushcov.simulate import SimulatedMoments

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
#: One output of a mechanism on fixed records, as numbers in a fixed order.
Draw = Callable[[np.random.Generator], FloatArray]


class Target(Protocol):
    """A mechanism with its public parameters, ready to be run on neighbouring datasets."""

    @property
    def promise(self) -> Promise:
        """What the mechanism claims."""

    def draws(self, pair: Pair) -> tuple[Draw, Draw]:
        """Quick draws of outputs, one function for each dataset."""

    def releases(self, pair: Pair) -> tuple[Draw, Draw]:
        """The same through the whole release; the leading part of what `draws` gives."""


@dataclass(frozen=True, eq=False)
class GaussianTarget:
    """`release_gaussian`: all entries of the released integers, row by row.

    With `weights` only their weighted sum is kept, for matrices too large to keep them all.
    """

    parameters: GaussianParameters
    weights: FloatArray | None = None

    @property
    def promise(self) -> Promise:
        """One Gaussian curve."""
        inputs = self.parameters.inputs
        return Promise(inputs.epsilon, inputs.delta, gaussian=True)

    def draws(self, pair: Pair) -> tuple[Draw, Draw]:
        """Clip and sum once; draw the noise matrix each time."""
        return self._draw(pair.first), self._draw(pair.second)

    def releases(self, pair: Pair) -> tuple[Draw, Draw]:
        """Whole releases."""
        return self._release(pair.first), self._release(pair.second)

    def _draw(self, rows: FloatArray) -> Draw:
        parameters = self.parameters
        grid = FeatureGrid(np.ones(rows.shape[1]), parameters.radius, parameters.half_width)
        gram = row_bounded_gram(ArrayRecords(rows), grid, parameters.norm_bound)

        def draw(generator: np.random.Generator) -> FloatArray:
            noise = gaussian.symmetric_noise(
                generator, rows.shape[1], parameters.sigma, parameters.diagonal_sigma
            )
            return self._seen(gram + noise)

        return draw

    def _release(self, rows: FloatArray) -> Draw:
        records, scale = ArrayRecords(rows), np.ones(rows.shape[1])

        def draw(generator: np.random.Generator) -> FloatArray:
            release = release_gaussian(records, scale, self.parameters, _seeded(generator))
            return self._seen(release.integers)

        return draw

    def _seen(self, integers: IntArray) -> FloatArray:
        entries = integers.ravel().astype(np.float64)
        return entries if self.weights is None else np.atleast_1d(entries @ self.weights)


@dataclass(frozen=True)
class ScalesTarget:
    """`release_scales`: the noisy counts whose exact values differ between the datasets.

    All other counts have the same law on both datasets and are independent of these.
    """

    parameters: ScaleParameters
    delta: float

    @property
    def promise(self) -> Promise:
        """One Gaussian curve, read at the given delta."""
        epsilon = gaussian_epsilon(self.parameters.mu, self.delta)
        return Promise(epsilon, self.delta, gaussian=True)

    def draws(self, pair: Pair) -> tuple[Draw, Draw]:
        """Count once; draw the noise of all counts each time."""
        moved, n_counts = _moved(pair), len(_counts(pair.first))

        def noisy(exact: IntArray) -> Draw:
            def draw(generator: np.random.Generator) -> FloatArray:
                noise = rounded_normal(generator, self.parameters.sigma, n_counts)
                return (exact + noise[moved]).astype(np.float64)

            return draw

        first, second = self.exact_counts(pair)
        return noisy(first), noisy(second)

    def releases(self, pair: Pair) -> tuple[Draw, Draw]:
        """Whole releases."""
        moved = _moved(pair)

        def released(rows: FloatArray) -> Draw:
            def draw(generator: np.random.Generator) -> FloatArray:
                scales = release_scales(ArrayRecords(rows), self.parameters, _seeded(generator))
                return scales.noisy_counts.ravel()[moved].astype(np.float64)

            return draw

        return released(pair.first), released(pair.second)

    def exact_counts(self, pair: Pair) -> tuple[IntArray, IntArray]:
        """The counts that differ, on the first and on the second dataset."""
        moved = _moved(pair)
        return _counts(pair.first)[moved], _counts(pair.second)[moved]


def _counts(rows: FloatArray) -> IntArray:
    return log2_histogram(ArrayRecords(rows)).ravel()


def _moved(pair: Pair) -> npt.NDArray[np.intp]:
    """Which counts the replaced record moves."""
    return np.flatnonzero(_counts(pair.first) != _counts(pair.second))


@dataclass(frozen=True, eq=False)
class MultiscaleTarget:
    """`release_multiscale`: all entries of the released integers, then which are not zero.

    The paper's constants need more records than can be stored. There the records of a pair are
    few, and `background` is the second-moment matrix of all others.
    """

    parameters: Parameters
    background: FloatArray | None = None

    @property
    def promise(self) -> Promise:
        """A Gaussian curve where nothing is selected, else a bound on a composition."""
        inputs = self.parameters.inputs
        events = getattr(self.parameters, "events", ())
        return Promise(inputs.epsilon, inputs.delta, gaussian=is_gaussian(events))

    def draws(self, pair: Pair) -> tuple[Draw, Draw]:
        """Compute the statistic once; select and test each time."""
        return self._draw(pair.first), self._draw(pair.second)

    def releases(self, pair: Pair) -> tuple[Draw, Draw]:
        """Whole releases."""
        return self._release(pair.first), self._release(pair.second)

    def _draw(self, rows: FloatArray) -> Draw:
        statistic = multiscale._statistic(self._moments(rows), self.parameters)

        def draw(generator: np.random.Generator) -> FloatArray:
            upper, _ = multiscale._reconstruct(statistic, self.parameters, generator)
            return _with_support(multiscale._symmetric(upper, rows.shape[1]))

        return draw

    def _release(self, rows: FloatArray) -> Draw:
        moments = self._moments(rows)

        def draw(generator: np.random.Generator) -> FloatArray:
            release = release_multiscale(moments, self.parameters, _seeded(generator))
            return _with_support(release.integers)

        return draw

    def _moments(self, rows: FloatArray) -> Moments:
        if not isinstance(self.parameters, TheoremParameters):
            return second_moments(ArrayRecords(rows), grid_for(self.parameters))
        assert self.background is not None
        clipped = np.clip(rows, -self.parameters.clip_radius, self.parameters.clip_radius)
        n = self.parameters.inputs.n_records
        return SimulatedMoments(self.background + clipped.T @ clipped / n, n)


def _with_support(integers: IntArray) -> FloatArray:
    return np.concatenate([integers.ravel(), integers.ravel() != 0]).astype(np.float64)


def is_gaussian(events: tuple[Event, ...]) -> bool:
    """Whether the events are Gaussians and nothing else, so that they are one Gaussian curve."""
    return bool(events) and all(isinstance(event, Gaussian) for event in events)


def _seeded(generator: np.random.Generator) -> Entropy:
    return Entropy(generator, private=False)
