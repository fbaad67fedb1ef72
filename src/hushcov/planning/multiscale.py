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
from functools import lru_cache

from hushcov.mechanisms.multiscale import (
    CalibratedInputs,
    CalibratedParameters,
    Design,
    Schedule,
    calibrated_parameters,
    draft_schedule,
)
from hushcov.mechanisms.multiscale.transcript import LARGEST_TRANSCRIPT
from hushcov.planning.prediction import predict_errors
from hushcov.planning.reference import REFERENCE_MODELS, reference

_SEARCH_FEATURES = 60  # size of the references while searching, and for the final prediction
_FINAL_FEATURES = 1000
# Draws while searching, and for the final prediction: others, or it would flatter the winner.
_SEARCH_SEEDS = range(5)
_FINAL_SEEDS = range(100, 109)
_LARGEST_COUNT = 2**60

# The values a coordinate of the design may take, smallest first.
_CHOICES: dict[str, Sequence[float]] = {
    "clip_radius": [2 + 0.25 * step for step in range(13)],
    "base_threshold": [2.0 ** (-step / 2) for step in range(24, -3, -1)],
    "n_levels": list(range(1, 11)),
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
    best = min(
        (_descend(start, inputs, reconstruction) for start in _STARTS[reconstruction]),
        key=lambda found: found[0],
    )[1]
    parameters = calibrated_parameters(inputs, best, reconstruction)
    return MultiscalePlan(parameters, _predictions(parameters))


def _predictions(parameters: CalibratedParameters) -> dict[str, float]:
    """Median over a few draws of the final schedule's error on each reference model."""
    inputs = parameters.inputs
    predicted = {}
    for model in REFERENCE_MODELS:
        ref = reference(model, inputs.n_features, inputs.row_sparsity, _FINAL_FEATURES)
        predicted[model] = statistics.median(
            predict_errors(
                inputs,
                parameters.design,
                parameters.schedule,
                parameters.reconstruction,
                ref,
                _FINAL_SEEDS,
            )
        )
    return predicted


def _descend(design: Design, inputs: CalibratedInputs, reconstruction: str) -> tuple[float, Design]:
    """Walk along one line of designs after another, as long as one of them helps."""
    score = _score(design, inputs, reconstruction)
    names = [n for n in _CHOICES if n != "keep_above" or reconstruction == "value"]
    improved = True
    while improved:
        improved = False
        for name in (*names, _SHIFT):
            found_score, found = _walk(name, design, score, inputs, reconstruction)
            if found_score < 0.999 * score:
                score, design, improved = found_score, found, True
    return score, design


def _walk(
    name: str, design: Design, score: float, inputs: CalibratedInputs, reconstruction: str
) -> tuple[float, Design]:
    """Follow a line one way, then the other, while the score improves; long steps first."""
    best_score, best = score, design
    for stride in (2, 1, -2, -1):
        trial = _moved(name, best, stride)
        while trial is not None:
            trial_score = _score(trial, inputs, reconstruction)
            if trial_score >= best_score:
                break
            best_score, best = trial_score, trial
            trial = _moved(name, best, stride)
    return best_score, best


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
        choices = _CHOICES[name]
        here = min(range(len(choices)), key=lambda i: abs(choices[i] - getattr(design, name)))
        if not 0 <= here + stride < len(choices):
            return None
        changes = {name: choices[here + stride]}
    inside = all(_CHOICES[key][0] <= value <= _CHOICES[key][-1] for key, value in changes.items())
    return replace(design, **changes) if inside else None  # type: ignore[arg-type]


def _score(design: Design, inputs: CalibratedInputs, reconstruction: str) -> float:
    """Mean predicted error over the reference models, each capped at the zero matrix's error."""
    schedule = draft_schedule(inputs, design)
    if reconstruction == "value" and schedule.total_quota > LARGEST_TRANSCRIPT:
        return math.inf
    if max(level.candidates for level in schedule.levels) > _LARGEST_COUNT:
        return math.inf
    if not math.isinf(design.gate_clip) and not _clipping_affordable(schedule, inputs):
        return math.inf
    errors: list[float] = []
    for model in REFERENCE_MODELS:
        ref = reference(model, inputs.n_features, inputs.row_sparsity, _SEARCH_FEATURES)
        errors += predict_errors(inputs, design, schedule, reconstruction, ref, _SEARCH_SEEDS)
    # Beyond the cap a little slope is kept, so that the search is not lost on a plateau.
    return statistics.fmean(min(error, 1 + 0.01 * math.log(max(error, 1))) for error in errors)


def _clipping_affordable(schedule: Schedule, inputs: CalibratedInputs) -> bool:
    """Whether clipping the gate noise costs at most a quarter of delta."""
    slack = schedule.total_quota * math.erfc(schedule.gate_clip / schedule.gate_noise / 2**0.5)
    return (1 + math.exp(inputs.epsilon)) * slack <= inputs.delta / 4
