"""Promises and predictions in words, for people who have not read the paper."""

from __future__ import annotations

from hushcov._words import number
from hushcov.accounting import ONE_REPLACED, Neighbours
from hushcov.accounting.guarantee import odds_of, promise_words
from hushcov.planning import COMPARED_MODELS, Families, Forecast, named
from hushcov.predicting import DENSE, FACTOR

#: The heading over what a plan promises.
PROMISED = "What would be promised"
# Which features go together in a reference model.
_RELATED = {
    "block": "in groups",
    "banded": "with neighbours among the columns",
    "random": "in pairs anywhere",
}


def promised(
    epsilon: float, delta: float, neighbours: Neighbours = ONE_REPLACED
) -> list[tuple[str, str]]:
    """Say what is promised to whom, and what could be learnt of them, before certification."""
    return [
        ("promise", promise_words(epsilon, delta, *neighbours.whom)),
        ("odds", str(odds_of(epsilon, delta, *neighbours.whom))),
    ]


def families_error(found: Families) -> str:
    """Return the predicted errors by what the covariance may be like."""
    few = {each.row_sparsity - 1: e for each, e in found.errors.items() if each.row_sparsity}
    ends = dict.fromkeys(number(error, 2) for error in (min(few.values()), max(few.values())))
    others = " to ".join(str(each) for each in sorted({min(few), max(few)}))
    words = [" to ".join(ends)]
    if max(few):
        words = [f"{words[0]} where each feature is related to {others} others"]
    kinds = {FACTOR: "with one strong factor", DENSE: "where all pairs are related a little"}
    words += [
        f"{number(error, 2)} {kinds[each.name]}"
        for each, error in found.errors.items()
        if each.name in kinds
    ]
    return f"about {', '.join(words)}; zeros for all entries would have 1"


def typical_error(forecast: Forecast) -> str:
    """Return the predicted error, with what it is measured against."""
    models = ", ".join(
        f"{_RELATED[model]} {number(forecast.predicted_error[model], 2)}"
        for model in COMPARED_MODELS
    )
    return (
        f"about {number(forecast.typical_error, 2)} of the covariance's norm, where features have "
        f"equal scales (if they go together {models}); zeros for all entries would have 1"
    )


def detection(forecast: Forecast) -> str:
    """Say which correlations will be found."""
    limit = forecast.detection_limit
    if limit is None:
        return f"no prediction: {named(forecast.mechanism).no_limit}"
    if limit >= 1:
        return "hardly any pair: there are too few records"
    return f"correlations of {number(limit, 2)} or more, nine times out of ten"
