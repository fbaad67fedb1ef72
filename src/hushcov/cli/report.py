"""`hushcov report`: check a release on disk, and write it up as one HTML page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from hushcov._words import counted, memory
from hushcov.cli.answers import check_outside, open_page, reads_release
from hushcov.cli.options import JSON, Command, output_option
from hushcov.cli.output import busy, clean, echo_json, facts
from hushcov.release.files import StoredRelease
from hushcov.report import check_pages, write_report

REPORT, HEAT_MAP = "report.html", "heatmap.png"


@click.command(cls=Command, name="report")
@reads_release
@output_option("Where the page is written.  [default: RELEASE-report.html]")
@JSON
def command(
    folder: Path, read: Callable[[], StoredRelease], output: Path | None, as_json: bool
) -> None:
    """Write the release in a folder as one HTML page, for a browser.

    The page begins with a verdict and with results: the strongest relations and all variances with
    intervals, a heat map and a graph. Then it explains the guarantee, where the budget went and how
    the release was made. It needs no network and prints on A4 paper. Every file of the release must
    match its checksum, and with --verify the signature, or the exit code is 1. No record is needed,
    and nothing is spent. It needs the extra 'hushcov[report]'.

    \b
    Example:
      hushcov report patients-release -o patients.html
    """
    check_pages()
    stored = read()
    path = Path(f"{folder.resolve().name}-report.html") if output is None else output
    check_outside(folder, path)
    with busy("writing the report"):
        write_report(path, stored.release)
    if as_json:
        guarantee = stored.release.guarantee
        found = {
            "folder": str(folder),
            "report": str(path),
            "bytes": path.stat().st_size,
            "private": guarantee.private,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "mechanism": stored.release.mechanism,
            "warnings": list(stored.release.warnings),
            "n_features": stored.release.n_features,
        }
        echo_json(found)
        return
    out = open_page(f"Report of {clean(str(folder))}/", stored.release)
    n_bytes = path.stat().st_size
    size = memory(n_bytes) if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"
    shown = f"{counted(stored.release.n_features, 'feature')}, by {clean(stored.release.name)}"
    facts(out, (("release", shown), ("written", f"{clean(str(path))} ({size}): open it")))
