"""Screening inside candidates that are known: the same scores, picks and noise, of them alone."""

from __future__ import annotations

import dataclasses
import itertools
import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcov.accounting import ONE_REPLACED
from hushcov.candidates import Candidates
from hushcov.mechanisms.screened.mechanism import release_screened, select_pairs
from hushcov.mechanisms.screened.room import plan_screened
from hushcov.mechanisms.screened.values import (
    CentredSigns,
    ScreenLevel,
    SignScreen,
    level_sizes,
    screened_parameters,
)
from hushcov.tables.sources import ArrayRecords
from mechanisms.screened.settings import DESIGN, inputs_of, parameters_of, seeded
from mechanisms.screened.test_selection import draw, literal_law, p_value, records_with, with_levels
from mechanisms.screened.test_sensitivity import neighbours
from statistics_helpers import FALSE_ALARM

TILT = (0, 300, -1023, 1023, 7, -512)


def every_pair(d):
    return Candidates.of_pairs(d, *np.triu_indices(d, 1))


def told(parameters, candidates):
    return dataclasses.replace(
        parameters, inputs=dataclasses.replace(parameters.inputs, candidates=candidates)
    )


def every_screen(d):
    return [SignScreen(), CentredSigns(TILT[:d])]


@st.composite
def lists_of_pairs(draw, d):
    every = list(itertools.combinations(range(d), 2))
    kept = draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    rows, columns = np.array(kept, dtype=np.int64).reshape(-1, 2).T
    return Candidates.of_pairs(d, rows, columns)


@settings(deadline=None, max_examples=40)
@given(tables=neighbours(), data=st.data())
def test_scores_are_those_of_all_pairs_and_move_by_no_more(tables, data):
    """For any records, scales and candidates, in integers: no tolerance is involved."""
    first, second, scale = tables
    d = len(scale)
    candidates = data.draw(lists_of_pairs(d))
    rows, columns = candidates.pairs
    for screen in every_screen(d):
        whole = np.zeros((d, d), dtype=np.int64)
        whole[np.triu_indices(d, 1)] = screen.scores(first)
        found = screen.scores(first, candidates)
        np.testing.assert_array_equal(found, whole[rows, columns])
        moved = np.abs(screen.scores(second, candidates) - found)
        assert moved.max(initial=0) <= screen.sensitivity(ONE_REPLACED)


def test_candidates_that_are_all_pairs_change_no_bit():
    d = 12
    X = np.random.default_rng(1).standard_normal((400, d))
    parameters = parameters_of(400, d, 3)
    assert parameters.levels
    first, second = (
        release_screened(ArrayRecords(X), np.ones(d), each, seeded(5), sparse=True)
        for each in (parameters, told(parameters, every_pair(d)))
    )
    np.testing.assert_array_equal(first.selected, second.selected)
    np.testing.assert_array_equal(first.integers.toarray(), second.integers.toarray())
    assert first.guarantee == second.guarantee


def test_the_law_of_a_selection_among_candidates():
    """False-alarm rate 1e-6; a selection among all pairs, and other rates, are noticed."""
    X, levels = records_with((0, 1, 3, 6)), (ScreenLevel(1, 0.25), ScreenLevel(1, 0.6))
    band = Candidates.band(4, 1)
    inside = [0, 3, 5]  # places of these pairs among all
    scores = SignScreen().scores(ArrayRecords(X))[inside]
    law = {
        frozenset(inside[each] for each in chosen): p
        for chosen, p in literal_law(scores, levels).items()
    }
    drawn = draw(X, told(with_levels(16, levels), band), 500)
    assert p_value(drawn, law) > FALSE_ALARM
    assert p_value(draw(X, with_levels(16, levels), 100), law) < FALSE_ALARM
    faster = tuple(ScreenLevel(each.size, 3 * each.rate) for each in levels)
    other = told(with_levels(16, faster), band)
    assert p_value(draw(X, other, 500), law) < FALSE_ALARM


def test_all_candidates_use_no_data_and_no_noise():
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError(name)

    band = Candidates.band(9, 2)
    inputs = dataclasses.replace(inputs_of(50, 9, 5), candidates=band)
    parameters = screened_parameters(inputs, DESIGN)
    assert parameters.levels == ()
    assert parameters.n_pairs == band.n_pairs == 15
    found = select_pairs(Untouchable(), parameters, Untouchable())
    np.testing.assert_array_equal(found, band.pairs)
    none = dataclasses.replace(inputs, candidates=Candidates.band(9, 0), row_sparsity=1)
    assert screened_parameters(none, DESIGN).n_pairs == 0


def test_nothing_is_as_large_as_all_pairs():
    d = 20_000
    X = np.random.default_rng(0).standard_normal((40, d))
    inputs = dataclasses.replace(inputs_of(40, d, 2), candidates=Candidates.band(d, 2))
    parameters = screened_parameters(inputs, DESIGN, certified=False)
    inputs = dataclasses.replace(inputs, epsilon=10.0, delta=0.1)
    parameters = dataclasses.replace(parameters, inputs=inputs)
    assert parameters.levels
    tracemalloc.start()
    release = release_screened(ArrayRecords(X), np.ones(d), parameters, seeded(1), sparse=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < d * d / 4  # bytes
    assert release.selected.shape == (2, parameters.n_pairs)


def test_fewer_are_selected_where_fewer_can_be_nonzero():
    """Levels fit into the candidates, whatever was declared."""
    band = Candidates.band(200, 30)
    few, most = (dataclasses.replace(inputs_of(10**5, 200, k), candidates=band) for k in (3, 61))
    assert sum(level_sizes(few, DESIGN)) == round(1.2 * 200)
    assert level_sizes(most, DESIGN) == ()


def test_the_planner_screens_a_wide_band_and_releases_a_narrow_one():
    """And expects less of all pairs than of the candidates among which the same are found."""
    wide = dataclasses.replace(inputs_of(30_000, 400, 3), candidates=Candidates.band(400, 60))
    plan = plan_screened(wide, short=True)
    assert plan.parameters.levels
    narrow = dataclasses.replace(wide, candidates=Candidates.band(400, 1))
    assert plan_screened(narrow, short=True).parameters.levels == ()
    all_pairs = plan_screened(dataclasses.replace(wide, candidates=None), short=True)
    assert plan.predicted_error["banded"] < all_pairs.predicted_error["banded"]
