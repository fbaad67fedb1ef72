"""The privacy guarantee of a release. `hushcov.promise` puts it into words and odds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from hushcov._validation import check_choice, check_integer, check_real, shown
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.kernel.accounting.events import (
    Clocked,
    Event,
    Gaussian,
    Pure,
    event_from_dict,
    event_to_dict,
    exact_fields,
)
from hushcov.kernel.accounting.neighbours import ADD_REMOVE, RELATIONS, REPLACE, check_unit
from hushcov.promise import RECORD, KnownNoise, Odds, guarantee_words, odds_of


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The privacy promise of a release, and the grounds for it.

    Parameters
    ----------
    epsilon, delta
        The promised (epsilon, delta)-differential privacy of everything released.
    transcript_epsilon, transcript_delta
        What the mechanism's events actually spend, by the bound named in `method`.
    numerical_delta
        What finite precision spends on top; it is part of `delta`.
    events
        The privacy events charged.
    method
        The name of the composition bound, as in `Bound.method`.
    preconditions
        What was checked before noise was drawn, in words.
    adjacency, unit
        The neighbour relation: what a unit is, and whether one is replaced, or added or removed.
    rows_per_unit
        How many records of one unit were summed, at most; all its records are protected.
    private
        False for seeded or simulated releases: who knows the seed can subtract the noise.
    """

    epsilon: float
    delta: float
    transcript_epsilon: float
    transcript_delta: float
    numerical_delta: float
    events: tuple[Event, ...]
    method: str
    preconditions: tuple[str, ...]
    adjacency: str = RELATIONS[REPLACE]
    unit: str = RECORD
    rows_per_unit: int = 1
    private: bool = True

    def __post_init__(self) -> None:
        epsilon = check_real("epsilon", self.epsilon, above=0, cure="promise a positive epsilon.")
        object.__setattr__(self, "epsilon", epsilon)
        for name in ("transcript_epsilon", "delta", "transcript_delta", "numerical_delta"):
            value, cure = getattr(self, name), "0 is allowed too."
            at_most = math.inf if name == "transcript_epsilon" else 1.0
            number = check_real(name, value, above=0, at_most=at_most, or_zero=True, cure=cure)
            object.__setattr__(self, name, number)
        check_choice("adjacency", self.adjacency, tuple(RELATIONS.values()))
        check_unit(self.unit)
        check_integer("rows_per_unit", self.rows_per_unit, at_least=1, cure="1 is usual.")
        if not isinstance(self.private, bool):
            raise ParameterError(
                f"private must be True or False, got {shown(self.private)}: choose one."
            )
        if not isinstance(self.method, str) or not self.method:
            raise ParameterError(
                f"method must name a bound, got {shown(self.method)}: pass Bound.method."
            )
        for name, types in (("events", get_args(Event)), ("preconditions", (str,))):
            value = getattr(self, name)
            if not isinstance(value, tuple | list) or not all(isinstance(v, types) for v in value):
                allowed = ", ".join(kind.__name__ for kind in types)
                raise ParameterError(f"{name} must be a tuple of {allowed}: pass such a tuple.")
            object.__setattr__(self, name, tuple(value))
        if self.transcript_epsilon > self.epsilon:
            raise PrivacyConditionError(
                f"transcript_epsilon must be at most epsilon = {self.epsilon!r}, got "
                f"{self.transcript_epsilon!r}: add noise or promise a larger epsilon."
            )
        if math.fsum((self.transcript_delta, self.numerical_delta)) > self.delta:
            raise PrivacyConditionError(
                f"transcript_delta + numerical_delta must be at most delta = {self.delta!r}, got "
                f"{self.transcript_delta!r} + {self.numerical_delta!r}: "
                "add noise or promise a larger delta."
            )

    def after(self, before: Guarantee) -> Guarantee:
        """Return what this release and one before it promise together, whatever that one showed.

        Epsilons and deltas add up, also where this one was chosen in the light of the other.
        """
        amounts = ("epsilon", "delta", "transcript_epsilon", "transcript_delta", "numerical_delta")
        return replace(
            self,
            events=(*before.events, *self.events),
            method=f"{self.method} after {before.method}",
            private=before.private and self.private,
            **{name: getattr(before, name) + getattr(self, name) for name in amounts},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as plain, JSON-ready data."""
        return asdict(self) | {
            "events": [event_to_dict(event) for event in self.events],
            "preconditions": list(self.preconditions),
        }

    @classmethod
    def from_dict(cls, data: object) -> Guarantee:
        """Return the guarantee that `to_dict` turned into plain data, checked anew."""
        found = exact_fields("guarantee", data, cls)
        if not isinstance(found["events"], list):
            raise ParameterError("guarantee.events must be a list: pass what to_dict returned.")
        events = tuple(event_from_dict(event) for event in found["events"])
        return cls(**found | {"events": events})

    @property
    def removes(self) -> bool:
        """Whether neighbours have a unit more or less."""
        return self.adjacency == RELATIONS[ADD_REMOVE]

    def odds(self) -> Odds:
        """Return the odds of an attacker who guesses about one unit; `print` them for words.

        Tests are bounded by the noise that ran where that is known to be Gaussian, and by epsilon
        and delta elsewhere.
        """
        noise = known_noise(self.events)
        promise = self.epsilon, self.delta, self.adjacency, self.unit
        return odds_of(*promise, noise, self.numerical_delta)

    def __str__(self) -> str:
        return guarantee_words(self)


def known_noise(events: Sequence[Event]) -> KnownNoise | None:
    """Return the noise of Gaussians, clocks and pure steps together; None with other events."""
    if not events or not all(isinstance(event, Gaussian | Clocked | Pure) for event in events):
        return None
    gaussians = [event for event in events if isinstance(event, Gaussian | Clocked)]
    return KnownNoise(
        mu=math.hypot(*(event.mu for event in gaussians)),
        late=math.fsum(event.late for event in gaussians if isinstance(event, Clocked)),
        pure=math.fsum(event.epsilon for event in events if isinstance(event, Pure)),
    )
