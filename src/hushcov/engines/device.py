"""Sums over a block of rows on its device, through PyTorch.

They are the integers of the processor, bit for bit. Kernels of `hushcov.kernel.sums` that are
compiled have functions on tensors here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hushcov._arrays import like
from hushcov.engines.records import device_block_rows
from hushcov.kernel.records.base import Records, check_finite, layers_of
from hushcov.kernel.sums import counts, gram, signs
from hushcov.kernel.sums.bounded import bounded_integers
from hushcov.kernel.sums.rows import (
    MISSING,
    Centring,
    RowSums,
    add_each,
    column_sums,
    count_in_bins,
    grid_integers,
    norm_bins,
    scaled,
    shortened,
    shortening,
    split,
    square_norms,
    whole,
)

try:
    from hushcov.engines import fused
except ImportError:  # no Triton: the same integers, in more readings
    fused = None  # type: ignore[assignment]

_LARGEST_INT32 = 2**31 - 1
_TILE = 8  # sizes of integer matrix products must be multiples of this
_FEWEST_ROWS = 32  # and at least this
_PRODUCTS = 2**27  # of pairs of features, made at a time
_PRODUCT_BYTES = 2**30  # bytes of products of signs held at a time
_SPARE_BYTES = 2**32  # of a device, for blocks beside a compact copy

Tensor = Any


def sums_of(sums: RowSums, block: Tensor) -> Tensor:
    """Return the sums of a block: of rows, or of compact ones if what is taken off has units."""
    about: Any = sums.about
    compact = about is not None and about.unit is not None
    each = sums.arguments[0] if sums.kernel is add_each else (sums,)
    names = [own.kernel.__name__ for own in each]
    if compact and _fused_on(block) and all(hasattr(fused, name) for name in names):
        rows = fused.CompactRows(block.T, about)
        found = [getattr(fused, own.kernel.__name__)(rows, *own.arguments) for own in each]
        return found[0] if each == (sums,) else torch.cat([own.reshape(-1) for own in found])
    if _counted_by_fused(names[0]) and block.dtype == torch.float64 and _fused_on(block):
        return getattr(fused, names[0])(block, *sums.arguments)
    total = torch.zeros(sums.shape, dtype=torch.int64, device=block.device)
    for part in block.split(device_block_rows(block.shape[1])) if compact else [block]:
        rows = part if about is None else about.of(part)
        for own, into in zip(each, split(total.reshape(-1), each), strict=True):
            _OWN.get(own.kernel.__name__, own.kernel)(rows, *own.arguments, into)
    return total


def _counted_by_fused(name: str) -> bool:
    return name in ("count_signed_octaves", "count_cells")


def _fused_on(block: Tensor) -> bool:
    return fused is not None and fused.works(str(block.device))


def centred(rows: Tensor, about: Centring) -> Tensor:
    """Return rows less their centre; see `Centring.of`."""
    y = rows if about.unit is None else rows * like(about.unit, rows)
    reach = like(about.reach, rows)
    y = (y - like(about.centre, rows)).clamp_(-reach, reach)
    if about.unit is not None:
        y[rows[:, 0] == MISSING] = 0.0
    return y


def to_host(sums: Tensor) -> Any:
    """Return a tensor as an array; by memory that a device copies to at full speed."""
    if not sums.is_cuda:
        return np.asarray(sums.cpu())
    return torch.empty(sums.shape, dtype=sums.dtype, pin_memory=True).copy_(sums).numpy()


def keeps(records: Records, most_bytes: int) -> bool:
    """Return whether the device of records has room for a compact copy: a public number."""
    size = 2 * records.n_records * records.n_features
    names = [str(layer.device) for layer in layers_of(records) if hasattr(layer, "device")]
    return size <= most_bytes or is_free(names[0], size)


def compact_blocks(records: Records, copy: Any, about: Centring, per_unit: Any) -> Iterator[Any]:
    """Yield records as integers, which lie features by records; all at once where they are kept."""
    kept, filled = copy.rows, 0
    for block in records._blocks() if kept is None else ():
        complete = check_finite(block, gaps=records.gaps, names=records.feature_names)
        part = compact(block, about, per_unit, whole=complete)
        if not copy.most_bytes:
            yield part.T
            continue
        if kept is None:
            kept = part.new_empty((records.n_features, records.n_rows))
        kept[:, filled : filled + len(block)] = part
        filled += len(block)
    copy.rows = kept  # whole now
    if kept is not None:
        yield kept.T


def is_free(device: str, size: int) -> bool:
    """Return whether a device has room for so many bytes, and for blocks beside them."""
    if torch.device(device).type != "cuda":
        return False
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return bool(size + _SPARE_BYTES <= torch.cuda.mem_get_info(device)[0] + cached)


def compact(block: Tensor, about: Centring, per_unit: Any, *, whole: bool) -> Tensor:
    """Return rows as integers, features by records; `whole` says that no value is missing."""
    if whole and _fused_on(block):
        return fused.compact(block, about.centre, about.reach, per_unit)
    rows = about.of(block).mul_(like(per_unit, block)).round_()
    return rows.masked_fill_(rows.isnan().any(1)[:, None], MISSING).T.to(torch.int16)


def sign_scores(records: Any, score: Any, largest: int) -> Any:
    """Return `signs.sign_scores`: panels are scored where they are, and only scores are copied."""
    d, found, start = records.n_features, [], 0
    while start < d - 1:
        stop = min(d, start + max(1, gram.PANEL_BYTES // (8 * (d - start))))
        shape = 1 + stop - start, d - start
        panel = _Scored(signs.add_panel, (start, stop), shape, score=score, largest=largest)
        found.append(records.map_sum(panel))
        start = stop
    return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class _Scored(RowSums):
    """Scores of a panel, pair by pair."""

    score: Any = None
    largest: int = 0

    def total(self, sums: Any) -> Any:
        """Return the scores of no rows."""
        return np.zeros(np.triu_indices(self.shape[0] - 1, 1, self.shape[1])[0].size, np.int32)

    def on_host(self, sums: Any) -> Any:
        scores = self.score(sums[1:], sums[0], *self.arguments)
        return to_host(pairs_above(scores, self.largest))


def pairs_above(products: Tensor, largest: int) -> Tensor:
    """Return what is above the diagonal, row by row; in four bytes each, if that is enough."""
    kind = torch.int32 if largest < _LARGEST_INT32 + 1 else torch.int64
    inside = torch.ones(products.shape, dtype=torch.bool, device=products.device).triu_(1)
    return products.to(kind).masked_select(inside)


def _add_panel(block: Tensor, start: int, stop: int, total: Tensor) -> None:
    """Add signs, and their products in bytes, with 32-bit sums."""
    block, n_rows = block[:, start:], stop - start
    own = torch.sign(block).to(torch.int8)
    n, d = own.shape
    assert n <= _LARGEST_INT32
    padded = torch.zeros((_tiled(n), _tiled(d)), dtype=torch.int8, device=block.device)
    padded[:n, :d] = own
    left = padded[:, : min(_tiled(n_rows), padded.shape[1])].T.contiguous()
    products = torch._int_mm(left, padded)[:n_rows, :d].to(torch.int64)
    total += torch.cat([own.sum(0, dtype=torch.int64)[None], products])


def _tiled(size: int) -> int:
    return max(_FEWEST_ROWS, -(-size // _TILE) * _TILE)


def _add_pairs(block: Tensor, rows: Any, columns: Any, total: Tensor) -> None:
    """Add products of signs of listed pairs of columns, then signs."""
    left, right = like(rows, block), like(columns, block)
    own: Any = torch.sign(block).to(torch.int8)
    for part in own.split(max(1, _PRODUCT_BYTES // (64 * max(1, len(rows))))):
        total[: len(rows)] += (part[:, left] * part[:, right]).sum(dim=0, dtype=torch.int64)
    total[len(rows) :] += own.sum(0, dtype=torch.int64)


def _add_contributions(
    rows: Tensor, grid: Any, left: Any, right: Any, weights: Any, bounds: Any, total: Tensor
) -> None:
    """Add the contributions of records; without bounds, count their norms."""
    y, n_pairs = grid_integers(rows, grid), len(left)
    pair_weight, diagonal_weight, centre = weights
    squares = y * y
    own = diagonal_weight * (squares - centre)
    square = square_norms(own)
    if n_pairs:
        made = _Products(y, left, right)
        square += float(pair_weight**2) * made.squares()
    if not bounds:
        count_in_bins(norm_bins(square, len(total)), total)
        return
    norm_bound, factor_range, size_range, size_cap = bounds
    factor = shortening(square, float(norm_bound))
    if n_pairs:
        total[:n_pairs] += made.scaled_sums(factor, pair_weight)
    total[n_pairs:-2] += column_sums(scaled(own, factor))
    total[-2] += torch.where(factor < 1, whole(factor * factor_range), factor_range).sum()
    size = whole(squares.sum(1)).clamp_(max=size_cap)
    total[-1] += (size * size_range // size_cap).sum()


class _Products:
    """Products of pairs of features, a few records at a time."""

    def __init__(self, y: Tensor, left: Any, right: Any) -> None:
        self._y, self._pairs = y, (like(left, y), like(right, y))
        self._step = max(1, _PRODUCTS // len(left))

    def _parts(self) -> Iterator[Tensor]:
        left, right = self._pairs
        return (part[:, left] * part[:, right] for part in self._y.split(self._step))

    def squares(self) -> Tensor:
        """Return sums over pairs of squared products, by record."""
        return torch.cat([square_norms(part) for part in self._parts()])

    def scaled_sums(self, factor: Tensor, weight: int) -> Any:
        """Return the sums of products times a weight, each times a factor, rounded to zero."""
        pairs = zip(self._parts(), factor.split(self._step), strict=True)
        return sum(whole(weight * part * own[:, None]).sum(0) for part, own in pairs)


def _sum_rows(rows: Tensor, grid: Any, bound: float, total: Tensor) -> None:
    """Add bounded rows up."""
    total += column_sums(bounded_integers(rows, grid, bound))


def _sum_fourths(
    rows: Tensor, grid: Any, most: float, unit: float, bound: float, total: Tensor
) -> None:
    """Add fourth powers up."""
    squares = grid_integers(rows, grid).square_().clamp_(max=most)
    powers = (squares.square_() * (1 / unit)).floor_()  # exact: the unit is a power of two
    total += column_sums(shortened(powers, bound))


def _count_norms(rows: Tensor, grid: Any, edges: Any, n_signs: int, total: Tensor) -> None:
    """Count rows by squared norm, after the sums of so many signs."""
    if n_signs:
        _sum_signs(rows, total[:n_signs])
    square = square_norms(grid_integers(rows, grid))
    count_in_bins(torch.searchsorted(like(edges, rows), square), total[n_signs:])


def _sum_signs(rows: Tensor, total: Tensor) -> None:
    """Add the signs of each column; sgn(0) is 0."""
    total += column_sums(rows.sign())


def _count_signed_octaves(
    rows: Tensor, centre: Any, dead_zone: Any, columns: Any, total: Tensor
) -> None:
    """Count values by octave on each side of a centre."""
    y = counts.chosen(rows, columns) - like(centre, rows)
    octaves = (y.contiguous().view(torch.int64) >> counts.FRACTION_BITS).to(torch.int32)
    octaves = (octaves & counts.EXPONENT_MASK) + counts.OCTAVE_SHIFT  # the smallest one is 1
    near = (octaves <= 0) | (y.abs() <= like(dead_zone, rows))  # as a difference of 0 is
    bins = octaves.clamp_(max=counts.N_OCTAVES)
    bins += counts.N_OCTAVES * (y > 0).to(torch.int32) - 1
    bins[near] = counts.N_SIGNED_BINS - 1
    counts.count_columns(bins, total)


# In place of kernels on the processor of these names.
_OWN = {
    "add_panel": _add_panel,
    "add_pairs": _add_pairs,
    "add_contributions": _add_contributions,
    "count_norms": _count_norms,
    "count_signed_octaves": _count_signed_octaves,
    "sum_fourths": _sum_fourths,
    "sum_rows": _sum_rows,
    "sum_signs": _sum_signs,
}
