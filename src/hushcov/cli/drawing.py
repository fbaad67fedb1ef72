"""Shared parts of the laboratory's figures and of the commands that draw them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hushcov.cli.files import check_figure, check_parent
from hushcov.cli.options import INTEGER, Function
from hushcov.report.style import LOOKS, caption

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = tuple(colour for colour, _ in LOOKS)

seed_option = click.option("--seed", type=INTEGER, default=0, show_default=True, metavar="S")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


def figure_option(words: str) -> Callable[[Function], Function]:
    """`--figure PNG`, with what is drawn."""
    path = click.Path(path_type=Path, dir_okay=False)
    return click.option("--figure", type=path, metavar="PNG", help=words)


def check_paths(figure: Path | None, *others: Path | None) -> None:
    """Find out now, not after the work, that a result cannot be written or drawn."""
    for path in others:
        if path is not None:
            check_parent(path)
    if figure is not None:
        check_figure(figure)


def finish(figure: Figure, text: str, *, width: int, headline: str | None = None) -> Figure:
    """Add a caption that says what to see, and a headline above everything."""
    if headline is not None:
        figure.suptitle(headline, fontsize=12)
    caption(figure, text, width=width)
    return figure


def log_ticks(axis: Axis, values: Sequence[float]) -> None:
    """Label exactly these values on a logarithmic axis."""
    axis.set_ticks(values, [_tick(value) for value in values])
    axis.set_ticks([], minor=True)


def _tick(value: float) -> str:
    """A number, from 10,000 on as mathematical text: 3e4 with a raised exponent."""
    if value < 10_000:
        return f"{value:,g}"
    digit, exponent = f"{value:.0e}".split("e")
    factor = "" if digit == "1" else f"{digit}\\times"
    return f"${factor}10^{{{int(exponent)}}}$"


def power(value: float) -> str:
    """A number as mathematical text: 5.3e10 with a raised exponent."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"${mantissa}\\times10^{{{int(exponent)}}}$"


def short(value: float) -> str:
    """Return a number without leading zeros of its exponent: 1e-6."""
    return f"{value:g}".replace("e-0", "e-")
