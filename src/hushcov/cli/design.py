"""The numbers that a mechanism would run with, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hushcov._words import count, noise_level, number
from hushcov.accounting import Guarantee, calibrate_zcdp
from hushcov.inputs import ReleaseInputs, spent_rho
from hushcov.mechanisms.gaussian import GaussianParameters, certify_gaussian, gaussian_parameters
from hushcov.mechanisms.multiscale import Schedule, certify
from hushcov.mechanisms.screened import ScreenedParameters, candidate_pairs, certify_screened
from hushcov.planning import multiscale_inputs, plan_multiscale, plan_screened
from hushcov.postprocess import detection_deviation, universal_threshold

Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class PublicDesign:
    """What would be run: in words, and as JSON-ready data."""

    facts: Facts
    parameters: dict[str, object]
    schedule: Schedule | None = None  # of the multiscale mechanism


def public_design(mechanism: str, inputs: ReleaseInputs) -> PublicDesign:
    """The design of a mechanism for these inputs; plans are cached, so asking twice is cheap."""
    return _DESIGNS[mechanism](inputs)


def _screened(inputs: ReleaseInputs) -> PublicDesign:
    parameters = plan_screened(inputs).parameters
    factor, pairs = number(parameters.design.norm_factor), parameters.n_pairs > 0
    facts = [
        ("budget", _shares(inputs, parameters.design.screen_share if parameters.levels else 0.0)),
        ("screen", _screen(parameters)),
        ("values", f"records are scaled down to at most {factor} times the typical norm"),
        *([("noise", noise_level(parameters.noise_sd[0], inputs.n_records))] if pairs else []),
        *([("threshold", _kept(parameters))] if pairs else []),
        ("certified", _spent(certify_screened(parameters, private=True))),
    ]
    return PublicDesign(facts, parameters.to_dict())


def _shares(inputs: ReleaseInputs, screen_share: float) -> str:
    scales = spent_rho(inputs.spent) / calibrate_zcdp(inputs.epsilon, inputs.delta)
    screen = (1 - scales) * screen_share
    parts = {"the scales": scales, "the screen": screen, "the values": 1 - scales - screen}
    return ", ".join(f"{number(100 * share, 2)} % for {to}" for to, share in parts.items() if share)


def _screen(parameters: ScreenedParameters) -> str:
    if parameters.n_pairs == 0:
        return "none: at row sparsity 1 no pair is looked for, and variances are released alone"
    if not parameters.levels:
        return f"none: the values of all {parameters.n_pairs:,} pairs are released"
    sizes = " + ".join(f"{level.size:,}" for level in parameters.levels)
    rounds = "round" if len(parameters.levels) == 1 else "rounds, the strongest pairs first"
    total = "" if len(parameters.levels) == 1 else f" = {parameters.n_pairs:,}"
    return (
        f"pairs are scored by how often their signs agree; {len(parameters.levels)} {rounds}, "
        f"select {sizes}{total} of {candidate_pairs(parameters.inputs):,} pairs"
    )


def _kept(parameters: ScreenedParameters) -> str:
    keep, n = parameters.design.keep_above, parameters.inputs.n_records
    if keep == 0:
        return "none: all released pairs are kept"
    limit = keep * detection_deviation(parameters.noise_sd[0], n)
    return (
        f"released pairs below {number(keep)} standard deviations, a correlation of about "
        f"{number(limit, 2)}, are set to zero"
    )


def _spent(guarantee: Guarantee) -> str:
    return (
        f"epsilon {number(guarantee.transcript_epsilon)} at delta "
        f"{number(guarantee.transcript_delta)} (bound: {guarantee.method})"
    )


def _gaussian(inputs: ReleaseInputs) -> PublicDesign:
    parameters = gaussian_parameters(inputs)
    none = ("threshold", "none: every pair is released, and none is set to zero")
    return _gaussian_design(parameters, none)


def _thresholded(inputs: ReleaseInputs) -> PublicDesign:
    parameters = gaussian_parameters(inputs)
    limit = universal_threshold(parameters.noise_sd, inputs.n_records, inputs.n_features)
    text = f"entries below a correlation of {number(limit, 2)} are set to zero"
    return _gaussian_design(parameters, ("threshold", text))


def _gaussian_design(parameters: GaussianParameters, threshold: tuple[str, str]) -> PublicDesign:
    inputs = parameters.inputs
    assert parameters.norm_bound is not None
    bound = parameters.norm_bound * parameters.step
    facts = [
        ("budget", _shares(inputs, 0.0)),
        (
            "values",
            f"records, in units of the scales, are scaled down to norm {number(bound, 3)}; all "
            f"{candidate_pairs(inputs):,} pairs are released",
        ),
        ("noise", noise_level(parameters.noise_sd, inputs.n_records)),
        threshold,
        ("certified", _spent(certify_gaussian(parameters, private=True))),
    ]
    return PublicDesign(facts, parameters.to_dict())


def _multiscale(inputs: ReleaseInputs) -> PublicDesign:
    parameters = plan_multiscale(multiscale_inputs(inputs), "value").parameters
    schedule, keep = parameters.schedule, parameters.design.keep_above
    radius = number(parameters.clip_radius, 3)
    facts = [
        ("budget", _shares(inputs, 0.0)),
        ("values", f"values of a record, in units of the scales, are clipped to +-{radius}"),
        ("tests", _tests(schedule)),
        ("noise", f"{number(schedule.gate_noise, 3)} times the threshold of a kept test"),
        (
            "threshold",
            f"the kept tests of an entry are averaged; averages below {number(keep)} standard "
            "deviations are set to zero",
        ),
        ("certified", _spent(certify(parameters, private=True, exact_statistic=False))),
    ]
    return PublicDesign(facts, parameters.to_dict(), schedule)


def _tests(schedule: Schedule) -> str:
    tests = sum(level.candidates for level in schedule.levels)
    kept = schedule.total_quota
    best = "all of them kept" if kept == tests else f"of which the {count(kept)} best are kept"
    return f"{count(tests)} tests of entries against random thresholds, {best}"


_DESIGNS: dict[str, Callable[[ReleaseInputs], PublicDesign]] = {
    "screened": _screened,
    "gaussian-threshold": _thresholded,
    "gaussian": _gaussian,
    "multiscale": _multiscale,
}
