"""What a guarantee promises, in words and in odds: to whom, and what could be learnt of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scipy.special import ndtr, ndtri

from hushcov._validation import check_choice, check_real
from hushcov._words import number
from hushcov.accounting.events import Clocked, Event, Gaussian, Pure
from hushcov.accounting.neighbours import ADD_REMOVE, RECORD, RELATIONS, REPLACE

_MOST_EPSILON = 700.0  # of which doubles hold the exponential
_RARE = 1e-10  # chances below are written as they are
#: How likely somebody held something, and false alarms of a test, of which odds are told.
PRIORS = (0.01, 0.1, 0.5)
FALSE_ALARMS = (0.01, 0.05)
# What happens to one unit, by what a guarantee calls the relation: to a record, and to others.
_CHANGES = {
    RELATIONS[REPLACE]: ("replacing {} record", "replacing all records of {} {} by others"),
    RELATIONS[ADD_REMOVE]: (
        "adding or removing {} record",
        "adding or removing all records of {} {}",
    ),
}
# What somebody may guess of one unit such that this very epsilon bounds what a release tells them.
_GUESSES = {
    RELATIONS[REPLACE]: ("what one record is", "what the records of one {} are"),
    RELATIONS[ADD_REMOVE]: ("that one record is in the data", "that one {} is in the data"),
}


def change_words(adjacency: str, unit: str = RECORD, which: str = "any one") -> str:
    """What neighbours differ by: "replacing any one record"; no identifier appears, ever."""
    plain, grouped = _CHANGES[check_choice("adjacency", adjacency, tuple(_CHANGES))]
    return plain.format(which) if unit == RECORD else grouped.format(which, unit)


def guess_words(adjacency: str, unit: str = RECORD) -> str:
    """What the odds are about: "what one record is", "that one patient is in the data"."""
    plain, grouped = _GUESSES[check_choice("adjacency", adjacency, tuple(_GUESSES))]
    return plain if unit == RECORD else grouped.format(unit)


def privacy_name(epsilon: float, delta: float) -> str:
    """The name of a promise: "(1, 1e-6)-differential privacy"."""
    name = f"({number(epsilon)}, {number(delta)})" if delta else f"Pure {number(epsilon)}"
    return f"{name}-differential privacy"


def promise_words(
    epsilon: float, delta: float, adjacency: str = RELATIONS[REPLACE], unit: str = RECORD
) -> str:
    """Say what (epsilon, delta)-differential privacy means, or that without a delta."""
    return (
        f"{privacy_name(epsilon, delta)}: {change_words(adjacency, unit)} changes the probability "
        f"of any outcome by at most a factor e^epsilon = {number(largest_factor(epsilon), 3)}"
        + (f", plus delta = {number(delta)}." if delta else ".")
    )


def largest_factor(epsilon: float) -> float:
    """By how much the probability of an outcome changes at most, within doubles."""
    return math.exp(min(epsilon, _MOST_EPSILON))


def highest_posterior(prior: float, epsilon: float) -> float:
    """How likely something can come to seem that seemed to have probability `prior`.

    By Bayes' rule odds move by a factor of at most e^epsilon. An (epsilon, delta)-private release
    is one of which that holds but for a probability of delta.
    """
    p = check_real("prior", prior, above=0, at_most=1, or_zero=True, cure="it is a probability.")
    return 0.0 if p == 0 else 1 / (1 + (1 - p) / p * math.exp(-epsilon))


def largest_power(false_alarm: float, epsilon: float, delta: float) -> float:
    """How often a test may be right about B that is wrong about A in `false_alarm` of cases."""
    factor = largest_factor(epsilon)
    by_one_side = factor * false_alarm + delta
    by_other_side = 1 - (1 - false_alarm - delta) / factor
    return min(1.0, by_one_side, by_other_side)


def event_power(false_alarm: float, events: Sequence[Event], slack: float = 0.0) -> float | None:
    """The same from what ran, where that is Gaussians, clocks and pure steps; None elsewhere.

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
    """What somebody could learn of one unit from a release, at most, whatever else they know.

    Attributes
    ----------
    guess : str
        What they guess, in words.
    beliefs : tuple of pairs
        How likely they held it before, and how likely they can hold it after at most.
    tests : tuple of pairs
        How often a test is wrong about those it is not after, and right about the others at most.
    promised : tuple of pairs
        The same by epsilon and delta alone, for any release that has this promise.
    fails : float
        The probability, delta, with which the beliefs may go further.
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
        return (
            f"somebody who is {before} sure {self.guess} can become {after} sure at most"
            f"{fails_words(self.fails)}. An attacker who wrongly accuses {alarms} of people is "
            f"right about at most {found} of those they are after{self._why(found)}."
        )

    def _why(self, found: str) -> str:
        """Whether the noise of a release says so or the promise alone, which allows more."""
        allowed = _listed([power for _, power in self.promised])
        if found == allowed:
            return ", by the promise alone (the noise of a release may allow less)"
        return f", by the noise of this release (the promise alone would allow {allowed})"


def odds_of(
    epsilon: float,
    delta: float,
    adjacency: str = RELATIONS[REPLACE],
    unit: str = RECORD,
    events: Sequence[Event] = (),
    slack: float = 0.0,
) -> Odds:
    """The odds of a promise; `events` that ran may bound tests further, with `slack` on top."""

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
    """How often the odds may be worse: ", but for a chance of 1 in 1,000,000"."""
    if delta <= 0:
        return ""
    often = f"1 in {float(f'{1 / delta:.3g}'):,.0f}" if delta > _RARE else number(delta)
    return f", but for a chance of {often}"


def in_percent(share: float) -> str:
    """A probability: 2.7 %, 73.1 %; one that is nearly certain is not called certain."""
    text = f"{100 * share:.3g}"
    return f"{text} %" if text != "100" or share == 1 else "nearly 100 %"


def _listed(shares: Sequence[float]) -> str:
    *first, last = (in_percent(share).removesuffix(" %") for share in shares)
    return f"{', '.join(first)} or {last} %" if first else f"{last} %"
