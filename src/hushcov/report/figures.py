"""Figures of a release as matplotlib draws them: correlations, pairs, eigenvalues, a graph."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._validation import check_choice
from hushcov._words import counted, number
from hushcov.answers.names import feature_names
from hushcov.postprocess import Matrix, is_noise, is_sparse, upper_pairs
from hushcov.release import Release
from hushcov.release.findings import error_reach, spectrum
from hushcov.release.view import LEVEL, STRONGEST, View
from hushcov.report.heat import (
    SEE,
    check_square,
    condense_band,
    heat_map,
)
from hushcov.report.layout import Graph, graph
from hushcov.report.pages import (
    Subject,
    page_colours,
    printable,
    short,
    subject_of,
    verdict_colours,
)
from hushcov.report.style import caption, new_figure, png, tidy, write_png
from hushcov.text.description import UNRESOLVED, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


_COLOURS = "RdBu_r"  # white is zero; red and blue also differ for colour-blind readers
_NOISE_COLOUR = "0.55"  # a grey
_FEW_NAMES, _MOST_NAMES = 25, 60  # at an axis
_LONGEST_NAME = 25  # letters


def _is_band(correlation: Matrix, in_order: bool) -> bool:
    return in_order and is_sparse(correlation) and correlation.shape[0] > _MOST_NAMES


def release_heatmap(
    correlation: Matrix, names: Sequence[str] | None = None, *, in_order: bool = False
) -> Figure:
    """Return a figure of released correlations, with a caption that says what to see.

    It shows what `heat_map` returns. `names` are those of the features, which are counted from 0
    without them; where there are many, some of them are at the axes. Noise is grey. Many columns
    whose order means something are shown as a band: distances go downwards, and a cell shows the
    strongest of its pairs.
    """
    figure = new_figure(9, 9.4)
    axes = figure.subplots()
    words, width = draw_heat(axes, correlation, names, in_order=in_order), 115
    if _is_band(correlation, in_order):
        figure.set_size_inches(11, 5.2)
        width = 135
    elif len(axes.get_xticks()) <= _FEW_NAMES:
        figure.set_size_inches(7, 7.4)
        width = 90
    return caption(figure, words, width=width)


def draw_heat(
    axes: Axes,
    correlation: Matrix,
    names: Sequence[str] | None,
    *,
    in_order: bool,
    most_names: int = _MOST_NAMES,
    side: str = "bottom",
) -> str:
    """Draw what `heat_map` returns, or a band, and say what to see."""
    if _is_band(correlation, in_order):
        return _band_panel(axes, correlation)
    found = heat_map(correlation, in_order=in_order)
    image = panel(axes, found.cells, found.limit, "Released correlations")
    end = len(found.order) - 0.5
    image.set_extent((-0.5, end, end, -0.5))
    places = np.arange(0, len(found.order), math.ceil(len(found.order) / most_names))
    listed = [str(i) if names is None else names[i] for i in found.order[places].tolist()]
    shown = [short(printable(name[:_LONGEST_NAME]), _LONGEST_NAME - 1) for name in listed]
    size = 9 if len(shown) <= _FEW_NAMES else 7
    axes.set_xticks(places, shown, rotation=90, fontsize=size, parse_math=False)
    axes.set_yticks(places, shown, fontsize=size, parse_math=False)
    some = "" if len(places) == len(found.order) else f"; one in {places[1]} is named"
    axes.set(xlabel=f"feature{some}", ylabel="feature")
    colour_bar(image, [axes], shrink=0.8, side=side)
    return found.words


def write_release_heatmap(
    path: str | Path,
    correlation: Matrix,
    names: Sequence[str] | None = None,
    *,
    in_order: bool = False,
) -> Path:
    """Write `release_heatmap` as a PNG file, and return its path."""
    return write_png(path, release_heatmap(correlation, names, in_order=in_order))


def panel(axes: Axes, matrix: FloatArray, limit: float, title: str) -> AxesImage:
    """Draw a matrix; white is zero, and NaN is grey."""
    axes.set_facecolor(_NOISE_COLOUR)  # seen where there is no value
    image = axes.imshow(matrix, cmap=_COLOURS, vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set_title(title, fontsize=11)
    return image


def colour_bar(image: AxesImage, axes: list[Axes], *, shrink: float, side: str = "bottom") -> None:
    """Put a colour bar beside `axes`; pointed ends say that some values pass the scale."""
    values, top = image.get_array(), image.get_clim()[1]
    largest = 0.0 if values is None else np.abs(np.ma.filled(values, 0.0)).max()
    extend = "both" if largest > top else "neither"
    bar = axes[0].figure.colorbar(
        image,
        ax=axes,
        label="correlation (no unit)",
        location=side,
        shrink=shrink,
        aspect=30,
        extend=extend,
    )
    bar.ax.locator_params(axis="x" if side == "bottom" else "y", nbins=8)


def _band_panel(axes: Axes, correlation: Matrix) -> str:
    """Draw a band, and say what to see."""
    check_square(correlation)
    d = correlation.shape[0]
    rows, columns, values = upper_pairs(correlation)
    good = ~is_noise(values)
    reach = int((columns - rows).max(initial=1))
    cells = condense_band(rows[good], columns[good], values[good], d, reach)
    limit = float(np.abs(cells).max(initial=0.0)) or 1.0
    image = panel(axes, cells, min(1.0, limit), "Released correlations along the columns")
    image.set_extent((-0.5, d - 0.5, reach + 0.5, 0.5))
    axes.set_aspect("auto")
    axes.set_xlabel("column, counted from 0")
    axes.set_ylabel("columns apart")
    axes.locator_params(axis="y", nbins=8, integer=True)
    axes.set_ylim(reach + 0.5, 0.5)  # which the locator forgets
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    colour_bar(image, [axes], shrink=0.6)
    each = -(-d // cells.shape[1])
    dots = f" A dot shows the strongest pair of {each:,} columns." if each > 1 else ""
    lost = int(np.count_nonzero(~good))
    grey = f" {lost:,} that are noise, beyond 1 or without a variance, are left out." * (lost > 0)
    return (
        f"{SEE}{len(values):,} pairs at most {reach:,} columns apart, neighbours on top. "
        "Red ones vary together, blue ones in opposite directions, the stronger the darker; white "
        f"is zero or was not released.{dots}{grey}"
    )


# ---- a release in one figure ----

#: Pictures of a release.
KINDS = ("heat", "pairs", "spectrum", "graph")
_SIZES = {"pairs": (9.0, 0.0), "spectrum": (8.0, 5.6), "graph": (12.4, 7.0)}  # inches
_PANEL = (6.4, 4.4)  # inches of a graph beside other pictures
_PER_INCH = 100.0  # pixels of a graph
_LABEL_PIXELS = 11.5
_MOST_PAIRS, _FEW_PAIRS = 20, 10  # alone, and beside other pictures
_FEW_NODES, _FEW_DOTS = (24, 16, 10, 6), 60
_LONGEST_OF_TWO = 18  # letters


def release_figure(release: Release, kind: str | None = None) -> Figure:
    """Return pictures of a release, each of `KINDS` or all of them in one figure.

    Notebooks show it as it is; elsewhere `savefig` writes it.
    """
    if kind is not None:
        check_choice("kind", kind, KINDS)
    named = replace(release, column_names=tuple(feature_names(release)))  # as answers have them
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        figure = _overview(subject_of(named)) if kind is None else _alone(subject_of(named), kind)
    vars(figure)["_repr_png_"] = partial(png, figure)
    return figure


def _overview(subject: Subject) -> Figure:
    found, figure = verdict(subject.release), new_figure(14, 12)
    # Parts of their own: names beside one panel take no room from another.
    parts = np.ravel(np.asarray(figure.subfigures(2, 2)))
    heat, pairs, eigenvalues, edges = (part.subplots() for part in parts)
    for most in _FEW_NODES:  # of so many the names can be read in a panel
        drawn = graph(subject, wide=_PANEL[0] * _PER_INCH, most=most)
        if drawn is None or drawn.height <= _PANEL[1] * _PER_INCH:
            break
    words = {
        "Correlations": draw_heat(
            heat,
            subject.view.correlation_matrix(),
            subject.release.column_names,
            in_order=subject.release.in_order,
            most_names=_MOST_NAMES // 2,
            side="right",
        ),
        "Pairs": _draw_pairs(pairs, subject, _FEW_PAIRS),
        "Eigenvalues": _draw_spectrum(eigenvalues, subject.view),
        "Graph": _draw_graph(edges, subject, drawn, _PANEL),
    }
    title = textwrap.fill(f"{found.word.capitalize()}: {found.sentence}.", 145)
    figure.suptitle(title, fontsize=12, color=page_colours()[verdict_colours(found.word)[0]])
    said = [f"{name}: {each.removeprefix(SEE)}" for name, each in words.items()]
    lines = [textwrap.fill(each, 185, break_on_hyphens=False) for each in said]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=9, color="0.25")
    return figure


def _alone(subject: Subject, kind: str) -> Figure:
    release = subject.release
    if kind == "heat":
        matrix = subject.view.correlation_matrix()
        return release_heatmap(matrix, release.column_names, in_order=release.in_order)
    width, height = _SIZES[kind]
    drawn = graph(subject) if kind == "graph" else None
    if drawn is not None:
        height = min(max(2 + drawn.height / _PER_INCH, 4.0), 2 * height)
    elif kind == "pairs":
        height = 1.8 + 0.28 * max(min(len(subject.found.strongest), _MOST_PAIRS), 5)
    figure = new_figure(width, height)
    axes = figure.subplots()
    if kind == "pairs":
        words = _draw_pairs(axes, subject, _MOST_PAIRS)
    elif kind == "spectrum":
        words = _draw_spectrum(axes, subject.view)
    else:
        words = _draw_graph(axes, subject, drawn, (width, height - 1.5))
    return caption(figure, words, width=int(12.5 * width))


def _draw_pairs(axes: Axes, subject: Subject, most: int) -> str:
    """Draw the strongest pairs with the intervals of their correlations, and say what to see."""
    view, pairs, colours = subject.view, subject.found.strongest[:most], page_colours()
    inside = any(pair.correlation_interval for pair in pairs)
    with_words = f", with {100 * LEVEL:g} % intervals" * inside
    axes.set_title(f"Strongest pairs{with_words}", fontsize=11)
    said = f"{SEE}{subject.found.lines()[0][1]}."
    if not pairs:
        return _nothing(axes, said)
    for place, pair in enumerate(pairs):
        value, ends = pair.correlation, pair.correlation_interval
        kind = "positive" if value is None or value > 0 else "negative"
        colour = _NOISE_COLOUR if value is None else colours[kind]
        if ends is not None:
            axes.plot(np.clip(ends, -1, 1), [place, place], color=colour, linewidth=3, alpha=0.55)
        if value is not None:
            axes.plot(value, place, "o", color=colour, markersize=7)
        else:
            at = axes.get_yaxis_transform()
            axes.text(0.98, place, UNRESOLVED, ha="right", va="bottom", color="0.35", transform=at)
    sides = ((subject.names[i] for i in pair.features) for pair in pairs)
    names = [", ".join(short(name, _LONGEST_OF_TWO) for name in both) for both in sides]
    axes.set_yticks(range(len(pairs)), names, fontsize=9, parse_math=False)
    axes.set(ylim=(len(pairs) - 0.4, -0.6), xlabel="correlation (no unit)")
    drawn = np.concatenate([[0.0], *(line.get_xdata(orig=False) for line in axes.lines)])
    axes.set_xlim(float(drawn.min()) - 0.04, float(drawn.max()) + 0.04)
    tidy(axes)
    axes.axvline(0.0, color="black", linewidth=1)
    n_more = max(len(view.found), view.n_found) - len(pairs)
    said += f" The {len(pairs)} strongest are drawn." * (n_more > 0)
    said += " Bars count noise and sampling; one across zero may be noise." * inside
    said += " No intervals are known: the noise has no single level." * (not inside)
    lost = sum(pair.noise for pair in pairs)
    because = "because noise put them beyond 1 or a variance below zero"
    said += f" Grey, {lost:,}: not found, {because}." * (lost > 0)
    return said


def _nothing(axes: Axes, said: str) -> str:
    axes.text(0.5, 0.5, "nothing to draw", ha="center", va="center", color="0.35")
    axes.set_axis_off()
    return said


def _draw_spectrum(axes: Axes, view: View) -> str:
    """Draw eigenvalues and how far noise reaches, and say what to see."""
    found, reach, colours = spectrum(view), error_reach(view), page_colours()
    level = ", and the level of the noise" * (reach is not None)
    axes.set_title(f"Eigenvalues of the correlations{level}", fontsize=11)
    if found is None:
        return _nothing(axes, SEE + "no eigenvalues, as some variances are next to nothing.")
    values = found.values
    low, high = min(0.0, float(values.min())), max(1.2, float(values.max()))
    axes.set(xlim=(0.5, len(values) + 0.5), ylim=(1.05 * low, 1.08 * high))
    axes.set(xlabel="rank of the eigenvalue", ylabel="eigenvalue (no unit)")
    axes.locator_params(axis="x", nbins=6, integer=True)
    tidy(axes, colour=colours["line"])
    said = f"{SEE}unrelated features all have 1; a larger one is a direction that many share."
    if reach is not None:
        band = np.clip((1 - reach, 1 + reach), *axes.get_ylim())
        axes.axhspan(*band, facecolor=colours["link"], edgecolor="none", alpha=0.14, zorder=0)
        above = int(np.count_nonzero(values > 1 + reach))
        said += f" Shaded: as far from 1 as noise and sampling reach, about {number(reach, 2)}. "
        said += f"{above:,} above it; what lies inside may be noise alone."
    axes.axhline(1.0, color=colours["muted"], linestyle=(0, (4, 3)), linewidth=1.4)
    at = axes.get_yaxis_transform()
    axes.text(1.0, 1.0, "unrelated features: 1", ha="right", va="bottom", transform=at)
    look: dict[str, Any] = {"markeredgewidth": 0, "clip_on": False, "zorder": 3}
    size = 7 if len(values) <= _FEW_DOTS else 4
    axes.plot(range(1, len(values) + 1), values, "o", ms=size, color=colours["link"], **look)
    some = f" The largest {len(values):,} of {found.n_features:,} are drawn."
    return said + some * (not found.complete)


def _draw_graph(
    axes: Axes, subject: Subject, drawn: Graph | None, size: tuple[float, float]
) -> str:
    """Draw the graph of the pairs found on axes of about this size, and say what to see."""
    kind = "Strong" if subject.view.rule == STRONGEST else "Found"
    axes.set_title(f"{kind} pairs as a graph", fontsize=11)
    if drawn is None:
        return _nothing(axes, SEE + "no pair was found, so that there is no line to draw.")
    colours, per_inch = page_colours(), max(drawn.width / size[0], drawn.height / size[1], 80.0)
    axes.set(xlim=(0, drawn.width), ylim=(drawn.height, 0), aspect="equal")
    axes.set_axis_off()
    t = np.linspace(0, 1, 25)[:, None]
    for _, ends, value, kind in drawn.edges:
        first, bend, last = np.reshape(ends, (3, 2))
        line = (1 - t) ** 2 * first + 2 * t * (1 - t) * bend + t**2 * last
        known = kind != "noise"
        width = 1 + 3 * abs(value) if known else 1.0
        colour = colours[kind] if known else _NOISE_COLOUR
        style = "solid" if known else "dashed"
        axes.plot(*line.T, color=colour, linewidth=width, linestyle=style, alpha=0.7)
    letters = _LABEL_PIXELS * 72 / per_inch
    for node in drawn.nodes:
        axes.plot(node.x, node.y, "o", color=colours["text"], ms=min(6.0, letters / 1.6), zorder=3)
        text = axes.text(node.label_x, node.label_y, node.label, fontsize=letters, va="center")
        text.set(rotation=-node.angle, rotation_mode="anchor", ha="right" if node.ends else "left")
        text.set_parse_math(False)
    total = max(len(subject.view.found), subject.view.n_found)
    some = f", the strongest {len(drawn.edges):,} of {total:,}" * (len(drawn.edges) < total)
    pair = f"whose pair was found{some}"
    if subject.view.rule == STRONGEST:
        pair = f"of a strong pair{some}, of which none is known not to be noise"
    found = subject.view.found
    n_alone = subject.n_features - len(np.union1d(found.rows, found.columns))
    n_alone *= len(found) >= total  # of very many pairs not all are at hand
    alone = f" {counted(n_alone, 'feature')} without a pair: not drawn." * (n_alone > 0)
    grey = " Grey and dashed: not found." * any(kind == "noise" for *_, kind in drawn.edges)
    return (
        f"{SEE}a line joins two features {pair}; red ones vary together, blue ones in opposite "
        f"directions, the thicker the stronger.{alone}{grey}"
    )
