"""Plan of the screened mechanism: its design, and its predicted error.

Which pairs are found follows from the edge of each selection, where the expected number of noisy
scores above it equals the level's size. Given that, errors are drawn on small references with
fixed seeds: the error of d features is the largest of several independent parts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from hushcov._arrays import FloatArray, IndexArray
from hushcov._words import noise_level, number
from hushcov.fit.mechanism import (
    DENSE_BYTES,
    REFERENCE_MODELS,
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
from hushcov.fit.reference import (
    REFERENCE_FEATURES,
    ErrorLaw,
    Reference,
    descend,
    median_errors,
    reference,
    reported_limit,
)
from hushcov.fit.screened.mechanism import (
    DIAGONAL_WEIGHT,
    NAME,
    PAIR_WEIGHT,
    ScreenedDesign,
    ScreenedParameters,
    ScreenLevel,
    candidate_pairs,
    integers_per_square,
    norm_spread,
    possible_pairs,
    release_screened,
    screened_parameters,
    shrunk_part,
)
from hushcov.inputs import ReleaseInputs
from hushcov.postprocess import detection_deviation
from hushcov.release import Release

_SEARCH_MODELS = ("block", "banded", "random")
_SEARCH_FEATURES = 40
_FEATURES_PER_PARTNER = 4
_MOST_PARTNERS = 40  # of a feature of a reference, where candidates are given
# What is left of `SHRINKING_BIAS` after its mean over models has been corrected for.
_REMAINING_BIAS = 2.5

# Quadrature over a standard normal.
_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _MASSES / _MASSES.sum()
_NEAR_EDGE = 1e-6  # a step of Newton's method after which the next is far below 1e-9

CHOICES: dict[str, Sequence[float]] = {
    "screen_share": [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7],
    "selection_factor": [1.0, 1.1, 1.2, 1.4, 1.7, 2.0, 2.5, 3.5, 5.0],
    "n_levels": [0, 1, 2, 3, 4, 5, 6],
    "size_ratio": [0.3, 0.4, 0.5, 0.6, 0.8, 1.0],
    "noise_ratio": [0.5, 0.6, 0.7, 0.8, 1.0],
    "norm_factor": [0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0],
    "keep_above": [0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5],
}
_STARTS = (
    ScreenedDesign(0.4, 1.2, 2, 0.4, 0.6, 1.0, 3.0),
    ScreenedDesign(0.55, 1.2, 4, 0.6, 0.7, 1.0, 3.0),
)
_ALL_PAIRS = ScreenedDesign(0.4, 1.2, 0, 0.4, 0.6, 1.5, 3.0)
# What a short search moves: the two choices that matter most.
_SHORT = ("norm_factor", "screen_share")
# What a search moves where all candidates are released.
_VALUES = ("norm_factor", "keep_above")


@dataclass(frozen=True)
class ScreenedPlan:
    """A screened release: its parameters and its predicted error."""

    parameters: ScreenedParameters
    predicted_error: dict[str, float]  # per reference model, relative to ||Sigma||
    detection_limit: float  # smallest correlation found nine times out of ten


@lru_cache(maxsize=512)
def plan_screened(inputs: ReleaseInputs, *, short: bool = False) -> ScreenedPlan:
    """Choose the design for these inputs and predict the error of each reference model.

    A `short` search takes a fifth of the time; its errors are up to a fifth larger.
    """
    design = best_design(inputs, short=short)
    parameters = screened_parameters(inputs, design)
    return ScreenedPlan(parameters, predicted_errors(parameters), detection_limit(parameters))


def best_design(inputs: ReleaseInputs, *, short: bool = False) -> ScreenedDesign:
    """Find the best design by descent from a few starts, on small references."""

    @cache  # lines cross, and descents from several starts meet
    def score(design: ScreenedDesign) -> float:
        parameters = screened_parameters(inputs, design, certified=False)
        logs = [
            math.log(_rough_error(parameters, _reference(model, inputs, _SEARCH_FEATURES)))
            for model in _SEARCH_MODELS
        ]
        return math.exp(statistics.fmean(logs))  # relative gains count alike on every model

    row = 1 + 2 * candidate_pairs(inputs) / inputs.n_features  # of all features, or candidates
    few = row <= 40 * inputs.row_sparsity  # releasing all of them may be better than screening
    starts = [_ALL_PAIRS, *_STARTS] if few else _STARTS
    lines = _SHORT if short else tuple(CHOICES)
    if inputs.candidates is not None and possible_pairs(inputs) == candidate_pairs(inputs):
        starts, lines = [_ALL_PAIRS], _VALUES  # nothing is selected
    starts = sorted(starts, key=score)[:1] if short else starts
    found = (descend(lambda each, _: score(each), start, lines, _moved) for start in starts)
    return min(found, key=lambda each: each[0])[1]


def predicted_errors(
    parameters: ScreenedParameters, models: Sequence[str] = REFERENCE_MODELS
) -> dict[str, float]:
    """Predict the median error on each reference model, relative to the operator norm of Sigma."""
    refs = [_reference(model, parameters.inputs, REFERENCE_FEATURES) for model in models]
    laws = {ref: _law(parameters, ref) for ref in refs}
    return dict(zip(models, median_errors(laws, parameters.inputs.n_sampled), strict=True))


def detection_limit(parameters: ScreenedParameters) -> float:
    """Predict the smallest correlation that is selected, kept and reported nine times of ten.

    Taken on the random reference, whose other pairs compete for the selection.
    """
    ref = _reference("random", parameters.inputs, REFERENCE_FEATURES)
    correlations = np.linspace(0.002, 1.0, 500)
    found, _ = _selection(parameters.levels, parameters.inputs, ref, correlations)
    noise = _law(parameters, ref).pair / ref.variance
    noise = math.hypot(noise, 1 / math.sqrt(parameters.inputs.n_sampled))
    kept = special.ndtr(correlations / noise - parameters.design.keep_above)
    sure = np.flatnonzero(found * kept >= 0.9)
    passes = float(correlations[sure[0]]) if len(sure) else 1.0
    return reported_limit(passes, parameters.inputs.found.share)


@lru_cache(maxsize=1024)
def _selected(
    levels: tuple[ScreenLevel, ...], inputs: ReleaseInputs, ref: Reference
) -> tuple[FloatArray, float]:
    """Keep the chances of the reference's own pairs: many designs differ in the rest alone."""
    return _selection(levels, inputs, ref, _pairs(ref).correlations)


def _selection(
    levels: tuple[ScreenLevel, ...], inputs: ReleaseInputs, ref: Reference, correlation: FloatArray
) -> tuple[FloatArray, float]:
    """Return chances of selection, and the expected number of selected pairs without covariance.

    Levels are peeled off one by one. The edge of a level is where the expected number of noisy
    scores above it equals its size.
    """
    if not levels:
        return np.ones_like(correlation), float(candidate_pairs(inputs))
    pairs, n = _pairs(ref), inputs.n_records
    zeros = ref.zero_sizes(n) / ref.variance
    n_zeros = max(0.0, candidate_pairs(inputs) - float(pairs.weights.sum()))

    def expected(correlations: FloatArray) -> FloatArray:
        """Return expected sums of products of signs of Gaussian pairs."""
        return np.asarray(n * 2 / math.pi * np.arcsin(correlations))

    scores = np.concatenate([expected(pairs.correlations), n * zeros])
    remaining = np.concatenate([pairs.weights, np.full(len(zeros), n_zeros / len(zeros))])
    # What a pair lacks to be selected is more often sampling error of its score than noise.
    asked = np.abs(expected(correlation)[:, None] + math.sqrt(n) * _NODES)
    left = np.zeros_like(asked)  # minus the logarithm of the chance to be left
    for level in levels:
        edge = _edge(level.rate * scores, remaining, level.size)
        remaining *= np.exp(-np.exp(np.minimum(level.rate * scores - edge, 30.0)))
        left += np.exp(np.minimum(level.rate * asked - edge, 30.0))
    missed = np.exp(-left) @ _WEIGHTS
    return 1 - missed, n_zeros - float(remaining[len(pairs.weights) :].sum())


def _edge(scores: FloatArray, weights: FloatArray, size: float) -> float:
    """Return where so many scores with Gumbel noise are expected above, rounded up to 1e-4."""
    least, most = float(scores.min()) - 5.0, float(scores.max()) + 60.0
    total = float(weights.sum())
    low, high = least, most
    edge, step = float(scores @ weights) / total if total > 0 else low, math.inf
    near = max(1e-9, 4 * math.ulp(max(abs(low), abs(high))))  # nothing is nearer than two doubles
    while high - low > near and abs(step) > _NEAR_EDGE:
        if not low < edge < high:
            edge = 0.5 * (low + high)
        rate = np.exp(np.minimum(scores - edge, 30.0))
        none = np.exp(-rate)
        above = total - float(weights @ none)
        low, high = (edge, high) if above > size else (low, edge)
        slope = float(weights @ (rate * none))
        # Newton's method on the logarithm, which is nearly a straight line.
        known = above > 1e-300 and slope > 0
        step = (math.log(above) - math.log(size)) * above / slope if known else math.inf
        edge += step
    found = min(max(edge, low), high)
    unit = (most - least) * 0.5 ** math.ceil(math.log2((most - least) / 1e-4))
    return least + unit * max(1, math.ceil((found - least) / unit))


class _Pairs(NamedTuple):
    """Pairs of a reference with a covariance: all sizes, and distinct correlations with counts."""

    sizes: FloatArray
    correlations: FloatArray
    which: IndexArray  # of them each size is
    weights: FloatArray  # pairs of the full matrix with each correlation
    mean_square: float


@lru_cache(maxsize=64)
def _pairs(ref: Reference) -> _Pairs:
    values = ref.values[ref.rows != ref.columns]
    sizes, squares = np.abs(values), (values / ref.variance) ** 2
    found = np.unique(sizes / ref.variance, return_inverse=True, return_counts=True)
    correlations, which, counts = found
    weights = counts * (ref.n_pairs / max(1, counts.sum()))
    mean_square = float(squares.mean()) if len(squares) else 0.0
    return _Pairs(sizes, correlations, which, weights, mean_square)


@lru_cache(maxsize=8)  # exact arithmetic takes its time
def _noise_sd(parameters: ScreenedParameters) -> tuple[float, float]:
    return parameters.noise_sd


def _law(parameters: ScreenedParameters, ref: Reference) -> ErrorLaw:
    """Return noise after dividing by the mean shrinkage, what bias is left, and who is released."""
    inputs, pairs = parameters.inputs, _pairs(ref)
    # Pairs with a covariance have larger products; at most as many as are selected.
    present = min(float(parameters.n_pairs), ref.n_pairs)
    products = parameters.n_pairs + 2 * present * pairs.mean_square
    norm = integers_per_square(parameters.half_width) * math.sqrt(
        PAIR_WEIGHT**2 * products + DIAGONAL_WEIGHT**2 * 2 * inputs.n_features
    )
    shrinkage, shrunk = shrunk_part(parameters.norm_bound / norm, norm_spread(inputs.n_features))
    pair, diagonal = (sd * ref.variance / shrinkage for sd in _noise_sd(parameters))
    noise = math.hypot(pair, ref.variance / math.sqrt(inputs.n_sampled))
    found, false = _selected(parameters.levels, inputs, ref)
    return ErrorLaw(
        pair=pair,
        diagonal=diagonal,
        threshold=parameters.design.keep_above * noise,
        lost=min(0.2, _REMAINING_BIAS / inputs.n_features) * shrunk / shrinkage,
        selected=found[pairs.which],
        false=false,
    )


def _rough_error(parameters: ScreenedParameters, ref: Reference) -> float:
    """Return a smooth stand-in for the error on a model, which the search minimises.

    Twice the root of the mean energy of a row of the error matrix (noise, sampling, misses), as
    for random matrices, plus the largest entry expected to be missed: one that is rare for one
    entry but not among all of them.
    """
    inputs, size = parameters.inputs, len(ref.matrix)
    law, entries = _law(parameters, ref), _pairs(ref).sizes
    noise, sampling = law.pair, ref.variance**2 / inputs.n_sampled
    found = law.selected * special.ndtr((entries - law.threshold) / noise)
    energy = 2 / size * float(np.sum((1 - found) * entries**2 + found * (noise**2 + sampling)))
    energy += law.diagonal**2 + 2 * sampling
    t = parameters.design.keep_above
    tail, density = float(special.ndtr(-t)), math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    # The mean square of a standard normal that is beyond the threshold.
    kept_square = 1 + t * density / max(tail, 1e-300)
    energy += 2 / inputs.n_features * law.false * 2 * tail * kept_square * noise**2
    # The largest missed entry: sizes from small to large, each present so many times.
    order, copies = np.argsort(entries), ref.n_pairs / max(1, len(entries))
    log_none = copies * np.log1p(-np.minimum(1 - found[order], 1 - 1e-12))
    larger = np.cumsum(log_none[::-1])[::-1] - log_none
    miss = float(np.sum(entries[order] * -np.expm1(log_none) * np.exp(larger)))
    return 2 * math.sqrt(energy) + law.lost + miss


def _reference(model: str, inputs: ReleaseInputs, features: int) -> Reference:
    k = inputs.row_sparsity
    if inputs.candidates is not None:  # where there are more, not all of them matter alike
        k = min(k, _MOST_PARTNERS)
    enough = max(features, _FEATURES_PER_PARTNER * k)
    return reference(model, inputs.n_features, k, min(enough, 400))


def _moved(name: str, design: ScreenedDesign, stride: int) -> ScreenedDesign | None:
    """Return the design `stride` choices further along a line; None beyond its end."""
    choices = CHOICES[name]
    here = min(range(len(choices)), key=lambda i: abs(choices[i] - getattr(design, name)))
    if not 0 <= here + stride < len(choices):
        return None
    return replace(design, **{name: choices[here + stride]})  # type: ignore[arg-type]


_MOST_OFF = 16.0  # factor by which norms may differ from what the scales say


@dataclass(frozen=True)
class PlannedScreened(MechanismPlan[ScreenedParameters]):
    """A screened release, thresholded at a number of deviations, noise and sampling together."""

    sparse: bool = False
    searched: ScreenedPlan | None = None

    def release(self, prepared: Prepared) -> Release:
        """See `release_screened`; bound and scores follow the released norms and tilts."""
        norm, session = prepared.norm, prepared.session
        parameters = replace(self.parameters, mu=session.mu_left)
        if norm is not None:
            typical = min(_MOST_OFF, max(1 / _MOST_OFF, norm.typical))
            parameters = replace(
                parameters, norm_bound=max(1, int(parameters.norm_bound * typical))
            )
        if prepared.tilt is not None:
            parameters = parameters.tilted(tuple(prepared.tilt.tolist()))
        return release_screened(session, prepared.feature_scale, parameters, sparse=self.sparse)

    @property
    def centres_signs(self) -> bool:
        """Signs are centred, because those of skewed features agree by themselves."""
        return bool(self.parameters.levels)

    def threshold(self, release: Release) -> float:
        """Return the planned number of deviations of the noise of the release."""
        assert release.noise_sd is not None
        deviation = detection_deviation(release.noise_sd[0], self.parameters.inputs.n_sampled)
        return self.parameters.design.keep_above * deviation

    def facts(self, before: str = SCALES) -> Facts:
        """See `MechanismPlan.facts`."""
        parameters, inputs = self.parameters, self.parameters.inputs
        screen_share = parameters.design.screen_share if parameters.levels else 0.0
        factor = number(parameters.design.norm_factor)
        found = [
            ("budget", budget_words(inputs, before, {"the screen": screen_share}, "the values")),
            ("screen", self._screen()),
            ("values", f"records are scaled down to at most {factor} times the typical norm"),
        ]
        if parameters.n_pairs:
            found.append(("noise", noise_level(parameters.noise_sd[0], inputs.n_sampled)))
            found.append(("threshold", self._kept()))
        return [*found, ("certified", certified_words(self.budget()))]

    def _screen(self) -> str:
        parameters = self.parameters
        if parameters.n_pairs == 0:
            return "none: at row sparsity 1 no pair is looked for, and variances are released alone"
        pairs = "pairs" if parameters.inputs.candidates is None else "candidate pairs"
        if not parameters.levels:
            return f"none: the values of all {parameters.n_pairs:,} {pairs} are released"
        sizes = " + ".join(f"{level.size:,}" for level in parameters.levels)
        rounds = "round" if len(parameters.levels) == 1 else "rounds, the strongest pairs first"
        total = "" if len(parameters.levels) == 1 else f" = {parameters.n_pairs:,}"
        return (
            f"pairs are scored by how often their signs agree; {len(parameters.levels)} {rounds}, "
            f"select {sizes}{total} of {candidate_pairs(parameters.inputs):,} {pairs}"
        )

    def _kept(self) -> str:
        keep, n = self.parameters.design.keep_above, self.parameters.inputs.n_sampled
        if keep == 0:
            return "none: all released pairs are kept"
        limit = keep * detection_deviation(self.parameters.noise_sd[0], n)
        return (
            f"released pairs below {number(keep)} standard deviations, a correlation of about "
            f"{number(limit, 2)}, are set to zero"
        )


class Screened(Mechanism):
    """Selects pairs and releases their values."""

    name = NAME
    title = NAME
    predicted = True
    no_limit = "at row sparsity 1 it releases variances alone"
    sparse = True
    takes_candidates = True
    estimator = ("ScreenedCovariance", {})

    def plan(
        self, inputs: ReleaseInputs, *, sparse: bool = False, keep_above: float | None = None
    ) -> PlannedScreened:
        """See `Mechanism.plan`; `keep_above` replaces the planned number of deviations."""
        plan = self.search(inputs, keep_above=keep_above)
        limit = plan.detection_limit if plan.parameters.n_pairs else None  # no pair is looked for
        forecast = Forecast(self.name, plan.predicted_error, limit)
        return PlannedScreened(self, plan.parameters, forecast, sparse, plan)

    def search(self, inputs: ReleaseInputs, *, keep_above: float | None = None) -> ScreenedPlan:
        """Return the best design with its predicted error."""
        plan = plan_screened(inputs)
        if keep_above is None:
            return plan
        design = replace(plan.parameters.design, keep_above=keep_above)
        parameters = replace(plan.parameters, design=design)
        return ScreenedPlan(parameters, predicted_errors(parameters), detection_limit(parameters))

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """See `Mechanism.work`."""
        screen = screen_bytes(n_records, n_features)
        return max(screen, 0 if sparse else DENSE_BYTES * n_features**2)


SCREENED = Screened()
