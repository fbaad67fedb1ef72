"""How private is the aggregated matrix, without its transcript: `docs/research.md`.

    python benchmarks/studies/aggregated_privacy.py

The transcript has every threshold, every activation and every noisy query. The matrix has one sum
of gates for each entry. Where no level selects, the sums of different entries are independent, and
their law is a product over levels: a test opens its gate with the probabilities that the sampler
itself uses. So the privacy of the matrix can be computed to about 1e-11 in delta. A last table has
one selection: three entries with one test each, of which one is kept.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft, optimize, special, stats

from hushcov.inputs import PublicInputs
from hushcov.kernel.accounting import gaussian_epsilon
from hushcov.paper.kernels import gate_masses
from hushcov.paper.parameters import Level, Schedule, theorem_parameters

Vector = npt.NDArray[np.float64]
DELTA, MU = 1e-6, 0.25
_GRID = 2e-3  # steps of log-likelihood ratios over their deviation, where entries are composed
_FLOOR = 1e-15  # below this a probability is not told apart from what the transform leaves


def one_level(tests: int, noise: float, clip: float = math.inf) -> Schedule:
    """One entry, one level with threshold 1, and every test active."""
    level = Level(1.0, tests, 1.0, 0.0, tests, tests, None)
    return Schedule(1, (level,), float(tests), noise, clip, 1.0)


def law(statistic: float, schedule: Schedule) -> Vector:
    """Probabilities of the released integer of one entry, from its characteristic function.

    `statistic` is in units of the smallest threshold.
    """
    weights = [2 ** (len(schedule.levels) - 1 - ell) for ell in range(len(schedule.levels))]
    reach = sum(w * level.repetitions for w, level in zip(weights, schedule.levels, strict=True))
    size = fft.next_fast_len(2 * reach + 2)
    angle = 2 * math.pi * np.arange(size // 2 + 1) / size
    total = np.zeros(len(angle), dtype=np.complex128)
    for ell, (weight, level) in enumerate(zip(weights, schedule.levels, strict=True)):
        same, opposite, silent = gate_masses(
            math.ldexp(abs(statistic), -ell),
            *(-math.inf, math.inf, 1.0),
            *(schedule.gate_noise, schedule.gate_clip, False),
        )
        both = same + opposite + silent
        p = level.activation / both
        turn = np.exp(-1j * weight * angle)
        quiet = level.inactivation + p * silent
        one = quiet + p * same * turn + p * opposite * np.conj(turn)
        total += level.repetitions * np.log(np.where(one == 0, 1e-300, one))
    return np.maximum(fft.irfft(np.exp(total), size), 0.0)


def delta_at(epsilon: float, first: Vector, second: Vector) -> float:
    """The hockey-stick divergence, the larger of both directions."""
    one = np.maximum(first - math.exp(epsilon) * second, 0).sum()
    other = np.maximum(second - math.exp(epsilon) * first, 0).sum()
    return float(max(one, other))


def epsilon_of(curve: Callable[[float], float], delta: float = DELTA) -> float:
    """The smallest epsilon at which a curve of deltas is at most delta."""
    if curve(0.0) <= delta:
        return 0.0
    high = 1e-3
    while curve(high) > delta:
        high *= 2
        if high > 700:
            return math.inf
    return float(optimize.brentq(lambda e: curve(e) - delta, high / 2 * (high > 1e-3), high))


def composed(pairs: list[tuple[Vector, Vector]], copies: int) -> Callable[[float], float]:
    """Deltas of independent sums, `copies` of each pair of laws: losses on a grid, convolved.

    Losses are rounded up, so that the deltas are bounds.
    """
    losses, masses, beyond = [], [], 0.0
    for first, second in pairs:
        seen = (first > _FLOOR) & (second > _FLOOR)
        losses.append(np.log(first[seen] / second[seen]))
        masses.append(first[seen])
        beyond += copies * max(0.0, 1 - float(first[seen].sum()))
    step = _GRID * math.sqrt(sum(float(m @ x**2) for m, x in zip(masses, losses, strict=True)))
    places = [np.ceil(loss / step).astype(np.int64) for loss in losses]
    low = sum(int(place.min()) for place in places)
    counts = [
        np.bincount(place - place.min(), weights=mass)
        for place, mass in zip(places, masses, strict=True)
    ]
    size = fft.next_fast_len(copies * sum(len(count) for count in counts))
    turned = np.ones(size // 2 + 1, dtype=np.complex128)
    for count in counts:
        turned = turned * fft.rfft(count, size)
    total = np.maximum(fft.irfft(turned**copies, size), 0)
    grid = (copies * low + np.arange(size)) * step

    def curve(epsilon: float) -> float:
        above = grid > epsilon
        return beyond + float(total[above] @ -np.expm1(epsilon - grid[above]))

    return curve


def worst(schedule: Schedule, move: float) -> float:
    """Epsilon of the sum of one level at the place where it is largest."""
    found = 0.0
    around = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]) * schedule.gate_noise
    for place in (*(1 + around), 1.25, 1.5, 1.75, *(2 + 2 * around)):
        first, second = law(place, schedule), law(place + move, schedule)
        found = max(found, epsilon_of(lambda e, a=first, b=second: delta_at(e, a, b)))
    return found


def bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest of positive numbers from which on something holds, to 2 percent."""
    if holds(low):
        return low
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def one_level_table() -> None:
    """Sums of one level of tests against their transcript."""
    print("tests, noise r: epsilon of the transcript, of the sum; r at equal epsilon; n over n")
    target = gaussian_epsilon(MU, DELTA)
    for tests in (10, 100, 1_000, 10_000):
        for noise in (0.3, 0.1, 0.03):
            made = one_level(tests, noise)
            # One record moves the statistic by `move`; thresholds are in [1, 2], and the mean of
            # their 1 / T^2 is 1/2.
            move = MU * noise / math.sqrt(tests / 2)
            ours = worst(made, move)
            less = bisected(
                lambda r, t=tests, m=move: worst(one_level(t, r), m) <= target, noise / 300, noise
            )
            fewer = bisected(lambda x, s=made, m=move: worst(s, m / x) <= target, 0.01, 1.0)
            print(
                f"{tests:7d} {noise:5g}: {target:.3f} {ours:.3f}; {less / noise:.3f}; {fewer:.3f}",
                flush=True,
            )


def binomials(level: Level, alphas: tuple[float, float], schedule: Schedule) -> Any:
    """Laws of the sum of one level at two statistics; None where they are the same."""
    found = [
        gate_masses(
            alpha,
            *(-math.inf, math.inf, 1.0, schedule.gate_noise, schedule.gate_clip, False),
        )
        for alpha in alphas
    ]
    opens = [min(1.0, same / (same + silent)) for same, _, silent in found]  # none is opposite
    if opens[0] == opens[1]:
        return None
    means = [level.repetitions * level.activation * p for p in opens]
    reach = 12 * math.sqrt(max(means)) + 60
    low = max(0, math.floor(min(means) - reach))
    counts = np.arange(low, min(level.repetitions, math.ceil(max(means) + reach)) + 1)
    return tuple(stats.binom.pmf(counts, level.repetitions, level.activation * p) for p in opens)


def theorem_table(n_features: int) -> None:
    """The paper's own schedule, where nothing is selected; the sum of every level is revealed.

    That is more than the matrix has, so that its privacy is at least this.
    """
    inputs = PublicInputs(10**9, n_features, 1, 0.25, 1.0, DELTA, 0.1, 1.0)
    n = theorem_parameters(inputs).smallest_accurate_n
    parameters = theorem_parameters(replace(inputs, n_records=n))
    schedule = parameters.schedule
    if any(level.selection_scale is not None for level in schedule.levels):
        print(f"d = {n_features}: some level selects, left out")
        return
    noise, levels = schedule.gate_noise, len(schedule.levels)
    around = (-2.0, -1.0, 0.0, 1.0)
    places = [math.ldexp(1 + x * noise, ell) for ell in range(levels) for x in around]
    bound = parameters.entry_sensitivity * math.sqrt(parameters.query_budget) / noise
    target = gaussian_epsilon(bound / math.sqrt(2), DELTA)

    def epsilon(move: float) -> float:
        found = 0.0
        for place in places:
            other = place + move / schedule.base_threshold
            laws = [
                binomials(level, (math.ldexp(place, -ell), math.ldexp(other, -ell)), schedule)
                for ell, level in enumerate(schedule.levels)
            ]
            pairs = [pair for pair in laws if pair is not None]
            for both in (pairs, [(second, first) for first, second in pairs]):
                found = max(found, epsilon_of(composed(both, schedule.n_entries)))
        return found

    move = parameters.entry_sensitivity
    fewer = bisected(lambda x: epsilon(move / x) <= target, 1e-3, 1.0)
    print(
        f"theorem, d = {n_features}: n = {n:.3g}, r = {noise:.4g}, {schedule.total_quota:,} tests "
        f"on {levels} levels; epsilon at delta {DELTA:g}: by the bound on thresholds "
        f"{gaussian_epsilon(bound, DELTA):.4f}, of the transcript {target:.4f}, of sums by level "
        f"{epsilon(move):.5f}; n at equal epsilon {fewer:.4f}"
    )


def selection_table() -> None:
    """Three entries with one test each, of which one is kept: a silent gate hides its label."""
    print("selection noise b, gate noise r, move: epsilon of the transcript, of the matrix")
    nodes, weights = np.polynomial.legendre.leggauss(16)
    taus = np.stack(np.meshgrid(*[1.5 + 0.5 * nodes] * 3, indexing="ij"))
    mass = np.einsum("i,j,k->ijk", weights, weights, weights) / 8

    def outcomes(alpha: Vector, scale: float, noise: float) -> Vector:
        """Which entry was kept and opened its gate, or none; with Gumbel noise on scores."""
        omega = alpha[:, None, None, None] / taus
        share = special.softmax(omega / scale, axis=0)
        fired = (share * special.ndtr((omega - 1) / noise) * mass).sum(axis=(1, 2, 3))
        return np.append(fired, 1 - fired.sum())

    settings = ((0.1, 0.1, 0.03), (0.1, 0.3, 0.03), (0.3, 0.1, 0.03), (0.3, 0.3, 0.1))
    for scale, noise, move in settings:
        transcript = epsilon_of(lambda e, b=scale, r=noise, m=move: _transcript(e, m / b, m / r))
        found = 0.0
        for middle in itertools.combinations_with_replacement(np.arange(0.4, 2.3, 0.3), 3):
            first = outcomes(np.array(middle), scale, noise)
            for signs in itertools.product((-1, 1), repeat=3):
                second = outcomes(np.array(middle) + move * np.array(signs), scale, noise)
                found = max(found, epsilon_of(lambda e, p=first, q=second: delta_at(e, p, q)))
        print(f"{scale:5g} {noise:5g} {move:5g}: {transcript:.3f} {found:.3f}", flush=True)


def _transcript(epsilon: float, rate: float, mu: float) -> float:
    """Delta of one bounded-range step of range 2 rate and then a Gaussian; the worst step."""
    eta, found = 2 * rate, 0.0
    for shift in np.linspace(0, eta, 41)[1:-1]:
        # Losses shift and shift - eta, with E exp(-loss) = 1.
        up = math.expm1(eta - shift) / (math.exp(eta - shift) - math.exp(-shift))
        both = up * _gaussian(epsilon - shift, mu) + (1 - up) * _gaussian(epsilon - shift + eta, mu)
        found = max(found, both)
    return found


def _gaussian(epsilon: float, mu: float) -> float:
    below = special.ndtr(-mu / 2 - epsilon / mu)
    return float(special.ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * below)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("levels", "theorem", "selection"))
    asked = parser.parse_args().part
    if asked in (None, "levels"):
        one_level_table()
    if asked in (None, "theorem"):
        theorem_table(2)
    if asked in (None, "selection"):
        selection_table()


if __name__ == "__main__":
    main()
