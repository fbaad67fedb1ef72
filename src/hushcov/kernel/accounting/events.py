"""Privacy events: the steps of a mechanism as frozen data, for the accountant to charge.

Every sensitivity is already that of one record, replaced or removed as neighbours are
(`hushcov.kernel.accounting.neighbours`). An event records the mechanism that ran, not
what it costs; the cost follows from all events together (`hushcov.kernel.accounting.composition`).
`Parts` are the events of one composition, sorted by the kind of bound they obey.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, cast, get_args

from hushcov._validation import check_integer, check_real
from hushcov.exceptions import ParameterError, PrivacyConditionError

# The range in which Qiao, Su and Zhang (2021), Theorem 2.2, prove their approximate bound.
QIAO_LARGEST_EPSILON = 0.2
QIAO_LARGEST_DELTA = 0.05
QIAO_FEWEST_CANDIDATES = 2
# Beyond this the arithmetic of the bounds overflows, and nobody wants the answer.
_LARGEST_LOSS = 1e100
_UNBOUNDED = "events: no finite epsilon with delta below 1 bounds them: add noise."


@dataclass(frozen=True)
class Gaussian:
    """Continuous Gaussian noise; `mu` is the l2 sensitivity divided by the standard deviation."""

    mu: float

    def __post_init__(self) -> None:
        _set_positive(self, "mu", cure="it is l2 sensitivity / standard deviation.")


@dataclass(frozen=True)
class DiscreteGaussian:
    """Discrete Gaussian noise on integers; `mu` is the l2 sensitivity divided by sigma.

    It satisfies mu^2/2 zCDP in every dimension, but not the exact Gaussian curve.
    """

    mu: float

    def __post_init__(self) -> None:
        _set_positive(self, "mu", cure="it is l2 sensitivity / sigma.")


@dataclass(frozen=True)
class BoundedRange:
    """`count` adaptive steps, each `eta`-bounded-range: Gumbel one-shot top-`count` selection.

    With l_inf sensitivity g and Gumbel scale beta, eta = 2 g / beta, and g / beta when one
    dataset's scores are all at least the other's.
    """

    eta: float
    count: int

    def __post_init__(self) -> None:
        # proof: step 1
        _set_positive(self, "eta", cure="it is 2 * l_inf sensitivity / Gumbel scale.")
        _set_count(self, "count", at_most=10**100, cure="it is the number of labels selected.")


@dataclass(frozen=True)
class OneShotLaplace:
    """Unordered top-`selected` of `candidates` scores with Laplace noise of the given scale.

    `sensitivity` is the l_inf sensitivity of the scores. With `target_delta` it may be read as
    (`certified_epsilon`, `target_delta`)-DP where the theorem allows it, beside the pure reading.
    """

    sensitivity: float
    scale: float
    selected: int
    candidates: int
    target_delta: float | None = None

    def __post_init__(self) -> None:
        _set_positive(self, "sensitivity", cure="it is the l_inf sensitivity of the scores.")
        _set_positive(self, "scale", cure="it is the scale of the Laplace noise.")
        _set_count(self, "candidates", cure="it is the number of scores.")
        _set_count(self, "selected", at_most=self.candidates, cure="select at most all candidates.")
        if self.target_delta is not None:
            cure = "use a smaller target_delta, or None for the pure bound."
            _set_positive(self, "target_delta", at_most=QIAO_LARGEST_DELTA, cure=cure)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of the (epsilon, 0) reading; infinite if it overflows."""
        # proof: step 2
        return 2 * self.selected * (self.sensitivity / self.scale)

    @property
    def certified_epsilon(self) -> float | None:
        """The epsilon certified at `target_delta`, or None where the theorem does not reach."""
        if self.target_delta is None or self.candidates < QIAO_FEWEST_CANDIDATES:
            return None
        # proof: step 3
        spread = math.sqrt(self.selected * math.log(self.candidates / self.target_delta))
        epsilon = 8 * (self.sensitivity / self.scale) * spread
        return epsilon if epsilon <= QIAO_LARGEST_EPSILON else None


@dataclass(frozen=True)
class Pure:
    """Any (epsilon, 0)-DP mechanism."""

    epsilon: float

    def __post_init__(self) -> None:
        _set_positive(self, "epsilon", cure="leave the event out if nothing was spent.")


@dataclass(frozen=True)
class Approximate:
    """Any (epsilon, delta)-DP mechanism."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _set_positive(self, "epsilon", cure="leave the event out if nothing was spent.")
        _set_probability(self, "delta", cure="use Pure for a mechanism with delta 0.")


@dataclass(frozen=True)
class TotalVariation:
    """The mechanism that ran is within `distance` in total variation of the one accounted for.

    This holds for every dataset and every earlier output. It costs an additive delta of
    (1 + e^epsilon) * distance at the total epsilon.
    """

    distance: float

    def __post_init__(self) -> None:
        _set_probability(self, "distance", cure="leave the event out if there is no slack.")


@dataclass(frozen=True)
class Clocked:
    """An adaptive run of Gaussians and bounded-range steps on one clock (`accounting.budget`).

    The losses are Brownian motion until time `mu`^2, but for a probability of `late`.
    """

    mu: float
    late: float

    def __post_init__(self) -> None:
        _set_positive(self, "mu", cure="it is the root of the time on the clock.")
        _set_probability(self, "late", cure="it is a small share of delta.")


Event = (
    Gaussian
    | DiscreteGaussian
    | BoundedRange
    | OneShotLaplace
    | Pure
    | Approximate
    | TotalVariation
    | Clocked
)


def _set_positive(event: object, field: str, *, at_most: float = math.inf, cure: str) -> None:
    name = f"{type(event).__name__}.{field}"
    value = check_real(name, getattr(event, field), above=0, at_most=at_most, cure=cure)
    # Frozen: this is the one moment at which NumPy scalars become plain, JSON-ready numbers.
    object.__setattr__(event, field, value)


def _set_probability(event: object, field: str, *, cure: str) -> None:
    _set_positive(event, field, at_most=1, cure=cure)
    if getattr(event, field) == 1:
        raise ParameterError(f"{type(event).__name__}.{field} must be below 1, got 1.0: {cure}")


def _set_count(event: object, field: str, *, at_most: int | None = None, cure: str) -> None:
    name = f"{type(event).__name__}.{field}"
    value = check_integer(name, getattr(event, field), at_least=1, at_most=at_most, cure=cure)
    object.__setattr__(event, field, value)


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return an event as plain, JSON-ready data. Floats round-trip exactly."""
    return {"type": type(event).__name__, **asdict(event)}


def event_from_dict(data: object) -> Event:
    """Return the event that `event_to_dict` turned into plain data, checked anew."""
    kinds = {kind.__name__: kind for kind in get_args(Event)}
    named = data.get("type") if isinstance(data, dict) else None
    if not isinstance(named, str) or named not in kinds:
        raise ParameterError(f"type of an event must be one of {', '.join(kinds)}: choose one.")
    assert isinstance(data, dict)
    values = {name: value for name, value in data.items() if name != "type"}
    event: Event = kinds[named](**exact_fields(named, values, kinds[named]))
    return event


def exact_fields(what: str, data: object, kind: type[Any]) -> dict[str, Any]:
    """Return plain data that has all fields of a dataclass and no other, or raise."""
    expected = [field.name for field in fields(kind)]
    if not isinstance(data, dict) or set(data) != set(expected):
        raise ParameterError(
            f"{what} must have the fields {', '.join(expected)} and no other: pass what to_dict "
            "returned."
        )
    return data


@dataclass(frozen=True)
class Parts:
    """A composition after everything that adds up exactly has been added up."""

    gaussian: float = 0.0  # the joint mu of all such events; 0 if there are none
    discrete_gaussian: float = 0.0
    bounded_range: tuple[tuple[float, int], ...] = ()  # eta, count
    pure: tuple[tuple[float, int], ...] = ()  # epsilon, count
    delta: float = 0.0  # the sum of the fixed deltas
    total_variation: float = 0.0
    # Whether `gaussian` has adaptive runs in it, of which nothing else is known.
    clocked: bool = False

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
    choices = [tuple(_read(event, most_delta) for event in events) for most_delta in (0.0, 1.0)]
    found = [parts for parts in map(_collect, dict.fromkeys(choices)) if parts is not None]
    if not found:
        raise PrivacyConditionError(_UNBOUNDED)
    return tuple(found)


def fixed_reading(events: Sequence[Event], most_delta: float) -> Parts:
    """Return the events sorted, each read by itself, as later ones may depend on results.

    A one-shot Laplace selection is read with its delta where that is at most `most_delta`.
    """
    parts = _collect(tuple(_read(event, most_delta) for event in events))
    if parts is None:
        raise PrivacyConditionError(_UNBOUNDED)
    return parts


def _read(event: Event, most_delta: float) -> Event | None:
    """Return a one-shot Laplace selection as (epsilon, delta), with a delta of at most this."""
    if not isinstance(event, OneShotLaplace):
        return event
    epsilon, delta = event.certified_epsilon, event.target_delta
    allowed = delta is not None and delta <= most_delta
    if allowed and epsilon is not None and 0 < epsilon < event.pure_epsilon:
        return Approximate(epsilon, cast("float", delta))
    return Pure(event.pure_epsilon) if math.isfinite(event.pure_epsilon) else None


def _collect(events: tuple[Event | None, ...]) -> Parts | None:
    """Add up the events; None where no finite epsilon with delta below 1 bounds them."""
    gaussian, discrete = [], []
    pure: Counter[float] = Counter()
    bounded_range: Counter[float] = Counter()
    deltas, distances = [], []
    clocked = False
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
            case Clocked(mu, late):
                # proof: step 26
                gaussian.append(mu)
                deltas.append(late)
                clocked = True
            case _:
                return None
    parts = Parts(
        math.hypot(*gaussian),
        math.hypot(*discrete),
        tuple(sorted(bounded_range.items())),
        tuple(sorted(pure.items())),
        math.fsum(deltas),
        math.fsum(distances),
        clocked,
    )
    loss = max(parts.mu * parts.mu, parts.pure_epsilon)
    return parts if loss < _LARGEST_LOSS and parts.fixed_delta(0.0) < 1 else None
