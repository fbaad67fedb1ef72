"""Settings of the documentation site, which `make docs` builds into build/docs.

Pages are Markdown that reads well on its own, too; the reference comes from docstrings.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hushcov import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "hushcov"
version = release = __version__
copyright = "hushcov developers, Apache License 2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "command_help",
    "name_links",
]

# Links to headings, as GitHub makes them: page.md#a-heading.
myst_heading_anchors = 3
# Indented blocks hold formulas and command lines; fenced ones name their language.
highlight_language = "text"

# A broken link is a warning, and the tests make warnings errors. Words in single backticks are
# code, and links where they name something on these pages.
nitpicky = True
default_role = "py:obj"
# Prose below "Raises" is no name either.
nitpick_ignore_regex = [("py:obj", r".*"), ("py:exc", r".*\s.*")]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
# Types are prose ("array-like of shape (n, d)"), and no word of them is a reference.
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Privacy", "notes_style"), ("Attributes", "params_style")]

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "hushcov"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"top_of_page_buttons": []}
html_copy_source = False
# The summaries of search results would be fetched, which browsers refuse for pages opened as files.
html_show_search_summary = False
