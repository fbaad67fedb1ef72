"""Names in running text become links, so that the sources can stay plain.

`GaussianCovariance` on a page links to its reference, and `docs/ledger.md` in a docstring to that
page.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docstrings import prepare_docstring

_CODE = re.compile(r"(:[\w:]+:)?(?<!`)`([^`]+)`(?!`)")
_PAGE = re.compile(r"docs/([\w/-]+)\.md")
_NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?")
_CLASS = re.compile(r"(?:hushcov\.)?([A-Z]\w+)(?:\(.*\))?")


def prepare(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make reStructuredText of a docstring that uses backticks and bars as Markdown does."""
    if what == "property":
        # Napoleon takes the words before a colon for the type.
        lines[:] = prepare_docstring(obj.__doc__ or "")
    for at, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            # Bars are absolute values and norms, not references to substitutions.
            lines[at] = _CODE.sub(_code, line.replace("|", r"\|"))


def _code(match: re.Match[str]) -> str:
    role, text = match.groups()
    if page := _PAGE.fullmatch(text):
        return f":doc:`{text} </{page[1]}>`"  # a page that is not there is a warning
    # What is no name must not be a reference: `.npy` would lose its dot.
    return match[0] if role or _NAME.fullmatch(text) else f"``{text}``"


def link_classes(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link classes of hushcov where they are named in code letters."""
    known = {
        name.rpartition(".")[2]: entry
        for name, entry in app.env.domains.python_domain.objects.items()
        if entry.objtype in ("class", "exception")
    }
    for literal in list(doctree.findall(nodes.literal)):
        match = _CLASS.fullmatch(literal.astext())
        inside_link = isinstance(literal.parent, nodes.reference | nodes.title)
        if match is None or match[1] not in known or inside_link:
            continue
        entry = known[match[1]]
        target = app.builder.get_relative_uri(docname, entry.docname) + "#" + entry.node_id
        link = nodes.reference("", "", internal=True, refuri=target)
        literal.replace_self(link)
        link += literal


def setup(app: Sphinx) -> dict[str, Any]:
    """Register both."""
    app.connect("autodoc-process-docstring", prepare, priority=600)  # after napoleon
    app.connect("doctree-resolved", link_classes)
    return {"parallel_read_safe": True}
