"""Description of a release in words and as plain data: structure, error, preparation.

The command line and the report say it with these functions, so that they say the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hushcov._words import counted, noise_level, number, some_of
from hushcov.postprocess import largest
from hushcov.release.coverage import coverage
from hushcov.release.document import Release, Structure
from hushcov.release.estimate import estimate, factors_of
from hushcov.release.pairs import (
    BEYOND,
    KEPT,
    MOST_INTERVALS,
    SELECTED,
    STRONGEST,
    ShownPair,
    View,
    interval_holds,
    ratio,
    view,
)

#: The label of features whose mean or scale could not be found.
UNRESOLVED = "not found"
#: The label of features whose intervals do not hold.
UNCOVERED = "not covered"
_MOST_NAMED = 10  # features in a sentence


def preparation_words(release: Release) -> list[tuple[str, str]]:
    """Describe the released means, scales and norms, in labelled sentences."""
    making, found = release.making, []
    if making.unresolved:
        listed = _listed(release, making.unresolved)
        found.append(
            (
                UNRESOLVED,
                f"mean and scale of {len(making.unresolved):,} of {release.n_features:,} features "
                f"could not be told from noise, and their entries are zero: {listed}. "
                "Leave out columns that are constant; more records may find others",
            )
        )
    if making.bounds is not None:
        known = sum(ends != (None, None) for ends in making.bounds)
        found.append(
            (
                "bounds",
                f"public bounds of {known:,} of {release.n_features:,} features were given, and "
                "values beyond them were moved to them",
            )
        )
    if making.shrunk is not None:
        share = f"{100 * making.shrunk:.2g} %"
        done = "left out" if "kept" in release.parameters else "moved towards the middle"
        sentence = f"about {share} of the records lay far out and were {done}, so that none counts "
        found.append(("shrunk", f"{sentence}too much"))
    if release.noise_sd is None or release.n_sampled is None:
        return found
    fails = np.flatnonzero(~interval_holds(release)).tolist()
    if fails and not coverage(release).told:
        sentence = (
            "intervals hold if the columns are like normal ones, with few values far away; there "
            "are too few records at this budget to tell"
        )
        found.append((UNCOVERED, sentence))
    elif fails:
        sentence = (
            f"intervals may not hold for {len(fails):,} of {release.n_features:,} features, of "
            f"which too much may have been taken off large values: {_listed(release, fails)}"
        )
        found.append((UNCOVERED, sentence))
    return found


def _listed(release: Release, features: Sequence[int]) -> str:
    names = release.column_names or range(release.n_features)
    return some_of([names[i] for i in features], _MOST_NAMED)


#: Labels of what is said.
STRUCTURE, ERROR, VERDICT = "structure", "error estimate", "verdict"
#: How far an estimate can be relied on.
GOOD, ROUGH, HOPELESS, UNKNOWN = "good", "rough", "hopeless", "not known"
#: Errors up to which an estimate is called good, and rough; beyond, it is hopeless.
MOST_GOOD, MOST_ROUGH = 0.1, 0.5
_MOST_FOLLOWERS = 5  # features of a factor in a sentence
_LISTED = 20  # and in data
_AS_ZEROS = 0.9  # an error at which the zero matrix, whose error is 1, does as well
_NOT_BELOW = 1.0


@dataclass(frozen=True)
class FactorWords:
    """A factor: its share of the variance, and the features that follow it most.

    `strongest` has features, counted from 0, with their correlation to the factor, which noise
    may put at 1; the first one is positive. `share` is that of the summed variances of features
    brought to equal scales.
    """

    share: float
    strongest: tuple[tuple[int, float], ...]

    def named(self, names: tuple[str, ...]) -> str:
        """The features by name, with their correlations."""
        listed = [f"{names[i]} ({number(value, 2)})" for i, value in self.strongest]
        return ", ".join(listed[:_MOST_FOLLOWERS])


def released_factors(release: Release) -> tuple[FactorWords, ...]:
    """The factors of a release, the strongest first; none where it has none."""
    found = factors_of(release)
    if found is None:
        return ()
    variance = np.maximum(np.diag(found.matrix), 0.0)
    deviation, total, factors = np.sqrt(variance), float(variance.sum()), []
    for value, loading in zip(found.values.tolist(), found.loadings.T, strict=True):
        follows = np.sqrt(value) * loading
        correlation = ratio(follows, deviation).clip(-1, 1)
        order = np.argsort(-np.abs(correlation), kind="stable")[:_LISTED]
        sign = 1.0 if correlation[order[0]] >= 0 else -1.0
        listed = ((int(i), sign * float(correlation[i])) for i in order if correlation[i] != 0)
        factors.append(FactorWords(min(1.0, value / total) if total > 0 else 0.0, tuple(listed)))
    return tuple(factors)


@dataclass(frozen=True, eq=False)
class Description:
    """Related pairs of a release: how many, by which rule, and the strongest of them.

    Everything is read off its view, which people on the command line and readers of a report share.
    """

    view: View
    strongest: tuple[ShownPair, ...]

    @property
    def release(self) -> Release:
        """The document."""
        return self.view.release

    @property
    def number(self) -> int:
        """How many pairs count as found."""
        return self.view.n_found

    @cached_property
    def candidates(self) -> int:
        """How many pairs could be found: those that were named beforehand, or all."""
        known = self.release.n_candidates
        return math.comb(self.release.n_features, 2) if known is None else known

    @cached_property
    def negative(self) -> int:
        """How many variances noise made negative."""
        return int(np.count_nonzero(self.view.matrix.diagonal() < 0))

    @cached_property
    def unsure(self) -> int:
        """How many pairs found have an interval of the correlation that includes zero.

        0 where there are too many to look at each.
        """
        if not 0 < self.number <= MOST_INTERVALS:
            return 0
        table = self.view.listed(MOST_INTERVALS)
        inside = (table.correlation_lower <= 0) & (table.correlation_upper >= 0)
        return int(np.count_nonzero(inside))

    def lines(self, note: str = "") -> list[tuple[str, str]]:
        """How many pairs were found and what that means, and how many variances are noise."""
        one = self.number == 1
        were = "was" if one else "were"
        meaning = {
            KEPT: f"{were} released and pass{'es' * one} the threshold",
            SELECTED: f"{were} selected and released",
            BEYOND: f"stand{'s' * one} out from the noise; all were released",
            STRONGEST: "counts as found: all were released, and which are noise cannot be said",
        }[self.view.rule]
        if self.unsure:
            them = "it" if self.unsure == 1 else "them"
            note += f"; of {self.unsure:,} the interval includes zero: noise may explain {them}"
        shown = f"{self.number:,}" if self.view.rule != STRONGEST else "none"
        found = ("pairs", f"{shown} of {self._of_pairs()} {meaning}{note}")
        if not self.negative:
            return [found]
        of = counted(self.release.n_features, "variance")
        return [found, ("variances", f"{self.negative:,} of {of} came out negative: noise")]

    def _of_pairs(self) -> str:
        return counted(self.candidates, "candidate pair" if self.release.told_pairs else "pair")

    def structure(self) -> list[tuple[str, str]]:
        """Structure, factors and error in labelled sentences; nothing where none was looked for."""
        release = self.release
        if release.making.structure is None:
            return []
        names = release.column_names or tuple(map(str, range(release.n_features)))
        lines = [(STRUCTURE, self.kind())]
        for place, each in enumerate(released_factors(release), start=1):
            share = f"{number(100 * each.share, 2)} % of the variance"
            words = f"{share}; most correlated with it: {each.named(names)}"
            lines.append((f"factor {place}", words))
        return [*lines, (ERROR, error_words(release))]

    def kind(self, *, short: bool = False) -> str:
        """Structure that was found, and why."""
        found = self.release.making.structure
        assert found is not None
        if self.release.n_features == 1:
            return "a variance: one feature has no pairs"
        why = "" if short else f". Why: {found.why}"
        if found.kind == "factors":
            meaning = f"{counted(found.rank, 'factor')} that many features follow"
        elif found.kind == "dense":
            meaning = "many pairs of features go together"
        else:
            kept = self.number if self.view.thresholded else self.view.shown.total
            meaning = f"{kept:,} of {self._of_pairs()} {'is' if kept == 1 else 'are'} kept"
            if not kept:  # there are no strong pairs to speak of
                meaning, why = "no pair stands out of the noise", ""
        return f"{found.kind}: {meaning}{why}"

    def verdict(self) -> tuple[str, str]:
        """How far the estimate can be relied on, in a labelled sentence."""
        found, structure = verdict(self.release), self.release.making.structure
        less = "" if structure is None else multiplied_words(structure)
        return VERDICT, ". ".join(filter(None, [f"{found.word}: {found.sentence}", less]))


def describe(release: Release, at_most: int = 10) -> Description:
    """Return what a release says of itself, with so many of its strongest pairs."""
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        seen = view(release)
        return Description(seen, tuple(seen.listed(at_most).pairs()))


def noise_words(release: Release) -> str | None:
    """Hold the noise of a correlation against its sampling error; None where one is not known."""
    if release.noise_sd is None or release.n_sampled is None:
        return None
    return noise_level(float(release.noise_sd[0]), release.n_sampled)


def counted_facts(release: Release) -> list[tuple[str, str]]:
    """How many records there are and are complete, and what was found of means and norms."""
    making = release.making
    counts = (("counted", making.counted_words), ("complete", making.complete_words))
    found = [(label, sentence) for label, sentence in counts if sentence is not None]
    return found + preparation_words(release)


def error_words(release: Release) -> str:
    """How far off the estimate is, about, and what that means; nothing where it is not known."""
    found = release.making.structure
    if found is None:
        return ""
    among = " among the candidate pairs" * release.told_pairs
    counts = f"noise, sampling and what may have been missed{among}"
    counts += "; zeros for all entries would have 1"
    about = (
        f"{number(found.error, 2)}, between {number(found.least, 2)} and {number(found.most, 2)}"
    )
    sentences = [f"{about} of the covariance's size (its norm): {counts}"]
    if release.making.unresolved:
        sentences.append("Features that were not found do not count")
    if as_zeros(found):
        sentences.append(
            "Zeros for all entries, which need no data, would do as well: do not rely on this "
            "estimate"
        )
    elif found.most >= _NOT_BELOW:
        sentences.append("It may be no better than zeros for all entries")
    return ". ".join(filter(None, [*sentences, multiplied_words(found)]))


def as_zeros(found: Structure) -> bool:
    """Whether the zero matrix would do as well."""
    return found.error >= _AS_ZEROS


def multiplied_words(found: Structure) -> str:
    """Say that the estimate was shrunk towards zero, where it was."""
    if found.kept >= 1:
        return ""
    return (
        f"The estimate was multiplied by {number(found.kept, 2)}, so that it is hardly worse than "
        "zeros"
    )


@dataclass(frozen=True)
class Verdict:
    """How far an estimate can be relied on: a word, a sentence, and the error behind both.

    `word` is "good" up to an error of 0.1 that is surely below 1, "rough" up to 0.5, and
    "hopeless" beyond; "not known" where nothing tells noise.
    """

    word: str
    sentence: str
    error: float | None


def verdict(release: Release) -> Verdict:
    """Return the verdict on a release from its error estimate, or from its noise and size."""
    found, lost = release.making.structure, len(release.making.unresolved)
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        error = _error_of_noise(release) if found is None else found.error
    if error is None:
        words = "how far off the estimate is cannot be told, as its noise has no single level"
        return Verdict(UNKNOWN, words, None)
    about = f"off by about {number(error, 2)} of the covariance's size (its norm)"
    if found is None:
        about += ", by noise and sampling alone"
    else:
        about += f", between {number(found.least, 2)} and {number(found.most, 2)}"
    about += ", if all pairs but the candidates are zero" * release.told_pairs
    if lost:
        about += f"; {lost:,} of {counted(release.n_features, 'feature')} could not be found"
    if error > MOST_ROUGH or lost == release.n_features:
        words = "even strong relations may be noise"
        if error >= _AS_ZEROS or lost == release.n_features:
            words = "zeros for all entries, which need no data, do as well"
        return Verdict(HOPELESS, f"do not rely on this estimate, {about}: {words}", error)
    most = error if found is None else found.most
    if error <= MOST_GOOD and most < _NOT_BELOW:
        return Verdict(
            GOOD, f"the estimate is {about}; zeros for all entries would be off by 1", error
        )
    words = "strong relations can be used and weak ones cannot"
    if found is not None and most >= _NOT_BELOW:
        words += ", and it may be no better than zeros for all entries (off by 1)"
    return Verdict(ROUGH, f"the estimate is {about}: {words}", error)


def _error_of_noise(release: Release) -> float | None:
    """The norm of noise and sampling errors of what is kept, over that of the estimate; about.

    Noise of independent entries has about twice the largest root of a row's summed variances as
    its norm, and sampling errors about 2 sqrt(norm trace / n). What was missed does not count.
    """
    n = release.n_sampled
    if release.noise_sd is None or n is None:
        return None
    ones, scale = np.ones(release.n_features), release.feature_scale
    varies = None if scale is None else np.where(scale > 0, ones, 0.0)
    matrix = estimate(replace(release, feature_scale=varies))  # in units of the scales
    partners = np.asarray((matrix != 0).astype(np.float64) @ ones)
    pair, own = np.array(release.noise_sd)
    noise = 2 * float(np.sqrt((partners * pair**2 + own**2).max()))
    norm = largest(matrix) if np.isfinite(matrix @ ones).all() else np.nan
    if norm <= noise:
        return 1.0
    norm = (norm + np.sqrt(norm * norm - noise * noise)) / 2  # without what noise adds to it
    variances = np.maximum(matrix.diagonal(), 0.0)
    trace = float(variances.sum())
    if release.told_pairs:  # others count as zero, so that errors stay among those released
        trace = min(trace, float(np.asarray((matrix != 0).astype(np.float64) @ variances).max()))
    sampling = 2 * np.sqrt(norm * trace / n)
    error = float(np.hypot(noise, sampling) / norm)
    return min(1.0, error) if np.isfinite(error) else None


def structure_dict(release: Release) -> dict[str, object] | None:
    """Return the structure as plain, JSON-ready data."""
    found = release.making.structure
    if found is None:
        return None
    names = release.column_names
    factors = [
        {
            "share_of_variance": each.share,
            "features": [
                {"feature": i, "name": None if names is None else names[i], "correlation": value}
                for i, value in each.strongest
            ],
        }
        for each in released_factors(release)
    ]
    return {
        "kind": found.kind,
        "why": found.why,
        "n_factors": found.rank,
        "factors": factors,
        "error_estimate": found.error,
        "error_interval": [found.least, found.most],
        "multiplied_by": found.kept,
        "as_bad_as_zeros": as_zeros(found),
    }
