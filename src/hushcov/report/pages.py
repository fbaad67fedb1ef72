"""Pages in one file each: one environment of templates, one escaping, one content policy.

A page holds its styles, its program and its data, and asks no network. Templates escape all that
they are given, apart from charts and from the styles and programs in `assets`.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._words import counted
from hushcov._words import number as plain_number
from hushcov.exceptions import MissingPackageError, ParameterError
from hushcov.exceptions import printable as plain_text
from hushcov.postprocess import is_noise
from hushcov.release import Release
from hushcov.release.description import GOOD, HOPELESS, ROUGH, UNRESOLVED, Description, describe
from hushcov.release.pairs import View
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
    for each in (number, count, counted, correlation, pixels):
        environment.filters[each.__name__] = each
    # Numbers keep every digit; the filter `tojson` leaves nothing that a browser takes for a tag.
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "ensure_ascii": False,
        "separators": (",", ":"),
    }
    return environment


@cache
def page_colours() -> dict[str, str]:
    """Colours of the style sheet by day, by their names."""
    sheet = resources.files("hushcov.report").joinpath("assets", "colours.css").read_text()
    return dict(reversed(re.findall(r"--([\w-]+): (#\w{6});", sheet)))


def verdict_colours(word: str) -> tuple[str, str]:
    """Names of the colours of a verdict: of its word, and of what is behind it."""
    known = {GOOD: "good", ROUGH: "notice", HOPELESS: "warn"}
    return (known[word], f"{known[word]}-panel") if word in known else ("muted", "panel")


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


def correlation(value: float | None, digits: int = 3) -> str:
    """A correlation, unless noise puts it beyond 1 or there is none."""
    lost = value is None or is_noise(np.array(value))
    return UNRESOLVED if value is None or lost else number(value, digits)


def pixels(value: float) -> str:
    """A coordinate of a picture."""
    return f"{value:.4g}"


def short(name: str, longest: int) -> str:
    """A name of at most this many characters."""
    return name if len(name) <= longest else name[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"


LARGEST = 10**18  # as many records as any mechanism takes
#: Pairs that a page lists.
MOST_ROWS = 200
_SHORTEST_NAME, _LONGEST_NAME = 12, 60
_MOST_NAMES = 100_000  # that a page may have all of
_MOST_NAME_BYTES = 4_000_000  # of all names together


@dataclass(frozen=True, eq=False)
class Subject:
    """A release as a page shows it: its description, and the names of its features.

    `parameters` of a release that was read from a file may be anything, so that every number in
    them is looked at before it is used.
    """

    release: Release
    names: Sequence[str]

    @cached_property
    def found(self) -> Description:
        """Description of the release."""
        return describe(self.release, MOST_ROWS)

    @property
    def view(self) -> View:
        """Its numbers."""
        return self.found.view

    @property
    def named(self) -> bool:
        """Whether features have names; otherwise they are counted from 0."""
        return self.release.column_names is not None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.release.n_features

    @property
    def why_not(self) -> str:
        """Why some intervals are not to be believed, in words."""
        return (
            "The interval may not hold: most of the variance of a feature with values far away may "
            "have been cut off. Transforms of such columns (log, winsorise, rank) lose less"
        )

    @property
    def theorem(self) -> bool:
        """Whether the constants are those of the paper's proof, which names the records needed."""
        return "smallest_accurate_n" in self.release.parameters

    @property
    def inputs(self) -> Mapping[str, object]:
        """The public inputs that the release names."""
        found = self.release.parameters.get("inputs")
        return found if isinstance(found, Mapping) else {}

    def real(self, name: str) -> float | None:
        """Return a public input that is a positive number; None if there is no sensible one."""
        value = self.inputs.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or value > LARGEST:
            return None
        return float(value) if math.isfinite(value) and value > 0 else None


def subject_of(release: Release) -> Subject:
    """A release with the names of its features, or with their numbers."""
    listed = release.column_names or tuple(map(str, range(release.n_features)))
    if len(listed) != release.n_features:
        raise ParameterError(
            f"column_names must be as many as features, {release.n_features}, got {len(listed)}: "
            "name every feature, or none."
        )
    many = release.n_features > _MOST_NAMES
    return Subject(release, _Names(listed) if many else page_names(listed))


class _Names(Sequence[str]):
    """Names as a page shows them, of which few are asked for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, place: Any) -> Any:
        return short(printable(self._names[place][: _LONGEST_NAME + 1]), _LONGEST_NAME)


def printable(text: str) -> str:
    """Text of one line, without characters that steer how the text around them is shown."""
    return plain_text(text, "\N{REPLACEMENT CHARACTER}")


def _shown(value: object) -> object:
    """Remove control characters from text for a template, unless the text is the page's own."""
    return printable(value) if type(value) is str else value


def page_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names as the page shows them: of one line, and short enough for a page of bounded size."""
    # Cut first, so that a name of a billion characters is not looked at in full.
    cleaned = [printable(name[: _LONGEST_NAME + 1]) for name in names]
    longest = _LONGEST_NAME
    while longest > _SHORTEST_NAME:
        if sum(len(name[:longest].encode()) for name in cleaned) <= _MOST_NAME_BYTES:
            break
        longest = max(_SHORTEST_NAME, longest // 2)
    return tuple(short(name, longest) for name in cleaned)
