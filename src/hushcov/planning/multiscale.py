"""The calibrated mechanism planned: its numbers, and the error to expect of them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import lru_cache

from hushcov._validation import check_choice
from hushcov.mechanisms.multiscale import (
    RECONSTRUCTIONS,
    CalibratedInputs,
    CalibratedParameters,
    calibrated_parameters,
    draft_schedule,
)
from hushcov.planning.prediction import predict_errors
from hushcov.planning.reference import REFERENCE_MODELS, reference
from hushcov.planning.search import best_design, starting_design

_FEATURES = 1000  # size of the references for the prediction, at most
_ROUGH_FEATURES, _ROUGH_SEEDS = 60, range(3)
_SEEDS = range(100, 109)  # other draws than the search's, which would flatter its winner


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
        ref = reference(model, inputs.n_features, inputs.row_sparsity, _FEATURES)
        predicted[model] = statistics.median(
            predict_errors(
                inputs,
                parameters.design,
                parameters.schedule,
                parameters.reconstruction,
                ref,
                _SEEDS,
            )
        )
    return predicted
