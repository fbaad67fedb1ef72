"""A release in labelled sentences, and as plain data for other programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushcov._words import counted, noise_level, number, percent, some_of, two_digits
from hushcov.promise import promise_words
from hushcov.release.coverage import coverage, not_found
from hushcov.release.document import Release, Structure, plain
from hushcov.release.findings import (
    ErrorEstimate,
    Factor,
    constant_features,
    error_estimate,
    released_factors,
    released_pairs,
)
from hushcov.release.view import (
    BEYOND,
    KEPT,
    LEVEL,
    MOST_INTERVALS,
    SELECTED,
    STRONGEST,
    ShownPair,
    View,
    view,
)

# ---- the verdict ----

#: How far an estimate can be relied on.
GOOD, ROUGH, HOPELESS, UNKNOWN = "good", "rough", "hopeless", "not known"
#: Errors up to which an estimate is called good, and rough, if it is surely below; else hopeless.
MOST_GOOD, MOST_ROUGH = 0.2, 0.8
_AS_ZEROS = 0.9  # an error at which the zero matrix, whose error is 1, does as well
_NOT_BELOW = 1.0
#: Features in a sentence.
MOST_NAMED = 10
#: Said where values far away were cut off.
FAR = "some records lie far outside the others and were cut down"


@dataclass(frozen=True)
class Verdict:
    """The verdict on an estimate: a word, a sentence, and the error behind both.

    `word` follows the upper end `most`: "good" up to 0.2, "rough" up to 0.8, or if most features
    were not found, and "hopeless" beyond; "not known" where nothing tells noise. `not_found` and
    `constant` are the features whose mean and scale were not found, and those that do not vary
    beyond noise. The error leaves them out.
    `heavy_tails` says that records lie far outside the others: what was cut off them is guessed.
    """

    word: str
    sentence: str
    error: float | None
    least: float | None = None
    most: float | None = None
    not_found: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    heavy_tails: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the verdict as plain, JSON-ready data."""
        found: dict[str, object] = plain(self)
        return found


def verdict(release: Release) -> Verdict:
    """Return the verdict on a release from its error estimate."""
    names, features = release.labels, (not_found(release), constant_features(release))
    missing, still = (tuple(names[i] for i in each) for each in features)
    word, sentence, found = _judged(release, len(missing), len(still))
    for listed, what in ((missing, "could not be found"), (still, "came out constant")):
        if listed:
            of = counted(release.n_features, "feature")
            sentence += f". {len(listed):,} of {of} {what}: {some_of(listed, MOST_NAMED)}"
    if missing or still:
        sentence += ". The error leaves them out"
    far = coverage(release).long > 0
    if far:
        sentence += f". {FAR.capitalize()}, and the error counts a guess of how much"
    error, least, most = (None, None, None) if found is None else found
    return Verdict(word, sentence, error, least, most, missing, still, far)


def _judged(
    release: Release, n_lost: int, n_constant: int
) -> tuple[str, str, ErrorEstimate | None]:
    """Return the word of a verdict, the first part of its sentence, and the error behind it.

    `n_lost` features were not found, and `n_constant` do not vary.
    """
    n_varying = release.n_features - n_constant
    none_varies = n_varying == n_lost
    found = error_estimate(release)
    if found is None:
        words = "how far off the estimate is cannot be told, as its noise has no single level"
        return UNKNOWN, words, None
    about = f"off by about {_size(found)}"
    if release.making.structure is None and release.making.tails is None:
        about += ", by noise and sampling alone, as nothing is known of values far away"
    about += ", if all pairs but the candidates are zero" * release.has_candidates
    if found.most > MOST_ROUGH or none_varies:
        words = "even strong relations may be wrong"
        if as_zeros(found) or none_varies:
            words = "zeros for all entries, which need no data, do as well"
        elif found.most >= _NOT_BELOW:
            words += ", and it may be no better than zeros for all entries (off by 1)"
        return HOPELESS, f"do not rely on this estimate, {about}: {words}", found
    if n_lost > n_varying / 2:
        words = "the estimate says nothing of most features, as noise hides their means and scales"
        return ROUGH, f"{words}; what it says of the others is {about}", found
    if found.most <= MOST_GOOD:
        return GOOD, f"the estimate is {about}; zeros for all entries would be off by 1", found
    words = "strong relations can be used and weak ones cannot"
    return ROUGH, f"the estimate is {about}: {words}", found


def error_words(release: Release) -> str:
    """Say how far off the estimate is and what that means; nothing where it is not known."""
    found, structure = error_estimate(release), release.making.structure
    if found is None or structure is None:
        return ""
    among = " among the candidate pairs" * release.has_candidates
    counts = f"noise, what was cut off large values, and what may have been missed{among}"
    sentences = [f"{_size(found)}: {counts}; zeros for all entries would have 1"]
    if as_zeros(found):
        sentences.append(
            "Zeros for all entries, which need no data, would do as well: do not rely on this "
            "estimate"
        )
    elif found.most >= _NOT_BELOW:
        sentences.append("It may be no better than zeros for all entries")
    return ". ".join(filter(None, [*sentences, multiplied_words(structure)]))


def _size(found: ErrorEstimate) -> str:
    error, least, most = (number(each, 2) for each in found)
    return f"{error} of the covariance's size (its norm), between {least} and {most}"


def as_zeros(found: ErrorEstimate) -> bool:
    """Return whether the zero matrix would do as well."""
    return found.error >= _AS_ZEROS


def multiplied_words(found: Structure) -> str:
    """Say that the estimate was shrunk towards zero, where it was."""
    if found.kept >= 1:
        return ""
    by = number(found.kept, 2)
    return f"The estimate was multiplied by {by}, so that it is hardly worse than zeros"


def noise_words(release: Release) -> str | None:
    """Compare the noise of a correlation with its sampling error; None if one is not known."""
    if release.noise_sd is None or release.n_sampled is None:
        return None
    return noise_level(float(release.noise_sd[0]), release.n_sampled)


# ---- how columns were prepared ----

#: The label of features whose mean or scale could not be found.
UNRESOLVED = "not found"
#: The label of features without variation beyond noise.
CONSTANT = "constant"
#: The labels of features whose intervals are wider for their tails, and of those that do not hold.
HEAVY, UNCOVERED = "heavy tails", "not covered"
#: Said of columns with values far away.
TAIL_CURE = "Transforms of such columns (log, winsorise, rank) lose less"
_CHECK = "Check how values of these columns are written and coded, or leave out constant ones"


def counted_facts(release: Release) -> list[tuple[str, str]]:
    """Return how many records there are and are complete, and how columns were prepared."""
    making = release.making
    counts = (("counted", making.counted_words), ("complete", making.complete_words))
    found = [(label, sentence) for label, sentence in counts if sentence is not None]
    return found + preparation_words(release)


def preparation_words(release: Release) -> list[tuple[str, str]]:
    """Describe the released means, scales and norms, in labelled sentences."""
    making, found = release.making, []
    lost, constant = not_found(release), constant_features(release)
    if lost:
        sentence = (
            f"mean and scale of {_some(release, lost)} could not be told from noise, and their "
            f"entries are zero: {_listed(release, lost)}. {_CHECK}; more records may find others"
        )
        found.append((UNRESOLVED, sentence))
    if constant:
        sentence = (
            f"{_some(release, constant)} came out constant, without any variation beyond noise: "
            f"{_listed(release, constant)}. {_CHECK}; rare answers look alike"
        )
        found.append((CONSTANT, sentence))
    if making.bounds is not None:
        known = [i for i, ends in enumerate(making.bounds) if ends != (None, None)]
        sentence = f"public bounds of {_some(release, known)} were given, and "
        found.append(("bounds", f"{sentence}values beyond them were moved to them"))
    several = [name for name, places in release.categories.items() if len(places) > 1]
    if several:
        sentence = f"levels of one category ({some_of(several, MOST_NAMED)}) exclude each other: "
        found.append(("categories", f"{sentence}their pairs are no findings, and are not listed"))
    if making.transforms is not None:
        found.append(("transforms", transform_words(release)))
    if making.marginals is not None:
        known = [i for i, own in enumerate(making.marginals) if own is not None]
        sentence = f"quantiles of {_some(release, known)} were released"
        found.append(("quantiles", f"{sentence}: synthetic rows follow them"))
    if making.shrunk is not None:
        done = "left out" if "kept" in release.parameters else "moved towards the middle"
        sentence = f"about {percent(making.shrunk)} of the records lay far out and were {done}"
        found.append(("shrunk", f"{sentence}, so that none counts too much"))
    if release.noise_sd is not None and release.n_sampled is not None:
        found += _tail_words(release)
    return found


def _tail_words(release: Release) -> list[tuple[str, str]]:
    """Name the features whose values far away were cut down, and those whose intervals fail."""
    seen, found = coverage(release), []
    heavy, fails = (np.flatnonzero(each).tolist() for each in (seen.heavy, ~seen.holds))
    if heavy:
        sentence = (
            f"{_some(release, heavy)} have values far away that were cut down, and wider intervals "
            f"for it: {_listed(release, heavy)}. {TAIL_CURE}"
        )
        found.append((HEAVY, sentence))
    elif seen.long > 0:
        found.append((HEAVY, f"{FAR}, and intervals are wider for it. {TAIL_CURE}"))
    if fails and len(fails) == release.n_features:
        sentence = (
            "intervals may not hold: a few records are so long that nobody knows how much was cut "
            "off them. More records tell it, or leave out columns with values far away"
        )
        found.append((UNCOVERED, sentence))
    elif fails:
        sentence = (
            f"intervals may not hold for {_some(release, fails)}, most of whose variance may have "
            f"been cut off: {_listed(release, fails)}. {TAIL_CURE}"
        )
        found.append((UNCOVERED, sentence))
    return found


def transform_words(release: Release) -> str:
    """Say which columns were mapped, how, and by which released numbers."""
    known: dict[str, list[int]] = {}
    for i, own in enumerate(release.making.transforms or ()):
        if own is not None:
            given = number(own.number or 0.0)
            ends = " and ".join(number(end, 4) for end in own.edges[:2]) or "nothing, not found"
            words = {
                "log": f"logarithms of at least {given}",
                "log1p": "sign(x) log(1 + |x|)",
                "sqrt": "sign(x) sqrt(|x|)",
                "square": f"squares about {given}",
                "winsorise": f"capped at {ends}",
                "rank": "normal scores by released quantiles",
            }
            known.setdefault(words[own.name], []).append(i)
    listed = "; ".join(f"{words}: {_listed(release, each)}" for words, each in known.items())
    return f"{listed}. Results are of these columns, not of the columns before"


def _some(release: Release, features: Sequence[int]) -> str:
    return f"{len(features):,} of {release.n_features:,} features"


def _listed(release: Release, features: Sequence[int]) -> str:
    names = release.labels
    return some_of([names[i] for i in features], MOST_NAMED)


# ---- pairs, structure and factors ----

#: Said before all else of a release without privacy.
NOT_PRIVATE = (
    "NOT PRIVATE: the noise came from a seed or a simulation, and can be subtracted by anyone who "
    "knows it. With secret noise the same mechanism would promise what follows."
)
#: Said wherever the strongest pairs are listed.
TOO_STRONG = "The strongest of many estimates tend to be too strong."
#: Marks an estimate that lies outside its interval.
OUTSIDE = "*"
#: Labels of sentences.
STRUCTURE, ERROR, VERDICT = "structure", "error estimate", "verdict"
_MOST_FOLLOWERS = 5  # features of a factor in a sentence


@dataclass(frozen=True, eq=False)
class Description:
    """Related pairs of a release: how many, by which rule, and the strongest of them."""

    view: View
    strongest: tuple[ShownPair, ...]

    @property
    def release(self) -> Release:
        """The document."""
        return self.view.release

    @property
    def number(self) -> int:
        """Number of pairs that count as found."""
        return self.view.n_found

    @cached_property
    def candidates(self) -> int:
        """Number of pairs that could be found: those that were named beforehand, or all."""
        known, sizes = self.release.n_candidates, map(len, self.release.categories.values())
        every = math.comb(self.release.n_features, 2) - sum(math.comb(each, 2) for each in sizes)
        return every if known is None else known

    @cached_property
    def negative(self) -> int:
        """Number of variances that noise made negative."""
        return int(np.count_nonzero(self.view.matrix.diagonal() < 0))

    @cached_property
    def unsure(self) -> int:
        """Number of pairs found whose interval of the correlation includes zero.

        0 where there are too many to look at each.
        """
        if not 0 < self.number <= MOST_INTERVALS:
            return 0
        table = self.view.listed(MOST_INTERVALS)
        inside = (table.correlation_lower <= 0) & (table.correlation_upper >= 0)
        return int(np.count_nonzero(inside))

    def lines(self, note: str = "") -> list[tuple[str, str]]:
        """Say how many pairs were found and what that means, and how many variances are noise."""
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
        return counted(self.candidates, "candidate pair" if self.release.has_candidates else "pair")

    def structure(self) -> list[tuple[str, str]]:
        """Describe structure, factors and error; nothing where no structure was looked for."""
        release = self.release
        if release.making.structure is None:
            return []
        lines = [(STRUCTURE, self.kind())]
        for place, each in enumerate(released_factors(release), start=1):
            share = f"{percent(each.share)} of the variance"
            words = f"{share}; most correlated with it: {follower_words(release.labels, each)}"
            lines.append((f"factor {place}", words))
        return [*lines, (ERROR, error_words(release))]

    def kind(self) -> str:
        """Return the structure that was found, and why."""
        found = self.release.making.structure
        assert found is not None
        if self.release.n_features == 1:
            return "a variance: one feature has no pairs"
        why = f". Why: {found.why}"
        if found.kind == "factors":
            meaning = f"{counted(found.rank, 'factor')} that many features follow"
        elif found.kind == "dense":
            meaning = "many pairs of features go together"
        else:
            at, total = self.view.shown.pairs, self.view.shown.total
            total -= int(self.release.exclude_each_other(at.rows, at.columns).sum())
            kept = self.number if self.view.thresholded else total
            meaning = f"{kept:,} of {self._of_pairs()} {'is' if kept == 1 else 'are'} kept"
            if not kept:  # there are no strong pairs to speak of
                meaning, why = "no pair stands out of the noise", ""
        return f"{found.kind}: {meaning}{why}"

    def facts(self) -> list[tuple[str, str]]:
        """Say how far the estimate can be relied on, and what the covariance was found to be."""
        with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
            return [self.verdict(), *(each for each in self.structure() if each[0] != ERROR)]

    def verdict(self) -> tuple[str, str]:
        """Say how far the estimate can be relied on, in a labelled sentence."""
        found, structure = verdict(self.release), self.release.making.structure
        less = "" if structure is None else multiplied_words(structure)
        return VERDICT, ". ".join(filter(None, [f"{found.word}: {found.sentence}", less]))


def describe(release: Release, at_most: int = 10) -> Description:
    """Return the description of a release, with so many of its strongest pairs."""
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        seen = view(release)
        return Description(seen, tuple(seen.listed(at_most).pairs()))


def follower_words(names: Sequence[str], factor: Factor) -> str:
    """Name the features that follow a factor most, with their correlations."""
    listed = factor.strongest[:_MOST_FOLLOWERS]
    return ", ".join(f"{names[i]} ({number(value, 2)})" for i, value in listed)


def relation_words(release: Release, pair: ShownPair) -> str:
    """Say in one sentence how two features go together, with {0} and {1} for their names."""
    if pair.correlation is None:
        return "Noise hides how {0} and {1} go together: correlation not found."
    with_first, with_second = map(release.is_indicator, pair.features)
    together = pair.correlation > 0
    # Who has a 0 or a 1 is described by what they have, and everybody else by how much.
    first, second = ("{1}", "{0}") if with_second and not with_first else ("{0}", "{1}")
    if with_first and with_second:
        sentence = f"Records with {first} have {second} {'more' if together else 'less'} often"
    else:
        higher = "" if with_first or with_second else "a higher "
        more = "higher" if together else "lower"
        sentence = f"Records with {higher}{first} tend to have a {more} {second}"
    sentence += f": correlation {two_digits(pair.correlation)}"
    if pair.correlation_interval is None:
        return f"{sentence}."
    low, high = pair.correlation_interval
    doubt = ", so that noise may explain it" if low <= 0 <= high else ""
    return f"{sentence}, between {two_digits(low)} and {two_digits(high)}{doubt}."


def pair_remarks(pairs: Sequence[ShownPair], *, projected: bool = False) -> str:
    """Explain the marks in a table of these pairs."""
    words = []
    if any(pair.noise for pair in pairs):
        words.append(
            "A correlation was not found where noise put it beyond 1, or a variance below zero."
        )
    if any(pair.outside or pair.correlation_outside for pair in pairs):
        moved = "was moved when the matrix was made positive semidefinite, or " * projected
        words.append(
            f"{OUTSIDE} outside its interval: the estimate {moved}barely passed the threshold, "
            "which favours those that noise made larger. Believe the interval."
        )
    return " ".join([*words, TOO_STRONG])


# ---- for other programs ----


def summary_dict(release: Release) -> dict[str, object]:
    """Return what follows from the document as plain, JSON-ready data, for other programs."""
    promised = release.guarantee
    to_whom = promised.adjacency, promised.unit
    return {
        "name": release.name,
        "records": release.making.words,
        "promise": promise_words(promised.epsilon, promised.delta, *to_whom),
        "odds": promised.odds().to_dict(),
        "verdict": verdict(release).to_dict(),
        "structure": structure_dict(release),
        "released_pairs": released_pairs(release),
        "found_pairs": describe(release, 0).number,
        "level": LEVEL,
    }


def structure_dict(release: Release) -> dict[str, object] | None:
    """Return the structure as plain, JSON-ready data."""
    found, error = release.making.structure, error_estimate(release)
    if found is None or error is None:
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
        "error_estimate": error.error,
        "error_interval": [error.least, error.most],
        "multiplied_by": found.kept,
        "as_bad_as_zeros": as_zeros(error),
    }
