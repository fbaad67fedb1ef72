"""`hushcov show`: check a release on disk for damage, and say what it is and what it promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from hushcov._words import counted, number
from hushcov.accounting.guarantee import promise_words
from hushcov.cli.files import reads_release
from hushcov.cli.options import INTEGER, JSON, Command
from hushcov.cli.output import clean, console, echo_json, facts, heading, paragraph, warning
from hushcov.cli.show_columns import check_asked, show_columns
from hushcov.cli.words import (
    Found,
    complete_facts,
    found_pairs,
    show_pairs,
    structure_facts,
)
from hushcov.release import Release
from hushcov.release.files import StoredRelease
from hushcov.release.structure import structure_dict, verdict

NOT_PRIVATE = (
    "NOT PRIVATE: the noise came from a seed or a simulation, and can be subtracted by anyone who "
    "knows it. With secret noise the same mechanism would promise what follows."
)
_SIGNATURE = {
    "valid": "valid: made by the private half of the key given, for these files",
    "not checked": "signed, not checked: pass --verify KEY.pub",
    "none": "none: checksums do not say who wrote the files",
}
_SHOWN_PAIRS = 10
_SAID = ("n_records", "n_features")  # in lines of their own; the first counts what is averaged
_ADVICE = "row_sparsity"  # which the default needs not be given


@click.command(cls=Command, name="show")
@reads_release
@click.option(
    "--column",
    metavar="NAME",
    help="Look at one column and its pairs; a part of a name, or a pattern like 'rs12*', lists "
    "columns.",
)
@click.option(
    "--window",
    "reach",
    type=INTEGER,
    metavar="N",
    help="With --column: others that are at most N columns away.  [default: all that were "
    "released]",
)
@click.option(
    "--columns",
    "between",
    metavar="A..B",
    help="Look at the columns from A to B: their correlations with each other.",
)
@JSON
def command(
    folder: Path,
    read: Callable[[], StoredRelease],
    column: str | None,
    reach: int | None,
    between: str | None,
    as_json: bool,
) -> None:
    """Check the release in a folder for damage, and print what it is and what it promises.

    Every file must match its checksum, or the exit code is 1. A checksum is no proof of origin:
    whoever changes a file can change it, too. --verify asks for a signature, which only the
    holder of the private key can make; without a valid one the exit code is 1. No record is
    needed, and nothing is spent.

    \b
    Examples:
      hushcov show patients-release
      hushcov show patients-release --verify key.pub
      hushcov show genotypes-release --column rs123 --window 10
      hushcov show genotypes-release --columns rs100..rs110
    """
    check_asked(column, reach, between)
    stored = read()
    if column is not None or between is not None:
        show_columns(stored.release, column, reach, between, as_json=as_json)
        return
    found = found_pairs(stored.release, _SHOWN_PAIRS)
    if as_json:
        echo_json(_as_json(folder, stored, found))
        return
    out = console()
    heading(out, f"Release in {clean(str(folder))}/")
    if not stored.release.guarantee.private:
        paragraph(out, NOT_PRIVATE, style="bold red")
    for sentence in stored.release.warnings:
        warning(out, clean(sentence))
    facts(out, [*_about(stored), *_promises(stored.release), *_content(stored.release, found)])
    show_pairs(out, stored.release, found)


def signature(stored: StoredRelease) -> str:
    """Whether there is one, and whether it was checked."""
    if stored.verified:
        return "valid"
    return "not checked" if stored.signed else "none"


def _about(stored: StoredRelease) -> list[tuple[str, str]]:
    made_by = ", ".join(f"{name} {clean(version)}" for name, version in stored.versions.items())
    rows = [
        ("undamaged", f"yes: {', '.join(map(clean, stored.files))} match their checksums"),
        ("signature", _SIGNATURE[signature(stored)]),
        ("written", f"{stored.written.replace('T', ' ').replace('+00:00', '')} UTC by {made_by}"),
    ]
    if stored.unlisted:
        rows.append(("not part of it", ", ".join(map(clean, stored.unlisted))))
    return rows


def _promises(release: Release) -> list[tuple[str, str]]:
    guarantee = release.guarantee
    budget = (guarantee.epsilon, guarantee.delta)
    delta = guarantee.transcript_delta + guarantee.numerical_delta
    conditions = "; ".join(map(clean, guarantee.preconditions)) or "none"
    return [
        ("private", "yes" if guarantee.private else "NO"),
        ("guarantee", clean(promise_words(*budget, guarantee.adjacency, guarantee.unit))),
        ("odds", clean(str(guarantee.odds()))),
        ("spent", f"epsilon {number(guarantee.transcript_epsilon)}, delta {number(delta)}"),
        ("conditions", conditions),
    ]


def _content(release: Release, found: Found) -> list[tuple[str, str]]:
    d = release.n_features
    rows = [
        ("mechanism", clean(release.name)),
        ("records", release.making.words or "the release does not say how many"),
        ("public inputs", _public(release)),
        ("size", f"{counted(d, 'feature')}: a {d:,} x {d:,} covariance, rounded to integers"),
        *_released(release),
        *structure_facts(release),
        *found.lines(),
        *complete_facts(release),
    ]
    if release.noise_sd is not None:
        pair, variance = (number(sd, 3) for sd in release.noise_sd)
        units = "" if release.feature_scale is None else ", in units of the features' scales"
        rows.append(
            ("noise", f"standard deviation {pair} on a pair and {variance} on a variance{units}")
        )
    return rows


def _released(release: Release) -> list[tuple[str, str]]:
    """Which pairs, and where columns lie, of a release along an order."""
    lines = []
    if release.in_order and release.bandwidth is not None:
        apart = counted(release.bandwidth, "column")
        words = f"{counted(_released_pairs(release), 'pair')} at most {apart} apart"
        lines.append(("band", f"{words}; look at some with --column NAME or --columns A..B"))
    if release.positions is not None:
        ends = f"{int(release.positions.min()):,} to {int(release.positions.max()):,}"
        along = len(set(release.chromosomes or ()))
        lines.append(("positions", ends + f", on {counted(along, 'chromosome')}" * bool(along)))
    return lines


def _public(release: Release) -> str:
    inputs = release.parameters.get("inputs")
    follows = release.making.structure is not None or release.of_candidates
    left_out = (*_SAID, _ADVICE) if follows else _SAID
    listed = inputs.items() if isinstance(inputs, dict) else ()
    words = [
        f"{clean(name).replace('_', ' ')} {_value(value)}"
        for name, value in listed
        if isinstance(value, int | float | str) and name not in left_out
    ]
    return ", ".join(["the size of the data", *words] if words else ["see release.json"])


def _value(value: int | float | str) -> str:
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if isinstance(value, int) else clean(value)


def _released_pairs(release: Release) -> int:
    d = release.n_features
    return d * (d - 1) // 2 if release.selected is None else int(release.selected.shape[1])


def _as_json(folder: Path, stored: StoredRelease, found: Found) -> dict[str, object]:
    return {
        "folder": str(folder),
        "undamaged": True,
        "signature": signature(stored),
        **stored.description,
        "name": stored.release.name,
        "mechanism": stored.release.name,  # with its threshold, as 'fit' calls it
        "odds": stored.release.guarantee.odds().to_dict(),
        "released_pairs": _released_pairs(stored.release),
        "verdict": asdict(verdict(stored.release)),
        "structure": structure_dict(stored.release),
        "found_pairs": found.number,
        "largest_pairs": [pair.to_dict() for pair in found.strongest],
        "not_part_of_it": list(stored.unlisted),
    }
