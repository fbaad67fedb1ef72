"""`hushcov show`: check a release on disk for damage, and say what it is and what it promises.

With --column or --columns: some columns of it, however large it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from hushcov._validation import nearest
from hushcov._words import counted, number
from hushcov.answers.files import Table
from hushcov.answers.names import MOST_ASKED, feature_names, matching
from hushcov.answers.tables import (
    Window,
    around,
    variances_table,
    window,
)
from hushcov.cli.answers import open_page, reads_release, records, show_pairs
from hushcov.cli.options import INTEGER, JSON, Command
from hushcov.cli.output import clean, console, echo_json, facts, heading, paragraph, short_name
from hushcov.exceptions import ParameterError
from hushcov.promise import promise_words
from hushcov.release import Release
from hushcov.release.files import StoredRelease
from hushcov.release.findings import released_pairs
from hushcov.release.view import LEVEL, MEAN_COLUMNS, view
from hushcov.text.description import Description, counted_facts, describe, summary_dict
from hushcov.text.printing import AnswerPage
from hushcov.text.rows import LEVEL_WORDS, mean_words

_SIGNATURE = {
    "valid": "valid: made by the private half of the key given, for these files",
    "not checked": "signed, not checked: pass --verify KEY.pub",
    "none": "none: checksums do not say who wrote the files",
}
_SHOWN_PAIRS = 10
_SAID = ("n_records", "n_features")  # in lines of their own; the first counts what is averaged
_ADVICE = "row_sparsity"  # which the default needs not be given
_MOST_MEANS = 6  # features whose means are listed


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
    "distance",
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
    distance: int | None,
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
    if column is not None and between is not None:
        raise ParameterError("--column and --columns must not be given both: choose one.")
    if distance is not None and column is None:
        raise ParameterError("--window must be given with --column: name the column to look at.")
    ends = [name.strip() for name in (between or "").split(_BETWEEN, 1)]
    if between is not None and not (len(ends) == 2 and all(ends)):
        raise ParameterError(
            f"--columns must be two columns like A..B, got {between!r}: name the first and the "
            "last."
        )
    stored = read()
    release = stored.release
    if between is not None:
        _show_window(window(release, *(_one(release, name) for name in ends)), as_json=as_json)
        return
    if column is not None:
        places = _matching(release, column, "--column")
        if len(places) == 1:
            _show_column(release, int(places[0]), distance, as_json=as_json)
        else:
            _list(release, column, places, as_json=as_json)
        return
    found = describe(release, _SHOWN_PAIRS)
    if not as_json:
        out = open_page(f"Release in {clean(str(folder))}/", release)
        facts(out, _facts(stored, found))
        show_pairs(out, found)
        return
    means = [] if release.location is None else records(_means_of(release))
    echo_json(
        {
            "folder": str(folder),
            "undamaged": True,
            "signature": _signature(stored),
            **stored.description,
            **summary_dict(release),
            "mechanism": release.name,  # with its threshold, as 'fit' calls it
            "largest_pairs": [pair.to_dict() for pair in found.strongest],
            "means": means,  # null where there is no interval
            "not_part_of_it": list(stored.unlisted),
        }
    )


def _signature(stored: StoredRelease) -> str:
    """Return whether there is a signature, and whether it was checked."""
    if stored.verified:
        return "valid"
    return "not checked" if stored.signed else "none"


def _facts(stored: StoredRelease, found: Description) -> list[tuple[str, str]]:
    """Say where the release comes from, what it promises and what it is."""
    release, guarantee, d = stored.release, stored.release.guarantee, stored.release.n_features
    made_by = ", ".join(f"{name} {version}" for name, version in stored.versions.items())
    made = (release.making.made or "").replace("T", " ").replace("+00:00", " UTC ")
    to_whom = guarantee.adjacency, guarantee.unit
    delta = guarantee.transcript_delta + guarantee.numerical_delta
    rows = [
        ("undamaged", f"yes: {', '.join(stored.files)} match their checksums"),
        ("signature", _SIGNATURE[_signature(stored)]),
        ("made", f"{made}by {made_by}"),
        *([("not part of it", ", ".join(stored.unlisted))] if stored.unlisted else []),
        ("private", "yes" if guarantee.private else "NO"),
        ("guarantee", promise_words(guarantee.epsilon, guarantee.delta, *to_whom)),
        ("odds", str(guarantee.odds())),
        ("spent", f"epsilon {number(guarantee.transcript_epsilon)}, delta {number(delta)}"),
        ("conditions", "; ".join(guarantee.preconditions) or "none"),
        ("mechanism", release.name),
        ("records", release.making.words or "the release does not say how many"),
        ("public inputs", _public(release)),
        ("size", f"{counted(d, 'feature')}: a {d:,} x {d:,} covariance, rounded to integers"),
    ]
    if release.in_order and release.bandwidth is not None:
        apart = counted(release.bandwidth, "column")
        words = f"{counted(released_pairs(release), 'pair')} at most {apart} apart"
        rows.append(("band", f"{words}; look at some with --column NAME or --columns A..B"))
    if release.positions is not None:
        ends = f"{int(release.positions.min()):,} to {int(release.positions.max()):,}"
        along = len(set(release.chromosomes or ()))
        rows.append(("positions", ends + f", on {counted(along, 'chromosome')}" * bool(along)))
    rows += [*found.facts(), *found.lines(), *counted_facts(release)]
    if release.noise_sd is not None:
        pair, variance = (number(sd, 3) for sd in release.noise_sd)
        units = "" if release.feature_scale is None else ", in units of the features' scales"
        words = f"standard deviation {pair} on a pair and {variance} on a variance{units}"
        rows.append(("noise", words))
    if release.location is not None:
        first = [own[:_MOST_MEANS].tolist() for own in _means_of(release).values()]
        said = [f"{short_name(str(n))} {mean_words(*own)}" for n, *own in zip(*first, strict=True)]
        said += [f"{d - len(said):,} more with --json"] if d > len(said) else []
        rows.append(("means", "; ".join(said)))
    return rows


def _means_of(release: Release) -> Table:
    """Return the released means with their intervals and standard errors."""
    table = variances_table(release, LEVEL)
    return {name: table[name] for name in ("feature", *MEAN_COLUMNS)}


def _public(release: Release) -> str:
    follows = release.making.structure is not None or release.of_candidates
    left_out = (*_SAID, _ADVICE) if follows else _SAID
    words = ["the size of the data"]
    for name, value in release.inputs.items():
        if isinstance(value, int | float | str) and name not in left_out:
            whole = f"{value:,}" if isinstance(value, int) else str(value)
            text = number(value) if isinstance(value, float) else whole
            words.append(f"{name.replace('_', ' ')} {text}")
    for what in ("bounds", "transforms"):
        given = getattr(release.making, what) or ()
        known = sum(each is not None and each != (None, None) for each in given)
        words += [f"{what} of {counted(known, 'feature')}"] if known else []
    return ", ".join(words) if words[1:] else "see release.json"


# ---- some columns ----

_BETWEEN = ".."
_MOST_NAMED = 20  # columns of a name that are listed
_LEGEND = (
    f"lower and upper: the {LEVEL_WORDS} interval, which counts privacy noise and sampling. not "
    "found: noise puts the correlation beyond 1, or a variance is not positive."
)


def _matching(release: Release, name: str, option: str) -> Any:
    """Return the places of columns with this name, or this part of a name."""
    found = matching(release, name)
    if not len(found):
        names = feature_names(release)[:MOST_ASKED].tolist()
        near = nearest([name], names)
        hint = f"did you mean {near[0]!r}?" if near else f"names are like {names[0]!r}."
        raise ParameterError(
            f"{option} must name a column of the release, and none of its {release.n_features:,} "
            f"has {name!r}: {hint}"
        )
    return found


def _one(release: Release, name: str) -> int:
    """Return the place of the one column that is meant."""
    found = _matching(release, name, "--columns")
    if len(found) > 1:
        names = feature_names(release)[found[:3]].tolist()
        raise ParameterError(
            f"--columns must name one column at each end, and {name!r} is a part of "
            f"{counted(len(found), 'name')}: write it all, such as {', '.join(map(repr, names))}."
        )
    return int(found[0])


def _place(release: Release, place: int) -> str:
    """Say where a column lies."""
    words = [f"column {place:,}, counted from 0"]
    if release.chromosomes is not None:
        words.append(f"chromosome {clean(release.chromosomes[place])}")
    if release.positions is not None:
        words.append(f"position {int(release.positions[place]):,}")
    return ", ".join(words)


def _show_column(release: Release, place: int, distance: int | None, *, as_json: bool) -> None:
    table, name = around(release, place, distance), str(feature_names(release)[place])
    every = variances_table(release, LEVEL).items()
    own = {key: values[[place]].tolist()[0] for key, values in every if key != "feature"}
    if as_json:
        where = None if release.positions is None else int(release.positions[place])
        about = {"column": name, "place": place, "position": where, **own}
        echo_json(about | {"pairs": records(table)})
        return
    variance = number(float(view(release, np.array([place])).matrix[place, place]))
    lines = [("where", _place(release, place)), ("variance", variance)]
    if release.location is not None:
        lines.append(("mean", mean_words(*(own[each] for each in MEAN_COLUMNS))))
    n = len(table["feature"])
    near = "" if distance is None else f", at most {counted(distance, 'column')} away"
    ends = {f"correlation_{end}": end for end in ("lower", "upper")}
    kept = ("feature", "columns_away", "position", "correlation", *ends, "status")
    page = AnswerPage(
        title=f"{short_name(name)} and its pairs",
        facts=[*lines, ("pairs", f"{n:,} released{near}")],
        table={ends.get(each, each): table[each] for each in kept if each in table},
        legend=_LEGEND,
    )
    page.write(console(), "--json has all")


def _show_window(found: Window, *, as_json: bool) -> None:
    """Print the pairs of columns that stand side by side."""
    if not as_json:
        replace(found.page(), legend=_LEGEND).write(console(), "--json has all")
        return
    echo_json(
        {
            "columns": list(found.features),
            "positions": None if found.positions is None else found.positions.tolist(),
            "chromosomes": None if found.chromosomes is None else list(found.chromosomes),
            "correlation": found.correlation.tolist(),
            "lower": found.lower.tolist(),
            "upper": found.upper.tolist(),
        }
    )


def _list(release: Release, name: str, found: Any, *, as_json: bool) -> None:
    names = feature_names(release)[found].tolist()
    if as_json:
        echo_json({"matching": names[:MOST_ASKED], "number": len(names)})
        return
    out = console()
    heading(out, f"{counted(len(names), 'column')} with {clean(name)!r} in the name")
    first = list(zip(names, found, strict=True))[:_MOST_NAMED]
    facts(out, [(short_name(each), _place(release, int(at))) for each, at in first])
    left = len(names) - _MOST_NAMED
    paragraph(out, f"{left:,} more; --json lists them. " * (left > 0) + "Name one of them.")
