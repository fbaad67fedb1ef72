"""Tables of a release: what they hold, how often their intervals cover, and their files."""

import csv
from dataclasses import replace

import numpy as np
import pandas
import polars
import pytest
from answer_documents import UNIT, document, fewest

import hushcov
from hushcov.answers.tables import pairs_table, variances_table, write_tables
from hushcov.exceptions import ParameterError
from hushcov.release import Making, Release
from hushcov.release.estimate import estimate
from hushcov.release.view import (
    COLUMN_NOT_FOUND,
    CONSTANT_COLUMN,
    MAY_BE_ZERO,
    NONZERO,
    NOT_KNOWN,
    view,
)
from table_helpers import read_exactly

N, D, SIGMA = 5_000, 6, 0.03
TRUTH = np.eye(D)
TRUTH[0, 1] = TRUTH[1, 0] = 0.6
TRUTH[2, 3] = TRUTH[3, 2] = -0.4
SCALE = np.array([1.0, 10.0, 0.1, 2.0, 1.0, 5.0])
NAMES = ("age", "weight", "pulse", "temp", "bmi", "dose")


def released(rng, *, threshold=0.0, n=N, sigma=SIGMA, **changes) -> Release:
    """A release of n normal records of the covariance TRUTH, in units of SCALE."""
    making = Making(n_records=n, threshold=threshold)
    covariance = TRUTH * np.multiply.outer(SCALE, SCALE)
    parts = {"column_names": NAMES, "making": making} | changes
    return document(covariance, n=n, noise=sigma, rng=rng, **parts)


def _covered(rng, runs, narrower=1.0):
    """Of how many intervals how many cover: of found and of unrelated pairs, of variances."""
    place = {name: i for i, name in enumerate(NAMES)}
    counts, of = np.zeros(3, dtype=int), np.zeros(3, dtype=int)
    for _ in range(runs):
        # A threshold at two deviations, so that many pairs barely pass.
        made = released(rng, threshold=0.4, sigma=0.1)
        table = pairs_table(made, 0.95)
        rows = [place[name] for name in table["feature_1"]]
        columns = [place[name] for name in table["feature_2"]]
        middle = 0.5 * (table["correlation_lower"] + table["correlation_upper"])
        half = 0.5 * narrower * (table["correlation_upper"] - table["correlation_lower"])
        inside = np.abs(TRUTH[rows, columns] - middle) <= half
        kept = table["covariance"] != 0
        for k, which in enumerate((kept, ~kept & (TRUTH[rows, columns] == 0))):
            counts[k] += int(inside[which].sum())
            of[k] += int(which.sum())
        own = variances_table(made, 0.95)
        middle = 0.5 * (own["lower"] + own["upper"])
        half = 0.5 * narrower * (own["upper"] - own["lower"])
        counts[2] += int((np.abs(SCALE**2 - middle) <= half).sum())
        of[2] += D
    return counts, of


def test_intervals_of_correlations_and_variances_cover():
    """Coverage of 0.95 up to 0.01, false alarms 1e-6 each; intervals of half the width fail."""

    def at_least(count, number):
        return count >= fewest(number)

    counts, of = _covered(np.random.default_rng(2), 160)
    assert all(map(at_least, counts, of))
    counts, of = _covered(np.random.default_rng(3), 100, narrower=0.5)
    assert not any(map(at_least, counts, of))


def test_the_interval_of_a_zero_that_a_threshold_left_includes_zero():
    integers = np.rint(np.eye(D) / UNIT).astype(np.int64)
    for (i, j), value in {(0, 1): 0.3, (2, 3): 0.15, (4, 5): 0.01}.items():
        integers[i, j] = integers[j, i] = int(value / UNIT)
    made = released(np.random.default_rng(0), integers=integers, threshold=0.2)
    table = pairs_table(made, 0.95)
    sides = zip(table["feature_1"], table["feature_2"], strict=True)
    at = {tuple(sorted(pair)): k for k, pair in enumerate(sides)}
    kept, zero, small = at["age", "weight"], at["pulse", "temp"], at["bmi", "dose"]
    assert table["covariance"][kept] > 0
    for at in (zero, small):
        assert table["covariance"][at] == table["correlation"][at] == 0
        assert table["lower"][at] <= 0 < table["upper"][at]
        assert table["correlation_lower"][at] <= 0 < table["correlation_upper"][at]
    assert table["lower"][zero] == 0
    assert table["status"][[kept, zero, small]].tolist() == [NONZERO, MAY_BE_ZERO, MAY_BE_ZERO]


def test_no_pair_of_a_constant_column_is_significant():
    """By its own variance, or because no scale was found; whatever noise makes of its pairs."""
    integers = np.rint(np.eye(D) / UNIT).astype(np.int64)
    integers[2, 2] = 1
    for other in (0, 1):
        integers[2, other] = integers[other, 2] = int(0.9 / UNIT)
        integers[3, other] = integers[other, 3] = int(0.9 / UNIT)
    integers[0, 1] = integers[1, 0] = int(0.5 / UNIT)
    made = released(np.random.default_rng(0), integers=integers, noise_sd=(0.01, 0.01))
    made = replace(made, making=replace(made.making, unresolved=(3,)), location=np.ones(D))
    table, seen = pairs_table(made, 0.95), view(made)
    still = np.isin([table["feature_1"], table["feature_2"]], ["pulse", "temp"]).any(axis=0)
    assert (table["status"][still] == CONSTANT_COLUMN).all()
    assert (table["status"][~still] != CONSTANT_COLUMN).all()
    assert not (table["lower"][still] > 0).any()
    assert not (table["upper"][still] < 0).any()
    for name in ("correlation", "correlation_lower", "correlation_upper"):
        assert np.isnan(table[name][still]).all()
    assert (seen.found.places, seen.n_found) == ([(0, 1)], 1)
    assert table["status"][0] == NONZERO
    assert variances_table(made, 0.95)["status"][[1, 2, 3]].tolist() == [
        NONZERO,
        CONSTANT_COLUMN,
        CONSTANT_COLUMN,
    ]


def test_a_column_that_was_not_found_is_not_called_constant():
    made = released(np.random.default_rng(0), location=np.array([1.0, 1, 1, 0, 1, 1]))
    made = replace(made, making=replace(made.making, unresolved=(2, 3)))
    table, own = pairs_table(made, 0.95), variances_table(made, 0.95)["status"]
    assert own[2:4].tolist() == [CONSTANT_COLUMN, COLUMN_NOT_FOUND]
    lost = np.isin([table["feature_1"], table["feature_2"]], ["temp"]).any(axis=0)
    assert (table["status"][lost] == COLUMN_NOT_FOUND).all()
    assert COLUMN_NOT_FOUND not in table["status"][~lost]


def test_releases_without_one_noise_level_have_no_intervals():
    made = released(np.random.default_rng(0), noise_sd=None)
    assert np.isnan(pairs_table(made, 0.95)["lower"]).all()
    assert np.isnan(variances_table(made, 0.95)["upper"]).all()
    assert set(pairs_table(made, 0.95)["status"]) == {NOT_KNOWN}
    making = Making(n_records=N, unresolved=(2,))
    table = pairs_table(released(np.random.default_rng(0), making=making), 0.95)
    lost = (table["feature_1"] == "pulse") | (table["feature_2"] == "pulse")
    assert np.all(np.isinf(table["upper"]) == lost)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(4)
    rows = rng.multivariate_normal(np.zeros(D), TRUTH, size=4_000) * SCALE
    return pandas.DataFrame(rows, columns=NAMES)


@pytest.fixture(scope="module")
def fitted(frame):
    return hushcov.GaussianCovariance(epsilon=1.0, delta=1e-6).fit(frame)


@pytest.mark.parametrize("tables", ["csv", "parquet", "none"])
def test_what_was_saved_is_loaded(fitted, tmp_path, tables):
    folder = fitted.save(tmp_path / "release", tables=tables)
    loaded = hushcov.load(folder)
    assert loaded.release_ == fitted.release_
    np.testing.assert_array_equal(loaded.covariance_, fitted.covariance_)
    np.testing.assert_array_equal(loaded.correlation_, fitted.correlation_)
    np.testing.assert_array_equal(loaded.precision_, fitted.precision_)
    assert list(loaded.feature_names_in_) == list(NAMES)
    assert loaded.pairs().equals(fitted.pairs())
    assert "epsilon 1" in repr(loaded)
    if tables == "none":
        assert not list(folder.glob("pairs.*"))
        return
    read = read_exactly if tables == "csv" else pandas.read_parquet
    pandas.testing.assert_frame_equal(read(folder / f"pairs.{tables}"), fitted.pairs())
    pandas.testing.assert_frame_equal(read(folder / f"variances.{tables}"), fitted.variances())
    matrix = read(folder / f"covariance.{tables}").set_index("feature")
    assert list(matrix.columns) == list(matrix.index) == list(NAMES)
    np.testing.assert_allclose(matrix.to_numpy(), fitted.covariance_, rtol=1e-15)


def test_frames_of_both_libraries(fitted):
    assert isinstance(fitted.pairs(), pandas.DataFrame)
    assert isinstance(fitted.pairs(library="polars"), polars.DataFrame)
    assert fitted.variances(library="polars")["feature"].to_list() == list(NAMES)
    with pytest.raises(ParameterError, match="library must be one of"):
        fitted.pairs(library="excel")
    with pytest.raises(ParameterError, match="level"):
        fitted.pairs(level=1.5)
    with pytest.raises(ParameterError, match="tables must be one of"):
        fitted.save("anywhere", tables="xlsx")


def test_names_with_commas_and_quotes_come_back(tmp_path):
    names = ('a,"b"', "c\nd", "feature", "ü", " e ", "=1+1")
    made = released(np.random.default_rng(0), column_names=names)
    written = dict(write_tables(tmp_path, made, estimate(made), "csv"))
    tables = {f"{name}.csv" for name in ("pairs", "variances", "covariance", "correlation")}
    assert set(written) == {*tables, "summary.json"}
    with (tmp_path / "variances.csv").open(newline="", encoding="utf-8") as file:
        assert [row["feature"] for row in csv.DictReader(file)] == [*names[:-1], "'=1+1"]
    with (tmp_path / "covariance.csv").open(newline="", encoding="utf-8") as file:
        assert next(csv.reader(file)) == ["feature_", *names[:-1], "'=1+1"]
