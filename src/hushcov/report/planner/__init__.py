"""The planner as a page: sliders over a grid of forecasts that were computed beforehand."""

from hushcov.report.planner.grid import Grid, Setting, grid_around
from hushcov.report.planner.page import (
    SHOWN_ERRORS,
    Axis,
    Figures,
    PlannerPage,
    Point,
    write_planner_page,
)

__all__ = [
    "SHOWN_ERRORS",
    "Axis",
    "Figures",
    "Grid",
    "PlannerPage",
    "Point",
    "Setting",
    "grid_around",
    "write_planner_page",
]
