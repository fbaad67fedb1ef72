"""Section 3 transcribed a second time, from the paper and in 80-digit decimals.

`hushcov.mechanisms.multiscale.parameters` is what the mechanism runs with. This module
shares no code with it, so that a slip in either shows up as a disagreement.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from itertools import count

from hushcov.mechanisms.multiscale import PublicInputs


@dataclass(frozen=True)
class SecondReading:
    """The quantities that the claims compare with the mechanism's own."""

    selection_scales: tuple[float, ...]  # b_ell, 0 where s_ell = M_ell
    query_budget: Fraction  # A, an exact rational
    gate_noise: float  # r
    union_log: float  # Gamma
    log_clipping_slack: float  # log eta
    sensitivity: float  # Delta


def read_again(inputs: PublicInputs) -> SecondReading:
    """Evaluate the formulas of Section 3 as printed."""
    with localcontext(Context(prec=80)):
        return _read(inputs)


def _read(inputs: PublicInputs) -> SecondReading:
    n, d, k = Decimal(inputs.n_records), Decimal(inputs.n_features), Decimal(inputs.row_sparsity)
    alpha, epsilon, delta = map(Decimal, (inputs.target_error, inputs.epsilon, inputs.delta))
    beta, sigma = Decimal(inputs.failure_probability), Decimal(inputs.scale)
    L = next(ell for ell in count(1) if 2**ell >= 512 * k / alpha)
    H = (80 * d * L / beta).ln()
    Delta = 2 * sigma**2 * 2 * (40 * n * d / beta).ln() / n
    t = [alpha * sigma**2 / (256 * k) * 2**ell for ell in range(L)]
    rho = 4096 * L * k * H / (alpha**2 * sigma**4)
    M = [int(d * (d + 1) / 2) * _ceil(rho * t_ell**2) for t_ell in t]
    quotas = [_ceil(64 * (d * rho * min(k * t_ell**2, sigma**4) + H)) for t_ell in t]
    s = [min(pair) for pair in zip(M, quotas, strict=True)]
    t_0 = Fraction(inputs.target_error) * Fraction(inputs.scale) ** 2 / (256 * int(k))
    A = sum((s_ell / (t_0 * 2**ell) ** 2 for ell, s_ell in enumerate(s)), Fraction(0))
    root_A = (Decimal(A.numerator) / Decimal(A.denominator)).sqrt()
    r = 8 * Delta * root_A / epsilon * (32 / delta).ln().sqrt()
    b = [
        8 * (Delta / t_ell) * (s_ell * (M_ell / (delta / (32 * L))).ln()).sqrt() * 8 * L / epsilon
        if s_ell < M_ell
        else Decimal(0)
        for t_ell, s_ell, M_ell in zip(t, s, M, strict=True)
    ]
    return SecondReading(
        selection_scales=tuple(float(b_ell) for b_ell in b),
        query_budget=A,
        gate_noise=float(r),
        union_log=float((80 * L * sum(M) / (beta * delta)).ln()),
        log_clipping_slack=float((2 * Decimal(sum(s))).ln() - 1 / (32 * r * r)),
        sensitivity=float(Delta),
    )


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))
