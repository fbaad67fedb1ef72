"""Write `release.json`, and check every field of it when it is read back."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NoReturn

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.exceptions import DamagedReleaseError, HushcovError, ReleaseError
from hushcov.kernel.accounting import RELATIONS, Guarantee
from hushcov.postprocess import Matrix, is_sparse, stored_above, symmetric_sparse, values_at
from hushcov.release.document import (
    COLUMN_KINDS,
    COUNTED,
    KINDS,
    Kind,
    Making,
    Part,
    Release,
    Structure,
    Tails,
    plain,
)

FORMAT = 11
#: The longest list that `release.json` holds by itself.
LONGEST = 10_000
BANDWIDTH, WINDOWS = "bandwidth", "windows"
_MOST_RECORDS = 10**100  # as many as any mechanism takes
_LARGEST_DOUBLE = float(np.finfo(np.float64).max)
_LARGEST_PROCESSED = 1e300  # entry of which sums and eigenvalues are doubles


def wrong(field: str, constraint: str) -> NoReturn:
    """Refuse a document for one of its fields."""
    raise DamagedReleaseError(f"{field} of release.json must be {constraint}, and is not")


# ---- which pairs were released ----


def of_windows(counts: IntArray) -> IntArray:
    """Return rows and columns of the pairs of windows, row by row."""
    d, total = len(counts), int(counts.sum())
    pairs = np.empty((2, total), dtype=np.int64)
    pairs[0] = np.repeat(np.arange(d), counts)
    pairs[1] = np.arange(total)
    pairs[1] -= np.repeat(np.cumsum(counts) - counts - np.arange(1, d + 1), counts)
    return pairs


def band_counts(n_features: int, bandwidth: int) -> IntArray:
    """Return with how many of the next features each is paired in a band."""
    return np.minimum(bandwidth, np.arange(n_features - 1, -1, -1)).astype(np.int64)


def _fits(counts: IntArray) -> bool:
    """Return whether windows end with the last feature."""
    return bool(np.all((counts >= 0) & (counts <= np.arange(len(counts) - 1, -1, -1))))


def describe_pairs(selected: IntArray | None, n_features: int) -> Any:
    """Return pairs as the document has them: listed, or where they are many as windows."""
    if selected is None or selected.size <= LONGEST:
        return selected
    counts = np.bincount(selected[0], minlength=n_features)
    whole = len(counts) == n_features and _fits(counts)
    if not whole or not np.array_equal(selected, of_windows(counts)):
        return selected
    widest = int(counts.max())
    band = np.array_equal(counts, band_counts(n_features, widest))
    return {BANDWIDTH: widest} if band else {WINDOWS: counts.astype(np.int64)}


def _read_windows(form: dict[str, Any], n_features: int, most: int) -> IntArray:
    """Return the pairs of a bandwidth or of windows, at most so many."""
    width = form.get(BANDWIDTH)
    counts: Any = form.get(WINDOWS)
    if type(width) is int and 0 < width < n_features:
        counts = band_counts(n_features, width)
    elif isinstance(counts, list) and all(type(each) is int for each in counts):
        counts = np.array(counts, dtype=np.int64)
    whole = isinstance(counts, np.ndarray) and counts.dtype == np.int64 and len(form) == 1
    if not whole or counts.shape != (n_features,) or not _fits(counts) or counts.sum() > most:
        wrong("selected", "a bandwidth or windows of the features in integers.npy")
    return of_windows(counts)


def read_selected(pairs: object, d: int, most: int) -> IntArray | None:
    """Return rows and columns of the selected pairs, at most so many; None for all."""
    if pairs is None:
        return None
    if isinstance(pairs, dict):
        return _read_windows(pairs, d, most)
    if isinstance(pairs, list) and len(pairs) == 2 and all(type(p) is list for p in pairs):
        if len(pairs[0]) != len(pairs[1]):
            wrong("selected", "two lists of one length")
        if not all(type(i) is int and 0 <= i < d for i in (*pairs[0], *pairs[1])):
            wrong("selected", "made of features, counted from 0")
        pairs = np.array(pairs, dtype=np.int64).reshape(2, -1)
    if not isinstance(pairs, np.ndarray) or pairs.dtype != np.int64 or pairs.shape[:-1] != (2,):
        wrong("selected", "null or two lists, rows and columns")
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < d:
        wrong("selected", "made of features, counted from 0")
    flat = np.sort(pairs.min(axis=0) * d + pairs.max(axis=0))
    if np.any(flat[1:] == flat[:-1]) or np.any(pairs[0] == pairs[1]):
        wrong("selected", "pairs of two features, each pair once")
    return pairs


# ---- the matrix ----


def stored_integers(release: Release) -> IntArray:
    """Return the integers as they are stored: a matrix, or selected pairs and then the diagonal."""
    if not is_sparse(release.integers):
        return np.asarray(release.integers)
    assert release.selected is not None
    rows, columns = release.selected
    *above, pairs = stored_above(release.integers)
    if not (np.array_equal(above[0], rows) and np.array_equal(above[1], columns)):
        pairs = values_at(release.integers, rows, columns)
    return np.concatenate([pairs, release.integers.diagonal()])


def is_stored(release: Release) -> bool:
    """Return whether reading `stored_integers` makes this matrix; it is not made twice."""
    matrix, selected, d = release.integers, release.selected, release.n_features
    if matrix.ndim != 2 or matrix.shape != (d, d) or matrix.dtype != np.int64:
        return False
    if not is_sparse(matrix):
        return np.array_equal(matrix, matrix.T)
    if selected is None or matrix.format != "csr" or matrix.nnz != 2 * selected.shape[1] + d:
        return False
    by_columns = matrix.tocsc()  # of a symmetric matrix the same, sorted
    for name in ("indptr", "indices", "data"):
        if not np.array_equal(getattr(matrix, name), getattr(by_columns, name)):
            return False
    rows, columns, _ = stored_above(matrix)
    if np.array_equal(rows, selected[0]) and np.array_equal(columns, selected[1]):
        return True
    places = np.sort(selected.min(axis=0) * d + selected.max(axis=0))
    return np.array_equal(rows * d + columns, places)


def read_matrix(integers: IntArray, selected: IntArray | None, d: int) -> Matrix:
    """Return the matrix that was stored, in the kind that it had."""
    if integers.dtype != np.int64:
        raise DamagedReleaseError("integers.npy must hold 64-bit integers")
    if integers.ndim == 1:
        n_pairs = len(integers) - d
        if selected is None or selected.shape[1] != n_pairs:
            wrong("selected", "one pair for each value in integers.npy that is not a variance")
        return symmetric_sparse((selected[0], selected[1]), integers[:n_pairs], integers[n_pairs:])
    if integers.shape != (d, d):
        wrong("n_features", "the number of rows and of columns of integers.npy")
    if not np.array_equal(integers, integers.T):
        raise DamagedReleaseError("integers.npy must hold a symmetric matrix")
    return integers


# ---- what every field must be ----

#: Reads a field of this name, with the number of features, or refuses the document.
Reader = Callable[[str, Any, int], Any]


def _rule(
    words: str, fits: Callable[[Any, int], bool], make: Callable[[Any], Any] | None = None
) -> Reader:
    """Make a reader of what `fits`, given the number of features; `words` say what that is."""

    def read(name: str, value: Any, d: int) -> Any:
        if not fits(value, d):
            wrong(name, words)
        return value if make is None else make(value)

    return read


def _or_null(reader: Reader) -> Reader:
    return lambda name, value, d: None if value is None else reader(name, value, d)


def _object(readers: Mapping[str, Reader], make: Callable[..., Any] = dict) -> Reader:
    """Make a reader of an object that has exactly these fields."""

    def read(name: str, value: Any, d: int) -> Any:
        if not isinstance(value, dict):
            wrong(name, "an object with named fields")
        check_names(f"{name} of release.json", value, readers)
        found = {key: read(f"{name}.{key}", value[key], d) for key, read in readers.items()}
        return make(**found)

    return read


def check_names(what: str, fields: Mapping[str, Any], expected: Collection[str]) -> None:
    """Refuse an object that has other fields than those expected."""
    missing = [name for name in expected if name not in fields]
    if missing:
        raise DamagedReleaseError(f"{what} lacks {', '.join(missing)}")
    if len(fields) > len(expected):
        raise DamagedReleaseError(f"{what} has fields other than {', '.join(expected)}")


def _numbers(length: int | None = None, *, signed: bool = False) -> Reader:
    """Make a reader of finite numbers: so many, or one for each feature."""

    def read(name: str, values: Any, d: int) -> FloatArray:
        size = d if length is None else length
        if isinstance(values, list):
            if not all(type(value) in (int, float) for value in values):
                wrong(name, "made of numbers")
            try:
                values = np.array(values, dtype=np.float64)
            except OverflowError:
                values = np.full(size, np.inf)
        known = isinstance(values, np.ndarray) and values.dtype == np.float64
        if not known or values.shape != (size,):
            wrong(name, f"a list of {size}")
        if not (np.isfinite(values).all() and (signed or (values >= 0).all())):
            wrong(name, "finite" if signed else "finite and not negative")
        return np.array(values)

    return read


def _number(name: str, value: Any, d: int) -> float:
    return float(_numbers(1)(name, [value], d)[0])


def _share(name: str, value: Any, d: int) -> float:
    found = _number(name, value, d)
    return found if found <= 1 else wrong(name, "from 0 to 1")


def _whole(words: str, least: int = 0) -> Reader:
    return _rule(words, lambda value, d: type(value) is int and least <= value <= _MOST_RECORDS)


def _is_name(value: Any, _: int) -> bool:
    return isinstance(value, str) and value != ""


def _is_time(value: Any, _: int) -> bool:
    """Return whether this is a time in the one way in which times are written."""
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return time.utcoffset() == timedelta(0) and time.isoformat() == value


def _is_bound(pair: object) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    ends = [end for end in pair if end is not None]
    plain = all(type(end) in (int, float) and abs(end) <= _LARGEST_DOUBLE for end in ends)
    return plain and ends == sorted(ends)


def _bounds(name: str, listed: Any, d: int) -> tuple[tuple[float | None, float | None], ...]:
    if isinstance(listed, np.ndarray) and listed.ndim == 2:  # NaN for null
        listed = [[None if end != end else end for end in pair] for pair in listed.tolist()]  # noqa: PLR0124
    if not isinstance(listed, list) or len(listed) != d or not all(map(_is_bound, listed)):
        wrong(name, "null, or low and high of every feature, each a number or null")
    return tuple((low, high) for low, high in listed)


def _for_each(read: Reader, what: str) -> Reader:
    """Make a reader of a list with one of these or null for every feature, not all null."""

    def found(name: str, listed: Any, d: int) -> tuple[Any, ...]:
        if not isinstance(listed, list) or len(listed) != d or not any(listed):
            wrong(name, f"null, or {what} or null for every feature")
        return tuple(None if each is None else read(name, each, d) for each in listed)

    return found


def _transform(name: str, value: Any, d: int) -> Any:
    from hushcov.kernel.transforms import NAMES, RANK, Transform

    def numbers(name: str, value: Any, d: int) -> tuple[float, ...]:
        length = len(value) if isinstance(value, list) else 0
        return tuple(_numbers(length, signed=True)(name, value, d).tolist())

    fields: dict[str, Reader] = dict.fromkeys(("edges", "shares"), numbers)
    fields |= {"number": _or_null(lambda name, value, d: numbers(name, [value], d)[0])}
    found = _object({"name": _one_of(*NAMES), **fields}, Transform)(name, value, d)
    whole = found.name != RANK or len(found.shares) == len(found.edges) + 1
    whole &= min(found.shares, default=0.0) >= 0 and sum(found.shares) <= 1 + 1e-3
    if not whole or list(found.edges) != sorted(found.edges):
        wrong(name, "of edges in their order, and for ranks of one more share")
    return found


def _tails(fourth: FloatArray, stretch: FloatArray | None, **others: float) -> Tails:
    listed = None if stretch is None else tuple(stretch.tolist())
    return Tails(tuple(fourth.tolist()), stretch=listed, **others)


def _unresolved(name: str, listed: Any, d: int) -> tuple[int, ...]:
    listed = listed.tolist() if isinstance(listed, np.ndarray) else listed
    if not isinstance(listed, list) or not all(type(i) is int and 0 <= i < d for i in listed):
        wrong(name, "a list of features, counted from 0")
    if listed != sorted(set(listed)):
        wrong(name, "features in their order, each once")
    return tuple(listed)


def _positions(name: str, listed: Any, d: int) -> IntArray:
    if isinstance(listed, list) and all(type(each) is int for each in listed):
        with contextlib.suppress(OverflowError):
            listed = np.array(listed, dtype=np.int64)
    if not isinstance(listed, np.ndarray) or listed.dtype != np.int64 or listed.shape != (d,):
        wrong(name, "null or a whole number for each feature")
    return listed


def _parts(name: str, listed: Any, d: int) -> list[dict[str, Any]]:
    if not isinstance(listed, list):
        wrong(name, "a list of objects")
    return [_PART(name, each, d) for each in listed]


def _any(name: str, value: Any, d: int) -> Any:
    return value


def _texts(value: Any, _: int = 0) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _one_of(*words: str) -> Reader:
    return _rule(f"one of {', '.join(words)}", lambda value, d: _texts([value]) and value in words)


_NAME = _rule("a name", _is_name)
_TIME = _rule("a time in UTC, like 2026-01-31T12:00:00+00:00", _is_time)
_ONE_EACH = _or_null(
    _rule("texts, as many as features", lambda value, d: _texts(value) and len(value) == d, tuple)
)
_EVENTS = _rule("names with numbers of events", lambda value, d: type(value) is int and value > 0)
_PART = _object({"name": _rule("names with numbers of events", _is_name), "events": _EVENTS})
_KIND = _object({"name": _one_of(*COLUMN_KINDS), "values": _rule("texts", _texts, tuple)}, Kind)
_FILE = _object(
    {
        "bytes": _rule("sizes in bytes", lambda value, d: type(value) is int and value >= 0),
        "sha256": _rule(
            "SHA-256 checksums", lambda value, d: isinstance(value, str) and len(value) == 64
        ),
    }
)


def _square(kind: type) -> Reader:
    """Make a reader of a square matrix of finite doubles, or of integers of 64 bits."""

    def read(name: str, value: Any, d: int) -> Any:
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            found: Any = np.array(value, dtype=kind)
            same = isinstance(value, np.ndarray) or found.tolist() == value
            square = found.ndim == 2 and found.shape[0] == found.shape[1]
            if same and square and np.isfinite(found).all():
                return found
        wrong(name, "a square matrix of numbers")

    return read


def _integers(name: str, value: Any, d: int) -> IntArray:
    """Read a list of integers of 64 bits."""
    found: Any = np.array(value) if isinstance(value, list) else value
    if not isinstance(found, np.ndarray) or found.dtype != np.int64 or found.ndim != 1:
        wrong(name, "a list of whole numbers")
    return found


def _step(**found: Any) -> Any:
    from hushcov.release.looks import TargetStep

    places, size = np.array(found.pop("features"), dtype=np.int64), len(found["basis"])
    whole = size - len(places) in (0, 1) and len(found["sums"]) == size - 1
    if not whole or found["target"] not in places or not 0 < found["slope"] <= 1:
        wrong("making.step", "a list of sums of the features in a basis of them")
    own = int(np.searchsorted(places, found["target"]))
    if found["basis"][own, -1] == 0:
        wrong("making.step", "of a residual that has the target")
    return TargetStep(features=places, **found)


def _look(**found: Any) -> Any:
    from hushcov.release.looks import FurtherLook

    places, size = np.array(found.pop("features"), dtype=np.int64), len(found["basis"])
    whole = found["products"].shape == found["basis"].shape and size - len(places) in (0, 1)
    products = found["products"]
    whole = whole and len(places) > 0 and np.array_equal(products, products.T)
    if not whole or np.linalg.matrix_rank(found["basis"]) < size or not 0 < found["kept"] <= 1:
        wrong("making.look", "a symmetric matrix of the features in a basis of them")
    off, on = found.pop("noise_sd").tolist()
    return FurtherLook(places, noise_sd=(off, on), **found)


_COMPLETE = _whole("one of three whole numbers")
_MAKING: dict[str, Reader] = {
    "n_records": _or_null(_whole("null or a number of records", least=1)),
    "complete": _or_null(_object({"released": _COMPLETE, "of": _COMPLETE, "noise_sd": _COMPLETE})),
    "counted": _or_null(
        _object(
            dict.fromkeys(COUNTED, _any)
            | {"released": _whole("a number of records"), "noise_sd": _number}
        )
    ),
    "scales": _or_null(_one_of("given", "released")),
    "threshold": _number,
    "projected": _rule("true or false", lambda value, d: type(value) is bool),
    "indicators": _unresolved,
    "means_sd": _or_null(lambda name, value, d: tuple(_numbers()(name, value, d).tolist())),
    "unresolved": _unresolved,
    "shrunk": _or_null(_share),
    "tails": _or_null(
        _object(
            {"fourth": _numbers(signed=True), "noise_sd": _number, "lost": _number}
            | {"lost_sd": _number, "stretch": _or_null(_numbers())},
            _tails,
        )
    ),
    "structure": _or_null(
        _object(
            {
                "kind": _one_of(*KINDS),
                "rank": _rule(
                    "a number of factors", lambda value, d: type(value) is int and 0 <= value <= d
                ),
                "why": _rule("text", lambda value, d: isinstance(value, str)),
                **dict.fromkeys(("error", "least", "most"), _number),
                "kept": _share,
                "noise": _number,
            },
            Structure,
        )
    ),
    "look": _or_null(
        _object(
            {
                "features": _unresolved,
                "basis": _square(np.float64),
                "products": _square(np.int64),
                "noise_sd": _numbers(2),
                **dict.fromkeys(("unit", "spread"), _number),
                **dict.fromkeys(("kept", "pull"), _share),
            },
            _look,
        )
    ),
    "step": _or_null(
        _object(
            {
                "target": _whole("a feature"),
                "features": _unresolved,
                "basis": _square(np.float64),
                "sums": _integers,
                **dict.fromkeys(("unit", "noise_sd", "spread", "bias"), _number),
                "slope": _share,
            },
            _step,
        )
    ),
    "bounds": _or_null(_bounds),
    **dict.fromkeys(("transforms", "marginals"), _or_null(_for_each(_transform, "a transform"))),
    "kinds": _or_null(_for_each(_KIND, "a kind")),
    "parts": _parts,
    "made": _or_null(_TIME),
    "dataset": _or_null(_NAME),
}
_FIELDS: dict[str, Reader] = {
    "format": _any,
    **dict.fromkeys(("hushcov", "numpy", "python"), _NAME),
    "private": _any,
    "mechanism": _NAME,
    "unit": _number,
    **dict.fromkeys(("n_features", "guarantee"), _any),
    "parameters": _rule("an object with named fields", lambda value, d: isinstance(value, dict)),
    "feature_scale": _or_null(_numbers()),
    "location": _or_null(_numbers(signed=True)),
    "noise_sd": _or_null(_numbers(2)),
    "selected": _any,
    "warnings": _rule("a list of text", _texts, tuple),
    "column_names": _ONE_EACH,
    "positions": _or_null(_positions),
    "chromosomes": _ONE_EACH,
    "making": _object(_MAKING),
    "files": _any,
}


# ---- the document ----


def describe(release: Release) -> dict[str, Any]:
    """Return everything but the integers as data; the writer adds when, by what, files."""
    making = {name: plain(getattr(release.making, name)) for name in _MAKING}
    # Events of the parts are those of the guarantee, in their order: only counted here.
    making["parts"] = [{"name": x.name, "events": len(x.events)} for x in release.making.parts]
    given = {
        "private": release.guarantee.private,
        "n_features": release.n_features,
        "guarantee": release.guarantee.to_dict(),
        "selected": describe_pairs(release.selected, release.n_features),
        "making": making,
    }
    names = [name for name in _FIELDS if name in given or hasattr(release, name)]
    return {name: given[name] if name in given else plain(getattr(release, name)) for name in names}


def parse(content: bytes | bytearray, name: str = "release.json") -> dict[str, Any]:
    """Read JSON strictly: no key twice, no number that is not finite as a double.

    `name` is what a document of an earlier format is called where it is refused.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key appears twice")
        return found

    def finite(text: str) -> float:
        if not math.isfinite(found := float(text)):
            raise ValueError("not a finite number")
        return found

    try:
        found = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=unique,
            parse_constant=finite,
            parse_float=finite,
        )
    except (ValueError, RecursionError):
        raise DamagedReleaseError("release.json is not strict JSON in UTF-8") from None
    if not isinstance(found, dict):
        raise DamagedReleaseError("release.json must be an object with named fields")
    version = found.get("format")
    if type(version) is int and 0 < version < FORMAT:
        raise ReleaseError(
            f"{name} must have format {FORMAT}, got {version}, of a hushcov that was never "
            "published: read it with the version that wrote it."
        )
    if type(version) is not int or version != FORMAT:
        raise DamagedReleaseError(
            f"release.json must have format {FORMAT}, which this hushcov reads"
        )
    check_names("release.json", found, _FIELDS)
    return found


def rebuild(description: Mapping[str, Any], integers: IntArray) -> Release:
    """Return the release that was described, or say which field cannot be right."""
    d = description["n_features"]
    if type(d) is not int or not 0 < d <= len(integers):
        wrong("n_features", "the number of features of integers.npy")
    selected = read_selected(description["selected"], d, integers.size)
    return document(description, read_matrix(integers, selected, d), selected)


def same_document(description: Mapping[str, Any], release: Release) -> bool:
    """Return whether this describes a release whose matrix is stored as it is."""
    if description["n_features"] != release.n_features:
        return False
    selected = read_selected(description["selected"], release.n_features, release.integers.size)
    return document(description, release.integers, selected) == release


def document(description: Mapping[str, Any], matrix: Matrix, selected: IntArray | None) -> Release:
    """Return the release of a matrix whose pairs were read; all other fields are checked."""
    d = matrix.shape[0]
    found = {name: _FIELDS[name](name, value, d) for name, value in description.items()}
    try:
        guarantee = Guarantee.from_dict(description["guarantee"])
    except HushcovError as error:
        raise DamagedReleaseError(f"release.json has no valid guarantee: {error}") from None
    if description["private"] is not guarantee.private:
        wrong("private", "what the guarantee says")
    parts, start = [], 0
    for name, number in (each.values() for each in found["making"]["parts"]):
        parts.append(Part(name, guarantee.events[start : start + number]))
        start += number
    if parts and start != len(guarantee.events):
        wrong("parts", "all events of the guarantee")
    noise_sd = found["noise_sd"]
    known = {
        "integers": matrix,
        "noise_sd": None if noise_sd is None else tuple(noise_sd.tolist()),
        "selected": selected,
        "guarantee": guarantee,
        "making": Making(**found["making"] | {"parts": tuple(parts)}),
    }
    names = Release.__dataclass_fields__
    release = Release(**{name: found[name] for name in names if name in found} | known)
    _check_possible(release)
    return release


def _check_possible(release: Release) -> None:
    """Check that the release can have come about as it says."""
    making, guarantee = release.making, release.guarantee
    if release.unit == 0:
        wrong("unit", "above 0")
    if not is_sparse(release.integers) and release.integers[~release.released].any():
        wrong("selected", "all pairs that have a value in integers.npy")
    if making.scales is not None and release.feature_scale is None:
        wrong("scales", "null where there are no scales")
    if making.structure is not None and release.noise_sd is None:
        wrong("structure", "null where there is no level of noise")
    if making.projected and is_sparse(release.integers):
        wrong("projected", "false for a sparse matrix")
    if making.projected or making.threshold > 0:
        largest = max(abs(int(release.integers.max())), abs(int(release.integers.min())))
        if release.unit * largest > _LARGEST_PROCESSED:
            wrong("unit", "such that no entry is beyond 1e300")
    n, count = making.n_records, making.complete
    if count is not None and not count["released"] <= count["of"] == n:
        wrong("complete", "at most as many as were averaged")
    if making.counted is not None:
        promised = (guarantee.unit, guarantee.rows_per_unit, guarantee.adjacency)
        unit, most, relation = (making.counted[name] for name in COUNTED[2:])
        if type(most) is not int or (unit, most, RELATIONS.get(str(relation))) != promised:
            wrong("counted", "of those whom the guarantee protects")
    if making.counted is not None and n not in (None, making.counted["released"]):
        wrong("n_records", "the released number, where how many there are is not public")
    # Too few records are not counted: that they are complete has no part then.
    before = (making.scales == "released") + (count is not None and count["noise_sd"] > 0)
    if 0 < len(making.parts) < before:
        wrong("parts", "a list that has the scales and the number of complete records")


def check_files(files: object, required: str) -> None:
    """Check names, sizes and checksums for their form; a name may not leave the folder."""
    if not isinstance(files, dict) or required not in files:
        wrong("files", f"a list of files with {required}")
    for name, about in files.items():
        if not 0 < len(name) <= 255 or name in (".", "..") or set(name) & set("/\\\0"):
            wrong("files", "names of files in the same folder")
        _FILE("files", about, 0)
