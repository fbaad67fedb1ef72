"""Warnings about a release before it is made, from public inputs alone.

Each caution is one sentence or two. Estimators warn of it, or refuse, before anything is charged;
the same words stand in the announcement of `hushcov fit`, in `release.json` and on the report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushcov._words import number
from hushcov.exceptions import (
    AccuracyWarning,
    HopelessError,
    HushcovError,
    ParameterError,
    PrivacyWarning,
)
from hushcov.inputs import ReleaseInputs
from hushcov.predicting import Forecast
from hushcov.steps.scales import ScaleParameters

# Noise of a count over the number of records, from which on scales are lost: their logarithm to the
# base 2 is off by about 2.4 times as much, if all goes well.
_LARGEST_COUNT_NOISE = 0.1
_USUAL_DELTA = 1e-6
_WARNED_SHARE = 0.1  # of 1 / n, above which delta is warned of

_NOTHING = "Nothing was read or charged."


@dataclass(frozen=True)
class Caution:
    """Words for people, and what becomes of them.

    `title` says what is wrong in a few words, whatever the numbers. `error` is what a careful
    caller gets unless the estimator's `option` is "warn"; None where nothing is refused. `insist`
    says how to have it all the same.
    """

    title: str
    sentence: str
    category: type[Warning]
    error: type[HushcovError] | None = None
    option: str = ""
    insist: str = ""

    def refused_by(self, estimator: object) -> bool:
        """Whether the options of an estimator make an error of it."""
        return self.error is not None and getattr(estimator, self.option) == "raise"

    def refusal(self, spent: str = "") -> HushcovError:
        """The error: what is wrong, the cure, what a count before it spent, and how to insist."""
        assert self.error is not None
        read = (
            _NOTHING if not spent else f"Their number was released, and epsilon {spent} is spent."
        )
        return self.error(f"{self.sentence} {read} {self.insist}")


def hopeless(inputs: ReleaseInputs, forecast: Forecast) -> Caution | None:
    """Warn that zeros are expected to do as well, or do unless there is a strong factor."""
    if not forecast.drowns:
        return None
    if forecast.finds_factors:
        return Caution(
            "Hopeless unless there is a strong factor",
            f"{inputs.n_records:,} records of {inputs.n_features:,} features are too few at this "
            "budget to find pairs: only factors that move many features together would be found. "
            "Without any the estimate is no better than the zero matrix.",
            AccuracyWarning,
        )
    return hopeless_because(
        f"{inputs.n_records:,} records of {inputs.n_features:,} features are too few at "
        f"this budget: the predicted error of {forecast.mechanism} is "
        f"{forecast.typical_error:.2g} of the covariance's norm, no better than the zero matrix. "
        "Use more records, fewer features, or a larger budget."
    )


def hopeless_because(sentence: str) -> Caution:
    """Warn that the release is hopeless, in the given words."""
    insist = (
        "To release it all the same, pass on_hopeless='warn' (--allow hopeless on the command "
        "line)."
    )
    title = "Hopeless, no better than the zero matrix"
    return Caution(title, sentence, AccuracyWarning, HopelessError, "on_hopeless", insist)


def nothing_found(inputs: ReleaseInputs) -> Caution:
    """Warn that means and scales would drown in noise: every feature would be left out."""
    return hopeless_because(
        f"{inputs.n_records:,} records of {inputs.n_features:,} features are too few at this "
        "budget: nothing could be told from noise, and only zeros would be released. Use more "
        "records ('hushcov plan' says what to expect), fewer features or a larger budget. "
        "Where all means are known to be zero, assume_centered=True (--known-mean on the "
        "command line) needs fewer records."
    )


def noisy_scales(scales: ScaleParameters) -> Caution | None:
    """Warn that private scales may be off by orders of magnitude."""
    if scales.sigma <= _LARGEST_COUNT_NOISE * scales.n_records:
        return None
    return Caution(
        "Too few to find the scales of the features",
        f"{scales.n_records:,} records are too few to find the scales of "
        f"{scales.n_features:,} features at this budget: they may be off by orders of "
        "magnitude, and the estimate with them. Pass feature_scale, or use more records.",
        AccuracyWarning,
    )


def large_delta(delta: float, n_rows: int) -> Caution | None:
    """Warn that delta is so large that whole records could be published.

    Publishing each record with probability delta is (0, delta)-private, and publishes one of n
    on average where delta is 1 / n.
    """
    if delta <= _WARNED_SHARE / n_rows:
        return None
    refused, most = delta >= 1 / n_rows, _WARNED_SHARE / n_rows
    usual = min(_USUAL_DELTA, 10.0 ** math.floor(math.log10(_WARNED_SHARE * most)))
    bound, compared = (1 / n_rows, "at least 1") if refused else (most, "above 0.1")
    sentence = (
        f"delta = {number(delta)} is {compared} / records = {number(bound, 2)} ({n_rows:,} "
        "records): publishing each record as it is with probability delta would keep the same "
        f"promise. Choose delta well below {number(most, 2)}, such as {number(usual)}."
    )
    if not refused:
        return Caution("delta is above 0.1 / n", sentence, PrivacyWarning)
    insist = (
        "For records that need no protection: on_large_delta='warn' "
        "(--allow large-delta on the command line)."
    )
    title = "delta is 1 / n or more"
    return Caution(title, sentence, PrivacyWarning, ParameterError, "on_large_delta", insist)
