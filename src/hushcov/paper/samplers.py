"""Which tests of a level are kept: the quota's largest noisy scores, by groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import run_in_chunks
from hushcov.exceptions import CapacityError
from hushcov.paper import kernels
from hushcov.paper.order_statistics import Selection, binomial, select_largest
from hushcov.paper.schedule import Level, Schedule


def select_tests(
    alpha: FloatArray, level: Level, gumbel: bool, generator: np.random.Generator
) -> Selection:
    """Select among all tests of a level, active and inactive.

    `alpha` is |S_e| / t_ell in decreasing order. In the answer group len(alpha) pools the
    inactive tests, and the detail of a single is its omega.
    """
    active = active_tests(len(alpha), level, generator)
    inactive = level.candidates - int(active.sum())
    return select_largest(
        generator,
        np.append(active, inactive),
        level.quota,
        noisy_scores(alpha, level, gumbel),
        most_single=level.most_single,  # proof: step 8
    )


def active_tests(n_entries: int, level: Level, generator: np.random.Generator) -> IntArray:
    """How many tests of each entry are active, Binomial(m_ell, p_ell)."""
    return binomial(
        generator,
        np.full(n_entries, level.repetitions, dtype=np.int64),
        np.full(n_entries, level.activation),
        np.full(n_entries, level.inactivation),
    )


def noisy_scores(alpha: FloatArray, level: Level, gumbel: bool) -> NoisyScores:
    """The law of the noisy scores of a level that selects."""
    assert level.selection_scale is not None
    return NoisyScores(np.append(alpha, kernels.INACTIVE), level.selection_scale, gumbel)


@dataclass(frozen=True)
class NoisyScores:
    """Noisy scores plus one: omega + noise(b), omega = alpha / tau; inactive tests at -1."""

    alpha: FloatArray
    b: float
    gumbel: bool

    @property
    def support(self) -> tuple[float, float]:
        """All but e^-60 of every score's probability."""
        return kernels.INACTIVE - 60 * self.b, float(self.alpha[0]) + 60 * self.b

    def masses(
        self, groups: IntArray, lo: float, split: float, hi: float
    ) -> tuple[FloatArray, FloatArray]:
        """Probabilities of (split, hi] and (lo, split] for one test of each group."""
        above, below = np.empty((2, len(groups)))
        run_in_chunks(
            kernels.fill_score_masses,
            len(groups),
            self.alpha[groups],
            lo,
            split,
            hi,
            self.b,
            self.gumbel,
            above,
            below,
        )
        return above, below

    def draw(
        self, generator: np.random.Generator, groups: IntArray, lo: float, hi: float
    ) -> tuple[FloatArray, FloatArray]:
        """Distance of each score from `lo`, and its omega."""
        offset, omega = np.empty((2, len(groups)))
        pending = np.arange(len(groups))
        while len(pending):
            accepted = np.empty(len(pending), dtype=np.bool_)
            kernels.attempt_points(
                pending,
                self.alpha[groups[pending]],
                lo,
                hi,
                self.b,
                self.gumbel,
                generator.random((3, len(pending))),
                offset,
                omega,
                accepted,
            )
            pending = pending[~accepted]
        return offset, omega


LARGEST_COUNT = 2**62  # more candidates than this at one level do not fit the integer arrays


def sample_exact(
    statistic: FloatArray, schedule: Schedule, generator: np.random.Generator
) -> IntArray:
    """Draw the gate counts N+ - N- of every level (rows) and entry (columns).

    `statistic` is the upper triangle of S, row by row, in units of the smallest threshold.
    """
    check_capacity(schedule)
    order, size = by_size(statistic)
    sign = np.where(statistic < 0, -1, 1)[order]
    gates = np.zeros((len(schedule.levels), len(statistic)), dtype=np.int64)
    for ell, level in enumerate(schedule.levels):
        alpha = np.ldexp(size, -ell)  # |S_e| / t_ell; exact, since t_ell = 2^ell t_0
        sample = _keep_all if level.selection_scale is None else _select
        gates[ell, order] = sign * sample(alpha, level, schedule, generator)
    return gates


def by_size(statistic: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Entries from the largest to the smallest |S_e|, and these sizes in units of t_0."""
    size = np.abs(statistic)
    order = np.argsort(-size, kind="stable")
    return order, size[order]


def check_capacity(schedule: Schedule) -> None:
    """Refuse a schedule whose counts do not fit 64-bit integers."""
    most = max(level.candidates for level in schedule.levels)
    if most > LARGEST_COUNT or max(level.repetitions for level in schedule.levels) > 2**53:
        raise CapacityError(
            f"a level has {most:.3g} candidate tests and at most {LARGEST_COUNT:.3g} can be "
            "counted: use fewer features, or a larger target_error."
        )


def _keep_all(
    alpha: FloatArray, level: Level, schedule: Schedule, generator: np.random.Generator
) -> IntArray:
    """Gate counts of a level without selection: one binomial per entry that can open a gate."""
    able = _able_to_fire(alpha, schedule)
    masses = _gate_masses(alpha[:able], -math.inf, math.inf, None, schedule)
    masses /= masses.sum(axis=0)  # so that a certain gate has mass 1, not 1 but for rounding
    silent = level.inactivation + level.activation * masses[2]
    counts = np.full(able, level.repetitions, dtype=np.int64)
    gates = np.zeros(len(alpha), dtype=np.int64)
    gates[:able] = _fire(
        generator, counts, level.activation * masses[0], level.activation * masses[1], silent
    )
    return gates


def _select(
    alpha: FloatArray, level: Level, schedule: Schedule, generator: np.random.Generator
) -> IntArray:
    """Gate counts of a level with selection: which tests are kept, then which of them fire."""
    chosen = select_tests(alpha, level, schedule.gumbel, generator)
    gates = np.zeros(len(alpha), dtype=np.int64)
    able = _able_to_fire(alpha, schedule)
    for band in chosen.bands:
        inside = band.groups < able
        groups = band.groups[inside]
        masses = _gate_masses(alpha[groups], band.lo, band.hi, level.selection_scale, schedule)
        gates[groups] += _fire(generator, band.counts[inside], *masses)
    single = chosen.single_groups < able
    omega = chosen.single_details[single]
    noise = schedule.draw_gate_noise(generator, len(omega))
    fired = (noise > 1 - omega).astype(np.int64) - (noise < -1 - omega)
    np.add.at(gates, chosen.single_groups[single], fired)
    return gates


def _able_to_fire(alpha: FloatArray, schedule: Schedule) -> int:
    """How many leading entries (alpha decreases) can open a gate: alpha > 1 - clip."""
    return int(np.searchsorted(-alpha, -(1 - schedule.gate_clip), side="left"))


def _gate_masses(
    alpha: FloatArray, lo: float, hi: float, selection_scale: float | None, schedule: Schedule
) -> FloatArray:
    """Masses of (lo, hi] with each gate; any scale will do where the interval is everything."""
    masses = np.empty((3, len(alpha)))
    run_in_chunks(
        kernels.fill_gate_masses,
        len(alpha),
        np.ascontiguousarray(alpha),
        lo,
        hi,
        selection_scale or 1.0,
        schedule.gate_noise,
        schedule.gate_clip,
        schedule.gumbel,
        masses,
    )
    return masses


def _fire(
    generator: np.random.Generator,
    counts: IntArray,
    same: FloatArray,
    opposite: FloatArray,
    silent: FloatArray,
) -> IntArray:
    """N(same sign) - N(opposite sign) of `counts` tests with the given gate masses."""
    fired = binomial(generator, counts, same, opposite + silent)
    if not opposite.any():
        return fired
    return fired - binomial(generator, counts - fired, opposite, silent)


LARGEST_LEVEL = 20_000_000  # candidates of one level held in memory at once


def sample_literal(
    statistic: FloatArray, schedule: Schedule, generator: np.random.Generator
) -> IntArray:
    """Draw the gate counts N+ - N- of every level (rows) and entry (columns).

    `statistic` is the upper triangle of S, row by row, in units of the smallest threshold.
    """
    most = max(level.candidates for level in schedule.levels)
    if most > LARGEST_LEVEL:
        raise CapacityError(
            f"the literal sampler holds at most {LARGEST_LEVEL:,} candidates of a level and this "
            f"schedule has {most:,}: use sample_exact, which draws the same law."
        )
    # The numbers are the lines of Algorithm 1. Lines 1-2, clipping and S, came before.
    return np.stack(
        [
            _sample_level(statistic, 2.0**ell, level, schedule, generator)
            for ell, level in enumerate(schedule.levels)
        ]
    )


def _sample_level(
    statistic: FloatArray,
    t: float,
    level: Level,
    schedule: Schedule,
    generator: np.random.Generator,
) -> IntArray:
    entry = np.repeat(np.arange(len(statistic)), level.repetitions)
    S = statistic[entry]
    U = generator.random(len(entry)) < level.activation  # line 4
    T = generator.uniform(t, 2 * t, len(entry))  # line 4
    if level.selection_scale is not None:  # line 7
        draw = generator.gumbel if schedule.gumbel else generator.laplace
        zeta = draw(scale=level.selection_scale, size=len(entry))  # line 9
        q = np.where(U, np.abs(S) / T - 1, -2.0)  # line 10
        J = np.argsort(-(q + zeta))[: level.quota]  # line 12
    else:
        J = np.arange(len(entry))  # line 14
    selected = J[U[J]]  # line 19
    Z = generator.normal(scale=schedule.gate_noise, size=len(selected))  # line 20
    Z = np.clip(Z, -schedule.gate_clip, schedule.gate_clip)  # line 20
    V = S[selected] / T[selected] + Z
    psi = (V > 1).astype(np.int64) - (V < -1)  # line 21; the public weight is applied later
    gates = np.zeros(len(statistic), dtype=np.int64)
    np.add.at(gates, entry[selected], psi)
    return gates
