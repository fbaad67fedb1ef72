"""A small page of the planner, with the real forecasts of few features, made in this process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hushcov.cli import plan_page
from hushcov.cli.forecasts import Planner
from hushcov.planning import Request
from hushcov.report import planner as planner_module

FACTORS = {
    "n_features": (0.4, 1),
    "row_sparsity": (0.5, 1),
    "epsilon": (1, 3),
    "delta": (0.01, 1),
}
RECORDS = (20, 3_000, 500_000)
# The thresholded mechanism takes most of the time of so few features.
MECHANISMS = ("screened", "gaussian", "multiscale")


def planner(**changes: Any) -> Planner:
    """The forecasts that the page is made of: 3 features, 2 nonzeros a row."""
    public = {"row_sparsity": 2, "epsilon": 1.0, "delta": 1e-6} | changes
    n_features = public.pop("n_features", 3)
    return Planner(Request(**public), n_features, MECHANISMS)


def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few values a slider, and no worker processes."""
    monkeypatch.setattr(planner_module, "_FACTORS", FACTORS)
    monkeypatch.setattr(plan_page, "usable_cores", lambda: 1)


def write_small_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    in_this_process(monkeypatch)
    monkeypatch.setattr(plan_page, "page_records", lambda planner, asked: list(RECORDS))
    plan_page.write_page(path, planner(), [RECORDS[1]], None)
    return path


def embedded_data(path: Path) -> dict[str, Any]:
    """What the page's program reads."""
    found = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text()
    )
    assert len(found) == 1
    return json.loads(found[0])
