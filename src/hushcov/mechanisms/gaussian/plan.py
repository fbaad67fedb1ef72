"""The room of the Gaussian mechanism: its plan, and its predicted error.

Draws of the error matrix on the reference covariances, with fixed seeds: noise, sampling error, and
what the bound on the norm takes off. Nothing here reads data.

Without a threshold the error is a full random matrix. Its law is computed in the eigenbasis of the
reference, where noise and sampling error have independent entries, and its norm depends on their
variances through sums over rows alone. So a few representative eigenvalues stand for many, with
random parts larger by the root of how many each stands for. With a threshold the error is sparse:
the support of the reference, and the few zero entries that pass by chance.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray, IndexArray
from hushcov._words import noise_level, number
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian.mechanism import (
    NAME,
    GaussianParameters,
    gaussian_parameters,
    release_gaussian,
)
from hushcov.mechanisms.plan import (
    SCALES,
    Facts,
    Mechanism,
    MechanismPlan,
    budget_words,
    certified_words,
)
from hushcov.postprocess import detection_deviation, universal_threshold
from hushcov.predicting import (
    NINE_OF_TEN,
    REFERENCE_MODELS,
    Entries,
    Forecast,
    Reference,
    dense_norms,
    reference,
    reported_limit,
    support_norms,
)
from hushcov.release import Release
from hushcov.steps import Prepared
from hushcov.steps.norms import WIDEST

_FEATURES = 100  # size of the references, at most; more features are several such parts
_REPETITIONS, _MOST_PARTS = 5, 12
_FEW_FEATURES = 50  # from this size on a norm is found by Lanczos' method
_SPECTRUM = 100  # eigenvalues that stand for all of them, at most
_LARGE = 300  # from this size on a few draws of the sampling error are used again and again
_FEW = 3
_SEED = 7
_GUARDED = 0.5  # norm of the noise, in squared scales, from which the guard may change an estimate
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


@dataclass(frozen=True, eq=False)
class _Setting:
    """A reference and the draws on it that do not depend on budget and number of records."""

    ref: Reference
    spectrum: FloatArray
    squares: FloatArray  # of Sigma^2 on the support of Sigma
    sampling: FloatArray  # draws (rows) of Sigma^1/2 G Sigma^1/2 on the support
    zero_rows: IndexArray
    zero_columns: IndexArray


def predict_gaussian(inputs: ReleaseInputs, *, threshold: bool) -> dict[str, float]:
    """Median operator-norm error on each reference model, in units where its norm is 1.

    `threshold` says whether the release is thresholded at `universal_threshold`.
    """
    return dict(zip(REFERENCE_MODELS, _medians(inputs, threshold), strict=True))


@lru_cache(maxsize=512)
def _medians(inputs: ReleaseInputs, threshold: bool) -> tuple[float, ...]:
    parameters = gaussian_parameters(inputs)
    draws = _thresholded_errors if threshold else _full_errors
    settings = (
        _setting(model, inputs.n_features, inputs.row_sparsity) for model in REFERENCE_MODELS
    )
    return tuple(statistics.median(draws(parameters, setting)) for setting in settings)


@lru_cache(maxsize=32)
def _setting(model: str, n_features: int, row_sparsity: int) -> _Setting:
    ref = reference(model, n_features, row_sparsity, _FEATURES)
    matrix, size = ref.matrix, len(ref.matrix)
    values = np.linalg.eigvalsh(matrix)
    parts = np.array_split(values, min(size, _SPECTRUM))
    generator = np.random.default_rng(_SEED)
    sampling = np.empty((_n_draws(size) if size < _LARGE else _FEW, len(ref.rows)))
    for draw in range(len(sampling)):
        G = generator.standard_normal(matrix.shape)
        noise = ref.root @ (G + G.T) @ ref.root
        sampling[draw] = noise[ref.rows, ref.columns] / math.sqrt(2)
    zero_rows, zero_columns = np.nonzero(np.triu(matrix == 0, 1))
    return _Setting(
        ref=ref,
        spectrum=np.array([part.mean() for part in parts]),
        squares=(matrix @ matrix)[ref.rows, ref.columns],
        sampling=sampling,
        zero_rows=zero_rows,
        zero_columns=zero_columns,
    )


def _n_draws(size: int) -> int:
    """Norms of large matrices hardly vary, those of small ones cost little."""
    return max(15, min(200, 1200 // size))


def _full_errors(parameters: GaussianParameters, setting: _Setting) -> list[float]:
    """Draws of the error without a threshold, in the eigenbasis of the reference."""
    ref, values = setting.ref, setting.spectrum
    n, size = parameters.inputs.n_sampled, len(values)
    noise, sampling = _whole_draws(size)
    error = noise * (ref.variance * parameters.noise_sd)
    diagonal = np.arange(size)
    error[:, diagonal, diagonal] *= parameters.diagonal_sigma / parameters.sigma / math.sqrt(2)
    root = np.sqrt(np.maximum(values, 0.0)) / n**0.25
    error += root[:, None] * root * sampling
    error *= math.sqrt(ref.n_features / size)
    fixed, slope = _shrinkage(parameters, setting)
    error[:, diagonal, diagonal] -= (fixed + slope * values) * values
    few = size < _FEW_FEATURES
    norms = np.abs(np.linalg.eigvalsh(error)).max(axis=1) if few else dense_norms(error)
    return [float(norm) for norm in norms]


@lru_cache(maxsize=8)
def _whole_draws(size: int) -> tuple[FloatArray, FloatArray]:
    """Noise and sampling error, drawn once for all budgets and numbers of records."""
    normals = np.random.default_rng(_SEED + 1).standard_normal((2, _n_draws(size), size, size))
    noise, sampling = (normals + normals.transpose(0, 1, 3, 2)) / math.sqrt(2)
    return noise, sampling  # symmetric, with a variance of 1 off and 2 on the diagonal


def _shrinkage(parameters: GaussianParameters, setting: _Setting) -> tuple[float, float]:
    """Fixed part and slope of the share that the norm bound takes off, by eigenvalue of Sigma.

    In a direction of variance q the bound takes E[(1 - B^2/s)+ (u'x)^2] = q E(1 - B^2/(s + q c))+,
    with s the squared norm and c an independent chi-square with 2 degrees of freedom. The share is
    computed at q = 1 and at the largest q, with a scaled chi-square for the law of s + q c, and
    taken as linear in q.
    """
    bound = (parameters.norm_bound * parameters.step) ** 2
    ref, d = setting.ref, parameters.inputs.n_features
    correlations = setting.spectrum / ref.variance
    spread = d * float(np.mean(correlations**2))
    largest = max(float(correlations[-1]), 1.0)
    shares = [_clipped_share(bound, d + 2 * q, 2 * spread + 4 * q**2) for q in (1.0, largest)]
    slope = (shares[1] - shares[0]) / (largest - 1) if largest > 1 else 0.0
    return shares[0] - slope, slope / ref.variance


def _clipped_share(bound: float, mean: float, variance: float) -> float:
    """E(1 - bound/s)+ for a scaled chi-square s."""
    scale = variance / (2 * mean)
    degrees = mean / scale
    beyond = float(special.chdtrc(degrees, bound / scale))
    # By quantiles beyond the bound: s runs from the bound up as u falls from 1 to 0.
    u = 0.5 * (_NODES + 1)
    s = scale * special.chdtri(degrees, beyond * u)
    return float(beyond * 0.5 * (_WEIGHTS @ (1 - bound / s))) if beyond > 0 else 0.0


def _thresholded_errors(parameters: GaussianParameters, setting: _Setting) -> list[float]:
    """Draws of the error on the support of the reference and on what passes by chance."""
    ref, inputs = setting.ref, parameters.inputs
    n, d, size = inputs.n_sampled, inputs.n_features, len(ref.matrix)
    generator = np.random.default_rng(_SEED + 1)
    limit = ref.variance * universal_threshold(parameters.noise_sd, n, d)
    diagonal = ref.rows == ref.columns
    fixed, slope = _shrinkage(parameters, setting)
    kept_mean = ref.values * (1 - fixed) - slope * setting.squares
    deviation = np.where(diagonal, parameters.diagonal_noise_sd, parameters.noise_sd)
    zero_deviation = ref.variance * math.hypot(parameters.noise_sd, 1 / math.sqrt(n))
    passing = 2 * float(special.ndtr(-limit / zero_deviation))
    # Of the zero entries of the full matrix those in the rows of one part.
    zeros = len(setting.zero_rows) * (d / size)
    parts = min(_MOST_PARTS, math.ceil(d / size))
    n_draws = parts * (_n_draws(size) if parts == 1 else _REPETITIONS)
    errors = np.empty((n_draws, len(ref.values)))
    passed: list[Entries] = []
    for draw in range(n_draws):
        sampling = setting.sampling[draw % len(setting.sampling)]
        noise = ref.variance * deviation * generator.standard_normal(len(sampling))
        value = kept_mean + sampling / math.sqrt(n) + noise
        errors[draw] = np.where(diagonal | (np.abs(value) > limit), value, 0.0) - ref.values
        chance = generator.binomial(round(zeros), passing)
        where = generator.integers(max(1, len(setting.zero_rows)), size=chance)
        tail = -zero_deviation * special.ndtri(passing / 2 * generator.random(chance))
        tail *= generator.choice((-1.0, 1.0), chance)
        if chance:
            at = setting.zero_rows[where], setting.zero_columns[where]
            passed.append((np.full(chance, draw), *at, tail))
    more = [np.concatenate(each) for each in zip(*passed, strict=True)]
    nowhere = np.empty(0, dtype=np.intp)
    places = (more[0], more[1], more[2], more[3]) if more else (*3 * (nowhere,), np.empty(0))
    norms = support_norms([ref.support], [errors], [places])
    return [float(norm) for norm in norms.reshape(-1, parts).max(axis=1)]


@dataclass(frozen=True)
class PlannedGaussian(MechanismPlan[GaussianParameters]):
    """The Gaussian mechanism, with entries below `level` set to zero.

    `given` is that level where it was a number of one's own, and so is `row_norm`.
    """

    mechanism: GaussianNoise
    level: float = 0.0
    given: float | None = None
    row_norm: float | None = None

    def release(self, prepared: Prepared) -> Release:
        """See `release_gaussian`; the bound follows the released norms, unless it is one's own."""
        inputs, known = self.parameters.inputs, {"row_norm": self.row_norm}
        if prepared.norm is not None and self.row_norm is None:
            known = {"radius": WIDEST, "row_norm": prepared.norm.norm}
        parameters = gaussian_parameters(inputs, mu=prepared.session.mu_left, **known)
        return release_gaussian(prepared.session, prepared.feature_scale, parameters)

    def threshold(self, release: Release) -> float:
        """The one given, or what the noise as it came out asks for."""
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
        return replace(planned, forecast=Forecast(self.name, errors, limit))

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
