"""The one place where matplotlib is imported, without pyplot, a display or global state."""

from __future__ import annotations

import importlib
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
