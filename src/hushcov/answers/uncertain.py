"""Part of a released matrix, with what it may be off by: noise, sampling, and what bounds took.

All questions are answered from this. Values are as they were released, neither thresholded nor
projected, so that noise has its known law; what bounds on records took off is put back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.exceptions import ParameterError
from hushcov.postprocess import is_sparse
from hushcov.release import Release
from hushcov.release.coverage import NORMAL, coverage
from hushcov.release.findings import in_scales, scales_of

_SEED = 20_261_116  # of draws: answers are functions of the release


@dataclass(frozen=True, eq=False)
class Uncertain:
    """The released covariance of some features, and the law of its error.

    Parameters
    ----------
    features : ndarray
        Their places in the release.
    values : ndarray
        The matrix in the unit of the data.
    noise_sd : ndarray
        Standard deviation of the noise of each entry, what was put back included.
    known : ndarray of bool
        Which entries were released. The others are zero: pairs that did not stand out.
    n : int
        How many records are surely independent.
    excess : float
        By how much more than normal records these vary: the largest fourth moment over 3, less 1.
    """

    features: IntArray
    values: FloatArray
    noise_sd: FloatArray
    known: BoolArray
    n: int
    excess: float

    @cached_property
    def covariance(self) -> FloatArray:
        """The values without negative directions, which no covariance has."""
        values, vectors = np.linalg.eigh(self.values)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)

    def deviation(self, gradients: FloatArray) -> FloatArray:
        """Standard deviations of functions of the matrix, given their gradients there.

        A gradient G is symmetric: a change E of the matrix changes the function by the sum of
        G * E. The error is noise, independent in the entries on and above the diagonal, and that
        of sampling, 2 tr(G S G S) / n for normal records; records of longer tails count as
        elliptical ones.
        """
        G = np.asarray(gradients)
        twice = np.where(np.eye(G.shape[-1], dtype=bool), 1.0, 2.0)
        noise = np.einsum("...ij,ij->...", np.tril(G * twice) ** 2, self.noise_sd**2)
        GS = G @ self.covariance
        squares = np.einsum("...ij,...ji->...", GS, GS)
        traces = np.einsum("...ii->...", GS)
        sampling = (2 * (1 + self.excess) * squares + self.excess * traces**2) / self.n
        return np.asarray(np.sqrt(noise + np.maximum(sampling, 0.0)))

    def draws(self, how_many: int) -> FloatArray:
        """Matrices that might as well have been released: the values plus fresh errors."""
        rng = np.random.default_rng(_SEED)
        d = len(self.features)
        noise = np.tril(rng.standard_normal((how_many, d, d)))
        noise = (noise + np.swapaxes(np.tril(noise, -1), 1, 2)) * self.noise_sd
        return np.asarray(self.values + noise + self._sampling(rng, how_many))

    def _sampling(self, rng: np.random.Generator, how_many: int) -> FloatArray:
        """Errors of the covariance of n records of the covariance here, in the limit of many."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        d = len(values)
        normal = np.tril(rng.standard_normal((how_many, d, d)))
        normal = (normal + np.swapaxes(np.tril(normal, -1), 1, 2)) * np.where(
            np.eye(d, dtype=bool), np.sqrt(2.0), 1.0
        )
        own = rng.standard_normal((how_many, 1, 1)) * np.sqrt(self.excess)
        error = np.sqrt(1 + self.excess) * (root @ normal @ root.T) + own * self.covariance
        return np.asarray(error / np.sqrt(self.n))


def uncertain(release: Release, features: IntArray) -> Uncertain:
    """The part of a release for these features."""
    if release.noise_sd is None or release.n_sampled is None:
        raise ParameterError(
            f"the release must say how much noise it has, and {release.name!r} does not: there are "
            "no intervals. Release with PrivateSparseCovariance, ScreenedCovariance or "
            "GaussianCovariance."
        )
    block = np.ix_(features, features)
    whole = in_scales(release)
    if is_sparse(whole):
        values = whole[features][:, features].toarray()
        known = release.released[features][:, features].toarray()
    else:
        values, known = np.asarray(whole)[block], np.asarray(release.released)[block]
    variance = release.integers.diagonal() * release.unit
    found = coverage(release)
    rows, columns = np.indices(values.shape).reshape(2, -1)
    places = features[rows], features[columns]
    deviation, kept = found.errors(release, places, values.ravel(), variance)
    sampling = found.sampling_sd(places, values.ravel(), variance, release.n_sampled)
    noise = np.sqrt(np.maximum(deviation**2 - sampling**2, 0.0)) / kept
    noise = np.where(known, noise.reshape(values.shape), 0.0)
    unit = np.multiply.outer(*[scales_of(release)[features]] * 2)
    return Uncertain(
        features=features,
        values=values / kept.reshape(values.shape) * unit,
        noise_sd=noise * unit,
        known=known,
        n=release.n_sampled,
        excess=float(max(found.kurtosis[features].max() / NORMAL - 1, 0.0)),
    )
