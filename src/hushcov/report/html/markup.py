"""HTML and SVG as text in which everything is escaped, unless it was made here."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hushcov.postprocess import is_noise

_EMPTY_ELEMENTS = frozenset({"br", "col", "input", "meta", "rect", "line", "path", "circle"})
_EXPONENT_FROM = 1e4
_SHORTEST_NAME, _LONGEST_NAME = 12, 60
_MOST_NAME_BYTES = 4_000_000  # of all names together


class Markup(str):
    """Text that is HTML already. Plain text becomes it by `tag`, which escapes."""

    __slots__ = ()


def tag(element: str, /, *children: str | None, **attributes: object) -> Markup:
    """An element. Plain text in it is escaped; None and False leave a part out.

    `class_` is the attribute class, and other underscores are hyphens: `aria_label`.
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if element in _EMPTY_ELEMENTS and not children:
        return Markup(f"<{element}{shown}/>")
    return Markup(f"<{element}{shown}>{join(*children)}</{element}>")


def join(*parts: str | None) -> Markup:
    """Parts one after the other; plain text is escaped."""
    return Markup(
        "".join(
            part if isinstance(part, Markup) else html.escape(part)
            for part in parts
            if part is not None
        )
    )


def _attribute(value: object) -> str:
    if value is True:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def items(texts: Iterable[str]) -> Markup:
    """A list of points."""
    return tag("ul", *(tag("li", text) for text in texts))


def facts(rows: Iterable[tuple[str, str]], **attributes: object) -> Markup:
    """Terms and what is said of them."""
    entries = (tag("div", tag("dt", term), tag("dd", said)) for term, said in rows)
    return tag("dl", *entries, **attributes)


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    texts: int = 1,
    marked: int | None = None,
) -> Markup:
    """A table that scrolls by itself where it is too wide.

    The first `texts` columns hold text and the others numbers; row `marked` stands out.
    """
    titles = [
        tag("th", title, scope="col", class_=None if position < texts else "number")
        for position, title in enumerate(head)
    ]
    lines = []
    for place, row in enumerate(rows):
        cells = [tag("th", row[0], scope="row")]
        cells += [
            tag("td", cell, class_=None if position < texts else "number")
            for position, cell in enumerate(row[1:], 1)
        ]
        lines.append(tag("tr", *cells, class_="marked" if place == marked else None))
    # The caption stands outside, where it does not scroll away.
    grid = tag("table", tag("thead", tag("tr", *titles)), tag("tbody", *lines), aria_label=caption)
    return join(
        tag("p", caption, class_="caption"),
        tag("div", grid, class_="wide", tabindex="0", role="region", aria_label=caption),
    )


def figure(picture: Markup, caption: str, *, wide: bool = False) -> Markup:
    """A picture with a caption that says what to see; a wide one scrolls by itself."""
    if wide:
        label = "Picture; scroll sideways to see all of it"
        picture = tag("div", picture, class_="wide", tabindex="0", role="region", aria_label=label)
    return tag("figure", picture, tag("figcaption", caption))


def number(value: float, digits: int = 3) -> str:
    """A number to some significant digits: 0.0012, 12,345, 1.46e15."""
    if not math.isfinite(value):
        return "out of range"
    text = f"{value:.{digits}g}"
    if "e+" in text and abs(float(text)) < _EXPONENT_FROM:
        text = f"{float(text):,.0f}"
    text = re.sub(r"e([+-])0*(\d+)", lambda m: f"e{m[1].strip('+')}{m[2]}", text)
    return "\N{MINUS SIGN}" + text[1:] if text.startswith("-") else text


def count(value: int) -> str:
    """An integer exactly while it is short, else to four digits."""
    return f"{value:,}" if abs(value) < 10_000_000 else number(float(value), 4)


def counted(value: int, what: str) -> str:
    """A number of things: 1 pair, 2,000 pairs."""
    return f"{value:,} {what}{'' if value == 1 else 's'}"


def percent(share: float) -> str:
    """A share in percent, to two digits."""
    return f"{number(100 * share, 2)} %"


def printable(text: str) -> str:
    """Text of one line, without characters that steer how the text around them is shown."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def short(name: str, longest: int) -> str:
    """A name of at most this many characters."""
    return name if len(name) <= longest else name[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"


def page_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names as the page shows them: of one line, and short enough for a page of bounded size."""
    # Cut first, so that a name of a billion characters is not looked at in full.
    cleaned = [printable(name[: _LONGEST_NAME + 1]) for name in names]
    longest = _LONGEST_NAME
    while longest > _SHORTEST_NAME and _size(cleaned, longest) > _MOST_NAME_BYTES:
        longest = max(_SHORTEST_NAME, longest // 2)
    return tuple(short(name, longest) for name in cleaned)


def _size(names: Sequence[str], longest: int) -> int:
    return sum(len(name[:longest].encode()) for name in names)


def data_block(identifier: str, content: Any) -> Markup:
    """Data for the page's program: JSON that no browser takes for a tag."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(f'<script type="application/json" id="{identifier}">{text}</script>')


def correlation_text(value: float, digits: int = 3) -> str:
    """A correlation, said to be noise if it is beyond 1, or if there is none."""
    if np.isnan(value):
        return "none: noise"
    return number(value, digits) + (": noise" if is_noise(np.array(value)) else "")
