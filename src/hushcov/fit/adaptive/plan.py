"""Plan of the adaptive mechanism, and its predicted error by kind of covariance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hushcov.fit.adaptive.mechanism import release_adaptive
from hushcov.fit.adaptive.pairs import NAME, AdaptiveParameters
from hushcov.fit.gaussian.mechanism import gaussian_parameters
from hushcov.fit.gaussian.plan import GAUSSIAN, GAUSSIAN_THRESHOLD
from hushcov.fit.looks import shares_of, width_words
from hushcov.fit.mechanism import (
    DENSE,
    DENSE_BYTES,
    FACTOR,
    SCALES,
    Facts,
    Forecast,
    Mechanism,
    MechanismPlan,
    Prepared,
    budget_words,
    certified_words,
    screen_bytes,
)
from hushcov.fit.screened.plan import plan_screened
from hushcov.inputs import ReleaseInputs
from hushcov.release import Release


@dataclass(frozen=True)
class ForecastRules:
    """Numbers of the predicted error, measured by `benchmarks/studies/unknown_structure.py`."""

    # Error over that of the best mechanism, in hindsight.
    beside_best: float = 1.15
    # Noise of all pairs over that of few, beyond which all pairs are no rival.
    far: float = 3.0
    # Part of the variance that the one factor of a prediction explains, and the size of an
    # eigenvalue over sigma sqrt(d) from which it is told from noise.
    explains: float = 1 / 3
    stands_out: float = 2.13
    # Weights of noise and of sampling errors for one factor.
    factor_noise: float = 1.5
    factor_sampling: float = 1.1
    # Weight of sampling errors for a dense covariance, and the norm of the correlations of 2 d
    # random records.
    dense_sampling: float = 0.7
    dense_norm: float = (1 + math.sqrt(0.5)) ** 2


_RULES = ForecastRules()


@lru_cache(maxsize=512)
def predict_adaptive(inputs: ReleaseInputs) -> Forecast:
    """Predict the error from that of the best mechanism for each structure, in hindsight.

    On the reference models that is the best of few pairs, all pairs with a threshold, and all. For
    one strong factor and for a dense covariance it follows from the noise of the whole matrix.
    Errors below 1 grow where means and scales are barely found.
    """
    few = plan_screened(inputs, short=True)
    errors = [few.predicted_error]
    noise = gaussian_parameters(inputs).noise_sd
    if noise < _RULES.far * few.parameters.noise_sd[0]:
        errors += [GAUSSIAN_THRESHOLD.forecast(inputs).predicted_error]
        errors += [GAUSSIAN.forecast(inputs).predicted_error]
    best = {model: _RULES.beside_best * min(each[model] for each in errors) for model in errors[0]}
    best |= {FACTOR: _factor(inputs), DENSE: _dense(inputs, noise, best["diagonal"])}
    more = inputs.found.strain - 1
    best = {model: error * (1 + more * max(0.0, 1 - error)) for model, error in best.items()}
    limit = few.detection_limit if few.parameters.n_pairs else None
    if limit is not None:  # where the whole matrix is released, looks after it take their share
        share = shares_of(inputs, np.ones(inputs.n_features), inputs.largest_mu())[0]
        limit = min(1.0, limit / math.sqrt(share))
    return Forecast(NAME, best, limit)


def _factor(inputs: ReleaseInputs) -> float:
    """Predict the error for one factor, which is found as soon as it stands out from noise."""
    n, d = inputs.n_sampled, inputs.n_features
    # Norms of records vary as if a third of the features were related.
    noise = gaussian_parameters(
        inputs.changed(row_sparsity=math.ceil(_RULES.explains * d))
    ).noise_sd
    noise *= math.sqrt(d)
    eigenvalue = _RULES.explains * d + 1 - _RULES.explains
    if d == 1 or eigenvalue < _RULES.stands_out * noise:
        return 1.0
    sampling = 2 * math.sqrt(d * eigenvalue / n)
    return min(1.0, (_RULES.factor_noise * noise + _RULES.factor_sampling * sampling) / eigenvalue)


def _dense(inputs: ReleaseInputs, noise: float, variances: float) -> float:
    """Predict the error where all pairs are related; with much noise, variances alone are left.

    `variances` is the error of variances alone.
    """
    n, d = inputs.n_sampled, inputs.n_features
    sampling = 2 * math.sqrt(d / (_RULES.dense_norm * n))
    whole = math.hypot(
        2 * noise * math.sqrt(d) / _RULES.dense_norm, _RULES.dense_sampling * sampling
    )
    alone = 1 - (1 - min(1.0, variances)) / _RULES.dense_norm
    return min(whole, alone)


@dataclass(frozen=True)
class PlannedAdaptive(MechanismPlan[AdaptiveParameters]):
    """An adaptive release."""

    sparse: bool = False

    def release(self, prepared: Prepared) -> Release:
        """See `release_adaptive`."""
        return release_adaptive(prepared, self.parameters, sparse=self.sparse)

    @property
    def centres_signs(self) -> bool:
        """Signs are centred, because those of skewed features agree by themselves."""
        return True

    def facts(self, before: str = SCALES) -> Facts:
        """See `MechanismPlan.facts`."""
        rules = self.parameters.rules
        shares = {
            "a probe of all pairs": rules.probe_share,
            "selections, at most": rules.most_ladder_share,
        }
        words = budget_words(self.parameters.inputs, before, shares, "the values, at least")
        return [
            ("budget", words),
            (
                "search",
                "few pairs, few factors or neither: decided by what is released on the way, and "
                "what one step saves the next one spends",
            ),
            *([] if self.sparse else [("regressions", width_words(self.parameters.inputs))]),
            ("certified", certified_words(self.budget())),
        ]


class Adaptive(Mechanism):
    """Finds out what the structure is."""

    name = NAME
    title = NAME
    predicted = True
    no_limit = "what it looks for depends on what it finds"
    sparse = True
    looks_further = True
    estimator = ("PrivateSparseCovariance", {"mechanism": NAME})

    def plan(self, inputs: ReleaseInputs, *, sparse: bool = False) -> PlannedAdaptive:
        """See `Mechanism.plan`; no factor is sought where the output is sparse."""
        expected = predict_adaptive(inputs)
        if sparse:
            errors = {name: e for name, e in expected.predicted_error.items() if name != FACTOR}
            expected = replace(expected, predicted_error=errors)
        return PlannedAdaptive(self, AdaptiveParameters(inputs), expected, sparse)

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """Return the bytes of the screen, or of sums, mean and remainder of the whole matrix."""
        least = screen_bytes(n_records, n_features)
        return least if sparse else max(least, 3 * DENSE_BYTES * n_features**2)


ADAPTIVE = Adaptive()
