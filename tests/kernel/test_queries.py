"""An attack on every query there is: no neighbour is further away than the query says, or half.

Classes are found by themselves. Records, or units, are replaced, added and removed in a table, of
which some hold extreme numbers; the distance of the exact statistics is compared with what the
query states, in deviations of the noise that a session would draw for it. A new class is attacked
as soon as it is there: its fields are given values by their names, or by its own `examples`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction

import numpy as np
import pytest

from hushcov._arrays import LARGEST_SUM
from hushcov.exceptions import CapacityError, PrivacyConditionError
from hushcov.kernel import queries, session
from hushcov.kernel.accounting import ADD_REMOVE, REPLACE, Neighbours
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import LaplaceQuery, PairSigns, ProductMap, Query, ScoreQuery
from hushcov.kernel.records.base import CompleteRecords
from hushcov.kernel.records.units import Units
from hushcov.kernel.sums.gram import record_statistics
from hushcov.kernel.sums.rows import RowSums, column_sums, grid_integers, whole
from hushcov.kernel.sums.statistics import RecordMap
from hushcov.tables.sources import ArrayRecords

D, MOST = 3, 3
MU, EPSILON = 0.5, 0.3
RELATIONS = [
    Neighbours(relation, most, "record" if most == 1 else "patient", combined)
    for relation in (REPLACE, ADD_REMOVE)
    for most, combined in ((1, False), (MOST, False), (MOST, True))
]
# Records as others are, huge and tiny ones, one that misses a value, in every direction.
SIGNS = np.array(list(itertools.product((-1.0, 1.0), repeat=D)))
ROWS = np.concatenate(
    [
        *(SIGNS * size for size in (1e-30, 0.4, 1.5, 1e300)),
        *(np.eye(D) * size for size in (0.4, 3.0, -1e300)),
        np.zeros((1, D)),
        np.full((1, D), np.nan),
        np.random.default_rng(0).standard_normal((4, D)),
    ]
)
OTHERS = np.repeat([[1.0, 1.2, 0.8], [1.1, 0.7, 1.3]], 6, axis=0)


def product_map(rows_per_unit):
    pairs = np.array([0, 0]), np.array([1, 2])
    means = None if rows_per_unit == 1 else np.array([5, -3, 0, 2, 9])
    grid = FeatureGrid(np.ones(D), 8.0, 40)
    return ProductMap(grid, *pairs, 4, 3, 25, 300, 75, 75, 500, rows_per_unit, means)


def matrices():
    """Matrices that other queries are computed from: with and without a bound on norms that binds.

    In the first, most coordinates are clipped, so that entries are as large as they can be.
    """
    grids = FeatureGrid(np.ones(D), 1.0, 40), FeatureGrid(np.ones(D), 8.0, 40)
    return [queries.Gram(grid, bound) for grid in grids for bound in (70, 33)]


def given(name, together):
    """Values for a field of this name; several queries are made of them."""
    every = np.arange(D)
    return {
        "n_features": [D],
        "n_octaves": [21],
        "grid": [FeatureGrid(np.ones(D), 8.0, 40), FeatureGrid([0.5, 1.0, 4.0], 64.0, 2**15 - 1)],
        "bound": [1, 9, 70, 4000],
        "factor_range": [5],
        "most_rows": [together],
        "unit_bits": [3],
        "columns": [every, every[:1]],
        "centre": [np.array([0.3, 0.0, -1.0])],
        "dead_zone": [np.array([0.0, 1e-3, 0.0])],
        "starts": [np.full(D, -4.0)],
        "widths": [np.full(D, 0.25)],
        "firsts": [np.arange(D)],
        "n_cells": [30],
        "edges": [tuple(range(1, 200, 7))],
        "sizes": [(8, 64, 512)],
        "SignedOctaves | None": [None],
        "Gram": matrices(),
        "PairSigns": [PairSigns(D), PairSigns(D, (100, -300, 0))],
        "places": [np.arange(1), np.arange(2)],
        "entries": [(every[:n], np.array([1, 2, 2])[:n]) for n in (0, 1)] + [np.triu_indices(D, 1)],
        "row": [0],
        "column": [2],
        "expected": [np.zeros(3, dtype=np.int64), np.array([-40_000, 7, 30_000])],
        "n_records": [15],
        "products": [product_map(together)],
        "tilt": [None, (100, -300, 0), (1023, -1023, 512)],
        "pairs": [None, (np.array([0, 1]), np.array([2, 2]))],
    }.get(name, [])


def examples(kind, together):
    """Queries of a class: its own, or one for each choice of values."""
    if hasattr(kind, "examples"):
        return kind.examples(D, together)
    # A source is known by its type, other fields by their names.
    names = [each.type if each.name == "source" else each.name for each in fields(kind)]
    choices = [given(name, together) for name in names]
    made = [kind(*values) for values in itertools.product(*choices)]
    found = [each for each in made if possible(each)]
    assert found, (
        f"{kind.__name__} cannot be attacked without values for its fields {names}: add them to "
        "`given`, or give it a class method `examples(n_features, most_rows)` that returns queries."
    )
    return found


def possible(query):
    """Values of fields that go together, as arrays of one length."""
    columns = getattr(query, "columns", None)
    if columns is None:
        return True
    if isinstance(query, queries.LevelCounts):
        return False
    lengths = {len(v) for k, v in vars(query).items() if k in ("centre", "starts")}
    return lengths == {len(columns)}


def level_counts():
    edges = np.tile(np.linspace(-2, 2, 511), (2, 1))
    return [queries.LevelCounts(np.array([0, 2]), edges, (8, 64, 512))]


# Modules of other distributions whose queries a session answers, too. Those of genotypes do not
# read rows of numbers: genotypes/tests/test_every_record.py attacks them.
GENOTYPES = "hushcov_genotypes.queries"
ELSEWHERE = tuple(
    importlib.import_module(name)
    for name in session._QUERIES_ELSEWHERE
    if name != GENOTYPES and importlib.util.find_spec(name)
)
HOMES = {module.__name__ for module in (queries, *ELSEWHERE)}


def below(kind):
    return {kind}.union(*map(below, kind.__subclasses__()))


def kinds(*bases):
    found = (kind for base in bases for kind in below(base) - {base})
    here = (kind for kind in found if kind.__module__ != GENOTYPES)
    return sorted(here, key=lambda kind: kind.__name__)


KINDS = kinds(Query, LaplaceQuery)
SCORES = [PairSigns, *kinds(ScoreQuery)]


def units_for(query, neighbours):
    """Records that are alone, or units of one to as many as there may be."""
    units = [row[None] for row in ROWS]
    if neighbours.most_rows > 1 or getattr(query, "reads", "records") == "units":
        units += [np.repeat(row[None], MOST, axis=0) for row in ROWS]
        units += [np.stack([a, b]) for a, b in itertools.pairwise(ROWS)]
    return units


def statistic(query, neighbours, units):
    """The exact numbers of a query for these units."""
    rows = np.concatenate(units)
    codes = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
    records = ArrayRecords(rows).with_gaps()
    if neighbours.most_rows > 1:
        records = Units(codes).bounded(records, neighbours.most_rows)
    reads = getattr(query, "reads", "records")
    if reads == "units":
        return query.exact(Units(codes))
    records = CompleteRecords(records)
    if reads == "statistics":
        return query.exact(record_statistics(records, RecordMap(D, query.grid, query.bound)))
    return query.exact(records)


def own_and_without(query, neighbours):
    """Exact statistics with each unit beside the others, and without any."""
    others = [OTHERS[i : i + neighbours.most_rows] for i in range(0, 12, neighbours.most_rows)]
    own = [statistic(query, neighbours, [*others, unit]) for unit in units_for(query, neighbours)]
    return own, statistic(query, neighbours, others)


def farthest(query, neighbours):
    """Differences of the statistics of neighbours that are about furthest apart."""
    own, without = own_and_without(query, neighbours)
    if neighbours.relation == REPLACE:
        pairs = list(itertools.combinations(own, 2))
    else:
        pairs = [(without, each) for each in own]
    moved = [second.astype(np.int64) - first.astype(np.int64) for first, second in pairs]
    return sorted(moved, key=lambda each: float((each.astype(float) ** 2).sum()))[-40:]


def in_deviations(query, moved, deviations):
    """The squared distance of two statistics, as noise sees it, in exact arithmetic."""
    moved = moved.astype(object)
    if not query.symmetric:
        return Fraction(int((moved**2).sum()), deviations[0] ** 2)
    on = int((np.diag(moved) ** 2).sum())
    off = int((np.triu(moved, 1) ** 2).sum())
    return Fraction(off, deviations[0] ** 2) + Fraction(on, deviations[1] ** 2)


def tried(kind, neighbours):
    """Queries of a class for these neighbours; none where it is not for such."""
    if kind is queries.RowCount:  # a record that is replaced leaves the number as it is
        public = neighbours.public_size and neighbours.most_rows == 1
        return [] if public else [kind(neighbours.most_rows)]
    if kind is queries.LevelCounts:
        return level_counts()
    bounds_units = any(each.name == "most_rows" for each in fields(kind))
    return [] if bounds_units and neighbours.together == 1 else examples(kind, neighbours.together)


def reached(query, neighbours):
    """The share of the distance that a query states which some neighbours have; 1 at most."""
    if isinstance(query, LaplaceQuery):
        stated = query.distance(neighbours)
        most = max(int(np.abs(moved).sum()) for moved in farthest(query, neighbours))
        assert most <= stated, f"neighbours are further apart than is stated by {query}"
        return most / stated
    deviations = query.deviations(MU, neighbours)
    # A unit of several records is charged as many times as much.
    stated = query.loss(deviations, neighbours) * neighbours.most_rows**2
    assert stated <= Fraction(MU * neighbours.most_rows) ** 2
    most = max(in_deviations(query, each, deviations) for each in farthest(query, neighbours))
    assert most <= stated, f"neighbours are further apart than is stated by {query}"
    return float(most / stated) ** 0.5


@pytest.mark.parametrize("neighbours", RELATIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_neighbour_is_further_than_a_query_says_and_one_is_half_as_far(kind, neighbours):
    found = [reached(query, neighbours) for query in tried(kind, neighbours)]
    assert not found or max(found) >= 0.5, f"no neighbours are half as far apart as {kind} states"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_query_is_attacked(kind):
    """Nothing is left out for lack of examples, and every query is here, where it is looked for."""
    assert any(tried(kind, neighbours) for neighbours in RELATIONS)
    assert kind.__module__ in HOMES or kind in PLANTED


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize("kind", SCORES, ids=lambda kind: kind.__name__)
def test_no_score_moves_further_than_a_selection_says(kind, relation):
    neighbours, shares = Neighbours(relation), []
    assert kind.__module__ in HOMES
    for query in examples(kind, 1):
        own, without = own_and_without(query, neighbours)
        others = own if relation == REPLACE else [without]
        most = max(int(np.abs(np.abs(a) - np.abs(b)).max()) for a in own for b in others)
        stated = query.score_distance(neighbours)
        assert most <= stated
        shares.append(most / stated)
    # Scores of entries are as far apart as they may be where no bound on norms binds.
    assert (min if kind is PairSigns else max)(shares) >= 0.5


def test_queries_that_bound_other_units_are_refused():
    three = Neighbours(REPLACE, 3, "patient", combined=True)
    kinds = [kind for kind in KINDS if issubclass(kind, Query) and kind is not queries.LevelCounts]
    found = [each for kind in kinds for each in examples(kind, 5) if each.rows_per_unit > 1]
    assert len({type(query) for query in found}) >= 5
    for query in found:
        with pytest.raises(PrivacyConditionError, match="must bound 3 records as one"):
            query.deviations(MU, three)


# Sums over long tables, which a few rows say nothing about.
SCALES = np.array([0.5, 1.0, 4.0])
# Eigenvalues are no sums. The matrix that they are of is tried, and a proof bounds their rounding.
SUMS = [kind for kind in KINDS if kind.__name__ != "RoundedEigenvalues"]


def finer(query, half_width):
    """The same query on a finer grid, with bounds that hardly shorten anything."""
    for name in ("products", "source"):
        if getattr(query, name, None) is not None:
            return replace(query, **{name: finer(getattr(query, name), half_width)})
    square = half_width**2
    grid = FeatureGrid(SCALES, 64.0, half_width)
    values = {"grid": grid, "bound": half_width, "norm_bound": square, "size_cap": square}
    names = {each.name for each in fields(query)}
    return replace(query, **{name: value for name, value in values.items() if name in names})


def finest(query, neighbours, units):
    """The same query on the finest grid for which it takes these units."""
    for half_width in (2**power for power in range(20, 4, -1)):
        with contextlib.suppress(CapacityError):
            found = finer(query, half_width)
            statistic(found, neighbours, units)
            return found
    raise AssertionError(f"{query} refuses every grid")


def rounded(query):
    """How far a sum is rounded, once for all records: scores of pairs of centred signs are."""
    source = getattr(query, "source", query)
    return getattr(source, "rounding", 0) * len(getattr(query, "places", [0]))


def uneven_units(most_rows):
    """Units whose integers are large, and of all remainders."""
    rng = np.random.default_rng(1)
    near, far = rng.uniform(6, 8, (6_000, D)), rng.uniform(30, 64, (6_000, D)) * SCALES
    return list(np.concatenate([near, far]).reshape(-1, most_rows, D))


def is_exact(query, neighbours, uneven):
    """Whether sums over long tables are those of parts, and of copies, but for rounding."""

    def exact(units):
        return statistic(query, neighbours, units).astype(object)

    parts = [exact(uneven[first : first + 50]) for first in range(0, len(uneven), 50)]
    few, copies = units_for(query, neighbours), 300
    apart = abs(exact(uneven) - sum(parts)), abs(exact(few * copies) - copies * exact(few))
    return all(
        (each <= rounded(query) * times).all()
        for each, times in zip(apart, (len(parts), copies), strict=True)
    )


@pytest.mark.parametrize("neighbours", [RELATIONS[3], RELATIONS[5]], ids=str)
@pytest.mark.parametrize("kind", SUMS, ids=lambda kind: kind.__name__)
def test_sums_over_long_tables_are_exact(kind, neighbours):
    uneven = uneven_units(neighbours.most_rows)
    found = [finest(query, neighbours, uneven) for query in tried(kind, neighbours)]
    for query in {repr(each): each for each in found}.values():
        assert is_exact(query, neighbours, uneven), f"sums are not exact: {query}"


@dataclass(frozen=True, eq=False)
class Cubes(Query):
    """Sums of cubes, by a planted kernel."""

    grid: FeatureGrid
    kernel: Callable[..., None]

    def row_sums(self, records):
        if records.n_rows * self.grid.half_width**3 > LARGEST_SUM:
            raise CapacityError("use a smaller half_width.")
        return RowSums(self.kernel, (self.grid.numbers,), (D,))

    def squared_distance(self, relation):
        return relation.moved(replaced=4, removed=1) * D * self.grid.half_width**6


def exact_cubes(rows, grid, total):
    total += (whole(grid_integers(rows, grid)) ** 3).sum(0)


def cubes_in_doubles(rows, grid, total):
    """A planted mistake: sums of doubles beyond 2^53 are rounded, each thread's by itself."""
    total += column_sums(grid_integers(rows, grid) ** 3)


@pytest.mark.parametrize(("kernel", "right"), [(exact_cubes, True), (cubes_in_doubles, False)])
def test_sums_that_doubles_do_not_hold_are_found(kernel, right):
    neighbours, uneven = RELATIONS[3], uneven_units(1)
    query = finest(Cubes(given("grid", 1)[0], kernel), neighbours, uneven)
    assert is_exact(query, neighbours, uneven) == right


class Understated(queries.SignedOctaves):
    """A planted mistake: the counts of a record that is replaced move by two in each feature."""

    def squared_distance(self, relation):
        return len(self.columns)


class Overstated(queries.SignedOctaves):
    """Another: so much noise is never needed."""

    def squared_distance(self, relation):
        return 100 * len(self.columns)


@dataclass(frozen=True, eq=False)
class WithoutExamples(queries.SignedOctaves):
    """A new query, of a field that nobody has given values for."""

    sharpness: float


PLANTED = (Understated, Overstated, WithoutExamples)


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_mistake_is_found(kind):
    with pytest.raises(AssertionError):
        test_no_neighbour_is_further_than_a_query_says_and_one_is_half_as_far(kind, RELATIONS[0])
