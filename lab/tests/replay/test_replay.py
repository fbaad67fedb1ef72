"""Fits replayed on neighbours: nothing is found, and every planted mistake is, by one pair.

`hushcov audit replay --pairs 10000` runs many more. Hypothesis shrinks a failure to few rows: its
`Case` is all that is needed to see it again.
"""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import hushcov_lab.audit.command
from fit.adaptive.settings import blocks, drawn
from hushcov import PrivateSparseCovariance
from hushcov.cli import output
from hushcov.cli.main import cli
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.fit.counting import Counting
from hushcov.kernel import queries, session
from hushcov.kernel.accounting import Budget, Neighbours
from hushcov.kernel.noise import gumbel_top, normal, rounded_normal
from hushcov.kernel.records import base as sum_records
from hushcov.kernel.records.base import CountedRecords, GroupedRecords, PartitionedRecords
from hushcov.kernel.records.units import Units
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.kernel.sums.products import ProductMap
from hushcov.paper import mechanism as multiscale
from hushcov.tables import cluster, codebook, units
from hushcov.tables.sources import ArrayRecords, TableRecords
from hushcov_lab.audit.neighbours import (
    MECHANISMS,
    PLACES,
    WAYS,
    WHOLE,
    Case,
    Tally,
    possible,
    replay_case,
    some_cases,
    tables_of,
)
from hushcov_lab.audit.replay import Compared, Recorder, Trace, compare, observe
from hushcov_lab.peers import eigen_sampling

IN_MEMORY = ("array", "frame", "npy", "calls in an array")
QUICK = [name for name, _ in MECHANISMS if "multiscale" not in name]  # to plan
FILES = ("csv", "csv with notes", "parquet", "parquet, scratch file", "codebook, csv")


@st.composite
def cases(draw, ways):
    kinds = [each for each in possible(ways) if each[0] in (*QUICK, "genotypes")]
    mechanism, way, whose = draw(st.sampled_from(kinds))
    (usual,) = some_cases(1, draw(st.integers(0, 2**20)), [way])
    kinds = WAYS[way].kinds if way.startswith(("bed", "calls")) else (*WHOLE, *WAYS[way].kinds)
    after, place = draw(st.sampled_from(kinds)), draw(st.sampled_from(PLACES))
    case = Case(mechanism, way, whose, "ordinary", after, place, draw(st.integers(3, 12)))
    return replace(case, seed=draw(st.integers(0, 50)), before=usual.before)


def check(case, folder):
    found = replay_case(case, folder)
    first, second, _ = tables_of(case)
    assert not found.faults, f"{found.faults}\n{first}\n{second}"


@pytest.mark.parametrize("ways", [IN_MEMORY, FILES])
def test_nothing_is_found_by_a_few_pairs(ways, tmp_path):
    @settings(max_examples=15, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(cases(ways))
    def search(case):
        check(case, tmp_path / "case")

    search()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_found(way, tmp_path):
    for case in some_cases(40, 7, [way]):
        check(case, tmp_path / "case")


# Mistakes, each planted in a fit of one pair of neighbours.

D = 12
SPARSE = np.random.default_rng(0).standard_normal((400, D))
SPARSE[:, 1] += SPARSE[:, 0]
ONES, SIGNS = np.full(D, 1e9), 1e9 * (-1.0) ** np.arange(D)
KNOWN = {"assume_centered": True, "feature_scale": 1.0}


def replayed(first, second, folder, *, unit=(None, None), **options):
    """Fit two tables with the same noisy numbers."""
    recorder, traces = Recorder(), []
    for rows, who in zip((first, second), unit, strict=True):
        shutil.rmtree(folder / "out", ignore_errors=True)
        usual = {"epsilon": 8.0, "delta": 1e-4, "on_hopeless": "warn", "on_large_delta": "warn"}
        usual["random_state"] = np.random.default_rng(3)
        est = PrivateSparseCovariance(**usual | options)
        fit = partial(est.fit, ArrayRecords(rows), unit=who)
        traces.append(recorder.run(lambda fit=fit: observe(fit(), folder / "out"), folder))
    return compare(*traces)


def with_first(row, *, rows=SPARSE):
    return np.vstack([row, rows[1:]])


def flipped(folder, **options):
    return replayed(with_first(ONES), with_first(SIGNS), folder, **KNOWN | options)


def removed(folder, **options):
    options = KNOWN | {"neighbours": "add-remove"} | options
    return replayed(with_first(ONES), SPARSE[1:], folder, **options)


def few(folder, **options):
    """Few records, so that one decides which pairs are best."""
    first, second = (with_first(row, rows=SPARSE[:30]) for row in (ONES, SIGNS))
    return replayed(first, second, folder, **KNOWN | options)


def ladder(folder, **options):
    """So many records that pairs are selected rung by rung."""
    rows = drawn(blocks(80), 8_000)[0]
    first, second = (with_first(np.resize(row, 80), rows=rows) for row in (ONES, SIGNS))
    return replayed(first, second, folder, epsilon=2.0, **options)


def units_of_six(folder, **options):
    who = np.repeat(np.arange(len(SPARSE) // 6 + 1), 6)[: len(SPARSE)]
    first, second = SPARSE.copy(), SPARSE.copy()
    first[:6], second[:6] = ONES, SIGNS
    options = KNOWN | {"max_rows_per_unit": 3} | options
    return replayed(first, second, folder, unit=(who, who), **options)


def half(generator, sigma, size):
    return rounded_normal(generator, -(-sigma // 2), size)


def third(generator, scores, rate, count):
    return gumbel_top(generator, scores, 3 * rate, count)


def best(generator, scores, rate, count):
    return np.sort(np.argsort(-scores, kind="stable")[:count])


def no_noise(generator, sigma, size):
    return np.zeros(size, dtype=np.int64)


def a_tenth_less(generator, sigma, size):
    return rounded_normal(generator, int(0.9 * sigma), size)


def unclipped(records, grid, norm_bound):
    return row_bounded_gram(records, grid, None)


def products_unclipped(function, products, records):
    return function(replace(products, norm_bound=2**26), records)


def uncharged(self, *given, **named):
    """Spend nothing."""


def charged_half(function, self, mu, part=None):
    function(self, mu / 2, part)


def every_row_a_unit(function, found):
    return np.arange(len(found))


def exact_number(function, self, access, neighbours):
    return replace(function(self, access, neighbours), released=access.n_records)


def largest(records):
    return float(max(block.max() for block in records._blocks()))


def another_look(function, records, *given, **named):
    """More noise if a value is large: a branch on the records."""
    if largest(records) > 1e3 and records._blocks().__next__()[0, 1] > 0:
        rounded_normal(given[-1].generator, 1, 1)
    return function(records, *given, **named)


def with_a_value(function, self, opened):
    warnings.warn(f"values around {opened.records._table[0, 1]}", UserWarning, stacklevel=2)
    return function(self, opened)


def with_an_attribute(function, self, opened):
    self.first_ = opened.records._table[0, 1]
    return function(self, opened)


def thrice_as_certain(function, *given):
    return [3 * share for share in function(*given)]


def instead(function):
    return lambda right: function


def around(function):
    return lambda right: lambda *given, **named: function(right, *given, **named)


EIGEN = {"mechanism": "eigen-sampling"}
GAUSSIAN, SCREENED = {"mechanism": "gaussian"}, {"mechanism": "screened", "row_sparsity": 2}
MOVES, DEPENDS = "a statistic moves", "a step depends on records"
FAULTS = {
    "noise halved, gaussian": (
        flipped,
        GAUSSIAN,
        normal,
        "rounded_normal",
        instead(half),
        MOVES,
    ),
    "noise halved, screened": (flipped, SCREENED, session, "rounded_normal", instead(half), MOVES),
    "norms not clipped, gaussian": (
        *(flipped, GAUSSIAN, queries, "row_bounded_gram", instead(unclipped), MOVES),
    ),
    "norms not clipped, screened": (
        *(flipped, SCREENED, ProductMap, "sum", around(products_unclipped), MOVES),
    ),
    "noise a tenth less": (
        *(flipped, GAUSSIAN, normal, "rounded_normal", instead(a_tenth_less), MOVES),
    ),
    "selection without noise": (
        *(few, SCREENED, session, "gumbel_top", instead(best), "attributes differ"),
    ),
    "noise of selections a third": (ladder, {}, session, "gumbel_top", instead(third), MOVES),
    "clock not charged for rungs": (ladder, {}, Budget, "select", instead(uncharged), MOVES),
    "a rung decides by its true scores": (
        *(ladder, {}, session, "rounded_normal", instead(no_noise), "charged for has no noise"),
    ),
    "half of a measurement is charged": (
        *(flipped, GAUSSIAN, Budget, "gaussian", around(charged_half), MOVES),
    ),
    "a unit of six counts as six": (
        *(units_of_six, GAUSSIAN, units, "number_identifiers", around(every_row_a_unit), MOVES),
    ),
    "number of records without noise": (
        *(removed, GAUSSIAN, Counting, "number", around(exact_number), DEPENDS),
    ),
    "noise for another relation": (
        *(flipped, GAUSSIAN, Neighbours, "moved", instead(lambda self, replaced, removed: removed)),
        MOVES,
    ),
    "norms not clipped, eigen-sampling": (
        *(flipped, EIGEN, eigen_sampling, "row_bounded_gram", instead(unclipped), MOVES),
    ),
    "directions too certain": (
        *(flipped, EIGEN, eigen_sampling, "shares", around(thrice_as_certain), MOVES),
    ),
    "a branch on the records": (
        *(flipped, GAUSSIAN, queries, "row_bounded_gram", around(another_look), DEPENDS),
    ),
    "a value in a warning": (
        *(flipped, GAUSSIAN, ScaledCovariance, "_run", around(with_a_value), "warnings differ"),
    ),
    "a value in an attribute": (
        *(flipped, GAUSSIAN, ScaledCovariance, "_run", around(with_an_attribute)),
        "attributes differ",
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_mistake_is_found_by_one_pair(fault, tmp_path, monkeypatch):
    pair, options, place, name, plant, words = FAULTS[fault]
    assert not pair(tmp_path / "right", **options).faults
    monkeypatch.setattr(place, name, plant(getattr(place, name)))
    found = pair(tmp_path / "wrong", **options)
    assert any(words in each for each in found.faults), found


def test_a_pass_that_depends_on_one_unit_is_found(tmp_path, monkeypatch):
    """How often records are read is the same whether or not a unit has too many."""
    case = Case("gaussian", "array", "units", n_rows=3, seed=53)
    assert not replay_case(case, tmp_path).faults
    right = Units.bounded

    def only_if_needed(self, records, most_rows):
        if self.sizes.max() > most_rows:
            list(records._blocks())
        return right(self, records, most_rows)

    monkeypatch.setattr(Units, "bounded", only_if_needed)
    assert any(DEPENDS in each for each in replay_case(case, tmp_path).faults)


def by_label(right, column):
    """Read a column that cannot be read as a whole by the labels of its rows."""
    with suppress(UnicodeError):
        return column.to_list()
    return [column.get(i) for i in range(len(column))]


def test_rows_that_are_found_by_label_are_found(tmp_path, monkeypatch):
    """One cell that is not UTF-8 gave all other rows of its block other categories."""
    way = "codebook, frame, labels shifted"
    case = Case("gaussian", way, after="undecodable", n_rows=12, seed=7)
    assert not replay_case(case, tmp_path / "case").faults
    monkeypatch.setattr(codebook, "values_of", around(by_label)(None))
    assert any(MOVES in each for each in replay_case(case, tmp_path / "case").faults)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["multiscale", "multiscale, gates"])
def test_noise_of_another_relation_is_found_in_the_paper_s_tests(mechanism, tmp_path, monkeypatch):
    case = Case(mechanism, "array", before="all huge", after="huge, signs differ", n_rows=6)
    assert not replay_case(case, tmp_path / "case").faults
    monkeypatch.setattr(multiscale, "_products", lambda inputs: 1)
    assert any(MOVES in each for each in replay_case(case, tmp_path / "case").faults)


TELLING = {
    "printed differ": lambda folder: print("large"),
    "logs differ": lambda folder: logging.getLogger("hushcov").warning("large"),
    "files written differ": lambda folder: (folder / "large").touch(),
}


@pytest.mark.parametrize("words", TELLING)
def test_whatever_tells_of_a_value_is_found(words, tmp_path, monkeypatch):
    right = ScaledCovariance._run

    def telling(self, opened):
        if opened.records._table[0, 1] > 0:
            TELLING[words](tmp_path)
        return right(self, opened)

    monkeypatch.setattr(ScaledCovariance, "_run", telling)
    (found,) = flipped(tmp_path, **GAUSSIAN).faults
    assert words in found


def test_blocks_that_depend_on_a_value_are_found(tmp_path, monkeypatch):
    right = TableRecords._blocks

    def split(self):
        for block in right(self):
            large = int(block[0, 1] > 1e3)
            yield from (block[:large], block[large:]) if large else (block,)

    monkeypatch.setattr(TableRecords, "_blocks", split)
    assert any("rows of blocks" in each for each in flipped(tmp_path, **GAUSSIAN).faults)


@pytest.mark.parametrize("whose", ["add-remove", "units-removed"])
def test_copies_are_kept_by_the_released_number_of_records(whose, tmp_path):
    """One record more does not fit into memory, which would tell how many there are."""
    case = Case("separate", "parquet, little memory", whose, n_rows=6, seed=6)
    for n_rows in (5, 6):
        assert not replay_case(replace(case, n_rows=n_rows), tmp_path / "case").faults


@pytest.mark.parametrize("fault", [False, True])
def test_shuffled_rows_are_kept_by_the_released_number_of_records(fault, tmp_path, monkeypatch):
    """A unit more does not fit into memory; deciding by the true number would tell that."""
    right = PartitionedRecords.sum_partitions
    released = set()

    def by_true_number(self, views, function):
        released.update(each.n_records for each in views if isinstance(each, CountedRecords))
        if fault and cluster.part_bytes(self.n_records, self.n_features) <= cluster._MOST_KEPT:
            self._keep()
        return right(self, views, function)

    case = Case("gaussian", "dask frame", "units-removed", n_rows=20, seed=6)
    tables = tables_of(case)[:2]
    least, most = sorted(len(table.rows) for table in tables)
    assert least < most
    monkeypatch.setattr(cluster, "_MOST_KEPT", cluster.part_bytes(least, 3))
    monkeypatch.setattr(PartitionedRecords, "sum_partitions", by_true_number)
    faults = replay_case(case, tmp_path / "case").faults
    assert len(released) == 1
    assert any(DEPENDS in each for each in faults) == fault, faults


@pytest.mark.parametrize("fault", [False, True])
def test_units_are_put_in_order_by_the_released_number_of_records(fault, tmp_path, monkeypatch):
    """The buffer has room for a row; as many readings as there are rows would tell their number."""
    case = Case("gaussian", "array", "units-removed", n_rows=20, seed=7)
    monkeypatch.setattr(sum_records, "_BUFFER_BYTES", 24)
    if fault:
        true = property(lambda self: self.n_records, lambda self, number: None)
        monkeypatch.setattr(GroupedRecords, "n_counted", true, raising=False)
    faults = replay_case(case, tmp_path / "case").faults
    assert any(DEPENDS in each for each in faults) == fault, faults


def test_one_draw_of_nothing_is_no_fault():
    """One in a hundred draws of deviation 43 is rounded to 0; of thirty not one is."""
    first, second = Trace(noise=[(43, np.zeros(1, int))]), Trace(noise=[(43, np.zeros(30, int))])
    assert not compare(first, Trace()).faults
    assert "noise has 0 times" in compare(second, Trace()).faults[0]


def test_a_first_fit_that_takes_long_is_no_fault(tmp_path, monkeypatch):
    """Lines of progress come by the clock, which runs while kernels are compiled."""
    ticks = iter([0, 20, 40])
    monkeypatch.setattr(output, "_EVERY", 10.0)
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(ticks, 40)))
    case = Case("gaussian", "command, parquet", n_rows=3, seed=1)
    assert not replay_case(case, tmp_path / "case").faults


def test_a_failure_is_a_small_table(tmp_path, monkeypatch):
    """Hypothesis comes down to three rows, of which one is odd."""
    monkeypatch.setattr(queries, "row_bounded_gram", unclipped)
    tables = st.builds(
        Case,
        st.just("gaussian"),
        st.just("array"),
        after=st.sampled_from(("ones", "minus zero", "large", "all huge")),
        n_rows=st.sampled_from((3, 5, 10)),
    )
    few = settings(max_examples=30, derandomize=True, database=None)
    shrunk = find(tables, lambda case: replay_case(case, tmp_path / "case").faults, settings=few)
    assert shrunk.n_rows == 3


def test_the_command(monkeypatch):
    def run(*arguments):
        return CliRunner().invoke(cli, ["audit", "replay", "--pairs", "3", *arguments])

    result = run("--way", "array", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["survive"], found["findings"], found["pairs"]) == (True, [], 3)
    assert sum(each["pairs"] for each in found["counts"]) == 3

    def broken(*given):
        tally = Tally()
        tally.add(Case("gaussian", "array"), Compared(["a statistic moves"], {"selections": 2.0}))
        return tally

    monkeypatch.setattr(hushcov_lab.audit.command, "replay_pairs", broken)
    result = run()
    assert result.exit_code == 1
    assert "1 pair: 1 finding" in result.stdout
    assert "a statistic moves" in result.stdout
