"""How contenders look in the figures of `hushcov bench`: the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hushcov.lab.benchmark.contenders import ZERO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


@dataclass(frozen=True)
class Look:
    """Colour, marker and line of one contender."""

    colour: str
    marker: str
    line: str | tuple[int, tuple[int, ...]] = "solid"
    width: float = 1.4

    def plot(self) -> dict[str, Any]:
        """Keyword arguments for `Axes.plot`."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "linewidth": self.width,
            "markersize": 5,
        }


# Colours of Okabe and Ito and of Tol, which colour-blind readers can tell apart; markers differ
# too. Grey is not private.
LOOKS = {
    "auto": Look("#0072B2", "o", width=2.6),
    "screened": Look("#56B4E9", "*", (0, (4, 2)), 1.6),
    "gaussian-threshold": Look("#D55E00", "s"),
    "gaussian": Look("#E69F00", "^"),
    "multiscale": Look("#CC79A7", "D"),
    "row-top-k": Look("#009E73", "v"),
    "separate": Look("#882255", "<"),
    "adaptive": Look("#AA4499", ">", "dashed"),
    "coinpress": Look("#999933", "P"),
    "eigen-sampling": Look("#332288", "X"),
    "thresholded": Look("0.35", ".", "dotted"),
    "empirical": Look("0.6", ".", "dotted"),
    ZERO: Look("black", "", (0, (6, 3)), 1.0),
}


def short(value: float) -> str:
    """Return a number without leading zeros of its exponent: 1e-6."""
    return f"{value:g}".replace("e-0", "e-")


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


def tidy(axes: Axes) -> None:
    """Grid lines behind, no frame above and to the right."""
    axes.grid(which="major", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
