"""How numbers are written, and correlations read off a release."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov._words import count, counted, exact, noise_level, number
from hushcov.accounting import Gaussian, Guarantee
from hushcov.cli.answers import pair_remarks, pair_table
from hushcov.cli.output import steps, watched
from hushcov.cli.plan import detection
from hushcov.planning import Forecast
from hushcov.release import Release
from hushcov.release.description import describe
from hushcov.release.pairs import ShownPair
from hushcov.tables.sources import ArrayRecords


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


def _cells(table) -> list[list[str]]:
    return [list(map(str, column.cells)) for column in table.columns]


def test_pairs_with_and_without_intervals():
    pairs = [ShownPair((0, 2), 1.25, 0.5, (1.0, 1.5)), ShownPair((1, 2), -2.0, -0.25, (-2.5, -1.5))]
    assert _cells(pair_table(pairs)) == [
        ["0, 2", "1, 2"],
        ["0.500", "-0.250"],
        ["none", "none"],
        ["1.25", "-2"],
    ]
    alone = [ShownPair((0, 2), 1.25, 0.5, None)]
    assert len(pair_table(alone).columns) == 3


def release_of(integers: np.ndarray, **changes) -> Release:
    guarantee = Guarantee(
        epsilon=1.0,
        delta=1e-6,
        transcript_epsilon=0.5,
        transcript_delta=1e-6,
        numerical_delta=0.0,
        events=(Gaussian(0.1),),
        method="gaussian",
        preconditions=(),
    )
    return Release("m", integers, 0.01, guarantee, {}, **changes)


def test_noise_is_shown_as_what_it_is():
    integers = np.array([[100, 130, 50], [130, 100, 20], [50, 20, -200]])
    shown = describe(release_of(integers), 10)
    pairs = shown.strongest
    assert [pair.features for pair in pairs] == [(0, 1), (0, 2), (1, 2)]
    assert _cells(pair_table(pairs))[1] == ["1.3: noise", "none: noise", "none: noise"]
    found = [pair.to_dict() for pair in pairs]
    assert [each["correlation"] for each in found] == [pytest.approx(1.3), None, None]
    assert [each["noise"] for each in found] == [True, True, True]
    words = pair_remarks(pairs)
    assert "Only noise puts a correlation beyond 1" in words
    assert "There is none where noise made a variance zero or negative." in words
    assert shown.lines()[1:] == [("variances", "1 of 3 variances came out negative: noise")]
    assert len(describe(release_of(np.eye(3, dtype=np.int64)), 10).lines()) == 1


def test_an_estimate_outside_its_interval_is_explained():
    inside = ShownPair((0, 1), 1.25, 0.5, (1.0, 1.5), (0.4, 0.6))
    outside = ShownPair((0, 2), 0.3, 0.3, (-0.1, 0.2), (-0.2, 0.1), outside=True)
    assert _cells(pair_table([inside, outside]))[2] == ["0.4 to 0.6", "-0.2 to 0.1*"]
    assert [pair.to_dict()["outside_interval"] for pair in (inside, outside)] == [False, True]
    assert "*" not in pair_remarks([inside])
    words = pair_remarks([inside, outside])
    assert "* outside its interval: the estimate barely passed the threshold" in words
    assert "semidefinite" not in words
    assert "semidefinite" in pair_remarks([outside], projected=True)


def test_what_will_be_found_in_words():
    def words(mechanism: str, limit: float | None) -> str:
        return detection(Forecast(mechanism, {}, limit))

    assert words("screened", 0.0444) == "correlations of 0.044 or more, nine times out of ten"
    assert words("screened", 1.0).startswith("hardly any pair")
    for mechanism in ("screened", "gaussian-threshold", "gaussian", "multiscale"):
        assert words(mechanism, None).startswith("no prediction: ")
    assert noise_level(0.0123, 10_000).endswith("sampling error alone has 0.01")


def test_progress_where_there_is_no_terminal(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("hushcov.cli.output.time.monotonic", lambda: now[0])
    with steps(4) as step:
        for wait, words in ((0, "one"), (9.9, "two"), (0.2, "three"), (0.1, "four")):
            now[0] += wait
            step(words)
    assert capsys.readouterr().err == "hushcov: three: 50 % done\n"
    with watched(ArrayRecords(np.zeros((100, 1)), block_rows=50)) as rows:
        now[0] += 11
        rows.map_sum(lambda block: np.zeros(1, dtype=np.int64) + len(block))
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "hushcov: reading records, pass 1: 0 % done"
