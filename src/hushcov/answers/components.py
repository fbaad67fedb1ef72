"""Principal components of a release, with intervals and with how far directions may be off.

An error E moves eigenvalue k by v_k' E v_k and turns its direction towards every other by
v_j' E v_k over the difference of the two eigenvalues. The squares of these add up over many
features: noise makes large eigenvalues larger. What is added is known from the noise and from the
eigenvalues that came out, and is taken off again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from hushcov._arrays import BoolArray, FloatArray
from hushcov._validation import check_integer, check_level
from hushcov._words import counted
from hushcov.answers.parts import part
from hushcov.answers.spectrum import RIGHT_ANGLE, Spectrum, quantile, spectrum, taken_off
from hushcov.answers.tables import Answer
from hushcov.exceptions import ParameterError
from hushcov.release import Release

_DOMINATES = 0.9  # the part of the summed variance from which on one feature is most of it
TOLD_APART = 45.0  # degrees: a direction that may be off by more is not told from others


@dataclass(frozen=True, eq=False)
class Components(Answer):
    """Principal components of released features, the largest first.

    Parameters
    ----------
    features : ndarray of str
        Names of the features, in the order of the loadings.
    correlation : bool
        Whether these are components of the correlation matrix, else of the covariance.
    variance, variance_interval : ndarray
        Eigenvalues, less what noise adds to them, and ends of their intervals, one row each.
    share, share_interval : ndarray
        Which part of the summed variances they are.
    loadings, loading_interval : ndarray
        A unit vector in each column, and the ends for each entry. A direction is known up to its
        sign: the entry that is the largest by its size is positive.
    angle : ndarray
        How far each direction may be off, in degrees, at this level; 90 where it may be any.
    span_angle : ndarray
        The same of the space that a component and all before it span. It may be known where the
        directions in it are not, because their eigenvalues are alike.
    stands_out : ndarray of bool
        Whether a component is larger than noise makes one of features that are alike.
    n_standing_out : int
        How many of the first ones do.
    level : float
        Of the intervals and of the angles.
    left_out : tuple of str
        Features whose variance does not stand out of the noise.
    notes : tuple of str
        What to know before using this.
    """

    features: npt.NDArray[Any]
    correlation: bool
    variance: FloatArray
    variance_interval: FloatArray
    share: FloatArray
    share_interval: FloatArray
    loadings: FloatArray
    loading_interval: FloatArray
    angle: FloatArray
    span_angle: FloatArray
    stands_out: BoolArray
    n_standing_out: int
    level: float
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    centre: FloatArray
    unit: FloatArray

    def table(self) -> dict[str, npt.NDArray[Any]]:
        """One line for each component and feature: component, feature, loading, lower, upper."""
        d, k = self.loadings.shape
        return {
            "component": np.repeat(np.arange(1, k + 1), d),
            "feature": np.tile(self.features, k),
            "loading": self.loadings.T.ravel(),
            "lower": self.loading_interval[..., 0].T.ravel(),
            "upper": self.loading_interval[..., 1].T.ravel(),
        }

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """One line for each component: variance and share with intervals, angles, stands_out."""
        return {
            "component": np.arange(1, len(self.variance) + 1),
            "variance": self.variance,
            "lower": self.variance_interval[:, 0],
            "upper": self.variance_interval[:, 1],
            "share": self.share,
            "share_lower": self.share_interval[:, 0],
            "share_upper": self.share_interval[:, 1],
            "angle": self.angle,
            "span_angle": self.span_angle,
            "stands_out": self.stands_out,
        }

    def transform(self, rows: Any) -> FloatArray:
        """Project rows on the components: a frame with these features, or columns in their order.

        Not covered by the guarantee: projections of sensitive rows are a new, uncharged release.
        """
        if hasattr(rows, "columns"):
            missing = [name for name in self.features if name not in list(rows.columns)]
            if missing:
                raise ParameterError(
                    f"rows must have the column {missing[0]!r}, and does not: pass a frame with "
                    "the features of the components."
                )
            rows = rows[list(self.features)]
        values = np.asarray(rows, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.features):
            raise ParameterError(
                f"rows must have {counted(len(self.features), 'column')}, one for each feature, "
                f"got shape {values.shape}: pass the features in their order."
            )
        return np.asarray(((values - self.centre) / self.unit) @ self.loadings)


def components(
    release: Release,
    n_components: int | None = None,
    *,
    correlation: bool = True,
    features: Any = None,
    level: float = 0.95,
) -> Components:
    """Principal components of a release, with intervals from its noise and from sampling.

    Parameters
    ----------
    release : Release
        The document; nothing else is read.
    n_components : int, optional
        How many, the largest first. Without it those that stand out of the noise, if any.
    correlation : bool
        Of the correlation matrix, so that the unit of a feature does not matter; else of the
        covariance.
    features : sequence of str or int, optional
        Names or places; without them all whose variance stands out of the noise.
    level : float
        Of the intervals.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    level = check_level(level)
    of = part(release, features, correlation=correlation)
    if n_components is not None:
        cure = "leave it out for those that stand out."
        d = len(of.features)
        n_components = check_integer("n_components", n_components, at_least=1, at_most=d, cure=cure)
    found = spectrum(of, n_components or 0)
    assert release.noise_sd is not None
    norm = _error_norm(release, found)
    edges = found.edges(release.noise_sd) if norm is None else np.full(len(found.values), norm)
    out = found.standing_out(edges)
    k = out if n_components is None else n_components
    missing = taken_off(release, found, min(k, out) if norm is None else 0)
    parts = [
        _by_noise(found, each, level, float(missing[each]))
        if norm is None and each < out
        else _by_norm(found, each, float(edges[each]))
        for each in range(k)
    ]
    spans = _span_angles(found, k if norm is not None else min(k, out), edges, level)
    return _answer(release, found, parts, spans, (n_components, out, level))


def _span_angles(found: Spectrum, k: int, edges: FloatArray, level: float) -> FloatArray:
    """How far the space of the first components may be off, for each number of them.

    Either by the norm of the error over the gap that follows them, or by the sum of all squares of
    what turns one of them towards one of the others.
    """
    values = np.append(found.values, -np.inf if len(found.values) == len(found.vectors) else np.nan)
    angles = np.full(k, RIGHT_ANGLE)
    rooms = []
    for each in range(k):
        gap = float(values[each] - values[each + 1]) - float(edges[each])
        sine = float(edges[each]) / gap if gap > 0 else math.inf
        bounds = [math.asin(sine)] if sine < 1 else []
        if found.of.complete:
            rooms.append(found.turned(each))
            squares = np.concatenate([row[each + 1 :] for row in rooms])
            bounds.append(math.atan(math.sqrt(quantile(squares, level))))
        best = math.degrees(min(bounds, default=math.inf))
        angles[each] = best if best < TOLD_APART else RIGHT_ANGLE
    return angles


@dataclass(frozen=True)
class _One:
    """One component: eigenvalue and share with half widths, angle, ends of the loadings.

    `missing` is which share of the eigenvalue bounds may have taken off.
    """

    variance: float
    half: float
    share: float
    share_half: float
    angle: float
    loadings: FloatArray
    ends: FloatArray
    missing: float = 0.0


def _by_noise(found: Spectrum, k: int, level: float, missing: float) -> _One:
    """From the law of the noise: all pairs are there, with their noise."""
    score = float(special.ndtri(0.5 + level / 2))
    vector, total = found.vectors[:, k], float(found.of.matrix.diagonal().sum())
    added, doubt = found.added(k)
    value = float(found.values[k]) - added
    squares, by_feature = found.turns(k)
    angle = math.degrees(math.atan(math.sqrt(quantile(squares, level))))
    ends = np.tile([-1.0, 1.0], (len(vector), 1))
    if angle < TOLD_APART:
        # The released direction is shorter along the true one.
        longer = vector * math.sqrt(1 + float(squares.sum()))
        half = score * np.sqrt(by_feature)
        ends = np.stack([np.minimum(vector, longer) - half, np.maximum(vector, longer) + half], 1)
    return _One(
        variance=value,
        half=score * math.sqrt(float(found.own_moves[k])) + doubt,
        share=value / total,
        share_half=score * found.share_deviation(k, total) + doubt / total,
        angle=angle if angle < TOLD_APART else RIGHT_ANGLE,
        loadings=vector,
        ends=np.clip(ends, -1.0, 1.0),
        missing=missing,
    )


def _by_norm(found: Spectrum, k: int, norm: float) -> _One:
    """From the norm of the error: eigenvalues move by no more (Weyl), nor do directions far.

    A direction turns by no more than the norm over the gap to its neighbours (Davis and Kahan).
    """
    value, vector = float(found.values[k]), found.vectors[:, k]
    total = float(found.of.matrix.diagonal().sum())
    gap = float(np.abs(np.delete(found.values, k) - value).min()) - norm
    angle = math.degrees(math.asin(norm / gap)) if gap > norm else RIGHT_ANGLE
    half = 2 * math.sin(math.radians(angle) / 2) if angle < TOLD_APART else math.inf
    return _One(
        variance=value,
        half=norm,
        share=value / total,
        share_half=norm / total,
        angle=angle if angle < TOLD_APART else RIGHT_ANGLE,
        loadings=vector,
        ends=np.clip(np.stack([vector - half, vector + half], axis=1), -1.0, 1.0),
    )


def _error_norm(release: Release, found: Spectrum) -> float | None:
    """What the norm of the error is at most, where not all pairs were released; None where they
    were, NaN where nothing says.
    """
    if found.of.complete:
        return None
    structure = release.making.structure
    return math.nan if structure is None else structure.most * float(found.values[0])


def _answer(
    release: Release,
    found: Spectrum,
    parts: list[_One],
    spans: FloatArray,
    asked: tuple[int | None, int, float],
) -> Components:
    of, k, (wanted, out, level) = found.of, len(parts), asked
    size = 1.0 if of.correlation else float(of.unit[0]) ** 2
    d, total = len(of.features), float(of.matrix.diagonal().sum())
    variance = np.array([max(each.variance, 0.0) for each in parts])
    share = np.array([each.share for each in parts]).clip(0.0, 1.0)
    halves = np.array([[each.half, each.share_half] for each in parts]).reshape(k, 2, 1)
    missing = np.array([[0.0, each.missing] for each in parts]).reshape(k, 2)
    ends = np.array([-1.0, 1.0])
    centre = np.zeros(release.n_features) if release.location is None else release.location
    angles = np.full(k, RIGHT_ANGLE)
    angles[: len(spans)] = spans
    return Components(
        features=np.array([str(name) for name in of.names], dtype=object),
        correlation=of.correlation,
        variance=variance * size,
        variance_interval=size
        * np.clip(variance[:, None] * (1 + missing) + halves[:, 0] * ends, 0.0, total),
        share=share,
        share_interval=np.clip(share[:, None] * (1 + missing) + halves[:, 1] * ends, 0.0, 1.0),
        loadings=np.array([each.loadings for each in parts]).reshape(k, d).T,
        loading_interval=np.swapaxes(
            np.array([each.ends for each in parts]).reshape(k, d, 2), 0, 1
        ),
        angle=np.array([each.angle for each in parts]),
        span_angle=angles,
        stands_out=np.arange(k) < out,
        n_standing_out=out,
        level=level,
        left_out=of.left_out,
        notes=(*of.notes, *_notes(release, found, wanted, out)),
        centre=centre[of.features],
        unit=of.unit if of.correlation else np.ones(d),
    )


def _of_units(found: Spectrum) -> list[str]:
    """Where the answer is about units more than about records."""
    of, own = found.of, found.of.matrix.diagonal()
    if of.correlation:
        two = "Two correlated features have these directions whatever the records are"
        return [f"{two}: only the shares tell something."] if len(own) == 2 else []
    if own.max() <= _DOMINATES * own.sum():
        return []
    return [
        f"{of.names[own.argmax()]} has nearly all of the variance, because of its unit, and so the "
        "first component. Components of the correlations count all features alike."
    ]


def _notes(release: Release, found: Spectrum, wanted: int | None, out: int) -> list[str]:
    """What to know of this answer."""
    said = _of_units(found)
    if out == 0:
        said.append(
            "No component stands out of the noise: all eigenvalues may be the same, and no "
            "direction is known."
        )
    elif wanted is None:
        said.append(
            f"{counted(out, 'component')} of {len(found.of.features):,} taken: those that "
            "stand out of the noise."
        )
    elif wanted > out:
        said.append(f"Only the first {out:,} of {wanted:,} stand out of the noise.")
    if not found.of.complete and release.making.structure is None:
        said.append(
            "There are no intervals: not all pairs were released, and nothing says what the others "
            "add up to. PrivateSparseCovariance and GaussianCovariance have them."
        )
    elif not found.of.complete:
        said.append(
            "Not all pairs were released, so that intervals and angles follow from the estimated "
            "norm of the error. They are wide."
        )
    return said
