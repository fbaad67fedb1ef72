"""Eigenvalues and directions of a released matrix, and what noise and sampling do to them.

An error E moves eigenvalue k by v_k' E v_k, and turns its direction towards direction j by
v_j' E v_k over the difference of both eigenvalues. The squares of these add up: noise in many
features makes large eigenvalues larger. With the eigenvalues that came out, noise and all, in the
place of the true ones, that is what free probability has for large matrices (the subordination of
a free convolution), so that it can be taken off again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray
from hushcov.answers.parts import Part
from hushcov.postprocess import is_sparse, noise_norm
from hushcov.release import Release

_DENSE = 1_000  # up to here all eigenvectors are computed
_FEW = 64  # of larger matrices
RIGHT_ANGLE = 90.0
_DRAWS = 4_000  # of simulated records
_AS_LARGE = 1 - 1e-6  # of the largest: rounding errors do not choose the sign
# Two eigenvalues that are the same come out further apart than 5.1 deviations of a move in one
# release of 25: what is nearer may be mixed in any way.
_TIE = 26.0


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues and eigenvectors of a part, the largest first: all, or the first few."""

    of: Part
    values: FloatArray
    vectors: FloatArray
    _known: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def moves(self, k: int) -> FloatArray:
        """Variances of v_j' E v_k for every other j, of the error E of the matrix."""
        if k not in self._known:
            self._known[k] = self._noise(k, self.vectors), self._sampling(k)
        noise, sampling = self._known[k]
        return noise + sampling

    def _noise(self, k: int, left: FloatArray) -> FloatArray:
        """Variances of x' N v_k for noise N and every column x, which are orthogonal to v_k."""
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
        """The part of sampling of the moves."""
        of, values = self.of, np.maximum(self.values, 0.0)
        product = values * values[k]
        traces = product / 2
        if of.correlation:
            P, c = self.vectors * self.vectors[:, [k]], (self.values + self.values[k]) / 2
            traces -= 2 * c * product * np.einsum("aj,aj->j", P, P)
            traces += c**2 * np.einsum("aj,aj->j", P, (of.matrix * of.matrix) @ P)
        traces[k] = 0.0
        return np.asarray(2 * (1 + of.excess) * np.maximum(traces, 0.0) / of.n)

    @cached_property
    def own_moves(self) -> FloatArray:
        """Variances of v_j' E v_j for every j."""
        of, squares, values = self.of, self.vectors**2, np.maximum(self.values, 0.0)
        own = of.variance.diagonal()
        c = self.values if of.correlation else np.zeros(len(values))
        across = of.variance @ squares - own[:, None] * squares
        noise = 2 * np.einsum("aj,aj->j", squares, across) + (1 - c) ** 2 * (own @ squares**2)
        traces = values**2 - 2 * c * values**2 * (squares**2).sum(axis=0)
        traces += c**2 * np.einsum("aj,aj->j", squares, (of.matrix * of.matrix) @ squares)
        sampling = 2 * (1 + of.excess) * np.maximum(traces, 0.0)
        if not of.correlation:
            sampling += of.excess * values**2
        return np.asarray(np.maximum(noise, 0.0) + sampling / of.n)

    def share_deviation(self, k: int, total: float) -> float:
        """Standard deviation of the share of a component; `total` is the summed variance."""
        of, v, value = self.of, self.vectors[:, k], max(float(self.values[k]), 0.0)
        if of.correlation:
            return math.sqrt(self.own_moves[k]) / total
        own, share = of.variance.diagonal(), value / total
        noise = 2 * float(v**2 @ (of.variance @ v**2 - own * v**2))
        noise += float(own @ (v**2 - share) ** 2)
        traces = value**2 * (1 - 2 * share) + share**2 * float((of.matrix * of.matrix).sum())
        return math.sqrt(max(noise, 0.0) + 2 * (1 + of.excess) * max(traces, 0.0) / of.n) / total

    def _apart(self, k: int) -> FloatArray:
        """Squared differences to all others, less what the same eigenvalues may come out apart."""
        mixed = np.maximum(self.moves(k), (self.own_moves + self.own_moves[k]) / 4)
        room = (self.values[k] - self.values) ** 2 - _TIE * mixed
        room[k] = np.inf
        return np.asarray(room)

    def turned(self, k: int) -> FloatArray:
        """Mean squares of what turns a direction towards each other one; infinite for near ones."""
        room = self._apart(k)
        with np.errstate(over="ignore"):  # as near as infinitely near
            near = np.full(len(room), np.inf)
            return np.asarray(np.divide(self.moves(k), room, out=near, where=room > 0))

    def added(self, k: int) -> tuple[float, float]:
        """What errors add to an eigenvalue, and what of that is doubtful: that of near ones."""
        gaps, moves = self.values[k] - self.values, self.moves(k)
        weight = gaps**2 + moves
        found = np.divide(moves * gaps, weight, out=np.zeros_like(gaps), where=weight > 0)
        near = self._apart(k) <= 0
        # Among many that are the same, this is but half of what is added.
        return float(found.sum()), 2 * float(np.abs(found[near]).sum())

    def turns(self, k: int) -> tuple[FloatArray, FloatArray]:
        """Mean squares of what turns a direction: towards each other one, and by feature.

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
            energy = self._energy(k)
            rest = max(float(energy.sum() - self.moves(k).sum()), 0.0)
            squares, by_feature = np.append(squares, rest / last**2), by_feature + energy / last**2
        return squares, by_feature

    def _energy(self, k: int) -> FloatArray:
        """Mean square of every entry of E v_k."""
        of, v, value = self.of, self.vectors[:, k], max(float(self.values[k]), 0.0)
        sampling = (1 + of.excess) * value * np.maximum(of.matrix.diagonal(), 0.0) / of.n
        return np.asarray(of.variance @ v**2 + sampling)

    def standing_out(self, beyond: FloatArray) -> int:
        """How many of the first exceed the mean of themselves and all after by so much."""
        d, trace = len(self.vectors), float(self.of.matrix.diagonal().sum())
        before = np.concatenate([[0.0], np.cumsum(self.values)[:-1]])
        mean = (trace - before) / (d - np.arange(len(self.values)))
        fails = np.flatnonzero(~(self.values - mean > beyond))
        return int(fails[0]) if len(fails) else len(self.values)

    def edges(self, noise_sd: tuple[float, float]) -> FloatArray:
        """What noise and sampling hardly ever exceed among directions of equal variance."""
        of, d = self.of, len(self.vectors)
        trace = float(of.matrix.diagonal().sum())
        before = np.concatenate([[0.0], np.cumsum(self.values)[:-1]])
        mean = np.maximum((trace - before) / (d - np.arange(len(self.values))), 0.0)
        one = math.sqrt((1 + of.excess) / of.n)
        sampling = noise_norm(np.ones(d), one, math.sqrt(2.0) * one)
        sampling += d / of.n  # of a matrix of squares
        return np.asarray(np.hypot(noise_norm(of.factors, *noise_sd), mean * sampling))


def spectrum(of: Part, fewest: int) -> Spectrum:
    """The eigenvalues and eigenvectors of a part: all of a small matrix, else the first."""
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


def taken_off(release: Release, found: Spectrum, number: int) -> FloatArray:
    """Which share of each eigenvalue the bound on records may have taken off, beyond what was put
    back: long records are those that are far out in a direction that many features share.

    What is put back is the mean over all directions. For normal records, by simulation.
    """
    square = _squared_bound(release)
    if square is None or number == 0:
        return np.zeros(number)
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


def _squared_bound(release: Release) -> float | None:
    """The squared bound on the norm of a record, in units of the scales; None without one."""
    bound = release.parameter("norm", "norm")
    if bound is None:
        names = ("norm_bound", "radius", "half_width")
        known = [each for each in map(release.parameter, names) if each is not None]
        bound = known[0] * known[1] / known[2] if len(known) == len(names) else None
    return None if bound is None else bound * bound  # infinite, where ** would fail


def quantile(squares: FloatArray, level: float) -> float:
    """Of a sum of squares of independent normals with these mean squares (Satterthwaite)."""
    total = float(squares.sum())
    if not 0 < total < math.inf:
        return total
    shares = squares / total
    freedom = 1 / float(shares @ shares)
    return total / freedom * float(special.chdtri(freedom, 1 - level))
