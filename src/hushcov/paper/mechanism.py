"""The release of Algorithm 1 from second moments: certify first, then draw."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hushcov.accounting import (
    Approximate,
    BoundedRange,
    Budget,
    Event,
    Guarantee,
    TotalVariation,
)
from hushcov.exceptions import DataError, PrivacyConditionError
from hushcov.noise import Entropy, check_entropy
from hushcov.paper.calibrated import CalibratedParameters, composition_delta
from hushcov.paper.parameters import TheoremParameters
from hushcov.paper.samplers import check_capacity, sample_exact
from hushcov.paper.schedule import numerical_delta, rounding_inflation
from hushcov.paper.transcript import sample_transcript, value_integers
from hushcov.release import Making, Release, named_parts, parts_of
from hushcov.simulate import SimulatedMoments
from hushcov.sums.grids import IntegerGrid
from hushcov.sums.statistics import Statistics

NAME = "multiscale"
Moments = Statistics | SimulatedMoments
Parameters = TheoremParameters | CalibratedParameters


def grid_for(parameters: Parameters) -> IntegerGrid:
    """The public grid on which records are clipped at R and rounded."""
    return IntegerGrid.for_records(parameters.clip_radius, parameters.inputs.n_records)


def certify(parameters: Parameters, *, private: bool, exact_statistic: bool) -> Guarantee:
    """Check from public inputs alone that the guarantee holds, or raise.

    Privacy
    -------
    Neighbours: replace one record. With the paper's constants see `certify_theorem`. With
    calibrated ones the accountant bounds the events of the schedule; there is no precondition.

    `exact_statistic` says that S is given as it is (a simulation), not rounded from integers.
    """
    if isinstance(parameters, TheoremParameters):
        parameters.require_unaltered()
        check_capacity(parameters.schedule)
        return certify_theorem(parameters, private=private, exact_statistic=exact_statistic)
    check_capacity(parameters.schedule)
    return calibrated_budget(parameters, private=private).certificate


def calibrated_budget(parameters: CalibratedParameters, *, private: bool = True) -> Budget:
    """Certify a calibrated schedule, and beside it what steps before it may take.

    Privacy
    -------
    Neighbours: replace one record; no precondition. The selections are bounded-range events, the
    queries one Gaussian, and rounding is charged; `docs/proofs/multiscale.md`, steps 9 to 11.
    """
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


def certify_theorem(
    parameters: TheoremParameters, *, private: bool, exact_statistic: bool
) -> Guarantee:
    """Check every condition of the paper's privacy proof from public inputs, or raise.

    Privacy
    -------
    Neighbours: replace one record. Precondition: (1 + e^(epsilon/4)) eta <= delta/16, checked in
    logarithms. Guarantee: the transcript (J, V) is (3 epsilon/8, 5 delta/32)-differentially
    private for every dataset (the paper's Lemma on the final output; `docs/proofs/multiscale.md`),
    and the finite precision of the sampler adds `numerical_delta`.

    `exact_statistic` says that S is given as it is (a simulation), not rounded from integers.
    """
    parameters.require_private()
    inputs = parameters.inputs
    epsilon, delta = inputs.epsilon, inputs.delta
    events = _events(parameters)
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
            "accuracy conditions of the theorem (r and b): "
            + ("hold" if parameters.accurate else "do not hold, no accuracy is claimed"),
        ),
        private=private,
    )


def _events(parameters: TheoremParameters) -> tuple[Approximate, ...]:
    """One event for each selecting level at (epsilon/8L, delta/32L), and one for the gates.

    Levels that keep everything spend nothing; the paper charges them all the same, and so do we.
    """
    inputs, L = parameters.inputs, parameters.n_levels
    selection = Approximate(inputs.epsilon / (8 * L), inputs.delta / (32 * L))  # proof: step 2
    gates = Approximate(inputs.epsilon / 4, inputs.delta / 8)  # proof: step 4
    return (*[selection] * L, gates)


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
        making=Making(
            n_records=parameters.inputs.n_records,
            parts=parts,
        ),
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
    """Integers of the upper triangle and the value of one step: post-processing of (J, V)."""
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
    """The upper triangle of S in units of t_0, after checking that S is the declared one."""
    check_moments(moments, parameters)
    upper = np.triu_indices(parameters.inputs.n_features)
    t_0 = parameters.schedule.base_threshold
    if isinstance(moments, SimulatedMoments):
        return np.asarray(moments.covariance[upper] / t_0)
    factor = moments.grid.step**2 / moments.n_records / t_0
    return np.asarray(moments.gram[upper] * factor)


def symmetric(upper: npt.NDArray[np.int64], n_features: int) -> npt.NDArray[np.int64]:
    """The whole matrix of its upper triangle."""
    matrix = np.zeros((n_features, n_features), dtype=np.int64)
    rows, columns = np.triu_indices(n_features)
    matrix[rows, columns] = upper
    matrix[columns, rows] = upper
    return matrix
