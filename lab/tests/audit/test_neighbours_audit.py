"""Attacks on neighbours of every kind: claims survive, and planted mistakes are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hushcov_lab.audit.attack
import hushcov_lab.audit.gaussian
import hushcov_lab.audit.selection
from hushcov.exceptions import ParameterError
from hushcov.kernel import session
from hushcov.kernel.accounting import ADD_REMOVE, REPLACE, Neighbours
from hushcov.kernel.records.base import CountedRecords
from hushcov.tables.sources import ArrayRecords
from hushcov_lab.audit.attack import KINDS, UNITS, Pair, removed, sign_flips
from hushcov_lab.audit.run import attacks_on, audit, audited, run_attack
from statistics_helpers import FALSE_ALARM

# Audits need many runs; one pair of neighbours finds a fault of each kind in lab/tests/replay.
pytestmark = pytest.mark.slow

KINDS_HERE = tuple(kind for kind in KINDS if kind != REPLACE)
ROWS = 3
SLOWER = ("screened", "scales")


def attacked(mechanism, pair, kind, runs):
    attack = next(each for each in attacks_on(mechanism, kind) if each.name == pair)
    return run_attack(replace(attack, slowness=1), runs, FALSE_ALARM, seed=4)


@pytest.mark.parametrize("kind", KINDS_HERE)
@pytest.mark.parametrize(
    "mechanism", ["gaussian", "counts", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOWER)]
)
def test_no_claim_is_broken(mechanism, kind):
    results = audit(mechanism, neighbours=kind, runs=400, seed=3)
    assert all(result.survives for result in results)
    assert [item.pair for item in results] == [each.name for each in attacks_on(mechanism, kind)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_HERE)
@pytest.mark.parametrize("mechanism", audited(ADD_REMOVE))
def test_no_claim_is_broken_at_length(mechanism, kind):
    assert all(result.survives for result in audit(mechanism, neighbours=kind, runs=1000, seed=3))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_HERE)
@pytest.mark.parametrize(
    ("mechanism", "pair", "runs", "least"),
    [
        ("gaussian", "axes", 20_000, 0.8),
        ("screened", "values, sign flips", 20_000, 0.7),
        ("adaptive-looks", "axes", 10_000, 0.7),
    ],
)
def test_a_fair_share_of_the_claim_is_measured(mechanism, pair, runs, least, kind):
    result = attacked(mechanism, pair, kind, runs)
    assert least < result.ratio <= 1


def test_every_mechanism_is_audited_on_every_kind():
    names = audited(ADD_REMOVE)
    assert {"screened", "adaptive", "gaussian", "counts", "row-top-k", "coinpress"} <= set(names)
    assert audited(UNITS) == names
    for name in names:
        for attack in attacks_on(name, UNITS):
            assert attack.pair.neighbours.most_rows == ROWS
    with pytest.raises(ParameterError, match="neighbours must be one of"):
        attacks_on("screened", "both")


def test_pairs_differ_in_one_unit():
    pair = sign_flips(5, 2, 1.0)
    gone = removed(pair)
    assert (len(gone.first), len(gone.second), gone.n_records) == (5, 4, 5)
    assert not gone.after.any()
    with pytest.raises(ParameterError, match="neighbours differ in one"):
        Pair("two", pair.first, pair.first[2:], Neighbours(ADD_REMOVE))
    with pytest.raises(ParameterError, match="neighbours differ in one"):
        Pair("unit", pair.first, -pair.first - 1, Neighbours(REPLACE, ROWS, "unit"))


# Mistakes.


@pytest.mark.parametrize(
    ("mechanism", "pair", "runs"),
    [
        ("gaussian", "axes", 4000),
        ("screened", "values, sign flips", 1500),
        ("scales", "octaves", 6000),
        pytest.param("adaptive-looks", "axes", 6000, marks=pytest.mark.slow),
    ],
)
def test_what_a_removed_record_moves_is_taken_for_a_replaced_one(
    monkeypatch, mechanism, pair, runs
):
    assert attacked(mechanism, pair, REPLACE, 500).survives
    monkeypatch.setattr(Neighbours, "moved", lambda self, *, replaced, removed: removed)
    assert not attacked(mechanism, pair, REPLACE, runs).survives


@pytest.mark.parametrize(
    ("mechanism", "pair", "runs"),
    [
        ("gaussian", "axes", 2000),
        ("screened", "values, sign flips", 2000),
        pytest.param("adaptive-looks", "axes", 2000, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", [UNITS, f"{UNITS}-removed"])
def test_the_rows_of_a_unit_are_counted_twice(monkeypatch, mechanism, pair, runs, kind):
    """As where a unit is split over two partitions, and so many of its rows are kept in each."""
    attack = next(each for each in attacks_on(mechanism, kind) if each.name == pair)
    others = len(attack.pair.first) - ROWS

    def doubled(rows):
        unit = rows[: len(rows) - others]
        return ArrayRecords(np.vstack([unit, rows]))

    def counted(rows, n_records):
        return CountedRecords(doubled(rows), n_records)

    assert attacked(mechanism, pair, kind, 500).survives
    package = hushcov_lab.audit
    monkeypatch.setattr(package.attack, "ArrayRecords", doubled)
    for module in (package.attack, package.selection, package.gaussian):
        monkeypatch.setattr(module, "records_of", counted)
    assert not attacked(mechanism, pair, kind, runs).survives


@pytest.mark.parametrize(
    ("kind", "pair", "kept", "broken"),
    [
        (ADD_REMOVE, "one more or not", 1000, 1000),
        *(
            pytest.param(kind, *sizes, marks=pytest.mark.slow)
            for kind in (ADD_REMOVE, UNITS)
            for sizes in (("one more or not", 1000, 1000), ("and a matrix", 400, 2000))
        ),
    ],
)
def test_the_number_of_records_is_taken_for_public(monkeypatch, kind, pair, kept, broken):
    """Without noise the count says which dataset it is, and so does all that is planned by it."""
    assert attacked("counts", pair, kind, kept).survives
    monkeypatch.setattr(session, "discrete_laplace", lambda generator, scale, size: [0] * size)
    assert not attacked("counts", pair, kind, broken).survives


def test_noise_of_the_count_that_forgets_the_rows_of_a_unit(monkeypatch):
    """Noise for one record where three come and go."""
    correct = session.discrete_laplace

    def small(generator, scale, size):
        return [each // ROWS for each in correct(generator, scale, size)]

    assert attacked("counts", "one more or not", UNITS, 1000).survives
    monkeypatch.setattr(session, "discrete_laplace", small)
    assert not attacked("counts", "one more or not", UNITS, 4000).survives
