"""Replace one record by an odd one, on every way in: one record's sums move, or nothing is told.

Two datasets that differ in one record must have the same number of records, and exact sums that
differ by what that record adds, as a plain computation in NumPy says. Or the odd record is refused,
by an error of hushcov's that holds no value, in itself or in what led to it, and that is the same
for other values in another place.
"""

import math
import random
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from hushcov.exceptions import HushcovError
from hushcov.kernel.grids import FeatureGrid
from hushcov.tables import text as text_files
from hushcov_lab.audit.odd_records import Table, quoted, replaced, table

from .cases import Finding, bounded, judged, messages
from .ways_in import WAYS, How, Sums, Way, quietly

#: Everything that is tried: a way in, and a kind of odd record that it can hold.
PAIRS = [(name, kind) for name, way in WAYS.items() for kind in way.kinds]


def run_case(way: Way, kind: str, seed: object, folder: Path) -> str:
    """Run one case in an empty folder, and return what became of the odd record."""
    rng = random.Random(f"{kind} {seed}")
    how = How(
        drop_nulls=way.gaps and rng.random() < 0.5,
        block_rows=rng.randrange(1, 12),
        block_bytes=rng.choice((64, 100, 1_000, 2**20)),
        choices=rng.randrange(2**32),
    )
    n_rows, n_columns = rng.randrange(4, 24), way.n_columns or rng.randrange(1, 4)
    position = rng.randrange(n_rows)

    def neighbours(place: int) -> tuple[Table, Table]:
        before = table(rng, n_rows, n_columns, how=how.choices, gaps=how.drop_nulls)
        return before, replaced(before, place, kind, how.choices, rng, in_text=way.in_text)

    with bounded(), quietly():
        before, after = neighbours(position)
        expected = _read(way, before, how, folder)
        if isinstance(expected, str):
            raise Finding(f"usual records are refused: {expected}")
        _check(expected, before.values)
        found = _read(way, after, how, folder)
        if isinstance(found, Sums):
            _check_neighbours(expected, found)
            return _accepted(found, after, position, how)
        if way.same_words:
            # In the same half, which may be a file of its own, and names of files may be told.
            half = range(n_rows // 2) if position < n_rows // 2 else range(n_rows // 2, n_rows - 1)
            _same_words(found, _read(way, neighbours(rng.choice(half))[1], how, folder))
        return "refused"


def _accepted(found: Sums, after: Table, position: int, how: How) -> str:
    if not _readable(after.values, how):
        raise Finding("a record that means no numbers is accepted")
    _check(found, after.values)
    return "left out" if np.isnan(after.values[position]).any() else "accepted"


def _read(way: Way, rows: Table, how: How, folder: Path) -> Sums | str:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = way.make(rows, random.Random(how.choices), folder)
    found: list[Any] = []

    def work() -> None:
        try:
            sizes = {"BLOCK_BYTES": how.block_bytes, "BLOCK_BYTES_OF_COLUMN": 0}
            with mock.patch.multiple(text_files, **sizes):
                found.append(way.read(source, how))
        except HushcovError as error:
            found.append(str(error))
            for text in messages(error):
                if quoted(text.replace(str(folder), "")):
                    raise Finding(f"data is quoted: {text[:300]}") from None
            raise

    judged(work)
    result: Sums | str = found[0]
    return result


def _same_words(found: str, elsewhere: Sums | str) -> None:
    """A refusal must not tell where the record is, or anything of the others."""
    if isinstance(elsewhere, Sums):
        raise Finding(f"what is refused depends on values: {found[:200]}")
    if found != elsewhere:
        raise Finding(f"a refusal depends on values: {found[:200]} / {elsewhere[:200]}")


def _check_neighbours(before: Sums, after: Sums) -> None:
    """What replacing one record may move, whatever it is replaced by: the sensitivities."""
    if (before.n_records, before.n_features) != (after.n_records, after.n_features):
        raise Finding(
            f"n changes: {before.n_records} x {before.n_features} and "
            f"{after.n_records} x {after.n_features}"
        )
    if before.names != after.names or quoted(str(after.names)):
        raise Finding("names of columns depend on values")
    if before.said != after.said or quoted(after.said):
        raise Finding("what is said before a release depends on records")
    moved = after.gram - before.gram
    bound = _norm_bound(before)
    if np.linalg.norm(moved) > math.sqrt(2) * bound**2 or np.linalg.matrix_rank(moved) > 2:
        raise Finding("the sums of more than one record move")
    for limit, one, other in zip((1, 2, 1), before.others, after.others, strict=False):
        if np.abs(one - other).max() > limit:
            raise Finding("counts of more than one record move")


def _norm_bound(sums: Sums) -> float:
    return sums.norm_bound or math.sqrt(sums.n_features) * sums.grid.half_width


def _readable(values: np.ndarray | None, how: How) -> bool:
    return values is not None and (how.drop_nulls or not np.isnan(values).any())


def _check(found: Sums, rows: np.ndarray) -> None:
    """Hold all sums against a plain computation from the numbers that the records mean."""
    if (found.n_records, found.n_features) != rows.shape:
        raise Finding(f"{found.n_records} x {found.n_features} records, not {rows.shape}")
    complete = ~np.isnan(rows).any(axis=1)
    filled = np.where(complete[:, None], rows, 0.0)
    for name, one, other in zip(
        ("gram", "complete records", "signs", "octaves"),
        (found.gram, *found.others),
        (_gram(filled, found.grid, _norm_bound(found)), complete.sum(), *_counts(filled)),
        strict=False,
    ):
        if not np.array_equal(one, other):
            raise Finding(f"another sum than that of the records: {name}")


def _gram(rows: np.ndarray, grid: FeatureGrid, bound: float) -> np.ndarray:
    """Products of rounded rows, those that are too long scaled down; in Python's integers."""
    with np.errstate(over="ignore", under="ignore"):
        integers = np.rint(np.clip(rows * grid.multipliers, -grid.half_width, grid.half_width))
    norms = np.sqrt((integers**2).sum(axis=1, keepdims=True))
    factors = bound / np.maximum(norms, 1.0) * (1.0 - 2.0**-40)
    short = np.where(norms > bound, np.trunc(integers * factors), integers)
    exact = short.astype(int).astype(object)
    return np.asarray(exact.T @ exact, dtype=np.int64)


def _counts(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    signs = np.sign(rows).astype(int)
    octaves = np.zeros((rows.shape[1], 130), dtype=int)
    for row in rows:
        for feature, value in enumerate(row):
            octave = math.frexp(value)[1] + 64 if value else 0
            octaves[feature, min(max(octave, 0), 129)] += 1
    return np.triu(signs.T @ signs), octaves
