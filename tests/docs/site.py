"""A built site as a set of files: what its pages link to, and what they load."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes by which a page loads something, and the elements that have them.
_LOADING = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("img", "srcset"),
    ("source", "src"),
    ("source", "srcset"),
    ("iframe", "src"),
    ("object", "data"),
    ("embed", "src"),
    ("video", "src"),
    ("audio", "src"),
    ("use", "href"),
}
_STYLE_LOADS = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class Page(HTMLParser):
    """What one page has: identifiers, links, and what it loads."""

    path: Path
    identifiers: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        text = self.path.read_text()
        self.feed(text)
        self.loads += _loaded_by_style(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.identifiers.add(value)
            elif (tag, name) in _LOADING and value:
                self.loads.append(value)
            elif (tag, name) == ("a", "href") and value is not None:
                self.links.append(value)


def problems(site: Path) -> Iterator[str]:
    """What is wrong with the site, in words: broken links, and whatever needs a network."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for target in page.loads:
            if _is_external(target):
                yield f"{name} loads {target}"
            elif not target.startswith(("data:", "#")) and not _file(path, target).is_file():
                yield f"{name} loads {target}, which is not there"
        for target in page.links:
            if not _is_external(target):
                yield from _broken(name, path, target, pages)
    for style in site.rglob("*.css"):
        for target in _loaded_by_style(style.read_text()):
            if _is_external(target):
                yield f"{style.relative_to(site).as_posix()} loads {target}"


def _broken(name: str, path: Path, target: str, pages: dict[Path, Page]) -> Iterator[str]:
    found = _file(path, target)
    identifier = unquote(urlsplit(target).fragment)
    if not found.is_file():
        yield f"{name} links to {target}, which is not there"
    elif identifier and found in pages and identifier not in pages[found].identifiers:
        yield f"{name} links to {target}, where nothing has that name"


def _is_external(target: str) -> bool:
    parts = urlsplit(target)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def _file(page: Path, target: str) -> Path:
    path = unquote(urlsplit(target).path)
    return (page.parent / path).resolve() if path else page


def _loaded_by_style(text: str) -> list[str]:
    return [first or second for first, second in _STYLE_LOADS.findall(text)]
