"""Files that commands read and write: records, keys, and the folders of releases.

Commands that read a release load nothing of how records are read.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushcov._validation import meant
from hushcov._words import counted
from hushcov.exceptions import HushcovError, ParameterError
from hushcov.options import read_bandwidth
from hushcov.release.files import RELEASE_FILES, check_place

if TYPE_CHECKING:
    from hushcov.candidates import Candidates
    from hushcov.kernel.records.base import Records


@contextmanager
def opened(
    path: Path,
    *,
    columns: str | Sequence[str] | None,
    scheduler: str | None,
    names: str | None = None,
    delimiter: str | None = None,
    leave_out: Sequence[str] = (),
    **options: Any,
) -> Iterator[Records]:
    """Open what `path` names; headers and numbers of rows are read, and no record.

    `options` are those of `open_records`. The connection to a scheduler, if there is one, ends
    with the context.
    """
    from hushcov.tables.sources import open_records

    records = open_records(
        path,
        columns=split_names(columns),
        names=split_names(names),
        delimiter=sign_of(delimiter),
        leave_out=() if path.suffix == ".npy" else leave_out,
        **options,
    )
    if scheduler is None:
        yield records
        return
    from hushcov.tables.cluster import on_cluster

    with on_cluster(path, records, scheduler) as elsewhere:
        yield elsewhere


def sign_of(delimiter: str | None) -> str | None:
    """Return the separator of fields that a setting names; "tab" is a tab."""
    return "\t" if delimiter in ("\\t", "tab") else delimiter


def split_names(names: str | Sequence[str] | None) -> list[str] | None:
    """Return names that an option has between commas, or settings in a list."""
    if isinstance(names, str):
        return [name.strip() for name in names.split(",")]
    return None if names is None else list(names)


def chosen_columns(
    path: Path, options: Mapping[str, Any], leave_out: Sequence[str], described: Sequence[str]
) -> tuple[str | Sequence[str] | None, dict[str, str]]:
    """Return the columns to read, and those left out because they are no measurements, with why.

    That goes by names and stated types alone, and no record is read. `leave_out` are columns that
    are no features in any case, and `described` those of a codebook, which are taken as it says.
    """
    from hushcov.tables.files import read_header

    if options["columns"] is not None:
        return options["columns"], {}
    names = split_names(options["names"])
    sign = sign_of(options["delimiter"])
    try:
        found = read_header(path, delimiter=sign, header=options["header"], names=names)
    except HushcovError:
        return None, {}  # whatever opens the file says it better
    there = found.names or ()
    apart = {meant(name, there) for name in leave_out}
    aside = apart | {meant(name, there) for name in described}
    out = {name: why for name, why in found.no_measurements.items() if name not in aside}
    left = [name for name in there if name not in out and name not in apart]
    return (left, out) if out and left else (None, {})


def stem_of(file: Path) -> str:
    """Return a name for what is made from the file: that of the folder, for a pattern."""
    from hushcov.tables.sources import WILDCARDS

    if set(file.name) & WILDCARDS:
        return file.absolute().parent.name
    return Path(file.name.removesuffix(".gz")).stem


def free_path(path: Path, suffix: str = "", taken: Callable[[Path], bool] = Path.exists) -> Path:
    """Return a path that is not taken: this one, or with -2, -3 and so on after its name."""
    name = path.name.removesuffix(suffix)
    others = (path.with_name(f"{name}-{i}{suffix}") for i in count(2))
    return next(each for each in chain((path,), others) if not taken(each))


def output_folder(file: Path, asked: Path | None) -> Path:
    """Return the folder of a release of the file; one that is taken is refused."""
    folder = Path(f"{stem_of(file)}-release") if asked is None else asked
    refuse_taken(folder)
    return folder


def known_pairs(
    options: Mapping[str, Any], n_features: int, names: Sequence[str] | None
) -> Candidates | None:
    """Return the pairs that may covary, if they were given."""
    from hushcov.candidates import read_candidates

    bandwidth, pairs = read_bandwidth(options.get("bandwidth"))[0], options.get("candidate_pairs")
    if isinstance(bandwidth, str):
        raise ParameterError(
            f"bandwidth must be a number of columns without genotypes, got {bandwidth}: pass "
            "--mechanism genotypes for a table of them."
        )
    named = None if names is None else list(map(str, names))
    return read_candidates(n_features, bandwidth=bandwidth, candidate_pairs=pairs, names=named)


def candidate_words(candidates: Candidates) -> str:
    """Say which pairs may covary, and how many of all pairs these are."""
    d, words = candidates.n_features, candidates.words
    if candidates.bandwidth is not None:
        words += f", {candidates.n_pairs:,} of them"
    return f"{words}, of {counted(d * (d - 1) // 2, 'pair')}; all others are taken for zero"


@contextmanager
def reserved(folder: Path) -> Iterator[Path]:
    """Make sure that a release can be written into `folder`, before any budget is spent on it.

    A release that is there already is not overwritten. Folders made here are removed again if the
    release fails.
    """
    refuse_taken(folder)
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_place(folder)
        yield folder
    except BaseException:
        for each in missing:
            with suppress(OSError):  # which what holds something raises
                each.rmdir()
        raise


def refuse_taken(folder: Path) -> None:
    """Refuse a folder that holds a release, or anything else; nothing is written to find out."""
    if holds_release(folder):
        raise FileExistsError(
            f"{folder} already holds a release, which cost privacy budget: choose another folder "
            "with --output, or move it away."
        )
    check_place(folder, trial=False)


def check_paths(figure: Path | None, *others: Path | None) -> None:
    """Find out now, not after the work, that a figure or a file cannot be drawn or written."""
    for path in (figure, *others):
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    if figure is not None:
        from hushcov.report.style import new_figure

        new_figure(1, 1)


def holds_release(folder: Path) -> bool:
    """Return whether there is a release, or a part of one."""
    return any((folder / name).exists() for name in RELEASE_FILES)
