"""Algorithm 1 with chosen numbers: any public design becomes a certified schedule.

The steps are the paper's. What changes is how the numbers come about: selection noise is Gumbel,
the gate noise may stay unclipped, all budgets are one composition, and the noise is the smallest
the accountant certifies. There is no condition on n: whatever the design, the schedule is private.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from scipy import special

from hushcov._validation import check_choice
from hushcov.accounting import (
    WITHIN,
    BoundedRange,
    Event,
    Gaussian,
    TotalVariation,
    calibrate,
)
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.inputs import CalibratedInputs
from hushcov.paper.schedule import (
    Level,
    Schedule,
    gate_correction,
    numerical_delta,
    query_inflation,
)
from hushcov.paper.transcript import RECONSTRUCTIONS

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
    """The least noisy certified schedule of a design.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. The events of the answer compose to at most
    (epsilon, delta - numerical_delta) by the accountant, which re-checks its own answer;
    `docs/proofs/multiscale.md`, steps 10 and 11.
    """
    draft = draft_schedule(inputs, design)

    def scaled(factor: float) -> CalibratedParameters:
        """The draft with noise `factor` times as large."""
        schedule = _with_noise(draft, factor * draft.gate_noise, design)
        return CalibratedParameters(inputs, design, reconstruction, schedule)

    # Of all noise in the bracket the least costs the most precision.
    delta = composition_delta(inputs.delta, scaled(_BRACKET[0]).numerical_delta)

    def events(factor: float) -> tuple[Event, ...]:
        before = (Gaussian(inputs.before / WITHIN),) if inputs.before else ()
        return inputs.neighbours.charged((*before, *scaled(factor).events))

    return scaled(calibrate(events, inputs.epsilon, delta, _BRACKET))


def _products(inputs: CalibratedInputs) -> int:
    """How far one record moves a sum of products, in squared radii."""
    return inputs.neighbours.moved(replaced=2, removed=1)  # proof: step 1


def _rounded(inputs: CalibratedInputs) -> int:
    """Records to which the inflation by roundings belongs: half a sensitivity has twice of it."""
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
    """The schedule of a design with noise from the zCDP bound: close, quick, not certified."""
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
        levels.append(
            Level(
                threshold=t * sigma2,
                repetitions=repetitions,
                activation=tests / repetitions,
                inactivation=1 - tests / repetitions,
                candidates=candidates,
                quota=quota,
                selection_scale=1.0 if quota < candidates else None,
            )
        )
    draft = Schedule(
        n_features=d,
        levels=tuple(levels),
        test_rate=design.base_tests / (design.base_threshold * sigma2) ** 2,
        gate_noise=1.0,
        gate_clip=design.gate_clip,
        gate_correction=1.0,
        gumbel=True,
    )
    sensitivity = _products(inputs) * (design.clip_radius * inputs.scale) ** 2 / inputs.n_records
    sensitivity *= 1 + query_inflation(_rounded(inputs))
    cost = sum(
        level.quota
        / level.threshold**2
        * (1 + (0 if level.selection_scale is None else design.selection_ratio**-2))
        for level in levels
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
    clip = min(schedule.gate_clip, _CORRECTED_NOISE)
    return Schedule(
        n_features=schedule.n_features,
        levels=tuple(
            level if level.selection_scale is None else _with_scale(level, scale)
            for level in schedule.levels
        ),
        test_rate=schedule.test_rate,
        gate_noise=gate_noise,
        gate_clip=schedule.gate_clip,
        gate_correction=gate_correction(gate_noise, clip),
        gumbel=True,
    )


def _with_scale(level: Level, scale: float) -> Level:
    return Level(**(asdict(level) | {"selection_scale": scale}))
