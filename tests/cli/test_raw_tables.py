"""Raw tables with every defect that they have, from `start` to a regression: see the study."""

import csv
import importlib.util
import sys
from pathlib import Path

import pytest

STUDY = Path(__file__).resolve().parents[2] / "benchmarks" / "studies" / "raw_tables.py"


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(STUDY.parent))
    spec = importlib.util.spec_from_file_location("raw_tables", STUDY)
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "raw_tables", found)
    spec.loader.exec_module(found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hospital", "households"])
def test_a_walk_from_a_raw_table_to_a_regression(study, name):
    """Four times the width of an interval: wrong once in many millions of releases."""
    for what, truth, estimate, low, high in study.walk(getattr(study, name)(30_000, 5)):
        assert abs(estimate - truth) < 4 * (high - low), what
        assert high - low < (0.05 if what.startswith("share") else max(1.0, abs(truth))), what
    with open(f"{name}-rows.csv") as file:
        header, *rows = csv.reader(file)
    assert header == list(getattr(study, name)(10, 5).table)[1:]  # all but the identifier
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    flag, count, least = ("smoker", "age", 0) if name == "hospital" else ("online", "PERSONS", 1)
    assert {*columns[flag]} == {"yes", "no"}
    assert min(map(int, columns[count])) >= least
