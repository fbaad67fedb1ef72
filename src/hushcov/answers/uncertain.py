"""Part of a released matrix, with what it may be off by: noise, sampling, and what bounds took.

All questions are answered from this. Values are as they were released, neither thresholded nor
projected, so that noise has its known law; what bounds on records took off is put back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.postprocess import is_sparse
from hushcov.release import Release
from hushcov.release.coverage import NORMAL, coverage
from hushcov.release.findings import scales_of


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
    def deviations(self) -> FloatArray:
        """Standard deviations of the features; where noise drowns one, what noise allows."""
        variance = np.maximum(self.values.diagonal(), self.noise_sd.diagonal())
        return np.sqrt(np.where(variance > 0, variance, 1.0))

    @cached_property
    def covariance(self) -> FloatArray:
        """The values without negative directions, which no covariance has.

        They are removed in units of the deviations, so that features of any scale count alike.
        """
        unit = np.multiply.outer(self.deviations, self.deviations)
        values, vectors = np.linalg.eigh(self.values / unit)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T * unit)

    def standardized(self) -> Uncertain:
        """The same in units of the deviations."""
        unit = np.multiply.outer(self.deviations, self.deviations)
        return replace(self, values=self.values / unit, noise_sd=self.noise_sd / unit)

    def part(self, places: IntArray) -> Uncertain:
        """The same for some of the features, given where they are among these."""
        block = np.ix_(places, places)
        return replace(
            self,
            features=self.features[places],
            values=self.values[block],
            noise_sd=self.noise_sd[block],
            known=self.known[block],
        )

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


def check_noise(release: Release) -> tuple[float, int]:
    """Return the noise of a pair and the number of records, or refuse where one is not known."""
    if release.noise_sd is None or release.n_sampled is None:
        raise ParameterError(
            f"the release must say how much noise it has, and {release.name!r} does not: there are "
            "no intervals. Release with PrivateSparseCovariance, ScreenedCovariance or "
            "GaussianCovariance."
        )
    return release.noise_sd[0], release.n_sampled


def uncertain(release: Release, features: IntArray) -> Uncertain:
    """The part of a release for these features."""
    _, n_sampled = check_noise(release)
    scale = scales_of(release)[features]
    if is_sparse(release.integers):
        integers = release.integers[features][:, features].toarray()
    else:
        integers = release.integers[np.ix_(features, features)]
    values = integers * release.unit * np.multiply.outer(scale != 0, scale != 0)
    known = _known(release, features)
    variance = release.integers.diagonal() * release.unit
    found = coverage(release)
    rows, columns = np.indices(values.shape).reshape(2, -1)
    places = features[rows], features[columns]
    deviation, kept = found.errors(release, places, values.ravel(), variance)
    sampling = found.sampling_sd(places, values.ravel(), variance, n_sampled)
    noise = np.sqrt(np.maximum(deviation**2 - sampling**2, 0.0)) / kept
    noise = np.where(known, noise.reshape(values.shape), 0.0)
    unit = np.multiply.outer(scale, scale)
    with np.errstate(all="ignore"):
        values, noise = values / kept.reshape(values.shape) * unit, noise * unit
    if not (np.isfinite(values).all() and np.isfinite(noise).all()):
        raise CapacityError(
            "entries of the release, with their noise, must be doubles for questions, got larger "
            "ones: release features in other units."
        )
    return Uncertain(
        features=features,
        values=values,
        noise_sd=noise,
        known=known,
        n=n_sampled,
        excess=float(max(found.kurtosis[features].max() / NORMAL - 1, 0.0)),
    )


def _known(release: Release, features: IntArray) -> BoolArray:
    """Which entries of these features the release holds."""
    if release.selected is None:
        return np.ones((len(features), len(features)), dtype=bool)
    if is_sparse(release.integers):
        there = release.integers[features][:, features].tocoo()
        stored = np.zeros((len(features), len(features)), dtype=bool)
        stored[there.row, there.col] = True
        return stored
    place = np.full(release.n_features, -1)
    place[features] = np.arange(len(features))
    rows, columns = place[release.selected]
    there = (rows >= 0) & (columns >= 0)
    known = np.eye(len(features), dtype=bool)
    known[rows[there], columns[there]] = known[columns[there], rows[there]] = True
    return known
