"""Plan of the paper's calibrated mechanism: its design, chosen by the predicted error.

The optimiser chooses the design that minimises the predicted error, averaged over the reference
models with each error capped at that of the zero matrix. Everything is a function of public inputs,
and the search and its random numbers are fixed, so the same inputs always give the same design.

For a prediction, the edge of each selection is where the expected number of scores above it equals
the quota. Given the edge, tests are independent, so each entry's law is known: gate counts are
binomial, values are Gaussian. Draws of the error matrix on the reference, with fixed seeds, give
its operator norm. Nothing here reads data before the release itself.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import sparse, special

from hushcov._arrays import FloatArray, IndexArray, IntArray, Matrix, like, root
from hushcov._validation import check_choice, check_feature_scale
from hushcov._words import count, number
from hushcov.fit.mechanism import (
    COMPARED_MODELS,
    REFERENCE_MODELS,
    SCALES,
    Facts,
    Forecast,
    Mechanism,
    MechanismPlan,
    Prepared,
    Table,
    budget_words,
    certified_words,
)
from hushcov.fit.reference import Reference, dense_norms, descend, reference, sparse_norms
from hushcov.inputs import CalibratedInputs, ReleaseInputs
from hushcov.kernel.accounting import Budget
from hushcov.kernel.records.base import MappedRecords, Records
from hushcov.kernel.session import unwrap
from hushcov.kernel.sums.gram import second_moments
from hushcov.paper import kernels
from hushcov.paper.mechanism import (
    NAME,
    CalibratedParameters,
    Design,
    calibrated_budget,
    calibrated_parameters,
    draft_schedule,
    grid_for,
    release_multiscale,
)
from hushcov.paper.parameters import Level, Schedule, level_table
from hushcov.paper.samplers import LARGEST_TRANSCRIPT, RECONSTRUCTIONS
from hushcov.release import Release

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_TAU, _TAU_WEIGHTS = 1.5 + 0.5 * _NODES, 0.5 * _WEIGHTS  # thresholds over t_ell
_NEAR_EDGE, _SMALLEST = 1e-14, 1e-300
_DRAWN_TESTS = 4
_SHARP_GATES = 0.1
_LARGE = 200  # from this size on norms are found by Lanczos' method
_RECORDS = 128  # whose moments vary like those of many, on large references
_FEW = 0.05  # selected tests an entry, up to which they are drawn rather than entries
_IN_TURN = 32  # times that each of a few chances stands for an entry, and is not drawn by itself
_SIZES = 48  # distinct nonzero sizes kept; more are pooled into quantiles
_DENSE = 16  # one of so many places filled is a dense matrix
_MANY_GATES = 4.0  # from this rate on a difference of Poisson counts is taken as normal


# Larger values are cut to this so that they stay finite. Every grid clips far below it.
_LARGEST_SCALED = 1e300


class ScaledRecords(MappedRecords):
    """The records divided by public scales; a feature of scale 0 becomes zero.

    Privacy
    -------
    Each row is mapped on its own, so neighbours stay neighbours.
    """

    def __init__(self, records: Records, feature_scale: FloatArray) -> None:
        super().__init__(records)
        self._scale = check_feature_scale(feature_scale, records.n_features)
        self._public = {"feature_scale": feature_scale}

    def _mapped(self, block: Any, xp: Any) -> Any:
        divisor = np.where(self._scale > 0, self._scale, np.inf)
        return xp.clip(block / like(divisor, block), -_LARGEST_SCALED, _LARGEST_SCALED)


@dataclass(frozen=True, eq=False)
class _TestLaw:
    """Law of one active test of a level for entries of each size, of which there are `counts`."""

    sizes: FloatArray
    counts: FloatArray
    level: Level
    schedule: Schedule

    @cached_property
    def _omega(self) -> FloatArray:
        """Sizes over each of the quadrature's thresholds."""
        return self.sizes[:, None] / self.level.threshold / _TAU

    @cached_property
    def edge(self) -> float:
        """Value above which the expected number of noisy scores, plus one, is the quota."""
        level, b, omega = self.level, self.level.selection_scale, self._omega
        if b is None:
            return -math.inf
        active = self.counts * level.repetitions * level.activation
        inactive = self.counts.sum() * level.repetitions * level.inactivation
        low, high = -1 - 5 * b, float(omega.max()) + 60 * b

        def excess(edge: float) -> float:
            above = active @ (_gumbel_tail((edge - omega) / b) @ _TAU_WEIGHTS)
            above += inactive * _gumbel_tail(np.asarray((edge + 1) / b))
            return math.log(max(float(above), _SMALLEST) / level.quota)  # nearly a line

        return root(excess, low, high, relative=_NEAR_EDGE) if excess(low) > 0 else low

    @cached_property
    def kept(self) -> FloatArray:
        """The chance of selection at each of the quadrature's thresholds."""
        b = self.level.selection_scale
        if b is None:
            return np.ones_like(self._omega)
        return _gumbel_tail((self.edge - self._omega) / b)

    @cached_property
    def selected(self) -> FloatArray:
        """The chance of selection."""
        return np.asarray(self.kept @ _TAU_WEIGHTS)

    @cached_property
    def by_threshold(self) -> FloatArray:
        """Chances of selection up to each threshold."""
        return np.cumsum(self.kept * _TAU_WEIGHTS, axis=1)

    @cached_property
    def gates(self) -> tuple[FloatArray, FloatArray]:
        """Chances of selection with the gate of the right sign, and with the wrong one."""
        r, clip = self.schedule.gate_noise, self.schedule.gate_clip
        if r < _SHARP_GATES:
            # The quadrature would not resolve the step from no gate to gate.
            alpha, masses = self.sizes / self.level.threshold, np.empty((3, len(self.sizes)))
            law = self.edge, math.inf, self.level.selection_scale or 1.0, r, clip, True
            kernels.fill_gate_masses(0, len(alpha), alpha, *law, masses)
            return masses[0], masses[1]
        fire = np.where(1 - self._omega >= clip, 0.0, special.ndtr((self._omega - 1) / r))
        fire = np.where(1 - self._omega < -clip, 1.0, fire)
        wrong = np.where(1 + self._omega >= clip, 0.0, special.ndtr(-(1 + self._omega) / r))
        return (self.kept * fire) @ _TAU_WEIGHTS, (self.kept * wrong) @ _TAU_WEIGHTS


def _gumbel_tail(z: FloatArray) -> FloatArray:
    # Not np.clip, whose checks cost more than the rest on arrays of this size.
    return np.asarray(-np.expm1(-np.exp(-np.minimum(np.maximum(z, -7.0), 700.0))))


@dataclass(frozen=True, eq=False)
class _Pooled:
    """Few distinct sizes of a reference's nonzeros, and which of them stands for each.

    Counts and the number of zeros are those of the upper triangle of the full matrix.
    """

    sizes: FloatArray
    which: IndexArray
    counts: FloatArray
    n_zeros: float


@lru_cache(maxsize=64)
def _pooled(ref: Reference) -> _Pooled:
    values, d = np.abs(ref.values), ref.n_features
    sizes: FloatArray
    sizes, index = np.unique(np.round(values, 9), return_inverse=True)
    if len(sizes) > _SIZES:
        order = np.argsort(values, kind="stable")
        index = np.empty(len(values), dtype=np.intp)
        # Finer among the small ones, which are the ones that may be missed.
        rank = (np.arange(len(values)) + 0.5) / len(values)
        index[order] = (_SIZES * rank**0.5).astype(np.intp)
        index = np.unique(index, return_inverse=True)[1]
        sizes = np.asarray(np.bincount(index, weights=values) / np.bincount(index))
    counts = np.bincount(index, minlength=len(sizes)).astype(np.float64) * (d / len(ref.matrix))
    return _Pooled(sizes, index, counts, d * (d + 1) / 2 - float(counts.sum()))


@lru_cache(maxsize=16)
def _test_laws(inputs: CalibratedInputs, schedule: Schedule, ref: Reference) -> list[_TestLaw]:
    """Return the law of a test at every level, for sizes of the reference, then its zeros."""
    pooled = _pooled(ref)
    sizes = np.concatenate([pooled.sizes, ref.zero_sizes(inputs.n_records)])
    n_quantiles = len(sizes) - len(pooled.sizes)
    counts = np.append(pooled.counts, np.full(n_quantiles, pooled.n_zeros / n_quantiles))
    return [_TestLaw(sizes * inputs.scale**2, counts, lv, schedule) for lv in schedule.levels]


@lru_cache(maxsize=64)
def _sampling_noise(ref: Reference, seed: int) -> tuple[FloatArray, dict[str, Any]]:
    """Return S - Sigma on the support times sqrt(2 n), and the generator's state after.

    S - Sigma is Sigma^1/2 G Sigma^1/2 / sqrt(n), G symmetric Gaussian: the same for every design,
    and kept because a search asks for it hundreds of times. On large references G is the sum of so
    many records that its entries are nearly normal.
    """
    generator, size = np.random.default_rng(seed), len(ref.matrix)
    if size <= _LARGE:
        G = generator.standard_normal((size, size))
        G, noise = G + G.T, np.zeros_like(ref.matrix)
        for at in ref.blocks:
            noise[at, at] = ref.root[at, at] @ G[at, at] @ ref.root[at, at]
        return noise[ref.rows, ref.columns], dict(generator.bit_generator.state)
    records = _factor(ref) @ generator.standard_normal((size, _RECORDS), dtype=np.float32)
    moments = np.einsum("ij,ij->i", records[ref.rows], records[ref.columns])
    noise = math.sqrt(2 / _RECORDS) * (moments - _RECORDS * ref.values)
    return noise, dict(generator.bit_generator.state)


@lru_cache(maxsize=8)
def _factor(ref: Reference) -> Matrix:
    """Return a matrix whose product with its transpose is the reference; a few digits of it."""
    try:
        root = np.linalg.cholesky(ref.matrix).astype(np.float32)
    except np.linalg.LinAlgError:  # a part of a random model, which is barely definite
        root = ref.root.astype(np.float32)
    return root if np.count_nonzero(root) > root.size / _DENSE else sparse.csr_array(root)


def _precision(
    number: IntArray, index: IndexArray, law: _TestLaw, generator: np.random.Generator
) -> FloatArray:
    """Return sums of 1/T^2 over selected tests: the first few drawn, others at their mean."""
    inverse = (law.level.threshold * _TAU) ** -2.0
    total = np.zeros(len(index))
    for test in range(min(int(number.max(initial=0)), _DRAWN_TESTS)):
        entries = np.flatnonzero(number > test)
        chances = law.by_threshold[index[entries]]
        position = generator.random(len(entries)) * chances[:, -1]
        node = np.sum(chances < position[:, None], axis=1)
        total[entries] += inverse[np.minimum(node, len(inverse) - 1)]
    many = np.flatnonzero(number > _DRAWN_TESTS)
    if not len(many):
        return total
    shares = np.diff(law.by_threshold[index[many]], axis=1, prepend=0.0)
    mean = shares @ inverse / np.maximum(shares.sum(axis=1), 1e-300)
    total[many] += (number[many] - _DRAWN_TESTS) * mean
    return total


@dataclass(frozen=True, eq=False)
class DrawnErrors:
    """Errors of calibrated parameters on a reference, in units of scale^2."""

    parameters: CalibratedParameters
    ref: Reference

    @cached_property
    def laws(self) -> list[_TestLaw]:
        """The law of one test at each level."""
        return _test_laws(self.parameters.inputs, self.parameters.schedule, self.ref)

    def errors(self, seeds: Sequence[int]) -> list[float]:
        """Draw the operator-norm error, once for each seed; those of few features one by one."""
        if len(seeds) > 1 and self.ref.n_features <= _FEATURES:
            return [error for seed in seeds for error in self.errors([seed])]
        ref, size, n_records = self.ref, len(self.ref.matrix), self.parameters.inputs.n_records
        kept, diagonal = self._clipping()
        clipped = np.where(ref.rows == ref.columns, diagonal[ref.rows], ref.values * kept)
        known, generator = [_sampling_noise(ref, seed) for seed in seeds], np.random.default_rng(0)
        generator.bit_generator.state = known[0][1]
        noise = np.stack([each for each, _ in known]) / math.sqrt(2 * n_records)
        draw = {"value": self._values, "gate": self._gates}[self.parameters.reconstruction]
        estimate, places, spurious = draw(clipped + noise, generator)
        draws, places = np.divmod(places, max(1, self._zeros[0]))
        rows, columns = np.divmod(_zero_places(ref)[places], size)
        estimate -= ref.values
        if size > _LARGE and len(places) < len(noise) * size**2 / _DENSE:
            which = np.arange(len(noise))
            entries = (
                np.append(np.repeat(which, len(ref.rows)), draws),
                np.append(np.tile(ref.rows, len(noise)), rows),
                np.append(np.tile(ref.columns, len(noise)), columns),
                np.append(estimate, spurious),
            )
            norms = sparse_norms(entries, len(noise), size, precise=True)
        else:
            error = np.zeros((len(noise), size, size))
            error[:, ref.rows, ref.columns] = error[:, ref.columns, ref.rows] = estimate
            error[draws, rows, columns] = error[draws, columns, rows] = spurious
            few = size <= _LARGE
            norms = np.abs(np.linalg.eigvalsh(error)).max(axis=1) if few else dense_norms(error)
        return [float(norm) for norm in norms]

    def largest_miss(self) -> float:
        """Return the expected size of the largest entry that is not found, or found and not kept.

        The error is at least this, and unlike draws on a small reference it shows misses that are
        rare for one entry but not among all of them.
        """
        parameters, sizes = self.parameters, _pooled(self.ref).sizes
        tests = np.zeros(len(sizes))
        for law in self.laws:
            tests += law.level.repetitions * law.level.activation * law.selected[: len(sizes)]
        log_missed = np.zeros(len(sizes))
        for law in self.laws:
            level = law.level
            chances = np.diff(law.by_threshold[: len(sizes)], axis=1, prepend=0.0)
            noise = parameters.schedule.gate_noise * level.threshold / parameters.inputs.scale**2
            deviation = noise * _TAU / np.sqrt(np.maximum(tests, 1.0))[:, None]
            passes = special.ndtr(sizes[:, None] / deviation - parameters.design.keep_above)
            found = np.clip(level.activation * np.sum(chances * passes, axis=1), 0, 1 - 1e-12)
            log_missed += level.repetitions * np.log1p(-found)
        # Sizes increase: some entry of a size is missed, and none of a larger one.
        log_none = _pooled(self.ref).counts * np.log1p(-np.minimum(np.exp(log_missed), 1 - 1e-12))
        larger = np.cumsum(log_none[::-1])[::-1] - log_none
        return float(np.sum(sizes * -np.expm1(log_none) * np.exp(larger)))

    def _clipping(self) -> tuple[float, FloatArray]:
        """Return how clipping shrinks products off the diagonal, and the variances it leaves."""
        radius, variances = self.parameters.design.clip_radius, np.diag(self.ref.matrix)
        z = radius / np.sqrt(variances)
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        lost = 2 * ((1 - z**2) * special.ndtr(-z) + z * density)
        inside = 1 - 2 * special.ndtr(-radius / math.sqrt(self.ref.variance))
        return float(inside**2), variances * (1 - lost)

    @property
    def _zeros(self) -> tuple[int, float]:
        """Number of zero entries of the reference, and the share of them that stands for one."""
        size = len(self.ref.matrix)
        dilution = min(1.0, self.ref.n_features / size)
        return size * (size + 1) // 2 - len(self.ref.values), dilution

    def _gates(
        self, statistic: FloatArray, generator: np.random.Generator
    ) -> tuple[FloatArray, IndexArray, FloatArray]:
        """Return gate reconstruction on the support, and where and what opens at zero entries."""
        ref, pooled, (n_zeros, dilution) = self.ref, _pooled(self.ref), self._zeros
        index = pooled.which
        total, spurious = np.zeros(statistic.shape), np.zeros(len(statistic) * n_zeros)
        for law in self.laws:
            level = law.level
            weight = self.parameters.schedule.weight(level) / self.parameters.inputs.scale**2
            p, m = level.activation, level.repetitions
            # The pooled sizes carry the law; an entry's own value shifts it along its size.
            fired, misfired = law.gates
            total += weight * generator.binomial(m, np.clip(p * fired[index], 0, 1), total.shape)
            total -= weight * generator.binomial(m, np.clip(p * misfired[index], 0, 1), total.shape)
            zero = slice(len(pooled.sizes), None)
            rate = m * p * dilution * float(np.mean(fired[zero] + misfired[zero]))
            spurious += weight * _spurious_gates(rate, len(spurious), generator)
        at, size = np.flatnonzero(spurious), pooled.sizes[index]
        return np.sign(ref.values) * (total + np.abs(statistic) - size), at, spurious[at]

    def _values(
        self, statistic: FloatArray, generator: np.random.Generator
    ) -> tuple[FloatArray, IndexArray, FloatArray]:
        """Return value reconstruction on the support, and where and what is kept at zeros."""
        pooled, (n_zeros, dilution) = _pooled(self.ref), self._zeros
        sizes = len(pooled.sizes)
        keep_above, few = self.parameters.design.keep_above, self.ref.n_features <= _FEATURES
        at, deviation, weight = self._found(pooled.which, statistic.size, generator)
        value = statistic.flat[at] + deviation * generator.standard_normal(statistic.size)[at]
        estimate = np.zeros(statistic.shape)
        estimate.flat[at] = np.where(np.abs(value) > keep_above * deviation, value * weight, 0.0)
        kinds = np.arange(sizes, len(self.laws[0].selected))
        if few:  # each is of any kind, so that designs for few features stay as they are
            kinds = sizes + generator.integers(len(kinds), size=n_zeros)
        at, deviation, weight = self._found(kinds, len(statistic) * n_zeros, generator, dilution)
        drawn = (
            generator.standard_normal(n_zeros)[at] if few else generator.standard_normal(len(at))
        )
        kept = np.flatnonzero(np.abs(drawn) > keep_above)
        return estimate, at[kept], (deviation * drawn * weight)[kept]

    def _found(
        self,
        kinds: IndexArray,
        n_entries: int,
        generator: np.random.Generator,
        dilution: float = 1.0,
    ) -> tuple[IndexArray, FloatArray, FloatArray]:
        """Return which entries have a selected test, deviations of their values, weights 1/p.

        They are of these kinds in turn.
        """
        tests = []
        for law in self.laws:
            level = law.level
            chances = np.clip(dilution * level.activation * law.selected, 0, 1)[kinds]
            at, number = _selected(level.repetitions, chances, n_entries, generator)
            precision = _precision(number, kinds[at % len(kinds)], law, generator)
            looked = min(1.0, level.repetitions * level.activation)
            tests.append((at, precision, np.full(len(at), looked)))
        at, precision, looks = (np.concatenate(each) for each in zip(*tests, strict=True))
        found, place = np.unique(at, return_inverse=True)
        surest = np.zeros(len(found))
        np.maximum.at(surest, place, looks)
        deviation = self.parameters.schedule.gate_noise / np.sqrt(np.bincount(place, precision))
        return found, deviation / self.parameters.inputs.scale**2, 1 / surest


def _selected(
    tests: int, chances: FloatArray, n_entries: int, generator: np.random.Generator
) -> tuple[IndexArray, IntArray]:
    """Return which entries have selected tests, and how many; they have the chances in turn."""
    if n_entries <= _IN_TURN * len(chances):
        number = generator.binomial(tests, np.resize(chances, n_entries))
        at = np.flatnonzero(number)
        return at, number[at]
    places, numbers = [], []
    for kind, chance in enumerate(chances.tolist()):
        own = len(range(kind, n_entries, len(chances)))
        if tests * chance < _FEW:  # hardly ever two of one entry
            drawn = generator.integers(own, size=generator.poisson(own * tests * chance))
            at, number = np.unique(drawn, return_counts=True)
        else:
            number = generator.binomial(tests, chance, own)
            at = np.flatnonzero(number)
            number = number[at]
        places.append(kind + len(chances) * at)
        numbers.append(number)
    return np.concatenate(places), np.concatenate(numbers)


@lru_cache(maxsize=8)
def _zero_places(ref: Reference) -> IndexArray:
    """Return places of the zero entries of the upper triangle, row by row."""
    zeros = np.triu(np.ones(ref.matrix.shape, dtype=bool))
    zeros[ref.rows, ref.columns] = False
    return np.flatnonzero(zeros)


def _spurious_gates(rate: float, n_entries: int, generator: np.random.Generator) -> FloatArray:
    """Return opened gates of random sign, Poisson at this rate for each entry, added up."""
    if rate > _MANY_GATES:
        return generator.normal(scale=math.sqrt(rate), size=n_entries)
    number = generator.poisson(rate * n_entries)
    signs = np.where(generator.random(number) < 0.5, -1.0, 1.0)
    position = generator.integers(n_entries, size=number)
    return np.asarray(np.bincount(position, signs, minlength=n_entries), dtype=np.float64)


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


def score_design(
    inputs: CalibratedInputs, reconstruction: str, design: Design, enough: float = math.inf
) -> float:
    """Return the mean predicted error over the references; infinite for impossible designs.

    Each error is capped at that of the zero matrix, with a little slope to find the way down. A
    design is impossible if it is too large, or clipping or finite precision take too much delta.
    Nothing more is drawn once the mean is at least `enough`: what is returned is less, then.
    """
    schedule = draft_schedule(inputs, design)
    draft = CalibratedParameters(inputs, design, reconstruction, schedule)
    kept, values = schedule.total_quota, reconstruction == "value"
    beyond = math.erfc(schedule.gate_clip / schedule.gate_noise / math.sqrt(2))
    if (
        (values and kept > LARGEST_TRANSCRIPT)
        or max(level.candidates for level in schedule.levels) > _LARGEST_COUNT
        or draft.numerical_delta > _LARGEST_NUMERICAL_SHARE * inputs.delta
        or (1 + math.exp(inputs.epsilon)) * kept * beyond > inputs.delta / 4
    ):
        return math.inf
    sizes = [(model, inputs.n_features, inputs.row_sparsity) for model in REFERENCE_MODELS]
    found = [0.0] * len(sizes)
    if values:
        # Added, not compared: a design that misses an entry every other time is worse than its
        # median says, and harder to predict.
        full = (DrawnErrors(draft, reference(*size, _FULL_FEATURES)) for size in sizes)
        found = [each.largest_miss() for each in full]
    for i, size in enumerate(sizes):
        if statistics.fmean(found) >= enough:
            break
        draws = DrawnErrors(draft, reference(*size, _FEATURES)).errors(_SEEDS)
        found[i] += statistics.fmean(min(x, 1 + 0.01 * math.log(max(x, 1))) for x in draws)
    return statistics.fmean(found)


def _moved(name: str, design: Design, stride: int) -> Design | None:
    """Return the design `stride` choices further along a line; None beyond its end."""
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
    """Choose the design for these inputs and predict the error of each reference model.

    The design is the best found from several starts on small references.
    """
    check_choice("reconstruction", reconstruction, tuple(RECONSTRUCTIONS))
    known: dict[Design, tuple[float, bool]] = {}  # scores, and whether they are exact

    def score(design: Design, enough: float) -> float:
        # Lines cross, and descents from several starts meet.
        found, exact = known.get(design, (-math.inf, False))
        if not exact and found < enough:
            found = score_design(inputs, reconstruction, design, enough)
            known[design] = found, found < enough
        return found

    names = [n for n in CHOICES if n != "keep_above" or reconstruction == "value"]
    found = (descend(score, start, (*names, _SHIFT), _moved) for start in _STARTS[reconstruction])
    best = min(found, key=lambda each: each[0])[1]
    parameters = calibrated_parameters(inputs, best, reconstruction)
    return MultiscalePlan(parameters, _predictions(parameters))


@lru_cache(maxsize=512)
def rough_multiscale(inputs: CalibratedInputs) -> dict[str, float]:
    """Return a quick prediction of values: of the design that the search starts from."""
    design = _STARTS["value"][0]
    draft = CalibratedParameters(inputs, design, "value", draft_schedule(inputs, design))
    return _predictions(draft, _ROUGH_FEATURES, _ROUGH_SEEDS)


def _predictions(
    parameters: CalibratedParameters,
    features: int = _PREDICTION_FEATURES,
    seeds: Sequence[int] = _PREDICTION_SEEDS,
) -> dict[str, float]:
    """Return the median over a few draws of a schedule's error on each reference model."""
    size = parameters.inputs.n_features, parameters.inputs.row_sparsity, features
    drawn = {m: DrawnErrors(parameters, reference(m, *size)) for m in REFERENCE_MODELS}
    return {model: statistics.median(each.errors(seeds)) for model, each in drawn.items()}


_RECONSTRUCTION = "value"  # several times more accurate than gates
_REFERENCE = 100  # features of the references for norms of correlation matrices
# Bytes for a pair of features, measured: levels, exact moments, and four arrays of the sampler.
_BYTES = 65


@dataclass(frozen=True)
class PlannedMultiscale(MechanismPlan[CalibratedParameters]):
    """Calibrated values; the mechanism thresholds by itself."""

    def budget(self, *, private: bool = True) -> Budget:
        """See `calibrated_budget`."""
        return calibrated_budget(self.parameters, private=private)

    def release(self, prepared: Prepared) -> Release:
        """See `release_multiscale`, which knows one scale for all features."""
        records, budget, entropy = unwrap(prepared.session)
        scaled = ScaledRecords(records, prepared.feature_scale)
        moments = second_moments(scaled, grid_for(self.parameters))
        release = release_multiscale(moments, self.parameters, entropy, budget=budget)
        return replace(release, feature_scale=prepared.feature_scale)

    def facts(self, before: str = SCALES) -> Facts:
        """See `MechanismPlan.facts`."""
        parameters, schedule = self.parameters, self.parameters.schedule
        radius, keep = number(parameters.clip_radius, 3), number(parameters.design.keep_above)
        tests, kept = sum(level.candidates for level in schedule.levels), schedule.total_quota
        best = "all of them kept" if kept == tests else f"of which the {count(kept)} best are kept"
        return [
            ("budget", budget_words(parameters.inputs, before, {}, "the values")),
            ("values", f"values of a record, in units of the scales, are clipped to +-{radius}"),
            ("tests", f"{count(tests)} tests of entries against random thresholds, {best}"),
            ("noise", f"{number(schedule.gate_noise, 3)} times the threshold of a kept test"),
            (
                "threshold",
                f"the kept tests of an entry are averaged; averages below {keep} standard "
                "deviations are set to zero",
            ),
            ("certified", certified_words(self.budget())),
        ]

    def table(self) -> Table:
        """Return a table with one row a level."""
        return level_table(self.parameters.schedule)


class Multiscale(Mechanism):
    """Threshold tests at many scales."""

    name = NAME
    title = NAME
    predicted = True
    no_limit = "its tests have no single threshold"
    slow = True
    takes_rest = False

    def plan(self, inputs: ReleaseInputs, *, sparse: bool = False) -> PlannedMultiscale:
        """See `Mechanism.plan`."""
        plan = plan_multiscale(multiscale_inputs(inputs), _RECONSTRUCTION)
        forecast = Forecast(self.name, plan.predicted_error, None)
        return PlannedMultiscale(self, plan.parameters, forecast)

    def forecast(self, inputs: ReleaseInputs, *, rough: bool = False) -> Forecast:
        """See `Mechanism.forecast`."""
        if not rough:
            return super().forecast(inputs)
        return Forecast(self.name, rough_multiscale(multiscale_inputs(inputs)), None, rough=True)

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """Return the bytes of levels, exact moments, and arrays of the sampler."""
        return _BYTES * n_features**2


def multiscale_inputs(inputs: ReleaseInputs) -> CalibratedInputs:
    """Return the inputs of the multiscale mechanism, on features at scale 1.

    Its scale bounds the standard deviation in every direction: the root of the norm of the
    correlation matrix, taken from the reference models.
    """
    d, k = inputs.n_features, inputs.row_sparsity
    norms = [1 / reference(model, d, k, _REFERENCE).variance for model in COMPARED_MODELS]
    return CalibratedInputs(
        n_records=inputs.n_records,
        n_features=d,
        row_sparsity=k,
        epsilon=inputs.epsilon,
        delta=inputs.delta,
        scale=math.sqrt(statistics.fmean(norms)),
        before=inputs.most_before,
        neighbours=inputs.neighbours,
    )


MULTISCALE = Multiscale()
