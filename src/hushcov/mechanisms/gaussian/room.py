"""The rooms of the Gaussian mechanism: every pair with noise, thresholded afterwards or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hushcov._words import noise_level, number
from hushcov.accounting import Budget
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian.mechanism import (
    NAME,
    GaussianParameters,
    gaussian_parameters,
    release_gaussian,
)
from hushcov.mechanisms.gaussian.prediction import predict_gaussian
from hushcov.mechanisms.room import (
    SCALES,
    Facts,
    Mechanism,
    MechanismPlan,
    budget_words,
    certified_words,
)
from hushcov.noise import Entropy
from hushcov.postprocess import detection_deviation, universal_threshold
from hushcov.predicting import NINE_OF_TEN, Forecast
from hushcov.release import Release
from hushcov.steps import Prepared
from hushcov.steps.preparation import WIDEST


@dataclass(frozen=True)
class PlannedGaussian(MechanismPlan[GaussianParameters]):
    """The Gaussian mechanism, with entries below `level` set to zero.

    `given` is that level where it was a number of one's own, and so is `row_norm`.
    """

    mechanism: GaussianNoise
    level: float = 0.0
    given: float | None = None
    row_norm: float | None = None

    def release(self, prepared: Prepared, budget: Budget, entropy: Entropy) -> Release:
        """See `release_gaussian`; the bound follows the released norms, unless it is one's own."""
        inputs, known = self.parameters.inputs, {"row_norm": self.row_norm}
        if prepared.norm is not None and self.row_norm is None:
            known = {"radius": WIDEST, "row_norm": prepared.norm.norm}
        parameters = gaussian_parameters(inputs, mu=budget.mu_left, **known)
        return release_gaussian(
            prepared.records, prepared.feature_scale, parameters, entropy, budget=budget
        )

    def threshold(self, release: Release) -> float:
        """The one given, or what the noise as it came out asks for."""
        assert release.noise_sd is not None
        return self.mechanism.level(release.noise_sd[0], self.parameters.inputs, self.given)

    @property
    def detection_limit(self) -> float | None:
        """The smallest correlation that passes nine times out of ten; None without a threshold."""
        if not self.level:
            return None
        noise_sd, n = self.parameters.noise_sd, self.parameters.inputs.n_sampled
        return min(1.0, self.level + NINE_OF_TEN * detection_deviation(noise_sd, n))

    def facts(self, before: str = SCALES) -> Facts:
        """See `MechanismPlan.facts`."""
        parameters, inputs = self.parameters, self.parameters.inputs
        pairs = f"all {inputs.n_features * (inputs.n_features - 1) // 2:,} pairs are released"
        bound = number(parameters.norm_bound * parameters.step, 3)
        clipped = f"records, in units of the scales, are scaled down to norm {bound}"
        kept = f"entries below a correlation of {number(self.level, 2)} are set to zero"
        return [
            ("budget", budget_words(inputs, before, {}, "the values")),
            ("values", f"{clipped}; {pairs}"),
            ("noise", noise_level(parameters.noise_sd, inputs.n_sampled)),
            (
                "threshold",
                kept if self.level else "none: every pair is released, and none is set to zero",
            ),
            ("certified", certified_words(self.budget())),
        ]


class GaussianNoise(Mechanism):
    """Every pair with the same noise."""

    universal: ClassVar[bool] = False  # whether a threshold follows from the noise

    name = NAME
    title = "Gaussian"
    predicted = True
    no_limit = "every pair gets a value, and none is set to zero"
    takes_candidates = True
    estimator = ("GaussianCovariance", {"threshold": None})

    def plan(
        self,
        inputs: ReleaseInputs,
        *,
        sparse: bool = False,
        row_norm: float | None = None,
        level: float | None = None,
    ) -> MechanismPlan[Any]:
        """See `Mechanism.plan`; `level` is a threshold of one's own.

        There is a forecast where norms are bounded as public inputs say. Of
        candidates that are known it is a single look at all of them, in their own room.
        """
        if inputs.candidates is not None:
            from hushcov.mechanisms.candidates import CANDIDATES

            universal = self.universal and level is None
            return CANDIDATES.plan(
                inputs, sparse=sparse, single=True, level=level or 0.0, universal=universal
            )
        parameters = gaussian_parameters(inputs, row_norm=row_norm)
        planned = self.thresholded(parameters, level, usual=row_norm is None)
        return replace(planned, row_norm=row_norm)

    def forecast(self, inputs: ReleaseInputs, *, rough: bool = False) -> Forecast:
        """See `Mechanism.forecast`; by its own name also where candidates are known."""
        return replace(super().forecast(inputs, rough=rough), mechanism=self.name)

    def thresholded(
        self, parameters: GaussianParameters, level: float | None, *, usual: bool
    ) -> PlannedGaussian:
        """These parameters with a threshold, and a forecast where both are as `usual`."""
        known = parameters.noise_sd, parameters.inputs
        planned = PlannedGaussian(self, parameters, None, self.level(*known, level), level)
        if not usual or (level is not None and level != self.level(*known, None)):
            return planned
        errors = predict_gaussian(parameters.inputs, threshold=planned.level > 0)
        limit = planned.detection_limit if parameters.inputs.n_features > 1 else None
        forecast = Forecast(self.name, errors, limit)
        return replace(planned, forecast=forecast)

    def level(self, noise_sd: float, inputs: ReleaseInputs, given: float | None) -> float:
        """The threshold: the one given, or none."""
        return given or 0.0


class GaussianThreshold(GaussianNoise):
    """The same, with entries that noise alone may have made set to zero."""

    universal = True
    takes_candidates = False  # by this name alone: an estimator tells it of its threshold
    name = f"{NAME}-threshold"
    title = "Gaussian + threshold"
    no_limit = "one feature has no pairs"
    estimator = ("GaussianCovariance", {"threshold": "universal"})

    def level(self, noise_sd: float, inputs: ReleaseInputs, given: float | None) -> float:
        """The threshold: the one given, or the largest of as many entries of noise."""
        if given is not None:
            return given
        return universal_threshold(noise_sd, inputs.n_sampled, inputs.n_features)


GAUSSIAN, GAUSSIAN_THRESHOLD = GaussianNoise(), GaussianThreshold()
