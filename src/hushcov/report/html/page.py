"""The report of a release: one page that needs no other file and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from importlib import resources
from pathlib import Path

import numpy as np

from hushcov._version import __version__
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.findings import STRONGEST, Findings, find
from hushcov.report.html.budget import budget_section
from hushcov.report.html.entries import entries_section
from hushcov.report.html.graph import graph_section
from hushcov.report.html.heat import heat_section
from hushcov.report.html.markup import (
    Markup,
    counted,
    facts,
    number,
    page_names,
    printable,
    short,
    tag,
)
from hushcov.report.html.outlook import Outlook, outlook, outlook_section
from hushcov.report.html.promise import assumption_section, banners, promise_section
from hushcov.report.html.spectrum import spectrum_section
from hushcov.report.html.subject import Subject

_PROGRAM = ("heat_data.js", "heat_drawing.js", "heat_moving.js", "graph.js")
_MOST_PARAMETERS = 20_000  # characters


def write_report(path: str | Path, release: Release) -> Path:
    """Write the report of a release as one HTML file, and return its path.

    Privacy
    -------
    Post-processing: everything on the page is computed from the release and from public inputs, and
    covered by the guarantee of the release.
    """
    Path(path).write_bytes(report_page(release).encode())
    return Path(path)


def report_page(release: Release) -> str:
    """Return what `write_report` writes: a function of the document alone."""
    listed = release.column_names or tuple(map(str, range(release.n_features)))
    if len(listed) != release.n_features:
        raise ParameterError(
            f"column_names must be as many as features, {release.n_features}, got {len(listed)}: "
            "name every feature, or none."
        )
    subject = Subject(release, page_names(list(listed)))
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        findings = find(release)
        return _document(subject, findings, outlook(subject))


def _document(subject: Subject, findings: Findings, found: Outlook | None) -> str:
    style, program = _asset("page.css"), "\n".join(map(_asset, _PROGRAM))
    title = f"Private covariance of {counted(subject.n_features, 'feature')}"
    sections = [
        ("promise", "What is promised", promise_section(subject)),
        ("assumed", "What was assumed", assumption_section(subject)),
        ("budget", "Where the budget went", budget_section(subject)),
        ("correlations", "Correlations", heat_section(subject, findings)),
        ("graph", "Graph of the pairs found", graph_section(subject, findings)),
        ("largest", "Largest correlations", entries_section(subject, findings)),
        ("spectrum", "Spectrum", spectrum_section(subject, findings)),
        ("error", "Error to expect", outlook_section(subject, found)),
        ("parameters", "Every public parameter", _parameters(subject)),
    ]
    links = (tag("li", tag("a", name, href=f"#{key}")) for key, name, _ in sections)
    main = tag(
        "main",
        *(
            tag("section", tag("h2", name, id=f"{key}-title"), content, id=key, tabindex="-1")
            for key, name, content in sections
        ),
        id="main",
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#main", class_="skip"),
        tag(
            "header",
            tag("h1", title),
            banners(subject),
            _summary(subject, findings, found),
            tag("nav", tag("ol", *links), aria_label="Sections of this report"),
        ),
        main,
        _footer(subject),
        Markup(f'<script type="module">{program}</script>'),
    )
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, program)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Markup(f"<style>{style}</style>"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return resources.files("hushcov.report.html").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, program: str) -> str:
    """Nothing may be loaded, and nothing run but what is written here."""

    def digest(content: str) -> str:
        return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()

    return (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; "
        f"script-src 'sha256-{digest(program)}'; base-uri 'none'; form-action 'none'"
    )


def _summary(subject: Subject, findings: Findings, found: Outlook | None) -> Markup:
    """What most readers want to know."""
    guarantee = subject.release.guarantee
    rows = [
        ("Mechanism", short(printable(subject.release.name), 40)),
        ("Records", subject.release.making.words or "the release does not say how many"),
        (
            "Promise" if guarantee.private else "Would promise",
            f"({number(guarantee.epsilon, 4)}, {number(guarantee.delta, 3)})-differential privacy "
            "for each record",
        ),
        ("Found", _found(subject, findings)),
    ]
    negative = int(np.count_nonzero(findings.matrix.diagonal() < 0))
    if negative:
        words = (
            f"{negative:,} of {counted(subject.n_features, 'variance')} came out negative: noise"
        )
        rows.append(("Variances", words))
    noise, n = subject.release.noise_sd, subject.n_records
    if noise is not None and n is not None:
        rows.append(
            (
                "Noise",
                f"{number(noise[0], 2)} (standard deviation) on a correlation; sampling error "
                f"alone has {number(1 / math.sqrt(n), 2)}",
            )
        )
    if found is not None and found.mechanism == subject.release.name:
        rows.append(
            (
                "Expected error",
                f"about {number(found.here.typical_error, 2)} of the covariance's norm; the zero "
                "matrix has 1",
            )
        )
    return facts(rows, class_="summary")


def _found(subject: Subject, findings: Findings) -> str:
    if findings.rule == STRONGEST:
        return f"values of all {subject.candidates:,} pairs of features; none is set to zero"
    return f"{findings.n_found:,} of {subject.candidates:,} pairs of features"


def _parameters(subject: Subject) -> Markup:
    release = subject.release
    content = {
        "mechanism": release.mechanism,
        "unit": release.unit,
        "noise_sd": release.noise_sd,
        "guarantee": release.guarantee.to_dict(),
        "parameters": dict(release.parameters),
    }
    text = json.dumps(content, indent=1, default=str, ensure_ascii=False)
    text = "\n".join(printable(line) for line in text[:_MOST_PARAMETERS].split("\n"))
    more = "\n... the rest is in release.json" if len(text) >= _MOST_PARAMETERS else ""
    listing = tag("pre", text + more, tabindex="0")
    return tag("details", tag("summary", "All numbers behind this release, as JSON"), listing)


def _footer(subject: Subject) -> Markup:
    made = subject.release.making.made
    time = "" if made is None else printable(made[:19].replace("T", " "))
    when = f" The release was made on {time} UTC." if time else ""
    return tag(
        "footer",
        tag(
            "p",
            f"Made by hushcov {__version__} from the release and public inputs alone. Making and "
            f"showing this page spends nothing beyond what the release has spent.{when}",
        ),
    )
