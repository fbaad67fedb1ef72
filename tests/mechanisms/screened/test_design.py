"""Designs: how many pairs each level takes, and how the levels share what the screen spends."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcov.exceptions import ParameterError
from hushcov.mechanisms.screened.values import (
    ScreenedDesign,
    candidate_pairs,
    level_shares,
    level_sizes,
    possible_pairs,
)
from mechanisms.screened.settings import ALL_PAIRS, DESIGN, inputs_of

designs = st.builds(
    ScreenedDesign,
    screen_share=st.floats(0.01, 0.95),
    selection_factor=st.floats(0.01, 10) | st.just(1e6),
    n_levels=st.integers(0, 30),
    size_ratio=st.floats(1e-3, 1e3) | st.just(1e-300),
    noise_ratio=st.floats(1.1e-3, 1e3),
    norm_factor=st.floats(0.1, 10),
    keep_above=st.floats(0, 5),
)
sizes_of_data = st.integers(1, 2000).flatmap(
    lambda d: st.builds(inputs_of, st.just(100), st.just(d), st.integers(1, d))
)


@given(inputs=sizes_of_data, design=designs)
def test_levels_add_up_and_each_selects_something(inputs, design):
    sizes = level_sizes(inputs, design)
    possible, candidates = possible_pairs(inputs), candidate_pairs(inputs)
    wanted = max(possible, round(design.selection_factor * possible))
    if design.n_levels == 0 or possible == 0 or wanted >= candidates:
        assert sizes == ()
        return
    assert sum(sizes) == wanted < candidates
    assert min(sizes) >= 1
    assert len(sizes) == min(design.n_levels, wanted)


@given(inputs=sizes_of_data, design=designs)
def test_shares_add_up_and_none_is_zero(inputs, design):
    sizes = level_sizes(inputs, design)
    shares = level_shares(sizes, design)
    assert len(shares) == len(sizes)
    if sizes:
        assert math.isclose(sum(shares), 1.0, rel_tol=1e-12)
        assert min(shares) > 0


def test_level_sizes_by_hand():
    inputs = inputs_of(100, 100, 5)  # 200 pairs are possible
    design = dataclasses.replace(DESIGN, selection_factor=1.0, n_levels=3, size_ratio=0.5)
    assert level_sizes(inputs, design) == (114, 57, 29)
    design = dataclasses.replace(design, size_ratio=1e-300)
    assert level_sizes(inputs, design) == (198, 1, 1)
    design = dataclasses.replace(design, size_ratio=1e3)
    assert level_sizes(inputs, design) == (1, 1, 198)


@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (50, 1), (2, 2), (7, 7)])
def test_nothing_is_screened_where_no_pair_or_every_pair_is_released(d, k):
    assert level_sizes(inputs_of(10, d, k), DESIGN) == ()
    assert level_sizes(inputs_of(10, d, k), ALL_PAIRS) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"screen_share": 0.0},
        {"screen_share": 0.96},
        {"selection_factor": 0.0},
        {"n_levels": -1},
        {"n_levels": 31},
        {"size_ratio": 0.0},
        {"noise_ratio": 1e-3},  # its 58th power must stay a double
        {"norm_factor": math.inf},
        {"keep_above": -1.0},
        {"keep_above": math.nan},
    ],
)
def test_designs_out_of_range_are_refused(change):
    with pytest.raises(ParameterError, match=next(iter(change))):
        dataclasses.replace(DESIGN, **change)
