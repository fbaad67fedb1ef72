"""Algorithm 1 without enumerating its candidates: the same law, at any number of them.

The output is a function of how many selected active tests of each entry and level have gate +1
or -1, and those counts are drawn directly. A level that keeps every candidate needs one
binomial per entry; a level that selects goes through `select_largest`. Entries are processed in
order of |S_e|, so entries that cannot open a gate are skipped as one slice and neighbours in the
arrays are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushcov._compiled import run_in_chunks
from hushcov.exceptions import CapacityError
from hushcov.mechanisms.multiscale import kernels
from hushcov.mechanisms.multiscale.schedule import Level, Schedule
from hushcov.noise import binomial, select_largest

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

LARGEST_COUNT = 2**62  # more candidates than this at one level do not fit the integer arrays


def sample_exact(
    statistic: FloatArray, schedule: Schedule, generator: np.random.Generator
) -> IntArray:
    """Draw the gate counts N+ - N- of every level (rows) and entry (columns).

    `statistic` is the upper triangle of S, row by row, in units of the smallest threshold.
    """
    check_capacity(schedule)
    order = np.argsort(-np.abs(statistic), kind="stable")
    size = np.abs(statistic)[order]
    sign = np.where(statistic < 0, -1, 1)[order]
    gates = np.zeros((len(schedule.levels), len(statistic)), dtype=np.int64)
    for ell, level in enumerate(schedule.levels):
        alpha = np.ldexp(size, -ell)  # |S_e| / t_ell; exact, since t_ell = 2^ell t_0
        sample = _keep_all if level.selection_scale is None else _select
        gates[ell, order] = sign * sample(alpha, level, schedule, generator)
    return gates


def check_capacity(schedule: Schedule) -> None:
    """Refuse a schedule whose counts do not fit 64-bit integers."""
    most = max(level.candidates for level in schedule.levels)
    if most > LARGEST_COUNT:
        raise CapacityError(
            f"a level has {most:.3g} candidate tests and at most {LARGEST_COUNT:.3g} can be "
            "counted: use fewer features, or a larger target_error."
        )


def _keep_all(
    alpha: FloatArray, level: Level, schedule: Schedule, generator: np.random.Generator
) -> IntArray:
    """Gate counts of a level without selection: one binomial per entry that can open a gate."""
    able = _able_to_fire(alpha, schedule)
    masses = _gate_masses(alpha[:able], -math.inf, math.inf, 1.0, schedule)
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
    b = level.selection_scale
    assert b is not None
    n_entries = len(alpha)
    counts = np.full(n_entries, level.repetitions, dtype=np.int64)
    active = binomial(
        generator,
        counts,
        np.full(n_entries, level.activation),
        np.full(n_entries, level.inactivation),
    )
    inactive = level.candidates - int(active.sum())
    family = _NoisyScores(np.append(alpha, kernels.INACTIVE), b)
    chosen = select_largest(generator, np.append(active, inactive), level.quota, family)
    gates = np.zeros(n_entries, dtype=np.int64)
    able = _able_to_fire(alpha, schedule)
    for band in chosen.bands:
        inside = band.groups < able
        groups = band.groups[inside]
        masses = _gate_masses(alpha[groups], band.lo, band.hi, b, schedule)
        gates[groups] += _fire(generator, band.counts[inside], *masses)
    single = chosen.single_groups < able
    omega = chosen.single_details[single]
    noise = np.clip(
        generator.normal(scale=schedule.gate_noise, size=len(omega)),
        -schedule.gate_clip,
        schedule.gate_clip,
    )
    fired = (noise > 1 - omega).astype(np.int64) - (noise < -1 - omega)
    np.add.at(gates, chosen.single_groups[single], fired)
    return gates


def _able_to_fire(alpha: FloatArray, schedule: Schedule) -> int:
    """How many leading entries (alpha decreases) can open a gate: alpha > 1 - clip."""
    return int(np.searchsorted(-alpha, -(1 - schedule.gate_clip), side="left"))


def _gate_masses(
    alpha: FloatArray, lo: float, hi: float, b: float, schedule: Schedule
) -> FloatArray:
    masses = np.empty((3, len(alpha)))
    run_in_chunks(
        kernels.fill_gate_masses,
        len(alpha),
        np.ascontiguousarray(alpha),
        lo,
        hi,
        b,
        schedule.gate_noise,
        schedule.gate_clip,
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


@dataclass(frozen=True)
class _NoisyScores:
    """Noisy scores plus one: omega + Laplace(b), omega = alpha / tau; inactive tests at -1."""

    alpha: FloatArray
    b: float

    @property
    def support(self) -> tuple[float, float]:
        return kernels.INACTIVE - 60 * self.b, float(self.alpha[0]) + 60 * self.b

    def masses(
        self, groups: IntArray, lo: float, split: float, hi: float
    ) -> tuple[FloatArray, FloatArray]:
        above, below = np.empty((2, len(groups)))
        run_in_chunks(
            kernels.fill_score_masses,
            len(groups),
            self.alpha[groups],
            lo,
            split,
            hi,
            self.b,
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
                generator.random((3, len(pending))),
                offset,
                omega,
                accepted,
            )
            pending = pending[~accepted]
        return offset, omega
