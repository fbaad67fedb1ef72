"""A study that takes no time; workers import it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from hushcov.report.style import new_figure
from hushcov_lab.rivals.study import Study, Summary

STOP = "FAKE_STUDY_STOPS_AT"


def cells(preset: str, folder: Path | None) -> list[dict]:
    sizes = (1, 2, 3) if preset == "quick" else (1, 2, 3, 4)
    return [{"size": size, "seed": 7 + size, "folder": None} for size in sizes]


def measure(cell: dict) -> list[dict]:
    if os.environ.get(STOP) == str(cell["size"]):
        raise KeyboardInterrupt
    size = cell["size"]
    return [
        {"method": "ours", "score": np.float64(size), "width": np.inf},
        {"method": "theirs", "score": None if size == 2 else size / 10, "refusal": "no"},
    ]


def draw(rows: list[dict]):
    figure = new_figure(3, 3)
    figure.subplots().plot([row["size"] for row in rows], [row["size"] for row in rows])
    return figure


STUDY = Study(
    "regression", "A fake", cells, measure, draw, "Nothing to see.", Summary("size", "score")
)
