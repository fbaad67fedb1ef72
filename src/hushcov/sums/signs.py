"""Exact sums of products of signs, of one reading of the records: signs are kept as bits."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcov._arrays import FloatArray, IntArray
from hushcov.sums.gram import PANEL_BYTES, pair_sums
from hushcov.sums.popcount import CELL_ROWS, SignTile
from hushcov.sums.protocol import Progress, Records
from hushcov.sums.rows import MISSING, CentringSums
from hushcov.sums.views import hands_out_arrays

PACKED_BYTES = 2**31  # most bytes of signs that are kept where that saves readings
PACKED_PANEL_BYTES = 2**25  # of sums, where signs are kept: a panel costs no reading
# Signs that wait to be multiplied, so that sums are seldom read and written: of so many records,
# and of fewer where they would take more bytes and are not kept.
TILE_ROWS, TILE_BYTES = 2**15, 2**26

#: Makes scores of a panel of products of signs, the sums of signs, and which features these are.
Score = Callable[[IntArray, IntArray, int, int], IntArray]


class PackedSigns:
    """The signs of all records, as bits: one for each, and two where there are zeros.

    Parameters
    ----------
    records : Records
        Read once, here. On a cluster or a device use `sign_gram`.
    read : callable, optional
        Makes the reading, with other sums beside, and returns what is asked for.
    progress : callable, optional
        Called after each block with the number of rows in it.

    Attributes
    ----------
    sums : ndarray of shape (n_features,)
        Sums of sgn(x_i) over the records.

    Privacy
    -------
    Nothing here is private by itself, and the bits are a copy of what is sensitive in memory; see
    `sign_gram`.
    """

    def __init__(
        self,
        records: Records,
        *,
        read: Callable[[CentringSums], IntArray] | None = None,
        progress: Progress | None = None,
    ) -> None:
        assert hands_out_arrays(records), "tiles would not come back from elsewhere"
        self._tiles: list[SignTile] = []
        self._n_features = records.n_features
        packing = _Packing(_whole_cells(min(TILE_ROWS, records.n_rows)), self._tiles)
        self.sums = read(packing) if read else records.map_sum(packing, progress=progress)

    def gram(self, start: int = 0, stop: int | None = None) -> IntArray:
        """As `sign_gram`, without reading a record again."""
        stop = self._n_features if stop is None else stop
        sums = np.zeros((stop - start, self._n_features - start), dtype=np.int64)
        for tile in self._tiles:
            tile.add_products(start, sums)
        return sums

    def pairs(self, rows: IntArray, columns: IntArray) -> IntArray:
        """Sums of products of these pairs, without reading a record again."""
        sums = np.zeros(len(rows), dtype=np.int64)
        for tile in self._tiles:
            tile.add_pairs(rows, columns, sums)
        return sums


def sign_gram(
    records: Records, start: int = 0, stop: int | None = None, *, progress: Progress | None = None
) -> IntArray:
    """Return the sum over records of sgn(x_i) sgn(x_j), an integer matrix; sgn(0) is 0.

    Its rows are features `start` to `stop` - 1, its columns features from `start` on. Entries
    below the diagonal may be left out, as zeros.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves every entry by at most 2,
    whatever the values: a product of two signs lies in [-1, 1].
    """
    return sign_gram_and_sums(records, start, stop, progress=progress)[0]


def sign_gram_and_sums(
    records: Records, start: int = 0, stop: int | None = None, *, progress: Progress | None = None
) -> tuple[IntArray, IntArray]:
    """Return `sign_gram`, and the sums of sgn(x_i) for the features from `start` on, in one pass.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves every entry and every sum by at
    most 2.
    """
    stop = records.n_features if stop is None else stop
    panel = _SignPanel(_waiting(records), start, stop)
    found = records.map_sum(panel, progress=progress)
    return found[1:], found[0]


def sign_scores(
    records: Records, score: Score, largest: int, *, progress: Progress | None = None
) -> NDArray[Any]:
    """Return `pair_sums` of `score(products, sums, start, stop)`, for panels of `sign_gram`.

    Records whose signs fit into `signs_kept` bytes are read once. For others, and on a cluster or a
    device, there is a pass for each panel of sums.

    Privacy
    -------
    Nothing here is private by itself; see `sign_gram`.
    """
    d, signs = records.n_features, _taken(records)
    if not (signs or (signs_kept(records.n_rows, d) and hands_out_arrays(records))):
        return pair_sums(
            lambda i, j: score(*sign_gram_and_sums(records, i, j, progress=progress), i, j),
            d,
            largest,
        )
    signs = signs or PackedSigns(records, progress=progress)
    return pair_sums(
        lambda i, j: score(signs.gram(i, j), signs.sums[i:], i, j),
        d,
        largest,
        panel_bytes=PACKED_PANEL_BYTES,
    )


def candidate_sign_sums(
    records: Records, rows: IntArray, columns: IntArray, *, progress: Progress | None = None
) -> tuple[IntArray, IntArray]:
    """Return the sums of sgn(x_i) sgn(x_j) of listed pairs, and of sgn(x_i) of all features.

    The same integers as in `sign_gram`, in one reading or none, and nothing of size n_features^2.

    Privacy
    -------
    Nothing here is private by itself. Replacing one record moves every sum by at most 2.
    """
    signs = _taken(records)
    if signs is not None:
        return signs.pairs(rows, columns), signs.sums
    pairs = _SignPairs(_waiting(records), rows, columns)
    found = records.map_sum(pairs, progress=progress)
    return found[: len(rows)], found[len(rows) :]


@dataclass(frozen=True)
class KeptSigns:
    """Packed signs, and the very records whose signs they are: a copy may be another view."""

    signs: PackedSigns
    of: weakref.ref[Records]


def _taken(records: Records) -> PackedSigns | None:
    """Signs that were kept of these records, which lose them: they are scored once."""
    kept, records.kept_signs = records.kept_signs, None
    return kept.signs if kept is not None and kept.of() is records else None


def signs_kept(n_records: int, n_features: int) -> int:
    """Bytes of signs that `sign_scores` keeps, at most; 0 if none.

    They are kept where there would be several readings without them, or more bytes of sums.
    """
    signs, sums = 2 * n_records * n_features // 8 + 1, 8 * n_features**2
    return signs if signs <= (PACKED_BYTES if sums > PANEL_BYTES else sums) else 0


def _waiting(records: Records) -> int:
    """How many records wait in a tile."""
    most = TILE_BYTES * 8 // (2 * records.n_features)
    return _whole_cells(min(TILE_ROWS, most, records.n_rows))


def _whole_cells(n_rows: int) -> int:
    return max(1, n_rows // CELL_ROWS) * CELL_ROWS


@dataclass
class _Packed:
    """What is known after some blocks: a tile that is not full, sums of signs, and of products."""

    tile: SignTile
    sums: IntArray
    products: IntArray


@dataclass(frozen=True, eq=False)
class _Tiles(CentringSums):
    """Packs rows into tiles; `finished` says what happens to a full one."""

    tile_rows: int

    def begin(self, n_features: int) -> _Packed:
        tile = SignTile.empty(self.tile_rows, n_features)
        sums = np.zeros(self.shape(n_features), dtype=np.int64)
        return _Packed(tile, np.zeros(n_features, dtype=np.int64), sums)

    def add(self, block: FloatArray, sums: _Packed) -> bool:
        about = _limits(*self.taken_off(block.shape[1]))
        while len(block):
            taken = min(len(block), sums.tile.room)
            if not sums.tile.pack(block[:taken], about):
                return False
            if not sums.tile.room:
                self._finish(sums)
            block = block[taken:]
        return True

    def _finish(self, sums: _Packed) -> None:
        sums.tile.finish(sums.sums)
        self.finished(sums)

    def total(self, sums: _Packed) -> IntArray:
        if sums.tile.n_rows:
            self._finish(sums)
        return self.found(sums)

    def add_rows(self, rows: FloatArray, total: IntArray) -> bool:
        raise NotImplementedError("rows are packed by `add`")

    def finished(self, sums: _Packed) -> None:
        """What to do with a tile that is done."""
        raise NotImplementedError

    def found(self, sums: _Packed) -> IntArray:
        """What to return at the end."""
        raise NotImplementedError


def _limits(centre: FloatArray, reach: FloatArray) -> Any:
    """What a positive sign is above, and under it what a negative one is below.

    For compact rows these are integers, found by the product that makes numbers of them. No number
    is above or below NaN: where nothing is within reach, signs are zero.
    """
    if centre.ndim == 1:
        limits = np.stack([centre, centre])
    else:
        about, unit = centre
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.clip(np.nan_to_num(np.floor(about / unit)), MISSING, -MISSING)
        tried = near + np.arange(-2, 4)[:, None]  # rounding moves a product by less
        above, below = tried * unit > about, tried * unit < about
        limits = np.stack([near + 3 - above.sum(axis=0), near - 2 + below.sum(axis=0)])
        nowhere = np.array([[-MISSING], [MISSING]])
        return np.where(reach > 0, np.clip(limits, MISSING, -MISSING), nowhere).astype(np.int32)
    return np.where(reach > 0, limits, np.nan)


@dataclass(frozen=True, eq=False)
class _SignPanel(_Tiles):
    """Sums of signs of a block, in a row before those of their products. Picklable."""

    start: int
    stop: int

    def shape(self, n_features: int) -> tuple[int, ...]:
        return 1 + self.stop - self.start, n_features - self.start

    def finished(self, sums: _Packed) -> None:
        sums.tile.add_products(self.start, sums.products[1:])
        sums.tile.clear()

    def found(self, sums: _Packed) -> IntArray:
        sums.products[0] = sums.sums[self.start :]
        return sums.products

    def of_tensor(self, block: Any) -> Any:
        from hushcov.sums import tensor_kernels as kernels

        block = block[:, self.start :]
        gram = kernels.sign_gram(block, self.stop - self.start)
        return kernels.joined(kernels.sign_sums(block)[None], gram)


@dataclass(frozen=True, eq=False)
class _SignPairs(_Tiles):
    """Sums of products of listed pairs, and after them those of signs. Picklable."""

    rows: IntArray
    columns: IntArray

    def shape(self, n_features: int) -> tuple[int, ...]:
        return (len(self.rows) + n_features,)

    def finished(self, sums: _Packed) -> None:
        sums.tile.add_pairs(self.rows, self.columns, sums.products[: len(self.rows)])
        sums.tile.clear()

    def found(self, sums: _Packed) -> IntArray:
        sums.products[len(self.rows) :] = sums.sums
        return sums.products

    def of_tensor(self, block: Any) -> Any:
        from hushcov.sums import tensor_kernels as kernels

        products = kernels.sign_products(block, self.rows, self.columns)
        return kernels.joined(products, kernels.sign_sums(block))


@dataclass(frozen=True, eq=False)
class _Packing(_Tiles):
    """Sums of signs; the tiles are kept, in this process."""

    tiles: list[SignTile] = field(default_factory=list)

    def begin(self, n_features: int) -> _Packed:
        tile = SignTile.empty(self.tile_rows, n_features)
        return _Packed(tile, np.zeros(n_features, dtype=np.int64), np.empty(0, dtype=np.int64))

    def shape(self, n_features: int) -> tuple[int, ...]:
        return (n_features,)

    def finished(self, sums: _Packed) -> None:
        self.tiles.append(sums.tile.compact())
        sums.tile = SignTile.empty(self.tile_rows, sums.tile.n_features)

    def found(self, sums: _Packed) -> IntArray:
        return sums.sums

    def of_tensor(self, block: Any) -> Any:
        raise NotImplementedError("see `hands_out_arrays`")
