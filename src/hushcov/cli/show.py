"""`hushcov show`: check a release on disk for damage, and say what it is and what it promises.

With --column or --columns: some columns of it, however large it is.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from hushcov._words import counted, number
from hushcov.accounting.guarantee import promise_words
from hushcov.answers.tables import (
    MOST_ASKED,
    Window,
    around,
    feature_names,
    matching,
    variance_of,
    window,
)
from hushcov.cli.answers import (
    LEVEL_WORDS,
    complete_facts,
    open_page,
    reads_release,
    records,
    show_pairs,
    structure_facts,
)
from hushcov.cli.options import INTEGER, JSON, Command
from hushcov.cli.output import (
    clean,
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    short_name,
    show,
    text_table,
)
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.description import Description, describe, structure_dict, verdict
from hushcov.release.files import StoredRelease

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
    found = describe(stored.release, _SHOWN_PAIRS)
    if as_json:
        echo_json(_as_json(folder, stored, found))
        return
    out = open_page(f"Release in {clean(str(folder))}/", stored.release)
    facts(out, [*_about(stored), *_promises(stored.release), *_content(stored.release, found)])
    show_pairs(out, found)


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


def _content(release: Release, found: Description) -> list[tuple[str, str]]:
    d = release.n_features
    rows = [
        ("mechanism", clean(release.name)),
        ("records", release.making.words or "the release does not say how many"),
        ("public inputs", _public(release)),
        ("size", f"{counted(d, 'feature')}: a {d:,} x {d:,} covariance, rounded to integers"),
        *_released(release),
        *structure_facts(found),
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


def _as_json(folder: Path, stored: StoredRelease, found: Description) -> dict[str, object]:
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


# ---- some columns ----

_BETWEEN = ".."
_MOST_NAMED = 20  # columns of a name that are listed
_MOST_LINES = 60  # pairs of a column
_MOST_SQUARE = 12  # columns whose matrix a screen has room for
_LEGEND = (
    "Correlations with 95 % intervals, which count privacy noise and sampling. noise: the "
    "correlation is beyond 1, or none."
)


def check_asked(column: str | None, reach: int | None, between: str | None) -> None:
    """Refuse options that do not go together, before anything is read."""
    if column is not None and between is not None:
        raise ParameterError("--column and --columns must not be given both: choose one.")
    if reach is not None and column is None:
        raise ParameterError("--window must be given with --column: name the column to look at.")
    if between is not None and not all(each.strip() for each in _ends(between)):
        raise ParameterError(
            f"--columns must be two columns like A..B, got {between!r}: name the first and the "
            "last."
        )


def show_columns(
    release: Release, column: str | None, reach: int | None, between: str | None, *, as_json: bool
) -> None:
    """Print one column and its pairs, or columns side by side; or which columns are called so."""
    if between is not None:
        first, last = (_one(release, each.strip(), "--columns") for each in _ends(between))
        _show_window(window(release, first, last), as_json=as_json)
        return
    assert column is not None
    found = matching(release, column)
    if len(found) == 1:
        _show_column(release, int(found[0]), reach, as_json=as_json)
    elif len(found):
        _list(release, column, found, as_json=as_json)
    else:
        raise ParameterError(_unknown(release, column, "--column"))


def _ends(between: str) -> tuple[str, str]:
    first, _, last = between.partition(_BETWEEN)
    return first, last


def _one(release: Release, name: str, option: str) -> int:
    """The one column that is meant; a name, or a part of one."""
    found = matching(release, name)
    if len(found) == 1:
        return int(found[0])
    if not len(found):
        raise ParameterError(_unknown(release, name, option))
    names = feature_names(release)[found[:3]].tolist()
    raise ParameterError(
        f"{option} must name one column at each end, and {name!r} is a part of "
        f"{counted(len(found), 'name')}: write it all, such as {', '.join(map(repr, names))}."
    )


def _unknown(release: Release, name: str, option: str) -> str:
    names = feature_names(release)[:MOST_ASKED].tolist()
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"names are like {names[0]!r}."
    return (
        f"{option} must name a column of the release, and none of its {release.n_features:,} has "
        f"{name!r}: {hint}"
    )


def _place(release: Release, place: int) -> str:
    """Where a column lies."""
    words = [f"column {place:,}, counted from 0"]
    if release.chromosomes is not None:
        words.append(f"chromosome {clean(release.chromosomes[place])}")
    if release.positions is not None:
        words.append(f"position {int(release.positions[place]):,}")
    return ", ".join(words)


def _show_column(release: Release, place: int, reach: int | None, *, as_json: bool) -> None:
    table, name = around(release, place, reach), str(feature_names(release)[place])
    where = None if release.positions is None else int(release.positions[place])
    if as_json:
        pairs = [_plain(line) for line in records(table)]
        echo_json({"column": name, "place": place, "position": where, "pairs": pairs})
        return
    out = console()
    heading(out, f"{short_name(name)} and its pairs")
    variance = f"{variance_of(release, place):.4g}"
    lines = [("where", _place(release, place)), ("variance", variance)]
    if release.location is not None:
        lines.append(("mean", f"{float(release.location[place]):.4g}"))
    n = len(table["feature"])
    near = "" if reach is None else f", at most {counted(reach, 'column')} away"
    lines.append(("pairs", f"{n:,} released{near}"))
    facts(out, lines)
    shown = np.arange(n)
    if n > _MOST_LINES:  # the strongest, in their order
        sizes = np.nan_to_num(np.abs(table["correlation"]))
        shown = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_LINES])
    if n:
        show(out, "")
        show(out, _lines({key: values[shown] for key, values in table.items()}))
        left = n - len(shown)
        paragraph(out, f"{left:,} weaker ones are left out. " * bool(left) + _LEGEND)


def _lines(table: Any) -> Any:
    titles = ["column", "away", "position", "correlation", f"{LEVEL_WORDS} interval", "found"]
    where = "position" in table
    rows = []
    for line in records(table):
        correlation = "none" if math.isnan(line["correlation"]) else f"{line['correlation']:.3f}"
        rows.append(
            [
                short_name(line["feature"]),
                f"{line['columns_away']:+,}",
                *([f"{line['position']:,}"] if where else []),
                correlation + ": noise" * line["noise"],
                _interval(line["correlation_lower"], line["correlation_upper"]),
                "yes" if line["found"] else "no",
            ]
        )
    kept = [title for title in titles if where or title != "position"]
    return text_table(kept, rows, folded="column")


def _interval(low: float, high: float) -> str:
    return "none" if math.isnan(low) or math.isnan(high) else f"{low:.3f} to {high:.3f}"


def _show_window(found: Window, *, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "columns": list(found.features),
                "positions": None if found.positions is None else found.positions.tolist(),
                "chromosomes": None if found.chromosomes is None else list(found.chromosomes),
                **{
                    name: [[_number(x) for x in row] for row in getattr(found, name).tolist()]
                    for name in ("correlation", "lower", "upper")
                },
            }
        )
        return
    out, n = console(), len(found.features)
    heading(out, f"Correlations of {counted(n, 'column')}")
    names = [short_name(name) for name in found.features]
    if n <= _MOST_SQUARE:
        _square(out, names, found)
    else:
        _strongest(out, found)


def _square(out: Console, names: list[str], found: Window) -> None:
    numbers = [str(i + 1) for i in range(len(names))]
    rows = []
    for i, name in enumerate(names):
        cells = ["" if math.isnan(x) else f"{x:.2f}" for x in found.correlation[i].tolist()]
        where = [] if found.positions is None else [f"{int(found.positions[i]):,}"]
        rows.append([f"{i + 1} {name}", *where, *cells])
    titles = ["column", *([] if found.positions is None else ["position"]), *numbers]
    show(out, text_table(titles, rows, folded="column"))
    shown = found.correlation
    ends = np.fmax(found.upper - shown, shown - found.lower)  # no middle of what a taper took off
    widest = np.fmax.reduce(ends, axis=None) if len(names) > 1 else math.nan
    sure = "" if math.isnan(widest) else f" Intervals reach {widest:.2g} to a side at most."
    paragraph(out, f"Empty: not released.{sure} --json has all ends.")


def _strongest(out: Console, found: Window) -> None:
    table = found.table()
    sizes = np.nan_to_num(np.abs(table["correlation"]))
    first = np.argsort(-sizes, kind="stable")[:_MOST_LINES]
    rows = [
        [
            f"{short_name(line['feature_1'])}, {short_name(line['feature_2'])}",
            f"{line['correlation']:.3f}" + ": noise" * line["noise"],
            _interval(line["correlation_lower"], line["correlation_upper"]),
        ]
        for line in records({key: values[first] for key, values in table.items()})
    ]
    show(
        out,
        text_table(["columns", "correlation", f"{LEVEL_WORDS} interval"], rows, folded="columns"),
    )
    left = len(sizes) - len(first)
    paragraph(out, f"{left:,} weaker pairs are left out; --json has all. " * bool(left) + _LEGEND)


def _list(release: Release, name: str, found: Any, *, as_json: bool) -> None:
    names = feature_names(release)[found].tolist()
    if as_json:
        echo_json({"matching": names[:MOST_ASKED], "number": len(names)})
        return
    out = console()
    heading(out, f"{counted(len(names), 'column')} with {clean(name)!r} in the name")
    facts(out, [(short_name(each), _place(release, int(at))) for each, at in _first(names, found)])
    left = len(names) - _MOST_NAMED
    paragraph(out, f"{left:,} more; --json lists them. " * (left > 0) + "Name one of them.")


def _first(names: list[str], found: Any) -> list[tuple[str, Any]]:
    return list(zip(names, found, strict=True))[:_MOST_NAMED]


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _number(value) if isinstance(value, float) else value for name, value in line.items()
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
