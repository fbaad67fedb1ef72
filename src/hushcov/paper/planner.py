"""The public optimiser behind `constants="calibrated"`.

It chooses the design that minimises the predicted error, averaged over the reference models with
each error capped at that of the zero matrix. Everything is a function of public inputs, and the
search and its random numbers are fixed, so the same inputs always give the same design.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from hushcov._validation import check_choice
from hushcov.inputs import CalibratedInputs
from hushcov.paper.calibrated import (
    CalibratedParameters,
    Design,
    calibrated_parameters,
    draft_schedule,
)
from hushcov.paper.prediction import expected_largest_miss, predict_errors
from hushcov.paper.schedule import Schedule, numerical_delta
from hushcov.paper.transcript import LARGEST_TRANSCRIPT, RECONSTRUCTIONS
from hushcov.predicting import REFERENCE_MODELS, descend, reference

_FEATURES = 60  # size of the references for draws of the error, at most
_FULL_FEATURES = 1000  # and for the entries that may be missed
_SEEDS = range(5)
_PREDICTION_FEATURES = 1000  # size of the references for the prediction, at most
_PREDICTION_SEEDS = range(100, 109)  # not the search's, which would flatter its winner
_ROUGH_FEATURES, _ROUGH_SEEDS = 60, range(3)
_LARGEST_COUNT = 2**60
_LARGEST_NUMERICAL_SHARE = 0.25

# The values a coordinate of the design may take, smallest first.
CHOICES: dict[str, Sequence[float]] = {
    "clip_radius": [2 + 0.25 * step for step in range(13)],
    "base_threshold": [2.0 ** (-step / 2) for step in range(30, -3, -1)],
    "n_levels": list(range(1, 15)),
    "base_tests": [4.0**-3, 4.0**-2, 0.25, 1, 2, 3, 4, 6, 8, 16, 32, 64, 256, 1024, 4096],
    "quota_factor": [2.0 ** (step / 4) for step in range(-16, 9)],
    "energy_factor": [2.0**-step for step in range(6, -1, -1)],
    "selection_ratio": [2.0 ** (step / 2) for step in range(-6, 7)],
    "gate_clip": [0.25, 0.5, math.inf],
    "keep_above": [0.5 * step for step in range(13)],
}
_SHIFT = "one level more"
_STARTS = {
    "value": (Design(3.0, 0.25, 1, 1, 1.0, 1.0, 1.0, math.inf, 2.0),),
    "gate": (
        Design(3.0, 2.0**-6, 6, 1, 1.0, 0.25, 2.0**-0.5, math.inf, 0.0),
        Design(3.0, 0.25, 1, 1, 0.25, 0.25, 1.0, math.inf, 0.0),
        Design(2.5, 2.0**-6, 9, 3, 2.0, 1.0, 2.0**-1.5, math.inf, 0.0),
    ),
}


def best_design(inputs: CalibratedInputs, reconstruction: str) -> Design:
    """The best design found from several starts on small references."""
    search = Search(inputs, reconstruction)
    score = cache(search.score)  # lines cross, and descents from several starts meet
    names = [n for n in CHOICES if n != "keep_above" or reconstruction == "value"]
    found = (descend(score, start, (*names, _SHIFT), _moved) for start in _STARTS[reconstruction])
    return min(found, key=_score_of)[1]


def starting_design(reconstruction: str) -> Design:
    """Where the search starts."""
    return _STARTS[reconstruction][0]


def _score_of(found: tuple[float, Design]) -> float:
    return found[0]


@dataclass(frozen=True)
class Search:
    """Objective of the descent."""

    inputs: CalibratedInputs
    reconstruction: str

    def score(self, design: Design) -> float:
        """Mean predicted error over the references, each capped at the zero matrix's error."""
        inputs = self.inputs
        schedule = draft_schedule(inputs, design)
        if self._impossible(schedule):
            return math.inf
        errors = []
        for model in REFERENCE_MODELS:
            ref = reference(model, inputs.n_features, inputs.row_sparsity, _FEATURES)
            draws = predict_errors(inputs, design, schedule, self.reconstruction, ref, _SEEDS)
            errors.append(statistics.fmean(map(_capped, draws)))
            if self.reconstruction == "value":
                full = reference(model, inputs.n_features, inputs.row_sparsity, _FULL_FEATURES)
                # Added, not compared: a design that misses an entry every other time is worse
                # than its median says, and harder to predict.
                errors[-1] += expected_largest_miss(inputs, design, schedule, full)
        return statistics.fmean(errors)

    def _impossible(self, schedule: Schedule) -> bool:
        """Whether a schedule is too large, or clipping or finite precision take too much delta."""
        if self.reconstruction == "value" and schedule.total_quota > LARGEST_TRANSCRIPT:
            return True
        if max(level.candidates for level in schedule.levels) > _LARGEST_COUNT:
            return True
        drawn = RECONSTRUCTIONS[self.reconstruction].all_tests_drawn
        precision = numerical_delta(schedule, self.inputs.epsilon, all_tests_drawn=drawn)
        if precision > _LARGEST_NUMERICAL_SHARE * self.inputs.delta:
            return True
        beyond = math.erfc(schedule.gate_clip / schedule.gate_noise / math.sqrt(2))
        slack = (1 + math.exp(self.inputs.epsilon)) * schedule.total_quota * beyond
        return slack > self.inputs.delta / 4


def _capped(error: float) -> float:
    """The zero matrix does no worse than 1; a little slope is kept to find the way down."""
    return min(error, 1 + 0.01 * math.log(max(error, 1)))


def _moved(name: str, design: Design, stride: int) -> Design | None:
    """The design `stride` choices further along a line; None beyond its end."""
    if name == _SHIFT:
        # One more level below, with the tests of all other levels as they are.
        changes = {
            "base_threshold": design.base_threshold * 2.0**-stride,
            "n_levels": design.n_levels + stride,
            "base_tests": design.base_tests * 4.0**-stride,
        }
    else:
        choices = CHOICES[name]
        here = min(range(len(choices)), key=lambda i: abs(choices[i] - getattr(design, name)))
        if not 0 <= here + stride < len(choices):
            return None
        changes = {name: choices[here + stride]}
    inside = all(CHOICES[key][0] <= value <= CHOICES[key][-1] for key, value in changes.items())
    return replace(design, **changes) if inside else None  # type: ignore[arg-type]


@dataclass(frozen=True)
class MultiscalePlan:
    """The chosen parameters and what to expect of them."""

    parameters: CalibratedParameters
    predicted_error: dict[str, float]  # per reference model, in units of scale^2

    @property
    def hopeless(self) -> bool:
        """Whether releasing nothing, the zero matrix, is expected to do as well everywhere."""
        return min(self.predicted_error.values()) >= 0.99

    @property
    def advice(self) -> str:
        """The prediction in words, without formulas."""
        inputs = self.parameters.inputs
        low, high = min(self.predicted_error.values()), max(self.predicted_error.values())
        size = f"{inputs.n_records:,} records of {inputs.n_features:,} features"
        if self.hopeless:
            return (
                f"{size} are too few at this budget: the predicted error is {low:.2g} scale**2, "
                "no better than the zero matrix, whose error is at most 1. Use more records, "
                "fewer features, or a larger budget."
            )
        return (
            f"{size}: the predicted operator-norm error is {low:.2g} to {high:.2g} scale**2 over "
            "the reference models; the zero matrix has at most 1."
        )


@lru_cache(maxsize=512)
def plan_multiscale(inputs: CalibratedInputs, reconstruction: str) -> MultiscalePlan:
    """Choose the design for these inputs and predict the error of each reference model."""
    check_choice("reconstruction", reconstruction, tuple(RECONSTRUCTIONS))
    best = best_design(inputs, reconstruction)
    parameters = calibrated_parameters(inputs, best, reconstruction)
    return MultiscalePlan(parameters, _predictions(parameters))


@lru_cache(maxsize=512)
def rough_multiscale(inputs: CalibratedInputs) -> dict[str, float]:
    """A quick prediction of values: of the design that the search starts from."""
    design = starting_design("value")
    schedule = draft_schedule(inputs, design)
    return {
        model: statistics.median(
            predict_errors(
                inputs,
                design,
                schedule,
                "value",
                reference(model, inputs.n_features, inputs.row_sparsity, _ROUGH_FEATURES),
                _ROUGH_SEEDS,
            )
        )
        for model in REFERENCE_MODELS
    }


def _predictions(parameters: CalibratedParameters) -> dict[str, float]:
    """Median over a few draws of the final schedule's error on each reference model."""
    inputs = parameters.inputs
    predicted = {}
    for model in REFERENCE_MODELS:
        ref = reference(model, inputs.n_features, inputs.row_sparsity, _PREDICTION_FEATURES)
        predicted[model] = statistics.median(
            predict_errors(
                inputs,
                parameters.design,
                parameters.schedule,
                parameters.reconstruction,
                ref,
                _PREDICTION_SEEDS,
            )
        )
    return predicted
