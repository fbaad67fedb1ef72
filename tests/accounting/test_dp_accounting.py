"""Agreement with Google's dp-accounting, in both directions, on 120 random compositions.

Every event is played by a mechanism that has it, and dp-accounting composes their privacy-loss
distributions rounded in the optimistic direction: no bound may claim less. Nothing is estimated.
"""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as library
from dp_accounting.rdp import RdpAccountant

from hushcov.kernel.accounting import Approximate, BoundedRange, Gaussian, Pure, all_bounds
from hushcov.kernel.accounting.composition import RenyiCurve
from hushcov.kernel.accounting.events import readings

DELTA = 1e-6
NeighborRel = library.NeighborRel


def random_events(seed):
    random = np.random.default_rng([7, seed])

    def sizes(most, low, high):
        return 10.0 ** random.uniform(low, high, random.integers(0, most + 1))

    events = [Gaussian(mu) for mu in sizes(3, -2, 0.3)]
    events += [Pure(epsilon) for epsilon in sizes(4, -2, 0)]
    events += [Approximate(epsilon, 1e-8) for epsilon in sizes(3, -2, 0)]
    events += [BoundedRange(eta, int(random.integers(1, 30))) for eta in sizes(2, -2, -0.5)]
    return events or [Pure(0.1)]


COMPOSITIONS = [random_events(seed) for seed in range(120)]
each_block = pytest.mark.parametrize(
    "block", [0, 1, *(pytest.param(block, marks=pytest.mark.slow) for block in range(2, 6))]
)


def spread(events):
    sizes = [1e-3]
    for event in events:
        match event:
            case Gaussian(mu):
                sizes.append(mu)
            case BoundedRange(eta, count):
                sizes.append(eta * math.sqrt(count))
            case _:
                sizes.append(event.epsilon)
    return math.hypot(*sizes)


def two_point(high, low, interval, mass_at_infinity, pessimistic):
    """Losses `high` and `low`, the pair being normalised, and a loss of infinity."""
    probability = (1 - math.exp(low)) / (1 - math.exp(low - high))
    law = {}
    for loss, p in ((high, probability), (low, 1 - probability)):
        cell = math.ceil(loss / interval) if pessimistic else math.floor(loss / interval)
        law[cell] = law.get(cell, 0.0) + (1 - mass_at_infinity) * p
    return library.PrivacyLossDistribution.create_from_rounded_probability(
        law, mass_at_infinity, interval, pessimistic
    )


def reference(events, interval, pessimistic):
    total = library.identity(interval, pessimistic)
    for event in events:
        count = 1
        match event:
            case Gaussian(mu):
                step = library.from_gaussian_mechanism(
                    1 / mu,
                    pessimistic_estimate=pessimistic,
                    use_connect_dots=pessimistic,
                    value_discretization_interval=interval,
                )
            case Pure(epsilon):
                step = two_point(epsilon, -epsilon, interval, 0.0, pessimistic)
            case Approximate(epsilon, delta):
                step = two_point(epsilon, -epsilon, interval, delta, pessimistic)
            case BoundedRange(eta, count):
                step = two_point(eta / 2, -eta / 2, interval, 0.0, pessimistic)
        for _ in range(count):
            # Truncation is a pessimistic device, so none of it where the truth is wanted.
            total = total.compose(step, 1e-15 if pessimistic else 0.0)
    return total


@each_block
def test_no_bound_claims_less_than_the_truth(block):
    for events in COMPOSITIONS[20 * block : 20 * block + 20]:
        truth = reference(events, spread(events) / 200, pessimistic=False)
        for bound in all_bounds(events, delta=DELTA):
            # 1e-12: the optimistic reference has Fourier errors too.
            assert truth.get_delta_for_epsilon(bound.epsilon) <= bound.delta + 1e-12, (
                bound,
                events,
            )
        for bound in all_bounds(events, epsilon=1.0):
            assert truth.get_delta_for_epsilon(1.0) <= bound.delta + 1e-12, (bound, events)


def test_renyi_agrees_with_the_rdp_accountant_both_ways():
    """Its orders are a grid (a fine one would take minutes), ours are optimised."""
    orders = 1 + np.exp(np.linspace(math.log(1e-1), math.log(1e5), 70))
    compared = 0
    for events in COMPOSITIONS:
        known = [event for event in events if isinstance(event, Gaussian | Pure)]
        if not known:
            continue
        accountant = RdpAccountant(orders, NeighborRel.REPLACE_ONE)
        for event in known:
            if isinstance(event, Gaussian):
                accountant.compose(dp_event.GaussianDpEvent(1 / event.mu))
            else:
                noise = 2 / (1 + math.exp(event.epsilon))
                accountant.compose(dp_event.RandomizedResponseDpEvent(noise, 2))
        theirs = accountant.get_epsilon(DELTA)
        ours = RenyiCurve(readings(known)[0]).epsilon_at(DELTA)
        assert theirs * 0.99 <= ours <= theirs * (1 + 1e-9)
        compared += 1
    assert compared > 90
