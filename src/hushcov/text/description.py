"""A release in labelled sentences, and as plain data for other programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushcov._words import counted, number, percent, two_digits
from hushcov.kernel.accounting.guarantee import promise_words
from hushcov.release.document import Release
from hushcov.release.findings import Factor, error_estimate, released_factors, released_pairs
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
from hushcov.text.verdict import as_zeros, error_words, multiplied_words, verdict

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
        """How many pairs count as found."""
        return self.view.n_found

    @cached_property
    def candidates(self) -> int:
        """How many pairs could be found: those that were named beforehand, or all."""
        known, sizes = self.release.n_candidates, map(len, self.release.categories.values())
        every = math.comb(self.release.n_features, 2) - sum(math.comb(each, 2) for each in sizes)
        return every if known is None else known

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
        return counted(self.candidates, "candidate pair" if self.release.told_pairs else "pair")

    def structure(self) -> list[tuple[str, str]]:
        """Describe structure, factors and error; nothing where no structure was looked for."""
        release = self.release
        if release.making.structure is None:
            return []
        names = release.column_names or tuple(map(str, range(release.n_features)))
        lines = [(STRUCTURE, self.kind())]
        for place, each in enumerate(released_factors(release), start=1):
            share = f"{percent(each.share)} of the variance"
            words = f"{share}; most correlated with it: {follower_words(names, each)}"
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
