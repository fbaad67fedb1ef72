"""Partial correlations of a release: how two features go together, given all the others.

They come from the inverse of the matrix, which small eigenvalues dominate, and noise drowns those
first. So the inverse is made where the smallest eigenvalue stands clear of the noise: of all
features, or else within groups of features that found pairs connect. The mean of what noise adds to
an inverse is known, and taken off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse, special
from scipy.linalg import eigh

from hushcov._arrays import BoolArray, FloatArray, IntArray, Matrix
from hushcov._validation import check_level
from hushcov._words import counted, some_of
from hushcov.answers.components import AskedMatrix, asked_matrix
from hushcov.answers.tables import Answer
from hushcov.answers.uncertain import width_of
from hushcov.postprocess import is_sparse, noise_norm, sure_level
from hushcov.release import Release
from hushcov.release.estimate import in_scales
from hushcov.text.printing import AnswerPage, between

_CLEAR = 1.25  # the smallest eigenvalue over the noise's largest, from which on inverses hold
_FINDS = 0.25  # a correlation; groups need that such pairs are found
_ROUNDS, _SETTLED = 200, 1e-10  # of the inverse without what noise adds
_MOST_DROPPED = 20  # near-duplicates that are looked for in a group; half of it at most
# Columns that the smallest eigenvector involves (its participation ratio) where a few nearly
# determine each other; that of noise involves a third of all.
_MOST_INVOLVED = 5.0
_AS_WEAK = 0.9  # of the largest weight in the smallest eigenvector: the later column is left out
_MOST_NAMED = 5  # columns in a sentence
_DETERMINES = 0.4  # of the largest weight times correlation: a column that determines another


@dataclass(frozen=True, eq=False, repr=False)
class PartialCorrelations(Answer):
    """Partial correlations, with intervals, and which of them are edges of the graph.

    Parameters
    ----------
    features : ndarray of str
        Names, in the order of the matrices.
    matrix : ndarray
        Partial correlations, 1 on the diagonal; NaN where there is none: noise, or features that
        no found pair connects.
    lower, upper : ndarray
        Ends of their intervals; NaN where there is no value.
    noise : ndarray of bool
        Pairs that have no value because noise drowns the inverse.
    edges : ndarray of bool
        Pairs that are related given the others. Of all releases of features without any such pair,
        a share of at most 1 - `level` shows one or more (Bonferroni over all pairs of features).
    groups : ndarray of int
        Which features were inverted together: a pair is given the others of its group.
    level : float
        Of the intervals and of the edges.
    warning : str
        What cannot be trusted, in a sentence; empty where there is nothing.
    left_out : tuple of str
        Features whose variance does not stand out of the noise.
    notes : tuple of str
        What else to know before using this.
    """

    features: npt.NDArray[Any]
    matrix: FloatArray
    lower: FloatArray
    upper: FloatArray
    noise: BoolArray
    edges: BoolArray
    groups: IntArray
    level: float
    warning: str
    left_out: tuple[str, ...]
    notes: tuple[str, ...]

    def table(self) -> dict[str, npt.NDArray[Any]]:
        """Return a line for each pair of one group, the strongest first.

        Columns: feature_1, feature_2, partial_correlation, lower, upper, edge, noise.
        """
        rows, columns = np.triu_indices(len(self.features), 1)
        same = self.groups[rows] == self.groups[columns]
        rows, columns = rows[same], columns[same]
        order = np.argsort(-np.nan_to_num(np.abs(self.matrix[rows, columns])), kind="stable")
        at = rows[order], columns[order]
        return {
            "feature_1": self.features[at[0]],
            "feature_2": self.features[at[1]],
            "partial_correlation": self.matrix[at],
            "lower": self.lower[at],
            "upper": self.upper[at],
            "edge": self.edges[at],
            "noise": self.noise[at],
        }

    def page(self) -> AnswerPage:
        """Show the pairs that have a value, and how many are edges."""
        table, edges = self.table(), int(np.count_nonzero(np.triu(self.edges, 1)))
        pairs = counted(len(table["edge"]), "pair")
        there = ~np.isnan(table["partial_correlation"])
        words = f"{edges:,} of {pairs} stand out" if there.any() else f"unknown, of {pairs}"
        legend = (
            "partial: correlation of two features among records that are alike in the others; "
            f"{between(self.level)}. edge: it is not zero, beyond doubt; all pairs together have a "
            f"wrong edge in at most {100 * (1 - self.level):.3g} % of releases."
        )
        return AnswerPage(
            "Partial correlations",
            [("edges", words)],
            {name: column[there] for name, column in table.items()},
            legend,
            self.notes,
            self.warning or None,
        )


def partial_correlations(
    release: Release, features: Any = None, level: float = 0.95
) -> PartialCorrelations:
    """Return partial correlations; `Answers.partial_correlations` has the parameters.

    Features that are not named are not held fixed.
    """
    level = check_level(level)
    of = asked_matrix(release, features, correlation=True, related=True)
    assert release.noise_sd is not None
    groups, whole = _groups(release, of)
    d = len(of.features)
    values, deviation = np.full((2, d, d), np.nan)
    noise, lost, dropped = np.zeros((d, d), dtype=bool), 0, list[tuple[int, IntArray]]()
    for group in range(int(groups.max()) + 1):
        inside = np.flatnonzero(groups == group)
        kept, twins = _without_duplicates(of, inside, release.noise_sd)
        found = _inverted(of, kept, release.noise_sd)
        noise[np.ix_(inside, inside)] = True
        if found is None:
            lost += len(inside)
        else:
            block = np.ix_(kept, kept)
            values[block], deviation[block] = found
            noise[block] = False
            dropped += twins
    np.fill_diagonal(noise, False)
    np.fill_diagonal(values, 1.0)
    np.fill_diagonal(deviation, np.nan)
    lower, upper = _ends(values, deviation, width_of(level))
    pairs = d * (d - 1) / 2
    far = _ends(values, deviation, float(-special.ndtri((1 - level) / (2 * pairs))))
    levels = release.exclude_each_other(of.features[:, None], of.features)
    said = []
    if (np.triu(levels, 1) & ~np.isnan(values)).any():
        said.append(
            "Levels of one category exclude each other, so that no pair of them is an edge."
        )
    if not whole:
        sizes = np.bincount(groups)
        said.append(
            f"Each partial correlation is given the other features of its group: "
            f"{counted(len(sizes), 'group')} that found pairs connect, of at most "
            f"{counted(int(sizes.max()), 'feature')}. Features of different groups count as "
            "unrelated."
        )
    return PartialCorrelations(
        features=np.array([str(name) for name in of.names], dtype=object),
        matrix=values,
        lower=lower,
        upper=upper,
        noise=noise,
        edges=np.asarray((far[0] > 0) | (far[1] < 0)) & ~levels,
        groups=groups,
        level=level,
        warning=_warning(of, lost, dropped),
        left_out=of.left_out,
        notes=(*of.notes, *said),
    )


def _ends(values: FloatArray, deviation: FloatArray, score: float) -> tuple[FloatArray, FloatArray]:
    """Return intervals that stay within -1 and 1, by Fisher's transformation."""
    with np.errstate(divide="ignore", invalid="ignore"):
        middle, half = np.arctanh(values), score * deviation / (1 - values**2)
        return np.tanh(middle - half), np.tanh(middle + half)


def _dense(matrix: Matrix, inside: IntArray) -> FloatArray:
    found = matrix[inside][:, inside]
    return np.asarray(found.toarray() if is_sparse(found) else found)


def _clear(of: AskedMatrix, inside: IntArray, noise_sd: tuple[float, float]) -> bool:
    """Return whether the smallest eigenvalue of some features stands clear of the noise."""
    if of.shape is not None:  # in units of the noise, which is alike in all directions then
        block = np.ix_(inside, inside)
        least = float(eigh(_dense(of.matrix, inside), of.shape[block], eigvals_only=True)[0])
        return least > _CLEAR * 2 * math.sqrt(len(inside))
    least = float(np.linalg.eigvalsh(_dense(of.matrix, inside))[0])
    return least > _CLEAR * noise_norm(of.factors[inside], *noise_sd)


def _groups(release: Release, of: AskedMatrix) -> tuple[IntArray, bool]:
    """Return which features are inverted together, and whether that is all of them.

    All, where all pairs were released and noise is small or drowns most pairs; else those that
    found pairs connect.
    """
    d, every = len(of.features), np.arange(len(of.features))
    assert release.noise_sd is not None
    if not of.complete:
        graph = sparse.csr_array(of.matrix != 0)
    else:
        limit = max(release.making.threshold, sure_level(d * d) * release.noise_sd[0])
        drowned = limit * float(np.median(of.factors)) ** 2 > _FINDS
        if drowned or _clear(of, every, release.noise_sd):
            return np.zeros(d, dtype=np.int64), True
        graph = sparse.csr_array(np.abs(_dense(in_scales(release), of.features)) > limit)
    found = sparse.csgraph.connected_components(graph, directed=False)[1]
    return found.astype(np.int64), bool(found.max() == 0)


def _inverted(
    of: AskedMatrix, inside: IntArray, noise_sd: tuple[float, float]
) -> tuple[FloatArray, FloatArray] | None:
    """Return partial correlations and their deviations; None where they are noise."""
    matrix, variance = _dense(of.matrix, inside), _dense(of.variance, inside)
    if len(inside) == 1:
        return np.ones((1, 1)), np.full((1, 1), np.nan)
    if (variance == 0).any() or not _clear(of, inside, noise_sd):
        return None
    shape = None if of.shape is None else of.shape[np.ix_(inside, inside)]
    inverse = _without_noise(matrix, variance, shape)
    if inverse is None:
        return None
    a = inverse / np.sqrt(inverse.diagonal())
    values = -inverse / np.sqrt(np.multiply.outer(inverse.diagonal(), inverse.diagonal()))
    np.fill_diagonal(values, 1.0)
    if shape is None:
        noise = np.array([_noise_of(a, values[i], variance, i) for i in range(len(a))])
    else:
        noise = _noise_of_look(a.T @ shape @ a, values)
    if of.lost is not None:
        noise = noise + _noise_of_look(a.T @ of.lost[np.ix_(inside, inside)] @ a, values)
    sampling = (1 + of.excess) * (1 - values**2) ** 2 / max(of.n - len(a), 1)
    return values, np.sqrt(np.maximum(noise, 0.0) + sampling)


def _without_noise(
    matrix: FloatArray, variance: FloatArray, shape: FloatArray | None
) -> FloatArray | None:
    """Return the inverse without the mean of what noise adds; None where there is none.

    The inverse Q of the mean solves Q (M + D(Q)) = 1, where D(Q) is the mean of N Q N for noise N.
    """
    own = variance.diagonal()
    across = variance - np.diag(own)
    inverse = np.linalg.inv(matrix)
    for _ in range(_ROUNDS):
        before = inverse
        if shape is None:
            added = across * inverse
            np.fill_diagonal(added, variance @ inverse.diagonal())
        else:
            added = np.trace(shape @ inverse) * shape + shape @ inverse @ shape
        inverse = np.linalg.inv(matrix + added)
        if np.abs(inverse - before).max() <= _SETTLED * np.abs(inverse).max():
            break
    return np.asarray(inverse) if np.linalg.eigvalsh(inverse)[0] > 0 else None


def _noise_of_look(T: FloatArray, r: FloatArray) -> FloatArray:
    """Return variances of all partial correlations by the noise of a look, as `_noise_of` does.

    T is A'SA, where A has the columns a_i: a_i' N a_j and a_k' N a_l have the covariance
    T_ik T_jl + T_il T_jk.
    """
    own = T.diagonal()
    pairs = np.multiply.outer(own, own) + T**2
    both = r * 2 * T * np.add.outer(own, own)
    return np.asarray(pairs + both + r**2 / 2 * (np.add.outer(own**2, own**2) + 2 * T**2))


def _noise_of(a: FloatArray, r: FloatArray, variance: FloatArray, i: int) -> FloatArray:
    """Return variances of the partial correlations of feature i by noise N.

    The one with j moves by a_i' N a_j + r (a_i' N a_i + a_j' N a_j) / 2.
    """
    own = variance.diagonal()
    across = variance - np.diag(own)
    x, P = a[:, [i]] ** 2 * np.ones_like(a), a * a[:, [i]]
    squares = a**2

    def covariances(left: FloatArray, right: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("aj,aj->j", left, across @ right))

    both = covariances(P, P) + covariances(x, squares)
    mine, theirs = 2 * covariances(x, x), 2 * covariances(squares, squares)
    with_mine, with_theirs = 2 * covariances(x, P), 2 * covariances(P, squares)
    each_other = 2 * covariances(P, P)
    pairs = both + r**2 / 4 * (mine + theirs + 2 * each_other) + r * (with_mine + with_theirs)
    return np.asarray(pairs + own @ (P + r / 2 * (x + squares)) ** 2)


def _without_duplicates(
    of: AskedMatrix, inside: IntArray, noise_sd: tuple[float, float]
) -> tuple[IntArray, list[tuple[int, IntArray]]]:
    """Leave out near-duplicates until the smallest eigenvalue stands clear of the noise.

    Returns the features that are left and, for each that is not, those that nearly determine it:
    the ones with large weights beside it in the eigenvector of the smallest eigenvalue, and
    correlated with it. All are returned where that eigenvector involves many, or leaving out a few
    does not help.
    """
    kept, dropped = inside, list[tuple[int, IntArray]]()
    for _ in range(min(_MOST_DROPPED, len(inside) // 2) + 1):
        if len(kept) < 2 or _clear(of, kept, noise_sd):
            return kept, dropped
        matrix = _dense(of.matrix, kept)
        weights = np.abs(np.linalg.eigh(matrix)[1][:, 0])
        if 1 / float((weights**4).sum()) > _MOST_INVOLVED:
            break
        worst = int(np.flatnonzero(weights >= _AS_WEAK * weights.max())[-1])
        weights *= np.abs(matrix[worst])  # others may share the eigenvector by chance
        weights[worst] = 0.0
        dropped.append((int(kept[worst]), kept[weights >= _DETERMINES * weights.max()]))
        kept = np.delete(kept, worst)
    return inside, []


def _warning(of: AskedMatrix, lost: int, dropped: list[tuple[int, IntArray]]) -> str:
    """Name the features that are left out with those that they nearly duplicate; count others."""
    said = []
    for place, near in dropped:
        others = some_of(of.names[near].tolist(), _MOST_NAMED) or "the others"
        said.append(
            f"{of.names[place]} is left out, and not held fixed: noise is as large as what tells "
            f"it from {others}."
        )
    if lost:
        said.append(
            f"The inverse of the released matrix is noise for {lost:,} of "
            f"{counted(len(of.features), 'feature')}: noise is as large as its smallest "
            "eigenvalues, or pairs that belong to it were not released. Their partial correlations "
            "are left out; ask for fewer features, or release more records."
        )
    return " ".join(said)
