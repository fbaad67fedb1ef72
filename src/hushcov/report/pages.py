"""Pages in one file each: one environment of templates, one escaping, one content policy.

A page holds its styles, its program and its data, and asks no network. Templates escape all that
they are given, apart from charts and from the styles and programs in `assets`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from hushcov._words import count, counted, finite, typographic
from hushcov.exceptions import MissingPackageError, ParameterError
from hushcov.exceptions import printable as plain_text
from hushcov.release import Release
from hushcov.report.style import EXTRA
from hushcov.text.description import GOOD, HOPELESS, ROUGH, UNRESOLVED, Description, describe

if TYPE_CHECKING:
    from jinja2 import Environment


def check_pages() -> None:
    """Refuse where a package is missing that pages need: before any work, or any charge."""
    _environment()


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

    assets = resources.files("hushcov.report").joinpath("assets")
    style, program = (
        "\n".join(assets.joinpath(name).read_text(encoding="utf-8") for name in names)
        for names in (styles, programs)
    )
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
        finalize=_shown,
    )
    for each in (count, counted, correlation, pixels, typographic):
        environment.filters[each.__name__] = each
    environment.filters["number"] = page_number
    # Numbers keep every digit; the filter `tojson` leaves nothing that a browser takes for a tag.
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "ensure_ascii": False,
        "separators": (",", ":"),
    }
    return environment


@cache
def page_colours() -> dict[str, str]:
    """Return the colours of the style sheet by day, by their names."""
    sheet = resources.files("hushcov.report").joinpath("assets", "colours.css").read_text()
    return dict(reversed(re.findall(r"--([\w-]+): (#\w{6});", sheet)))


def verdict_colours(word: str) -> tuple[str, str]:
    """Return the names of two colours of a verdict: of its word, and of the panel behind it."""
    known = {GOOD: "good", ROUGH: "notice", HOPELESS: "warn"}
    return (known[word], f"{known[word]}-panel") if word in known else ("muted", "panel")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


# ---- filters of the templates ----


def page_number(value: float, digits: int = 3) -> str:
    """Return a number with a printed minus sign."""
    return typographic(finite(value, digits))


def correlation(value: float | None) -> str:
    """Return a correlation, or that it was not found."""
    return UNRESOLVED if value is None else page_number(value)


def pixels(value: float) -> str:
    """Return a coordinate of a picture."""
    return f"{value:.4g}"


def short(name: str, longest: int) -> str:
    """Return a name of at most this many characters."""
    return name if len(name) <= longest else name[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"


#: Pairs that a page lists.
MOST_ROWS = 200
_LONGEST_NAME = 60


@dataclass(frozen=True, eq=False)
class Subject(Description):
    """A release as a page shows it: described, with the names of its features."""

    names: Sequence[str]


def subject_of(release: Release) -> Subject:
    """Return a release with the names of its features, or with their numbers."""
    if len(release.labels) != release.n_features:
        raise ParameterError(
            f"column_names must be as many as features, {release.n_features}, got "
            f"{len(release.labels)}: name every feature, or none."
        )
    found = describe(release, MOST_ROWS)
    return Subject(found.view, found.strongest, _Names(release.labels))


class _Names(Sequence[str]):
    """Names as a page shows them: of one line and short. Few of many are asked for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, place: Any) -> Any:
        # Cut first, so that a name of a billion characters is not looked at in full.
        return short(printable(self._names[place][: _LONGEST_NAME + 1]), _LONGEST_NAME)


def printable(text: str) -> str:
    """Return text of one line, without characters that steer how text around them is shown."""
    return plain_text(text, "\N{REPLACEMENT CHARACTER}")


def _shown(value: object) -> object:
    """Remove control characters from text for a template, unless the text is the page's own."""
    return printable(value) if type(value) is str else value
