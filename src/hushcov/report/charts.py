"""The charts of a report: what took the budget, eigenvalues, estimated and expected errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.report.pages import count, number
from hushcov.report.style import chart, ink, tidy

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (420.0, 320.0)  # pixels
_SIDES = (52.0, 20.0, 52.0, 34.0)  # room left, right, below and above the axes
_COLOURS = 6  # share-0 to share-5 of the style sheet
_NARROW = 16  # pixels below which a part of the bar has no letter
_FEW = 60  # dots that may be large


def budget_chart(
    shares: Sequence[float], letters: Sequence[str], label: str, titles: Sequence[str]
) -> Markup:
    """One bar of the shares of the budget; `titles` are said of what is pointed at."""
    size = (420.0, 82.0)
    identified = {f"share-{place}": title for place, title in enumerate(titles)}

    def draw(figure: Figure) -> None:
        axes = _axes(figure, size, (16, 26, 28, 24), label)
        axes.set(xlim=(0, 1), ylim=(0, 1), yticks=[])
        axes.spines[:].set_visible(False)
        axes.set_xticks(np.linspace(0, 1, 6), [f"{share} %" for share in range(0, 101, 20)])
        pixels, start = size[0] - 42, 0.0
        for place, share in enumerate(shares):
            width = max(share - 1.5 / pixels, 0.5 / pixels)  # a gap tells parts from each other
            colour = ink(f"share-{place % _COLOURS}")
            axes.barh(0.5, width, 1, start, color=colour)[0].set_gid(f"share-{place}")
            if width * pixels >= _NARROW:
                letter = axes.text(start + share / 2, 0.5, letters[place], weight="bold")
                letter.set(color=ink("on-share"), ha="center", va="center_baseline")
            start += share

    return chart(size, "Shares of the privacy budget", draw, titles=identified)


def spectrum_chart(values: FloatArray, reach: float | None) -> Markup:
    """Eigenvalues by rank; shaded, how far errors reach from 1."""

    def draw(figure: Figure) -> None:
        axes = _axes(figure, _SIZE, _SIDES, "eigenvalue (no unit)")
        axes.set_xlabel("rank of the eigenvalue", color=ink("muted"))
        draw_spectrum(axes, values, reach, ink)

    label = "Eigenvalues of the released correlations, the largest first"
    return chart(_SIZE, label, draw)


def estimate_chart(error: float, least: float, most: float) -> Markup:
    """An error with its interval, on a line from no error to that of the zero matrix."""
    size = (420.0, 104.0)
    ends = max(0.0, least), min(1.0, most)

    def draw(figure: Figure) -> None:
        axes = _axes(figure, size, (16, 26, 46, 34), "estimated error of this release")
        axes.set(xlim=(-0.01, 1.05), ylim=(0, 1), yticks=[])
        axes.set_xlabel("share of the covariance's norm", color=ink("muted"))
        axes.spines[["left", "right", "top"]].set_visible(False)
        axes.xaxis.set_major_formatter(_tick)
        axes.axvline(1.0, color=ink("muted"), linestyle=(0, (4, 3)), linewidth=1.4)
        # The name of the line, on the side where nothing is drawn.
        _beside(axes, "the zero matrix", (1.0, 0.78), (-5, 0), ha="right")
        axes.plot(ends, [0.4, 0.4], color=ink("link"), marker="|", markersize=12, linewidth=3)
        (dot,) = axes.plot(min(error, 1.0), 0.4, "o", markersize=10, color=ink("link"))
        dot.set(markeredgewidth=0, gid="error-estimate", zorder=3)

    words = f"{number(error, 2)}, between {number(least, 2)} and {number(most, 2)}"
    return chart(size, f"Estimated error: {words}", draw, titles={"error-estimate": words})


def error_chart(records: Sequence[int], errors: Sequence[float], here: int) -> Markup:
    """Draw errors against the number of records; the point `here` is that of the release."""

    def draw(figure: Figure) -> None:
        axes = _axes(figure, _SIZE, _SIDES, "error / norm of the covariance")
        axes.set_xlabel("number of records", color=ink("muted"))
        axes.set(xscale="log", yscale="log", xlim=(0.8 * min(records), 1.25 * max(records)))
        axes.set_ylim(0.7 * min(errors), 1.6 * max(*errors, 1.0))
        for axis in (axes.xaxis, axes.yaxis):
            locator: Any = axis.get_major_locator()
            locator.set_params(subs=(1.0, 3.0))
        axes.minorticks_off()
        _framed(axes)
        _reference(axes, "the zero matrix")
        axes.plot(records, errors, color=ink("link"), marker="o", markersize=6, linewidth=2)
        point = (records[here], errors[here])
        (dot,) = axes.plot(*point, "o", markersize=14, color=ink("link"))
        dot.set(markeredgecolor=ink("page"), markeredgewidth=2)
        _beside(axes, "this release", point, (9, 7), weight="bold")

    return chart(_SIZE, "Error of this release, and with other numbers of records", draw)


def _axes(
    figure: Figure,
    size: tuple[float, float],
    sides: tuple[float, float, float, float],
    label: str,
) -> Axes:
    """Axes with this room around them, in pixels, and what is upwards written above them."""
    (width, height), (left, right, below, above) = size, sides
    box = (left / width, below / height)
    axes = figure.add_axes((*box, 1 - (left + right) / width, 1 - (below + above) / height))
    figure.text(4 / width, 1 - 14 / height, label, color=ink("muted"))
    return axes


def _framed(axes: Axes, colour: Callable[[str], str] = ink) -> None:
    tidy(axes, colour=colour("line"))
    axes.xaxis.set_major_formatter(_tick)
    axes.yaxis.set_major_formatter(_tick)


def _reference(axes: Axes, label: str, colour: Callable[[str], str] = ink) -> None:
    """A dashed line at 1, which the label above it explains."""
    axes.axhline(1.0, color=colour("muted"), linestyle=(0, (4, 3)), linewidth=1.4)
    _beside(axes, label, (1.0, 1.0), (0, 5), xycoords=("axes fraction", "data"), ha="right")


def _beside(
    axes: Axes, label: str, point: tuple[float, float], pixels: tuple[int, int], **look: Any
) -> None:
    axes.annotate(label, point, xytext=pixels, textcoords="offset points", **look)


def _tick(value: float, _: float) -> str:
    """A value beside its tick."""
    exact = float(f"{value:.12g}")  # sums of steps have rounding errors
    whole = abs(exact) >= 1000 and exact == round(exact)
    return count(round(exact)) if whole else number(exact)


_LONG = 30  # borders that can be named


def decay_chart(lags: Sequence[int], means: Sequence[float], noise: float | None) -> Markup:
    """Mean sizes of correlations by distance; dashed, what noise alone gives."""

    def draw(figure: Figure) -> None:
        axes = _axes(figure, _SIZE, _SIDES, "mean size of a correlation")
        axes.set_xlabel("columns apart", color=ink("muted"))
        top = max(*means, noise or 0.0)
        axes.set(xlim=(min(lags) - 0.5, max(lags) + 0.5), ylim=(0, 1.15 * top or 1.0))
        axes.locator_params(axis="x", nbins=6, integer=True)
        _framed(axes)
        if noise is not None:
            _dashed(axes, noise)
        size = 6 if len(lags) <= _FEW else 3
        axes.plot(lags, means, color=ink("link"), marker="o", markersize=size, linewidth=2)

    return chart(_SIZE, "Mean size of correlations by distance", draw)


def order_chart(
    places: FloatArray,
    means: FloatArray,
    borders: Sequence[tuple[int, str]],
    noise: float | None,
) -> Markup:
    """Mean sizes of correlations along the columns, with the ends of chromosomes."""

    def draw(figure: Figure) -> None:
        axes = _axes(figure, _SIZE, _SIDES, "mean size of a correlation")
        axes.set_xlabel(
            "column" if not borders else "column; lines: chromosomes", color=ink("muted")
        )
        top = max(float(np.nanmax(means)) if np.isfinite(means).any() else 0.0, noise or 0.0)
        end = float(places[-1] + places[0])
        axes.set(xlim=(0, end), ylim=(0, 1.2 * top or 1.0))
        axes.locator_params(axis="x", nbins=4, integer=True, prune="upper")
        _framed(axes)
        for start, _ in borders[1:] if len(borders) <= _LONG else ():
            axes.axvline(start, color=ink("line"), linewidth=1)
        if noise is not None:
            _dashed(axes, noise)
        axes.plot(places, means, color=ink("link"), linewidth=1.6)

    return chart(_SIZE, "Mean size of correlations along the columns", draw)


def _dashed(axes: Axes, noise: float) -> None:
    axes.axhline(noise, color=ink("muted"), linestyle=(0, (4, 3)), linewidth=1.4)
    _beside(axes, "noise alone", (0.0, noise), (5, 5), xycoords=("axes fraction", "data"))


def draw_spectrum(
    axes: Axes, values: FloatArray, reach: float | None, colour: Callable[[str], str]
) -> None:
    """Draw eigenvalues by rank, in colours of the page by their names."""
    low, high = min(0.0, float(values.min())), max(1.2, float(values.max()))
    axes.set(xlim=(0.5, len(values) + 0.5), ylim=(1.05 * low, 1.08 * high))
    axes.locator_params(axis="x", nbins=6, integer=True)
    _framed(axes, colour)
    if reach is not None:
        band = np.clip((1 - reach, 1 + reach), *axes.get_ylim())
        axes.axhspan(*band, facecolor=colour("link"), edgecolor="none", alpha=0.14, zorder=0)
    _reference(axes, "unrelated features: 1", colour)
    ranks, size = range(1, len(values) + 1), 7 if len(values) <= _FEW else 4
    look: dict[str, Any] = {"markeredgewidth": 0, "clip_on": False, "zorder": 3}
    axes.plot(ranks, values, "o", markersize=size, color=colour("link"), **look)
