"""How figures look. The one place where matplotlib is imported: no pyplot, no display.

`new_figure` starts a figure for a PNG file. `chart` draws one for a page, as SVG that takes its
colours and its font from the style sheet of the page, so that it follows light and dark.
"""

from __future__ import annotations

import importlib
import io
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from hushcov.exceptions import MissingPackageError

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

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
    figure: Figure = _matplotlib("figure").Figure(figsize=(width, height), layout="constrained")
    return figure


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
    """Grid lines behind, no frame above and to the right."""
    axes.grid(axis=axis, which="major", color=colour)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _matplotlib(module: str) -> Any:
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ModuleNotFoundError:
        raise MissingPackageError("figures", "matplotlib", EXTRA) from None


# ---- charts of a page ----

# Colours of the style sheet, of which matplotlib sees stand-ins: #000001, #000002 and so on.
_NAMES = ("text", "muted", "line", "link")
_STAND_INS = {f"#{place:06x}": f"var(--{name})" for place, name in enumerate(_NAMES, 1)}
_SETTINGS = {
    "svg.fonttype": "none",
    "font.size": 13.0,
    "axes.facecolor": "none",
    "axes.labelpad": 6.0,
    "axes.linewidth": 1.2,
    "grid.linewidth": 1.0,
    "lines.linewidth": 1.8,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
}


def ink(name: str) -> str:
    """The colour of this name in the style sheet of the page, for the charts on it."""
    return f"#{_NAMES.index(name) + 1:06x}"


def chart(size: tuple[float, float], label: str, draw: Callable[[Figure], None]) -> Markup:
    """Draw a figure as SVG to stand in a page. The same figure is the same text, always.

    `size` is in pixels, `label` is said to those who do not see the picture, and `draw` draws on an
    empty figure, in colours of `ink`.
    """
    settings = {**_SETTINGS, "svg.hashsalt": label}
    for key in ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"):
        settings[key] = ink("text")
    settings |= {"axes.edgecolor": ink("muted"), "grid.color": ink("line")}
    new = _matplotlib("figure").Figure
    stream = io.StringIO()
    with _matplotlib("style").context(["default", settings]):  # whatever the user's settings are
        figure = new(figsize=(size[0] / 72, size[1] / 72), frameon=False)
        draw(figure)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(stream, format="svg", metadata=nothing)
    return _inline(stream.getvalue(), size, label)


def _inline(svg: str, size: tuple[float, float], label: str) -> Markup:
    """SVG without styles and names of its own, which would leave it or be refused by the page."""
    from markupsafe import Markup

    root = ElementTree.fromstring(svg)
    used = set(re.findall(r"#([\w-]+)", svg))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("style", "metadata")):
                parent.remove(child)
        _plain(parent, used)
    root.attrib.clear()
    box = f"0 0 {size[0]:g} {size[1]:g}"
    root.attrib |= {"viewBox": box, "role": "img", "aria-label": label, "class": "plot"}
    return Markup(re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode")))


def _plain(element: ElementTree.Element, used: set[str]) -> None:
    """Names without their namespaces, and styles as attributes of their own."""
    element.tag = element.tag.rpartition("}")[2]
    given = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    if given.get("id") not in used:
        given.pop("id", None)
    for rule in filter(None, given.pop("style", "").split(";")):
        key, value = (part.strip() for part in rule.split(":", 1))
        if key == "font":
            given |= {"font-weight": "600"} if value.startswith(("700", "bold")) else {}
        else:
            given[key] = _STAND_INS.get(value, value)
    element.attrib.clear()
    element.attrib.update(given)
