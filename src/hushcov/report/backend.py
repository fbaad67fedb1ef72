"""The one place where matplotlib is imported, without pyplot, a display or global state.

All figures have a caption that says what to see.
"""

from __future__ import annotations

import importlib
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class MissingFiguresError(ImportError):
    """A figure was asked for and matplotlib is not installed."""


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, or say how to install what it needs."""
    try:
        figure = importlib.import_module("matplotlib.figure").Figure
    except ModuleNotFoundError:
        raise MissingFiguresError(
            "figures need matplotlib, which is not installed: pip install 'hushcov[figures]'"
        ) from None
    result: Figure = figure(figsize=(width, height), layout="constrained")
    return result


def caption(figure: Figure, text: str, *, width: int) -> None:
    """Write what to see below a figure, in lines of at most `width` characters."""
    lines = textwrap.fill(text, width, break_on_hyphens=False)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=10, color="0.25")
