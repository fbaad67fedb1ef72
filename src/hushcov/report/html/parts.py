"""The privacy events of a release, in words, and the share of the budget that each part took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hushcov.accounting import (
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    Event,
    Gaussian,
    Pure,
    TotalVariation,
    compose,
)
from hushcov.exceptions import HushcovError
from hushcov.mechanisms.complete import complete_parameters
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.report.html.markup import counted
from hushcov.report.html.subject import Subject

SCALES, COMPLETE = "scales of the features", "number of complete records"
#: What shares are shares of.
ZCDP, EPSILON = "zcdp", "epsilon"


@dataclass(frozen=True)
class Part:
    """Something that was released, and the events it is charged with."""

    name: str
    events: tuple[Event, ...]

    def cost(self, currency: str) -> float:
        """What it spent; nothing for what costs delta alone."""
        return sum(_COSTS[currency](event) or 0.0 for event in self.events)

    def alone(self, delta: float) -> float | None:
        """The epsilon that it would have at this delta if it were all there is."""
        charged = [event for event in self.events if not isinstance(event, TotalVariation)]
        try:
            return compose(charged, delta=delta, pld=False).epsilon
        except HushcovError:
            return None


def privacy_parts(subject: Subject) -> tuple[Part, ...]:
    """Everything the guarantee charges, in the order in which it happened."""
    events = subject.release.guarantee.events
    own = list(_own_names(subject))
    if len(own) > len(events) or not _plausible(own, events):
        return tuple(Part(_kind(event), (event,)) for event in events)
    before = len(events) - len(own)
    names = [*_names_before(subject, events[:before]), *own]
    return tuple(Part(name, (event,)) for name, event in zip(names, events, strict=True))


def spent_before(subject: Subject) -> tuple[Part, ...]:
    """What was released before the mechanism itself: scales, and how many records are complete."""
    return tuple(part for part in privacy_parts(subject) if part.name in (SCALES, COMPLETE))


def currency(parts: tuple[Part, ...]) -> str | None:
    """In which unit the parts add up exactly; None where there is none."""
    events = [event for part in parts for event in part.events]
    for name, cost in _COSTS.items():
        if events and all(cost(event) is not None for event in events):
            return name
    return None


def _rho(event: Event) -> float | None:
    match event:
        case Gaussian(mu) | DiscreteGaussian(mu):
            return mu * mu / 2
        case BoundedRange(eta, count):
            return count * eta * eta / 8
        case TotalVariation():
            return 0.0
    return None


def _epsilon(event: Event) -> float | None:
    match event:
        case Pure(epsilon) | Approximate(epsilon, _):
            return epsilon
        case TotalVariation():
            return 0.0
    return None


_COSTS: dict[str, Callable[[Event], float | None]] = {ZCDP: _rho, EPSILON: _epsilon}


def _own_names(subject: Subject) -> Iterator[str]:
    """What the mechanism itself released, one name for each of its events."""
    names = _MECHANISMS.get(subject.release.mechanism)
    if names is not None:
        yield from names(subject)


def _screened(subject: Subject) -> Iterator[str]:
    parameters = subject.release.parameters
    yield from _levels(subject)
    if parameters.get("norm_mu") is not None:
        yield "bound on the norms of records"
    selected = subject.release.selected
    pairs = 0 if selected is None else selected.shape[1]
    yield f"values of {counted(pairs, 'pair')} and {counted(subject.n_features, 'variance')}"


def _levels(subject: Subject) -> Iterator[str]:
    """Names of the levels that select, where a level says how many it takes."""
    levels = subject.release.parameters.get("levels")
    listed = levels if isinstance(levels, list | tuple) else ()
    sizes = [level.get("size") for level in listed if isinstance(level, dict)]
    for place, size in enumerate(sizes, 1):
        level = f", level {place} of {len(sizes)}" if len(sizes) > 1 else ""
        yield f"which pairs matter{level}" + (f": {size:,} of them" if type(size) is int else "")


def _gaussian(subject: Subject) -> Iterator[str]:
    d = subject.n_features
    yield f"values of {counted(d * (d - 1) // 2, 'pair')} and {counted(d, 'variance')}"


def _row_top_k(subject: Subject) -> Iterator[str]:
    events = subject.release.guarantee.events
    if any(isinstance(event, BoundedRange) for event in events):
        yield "partners of every feature"
    if subject.certified:
        yield "values of the selected pairs and the variances"


def _separate(subject: Subject) -> Iterator[str]:
    if subject.release.parameters.get("histogram_sigma") is not None:
        yield "counts of the norms of records"
    yield "the matrix, with its eigenvalues where they are released apart"


def _coinpress(subject: Subject) -> Iterator[str]:
    steps = subject.release.parameters.get("mus")
    number = len(steps) if isinstance(steps, list | tuple) else 1
    for step in range(1, number + 1):
        yield f"the matrix, step {step} of {number}"


def _eigen_sampling(_: Subject) -> Iterator[str]:
    yield "eigenvalues and directions"


def _multiscale(subject: Subject) -> Iterator[str]:
    events = subject.release.guarantee.events
    kind = Approximate if subject.theorem else BoundedRange
    number = sum(isinstance(event, kind) for event in events) - subject.theorem
    for level in range(1, number + 1):
        yield f"which tests matter, level {level} of {number}"
    yield "answers of the selected tests"
    if any(isinstance(event, TotalVariation) for event in events):
        yield "cutting the noise of answers"


_MECHANISMS: dict[str, Callable[[Subject], Iterator[str]]] = {
    "screened": _screened,
    "gaussian": _gaussian,
    "row_top_k": _row_top_k,
    "separate": _separate,
    "coinpress": _coinpress,
    "eigen_sampling": _eigen_sampling,
    "multiscale": _multiscale,
}


def _plausible(own: list[str], events: tuple[Event, ...]) -> bool:
    """Whether what is left for earlier parts looks like them."""
    before = events[: len(events) - len(own)]
    return len(before) <= 2 and all(isinstance(event, Gaussian) for event in before)


def _names_before(subject: Subject, events: tuple[Event, ...]) -> list[str]:
    """Scales first, then the count of complete records; a single one is told by its noise."""
    if len(events) == 1 and events[0] == _count_event(subject):
        return [COMPLETE]
    return [SCALES, COMPLETE][: len(events)]


def _count_event(subject: Subject) -> Event | None:
    """What counting complete records would be charged with."""
    guarantee = subject.release.guarantee
    try:
        inputs = ReleaseInputs(subject.n_records or 1, 1, 1, guarantee.epsilon, guarantee.delta)
        return complete_parameters(inputs).event
    except HushcovError:
        return None


def _kind(event: Event) -> str:
    match event:
        case Gaussian() | DiscreteGaussian():
            return "values with normal noise"
        case BoundedRange(_, count):
            return f"a selection of {count:,}"
        case TotalVariation():
            return "rounding and cutting"
    return "a private part"
