"""The release of Algorithm 1 from second moments: certify first, then draw.

With calibrated numbers any public design becomes a certified schedule. The steps are the paper's.
What changes is how the numbers come about: selection noise is Gumbel, the gate noise may stay
unclipped, all budgets are one composition, and the noise is the smallest the accountant certifies.
There is no condition on n: whatever the design, the schedule is private.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from hushcov._validation import check_choice
from hushcov.calibration import calibrate
from hushcov.exceptions import DataError, ParameterError, PrivacyConditionError
from hushcov.inputs import CalibratedInputs
from hushcov.kernel.accounting import (
    WITHIN,
    Approximate,
    BoundedRange,
    Budget,
    Event,
    Gaussian,
    Guarantee,
    TotalVariation,
)
from hushcov.kernel.grids import IntegerGrid, check_number_of_records
from hushcov.kernel.noise import Entropy, check_entropy
from hushcov.kernel.sums.statistics import Statistics
from hushcov.paper.parameters import (
    Level,
    Schedule,
    TheoremParameters,
    gate_correction,
    numerical_delta,
    query_inflation,
    rounding_inflation,
)
from hushcov.paper.samplers import (
    RECONSTRUCTIONS,
    check_capacity,
    sample_exact,
    sample_transcript,
    value_integers,
)
from hushcov.release import Making, Release, named_parts, parts_of
from hushcov.simulate import SimulatedMoments

# kappa corrects the mean of 1/(1 - Z); without a clip that mean does not exist, and the part of
# the noise beyond a half is left out of it.
_CORRECTED_NOISE = 0.5
# Finite precision may take this share of delta before a request is refused.
_LARGEST_NUMERICAL_SHARE = 0.5
# The certified noise over the draft's: zCDP is a valid bound, and finite precision takes little.
# Not wider, because clipped noise stops being private when it grows.
_BRACKET = (0.25, 1.1)


@dataclass(frozen=True)
class Design:
    """The numbers that are free to choose, in units of the scale; all public."""

    clip_radius: float  # R / sigma
    base_threshold: float  # t_0 / sigma^2
    n_levels: int  # L
    base_tests: float  # expected tests per entry at level 0; four times as many a level up
    quota_factor: float  # quota over the number of tests that k-sparsity lets be relevant
    energy_factor: float  # the same for the bound sum_j Sigma_ij^2 <= energy_factor sigma^4
    selection_ratio: float  # selection noise over gate noise
    gate_clip: float  # inf for none
    keep_above: float  # values are kept above this multiple of their deviation


@dataclass(frozen=True)
class CalibratedParameters:
    """A schedule with everything needed to run and to explain it.

    What it costs follows from these numbers, which are the ones that run.
    """

    inputs: CalibratedInputs
    design: Design
    reconstruction: str
    schedule: Schedule

    def __post_init__(self) -> None:
        check_choice("reconstruction", self.reconstruction, tuple(RECONSTRUCTIONS))
        if not self.schedule.gumbel or self.schedule.n_features != self.inputs.n_features:
            raise ParameterError(
                f"schedule must select with Gumbel noise among {self.inputs.n_features} features, "
                f"got gumbel={self.schedule.gumbel} and {self.schedule.n_features}: use "
                "calibrated_parameters."
            )

    @property
    def clip_radius(self) -> float:
        """R, the bound on every coordinate."""
        return self.design.clip_radius * self.inputs.scale

    @property
    def entry_sensitivity(self) -> float:
        """Delta, the most that one clipped record moves an entry of S."""
        return _products(self.inputs) * self.clip_radius**2 / self.inputs.n_records

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the schedule."""
        inflation = RECONSTRUCTIONS[self.reconstruction].inflation
        inflated = self.entry_sensitivity * (1 + inflation(_rounded(self.inputs)))
        return schedule_events(self.schedule, inflated)

    @property
    def numerical_delta(self) -> float:
        """Delta that finite precision adds."""
        drawn = RECONSTRUCTIONS[self.reconstruction].all_tests_drawn
        return numerical_delta(self.schedule, self.inputs.epsilon, all_tests_drawn=drawn)

    @property
    def step(self) -> float | None:
        """To which values are rounded, in units of t_0; None for gates."""
        return RECONSTRUCTIONS[self.reconstruction].step(self.schedule)

    @property
    def unit(self) -> float:
        """The public value of one released integer."""
        if self.step is None:
            return self.schedule.unit
        return self.step * self.schedule.base_threshold

    def to_dict(self) -> dict[str, object]:
        """Return inputs, design and schedule as plain, JSON-ready data."""
        schedule = self.schedule
        return {
            "inputs": {k: v for k, v in asdict(self.inputs).items() if k != "neighbours"},
            "constants": "calibrated",
            "reconstruction": self.reconstruction,
            "design": asdict(self.design)
            | {"gate_clip": None if math.isinf(schedule.gate_clip) else schedule.gate_clip},
            "clip_radius": self.clip_radius,
            "entry_sensitivity": self.entry_sensitivity,
            "gate_noise": schedule.gate_noise,
            "gate_correction": schedule.gate_correction,
            "test_rate": schedule.test_rate,
            "levels": [asdict(level) for level in schedule.levels],
        }


def calibrated_parameters(
    inputs: CalibratedInputs, design: Design, reconstruction: str
) -> CalibratedParameters:
    """Return the least noisy certified schedule of a design.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. The events of the answer compose to at most
    (epsilon, delta - numerical_delta) by the accountant, which re-checks its own answer;
    `docs/proofs/multiscale.md`, steps 10 and 11.
    """
    draft = draft_schedule(inputs, design)

    def scaled(factor: float) -> CalibratedParameters:
        """Return the draft with noise `factor` times as large."""
        schedule = _with_noise(draft, factor * draft.gate_noise, design)
        return CalibratedParameters(inputs, design, reconstruction, schedule)

    # Of all noise in the bracket the least costs the most precision.
    delta = composition_delta(inputs.delta, scaled(_BRACKET[0]).numerical_delta)

    def events(factor: float) -> tuple[Event, ...]:
        before = (Gaussian(inputs.before / WITHIN),) if inputs.before else ()
        return inputs.neighbours.charged((*before, *scaled(factor).events))

    return scaled(calibrate(events, inputs.epsilon, delta, _BRACKET))


def _products(inputs: CalibratedInputs) -> int:
    """Return how far one record moves a sum of products, in squared radii."""
    return inputs.neighbours.moved(replaced=2, removed=1)  # proof: step 1


def _rounded(inputs: CalibratedInputs) -> int:
    """Return the records whose roundings inflate: half a sensitivity has twice as many."""
    allowed = inputs.neighbours.allowed_for(inputs.n_records)
    return allowed * inputs.neighbours.moved(replaced=1, removed=2)


def composition_delta(delta: float, numerical: float) -> float:
    """Return the delta that finite precision leaves for the events, rounded down."""
    if numerical > _LARGEST_NUMERICAL_SHARE * delta:
        raise PrivacyConditionError(
            f"delta must be above {numerical / _LARGEST_NUMERICAL_SHARE:.3g}, of which finite "
            f"precision takes up to half at this size, got {delta!r}: choose a larger delta."
        )
    return (delta - numerical) * (1 - 2.0**-50)


def draft_schedule(inputs: CalibratedInputs, design: Design) -> Schedule:
    """Return a schedule with noise from the zCDP bound: close, quick, not certified."""
    d, k, sigma2 = inputs.n_features, inputs.row_sparsity, inputs.scale**2
    n_entries = d * (d + 1) // 2
    levels = []
    for ell in range(design.n_levels):
        tests = design.base_tests * 4.0**ell
        repetitions = math.ceil(tests)
        t = math.ldexp(design.base_threshold, ell)
        # At most d (k+1)/2 entries are nonzero, and at most d (1 + sigma^4/t^2)/2 reach t.
        relevant = d / 2 * min(k + 1.0, 1 + design.energy_factor / t**2)
        candidates = n_entries * repetitions
        quota = min(candidates, math.ceil(design.quota_factor * relevant * tests))
        chances = tests / repetitions, 1 - tests / repetitions
        scale = 1.0 if quota < candidates else None
        levels.append(Level(t * sigma2, repetitions, *chances, candidates, quota, scale))
    rate = design.base_tests / (design.base_threshold * sigma2) ** 2
    draft = Schedule(d, tuple(levels), rate, 1.0, design.gate_clip, 1.0, gumbel=True)
    sensitivity = _products(inputs) * (design.clip_radius * inputs.scale) ** 2 / inputs.n_records
    sensitivity *= 1 + query_inflation(_rounded(inputs))
    selecting = 1 + design.selection_ratio**-2  # the cost of a level that selects, over others
    cost = sum(
        lv.quota / lv.threshold**2 * (1 if lv.selection_scale is None else selecting)
        for lv in levels
    )
    noise = sensitivity * math.sqrt(cost / (2 * inputs.rho_left))
    return _with_noise(draft, noise, design)


def schedule_events(schedule: Schedule, sensitivity: float) -> tuple[Event, ...]:
    """Return the events of a schedule whose entries of S move by at most `sensitivity`."""
    events: list[Event] = []
    for level in schedule.levels:
        if level.selection_scale is not None:
            eta = 2 * sensitivity / level.threshold / level.selection_scale  # proof: step 10
            events.append(BoundedRange(eta, level.quota))
    events.append(Gaussian(sensitivity * math.sqrt(schedule.query_budget) / schedule.gate_noise))
    if not math.isinf(schedule.gate_clip):
        beyond = 2 * special.ndtr(-schedule.gate_clip / schedule.gate_noise)
        slack = schedule.total_quota * float(beyond)  # proof: step 11
        if slack > 0:
            events.append(TotalVariation(min(slack, 1 - 1e-12)))
    return tuple(events)


def _with_noise(schedule: Schedule, gate_noise: float, design: Design) -> Schedule:
    """Return the tests with gate noise r, and selection noise in the design's ratio to it."""
    scale = design.selection_ratio * gate_noise
    levels = tuple(
        level if level.selection_scale is None else replace(level, selection_scale=scale)
        for level in schedule.levels
    )
    correction = gate_correction(gate_noise, min(schedule.gate_clip, _CORRECTED_NOISE))
    return replace(schedule, levels=levels, gate_noise=gate_noise, gate_correction=correction)


NAME = "multiscale"
Moments = Statistics | SimulatedMoments
Parameters = TheoremParameters | CalibratedParameters


def grid_for(parameters: Parameters) -> IntegerGrid:
    """Return the public grid on which records are clipped at R and rounded.

    With the theorem's constants it is fine enough for the accuracy proof (see `accurate`).
    """
    if isinstance(parameters, TheoremParameters):
        check_number_of_records(parameters.inputs.n_records)
        return IntegerGrid(parameters.clip_radius, parameters.half_width)
    return IntegerGrid.for_records(parameters.clip_radius, parameters.inputs.n_records)


def calibrated_budget(parameters: CalibratedParameters, *, private: bool = True) -> Budget:
    """Certify a calibrated schedule, and beside it what steps before it may take.

    Privacy
    -------
    Neighbours: replace one record; no precondition. The selections are bounded-range events, the
    queries one Gaussian, and rounding is charged; `docs/proofs/multiscale.md`, steps 9 to 11.
    """
    check_capacity(parameters.schedule)
    inputs, numerical = parameters.inputs, parameters.numerical_delta
    composition_delta(inputs.delta, numerical)
    return Budget(
        inputs.epsilon,
        inputs.delta,
        inputs.neighbours,
        fixed=parameters.events,
        mu=inputs.before,
        numerical_delta=numerical,
        checked=(
            f"none on n; finite precision takes {numerical / inputs.delta:.2g} of delta, at most "
            "half",
        ),
        private=private,
    )


def certify(parameters: Parameters, *, private: bool, exact_statistic: bool) -> Guarantee:
    """Check from public inputs alone that the guarantee holds, or raise.

    Privacy
    -------
    Neighbours: replace one record. With calibrated constants see `calibrated_budget`; there is no
    precondition. With the paper's: (1 + e^(epsilon/4)) eta <= delta/16, checked in logarithms.
    Guarantee: the transcript (J, V) is (3 epsilon/8, 5 delta/32)-differentially private for every
    dataset (the paper's Lemma on the final output; `docs/proofs/multiscale.md`), and the finite
    precision of the sampler adds `numerical_delta`.

    `exact_statistic` says that S is given as it is (a simulation), not rounded from integers.
    """
    if isinstance(parameters, CalibratedParameters):
        return calibrated_budget(parameters, private=private).certificate
    parameters.require_unaltered()
    check_capacity(parameters.schedule)
    parameters.require_private()
    inputs = parameters.inputs
    epsilon, delta = inputs.epsilon, inputs.delta
    # One event for each level and one for the gates. Levels that keep everything spend nothing; the
    # paper charges them all the same, and so do we.
    L = parameters.n_levels
    selection = Approximate(epsilon / (8 * L), delta / (32 * L))  # proof: step 2
    gates = Approximate(epsilon / 4, delta / 8)  # proof: step 4
    events = (*[selection] * L, gates)
    inflation = 0.0 if exact_statistic else rounding_inflation(inputs.n_records)
    if (1 + inflation) * 3 / 8 > 1:
        raise PrivacyConditionError(
            f"n_records must be at most 7.5e15 for moments held in doubles, got "
            f"{inputs.n_records:,}: rounding would exceed the sensitivity. Split the records into "
            "several releases."
        )
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        transcript_epsilon=math.fsum(event.epsilon for event in events),  # proof: step 6
        transcript_delta=math.fsum(event.delta for event in events),  # proof: step 6
        numerical_delta=numerical_delta(parameters.schedule, epsilon),
        events=events,
        method="basic",
        preconditions=(
            "(1 + e^(epsilon/4)) eta <= delta/16: log eta is "
            f"{parameters.log_clipping_slack:.4g}, n_records is at least "
            f"{parameters.smallest_private_n:,}",
            f"rounding of the statistic: (1 + {inflation:.2g}) * 3 epsilon/8 <= epsilon",
            "accuracy conditions of the theorem (r, b and the integer grid): "
            + ("hold" if parameters.accurate else "do not hold, no accuracy is claimed"),
        ),
        private=private,
    )


def release_multiscale(
    moments: Moments, parameters: Parameters, entropy: Entropy, *, budget: Budget | None = None
) -> Release:
    """Certify, if no budget is given, run Algorithm 1 on the moments, and return its integers.

    Privacy
    -------
    See `certify`. Integer moments must have been computed on `grid_for(parameters)`. Simulated
    moments give a release marked not private.
    """
    check_entropy(entropy)
    simulated = isinstance(moments, SimulatedMoments)
    private = entropy.private and not simulated
    guarantee = certify(parameters, private=private, exact_statistic=simulated)
    parts = named_parts(guarantee.events, _part_names(guarantee.events))
    if isinstance(parameters, CalibratedParameters):
        budget = calibrated_budget(parameters, private=private) if budget is None else budget
        for part, event in zip(_part_names(parameters.events), parameters.events, strict=True):
            budget.fixed(event, part)
        guarantee, parts = budget.guarantee, parts_of(budget)
    statistic = statistic_of(moments, parameters)
    integers, unit = reconstruct(statistic, parameters, entropy.generator)
    return Release(
        mechanism=NAME,
        integers=symmetric(integers, parameters.inputs.n_features),
        unit=unit,
        guarantee=guarantee,
        parameters=parameters.to_dict(),
        making=Making(n_records=parameters.inputs.n_records, parts=parts),
    )


def _part_names(events: tuple[Event, ...]) -> list[str]:
    """Name what each event released: levels that select, answers, cut noise."""
    # The theorem's are promises of the levels, and then one of the answers.
    promises = sum(isinstance(event, Approximate) for event in events)
    levels = promises - 1 if promises else sum(isinstance(event, BoundedRange) for event in events)
    selected = [f"which tests matter, level {i} of {levels}" for i in range(1, levels + 1)]
    cut = ["cutting the noise of answers"] * isinstance(events[-1], TotalVariation)
    return [*selected, "answers of the selected tests", *cut]


def reconstruct(
    statistic: npt.NDArray[np.float64], parameters: Parameters, generator: np.random.Generator
) -> tuple[npt.NDArray[np.int64], float]:
    """Return integers of the upper triangle and their unit: post-processing of (J, V)."""
    schedule = parameters.schedule
    if isinstance(parameters, CalibratedParameters) and parameters.step is not None:
        transcript = sample_transcript(statistic, schedule, generator)
        keep_above = parameters.design.keep_above
        return value_integers(transcript, schedule, keep_above, parameters.step), parameters.unit
    gates = sample_exact(statistic, schedule, generator)  # proof: step 7
    return schedule.integers(gates), schedule.unit


def check_moments(moments: Moments, parameters: Parameters) -> None:
    """Refuse moments that are not of the declared size, or not on the grid of the parameters."""
    inputs = parameters.inputs
    if (moments.n_records, moments.n_features) != (inputs.n_records, inputs.n_features):
        raise DataError(
            f"moments must be of {inputs.n_records:,} records and {inputs.n_features} features as "
            f"declared, got {moments.n_records:,} and {moments.n_features}: recompute them, or "
            "declare their true size."
        )
    if isinstance(moments, Statistics) and moments.grid != grid_for(parameters):  # proof: step 1
        raise DataError(
            f"moments must be on the grid with radius {parameters.clip_radius!r} and half width "
            f"{grid_for(parameters).half_width}, which is that of {inputs.n_records:,} records, "
            f"got {moments.grid!r}: compute them with second_moments(records, "
            "estimator.grid(n_records, n_features)), or with the same estimator's partial_fit and "
            "a total_records that is exact."
        )


def statistic_of(moments: Moments, parameters: Parameters) -> npt.NDArray[np.float64]:
    """Return the upper triangle of S in units of t_0, after checking that S is the declared one."""
    check_moments(moments, parameters)
    upper = np.triu_indices(parameters.inputs.n_features)
    t_0 = parameters.schedule.base_threshold
    if isinstance(moments, SimulatedMoments):
        return np.asarray(moments.covariance[upper] / t_0)
    factor = moments.grid.step**2 / moments.n_records / t_0
    return np.asarray(moments.gram[upper], np.float64) * factor  # proof: step 8


def symmetric(upper: npt.NDArray[Any], n_features: int) -> npt.NDArray[Any]:
    """Return the whole matrix of its upper triangle."""
    matrix = np.zeros((n_features, n_features), dtype=upper.dtype)
    rows, columns = np.triu_indices(n_features)
    matrix[rows, columns] = matrix[columns, rows] = upper
    return matrix
