"""Pictures as SVG text: maps of cells and charts of points, without a program or a library.

On a page they take their colours from its style sheet, so that they follow light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._words import count, number, typographic
from hushcov.postprocess import is_noise

_LINE, _FONT, _LARGE_FONT = 12, 11, 14  # pixels of a line of names, and of its letters
_LETTER = 0.58  # of the size of a font, about the width of a letter


# ---- maps ----

_DEPTHS = 20  # shades between zero and the strongest colour
_SIDE, _LEAST_CELL, _LARGEST_CELL, _ABOVE = 640, 5, 56, 5  # pixels; half a name
_WRITTEN, _SIGNED = 34, 9  # pixels of a cell from which on it has its value, and a sign
_LARGE = 44  # and of one with large letters
_DEEP = 0.6  # share of the strongest colour beyond which letters are light


def map_svg(
    cells: FloatArray,
    limit: float,
    label: str,
    *,
    names: Sequence[str] | None = None,
    colours: Mapping[str, str] | None = None,
    kind: str = "map",
) -> str:
    """Return cells as a picture: a tile of its own, or with `names` of the features at both axes.

    Parameters
    ----------
    cells : ndarray
        Correlations; NaN is noise. The diagonal of a square has a colour of its own.
    limit : float
        Size of the correlation with the strongest colour.
    label : str
        What is said to those who do not see the picture.
    names : sequence of str, optional
        One for each row, short and printable.
    colours : mapping of str to str, optional
        Colours by name, for a place without the style sheet of a report.
    kind : str
        Class of the picture in the style sheet.
    """
    (high, wide), side, left, above, font = cells.shape, 10, 0, 0, _FONT

    def paint(name: str) -> str:
        return f'class="{name}"' if colours is None else f'fill="{colours[name]}"'

    if names is not None:
        side = min(max(_SIDE // wide, _LEAST_CELL), _LARGEST_CELL)
        font = _LARGE_FONT if side >= _LARGE else _FONT
        left, above = math.ceil(_LETTER * font * max(map(len, names))) + 8, _ABOVE
    parts = [f'<rect width="{side * wide}" height="{side * high}" {paint("zero")}/>']
    for (name, depth), path in _squares(cells, limit, side).items():
        parts.append(f'<path {paint(name)} fill-opacity="{depth:g}" d="{path}"/>')
    apart = np.where(is_noise(cells) | (np.eye(high, wide) > 0), 0.0, cells)
    places = list(zip(*np.nonzero(apart), strict=True)) if names is not None else []
    if places and side >= _WRITTEN:  # colour is not all that tells
        for y, x in places:
            colour = paint("page" if abs(apart[y, x]) > _DEEP * limit else "text")
            at = f'x="{side * (x + 0.5):g}" y="{side * (y + 0.5) + 4:g}" font-size="{font}"'
            value = typographic(f"{apart[y, x]:.2f}")
            parts.append(f'<text {at} text-anchor="middle" {colour}>{value}</text>')
    elif places and side >= _SIGNED:
        arm = max(1, side // 5)
        signs = "".join(
            f"M{side * (x + 0.5) - arm:g} {side * (y + 0.5):g}h{2 * arm}"
            + f"m-{arm}-{arm}v{2 * arm}" * bool(apart[y, x] > 0)
            for y, x in places
        )
        stroke = 'class="sign"' if colours is None else f'stroke="{colours["text"]}" fill="none"'
        parts.append(f'<path {stroke} stroke-opacity="0.55" d="{signs}"/>')
    for row in range(0, 0 if names is None else wide, math.ceil(_LINE / side)):
        assert names is not None
        name, place = escape(names[row]), side * (row + 0.5) + 4
        text = f'font-size="{font}" text-anchor="end" {paint("text")}'
        parts.append(f'<text x="-5" y="{place:g}" {text}>{name}</text>')
        turned = f'transform="translate({place:g} {side * high + 5}) rotate(-90)"'
        parts.append(f"<text {turned} {text}>{name}</text>")
    width, height = side * wide + left + above, side * high + left + above
    shape = ' preserveAspectRatio="none"' * (high != wide)
    shape += f' width="{width}" height="{height}"' * (names is not None)
    return _picture(parts, (-left, -above, width, height), label, kind, shape)


def _squares(cells: FloatArray, limit: float, side: int) -> dict[tuple[str, float], str]:
    """Return a path of squares for each colour and how deep it is, but none for zeros."""
    found: dict[tuple[str, float], list[str]] = {}
    depths = np.ceil(_DEPTHS * np.minimum(np.abs(cells) / limit, 1.0)) / _DEPTHS
    noise, square = is_noise(cells), cells.shape[0] == cells.shape[1]
    for y, x in zip(*np.nonzero(cells), strict=True):
        key = ("negative" if cells[y, x] < 0 else "positive"), float(depths[y, x])
        if square and x == y and np.isfinite(cells[y, x]):
            key = "diagonal", 1.0
        elif noise[y, x]:
            key = "noise", 1.0
        found.setdefault(key, []).append(f"M{side * x} {side * y}h{side}v{side}h-{side}z")
    return {key: "".join(squares) for key, squares in found.items()}


def _picture(
    parts: Iterable[str], box: Sequence[float], label: str, kind: str, more: str = ""
) -> str:
    view = " ".join(f"{each:g}" for each in box)
    return (
        f'<svg viewBox="{view}"{more} class="{kind}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


# ---- charts ----

_SIZE = (420.0, 320.0)  # pixels
_LEFT, _RIGHT, _BELOW, _TOP = 52.0, 20.0, 52.0, 34.0  # room around the axes
_FEW = 60  # dots that may be large


def chart_svg(
    x: FloatArray,
    y: FloatArray,
    label: str,
    titles: tuple[str, str],
    ends: tuple[float, float, float, float],
    *,
    level: tuple[float, str] | None = None,
    shaded: tuple[float, float] | None = None,
    borders: Sequence[int] = (),
    joined: bool = True,
    dots: bool = True,
) -> str:
    """Return points as a picture, with a line that joins them.

    Parameters
    ----------
    x, y : ndarray
        The points; those that are not finite are left out, and the line has a gap there.
    label : str
        What is said to those who do not see the picture.
    titles : tuple of str
        What is across, and what is upwards.
    ends : tuple of float
        Both ends of the axis across, and of that upwards.
    level : tuple of float and str, optional
        A value for a dashed line, and what it is.
    shaded : tuple of float, optional
        Values between which the picture is shaded.
    borders : sequence of int
        Places of lines from top to bottom.
    joined, dots : bool
        Whether there is a line, and whether there are dots.
    """
    width, height = _SIZE[0] - _LEFT - _RIGHT, _SIZE[1] - _BELOW - _TOP
    low, high = ends[2:]

    def across(value: float) -> str:
        return f"{_LEFT + width * (value - ends[0]) / (ends[1] - ends[0]):.4g}"

    def down(value: float) -> str:
        return f"{_TOP + height * (high - min(max(value, low), high)) / (high - low):.4g}"

    right, bottom = f"{_LEFT + width:g}", f"{_TOP + height:g}"
    parts = [f'<text x="4" y="14">{escape(titles[1])}</text>']
    if shaded is not None:
        tall = f'height="{float(down(shaded[0])) - float(down(shaded[1])):.4g}"'
        place = f'x="{_LEFT:g}" y="{down(shaded[1])}" width="{width:g}"'
        parts.append(f'<rect {place} {tall} class="shaded"/>')
    for value in _ticks(low, high):
        parts.append(f'<path d="M{_LEFT:g} {down(value)}H{right}" class="grid"/>')
        text = f'x="{_LEFT - 6:g}" y="{float(down(value)) + 4:.4g}" text-anchor="end"'
        parts.append(f"<text {text}>{_tick(value)}</text>")
    for value in (each for each in _ticks(*ends[:2]) if each == round(each)):
        text = f'x="{across(value)}" y="{_TOP + height + 18:g}" text-anchor="middle"'
        parts.append(f"<text {text}>{_tick(value)}</text>")
    for border in borders:
        parts.append(f'<path d="M{across(border)} {_TOP:g}V{bottom}" class="grid"/>')
    parts.append(f'<path d="M{_LEFT:g} {_TOP:g}V{bottom}H{right}" class="axis"/>')
    middle = f'x="{_LEFT + width / 2:g}" y="{_SIZE[1] - 12:g}" text-anchor="middle"'
    parts.append(f"<text {middle}>{escape(titles[0])}</text>")
    if level is not None:
        at, words = down(level[0]), escape(level[1])
        parts.append(f'<path d="M{_LEFT:g} {at}H{right}" class="level"/>')
        parts.append(f'<text x="{_LEFT + 5:g}" y="{float(at) - 5:.4g}">{words}</text>')
    known = np.isfinite(y)
    places = [(across(a), down(b)) for a, b in zip(x[known], y[known], strict=True)]
    if joined:
        first = np.diff(np.flatnonzero(known), prepend=-2) > 1
        line = (f"{'M' if new else 'L'}{a} {b}" for new, (a, b) in zip(first, places, strict=True))
        parts.append(f'<path d="{"".join(line)}" class="line"/>')
    radius = 4 if len(places) <= _FEW else 2
    if dots:
        parts += (f'<circle cx="{a}" cy="{b}" r="{radius}" class="dot"/>' for a, b in places)
    return _picture(parts, (0, 0, *_SIZE), label, "plot")


def _ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two ends."""
    span = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(span))
    step = next(unit * each for each in (1, 2, 5, 10) if unit * each >= span * (1 - 1e-9))
    return [step * each for each in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _tick(value: float) -> str:
    exact = float(f"{value:.12g}")  # multiples of steps have rounding errors
    whole = abs(exact) >= 1000 and exact == round(exact)
    return typographic(count(round(exact)) if whole else number(exact, 3))
