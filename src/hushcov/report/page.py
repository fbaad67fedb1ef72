"""One page in one file: styles, program and data are inside it, and it asks no network."""

from __future__ import annotations

import html
import json
from importlib import resources

# A browser refuses what is not in the file, even if a mistake of ours asked for it.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def page(title: str, body: str, style: str, script: str, data: object) -> str:
    """Return the text of a page.

    Parameters
    ----------
    title : str
        Plain text.
    body, style, script : str
        HTML, CSS and a JavaScript module, written into the page as they are.
    data : object
        What the script reads: JSON in the element with the id "data". Any text is safe in it.
    """
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{html.escape(title)}</title>
<style>
{style}</style>
</head>
<body>
{body}<script type="application/json" id="data">{embedded(data)}</script>
<script type="module">
{script}</script>
</body>
</html>
"""


def embedded(data: object) -> str:
    """JSON in which no browser sees a tag; numbers keep every digit."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def part(package: str, name: str) -> str:
    """The text of a file that lies beside the modules of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
