"""Associations of a category with a column or another category, as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._words import number
from hushcov.answers.printing import AnswerPage, between, figure
from hushcov.answers.regression import linear, means_of, regress
from hushcov.answers.tables import Answer, Table, feature_names, positions
from hushcov.answers.uncertain import doubts, refuse_unknown, spelt_out, width_of, with_missing
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.pairs import LEVEL


@dataclass(frozen=True, eq=False, repr=False)
class Association(Answer):
    """Means of a column in the levels of a category, each held against all other records.

    Parameters
    ----------
    category, other : str
        What was asked for. Where `other` is a category, each of its levels is a column of 0 and 1.
    level : float
        Of each interval.
    lines : Table
        For each level and each column of `other`: the share of the records that have the level, the
        mean of the column among them (NaN where no mean was released), and how much larger it is
        than among all other records: difference, lower, upper.
    explained : tuple of float, or None
        The share of the variance of `other` that the category explains (eta squared), with its
        interval; None for two categories.
    warning : str or None
    notes : tuple of str
    """

    category: str
    other: str
    level: float
    lines: Table
    explained: tuple[float, float, float] | None
    warning: str | None
    notes: tuple[str, ...]

    def table(self) -> Table:
        """A line for each level and column."""
        return self.lines

    def page(self) -> AnswerPage:
        """Differences of means in words and in a table."""
        facts = [("category", self.category), ("other", self.other)]
        if self.explained is not None:
            value, low, high = (f"{number(100 * each, 3)} %" for each in self.explained)
            facts.append(("explains", f"{value} of its variance, between {low} and {high}"))
        width = np.maximum(self.lines["upper"] - self.lines["lower"], 1e-300)
        surest = int(np.argmax(np.abs(self.lines["difference"]) / width))
        level, column, _, _, value, low, high = (each[surest] for each in self.lines.values())
        facts.append(
            (
                "clearest",
                f"{level}: {column} is {figure(abs(value))} {'higher' if value >= 0 else 'lower'} "
                f"than in the others ({figure(low)} to {figure(high)})",
            )
        )
        legend = (
            "share: of the records that have the level. mean: of the column among them; of one of "
            "0 and 1 it is the share of 1. difference: how much larger that is than among all "
            f"other records, in the unit of the column; {between(self.level)}."
        )
        return AnswerPage("Association", facts, self.lines, legend, self.notes, self.warning)


def associate(release: Release, category: Any, other: Any, *, level: float = LEVEL) -> Association:
    """Hold the levels of a category against each other; `Answers.association` has the parameters.

    The mean of a column among records of a level exceeds that among all others by their covariance
    over the variance of the level, which is the coefficient of a regression on it alone.

    Privacy
    -------
    Post-processing: what is computed from a release is covered by its guarantee.
    """
    width, names = width_of(level), feature_names(release)
    if not _levels(release, category):
        category, other = other, category
    given = [spelt_out(release, [name]) for name in (category, other)]
    rows, columns = (positions(release, each) for each, _ in given)
    if not _levels(release, category) or np.intersect1d(rows, columns).size:
        raise ParameterError(
            "category must be a category, or a column with the public bounds 0 and 1, and other "
            f"another column, got {other!r} and {category!r}: see the regression of one on others."
        )
    refuse_unknown(release, "category", rows)
    refuse_unknown(release, "other", columns)
    location, _ = means_of(release, None)
    whole = with_missing(release, np.concatenate([columns, rows]))
    found = []
    for k, row in enumerate(rows, start=len(columns)):
        for j, column in enumerate(columns):
            part = whole.part(np.array([j, k]))
            unit = part.deviations[:1] / part.deviations[1:]
            found.append([row, column, *(float(x[0]) for x in linear(part, width).ends(unit))])
    *at, difference, lower, upper = np.array(found).T
    first, second = np.array(at, dtype=np.int64)
    share = location[first]
    mean = location[second] + (1 - share) * difference
    explained = None
    if len(columns) == 1:
        every = regress(release, int(columns[0]), category, level=level)
        explained = every.r_squared, every.r_squared_lower, every.r_squared_upper
    return Association(
        category=str(category),
        other=str(other),
        level=level,
        lines={"level": names[first], "column": names[second], "share": share, "mean": mean}
        | {"difference": difference, "lower": lower, "upper": upper},
        explained=explained,
        warning=" ".join(doubts(release, whole.features, whole.n_zero)) or None,
        notes=tuple(given[0][1] + given[1][1]),
    )


def _levels(release: Release, name: Any) -> bool:
    """Whether this is a category or a level of one, or a column of 0 and 1 by its public bounds."""
    if name in release.categories:
        return True
    return release.is_indicator(positions(release, name)[0])
