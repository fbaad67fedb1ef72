"""The tests Algorithm 1 runs, and the public parameters of Section 3 at the paper's own constants.

A schedule (levels, quotas and noise) is public. The samplers read nothing else besides the
statistic, so the paper's constants and any other choice of numbers go through the same code.

Everything here is computed from public inputs alone. Logarithms, rates and counts are evaluated
in 60-digit decimals, so the counts are exact integers even where they pass 2**53; the fields
are the correctly rounded doubles. `docs/proofs/index.md` ties each name to the paper's symbol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from hushcov._arrays import LARGEST_SUM, FloatArray
from hushcov._validation import check_integer, check_real, shown
from hushcov._words import count, number
from hushcov.exceptions import CapacityError, ParameterError, PrivacyConditionError
from hushcov.inputs import LARGEST_N, PublicInputs
from hushcov.kernel.grids import DIGIT_BITS, IntegerGrid

_CURE = "use theorem_parameters or calibrated_parameters."
# Tests at the edge of a selection that doubles may not tell apart: the noise has a density of at
# most 1 / b beyond its quota, and neighbouring doubles are 2^-52 apart. Four times as many.
_TIED = 2.0**-50
_LARGEST_TIED = 5_000_000  # what memory holds
FEW_POINTS = 256  # undecided points that are drawn one by one
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_TAIL = 12.0  # standard deviations beyond which Gaussian mass (4e-33) is left out


@dataclass(frozen=True)
class Level:
    """One dyadic scale ell: thresholds in [threshold, 2 threshold], `repetitions` per entry."""

    threshold: float  # t_ell
    repetitions: int  # m_ell
    activation: float  # p_ell
    inactivation: float  # 1 - p_ell, to full relative accuracy
    candidates: int  # M_ell
    quota: int  # s_ell
    selection_scale: float | None  # b_ell; None where every candidate is kept

    def __post_init__(self) -> None:
        check_real("threshold", self.threshold, above=0, cure=_CURE)
        check_integer("repetitions", self.repetitions, at_least=1, cure=_CURE)
        check_real("activation", self.activation, above=0, at_most=1, cure=_CURE)
        if not 0 <= self.inactivation <= 1:
            raise ParameterError(
                f"inactivation must be from 0 to 1, got {self.inactivation!r}: {_CURE}"
            )
        if not 0 < self.quota <= self.candidates:
            raise ParameterError(
                f"quota must be at least 1 and at most the {self.candidates} candidates of its "
                f"level, got {self.quota}: keep every candidate, or choose a smaller quota."
            )
        if (self.quota < self.candidates) != (self.selection_scale is not None):
            raise ParameterError(
                "selection_scale must be given exactly where quota < candidates: a level that "
                "selects needs noise, and one that keeps every candidate has none."
            )
        if self.selection_scale is not None:
            check_real("selection_scale", self.selection_scale, above=0, cure=_CURE)

    @property
    def most_single(self) -> int:
        """Most tests that a selection draws one by one: these are charged, more are refused."""
        if self.selection_scale is None:
            return 0
        tied = min(self.quota / self.selection_scale * _TIED, _LARGEST_TIED)
        return max(FEW_POINTS, math.ceil(tied))  # proof: step 8


@dataclass(frozen=True)
class Schedule:
    """All levels, from the smallest threshold up, and the gate noise they share."""

    n_features: int
    levels: tuple[Level, ...]
    test_rate: float  # the paper's rho: expected tests per entry are test_rate * t_ell^2
    gate_noise: float  # r
    gate_clip: float  # the gate noise is clipped to [-gate_clip, gate_clip]; inf for none
    gate_correction: float  # kappa
    gumbel: bool = False  # selection noise: Gumbel, or the paper's Laplace

    def __post_init__(self) -> None:
        for name in ("test_rate", "gate_noise", "gate_correction"):
            check_real(name, getattr(self, name), above=0, cure=_CURE)
        if not self.gate_clip > 0:
            raise ParameterError(f"gate_clip must be above 0, got {self.gate_clip!r}: {_CURE}")
        # What the samplers run: thresholds that double, and every test of every entry.
        for ell, level in enumerate(self.levels):
            if level.threshold != math.ldexp(self.base_threshold, ell):
                raise ParameterError(
                    f"threshold must double from level to level, got {level.threshold!r} at level "
                    f"{ell} above {self.base_threshold!r}: {_CURE}"
                )
            if level.candidates != self.n_entries * level.repetitions:
                raise ParameterError(
                    f"candidates must be repetitions times the {self.n_entries:,} entries, got "
                    f"{level.candidates:,} with {level.repetitions:,} repetitions: {_CURE}"
                )

    @property
    def n_entries(self) -> int:
        """Entries of the upper triangle with its diagonal."""
        return self.n_features * (self.n_features + 1) // 2

    @property
    def base_threshold(self) -> float:
        """The smallest threshold t_0, the unit in which the samplers measure the statistic."""
        return self.levels[0].threshold

    @property
    def unit(self) -> float:
        """Public weight of one gate at the top level; every other weight is a 2^j multiple."""
        return self.weight(self.levels[-1])

    def weight(self, level: Level) -> float:
        """Return the public weight of a gate at a level: 1 / (kappa rho t_ell)."""
        return 1 / (self.gate_correction * self.test_rate * level.threshold)

    @property
    def total_quota(self) -> int:
        """S_star, the most tests that are ever evaluated."""
        return sum(level.quota for level in self.levels)

    @property
    def query_budget(self) -> float:
        """A = sum of s_ell / t_ell^2: squared sensitivity of all queries for a unit change of S."""
        return math.fsum(level.quota / level.threshold**2 for level in self.levels)  # proof: step 3

    def draw_gate_noise(self, generator: np.random.Generator, size: int) -> FloatArray:
        """Draw Z: Gaussian with deviation r, clipped."""
        noise = generator.normal(scale=self.gate_noise, size=size)
        return np.clip(noise, -self.gate_clip, self.gate_clip)

    def integers(self, gate_counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Add up gate counts (one row a level) into the integers that are released.

        A gate at level ell weighs 1 / (kappa rho t_ell) = 2^(L-1-ell) units.
        """
        total = np.zeros(gate_counts.shape[1:], dtype=np.int64)
        for row in gate_counts:
            total = 2 * total + row
        return total


def gate_correction(gate_noise: float, gate_clip: float) -> float:
    """Return kappa = E[1 / (1 - Z)], Z N(0, r^2) clipped to [-clip, clip], clip < 1."""
    edge = gate_clip / gate_noise
    if edge == 0:  # all of the noise is clipped
        return 1 / (1 - gate_clip**2)
    reach = min(edge, _TAIL)
    panels = max(1, math.ceil(reach))
    half = reach / (2 * panels)
    # Panels over w >= 0; the even part of 1/(1 - r w) is 1/(1 - (r w)^2).
    w = (half * (2 * np.arange(panels)[:, None] + 1 + _NODES)).ravel()
    density = np.exp(-0.5 * w**2) / math.sqrt(2 * math.pi)
    inside = np.sum(np.tile(half * _WEIGHTS, panels) * 2 * density / (1 - (gate_noise * w) ** 2))
    clipped = special.ndtr(-edge) * 2 / (1 - gate_clip**2) if edge < _TAIL else 0.0
    return float(inside + clipped)


# Largest error of the log-odds of two masses from `kernels`, with what the 53 bits of the
# binomial sampler's proposal add; tests hold the kernels against mpmath.
LOG_ODDS_ERROR = 4e-15
# Splits of a level: M + sqrt(R M) + R over R rounds, at most this share of M from 400 tests on.
_SPLITS = 1.5
# A test drawn by itself is wrong by a few uniforms of 53 bits and leaves out e^-60 of a tail.
SINGLE_TEST = 2.0**-46


def total_variation(schedule: Schedule, *, all_tests_drawn: bool = False) -> float:
    """Bound on the distance between the sampler's law and Algorithm 1's, for every dataset.

    `all_tests_drawn` is for transcripts, where every selected test is drawn by itself, too.
    """
    selecting = [lv.candidates for lv in schedule.levels if lv.selection_scale is not None]
    gates = 0.5 if math.isinf(schedule.gate_clip) else 0.25
    variance = (_SPLITS + gates) * sum(selecting) + gates * _undecided(schedule)
    singles = sum(level.most_single for level in schedule.levels)
    singles += schedule.total_quota if all_tests_drawn else 0
    return LOG_ODDS_ERROR * math.sqrt(variance) / 2 + singles * SINGLE_TEST


def _undecided(schedule: Schedule) -> int:
    """Return how many candidates of levels that keep all have an undecided gate, at most.

    With noise clipped at c a gate is certain unless 1 - c < |S|/T < 1 + c, which holds on a few
    neighbouring levels only; the others follow a public law, whatever the data.
    """
    full = [lv.candidates for lv in schedule.levels if lv.selection_scale is None]
    clip = schedule.gate_clip
    if clip >= 1:
        return sum(full)
    window = 1 + math.ceil(math.log2((1 + clip) / (1 - clip)))
    return max((sum(full[i : i + window]) for i in range(len(full))), default=0)


def numerical_delta(schedule: Schedule, epsilon: float, *, all_tests_drawn: bool = False) -> float:
    """Return (1 + e^epsilon) times the total variation: what it adds to delta."""
    distance = total_variation(schedule, all_tests_drawn=all_tests_drawn)
    return (1 + math.exp(epsilon)) * distance  # proof: step 8


def rounding_inflation(n_records: int) -> float:
    """Return the relative growth of the sensitivity when integer moments become doubles.

    An entry is rounded twice (2^-52 relative in all) and is at most R^2, so two neighbours differ
    by up to Delta + 2^-51 R^2 = Delta (1 + 2^-52 n).
    """
    return n_records * 2.0**-52 + 2.0**-50  # proof: step 8


def query_inflation(n_records: int) -> float:
    """Bound the inflation of the queries S_e / T of a transcript, rounded once more.

    The noisy query is a function of the exact sum of that double and the noise, so all later
    arithmetic is post-processing.
    """
    return rounding_inflation(n_records) + n_records * 2.0**-51  # proof: step 9


def level_table(schedule: Schedule) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return titles and rows: one row a level, and one for the largest threshold."""
    tests_of = "threshold\nt", "tests per\nentry m", "active\nshare p"
    titles = ("level", *tests_of, "all tests\nM", "tests kept\ns", "selection\nnoise b")
    rows: list[tuple[str, ...]] = []
    for ell, level in enumerate(schedule.levels):
        tests = number(level.threshold), count(level.repetitions), f"{level.activation:.6f}"
        kept = count(level.candidates), count(level.quota)
        b = level.selection_scale
        rows.append((str(ell), *tests, *kept, "keeps all" if b is None else number(b)))
    return titles, [*rows, (f"{len(rows)} (top)", number(2 * schedule.levels[-1].threshold))]


QUOTA_CONSTANT = 64  # C_s
RATE_CONSTANT = 4096  # C_rho
GATE_CLIP = 0.25
#: Rounding may move an entry of S by this share of t_0: 1/64 of what the accuracy proof allows S to
#: be away from Sigma, t_0/16.
ROUNDING_SHARE = 2.0**-10
_EXACT = Context(prec=60)


def _quantity(symbol: str, meaning: str = "") -> Any:
    """Return a field with the paper's symbol, and the meaning of what is one number."""
    return field(metadata={"symbol": symbol, "meaning": meaning})


@dataclass(frozen=True)
class TheoremParameters:
    """Every quantity of the paper's Section 3 and Section 4 for one set of public inputs."""

    inputs: PublicInputs
    n_levels: int = _quantity("L", "dyadic threshold levels")
    log_factor: float = _quantity("H", "log(80 d L / beta)")
    clip_radius: float = _quantity("R", "bound on a coordinate")
    entry_sensitivity: float = _quantity("Delta", "sensitivity of S_ij")
    thresholds: tuple[float, ...] = _quantity("t")  # t_0 .. t_L
    test_rate: float = _quantity("rho", "tests per entry over t^2")
    repetitions: tuple[int, ...] = _quantity("m")
    activations: tuple[float, ...] = _quantity("p")
    inactivations: tuple[float, ...] = _quantity("")  # 1 - p
    candidates: tuple[int, ...] = _quantity("M")
    quotas: tuple[int, ...] = _quantity("s")
    selection_scales: tuple[float | None, ...] = _quantity("b")
    query_budget: float = _quantity("A", "sum of s / t^2")
    total_quota: int = _quantity("S_star", "tests kept, all levels")
    gate_noise: float = _quantity("r", "noise of a kept test")
    gate_correction: float = _quantity("kappa", "corrects the bias of r")
    union_log: float = _quantity("Gamma", "log(80 L M / (beta delta))")
    log_clipping_slack: float = _quantity("log_eta", "log price of clipping")

    @property
    def private(self) -> bool:
        """Whether the privacy proof covers this n and the very numbers that will be used."""
        return not self.altered and self._noise_is_private

    @property
    def _noise_is_private(self) -> bool:
        price = math.log1p(math.exp(self.inputs.epsilon / 4)) + self.log_clipping_slack
        return price <= math.log(self.inputs.delta / 16)  # proof: step 5

    @property
    def altered(self) -> tuple[str, ...]:
        """Fields that are not what Section 3 says for the inputs: the proof is not about them."""
        proved = theorem_parameters(self.inputs)
        names = (each.name for each in fields(self))
        return tuple(name for name in names if getattr(self, name) != getattr(proved, name))

    @property
    def accurate(self) -> bool:
        """Whether r, every b and the rounding of records are as small as the proof asks."""
        largest_b = max((b for b in self.selection_scales if b is not None), default=0.0)
        small = self.gate_noise <= 1 / (8 * math.sqrt(self.union_log))
        small = small and largest_b <= 1 / (64 * self.union_log)
        fine = self.rounding_error <= ROUNDING_SHARE * self.thresholds[0]
        return small and fine and self._noise_is_private

    @cached_property
    def smallest_private_n(self) -> int:
        """The smallest number of records at which the paper's parameters are private."""
        return smallest_n(lambda n: self._at(n)._noise_is_private)

    @cached_property
    def smallest_accurate_n(self) -> int:
        """The smallest number of records at which the paper's parameters are accurate."""
        return smallest_n(lambda n: self._at(n).accurate)

    def _at(self, n_records: int) -> TheoremParameters:
        return theorem_parameters(replace(self.inputs, n_records=n_records))

    @property
    def half_width(self) -> int:
        """The number of grid steps from 0 to R: the fewest that the accuracy proof allows.

        The finest grid there is, where it allows none.
        """
        half_width, most = IntegerGrid.largest_half_width, ROUNDING_SHARE * self.thresholds[0]
        coarse = self.inputs.n_records * half_width**2 > LARGEST_SUM
        coarse = coarse or self._moved_by(half_width) > most
        while coarse and half_width < IntegerGrid.finest_half_width:
            half_width <<= DIGIT_BITS
            coarse = self._moved_by(half_width) > most
        return half_width

    @property
    def rounding_error(self) -> float:
        """Most that the integer grid and doubles move an entry of S, in the accuracy proof."""
        return self._moved_by(self.half_width)

    def _moved_by(self, half_width: int) -> float:
        """Bound max |S~ - S|, S~ of rounded records, for every dataset that the proof is about.

        No coordinate of those passes R, and no S_ii passes sigma^2 + t_0/16. Then a coordinate is
        moved by at most a, and an entry by a (sqrt(S_ii) + sqrt(S_jj)) + a^2; "Accuracy" in the
        proof.
        """
        largest = self.inputs.scale**2 + self.thresholds[0] / 16
        a = self.clip_radius * (0.5 / half_width + 2.0**-51)
        return 2 * a * math.sqrt(largest) + a * a + 2.0**-49 * largest

    @cached_property
    def schedule(self) -> Schedule:
        """The tests to run."""
        chances = self.activations, self.inactivations
        kept = self.candidates, self.quotas, self.selection_scales
        levels = zip(self.thresholds[:-1], self.repetitions, *chances, *kept, strict=True)
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
        if self._noise_is_private:
            return
        needed = self.smallest_private_n
        raise PrivacyConditionError(
            f"n_records must be at least {needed:,} (about {needed:.3g}) for the paper's privacy "
            f"proof at constants='theorem', got {self.inputs.n_records:,}: its clipped gate noise "
            "is private only while (1 + e^(epsilon/4)) eta <= delta/16. Nothing was released. Use "
            "more records, or a larger epsilon, delta or target_error.",
            smallest_private_n=needed,
        )

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
        found: dict[str, object] = {"inputs": asdict(self.inputs)}
        for name, symbol, meaning in QUANTITIES:
            found[symbol] = getattr(self, name) if meaning else list(getattr(self, name))
        conditions = ("private", "accurate", "smallest_private_n", "smallest_accurate_n")
        return found | {name: getattr(self, name) for name in conditions}


#: Quantities of Section 3: name, the paper's symbol, and the meaning of those that are one number.
QUANTITIES = tuple(
    (each.name, str(each.metadata["symbol"]), str(each.metadata["meaning"]))
    for each in fields(TheoremParameters)
    if each.metadata.get("symbol")
)


def theorem_parameters(
    inputs: PublicInputs,
    *,
    quota_constant: float = QUOTA_CONSTANT,
    rate_constant: float = RATE_CONSTANT,
) -> TheoremParameters:
    """Evaluate Section 3 for the given public inputs.

    Parameters
    ----------
    inputs : PublicInputs
    quota_constant, rate_constant : float
        C_s and C_rho. The proofs are about the paper's values, 64 and 4096: parameters with other
        ones are for study, are not `private`, and every release refuses them.
    """
    cure = "it is a constant of the paper; leave it out for the paper's value."
    C_s = Decimal(check_real("quota_constant", quota_constant, above=0, cure=cure))
    C_rho = Decimal(check_real("rate_constant", rate_constant, above=0, cure=cure))
    d, k, n = inputs.n_features, inputs.row_sparsity, inputs.n_records
    # L = ceil(log2(512 k / alpha)), without rounding at the exact powers of two.
    n_levels = (math.ceil(512 * k / Fraction(inputs.target_error)) - 1).bit_length()
    with localcontext(_EXACT):
        sigma2 = Decimal(inputs.scale) ** 2
        alpha = Decimal(inputs.target_error)
        log_factor = (80 * d * n_levels / Decimal(inputs.failure_probability)).ln()
        test_rate = C_rho * n_levels * k * log_factor / (alpha * sigma2) ** 2
        t = [alpha * sigma2 / (256 * k) * 2**level for level in range(n_levels + 1)]
        expected = [test_rate * t_ell**2 for t_ell in t[:-1]]  # mu_ell
        m = [_ceil(mu) for mu in expected]
        p = [mu / m_ell for mu, m_ell in zip(expected, m, strict=True)]
        M = [d * (d + 1) // 2 * m_ell for m_ell in m]
        relevant = [d * test_rate * min(k * t_ell**2, sigma2**2) + log_factor for t_ell in t[:-1]]
        s = [min(M_ell, _ceil(C_s * x)) for M_ell, x in zip(M, relevant, strict=True)]
        spent = [s_ell / t_ell**2 for s_ell, t_ell in zip(s, t[:-1], strict=True)]
        query_budget = sum(spent, Decimal(0))  # proof: step 3
        allowed = Decimal(inputs.failure_probability) * Decimal(inputs.delta)
        union_log = float((80 * n_levels * sum(M) / allowed).ln())
    thresholds = tuple(math.ldexp(float(t[0]), level) for level in range(n_levels + 1))
    if not math.isfinite(float(test_rate)):
        raise CapacityError(
            f"target_error must be large enough for the test rate to fit a double, got "
            f"{inputs.target_error!r} at scale {inputs.scale!r}: choose a larger one."
        )
    # No coordinate is altered with probability 1 - beta/20.
    radius = inputs.scale * math.sqrt(2 * math.log(40 * n * d / inputs.failure_probability))
    sensitivity = 2 * radius**2 / n
    r = 8 * sensitivity * math.sqrt(float(query_budget)) / inputs.epsilon  # proof: step 4
    r *= math.sqrt(math.log(32 / inputs.delta))
    # The total-variation price of clipping all gate noises at 1/4.
    log_eta = math.log(2) + math.log(sum(s)) - 1 / (32 * r) / r
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
        log_clipping_slack=log_eta,
    )


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def _selection_scales(
    inputs: PublicInputs, sensitivity: float, *levels: Sequence[float]
) -> tuple[float | None, ...]:
    """Return b_ell, one-shot Laplace scales at (epsilon/(8L), delta/(32L)), or None.

    `levels` are thresholds, quotas and candidates.
    """
    n_levels = len(levels[1])
    epsilon_ell = inputs.epsilon / (8 * n_levels)
    scales: list[float | None] = []
    for t_ell, s_ell, M_ell in zip(*levels, strict=False):
        log_term = math.log(M_ell) + math.log(32 * n_levels) - math.log(inputs.delta)
        spread = 8 * (sensitivity / t_ell) * math.sqrt(s_ell * log_term)
        scales.append(spread / epsilon_ell if s_ell < M_ell else None)  # proof: step 2
    return tuple(scales)


def smallest_n(condition: Callable[[int], bool]) -> int:
    """Return the smallest n >= 1 that meets a condition monotone in n, by integer bisection."""
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
