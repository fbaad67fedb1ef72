"""The tables of what somebody could learn are those of the accountant."""

from __future__ import annotations

import pytest

from docs.pages import DOCS
from docs.test_benchmarks import tables
from hushcov.accounting import Gaussian, calibrate_gaussian
from hushcov.accounting.guarantee import odds_of

DELTA = 1e-6


def shown(title: str) -> list[list[float]]:
    """Rows of the table with this word in its head: epsilon, then percentages."""
    page = (DOCS / "guarantee.md").read_text()
    (rows,) = [rows for head, rows in tables(page) if title in head]
    return [[float(cell.removesuffix(" %")) for cell in row] for row in rows]


@pytest.mark.parametrize("row", shown("sure becomes"), ids=lambda row: str(row[0]))
def test_beliefs(row):
    epsilon, _, *beliefs = row
    found = [100 * after for _, after in odds_of(epsilon, delta=DELTA).beliefs]
    assert beliefs == pytest.approx(found, abs=0.06)


@pytest.mark.parametrize("row", shown("false alarms"), ids=lambda row: str(row[0]))
def test_attacks(row):
    epsilon, *powers = row
    noise = Gaussian(calibrate_gaussian(epsilon, delta=DELTA))
    promised = odds_of(epsilon, delta=DELTA).tests
    known = odds_of(epsilon, delta=DELTA, events=[noise]).tests
    pairs = zip(promised, known, strict=True)
    assert powers == pytest.approx([100 * each[1] for pair in pairs for each in pair], abs=0.06)
