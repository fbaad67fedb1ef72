"""Part of a released matrix, with what it may be off by: noise, sampling, and what bounds took.

All questions are answered from this. Values are as they were released, neither thresholded nor
projected, so that noise has its known law; what bounds on records took off is put back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse, special

from hushcov._arrays import BoolArray, FloatArray, IntArray, Matrix
from hushcov._validation import check_level, listed, meant
from hushcov._words import counted, some_of
from hushcov.answers.names import MOST_ASKED, feature_names, positions, stands_for
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.postprocess import (
    hard_threshold,
    is_sparse,
    lost_features,
    multiply_outer,
    sure_level,
    values_at,
)
from hushcov.release import Release
from hushcov.release.coverage import NORMAL, coverage, noise_of
from hushcov.release.estimate import factors_of, in_scales, scales_of
from hushcov.release.view import paired_with, released_among, rule_of
from hushcov.tables.cells import folded, vocabulary


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
    """

    features: IntArray
    values: FloatArray
    noise_sd: FloatArray
    known: BoolArray
    n: int
    excess: float
    tail: FloatArray

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
        return replace(self, values=self.values / unit, noise_sd=self.noise_sd / unit)

    def part(self, places: IntArray) -> Uncertain:
        """Return the part of some features, given by position."""
        block = np.ix_(places, places)
        return replace(
            self,
            features=self.features[places],
            values=self.values[block],
            noise_sd=self.noise_sd[block],
            known=self.known[block],
            tail=self.tail[places],
        )

    @property
    def n_zero(self) -> int:
        """How many pairs were not released, and count as zero."""
        return int(np.count_nonzero(~self.known)) // 2

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


def width_of(level: object) -> float:
    """How many deviations an interval of this level reaches; the level is checked."""
    return float(special.ndtri(0.5 + check_level(level) / 2))


def uncertain(release: Release, features: IntArray) -> Uncertain:
    """The part of a release for these features."""
    scale = scales_of(release)[features]
    if is_sparse(release.integers):
        integers = release.integers[features][:, features].toarray()
    else:
        integers = release.integers[np.ix_(features, features)]
    values = integers * release.unit * np.multiply.outer(scale != 0, scale != 0)
    known = released_among(release, features)
    rows, columns = np.indices(values.shape).reshape(2, -1)
    with np.errstate(all="ignore"):
        found = _put_right(release, (features[rows], features[columns]), values.ravel())
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
        excess=_excess(release, features),
        tail=coverage(release).tail[features],
    )


def _put_right(
    release: Release, places: tuple[IntArray, IntArray], values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return entries in the unit of the data, and the deviations of their noise.

    `values` are as they were released; what bounds on records took off is put back.
    """
    _, n = check_noise(release)
    law, scale, variance = coverage(release), scales_of(release), release.variances
    deviation, kept = law.errors(release, places, values, variance)
    sampling = law.sampling_sd(places, values, variance, n)
    noise = np.sqrt(np.maximum(deviation**2 - sampling**2, 0.0)) / kept
    unit = scale[places[0]] * scale[places[1]]
    return values / kept * unit, noise * unit


def _excess(release: Release, features: IntArray) -> float:
    """Return how much more than normal records these vary; 0/1 columns do not count."""
    others = np.setdiff1d(features, release.shared_places)
    return float(max(coverage(release).kurtosis[others].max(initial=NORMAL) / NORMAL - 1, 0.0))


_LEAST_OWN = 0.1  # of a variance, beside factors
_ROUNDING = 1e-30  # of shares of variances, squared
_BY_CHANCE = 0.05  # how often any feature is a partner of a target that has none
_WEAKEST = 0.1  # the part of the released pairs that counts as weak
_MOST_ASKED = 1_000_000  # pairs by which that is found
_OF_NOISE = 6.0  # that a pair may have and not be found


def refuse_unknown(release: Release, name: str, features: IntArray) -> None:
    """Refuse features of which nothing is known."""
    unknown = nothing_known(release)
    lost = features[unknown[features]].tolist()
    if unknown.all():
        raise ParameterError(
            f"{name} must be found, and nothing was found in this release: all of it is noise, and "
            "no question can be answered. See its verdict."
        )
    if lost:
        do, cure = ("do", "leave them out") if len(lost) > 1 else ("does", "leave it out")
        cure = "choose another one" if name == "target" else cure
        raise ParameterError(
            f"{name} must be found, got {listed(feature_names(release)[lost])}, which {do} not "
            f"vary or cannot be told from noise: {cure}."
        )


def nothing_known(release: Release) -> BoolArray:
    """Features that are constant, were not found, or have a variance that is not positive."""
    lost = (scales_of(release) == 0) | ~(release.integers.diagonal() > 0)
    lost[list(release.making.unresolved)] = True
    return np.asarray(lost)


def partners(release: Release, target: int) -> IntArray:
    """Features whose pair with the target was found beyond doubt, the strongest first."""
    d = release.n_features
    _, threshold = rule_of(release)
    others = np.arange(d)
    if release.of_candidates:  # no other pair was looked at
        others = paired_with(release, np.array([target]))
    others = others[~release.exclude_each_other(others, np.array(target))]
    others = others[~nothing_known(release)[others]]
    values = values_at(release.integers, np.full(len(others), target), others) * release.unit
    variance = release.variances
    noise_sd, n_sampled = check_noise(release)
    deviation = np.sqrt(variance[others] * variance[target] / n_sampled)
    deviation = np.hypot(deviation, noise_sd)
    by_chance = float(special.ndtri(1 - _BY_CHANCE / (2 * max(len(others), 1))))
    found = (np.abs(values) > threshold) & (np.abs(values) > by_chance * deviation)
    strength = np.abs(values) / np.sqrt(variance[others])
    return np.asarray(others[found][np.argsort(-strength[found], kind="stable")])


def of_factors(release: Release) -> FloatArray | None:
    """The estimate where it is made of factors, which say more than the values; None elsewhere.

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
    """The part of a release for these features, in which pairs that were not released are unsure.

    They count as zero, give or take `missing_sd`.
    """
    part = uncertain(release, features)
    if part.known.all():
        return part
    unit = np.multiply.outer(part.deviations, part.deviations)
    doubt = missing_sd(release) * unit
    return replace(part, noise_sd=np.where(part.known, part.noise_sd, doubt))


@dataclass(frozen=True, eq=False)
class EntryLaw:
    """The joint law of the entries of a matrix on and below its diagonal, column by column.

    That is the order of vech, and of lavaan. Errors are those against the population: sampling,
    and what the release added to it. Covariances are times `part.n`.

    Parameters
    ----------
    part : Uncertain
        The matrix.
    rows, columns : ndarray
        Where the entries stand.
    noise_sd : ndarray
        Deviation of the error of each entry by itself: its noise, and of a pair that was not
        released what it may be.
    shared_sd : ndarray
        Deviation of each by the one error that all share: what bounds on records took off.
    """

    part: Uncertain
    rows: IntArray
    columns: IntArray
    noise_sd: FloatArray
    shared_sd: FloatArray

    @property
    def released(self) -> BoolArray:
        """Entries that were released; the others are zero in any sample."""
        return np.asarray(self.part.known[self.rows, self.columns])

    def sampling(self) -> FloatArray:
        """Covariance of the entries of records without noise, which lavaan calls Gamma."""
        S, rows, columns, excess = self.part.covariance, self.rows, self.columns, self.part.excess
        pairs = S[np.ix_(rows, rows)] * S[np.ix_(columns, columns)]
        pairs += S[np.ix_(rows, columns)] * S[np.ix_(columns, rows)]
        own = S[rows, columns]
        return np.asarray((1 + excess) * pairs + excess * np.multiply.outer(own, own))

    def total(self) -> FloatArray:
        """Covariance of the entries of this release, which lavaan takes as NACOV."""
        found, gone = self.sampling(), ~self.released
        found[gone] = found[:, gone] = 0.0
        return found + self.added()

    def added(self) -> FloatArray:
        """Covariance that the release adds to that of sampling."""
        shared = np.multiply.outer(self.shared_sd, self.shared_sd)
        return np.asarray(self.part.n * (shared + np.diag(self.noise_sd**2)))

    def variances(self) -> tuple[FloatArray, FloatArray]:
        """Diagonals of `sampling` and `total`, for matrices of any size."""
        S, excess, own = self.part.covariance, self.part.excess, self.part.covariance.diagonal()
        square = S[self.rows, self.columns] ** 2
        product = own[self.rows] * own[self.columns]
        sampling = (1 + excess) * (product + square) + excess * square
        added = self.part.n * (self.noise_sd**2 + self.shared_sd**2)
        return sampling, np.where(self.released, sampling, 0.0) + added


def law_of_entries(release: Release, features: IntArray) -> EntryLaw:
    """Return the law of the released entries of these features.

    Values are those before any threshold and shrinkage, so that their noise is known. Pairs that
    were not released are zero: surely where it is public that no others covary, else give or take
    `missing_sd`.

    Privacy
    -------
    Post-processing of the release, covered by its guarantee.
    """
    part, known, scale = with_missing(release, features), coverage(release), scales_of(release)
    columns, rows = np.triu_indices(len(features))
    places, there = (features[rows], features[columns]), part.known[rows, columns]
    raw = np.asarray(values_at(release.integers, *places), dtype=np.float64) * release.unit
    with np.errstate(all="ignore"):
        kept = known.errors(release, places, raw, release.variances)[1]
        unit = scale[places[0]] * scale[places[1]] / kept
        shared = known.shared_errors(places, raw, release.variances) * unit
        noise = noise_of(release, places) * unit
    public = release.of_candidates and release.parameters.get("adaptive_width") is not True
    doubt = np.zeros_like(noise) if public else part.noise_sd[rows, columns]
    noise, shared = np.where(there, noise, doubt), np.where(there, shared, 0.0)
    return EntryLaw(part, rows, columns, noise, shared)


def missing_sd(release: Release) -> float:
    """About how large correlations are that were not released, as a standard deviation.

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
    values = np.abs(values_at(release.integers, rows, columns)) * release.unit / size
    noise = _OF_NOISE * release.noise_sd[0] / np.median(variance[variance > 0])
    weak = float(np.quantile(values, _WEAKEST)) if len(values) else 1.0
    return min(weak, float(noise), 1.0)


def doubts(release: Release, features: IntArray, n_zero: int) -> list[str]:
    """Return remarks, in sentences, on an answer that uses these features."""
    said, known = [], coverage(release)
    fails = features[(known.heavy | ~known.holds)[features]].tolist()
    if fails:
        names = some_of(feature_names(release)[fails].tolist(), _MOST_LISTED)
        said.append(
            f"Values far away were cut down, of {names}: intervals may miss. Transforms of such "
            "columns (log, winsorise, rank) lose less."
        )
    if n_zero:
        said.append(
            f"{counted(n_zero, 'pair')} of these features did not stand out, and count as "
            f"correlations of 0, give or take {missing_sd(release):.2g}."
        )
    return said


# Of the summed variances: below is about what one answer in a hundred leaves. And the deviation of
# its noise from which on nobody can tell.
_CONSTANT, _UNSURE = 0.05, 0.1
_WIDTH = 2.0  # deviations
_MOST_NAMED = 8  # in a sentence
_ALL = 0.9  # of the records, by the means, where not all pairs were released


def adds_up(release: Release, places: IntArray) -> bool:
    """Whether columns of a category add up to nearly the same in all records, by the release."""
    if len(places) < 2 or release.noise_sd is None or release.n_sampled is None:
        return False
    part = uncertain(release, places)
    if not part.known.all():
        return release.location is not None and float(release.location[places].sum()) > _ALL
    size = float(np.maximum(part.values.diagonal(), 0.0).sum())
    if size == 0:
        return False
    of_noise = np.tril(part.noise_sd * (2 - np.eye(len(places)))) / size
    doubt = float(np.sqrt((of_noise**2).sum()))
    return doubt < _UNSURE and float(part.values.sum()) / size < _CONSTANT + _WIDTH * doubt


def without_references(release: Release, places: IntArray) -> tuple[IntArray, list[str]]:
    """Leave out the last level of each category that adds up, and say so."""
    said = []
    for each in release.categories.values():
        inside = np.intersect1d(each, places)
        if adds_up(release, inside):
            places = places[places != inside[-1]]
            last, others = in_words(release, inside[-1:]), in_words(release, inside[:-1])
            said.append(f"{last} is left out, as what to compare {others} with.")
    return places, said


def in_words(release: Release, places: IntArray) -> str:
    """The names of columns in a sentence."""
    names = [str(name) for name in feature_names(release)[places]]
    if len(names) > _MOST_NAMED:
        names[_MOST_NAMED:] = [f"{len(names) - _MOST_NAMED:,} more"]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


def spelt_out(release: Release, features: list[Any]) -> tuple[list[Any], list[str]]:
    """Features, with the columns of a category in the place of its name; and what must be said.

    Levels of which nothing is known are left out. A transformed column may be given by its own
    name, too.
    """
    names, found, said = feature_names(release), list[Any](), list[str]()
    for each in features:
        here = np.array(stands_for(release, each), dtype=np.int64)
        if not isinstance(each, str) or not len(here) or meant(each, list(names[here])):
            found.append(each)
            continue
        places = _known_places(release, here)
        found += [str(name) for name in names[places] if name not in found]
        said.append(f"{each} stands for {in_words(release, places)}.")
    return found, said


def _known_places(release: Release, places: IntArray) -> IntArray:
    """Those of which something is known; all if there is none."""
    found = places[~nothing_known(release)[places]]
    return found if len(found) else places


def answered(release: Release, category: str, answer: str) -> dict[str, float] | None:
    """Values of all columns of a category in a record of this answer; None where there is none.

    A category of two answers may have one column: remote=no is remote=yes at 0. A column of zeros
    and ones has words for them, too: smoker=yes is 1.
    """
    names, known = feature_names(release), meant(category, release.categories)
    if known is None:
        here, word = stands_for(release, category), vocabulary().get(folded(answer))
        two_valued = here and here[0] in release.making.indicators
        return {str(names[here[0]]): word} if two_valued and word is not None else None
    category, places = known, release.categories[known]
    column = meant(f"{category}={answer}", list(names[places])) or f"{category}={answer}"
    lost = column in names[nothing_known(release)]
    yes_or_no = {f"{category}=yes", f"{category}=no"}
    if column not in names[places] and not (
        len(places) == 1 and {column, str(names[places[0]])} == yes_or_no
    ):
        return None
    places = (
        places if lost else _known_places(release, places)
    )  # the question is refused, and says why
    if adds_up(release, places):
        places = places[:-1]
    return {str(name): float(name == column) for name in names[places]}


_MOST_LISTED = 5  # features in a sentence


@dataclass(frozen=True, eq=False)
class AskedMatrix:
    """The matrix of some features in the unit of a question, and the law of its error.

    `variance` holds the variances of the entries' noise, and `unit` what the features were divided
    by: their standard deviations where the matrix is one of correlations, else one number, so that
    squares of the covariance can be told apart from 0 and infinity. `complete`
    says whether all pairs are there as they were released; else those that did not stand out are
    zero.
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


def chosen(
    release: Release, features: Any, name: str, *, drowned: bool = False
) -> tuple[IntArray, tuple[str, ...]]:
    """Places of the features asked for, all that can be used if None, and who is left out.

    With `drowned`, features whose variance noise hides can be used where factors were found: these
    show in many pairs together.
    """
    names, good = feature_names(release), np.ones(release.n_features, dtype=bool)
    if release.noise_sd is not None:
        structure, good = release.making.structure, scales_of(release) > 0
        if not (drowned and structure is not None and structure.rank):
            # a variance beyond what noise makes of a constant
            good &= ~lost_features(release.variances, release.noise_sd[1])
        good[list(release.making.unresolved)] = False
    if features is None and np.count_nonzero(good) > MOST_ASKED:
        raise ParameterError(
            f"{name} is required for a release of more than {MOST_ASKED:,} features, got None of "
            f"{release.n_features:,}: name those to look at, such as a window of columns."
        )
    if features is None:
        return np.flatnonzero(good), tuple(names[~good])
    found = positions(release, features)
    bad = [repr(str(name)) for name in names[found[~good[found]]]]
    if bad:
        have, them = ("has", "it") if len(bad) == 1 else ("have", "them")
        raise ParameterError(
            "features must have a variance that stands out of the noise, and "
            f"{some_of(bad, _MOST_LISTED)} {have} none: leave {them} out."
        )
    return found, ()


def say_left_out(names: tuple[str, ...]) -> list[str]:
    """Name features that were asked for with all others, and were not found."""
    words = "left out, whose variance does not stand out of the noise"
    named = f"{counted(len(names), 'feature')} {words}: {some_of(names, _MOST_LISTED)}."
    return [named] if names else []


def part(release: Release, features: Any, *, correlation: bool, fewest: int = 2) -> AskedMatrix:
    """The part of a release for a question, without levels that follow from others."""
    places, left_out = chosen(release, features, "features", drowned=not correlation)
    places, said = without_references(release, places)
    if len(places) < fewest:
        raise ParameterError(
            f"features must be at least {fewest} that vary beyond the noise, got {len(places)}: "
            "there is nothing to ask of fewer."
        )
    _, n = check_noise(release)
    matrix: Matrix
    noise: Matrix
    if release.selected is not None:
        kept = hard_threshold(in_scales(release), release.making.threshold)
    if is_sparse(release.integers):
        whole = sparse.coo_array(kept[places][:, places])
        at, shape = (whole.row, whole.col), whole.shape
        values, deviations = _put_right(release, (places[at[0]], places[at[1]]), whole.data)
        matrix = sparse.csr_array((values, at), shape=shape)
        noise = sparse.csr_array((deviations, at), shape=shape)
    else:
        found = uncertain(release, places)
        matrix, noise = found.values, found.noise_sd
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
    said += say_left_out(left_out)
    said += doubts(release, places, 0)
    return AskedMatrix(
        features=places,
        names=feature_names(release)[places],
        matrix=matrix,
        variance=noise * noise,
        unit=unit,
        n=n,
        excess=_excess(release, places),
        correlation=correlation,
        complete=release.selected is None,
        factors=scales_of(release)[places] / unit,
        left_out=left_out,
        notes=tuple(said),
    )
