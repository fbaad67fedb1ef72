"""The release of Algorithm 1 from second moments: certify first, then draw."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushcov.accounting import Approximate, Guarantee
from hushcov.exceptions import DataError, PrivacyConditionError
from hushcov.mechanisms.multiscale.exact import check_capacity, sample_exact
from hushcov.mechanisms.multiscale.numerics import numerical_delta, rounding_inflation
from hushcov.mechanisms.multiscale.parameters import TheoremParameters
from hushcov.mechanisms.release import Release
from hushcov.noise import Entropy
from hushcov.records import IntegerGrid, SecondMoments
from hushcov.simulate import SimulatedMoments

Moments = SecondMoments | SimulatedMoments


def grid_for(parameters: TheoremParameters) -> IntegerGrid:
    """The public grid on which records are clipped at R and rounded."""
    return IntegerGrid.for_records(parameters.clip_radius, parameters.inputs.n_records)


def certify(parameters: TheoremParameters, *, private: bool, exact_statistic: bool) -> Guarantee:
    """Check every condition of the privacy proof from public inputs, or raise.

    Privacy
    -------
    Neighbours: replace one record. Precondition: (1 + e^(epsilon/4)) eta <= delta/16, checked in
    logarithms. Guarantee: the transcript (J, V) is (3 epsilon/8, 5 delta/32)-differentially
    private for every dataset (the paper's Lemma on the final output; `docs/proofs/multiscale.md`),
    and the finite precision of the sampler adds `numerical_delta`.

    `exact_statistic` says that S is given as it is (a simulation), not rounded from integers.
    """
    parameters.require_private()
    check_capacity(parameters.schedule)
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
        transcript_epsilon=sum(event.epsilon for event in events),  # proof: step 6
        transcript_delta=sum(event.delta for event in events),  # proof: step 6
        numerical_delta=numerical_delta(parameters.schedule, epsilon),
        events=events,
        method="basic composition",
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
    moments: Moments, parameters: TheoremParameters, entropy: Entropy
) -> Release:
    """Certify, run Algorithm 1 on the moments, and return its integers.

    Privacy
    -------
    See `certify`. Integer moments must have been computed on `grid_for(parameters)`. Simulated
    moments give a release marked not private.
    """
    simulated = isinstance(moments, SimulatedMoments)
    guarantee = certify(
        parameters, private=entropy.private and not simulated, exact_statistic=simulated
    )
    statistic = _statistic(moments, parameters)
    gates = sample_exact(statistic, parameters.schedule, entropy.generator)  # proof: step 7
    return Release(
        mechanism="multiscale",
        integers=_symmetric(parameters.schedule.integers(gates), parameters.inputs.n_features),
        unit=parameters.schedule.unit,
        guarantee=guarantee,
        parameters=parameters.to_dict(),
    )


def _statistic(moments: Moments, parameters: TheoremParameters) -> npt.NDArray[np.float64]:
    """The upper triangle of S in units of t_0, after checking that S is the declared one."""
    inputs = parameters.inputs
    if (moments.n_records, moments.n_features) != (inputs.n_records, inputs.n_features):
        raise DataError(
            f"moments must be of {inputs.n_records:,} records and {inputs.n_features} features as "
            f"declared, got {moments.n_records:,} and {moments.n_features}: recompute them, or "
            "declare their true size."
        )
    upper = np.triu_indices(inputs.n_features)
    t_0 = parameters.schedule.base_threshold
    if isinstance(moments, SimulatedMoments):
        return np.asarray(moments.covariance[upper] / t_0)
    if moments.grid != grid_for(parameters):  # proof: step 1
        raise DataError(
            f"moments must be on the grid with radius {parameters.clip_radius!r} and half width "
            f"{grid_for(parameters).half_width}, got {moments.grid!r}: compute them with "
            "second_moments(records, estimator.grid(n_records, n_features))."
        )
    factor = moments.grid.step**2 / inputs.n_records / t_0
    return np.asarray(moments.gram[upper] * factor)


def _symmetric(upper: npt.NDArray[np.int64], n_features: int) -> npt.NDArray[np.int64]:
    matrix = np.zeros((n_features, n_features), dtype=np.int64)
    rows, columns = np.triu_indices(n_features)
    matrix[rows, columns] = upper
    matrix[columns, rows] = upper
    return matrix
