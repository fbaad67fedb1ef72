"""How numbers are written, and correlations read off a release."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.cli.output import count, counted, exact, number
from hushcov.cli.pairs import Pair, pair_table
from hushcov.cli.words import detection, noise_level
from hushcov.planning import Forecast
from hushcov.postprocess import released_correlations


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.00123456, 2, "0.0012"),
        (140.2, 2, "140"),
        (2345.6, 2, "2,300"),
        (12345.6, 3, "1.23e4"),
        (1e-6, 4, "1e-6"),
        (-1.5e15, 4, "-1.5e15"),
        (0.999, 2, "1"),
        (float("inf"), 2, "inf"),
    ],
)
def test_numbers_have_few_digits(value, digits, text):
    assert number(value, digits) == text


def test_counts():
    assert (count(9_999_999), count(10_000_000)) == ("9,999,999", "1e7")
    assert exact(53_338_474_066) == "53,338,474,066 (about 5.33e10)"
    assert (counted(1, "record"), counted(2000, "record")) == ("1 record", "2,000 records")
    assert counted(0, "pair") == "0 pairs"


def test_correlations_use_released_variances_but_not_noise():
    covariance = np.array([[4.0, 1.0, 0.5], [1.0, 1.0, 0.0], [0.5, 0.0, -2.0]])
    found = released_correlations(covariance, np.array([1.0, 1.0, 8.0]))
    assert found[0, 1] == 0.5
    assert found[0, 2] == 0.5 / (2 * 2)  # a quarter of the scale of 8
    assert list(np.diag(found)) == [1.0, 1.0, -0.5]
    assert np.array_equal(found, found.T)


def test_correlations_stay_within_one_and_constants_have_none():
    covariance = np.array([[1.0, 5.0, 0.0], [5.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    found = released_correlations(covariance, np.array([1.0, 1.0, 0.0]))
    assert found[0, 1] == 1.0
    assert list(found[2]) == [0.0, 0.0, 0.0]


def _cells(table) -> list[list[str]]:
    return [list(map(str, column.cells)) for column in table.columns]


def test_pairs_beside_the_truth():
    pairs = [Pair((0, 2), 1.25, 0.5, (1.0, 1.5)), Pair((1, 2), -2.0, -0.25, (-2.5, -1.5))]
    truth = np.array([[1, 0, 1.4], [0, 1, -1.0], [1.4, -1.0, 1]])
    assert _cells(pair_table(pairs, truth)) == [
        ["0, 2", "1, 2"],
        ["0.500", "-0.250"],
        ["1.25", "-2"],
        ["1 to 1.5", "-2.5 to -1.5"],
        ["1.4", "-1"],
        ["yes", "no"],
    ]
    assert len(pair_table(pairs).columns) == 4
    alone = [Pair((0, 2), 1.25, 0.5, None)]
    assert len(pair_table(alone).columns) == 3


def test_what_will_be_found_in_words():
    def words(mechanism: str, limit: float | None) -> str:
        return detection(Forecast(mechanism, {}, limit))

    assert words("screened", 0.0444) == "correlations of 0.044 or more, nine times out of ten"
    assert words("screened", 1.0).startswith("hardly any pair")
    for mechanism in ("screened", "gaussian-threshold", "gaussian", "multiscale"):
        assert words(mechanism, None).startswith("no prediction: ")
    assert noise_level(0.0123, 10_000).endswith("sampling error alone has 0.01")
