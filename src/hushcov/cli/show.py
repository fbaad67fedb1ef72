"""`hushcov show`: verify a release on disk, and say what it is and what it promises."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
from rich.table import Table

from hushcov.cli.options import Command
from hushcov.cli.output import (
    clean,
    console,
    counted,
    facts,
    heading,
    number,
    paragraph,
    plain_table,
    short_name,
    show,
)
from hushcov.cli.pairs import STRONGEST, Pair, largest_pairs
from hushcov.cli.words import privacy_promise
from hushcov.mechanisms import Release
from hushcov.mechanisms.release_files import StoredRelease, read_release
from hushcov.postprocess import released_correlations, upper_pairs, values_at

NOT_PRIVATE = (
    "NOT PRIVATE: the noise came from a seed or a simulation, and can be subtracted by anyone who "
    "knows it. With secret noise the same mechanism would promise what follows."
)
_SHOWN_PAIRS = 10


@click.command(cls=Command, name="show")
@click.argument("folder", metavar="RELEASE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(folder: Path, as_json: bool) -> None:
    """Verify the release in a folder, and print what it is and what it promises.

    Every file must be what was written, or the exit code is 1. No record is needed, and nothing
    is spent.

    \b
    Example:
      hushcov show patients-release
    """
    stored = read_release(folder)
    pairs = _largest(stored.release)
    if as_json:
        click.echo(json.dumps(_as_json(folder, stored, pairs), indent=1, allow_nan=False))
        return
    out = console()
    heading(out, f"Release in {clean(str(folder))}/")
    if not stored.release.guarantee.private:
        paragraph(out, NOT_PRIVATE, style="bold red")
    for warning in stored.release.warnings:
        paragraph(out, f"WARNING: {clean(warning)}", style="bold red")
    facts(out, [*_about(stored), *_promises(stored.release), *_content(stored.release)])
    if pairs:
        heading(out, "Largest released correlations")
        show(out, _table(pairs, stored.column_names))
        paragraph(out, STRONGEST)


def _about(stored: StoredRelease) -> list[tuple[str, str]]:
    made_by = ", ".join(f"{name} {clean(version)}" for name, version in stored.versions.items())
    rows = [
        ("verified", f"yes: {', '.join(map(clean, stored.files))} match their checksums"),
        ("written", f"{stored.written.replace('T', ' ').replace('+00:00', '')} UTC by {made_by}"),
    ]
    if stored.unlisted:
        rows.append(("not part of it", ", ".join(map(clean, stored.unlisted))))
    return rows


def _promises(release: Release) -> list[tuple[str, str]]:
    guarantee = release.guarantee
    delta = guarantee.transcript_delta + guarantee.numerical_delta
    checked = "; ".join(map(clean, guarantee.preconditions)) or "nothing needed checking"
    return [
        ("private", "yes" if guarantee.private else "NO"),
        ("guarantee", privacy_promise(guarantee.epsilon, guarantee.delta)),
        (
            "spent",
            f"epsilon {number(guarantee.transcript_epsilon)}, delta {number(delta)} "
            f"(bound: {clean(guarantee.method)})",
        ),
        ("checked", checked),
    ]


def _content(release: Release) -> list[tuple[str, str]]:
    d = release.n_features
    rows = [
        ("mechanism", clean(release.mechanism)),
        ("public inputs", _public(release)),
        ("size", f"{counted(d, 'feature')}: a {d:,} x {d:,} matrix of integers and a unit"),
        ("pairs", f"{_released_pairs(release):,} of {d * (d - 1) // 2:,} pairs were released"),
    ]
    if release.noise_sd is not None:
        pair, variance = (number(sd, 3) for sd in release.noise_sd)
        units = "" if release.feature_scale is None else ", in units of the features' scales"
        rows.append(
            ("noise", f"standard deviation {pair} on a pair and {variance} on a variance{units}")
        )
    return rows


def _public(release: Release) -> str:
    inputs = release.parameters.get("inputs")
    listed = inputs.items() if isinstance(inputs, dict) else ()
    words = [
        f"{clean(name).replace('_', ' ')} {_value(value)}"
        for name, value in listed
        if isinstance(value, int | float | str)
    ]
    return ", ".join(words) or "see parameters in release.json"


def _value(value: int | float | str) -> str:
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if isinstance(value, int) else clean(value)


def _released_pairs(release: Release) -> int:
    d = release.n_features
    return d * (d - 1) // 2 if release.selected is None else int(release.selected.shape[1])


def _largest(release: Release) -> list[Pair]:
    """The largest released correlations; none where the numbers leave the range of doubles."""
    scale = release.feature_scale
    with np.errstate(all="ignore"):
        covariance = release.covariance()
        correlation = released_correlations(
            covariance, np.zeros(release.n_features) if scale is None else scale
        )
    rows, columns, _ = upper_pairs(release.integers)
    usable = np.ones(len(rows), dtype=bool)
    for matrix in (covariance, correlation):
        usable &= np.isfinite(values_at(matrix, rows, columns))
    pairs = largest_pairs(covariance, correlation, (rows[usable], columns[usable]), _SHOWN_PAIRS)
    return [
        Pair(at, float(value), float(strength), None)
        for at, value, strength in zip(*pairs, strict=True)
    ]


def _table(pairs: list[Pair], names: tuple[str, ...] | None) -> Table:
    table = plain_table()
    table.add_column("features" if names else "features, from 0", overflow="fold")
    for title in ("correlation", "covariance"):
        table.add_column(title, justify="right", no_wrap=True)
    for pair in pairs:
        shown = [str(i) if names is None else short_name(names[i]) for i in pair.features]
        table.add_row(", ".join(shown), f"{pair.correlation:.3f}", number(pair.covariance, 3))
    return table


def _as_json(folder: Path, stored: StoredRelease, pairs: list[Pair]) -> dict[str, object]:
    return {
        "folder": str(folder),
        "verified": True,
        **stored.description,
        "released_pairs": _released_pairs(stored.release),
        "largest_pairs": [pair.to_dict() for pair in pairs],
        "not_part_of_it": list(stored.unlisted),
    }
