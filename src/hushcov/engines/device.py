"""Sums over a block of rows on its device, through PyTorch.

They are the integers of the processor, bit for bit: kernels of `hushcov.kernel.sums` are functions
on arrays and on tensors, and those of signs are here.
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
from hushcov.kernel.sums import gram, signs
from hushcov.kernel.sums.rows import MISSING, Centring, RowSums, add_each

try:
    from hushcov.engines import fused
except ImportError:  # no Triton: the same integers, in more readings
    fused = None  # type: ignore[assignment]

_LARGEST_INT32 = 2**31 - 1
_TILE = 8  # sizes of integer matrix products must be multiples of this
_FEWEST_ROWS = 32  # and at least this
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
    kernel = _OWN.get(names[0], sums.kernel)
    for part in block.split(device_block_rows(block.shape[1])) if compact else [block]:
        kernel(part if about is None else about.of(part), *sums.arguments, total)
    return total


def _counted_by_fused(name: str) -> bool:
    return name in ("count_signed_octaves", "count_cells")


def _fused_on(block: Tensor) -> bool:
    return fused is not None and fused.works(str(block.device))


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


# In place of kernels on the processor of these names.
_OWN = {"add_panel": _add_panel, "add_pairs": _add_pairs}
