"""What `hushcov plan` draws: a figure of predicted errors, and a page with sliders over a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hushcov.exceptions import DataError
from hushcov.inputs import LARGEST_EPSILON
from hushcov.planning import COMPARED_MODELS, Forecast, predicted
from hushcov.report.pages import page
from hushcov.report.style import LOOKS, caption, new_figure, tidy, write_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Forecasts = Mapping[int, Sequence[Forecast]]  # by number of records
SHOWN_ERRORS = ("typical", *COMPARED_MODELS)
_TOP = 30.0  # errors far above 1 are all the same

Number = TypeVar("Number", int, float)

# Every value costs a sixth of a second at each number of records. Delta matters least.
_FACTORS = {
    "n_features": (0.3, 1, 3),
    "row_sparsity": (0.5, 1, 2),
    "epsilon": (0.3, 1, 3),
    "delta": (1,),
}
# Beyond this row sparsity a forecast takes a second, and soon several.
_QUICK_SPARSITY = 10
_SLOW_FACTORS = {
    "n_features": (0.3, 1),
    "row_sparsity": (0.5, 1),
    "epsilon": (1, 3),
    "delta": (1,),
}


# ---- the figure ----


def plan_figure(
    forecasts: Forecasts, *, title: str = "", target_error: float | None = None
) -> Figure:
    """Return predicted error against n, a panel a model, with a caption that says what to see.

    Parameters
    ----------
    forecasts : mapping of int to sequence of Forecast
        What to expect at each number of records; at least one forecast.
    title : str
        Size and budget of the plan.
    target_error : float, optional
        Errors up to here are shaded, relative to the covariance's norm.
    """
    if not any(forecasts.values()):
        raise DataError("forecasts must hold at least one forecast: there is nothing to draw.")
    figure = new_figure(12, 5.2)
    panels = figure.subplots(1, len(COMPARED_MODELS), sharey=True)
    for axes, model in zip(panels, COMPARED_MODELS, strict=True):
        _panel(axes, forecasts, model, target_error)
    bottom, top = _limits(forecasts, target_error)
    panels[0].set_ylim(bottom, top)
    panels[0].set_ylabel("predicted operator-norm error\n(relative to the covariance's norm)")
    _note(panels[0], 0.99, 1.05, "zero matrix", ha="right", va="bottom")
    if target_error is not None:
        _note(panels[0], 0.01, target_error / 1.05, f"target: at most {target_error:g}", va="top")
    panels[0].legend(loc="lower left", frameon=False, fontsize=9)
    figure.suptitle(f"Predicted error against the number of records: {title}", fontsize=11)
    caption(figure, describe_plan(forecasts, target_error=target_error), width=150)
    return figure


def write_plan_figure(
    path: str | Path, forecasts: Forecasts, *, title: str = "", target_error: float | None = None
) -> Path:
    """Write `plan_figure` as a PNG file, and return its path."""
    figure = plan_figure(forecasts, title=title, target_error=target_error)
    return write_png(path, figure)


def describe_plan(forecasts: Forecasts, *, target_error: float | None = None) -> str:
    """Say what the figure shows, from the forecasts themselves."""
    goal = 1.0 if target_error is None else target_error
    verb = "beats the zero matrix" if target_error is None else "reaches the shaded target"
    parts = []
    for name in _present(forecasts):
        first = _first_below(forecasts, name, goal)
        start = f"from {first:,} records on" if first is not None else "at no number shown"
        parts.append(f"{name} {start}")
    rough = (
        " Open markers are rough: the mechanism's own search was not run."
        if _any_rough(forecasts)
        else ""
    )
    return (
        f"What to see: which line is lowest, and where each {verb} on all three models: "
        f"{'; '.join(parts)}. No data was used: the lines are for covariances like the "
        f"models.{rough}"
    )


def _present(forecasts: Forecasts) -> list[str]:
    names = {each.mechanism for row in forecasts.values() for each in row}
    return [name for name in predicted() if name in names]


def _any_rough(forecasts: Forecasts) -> bool:
    return any(each.rough for row in forecasts.values() for each in row)


def _curve(forecasts: Forecasts, mechanism: str) -> list[tuple[int, Forecast]]:
    return [
        (n, each) for n in sorted(forecasts) for each in forecasts[n] if each.mechanism == mechanism
    ]


def _first_below(forecasts: Forecasts, mechanism: str, goal: float) -> int | None:
    """The smallest n shown from which on every model's error is at most the goal, or below 1."""
    first = None
    for n, each in reversed(_curve(forecasts, mechanism)):
        worst = max(each.predicted_error[model] for model in COMPARED_MODELS)
        if worst > goal or worst >= 1:
            break
        first = n
    return first


def _limits(forecasts: Forecasts, target_error: float | None) -> tuple[float, float]:
    """The zero matrix, the target and every error that is not far above them."""
    errors = [
        each.predicted_error[model]
        for row in forecasts.values()
        for each in row
        for model in COMPARED_MODELS
    ]
    shown = [*errors, 1.0] + ([] if target_error is None else [target_error])
    return min(shown) / 1.6, max(min(max(shown) * 1.6, _TOP), 2.0)


def _panel(axes: Axes, forecasts: Forecasts, model: str, target_error: float | None) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for name in _present(forecasts):
        colour, marker = LOOKS[list(predicted()).index(name) % len(LOOKS)]
        curve = _curve(forecasts, name)
        rough = any(each.rough for _, each in curve)
        axes.plot(
            [n for n, _ in curve],
            [each.predicted_error[model] for _, each in curve],
            color=colour,
            marker=marker,
            markersize=5,
            linestyle="dotted" if rough else "solid",
            linewidth=1.6,
            markerfacecolor="white" if rough else colour,
            label=f"{name} (rough)" if rough else name,
        )
    axes.axhline(1.0, color="black", linewidth=1.2, linestyle="dashed")
    if target_error is not None:
        axes.axhspan(1e-300, target_error, color="0.93", zorder=0)
    axes.set_title(model, fontsize=11)
    axes.set_xlabel("number of records")
    tidy(axes, colour="0.9")


def _note(axes: Axes, x: float, y: float, text: str, **alignment: Any) -> None:
    axes.text(x, y, text, transform=axes.get_yaxis_transform(), fontsize=9, **alignment)


# ---- the page ----


@dataclass(frozen=True)
class Setting:
    """Everything that a forecast depends on, apart from the number of records."""

    n_features: int
    row_sparsity: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Grid:
    """The values of each slider, smallest first; the page holds every combination."""

    n_features: tuple[int, ...]
    row_sparsity: tuple[int, ...]
    epsilon: tuple[float, ...]
    delta: tuple[float, ...]
    n_records: tuple[int, ...]

    def settings(self) -> list[Setting]:
        """All combinations but for the number of records; the last slider moves first."""
        values = (self.n_features, self.row_sparsity, self.epsilon, self.delta)
        return [Setting(*each) for each in itertools.product(*values)]


def grid_around(centre: Setting, n_records: Iterable[int]) -> Grid:
    """The grid of a page: fewer values where each takes longer."""
    factors = _FACTORS if centre.row_sparsity <= _QUICK_SPARSITY else _SLOW_FACTORS
    return Grid(
        n_features=_around(centre.n_features, factors["n_features"]),
        row_sparsity=_around(centre.row_sparsity, factors["row_sparsity"], most=centre.n_features),
        epsilon=_around(centre.epsilon, factors["epsilon"], most=LARGEST_EPSILON),
        delta=_around(centre.delta, factors["delta"]),
        n_records=tuple(sorted(set(n_records))),
    )


def _around(value: Number, factors: Sequence[float], most: float = math.inf) -> tuple[Number, ...]:
    """The value and its multiples, to two digits, in its range; whole numbers stay whole."""
    multiples = (min(float(f"{factor * value:.2g}"), most) for factor in factors if factor != 1)
    near = {type(value)(each) for each in multiples}
    return tuple(sorted({value} | {each for each in near if each > 0}))


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
    text = page(
        "planner.html.j2",
        styles=("colours.css", "base.css", "planner.css"),
        programs=("planner_chart.js", "planner.js"),
        data=_data(content),
        title="How accurate would a private covariance be? - hushcov",
    )
    Path(path).write_bytes(text.encode())
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
