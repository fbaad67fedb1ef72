"""The rooms of the Gaussian mechanism: every pair with noise, thresholded afterwards or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hushcov._arrays import FloatArray
from hushcov._words import noise_level, number
from hushcov.accounting import Guarantee
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian.mechanism import (
    NAME,
    GaussianParameters,
    certify_gaussian,
    gaussian_parameters,
    release_gaussian,
)
from hushcov.mechanisms.gaussian.prediction import predict_gaussian
from hushcov.mechanisms.room import (
    SCALES,
    Facts,
    Mechanism,
    MechanismPlan,
    PooledPlan,
    budget_words,
    certified_words,
    pool_of,
    shared,
)
from hushcov.noise import Entropy
from hushcov.postprocess import detection_deviation, universal_threshold
from hushcov.predicting import NINE_OF_TEN, Forecast
from hushcov.release import Release
from hushcov.steps import Prepared
from hushcov.steps.preparation import WIDEST
from hushcov.sums.records import Records


@dataclass(frozen=True)
class PlannedGaussian(PooledPlan[GaussianParameters]):
    """The Gaussian mechanism, with entries below `level` set to zero.

    `given` is that level where it was a number of one's own, and so is `row_norm`.
    """

    mechanism: GaussianNoise
    level: float = 0.0
    given: float | None = None
    row_norm: float | None = None

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_gaussian`."""
        return certify_gaussian(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_gaussian`."""
        return release_gaussian(records, feature_scale, self.parameters, entropy)

    @property
    def pool(self) -> float:
        """The mu of the matrix and of what the plan set aside for steps before it."""
        return pool_of(self.parameters.inputs, self.parameters.mu)

    def after(self, prepared: Prepared) -> PlannedGaussian:
        """See `PooledPlan.after`; bound and threshold follow what was released.

        A bound of one's own is kept.
        """
        inputs = shared(self, prepared)
        if prepared.norm is None or self.row_norm is not None:
            parameters = gaussian_parameters(inputs, row_norm=self.row_norm)
        else:
            parameters = gaussian_parameters(inputs, radius=WIDEST, row_norm=prepared.norm.norm)
        level = self.mechanism.level(parameters, self.given)
        return replace(self, parameters=parameters, level=level)

    def threshold(self, release: Release) -> float:
        """The level, which follows from public or released numbers."""
        return self.level

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
            ("certified", certified_words(self.certify(private=True))),
        ]


class GaussianNoise(Mechanism):
    """Every pair with the same noise."""

    universal: ClassVar[bool] = False  # whether a threshold follows from the noise

    name = NAME
    title = "Gaussian"
    predicted = True
    no_limit = "every pair gets a value, and none is set to zero"
    pooled = True
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
        planned = PlannedGaussian(self, parameters, None, self.level(parameters, level), level)
        if not usual or (level is not None and level != self.level(parameters, None)):
            return planned
        errors = predict_gaussian(parameters.inputs, threshold=planned.level > 0)
        limit = planned.detection_limit if parameters.inputs.n_features > 1 else None
        forecast = Forecast(self.name, errors, limit)
        return replace(planned, forecast=forecast)

    def level(self, parameters: GaussianParameters, given: float | None) -> float:
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

    def level(self, parameters: GaussianParameters, given: float | None) -> float:
        """The threshold: the one given, or the largest of as many entries of noise."""
        if given is not None:
            return given
        inputs = parameters.inputs
        return universal_threshold(parameters.noise_sd, inputs.n_sampled, inputs.n_features)


GAUSSIAN, GAUSSIAN_THRESHOLD = GaussianNoise(), GaussianThreshold()
