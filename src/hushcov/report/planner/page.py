"""The page itself: what it holds, and how that is written into one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hushcov.planning import COMPARED_MODELS
from hushcov.report.page import page, part
from hushcov.report.planner.grid import Grid, Setting

SHOWN_ERRORS = ("typical", *COMPARED_MODELS)


@dataclass(frozen=True)
class Figures:
    """What is expected of one mechanism at one point, as numbers and as the page shows them."""

    errors: tuple[float, ...]  # in the order of `SHOWN_ERRORS`
    detection_limit: float | None
    memory: int  # bytes
    rough: bool
    words: tuple[str, ...]  # of the errors, the detection limit and the memory


@dataclass(frozen=True)
class Point:
    """One combination of all sliders: figures by mechanism, or why there are none."""

    figures: Mapping[str, Figures]
    refusals: Mapping[str, str]
    best: str | None


@dataclass(frozen=True)
class Axis:
    """What a slider shows at each of its values: the value with its unit, and what it means."""

    labels: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PlannerPage:
    """Everything on the page. `points` has one point for each number of records of a setting."""

    grid: Grid
    axes: Mapping[str, Axis]  # by the names of the grid's fields
    start: Setting
    start_records: int
    mechanisms: tuple[str, ...]
    points: Mapping[Setting, Sequence[Point]]
    knowledge: str  # what is known of the records beforehand, and what that costs
    fit_options: str  # of `hushcov fit`, beside the sliders
    target_error: float


def write_planner_page(path: str | Path, content: PlannerPage) -> Path:
    """Write the page as one file that asks no network, and return its path."""
    here = __package__
    text = page(
        "How accurate would a private covariance be? - hushcov",
        part(here, "planner.html"),
        part(here, "planner.css"),
        part(here, "chart.js") + part(here, "planner.js"),
        _data(content),
    )
    Path(path).write_text(text, encoding="utf-8")
    return Path(path)


def _data(content: PlannerPage) -> dict[str, object]:
    """What the page's program reads; points in the order of the sliders."""
    grid = asdict(content.grid)
    start = asdict(content.start) | {"n_records": content.start_records}
    return {
        "sliders": [
            {"name": name, "values": values, "start": values.index(start[name])}
            | asdict(content.axes[name])
            for name, values in grid.items()
        ],
        "mechanisms": content.mechanisms,
        "errors": SHOWN_ERRORS,
        "points": [
            asdict(point)
            for setting in content.grid.settings()
            for point in content.points[setting]
        ],
        "knowledge": content.knowledge,
        "fit_options": content.fit_options,
        "target_error": content.target_error,
    }
