"""The error to expect of a release of known candidates, from public numbers."""

from __future__ import annotations

import math
from functools import lru_cache

from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive import value_noise
from hushcov.mechanisms.candidates.parameters import (
    NAME,
    WIDE_LOOK,
    WIDTH_LOOK,
    CandidateParameters,
)
from hushcov.mechanisms.candidates.width import OWN, band_norm
from hushcov.predicting import REFERENCE_MODELS, Forecast, reference

_LARGEST = 300  # features of the models, whose norms and variances are all that is used
_SAMPLING = 0.7  # of 2 sqrt(norm row / n); measured
_SELECTED = 0.4  # of the time, that a ladder leaves for the values of what it selects
_MORE = 1.3  # pairs that a ladder selects, over those that are real


def predict_candidates(parameters: CandidateParameters) -> Forecast:
    """Noise and sampling errors of the candidates, on models that have them all.

    Where they are many, the better of all of them and of those that a row sparsity speaks of.
    """
    inputs, known = parameters.inputs, parameters.candidates
    d, most = inputs.n_features, min(known.row_sparsity, inputs.n_features)
    time = parameters.mu**2
    number = float(known.n_pairs)
    if parameters.adaptive_width:  # what the first look costs where the band is as wide
        time *= 1 - WIDTH_LOOK / 2
    options = [(number, most, time)]
    if parameters.wide:
        few = min(number, d * (inputs.row_sparsity - 1) / 2)
        options.append((_MORE * few, inputs.row_sparsity, _SELECTED * (1 - WIDE_LOOK) * time))
    errors = [_errors(inputs, *each) for each in options]
    best = {model: min(each[model] for each in errors) for model in REFERENCE_MODELS}
    return Forecast(NAME, best, None)


@lru_cache(maxsize=1024)
def _errors(inputs: ReleaseInputs, number: float, row: int, time: float) -> dict[str, float]:
    """Where so many pairs are released, and a row has so many entries."""
    d, n = inputs.n_features, inputs.n_sampled
    noise = value_noise(round(number), inputs, math.sqrt(time))
    noise *= band_norm(OWN + 2 * number / d, d)
    found = {}
    for model in REFERENCE_MODELS:
        variance = reference(model, d, row, max(_LARGEST, row)).variance  # at norm 1
        sampling = _SAMPLING * 2 * math.sqrt(variance * (OWN + 2 * number / d) / n)
        error = math.hypot(noise * variance, sampling)
        found[model] = error * (1 + (inputs.found.strain - 1) * max(0.0, 1 - error))
    return found
