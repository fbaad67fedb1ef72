"""Principal components of a release, with intervals.

An error E moves eigenvalue k by v_k' E v_k, and turns its direction towards direction j by
v_j' E v_k over the difference of both eigenvalues. The squares of these add up: noise in many
features makes large eigenvalues larger. With the eigenvalues that came out, noise and all, in the
place of the true ones, that is what free probability has for large matrices (the subordination of
a free convolution), so that it can be taken off again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse, special
from scipy.optimize import isotonic_regression

from hushcov._arrays import BoolArray, FloatArray, IntArray, Matrix
from hushcov._validation import check_integer, check_level
from hushcov._words import counted, number
from hushcov.answers.columns import chosen_varying, doubts
from hushcov.answers.names import feature_names
from hushcov.answers.tables import Answer
from hushcov.answers.uncertain import (
    check_noise,
    excess_of,
    put_right,
    relations,
    uncertain,
    width_of,
)
from hushcov.exceptions import ParameterError
from hushcov.postprocess import hard_threshold, is_sparse, multiply_outer, noise_norm
from hushcov.release import Release
from hushcov.release.coverage import record_bound
from hushcov.release.estimate import in_scales, scales_of
from hushcov.text.printing import AnswerPage, between

_DENSE = 1_000  # up to here all eigenvectors are computed
_FEW = 64  # of larger matrices
RIGHT_ANGLE = 90.0
_DRAWS = 4_000  # of simulated records
_AS_LARGE = 1 - 1e-6  # of the largest: rounding errors do not choose the sign
# Two eigenvalues that are the same come out further apart than 5.1 deviations of a move in one
# release of 25: what is nearer may be mixed in any way.
_TIE = 26.0


@dataclass(frozen=True, eq=False)
class AskedMatrix:
    """The matrix of some features in the unit of a question, and the law of its error.

    `variance` holds the variances of the entries' noise, and `unit` what the features were divided
    by: their standard deviations where the matrix is one of correlations, else one number, so that
    squares of the covariance can be told apart from 0 and infinity. `complete` says whether all
    pairs are there as they were released; else those that did not stand out are zero.
    """

    features: IntArray
    names: FloatArray
    matrix: Matrix
    variance: Matrix
    unit: FloatArray
    n: int
    excess: float
    correlation: bool
    complete: bool
    factors: FloatArray  # scales over units: the noise of a pair is the product of two, times sd
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    shape: FloatArray | None = None  # of the noise of a look, as `Uncertain` has it
    lost: FloatArray | None = None


def asked_matrix(
    release: Release, features: Any, *, correlation: bool, related: bool = False
) -> AskedMatrix:
    """Return the part of a release for a question, without levels that follow from others.

    `related` asks for the last look, if there is one, which is better for an inverse.
    """
    hidden = {"drowned": not correlation, "related": related}
    places, left_out, said = chosen_varying(release, features, "ask of", **hidden)
    _, n = check_noise(release)
    matrix: Matrix
    noise: Matrix
    excess, shape, lost = excess_of(release, places), None, None
    if release.selected is not None:
        kept = hard_threshold(in_scales(release), release.making.threshold)
    if is_sparse(release.integers):
        whole = sparse.coo_array(kept[places][:, places])
        at, size = (whole.row, whole.col), whole.shape
        values, deviations = put_right(release, (places[at[0]], places[at[1]]), whole.data)
        matrix = sparse.csr_array((values, at), shape=size)
        noise = sparse.csr_array((deviations, at), shape=size)
    else:
        found = relations(release, places) if related else uncertain(release, places)
        matrix, noise, shape, lost = found.values, found.noise_sd, found.shape, found.lost
        if release.selected is not None:  # what the estimate leaves at zero
            gone = np.asarray(kept)[np.ix_(places, places)] == 0
            np.fill_diagonal(gone, False)
            matrix[gone] = noise[gone] = 0.0
    unit = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    if not correlation:  # a power of two, so that no digit changes
        unit = np.full(len(places), 2.0 ** np.round(np.log2(unit.max())))
    matrix, noise = matrix.copy(), noise.copy()
    multiply_outer(matrix, 1 / unit)
    multiply_outer(noise, 1 / unit)
    return AskedMatrix(
        features=places,
        names=feature_names(release)[places],
        matrix=matrix,
        variance=noise * noise,
        unit=unit,
        n=n,
        excess=excess if shape is None else found.excess,
        correlation=correlation,
        complete=release.selected is None,
        factors=scales_of(release)[places] / unit,
        left_out=left_out,
        notes=(*said, *doubts(release, places, 0)),
        shape=None if shape is None else shape / np.multiply.outer(unit, unit),
        lost=None if lost is None else lost / np.multiply.outer(unit, unit),
    )


# ---- eigenvalues and directions ----


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues and eigenvectors of a part, the largest first: all, or the first few."""

    of: AskedMatrix
    values: FloatArray
    vectors: FloatArray
    _known: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def moves(self, k: int) -> FloatArray:
        """Return variances of v_j' E v_k for every other j, of the error E of the matrix."""
        if k not in self._known:
            self._known[k] = self._noise(k, self.vectors), self._sampling(k)
        noise, sampling = self._known[k]
        return noise + sampling

    def _noise(self, k: int, left: FloatArray) -> FloatArray:
        """Return variances of x' N v_k for noise N and every column x, each orthogonal to v_k."""
        of, v = self.of, self.vectors[:, k]
        own, P = of.variance.diagonal(), left * v[:, None]
        found = (left**2).T @ (of.variance @ v**2 - own * v**2)
        found += np.einsum("aj,aj->j", P, of.variance @ P - own[:, None] * P)
        if of.correlation:  # what dividing by released deviations takes back
            P = P - (of.matrix @ left + self.values[k] * left) * v[:, None] / 2
        found += own @ P**2
        if left is self.vectors:
            found[k] = 0.0
        # Terms cancel where noise turns nothing, as with two correlated features; not to the digit.
        return np.asarray(np.maximum(found, 0.0))

    def _sampling(self, k: int) -> FloatArray:
        """Return the part of sampling of the moves."""
        of, values = self.of, np.maximum(self.values, 0.0)
        product = values * values[k]
        traces = product / 2
        if of.correlation:
            P, c = self.vectors * self.vectors[:, [k]], (self.values + self.values[k]) / 2
            traces -= 2 * c * product * np.einsum("aj,aj->j", P, P)
            traces += c**2 * np.einsum("aj,aj->j", P, (of.matrix * of.matrix) @ P)
        traces[k] = 0.0
        return np.asarray(2 * (1 + of.excess) * np.maximum(traces, 0.0) / of.n)

    def _variances(self, own: FloatArray | float) -> FloatArray:
        """Return variances of v' E v + sum(own * diag(E)) for every direction v and column of own.

        The first part is noise, and the second is sampling.
        """
        of, squares, values = self.of, self.vectors**2, np.maximum(self.values, 0.0)
        own, square = np.broadcast_to(own, squares.shape), of.matrix * of.matrix
        noise_own = of.variance.diagonal()
        across = of.variance @ squares - noise_own[:, None] * squares
        noise = 2 * np.einsum("aj,aj->j", squares, across) + noise_own @ (squares + own) ** 2
        traces = values**2 * (1 + 2 * np.einsum("aj,aj->j", own, squares))
        traces += np.einsum("aj,aj->j", own, square @ own)
        trace = np.maximum(self.values + of.matrix.diagonal() @ own, 0.0)
        sampling = 2 * (1 + of.excess) * np.maximum(traces, 0.0) + of.excess * trace**2
        return np.asarray(np.maximum(noise, 0.0) + sampling / of.n)

    @cached_property
    def own_moves(self) -> FloatArray:
        """Variances of eigenvalues, v_j' E v_j for every j."""
        return self._variances(-self.values * self.vectors**2 if self.of.correlation else 0.0)

    @cached_property
    def share_deviations(self) -> FloatArray:
        """Standard deviations of the shares of the components."""
        moves = self.own_moves
        if not self.of.correlation:  # the sum of the variances moves, too
            moves = self._variances(-np.maximum(self.values, 0.0) / self.total)
        return np.sqrt(moves) / self.total

    def _apart(self, k: int) -> FloatArray:
        """Return squared differences to all others, less what equal ones may come out apart."""
        mixed = np.maximum(self.moves(k), (self.own_moves + self.own_moves[k]) / 4)
        gaps = (self.values[k] - self.values) ** 2 - _TIE * mixed
        gaps[k] = np.inf
        return np.asarray(gaps)

    def turned(self, k: int) -> FloatArray:
        """Return mean squares of the turns towards each other direction; infinite for near ones."""
        gaps = self._apart(k)
        with np.errstate(over="ignore"):  # as near as infinitely near
            near = np.full(len(gaps), np.inf)
            return np.asarray(np.divide(self.moves(k), gaps, out=near, where=gaps > 0))

    def added(self, k: int) -> tuple[float, float]:
        """Return the bias of an eigenvalue, and the doubtful part of it, from near ones."""
        gaps, moves = self.values[k] - self.values, self.moves(k)
        weight = gaps**2 + moves
        found = np.divide(moves * gaps, weight, out=np.zeros_like(gaps), where=weight > 0)
        near = self._apart(k) <= 0
        # Among many that are the same, this is but half of what is added.
        return float(found.sum()), 2 * float(np.abs(found[near]).sum())

    def turns(self, k: int) -> tuple[FloatArray, FloatArray]:
        """Return mean squares of the turns of a direction: towards each other one, and by feature.

        They are infinite where another eigenvalue is too near.
        """
        squares = self.turned(k)
        last = float(self.values[k] - self.values[-1])
        few = len(self.values) < len(self.vectors)
        if not np.isfinite(squares).all() or (few and last <= 0):
            return squares, np.full(len(self.vectors), np.inf)
        gaps = np.where(self.values <= self.values[k], 1.0, -1.0) * np.sqrt(self._apart(k))
        towards = (self.vectors / gaps) @ self.vectors.T
        by_feature = self._noise(k, towards) + (self.vectors / gaps) ** 2 @ self._known[k][1]
        if few:  # all others are at least as far as the last
            v, value = self.vectors[:, k], max(float(self.values[k]), 0.0)
            energy = self.of.variance @ v**2  # mean square of every entry of E v_k
            own = np.maximum(self.of.matrix.diagonal(), 0.0)
            energy = energy + (1 + self.of.excess) * value * own / self.of.n
            rest = max(float(energy.sum() - self.moves(k).sum()), 0.0)
            squares, by_feature = np.append(squares, rest / last**2), by_feature + energy / last**2
        return squares, by_feature

    @property
    def total(self) -> float:
        """Summed variances."""
        return float(self.of.matrix.diagonal().sum())

    @property
    def _rest(self) -> FloatArray:
        """Mean of each eigenvalue and all that come after it."""
        before = np.concatenate([[0.0], np.cumsum(self.values)[:-1]])
        return np.asarray((self.total - before) / (len(self.vectors) - np.arange(len(before))))

    def apart(self, beyond: FloatArray) -> int:
        """Count the first that exceed the mean of themselves and all after by so much."""
        fails = np.flatnonzero(~(self.values - self._rest > beyond))
        return int(fails[0]) if len(fails) else len(self.values)

    def standing_out(self, beyond: FloatArray) -> int:
        """Count the components that exceed the mean of all by more than chance allows.

        This is parallel analysis (Horn 1965). Later components differ from each other (`apart`),
        but have no more of the variance than a single column.
        """
        return int(np.count_nonzero(self.values - self._rest[0] > beyond[0]))

    def edges(self, noise_sd: tuple[float, float]) -> FloatArray:
        """Return bounds that noise and sampling hardly exceed where all variances are equal."""
        of, d = self.of, len(self.vectors)
        one = math.sqrt((1 + of.excess) / of.n)
        sampling = noise_norm(np.ones(d), one, math.sqrt(2.0) * one)
        sampling += d / of.n  # of a matrix of squares
        mean = np.maximum(self._rest, 0.0)
        return np.asarray(np.hypot(noise_norm(of.factors, *noise_sd), mean * sampling))


def spectrum(of: AskedMatrix, fewest: int) -> Spectrum:
    """Return the eigenvalues and eigenvectors of a part: all of a small matrix, else the first."""
    d = len(of.features)
    if d <= _DENSE:
        matrix = of.matrix.toarray() if is_sparse(of.matrix) else of.matrix
        values, vectors = np.linalg.eigh(matrix)
    else:
        from scipy.sparse.linalg import eigsh

        start = np.random.default_rng(4).standard_normal(d)
        number = min(d - 1, max(_FEW, 2 * fewest))
        values, vectors = eigsh(of.matrix, k=number, which="LA", v0=start)
    order = np.argsort(-values, kind="stable")
    vectors = vectors[:, order]
    sizes = np.abs(vectors)
    largest = np.argmax(sizes >= _AS_LARGE * sizes.max(axis=0), axis=0)  # the first of these
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return Spectrum(of, values[order], vectors * signs)


def bound_losses(release: Release, found: Spectrum, number: int) -> FloatArray:
    """Return the share of each eigenvalue that the bound on records may have taken off.

    Long records are those that are far out in a direction that many features share; what is put
    back is the mean over all directions. For normal records, by simulation.
    """
    bound = release.parameter("norm", "norm") or record_bound(release)
    if bound is None or number == 0:
        return np.zeros(number)
    square = bound * bound  # infinite, where ** would fail
    of, roots = found.of, np.sqrt(np.maximum(found.values, 0.0))
    z = np.random.default_rng(5).standard_normal((_DRAWS, len(roots)))
    y = (z * roots) @ (found.vectors / of.factors[:, None]).T
    others = np.ones(release.n_features, dtype=bool)
    others[of.features] = False
    beside = float(np.maximum(release.integers.diagonal()[others], 0).sum()) * release.unit
    norms = np.einsum("ij,ij->i", y, y) + beside
    lost = np.maximum(1 - square / norms, 0.0)
    mean = float(lost @ norms / norms.sum())
    return np.asarray(np.maximum(lost @ z[:, :number] ** 2 / _DRAWS - mean, 0.0))


def quantile(squares: FloatArray, level: float) -> float:
    """Return a quantile of a sum of squares of normals with these mean squares (Satterthwaite)."""
    total = float(squares.sum())
    if not 0 < total < math.inf:
        return total
    shares = squares / total
    freedom = 1 / float(shares @ shares)
    return total / freedom * float(special.chdtri(freedom, 1 - level))


_DOMINATES = 0.9  # the part of the summed variance from which on one feature is most of it
LARGEST_KNOWN_ANGLE = 45.0  # degrees: a direction that may be off by more counts as unknown


@dataclass(frozen=True, eq=False, repr=False)
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
        Whether a component has more variance than noise and sampling give one of unrelated
        features (parallel analysis).
    n_standing_out : int
        Number of the first components that do.
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
        """Return component, feature, loading, lower and upper; a line for each pair of these."""
        d, k = self.loadings.shape
        return {
            "component": np.repeat(np.arange(1, k + 1), d),
            "feature": np.tile(self.features, k),
            "loading": self.loadings.T.ravel(),
            "lower": self.loading_interval[..., 0].T.ravel(),
            "upper": self.loading_interval[..., 1].T.ravel(),
        }

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return variance and share with intervals, angles and stands_out of each component."""
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

    def page(self) -> AnswerPage:
        """Show shares and directions in words, and the loadings, the strongest of each first."""
        summary = self.summary()
        rows = zip(*(column.tolist() for column in summary.values()), strict=True)
        lines = [dict(zip(summary, row, strict=True)) for row in rows]
        facts = [("stand out", counted(self.n_standing_out, "component"))]
        facts += [(f"component {k}", _component_words(each)) for k, each in enumerate(lines, 1)]
        legend = (
            "loading: how much of the feature is in the direction, from -1 to 1; "
            f"{between(self.level)}."
        )
        table = self.table()
        order = np.lexsort([-np.abs(table["loading"]), table["component"]])
        table = {name: column[order] for name, column in table.items()}
        return AnswerPage("Principal components", facts, table, legend, self.notes)

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


def _component_words(line: Mapping[str, float]) -> str:
    """Say how much a component explains; what is nearly all or nothing is not rounded to it."""
    words = []
    for each in (line["share"], line["share_lower"], line["share_upper"]):
        text = "below 0.1 %" if 0 < each < 1e-3 else f"{number(100 * each, 3)} %"
        words.append("above 99.9 %" if 0 < 1 - each < 1e-3 else text)
    share, low, high = words
    angle = line["angle"]
    off = f"direction off by {'at most ' if angle >= 1 else 'less than '}{max(angle, 1):.0f} degree"
    off = "its direction is not known" if angle >= 90 else off + "s" * (angle >= 1.5)
    between = "" if low in (high, share) else f", between {low} and {high}"
    return f"{share} of the variance{between}; {off}"


def components(
    release: Release,
    n_components: int | None = None,
    *,
    correlation: bool = True,
    features: Any = None,
    level: float = 0.95,
) -> Components:
    """Return principal components; `Answers.components` has the parameters."""
    level = check_level(level)
    of = asked_matrix(release, features, correlation=correlation)
    if n_components is not None:
        cure = "leave it out for those that stand out."
        d = len(of.features)
        n_components = check_integer("n_components", n_components, at_least=1, at_most=d, cure=cure)
    found = spectrum(of, n_components or 0)
    assert release.noise_sd is not None
    norm = None  # of the error, where not all pairs were released; NaN where nothing says it
    if not of.complete:
        structure = release.making.structure
        norm = math.nan if structure is None else structure.most * float(found.values[0])
    edges = found.edges(release.noise_sd) if norm is None else np.full(len(found.values), norm)
    apart, out = found.apart(edges), found.standing_out(edges)
    k = out if n_components is None else n_components
    missing = bound_losses(release, found, min(k, apart) if norm is None else 0)
    parts = [
        _by_noise(found, each, level, float(missing[each]))
        if norm is None and each < apart
        else _by_norm(found, each, float(edges[each]))
        for each in range(k)
    ]
    spans = np.full(k, RIGHT_ANGLE)
    known = k if norm is not None else min(k, apart)
    spans[:known] = _span_angles(found, known, edges, level)
    notes = (*of.notes, *_notes(release, found, n_components, out))
    return _answer(release, found, parts, spans, out, level, notes)


def _span_angles(found: Spectrum, k: int, edges: FloatArray, level: float) -> FloatArray:
    """Return how far the space of the first components may be off, for each number of them.

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
        angles[each] = best if best < LARGEST_KNOWN_ANGLE else RIGHT_ANGLE
    return angles


@dataclass(frozen=True)
class _One:
    """One component: eigenvalue, half widths of it and of its share, angle, ends of the loadings.

    `missing` is which share of the eigenvalue bounds may have taken off.
    """

    variance: float
    half: float
    share_half: float
    angle: float
    ends: tuple[FloatArray, FloatArray]
    missing: float = 0.0


def _by_noise(found: Spectrum, k: int, level: float, missing: float) -> _One:
    """Describe a component by the law of the noise: all pairs are there, with their noise."""
    score, vector = width_of(level), found.vectors[:, k]
    added, doubt = found.added(k)
    squares, by_feature = found.turns(k)
    with np.errstate(invalid="ignore"):  # infinite where the direction is not known
        # The released direction is shorter along the true one.
        longer = vector * math.sqrt(1 + float(squares.sum()))
    half = score * np.sqrt(by_feature)
    return _One(
        variance=float(found.values[k]) - added,
        half=score * math.sqrt(float(found.own_moves[k])) + doubt,
        share_half=score * float(found.share_deviations[k]) + doubt / found.total,
        angle=math.degrees(math.atan(math.sqrt(quantile(squares, level)))),
        ends=(np.minimum(vector, longer) - half, np.maximum(vector, longer) + half),
        missing=missing,
    )


def _by_norm(found: Spectrum, k: int, norm: float) -> _One:
    """Describe a component by the norm of the error: eigenvalues move by no more (Weyl).

    A direction turns by no more than the norm over the gap to its neighbours (Davis and Kahan).
    """
    value, vector = float(found.values[k]), found.vectors[:, k]
    gap = float(np.abs(np.delete(found.values, k) - value).min()) - norm
    angle = math.degrees(math.asin(norm / gap)) if gap > norm else RIGHT_ANGLE
    half = 2 * math.sin(math.radians(angle) / 2)
    return _One(value, norm, norm / found.total, angle, (vector - half, vector + half))


def _answer(
    release: Release,
    found: Spectrum,
    parts: list[_One],
    spans: FloatArray,
    out: int,
    level: float,
    notes: tuple[str, ...],
) -> Components:
    """Put components side by side, in the unit of the data; directions may be known or not."""
    of, k, d, total = found.of, len(parts), len(found.of.features), found.total
    size = 1.0 if of.correlation else float(of.unit[0]) ** 2
    numbers = [[x.variance, x.half, x.share_half, x.missing, x.angle] for x in parts]
    variance, half, share_half, missing, angle = np.array(numbers).reshape(k, 5).T
    variance = np.maximum(variance, 0.0)
    if k and np.isfinite(variance).all():  # less what noise adds, near ones may change places
        variance = isotonic_regression(variance, increasing=False).x
    share = (variance / total).clip(0.0, 1.0)
    loading_ends = np.array([x.ends for x in parts]).reshape(k, 2, d)
    unknown = ~(angle < LARGEST_KNOWN_ANGLE)
    loading_ends[unknown] = np.array([[-1.0], [1.0]])

    def interval(value: FloatArray, half: FloatArray, most: float) -> FloatArray:
        ends = np.stack([value - half, value * (1 + missing) + half], axis=1)
        return np.asarray(ends.clip(0.0, most))

    centre = np.zeros(release.n_features) if release.location is None else release.location
    return Components(
        features=np.array([str(name) for name in of.names], dtype=object),
        correlation=of.correlation,
        variance=variance * size,
        variance_interval=size * interval(variance, half, total),
        share=share,
        share_interval=interval(share, share_half, 1.0),
        loadings=found.vectors[:, :k],
        loading_interval=np.moveaxis(loading_ends.clip(-1.0, 1.0), (0, 1, 2), (1, 2, 0)),
        angle=np.where(unknown, RIGHT_ANGLE, angle),
        span_angle=spans,
        stands_out=np.arange(k) < out,
        n_standing_out=out,
        level=level,
        left_out=of.left_out,
        notes=notes,
        centre=centre[of.features],
        unit=of.unit if of.correlation else np.ones(d),
    )


def _notes(release: Release, found: Spectrum, wanted: int | None, out: int) -> list[str]:
    """Return remarks on this answer."""
    said, of, own = [], found.of, found.of.matrix.diagonal()
    if of.correlation and len(own) == 2:
        said.append(
            "Two correlated features have these directions whatever the records are: only the "
            "shares tell something."
        )
    elif not of.correlation and own.max() > _DOMINATES * own.sum():
        said.append(
            f"{of.names[own.argmax()]} has nearly all of the variance, because of its unit, and so "
            "the first component. Components of the correlations count all features alike."
        )
    if out == 0:
        said.append(
            "No component stands out of the noise: none has more of the variance than noise and "
            "sampling give one of unrelated features."
        )
    elif wanted is None:
        said.append(
            f"{counted(out, 'component')} of {len(of.features):,} taken: those that stand out, "
            "with more of the variance than noise and sampling give one of unrelated features."
        )
    elif wanted > out:
        said.append(
            f"Only the first {out:,} of {wanted:,} stand out: the others have no more of the "
            "variance than noise and sampling give one of unrelated features."
        )
    if not of.complete and release.making.structure is None:
        said.append(
            "There are no intervals: not all pairs were released, and nothing says what the others "
            "add up to. PrivateSparseCovariance and GaussianCovariance have them."
        )
    elif not of.complete:
        said.append(
            "Not all pairs were released, so that intervals and angles follow from the estimated "
            "norm of the error. They are wide."
        )
    return said
