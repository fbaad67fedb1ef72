"""Associations of a category with a column or another category, as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._validation import meant
from hushcov._words import figure, number
from hushcov.answers.columns import doubts, refuse_unknown, spelt_out
from hushcov.answers.files import Table
from hushcov.answers.linear import linear
from hushcov.answers.names import feature_names, positions
from hushcov.answers.regression import means_of, regress
from hushcov.answers.tables import Answer
from hushcov.answers.uncertain import Uncertain, width_of, with_missing
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.view import LEVEL, view
from hushcov.text.printing import AnswerPage, between


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
        For each level and each column of `other`: the share of the records that have the level with
        its standard error share_se (NaN where the release does not say its noise), the mean of the
        column among them (NaN where no mean was released), and how much larger it is than among all
        other records: difference, lower, upper.
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
        """Return a line for each level and column."""
        return self.lines

    def page(self) -> AnswerPage:
        """Show differences of means in words and in a table."""
        facts = [("category", self.category), ("other", self.other)]
        if self.explained is not None:
            value, low, high = (f"{number(100 * each, 3)} %" for each in self.explained)
            facts.append(("explains", f"{value} of its variance, between {low} and {high}"))
        width = np.maximum(self.lines["upper"] - self.lines["lower"], 1e-300)
        surest = int(np.argmax(np.abs(self.lines["difference"]) / width))
        names = ("level", "column", "difference", "lower", "upper")
        level, column, value, low, high = (self.lines[each][surest] for each in names)
        than = f"{'higher' if value >= 0 else 'lower'} than in the others"
        words = f"{level}: {column} is {figure(abs(value))} {than}"
        facts.append(("clearest", f"{words} ({figure(low)} to {figure(high)})"))
        legend = (
            "share: proportion of the records with this level, with its standard error share_se. "
            "mean: that of the column among these records, which is a proportion for a 0/1 column. "
            "difference: that mean less the mean among all other records, in the unit of the "
            "column; "
            f"{between(self.level)}."
        )
        return AnswerPage("Association", facts, self.lines, legend, self.notes, self.warning)


def associate(release: Release, category: Any, other: Any, *, level: float = LEVEL) -> Association:
    """Compare the levels of a category; `Answers.association` has the parameters.

    The mean of a column among records of a level exceeds that among all others by their covariance
    over the variance of the level, which is the coefficient of a regression on it alone.
    """
    width, names = width_of(level), feature_names(release)
    if not _levels(release, category):
        category, other = other, category
    (of_rows, note), (of_columns, more) = (spelt_out(release, [x]) for x in (category, other))
    rows, columns = positions(release, of_rows), positions(release, of_columns)
    if not _levels(release, category) or np.intersect1d(rows, columns).size:
        raise ParameterError(
            "category must be a category, or a column with the public bounds 0 and 1, and other "
            f"another column, got {other!r} and {category!r}: see the regression of one on others."
        )
    refuse_unknown(release, "category", rows)
    refuse_unknown(release, "other", columns)
    location, _ = means_of(release, None)
    errors, shared = view(release).features(level)["mean_se"], release.shared_places
    whole = with_missing(release, np.concatenate([columns, rows]))
    found = []
    for k, row in enumerate(rows, start=len(columns)):
        for j, column in enumerate(columns):
            part = whole.part(np.array([j, k]))
            if row in shared:
                ends = _difference(part, float(location[row]), column in shared, location, width)
            else:
                unit = part.deviations[:1] / part.deviations[1:]
                value, low, high = (float(x[0]) for x in linear(part, width).ends(unit))
                ends = value, low, high
            found.append([row, column, *ends])
    *at, difference, lower, upper = np.array(found).T
    first, second = np.array(at, dtype=np.int64)
    share = location[first]
    mean = location[second] + (1 - share) * difference
    if release.making.bounds is not None and release.making.transforms is None:
        least, most = np.array(release.making.bounds, dtype=np.float64)[second].T  # None is NaN
        mean = np.fmin(np.fmax(mean, least), most)
    explained = None
    if len(columns) == 1:
        every = regress(release, int(columns[0]), category, level=level)
        explained = every.r_squared, every.r_squared_lower, every.r_squared_upper
    return Association(
        category=str(category),
        other=str(other),
        level=level,
        lines={"level": names[first], "column": names[second]}
        | {"share": share, "share_se": errors[first], "mean": mean}
        | {"difference": difference, "lower": lower, "upper": upper},
        explained=explained,
        warning=" ".join(doubts(release, whole.features, whole.n_zero)) or None,
        notes=(*note, *more),
    )


def _difference(
    part: Uncertain, share: float, of_shares: bool, location: FloatArray, width: float
) -> tuple[float, float, float]:
    """Return how much larger a column is among records of a level, and the ends (Fieller's).

    `part` has the column and the level, a column of 0 and 1 with this `share`. Means of both groups
    are sampled: those of another column of 0 and 1 vary by their own shares.
    """
    covariance, variance = float(part.values[0, 1]), float(part.values[1, 1])
    noise, own = float(part.noise_sd[0, 1]), float(part.noise_sd[1, 1])
    variance = max(variance, own, 1e-300)
    value = covariance / variance
    groups, most = np.array([share, 1 - share]).clip(1e-9), np.inf
    if of_shares:
        mean = float(location[part.features[0]])
        means = np.clip([mean + (1 - share) * value, mean - share * value], 0.0, 1.0)
        value, most = float(means[0] - means[1]), 1.0
        within = np.maximum(means * (1 - means), 1 / (part.n * groups))
    else:
        left = max(float(part.values[0, 0]) - covariance * value, float(part.noise_sd[0, 0]))
        within = np.full(2, left)
    # Sampling moves the covariance by variance times the difference of means.
    square = noise**2 + variance**2 * float((within / (part.n * groups)).sum())
    slope = variance**2 - (width * own) ** 2
    if slope <= 0:
        return value, -most, most
    middle = covariance * variance
    root = width * np.sqrt(square * slope + (own * covariance) ** 2)
    low, high = np.clip([(middle - root) / slope, (middle + root) / slope], -most, most)
    return float(np.clip(value, low, high)), float(low), float(high)


def _levels(release: Release, name: Any) -> bool:
    """Return whether this is a category, a level of one, or a 0/1 column by its public bounds."""
    if isinstance(name, str) and meant(name, release.categories):
        return True
    return release.is_indicator(positions(release, name)[0])
