"""Algorithm 1 without enumerating its candidates: the same law, at any number of them.

The output is a function of how many selected active tests of each entry and level have gate +1
or -1, and those counts are drawn directly. A level that keeps every candidate needs one
binomial per entry; a level that selects goes through `select_largest`. Entries are processed in
order of |S_e|, so entries that cannot open a gate are skipped as one slice and neighbours in the
arrays are alike.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import run_in_chunks
from hushcov.exceptions import CapacityError
from hushcov.mechanisms.multiscale import kernels
from hushcov.mechanisms.multiscale.schedule import Level, Schedule
from hushcov.mechanisms.multiscale.selection import select_tests
from hushcov.noise import binomial

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
