"""Take a part of a released matrix with the law of its error: noise, sampling, effects of bounds.

All questions are answered from this. Values are as they were released, neither thresholded nor
projected, so that noise has its known law; the losses to bounds on records are put back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import check_level
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.postprocess import is_sparse, sure_level, values_at
from hushcov.release import Release
from hushcov.release.coverage import NORMAL, constant_mask, coverage
from hushcov.release.estimate import factors_of, scales_of
from hushcov.release.looks import LOST_DIRECTIONS
from hushcov.release.view import released_among

_LEAST_OWN = 0.1  # of a variance, beside factors
_ROUNDING = 1e-30  # of shares of variances, squared
_WEAKEST = 0.1  # the part of the released pairs that counts as weak
_MOST_ASKED = 1_000_000  # pairs by which that is found
_OF_NOISE = 6.0  # that a pair may have and not be found
# How much more a first matrix must have than a look before it counts as lost, in units of its noise
# and for each row of the look; the noise of a direction, over its variance, from which on it says
# nothing; and the largest logarithm of a tail that counts. From `looks_coverage.py` of the studies.
_BY_CHANCE, _MOST_NOISE_OF_LOST, _MOST_LONGER = 0.06, 0.05, 3.0


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
    tail : ndarray
        About the logarithm of what each variance is larger by than was released.
    shape : ndarray, optional
        S of the noise of a further look, where u' E v has the variance (u'Su)(v'Sv) + (u'Sv)^2. The
        noise of different entries is independent where there is none.
    steady : ndarray, optional
        Values for coefficients that predict, without directions that noise hides.
    first : Uncertain, optional
        The same part of the first matrix, which shortens records less.
    lost : ndarray, optional
        L of what shortening records may leave in a further look: u' E v has the variance
        (u'Lu)(v'Lv).
    """

    features: IntArray
    values: FloatArray
    noise_sd: FloatArray
    known: BoolArray
    n: int
    excess: float
    tail: FloatArray
    shape: FloatArray | None = None
    steady: FloatArray | None = None
    first: Uncertain | None = None
    lost: FloatArray | None = None

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
        """Return the matrix in units of the deviations."""
        unit = np.multiply.outer(self.deviations, self.deviations)
        return self._mapped(lambda matrix: matrix / unit)

    def part(self, places: IntArray) -> Uncertain:
        """Return the part of some features, given by position."""
        block = np.ix_(places, places)
        found = self._mapped(lambda matrix: matrix[block])
        features, tail = self.features[places], self.tail[places]
        return replace(found, features=features, known=self.known[block], tail=tail)

    def _mapped(self, change: Callable[[FloatArray], FloatArray]) -> Uncertain:
        """Return it with every matrix changed."""
        return replace(
            self,
            values=change(self.values),
            noise_sd=change(self.noise_sd),
            shape=None if self.shape is None else change(self.shape),
            steady=None if self.steady is None else change(self.steady),
            first=None if self.first is None else self.first._mapped(change),
            lost=None if self.lost is None else change(self.lost),
        )

    @property
    def n_zero(self) -> int:
        """Number of pairs that were not released, and count as zero."""
        return int(np.count_nonzero(~self.known)) // 2

    def deviation(self, gradients: FloatArray) -> FloatArray:
        """Return standard deviations of functions of the matrix, given their gradients there.

        A gradient G is symmetric: a change E of the matrix changes the function by the sum of
        G * E. The error is noise, independent in the entries on and above the diagonal, and that
        of sampling, 2 tr(G S G S) / n for normal records; records of longer tails count as
        elliptical ones.
        """
        G = np.asarray(gradients)
        if self.shape is None:
            twice = np.where(np.eye(G.shape[-1], dtype=bool), 1.0, 2.0)
            noise = np.einsum("...ij,ij->...", np.tril(G * twice) ** 2, self.noise_sd**2)
        else:
            noise = 2 * _trace_of_square(G @ self.shape)
        if self.lost is not None:
            GL = G @ self.lost
            noise = noise + 2 * _trace_of_square(GL) + np.einsum("...ii->...", GL) ** 2
        GS = G @ self.covariance
        squares = _trace_of_square(GS)
        traces = np.einsum("...ii->...", GS)
        sampling = (2 * (1 + self.excess) * squares + self.excess * traces**2) / self.n
        return np.asarray(np.sqrt(noise + np.maximum(sampling, 0.0)))

    def of_equations(self, b: FloatArray) -> FloatArray:
        """Return the covariance of the noise of M_Xy - M_XX b, y being the first feature."""
        tilde = np.concatenate([[1.0], -b])
        if self.shape is not None:
            turned = self.shape @ tilde
            own = tilde @ turned * self.shape[1:, 1:]
            return np.asarray(own + np.multiply.outer(turned[1:], turned[1:]))
        square = self.noise_sd[1:] ** 2
        shared = square[:, 1:] * np.multiply.outer(b, b)
        np.fill_diagonal(shared, square @ tilde**2)
        return np.asarray(shared)

    def of_forms(self, directions: FloatArray) -> FloatArray:
        """Return the variance of the noise of u' M u for each column u."""
        u = directions
        if self.shape is not None:
            return np.asarray(2 * np.einsum("i...,ij,j...->...", u, self.shape, u) ** 2)
        square = self.noise_sd**2
        once = np.einsum("i...,i->...", u**4, square.diagonal())
        return np.asarray(2 * np.einsum("i...,ij,j...->...", u**2, square, u**2) - once)

    def of_traces(self, weights: FloatArray) -> FloatArray:
        """Return T with (1, -b)' T (1, -b) equal to the trace of `weights` @ `of_equations(b)`."""
        if self.shape is None:
            square, own = self.noise_sd[1:] ** 2, weights.diagonal()
            T = np.diag(own @ square)
            T[1:, 1:] += (weights - np.diag(own)) * square[:, 1:]
            return T
        S = self.shape
        return np.asarray(np.sum(weights * S[1:, 1:]) * S + S[:, 1:] @ weights @ S[1:, :])

    @cached_property
    def of_squares(self) -> FloatArray:
        """Return a root of the mean of E_XX E_XX, where E is the noise."""
        if self.shape is None:
            return np.diag(np.sqrt((self.noise_sd[1:, 1:] ** 2).sum(axis=0)))
        S = self.shape[1:, 1:]
        values, vectors = np.linalg.eigh(S)
        roots = np.sqrt(np.maximum(values * (values + np.trace(S)), 0.0))
        return np.asarray((vectors * roots) @ vectors.T)


def _trace_of_square(matrices: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("...ij,...ji->...", matrices, matrices))


def check_noise(release: Release) -> tuple[float, int]:
    """Return the noise of a pair and the number of records, or refuse where one is not known."""
    if release.noise_sd is None or release.n_sampled is None:
        raise ParameterError(
            f"the release must say how much noise it has, and {release.name!r} does not: there are "
            "no intervals. Release with PrivateSparseCovariance, ScreenedCovariance or "
            "GaussianCovariance."
        )
    return release.noise_sd[0], release.n_sampled


def width_of(level: object) -> float:
    """Return how many deviations an interval of this level reaches, or refuse the level."""
    return float(special.ndtri(0.5 + check_level(level) / 2))


def seen_in_look(release: Release) -> BoolArray:
    """Return the features whose variance stands out of the noise of the last look.

    Rare flags and columns of few units have little noise there, and may drown in the first matrix.
    """
    look, seen = release.making.look, np.zeros(release.n_features, dtype=bool)
    if look is not None:
        own, noise = look.moments.values.diagonal(), look.moments.noise.diagonal()
        seen[look.features] = own > sure_level(len(own)) * np.sqrt(2) * noise
    return seen


def nothing_known(release: Release) -> BoolArray:
    """Return the features that are constant, as far as noise lets one see, or were not found."""
    noise = np.inf if release.noise_sd is None else release.noise_sd[1]
    lost = constant_mask(release.feature_scale, release.variances, noise)
    lost |= ~(release.integers.diagonal() > 0)
    lost &= ~seen_in_look(release)
    lost[list(release.making.unresolved)] = True
    return np.asarray(lost)


def uncertain(release: Release, features: IntArray) -> Uncertain:
    """Return the part of a release for these features."""
    scale = scales_of(release)[features]
    if is_sparse(release.integers):
        integers = release.integers[features][:, features].toarray()
    else:
        integers = release.integers[np.ix_(features, features)]
    values = integers * release.unit * np.multiply.outer(scale != 0, scale != 0)
    known = released_among(release, features)
    rows, columns = np.indices(values.shape).reshape(2, -1)
    with np.errstate(all="ignore"):
        found = put_right(release, (features[rows], features[columns]), values.ravel())
    values, noise = (each.reshape(values.shape) for each in found)
    noise = np.where(known, noise, 0.0)
    if not (np.isfinite(values).all() and np.isfinite(noise).all()):
        raise CapacityError(
            "entries of the release, with their noise, must be finite for questions, got some that "
            "no double can hold: release features in other units."
        )
    return Uncertain(
        features=features,
        values=values,
        noise_sd=noise,
        known=known,
        n=check_noise(release)[1],
        excess=excess_of(release, features),
        tail=coverage(release).tail[features],
    )


def relations(release: Release, features: IntArray) -> Uncertain:
    """Return the part of a release for these features that is best for relations among them.

    That is the last look, where there is one that has them all.
    """
    look = release.making.look
    if look is None or not np.isin(features, look.features).all():
        return with_missing(release, features)
    found, n = look.moments, check_noise(release)[1]
    places = np.searchsorted(look.features, features)
    block = np.ix_(places, places)
    scale = scales_of(release)[features]
    unit = np.multiply.outer(scale, scale)
    values, steady, shape = (
        each[block] * unit for each in (found.values, found.steady, found.noise)
    )
    first, own = uncertain(release, features), np.maximum(steady.diagonal(), 1e-300)
    finite = np.isfinite(values).all() and np.isfinite(shape).all()
    if not (finite and (values.diagonal() > 0).all()):  # of a release on disk, which was edited
        return with_missing(release, features)
    drawn = shape.diagonal()
    return Uncertain(
        features=features,
        values=values,
        noise_sd=np.sqrt(np.multiply.outer(drawn, drawn) + shape**2),
        known=np.ones(values.shape, dtype=bool),
        n=n,
        excess=found.spread - 1,
        tail=first.tail + np.log(np.maximum(first.values.diagonal() / own, 1.0)),
        shape=shape,
        steady=steady,
        first=first,
        lost=what_is_lost(found.bias, len(look.basis), values, shape, first),
    )


def what_is_lost(
    bias: float, size: int, values: FloatArray, shape: FloatArray, first: Uncertain
) -> FloatArray:
    """Return L of what shortening may leave in a look, as `Uncertain` has it.

    By `bias`, all directions may have lost something that no histogram shows. Others have lost more
    where the first matrix, whose variances are right, has more than the look. Where its noise is
    too large to say so, that is drawn to nothing.
    """
    units = np.multiply.outer(first.deviations, first.deviations)
    longer = np.exp(np.minimum(first.tail, _MOST_LONGER) / 2)
    noise = float(np.median(first.noise_sd / units))
    own, vectors = np.linalg.eigh(values / units)
    own = np.maximum(own, _ROUNDING)
    root = (vectors * np.sqrt(own)) @ vectors.T
    inverse = (vectors / np.sqrt(own + noise / _MOST_NOISE_OF_LOST)) @ vectors.T
    more = (
        first.values * np.multiply.outer(longer, longer) - values - _BY_CHANCE * size * shape
    ) / units
    more -= _BY_CHANCE * size * noise * np.eye(len(own))
    sizes, turned = np.linalg.eigh(inverse @ more @ inverse)
    turned = root @ turned
    found = (turned * np.maximum(sizes, 0.0)) @ turned.T
    return np.asarray((bias * root @ root + LOST_DIRECTIONS / size * found) * units)


def put_right(
    release: Release, places: tuple[IntArray, IntArray], values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return entries in the unit of the data, and the deviations of their noise.

    `values` are as they were released; what bounds on records took off is put back.
    """
    check_noise(release)
    law, scale = coverage(release), scales_of(release)
    deviation, kept = law.errors(places, values)
    sampling = law.sampling_sd(places, values)
    noise = np.sqrt(np.maximum(deviation**2 - sampling**2, 0.0)) / kept
    unit = scale[places[0]] * scale[places[1]]
    return values / kept * unit, noise * unit


def excess_of(release: Release, features: IntArray) -> float:
    """Return how much more than normal records these vary; 0/1 columns do not count."""
    others = np.setdiff1d(features, release.shared_places)
    return float(max(coverage(release).kurtosis[others].max(initial=NORMAL) / NORMAL - 1, 0.0))


def factor_estimate(release: Release) -> FloatArray | None:
    """Return the estimate where it is made of factors, which say more than the values, or None.

    What features have beside the factors must be positive, and noise may drown it: shares of the
    variances are drawn to their mean, by as much as noise makes them differ. Of pairs those count
    that are there beyond doubt, since a few hundred that are noise leave no inverse.
    """
    factors = factors_of(release)
    if factors is None:
        return None
    part = uncertain(release, np.arange(release.n_features))
    scale = scales_of(release)
    common = factors.factors.diagonal() * scale**2
    size = part.deviations**2
    own, noise = (part.values.diagonal() - common) / size, part.noise_sd.diagonal() / size
    there = ~nothing_known(release)
    weights = 1 / np.maximum(noise[there] ** 2 + own[there].var(), _ROUNDING)
    mean = float(np.average(own[there], weights=weights))
    mean = max(mean, _LEAST_OWN)
    spread = max(float(np.mean((own[there] - mean) ** 2 - noise[there] ** 2)), 0.0)
    drawn = (own * spread + mean * noise**2) / np.maximum(spread + noise**2, 1e-300)
    sure = sure_level(len(scale) ** 2) * check_noise(release)[0]
    rest = np.where(np.abs(factors.remainder) > sure, factors.remainder, 0.0)
    matrix = (factors.factors + rest) * np.multiply.outer(scale, scale)
    np.fill_diagonal(matrix, common + np.maximum(drawn, _LEAST_OWN * mean) * size)
    return np.asarray(matrix)


def with_missing(release: Release, features: IntArray) -> Uncertain:
    """Return the part of a release, in which pairs that were not released are unsure.

    They count as zero, give or take `missing_sd`. Pairs are selected by signs, which say less of a
    0/1 column of share p: theirs vary by 2 sqrt(p (1 - p)), so that more of a rare one is missed.
    """
    part = uncertain(release, features)
    if part.known.all():
        return part
    size = np.where(np.isin(features, release.shared_places), 0.5, part.deviations)
    doubt = missing_sd(release) * np.multiply.outer(size, size)
    doubt = np.minimum(doubt, np.multiply.outer(part.deviations, part.deviations))
    return replace(part, noise_sd=np.where(part.known, part.noise_sd, doubt))


def missing_sd(release: Release) -> float:
    """Return the likely size of correlations that were not released, as a standard deviation.

    Weak pairs among those that were released say it, or a multiple of the noise if that is less.
    """
    if release.selected is None:
        return 0.0
    assert release.noise_sd is not None
    every = max(1, release.selected.shape[1] // _MOST_ASKED)  # of very many, some tell it
    rows, columns = release.selected[:, ::every]
    variance = release.variances
    known = (variance[rows] > 0) & (variance[columns] > 0)
    rows, columns = rows[known], columns[known]
    size = np.sqrt(variance[rows] * variance[columns])
    values = np.abs(values_at(release.integers, rows, columns)) * release.unit
    values = (values / size)[values > release.making.threshold]
    noise = _OF_NOISE * release.noise_sd[0] / np.median(variance[variance > 0])
    weak = float(np.quantile(values, _WEAKEST)) if len(values) else 1.0
    return min(weak, float(noise), 1.0)
