"""What a power failure would leave: files are on the disk before they get their names.

Killing a process cannot show this, since the system keeps what a dead process wrote. So the calls
are watched. At each change of a name the files behind it must have been forced to the disk as they
are, and after the last one the folder that holds the name.
"""

import os
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest

from documents import guarantee
from hushcov.kernel.accounting import ledger as ledger_module
from hushcov.kernel.grids import IntegerGrid
from hushcov.kernel.sums.statistics import RecordMap, Statistics
from hushcov.ledger import Ledger
from hushcov.release import Release
from hushcov.release import files as release_files

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="descriptors have no names on this system"
)


def release_of(value):
    return Release("gaussian", np.full((2, 2), value), 0.5, guarantee(), {})


def attachment(folder: Path) -> None:
    (folder / "report.html").write_text("a page")


def state(path: Path) -> object:
    return sorted(os.listdir(path)) if path.is_dir() else path.read_bytes()


class Disk:
    """What has been forced to the disk, by inode, and what was not when its name changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, always_whole: Path | None = None) -> None:
        self.forced: dict[int, object] = {}
        self.lost: list[str] = []
        self.named: list[Path] = []  # folders in which a name changed since they were forced
        self.always_whole = always_whole
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))
        exchange = release_files._exchange
        monkeypatch.setattr(release_files, "_exchange", self._watched(exchange))

    def fsync(self, descriptor: int) -> None:
        self._fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.forced[os.fstat(descriptor).st_ino] = state(path)
        self.named = [folder for folder in self.named if folder != path]

    def _watched(self, call):
        def rename(draft, place):
            self._check_whole()
            self._check_forced(Path(draft))
            done = call(draft, place)
            self.named.append(Path(place).parent)
            self._check_whole()
            return done

        return rename

    def _check_forced(self, draft: Path) -> None:
        for path in (draft, *(draft.iterdir() if draft.is_dir() else ())):
            if self.forced.get(path.stat().st_ino) != state(path):
                self.lost.append(path.name)

    def _check_whole(self) -> None:
        """What is overwritten is there at any moment, the old or the new."""
        if self.always_whole is not None:
            Release.read(self.always_whole)


@pytest.mark.parametrize("attach", [None, attachment])
def test_a_release_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, attach):
    disk = Disk(monkeypatch)
    release_of(1).write(tmp_path / "out", attach=attach)
    assert disk.lost == []
    assert disk.named == []  # the folder around it is forced last
    assert len(disk.forced) == (5 if attach is None else 10)  # it is there without, then with


def exchanges(folder: Path) -> bool:
    for name in ("one", "other"):
        (folder / name).mkdir()
    return release_files._exchange(folder / "one", folder / "other")


def test_overwriting_takes_one_step(tmp_path, monkeypatch):
    if not exchanges(tmp_path):
        pytest.skip("this file system cannot swap two names")
    out = tmp_path / "out"
    release_of(1).write(out)
    disk = Disk(monkeypatch, always_whole=out)
    release_of(2).write(out, overwrite=True)
    assert disk.lost == []
    assert disk.named == []
    assert Release.read(out) == release_of(2)


def test_without_a_swap_the_new_one_is_on_the_disk_first(tmp_path, monkeypatch):
    out = tmp_path / "out"
    release_of(1).write(out)
    disk = Disk(monkeypatch)
    monkeypatch.setattr(sys, "platform", "one where names cannot be swapped")
    release_of(2).write(out, overwrite=True)
    assert set(disk.lost) <= {"out", *state(out)}  # the old one, of which nothing is asked
    assert disk.named == []
    inode = (out / "integers.npy").stat().st_ino
    assert disk.forced[inode] == (out / "integers.npy").read_bytes()


@pytest.mark.parametrize("overwrite", [False, True])
def test_sums_are_on_the_disk_before_they_have_their_name(tmp_path, monkeypatch, overwrite):
    grid = IntegerGrid(1.0, 10)
    sums = Statistics(np.eye(2, dtype=np.int64), 10, RecordMap(2, grid))
    if overwrite:
        sums.save(tmp_path / "a.sums")
    disk = Disk(monkeypatch)
    sums.save(tmp_path / "a.sums", overwrite=overwrite)
    assert disk.lost == []
    assert disk.named == []
    assert len(disk.forced) == 2


def test_the_disk_notices_what_is_not_forced(tmp_path, monkeypatch):
    """The watch itself: a file, a folder, and the folder around them left to the system."""
    disk = Disk(monkeypatch)
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "file").write_text("x")
    os.rename(tmp_path / "draft", tmp_path / "out")
    assert disk.lost == ["draft", "file"]
    assert disk.named == [tmp_path]


DURABLE = {"journal_mode": "delete", "synchronous": 3, "fullfsync": 1}  # 3 is EXTRA


def test_a_charge_is_on_the_disk_when_it_is_answered(tmp_path, monkeypatch):
    """SQLite is asked to wait for the disk at every commit."""
    commits = []

    class Watched(sqlite3.Connection):
        def execute(self, sql, *parameters):
            if sql.startswith("COMMIT"):
                commits.append(
                    {n: super(Watched, self).execute(f"PRAGMA {n}").fetchone()[0] for n in DURABLE}
                )
            return super().execute(sql, *parameters)

    connect = sqlite3.connect
    monkeypatch.setattr(
        ledger_module.sqlite3,
        "connect",
        lambda *a, **options: connect(*a, **options, factory=Watched),
    )
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=2.0, delta=1e-5)
    ledger.charge("people", guarantee(), label="one")
    assert commits == [DURABLE, DURABLE]
    assert len(ledger.history("people")) == 1
