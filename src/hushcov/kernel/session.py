"""The one place that reads records for a release, draws its noise and spends its budget.

A `Session` owns the records, the budget and the source of noise. Code outside the kernel describes
a query, and receives noisy numbers: it has no way to a record, to an exact sum, or to noise that is
not paid for. So a mistake outside can make a release inaccurate, and not less private.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hushcov._arrays import IntArray
from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.accounting.budget import Budget
from hushcov.kernel.accounting.events import BoundedRange, Event, Pure
from hushcov.kernel.accounting.guarantee import Guarantee
from hushcov.kernel.accounting.neighbours import UP, Neighbours
from hushcov.kernel.noise.entropy import Entropy, check_entropy
from hushcov.kernel.noise.gumbel import TAKEN, gumbel_top
from hushcov.kernel.noise.laplace import discrete_laplace
from hushcov.kernel.noise.normal import NOISE_STRIP, rounded_normal, symmetric_noise
from hushcov.kernel.queries import (
    LaplaceQuery,
    NormCounts,
    PairSigns,
    Query,
    ScoreQuery,
    SelectedTotal,
    SignSums,
)
from hushcov.kernel.sums.rows import sum_together

if TYPE_CHECKING:
    from hushcov.kernel.records.units import Units

# The mu of a charge is a double, beside exact integers: budgets have room for more than this.
_ROUNDED = 1 + Fraction(1, 2**50)
# Queries and views of the other two distributions are trusted where these modules define them:
# tests attack all of theirs, too.
_QUERIES_ELSEWHERE = ("hushcov_lab.peers.queries", "hushcov_genotypes.queries")
_Kept = weakref.WeakKeyDictionary[Any, tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Noisy:
    """Released integers with the deviations of their noise."""

    integers: Any
    deviations: tuple[int, ...]  # one, or two: those off and on the diagonal of a matrix
    unit: float = 1.0  # the public value of one integer

    @property
    def sd(self) -> int:
        """The deviation of the noise, in integers; that off the diagonal of a matrix."""
        return self.deviations[0]


@dataclass(frozen=True, eq=False)
class TranscriptLine:
    """One line of a transcript: what was asked, the part of the release, its cost and its noise."""

    query: str
    part: str
    # That of one record: a time on the clock of the budget, or an event beside it. 0 for a query
    # that a `Reserve` paid for, whose own line comes before.
    cost: float | Event
    noise: tuple[float, ...]  # deviations of normal noise, a Laplace scale, or a selection's rate


@dataclass(eq=False)
class _State:
    """Everything that views of the same session share."""

    budget: Budget
    generator: np.random.Generator
    transcript: list[TranscriptLine] = field(default_factory=list)
    # Exact numbers that are read once and released several times, or later, for as long as somebody
    # holds the query; with the very records that they are of, as a view has other sums.
    sums: _Kept = field(default_factory=weakref.WeakKeyDictionary)
    scores: _Kept = field(default_factory=weakref.WeakKeyDictionary)
    last: SelectedTotal | None = None


class Session:
    """Access to records for one release: queries are charged, and answered with noise.

    Parameters
    ----------
    records : Records or Statistics
        The records, or exact sums of them; of anything that has a number of rows, that is counted.
    budget : Budget
        What may be spent. It was certified before, for a relation between neighbours.
    entropy : Entropy
        The source of noise.
    units : Units, optional
        Whose the records are, where their number is to be released.

    Privacy
    -------
    Everything that is returned was charged before its noise was drawn, by the same method. Each
    query states how far neighbours can differ, and `docs/proofs` says why; the noise is checked
    against that in exact arithmetic. Views map each row on its own by public or released numbers.
    """

    def __init__(
        self, records: Any, budget: Budget, entropy: Entropy, units: Units | None = None
    ) -> None:
        check_entropy(entropy)
        self._records: Any = records
        self._units, self._entropy = units, entropy
        self._state = _State(budget, entropy.generator)

    # What is public, or was released.

    @property
    def n_records(self) -> int:
        """The number of records, which is public or was released."""
        return int(self._records.n_records)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self._records.n_features)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, where they have any."""
        return cast("tuple[str, ...] | None", self._records.feature_names)

    @property
    def indicators(self) -> frozenset[str]:
        """The names of features that hold 0 and 1 alone, by public knowledge."""
        return cast("frozenset[str]", self._records.indicators)

    @property
    def relation(self) -> Neighbours:
        """The relation between neighbours that the budget is certified for."""
        return self._state.budget.relation

    @property
    def private(self) -> bool:
        """Whether the noise is secret."""
        return self._entropy.private

    @property
    def has_units(self) -> bool:
        """Whether it knows whose the records are, and has not bounded them yet."""
        return self._units is not None

    @property
    def remaining(self) -> float:
        """The time that is left for queries, as the sum of their mu^2."""
        return self._state.budget.left

    @property
    def mu_left(self) -> float:
        """The largest mu of a query that there is time for."""
        return self._state.budget.mu_left

    @property
    def clock(self) -> dict[str, float | None]:
        """The numbers of the clock, as a release documents them."""
        budget = self._state.budget
        return {"mu": budget.mu, "late": budget.late, "rate": budget.rate}

    @property
    def transcript(self) -> tuple[TranscriptLine, ...]:
        """Everything that was charged, in its order."""
        return tuple(self._state.transcript)

    @property
    def parts(self) -> tuple[tuple[str, tuple[Event, ...]], ...]:
        """Names of what was released, with what is charged for it."""
        return self._state.budget.parts

    @property
    def guarantee(self) -> Guarantee:
        """The certificate of the budget, with the events of all parts."""
        return self._state.budget.guarantee

    def name_parts(self, part: str) -> None:
        """Call parts of the release so, from now on, where a query is given no name."""
        self._state.budget.part = part

    def expect(self, n_steps: int, share: float) -> None:
        """Choose the rate of selections; see `Budget.expect`."""
        self._state.budget.expect(n_steps, share)

    # Records.

    def view(self, view: Callable[[Any], Any]) -> Session:
        """Return a session on records that are mapped row by row; it has the same budget."""
        _check_own(getattr(view, "func", view))  # the class of a partial one
        return self._over(view(self._records))

    def bounded(self, most_rows: int) -> Session:
        """Return a session on at most so many rows of each unit."""
        assert self._units is not None
        records = self._units.bounded(self._records, most_rows)  # proof: neighbours, step 3
        return self._over(records)

    def _over(self, records: Any) -> Session:
        other = object.__new__(Session)
        other._records, other._units = records, None
        other._entropy, other._state = self._entropy, self._state
        return other

    # Queries.

    def read(self, *queries: Query) -> None:
        """Sum several queries in one pass, and hold the exact sums until they are measured.

        Nothing is released by it.
        """
        missing = [query for query in queries if self._held(query) is None]
        for query in missing:
            _check_own(type(query))
        if len(missing) == 1:
            self._hold(missing[0], self._exact(missing[0]))
        elif missing:
            self._read_together(missing)

    def _read_together(self, queries: Sequence[Query]) -> None:
        """Read row sums in one pass; signs are summed by the same loop as norms."""
        signs = next((query for query in queries if isinstance(query, SignSums)), None)
        norms = next((query for query in queries if isinstance(query, NormCounts)), None)
        alone = [query for query in queries if query is not signs]
        wanted = [query.row_sums(self._records) for query in alone]
        if norms is not None and signs is not None:
            wanted[alone.index(norms)] = norms.row_sums(self._records, signs=True)
        found = sum_together(self._records, wanted)
        for query, sums in zip(alone, found, strict=True):
            n_signs = signs.n_features if signs is not None and query is norms else 0
            if n_signs:
                self._hold(signs, sums[:n_signs])
            self._hold(query, sums[n_signs:])

    def _hold(self, query: Any, sums: Any) -> None:
        self._state.sums[query] = self._records, sums

    def _held(self, query: Any) -> Any:
        """Return exact sums that were read from these very records; None where there are none."""
        records, sums = self._state.sums.get(query, (None, None))
        return sums if records is self._records else None

    def measure(
        self,
        query: Query,
        mu: float,
        name: str | None = None,
        *,
        deviations: tuple[int, ...] | None = None,
    ) -> Noisy:
        """Charge a query, and return its integers with normal noise.

        `mu` is what it costs, of one record: the distance of neighbours in deviations of the noise.
        `name` says in words what is released. `deviations` are the noise, where it was settled
        before; the least that `mu` allows if left out.
        """
        used = self._charge(query, mu, name, deviations)
        return Noisy(self._noised(query, used), used, query.unit)

    def measure_together(self, *asked: tuple[Query, float, str]) -> list[Noisy]:
        """Measure several queries by one pass over the records: query, mu and name of each."""
        self.read(*(query for query, _, _ in asked))
        return [self.measure(*each) for each in asked]

    def measure_in_strips(
        self, query: Query, mu: float, take: Callable[[int, IntArray], None]
    ) -> Noisy:
        """Measure a long query a strip at a time: `take` gets where it begins, and its integers.

        Nothing of the length of the query is made beside the exact sums, which stay held.
        """
        used = self._charge(query, mu, None, None)
        self.read(query)
        sums = self._held(query)
        for start in range(0, len(sums), NOISE_STRIP):
            part = sums[start : start + NOISE_STRIP]
            noisy = rounded_normal(self._state.generator, used[0], len(part))
            noisy += part
            take(start, noisy)
        return Noisy(np.empty(0, dtype=np.int64), used, query.unit)

    def reserve(self, mu: float, deviation: int | None = None, name: str | None = None) -> Reserve:
        """Charge `mu` for several queries together: with noise of this deviation, or each its own.

        Each query may be chosen in the light of the answers to those before it.
        """
        self._state.budget.gaussian(mu, name)
        usual = () if deviation is None else (deviation,)
        found = Reserve(self, Fraction(mu) ** 2, usual)
        self._note(found, usual)
        return found

    def reserve_selections(self, event: BoundedRange, rate: float, name: str) -> Selections:
        """Charge an event beside the clock for selections at a rate, one after the other.

        The scores of each may be chosen in the light of what was released before.
        """
        self._state.budget.fixed(event, name)
        found = Selections(self, event, rate)
        self._note(found, (rate,))
        return found

    def count(self, query: LaplaceQuery, epsilon: float, name: str) -> Noisy:
        """Charge counts of records or of units, and return them with Laplace noise."""
        _check_own(type(query))
        self._state.budget.fixed(Pure(epsilon), name)
        distance = query.distance(self.relation)
        scale = math.ceil(distance / epsilon)
        _check_loss(Fraction(distance, scale), Fraction(epsilon))
        self._note(query, (scale,))
        exact = query.exact(self._units if query.reads == "units" else self._records).tolist()
        noise = discrete_laplace(self._state.generator, scale, len(exact))
        found = [count + each for count, each in zip(exact, noise, strict=True)]
        return Noisy(np.array(found, dtype=object), (scale,))

    def select(
        self, query: PairSigns, count: int, rate: float, name: str | None = None
    ) -> IntArray:
        """Charge a selection, and return the places of so many of the largest scores.

        Places that were selected before are left out. Where the budget has no clock for
        selections, it is one of the events that were certified beside it.
        """
        _check_own(type(query))
        budget, eta = self._state.budget, self.selection_range(query, rate)
        if budget.late:
            budget.select(eta, count, name)
        else:
            budget.fixed(BoundedRange(eta, count), budget.part if name is None else name)
        self._note(query, (rate,))
        scores = self._scores(query)
        best = gumbel_top(self._state.generator, scores, rate, count)  # proof: screened, step 2
        self._state.last = SelectedTotal(query, best)
        self._hold(self._state.last, self._state.last.derived(scores))
        scores[best] = TAKEN  # proof: screened, step 3
        return best

    def total(self, mu: float, name: str | None = None) -> Noisy:
        """Charge, and return the sum of the scores that were selected last."""
        assert self._state.last is not None
        return self.measure(self._state.last, mu, name)

    def selection_range(self, query: PairSigns | ScoreQuery, rate: float) -> float:
        """Return the range of one selection, which is what it costs."""
        return 2 * query.score_distance(self.relation) * rate * UP  # proof: screened, step 2

    def selections_left(self, query: PairSigns, rate: float, share: float) -> int:
        """Return how many selections there is time for in a share of what is left."""
        return self._state.budget.steps_left(self.selection_range(query, rate), share)

    def _charge(
        self, query: Query, mu: float, name: str | None, deviations: tuple[int, ...] | None
    ) -> tuple[int, ...]:
        """Spend the mu of a query, and return its noise, which is enough for that."""
        _check_own(type(query))
        self._state.budget.gaussian(mu, name)
        used = query.deviations(mu, self.relation) if deviations is None else deviations
        _check_loss(query.loss(used, self.relation), Fraction(mu) ** 2)
        self._note(query, used)
        return used

    def _note(self, query: Any, noise: tuple[float, ...], paid: str | None = None) -> None:
        """Write the last charge down, or that a query was answered for a part that was `paid`."""
        part, cost = self._state.budget.charges[-1] if paid is None else (paid, 0.0)
        self._state.transcript.append(TranscriptLine(type(query).__name__, part, cost, noise))

    def _noised(self, query: Query, deviations: tuple[int, ...]) -> IntArray:
        """Return the exact integers of a query plus noise, which was charged."""
        held, generator = self._held(query), self._state.generator
        exact = self._exact(query) if held is None else held
        if query.symmetric:
            noise = symmetric_noise(generator, len(exact), *deviations)
        else:
            noise = rounded_normal(generator, deviations[0], exact.size).reshape(exact.shape)
        if held is not None:
            return np.asarray(exact + noise)
        exact += noise
        return exact

    def _exact(self, query: Query) -> IntArray:
        """Return exact integers that nobody else holds."""
        source: Query | None = getattr(query, "source", None)
        if source is None:
            return query.exact(self._records)
        self.read(source)  # which is measured next, or which others are computed from, too
        return np.array(query.derived(self._held(source)))

    def _scores(self, query: PairSigns) -> Any:
        """Return sizes of scores, which selections use up; they take the place of the sums."""
        records, scores = self._state.scores.get(query, (None, None))
        if records is not self._records:
            self.read(query)
            sums = self._state.sums.pop(query)[1]
            scores = np.abs(sums, out=sums)
            self._state.scores[query] = self._records, scores
        return scores


class Reserve:
    """A charge that pays for several queries; `Session.reserve` makes one."""

    def __init__(self, session: Session, charged: Fraction, usual: tuple[int, ...]) -> None:
        self._session, self._left, self._usual = session, charged, usual
        self._part = session._state.budget.charges[-1][0]

    def measure(
        self, query: Query, deviations: tuple[int, ...] | None = None, *, of: Session | None = None
    ) -> Noisy:
        """Return the integers of a query with this noise, as long as that was paid for.

        `of` is a view of the session, where the query is not of its own records.
        """
        _check_own(type(query))
        of = self._session if of is None else of
        if of._state is not self._session._state:
            raise PrivacyConditionError(
                "a reserve must pay for queries of its own session: this is a mistake in the "
                "mechanism, and nothing more was released."
            )
        used = self._usual if deviations is None else deviations
        loss = query.loss(used, self._session.relation)
        _check_loss(loss, self._left)
        self._left -= loss
        self._session._note(query, used, self._part)
        return Noisy(of._noised(query, used), used, query.unit)


class Selections:
    """A charge that pays for selections; `Session.reserve_selections` makes one."""

    def __init__(self, session: Session, charged: BoundedRange, rate: float) -> None:
        self._session, self._eta, self._left, self._rate = session, charged.eta, charged.count, rate
        self._part = session._state.budget.charges[-1][0]

    def select(self, query: ScoreQuery, count: int) -> IntArray:
        """Return the places of so many of the largest scores, as long as that was paid for."""
        _check_own(type(query))
        session, rate = self._session, self._rate
        _check_paid(session.selection_range(query, rate) <= self._eta and count <= self._left)
        self._left -= count
        session._note(query, (rate,), self._part)
        session.read(query.source)
        scores = query.derived(session._held(query.source))
        return gumbel_top(session._state.generator, scores, rate, count)  # proof: screened, step 2


def _check_own(kind: Any) -> None:
    """Refuse queries and views that are not the kernel's own: tests attack every one that is."""
    module = str(kind.__module__)
    if not module.startswith("hushcov.kernel.") and module not in _QUERIES_ELSEWHERE:
        raise PrivacyConditionError(
            f"queries and views must be the kernel's own, got a {kind.__name__}: how far "
            "neighbours differ in it was not tested. Nothing was charged for it."
        )


def _check_loss(loss: Fraction, allowed: Fraction) -> None:
    """Refuse noise that is too small for what was charged, in exact arithmetic."""
    _check_paid(loss <= allowed * _ROUNDED)


def _check_paid(paid: bool) -> None:
    if not paid:
        raise PrivacyConditionError(
            "a query must have as much noise as it is charged for, got one whose neighbours are "
            "further apart: this is a mistake in the mechanism, and nothing more was released."
        )


def unwrap(session: Session) -> tuple[Any, Budget, Entropy]:
    """Return records, budget and entropy, for the few places that a contract lists.

    They are the paper's slice, which draws for its tests itself, and estimators, which make one
    session after another. A test holds the list.
    """
    return session._records, session._state.budget, session._entropy
