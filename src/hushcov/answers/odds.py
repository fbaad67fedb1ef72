"""Odds ratios of a 0/1 column, from a release: the discriminant-function estimator.

If features are normal with means m1 and m0 and one covariance W in the records with 1 and with 0,
log odds are linear in them, with coefficients W^-1 (m1 - m0). These are b / s^2, where b are the
coefficients of the linear regression and s^2 is its residual variance, so that everything follows
from a covariance. `docs/questions.md` says how far this is from maximum likelihood otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray
from hushcov._words import figure, some_of
from hushcov.answers.columns import in_words
from hushcov.answers.files import Table
from hushcov.answers.linear import AUTO_RIDGE, LIMIT, Linear
from hushcov.answers.regression import (
    Regression,
    holds_zero_and_one,
    means_of,
    regression_with_parts,
)
from hushcov.answers.tables import Answer
from hushcov.answers.uncertain import Uncertain, width_of
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.view import LEVEL
from hushcov.text.printing import AnswerPage, between

_LEAST_LEFT = 0.01  # of the variance of the target: features that leave less determine it
# R^2 of the linear regression above which log odds are off by a quarter and more on tables of
# benchmarks/studies/odds.py, and the share of a rare target.
_LARGE, _RARE = 0.35, 0.05
_MOST_FLAGS = 8  # flags in a warning
_OFF = 0.2  # of a log odds ratio, by which that of two shares must differ from it to be said
_MOST_CORRELATED = 200  # functions whose correlation of errors is computed; for more it is 1
_PINV = 1e-10  # smallest eigenvalue that is inverted, over the largest
_TINY = 1e-9  # beside 1: keeps a division defined
_ENDLESS = 2**62  # records, which leave no error of sampling


@dataclass(frozen=True, eq=False, repr=False)
class OddsRatios(Answer):
    """Odds ratios of a 0/1 column by other features, with intervals.

    They are estimates of a logistic regression by the discriminant function: right for features
    that are normal with one covariance among the records with 1 and with 0.

    Parameters
    ----------
    target : str
        The column of 0 and 1: odds are those of 1.
    features : tuple of str
    level : float
        The level of all intervals, which count the noise of the release and the sampling error.
    odds_ratio, lower, upper : ndarray
        Factor of the odds for one more of each feature, the others being equal.
    coefficients, coefficient_lower, coefficient_upper : ndarray
        Their logarithms: log odds per unit. Ends are infinite where noise leaves nothing to say.
    share : float or None
        Share of records with 1; None where no mean was released.
    intercept, intercept_lower, intercept_upper : float or None
        Log odds where all features are 0; None where no mean was released.
    linear : Regression
        The linear regression that all of this was computed from, a linear probability model: its
        R^2, its ridge, and the columns that noise hides.
    warning : str or None
        What must be known to read the numbers.
    notes : tuple of str
        Which features were taken and left out.
    """

    target: str
    features: tuple[str, ...]
    level: float
    odds_ratio: FloatArray
    lower: FloatArray
    upper: FloatArray
    coefficients: FloatArray
    coefficient_lower: FloatArray
    coefficient_upper: FloatArray
    share: float | None
    intercept: float | None
    intercept_lower: float | None
    intercept_upper: float | None
    linear: Regression
    warning: str | None
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Return one line for each feature, in the order of `features`."""
        return {
            "feature": np.array(self.features, dtype=object),
            "odds_ratio": self.odds_ratio,
            "lower": self.lower,
            "upper": self.upper,
            "coefficient": self.coefficients,
            "coefficient_lower": self.coefficient_lower,
            "coefficient_upper": self.coefficient_upper,
            "hidden": self.linear.hidden,
            "noise": ~np.isfinite(self.coefficient_upper - self.coefficient_lower),
        }

    def page(self) -> AnswerPage:
        """Show the share, the intercept and the odds ratios, the strongest first."""
        order = np.argsort(-np.abs(self.linear.standardized), kind="stable")
        table = {name: column[order] for name, column in self.table().items()}
        lines = {name: each for name, each in table.items() if not name.startswith("coefficient_")}
        facts = [("target", self.target)]
        if self.share is not None:
            facts.append(("share", f"{figure(self.share)} of the records have 1"))
        if self.intercept is not None:
            ends = self.intercept, self.intercept_lower, self.intercept_upper
            value, low, high = (figure(float(each), 4) for each in ends)  # type: ignore[arg-type]
            facts.append(("intercept", f"{value}, between {low} and {high}, in log odds"))
        facts += [row for row in self.linear.page().facts if row[0] in ("R^2", "ridge", "records")]
        legend = (
            f"odds_ratio: factor of the odds of {self.target} for one more of the feature, the "
            f"others being equal; {between(self.level)}. coefficient: its logarithm. Both are "
            "computed from the linear regression, as if features were normal in both groups."
        )
        return AnswerPage("Odds ratios", facts, lines, legend, self.notes, self.warning)

    def probability(self, rows: Any) -> FloatArray:
        """Return the probability of 1 for rows of the features, in the order of `features`."""
        if self.intercept is None:
            raise ParameterError(
                "probability needs an intercept, and this release has no mean to compute it from: "
                "release with centre='private'."
            )
        rows = np.asarray(rows, dtype=np.float64)
        return np.asarray(special.expit(self.intercept + rows @ self.coefficients))


def logistic(
    release: Release,
    target: Any,
    on: Any = None,
    *,
    level: float = LEVEL,
    limit: float = LIMIT,
    ridge: float | str = AUTO_RIDGE,
) -> OddsRatios:
    """Return odds ratios of a 0/1 column; `Answers.logistic` has the parameters."""
    linear, part, found = regression_with_parts(
        release, target, on, level=level, limit=limit, ridge=ridge
    )
    _check(release, part, linear.target)
    unit, width = part.deviations[0] * part.deviations[1:], width_of(level)
    values, low, high = _log_odds(part, found, np.diag(1 / unit), width)
    share: float | None = None
    intercept: tuple[float | None, ...] = (None, None, None)
    if release.location is not None:
        share = float(release.location[part.features[0]])
        if 0 < share < 1:
            with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
                intercept = _intercept(release, part, found, values, width)
    said = [] if linear.warning is None else [linear.warning]
    said += _when_off(release, part, linear, values, (high - low) / 2)
    with np.errstate(over="ignore"):
        ratios = np.exp([values, low, high])
    return OddsRatios(
        target=linear.target,
        features=linear.features,
        level=level,
        odds_ratio=ratios[0],
        lower=ratios[1],
        upper=ratios[2],
        coefficients=values,
        coefficient_lower=low,
        coefficient_upper=high,
        share=share,
        intercept=intercept[0],
        intercept_lower=intercept[1],
        intercept_upper=intercept[2],
        linear=linear,
        warning=" ".join(said) or None,
        notes=linear.notes,
    )


def _check(release: Release, part: Uncertain, target: str) -> None:
    """Refuse a target of other values than 0 and 1, and levels of its own category as features."""
    y, X = int(part.features[0]), part.features[1:]
    if not holds_zero_and_one(release, part, 0):
        raise ParameterError(
            f"target must be a column of 0 and 1, got {target!r}: use the regression, or release "
            "again with this column as boolean, as 'binary' or a category in a codebook, or with "
            "the public bounds (0, 1)."
        )
    same = X[release.exclude_each_other(X, np.full(len(X), y))]
    if len(same):
        raise ParameterError(
            "on must not hold levels of the target's own category, got "
            f"{in_words(release, same)}: leave them out."
        )


# ---- log odds and their intervals ----


def _log_odds(
    part: Uncertain, found: Linear, directions: FloatArray, width: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return functions c'b / s^2 of a standardized regression, and ends of their intervals.

    `found` has intervals for c'b. The error of s^2 is added with its correlation to that of c'b:
    sampling leaves none for normal records, and noise does.
    """
    part, C, left = part.standardized(), np.atleast_2d(directions), found.unexplained
    unit = np.abs(C).max(axis=1, initial=0.0)
    C = C / np.where(unit > 0, unit, 1.0)[:, None]
    unit = unit / (max(left, _LEAST_LEFT) * max(float(part.values[0, 0]), _TINY))
    values, low, high = found.ends(C)
    if left < _LEAST_LEFT or not np.isfinite(found.of_variance):
        low, high = np.where(C.any(axis=1), [[-np.inf], [np.inf]], 0.0)
        return values * unit, low, high
    doubt = width * found.of_variance / left
    least = 1 - doubt - found.gain / left  # that s^2 may be, over its estimate
    away = np.abs(values) * (1 / least - 1) if least > 0 else np.where(values, np.inf, 0.0)
    near = np.abs(values) * (1 - 1 / (1 + doubt))
    of_b = np.array([values - low, high - values])
    of_size = np.where(values > 0, [near, away], [away, near])
    with np.errstate(invalid="ignore"):
        shared = 2 * _correlations(part, found, C) * of_b * of_size
    shared = np.where(np.isfinite(shared), shared, 0.0)
    half = np.sqrt(np.maximum(of_b**2 + of_size**2 + shared, 0.0))
    return values * unit, (values - half[0]) * unit, (values + half[1]) * unit


def _correlations(part: Uncertain, found: Linear, C: FloatArray) -> FloatArray:
    """Return correlations of the errors that b and s^2 make of functions of b / s^2."""
    if len(C) > _MOST_CORRELATED:
        return np.ones(len(C))
    correlations = np.zeros(len(C))
    size = max(found.unexplained, _LEAST_LEFT) * max(float(part.values[0, 0]), _TINY)
    for i, (one, other) in enumerate(_gradients(part, found, C, size)):
        first, second, both = part.deviation(np.array([one, other, one + other]))
        most = 2 * first * second
        correlations[i] = (both**2 - first**2 - second**2) / most if most > 0 else 0.0
    return np.clip(correlations, -1.0, 1.0)


def _gradients(
    part: Uncertain, found: Linear, C: FloatArray, size: float
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Return gradients of functions c'b / s^2 in the standardized matrix: of b, and of s^2."""
    tilde = np.concatenate([[1.0], -found.coefficients])
    inverse = np.linalg.pinv(part.covariance[1:, 1:], rcond=_PINV, hermitian=True)
    for c in C:
        one = np.multiply.outer(np.concatenate([[0.0], inverse @ c]), tilde) / size
        slope = float(c @ found.coefficients) / size**2
        yield (one + one.T) / 2, -slope * np.multiply.outer(tilde, tilde)


def _intercept(
    release: Release, part: Uncertain, found: Linear, beta: FloatArray, width: float
) -> tuple[float, float, float]:
    """Return log(p / (1 - p)) - (m1 + m0)' beta / 2 with its interval.

    The middle of both means is mu + (1/2 - p)(m1 - m0), where (m1 - m0)' beta = 1 / s^2 - 1 / v for
    the variance v of the target. Errors are those of the matrix, of mu and of p by noise, and by
    sampling within both groups (Efron, Journal of the American Statistical Association 70, 1975).
    """
    location, noise = means_of(release, None)
    means, errors = location[part.features], np.nan_to_num(noise[part.features])
    p, mu, unit = float(means[0]), means[1:], part.deviations[0] * part.deviations[1:]
    variance, middle = p * (1 - p), mu + (0.5 - p) * part.values[1:, 0] / part.deviations[0] ** 2
    (value,), (low,), (high,) = _log_odds(part, found, mu / unit, width)
    part = part.standardized()
    own = max(float(part.values[0, 0]), _TINY)
    size = max(found.unexplained, _LEAST_LEFT) * own
    apart = (1 / size - 1 / own) / variance
    at = float(special.logit(p) - value - (0.5 - p) * apart)
    gradients = _gradients(part, found, np.array([mu, middle]) / unit, size)
    of_mu, of_middle = (one + other for one, other in gradients)
    tilde = np.concatenate([[1.0], -found.coefficients])
    of_size = np.multiply.outer(tilde, tilde)
    of_apart = -of_size / size**2
    of_apart[0, 0] += 1 / own**2
    exact = replace(part, n=_ENDLESS)
    of_all = float(exact.deviation(of_mu + (0.5 - p) / variance * of_apart))
    # Sampling: of the coefficients, of the share and of the means in both groups.
    square = of_all**2 + float(part.deviation(of_middle)) ** 2
    square -= float(exact.deviation(of_middle)) ** 2
    groups = 1 + apart / 4 + (1 - 2 * p) * float(middle @ beta)
    square += max(groups, 0.0) / (variance * part.n)
    square += float(((errors[1:] * beta) ** 2).sum()) + (errors[0] * (1 / variance + apart)) ** 2
    second = (found.of_variance * own) ** 2 - float(part.deviation(of_size)) ** 2
    square += ((0.5 - p) / (variance * size**2)) ** 2 * max(second, 0.0)  # squares of errors
    square -= float(part.deviation(of_mu)) ** 2  # which the interval of mu' beta has
    more = width * np.sqrt(max(square, 0.0)) if np.isfinite(square) else np.inf
    return at, at - float(np.hypot(high - value, more)), at + float(np.hypot(value - low, more))


# ---- what is known of the bias ----


def _when_off(
    release: Release, part: Uncertain, linear: Regression, values: FloatArray, half: FloatArray
) -> list[str]:
    """Say where a logistic regression on the records would find something else."""
    if linear.r_squared > 1 - _LEAST_LEFT:
        return [
            "These features determine the target as far as noise lets one see: no odds ratio is "
            "known. Leave out features that follow from it."
        ]
    said, off = list[str](), list[str]()
    if linear.r_squared > _LARGE:
        said.append(
            f"R^2 is {figure(linear.r_squared)}: with effects this large, a logistic regression on "
            "the records may find log odds that differ by a quarter and more."
        )
    if release.location is None:
        return said
    share = float(release.location[part.features[0]])
    for i in np.flatnonzero(np.isfinite(half)):
        place, b = int(part.features[1 + i]), float(linear.coefficients[i])
        if holds_zero_and_one(release, part, 1 + int(i)):
            mean = float(release.location[place])
            shares = np.clip([share + (1 - mean) * b, share - mean * b], _TINY, 1 - 1e-9)
            other = float(special.logit(shares[0]) - special.logit(shares[1]))
            if abs(other - values[i]) > max(_OFF * abs(values[i]), half[i]):
                off.append(f"{in_words(release, part.features[[1 + i]])} ({figure(np.exp(other))})")
    if off:
        said.append(
            f"The shares of the target with and without {some_of(off, _MOST_FLAGS)} have another "
            "odds ratio (in brackets) than the discriminant function, which takes columns for "
            "normal: a logistic regression on the records usually finds one between both."
        )
    elif share < _RARE or share > 1 - _RARE:
        said.append("The target is rare: odds ratios of skewed features are then exaggerated.")
    return said
