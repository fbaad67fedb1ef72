"""Small plots as SVG: axes with units, lines and points. Colours and fonts are in `page.css`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hushcov.report.html.markup import Markup, count, number, tag

_MOST_TICKS, _MOST_LOG_TICKS = 6, 5


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` on the pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False  # ticks are integers

    def at(self, value: float) -> float:
        """The pixel of a value; beyond the ends, that of the end."""
        low, high = self._coordinate(self.low), self._coordinate(self.high)
        share = (self._coordinate(value) - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """A few round values between the ends."""
        ticks = _log_ticks(self.low, self.high) if self.log else _ticks(self.low, self.high)
        return [tick for tick in ticks if not self.whole or tick == round(tick)]

    def _coordinate(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value


def _ticks(low: float, high: float) -> list[float]:
    if not high > low:
        return [low]
    rough = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [step * place for place in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10.0**decade for decade in decades for factor in factors]
        ticks = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(ticks) <= _MOST_LOG_TICKS:
            return ticks
    return ticks[:: math.ceil(len(ticks) / _MOST_LOG_TICKS)]


def tick_text(value: float) -> str:
    """A value beside its tick."""
    return count(round(value)) if abs(value) >= 1000 and value == round(value) else number(value)


def frame(x: Axis, y: Axis, x_label: str, y_label: str) -> Markup:
    """Axes with ticks, a light grid and labels; `y` runs from the bottom up."""
    left, right, bottom, top = x.start, x.end, y.start, y.end
    parts = []
    for value in x.ticks():
        place = x.at(value)
        parts.append(tag("line", x1=place, x2=place, y1=bottom, y2=top, class_="grid"))
        parts.append(text(place, bottom + 16, tick_text(value), anchor="middle"))
    for value in y.ticks():
        place = y.at(value)
        parts.append(tag("line", x1=left, x2=right, y1=place, y2=place, class_="grid"))
        parts.append(text(left - 6, place + 4, tick_text(value), anchor="end"))
    parts.append(tag("path", d=f"M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}", class_="axis"))
    parts.append(text((left + right) / 2, bottom + 34, x_label, anchor="middle", class_="label"))
    parts.append(text(4, top - 10, y_label, class_="label"))
    return tag("g", *parts)


def text(
    x: float, y: float, content: str, *, anchor: str = "start", class_: str | None = None
) -> Markup:
    """A line of text."""
    return tag("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def line(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return tag("path", d=f"M{path}", class_=class_)


def dots(points: Sequence[tuple[float, float]], class_: str, *, radius: float = 3.0) -> Markup:
    """A dot at each point."""
    return tag("g", *(tag("circle", cx=x, cy=y, r=radius, class_=class_) for x, y in points))


def picture(
    width: float,
    height: float,
    label: str,
    *parts: str,
    class_: str = "plot",
    natural: bool = False,
) -> Markup:
    """The whole of a picture, with a name for those who do not see it.

    A `natural` one is as large as said, others fit their place.
    """
    size = {"width": f"{width:g}", "height": f"{height:g}"} if natural else {}
    box = f"0 0 {width:g} {height:g}"
    return tag("svg", *parts, viewBox=box, role="img", aria_label=label, class_=class_, **size)
