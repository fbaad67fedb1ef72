"""A covariance that was measured again in the basis of an earlier look, and the law of its noise.

The rows were multiplied by a public matrix, and shortened to a bound there. Noise is equal in all
directions of that basis, so directions of small variance have little of it: regressions need that.
The first matrix of a release is better for the covariance itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray


def _equal(one: Any, other: Any) -> bool:
    """Return whether all fields are equal, of which some are arrays."""
    if type(one) is not type(other):
        return False
    names = [each.name for each in fields(one)]
    return all(np.array_equal(getattr(one, x), getattr(other, x)) for x in names)


@dataclass(frozen=True, eq=False)
class LookMoments:
    """A covariance of some features, in units of their scales, and the law of its error.

    The noise of u' values v is normal, with the variance (u'Su)(v'Sv) + (u'Sv)^2 where S is
    `noise`: that of sampling error of one record whose covariance is S.

    Parameters
    ----------
    features : ndarray of int
        Places of the features in the release.
    values, noise : ndarray
    means : ndarray
        Means of the features, measured from the centres that were taken off before.
    spread : float
        Variance of the sampling error over that of normal records, once shortening is undone.
    bias : float
        What shortening may leave, in standard deviations of the residual.
    steady : ndarray
        The covariance with directions that noise hides drawn to what noise allows: coefficients
        that are computed from it predict.
    """

    features: IntArray
    values: FloatArray
    steady: FloatArray
    noise: FloatArray
    means: FloatArray
    spread: float
    bias: float


@dataclass(frozen=True, eq=False)
class FurtherLook:
    """Second moments of rows that were multiplied by a public matrix.

    Parameters
    ----------
    features : ndarray of int
        Places of the features that it has; all others were not found.
    basis : ndarray
        The matrix that multiplied a row, whose features were divided by their scales. Where means
        were not known it has one row more than there are features, for a column of ones.
    products : ndarray of int
        The noisy sums of products.
    unit : float
        The value of one integer.
    noise_sd : tuple of float
        Standard deviation of the noise off and on the diagonal.
    kept : float
        Share of the squared norms that is within the bound, about.
    pull : float
        By how much shortening draws the moments to a multiple of the identity.
    spread : float
        The mean of the fourth powers of shortened norms over that of normal records.
    """

    features: IntArray
    basis: FloatArray
    products: IntArray
    unit: float
    noise_sd: tuple[float, float]
    kept: float
    pull: float
    spread: float

    __eq__ = _equal
    __hash__ = None  # type: ignore[assignment]  # arrays can change

    @cached_property
    def undone(self) -> FloatArray:
        """Second moments in the basis, without what shortening does to them."""
        moments = self.products * (self.unit / self.kept)
        level = max(float(np.trace(moments)) / len(moments), 1e-300)
        values, vectors = np.linalg.eigh(moments / level)
        values = without_pull(values, self.pull)
        return np.asarray((vectors * (values * level)) @ vectors.T)

    @property
    def noise_undone(self) -> float:
        """Standard deviation of the noise off the diagonal of `undone`."""
        return self.noise_sd[0] / (self.kept * (1 - self.pull))

    @cached_property
    def steady_moments(self) -> FloatArray:
        """Second moments in units of the scales, with what noise hides drawn to what it allows."""
        root = np.linalg.inv(self.basis).T
        own, vectors = np.linalg.eigh(self.undone)
        own = np.hypot(np.maximum(own, 0.0), STEADY * np.sqrt(len(own)) * self.noise_undone)
        return np.asarray(root @ (vectors * own) @ vectors.T @ root.T)

    @cached_property
    def moments(self) -> LookMoments:
        """The covariance of the features, in units of their scales."""
        root, k = np.linalg.inv(self.basis).T, len(self.features)
        means, values = about_means(root @ self.undone @ root.T, k)
        shape = root[:k]
        if len(root) > k:  # the column of ones
            shape = shape - np.multiply.outer(means, root[k])
        steady = about_means(self.steady_moments, k)[1]
        noise = self.noise_undone * shape @ shape.T
        bias = LOST_DIRECTIONS * (1 - self.kept) / len(root)
        spread = self.spread / (1 - self.pull) ** 2
        return LookMoments(self.features, values, steady, noise, means, spread, bias)


def about_means(moments: FloatArray, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Return means and covariance from second moments, the last of which may be of ones."""
    k, values = n_features, (moments + moments.T) / 2
    if len(values) == k:
        return np.zeros(k), values
    means = values[:k, k] / max(values[k, k], _LEAST_OF_ONES)
    return means, values[:k, :k] - np.multiply.outer(means, values[k, :k])


@dataclass(frozen=True, eq=False)
class TargetStep:
    """Mean products of the residual of a declared target with whitened features, after the looks.

    Parameters
    ----------
    target : int
        Place of the target in the release.
    features : ndarray of int
        Places of the features that it is regressed on.
    basis : ndarray
        What multiplied a row in units of the scales, with a one behind it where means were not
        known: a column for each whitened feature, and last one that makes the residual, in units
        of its deviation.
    sums : ndarray of int
        The noisy sums of products.
    unit : float
        The value of one integer, over the number of records.
    noise_sd : float
        Standard deviation of the noise of a mean product.
    slope : float
        How much of a step shortening leaves.
    spread : float
        Mean square of shortened products, over their number.
    bias : float
        What shortening may leave of a mean product.
    """

    target: int
    features: IntArray
    basis: FloatArray
    sums: IntArray
    unit: float
    noise_sd: float
    slope: float
    spread: float
    bias: float

    __eq__ = _equal
    __hash__ = None  # type: ignore[assignment]  # arrays can change

    @cached_property
    def coefficients(self) -> FloatArray:
        """Coefficients after the step, in units of the scales; the last one is of ones, if any."""
        of_target = self._of_target
        residual = self.basis[:, -1]
        before = -np.delete(residual, of_target) / residual[of_target]
        return np.asarray(before + self.root @ (self.sums * (self.unit / self.slope)))

    @cached_property
    def root(self) -> FloatArray:
        """By how much coefficients move where a mean product does: s A, by columns."""
        of_target = self._of_target
        return np.asarray(
            np.delete(self.basis[:, :-1], of_target, axis=0) / self.basis[of_target, -1]
        )

    @property
    def _of_target(self) -> int:
        return int(np.searchsorted(self.features, self.target))

    def variance(self, n: int) -> float:
        """Return the variance of a mean product, of noise, of n records and of shortening."""
        square = self.noise_sd**2 + self.spread / n + self.bias**2
        return square / self.slope**2


#: In how many directions at once what shortening takes off may be.
LOST_DIRECTIONS = 5.0
#: Norm of the noise of a look, about, over the noise of an entry and the root of its size.
STEADY = 2.0
_LEAST_OF_ONES = 0.5  # their mean square is 1


def without_pull(values: FloatArray, pull: float) -> FloatArray:
    """Return eigenvalues before shortening drew them to 1 by the share `pull`, to second order."""
    if pull <= 0:
        return values
    root = np.sqrt(np.maximum((1 + pull) ** 2 - 4 * pull * values, 0.0))
    return np.asarray(((1 + pull) - root) / (2 * pull))
