"""A release as other programs read it: correlations, positive semidefinite, with all that is named.

Everything is computed from the release, so that it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from hushcov._arrays import BoolArray, FloatArray, IntArray, Matrix
from hushcov._validation import check_choice, check_integer, shown
from hushcov.answers.tables import Table, feature_names
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.postprocess import largest
from hushcov.postprocess.bands import mend_band, mend_dense
from hushcov.release import Release
from hushcov.release.findings import estimate

#: What can be written.
FORMATS = ("npz", "zarr", "parquet", "csv")
#: What blocks are made of where no number of features is given.
CHROMOSOME = "chromosome"
_MOST_OF_BAND = 2**28  # entries of a band that is mended
_WHOLE = 4  # a band of a quarter of the features is mended as a whole matrix
_MOST_WHOLE = 8_000  # features of such a matrix

#: It is told what is done, and which share of it.
Progress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class Upper:
    """Entries above the diagonal, row by row: those of row i begin at `starts[i]`."""

    starts: IntArray
    columns: IntArray
    values: FloatArray

    @property
    def rows(self) -> IntArray:
        """The row of each entry; made anew each time."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def part(self, start: int, stop: int) -> Upper:
        """Entries between features of a block."""
        low, high = self.starts[start], self.starts[stop]
        columns, values = self.columns[low:high], self.values[low:high]
        return Upper(self.starts[start : stop + 1] - low, columns - start, values)

    def matrix(self, diagonal: FloatArray | None = None) -> Matrix:
        """The upper triangle as a sparse array, with a diagonal where one is given."""
        d = len(self.starts) - 1
        held = (self.values, self.columns, self.starts)
        upper = sparse.csr_array(held, shape=(d, d))
        if diagonal is None:
            return upper
        return (upper + sparse.diags_array(diagonal)).tocsr()


@dataclass(frozen=True)
class Block:
    """Features of a block, from `start` to before `stop`, and what its correlations were moved by.

    `largest_change` is of one entry; `frobenius` the norm over the whole symmetric block.
    """

    name: str
    start: int
    stop: int
    pairs: int
    largest_change: float
    frobenius: float


@dataclass(frozen=True)
class Correction:
    """What made the matrix positive semidefinite, in correlations, and what was left out.

    `norm` is about the operator norm of the change. `cut_pairs` are those across borders of blocks,
    of which `cut_largest` is the largest. `without_variance` counts features whose released
    variance is not positive: they have no pairs.
    """

    psd: bool
    pairs: int
    largest_change: float
    frobenius: float
    norm: float
    cut_pairs: int
    cut_largest: float
    without_variance: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, eq=False)
class Prepared:
    """What is written: entries above the diagonal, and what they were before.

    `deviation` has released standard deviations, 0 for features that have none.
    """

    release: Release
    covariance: bool
    upper: Upper
    released: FloatArray
    deviation: FloatArray
    correction: Correction

    @property
    def diagonal(self) -> FloatArray:
        """Ones, or variances."""
        return self.deviation**2 if self.covariance else np.ones_like(self.deviation)

    @property
    def unit(self) -> FloatArray:
        """What correlations are multiplied by."""
        return self.deviation if self.covariance else np.ones_like(self.deviation)

    @property
    def value_name(self) -> str:
        """What the values are called."""
        return "covariance" if self.covariance else "correlation"

    def features(self) -> Table:
        """One row for each feature."""
        release, blocks = self.release, self.correction.blocks
        table: dict[str, Any] = {"name": feature_names(release)}
        if release.chromosomes is not None:
            table["chromosome"] = np.array(release.chromosomes, dtype=object)
        if release.positions is not None:
            table["position"] = np.asarray(release.positions, dtype=np.int64)
        if release.location is not None:
            table["mean"] = np.asarray(release.location, dtype=np.float64)
        table["variance"] = self.deviation**2
        sizes = [block.stop - block.start for block in blocks]
        table["block"] = np.repeat(np.arange(len(blocks)), sizes)
        return table


def prepare(
    release: Release,
    *,
    covariance: bool,
    psd: bool,
    block_size: int | str | None,
    progress: Progress | None = None,
) -> Prepared:
    """Correlations of a release in blocks, made positive semidefinite where that is asked for."""
    tell = progress or (lambda what, share: None)
    bounds = _bounds(release, block_size)
    tell("reading the estimate", 0.0)
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        upper, deviation = _correlations(estimate(release))
        inside, cut = _within(upper, bounds)
    # Noise puts correlations beyond 1, where there are none.
    upper = Upper(inside.starts, inside.columns, np.clip(inside.values, -1.0, 1.0))
    values = upper.values
    if psd:
        values = _mended(upper, lambda share: tell("making it positive semidefinite", share))
    correction = Correction(
        psd,
        len(values),
        *_sizes(values - upper.values),
        _norm(upper, values - upper.values) if psd else 0.0,
        len(cut),
        float(np.abs(np.clip(cut, -1.0, 1.0)).max(initial=0.0)),
        int(np.count_nonzero(deviation == 0)),
        _blocks(release, block_size, bounds, upper, values - upper.values),
    )
    released = upper.values
    if covariance:
        size = deviation[upper.rows] * deviation[upper.columns]
        released = inside.values * size
        values = values * size if psd else released
    upper = Upper(upper.starts, upper.columns, values)
    return Prepared(release, covariance, upper, released, deviation, correction)


def check_format(to: object) -> str:
    """One of `FORMATS`, or an error."""
    return check_choice("to", to, FORMATS)


def _bounds(release: Release, block_size: int | str | None) -> IntArray:
    """Where blocks begin, and the number of features."""
    d = release.n_features
    if block_size is None:
        return np.array([0, d])
    if block_size == CHROMOSOME:
        if release.chromosomes is None:
            raise ParameterError(
                "block_size must be a number, got 'chromosome': the release does not say on which "
                "chromosomes its features lie. Give a number of features."
            )
        names = np.array(release.chromosomes, dtype=object)
        inner = np.flatnonzero(names[1:] != names[:-1]) + 1
        if len(inner) + 1 > len(set(release.chromosomes)):
            raise ParameterError(
                "block_size must be a number, got 'chromosome': the features of a chromosome do "
                "not stand together. Give a number of features."
            )
        return np.concatenate([[0], inner, [d]])
    if isinstance(block_size, str):
        raise ParameterError(
            f"block_size must be a number of features or 'chromosome', got {shown(block_size)}: "
            "leave it out for one matrix."
        )
    cure = "it is how many features a block has; leave it out for one matrix."
    size = check_integer("block_size", block_size, at_least=1, cure=cure)
    return np.append(np.arange(0, d, size), d)


def _correlations(matrix: Matrix) -> tuple[Upper, FloatArray]:
    """Correlations above the diagonal that are not zero, and standard deviations.

    A feature whose variance is not positive has deviation 0 and no pairs.
    """
    variance = np.asarray(matrix.diagonal(), dtype=np.float64)
    known = (variance > 0) & np.isfinite(variance)
    deviation = np.sqrt(np.where(known, variance, 0.0))
    above = sparse.triu(sparse.csr_array(matrix), 1, format="csr")
    above.sort_indices()
    rows = np.repeat(np.arange(len(variance)), np.diff(above.indptr))
    columns = above.indices
    size = deviation[rows] * deviation[columns]
    values = np.divide(above.data, size, out=np.zeros_like(above.data), where=size > 0)
    values = np.nan_to_num(values)
    return _kept(rows, columns, values, values != 0, len(variance)), deviation


def _kept(rows: IntArray, columns: IntArray, values: FloatArray, kept: BoolArray, d: int) -> Upper:
    counts = np.bincount(rows[kept], minlength=d)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Upper(starts, columns[kept], values[kept])


def _within(upper: Upper, bounds: IntArray) -> tuple[Upper, FloatArray]:
    """Entries within blocks, and the values of the others."""
    if len(bounds) == 2:
        return upper, np.empty(0)
    ends = np.repeat(bounds[1:], np.diff(bounds))  # of each feature's block
    rows = upper.rows
    kept = upper.columns < ends[rows]
    inside = _kept(rows, upper.columns, upper.values, kept, len(ends))
    return inside, upper.values[~kept]


def _mended(upper: Upper, tell: Callable[[float], None]) -> FloatArray:
    """The values near these whose matrix is positive semidefinite."""
    d, rows, columns = len(upper.starts) - 1, upper.rows, upper.columns
    width = int((columns - rows).max(initial=0))
    if _WHOLE * width > d > _MOST_WHOLE:  # far from a band in this order: find another
        ones = np.ones(len(columns), dtype=np.int8)
        pattern = sparse.csr_array((ones, columns, upper.starts), shape=(d, d))
        order = reverse_cuthill_mckee((pattern + pattern.T).tocsr(), symmetric_mode=True)
        place = np.empty(d, dtype=np.int64)
        place[order] = np.arange(d)
        rows, columns = place[rows], place[columns]
        rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
        width = int((columns - rows).max(initial=0))
    if _WHOLE * width > d and d <= _MOST_WHOLE:
        matrix = np.eye(d)
        matrix[rows, columns] = matrix[columns, rows] = upper.values
        mended = mend_dense(matrix)[rows, columns]
        tell(1.0)
        return np.asarray(mended)
    if d * (width + 1) > _MOST_OF_BAND:
        raise CapacityError(
            f"a matrix is made positive semidefinite whose pairs are near each other, and of these "
            f"{d:,} features some are {width:,} apart: use smaller blocks (block_size), or psd "
            "False for the values as released."
        )
    band = np.zeros((d, width + 1))
    band[:, 0] = 1.0
    band[rows, columns - rows] = upper.values
    return np.asarray(mend_band(band, progress=tell)[rows, columns - rows])


def _sizes(change: FloatArray) -> tuple[float, float]:
    """The largest change, and the Frobenius norm of all on both sides of the diagonal."""
    return float(np.abs(change).max(initial=0.0)), float(np.sqrt(2 * (change @ change)))


def _norm(upper: Upper, change: FloatArray) -> float:
    """About the operator norm of a change."""
    if not change.any():
        return 0.0
    matrix = Upper(upper.starts, upper.columns, change).matrix()
    return largest(matrix + matrix.T)


def _blocks(
    release: Release,
    block_size: int | str | None,
    bounds: IntArray,
    upper: Upper,
    change: FloatArray,
) -> tuple[Block, ...]:
    found = []
    names = _block_names(release, block_size, bounds)
    for name, start, stop in zip(names, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        low, high = upper.starts[start], upper.starts[stop]
        found.append(Block(name, start, stop, int(high - low), *_sizes(change[low:high])))
    return tuple(found)


def _block_names(release: Release, block_size: int | str | None, bounds: IntArray) -> list[str]:
    """What blocks are called, which names their files: matrix, block-07, chr1, chrX."""
    number = len(bounds) - 1
    if block_size is None:
        return ["matrix"]
    if block_size == CHROMOSOME and release.chromosomes is not None:
        plain = [release.chromosomes[start].removeprefix("chr") for start in bounds[:-1]]
        lower = {name.lower() for name in plain}
        if len(lower) == number and all(name.isascii() and name.isalnum() for name in plain):
            return [f"chr{name}" for name in plain]
    digits = len(str(number - 1))
    return [f"block-{place:0{digits}d}" for place in range(number)]
