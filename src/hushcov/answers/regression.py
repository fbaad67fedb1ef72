"""Regress a feature on others, from a release with a known error; `linear` has the mathematics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import check_real, listed
from hushcov._words import figure
from hushcov.answers.columns import (
    chosen,
    doubts,
    in_words,
    partners,
    refuse_unknown,
    say_left_out,
    spelt_out,
    without_references,
)
from hushcov.answers.declared import of_declared
from hushcov.answers.files import Table
from hushcov.answers.linear import (
    AUTO_RIDGE,
    LIMIT,
    WEIGHT_OF_STRUCTURE,
    ChosenRidge,
    Linear,
    linear,
)
from hushcov.answers.names import feature_names, positions
from hushcov.answers.tables import Answer
from hushcov.answers.uncertain import (
    Uncertain,
    check_noise,
    factor_estimate,
    nothing_known,
    relations,
    width_of,
)
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.view import LEVEL
from hushcov.text.printing import AnswerPage, between

#: Said where the noise of means is not known.
MEANS_UNSURE = "The release does not say how much noise its means have: it is not counted."
#: Said where no coefficient has an interval.
UNBOUNDED = (
    "Noise is as large as what tells these features apart: the coefficients predict together, and "
    "none has an interval. Regress on fewer features."
)
_MOST_TRIED = 200  # partners, one after the other
# Deviations by which a variance surely differs from that of a share, and the largest of a share.
_SURELY, _MOST_OF_SHARE = 4.0, 0.25


@dataclass(frozen=True, eq=False, repr=False)
class Regression(Answer):
    """Coefficients of the least-squares regression of `target` on `features`, with intervals.

    They are those of the population: intervals count the noise of the release and the sampling
    error. Each covers by itself.

    Parameters
    ----------
    target : str
    features : tuple of str
    level : float
        The level of all intervals.
    coefficients, lower, upper : ndarray
        In the units of the data. Ends are infinite where noise leaves nothing to say.
    standardized : ndarray
        The coefficients in units of the standard deviations.
    intercept, intercept_lower, intercept_upper : float or None
        None where no mean was released.
    residual_variance, residual_variance_lower, residual_variance_upper : float
    r_squared, r_squared_lower, r_squared_upper : float
        The share of the variance that is explained, in the population.
    n : int
        How many records are surely independent.
    n_assumed_zero : int
        How many pairs among these features did not stand out in the release, and count as zero.
    warning : str or None
        What must be known to read the numbers.
    hidden : ndarray of bool
        Features that noise does not let apart; all intervals are then those of a ridge.
    notes : tuple of str
        Which features were taken, and left out because they were not found or follow from others.
    ridge : float
        Number added to the standardized variances for the coefficients; 0 is least squares.
    multiplier : float
        Factor of the coefficients after that: 1, less where noise is nearly as large as what they
        explain, and 0 where the best prediction is the mean of the target.
    ridge_reason : str
        Reason for this ridge and this factor, in a sentence.
    predicted_r_squared : float
        Estimated R^2 of predictions with these coefficients: `r_squared` less what their error
        costs. It is never below 0 with `ridge="auto"`.
    of_probability : bool
        Whether the target holds 0 and 1 alone: this is a linear probability model then, and
        coefficients are changes of the probability of 1.
    """

    target: str
    features: tuple[str, ...]
    level: float
    coefficients: FloatArray
    lower: FloatArray
    upper: FloatArray
    standardized: FloatArray
    intercept: float | None
    intercept_lower: float | None
    intercept_upper: float | None
    residual_variance: float
    residual_variance_lower: float
    residual_variance_upper: float
    r_squared: float
    r_squared_lower: float
    r_squared_upper: float
    n: int
    n_assumed_zero: int
    warning: str | None
    hidden: BoolArray
    notes: tuple[str, ...]
    ridge: float
    multiplier: float
    ridge_reason: str
    predicted_r_squared: float
    of_probability: bool = False

    @property
    def noise(self) -> FloatArray:
        """Which coefficients are noise: their intervals are infinite."""
        return np.asarray(~np.isfinite(self.upper - self.lower))

    def table(self) -> Table:
        """Return one line for each feature, in the order of `features` and `coefficients`."""
        return {
            "feature": np.array(self.features, dtype=object),
            "coefficient": self.coefficients,
            "lower": self.lower,
            "upper": self.upper,
            "standardized": self.standardized,
            "hidden": self.hidden,
            "noise": self.noise,
        }

    def page(self) -> AnswerPage:
        """Show R^2, the residual variance and the coefficients, the strongest first."""
        order = np.argsort(-np.abs(self.standardized), kind="stable")
        table = {name: column[order] for name, column in self.table().items()}
        ends = figure(self.r_squared_lower), figure(self.r_squared_upper)
        residual = math.sqrt(max(self.residual_variance, 0.0))
        facts = [
            ("target", self.target),
            ("R^2", f"{figure(self.r_squared)}, between {ends[0]} and {ends[1]}"),
            ("residuals", f"standard deviation {figure(residual)}"),
            ("ridge", f"{figure(self.ridge)}: {self.ridge_reason}"),
            ("records", f"{self.n:,}"),
        ]
        if self.intercept is not None:
            assert self.intercept_lower is not None
            assert self.intercept_upper is not None
            ends = figure(self.intercept_lower, 4), figure(self.intercept_upper, 4)
            words = f"{figure(self.intercept, 4)}, between {ends[0]} and {ends[1]}"
            facts.insert(1, ("intercept", words))
        more = f"how much more {self.target} to expect"
        if self.of_probability:
            more = f"change of the probability of {self.target} (a linear probability model)"
        legend = (
            f"coefficient: {more} for one more of the feature, the "
            f"others being equal, in the units of the data; {between(self.level)}. standardized: "
            "the same in standard deviations."
        )
        if self.hidden.any():
            legend += " hidden: noise makes this column indistinguishable from others."
        if self.noise.any():
            legend += " noise: nothing is known of this coefficient."
        return AnswerPage("Regression", facts, table, legend, self.notes, self.warning)


def regress(
    release: Release,
    target: Any,
    on: Any = None,
    *,
    level: float = LEVEL,
    limit: float = LIMIT,
    ridge: float | str = AUTO_RIDGE,
) -> Regression:
    """Regress one feature on others; `Answers.regression` has the parameters.

    Without `on` these are the features whose pair with the target was found, the strongest first,
    as many as the noise lets apart; or all, where the release is made of factors or has a further
    look.
    """
    return regression_with_parts(release, target, on, level=level, limit=limit, ridge=ridge)[0]


def regression_with_parts(
    release: Release, target: Any, on: Any, *, level: float, limit: float, ridge: float | str
) -> tuple[Regression, Uncertain, Linear]:
    """Regress as `regress`; return the part of the release and the solution, too."""
    width = width_of(level)
    limit = check_real("limit", limit, above=0, cure="2 is usual.")
    if ridge != AUTO_RIDGE:
        cure = "it is added to variances of 1; or pass 'auto'."
        ridge = check_real("ridge", ridge, above=0, or_zero=True, cure=cure)
    check_noise(release)
    y, notes = _target(release, target)
    looked, said = release.making.look is not None, list[str]()
    shape = None if looked else factor_estimate(release)
    apart = on is None and shape is None and not looked
    if apart:
        X, more = without_references(release, partners(release, y))
        part, said = _separable(release, y, X, width)
    else:
        X, more, said = _asked(release, y, on)
        part = relations(release, np.concatenate([[y], X]))
    found = linear(part, width, shape, None if apart else limit, ridge)
    if looked:
        found = of_declared(release, part, found, width, ridge)
    if not found.bounded:
        said.append(UNBOUNDED)
    if found.hidden is not None:
        said.append(ridge_words(release, part.features[1:][found.hidden], limit))
    if ridge != AUTO_RIDGE and found.chosen is not None and found.chosen.explained < 0:
        said.append(
            "These coefficients are expected to predict worse than the mean of the target (R^2 "
            f"{figure(found.chosen.explained)}): pass ridge='auto'."
        )
    reason = _ridge_reason(release, part.features[1:], found.chosen, ridge)
    answer = _regression(release, part, found, level, reason, (*notes, *more), said)
    return answer, part, found


def _ridge_reason(
    release: Release, X: IntArray, made: ChosenRidge | None, asked: float | str
) -> str:
    """Say why the coefficients are those of this ridge."""
    if made is None:
        return "there are no columns to regress on"
    if asked != AUTO_RIDGE:
        return "as asked" if made.ridge else "least squares, as asked"
    if made.declared:
        words = "least squares of the target that was declared"
        if made.kept < 1:
            words += f", multiplied by {figure(made.kept)} because of noise"
        return words
    words = "least squares, which is expected to predict best"
    if made.ridge:
        words = "chosen because noise makes least squares (ridge 0) predict worse"
    if made.kept < 1:
        words += f"; coefficients are multiplied by {figure(made.kept)}, because noise is as large "
        words += "as what they explain" if made.kept == 0 else "as much of what they explain"
    if made.long.any():
        words += f"; the variance of {in_words(release, X[made.long])} counts as larger than "
        words += "released, because of its long tails"
    if made.with_factors:
        words += "; averaged with the factors of the release, which have a weight of "
        words += f"{WEIGHT_OF_STRUCTURE:g}"
    return words


def _target(release: Release, target: Any) -> tuple[int, list[str]]:
    """Return the feature to explain, and a note where its name is not the one that was given.

    A category of two levels is explained by the share of one of them.
    """
    given, notes = spelt_out(release, [target])
    places = positions(release, given)
    if len(places) == 2:
        places, more = without_references(release, places)
        notes += more
    if len(places) != 1:
        places = positions(release, target)
    refuse_unknown(release, "target", places)
    return int(places[0]), notes


def _asked(release: Release, y: int, on: Any) -> tuple[IntArray, list[str], list[str]]:
    """Return the features to regress on, notes on what was taken for them, and what to warn of.

    All are those that were found, without levels of the target's own category, and without one
    level of each other. Of those that are named, the ones that were not found are left out.
    """
    names = feature_names(release)
    if on is None or (isinstance(on, str) and on == "all" and on not in names):
        every, lost = chosen(release, None, "on", related=True)
        every = every[~release.exclude_each_other(every, np.array(y))]
        X, notes = without_references(release, every)
        return X, notes + say_left_out(tuple(name for name in lost if name != names[y])), []
    one = isinstance(on, str | int | np.integer)
    given, notes = spelt_out(release, [on] if one else list(on))
    X = positions(release, given)
    if len(X) == 0:
        raise ParameterError("on must name at least one feature, got none: or pass None.")
    if y in X:
        raise ParameterError(
            f"on must not hold the target, got {names[y]!r} as both: leave it out of on."
        )
    unknown = nothing_known(release)[X]
    if unknown.all():
        refuse_unknown(release, "on", X)
    said = []
    if unknown.any():
        do = "does not vary or cannot" if unknown.sum() == 1 else "do not vary or cannot"
        said = [f"Left out: {in_words(release, X[unknown])}, which {do} be told from noise."]
    X, more = without_references(release, X[~unknown])
    return X, notes + more, said


def ridge_words(release: Release, hidden: IntArray, limit: float) -> str:
    """Say which features noise hides, and what intervals then are."""
    return (
        f"Noise hides what tells {in_words(release, hidden)} apart. All intervals are those of a "
        "ridge: they count its bias, and hold if the squares of the standardized coefficients add "
        f"up to at most {limit**2:.3g} (limit {limit:g}). For more, leave one of these out, take "
        "squares about a public centre (the transform square:CENTRE), or release with more budget "
        "or records."
    )


def _separable(
    release: Release, target: int, X: IntArray, width: float
) -> tuple[Uncertain, list[str]]:
    """Take features in their order, but those that noise does not let apart from others."""
    whole = relations(release, np.concatenate([[target], X]))
    if len(X) < 2 or linear(whole, width).bounded:
        return whole, [] if len(X) else ["No partner of it was found."]
    kept = np.arange(2)
    for place in range(2, min(1 + len(X), _MOST_TRIED)):
        more = np.append(kept, place)
        kept = more if linear(whole.part(more), width).bounded else kept
    left_out = feature_names(release)[np.delete(X, kept[1:] - 1)].tolist()
    words = f"The {listed(left_out)} were left out: their effects cannot be told from those of"
    if len(left_out) == 1:
        words = f"{left_out[0]} was left out: its effect cannot be told from that of"
    return whole.part(kept), [f"{words} the others."]


def _regression(
    release: Release,
    part: Uncertain,
    found: Linear,
    level: float,
    reason: str,
    notes: tuple[str, ...],
    said: list[str],
) -> Regression:
    """Return the answer in the units of the data, with the intercept."""
    names, X = feature_names(release), part.features[1:]
    deviation, width, chosen = part.deviations, width_of(level), found.chosen
    values, lower, upper = found.ends(np.diag(deviation[0] / deviation[1:]))
    location, noise = means_of(release, None)
    intercept: tuple[float, ...] | None = None
    doubt = ["No mean was released, so there is no intercept."]
    if release.location is not None:
        mean, at = float(location[part.features[0]]), -location[X] / deviation[1:]
        intercept = tuple(mean + end for end in predicted(part, found, at, noise, width))
        doubt = [] if np.isfinite(noise[part.features]).all() else [MEANS_UNSURE]
    said = [*said, *doubts(release, part.features, part.n_zero), *doubt]
    own, left = deviation[0] ** 2, found.unexplained
    half, of_variance = width * found.unexplained_sd, width * found.of_variance
    alone = linear(part.part(np.arange(1)), width).of_variance
    return Regression(
        target=str(names[part.features[0]]),
        features=tuple(map(str, names[X])),
        level=level,
        coefficients=values,
        lower=lower,
        upper=upper,
        standardized=found.coefficients,
        intercept=None if intercept is None else intercept[0],
        intercept_lower=None if intercept is None else intercept[1],
        intercept_upper=None if intercept is None else intercept[2],
        residual_variance=left * own,
        residual_variance_lower=max((left - of_variance - found.gain) * own, 0.0),
        residual_variance_upper=min(left + of_variance, 1 + width * alone) * own,
        r_squared=1 - left,
        r_squared_lower=max(1 - left - half, 0.0),
        r_squared_upper=min(1 - left + half + found.gain, 1.0),
        n=part.n,
        n_assumed_zero=part.n_zero,
        warning=" ".join(said) or None,
        hidden=np.zeros(len(X), dtype=bool) if found.hidden is None else found.hidden,
        notes=notes,
        ridge=0.0 if chosen is None else chosen.ridge,
        multiplier=1.0 if chosen is None else chosen.kept,
        ridge_reason=reason,
        predicted_r_squared=0.0 if chosen is None else chosen.explained,
        of_probability=holds_zero_and_one(release, part, 0),
    )


def holds_zero_and_one(release: Release, part: Uncertain, at: int) -> bool:
    """Return whether a feature of `part` holds 0 and 1 alone, by its variance and public bounds.

    A column with the public bounds 0 and 1 may hold fractions: its variance is then less than that
    of a share.
    """
    place, one = int(part.features[at]), part.part(np.array([at]))
    if not release.is_indicator(place):
        return False
    variance, unit = float(one.values[0, 0]), float(one.deviations[0]) ** 2
    doubt = _SURELY * unit * float(one.standardized().deviation(np.ones((1, 1))))
    level = any(place in places for places in release.categories.values())
    if level or place in release.making.indicators or release.location is None:
        return variance <= _MOST_OF_SHARE + doubt
    share = float(release.location[place])
    return abs(variance - share * (1 - share)) <= doubt


# ---- means ----


def means_of(release: Release, means: Mapping[Any, float] | None) -> tuple[FloatArray, FloatArray]:
    """Return means of all features and their noise: public ones where given, else released ones.

    NaN where there is neither; noise is NaN where a released mean does not say it.
    """
    d = release.n_features
    location = np.full(d, np.nan) if release.location is None else release.location.astype(float)
    known = release.making.means_sd
    noise = np.full(d, np.nan) if known is None else np.array(known)
    for name, value in (means or {}).items():
        (at,) = positions(release, name)
        if not np.isfinite(value):
            raise ParameterError(f"means must be finite, got {value!r}: pass public ones.")
        location[at], noise[at] = float(value), 0.0
    return location, noise


def predicted(
    part: Uncertain, found: Linear, at: FloatArray, noise: FloatArray, width: float
) -> tuple[float, float, float]:
    """Predict from features at `at`, in deviations from their means, with an interval.

    Means are off by their noise and by sampling, and both by themselves.
    """
    (value,), (low,), (high,) = found.ends(at)
    tilde = np.concatenate([[1.0], -found.coefficients])
    of_means = np.nan_to_num(noise[part.features]) / part.deviations * tilde
    square = float(of_means @ of_means) + found.unexplained / part.n
    means = width * np.sqrt(square)
    unit = float(part.deviations[0])
    low, high = value - np.hypot(value - low, means), value + np.hypot(high - value, means)
    return float(value * unit), float(low * unit), float(high * unit)
