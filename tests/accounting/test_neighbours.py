"""What events cost where neighbours differ in several records, against direct calculation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special

from hushcov.calibration import full_budget
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import (
    Approximate,
    BoundedRange,
    Clocked,
    DiscreteGaussian,
    Gaussian,
    Neighbours,
    OneShotLaplace,
    Pure,
    TotalVariation,
    for_group,
    gaussian_delta,
)


@pytest.mark.parametrize("size", [2, 5, 64])
def test_a_gaussian_is_shifted_so_many_times(size):
    """The curve is that of the shift, integrated directly."""
    mu, epsilon = 0.13, 1.2
    group = for_group(Gaussian(mu), size)
    points = np.linspace(-12, 12 + size * mu, 400_001)

    def density(mean):
        return np.exp(-((points - mean) ** 2) / 2) / math.sqrt(2 * math.pi)

    beyond = np.maximum(density(size * mu) - math.exp(epsilon) * density(0.0), 0)
    assert gaussian_delta(group.mu, epsilon) == pytest.approx(
        float(np.trapezoid(beyond, points)), rel=1e-6, abs=0
    )
    assert size * mu <= group.mu <= size * mu * (1 + 1e-14)
    assert for_group(DiscreteGaussian(mu), size).mu == group.mu


def exponential_loss(first, second, rate):
    """Log ratios of all outcomes of an exponential mechanism."""
    laws = [rate * scores - special.logsumexp(rate * scores) for scores in (first, second)]
    return laws[0] - laws[1]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("relation_moves", [1, 2])
def test_bounded_range_of_a_group(size, relation_moves):
    """Records that raise one score and lower another, in all ways for so many of them."""
    rate, base = 0.37, np.array([5.0, 5.0, 3.0])
    steps = np.array(list(itertools.product((-relation_moves, 0, relation_moves), repeat=3)))
    one = BoundedRange(2 * relation_moves * rate, 1)
    group = for_group(one, size)
    widest = 0.0
    for chosen in itertools.combinations_with_replacement(steps, size):
        losses = exponential_loss(base, base + np.sum(chosen, axis=0), rate)
        widest = max(widest, float(np.ptp(losses)))
    assert widest <= group.eta
    assert widest == pytest.approx(group.eta, rel=1e-12)
    assert group.count == 1


@pytest.mark.parametrize("size", [3, 10])
def test_pure_and_laplace_events_of_a_group(size):
    """Discrete Laplace noise on a count that moves by `size`, and scores that do."""
    scale = 7.0
    k = np.arange(-400, 401)
    loss = np.abs(k - size) / scale - np.abs(k) / scale
    assert np.max(np.abs(loss)) == pytest.approx(for_group(Pure(1 / scale), size).epsilon)
    one = OneShotLaplace(2.0, 90.0, 3, 40, 1e-3)
    group = for_group(one, size)
    assert group.pure_epsilon == pytest.approx(2 * 3 * size * 2.0 / 90.0)
    assert (group.scale, group.selected, group.candidates) == (90.0, 3, 40)


@pytest.mark.parametrize("size", [2, 9])
def test_a_clock_of_a_group_is_the_same_clock(size):
    """Steps of one record on its clock, and steps of a group on the clock that it is charged."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        own = full_budget(1.0, 1e-6, Neighbours("replace", size, "patient"), selects=True)
        group = full_budget(1.0, 1e-6, selects=True)
        own.expect(64, 0.3)
        group.expect(64, 0.3)
        assert for_group(Clocked(own.mu, own.late), size).mu == pytest.approx(group.mu)
        while own.left > 1e-3:
            if rng.random() < 0.5:
                mu = float(own.mu_left * rng.uniform(0.05, 0.9))
                own.gaussian(mu)
                group.gaussian(size * mu)
            else:
                eta, count = float(rng.uniform(0.001, 0.02)), int(rng.integers(1, 50))
                try:
                    own.select(eta, count)
                except PrivacyConditionError:
                    with pytest.raises(PrivacyConditionError):
                        group.select(size * eta, count)
                    break
                group.select(size * eta, count)
            assert group.left == pytest.approx(size**2 * own.left, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("event", [Approximate(0.5, 1e-6), TotalVariation(1e-9)])
def test_events_without_a_known_law_are_refused(event):
    with pytest.raises(PrivacyConditionError, match="must have a law that is known for several"):
        for_group(event, 2)
    with pytest.raises(PrivacyConditionError, match=type(event).__name__):
        Neighbours("replace", 2, "patient").charged((Gaussian(0.1), event))


def test_a_mechanism_that_forgets_its_rows_is_refused():
    """Noise that is planned for one record has no room in the budget of a unit of two."""
    plain = ReleaseInputs(1000, 5, 2, 1.0, 1e-6)
    unit = ReleaseInputs(1000, 5, 2, 1.0, 1e-6, neighbours=Neighbours("replace", 2, "patient"))
    plain.budget().gaussian(plain.largest_mu(), "all")
    with pytest.raises(PrivacyConditionError):
        unit.budget().gaussian(plain.largest_mu(), "all")
    assert unit.largest_mu() == pytest.approx(plain.largest_mu() / 2)
    budget = unit.budget()
    budget.gaussian(unit.largest_mu(), "all")
    guarantee = budget.guarantee
    assert guarantee.events[0].mu == pytest.approx(plain.largest_mu())
    assert (guarantee.unit, guarantee.rows_per_unit) == ("patient", 2)


@pytest.mark.parametrize("unit", ["", "a" * 61, "two\nlines", 3])
def test_units_are_words(unit):
    with pytest.raises(ParameterError, match="unit must be a word"):
        Neighbours("replace", 1, unit)


def test_other_relations_are_unknown():
    with pytest.raises(ParameterError, match="neighbours must be one of"):
        Neighbours("swap")
    with pytest.raises(ParameterError, match="max_rows_per_unit"):
        Neighbours("replace", 0)
