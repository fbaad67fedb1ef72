"""How numbers are written, and correlations read off a release."""

import numpy as np
import pytest

from hushcov._words import number
from hushcov.cli.output import busy, steps, watched
from hushcov.release.view import ShownPair
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords
from hushcov.text.description import pair_remarks
from hushcov.text.rows import pair_table


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        *((0.00123456, 2, "0.0012"), (140.2, 2, "140"), (2345.6, 2, "2,300")),
        *((12345.6, 3, "1.23e4"), (1e-6, 4, "1e-6"), (-1.5e15, 4, "-1.5e15"), (0.999, 2, "1")),
        (float("inf"), 2, "inf"),
    ],
)
def test_numbers_have_few_digits(value, digits, text):
    assert number(value, digits) == text


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
    inside = ShownPair((0, 1), 1.25, 0.5, (1.0, 1.5), (0.4, 0.6))
    outside = ShownPair((0, 2), 0.3, 0.3, (-0.1, 0.2), (-0.2, 0.1), outside=True)
    assert _cells(pair_table([inside, outside]))[2] == ["0.4 to 0.6", "-0.2 to 0.1*"]
    assert [pair.to_dict()["outside_interval"] for pair in (inside, outside)] == [False, True]
    assert "*" not in pair_remarks([inside])
    words = pair_remarks([inside, outside])
    assert "* outside its interval: the estimate barely passed the threshold" in words
    assert "semidefinite" not in words
    assert "semidefinite" in pair_remarks([outside], projected=True)


def test_progress_where_there_is_no_terminal(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("hushcov.cli.output._EVERY", 10.0)
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


def test_progress_counts_every_row_of_every_pass(capsys):
    seen: list[object] = []
    records = WatchedRecords(
        ArrayRecords(np.ones((2500, 3)), block_rows=1000), lambda: seen.append("pass"), seen.append
    )
    assert (records.n_records, records.n_features) == (2500, 3)
    for _ in range(2):
        total = records.map_sum(lambda block: np.array([len(block)]))
        assert total.tolist() == [2500]
    assert seen == ["pass", 1000, 1000, 500] * 2
    with watched(ArrayRecords(np.ones((10, 3)))) as records:
        records.map_sum(lambda block: np.array([len(block)]))
    with steps(2) as step:
        step("first")
        step("second")
    with busy("working") as say:
        say("still working")
    assert capsys.readouterr() == ("", "")
