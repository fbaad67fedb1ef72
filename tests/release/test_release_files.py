"""Releases on disk: equal when read, refused when changed, whole or absent after any kill."""

import errno
import hashlib
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import PATIENCE
from documents import described, forge, guarantee, seal
from hushcov._files import os_errors
from hushcov.exceptions import (
    CapacityError,
    DamagedReleaseError,
    HushcovError,
    ParameterError,
    ReleaseError,
)
from hushcov.kernel.accounting import (
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    OneShotLaplace,
    Pure,
    TotalVariation,
)
from hushcov.release import Making, Part, Release
from hushcov.release import files as release_files
from hushcov.release.document import COLUMN_KINDS, Kind
from hushcov.release.files import read_release
from hushcov.release.schema import FORMAT
from hushcov.tables.codebook import KINDS

EVENTS = (
    Gaussian(0.1 + 0.2),
    DiscreteGaussian(1 / 3),
    BoundedRange(1e-3, 7),
    OneShotLaplace(1.0, 1e4, 2, 9, 1e-7),
    OneShotLaplace(1.0, 1e4, 2, 9),
    Pure(5e-324),
    Approximate(0.5, 1e-9),
    TotalVariation(1e-12),
)
PARTS = (Part("scales", EVENTS[:1]), Part("a count", EVENTS[1:2]), Part("values", EVENTS[2:]))
MAKING = Making(
    n_records=10**17 // 2,
    complete={"released": 7, "of": 10**17 // 2, "noise_sd": 3},
    scales="released",
    threshold=1 / 3,
    indicators=(0,),
    parts=PARTS,
    made="2026-01-31T12:00:00+00:00",
    dataset="patients",
)
RANKED = {"name": "rank", "number": None, "edges": [0.0, 1.0], "shares": [0.5, 0.3, 0.2]}
FILES = ("integers.npy", "release.json", "release.sha256", "covariance.npy")


def promised(**changes) -> Guarantee:
    known = {"transcript_epsilon": 0.99, "transcript_delta": 1e-7, "numerical_delta": 1e-8}
    known |= {"events": EVENTS, "preconditions": ("rows are bounded", "n is public")}
    return guarantee(**known | {"method": "rdp"} | changes)


def release_of(d=3, *, full=True, value=5, private=True) -> Release:
    integers = np.diag(np.arange(d) * -(2**62) // max(d, 1))
    selected = None
    if full and d > 1:
        integers[0, d - 1] = integers[d - 1, 0] = value
        selected = np.array([[0], [d - 1]])
    return Release(
        mechanism="screened",
        integers=integers,
        unit=0.1,
        guarantee=promised(private=private),
        parameters={"inputs": {"n_records": 10**17, "sizes": (1, 2)}, "none": None},
        feature_scale=np.linspace(0, 1e-300, d) if full else None,
        noise_sd=(0.1, 1 / 3) if full else None,
        selected=selected,
        column_names=tuple(map(str, range(d))) if full and d == 40 else None,
        making=MAKING if full else Making(),
    )


def attach(folder: Path) -> None:
    np.save(folder / "covariance.npy", np.eye(3))


@pytest.fixture
def folder(tmp_path) -> Path:
    return release_of().write(tmp_path / "out", attach=attach)


def refused(folder: Path, words: str, kind=DamagedReleaseError) -> None:
    with pytest.raises(kind) as caught:
        Release.read(folder)
    assert words in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("d", [1, 2, 3, 40])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("private", [True, False])
def test_reads_back_equal(tmp_path, d, full, private):
    release = release_of(d, full=full, private=private)
    found = Release.read(release.write(tmp_path / "deep" / "er"))
    assert found == release
    assert found.guarantee.events == release.guarantee.events
    assert str(found.guarantee) == str(release.guarantee)
    assert found.integers.dtype == np.int64
    assert np.array_equal(found.covariance(), release.covariance())
    about = described(tmp_path / "deep" / "er")
    assert about["private"] is private


def test_what_is_beside_the_release(folder, tmp_path):
    stored = read_release(folder)
    assert set(stored.versions) == {"hushcov", "numpy", "python"}
    assert stored.files == ("covariance.npy", "integers.npy")
    assert (stored.release.column_names, stored.unlisted) == (None, ())
    (folder / "notes.txt").write_text("mine")
    assert read_release(folder).unlisted == ("notes.txt",)
    names = ("a", "b", "é\x1b")
    named = replace(release_of(), column_names=names).write(tmp_path / "named")
    assert Release.read(named).column_names == names
    command = ["sha256sum", "--check", "release.sha256"]
    assert subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode == 0
    for name, about in described(folder)["files"].items():
        content = (folder / name).read_bytes()
        assert about == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


@pytest.mark.parametrize(
    "change",
    [
        *(lambda g: g.pop("epsilon"), lambda g: g.update(extra=1), lambda g: g.update(events=None)),
        lambda g: g.update(events=[3]),
        lambda g: g["events"][0].update(type="Magic"),
        lambda g: g["events"][0].update(type=["Gaussian"]),
        *(lambda g: g["events"][0].update(mu=-1), lambda g: g["events"][0].update(mu=10**400)),
        *(lambda g: g["events"][0].update(extra=1), lambda g: g["events"][0].pop("mu")),
        *(lambda g: g.update(epsilon=0.5), lambda g: g.update(private=1)),
        *(lambda g: g.update(adjacency="add-one"), lambda g: g.update(preconditions="text")),
    ],
)
def test_bad_guarantees_are_refused(folder, change):
    data = json.loads(json.dumps(promised().to_dict()))
    change(data)
    with pytest.raises(HushcovError):
        Guarantee.from_dict(data)
    seal(folder, described(folder) | {"guarantee": data})
    refused(folder, "no valid guarantee")


def test_never_overwritten_silently(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ReleaseError, match=r"already holds.*overwrite=True"):
        release_of(value=7).write(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("exchange", [True, False])
def test_overwritten_when_asked(folder, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(sys, "platform", "one where names cannot be swapped")
    folder.chmod(0o750)
    release_of(value=7).write(folder, overwrite=True)
    assert Release.read(folder) == release_of(value=7)
    assert {path.name for path in folder.iterdir()} == set(FILES) - {"covariance.npy"}
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
    assert folder.stat().st_mode & 0o777 == 0o750


def test_a_damaged_release_can_be_overwritten_but_nothing_else(folder, tmp_path):
    (folder / "release.json").write_text("{")
    release_of().write(folder, overwrite=True)
    (folder / "notes.txt").write_text("mine")
    other = tmp_path / "other"
    other.mkdir()
    (other / "integers.npy").write_text("mine")
    for place in (folder, other):
        with pytest.raises(ReleaseError, match="empty folder"):
            release_of(value=7).write(place, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"
    assert Release.read(folder) == release_of()


def test_places_that_cannot_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    for place in ("file", "file/below", "loop", "loop/below", ".", "", "x\0y", "n" * 300):
        with pytest.raises(ReleaseError):
            release_of().write(place, overwrite=True)
        with pytest.raises(ReleaseError):
            Release.read(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop"]
    for place in (3, None, b"out"):
        with pytest.raises(ParameterError, match="folder must"):
            release_of().write(place)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, ValueError, OSError])
def test_a_failing_attachment_costs_no_release(tmp_path, kind):
    """It is whole on the disk before anything else is made, and what fails then names it."""
    out = tmp_path / "out"

    def fail(draft: Path) -> None:
        assert Release.read(out) == release_of()
        (draft / "report.html").write_text("half a page")
        raise kind("Buffer dtype mismatch")

    if kind is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            release_of().write(out, attach=fail)
    else:
        with pytest.warns(UserWarning, match=f"{out} holds the whole release.* mismatch"):
            assert release_of().write(out, attach=fail) == out
    assert Release.read(out) == release_of()
    assert list(tmp_path.iterdir()) == [out]
    assert not (out / "report.html").exists()


def test_kinds_of_columns_are_kept(tmp_path):
    assert COLUMN_KINDS == KINDS
    kinds = None, Kind("integer"), Kind("binary", ("no", "yes"))
    release = replace(release_of(), making=replace(MAKING, kinds=kinds))
    assert Release.read(release.write(tmp_path / "out")).making.kinds == kinds


def test_only_errors_of_the_operating_system_are_about_the_path(tmp_path):
    with pytest.raises(ValueError, match="dtype"), os_errors(tmp_path, "written", ReleaseError):
        raise ValueError("dtype")
    for name in ("x\0y", "x\ud800"):
        with pytest.raises(ReleaseError, match=r"'x\\\S+ cannot be read: no file can have this"):
            read_release(name)


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_full_disk_leaves_nothing_and_is_said(tmp_path, monkeypatch, call):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(release_files.os, call, full)
    with pytest.raises(ReleaseError, match="No space left"):
        release_of().write(tmp_path / "out")
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_release_whose_name_may_not_be_kept_is_written_and_that_is_said(tmp_path, monkeypatch):
    """The rename is done: to say that it cannot be written would be false."""
    to_disk = release_files.to_disk

    def full(path):
        if path == tmp_path:
            raise OSError(errno.EIO, "Input/output error")
        to_disk(path)

    monkeypatch.setattr(release_files, "to_disk", full)
    with pytest.warns(UserWarning, match=r"out is written, but a crash .* Input/output error"):
        release_of().write(tmp_path / "out")
    assert Release.read(tmp_path / "out").mechanism == release_of().mechanism
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "parts",
    [
        *({"parameters": {"x": np.ones(2)}}, {"parameters": {"x": float("nan")}}),
        *({"parameters": {1: 2}}, {"unit": float("inf")}, {"integers": np.array([[0, 1], [2, 0]])}),
        *({"integers": np.zeros((2, 2))}, {"noise_sd": (1.0, float("inf"))}),
        *({"feature_scale": np.ones(3)}, {"column_names": ("a",)}, {"column_names": ["a", "b"]}),
        *({"making": Making(n_records=np.int64(4))}, {"making": Making(threshold=float("nan"))}),
        {"making": Making(made="yesterday")},
        {"making": Making(parts=(Part("values", EVENTS[:1]),))},
        {"making": Making(parts=(Part("values", EVENTS[::-1]),))},
        *({"making": Making(complete={"released": 1})}, {"making": Making(scales="released")}),
    ],
)
def test_what_would_not_read_back_is_not_written(tmp_path, parts):
    known = {
        "mechanism": "m",
        "integers": np.eye(2, dtype=np.int64),
        "unit": 1.0,
        "guarantee": promised(),
        "parameters": {},
    }
    with pytest.raises(ReleaseError):
        Release(**known | parts).write(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_found(folder, name):
    path = folder / name
    content = path.read_bytes()
    chosen = np.random.default_rng(0).choice(8 * len(content), min(60, 8 * len(content)), False)
    for bit in chosen.tolist():
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        refused(folder, "does not match its checksum")
    path.write_bytes(content)
    assert Release.read(folder) == release_of()


@pytest.mark.parametrize("name", FILES)
def test_truncation_growth_and_loss_are_found(folder, name):
    path = folder / name
    content = path.read_bytes()
    for length in {0, 1, len(content) // 2, len(content) - 1}:
        path.write_bytes(content[:length])
        refused(folder, name)
    path.write_bytes(content + b"\0")
    refused(folder, name)
    path.unlink()
    if name == "release.json":
        refused(folder, "must be the folder of a release", ReleaseError)
    else:
        refused(folder, f"{name} is missing")


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_a_file_is_refused_without_waiting(folder, name):
    path = folder / name
    for make, words in (
        (lambda: path.symlink_to(name), f"{name} cannot be opened"),
        (lambda: path.symlink_to("/dev/zero"), f"{name} is not an ordinary file"),
        (lambda: os.mkfifo(path), f"{name} is not an ordinary file"),
        (path.mkdir, f"{name} is not an ordinary file"),
    ):
        path.unlink()
        make()
        refused(folder, words)
        if path.is_dir():
            path.rmdir()
            path.touch()


WILD = [True, 1.5, -1, 0, "x", "", [], [[]], {}, {"a": {}}, 10**400, "2026-01-01", [None] * 3]
FIELDS = (
    *("format", "hushcov", "numpy", "python", "private", "mechanism", "unit"),
    *("n_features", "guarantee", "parameters", "feature_scale", "noise_sd", "selected"),
    *("column_names", "making", "files"),
    *(f"making.{name}" for name in MAKING.__dataclass_fields__),
)
FINE = {  # wild values that these may have
    **dict.fromkeys(("feature_scale", "noise_sd", "selected", "column_names"), (None,)),
    **dict.fromkeys(("hushcov", "numpy", "python", "mechanism"), ("x", "2026-01-01")),
    **{"parameters": [{}, {"a": {}}], "private": [True], "unit": [1.5, True]},
    **{"making.dataset": ["x", "2026-01-01"], "making.projected": [True]},
    **{"making.threshold": [1.5, 0], "making.shrunk": [0]},
    **{"making.parts": [[]], "making.unresolved": [[]], "making.indicators": [[]]},
}


@pytest.mark.parametrize("field", FIELDS)
def test_fields_that_are_missing_or_of_another_kind(folder, field):
    about, inside = described(folder), field.startswith("making.")
    name, where = field.removeprefix("making."), about["making"] if inside else about

    def changed(fields):
        seal(folder, about | {"making": fields} if inside else fields)

    changed({key: value for key, value in where.items() if key != name})
    lacks = f"{'making of ' * inside}release.json lacks {name}"
    refused(folder, "format" if field == "format" else lacks)
    for value in [*WILD, *([] if inside else [None])]:
        if value not in FINE.get(field, ()):
            changed(where | {name: value})
            refused(folder, "files" if field == "files" else "release.json")
    changed(where | {"more": 1})
    refused(folder, "has fields other than")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unit": True}, "unit of release.json must be made of numbers"),
        ({"unit": 0}, "unit of release.json must be above 0"),
        ({"private": False}, "private of release.json must be what the guarantee says"),
        *(
            ({"n_features": 4}, "n_features"),
            ({"format": FORMAT + 1}, f"must have format {FORMAT}"),
        ),
        ({"feature_scale": [1, 2]}, "a list of 3"),
        ({"feature_scale": [1, 2, -1]}, "not negative"),
        ({"feature_scale": [1, 2, 10**400]}, "finite"),
        ({"noise_sd": [1, "2"]}, "made of numbers"),
        ({"selected": [[0], [3]]}, "counted from 0"),
        ({"selected": [[0], [-1]]}, "counted from 0"),
        ({"selected": [[0], [True]]}, "counted from 0"),
        ({"selected": [[0], [0]]}, "pairs of two features"),
        ({"selected": [[0, 2], [2, 0]]}, "each pair once"),
        ({"selected": [[0], []]}, "of one length"),
        ({"selected": [[0], [1]]}, "all pairs that have a value"),
        ({"column_names": ["a", "b"]}, "as many as features"),
        *(({"files": {}}, "a list of files"), ({"mechanism": ""}, "a name")),
    ],
)
def test_fields_that_cannot_be_right(folder, change, words):
    seal(folder, described(folder) | change)
    refused(folder, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bounds": [[0, 1]]}, "low and high of every feature"),
        ({"bounds": [[1, 0]] * 3}, "low and high of every feature"),
        ({"bounds": [[0, True]] * 3}, "low and high of every feature"),
        ({"bounds": [[0, 10**400]] * 3}, "low and high of every feature"),
        ({"bounds": [[0, 1, 2]] * 3}, "low and high of every feature"),
        ({"marginals": [None] * 3}, "marginals of release.json must be null, or a transform"),
        ({"marginals": [RANKED | {"edges": [1.0, 0.0]}] * 3}, "of edges in their order"),
        ({"marginals": [RANKED | {"shares": [0.5]}] * 3}, "of one more share"),
        ({"n_records": None}, "at most as many as were averaged"),
        ({"complete": {"released": 1, "of": 1, "noise_sd": 1}}, "as many as were averaged"),
        ({"complete": {"released": 2, "of": 1, "noise_sd": 1}}, "as many as were averaged"),
        ({"complete": {"released": 1, "of": 1}}, "lacks noise_sd"),
        ({"complete": {"released": 1, "of": 1.0, "noise_sd": 1}}, "three whole numbers"),
        ({"complete": {"released": -1, "of": 1, "noise_sd": 1}}, "three whole numbers"),
        ({"complete": {"released": 10**101, "of": 10**101, "noise_sd": 1}}, "three whole numbers"),
        ({"threshold": -0.1}, "not negative"),
        ({"threshold": 10**400}, "finite"),
        ({"made": "2026-01-31T12:00:00+02:00"}, "a time in UTC"),
        ({"made": "2026-01-31\x1b12:00:00+00:00"}, "a time in UTC"),
        ({"kinds": [None] * 3}, "a kind or null for every feature"),
        ({"kinds": [{"name": "integer", "values": []}]}, "a kind or null for every feature"),
        ({"kinds": [{"name": "text", "values": []}] * 3}, "one of number, integer"),
        ({"kinds": [{"name": "binary", "values": [1]}] * 3}, "must be texts"),
        ({"parts": [{"name": "all", "events": 7}]}, "all events of the guarantee"),
        ({"parts": [{"name": "all", "events": 9}]}, "all events of the guarantee"),
        ({"parts": [{"name": "all", "events": 10**400}]}, "all events of the guarantee"),
        ({"parts": [{"name": "", "events": 8}]}, "names with numbers of events"),
        ({"parts": [{"name": 1, "events": 8}]}, "names with numbers of events"),
        ({"parts": [{"name": "a", "events": True}]}, "names with numbers of events"),
        ({"parts": [{"name": "a", "events": 0}] * 9}, "names with numbers of events"),
        ({"parts": [{"name": "a"}]}, "parts of release.json lacks events"),
        ({"parts": [{"name": "all", "events": 8}]}, "a list that has the scales"),
    ],
)
def test_what_cannot_have_been_made_so(folder, change, words):
    about = described(folder)
    seal(folder, about | {"making": about["making"] | change})
    refused(folder, words)


@pytest.mark.parametrize(
    "name", ["../out/release.json", "/etc/passwd", "..", ".", "", "a\0b", "a\\b"]
)
def test_files_cannot_lie_elsewhere(folder, name):
    about = described(folder)
    about["files"][name] = about["files"]["integers.npy"]
    seal(folder, about)
    refused(folder, "names of files in the same folder")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"\xff", b"{" * 100_000, b"[" * 100_000, b'{"format": 1, "format": 1}'),
        *(b'{"format": NaN}', b'{"format": ' + b"1" * 5_000 + b"}", b'{"format": true}'),
    ],
)
def test_json_that_is_not(folder, content):
    seal(folder, content)
    refused(folder, "release.json")


def _npy(array: np.ndarray, **header) -> bytes:
    from io import BytesIO

    file = BytesIO()
    np.lib.format.write_array_header_1_0(
        file, np.lib.format.header_data_from_array_1_0(array) | header
    )
    return file.getvalue() + array.tobytes()


SOUND = np.diag([1, 2, 3])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_npy(SOUND.astype(float)), "must hold 64-bit integers"),
        (_npy(SOUND.astype(np.int32)), "must hold 64-bit integers"),
        (_npy(SOUND.astype(">i8")), "must hold 64-bit integers"),
        (_npy(SOUND.astype(np.uint64)), "must hold 64-bit integers"),
        *((_npy(np.asfortranarray(SOUND)), "by rows"), (_npy(SOUND[:2]), "a square matrix")),
        (_npy(SOUND.ravel()), "one pair for each value"),
        *((_npy(SOUND.ravel()[:2]), "n_features"), (_npy(SOUND[None]), "a square matrix")),
        (_npy(np.zeros((0, 0), int)), "a square matrix"),
        (_npy(SOUND, shape=(10**9, 10**9)), "longer or shorter"),
        (_npy(SOUND, shape=(2, 2)), "longer or shorter"),
        (_npy(SOUND, shape=(-3, -3)), "a square matrix"),
        (_npy(SOUND, descr="|O"), "must hold 64-bit integers"),
        (_npy(SOUND, descr="[('a', '<i8')]"), "damaged header"),
        (_npy(np.array([[1, 2, 3], [0, 4, 5], [3, 5, 6]])), "symmetric"),
        (pickle.dumps(SOUND), "damaged header"),
        (b"\x93NUMPY\x01\x00\xff\xff{" + b"(" * 65534, "damaged header"),
        (b"\x93NUMPY\x03\x00" + b"\xff" * 100, "damaged header"),
        *((b"\x93NUMPY\x01\x00", "damaged header"), (b"", "damaged header")),
    ],
)
def test_matrices_that_are_not(folder, content, words):
    forge(folder, "integers.npy", content)
    refused(folder, words)


def test_a_pickle_is_not_opened(folder, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.save(tmp_path / "trap.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
    forge(folder, "integers.npy", (tmp_path / "trap.npy").read_bytes())
    refused(folder, "must hold 64-bit integers")
    assert not (tmp_path / "sprung").exists()


def test_a_release_larger_than_memory(folder, monkeypatch):
    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr(release_files, "read_npy", no_memory)
    with pytest.raises(CapacityError, match="larger than memory"):
        Release.read(folder)


# Kills. One program forks the writers, so that hundreds of them cost little time.

# `HUSHCOV_KILL_STRIDE=1 pytest tests/release/test_release_files.py` is thorough.
STRIDE = int(os.environ.get("HUSHCOV_KILL_STRIDE", "40"))
KILLS = r"""
import os, pathlib, shutil, signal, sys

sys.path[:0] = [sys.argv[1], os.path.dirname(sys.argv[1])]
from test_release_files import attach, release_of
from hushcov.release import Release

base, stride = pathlib.Path(sys.argv[2]), int(sys.argv[3])
place = base / "out"


def write_until_call(last):
    seen = 0

    def count(frame, event, argument):
        nonlocal seen
        if event == "c_call":
            seen += 1
            if seen == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    release_of(4, value=2).write(place, overwrite=True, attach=attach)
    sys.setprofile(None)
    os._exit(0)


counts = {"absent": 0, "whole": 0, "parts": 0, "ended": 0}
call = 0
while True:
    call += stride
    pid = os.fork()
    if pid == 0:
        try:
            write_until_call(call)
        finally:
            os._exit(3)
    status = os.waitpid(pid, 0)[1]
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, "the writer failed"
        counts["ended"] += 1
        if counts["ended"] == 2:
            break
    parts = [path for path in base.iterdir() if path.name.endswith(".partial")]
    counts["parts"] += bool(parts)
    if place.exists():
        found = Release.read(place)  # raises if it is not whole
        assert int(abs(found.integers[0, -1])) in (1, 2)
        counts["whole"] += 1
        if counts["ended"] != 1:
            shutil.rmtree(place)
    else:
        counts["absent"] += 1
    if os.WIFEXITED(status) and counts["ended"] == 1:
        release_of(4, value=1).write(place, overwrite=True, attach=attach)
        call = 0  # once more, now over a release
    for path in parts:
        shutil.rmtree(path)
print(counts["absent"], counts["whole"], counts["parts"], counts["ended"], call)
"""


def test_a_kill_at_every_call_leaves_a_release_or_none(tmp_path):
    command = [sys.executable, "-c", KILLS, str(Path(__file__).parent), tmp_path, str(STRIDE)]
    answer = subprocess.run(command, text=True, capture_output=True, check=False, timeout=PATIENCE)
    assert answer.returncode == 0, answer.stderr
    absent, whole, parts, ended, calls = map(int, answer.stdout.split())
    assert (ended, calls > 100) == (2, True)
    assert min(absent, whole, parts) > 4
