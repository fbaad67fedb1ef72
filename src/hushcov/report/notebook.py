"""A release as a notebook shows it: verdict, strongest pairs and a small heat map, in HTML.

Nothing but the standard library and numpy is needed, and no other file.
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import replace
from html import escape

import numpy as np

from hushcov.answers.tables import WARNING, correlation, feature_names, overview
from hushcov.release import Release
from hushcov.release.description import VERDICT, verdict
from hushcov.release.pairs import view
from hushcov.report.figures import HeatMap, heat_map
from hushcov.report.pages import page_colours, printable, short, verdict_colours

_MOST_DRAWN = 30  # features of the map
_SIDE, _WIDEST_CELL = 320, 26  # pixels
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
    some, d = np.arange(release.n_features), release.n_features
    if d > _MOST_DRAWN:
        strongest = view(release).found.at(slice(0, _MOST_DRAWN)).places
        some = np.unique(list(dict.fromkeys(i for pair in strongest for i in pair))[:_MOST_DRAWN])
        some = some.astype(np.intp) if len(some) else np.arange(_MOST_DRAWN)
    found = heat_map(correlation(release, some), in_order=release.in_order)
    names = feature_names(release)[some][found.order]
    cell = min(_WIDEST_CELL, _SIDE // len(names))
    style = f"height: {cell}px; line-height: {cell}px; text-align: right"
    rows = (short(printable(str(name)), _LONGEST) for name in names)
    listed = "".join(f'<div style="{style}">{escape(name)}</div>' for name in rows)
    image = base64.b64encode(_png(found)).decode()
    side = cell * len(names)
    words = "Correlations; columns are in the order of the rows. Red: together, blue: opposite, "
    words += f"white: zero, grey: not found. Strongest colour: {found.limit:.2g}."
    words += f" The {len(names)} of {d:,} features with the strongest pairs." * (len(names) < d)
    frame = f"image-rendering: pixelated; outline: 1px solid {page_colours()['noise']}"
    return (
        '<div style="flex: none"><p><b>Heat map</b></p><div style="display: flex; gap: 6px">'
        f'<div style="font-size: {min(12, cell)}px">{listed}</div>'
        f'<img alt="heat map of the correlations" width="{side}" height="{side}" '
        f'style="{frame}" src="data:image/png;base64,{image}"></div>'
        f'<p style="max-width: {_SIDE + 120}px">{words}</p></div>'
    )


def _png(found: HeatMap) -> bytes:
    """Return the cells as an image of as many pixels."""
    low, zero, high, noise = (
        np.array(list(bytes.fromhex(page_colours()[name][1:])), dtype=np.float64)
        for name in ("negative", "zero", "positive", "noise")
    )
    share = np.clip(found.cells / found.limit, -1, 1)[..., None]
    colours = zero + (np.where(share < 0, low, high) - zero) * np.abs(share)
    pixels = np.rint(np.where(np.isnan(share), noise, colours)).astype(np.uint8)
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)
