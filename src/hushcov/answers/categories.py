"""Columns that a codebook made of one category: department=sales, department=hr and so on.

Where all answers were listed, these add up to 1 in every record. Then each follows from the others,
and no regression or inverse can take all of them.
"""

from __future__ import annotations

import numpy as np

from hushcov._arrays import IntArray
from hushcov.answers.partners import nothing_known
from hushcov.answers.tables import categories, feature_names
from hushcov.answers.uncertain import uncertain
from hushcov.release import Release

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


def full_categories(release: Release, places: IntArray) -> list[IntArray]:
    """Categories among these features that add up."""
    inside = [np.intersect1d(each, places) for each in categories(release).values()]
    return [each for each in inside if adds_up(release, each)]


def in_words(release: Release, places: IntArray) -> str:
    """The names of columns in a sentence."""
    names = [str(name) for name in feature_names(release)[places]]
    if len(names) > _MOST_NAMED:
        names[_MOST_NAMED:] = [f"{len(names) - _MOST_NAMED:,} more"]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


def spelt_out(
    release: Release, features: list[str], *, every: bool = False
) -> tuple[list[str], list[str]]:
    """Features, with the columns of a category in the place of its name; and what must be said.

    Where these add up, the last is left out, unless `every` is wanted: it is what the others are
    compared with. So are answers of which nothing is known.
    """
    names, known, said = feature_names(release), categories(release), []
    found: list[str] = []
    for each in features:
        if each in names or each not in known:
            found.append(each)
            continue
        places = _found(release, known[each])
        words = f"{each} stands for {in_words(release, places)}"
        if not every and adds_up(release, places):
            words += f". {names[places[-1]]} is left out: the others are compared with it"
            places = places[:-1]
        found += [str(name) for name in names[places] if name not in found]
        said.append(f"{words}.")
    return found, said


def _found(release: Release, places: IntArray) -> IntArray:
    """Those of which something is known; all if there is none."""
    found = places[~nothing_known(release)[places]]
    return found if len(found) else places


def answered(release: Release, category: str, answer: str) -> dict[str, float] | None:
    """Values of all columns of a category in a record of this answer; None where there is none.

    A category of two answers may have one column: remote=no is remote=yes at 0.
    """
    names, places = feature_names(release), categories(release).get(category)
    if places is None:
        return None
    column = f"{category}={answer}"
    lost = column in names[nothing_known(release)]
    yes_or_no = {f"{category}=yes", f"{category}=no"}
    if column not in names[places] and not (
        len(places) == 1 and {column, str(names[places[0]])} == yes_or_no
    ):
        return None
    places = places if lost else _found(release, places)  # the question is refused, and says why
    if adds_up(release, places):
        places = places[:-1]
    return {str(name): float(name == column) for name in names[places]}
