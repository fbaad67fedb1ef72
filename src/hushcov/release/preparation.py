"""What a release says of its preparation, in words: means, scales, bounds, norms, coverage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushcov.release.coverage import coverage
from hushcov.release.document import Release
from hushcov.release.findings import interval_holds

#: The label of features whose mean or scale could not be found.
UNRESOLVED = "not found"
#: The label of features whose intervals do not hold.
UNCOVERED = "not covered"
_MOST_NAMED = 10  # features in a sentence


def preparation_words(release: Release) -> list[tuple[str, str]]:
    """What was found of means, scales and norms, where that was released: labels and sentences."""
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
    fails = np.flatnonzero(~interval_holds(release)).tolist()
    if fails:
        found.append((UNCOVERED, _uncovered(release, fails)))
    return found


def _uncovered(release: Release, fails: list[int]) -> str:
    """For which features intervals do not hold, and why."""
    if not coverage(release).told:
        return (
            "intervals hold if the columns are like normal ones, with few values far away; there "
            "are too few records at this budget to tell"
        )
    return (
        f"intervals may not hold for {len(fails):,} of {release.n_features:,} features, of "
        f"which too much may have been taken off large values: {_listed(release, fails)}"
    )


def _listed(release: Release, features: Sequence[int]) -> str:
    """Names of features, and how many more there are."""
    names = release.column_names or tuple(map(str, range(release.n_features)))
    listed = ", ".join(names[i] for i in features[:_MOST_NAMED])
    more = len(features) - _MOST_NAMED
    return f"{listed} and {more:,} more" if more > 0 else listed
