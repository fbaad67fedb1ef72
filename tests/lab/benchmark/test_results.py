"""Medians, winners, headline and files, from cells whose numbers are known."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from hushcov import __version__
from hushcov.lab.benchmark.cells import Fit, PredictedErrors
from hushcov.lab.benchmark.contenders import CONTENDERS
from hushcov.lab.benchmark.results import EXPONENTS, Results, predicted_rates
from hushcov.lab.benchmark.work import Benchmark

from .settings import CHEAP, TINY, finished, made_up_error


def changed(results: Results, *cells) -> Results:
    """The same results with some cells replaced."""
    return Results(results.benchmark, [*results.cells, *cells])


def test_median_and_range():
    spread = finished().spread(TINY.base, "gaussian")
    low, high = (made_up_error(TINY.base, "gaussian", seed) for seed in (0, 1))
    assert (spread.smallest, spread.largest, spread.runs) == (low, high, 2)
    assert spread.median == pytest.approx((low + high) / 2)
    assert (spread.recall, spread.precision, spread.skipped) == (0.9, 0.8, None)


def test_a_skipped_cell_keeps_its_reason():
    spread = finished().spread(TINY.base, "eigen-sampling")
    assert (spread.median, spread.skipped) == (None, "too many features.")


def test_ranking_leaves_out_what_chooses_and_what_is_not_private():
    names = [name for name, _ in finished().ranking(TINY.base)]
    private = [name for name, each in CONTENDERS.items() if each.private]
    assert names == [name for name in private if name not in ("auto", "eigen-sampling")]


def test_winners():
    results = finished()
    for size in results.sizes(2):
        assert (size.predicted, size.measured, size.agrees) == ("adaptive", "adaptive", True)
    point = TINY.grid(2)[0]
    worse = changed(results, Fit(point, 0, "adaptive", 0.9, 1.0, 1.0, 0.1))
    assert worse.measured_winner(point) == "screened"
    assert not worse.sizes(2)[0].agrees
    best = made_up_error(point, "screened")
    near = changed(results, Fit(point, 0, "adaptive", 1.09 * best, 1.0, 1.0, 0.1))
    assert (near.sizes(2)[0].measured, near.sizes(2)[0].agrees) == ("screened", True)


def test_nothing_beats_the_zero_matrix():
    point = TINY.grid(2)[0]
    results = finished()
    hopeless = [
        Fit(point, 0, name, 1.5, 1.0, 1.0, 0.1)
        for name, contender in CONTENDERS.items()
        if contender.private
    ]
    assert changed(results, *hopeless).measured_winner(point) == "zero"
    predicted = changed(results, PredictedErrors(point, {"gaussian": 1.0}))
    assert predicted.predicted_winner(point) == "zero"
    both = changed(results, *hopeless, PredictedErrors(point, {"gaussian": 2.0})).sizes(2)[0]
    assert (both.predicted, both.measured, both.agrees) == ("zero", "zero", True)


def test_a_predicted_mechanism_that_was_not_measured_does_not_agree():
    size = finished(("screened", "zero")).sizes(2)[0]
    assert (size.predicted, size.measured, size.agrees) == ("adaptive", "screened", False)
    assert {size.measured for size in finished(("zero",)).sizes(2)} == {"zero"}


def test_headline():
    rows = {row["contender"]: row for row in finished().headline()}
    assert list(rows) == list(CONTENDERS)
    assert (rows["gaussian"]["seconds"], rows["gaussian"]["megabytes"]) == (1.5, 20.0)
    assert rows["eigen-sampling"]["skipped"] == "too many features."
    assert rows["eigen-sampling"]["error"] is None
    assert rows["zero"]["error"] == 1.0


def test_json():
    results = finished()
    found = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    assert found["benchmark"]["preset"] == "tiny"
    assert found["environment"]["hushcov"] == __version__
    assert [each["name"] for each in found["contenders"]] == list(CONTENDERS)
    points = len(TINY.measured())
    assert len(found["errors"]) + len(found["skipped"]) == points * len(CONTENDERS)
    assert {each["reason"] for each in found["skipped"]} == {"too many features."}
    assert {each["contender"] for each in found["skipped"]} == {"eigen-sampling"}
    assert len(found["crossover"]) == len(TINY.grid(2))
    row = next(row for row in found["errors"] if row["contender"] == "gaussian")
    assert {"model", "n_records", "n_features", "row_sparsity", "epsilon", "median"} <= set(row)
    assert len(found["predictions"]) == len(TINY.predicted())


def test_csv_has_a_row_for_each_fit():
    results = finished()
    rows = list(csv.DictReader(io.StringIO(results.to_csv())))
    fits = [cell for cell in results.cells if isinstance(cell, Fit)]
    assert len(rows) == len(fits)
    first = rows[0]
    assert list(first)[:7] == [
        *("model", "n_records", "n_features", "row_sparsity", "epsilon"),
        *("contender", "seed"),
    ]
    skipped = [row for row in rows if row["skipped"]]
    assert all(row["error"] == "" for row in skipped)
    assert {float(row["error"]) for row in rows if row["contender"] == "zero"} == {1.0}


def test_results_do_not_depend_on_the_order_of_cells():
    results = finished()
    backwards = Results(results.benchmark, reversed(results.cells))
    assert backwards.to_dict() == results.to_dict()
    assert backwards.to_csv() == results.to_csv()


def test_identity_tells_designs_apart():
    one = Benchmark(TINY, CHEAP).identity()
    other = Benchmark(replace(TINY, seeds=3), CHEAP).identity()
    assert {name for name in one if one[name] != other[name]} == {"design"}


def test_rates_are_near_the_exponents_of_the_theorems():
    rates = predicted_rates()
    for curve in (rates.against_sparsity, rates.against_features):
        for name, slope in curve.slopes.items():
            # Logarithms add up to 0.16 over these ranges.
            assert 0 < slope - EXPONENTS[curve.quantity][name] < 0.16
