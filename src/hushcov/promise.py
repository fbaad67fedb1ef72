"""Meaning of a promise of (epsilon, delta)-differential privacy, in words and in odds.

Nothing here is part of the guarantee: the kernel certifies numbers, and this module explains them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scipy.special import ndtr, ndtri

from hushcov._validation import check_choice, check_real
from hushcov._words import number

#: Neighbour relations, as a guarantee calls them, and the unit where each is one record.
REPLACE_ONE, ADD_REMOVE_ONE = "replace-one", "add-remove-one"
RECORD = "record"
_MOST_EPSILON = 700.0  # larger ones overflow the exponential
_RARE = 1e-10  # chances below are written in scientific notation
#: Prior beliefs and false-alarm rates for which odds are reported.
PRIORS = (0.01, 0.1, 0.5)
FALSE_ALARMS = (0.01, 0.05)
# The change between neighbours, by adjacency: for records, and for other units.
_CHANGES = {
    REPLACE_ONE: ("replacing {} record", "replacing all records of {} {} by others"),
    ADD_REMOVE_ONE: (
        "adding or removing {} record",
        "adding or removing all records of {} {}",
    ),
}
# What an attacker guesses about one unit, by adjacency; epsilon bounds how sure they become.
_GUESSES = {
    REPLACE_ONE: ("what one record is", "what the records of one {} are"),
    ADD_REMOVE_ONE: ("that one record is in the data", "that one {} is in the data"),
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
    epsilon: float, delta: float, adjacency: str = REPLACE_ONE, unit: str = RECORD
) -> str:
    """Say in a sentence how (epsilon, delta)-differential privacy limits probabilities."""
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


class KnownNoise(NamedTuple):
    """Noise whose trade-off between errors of a test is known.

    `mu` is that of all Gaussians together, `late` the probability that a clock runs late, and
    `pure` the epsilon of all pure steps.
    """

    mu: float
    late: float
    pure: float


def power_by_noise(false_alarm: float, noise: KnownNoise, slack: float = 0.0) -> float:
    """Return the largest power of a test with this false-alarm rate, by the noise that ran.

    Gaussians together have the exact trade-off Phi(Phi^-1(false alarms) + mu), a clock adds its
    `late`, and a pure step of epsilon multiplies what is right by e^epsilon at most, and what is
    missed by e^-epsilon at least. `slack` is what finite precision adds to both sides.
    """
    alarm = min(1.0, false_alarm + slack)
    power = min(1.0, float(ndtr(ndtri(alarm) + noise.mu)) + noise.late)
    factor = largest_factor(noise.pure)
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
    adjacency: str = REPLACE_ONE,
    unit: str = RECORD,
    noise: KnownNoise | None = None,
    slack: float = 0.0,
) -> Odds:
    """Return the odds of a promise; `noise` that ran may bound tests further, plus `slack`."""
    promised = tuple((alarm, largest_power(alarm, epsilon, delta)) for alarm in FALSE_ALARMS)
    found = [
        most if noise is None else min(most, power_by_noise(alarm, noise, slack))
        for alarm, most in promised
    ]
    return Odds(
        guess=guess_words(adjacency, unit),
        beliefs=tuple((prior, highest_posterior(prior, epsilon)) for prior in PRIORS),
        tests=tuple(zip(FALSE_ALARMS, found, strict=True)),
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


def guarantee_words(guarantee: Any) -> str:
    """Write out a guarantee: its promise, odds, costs, events and preconditions."""
    counts = Counter(repr(event) for event in guarantee.events)
    events = "; ".join(f"{n} x {event}" if n > 1 else event for event, n in counts.items())
    lines = [
        promise_words(guarantee.epsilon, guarantee.delta, guarantee.adjacency, guarantee.unit),
        f"  odds: {guarantee.odds()}",
        f"  spent: epsilon {guarantee.transcript_epsilon:.6g}, "
        f"delta {guarantee.transcript_delta:.6g} (bound: {guarantee.method})",
        f"  numerical error: delta {guarantee.numerical_delta:.6g}",
        "  events: " + (events or "none"),
        "  checked: " + ("; ".join(guarantee.preconditions) or "nothing needed checking"),
    ]
    caution = (
        "NOT PRIVATE: the noise came from a seed or a simulation. With secret noise the "
        "same mechanism would give"
    )
    return "\n".join(lines if guarantee.private else [caution, *lines])
