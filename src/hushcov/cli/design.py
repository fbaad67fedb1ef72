"""A calibrated design in words."""

from __future__ import annotations

import math

from hushcov.accounting import BoundedRange, Event, Gaussian, TotalVariation
from hushcov.cli.output import count, number
from hushcov.mechanisms.multiscale import CalibratedParameters, Schedule, certify

_READING = {
    "gate": "for each entry, the answers -1, 0 or +1 of its kept tests are added up "
    "with public weights",
    "value": "for each entry, the noisy values of its kept tests are averaged; an "
    "average below {keep} times its standard deviation is set to zero",
}


def design_facts(parameters: CalibratedParameters) -> list[tuple[str, str]]:
    """Return labels and sentences about every number that was chosen."""
    design, schedule = parameters.design, parameters.schedule
    low, high = schedule.base_threshold, 2 * schedule.levels[-1].threshold
    levels = f"{len(schedule.levels)} level" + "s" * (len(schedule.levels) > 1)
    reading = _READING[parameters.reconstruction].format(keep=number(design.keep_above))
    return [
        (
            "clip radius",
            f"every value of a record is clipped to +-{number(parameters.clip_radius)}",
        ),
        ("levels", f"{levels}, with thresholds from {number(low, 3)} to {number(high, 3)}"),
        ("tests", _tests(schedule)),
        ("noise", _noise(schedule)),
        ("read-out", reading),
        ("budget", _budget(parameters)),
    ]


def _tests(schedule: Schedule) -> str:
    tests = sum(level.candidates for level in schedule.levels)
    kept = schedule.total_quota
    best = "all of them kept" if kept == tests else f"of which the {count(kept)} best are kept"
    return f"{count(tests)}, {best}"


def _noise(schedule: Schedule) -> str:
    clip = "not clipped" if math.isinf(schedule.gate_clip) else f"clipped at {schedule.gate_clip}"
    scales = {level.selection_scale for level in schedule.levels} - {None}
    selection = "; Gumbel for the selection" if scales else ""
    size = number(schedule.gate_noise, 3)
    return f"Gaussian, {size} times the threshold of a kept test, {clip}{selection}"


def _budget(parameters: CalibratedParameters) -> str:
    guarantee = certify(parameters, private=True, exact_statistic=False)
    selections = [event for event in guarantee.events if isinstance(event, BoundedRange)]
    others = [_event(event) for event in guarantee.events if not isinstance(event, BoundedRange)]
    events = "; ".join(([_selections(selections)] if selections else []) + others)
    return (
        f"{events}. Together epsilon {number(guarantee.transcript_epsilon)} at delta "
        f"{number(guarantee.transcript_delta)} (bound: {guarantee.method}), and "
        f"{number(guarantee.numerical_delta, 2)} of delta for finite precision"
    )


def _selections(events: list[BoundedRange]) -> str:
    kept = count(sum(event.count for event in events))
    etas = " to ".join(dict.fromkeys(number(events[i].eta, 2) for i in (0, -1)))
    times = "one selection" if len(events) == 1 else f"{len(events)} selections"
    return f"{times} of {kept} tests, each a bounded-range event of {etas}"


def _event(event: Event) -> str:
    if isinstance(event, Gaussian):
        return f"one Gaussian event for all kept tests, sensitivity / noise {number(event.mu, 3)}"
    if isinstance(event, TotalVariation):
        return f"{number(event.distance, 2)} in total variation for clipping the noise"
    return repr(event)
