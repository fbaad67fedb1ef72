"""Names of features: where a column is, given its name, its category or a part of its name."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import IntArray
from hushcov._validation import meant, nearest
from hushcov._words import some_of
from hushcov.exceptions import ParameterError
from hushcov.release import Release

if TYPE_CHECKING:
    from hushcov.kernel.transforms import Transform

#: Features up to which a question may be asked of all of them.
MOST_ASKED = 20_000
_MOST_IN_REFUSAL = 20  # features in a refusal
_WILD = set("*?[")


def feature_names(release: Release) -> npt.NDArray[Any]:
    """Return the names of the features; x0, x1, ... where they have none."""
    names = release.column_names or [f"x{i}" for i in range(release.n_features)]
    return np.array(names, dtype=object)


def positions(release: Release, features: Any) -> npt.NDArray[np.int64]:
    """Return the places of features, given one or many names or positions, each at most once.

    A category stands for its column where it has only one.
    """
    given = [features] if isinstance(features, str | int | np.integer) else list(features)
    names = feature_names(release).tolist()
    place = {name: i for i, name in enumerate(names)}
    found = []
    for each in given:
        known = isinstance(each, str) and each in place
        here = [place[each]] if known else stands_for(release, each)
        if len(here) != 1:
            raise ParameterError(
                f"features must be names or positions of the release's {len(names):,} features, "
                f"got {each!r}{_cure(release, each, names)}"
            )
        found += here
    if len(set(found)) < len(found):
        raise ParameterError("features must all differ, got one twice: name each once.")
    return np.array(found, dtype=np.int64)


def stands_for(release: Release, given: object) -> list[int]:
    """Return the places that a name or position stands for; none if unknown or ambiguous.

    A name is that of a column, else of a category, else of a column before its transform, as cost
    for log1p(cost). Upper and lower case are the same where that is unambiguous.
    """
    if isinstance(given, int | np.integer):
        return [int(given)] if 0 <= given < release.n_features else []
    if not isinstance(given, str):
        return []
    names, categories = feature_names(release).tolist(), release.categories
    category = meant(given, categories)
    column = given if given in names else None
    if column is None and category != given:
        column = meant(given, names)
    if column is not None:
        return [names.index(column)]
    if category is not None:
        return [int(place) for place in categories[category]]
    maps = enumerate(release.making.transforms or ())
    before = {i: names[i][len(own.name) + 1 : -1] for i, own in maps if own is not None}
    name = meant(given, list(before.values()))
    found = [i for i, each in before.items() if each == name]
    return found if len(found) == 1 else []


def transform_of(release: Release, given: object) -> Transform | None:
    """Return the transform of the column that is given by its name before it; else None."""
    if not isinstance(given, str) or release.making.transforms is None:
        return None
    (place,) = positions(release, given)
    own, name = release.making.transforms[place], str(feature_names(release)[place])
    return None if meant(given, [name]) else own


def _cure(release: Release, given: object, names: list[str]) -> str:
    known = release.categories
    category = meant(given, known) if isinstance(given, str) else None
    asked = names if category is None else [names[place] for place in known[category]]
    words = some_of(asked, _MOST_IN_REFUSAL)
    words += ", as variances.csv beside it lists" * (len(asked) > _MOST_IN_REFUSAL)
    if category is not None:
        but = ", all but one where they are all of its answers" * (len(asked) > 1)
        return f", which became {words}: name {'those' if but else 'that'}{but}."
    near = nearest([given], [*names[:MOST_ASKED], *known])
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{hint}: they are {words}."


def matching(release: Release, name: str) -> IntArray:
    """Return places of columns of this name, of a pattern (*, ?), or with it as a part.

    A pattern must fit the whole name. What has no sign of one is also looked for within names,
    whatever the case.
    """
    found, wild = stands_for(release, name), bool(set(name) & _WILD)
    if not found:
        names = enumerate(feature_names(release).tolist())
        wanted = name.casefold()
        fits = (fnmatchcase(x, name) if wild else wanted in x.casefold() for _, x in names)
        found = [i for i, there in enumerate(fits) if there]
    return np.array(found, dtype=np.int64)
