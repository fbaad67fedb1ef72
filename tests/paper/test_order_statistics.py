"""The largest of very many points, by binomial splitting, and the binomial draws it rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import optimize, stats

from hushcov.exceptions import CapacityError
from hushcov.paper import samplers
from hushcov.paper.samplers import binomial, select_largest
from statistics_helpers import (
    FALSE_ALARM,
    binomial_p_value,
    normal_p_value,
)

DRAWS = 40_000

# (count, success mass, failure mass). The masses carry the small side to full accuracy.
# Masses need not add up to one, and may be below the resolution of 1 - p.
INVERSION = [
    *((1, 0.3, 0.7), (2, 0.5, 0.5), (7, 0.9, 0.1), (19, 0.5, 0.5), (50, 0.005, 0.995)),
    *((1_000, 0.0099, 0.9901), (10**6, 3e-6, 1.0), (10**8, 1e-22, 1e-14), (10**13, 5e-13, 1.0)),
    *((10**13, 1.0, 5e-13), (10**15, 3e-16, 1.0), (10**15, 1.0, 3e-16)),
]
# From the smallest mean that rejection takes on; the square of 2**33 is a multiple of 2**64.
REJECTION = [
    *((20, 0.5, 0.5), (21, 0.6, 0.5), (1_000, 0.0101, 0.9899), (300, 0.8, 0.2)),
    *((10**6, 0.37, 0.63), (10**8, 1e-22, 1e-15), (10**9, 1.0, 2e-8), (10**13, 1e-11, 1.0)),
    *((10**13, 0.45, 0.55), (10**13, 1.0, 1e-9), (2**34, 0.5, 0.5), (2**50, 0.5, 0.5)),
    *((3 * 2**40, 1.0, 2.0), (10**15, 0.37, 0.63)),
]


def draw(count, success, failure, seed, size=DRAWS):
    return binomial(
        np.random.default_rng(seed),
        np.full(size, count, dtype=np.int64),
        np.full(size, success),
        np.full(size, failure),
    )


def p_value(draws, count, success, failure):
    """Tested on the side of the smaller mass, where the law is not rounded away."""
    if success > failure:
        return binomial_p_value(count - draws, count, failure / (success + failure))
    return binomial_p_value(draws, count, success / (success + failure))


@pytest.mark.parametrize(("count", "success", "failure"), INVERSION + REJECTION)
def test_has_the_exact_law(count, success, failure):
    """False-alarm rate 1e-6; a probability wrong by a tenth is noticed, and no draw is too far."""
    draws = draw(count, success, failure, seed=1)
    assert draws.dtype == np.int64
    assert 0 <= draws.min() <= draws.max() <= count
    assert p_value(draws, count, success, failure) > FALSE_ALARM
    small, large = min(success, failure), max(success, failure)
    wrong = draw(count, 1.1 * small, large, seed=2)
    assert p_value(wrong, count, small, large) < FALSE_ALARM
    # The farthest draws against the exact tails, which bins do not see.
    far = count - draws if success > failure else draws
    law = stats.binom(count, small / (small + large))
    assert 2 * DRAWS * min(law.cdf(far.min()), law.sf(far.max() - 1)) > FALSE_ALARM
    if (count, success, failure) in REJECTION and count > 300:
        mean = count * success / (success + failure)
        spread = np.rint(mean + 1.1 * (draw(count, success, failure, seed=3) - mean))
        assert p_value(spread, count, success, failure) < FALSE_ALARM


def test_vanishing_masses_are_not_rounded_up():
    """Mean 1e-14 over a million draws: a single success has probability 1e-8."""
    assert not draw(10**8, 1e-22, 1.0, seed=5, size=10**6).any()
    assert (draw(10**8, 1.0, 1e-22, seed=5, size=10**6) == 10**8).all()


def test_certain_outcomes():
    counts = np.array([0, 5, 5, 5, 10**15], dtype=np.int64)
    success = np.array([0.5, 0.0, 1.0, 0.0, 3.0])
    failure = np.array([0.5, 1.0, 0.0, 0.0, 0.0])
    drawn = binomial(np.random.default_rng(7), counts, success, failure)
    np.testing.assert_array_equal(drawn, [0, 0, 5, 0, 10**15])


def test_entries_are_independent_and_in_place():
    """Mixed regimes in one long call, over several threads: means and correlations of neighbours.

    False-alarm rate 1e-6 each.
    """
    kinds = [(5, 0.4), (400, 0.3), (10**6, 1e-6), (10**12, 0.2)]
    counts = np.tile([n for n, _ in kinds], 30_000).astype(np.int64)
    p = np.tile([p for _, p in kinds], 30_000)
    drawn = binomial(np.random.default_rng(8), counts, p, 1 - p)
    scores = ((drawn - counts * p) / np.sqrt(counts * p * (1 - p))).reshape(-1, len(kinds))
    assert normal_p_value(scores.mean(axis=0) * np.sqrt(len(scores))) > FALSE_ALARM
    correlations = np.corrcoef(scores, rowvar=False)[np.triu_indices(len(kinds), 1)]
    assert normal_p_value(correlations * np.sqrt(len(scores))) > FALSE_ALARM


@dataclass(frozen=True)
class Exponentials:
    """Points of group g are exponential with rate rates[g]; a point's making is the point."""

    rates: np.ndarray

    @property
    def support(self):
        return 0.0, 80 / float(self.rates.min())

    def tail(self, groups, x):
        return np.exp(-self.rates[groups] * max(x, 0.0))

    def masses(self, groups, lo, split, hi):
        above, middle, below = (self.tail(groups, x) for x in (hi, split, lo))
        return middle - above, below - middle

    def draw(self, generator, groups, lo, hi):
        low, high = self.tail(groups, lo), self.tail(groups, hi)
        points = -np.log(high + generator.random(len(groups)) * (low - high)) / self.rates[groups]
        return points, points


@dataclass(frozen=True)
class Uniforms:
    """Points of group g are uniform on [starts[g], starts[g] + width]: some never compete."""

    starts: np.ndarray
    width: float = 1.0

    @property
    def support(self):
        return float(self.starts.min()), float(self.starts.max()) + self.width

    def tail(self, groups, x):
        return np.clip((self.starts[groups] + self.width - x) / self.width, 0.0, 1.0)

    def masses(self, groups, lo, split, hi):
        above, middle, below = (self.tail(groups, x) for x in (hi, split, lo))
        return middle - above, below - middle

    def draw(self, generator, groups, lo, hi):
        low = np.maximum(self.starts[groups], lo)
        high = np.minimum(self.starts[groups] + self.width, hi)
        points = low + generator.random(len(groups)) * (high - low)
        return points, points


def counts_of(selection, n_groups):
    total = np.zeros(n_groups, dtype=np.int64)
    for band in selection.bands:
        np.add.at(total, band.groups, band.counts)
    np.add.at(total, selection.single_groups, 1)
    return total


def asymptotic_law(family, counts, quota):
    """Means and deviations of the group counts when all counts are huge.

    With the edge x at its deterministic place the counts would be independent binomials; the
    random edge moves all of them by the same distance, in proportion to their densities.
    """
    groups = np.arange(len(counts))
    edge = optimize.brentq(lambda x: counts @ family.tail(groups, x) - quota, 0, 20, xtol=1e-15)
    tail = family.tail(groups, edge)
    variance = counts * tail * (1 - tail)
    share = counts * family.rates * tail
    share = share / share.sum()
    moved = share**2 * (variance.sum() - variance) + (1 - share) ** 2 * variance
    return counts * tail, np.sqrt(moved)


def test_huge_counts_fill_the_quota_exactly_and_have_the_right_means():
    """1e14 points a group, in no more than a few rounds. False-alarm rate 1e-6 per test."""
    family = Exponentials(np.array([1.0, 1.3, 2.0]))
    counts = np.array([10**14, 3 * 10**14, 2 * 10**14])
    quota = 123_456_789_012_345
    runs = 300
    drawn = np.empty((runs, 3), dtype=np.int64)
    for seed in range(runs):
        selection = select_largest(np.random.default_rng(seed), counts, quota, family)
        drawn[seed] = counts_of(selection, 3)
        assert drawn[seed].sum() == quota
        assert len(selection.bands) < 20
    mean, deviation = asymptotic_law(family, counts, quota)
    scores = (drawn - mean) / deviation
    assert normal_p_value(scores.mean(axis=0) * math.sqrt(runs)) > FALSE_ALARM
    # A sample variance of normals has relative deviation sqrt(2/runs).
    spread = (scores.var(axis=0, ddof=1) - 1) / math.sqrt(2 / (runs - 1))
    assert normal_p_value(spread) > FALSE_ALARM
    # Power: a mean wrong by one part in a million is far outside.
    assert normal_p_value((drawn.mean(axis=0) * (1 + 1e-6) - mean) / deviation) < FALSE_ALARM


@pytest.mark.parametrize("few", [1, samplers.FEW_POINTS])
def test_quota_at_its_ends(few, monkeypatch):
    monkeypatch.setattr(samplers, "FEW_POINTS", few)
    family, counts = Exponentials(np.array([1.0, 1.5, 2.0, 4.0])), np.array([30, 50, 20, 60])
    nothing = select_largest(np.random.default_rng(0), counts, 0, family)
    assert counts_of(nothing, 4).tolist() == [0, 0, 0, 0]
    everything = select_largest(np.random.default_rng(0), counts, int(counts.sum()), family)
    assert counts_of(everything, 4).tolist() == counts.tolist()


def test_points_that_doubles_cannot_separate_are_drawn_or_refused():
    """Two neighbouring doubles hold all points: no split exists between them."""
    family = Uniforms(np.array([1.0]), width=2.0**-52)
    counts = np.array([5_000])
    generator = np.random.default_rng(0)
    selection = select_largest(generator, counts, 2_000, family, most_single=5_000)
    assert counts_of(selection, 1)[0] == 2_000
    for most, told in (({"most_single": 4_999}, "4,999"), ({}, "256")):
        with pytest.raises(CapacityError, match=rf"{told} tests are"):
            select_largest(generator, counts, 2_000, family, **most)
