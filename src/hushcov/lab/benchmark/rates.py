"""How many records two published theorems ask for at their own constants, and at which rate.

Both estimate a covariance with at most k nonzeros a row to a target error in operator norm, with
privacy: the multiscale mechanism, and Algorithm 2 of Kumar, Pandey, Sarkar and Tian (COLT 2026,
arXiv 2606.21951), whose printed privacy argument has gaps (`docs/proofs/row_top_k.md`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hushcov.exceptions import ParameterError
from hushcov.inputs import PublicInputs
from hushcov.paper import theorem_parameters
from hushcov.paper.parameters import smallest_n


def kumar_smallest_n(
    n_features: int,
    row_sparsity: int,
    target_error: float,
    epsilon: float,
    delta: float,
    failure_probability: float,
) -> int:
    """Fewest records at which Algorithm 2, noise as printed, surely reaches the target error.

    The paper states its rate up to constants. This is the bound that its own steps give, with
    explicit ones. Records are independent, sub-Gaussian of scale 1 and mean zero, with d features
    and at most k nonzeros in a row of Sigma, the diagonal included. The error is relative to
    scale^2, and beta is the failure probability, a third for each of three events.

    *Clipping.* A coordinate passes R = sqrt(2 log(6 n d/beta)) with probability at most
    2 exp(-R^2/2) = beta/(3 n d): with probability 1 - beta/3 nothing is clipped.

    *Sampling.* Let Y = (u'x)^2 for a unit vector u. Sub-Gaussian tails give E Y^r <= 2 r! 2^r, so
    E exp(s (Y - EY)) <= exp(16 s^2) for all s <= 1/4: for s > 0 the terms from r = 2 on add up to
    8 s^2/(1 - 2 s), and for s < 0 use e^-x <= 1 - x + x^2/2. By Chernoff's bound a mean of n such
    Y is off by more than t <= 8 with probability at most 2 exp(-n t^2/64). x_i x_j is half the
    difference of two such Y, at u = (e_i +- e_j)/sqrt(2). So with probability 1 - beta/3 all
    d (d + 1)/2 entries satisfy |S_ij - Sigma_ij| <= tau = 8 sqrt(log(6 d (d + 1)/beta)/n).

    *Noise.* P(|Lap(b)| > t) = e^(-t/b). With probability 1 - beta/3 all 2 d^2 draws are below
    lambda = b log(6 d^2/beta).

    *One row.* Then noisy entries are within g = tau + lambda of Sigma, so released values are,
    the diagonal included. A nonzero entry (i, j) that row i does not select leaves room there for
    an entry that is zero in Sigma, whose noisy value is at most g; the noisy value of (i, j) is
    no larger, so |Sigma_ij| <= 2 g. A row holds at most k selected pairs off the diagonal, k - 1
    nonzeros that are lost, and the diagonal: its errors add up to (k + 2 (k - 1) + 1) g < 3 k g.

    *Norm.* The largest row sum bounds the operator norm of a symmetric matrix: the error is below
    3 k (tau + lambda). With b as printed,

        b = (2 Delta/eps_row) sqrt(k log(d/delta_row)),    Delta = 2 R^2/n,
        eps_row = (epsilon/4)/sqrt(2 d log(2/delta)),      delta_row = delta/(2 d),

    lambda is k^(1/2) d^(1/2)/(n epsilon) up to logarithms, and the two terms ask for
    k^2/alpha^2 and k^(3/2) d^(1/2)/(alpha epsilon) records. 3 k (tau + lambda) falls with n.
    """
    inputs = _inputs(n_features, row_sparsity, target_error, epsilon, delta, failure_probability)

    k, target = inputs.row_sparsity, inputs.target_error
    return smallest_n(lambda n: 3 * k * _entry_error(inputs, n) <= target)


def multiscale_smallest_n(
    n_features: int,
    row_sparsity: int,
    target_error: float,
    epsilon: float,
    delta: float,
    failure_probability: float,
) -> int:
    """Fewest records at which the multiscale theorem is both private and accurate.

    At the paper's own constants: the condition of its privacy proof, and the bounds on its noises
    that its accuracy proof asks for. Its third condition, that n is at least a universal constant
    times (k/alpha)^2 log(80 d/beta), has no number in the paper; it binds only where k^2/alpha^2
    outgrows k sqrt(d)/(alpha epsilon) times the constants of the other two.
    """
    inputs = _inputs(n_features, row_sparsity, target_error, epsilon, delta, failure_probability)
    return theorem_parameters(inputs).smallest_accurate_n


def fitted_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least-squares slope of log y against log x: the exponent of a power law."""
    # Counts may have hundreds of digits, beyond doubles: math.log takes them as they are.
    if len(x) != len(y) or len(set(x)) < 2 or min(*x, *y) <= 0:
        raise ParameterError(
            "x and y must be equally many positive numbers, with two different ones in x: pass "
            "the points of a curve."
        )
    log_x, log_y = (np.array([math.log(value) for value in values]) for values in (x, y))
    centred = log_x - log_x.mean()
    return float(centred @ log_y / (centred @ centred))


def _entry_error(inputs: PublicInputs, n: int) -> float:
    """The bound tau + lambda on the error of every noisy entry."""
    d, beta = inputs.n_features, inputs.failure_probability
    radius = printed_radius(n, d, beta)
    noise = printed_laplace_scale(
        2 * radius**2 / n, d, inputs.row_sparsity, inputs.epsilon, inputs.delta
    )
    sampling = 8 * math.sqrt(math.log(6 * d * (d + 1) / beta) / n)
    return sampling + noise * math.log(6 * d**2 / beta)


def printed_radius(n_records: int, n_features: int, failure_probability: float) -> float:
    """R = sqrt(2 log(6 n d/beta)) in units of the scale."""
    return math.sqrt(2 * math.log(6 * n_records * n_features / failure_probability))


def printed_laplace_scale(
    sensitivity: float, n_features: int, row_sparsity: int, epsilon: float, delta: float
) -> float:
    """b = (2 Delta/eps_row) sqrt(k log(d/delta_row)) for entries that move by Delta."""
    d = n_features
    delta_row = delta / (2 * d)
    epsilon_row = epsilon / 4 / math.sqrt(2 * d * math.log(2 / delta))
    return 2 * sensitivity / epsilon_row * math.sqrt(row_sparsity * math.log(d / delta_row))


def _inputs(
    n_features: int,
    row_sparsity: int,
    target_error: float,
    epsilon: float,
    delta: float,
    failure_probability: float,
) -> PublicInputs:
    """The inputs checked, at scale 1; the number of records is what is asked for."""
    return PublicInputs(
        n_records=1,
        n_features=n_features,
        row_sparsity=row_sparsity,
        target_error=target_error,
        epsilon=epsilon,
        delta=delta,
        failure_probability=failure_probability,
        scale=1.0,
    )
