"""Sums over a block of rows on its device, through PyTorch.

Each function returns, bit for bit, the integers of the kernel of the same name on the processor,
and takes the same arguments: every step that decides an integer is one IEEE operation on doubles (a
product, a quotient, a root, or a rounding to an integer), which processors and devices round alike.
All sums are sums of integers that doubles hold exactly, so their order does not matter.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from typing import Any

import numpy as np
import torch

from hushcov._arrays import LARGEST_EXACT_FLOAT
from hushcov.kernel.grids import shortening
from hushcov.kernel.records.base import device_block_rows
from hushcov.kernel.sums.counts import N_BINS, N_OCTAVES, N_SIGNED_BINS, OCTAVE_SHIFT
from hushcov.kernel.sums.products import EXACT_ROWS, N_NORM_BINS
from hushcov.kernel.sums.rows import MISSING, ROOT_HALF, RowSums

try:
    from hushcov.engines import fused
except ImportError:  # no Triton: the same integers, in more readings
    fused = None  # type: ignore[assignment]

_LARGEST_INT32 = 2**31 - 1
_TILE = 8  # sizes of integer matrix products must be multiples of this
_FEWEST_ROWS = 32  # and at least this
_PRODUCT_BYTES = 2**30  # bytes of products held at a time

_NO_PAIRS = np.zeros(0, dtype=np.int64)
_SPARE_BYTES = 2**32  # of a device, for blocks beside a compact copy

Tensor = Any


def sums_of(sums: RowSums, block: Tensor) -> Tensor:
    """Return the sums of a block: of rows, or of compact ones if what is taken off has units."""
    about = sums.about
    if about is None or about.unit is None:
        return sums.of_tensor(block if about is None else about.of_tensor(block))
    names = [each.kernel.__name__ for each in getattr(sums, "sums", (sums,))]
    if _fused_on(block) and all(hasattr(fused, name) for name in names):
        return sums.of_tensor(fused.CompactRows(block.T, about))
    parts = block.split(device_block_rows(block.shape[1]))
    found = (sums.of_tensor(about.of_tensor(part)) for part in parts)
    return functools.reduce(operator.add, found)


def kernel_for(name: str, rows: Any) -> Any:
    """Return the function of this name for rows on a device: one that reads them once, if any."""
    if not isinstance(rows, torch.Tensor):
        return getattr(fused, name)
    counts = name in ("count_signed_octaves", "count_cells") and rows.dtype == torch.float64
    return getattr(fused if counts and _fused_on(rows) else sys.modules[__name__], name)


def _fused_on(block: Tensor) -> bool:
    return fused is not None and fused.works(str(block.device))


def to_host(sums: Tensor) -> Any:
    """Return a tensor as an array; by memory that a device copies to at full speed."""
    if not sums.is_cuda:
        return np.asarray(sums.cpu())
    return torch.empty(sums.shape, dtype=sums.dtype, pin_memory=True).copy_(sums).numpy()


def has_room(device: str, size: int) -> bool:
    """Return whether a device has room for so many bytes, and for blocks beside them."""
    if torch.device(device).type != "cuda":
        return False
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return bool(size + _SPARE_BYTES <= torch.cuda.mem_get_info(device)[0] + cached)


def centre_rows(block: Tensor, centre: Any, reach: Any, unit: Any = None) -> Tensor:
    """Return rows less their centre, within reach of it; compact ones have a unit."""
    middle, most = _on_device_of(block, centre, reach)
    if unit is None:
        return (block - middle).clip_(-most, most)
    rows = (block * _on_device_of(block, unit)[0]).sub_(middle).clip_(-most, most)
    return rows.masked_fill_((block[:, 0] == MISSING)[:, None], 0.0)


def compact(block: Tensor, centre: Any, reach: Any, per_unit: Any, *, whole: bool) -> Tensor:
    """Return rows as integers, features by records; `whole` says that no value is missing."""
    if whole and _fused_on(block):
        return fused.compact(block, centre, reach, per_unit)
    rows = centre_rows(block, centre, reach).mul_(_on_device_of(block, per_unit)[0]).round_()
    return rows.masked_fill_(rows.isnan().any(1)[:, None], MISSING).T.to(torch.int16)


def score_pairs(
    products: Tensor, sums: Tensor, tilt: Any, most: Any, unit: int, size: tuple[int, int]
) -> Tensor:
    """Make products of signs scores: `CentredSigns`; `size` has their number and resolution."""
    n, resolution = size
    tilt, most = _on_device_of(products, tilt, most)
    own = tilt[: len(products), None], sums[: len(products), None], most[: len(products), None]
    centred = (n * own[0] - unit * own[1]) * tilt - unit * own[0] * sums
    centred += unit * unit * products
    return (resolution * centred.abs()).div_(own[2] * most, rounding_mode="floor") * centred.sign()


def pairs_above(products: Tensor, largest: int) -> Tensor:
    """Return what is above the diagonal, row by row; in four bytes each, if that is enough."""
    kind = torch.int32 if largest < _LARGEST_INT32 + 1 else torch.int64
    inside = torch.ones(products.shape, dtype=torch.bool, device=products.device).triu_(1)
    return products.to(kind).masked_select(inside)


def _integers(block: Tensor, grid: Any) -> Tensor:
    """Return coordinates times multipliers, clipped and rounded, as doubles."""
    factors, half_width = torch.as_tensor(grid[0], device=block.device), grid[1]
    return (block * factors).clamp_(-half_width, half_width).round_()


def shorten_rows(integers: Tensor, bound: float) -> Tensor:
    """Return rows, where longer than the bound scaled down to it and rounded towards zero."""
    factor = shortening((integers * integers).sum(dim=1), bound)
    return (integers * factor[:, None]).trunc_()


def bounded_integers(block: Tensor, grid: Any, bound: float) -> Tensor:
    """Return what `fill_rows` fills in."""
    integers = _integers(block, grid)
    return shorten_rows(integers, bound) if bound < math.inf else integers


def fill_rows(block: Tensor, grid: Any, bound: float) -> Tensor:
    """Return the Gram matrix of bounded rows."""
    integers = bounded_integers(block, grid, bound)
    gram: Tensor = 0
    for part in integers.split(LARGEST_EXACT_FLOAT // int(grid[1]) ** 2):
        gram = gram + (part.T @ part).to(torch.int64)
    return gram


def sum_rows(block: Tensor, grid: Any, bound: float) -> Tensor:
    """Sum bounded rows."""
    integers = bounded_integers(block, grid, bound)
    return integers.to(torch.int64).sum(dim=0)


def sum_fourths(block: Tensor, grid: Any, most: float, unit: float, bound: float) -> Tensor:
    """Sum fourth powers."""
    squares = _integers(block, grid).square_().clamp_(max=most)
    powers = squares.square_().mul_(1 / unit).floor_()
    return shorten_rows(powers, bound).to(torch.int64).sum(dim=0)


def add_panel(block: Tensor, start: int, stop: int) -> Tensor:
    """Sum signs, and their products in bytes, with 32-bit sums."""
    block, n_rows = block[:, start:], stop - start
    signs = torch.sign(block).to(torch.int8)
    n, d = signs.shape
    assert n <= _LARGEST_INT32
    padded = torch.zeros((_tiled(n), _tiled(d)), dtype=torch.int8, device=block.device)
    padded[:n, :d] = signs
    left = padded[:, : min(_tiled(n_rows), padded.shape[1])].T.contiguous()
    gram = torch._int_mm(left, padded)[:n_rows, :d].to(torch.int64)
    return torch.cat([sum_signs(block)[None], gram])


def _tiled(size: int) -> int:
    return max(_FEWEST_ROWS, -(-size // _TILE) * _TILE)


def count_rows(block: Tensor) -> Tensor:
    """Count rows."""
    return torch.full((1,), len(block), dtype=torch.int64, device=block.device)


def count_octaves(block: Tensor) -> Tensor:
    """Count values of each feature by octave."""
    return _counts(_octaves(block).clamp_(0, N_BINS - 1), N_BINS)


def count_signed_octaves(block: Tensor, centre: Any, nothing: Any, columns: Any) -> Tensor:
    """Count values by octave on each side of a centre."""
    total = torch.zeros((len(columns), N_SIGNED_BINS), dtype=torch.int64, device=block.device)
    centre, nothing, columns = _on_device_of(block, centre, nothing, columns)
    for part in block.split(_rows_held(len(columns))):
        y = part[:, columns] - centre
        octaves = _octaves(y)
        near = (y.abs() <= nothing) | (octaves <= 0)
        bins = octaves.clamp_(1, N_OCTAVES) - 1 + N_OCTAVES * (y > 0)
        total += _counts(torch.where(near, N_SIGNED_BINS - 1, bins), N_SIGNED_BINS)
    return total


def count_cells(
    block: Tensor, columns: Any, starts: Any, widths: Any, firsts: Any, n_cells: int
) -> Tensor:
    """Count values by cell."""
    total = torch.zeros((len(columns), n_cells), dtype=torch.int64, device=block.device)
    columns, starts, widths, firsts = _on_device_of(block, columns, starts, widths, firsts)
    for part in block.split(_rows_held(len(columns))):
        cells = ((part[:, columns] - starts) / widths).floor_() - firsts
        inside = (cells >= 0) & (cells < n_cells)
        bins = torch.where(inside, cells, n_cells).to(torch.int64)
        total += _counts(bins, n_cells + 1)[:, :n_cells]
    return total


def count_between(block: Tensor, columns: Any, edges: Any) -> Tensor:
    """Count values between edges."""
    columns, edges = _on_device_of(block, columns, edges)
    bins = torch.searchsorted(edges, block[:, columns].T.contiguous(), side="right")
    return _counts(bins.T, edges.shape[1] + 1)


def _octaves(values: Tensor) -> Tensor:
    """Return exponents from the bits of doubles; that of the smallest octave is 1."""
    return ((values.contiguous().view(torch.int64) >> 52) & 0x7FF) + OCTAVE_SHIFT


def _counts(bins: Tensor, n_bins: int) -> Tensor:
    """Return how often each bin occurs in each column."""
    d = bins.shape[1]
    first = torch.arange(d, device=bins.device) * n_bins
    return torch.bincount((bins + first).reshape(-1), minlength=d * n_bins).reshape(d, n_bins)


def _on_device_of(block: Tensor, *values: Any) -> list[Tensor]:
    return [torch.tensor(each, device=block.device) for each in values]


def _rows_held(n_columns: int) -> int:
    return max(1, _PRODUCT_BYTES // (64 * max(1, n_columns)))


def sum_signs(block: Tensor) -> Tensor:
    """Sum the signs of each column; sgn(0) is 0."""
    return (block > 0).sum(0) - (block < 0).sum(0)


def add_pairs(block: Tensor, rows: Any, columns: Any) -> Tensor:
    """Sum products of signs of listed pairs of columns, then signs."""
    left, right = _on_device_of(block, rows, columns)
    total = torch.zeros(len(rows), dtype=torch.int64, device=block.device)
    for part in block.split(_rows_held(len(rows))):
        signs = torch.sign(part).to(torch.int8)
        total += (signs[:, left] * signs[:, right]).sum(dim=0, dtype=torch.int64)
    return torch.cat([total, sum_signs(block)])


def count_norms(block: Tensor, grid: Any, edges: Any, n_signs: int) -> Tensor:
    """Count rows by squared norm, after the sums of signs if there are any."""
    square = _integers(block, grid).square_().sum(dim=1)
    bins = torch.searchsorted(torch.as_tensor(edges, device=block.device), square)
    counts = torch.bincount(bins, minlength=len(edges) + 1)
    return torch.cat([sum_signs(block), counts]) if n_signs else counts


def add_contributions(
    block: Tensor, grid: Any, rows: Any, columns: Any, weights: Any, bounds: Any
) -> Tensor:
    """Sum the contributions of the rows; without bounds, count their norms."""
    n_products = len(rows) + block.shape[1]
    size = n_products + 2 if len(bounds) else N_NORM_BINS
    total = torch.zeros(size, dtype=torch.int64, device=block.device)
    step = max(1, min(EXACT_ROWS, _PRODUCT_BYTES // (8 * n_products)))
    for part in block.split(step):
        y = _integers(part, grid)
        z = _products(y, rows, columns, weights)
        square = (z * z).sum(dim=1)
        if not len(bounds):
            mantissa, exponent = torch.frexp(square)
            bins = 2 * exponent.to(torch.int64) + (mantissa >= ROOT_HALF)
            total += torch.bincount(bins, minlength=N_NORM_BINS)
            continue
        norm_bound, factor_range, size_range, size_cap = (int(value) for value in bounds)
        factor = shortening(square, float(norm_bound))
        total[:n_products] += (z * factor[:, None]).trunc_().sum(dim=0).to(torch.int64)
        shares = (factor * factor_range).to(torch.int64)
        total[n_products] += torch.where(factor < 1.0, shares, factor_range).sum()
        sizes = (y * y).sum(dim=1).to(torch.int64).clamp_(max=size_cap) * size_range // size_cap
        total[n_products + 1] += sizes.sum()
    return total


def add_sums_and_squares(
    block: Tensor, _: Any, __: float, grid: Any, weights: Any, bounds: Any
) -> Tensor:
    """Sum the contributions of the rows without pairs; bounded rows are summed by `sum_rows`."""
    return add_contributions(block, grid, _NO_PAIRS, _NO_PAIRS, weights, bounds)


def _products(y: Tensor, rows: Any, columns: Any, weights: Any) -> Tensor:
    """Return the weighted products of each row of integers."""
    pair_weight, diagonal_weight, centre = (float(weight) for weight in weights)
    n_pairs = len(rows)
    z = torch.empty((len(y), n_pairs + y.shape[1]), dtype=y.dtype, device=y.device)
    left, right = _on_device_of(y, rows, columns)
    torch.mul(y[:, left], y[:, right], out=z[:, :n_pairs])
    z[:, :n_pairs] *= pair_weight
    z[:, n_pairs:] = (y * y - centre) * diagonal_weight
    return z
