"""One session: what is charged, what is drawn, what is held, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.kernel import session as module
from hushcov.kernel import views
from hushcov.kernel.accounting import (
    ADD_REMOVE,
    REPLACE,
    UNSPENT,
    BoundedRange,
    Budget,
    Gaussian,
    Neighbours,
    Pure,
)
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import Entropy
from hushcov.kernel.queries import (
    BoundedSums,
    CompleteRows,
    Gram,
    NormCounts,
    PairSigns,
    RowCount,
    ScoreQuery,
    SignedOctaves,
    SignSums,
    UnitGram,
)
from hushcov.kernel.records.base import CentredRecords, Records
from hushcov.kernel.session import Session
from hushcov.kernel.transforms import Transform, Transforms
from hushcov.tables.sources import ArrayRecords
from hushcov_lab.peers.queries import PairEntry, RowScores
from sessions import ample, seeded, session_of
from statistics_helpers import FALSE_ALARM, normal_p_value

X = np.random.default_rng(0).standard_normal((400, 4))
GRID = FeatureGrid(np.ones(4), 8.0, 100)
EDGES = tuple(range(0, 9000, 500))
ABOUT = np.zeros(4), np.zeros(4), np.arange(4)
OCTAVES = SignedOctaves(*ABOUT)


@pytest.fixture
def passes(monkeypatch):
    """How often records are read, and with how many numbers."""
    seen, total = [], Records.map_sum
    monkeypatch.setattr(Records, "map_sum", lambda *a: seen.append(a) or total(*a))
    return seen


def events(monkeypatch):
    """Charges, passes and draws in their order."""
    seen = []
    for name in ("gaussian", "select", "fixed"):
        spend = getattr(Budget, name)
        monkeypatch.setattr(
            Budget, name, lambda *a, _n=name, _s=spend: (_s(*a), seen.append(("charge", _n)))[0]
        )
    for name in ("rounded_normal", "symmetric_noise", "gumbel_top", "discrete_laplace"):
        draw = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, _n=name, _d=draw: (seen.append(("draw", _n)), _d(*a))[1]
        )
    return seen


def test_every_charge_comes_before_its_draw(monkeypatch):
    seen, session = events(monkeypatch), session_of(X, ample(selects=True))
    session.expect(10, 0.3)
    scores = PairSigns(4)
    session.measure(Gram(GRID, 300), 0.1)
    session.measure(OCTAVES, 0.1)
    session.measure_in_strips(scores, 0.1, lambda *_: None)
    session.select(scores, 2, 1e-3)
    session.total(0.1)
    session.reserve(0.1, 1000).measure(OCTAVES)
    names = [kind for kind, _ in seen]
    assert names == ["charge", "draw"] * (len(names) // 2)
    counting = Session(ArrayRecords(X), Budget(0.5, 0.0, fixed=[Pure(0.5)], mu=0.0), seeded())
    counting.count(RowCount(1), 0.5, "rows")
    assert seen[-2:] == [("charge", "fixed"), ("draw", "discrete_laplace")]


def test_nothing_is_drawn_that_the_budget_has_no_room_for(monkeypatch):
    seen, session = events(monkeypatch), session_of(X, Budget(3.0, 1e-6, mu=0.3))
    with pytest.raises(PrivacyConditionError, match="no room left"):
        session.measure(OCTAVES, 0.31)
    assert seen == []
    assert session.transcript == ()


def test_noise_that_is_too_small_is_refused(monkeypatch):
    seen, session = events(monkeypatch), session_of(X)
    query = OCTAVES
    (least,) = query.deviations(0.5, session.relation)
    assert Fraction(8, least**2) <= Fraction(1, 4) < Fraction(8, (least - 1) ** 2)
    with pytest.raises(PrivacyConditionError, match="as much noise as it is charged for"):
        session.measure(query, 0.5, deviations=(least - 1,))
    assert ("draw", "rounded_normal") not in seen
    assert session.measure(query, 0.5, deviations=(least,)).deviations == (least,)


@pytest.mark.parametrize(
    "query",
    [Gram(GRID, 10**6), Gram(GRID, 300), UnitGram(GRID, 300, 2)],
    ids=["wide", "bounded", "units"],
)
def test_noise_that_is_too_small_on_the_diagonal_is_refused(query, monkeypatch):
    """Also where coordinates alone bound the matrix, whose sensitivity forgot the diagonal once."""
    whose = Neighbours(REPLACE, query.rows_per_unit, "patient", combined=True)
    seen, session = events(monkeypatch), session_of(X, Budget(9.0, 1e-6, whose, mu=0.5))
    off, _ = query.deviations(0.4, whose)
    with pytest.raises(PrivacyConditionError, match="as much noise as it is charged for"):
        session.measure(query, 0.4, deviations=(off, off // 2))
    assert ("draw", "symmetric_noise") not in seen


class Foreign(SignedOctaves):
    """A query of somebody else, which says that neighbours do not differ at all."""

    def squared_distance(self, relation):
        return 0


class ForeignCount(RowCount):
    def distance(self, relation):
        return 0


def test_queries_from_outside_the_kernel_are_refused(monkeypatch):
    seen, session = events(monkeypatch), session_of(X, ample(selects=True))
    session.expect(10, 0.3)
    reserve = session.reserve(0.5, 8)
    del seen[:]
    for ask in (
        lambda: session.read(Foreign(*ABOUT)),
        lambda: session.measure(Foreign(*ABOUT), 0.1),
        lambda: session.measure_in_strips(Foreign(*ABOUT), 0.1, print),
        lambda: session.select(type("Pairs", (PairSigns,), {})(4), 2, 1e-3),
        lambda: session.count(ForeignCount(1), 0.5, "rows"),
        lambda: reserve.measure(Foreign(*ABOUT)),
    ):
        with pytest.raises(PrivacyConditionError, match="must be the kernel's own"):
            ask()
    assert seen == []


class Stealing(CentredRecords):
    """A view from outside, which would be given the records."""


def test_views_from_outside_the_kernel_are_refused():
    session, taken = session_of(X), []
    for view in (taken.append, Stealing, partial(Stealing, centre=X[0], reach=X[0])):
        with pytest.raises(PrivacyConditionError, match="must be the kernel's own"):
            session.view(view)
    assert taken == []


def test_a_reserve_is_for_as_many_queries_as_were_charged():
    session = session_of(X)
    reserve = session.reserve(0.5, 8)  # for squares of 16: four histograms twice
    first, second = (reserve.measure(OCTAVES).integers for _ in range(2))
    assert not np.array_equal(first, second)
    with pytest.raises(PrivacyConditionError, match="charged for"):
        reserve.measure(CompleteRows())
    lines = [(each.query, each.cost, each.noise) for each in session.transcript]
    assert lines == [("Reserve", 0.25, (8,))] + 2 * [("SignedOctaves", 0.0, (8,))]


def test_a_reserve_pays_for_noise_of_several_deviations():
    session = session_of(X)
    query, matrix = OCTAVES, Gram(GRID, 300)
    noise = query.deviations(0.3, session.relation), matrix.deviations(0.4, session.relation)
    reserve = session.reserve(0.5, name="both")
    found = [reserve.measure(*each) for each in zip((query, matrix), noise, strict=True)]
    assert [each.deviations for each in found] == list(noise)
    assert [each.noise for each in session.transcript] == [(), *noise]
    again = session.reserve(0.5)
    again.measure(query, noise[0])
    with pytest.raises(PrivacyConditionError, match="charged for"):
        again.measure(matrix, tuple(each - each // 20 for each in noise[1]))


class Sizes(ScoreQuery):
    """Scores of somebody else, which say that neighbours do not differ at all."""

    source = BoundedSums(GRID, 300)

    def derived(self, sums):
        return np.abs(sums)

    def score_distance(self, relation):
        return 0


def selecting(n, scores, rate):
    """A session whose budget has room for so many selections by such scores."""
    eta = session_of(X).selection_range(scores, rate)
    event = BoundedRange(eta, n)
    session = session_of(X, Budget(200.0, 1e-6, fixed=[event], mu=0.5, private=False))
    return session, session.reserve_selections(event, rate, "partners")


def test_one_charge_pays_for_as_many_selections_as_were_certified(monkeypatch):
    gram = Gram(GRID, 10**6)
    scores = [RowScores(gram, row) for row in range(4)]
    session, selections = selecting(3, scores[0], 1e-3)
    seen = events(monkeypatch)
    exact = np.abs(gram.exact(ArrayRecords(X)))
    for row in (0, 2):
        (found,) = selections.select(scores[row], 1)
        assert found == np.argmax(np.delete(exact[row], row))
    with pytest.raises(PrivacyConditionError, match="charged for"):
        selections.select(scores[1], 2)
    assert seen == 2 * [("draw", "gumbel_top")]
    lines = [(each.query, each.part, each.noise) for each in session.transcript]
    assert lines == [(n, "partners", (1e-3,)) for n in ("Selections", "RowScores", "RowScores")]
    wider = RowScores(Gram(FeatureGrid(np.ones(4), 8.0, 2 * GRID.half_width), 10**6), 0)
    with pytest.raises(PrivacyConditionError, match="charged for"):
        selections.select(wider, 1)
    with pytest.raises(PrivacyConditionError, match="must be the kernel's own"):
        selections.select(Sizes(), 1)
    with pytest.raises(PrivacyConditionError, match="not certified"):
        session.reserve_selections(BoundedRange(1e-9, 1), 1e-3, "more")
    assert len(seen) == 2


def test_queries_that_share_a_source_read_the_records_once(passes):
    session, gram = session_of(X), Gram(GRID, 10**6)
    first, second = PairEntry(gram, 0, 1), PairEntry(gram, 2, 3)
    session.read(gram)
    exact = gram.exact(ArrayRecords(X))
    n = len(passes)
    noisy = [session.measure(query, 3.0).integers[0] for query in (first, second, first)]
    assert len(passes) == n
    assert noisy[0] != noisy[2]
    assert np.array_equal(session._held(gram), exact)  # as it was
    sd = first.deviations(3.0, session.relation)[0]
    assert np.abs(noisy - exact[[0, 2, 0], [1, 3, 1]]).max() < 10 * sd


def test_a_reserve_pays_for_views_of_its_own_session():
    session, query = session_of(X), OCTAVES
    far = session.view(views.centred(np.full(4, 100.0), np.full(4, 1.0)))
    reserve = session.reserve(3.0, 4)
    found = [reserve.measure(query, of=each).integers for each in (None, session, far)]
    away = [np.abs(each - query.exact(ArrayRecords(X))).max() for each in found]
    assert away[0] < 50 > away[1]
    assert away[2] > 100
    with pytest.raises(PrivacyConditionError, match="queries of its own session"):
        reserve.measure(query, of=session_of(X))


def test_the_transcript_is_what_the_parts_are_made_of():
    session = session_of(X, ample(selects=True))
    session.expect(10, 0.3)
    scores = PairSigns(4)
    session.measure(Gram(GRID, 300), 0.1, "a matrix")
    session.measure(OCTAVES, 0.2, "scales")
    session.select(scores, 2, 1e-3, "pairs")
    session.total(0.1, "pairs")
    session.measure(NormCounts(GRID, EDGES), 0.3, "scales")
    entries = session.transcript
    assert [each.query for each in entries] == [
        *("Gram", "SignedOctaves", "PairSigns", "SelectedTotal", "NormCounts")
    ]
    assert all(each.noise for each in entries)
    spent = {}
    for entry in entries:
        spent[entry.part] = spent.get(entry.part, 0.0) + entry.cost
    parts = dict(session.parts)
    assert list(parts) == [*spent, UNSPENT]
    for part, time in spent.items():
        (event,) = parts[part]
        assert event.mu == np.sqrt(time)
    assert sum(spent.values()) + session.remaining <= ample(selects=True).mu ** 2


def test_events_beside_the_clock_are_parts_too():
    budget = Budget(0.5, 0.0, fixed=[Pure(0.25), Pure(0.25)], mu=0.0)
    session = Session(ArrayRecords(X), budget, seeded())
    session.count(RowCount(1), 0.25, "rows")
    assert [(each.part, each.cost) for each in session.transcript] == [("rows", Pure(0.25))]
    assert session.parts == (("rows", (Pure(0.25),)), (UNSPENT, (Pure(0.25),)))


def test_several_queries_are_one_pass(passes):
    session = session_of(X)
    signs, norms, sums = SignSums(4), NormCounts(GRID, EDGES), BoundedSums(GRID, 300)
    found = session.measure_together((signs, 0.1, "s"), (norms, 0.1, "n"), (sums, 0.1, "b"))
    assert len(passes) == 1
    alone = [session_of(X) for _ in range(3)]
    for noisy, query, own in zip(found, (signs, norms, sums), alone, strict=True):
        (expected,) = query.deviations(0.1, own.relation)
        assert noisy.deviations == (expected,)
        exact = query.exact(ArrayRecords(X))
        assert (np.abs(noisy.integers - exact) < 10 * expected).all()
        assert noisy.integers.shape == exact.shape
    assert [each.part for each in session.transcript] == ["s", "n", "b"]


def test_what_is_held_is_of_the_same_records_and_as_long_as_its_query(passes):
    session, query = session_of(X), BoundedSums(GRID, 300)
    session.read(query)
    session.read(query)
    session.measure(query, 0.1)
    assert len(passes) == 1
    other = session.view(views.centred(np.ones(4), np.full(4, 3.0)))
    own = other.measure(query, 3.0).integers
    assert len(passes) > 1
    assert (np.abs(own - query.exact(ArrayRecords(X - 1))) < 5000).all()
    del query
    assert len(session._state.sums) == 0


def test_released_numbers_do_not_change_what_is_held():
    session, query = session_of(X), NormCounts(GRID, EDGES)
    session.read(query)
    exact = query.exact(ArrayRecords(X))
    for _ in range(2):
        session.measure(query, 0.5).integers[:] = 0
    assert np.array_equal(session._held(query), exact)


def test_a_count_of_complete_records_reads_the_octaves_that_follow(passes):
    rows = X.copy()
    rows[::7, 1] = np.nan
    session = session_of(ArrayRecords(rows).with_gaps()).view(views.complete())
    octaves = SignedOctaves(np.zeros(4), np.zeros(4), np.arange(4))
    noisy = session.measure(CompleteRows(octaves), 3.0)
    assert abs(int(noisy.integers[0]) - (400 - 58)) <= 5
    n = len(passes)
    session.measure(octaves, 1.0)
    assert len(passes) == n
    alone = session_of(ArrayRecords(rows).with_gaps()).measure(CompleteRows(), 3.0)
    assert alone.integers == noisy.integers


def test_selections_leave_out_what_was_selected_and_total_the_last():
    session = session_of(X, ample(selects=True))
    session.expect(10, 0.3)
    scores = PairSigns(4)
    first, second = (session.select(scores, 3, 1e-2) for _ in range(2))
    assert sorted([*first, *second]) == list(range(6))
    exact = np.abs(scores.exact(ArrayRecords(X)))[second].sum()
    noisy = session.total(3.0)
    assert abs(int(noisy.integers[0]) - exact) < 10 * noisy.sd
    with pytest.raises(ParameterError):
        session.select(scores, 1, 1e-2)


def test_transforms_from_outside_the_kernel_are_refused():
    """One with a `mapped` of its own could let a row depend on others."""

    class Ranked(Transform):
        def mapped(self, x, xp):
            return xp.argsort(xp.argsort(x))

    with pytest.raises(PrivacyConditionError, match="one of the kernel's"):
        Transforms((None, Ranked("rank")))


def test_views_share_the_budget_and_bounded_units_are_no_longer_known():
    from hushcov.kernel.records.units import Units

    session = session_of(
        X, neighbours=Neighbours(ADD_REMOVE, 3, "p"), units=Units(np.arange(400) // 4)
    )
    other = session.bounded(3)
    assert session.has_units
    assert not other.has_units
    other.measure(OCTAVES, 1.0)
    assert len(session.transcript) == 1
    assert session.remaining == other.remaining
    assert other.relation.most_rows == 3
    assert isinstance(session.guarantee.events[0], Gaussian)


def test_only_entropy_of_one_release_is_taken():
    with pytest.raises(ParameterError, match="entropy must be"):
        Session(ArrayRecords(X), ample(), np.random.default_rng(0))
    assert not Session(ArrayRecords(X), ample(), Entropy(np.random.default_rng(0), False)).private


UPPER = np.triu_indices(4, 1)
# Of a query: entries that have noise of their own.
LAWS = {"rounded": (OCTAVES, ...), "symmetric": (Gram(GRID, 300), UPPER)}


@pytest.mark.parametrize("name", LAWS)
def test_what_is_measured_is_exact_but_for_noise_of_the_deviation_that_is_said(name):
    """False-alarm rate 1e-6 for mean and variance; a deviation wrong by a tenth is noticed."""
    query, own = LAWS[name]
    session, exact, noise = session_of(X), query.exact(ArrayRecords(X)), []
    for _ in range(400):
        noisy = session.measure(query, 0.01)
        noise.append((noisy.integers - exact)[own].ravel() / noisy.deviations[0])
    z = np.concatenate(noise)
    size = len(z)
    assert size >= 2_400

    def p_values(z):
        squares = (z**2).sum()
        spread = 2 * min(stats.chi2(size).cdf(squares), stats.chi2(size).sf(squares))
        return spread, normal_p_value(z.mean() * np.sqrt(size))

    assert min(p_values(z)) > FALSE_ALARM
    assert p_values(1.1 * z)[0] < FALSE_ALARM
    assert p_values(z / 1.1)[0] < FALSE_ALARM
    assert p_values(z + 0.2)[1] < FALSE_ALARM
