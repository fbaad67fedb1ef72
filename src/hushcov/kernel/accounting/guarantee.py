"""The privacy guarantee of a release, and its meaning in words and in odds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from scipy.special import ndtr, ndtri

from hushcov._validation import check_choice, check_integer, check_real, shown
from hushcov._words import number
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
from hushcov.kernel.accounting.neighbours import ADD_REMOVE, RECORD, RELATIONS, REPLACE, check_unit

_MOST_EPSILON = 700.0  # larger ones overflow the exponential
_RARE = 1e-10  # chances below are written in scientific notation
#: Prior beliefs and false-alarm rates for which odds are reported.
PRIORS = (0.01, 0.1, 0.5)
FALSE_ALARMS = (0.01, 0.05)
# The change between neighbours, by adjacency: for records, and for other units.
_CHANGES = {
    RELATIONS[REPLACE]: ("replacing {} record", "replacing all records of {} {} by others"),
    RELATIONS[ADD_REMOVE]: (
        "adding or removing {} record",
        "adding or removing all records of {} {}",
    ),
}
# What an attacker guesses about one unit, by adjacency; epsilon bounds how sure they become.
_GUESSES = {
    RELATIONS[REPLACE]: ("what one record is", "what the records of one {} are"),
    RELATIONS[ADD_REMOVE]: ("that one record is in the data", "that one {} is in the data"),
}


def change_words(adjacency: str, unit: str = RECORD, which: str = "any one") -> str:
    """Describe what neighbours differ by: "replacing any one record". Names no identifier."""
    plain, grouped = _CHANGES[check_choice("adjacency", adjacency, tuple(_CHANGES))]
    return plain.format(which) if unit == RECORD else grouped.format(which, unit)


def guess_words(adjacency: str, unit: str = RECORD) -> str:
    """Describe what the odds are about: "what one record is", "that one patient is in the data"."""
    plain, grouped = _GUESSES[check_choice("adjacency", adjacency, tuple(_GUESSES))]
    return plain if unit == RECORD else grouped.format(unit)


def promise_words(
    epsilon: float, delta: float, adjacency: str = RELATIONS[REPLACE], unit: str = RECORD
) -> str:
    """Return what (epsilon, delta)-differential privacy means, as a sentence."""
    name = f"({number(epsilon)}, {number(delta)})" if delta else f"Pure {number(epsilon)}"
    change, factor = change_words(adjacency, unit), number(largest_factor(epsilon), 3)
    return (
        f"{name}-differential privacy: {change} changes the probability of any outcome by at most "
        f"a factor e^epsilon = {factor}" + (f", plus delta = {number(delta)}." if delta else ".")
    )


def largest_factor(epsilon: float) -> float:
    """Return e^epsilon, the largest change of a probability, without overflow."""
    return math.exp(min(epsilon, _MOST_EPSILON))


def highest_posterior(prior: float, epsilon: float) -> float:
    """Return the largest belief in something that was believed with probability `prior`.

    By Bayes' rule odds move by a factor of at most e^epsilon. An (epsilon, delta)-private release
    has this property except with a probability of delta.
    """
    p = check_real("prior", prior, above=0, at_most=1, or_zero=True, cure="it is a probability.")
    return 0.0 if p == 0 else 1 / (1 + (1 - p) / p * math.exp(-epsilon))


def largest_power(false_alarm: float, epsilon: float, delta: float) -> float:
    """Return the largest power of a test with this false-alarm rate, by epsilon and delta."""
    factor = largest_factor(epsilon)
    by_one_side = factor * false_alarm + delta
    by_other_side = 1 - (1 - false_alarm - delta) / factor
    return min(1.0, by_one_side, by_other_side)


def event_power(false_alarm: float, events: Sequence[Event], slack: float = 0.0) -> float | None:
    """Return the largest power by the events: Gaussians, clocks, pure steps; None for others.

    Gaussians together have the exact trade-off Phi(Phi^-1(false alarms) + mu), a clock adds its
    `late`, and a pure step of epsilon multiplies what is right by e^epsilon at most, and what is
    missed by e^-epsilon at least. `slack` is what finite precision adds to both sides.
    """
    if not events or not all(isinstance(event, Gaussian | Clocked | Pure) for event in events):
        return None
    mu = math.hypot(*(event.mu for event in events if isinstance(event, Gaussian | Clocked)))
    late = math.fsum(event.late for event in events if isinstance(event, Clocked))
    pure = math.fsum(event.epsilon for event in events if isinstance(event, Pure))
    alarm = min(1.0, false_alarm + slack)
    power = min(1.0, float(ndtr(ndtri(alarm) + mu)) + late)
    factor = largest_factor(pure)
    return min(1.0, factor * power + slack, 1 - (1 - power) / factor + slack)


@dataclass(frozen=True)
class Odds:
    """Limits on what an attacker can learn about one unit, whatever else they know.

    `guess` is the attacker's, in words. `beliefs` are pairs of belief in it before the release, and
    the largest one after it; with a probability of `fails`, delta, they may go further. `tests` are
    pairs of the false-alarm rate of a test for the guess and its largest power, and `promised` the
    same by epsilon and delta alone, for any release with this promise.
    """

    guess: str
    beliefs: tuple[tuple[float, float], ...]
    tests: tuple[tuple[float, float], ...]
    promised: tuple[tuple[float, float], ...]
    fails: float

    def to_dict(self) -> dict[str, Any]:
        """Return the odds as plain, JSON-ready data."""
        return asdict(self)

    def __str__(self) -> str:
        before, after = (_listed(column) for column in zip(*self.beliefs, strict=True))
        alarms, found = (_listed(column) for column in zip(*self.tests, strict=True))
        allowed = _listed([power for _, power in self.promised])
        grounds = "promise alone (the noise of a release may allow less)"
        if found != allowed:
            grounds = f"noise of this release (the promise alone would allow {allowed})"
        return (
            f"somebody who is {before} sure {self.guess} can become {after} sure at most"
            f"{fails_words(self.fails)}. An attacker who wrongly accuses {alarms} of people is "
            f"right about at most {found} of those they are after, by the {grounds}."
        )


def odds_of(
    epsilon: float,
    delta: float,
    adjacency: str = RELATIONS[REPLACE],
    unit: str = RECORD,
    events: Sequence[Event] = (),
    slack: float = 0.0,
) -> Odds:
    """Return the odds of a promise; `events` that ran may bound tests further, plus `slack`."""
    promised = tuple((alarm, largest_power(alarm, epsilon, delta)) for alarm in FALSE_ALARMS)
    found = [event_power(alarm, events, slack) for alarm in FALSE_ALARMS]
    return Odds(
        guess=guess_words(adjacency, unit),
        beliefs=tuple((prior, highest_posterior(prior, epsilon)) for prior in PRIORS),
        tests=tuple(
            (alarm, most if power is None else min(most, power))
            for (alarm, most), power in zip(promised, found, strict=True)
        ),
        promised=promised,
        fails=delta,
    )


def fails_words(delta: float) -> str:
    """Return how often the odds may be worse: ", but for a chance of 1 in 1,000,000"."""
    if delta <= 0:
        return ""
    often = f"1 in {float(f'{1 / delta:.3g}'):,.0f}" if delta > _RARE else number(delta)
    return f", but for a chance of {often}"


def in_percent(share: float) -> str:
    """Return a probability as 2.7 %, 73.1 %; what is nearly certain is not called certain."""
    text = f"{100 * share:.3g}"
    return f"{text} %" if text != "100" or share == 1 else "nearly 100 %"


def _listed(shares: Sequence[float]) -> str:
    *first, last = (in_percent(share).removesuffix(" %") for share in shares)
    return f"{', '.join(first)} or {last} %" if first else f"{last} %"


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
        promised = self.epsilon, self.delta, self.adjacency, self.unit
        return odds_of(*promised, self.events, self.numerical_delta)

    def __str__(self) -> str:
        counts = Counter(repr(event) for event in self.events)
        events = "; ".join(f"{n} x {event}" if n > 1 else event for event, n in counts.items())
        lines = [
            promise_words(self.epsilon, self.delta, self.adjacency, self.unit),
            f"  odds: {self.odds()}",
            f"  spent: epsilon {self.transcript_epsilon:.6g}, delta {self.transcript_delta:.6g} "
            f"(bound: {self.method})",
            f"  numerical error: delta {self.numerical_delta:.6g}",
            "  events: " + (events or "none"),
            "  checked: " + ("; ".join(self.preconditions) or "nothing needed checking"),
        ]
        caution = (
            "NOT PRIVATE: the noise came from a seed or a simulation. With secret noise the "
            "same mechanism would give"
        )
        return "\n".join(lines if self.private else [caution, *lines])
