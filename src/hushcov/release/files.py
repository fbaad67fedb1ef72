"""A release on disk: written whole or not at all, and checked when it is read.

A release is a folder: `integers.npy` (a matrix, or for a sparse release the values of the selected
pairs and then the diagonal), `release.json` with everything else, which names the files of lists
that are too long for it, and with the size and SHA-256 checksum of every file, and
`release.sha256` with the checksum of `release.json`. It is made under another name next to its
place, forced to the disk, and moved there in one step.
Checksums show damage, and are no proof of origin: whoever changes the files can write new ones.
With a key, `release.sig` holds a signature of `release.sha256`, and thereby of all files.
"""

from __future__ import annotations

import ctypes
import difflib
import errno
import hashlib
import json
import math
import os
import platform
import secrets
import shutil
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from hushcov._files import as_path, os_errors, to_disk
from hushcov._version import __version__
from hushcov.exceptions import CapacityError, DamagedReleaseError, ReleaseError, SignatureError
from hushcov.release.document import Release
from hushcov.release.schema import (
    FORMAT,
    LONGEST,
    check_files,
    describe,
    is_stored,
    parse,
    rebuild,
    same_document,
    stored_integers,
)
from hushcov.release.signature import (
    SIGNATURE_BYTES,
    KeyFile,
    PublicKey,
    SigningKey,
    public_key,
)

FILE = "file"
#: Files that lists of the document itself may go to; parameters have theirs named after them.
COLUMN_FILES = (
    *("feature_scale.npy", "location.npy", "positions.npy", "selected.npy", "windows.npy"),
    *("column_names.json", "chromosomes.json", "unresolved.npy", "bounds.npy", "fourth.npy"),
    *("basis.npy", "basis_.npy", "products.npy", "sums.npy"),
)
_INTEGERS, _FLOATS = "<i8", "<f8"
_MOST_INTEGER = 2**63 - 1
_PARAMETERS = "parameters"

Array = npt.NDArray[Any]
Columns = dict[str, Array | list[str]]


def detach(description: Mapping[str, Any]) -> tuple[dict[str, Any], Columns]:
    """Return the description with a file's name for each list that is too long, and these lists."""
    columns: Columns = {}

    def visit(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: visit(each, (*path, str(key))) for key, each in value.items()}
        column: Array | list[str] | None = None
        if isinstance(value, np.ndarray) and path[0] != _PARAMETERS:
            if value.size <= LONGEST:
                return value.tolist()
            column = value
        elif isinstance(value, list | tuple) and len(value) > LONGEST:
            column = _as_column(value)
        if column is None:
            return value
        name = file_name(column, path)
        columns[name] = column
        return {FILE: name}

    def file_name(column: Array | list[str], path: tuple[str, ...]) -> str:
        kind = "json" if isinstance(column, list) else "npy"
        last = [each for each in path[-1:] if each.isidentifier() and each.isascii()]
        stem = ".".join([_PARAMETERS, *last]) if path[0] == _PARAMETERS else path[-1]
        while f"{stem}.{kind}" in columns:
            stem += "_"
        return f"{stem}.{kind}"

    return {key: visit(value, (key,)) for key, value in description.items()}, columns


def _as_column(values: Sequence[Any]) -> Array | list[str] | None:
    """Return one array, or texts; None for a list of anything else."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return list(values)
    if kinds == {float}:
        return np.array(values, dtype=np.float64)
    if kinds == {int} and max(values) <= _MOST_INTEGER and min(values) >= -_MOST_INTEGER:
        return np.array(values, dtype=np.int64)
    if kinds <= {list, tuple} and set(map(len, values)) == {2}:
        ends = [each for pair in values for each in pair]
        if set(map(type, ends)) <= {int, float, type(None)}:
            return np.array([math.nan if x is None else x for x in ends], np.float64).reshape(-1, 2)
    return None


def put_back(description: Mapping[str, Any], read: Callable[[str], Array | list[str]]) -> Any:
    """Return the description with the lists in place of their files' names."""

    def visit(value: Any, *, plain: bool) -> Any:
        if not isinstance(value, dict):
            return value
        if set(value) == {FILE} and isinstance(value[FILE], str):
            found = read(value[FILE])
            return found.tolist() if plain and isinstance(found, np.ndarray) else found
        return {key: visit(each, plain=plain) for key, each in value.items()}

    return {key: visit(each, plain=key == _PARAMETERS) for key, each in description.items()}


def write_npy(file: Any, array: Array) -> None:
    """Write numbers of 64 bits, the way in which they are read again."""
    kind = _FLOATS if array.dtype.kind == "f" else _INTEGERS
    content = np.ascontiguousarray(array, dtype=kind)
    # Not by NumPy's own way, which says nothing where a disk takes only the first part.
    npy.write_array_header_1_0(file, npy.header_data_from_array_1_0(content))
    file.write(content)


def read_column(name: str, content: bytearray) -> Array | list[str]:
    """Return the list in the bytes of a file."""
    if name.endswith(".npy"):
        return read_npy(name, content, (_INTEGERS, _FLOATS))
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(type(each) is str for each in found):
        raise DamagedReleaseError(f"{name} must be a list of text in JSON")
    return list(map(sys.intern, found))  # names of chromosomes are few


def read_npy(name: str, content: bytearray, kinds: tuple[str, ...] = (_INTEGERS,)) -> Array:
    """Return the array in the bytes of a .npy file."""
    file = BytesIO(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ResourceWarning)  # of what others left open
            version = npy.read_magic(file)
            shape, by_columns, dtype = npy.read_array_header_1_0(file)
    except Exception:  # numpy's header parser lets errors of many types through
        raise DamagedReleaseError(f"{name} has a damaged header") from None
    if version != (1, 0) or by_columns or dtype.str not in kinds:
        what = "numbers" if len(kinds) > 1 else "integers"
        raise DamagedReleaseError(
            f"{name} must hold 64-bit {what} by rows, in version 1.0 of its format"
        )
    if len(shape) not in (1, 2) or min(shape) < 1:
        raise DamagedReleaseError(f"{name} must hold a list of numbers, or a square matrix")
    start = file.tell()
    if len(content) - start != dtype.itemsize * math.prod(shape):
        raise DamagedReleaseError(f"{name} is longer or shorter than its header says")
    found = np.frombuffer(content, dtype=dtype, offset=start).reshape(shape)
    return found.astype(dtype.newbyteorder("="), copy=False)


INTEGERS, DESCRIPTION, SEAL = "integers.npy", "release.json", "release.sha256"
SIGNATURE = "release.sig"
#: Everything that hushcov itself puts into the folder of a release.
RELEASE_FILES = (
    *(INTEGERS, DESCRIPTION, SEAL, SIGNATURE, "covariance.npy", "covariance.npz", "heatmap.png"),
    *("report.html", "summary.json", *COLUMN_FILES),
    *(
        f"{name}.{kind}"
        for name in ("pairs", "variances", "covariance", "correlation")
        for kind in ("csv", "parquet")
    ),
)
_MOST_DESCRIPTION = 2**30
_MOST_SEAL = 1000
_NAME_FOLDER = "name the folder of a release."
_AT_CURRENT_FOLDER, _EXCHANGE = -100, 2  # of Linux's renameat2

Folder = str | os.PathLike[str]
Attach = Callable[[Path], object]


@dataclass(frozen=True)
class StoredRelease:
    """An undamaged release, with what its files say beside it.

    `unlisted` names what lies in the folder without being part of the release. `signed` says that
    there is a signature, and `verified` that it was checked, which is done with a key alone.
    """

    release: Release
    versions: Mapping[str, str]
    files: tuple[str, ...]
    unlisted: tuple[str, ...]
    description: Mapping[str, Any]
    signed: bool
    verified: bool


def write_release(
    release: Release,
    folder: Folder,
    *,
    overwrite: bool = False,
    attach: Attach | None = None,
    sign: SigningKey | KeyFile | None = None,
) -> Path:
    """Write a release so that `folder` holds all of it or nothing, whenever the program ends.

    `attach` may write further files into the folder it is called with; they get checksums too. It
    is called when the release is on the disk without them, and what fails then is a warning.
    `sign` is a private key, or its file; the signature covers all files.
    """
    path = as_path("folder", folder, _NAME_FOLDER)
    key = sign if sign is None or isinstance(sign, SigningKey) else SigningKey.read(sign)
    description, columns = _checked_description(release)

    def write(attach: Attach | None, *, overwrite: bool) -> None:
        place = Path(os.path.realpath(path))
        replaced = _check_place(path, place, overwrite=overwrite)
        with draft_of(place, replaced=replaced) as draft:
            for name, column in columns.items():
                with (draft / name).open("wb") as file:
                    if isinstance(column, list):
                        lines = b",\n".join(json.dumps(each).encode() for each in column)
                        file.write(b"[\n" + lines + b"\n]\n")
                    else:
                        write_npy(file, column)
            _fill(draft, release, description, attach, key)

    with os_errors(path, "written", ReleaseError):
        write(None, overwrite=overwrite)
    if attach is not None:
        try:
            write(attach, overwrite=True)
        except Exception as error:  # the budget is spent: nothing beside it is worth the release
            reason = " ".join(f"{type(error).__name__}. {error}".split())
            said = f"{path} holds the whole release, but no files beside it: {reason}"
            warnings.warn(said, stacklevel=2)
    return path


def read_release(folder: Folder, *, verify: PublicKey | KeyFile | None = None) -> StoredRelease:
    """Read a release and hold every file against its checksum, or say what is wrong.

    `verify` is a public key, or its file: the release must be signed by its private half.
    """
    path = as_path("folder", folder, _NAME_FOLDER)
    key = None if verify is None else public_key(verify)
    try:
        with os_errors(path, "read", ReleaseError):
            return _read(path, key)
    except SignatureError as error:
        raise SignatureError(f"{path} cannot be trusted: {error}.") from None
    except DamagedReleaseError as error:
        raise DamagedReleaseError(
            f"{path} holds no valid release: {error}. Restore it from a copy; do not use it."
        ) from None
    except MemoryError:
        raise CapacityError(f"{path} holds a release larger than memory: use more.") from None


def sign_release(folder: Folder, key: SigningKey) -> Path:
    """Sign a release on disk, after every file was held against its checksum; return the file."""
    path = as_path("folder", folder, _NAME_FOLDER)
    read_release(path)
    place = path / SIGNATURE
    with os_errors(path, "written", ReleaseError):
        draft = _sibling_name(place)
        draft.write_bytes(key.sign(_content(path, SEAL, _MOST_SEAL)))
        to_disk(draft)
        os.replace(draft, place)
        to_disk(path)
    return place


def check_place(folder: Folder, *, trial: bool = True) -> None:
    """Refuse a folder that holds anything, or, found out by moving an empty one there, cannot be.

    Without a `trial` nothing is written.
    """
    path = as_path("folder", folder, _NAME_FOLDER)
    with os_errors(path, "written", ReleaseError):
        place = Path(os.path.realpath(path))
        _check_place(path, place, overwrite=False)
        if not trial:
            return
        draft = _sibling_name(place)
        try:
            _make_like(draft, place)
            if place.exists():
                os.rename(draft, place)
        finally:
            _discard(draft)


def _checked_description(release: Release) -> tuple[dict[str, Any], Columns]:
    """Describe the release, and make sure that it will be the same when it is read.

    The matrix, which is the largest part, is looked at and not made again.
    """
    try:
        description, columns = detach(describe(release))
        plain = json.loads(json.dumps(description, allow_nan=False))
        same = same_document(put_back(plain, columns.__getitem__), release) and is_stored(release)
    except DamagedReleaseError as error:
        raise ReleaseError(f"release cannot be written: {error}. Correct this field.") from None
    except (TypeError, ValueError, RecursionError, AttributeError):
        same = False
    if not same:
        raise ReleaseError(
            "release must consist of plain, finite numbers and text to be written: convert its "
            "parameters and column_names to what JSON can hold."
        )
    return description, columns


def _check_place(path: Path, place: Path, *, overwrite: bool) -> bool:
    """Refuse a place that holds anything but a release that may go; say whether there is one."""
    if place == Path.cwd():
        raise ReleaseError(
            f"{path} must not be the current folder, which cannot be replaced by a release: "
            "name a folder in it."
        )
    if not place.is_dir():
        return False  # if it is something else, moving a folder there fails
    names = {each.name for each in place.iterdir()}
    if not names:
        return False
    known = set(RELEASE_FILES)
    with suppress(OSError, TypeError):  # a damaged release may be replaced, too
        known |= set(parse(_content(place, DESCRIPTION, _MOST_DESCRIPTION))["files"])
    if DESCRIPTION not in names or names - known:
        raise ReleaseError(
            f"{path} must be a new or empty folder, and holds other files: a release is moved "
            "there as a whole. Choose another folder."
        )
    if not overwrite:
        raise ReleaseError(
            f"{path} already holds a release, which cost privacy budget: choose another folder, "
            "move it away, or pass overwrite=True to replace it."
        )
    return True


@contextmanager
def draft_of(place: Path, *, replaced: bool) -> Iterator[Path]:
    """Yield a folder beside `place` that takes its place, in one step, when all is written."""
    draft = _sibling_name(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    try:  # from before the draft is made: an interrupt leaves nothing
        _make_like(draft, place)
        yield draft
        _move(draft, place, replaced=replaced)
        _discard(draft)  # what was replaced
    except BaseException:
        _discard(draft)
        raise


def _sibling_name(place: Path) -> Path:
    """Return a name beside `place` that nothing has, for a draft of it."""
    return place.with_name(f".hushcov-{secrets.token_hex(8)}.partial")


def _discard(draft: Path) -> None:
    """Remove a folder that nobody needs any more, or name it."""
    for _ in range(2):  # what failed once may not fail again
        try:
            return shutil.rmtree(draft)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror
    return warnings.warn(f"{draft} may be left, remove it: {reason}.", stacklevel=2)


def _make_like(draft: Path, place: Path) -> None:
    """Make an empty folder, open to the same people as `place` if that exists."""
    draft.mkdir()
    if place.is_dir():
        draft.chmod(stat.S_IMODE(place.stat().st_mode))


def _fill(
    draft: Path,
    release: Release,
    description: dict[str, Any],
    attach: Attach | None,
    key: SigningKey | None,
) -> None:
    with (draft / INTEGERS).open("wb") as file:
        write_npy(file, stored_integers(release))
    if attach is not None:
        attach(draft)
    files = {}
    for each in sorted(draft.iterdir()):
        with each.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        files[each.name] = {"bytes": each.stat().st_size, "sha256": digest}
    about = {
        "format": FORMAT,
        "hushcov": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    content = json.dumps(about | description | {"files": files}, indent=1, allow_nan=False) + "\n"
    (draft / DESCRIPTION).write_bytes(content.encode())
    seal = _seal(content.encode())
    (draft / SEAL).write_bytes(seal)
    if key is not None:
        (draft / SIGNATURE).write_bytes(key.sign(seal))
    for each in draft.iterdir():
        to_disk(each)
    to_disk(draft)


def _seal(description: bytes | bytearray) -> bytes:
    """Return the line by which `sha256sum --check` checks `release.json`."""
    return f"{hashlib.sha256(description).hexdigest()}  {DESCRIPTION}\n".encode()


def _move(draft: Path, place: Path, *, replaced: bool) -> None:
    """Give `draft` the name `place` in one step; a release there is `draft` afterwards."""
    if not replaced:
        os.rename(draft, place)
    elif not _exchange(draft, place):
        # Not in one step here: for a moment there is no release, but never a part of one.
        aside = _sibling_name(place)
        try:
            os.rename(place, aside)
            os.rename(draft, place)
            _discard(aside)
        except BaseException:
            _put_back(aside, place)
            raise
    try:
        to_disk(place.parent)
    except OSError as error:
        said = f"{place} is written, but a crash may undo it: {error.strerror}. Check the disk."
        warnings.warn(said, stacklevel=2)


def _put_back(aside: Path, place: Path) -> None:
    """Undo a move, unless another release came to its place; name what cannot be undone."""
    try:
        os.rename(aside, place)
    except FileNotFoundError:  # it was not moved
        return None
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return _discard(aside)
        words = f"the release of {place} may be in {aside}, move it back: {error.strerror}."
        return warnings.warn(words, stacklevel=2)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where the system cannot."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    here = _AT_CURRENT_FOLDER
    if rename(here, os.fsencode(one), here, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(other))


def _read(path: Path, key: PublicKey | None) -> StoredRelease:
    if not path.is_dir() or not os.path.lexists(path / DESCRIPTION):
        names = [each.parent.name for each in path.parent.glob(f"*/{DESCRIPTION}")]
        close = difflib.get_close_matches(path.name, names, 1, 0.7)
        hint = f"did you mean {str(path.parent / close[0])!r}?" if close else "check the path."
        raise ReleaseError(
            f"{path} must be the folder of a release, with {DESCRIPTION} in it: {hint}"
        )
    seal = _content(path, SEAL, _MOST_SEAL)
    content = _content(path, DESCRIPTION, _MOST_DESCRIPTION)
    if seal != _seal(content):
        raise DamagedReleaseError(f"{DESCRIPTION} does not match its checksum in {SEAL}")
    if key is not None:
        _check_signature(path, seal, key)
    description = parse(content, str(path / DESCRIPTION))
    files = description["files"]
    check_files(files, INTEGERS)
    for name, about in files.items():
        with _opened(path, name) as (file, size):
            if size != about["bytes"]:
                raise DamagedReleaseError(
                    f"{name} has {size:,} bytes instead of {about['bytes']:,}"
                )
            if hashlib.file_digest(file, "sha256").hexdigest() != about["sha256"]:
                raise DamagedReleaseError(f"{name} does not match its checksum in {DESCRIPTION}")
    taken: set[str] = set()

    def column(name: str) -> Any:
        if name not in files:
            raise DamagedReleaseError(f"{name} is not among the files of {DESCRIPTION}")
        if name in taken:  # what is named again and again would fill any memory
            raise DamagedReleaseError(f"{name} is named twice in {DESCRIPTION}")
        taken.add(name)
        return read_column(name, _content(path, name, files[name]["bytes"]))

    integers = read_npy(INTEGERS, _content(path, INTEGERS, files[INTEGERS]["bytes"]))
    if integers.ndim == 2 and integers.shape[0] != integers.shape[1]:
        raise DamagedReleaseError(
            f"{INTEGERS} must hold a square matrix, or the values of pairs and the diagonal"
        )
    try:
        release = rebuild(put_back(description, column), integers)
    except RecursionError:
        raise DamagedReleaseError(f"{DESCRIPTION} has too many fields within fields") from None
    own = {*files, DESCRIPTION, SEAL, SIGNATURE}
    return StoredRelease(
        release=release,
        versions={name: description[name] for name in ("hushcov", "numpy", "python")},
        files=tuple(files),
        unlisted=tuple(sorted(each.name for each in path.iterdir() if each.name not in own)),
        description=description,
        signed=os.path.lexists(path / SIGNATURE),
        verified=key is not None,
    )


def _check_signature(path: Path, seal: bytearray, key: PublicKey) -> None:
    if not os.path.lexists(path / SIGNATURE):
        raise SignatureError(
            f"it is not signed, {SIGNATURE} is missing. Ask the sender for a signed release"
        )
    try:
        signature = _content(path, SIGNATURE, SIGNATURE_BYTES)
    except DamagedReleaseError as error:
        raise SignatureError(f"its signature is damaged, {error}") from None
    key.check(seal, signature)


def _content(path: Path, name: str, at_most: int) -> bytearray:
    with _opened(path, name) as (file, size):
        if size > at_most:
            raise DamagedReleaseError(f"{name} has more than {at_most:,} bytes")
        content = bytearray(size)
        if file.readinto(content) != size:
            raise DamagedReleaseError(f"{name} changed while it was read")
    return content


@contextmanager
def _opened(path: Path, name: str) -> Iterator[tuple[BufferedReader, int]]:
    """Open an ordinary file of the folder; anything else could wait or go on for ever."""
    try:
        descriptor = os.open(path / name, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, ValueError):
        raise DamagedReleaseError(f"{name} is missing") from None
    except OSError as error:
        raise DamagedReleaseError(f"{name} cannot be opened ({error.strerror})") from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise DamagedReleaseError(f"{name} is not an ordinary file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file, about.st_size
    finally:
        os.close(descriptor)
