"""What `release.json` says of a release, and the checks under which it is believed again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, NoReturn

import numpy as np

from hushcov._arrays import IntArray
from hushcov.accounting import RELATIONS, Guarantee
from hushcov.exceptions import DamagedReleaseError, HushcovError, ReleaseError
from hushcov.postprocess import Matrix, is_sparse, stored_above, symmetric_sparse, values_at
from hushcov.release.document import COUNTED, KINDS, Making, Part, Release, Structure, Tails

#: The longest list that `release.json` holds by itself.
LONGEST = 10_000
BANDWIDTH, WINDOWS = "bandwidth", "windows"


def windows_of(selected: IntArray, n_features: int) -> IntArray | None:
    """With how many of the next features each is paired, where that is all: windows, in order."""
    counts = np.bincount(selected[0], minlength=n_features)
    if len(counts) > n_features or not counts.any():
        return None
    same = np.array_equal(selected, of_windows(counts)) if _fits(counts) else False
    return counts.astype(np.int64) if same else None


def _fits(counts: IntArray) -> bool:
    """Whether windows end with the last feature."""
    room = np.arange(len(counts) - 1, -1, -1)
    return bool(np.all((counts >= 0) & (counts <= room)))


def of_windows(counts: IntArray) -> IntArray:
    """Rows and columns of the pairs of windows, row by row."""
    d, total = len(counts), int(counts.sum())
    pairs = np.empty((2, total), dtype=np.int64)
    pairs[0] = np.repeat(np.arange(d), counts)
    pairs[1] = np.arange(total)
    pairs[1] -= np.repeat(np.cumsum(counts) - counts - np.arange(1, d + 1), counts)
    return pairs


def band_counts(n_features: int, bandwidth: int) -> IntArray:
    """With how many of the next features each is paired in a band."""
    return np.minimum(bandwidth, np.arange(n_features - 1, -1, -1)).astype(np.int64)


def describe_pairs(selected: IntArray | None, n_features: int) -> Any:
    """Pairs as the document has them: listed, or as a bandwidth or windows where they are many."""
    if selected is None or selected.size <= LONGEST:
        return selected
    windows = windows_of(selected, n_features)
    if windows is None:
        return selected
    widest = int(windows.max())
    band = np.array_equal(windows, band_counts(n_features, widest))
    return {BANDWIDTH: widest} if band else {WINDOWS: windows}


def read_pairs(form: Any, n_features: int, most: int) -> IntArray | None:
    """The pairs of a bandwidth or of windows; None where this is neither, or more than `most`."""
    if not isinstance(form, dict) or len(form) != 1:
        return None
    width, counts = form.get(BANDWIDTH), form.get(WINDOWS)
    if type(width) is int and 0 < width < n_features:
        counts = band_counts(n_features, width)
    elif isinstance(counts, list) and all(type(each) is int for each in counts):
        counts = np.array(counts, dtype=np.int64)
    if not isinstance(counts, np.ndarray) or counts.dtype != np.int64:
        return None
    if counts.shape != (n_features,) or not _fits(counts) or not counts.sum() <= most:
        return None
    return of_windows(counts)


_LARGEST_PLACE = 2**31  # of a feature


def stored_integers(release: Release) -> IntArray:
    """The integers as they are stored: a matrix, or the selected pairs and then the diagonal."""
    if not is_sparse(release.integers):
        return np.asarray(release.integers)
    rows, columns = (
        np.empty((2, 0), dtype=np.int64) if release.selected is None else release.selected
    )
    above = stored_above(release.integers)
    if np.array_equal(above[0], rows) and np.array_equal(above[1], columns):
        pairs = above[2]
    else:
        pairs = values_at(release.integers, rows, columns)
    return np.concatenate([pairs, release.integers.diagonal()])


def is_stored(release: Release) -> bool:
    """Whether the matrix is what reading makes of `stored_integers`; it is not made twice."""
    matrix, selected = release.integers, release.selected
    if not is_sparse(matrix):
        return _is_whole(matrix)
    if selected is None or matrix.format != "csr" or matrix.dtype != np.int64:
        return False
    d = release.n_features
    if matrix.nnz != 2 * selected.shape[1] + d or matrix.shape != (d, d):
        return False
    by_columns = matrix.tocsc()  # of a symmetric matrix the same, sorted
    same = all(
        np.array_equal(getattr(matrix, name), getattr(by_columns, name))
        for name in ("indptr", "indices", "data")
    )
    return same and _are_stored(matrix, selected)


def _are_stored(matrix: Matrix, selected: IntArray) -> bool:
    """Whether these pairs, and no others, are what a sorted matrix stores above its diagonal."""
    rows, columns, _ = stored_above(matrix)
    if np.array_equal(rows, selected[0]) and np.array_equal(columns, selected[1]):
        return True
    d = matrix.shape[0]
    return np.array_equal(
        rows * d + columns, np.sort(selected.min(axis=0) * d + selected.max(axis=0))
    )


def _is_whole(matrix: Matrix) -> bool:
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.dtype == np.int64
    return bool(square and np.array_equal(matrix, matrix.T))


def read_matrix(integers: IntArray, selected: IntArray | None, d: int) -> Matrix:
    """The matrix that was stored, in the kind that it had."""
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


def read_selected(pairs: object, d: int, most: int) -> IntArray | None:
    """Rows and columns of the pairs that a document selects, at most so many; None for all."""
    if pairs is None:
        return None
    if isinstance(pairs, dict):
        found = read_pairs(pairs, d, most)
        if found is None:
            wrong("selected", "a bandwidth or windows of the features in integers.npy")
        return found
    if isinstance(pairs, list):
        pairs = _pairs_of_lists(pairs)
    if not isinstance(pairs, np.ndarray) or pairs.dtype != np.int64 or pairs.shape[:-1] != (2,):
        wrong("selected", "null or two lists, rows and columns")
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < d:
        wrong("selected", "made of features, counted from 0")
    flat = np.sort(pairs.min(axis=0) * d + pairs.max(axis=0))
    if np.any(flat[1:] == flat[:-1]) or np.any(pairs[0] == pairs[1]):
        wrong("selected", "pairs of two features, each pair once")
    return pairs


def _pairs_of_lists(pairs: list[Any]) -> IntArray:
    if len(pairs) != 2 or not all(type(p) is list for p in pairs):
        wrong("selected", "null or two lists, rows and columns")
    if len(pairs[0]) != len(pairs[1]):
        wrong("selected", "two lists of one length")
    if not all(type(i) is int and 0 <= i <= _LARGEST_PLACE for i in (*pairs[0], *pairs[1])):
        wrong("selected", "made of features, counted from 0")
    return np.array(pairs, dtype=np.int64).reshape(2, -1)


def wrong(field: str, constraint: str) -> NoReturn:
    """Refuse a document for one of its fields."""
    raise DamagedReleaseError(f"{field} of release.json must be {constraint}, and is not")


FORMAT = 7
_FIELDS = (
    *("format", "hushcov", "numpy", "python", "written", "private", "mechanism", "unit"),
    *("n_features", "guarantee", "parameters", "feature_scale", "location", "noise_sd"),
    *("selected", "warnings", "column_names", "positions", "chromosomes", "making", "files"),
)
_MAKING = (
    *("n_records", "complete", "counted", "scales", "threshold"),
    *("projected", "unresolved", "shrunk", "tails", "structure", "bounds", "parts", "made"),
    "dataset",
)
_TAILS = ("fourth", "noise_sd", "lost", "lost_sd")
_COMPLETE = ("released", "of", "noise_sd")
_STRUCTURE = ("kind", "rank", "why", "error", "least", "most", "kept")
_MOST_RECORDS = 10**100  # as many as any mechanism takes
_LARGEST_DOUBLE = float(np.finfo(np.float64).max)
_LARGEST_PROCESSED = 1e300  # entry of which sums and eigenvalues are doubles


def describe(release: Release) -> dict[str, Any]:
    """Return everything but the integers as data; the writer adds when, by what, files."""
    noise_sd, names, chromosomes = release.noise_sd, release.column_names, release.chromosomes
    return {
        "private": release.guarantee.private,
        "mechanism": release.mechanism,
        "unit": release.unit,
        "n_features": release.n_features,
        "guarantee": release.guarantee.to_dict(),
        "parameters": dict(release.parameters),
        "feature_scale": release.feature_scale,
        "location": release.location,
        "noise_sd": None if noise_sd is None else list(noise_sd),
        "selected": describe_pairs(release.selected, release.n_features),
        "warnings": list(release.warnings),
        "column_names": None if names is None else list(names),
        "positions": release.positions,
        "chromosomes": None if chromosomes is None else list(chromosomes),
        "making": _describe_making(release.making),
    }


def _describe_making(making: Making) -> dict[str, Any]:
    """Events of the parts are those of the guarantee, in their order: only counted here."""
    plain = {name: getattr(making, name) for name in _MAKING}
    for name in ("complete", "counted", "tails", "structure"):
        if plain[name] is not None:
            plain[name] = (
                dict(plain[name]) if isinstance(plain[name], Mapping) else asdict(plain[name])
            )
    if making.bounds is not None:
        plain["bounds"] = [list(pair) for pair in making.bounds]
    parts = [{"name": part.name, "events": len(part.events)} for part in making.parts]
    return plain | {"parts": parts, "unresolved": list(making.unresolved)}


def parse(content: bytes | bytearray, name: str = "release.json") -> dict[str, Any]:
    """Read JSON strictly: no key twice, no number that is not finite as a double.

    `name` is what a document of an earlier format is called where it is refused.
    """
    try:
        found = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
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
    _check_names("release.json", found, _FIELDS)
    return found


def rebuild(description: Mapping[str, Any], integers: IntArray) -> Release:
    """Return the release that was described, or say which field cannot be right."""
    d = description["n_features"]
    if type(d) is not int or not 0 < d <= len(integers):
        wrong("n_features", "the number of features of integers.npy")
    selected = read_selected(description["selected"], d, integers.size)
    return document(description, read_matrix(integers, selected, d), selected)


def document(description: Mapping[str, Any], matrix: Matrix, selected: IntArray | None) -> Release:
    """The release of a matrix whose pairs were read; all other fields are checked."""
    d, guarantee = matrix.shape[0], _guarantee(description)
    mechanism, parameters = description["mechanism"], description["parameters"]
    if not isinstance(mechanism, str) or not mechanism:
        wrong("mechanism", "a name")
    if not isinstance(parameters, dict) or not all(isinstance(key, str) for key in parameters):
        wrong("parameters", "an object with named fields")
    scale, location, noise_sd = (description[n] for n in ("feature_scale", "location", "noise_sd"))
    if scale is not None:
        scale = np.array(_numbers("feature_scale", scale, d), dtype=np.float64)
    if location is not None:
        location = np.array(_numbers("location", location, d, signed=True), dtype=np.float64)
    if noise_sd is not None:
        noise_sd = tuple(_numbers("noise_sd", noise_sd, 2))
    (unit,) = _numbers("unit", [description["unit"]], 1)
    if unit <= 0:
        wrong("unit", "above 0")
    release = Release(
        mechanism=mechanism,
        integers=matrix,
        unit=unit,
        guarantee=guarantee,
        parameters=parameters,
        feature_scale=scale,
        location=location,
        noise_sd=noise_sd,
        selected=selected,
        warnings=_texts("warnings", description["warnings"]),
        column_names=_one_each("column_names", description["column_names"], d),
        making=_making(description["making"], guarantee, d),
        positions=_positions(description["positions"], d),
        chromosomes=_one_each("chromosomes", description["chromosomes"], d),
    )
    _check_possible(release)
    return release


def same_document(description: Mapping[str, Any], release: Release) -> bool:
    """Whether this describes a release whose matrix is stored as it is."""
    if description["n_features"] != release.n_features:
        return False
    selected = read_selected(description["selected"], release.n_features, release.integers.size)
    return document(description, release.integers, selected) == release


def _one_each(name: str, listed: object, d: int) -> tuple[str, ...] | None:
    if listed is None:
        return None
    found = _texts(name, listed)
    if len(found) != d:
        wrong(name, "as many as features")
    return found


def _positions(listed: object, d: int) -> IntArray | None:
    if listed is None:
        return None
    if isinstance(listed, list) and all(type(each) is int for each in listed):
        try:
            listed = np.array(listed, dtype=np.int64)
        except OverflowError:
            listed = None
    if not isinstance(listed, np.ndarray) or listed.dtype != np.int64 or listed.shape != (d,):
        wrong("positions", "null or a whole number for each feature")
    return listed


def _guarantee(description: Mapping[str, Any]) -> Guarantee:
    try:
        guarantee = Guarantee.from_dict(description["guarantee"])
    except HushcovError as error:
        raise DamagedReleaseError(f"release.json has no valid guarantee: {error}") from None
    if description["private"] is not guarantee.private:
        wrong("private", "what the guarantee says")
    return guarantee


def _check_possible(release: Release) -> None:
    """Check that the release can have come about as it says."""
    making = release.making
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
    if making.counted is not None and n not in (None, making.counted["released"]):
        wrong("n_records", "the released number, where how many there are is not public")
    before = (making.scales == "released") + (count is not None)
    if 0 < len(making.parts) < before:
        wrong("parts", "a list that has the scales and the number of complete records")


def check_written(description: Mapping[str, Any]) -> None:
    """Check when and by what the release was written."""
    for name in ("hushcov", "numpy", "python"):
        if not isinstance(description[name], str) or not description[name]:
            wrong(name, "a version")
    _check_time("written", description["written"])


def _check_time(name: str, value: object) -> None:
    """Check for the one way in which times are written."""
    try:
        time = datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        time = None
    if time is None or time.utcoffset() != timedelta(0) or time.isoformat() != value:
        wrong(name, "a time in UTC, like 2026-01-31T12:00:00+00:00")


def check_files(files: object, required: str) -> None:
    """Check names, sizes and checksums for their form; a name may not leave the folder."""
    if not isinstance(files, dict) or required not in files:
        wrong("files", f"a list of files with {required}")
    for name, about in files.items():
        if not plain_name(name):
            wrong("files", "names of files in the same folder")
        if not isinstance(about, dict):
            wrong("files", "the size and the checksum of each file")
        _check_names("files", about, ("bytes", "sha256"))
        size, digest = about["bytes"], about["sha256"]
        if type(size) is not int or size < 0:
            wrong("files", "sizes in bytes")
        if not isinstance(digest, str) or len(digest) != 64:
            wrong("files", "SHA-256 checksums")


def plain_name(name: str) -> bool:
    """Whether `name` is the name of a file, and not a path or a folder."""
    return 0 < len(name) <= 255 and name not in (".", "..") and not set(name) & set("/\\\0")


def _texts(name: str, listed: object) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        wrong(name, "a list of text")
    return tuple(listed)


def _making(fields: object, guarantee: Guarantee, d: int) -> Making:
    if not isinstance(fields, dict):
        wrong("making", "an object with named fields")
    _check_names("making of release.json", fields, _MAKING)
    n, name = fields["n_records"], fields["dataset"]
    if n is not None and not (type(n) is int and 0 < n <= _MOST_RECORDS):
        wrong("n_records", "null or a number of records")
    if type(fields["projected"]) is not bool:
        wrong("projected", "true or false")
    if fields["scales"] not in (None, "given", "released"):
        wrong("scales", 'null, "given" or "released"')
    if fields["made"] is not None:
        _check_time("made", fields["made"])
    if name is not None and not (isinstance(name, str) and name):
        wrong("dataset", "null or a name")
    (threshold,) = _numbers("threshold", [fields["threshold"]], 1)
    if fields["shrunk"] is not None and _numbers("shrunk", [fields["shrunk"]], 1)[0] > 1:
        wrong("shrunk", "null or a share from 0 to 1")
    known = {
        "parts": _parts(fields["parts"], guarantee),
        "complete": _complete(fields["complete"]),
        "counted": _counted(fields["counted"], guarantee),
        "structure": _structure(fields["structure"], d),
        "unresolved": _unresolved(fields["unresolved"], d),
        "bounds": _bounds(fields["bounds"], d),
        "tails": _tails(fields["tails"], d),
        "threshold": threshold,
    }
    return Making(**fields | known)


def _optional(name: str, found: object, expected: tuple[str, ...]) -> dict[str, Any] | None:
    """Return an object with these fields, or None for null."""
    if found is None:
        return None
    if not isinstance(found, dict):
        wrong(name, "null or an object with named fields")
    _check_names(f"{name} of release.json", found, expected)
    return found


def _structure(given: object, d: int) -> Structure | None:
    found = _optional("structure", given, _STRUCTURE)
    if found is None:
        return None
    if found["kind"] not in KINDS or not isinstance(found["why"], str):
        wrong("structure", f"of a kind among {', '.join(KINDS)}, with a reason")
    if type(found["rank"]) is not int or not 0 <= found["rank"] <= d:
        wrong("structure", "a number of factors")
    numbers = _numbers("structure", [found[name] for name in _STRUCTURE[3:]], 4)
    if numbers[3] > 1:
        wrong("structure", "multiplied by at most 1")
    return Structure(found["kind"], found["rank"], found["why"], *numbers)


def _unresolved(listed: object, d: int) -> tuple[int, ...]:
    if isinstance(listed, np.ndarray):
        listed = listed.tolist()
    if not isinstance(listed, list) or not all(type(i) is int and 0 <= i < d for i in listed):
        wrong("unresolved", "a list of features, counted from 0")
    if listed != sorted(set(listed)):
        wrong("unresolved", "features in their order, each once")
    return tuple(listed)


def _bounds(listed: object, d: int) -> tuple[tuple[float | None, float | None], ...] | None:
    if listed is None:
        return None
    if isinstance(listed, np.ndarray) and listed.ndim == 2:  # NaN for null
        listed = [[None if end != end else end for end in pair] for pair in listed.tolist()]  # noqa: PLR0124
    if not isinstance(listed, list) or len(listed) != d or not all(map(_is_bound, listed)):
        wrong("bounds", "null, or low and high of every feature, each a number or null")
    return tuple((low, high) for low, high in listed)


def _is_bound(pair: object) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    ends = [end for end in pair if end is not None]
    plain = all(type(end) in (int, float) and abs(end) <= _LARGEST_DOUBLE for end in ends)
    return plain and ends == sorted(ends)


def _tails(given: object, d: int) -> Tails | None:
    found = _optional("tails", given, _TAILS)
    if found is None:
        return None
    fourth = _numbers("fourth", found["fourth"], d, signed=True)
    return Tails(tuple(fourth), *_numbers("tails", [found[name] for name in _TAILS[1:]], 3))


def _complete(given: object) -> dict[str, int] | None:
    found = _optional("complete", given, _COMPLETE)
    numbers = () if found is None else found.values()
    if not all(type(each) is int and 0 <= each <= _MOST_RECORDS for each in numbers):
        wrong("complete", "null or three whole numbers")
    return found


def _counted(given: object, guarantee: Guarantee) -> dict[str, Any] | None:
    count = _optional("counted", given, COUNTED)
    if count is None:
        return None
    if type(count["released"]) is not int or not 0 <= count["released"] <= _MOST_RECORDS:
        wrong("counted", "a number of records")
    (noise_sd,) = _numbers("counted", [count["noise_sd"]], 1)
    promised = (guarantee.unit, guarantee.rows_per_unit, guarantee.adjacency)
    unit, most, relation = (count[name] for name in COUNTED[2:])
    if type(most) is not int or (unit, most, RELATIONS.get(str(relation))) != promised:
        wrong("counted", "of those whom the guarantee protects")
    return count | {"noise_sd": noise_sd}


def _parts(listed: object, guarantee: Guarantee) -> tuple[Part, ...]:
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        wrong("parts", "a list of objects")
    parts, start = [], 0
    for each in listed:
        _check_names("parts of release.json", each, ("name", "events"))
        name, number = each["name"], each["events"]
        if not isinstance(name, str) or not name or type(number) is not int or number < 1:
            wrong("parts", "names with numbers of events")
        parts.append(Part(name, guarantee.events[start : start + number]))
        start += number
    if parts and start != len(guarantee.events):
        wrong("parts", "all events of the guarantee")
    return tuple(parts)


def _numbers(name: str, values: object, length: int, *, signed: bool = False) -> list[float]:
    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        if values.shape != (length,):
            wrong(name, f"a list of {length}")
        if not (np.isfinite(values).all() and (signed or values.min() >= 0)):
            wrong(name, "finite" if signed else "finite and not negative")
        return list(values.tolist())
    if not isinstance(values, list) or len(values) != length:
        wrong(name, f"a list of {length}")
    if not all(isinstance(value, int | float) and type(value) is not bool for value in values):
        wrong(name, "made of numbers")
    try:
        numbers = [float(value) for value in values]
    except OverflowError:
        numbers = [math.inf]
    if not all(math.isfinite(value) and (signed or value >= 0) for value in numbers):
        wrong(name, "finite" if signed else "finite and not negative")
    return numbers


def _check_names(what: str, fields: Mapping[str, Any], expected: tuple[str, ...]) -> None:
    missing = [name for name in expected if name not in fields]
    if missing:
        raise DamagedReleaseError(f"{what} lacks {', '.join(missing)}")
    if len(fields) > len(expected):
        known = ", ".join(expected)
        raise DamagedReleaseError(f"{what} has fields other than {known}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found


def _finite(text: str) -> float:
    if not math.isfinite(found := float(text)):
        raise ValueError("not a finite number")
    return found


def _no_constant(_: str) -> NoReturn:
    raise ValueError("not a finite number")
