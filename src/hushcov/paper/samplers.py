"""Samplers of Algorithm 1: gates, or the whole transcript, exact at any size.

A level keeps its `quota` largest noisy scores. The scores are never drawn: they come in groups of
i.i.d. ones, and only the number of each group that lies in an interval is drawn, by binomial
splitting: cut the undecided interval in two, draw how many undecided points of each group fall
above the cut, and keep the half that still contains the quota's edge. Splitting near the edge
leaves about sqrt(N) of N undecided points after two cuts, so the cost does not depend on N. The
last few points are drawn one by one. The law is exact wherever the cuts are: they only decide how
fast it goes.

NumPy's binomial draws compute 1 - p in double precision, which loses the far tails that a privacy
proof relies on. `binomial` takes both masses, success and failure, each accurate in relative terms,
and works with the smaller one: by inversion when few successes are expected, otherwise by
Hoermann's transformed rejection (BTRS, 1993) with the probability ratio in Loader's saddle-point
form. So its law is right to the last bits, for counts up to 1e15.

Reading values from the transcript (J, V) needs the selected tests themselves: their thresholds T
and noisy queries V = S_e/T + Z. They are drawn one by one from the same selection, so the cost
grows with the quotas but not with the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from hushcov._arrays import BoolArray, FloatArray, IndexArray, IntArray
from hushcov._compiled import compiled, run_in_chunks
from hushcov.exceptions import CapacityError
from hushcov.paper import kernels
from hushcov.paper.parameters import (
    FEW_POINTS,
    Level,
    Schedule,
    query_inflation,
    rounding_inflation,
)

_BINS = 512  # representatives on which a split point is searched
_TIED = (
    "more than {:,} tests are tied in double precision at the selection edge: the selection noise "
    "is too small to be resolved. Use a larger target_error."
)

INVERSION_MEAN = 10.0  # below this mean BTRS is not valid; inversion takes at most this many steps
_LONGEST_INVERSION = 150  # P(Poisson(10) > 150) < 1e-110
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)

_NEGLIGIBLE = 1e-50

_PI = Decimal("3.14159265358979323846264338327950288")
# Stirling's error log(k!) - log(sqrt(2 pi k) (k/e)^k) for k = 1..15; 0 is never looked up.
_STIRLING_ERROR = np.array(
    [0.0]
    + [
        float(Decimal(math.factorial(k)).ln() - (2 * _PI * k).ln() / 2 - k * (Decimal(k).ln() - 1))
        for k in range(1, 16)
    ]
)


@dataclass(frozen=True)
class Band:
    """Points known only to lie in (lo, hi]: `counts` of them in each of `groups`."""

    lo: float
    hi: float
    groups: IntArray
    counts: IntArray

    def part(self, lo: float, hi: float, counts: IntArray) -> Band:
        """Return those of the points that lie in (lo, hi], without the groups that have none."""
        left = np.flatnonzero(counts)
        return Band(lo, hi, self.groups[left], counts[left])


@dataclass(frozen=True)
class Selection:
    """The largest points: counts in bands, and the few that were drawn one by one."""

    bands: tuple[Band, ...]
    single_groups: IntArray
    single_details: FloatArray


def select_largest(
    generator: np.random.Generator,
    counts: IntArray,
    quota: int,
    family: NoisyScores,
    *,
    most_single: int = FEW_POINTS,
) -> Selection:
    """Draw which points are the `quota` largest of sum(counts), group by group.

    Neighbouring groups of the family should be alike: split points are searched on a few of them.
    No more than `most_single` points are drawn one by one. Where doubles cannot tell so many apart
    at the edge, nothing is drawn of them and `CapacityError` is raised.
    """
    points = Band(-math.inf, math.inf, np.arange(len(counts)), counts)
    points = points.part(points.lo, points.hi, counts)
    bands: list[Band] = []
    side = 1 if 2 * quota <= int(counts.sum()) else -1
    while 0 < quota < (undecided := int(points.counts.sum())):
        cut = _cut(points, quota, side, family) if undecided > FEW_POINTS else None
        if cut is None:
            if undecided > most_single:
                raise CapacityError(_TIED.format(most_single))
            # Draw the undecided points themselves and keep the `quota` largest.
            groups, (low, high) = np.repeat(points.groups, points.counts), family.support
            keys, details = family.draw(
                generator, groups, max(points.lo, low), min(points.hi, high)
            )
            largest = np.argpartition(keys, len(keys) - quota)[len(keys) - quota :]
            return Selection(tuple(bands), groups[largest], details[largest])
        split, above, below = cut
        upper = binomial(generator, points.counts, above, below)
        taken = int(upper.sum())
        if taken >= quota:
            points = points.part(split, points.hi, upper)
        else:
            bands.append(points.part(split, points.hi, upper))
            quota -= taken
            points = points.part(points.lo, split, points.counts - upper)
        side = -side
    if quota:
        bands.append(points)
    return Selection(tuple(bands), np.empty(0, np.int64), np.empty(0))


def _cut(
    points: Band, quota: int, side: int, family: NoisyScores
) -> tuple[float, FloatArray, FloatArray] | None:
    """Cut where about `quota` points lie above, give or take three deviations.

    The place is searched on a few representatives, and once more if the expectation over all
    groups shows that they missed by more. Returns the place and the masses of every group above
    and below it, or None when doubles cannot split the interval.
    """
    groups, undecided = points.groups, int(points.counts.sum())
    deviation = math.sqrt(quota * (undecided - quota) / undecided)
    wanted = quota + 3 * side * deviation
    starts = np.unique(np.linspace(0, len(groups), min(_BINS, len(groups)) + 1).astype(np.int64))
    weights = np.add.reduceat(points.counts, starts[:-1])
    middles = groups[(starts[:-1] + starts[1:]) // 2]
    few, target = Band(points.lo, points.hi, middles, weights), wanted
    for attempt in range(2):
        split = _search(few, target, deviation, family)
        if not points.lo < split < points.hi:
            return None
        above, below = family.masses(groups, points.lo, split, points.hi)
        expected = float(points.counts @ _share(above, below))
        if attempt == 1 or abs(expected - wanted) <= 2 * deviation + 0.01 * undecided:
            break
        target += wanted - expected
    return split, above, below


def _search(points: Band, target: float, deviation: float, family: NoisyScores) -> float:
    """Bisect for the place above which `target` of the points are expected."""
    target = min(max(target, 0.5), int(points.counts.sum()) - 0.5)
    low, high = max(points.lo, family.support[0]), min(points.hi, family.support[1])
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return middle
        share = _share(*family.masses(points.groups, points.lo, middle, points.hi))
        excess = float(points.counts @ share) - target
        if abs(excess) <= 0.1 * deviation:
            return middle
        low, high = (middle, high) if excess > 0 else (low, middle)


def _share(above: FloatArray, below: FloatArray) -> FloatArray:
    total = above + below
    return np.divide(above, total, out=np.full_like(above, 0.5), where=total > 0)


def binomial(
    generator: np.random.Generator, counts: IntArray, success: FloatArray, failure: FloatArray
) -> IntArray:
    """Draw Binomial(counts, success / (success + failure)) elementwise.

    `success` and `failure` are non-negative masses; they need not add up to one. Where both
    are zero the draw is zero.
    """
    drawn = np.zeros(len(counts), dtype=np.int64)
    pending = np.flatnonzero((counts > 0) & (success > 0))
    while len(pending):
        uniforms = generator.random((2, len(pending)))
        accepted = np.empty(len(pending), dtype=np.bool_)
        run_in_chunks(
            _attempt, len(pending), pending, counts, success, failure, uniforms, drawn, accepted
        )
        pending = pending[~accepted]
    return drawn


@compiled
def _attempt(
    start: int,
    stop: int,
    pending: IndexArray,
    counts: IntArray,
    success: FloatArray,
    failure: FloatArray,
    uniforms: FloatArray,
    drawn: IntArray,
    accepted: BoolArray,
) -> None:
    for position in range(start, stop):
        entry = pending[position]
        n = counts[entry]
        total = success[entry] + failure[entry]
        flipped = success[entry] > failure[entry]
        p = (failure[entry] if flipped else success[entry]) / total
        if n * p < INVERSION_MEAN:
            k = _by_inversion(n, p, uniforms[0, position], uniforms[1, position])
        else:
            k = _by_rejection(n, p, uniforms[0, position], uniforms[1, position])
        accepted[position] = k >= 0
        drawn[entry] = n - k if flipped else k


@compiled
def _by_inversion(n: int, p: float, first: float, second: float) -> int:
    """Return the largest k whose upper tail P(X >= k) passes a uniform of 106 bits.

    Tails are summed from the far end, so that rare outcomes keep their relative probability.
    """
    uniform = first + second * 2.0**-53
    log_zero = n * math.log1p(-p)
    if uniform >= -math.expm1(log_zero):
        return 0
    odds, term, k = p / (1.0 - p), math.exp(log_zero), 0
    while k < n and k < _LONGEST_INVERSION and (k < n * p or term > _NEGLIGIBLE):
        k += 1
        term *= (n - k + 1) / k * odds
    tail = term
    while tail <= uniform and k > 1:
        term *= k / ((n - k + 1) * odds)
        k -= 1
        tail += term
    return k


@compiled
def _by_rejection(n: int, p: float, first: float, second: float) -> int:
    """Attempt BTRS once; return -1 when the proposal is rejected."""
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    u = first - 0.5
    margin = 0.5 - abs(u)
    if margin <= 0.0:
        return -1
    k = math.floor((2.0 * a / margin + b) * u + n * p + 0.5)
    if margin >= 0.07 and second <= 0.92 - 4.2 / b:
        return int(k)
    if k < 0 or k > n or second <= 0.0:
        return -1
    envelope = (2.83 + 5.1 / b) * spread / (a / (margin * margin) + b)
    mode = math.floor((n + 1) * p)
    if math.log(second * envelope) <= _log_weight(n, p, k) - _log_weight(n, p, mode):
        return int(k)
    return -1


@compiled
def _log_weight(n: int, p: float, k: float) -> float:
    """Return log of the probability of k, up to a constant shared by all k (Loader 2000)."""
    if k == 0:
        return n * math.log1p(-p) + 0.5 * math.log(n) - _stirling_error(n) + _HALF_LOG_TWO_PI
    if k == n:
        return n * math.log(p) + 0.5 * math.log(n) - _stirling_error(n) + _HALF_LOG_TWO_PI
    deviation = k - n * p
    return (
        -_stirling_error(k)
        - _stirling_error(n - k)
        - _deviance(n * p, deviation)
        - _deviance(n * (1.0 - p), -deviation)
        + 0.5 * math.log(n / k)
        + 0.5 * math.log(n / (n - k))
    )


@compiled
def _stirling_error(k: float) -> float:
    if k < 16:
        return _STIRLING_ERROR[int(k)]  # type: ignore[no-any-return]
    k = float(k)  # the square of an integer count would overflow
    z = 1.0 / (k * k)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - z / 1188) * z) * z) * z) / k


@compiled
def _deviance(mean: float, deviation: float) -> float:
    """Return x log(x/mean) + mean - x at x = mean + deviation, without cancellation."""
    e = deviation / mean
    if abs(e) > 0.1:
        return mean * ((1.0 + e) * math.log1p(e) - e)
    # (1+e) log(1+e) - e = e^2/2 - e^3/6 + e^4/12 - ...: the terms are e^j (-1)^j / (j (j-1)).
    total = 0.0
    power = e * e
    j = 2
    while True:
        term = power / (j * (j - 1))
        new = total + term
        if new == total:
            return mean * total
        total = new
        power *= -e
        j += 1


def select_tests(
    alpha: FloatArray, level: Level, gumbel: bool, generator: np.random.Generator
) -> tuple[Selection, NoisyScores]:
    """Select among all tests of a level, active and inactive; with the law of their scores.

    `alpha` is |S_e| / t_ell in decreasing order. In the answer group len(alpha) pools the
    inactive tests, and the detail of a single is its omega.
    """
    assert level.selection_scale is not None
    scores = NoisyScores(np.append(alpha, kernels.INACTIVE), level.selection_scale, gumbel)
    active = active_tests(len(alpha), level, generator)
    counts = np.append(active, level.candidates - int(active.sum()))
    most = level.most_single  # proof: step 8
    return select_largest(generator, counts, level.quota, scores, most_single=most), scores


def active_tests(n_entries: int, level: Level, generator: np.random.Generator) -> IntArray:
    """Return how many tests of each entry are active, Binomial(m_ell, p_ell)."""
    counts = np.full(n_entries, level.repetitions, dtype=np.int64)
    masses = np.full((2, n_entries), [[level.activation], [level.inactivation]])
    return binomial(generator, counts, *masses)


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
        """Return probabilities of (split, hi] and (lo, split] for one test of each group."""
        above, below = np.empty((2, len(groups)))
        law = lo, split, hi, self.b, self.gumbel
        size, alpha = len(groups), self.alpha[groups]
        run_in_chunks(kernels.fill_score_masses, size, alpha, *law, above, below)
        return above, below

    def draw(
        self, generator: np.random.Generator, groups: IntArray, lo: float, hi: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the distance of each score from `lo`, and its omega."""
        offset, omega = np.empty((2, len(groups)))
        pending = np.arange(len(groups))
        while len(pending):
            accepted = np.empty(len(pending), dtype=np.bool_)
            alpha, uniforms = self.alpha[groups[pending]], generator.random((3, len(pending)))
            law, found = (lo, hi, self.b, self.gumbel), (offset, omega, accepted)
            kernels.attempt_points(pending, alpha, *law, uniforms, *found)
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
    """Return entries from the largest to the smallest |S_e|, and these sizes in units of t_0."""
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
    """Return gate counts without selection: one binomial per entry that can open a gate."""
    able = _able_to_fire(alpha, schedule)
    masses = _gate_masses(alpha[:able], -math.inf, math.inf, None, schedule)
    masses /= masses.sum(axis=0)  # so that a certain gate has mass 1, not 1 but for rounding
    masses *= level.activation
    masses[2] += level.inactivation
    counts = np.full(able, level.repetitions, dtype=np.int64)
    gates = np.zeros(len(alpha), dtype=np.int64)
    gates[:able] = _fire(generator, counts, masses)
    return gates


def _select(
    alpha: FloatArray, level: Level, schedule: Schedule, generator: np.random.Generator
) -> IntArray:
    """Return gate counts with selection: which tests are kept, then which of them fire."""
    chosen, _ = select_tests(alpha, level, schedule.gumbel, generator)
    gates = np.zeros(len(alpha), dtype=np.int64)
    able = _able_to_fire(alpha, schedule)
    for band in chosen.bands:
        inside = band.groups < able
        groups = band.groups[inside]
        masses = _gate_masses(alpha[groups], band.lo, band.hi, level.selection_scale, schedule)
        gates[groups] += _fire(generator, band.counts[inside], masses)
    single = chosen.single_groups < able
    omega = chosen.single_details[single]
    noise = schedule.draw_gate_noise(generator, len(omega))
    fired = (noise > 1 - omega).astype(np.int64) - (noise < -1 - omega)
    np.add.at(gates, chosen.single_groups[single], fired)
    return gates


def _able_to_fire(alpha: FloatArray, schedule: Schedule) -> int:
    """Return how many leading entries (alpha decreases) can open a gate: alpha > 1 - clip."""
    return int(np.searchsorted(-alpha, -(1 - schedule.gate_clip), side="left"))


def _gate_masses(
    alpha: FloatArray, lo: float, hi: float, selection_scale: float | None, schedule: Schedule
) -> FloatArray:
    """Return masses of (lo, hi] with each gate; any scale will do for all of the line."""
    masses, alpha = np.empty((3, len(alpha))), np.ascontiguousarray(alpha)
    law = lo, hi, selection_scale or 1.0, schedule.gate_noise, schedule.gate_clip, schedule.gumbel
    run_in_chunks(kernels.fill_gate_masses, len(alpha), alpha, *law, masses)
    return masses


def _fire(generator: np.random.Generator, counts: IntArray, masses: FloatArray) -> IntArray:
    """Return N(same sign) - N(opposite sign) of `counts` tests with the given gate masses."""
    same, opposite, silent = masses
    fired = binomial(generator, counts, same, opposite + silent)
    if not opposite.any():
        return fired
    return fired - binomial(generator, counts - fired, opposite, silent)


LARGEST_TRANSCRIPT = 50_000_000  # tests


@dataclass(frozen=True)
class Transcript:
    """Selected active tests: level, entry, threshold in units of t_0, and noisy query V.

    Selected inactive tests carry pure noise that no reconstruction reads; they are left out.
    """

    level: IntArray
    entry: IntArray
    threshold: FloatArray
    query: FloatArray


def sample_transcript(
    statistic: FloatArray, schedule: Schedule, generator: np.random.Generator
) -> Transcript:
    """Draw (J, V) for the upper triangle `statistic` of S in units of the smallest threshold."""
    check_capacity(schedule)
    if schedule.total_quota > LARGEST_TRANSCRIPT:
        raise CapacityError(
            f"a transcript holds at most {LARGEST_TRANSCRIPT:,} tests and this schedule selects "
            f"{schedule.total_quota:,}: use reconstruction='gate', which only counts them."
        )
    order, size = by_size(statistic)
    levels, entries, thresholds = [], [], []
    for ell, level in enumerate(schedule.levels):
        groups, tau = _selected(np.ldexp(size, -ell), level, schedule, generator)
        levels.append(np.full(len(groups), ell))
        entries.append(order[groups])
        thresholds.append(np.ldexp(tau, ell))
    entry, threshold = np.concatenate(entries), np.concatenate(thresholds)
    query = statistic[entry] / threshold + schedule.draw_gate_noise(generator, len(entry))
    return Transcript(np.concatenate(levels), entry, threshold, query)


def _selected(
    alpha: FloatArray, level: Level, schedule: Schedule, generator: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Return the group and tau = T / t_ell of every selected active test of a level."""
    if level.selection_scale is None:
        groups = np.repeat(np.arange(len(alpha)), active_tests(len(alpha), level, generator))
        return groups, generator.uniform(1, 2, len(groups))
    chosen, scores = select_tests(alpha, level, schedule.gumbel, generator)
    low, high = scores.support
    active = chosen.single_groups < len(alpha)
    parts = [(chosen.single_groups[active], chosen.single_details[active])]
    for band in chosen.bands:
        active = band.groups < len(alpha)
        groups = np.repeat(band.groups[active], band.counts[active])
        found = scores.draw(generator, groups, max(band.lo, low), min(band.hi, high))[1]
        parts.append((groups, found))
    groups, omega = (np.concatenate(each) for each in zip(*parts, strict=True))
    tau = generator.uniform(1, 2, len(groups))  # what is left where S_e = 0 says nothing of tau
    np.divide(alpha[groups], omega, out=tau, where=omega > 0)
    return groups, tau


STEPS_PER_DEVIATION = 4  # rounding at a quarter of the deviation adds 0.5 % to the variance


def value_step(schedule: Schedule) -> float:
    """Return a public step, fine enough to round values to, in units of t_0.

    No entry is known better than from all tests of all levels at their smallest thresholds.
    """
    most = math.fsum(lv.repetitions / 4.0**ell for ell, lv in enumerate(schedule.levels))
    return schedule.gate_noise / math.sqrt(most) / STEPS_PER_DEVIATION


def value_integers(
    transcript: Transcript, schedule: Schedule, keep_above: float, step: float
) -> IntArray:
    """Return released integers of every entry, in units of `step`; zero where nothing is kept."""
    # proof: step 9
    precision = np.zeros(schedule.n_entries)
    total = np.zeros(schedule.n_entries)
    np.add.at(precision, transcript.entry, transcript.threshold**-2)
    np.add.at(total, transcript.entry, transcript.query / transcript.threshold)
    mean = np.divide(total, precision, out=np.zeros_like(total), where=precision > 0)
    # |mean| > keep_above * r / sqrt(precision), without dividing by a zero precision.
    kept = np.abs(mean) * np.sqrt(precision) > keep_above * schedule.gate_noise
    # Times 1 / p of the surest level an entry was found at: for positions not looked at.
    activation = np.array([min(1.0, lv.repetitions * lv.activation) for lv in schedule.levels])
    surest = np.zeros(schedule.n_entries)
    np.maximum.at(surest, transcript.entry, activation[transcript.level])
    weighted = mean * np.divide(1.0, surest, out=np.ones_like(surest), where=surest > 0)
    return np.where(kept, np.rint(weighted / step), 0).astype(np.int64)


@dataclass(frozen=True)
class Reconstruction:
    """One way to read the estimate, with what finite precision costs on that way.

    `inflation` is the relative growth of sensitivities by rounding, of a number of records.
    `all_tests_drawn` says that every selected test is drawn by itself, which is charged. `step`
    is to which values are rounded, in units of the smallest threshold; None for gates.
    """

    inflation: Callable[[int], float]
    all_tests_drawn: bool
    step: Callable[[Schedule], float | None]


#: Every reconstruction by its name; another name is an error, never another one's constants.
RECONSTRUCTIONS = {
    "gate": Reconstruction(rounding_inflation, False, lambda _: None),  # proof: step 8
    "value": Reconstruction(query_inflation, True, value_step),  # proof: step 9
}
