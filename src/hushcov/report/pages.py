"""Pages in one file each: one environment of templates, one escaping, one content policy.

A page holds its styles, its program and its data, and asks no network. Templates escape all that
they are given, apart from charts and from the styles and programs in `assets`.
"""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._words import counted
from hushcov._words import number as plain_number
from hushcov.exceptions import MissingPackageError
from hushcov.postprocess import is_noise
from hushcov.report.style import EXTRA, new_figure

if TYPE_CHECKING:
    from jinja2 import Environment


def check_pages() -> None:
    """Refuse where a package is missing that pages need: before any work, or any charge."""
    _environment()
    new_figure(1, 1)


def page(
    template: str, *, styles: tuple[str, ...], programs: tuple[str, ...], data: Any, **content: Any
) -> str:
    """Return the text of a page.

    Parameters
    ----------
    template : str
        Extends `page.html.j2`; a file in `templates`.
    styles, programs : tuple of str
        Files in `assets`, one after the other.
    data : object
        What the program reads: JSON in the element with the id "data".
    content : object
        What the template shows.
    """
    from markupsafe import Markup

    style, program = ("\n".join(map(_asset, names)) for names in (styles, programs))
    # A browser refuses what is not in the file, even if a mistake of ours asked for it.
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(program)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    ours = {"style": style, "program": program, "policy": policy}
    safe = {name: Markup(text) for name, text in ours.items()}
    return _environment().get_template(template).render(data=data, **safe, **content)


@cache
def _environment() -> Environment:
    try:
        import jinja2
    except ModuleNotFoundError:
        raise MissingPackageError("pages", "jinja2", EXTRA) from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hushcov.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for each in (number, count, counted, percent, correlation, pixels, short):
        environment.filters[each.__name__] = each
    # Numbers keep every digit; the filter `tojson` leaves nothing that a browser takes for a tag.
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "ensure_ascii": False,
        "separators": (",", ":"),
    }
    return environment


def _asset(name: str) -> str:
    return resources.files("hushcov.report").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


# ---- numbers in words; templates have these as filters ----


def number(value: float, digits: int = 3) -> str:
    """A number to some significant digits: 0.0012, 12,345, 1.46e15."""
    if not math.isfinite(value):
        return "out of range"
    text = plain_number(value, digits)
    return "\N{MINUS SIGN}" + text[1:] if text.startswith("-") else text


def count(value: int) -> str:
    """An integer exactly while it is short, else to four digits."""
    return f"{value:,}" if abs(value) < 10_000_000 else number(float(value), 4)


def percent(share: float) -> str:
    """A share in percent, to two digits."""
    return f"{number(100 * share, 2)} %"


def correlation(value: float, digits: int = 3) -> str:
    """A correlation, said to be noise if it is beyond 1, or if there is none."""
    if np.isnan(value):
        return "none: noise"
    return number(value, digits) + (": noise" if is_noise(np.array(value)) else "")


def pixels(value: float) -> str:
    """A coordinate of a picture."""
    return f"{value:.4g}"


def short(name: str, longest: int) -> str:
    """A name of at most this many characters."""
    return name if len(name) <= longest else name[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"
