"""Style of figures. The one place where matplotlib is imported: no pyplot, no display."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hushcov.exceptions import MissingPackageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: How every caption of a figure begins.
SEE = "What to see: "

#: The extra that pages and figures need.
EXTRA = "report"

# Okabe and Ito's colours, which colour-blind readers can tell apart.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
#: Colour and marker of the first curve of a figure, the second and so on.
LOOKS = (
    *((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (PURPLE, "D")),
    *((ORANGE, "v"), (SKY, "P"), (BLACK, "X")),
)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, or say how to install what it needs."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingPackageError("figures", "matplotlib", EXTRA) from None
    return Figure(figsize=(width, height), layout="constrained")


def write_png(path: str | Path, figure: Figure) -> Path:
    """Write a figure, and return its path."""
    Path(path).write_bytes(png(figure, dpi=150))
    return Path(path)


def png(figure: Figure, *, dpi: int = 80) -> bytes:
    """Return a figure as PNG."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # no font has the letters of every name
        figure.savefig(stream, format="png", dpi=dpi)
    return stream.getvalue()


def caption(figure: Figure, text: str, *, width: int, headline: str | None = None) -> Figure:
    """Write what to see below a figure, in lines of at most `width`, and a headline above it."""
    if headline is not None:
        figure.suptitle(headline, fontsize=12)
    lines = textwrap.fill(text, width, break_on_hyphens=False)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=10, color="0.25")
    return figure


def log_ticks(axis: Axis, values: Sequence[float]) -> None:
    """Label exactly these values on a logarithmic axis, from 10,000 on as powers of ten."""
    labels = (f"{value:,g}" if value < 10_000 else power(value, 0) for value in values)
    axis.set_ticks(values, [label.replace("$1\\times", "$") for label in labels])
    axis.set_ticks([], minor=True)


def power(value: float, digits: int = 1) -> str:
    """Return a number as mathematical text: 5.3e10 with a raised exponent."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"${mantissa}\\times10^{{{int(exponent)}}}$"


def tidy(axes: Axes, axis: Literal["both", "x", "y"] = "both", *, colour: str = "0.92") -> None:
    """Draw grid lines behind the data, and no frame above and to the right."""
    axes.grid(axis=axis, which="major", color=colour)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
