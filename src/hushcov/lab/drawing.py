"""What the figures of the laboratory have in common."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hushcov.report.style import new_figure

if TYPE_CHECKING:
    from matplotlib.axis import Axis


def check_paths(figure: Path | None, *others: Path | None) -> None:
    """Find out now, not after the work, that a result cannot be written or drawn."""
    for path in (figure, *others):
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    if figure is not None:
        new_figure(1, 1)


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
