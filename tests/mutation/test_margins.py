"""Margins, ends of arrays and refusals that the last fresh sample of planted faults reached."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov.exceptions import LedgerError, ParameterError
from hushcov.kernel.accounting import Gaussian
from hushcov.kernel.accounting import composition as filters
from hushcov.kernel.accounting import ledger as ledgers
from hushcov.kernel.accounting.composition import (
    CLOCK_ROUNDING,
    ROUNDING,
    EmbeddedCurve,
    renyi_epsilon,
)
from hushcov.kernel.accounting.events import Parts
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import gumbel
from hushcov.kernel.sums import products
from hushcov.kernel.sums.products import ProductMap
from hushcov.ledger import Ledger
from hushcov.tables.sources import ArrayRecords

# Accounts


def test_gaussians_that_bound_the_time_of_all_steps_are_rounded_up():
    curve, lates = EmbeddedCurve(Parts(gaussian=0.3, bounded_range=((0.1, 5),))), [1e-9, 1e-7, 1e-5]
    for mu, root in zip(curve._mus(lates), curve.roots_exceeded_with(lates), strict=True):
        assert mu >= math.hypot(0.3, root) * (1 + 0.9 * CLOCK_ROUNDING)


@pytest.mark.parametrize("mu", [0.05, 0.4, 2.0])
def test_a_ledger_that_has_spent_all_but_a_rounding_is_full(mu):
    parts, delta, orders = Parts(discrete_gaussian=mu), 1e-5, filters._ORDERS
    nothing, spent = (renyi_epsilon(p, orders, filters.RENYI * delta) for p in (Parts(), parts))
    total = 1.0
    for _ in range(100):  # what is spent at the order of this total
        total = float(spent[np.argmax((total - nothing) / orders)]) * (1 + 0.5 * ROUNDING)
    assert total == spent[np.argmax((total - nothing) / orders)] * (1 + 0.5 * ROUNDING)
    assert filters._renyi(parts, total, delta).epsilon > total
    room = total * (1 + ROUNDING)
    assert filters._renyi(parts, room, delta).epsilon <= room


def test_an_interrupt_before_a_charge_is_told_that_nothing_was_charged(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    ledger = Ledger(tmp_path / "a.ledger")
    ledger.open_dataset("people", epsilon=1.0, delta=1e-6)
    monkeypatch.setattr(ledgers, "_known", interrupted)
    with pytest.raises(KeyboardInterrupt) as found:
        ledger.charge("people", Gaussian(0.1), label="a")
    assert any("othing was charged" in note for note in found.value.__notes__)


def test_an_entry_of_an_unknown_kind_is_no_charge(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger")
    ledger.open_dataset("people", epsilon=1.0, delta=1e-6)
    ledger.charge("people", Gaussian(0.1), label="a")
    with ledger._store.reading() as book:
        entry = book.entries[-1]
    assert ledgers._read_entry(entry).charge.events == (Gaussian(0.1),)
    with pytest.raises(LedgerError, match="cannot be read"):
        ledgers._read_entry(replace(entry, kind="refund"))


# Sums and selections


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("wrong", [-2, gumbel.LARGEST_SCORE + 1])
def test_scores_out_of_range_are_refused_in_every_part(place, wrong, monkeypatch):
    monkeypatch.setattr(gumbel, "even_parts", lambda *_: [(0, 2), (2, 4), (4, 6)])
    scores = np.arange(6)
    gumbel._check_scores(scores)
    scores[place] = wrong
    with pytest.raises(ParameterError, match="scores must be integers from 0"):
        gumbel._check_scores(scores)


@pytest.mark.parametrize("half_width", [4095, 4096, 5700])
def test_products_at_the_limit_of_four_bytes_are_added_up(half_width):
    """All records at the limit, on the same side: sums of 128 products are 2**31 and more."""
    n = 300
    records = ArrayRecords(np.full((n, 2), float(half_width)))
    grid = FeatureGrid(np.ones(2), half_width, half_width)
    pair = np.array([0]), np.array([1])
    found = ProductMap(grid, *pair, 1, 1, 0, 2**30, 1, 1, 1)
    assert found.norm_histogram(records).sum() == n
    assert found.sum(records)[:3].tolist() == [n * half_width**2] * 3


def test_runs_of_pairs_end_with_the_list():
    """A pair in memory after the list that would go on with it is no pair."""
    lanes = np.random.default_rng(0).integers(-9, 10, (40, 16)).astype(np.int16)
    left, right = np.zeros(30, dtype=np.int64), np.arange(1, 31)
    for stop in (3, 12, 20):
        squares = np.zeros(16)
        products._fill_squares(lanes, left[:stop], right[:stop], squares)
        y = lanes.astype(np.int64)
        assert squares.tolist() == ((y[0] * y[1 : stop + 1]) ** 2).sum(axis=0).tolist()
