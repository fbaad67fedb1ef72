"""The events of one composition, sorted by the kind of bound they obey."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from hushcov.accounting.events import (
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    Event,
    Gaussian,
    OneShotLaplace,
    Pure,
    TotalVariation,
)
from hushcov.exceptions import ParameterError, PrivacyConditionError

# Beyond this the arithmetic of the bounds overflows, and nobody wants the answer.
_LARGEST_LOSS = 1e100


@dataclass(frozen=True)
class Parts:
    """A composition after everything that adds up exactly has been added up.

    `gaussian` and `discrete_gaussian` are the joint mu of all such events (0: there are none),
    `bounded_range` holds (eta, count) and `pure` holds (epsilon, count), `delta` is the sum of
    the fixed deltas and `total_variation` that of the distances.
    """

    gaussian: float = 0.0
    discrete_gaussian: float = 0.0
    bounded_range: tuple[tuple[float, int], ...] = ()
    pure: tuple[tuple[float, int], ...] = ()
    delta: float = 0.0
    total_variation: float = 0.0

    @property
    def pure_epsilon(self) -> float:
        """The sum of all pure epsilons, an eta-bounded-range step being eta-DP."""
        # proof: step 7
        return math.fsum(cost * count for cost, count in self.pure + self.bounded_range)

    @property
    def mu(self) -> float:
        """The joint mu of both kinds of Gaussian, for bounds that treat them alike."""
        return math.hypot(self.gaussian, self.discrete_gaussian)

    def fixed_delta(self, epsilon: float) -> float:
        """Return the delta that no choice of method can avoid, at this total epsilon."""
        # proof: step 6
        if self.total_variation == 0:
            return self.delta
        blow_up = 1 + math.exp(epsilon) if epsilon < 700 else math.inf
        return math.fsum((self.delta, blow_up * self.total_variation))


def readings(events: Sequence[Event]) -> tuple[Parts, ...]:
    """Return the valid ways to read the events, or raise `PrivacyConditionError`.

    They differ only in how one-shot Laplace selections are read: all by their pure bound, or
    each by the bound with the smaller epsilon.
    """
    if not isinstance(events, Sequence) or not events:
        raise ParameterError("events must be a sequence of at least one event: pass a tuple.")
    for event in events:
        if not isinstance(event, get_args(Event)):
            kinds = ", ".join(kind.__name__ for kind in get_args(Event))
            raise PrivacyConditionError(
                f"events: the accountant cannot bound a {type(event).__name__}: "
                f"describe it by {kinds}."
            )
    choices = (
        tuple(_pure_reading(event) for event in events),
        tuple(_smallest_reading(event) for event in events),
    )
    collected = map(_collect, dict.fromkeys(choices))
    found = tuple(parts for parts in collected if parts is not None and _is_finite(parts))
    if not found:
        raise PrivacyConditionError(
            "events: no finite epsilon with delta below 1 bounds them: add noise."
        )
    return found


def fixed_reading(events: Sequence[Event], most_delta: float) -> Parts:
    """Return the events sorted, each read by itself; `readings` compares readings of all.

    Where costs are chosen one after the other, how one is read must not depend on later ones. A
    one-shot Laplace selection is read with its delta where that is at most `most_delta`.
    """
    parts = _collect(tuple(_own_reading(event, most_delta) for event in events))
    if parts is None or not _is_finite(parts):
        raise PrivacyConditionError(
            "events: no finite epsilon with delta below 1 bounds them: add noise."
        )
    return parts


def _own_reading(event: Event, most_delta: float) -> Event | None:
    read = _smallest_reading(event)
    too_much = isinstance(read, Approximate) and read.delta > most_delta
    return _pure_reading(event) if too_much else read


def _pure_reading(event: Event) -> Event | None:
    if not isinstance(event, OneShotLaplace):
        return event
    return Pure(event.pure_epsilon) if math.isfinite(event.pure_epsilon) else None


def _smallest_reading(event: Event) -> Event | None:
    if isinstance(event, OneShotLaplace):
        epsilon, delta = event.certified_epsilon, event.target_delta
        if epsilon is not None and delta is not None and 0 < epsilon < event.pure_epsilon:
            return Approximate(epsilon, delta)
    return _pure_reading(event)


def _collect(events: tuple[Event | None, ...]) -> Parts | None:
    gaussian, discrete = [], []
    pure: Counter[float] = Counter()
    bounded_range: Counter[float] = Counter()
    deltas, distances = [], []
    for event in events:
        match event:
            case Gaussian(mu):
                gaussian.append(mu)
            case DiscreteGaussian(mu):
                discrete.append(mu)
            case BoundedRange(eta, count):
                bounded_range[eta] += count
            case Pure(epsilon):
                pure[epsilon] += 1
            case Approximate(epsilon, delta):
                # proof: step 5
                pure[epsilon] += 1
                deltas.append(delta)
            case TotalVariation(distance):
                distances.append(distance)
            case _:
                return None
    return Parts(
        math.hypot(*gaussian),
        math.hypot(*discrete),
        tuple(sorted(bounded_range.items())),
        tuple(sorted(pure.items())),
        math.fsum(deltas),
        math.fsum(distances),
    )


def _is_finite(parts: Parts) -> bool:
    loss = max(parts.mu * parts.mu, parts.pure_epsilon)
    return loss < _LARGEST_LOSS and parts.fixed_delta(0.0) < 1
