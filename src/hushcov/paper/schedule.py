"""The tests Algorithm 1 runs: levels, quotas and noise, whoever chose the numbers.

A schedule is public. The samplers read nothing else besides the statistic, so the paper's
constants and any other choice of numbers go through the same code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from hushcov._arrays import FloatArray
from hushcov._validation import check_integer, check_real
from hushcov._words import count, number
from hushcov.exceptions import ParameterError
from hushcov.paper.order_statistics import FEW_POINTS

_CURE = "use theorem_parameters or calibrated_parameters."
# Tests at the edge of a selection that doubles may not tell apart: the noise has a density of at
# most 1 / b beyond its quota, and neighbouring doubles are 2^-52 apart. Four times as many.
_TIED = 2.0**-50
_LARGEST_TIED = 5_000_000  # what memory holds
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
        return 1 / (self.gate_correction * self.test_rate * self.levels[-1].threshold)

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
    """kappa = E[1 / (1 - Z)] for Z the N(0, r^2) noise clipped to [-clip, clip], clip < 1."""
    edge = gate_clip / gate_noise
    if edge == 0:  # all of the noise is clipped
        return 1 / (1 - gate_clip**2)
    reach = min(edge, _TAIL)
    panels = max(1, math.ceil(reach))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = reach / (2 * panels)
    # Panels over w >= 0; the even part of 1/(1 - r w) is 1/(1 - (r w)^2).
    w = (half * (2 * np.arange(panels)[:, None] + 1 + nodes)).ravel()
    density = np.exp(-0.5 * w**2) / math.sqrt(2 * math.pi)
    inside = np.sum(np.tile(half * weights, panels) * 2 * density / (1 - (gate_noise * w) ** 2))
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
    """Most candidates of levels without selection whose gate is neither certain nor excluded.

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
    """(1 + e^epsilon) times the total variation: what it adds to delta."""
    distance = total_variation(schedule, all_tests_drawn=all_tests_drawn)
    return (1 + math.exp(epsilon)) * distance  # proof: step 8


def rounding_inflation(n_records: int) -> float:
    """Relative growth of the sensitivity when integer moments become doubles.

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
    """Titles and rows: one row a level, and one for the largest threshold."""
    titles = (
        "level",
        "threshold\nt",
        "tests per\nentry m",
        "active\nshare p",
        "all tests\nM",
        "tests kept\ns",
        "selection\nnoise b",
    )
    rows: list[tuple[str, ...]] = []
    for ell, level in enumerate(schedule.levels):
        b = level.selection_scale
        rows.append(
            (
                str(ell),
                number(level.threshold),
                count(level.repetitions),
                f"{level.activation:.6f}",
                count(level.candidates),
                count(level.quota),
                "keeps all" if b is None else number(b),
            )
        )
    return titles, [*rows, (f"{len(rows)} (top)", number(2 * schedule.levels[-1].threshold))]
