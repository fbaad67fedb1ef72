"""Algorithm 1 line by line, as the paper prints it, for study.

Comments name the lines of Algorithm 1 in Zihan Zhang, *Improved Private Sparse Covariance
Estimation with Multiscale Threshold Tests* (2026). Every candidate test is drawn by itself, so a
run takes time and memory in proportion to their number. `hushcov.paper.samplers` draws from the
same law at any size, and its tests compare it with this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.exceptions import CapacityError, DataError

if TYPE_CHECKING:
    from hushcov.paper.mechanism import Parameters
    from hushcov.paper.parameters import Schedule

#: A run takes about 100 bytes for each candidate test.
MAX_CANDIDATES = 20_000_000


@dataclass(frozen=True, eq=False)
class AlgorithmTranscript:
    """Everything that one run of Algorithm 1 drew and returned.

    The candidate tests are in a fixed public order: by level, by matrix position (the upper
    triangle, row by row), and by repetition. `J` indexes these arrays.
    """

    level: IntArray  #: level ell of each candidate
    row: IntArray  #: row i of its position e = (i, j), i <= j
    column: IntArray  #: column j of its position
    U: BoolArray  #: whether the candidate is active (public)
    T: FloatArray  #: its threshold, in [t_ell, 2 t_ell] (public)
    J: IntArray  #: the candidates that were selected, in increasing order
    Z: FloatArray  #: noise of each candidate in J; nan where U = 0, which draws none
    gate: IntArray  #: -1, 0 or 1 for each candidate in J, by S_e / T + Z; 0 where U = 0
    estimate: FloatArray  #: the returned matrix


def clipped_moments(X: npt.ArrayLike, radius: float) -> FloatArray:
    """Return S, the second-moment matrix of records clipped to [-radius, radius] (lines 1 and 2).

    Parameters
    ----------
    X : array-like of shape (n_records, n_features)
    radius : float
        R, the public bound of every coordinate: `parameters.clip_radius`.
    """
    Y = np.clip(np.asarray(X, dtype=np.float64), -radius, radius)  # line 1
    return np.asarray(Y.T @ Y / len(Y))  # line 2


def run_algorithm(
    X: npt.ArrayLike, parameters: Parameters, generator: np.random.Generator
) -> AlgorithmTranscript:
    """Run Algorithm 1 on records and return its whole transcript, for study.

    This is not a private release. The noise is drawn in floating point from a generator that is
    not secret, no condition of the privacy proof is checked, and the transcript is more than the
    paper publishes. Use `hushcov.MultiscaleCovariance` for releases: it checks the conditions,
    charges the budget and draws the same law exactly.

    Parameters
    ----------
    X : array-like of shape (n_records, n_features)
        Records of mean zero.
    parameters : TheoremParameters or CalibratedParameters
        For example those of `theorem_parameters`. Its own constants make far more candidates than
        fit into memory; `theorem_parameters(inputs, rate_constant=1)` makes a few.
    generator : numpy.random.Generator

    Raises
    ------
    CapacityError
        If there are more than `MAX_CANDIDATES` candidate tests.
    DataError
        If the records are not of the declared size.
    """
    X = np.asarray(X, dtype=np.float64)
    declared = parameters.inputs.n_records, parameters.inputs.n_features
    if X.shape != declared:
        raise DataError(
            f"X must be {declared[0]:,} records of {declared[1]} features as the parameters "
            f"declare, got shape {X.shape}: compute parameters for this size."
        )
    S = clipped_moments(X, parameters.clip_radius)  # lines 1 and 2
    return run_algorithm_on_moments(S, parameters.schedule, generator)


def run_algorithm_on_moments(
    S: FloatArray, schedule: Schedule, generator: np.random.Generator
) -> AlgorithmTranscript:
    """Run lines 3 to 24 of Algorithm 1 on a second-moment matrix; see `run_algorithm`.

    Simulated moments (`hushcov.simulate.wishart_moments`) stand for more records than anybody can
    store. `schedule` has the levels: `parameters.schedule`, or any other.
    """
    n_candidates = sum(level.candidates for level in schedule.levels)
    if n_candidates > MAX_CANDIDATES:
        raise CapacityError(
            f"rate_constant must be small enough for {MAX_CANDIDATES:,} candidate tests, got "
            f"{n_candidates:,}: choose a smaller one, or use MultiscaleCovariance, which draws "
            "from the same law at any size."
        )
    if S.shape != (schedule.n_features, schedule.n_features):
        raise DataError(
            f"S must be a matrix of {schedule.n_features} features, got shape {S.shape}: compute "
            "parameters for its size."
        )
    i, j = np.triu_indices(schedule.n_features)  # E_d
    U, T, J = [], [], []
    for level in schedule.levels:  # line 3
        M = level.candidates
        U.append(generator.random(M) < level.activation)  # line 4
        T.append(generator.uniform(level.threshold, 2 * level.threshold, M))  # line 4
    for ell, level in enumerate(schedule.levels):  # line 6
        if level.selection_scale is not None:  # line 7: s_ell < M_ell
            # Calibrated parameters replace the paper's Laplace noise by Gumbel noise.
            noise = generator.gumbel if schedule.gumbel else generator.laplace
            zeta = noise(scale=level.selection_scale, size=level.candidates)  # line 9
            S_e = np.repeat(S[i, j], level.repetitions)
            q = np.where(U[ell], np.abs(S_e) / T[ell] - 1, -2.0)  # line 10
            largest = np.argsort(-(q + zeta), kind="stable")  # ties by the public order
            J.append(np.sort(largest[: level.quota]))  # line 12
        else:
            J.append(np.arange(level.candidates))  # line 14
    estimate = np.zeros_like(S, dtype=np.float64)  # line 17
    Z, gates = [], []
    for ell, level in enumerate(schedule.levels):  # line 18
        e, threshold = J[ell] // level.repetitions, T[ell][J[ell]]
        active = U[ell][J[ell]]  # line 19
        z = np.full(len(e), np.nan)
        z[active] = schedule.draw_gate_noise(generator, int(active.sum()))  # line 20
        V = S[i, j][e] / threshold + z
        psi = (V > 1).astype(np.int64) - (V < -1)
        weight = schedule.weight(level)  # 1 / (kappa rho t_ell)
        estimate[i, j] += weight * np.bincount(e, psi, minlength=len(i))  # line 21
        Z.append(z)
        gates.append(psi)
    estimate[j, i] = estimate[i, j]  # line 21: B_e has both entries
    starts = np.cumsum([0, *(level.candidates for level in schedule.levels)])[:-1]
    position = np.concatenate(
        [np.repeat(np.arange(len(i)), lv.repetitions) for lv in schedule.levels]
    )
    return AlgorithmTranscript(
        level=np.repeat(np.arange(len(starts)), [level.candidates for level in schedule.levels]),
        row=i[position],
        column=j[position],
        U=np.concatenate(U),
        T=np.concatenate(T),
        J=np.concatenate([start + own for start, own in zip(starts, J, strict=True)]),
        Z=np.concatenate(Z),
        gate=np.concatenate(gates),
        estimate=estimate,  # line 24
    )
