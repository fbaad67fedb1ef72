"""Where output goes: usable before the work, and never over somebody's private release."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hushcov.release.files import DESCRIPTION, RELEASE_FILES, check_free, check_place
from hushcov.report.style import new_figure


@contextmanager
def reserved(folder: Path, *, replace_simulated: bool = False) -> Iterator[Path]:
    """Make sure that a release can be written into `folder`, before any budget is spent on it.

    A release that is there already is not overwritten, unless it was simulated and
    `replace_simulated`. A folder made here is removed again if the release fails.
    """
    refuse_taken(folder, replace_simulated=replace_simulated)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        check_place(folder, overwrite=replace_simulated)
        yield folder
    except BaseException:
        if made and not any(folder.iterdir()):
            folder.rmdir()
        raise


def refuse_taken(folder: Path, *, replace_simulated: bool = False) -> None:
    """Refuse a folder that holds a release, or anything else; nothing is written to find out."""
    if holds_release(folder) and not (replace_simulated and _is_simulated(folder)):
        raise FileExistsError(
            f"{folder} already holds a release, which cost privacy budget: choose another folder "
            "with --output, or move it away."
        )
    check_free(folder, overwrite=replace_simulated)


def check_figure(path: Path) -> None:
    """Find out now, not after the work, that a figure cannot be drawn or written."""
    check_parent(path)
    new_figure(1, 1)


def check_parent(path: Path) -> None:
    """Find out now, not after the work, that there is no folder to write a file into."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))


def holds_release(folder: Path) -> bool:
    """Whether there is a release, or a part of one."""
    return any((folder / name).exists() for name in RELEASE_FILES)


def _is_simulated(folder: Path) -> bool:
    try:
        description = json.loads((folder / DESCRIPTION).read_text())
        return description["guarantee"]["private"] is False
    except (OSError, ValueError, KeyError, TypeError):
        return False
