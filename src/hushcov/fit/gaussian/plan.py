"""Plan of the Gaussian mechanism, and its predicted error.

With a threshold the error is drawn on the support of a reference covariance (`median_errors`).
Without one it is a full random matrix. In the eigenbasis of the reference its noise and its
sampling error have independent entries, and the norm depends on their variances through sums over
rows alone. So a few eigenvalues stand for many, with random parts larger by the root of how many
each stands for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._words import noise_level, number
from hushcov.fit.gaussian.mechanism import (
    NAME,
    GaussianParameters,
    gaussian_parameters,
    release_gaussian,
)
from hushcov.fit.looks import shares_of, width_words, with_look
from hushcov.fit.mechanism import (
    REFERENCE_MODELS,
    SCALES,
    Facts,
    Forecast,
    Mechanism,
    MechanismPlan,
    Prepared,
    budget_words,
    certified_words,
)
from hushcov.fit.norms import WIDEST
from hushcov.fit.reference import (
    NINE_OF_TEN,
    REFERENCE_FEATURES,
    ErrorLaw,
    Reference,
    dense_norms,
    median_errors,
    reference,
    reported_limit,
)
from hushcov.fit.screened.mechanism import shrunk_part
from hushcov.inputs import ReleaseInputs
from hushcov.postprocess import detection_deviation, universal_threshold
from hushcov.release import Release

_SPECTRUM = 100  # eigenvalues that stand for all of them, at most
_FEW_FEATURES = 50  # from this size on a norm is found by Lanczos' method
_SEED = 8
_GUARDED = 0.5  # norm of the noise, in squared scales, from which the guard may change an estimate


@lru_cache(maxsize=512)
def predict_gaussian(inputs: ReleaseInputs, *, threshold: bool) -> dict[str, float]:
    """Predict the median operator-norm error on each reference model, whose norm is 1.

    `threshold` says whether the release is thresholded at `universal_threshold`.
    """
    parameters, n = gaussian_parameters(inputs), inputs.n_sampled
    d, k = inputs.n_features, inputs.row_sparsity
    laws = {}
    for model in REFERENCE_MODELS:
        ref = reference(model, d, k, REFERENCE_FEATURES)
        # In a direction between the average one and that of the largest variance, where the bound
        # on the norm takes most off.
        variance = (1 + 1 / ref.variance) / 2
        mean = d + 2 * variance
        squares = d / len(ref.matrix) * float(np.sum(ref.matrix**2)) / ref.variance**2
        spread = math.sqrt(math.log1p((2 * squares + 4 * variance**2) / mean**2))
        bound = (parameters.norm_bound * parameters.step) ** 2
        laws[ref] = ErrorLaw(
            pair=ref.variance * parameters.noise_sd,
            diagonal=ref.variance * parameters.diagonal_noise_sd,
            threshold=ref.variance * universal_threshold(parameters.noise_sd, n, d) * threshold,
            lost=1 - shrunk_part(bound / mean, spread)[0],
            false=d * (d - 1) / 2 - ref.n_pairs,
        )
    if threshold:
        return dict(zip(REFERENCE_MODELS, median_errors(laws, n), strict=True))
    errors = (_full_error(law, ref, n) for ref, law in laws.items())
    return dict(zip(REFERENCE_MODELS, errors, strict=True))


def _full_error(law: ErrorLaw, ref: Reference, n_sampled: int) -> float:
    """Draw the median error where every pair is kept, in the eigenbasis of the reference."""
    values = _spectrum(ref)
    size = len(values)
    noise, sampling = _symmetric_draws(size)
    diagonal, root = np.arange(size), np.sqrt(np.maximum(values, 0.0)) / n_sampled**0.25
    error = law.pair * noise
    error[:, diagonal, diagonal] *= law.diagonal / law.pair / math.sqrt(2)
    error += root[:, None] * root * sampling
    error *= math.sqrt(ref.n_features / size)
    error[:, diagonal, diagonal] -= law.lost * values
    few = size < _FEW_FEATURES
    norms = np.abs(np.linalg.eigvalsh(error)).max(axis=1) if few else dense_norms(error)
    return float(np.median(norms))


@lru_cache(maxsize=32)
def _spectrum(ref: Reference) -> FloatArray:
    values = np.linalg.eigvalsh(ref.matrix)
    return np.array([each.mean() for each in np.array_split(values, min(len(values), _SPECTRUM))])


@lru_cache(maxsize=8)
def _symmetric_draws(size: int) -> tuple[FloatArray, FloatArray]:
    """Draw two batches of matrices with a variance of 1 off and 2 on the diagonal."""
    n_draws = max(15, min(200, 1200 // size))  # norms of large matrices hardly vary
    normals = np.random.default_rng(_SEED).standard_normal((2, n_draws, size, size))
    noise, sampling = (normals + normals.transpose(0, 1, 3, 2)) / math.sqrt(2)
    return noise, sampling


@dataclass(frozen=True)
class PlannedGaussian(MechanismPlan[GaussianParameters]):
    """A Gaussian release, with entries below `level` set to zero.

    `given` is that level where the user chose it, and `row_norm` a bound that the user chose.
    """

    mechanism: GaussianNoise
    level: float = 0.0
    given: float | None = None
    row_norm: float | None = None

    def release(self, prepared: Prepared) -> Release:
        """See `release_gaussian`; the bound follows the released norms unless the user chose it."""
        inputs, known = self.parameters.inputs, {"row_norm": self.row_norm}
        if prepared.norm is not None and self.row_norm is None:
            known = {"radius": WIDEST, "row_norm": prepared.norm.norm}
        session, scale = prepared.session, prepared.feature_scale
        # A threshold is for few pairs, which need all of the budget.
        share, *others = (1.0,) if self.level else shares_of(inputs, scale, session.mu_left)
        parameters = gaussian_parameters(inputs, mu=math.sqrt(share) * session.mu_left, **known)
        release = release_gaussian(session, scale, parameters)
        return with_look(release, prepared, inputs, others) if others else release

    def threshold(self, release: Release) -> float:
        """Return the given threshold, or the one that follows from the noise of the release."""
        assert release.noise_sd is not None
        return self.mechanism.level(release.noise_sd[0], self.parameters.inputs, self.given)

    @property
    def detection_limit(self) -> float | None:
        """The smallest correlation reported nine times out of ten; None without a threshold.

        1, and nothing is promised, where the guard (`postprocess.guarded`) may set all to zero.
        """
        if not self.level:
            return None
        inputs, noise_sd = self.parameters.inputs, self.parameters.noise_sd
        looks_for_means = inputs.most_before > inputs.before  # by as many looks as it takes
        if looks_for_means and 2 * noise_sd * math.sqrt(inputs.n_features) > _GUARDED:
            return 1.0
        deviation = detection_deviation(noise_sd, inputs.n_sampled)
        return reported_limit(self.level + NINE_OF_TEN * deviation, inputs.found.share)

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
            *([] if self.level else [("regressions", width_words(inputs))]),
            ("certified", certified_words(self.budget())),
        ]


class GaussianNoise(Mechanism):
    """Releases every pair with the same noise."""

    universal: ClassVar[bool] = False  # whether a threshold follows from the noise

    name = NAME
    title = "Gaussian"
    predicted = True
    no_limit = "every pair gets a value, and none is set to zero"
    takes_candidates = True
    looks_further = True
    estimator = ("GaussianCovariance", {"threshold": None})

    def plan(
        self,
        inputs: ReleaseInputs,
        *,
        sparse: bool = False,
        row_norm: float | None = None,
        level: float | None = None,
    ) -> MechanismPlan[Any]:
        """See `Mechanism.plan`; `level` is a threshold that the user chose.

        There is a forecast where the bound on norms follows from public inputs. Where candidates
        are known, their values are released alone.
        """
        if inputs.candidates is not None:
            from hushcov.fit.candidates import CANDIDATES

            universal = self.universal and level is None
            return CANDIDATES.plan(
                inputs, sparse=sparse, single=True, level=level or 0.0, universal=universal
            )
        parameters = gaussian_parameters(inputs, row_norm=row_norm)
        planned = self.thresholded(parameters, level, usual=row_norm is None)
        return replace(planned, row_norm=row_norm)

    def thresholded(
        self, parameters: GaussianParameters, level: float | None, *, usual: bool
    ) -> PlannedGaussian:
        """Return a plan of these parameters, with a forecast where they and the level are usual."""
        known = parameters.noise_sd, parameters.inputs
        planned = PlannedGaussian(self, parameters, None, self.level(*known, level), level)
        if not usual or (level is not None and level != self.level(*known, None)):
            return planned
        errors = predict_gaussian(parameters.inputs, threshold=planned.level > 0)
        limit = planned.detection_limit if parameters.inputs.n_features > 1 else None
        return replace(planned, forecast=Forecast(self.name, errors, limit))

    def level(self, noise_sd: float, inputs: ReleaseInputs, given: float | None) -> float:
        """Return the threshold: the one given, or none."""
        return given or 0.0


class GaussianThreshold(GaussianNoise):
    """Sets entries to zero that noise alone may have made."""

    universal = True
    looks_further = False
    takes_candidates = False  # by this name alone: an estimator tells it of its threshold
    name = f"{NAME}-threshold"
    title = "Gaussian + threshold"
    no_limit = "one feature has no pairs"
    estimator = ("GaussianCovariance", {"threshold": "universal"})

    def level(self, noise_sd: float, inputs: ReleaseInputs, given: float | None) -> float:
        """Return the threshold: the one given, or the largest of as many entries of noise."""
        if given is not None:
            return given
        return universal_threshold(noise_sd, inputs.n_sampled, inputs.n_features)


GAUSSIAN, GAUSSIAN_THRESHOLD = GaussianNoise(), GaussianThreshold()
