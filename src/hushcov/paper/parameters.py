"""The public parameters of Section 3 and of the analysis, at the paper's own constants.

Everything here is computed from public inputs alone. Logarithms, rates and counts are evaluated
in 60-digit decimals, so the counts are exact integers even where they pass 2**53; the fields
are the correctly rounded doubles. `docs/proofs/index.md` ties each name to the paper's symbol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property

from hushcov._validation import shown
from hushcov.exceptions import CapacityError, PrivacyConditionError
from hushcov.inputs import LARGEST_N, PublicInputs
from hushcov.paper.schedule import Level, Schedule, gate_correction

QUOTA_CONSTANT = 64  # C_s
RATE_CONSTANT = 4096  # C_rho
GATE_CLIP = 0.25
_EXACT = Context(prec=60)


def too_few_records(needed: int, n_records: int) -> PrivacyConditionError:
    """The refusal of fewer records than the privacy proof covers."""
    return PrivacyConditionError(
        f"n_records must be at least {needed:,} (about {needed:.3g}) for the paper's privacy "
        f"proof at constants='theorem', got {n_records:,}: its clipped gate noise is private only "
        "while (1 + e^(epsilon/4)) eta <= delta/16. Nothing was released. Use more records, "
        "or a larger epsilon, delta or target_error.",
        smallest_private_n=needed,
    )


@dataclass(frozen=True)
class TheoremParameters:
    """Every quantity of the paper's Section 3 and Section 4 for one set of public inputs."""

    inputs: PublicInputs
    n_levels: int  # L
    log_factor: float  # H
    clip_radius: float  # R
    entry_sensitivity: float  # Delta
    thresholds: tuple[float, ...]  # t_0 .. t_L
    test_rate: float  # rho in the paper
    repetitions: tuple[int, ...]  # m
    activations: tuple[float, ...]  # p
    inactivations: tuple[float, ...]  # 1 - p
    candidates: tuple[int, ...]  # M
    quotas: tuple[int, ...]  # s
    selection_scales: tuple[float | None, ...]  # b
    query_budget: float  # A
    total_quota: int  # S_star
    gate_noise: float  # r
    gate_correction: float  # kappa
    union_log: float  # Gamma
    log_clipping_slack: float  # log eta

    @property
    def private(self) -> bool:
        """Whether the privacy proof covers this n and the very numbers that will be used."""
        return not self.altered and _is_private(self, self.inputs.n_records)

    @property
    def altered(self) -> tuple[str, ...]:
        """Fields that are not what Section 3 says for the inputs: the proof is not about them."""
        proved = theorem_parameters(self.inputs)
        return tuple(
            field.name
            for field in fields(self)
            if getattr(self, field.name) != getattr(proved, field.name)
        )

    @property
    def accurate(self) -> bool:
        """Whether r and every b are as small as the accuracy proof asks."""
        return _is_accurate(self, self.inputs.n_records)

    @cached_property
    def smallest_private_n(self) -> int:
        """The smallest number of records at which the privacy condition holds."""
        return smallest_n(lambda n: _is_private(self, n))

    @cached_property
    def smallest_accurate_n(self) -> int:
        """The smallest number of records at which the r and b conditions hold."""
        return smallest_n(lambda n: _is_accurate(self, n))

    @cached_property
    def schedule(self) -> Schedule:
        """The tests to run."""
        levels = zip(
            self.thresholds[:-1],
            self.repetitions,
            self.activations,
            self.inactivations,
            self.candidates,
            self.quotas,
            self.selection_scales,
            strict=True,
        )
        return Schedule(
            n_features=self.inputs.n_features,
            levels=tuple(Level(*level) for level in levels),
            test_rate=self.test_rate,
            gate_noise=self.gate_noise,
            gate_clip=GATE_CLIP,
            gate_correction=self.gate_correction,
        )

    def require_private(self) -> None:
        """Raise `PrivacyConditionError` unless the privacy proof covers this n."""
        self.require_unaltered()
        if _is_private(self, self.inputs.n_records):  # proof: step 5
            return
        raise too_few_records(self.smallest_private_n, self.inputs.n_records)

    def require_unaltered(self) -> None:
        """Raise `PrivacyConditionError` unless every number is the one of the proof."""
        for name in self.altered:  # proof: step 5
            raise PrivacyConditionError(
                f"{name} must be what Section 3 of the paper says for these inputs, got "
                f"{shown(getattr(self, name))}: the privacy proof is about no other numbers. Use "
                "theorem_parameters."
            )

    def to_dict(self) -> dict[str, object]:
        """Return inputs, quantities under the paper's symbols, and the two conditions."""
        return {
            "inputs": {
                field.name: getattr(self.inputs, field.name) for field in fields(self.inputs)
            },
            "L": self.n_levels,
            "H": self.log_factor,
            "R": self.clip_radius,
            "Delta": self.entry_sensitivity,
            "t": list(self.thresholds),
            "rho": self.test_rate,
            "m": list(self.repetitions),
            "p": list(self.activations),
            "M": list(self.candidates),
            "s": list(self.quotas),
            "b": list(self.selection_scales),
            "A": self.query_budget,
            "S_star": self.total_quota,
            "r": self.gate_noise,
            "kappa": self.gate_correction,
            "Gamma": self.union_log,
            "log_eta": self.log_clipping_slack,
            "private": self.private,
            "accurate": self.accurate,
            "smallest_private_n": self.smallest_private_n,
            "smallest_accurate_n": self.smallest_accurate_n,
        }


def theorem_parameters(inputs: PublicInputs) -> TheoremParameters:
    """Evaluate Section 3 for the given public inputs."""
    d, k, n = inputs.n_features, inputs.row_sparsity, inputs.n_records
    n_levels = _number_of_levels(k, inputs.target_error)
    with localcontext(_EXACT):
        sigma2 = Decimal(inputs.scale) ** 2
        alpha = Decimal(inputs.target_error)
        log_factor = (80 * d * n_levels / Decimal(inputs.failure_probability)).ln()
        test_rate = RATE_CONSTANT * n_levels * k * log_factor / (alpha * sigma2) ** 2
        t = [alpha * sigma2 / (256 * k) * 2**level for level in range(n_levels + 1)]
        expected = [test_rate * t_ell**2 for t_ell in t[:-1]]  # mu_ell
        m = [_ceil(mu) for mu in expected]
        p = [mu / m_ell for mu, m_ell in zip(expected, m, strict=True)]
        M = [d * (d + 1) // 2 * m_ell for m_ell in m]
        s = [
            min(
                M_ell,
                _ceil(QUOTA_CONSTANT * (d * test_rate * min(k * t_ell**2, sigma2**2) + log_factor)),
            )
            for t_ell, M_ell in zip(t[:-1], M, strict=True)
        ]
        query_budget = sum(  # proof: step 3
            (s_ell / t_ell**2 for s_ell, t_ell in zip(s, t[:-1], strict=True)), Decimal(0)
        )
        union_log = float(
            (
                80
                * n_levels
                * sum(M)
                / (Decimal(inputs.failure_probability) * Decimal(inputs.delta))
            ).ln()
        )
    thresholds = tuple(math.ldexp(float(t[0]), level) for level in range(n_levels + 1))
    if not math.isfinite(float(test_rate)):
        raise CapacityError(
            f"target_error must be large enough for the test rate to fit a double, got "
            f"{inputs.target_error!r} at scale {inputs.scale!r}: choose a larger one."
        )
    radius = _clip_radius(inputs, n)
    sensitivity = _entry_sensitivity(inputs, n)
    r = _gate_noise(inputs, sensitivity, float(query_budget))
    return TheoremParameters(
        inputs=inputs,
        n_levels=n_levels,
        log_factor=float(log_factor),
        clip_radius=radius,
        entry_sensitivity=sensitivity,
        thresholds=thresholds,
        test_rate=float(test_rate),
        repetitions=tuple(m),
        activations=tuple(float(value) for value in p),
        inactivations=tuple(float(1 - value) for value in p),
        candidates=tuple(M),
        quotas=tuple(s),
        selection_scales=_selection_scales(inputs, sensitivity, thresholds, s, M),
        query_budget=float(query_budget),
        total_quota=sum(s),
        gate_noise=r,
        gate_correction=gate_correction(r, GATE_CLIP),
        union_log=union_log,
        log_clipping_slack=_log_clipping_slack(sum(s), r),
    )


def _number_of_levels(k: int, target_error: float) -> int:
    """L = ceil(log2(512 k / alpha)), without rounding at the exact powers of two."""
    ratio = 512 * k / Fraction(target_error)
    return (math.ceil(ratio) - 1).bit_length()


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def _clip_radius(inputs: PublicInputs, n: int) -> float:
    """R, chosen so that no coordinate is altered with probability 1 - beta/20."""
    return inputs.scale * math.sqrt(
        2 * math.log(40 * n * inputs.n_features / inputs.failure_probability)
    )


def _entry_sensitivity(inputs: PublicInputs, n: int) -> float:
    """Delta, the most that replacing one of n clipped records moves an entry of S."""
    return 2 * _clip_radius(inputs, n) ** 2 / n


def _selection_scales(
    inputs: PublicInputs,
    sensitivity: float,
    thresholds: Sequence[float],
    quotas: Sequence[int],
    candidates: Sequence[int],
) -> tuple[float | None, ...]:
    """b_ell, one-shot Laplace scales at budget (epsilon/(8L), delta/(32L)); None if all stay."""
    n_levels = len(quotas)
    epsilon_ell = inputs.epsilon / (8 * n_levels)
    scales: list[float | None] = []
    for t_ell, s_ell, M_ell in zip(thresholds, quotas, candidates, strict=False):
        log_term = math.log(M_ell) + math.log(32 * n_levels) - math.log(inputs.delta)
        scale = (
            8 * (sensitivity / t_ell) * math.sqrt(s_ell * log_term) / epsilon_ell
        )  # proof: step 2
        scales.append(scale if s_ell < M_ell else None)
    return tuple(scales)


def _gate_noise(inputs: PublicInputs, sensitivity: float, query_budget: float) -> float:
    """The gate noise r: Gaussian protection of all selected queries at (epsilon/4, delta/16)."""
    # proof: step 4
    return (
        8
        * sensitivity
        * math.sqrt(query_budget)
        / inputs.epsilon
        * math.sqrt(math.log(32 / inputs.delta))
    )


def _log_clipping_slack(total_quota: int, r: float) -> float:
    """log eta, the total-variation price of clipping all gate noises at 1/4."""
    return math.log(2) + math.log(total_quota) - 1 / (32 * r) / r


def _is_private(parameters: TheoremParameters, n: int) -> bool:
    inputs = parameters.inputs
    r = _gate_noise(inputs, _entry_sensitivity(inputs, n), parameters.query_budget)
    slack = _log_clipping_slack(parameters.total_quota, r)
    return math.log1p(math.exp(inputs.epsilon / 4)) + slack <= math.log(inputs.delta / 16)


def _is_accurate(parameters: TheoremParameters, n: int) -> bool:
    gamma = parameters.union_log
    sensitivity = _entry_sensitivity(parameters.inputs, n)
    r = _gate_noise(parameters.inputs, sensitivity, parameters.query_budget)
    scales = _selection_scales(
        parameters.inputs,
        sensitivity,
        parameters.thresholds,
        parameters.quotas,
        parameters.candidates,
    )
    largest_b = max((b for b in scales if b is not None), default=0.0)
    return (
        _is_private(parameters, n)
        and r <= 1 / (8 * math.sqrt(gamma))
        and largest_b <= 1 / (64 * gamma)
    )


def smallest_n(condition: Callable[[int], bool]) -> int:
    """The smallest n >= 1 that meets a condition monotone in n, by integer bisection."""
    high = 1
    while not condition(high):
        high *= 2
        if high > LARGEST_N:
            raise CapacityError(
                "epsilon, delta or target_error is so small that no n up to 1e100 would do: "
                "choose larger ones."
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high
