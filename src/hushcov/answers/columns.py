"""Choose the columns that a question uses, and say in words which ones were taken or left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from hushcov._arrays import IntArray
from hushcov._validation import listed, meant
from hushcov._words import counted, some_of
from hushcov.answers.names import MOST_ASKED, feature_names, positions, stands_for
from hushcov.answers.uncertain import (
    check_noise,
    missing_sd,
    nothing_known,
    seen_in_look,
    uncertain,
)
from hushcov.exceptions import ParameterError
from hushcov.postprocess import lost_features, values_at
from hushcov.release import Release
from hushcov.release.coverage import coverage
from hushcov.release.estimate import scales_of
from hushcov.release.view import paired_with, rule_of
from hushcov.tables.cells import folded, vocabulary

_BY_CHANCE = 0.05  # how often any feature is a partner of a target that has none
_MOST_LISTED = 5  # features in a remark
_MOST_NAMED = 8  # features in a sentence
# Of the summed variances of a category: below is about what one answer in a hundred leaves. And the
# deviation of its noise from which on nobody can tell.
_CONSTANT, _UNSURE = 0.05, 0.1
_WIDTH = 2.0  # deviations
_ALL = 0.9  # of the records, by the means, where not all pairs were released


# ---- what is known of columns ----


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


def partners(release: Release, target: int) -> IntArray:
    """Return features whose pair with the target was found beyond doubt, the strongest first."""
    others = np.arange(release.n_features)
    if release.of_candidates:  # no other pair was looked at
        others = paired_with(release, np.array([target]))
    others = others[~release.exclude_each_other(others, np.array(target))]
    others = others[~nothing_known(release)[others]]
    values = values_at(release.integers, np.full(len(others), target), others) * release.unit
    variance, (noise_sd, n_sampled) = release.variances, check_noise(release)
    sampling = np.sqrt(variance[others] * variance[target] / n_sampled)
    by_chance = float(special.ndtri(1 - _BY_CHANCE / (2 * max(len(others), 1))))
    found = np.abs(values) > np.maximum(
        rule_of(release)[1], by_chance * np.hypot(sampling, noise_sd)
    )
    strength = np.abs(values) / np.sqrt(variance[others])
    return np.asarray(others[found][np.argsort(-strength[found], kind="stable")])


def chosen(
    release: Release, features: Any, name: str, *, drowned: bool = False, related: bool = False
) -> tuple[IntArray, tuple[str, ...]]:
    """Return the places of the features asked for, and the names of those that are left out.

    None asks for all that can be used. With `drowned`, features whose variance noise hides can be
    used where factors were found: these show in many pairs together. With `related` those can that
    the last look shows.
    """
    names, good = feature_names(release), np.ones(release.n_features, dtype=bool)
    if release.noise_sd is not None:
        structure, good = release.making.structure, scales_of(release) > 0
        if not (drowned and structure is not None and structure.rank):
            # a variance beyond what noise makes of a constant
            good &= ~lost_features(release.variances, release.noise_sd[1])
        good |= seen_in_look(release) & related
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


def chosen_varying(
    release: Release, features: Any, what: str, *, drowned: bool = False, related: bool = False
) -> tuple[IntArray, tuple[str, ...], list[str]]:
    """Return at least two places as `chosen`, the names left out, and remarks on both.

    The last level of a category that adds up is left out. `what` cannot be done with fewer.
    """
    places, left_out = chosen(release, features, "features", drowned=drowned, related=related)
    places, said = without_references(release, places)
    if len(places) < 2:
        raise ParameterError(
            "features must be at least 2 that vary beyond the noise, got "
            f"{len(places)}: there is nothing to {what} fewer."
        )
    return places, left_out, said + say_left_out(left_out)


def say_left_out(names: tuple[str, ...]) -> list[str]:
    """Name features that were asked for with all others, and were not found."""
    words = "left out, whose variance does not stand out of the noise"
    named = f"{counted(len(names), 'feature')} {words}: {some_of(names, _MOST_LISTED)}."
    return [named] if names else []


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


def in_words(release: Release, places: IntArray) -> str:
    """Return the names of columns in a sentence."""
    names = [str(name) for name in feature_names(release)[places]]
    if len(names) > _MOST_NAMED:
        names[_MOST_NAMED:] = [f"{len(names) - _MOST_NAMED:,} more"]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


# ---- columns of a category ----


def adds_up(release: Release, places: IntArray) -> bool:
    """Return whether columns of a category add up to nearly the same in all records."""
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


def spelt_out(release: Release, features: list[Any]) -> tuple[list[Any], list[str]]:
    """Put the columns of a category in the place of its name, and say so.

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
    """Return those of which something is known; all if there is none."""
    found = places[~nothing_known(release)[places]]
    return found if len(found) else places


def answered(release: Release, category: str, answer: str) -> dict[str, float] | None:
    """Return values of all columns of a category in a record of this answer, or None.

    A category of two answers may have one column: remote=no is remote=yes at 0. A column of zeros
    and ones has words for them, too: smoker=yes is 1.
    """
    names, known = feature_names(release), meant(category, release.categories)
    if known is None:
        here, word = stands_for(release, category), vocabulary().get(folded(answer))
        two_valued = here and here[0] in release.making.indicators
        return {str(names[here[0]]): word} if two_valued and word is not None else None
    places = release.categories[known]
    column = meant(f"{known}={answer}", list(names[places])) or f"{known}={answer}"
    if column not in names[places]:
        yes_or_no = {f"{known}=yes", f"{known}=no"}
        if len(places) > 1 or {column, str(names[places[0]])} != yes_or_no:
            return None
    if column not in names[nothing_known(release)]:  # else the question is refused, and says why
        places = _known_places(release, places)
    if adds_up(release, places):
        places = places[:-1]
    return {str(name): float(name == column) for name in names[places]}
