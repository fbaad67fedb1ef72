"""Sentences about the records of a release: how many there are, and how columns were prepared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushcov._words import number, percent, some_of
from hushcov.release.coverage import coverage
from hushcov.release.document import Release
from hushcov.release.findings import constant_features, not_found
from hushcov.text.verdict import FAR, MOST_NAMED

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
    names = release.column_names or range(release.n_features)
    return some_of([names[i] for i in features], MOST_NAMED)
