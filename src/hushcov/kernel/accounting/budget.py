"""The budget of one release: certified before any record is read, then spent step by step.

Gaussian steps take the time mu^2 of one Brownian motion, whichever way it is divided among them.
Bounded-range steps take a random time, which is bounded by its exponential moment at one rate
(`docs/proofs/accounting.md`, step 26). Which step comes next and how large it is may depend on all
that was released before; only the end of the clock is fixed beforehand. A mechanism whose events
are a list that is fixed beforehand has them certified beside the clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np

from hushcov._validation import check_integer, check_real
from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.accounting.composition import (
    CLOCK_ROUNDING,
    WIDEST_ANGLE,
    compose,
    log_exit_moment,
)
from hushcov.kernel.accounting.events import BoundedRange, Clocked, Event, Gaussian, Pure
from hushcov.kernel.accounting.guarantee import Guarantee
from hushcov.kernel.accounting.neighbours import ONE_REPLACED, Neighbours

#: A budget is met with this to spare, far more than the roundings of mu.
WITHIN = 1 - 2.0**-40
_NEGLIGIBLE = 1e-9  # of a budget, which is not listed as unspent
_ABOVE = 1 + 2.0**-44  # makes up for roundings of what is taken
#: What is listed where a budget was certified for more than was run.
UNSPENT = "nothing: this was certified, and not needed"
#: Share of delta for a clock that runs late. A ledger sets an eighth of its delta aside for them,
#: enough for 32 releases that each promise the delta of the whole.
LATE_SHARE = 1 / 256
#: What certificates of exact sums rest on.
EXACT = "none: sums are exact, and every record is bounded before it is summed"


class Budget:
    """The privacy budget of one release, and what was spent of it.

    Parameters
    ----------
    epsilon, delta : float
        What everything released together promises. Without a delta there are fixed events only.
    relation : Neighbours
        Costs of steps are those of one record; what is certified and charged is that of a unit.
    fixed : sequence of Event
        Events that are certified beside the clock, in the order in which they will be spent.
    mu : float
        The mu of all Gaussian steps together, of one record; 0 is no clock.
    selects : bool
        Whether bounded-range steps may run on the clock; delta/256 is set aside for that.
    numerical_delta : float
        What finite precision spends of delta.
    checked : sequence of str
        What a certificate is to say that it rests on, beside exact sums.

    Privacy
    -------
    The certificate is made here, from public numbers alone. A step that there is no room for
    raises, and takes nothing: a step is to be spent before its noise is drawn.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        relation: Neighbours = ONE_REPLACED,
        *,
        mu: float,
        fixed: Sequence[Event] = (),
        selects: bool = False,
        numerical_delta: float = 0.0,
        checked: Sequence[str] = (EXACT,),
        private: bool = True,
    ) -> None:
        self.relation = relation
        self.mu = mu
        self.late = LATE_SHARE * delta if selects else 0.0
        self.rate: float | None = None
        self.part = UNSPENT  # what steps release that say nothing of it
        self._taken, self._started = 0.0, False
        self._fixed = list(fixed)
        #: Everything that was spent, in order: its part, with the time on the clock or the event.
        self.charges: list[tuple[str, float | Event]] = []
        clock = () if self.mu == 0 else (self._clocked(self.mu * _ABOVE),)
        events = relation.charged((*fixed, *clock))
        allowed = delta if numerical_delta == 0 else (delta - numerical_delta) * (1 - 2.0**-50)
        bound = compose(events, delta=allowed)  # proof: step 26
        self.certificate = Guarantee(
            epsilon=epsilon,
            delta=delta,
            transcript_epsilon=bound.epsilon,
            transcript_delta=bound.delta,
            numerical_delta=numerical_delta,
            events=events,
            method=bound.method,
            preconditions=tuple(checked),
            private=private,
            **relation.guaranteed(),
        )

    def _clocked(self, mu: float) -> Event:
        return Clocked(mu, self.late) if self.late else Gaussian(mu)

    @property
    def left(self) -> float:
        """The time left for Gaussian steps, as the sum of their mu^2; rounded down."""
        rounding = 4 * CLOCK_ROUNDING if self.late else 0.0
        return max(0.0, self.mu**2 * (1 - rounding) - self._taken)

    @property
    def mu_left(self) -> float:
        """The largest mu of a Gaussian step that there is time for."""
        return math.sqrt(self.left) * (1 - 2.0**-50)

    def gaussian(self, mu: float, part: str | None = None) -> None:
        """Take the time of a Gaussian step, or raise; `part` says in words what is released."""
        cure = "it is sensitivity over deviation."
        self._take(check_real("mu", mu, above=0, cure=cure) ** 2, part)

    def expect(self, n_steps: int, share: float) -> None:
        """Choose the rate for so many equal bounded-range steps that take a share of what is left.

        A wrong guess costs time, never privacy. With L = log(1/late), what is set aside beside the
        time T = s eta^2 / 4 of s steps is L / r + s eta^4 r / 48, and least at r = sqrt(3 L s) / T.
        """
        if self._started or not self.late:
            raise PrivacyConditionError(
                "a rate must be chosen before the first bounded-range step, of a budget that "
                "selects: this is a mistake in the mechanism."
            )
        self.rate = math.sqrt(-3 * math.log(self.late) * n_steps) / (share * self.left)

    def step_time(self, eta: float) -> float:
        """Return what one bounded-range step takes; infinite where its moment may be."""
        assert self.rate is not None
        angle = eta * math.sqrt(self.rate / 2)
        if angle > WIDEST_ANGLE:
            return math.inf
        # proof: step 26
        return float(log_exit_moment(np.array([angle]))[0]) / self.rate

    @property
    def start_time(self) -> float:
        """Time that the next bounded-range step takes beside its own: something at the first."""
        assert self.rate is not None
        return 0.0 if self._started else -math.log(self.late) / self.rate

    def steps_left(self, eta: float, share: float = 1.0) -> int:
        """Return how many bounded-range steps there is time for in a share of what is left."""
        return max(0, math.floor((self.left * share - self.start_time) / self.step_time(eta)))

    def select(self, eta: float, count: int, part: str | None = None) -> None:
        """Take the time of `count` bounded-range steps, or raise; before they are run."""
        check_integer("count", count, at_least=1, cure="it is the number of selected items.")
        if self.rate is None:
            raise PrivacyConditionError(
                "a rate must be chosen before the first bounded-range step: this is a mistake in "
                "the mechanism."
            )
        self._take(count * self.step_time(eta) + self.start_time, part)
        self._started = True

    def _take(self, time: float, part: str | None) -> None:
        # proof: step 26
        if not time <= self.left:
            raise PrivacyConditionError(
                "the budget of a release has no room left for its next step: this is a mistake in "
                "the mechanism, and nothing more was released."
            )
        self._taken += time
        self.charges.append((self.part if part is None else part, time))

    def fixed(self, event: Event, part: str) -> None:
        """Take the next of the fixed events, or raise; before it is run.

        It may be smaller than what was certified.
        """
        if not self._fixed or not _covers(self._fixed[0], event) or part in dict(self.charges):
            raise PrivacyConditionError(
                f"the budget of a release was not certified for {event!r}: this is a mistake in "
                "the mechanism, and nothing more was released."
            )
        del self._fixed[0]
        self.charges.append((part, event))

    @property
    def parts(self) -> tuple[tuple[str, tuple[Event, ...]], ...]:
        """Names of what was released, with what is charged for it.

        What was certified and not spent is a part, too: how much that is may depend on the records,
        so that nobody gets it back.
        """
        spent: dict[str, float | Event] = {}
        for part, cost in self.charges:
            before = spent.get(part, 0.0)
            on_clock = isinstance(before, float) and isinstance(cost, float)
            assert on_clock or part not in spent, "a part is on the clock, or fixed"
            spent[part] = before + cost if on_clock else cost  # type: ignore[operator]
        listed = list(spent.items())
        if self.left > _NEGLIGIBLE * self.mu**2:
            listed.append((UNSPENT, self.left))
        times = [place for place, (_, cost) in enumerate(listed) if isinstance(cost, float)]
        found = []
        for place, (part, cost) in enumerate((*listed, *((UNSPENT, each) for each in self._fixed))):
            event: Event
            if not isinstance(cost, float):
                event = cost
            elif place == times[-1]:
                event = self._clocked(math.sqrt(cost))
            else:
                event = Gaussian(math.sqrt(cost))
            found.append((part, self.relation.charged((event,))))
        return tuple(found)

    @property
    def guarantee(self) -> Guarantee:
        """The certificate, with the events of all parts in the place of those certified."""
        events = tuple(event for _, listed in self.parts for event in listed)
        return replace(self.certificate, events=events)


def _covers(certified: Event, event: Event) -> bool:
    """Return whether an event costs no more than the one that was certified."""
    if certified == event:
        return True
    grows = isinstance(event, Gaussian | BoundedRange | Pure) and type(event) is type(certified)
    pairs: Any = zip(astuple(event), astuple(certified), strict=True) if grows else ()
    return grows and all(mine <= theirs for mine, theirs in pairs)
