"""A release as a notebook shows it: verdict, strongest pairs and a small heat map, in HTML.

Nothing but the standard library and numpy is needed, and no other file.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape

import numpy as np

from hushcov.answers.names import feature_names
from hushcov.answers.tables import WARNING, overview
from hushcov.release import Release
from hushcov.release.view import view
from hushcov.report.heat import strongest_map
from hushcov.report.pages import page_colours, printable, short, verdict_colours
from hushcov.report.svg import map_svg
from hushcov.text.description import VERDICT, verdict

_MOST_DRAWN = 30  # features of the map
_SIDE = 440  # pixels
_LONGEST = 16  # letters of a name beside the map


def release_html(release: Release, more: str = "") -> str:
    """Return what a notebook shows of a release; `more`, which is HTML, can be opened below it."""
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        found, page, drawn = verdict(release), overview(release), _heat(release)
    framed = [("warn", "warn-panel", "Warning", words) for at, words in page.facts if at == WARNING]
    framed.append((*verdict_colours(found.word), found.word.capitalize(), f"{found.sentence}."))
    colours = page_colours()  # all else has those of the notebook, by day and by night
    frames = "".join(
        f'<div style="border-left: 6px solid {colours[ink]}; background: {colours[behind]}; '
        f'color: {colours["text"]}; padding: 6px 10px; margin: 2px"><b>{escape(word)}:</b> '
        f"{escape(printable(sentence))}</div>"
        for ink, behind, word, sentence in framed
    )
    page = replace(page, facts=[each for each in page.facts if each[0] not in (WARNING, VERDICT)])
    below = f"<details><summary>Parameters</summary>{more}</details>" if more else ""
    return (
        f'<div style="max-width: 1000px">{frames}'
        '<div style="display: flex; flex-wrap: wrap; gap: 28px; align-items: flex-start">'
        f'<div style="flex: 1 1 420px">{page.html()}</div>{drawn}</div>{below}</div>'
    )


def _heat(release: Release) -> str:
    """Draw the map of all features, or of those of the strongest pairs."""
    found = strongest_map(view(release), _MOST_DRAWN)
    features, d = feature_names(release)[found.order], release.n_features
    names = [short(printable(str(name)), _LONGEST) for name in features]
    label = "heat map of the correlations"
    picture = map_svg(found.cells, found.limit, label, names=names, colours=page_colours())
    words = "Correlations; columns are in the order of the rows. Red: together, blue: opposite, "
    words += f"white: zero, grey: not found. Strongest colour: {found.limit:.2g}."
    words += f" The {len(names)} of {d:,} features with the strongest pairs." * (len(names) < d)
    frame = f"max-width: {_SIDE}px; background: {page_colours()['page']}"
    return (
        f'<div style="flex: 1 1 {_SIDE}px; {frame}"><p><b>Heat map</b></p>'
        f"{picture}<p>{words}</p></div>"
    )
