"""Every limit that sums, grids, noise and events state: taken at the limit, refused one beyond.

A limit that is one off, or a refusal that is left out, changes no result of usual sizes. So each
stands here with both of its sides.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from hushcov._validation import check_feature_scale
from hushcov.exceptions import HushcovError
from hushcov.kernel.accounting import (
    Approximate,
    BoundedRange,
    Budget,
    Clocked,
    DiscreteGaussian,
    Gaussian,
    OneShotLaplace,
    Pure,
    TotalVariation,
)
from hushcov.kernel.accounting.events import readings
from hushcov.kernel.accounting.ledger import _check_budget, _check_name
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.noise import discrete_laplace, entropy_source, gumbel_top, rounded_normal
from hushcov.kernel.sums import products
from hushcov.kernel.sums.bounded import bounded_sums_of, fourth_sums_of, unit_means
from hushcov.kernel.sums.counts import cell_counts, norm_counts_of, signed_octaves
from hushcov.kernel.sums.gram import unit_bounded_gram, unit_norm_histogram
from hushcov.kernel.sums.products import MOST_PRODUCTS, ProductMap
from hushcov.ledger import Ledger

ONE, TINY = np.ones(1), 5e-324
ABOVE, BELOW = (lambda x: math.nextafter(x, math.inf)), (lambda x: math.nextafter(x, 0.0))


def grid(half_width, n_features=1, radius=8.0):
    return FeatureGrid(np.ones(n_features), radius, half_width)


def rows(n_rows, n_features=1):
    """Stand in for records: sums are returned instead of made."""
    given = {"n_rows": n_rows, "n_records": n_rows, "n_features": n_features}
    return SimpleNamespace(**given, map_sum=lambda sums: sums, map_sum_complete=lambda sums: sums)


def products_of(half_width=1, pairs=((), ()), n_features=1, **changed):
    left, right = (np.array(side, dtype=np.int64) for side in pairs)
    usual = {"pair_weight": 0, "diagonal_weight": 0, "centre": 0, "norm_bound": 9}
    usual |= {"factor_range": 1, "size_range": 1, "size_cap": 1}
    return ProductMap(grid(half_width, n_features), left, right, **usual | changed)


def cells(column=0, starts=0.0, widths=1.0, firsts=0.0, n_cells=3):
    """Count two columns; what is given is of the second one, as one that is wrong is enough."""
    given = (np.array(each) for each in ((0.0, starts), (1.0, widths), (0.0, firsts)))
    return cell_counts(rows(5, 2), np.array([1, column]), *given, n_cells)


def drawn(draw, *given):
    return draw(entropy_source().generator, *given)


def selected(rate=1.0, count=1, scores=(3, 4, -1)):
    return drawn(gumbel_top, np.array(scores), rate, count)


WEIGHT = math.isqrt(2**53 - 1)  # the largest whose square is below 2**53

# What is called, arguments that are taken, and arguments that are not.
LIMITS = {
    "sigma of noise": (lambda s: drawn(rounded_normal, s, 1), (1, 2**40), (0, 2**40 + 1)),
    "number of draws": (lambda n: drawn(rounded_normal, 1, n), (0, 1), (-1,)),
    "scale of Laplace noise": (lambda s: drawn(discrete_laplace, s, 1), (1,), (0,)),
    "number of Laplace draws": (lambda n: drawn(discrete_laplace, 1, n), (0, 1), (-1,)),
    "rate": (lambda r: selected(rate=r), (1e-300, 1e100), (0.0, ABOVE(1e100))),
    "items that are selected": (lambda c: selected(count=c), (0, 1, 2), (-1, 3)),
    "Gaussian": (Gaussian, (TINY, 1e300), (0.0, -1.0, math.inf)),
    "DiscreteGaussian": (DiscreteGaussian, (TINY,), (0.0, -1.0)),
    "Pure": (Pure, (TINY,), (0.0, -1.0)),
    "BoundedRange": (lambda n: BoundedRange(0.1, n), (1, 10**100), (0, 10**100 + 1)),
    "BoundedRange, eta": (lambda eta: BoundedRange(eta, 1), (TINY,), (0.0,)),
    "Approximate": (lambda delta: Approximate(1.0, delta), (TINY, BELOW(1.0)), (0.0, 1.0)),
    "TotalVariation": (TotalVariation, (TINY, BELOW(1.0)), (0.0, 1.0)),
    "Clocked": (lambda late: Clocked(1.0, late), (TINY, BELOW(1.0)), (0.0, 1.0)),
    "Clocked, mu": (lambda mu: Clocked(mu, 0.1), (TINY,), (0.0,)),
    "candidates": (lambda n: OneShotLaplace(1.0, 1.0, 1, n), (1, 2), (0,)),
    "selected": (lambda k: OneShotLaplace(1.0, 1.0, k, 5), (1, 5), (0, 6)),
    "target_delta": (
        lambda delta: OneShotLaplace(1.0, 1.0, 1, 5, delta),
        (TINY, 0.05),
        (0.0, ABOVE(0.05)),
    ),
    "events": (lambda n: readings((Pure(1.0),) * n), (1, 2), (0,)),
    "losses": (lambda mu: readings((Gaussian(mu),)), (9.9e49,), (1.01e50,)),
    "pure losses": (lambda epsilon: readings((Pure(epsilon),)), (9.9e99,), (1e100,)),
    "deltas": (lambda d: readings((Approximate(1.0, 0.5), Approximate(1.0, d))), (0.49,), (0.5,)),
    "mu of a step": (
        lambda mu: Budget(1.0, 1e-6, mu=0.125).gaussian(mu),
        (0.125,),
        (ABOVE(0.125), 0.0),
    ),
    "names": (lambda n: _check_name("label", n), ("a", "a" * 200), ("", "a" * 201, " a", "a\n", 3)),
    "delta of a ledger": (
        lambda delta: _check_budget("a", 1.0, delta),
        (0.0, ABOVE(1e-300), 0.1),
        (-1e-9, 1e-300, ABOVE(0.1)),
    ),
    "epsilon of a ledger": (lambda e: _check_budget("a", e, 0.0), (TINY,), (0.0, -1.0)),
    "whom a ledger protects": (
        lambda whom: _check_budget("a", 1.0, 0.0, *whom),
        (("replace", "a"), ("add-remove", "b")),
        (("remove", "a"), ("replace", ""), ("replace", "a" * 61), ("replace", "a\nb"), (None, "a")),
    ),
    "patience of a ledger": (lambda t: Ledger("a", timeout=t), (TINY, 1e6), (0.0, ABOVE(1e6))),
    "path of a ledger": (Ledger, ("a",), (3, "a\0b", None)),
    "radius of an integer grid": (
        lambda radius: IntegerGrid(radius, 5),
        (ABOVE(1e-100), 1e100),
        (1e-100, ABOVE(1e100)),
    ),
    "steps of an integer grid": (
        *(lambda h: IntegerGrid(1.0, h), (1, 32767, 32768, 32767 << 30), (0, (32767 << 30) + 1)),
    ),
    "records of an integer grid": (lambda n: IntegerGrid.for_records(1.0, n), (1, 2**62), (0,)),
    "radius of a grid": (
        lambda r: grid(5, radius=r),
        (ABOVE(1e-6), 1e6),
        (1e-6, ABOVE(1e6), math.nan),
    ),
    "steps of a grid": (grid, (1, 2**20), (0, 2**20 + 1, 1.5)),
    "scales": (
        lambda scale: check_feature_scale([1.0, scale], 2),
        (0.0, 1e-100, 1e100),
        (BELOW(1e-100), ABOVE(1e100), -1.0, math.nan),
    ),
    "features of a grid": (lambda d: bounded_sums_of(rows(9, d), grid(5, 2), 3), (2,), (1, 3)),
    "features of a grid, fourth powers": (
        lambda d: fourth_sums_of(rows(9, d), grid(5, 2), 3, 4),
        (2,),
        (1, 3),
    ),
    "features of a grid, means": (
        lambda d: unit_means(rows(9, d), grid(5, 2), 3, 1, 2),
        (2,),
        (1, 3),
    ),
    "features of a grid, products": (
        lambda d: products_of(n_features=2).sums_of(rows(9, d)),
        (2,),
        (1, 3),
    ),
    "features of a grid, units": (
        lambda d: unit_bounded_gram(rows(9, d), grid(5, 2), 3, 2),
        (2,),
        (1, 3),
    ),
    "norms that are exact": (
        lambda d: norm_counts_of(rows(9, d), grid(2**20, d), (1,)),
        (2**13 - 1,),
        (2**13,),
    ),
    "norms of sums that are exact": (
        lambda d: bounded_sums_of(rows(9, d), grid(2**20, d), 5),
        (2**13 - 1,),
        (2**13,),
    ),
    "norms of units that are exact": (
        lambda d: unit_bounded_gram(rows(9, d), grid(2**20, d), 5, 2),
        (2**13 - 1,),
        (2**13,),
    ),
    "norms of units that are counted": (
        lambda d: unit_norm_histogram(rows(9, d), grid(2**20, d), 2),
        (2**13 - 1,),
        (2**13,),
    ),
    "records of units": (
        lambda n: unit_bounded_gram(rows(n), grid(2**15), 5, 2),
        (2**33 - 1,),
        (2**33,),
    ),
    "records of units that are counted": (
        lambda n: unit_norm_histogram(rows(n), grid(2**15), 2),
        (2**33 - 1,),
        (2**33,),
    ),
    "bound of units": (lambda bound: unit_bounded_gram(rows(9), grid(5), bound, 2), (1,), (0,)),
    "norm bound": (lambda bound: bounded_sums_of(rows(9), grid(5), bound), (1,), (0, None)),
    "records of sums": (lambda n: bounded_sums_of(rows(n), grid(2**20), 5), (2**42,), (2**42 + 1,)),
    "norm bound of fourth powers": (lambda b: fourth_sums_of(rows(9), grid(5), 0, b), (1,), (0,)),
    "bits of fourth powers": (lambda b: fourth_sums_of(rows(9), grid(5), b, 1), (0, 52), (-1, 53)),
    "fourth powers": (lambda b: fourth_sums_of(rows(9), grid(5), 30, b), (2**23 - 1,), (2**23,)),
    "squares of fourth powers": (
        lambda d: fourth_sums_of(rows(9, d), grid(5, d), 0, 2**26),
        (1,),
        (2,),
    ),
    "records of fourth powers": (
        lambda n: fourth_sums_of(rows(n), grid(5), 9, 2**10),
        (2**52,),
        (2**52 + 1,),
    ),
    "records of means": (
        lambda n: unit_means(rows(n), grid(2**20), 3, 1, 2),
        (2**42,),
        (2**42 + 1,),
    ),
    "range beside means": (
        lambda most: unit_means(rows(9), grid(1), 3, most, 4),
        (2**60,),
        (2**60 + 1,),
    ),
    "columns": (lambda i: signed_octaves(rows(1, 3), ONE, ONE, np.array([i])), (0, 2), (-1, 3)),
    "what is nothing": (
        lambda x: signed_octaves(rows(1, 3), ONE, ONE * x, [1]),
        (0.0, math.inf),
        (-1.0, math.nan),
    ),
    "centres": (
        lambda x: signed_octaves(rows(1, 3), ONE * x, ONE, [1]),
        (-1e308,),
        (math.inf, math.nan),
    ),
    "columns of cells": (lambda i: cells(column=i), (0, 1), (-1, 2)),
    "cells": (lambda n: cells(n_cells=n), (1, 2**30), (0, 2**30 + 1)),
    "widths": (lambda width: cells(widths=width), (TINY,), (0.0, -1.0, math.inf)),
    "first cells": (
        lambda first: cells(firsts=first),
        (2.0**52, -(2.0**52)),
        (2.0**52 + 1, -(2.0**52) - 1, 0.5, math.nan),
    ),
    "starts": (lambda start: cells(starts=start), (-1e308,), (math.inf, math.nan)),
    "edges of norms": (
        lambda edges: norm_counts_of(rows(9), grid(5), edges),
        ((0, 1), (2**53 - 2, 2**53 - 1), ()),
        ((-1, 0), (0, 1, 1), (2, 1), (1, 2**53)),
    ),
    "rows of a unit": (lambda m: products_of(rows_per_unit=m), (1, 2), (0,)),
    "means of one row": (
        lambda m: products_of(rows_per_unit=m, means=np.zeros(1, np.int64)),
        (2,),
        (1,),
    ),
    "means": (
        lambda n: products_of(rows_per_unit=2, means=np.zeros(n, np.int64)),
        (1,),
        (0, 2),
    ),
    "factors of units": (
        lambda most: products_of(rows_per_unit=4, factor_range=most),
        (0, 2**60 - 1),
        (-1, 2**60),
    ),
    "sizes of units": (
        lambda most: products_of(rows_per_unit=4, size_range=most),
        (0, 2**60 - 1),
        (-1, 2**60),
    ),
    "norm bound of products": (lambda bound: products_of(norm_bound=bound), (1,), (0,)),
    "largest size": (lambda cap: products_of(size_cap=cap), (1,), (0,)),
    "weight of pairs": (lambda w: products_of(pair_weight=w), (0,), (-1,)),
    "weight of squares": (lambda w: products_of(diagonal_weight=w), (0, WEIGHT), (-1, WEIGHT + 1)),
    "weight of two squares": (
        lambda w: products_of(diagonal_weight=w, n_features=4),
        (WEIGHT // 2,),
        (WEIGHT // 2 + 1,),
    ),
    "weight of a pair": (
        lambda w: products_of(2, ((0,), (1,)), 2, pair_weight=w),
        (WEIGHT // 4,),
        (WEIGHT // 4 + 1,),
    ),
    "centre of squares": (lambda c: products_of(centre=c), (0, 2**28 - 1), (-1, 2**28)),
    "centre and weight": (  # the larger of c and 13^2 - c is at most 90
        lambda c: products_of(13, diagonal_weight=2**20, centre=c),
        (79, 90),
        (78, 91),
    ),
    "pairs, left": (lambda i: products_of(pairs=([i], [1]), n_features=3), (0, 2), (-1, 3)),
    "pairs, right": (lambda j: products_of(pairs=([1], [j]), n_features=3), (0, 2), (-1, 3)),
    "sizes": (
        lambda most: products_of(2**10, size_range=most, n_features=4),
        (2**40 - 1,),
        (2**40,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_taken_and_nothing_beyond(name):
    call, taken, refused = LIMITS[name]
    for each in taken:
        call(each)
    for each in refused:
        with pytest.raises(HushcovError):
            call(each)


def test_products_of_units_are_as_many_as_their_norms_allow(monkeypatch):
    assert MOST_PRODUCTS == 2**23  # sums of so many squares are within 2**-40 of what they are
    monkeypatch.setattr(products, "MOST_PRODUCTS", 3)
    assert products_of(n_features=3, rows_per_unit=2).n_products == 3
    assert products_of(n_features=4).n_products == 4
    with pytest.raises(HushcovError, match="pairs and features"):
        products_of(n_features=4, rows_per_unit=2)
    means = SimpleNamespace(check_features=lambda n: None, half_width=1, numbers=())
    for n_features in (2**23, 2**23 + 1):
        means.n_features = n_features
        if n_features > MOST_PRODUCTS:
            with pytest.raises(HushcovError):
                unit_means(rows(9), means, 3, 1, 2)
        else:
            unit_means(rows(9), means, 3, 1, 2)


def test_what_has_no_room_takes_nothing():
    budget = Budget(4.0, 1e-6, mu=0.5, selects=True)
    before = budget.left
    with pytest.raises(HushcovError, match="rate"):
        budget.select(0.01, 1)
    budget.expect(4, 0.5)
    with pytest.raises(HushcovError, match="no room"):
        budget.gaussian(0.6)
    with pytest.raises(HushcovError, match="no room"):
        budget.select(0.4, 1000)
    assert budget.left == before
    budget.select(0.01, 1)
    assert budget.left < before
    with pytest.raises(HushcovError, match="before the first"):
        budget.expect(4, 0.5)
    with pytest.raises(HushcovError, match="that selects"):
        Budget(4.0, 1e-6, mu=0.5).expect(4, 0.5)


def test_fixed_events_are_taken_in_turn_and_are_no_larger():
    budget = Budget(2.0, 0.0, fixed=[Pure(0.5), Pure(1.0)], mu=0.0)
    for wrong in (Pure(0.6), Gaussian(0.1)):
        with pytest.raises(HushcovError, match="not certified"):
            budget.fixed(wrong, "a")
    budget.fixed(Pure(0.4), "a")
    with pytest.raises(HushcovError, match="not certified"):
        budget.fixed(Pure(0.5), "a")
    budget.fixed(Pure(1.0), "b")
    with pytest.raises(HushcovError, match="not certified"):
        budget.fixed(Pure(0.1), "c")
    assert [event for _, (event,) in budget.parts] == [Pure(0.4), Pure(1.0)]
