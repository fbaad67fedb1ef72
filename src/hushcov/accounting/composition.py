"""The best valid (epsilon, delta) bound on a composition of privacy events."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hushcov._validation import check_real
from hushcov.accounting.basic import BasicCurve
from hushcov.accounting.embedding import EmbeddedCurve, embedding_applies
from hushcov.accounting.events import Event
from hushcov.accounting.parts import Parts, readings
from hushcov.accounting.pld import LossDistributionCurve, pld_applies, pld_installed
from hushcov.accounting.rdp import RenyiCurve
from hushcov.exceptions import ParameterError, PrivacyConditionError

_ROUNDS = 100


@dataclass(frozen=True)
class Bound:
    """A proved (epsilon, delta) and the name of the method that proves it.

    The method is "basic", "gaussian" (the exact curve), "zcdp", "rdp", "embedding" or "pld".
    """

    epsilon: float
    delta: float
    method: str


class _Curve(Protocol):
    """One method's bound on everything but the fixed deltas and the total-variation slack."""

    method: str

    def epsilon_at(self, delta: float) -> float: ...

    def delta_at(self, epsilon: float) -> float: ...


def compose(
    events: Sequence[Event],
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    pld: bool = True,
) -> Bound:
    """Return the best valid bound on the adaptive composition of the events.

    Parameters
    ----------
    events
        What was, or will be, run on the same records.
    delta, epsilon
        Give one of them and the other is made as small as can be proved. Give neither to add up
        epsilons and deltas (basic composition), which needs events that have fixed ones.
    pld
        Also try privacy-loss distributions where dp-accounting is installed: tighter for mixed
        events, slower.

    Raises
    ------
    PrivacyConditionError
        If an event cannot be bounded, or no bound reaches the asked delta or epsilon.
    """
    return all_bounds(events, delta=delta, epsilon=epsilon, pld=pld)[0]


def all_bounds(
    events: Sequence[Event],
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    pld: bool = True,
) -> tuple[Bound, ...]:
    """Return the best bound of every applicable method, best first; see `compose`."""
    choices = readings(events)
    delta, epsilon = _check_target(delta, epsilon)
    best: dict[str, Bound] = {}
    for parts in choices:
        for curve in _curves(parts, pld=pld and (delta is not None or epsilon is not None)):
            bound = _evaluate(curve, parts, delta, epsilon)
            if bound is not None and bound.delta < 1:
                known = best.setdefault(bound.method, bound)
                best[bound.method] = min(known, bound, key=_size)
    if not best:
        raise PrivacyConditionError(_why_nothing(choices, delta, epsilon))
    return tuple(sorted(best.values(), key=_size))


def _check_target(delta: float | None, epsilon: float | None) -> tuple[float | None, float | None]:
    if delta is not None and epsilon is not None:
        raise ParameterError("delta and epsilon cannot both be given: the other is the answer.")
    if delta is not None and (isinstance(delta, bool) or delta != 0):
        delta = check_real("delta", delta, above=0, at_most=1, cure="0 is allowed too.")
    if epsilon is not None and (isinstance(epsilon, bool) or epsilon != 0):
        epsilon = check_real("epsilon", epsilon, above=0, cure="0 is allowed too.")
    return delta, epsilon


def _curves(parts: Parts, *, pld: bool) -> Iterator[_Curve]:
    # proof: step 4
    if not parts.discrete_gaussian:
        yield BasicCurve(parts)
    if parts.mu or parts.bounded_range or parts.pure:
        yield RenyiCurve(parts)
    if embedding_applies(parts):
        yield EmbeddedCurve(parts)
    if pld and pld_applies(parts) and pld_installed():
        yield LossDistributionCurve(parts)


def _evaluate(
    curve: _Curve, parts: Parts, delta: float | None, epsilon: float | None
) -> Bound | None:
    if epsilon is not None:
        total = math.fsum((curve.delta_at(epsilon), parts.fixed_delta(epsilon)))
        return Bound(epsilon, total, curve.method)
    if delta is not None:
        return _at_delta(curve, parts, delta)
    spent = curve.epsilon_at(0.0)
    return Bound(spent, parts.fixed_delta(spent), curve.method) if math.isfinite(spent) else None


def _at_delta(curve: _Curve, parts: Parts, delta: float) -> Bound | None:
    """Find the smallest epsilon; the slack taken from delta grows with epsilon, so iterate.

    A trial epsilon sets the slack. When the epsilon that then follows is no larger than the
    trial, its own slack is no larger either, so it is a valid answer whatever came before.
    """
    # proof: step 17
    trial = 0.0
    for _ in range(_ROUNDS):
        rest = delta - parts.fixed_delta(trial)
        if rest < 0:
            return None
        epsilon = curve.epsilon_at(rest)
        if not math.isfinite(epsilon):
            return None
        if epsilon <= trial or parts.total_variation == 0:
            # A pure bound spends the fixed deltas only: report these and not what was allowed.
            pure = curve.delta_at(epsilon) == 0
            return Bound(epsilon, parts.fixed_delta(epsilon) if pure else delta, curve.method)
        trial = epsilon * (1 + 1e-9)
    return None


def _size(bound: Bound) -> tuple[float, float]:
    return bound.epsilon, bound.delta


def _why_nothing(choices: tuple[Parts, ...], delta: float | None, epsilon: float | None) -> str:
    if delta is None and epsilon is None:
        return (
            "events have no fixed epsilon and delta to add up: "
            "give delta (or epsilon) to have the other computed."
        )
    fixed = min(parts.fixed_delta(epsilon or 0.0) for parts in choices)
    asked = f"delta = {delta!r}" if epsilon is None else f"epsilon = {epsilon!r}"
    return (
        f"no bound reaches {asked}; approximate events and total-variation slack alone cost "
        f"delta {fixed:.6g}: ask for more, or add noise."
    )
