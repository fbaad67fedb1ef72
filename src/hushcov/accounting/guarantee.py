"""The privacy guarantee a release carries, readable by people and by programs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from hushcov._validation import check_choice, check_integer, check_real, shown
from hushcov.accounting.events import Event, event_from_dict, event_to_dict, exact_fields
from hushcov.accounting.neighbours import RECORD, RELATIONS, REPLACE, check_unit
from hushcov.exceptions import ParameterError, PrivacyConditionError

if TYPE_CHECKING:
    from hushcov.accounting.promise import Odds

ADJACENCIES = tuple(RELATIONS.values())


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a release promises, and on what grounds.

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
    adjacency
        The neighbour relation: one unit is replaced, or added or removed.
    unit
        What a unit is, in one word.
    rows_per_unit
        How many records of one unit were summed, at most; all its records are protected.
    private
        False for seeded or simulated releases: anyone who knows the seed can subtract the
        noise, so the numbers only say what the mechanism would promise with secret noise.
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
        self._check_types()
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

    def _check_types(self) -> None:
        epsilon = check_real("epsilon", self.epsilon, above=0, cure="promise a positive epsilon.")
        object.__setattr__(self, "epsilon", epsilon)
        for name in ("transcript_epsilon", "delta", "transcript_delta", "numerical_delta"):
            value, cure = getattr(self, name), "0 is allowed too."
            at_most = math.inf if name == "transcript_epsilon" else 1.0
            number = check_real(name, value, above=0, at_most=at_most, or_zero=True, cure=cure)
            object.__setattr__(self, name, number)
        check_choice("adjacency", self.adjacency, ADJACENCIES)
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
        self._set_tuple("events", get_args(Event))
        self._set_tuple("preconditions", (str,))

    def _set_tuple(self, name: str, types: tuple[type, ...]) -> None:
        value = getattr(self, name)
        if not isinstance(value, tuple | list) or not all(isinstance(v, types) for v in value):
            allowed = ", ".join(kind.__name__ for kind in types)
            raise ParameterError(f"{name} must be a tuple of {allowed}: pass such a tuple.")
        object.__setattr__(self, name, tuple(value))

    def after(self, before: Guarantee) -> Guarantee:
        """Return what this release and one before it promise together, whatever that one showed.

        Epsilons and deltas add up, also where this one was chosen in the light of the other.
        """
        both = {
            name: getattr(before, name) + getattr(self, name)
            for name in ("transcript_epsilon", "transcript_delta", "numerical_delta")
        }
        return replace(
            self,
            epsilon=before.epsilon + self.epsilon,
            delta=before.delta + self.delta,
            events=(*before.events, *self.events),
            method=f"{self.method} after {before.method}",
            private=before.private and self.private,
            **both,
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

    def _events_in_words(self) -> str:
        counts = Counter(repr(event) for event in self.events)
        return "; ".join(f"{n} x {event}" if n > 1 else event for event, n in counts.items())

    def odds(self) -> Odds:
        """What somebody could learn of one unit at most, as odds; `print` it for words.

        Tests are bounded by the noise that ran where that is known to be Gaussian, and by epsilon
        and delta elsewhere.
        """
        from hushcov.accounting.promise import odds_of

        promised = self.epsilon, self.delta, self.adjacency, self.unit
        return odds_of(*promised, self.events, self.numerical_delta)

    def __str__(self) -> str:
        from hushcov.accounting.promise import promise_words

        lines = [
            promise_words(self.epsilon, self.delta, self.adjacency, self.unit),
            f"  odds: {self.odds()}",
            f"  spent: epsilon {self.transcript_epsilon:.6g}, delta {self.transcript_delta:.6g} "
            f"(bound: {self.method})",
            f"  numerical error: delta {self.numerical_delta:.6g}",
            "  events: " + (self._events_in_words() or "none"),
            "  checked: " + ("; ".join(self.preconditions) or "nothing needed checking"),
        ]
        caution = (
            "NOT PRIVATE: the noise came from a seed or a simulation. With secret noise the "
            "same mechanism would give"
        )
        return "\n".join(lines if self.private else [caution, *lines])
