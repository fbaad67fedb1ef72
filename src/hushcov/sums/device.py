"""Sums over a block of rows on its device, through PyTorch.

Each function returns, bit for bit, the same integers as its counterpart on the processor: every
step that decides an integer is one IEEE operation on doubles (a product, a quotient, a root, or a
rounding to an integer), which processors and devices round alike. All sums are sums of integers
that doubles hold exactly, so their order does not matter.
"""

from __future__ import annotations

from typing import Any

import torch

from hushcov._arrays import LARGEST_EXACT_FLOAT
from hushcov.sums.grids import INSIDE
from hushcov.sums.products import EXACT_ROWS, ROOT_HALF

_LARGEST_INT32 = 2**31 - 1
_TILE = 8  # sizes of integer matrix products must be multiples of this
_FEWEST_ROWS = 32  # and at least this
_PRODUCT_BYTES = 2**30  # bytes of products held at a time

Tensor = Any


def integers_on_grid(block: Tensor, multipliers: Any, half_width: float) -> Tensor:
    """Coordinates times multipliers, clipped and rounded, as doubles."""
    factors = torch.as_tensor(multipliers, device=block.device)
    return (block * factors).clamp_(-half_width, half_width).round_()


def bound_rows(integers: Tensor, bound: float) -> Tensor:
    """Rows longer than the bound, scaled down to it and rounded towards zero."""
    square = (integers * integers).sum(dim=1)
    long = square > bound * bound
    factor = torch.where(long, _quotient(bound, square.sqrt()) * INSIDE, 1.0)
    return torch.where(long[:, None], (integers * factor[:, None]).trunc_(), integers)


def _quotient(number: float, tensor: Tensor) -> Tensor:
    """A correctly rounded quotient: PyTorch computes `number / tensor` by a reciprocal."""
    return torch.full_like(tensor, number).div_(tensor)


def exact_gram(integers: Tensor, largest_product: int) -> Tensor:
    """Gram matrix of integers held in doubles."""
    exact_rows = LARGEST_EXACT_FLOAT // largest_product
    gram: Tensor = 0
    for part in integers.split(exact_rows):
        gram = gram + (part.T @ part).to(torch.int64)
    return gram


def exact_sums(integers: Tensor) -> Tensor:
    """Sums over the rows of integers held in doubles."""
    return integers.to(torch.int64).sum(dim=0)


def sign_gram(block: Tensor, n_rows: int) -> Tensor:
    """The first rows of a Gram matrix of signs, in 8-bit products with 32-bit sums."""
    signs = torch.sign(block).to(torch.int8)
    n, d = signs.shape
    assert n <= _LARGEST_INT32
    padded = torch.zeros((_tiled(n), _tiled(d)), dtype=torch.int8, device=block.device)
    padded[:n, :d] = signs
    left = padded[:, : min(_tiled(n_rows), padded.shape[1])].T.contiguous()
    return torch._int_mm(left, padded)[:n_rows, :d].to(torch.int64)


def _tiled(size: int) -> int:
    return max(_FEWEST_ROWS, -(-size // _TILE) * _TILE)


def octave_counts(block: Tensor, shift: int, n_bins: int) -> Tensor:
    """How many values of each feature lie in each octave; see `log2_histogram`."""
    return _counts(_octaves(block, shift).clamp_(0, n_bins - 1), n_bins)


def signed_octave_counts(
    block: Tensor, centre: Any, nothing: Any, columns: Any, shift: int, n_octaves: int
) -> Tensor:
    """How many values lie in each octave on each side of a centre; see `signed_octaves`."""
    n_bins = 2 * n_octaves + 1
    total = torch.zeros((len(columns), n_bins), dtype=torch.int64, device=block.device)
    centre, nothing, columns = _on_device_of(block, centre, nothing, columns)
    for part in block.split(_rows_held(len(columns))):
        y = part[:, columns] - centre
        octaves = _octaves(y, shift)
        near = (y.abs() <= nothing) | (octaves <= 0)
        bins = octaves.clamp_(1, n_octaves) - 1 + n_octaves * (y > 0)
        total += _counts(torch.where(near, n_bins - 1, bins), n_bins)
    return total


def cell_counts(
    block: Tensor, columns: Any, starts: Any, widths: Any, firsts: Any, n_cells: int
) -> Tensor:
    """How many values lie in each cell of a grid; see `cell_counts` of the processor."""
    total = torch.zeros((len(columns), n_cells), dtype=torch.int64, device=block.device)
    columns, starts, widths, firsts = _on_device_of(block, columns, starts, widths, firsts)
    for part in block.split(_rows_held(len(columns))):
        cells = ((part[:, columns] - starts) / widths).floor_() - firsts
        inside = (cells >= 0) & (cells < n_cells)
        bins = torch.where(inside, cells, n_cells).to(torch.int64)
        total += _counts(bins, n_cells + 1)[:, :n_cells]
    return total


def _octaves(values: Tensor, shift: int) -> Tensor:
    """Exponents from the bits of doubles, plus `shift`."""
    return ((values.contiguous().view(torch.int64) >> 52) & 0x7FF) + shift


def _counts(bins: Tensor, n_bins: int) -> Tensor:
    """How often each bin occurs in each column."""
    d = bins.shape[1]
    first = torch.arange(d, device=bins.device) * n_bins
    return torch.bincount((bins + first).reshape(-1), minlength=d * n_bins).reshape(d, n_bins)


def _on_device_of(block: Tensor, *values: Any) -> list[Tensor]:
    return [torch.tensor(each, device=block.device) for each in values]


def _rows_held(n_columns: int) -> int:
    return max(1, _PRODUCT_BYTES // (64 * max(1, n_columns)))


def sign_sums(block: Tensor) -> Tensor:
    """Sums of the signs of each column; sgn(0) is 0."""
    return (block > 0).sum(0) - (block < 0).sum(0)


def sign_products(block: Tensor, rows: Any, columns: Any) -> Tensor:
    """Sums of products of signs of listed pairs of columns."""
    left, right = _on_device_of(block, rows, columns)
    total = torch.zeros(len(rows), dtype=torch.int64, device=block.device)
    for part in block.split(_rows_held(len(rows))):
        signs = torch.sign(part).to(torch.int8)
        total += (signs[:, left] * signs[:, right]).sum(dim=0, dtype=torch.int64)
    return total


def joined(*parts: Tensor) -> Tensor:
    """Parts of sums, one after the other."""
    return torch.cat(parts)


def norm_bins(block: Tensor, multipliers: Any, half_width: float, edges: Any) -> Tensor:
    """How many rows have their squared norm between edges; see `norm_histogram`."""
    integers = integers_on_grid(block, multipliers, half_width)
    square = (integers * integers).sum(dim=1)
    bins = torch.searchsorted(torch.as_tensor(edges, device=block.device), square)
    return torch.bincount(bins, minlength=len(edges) + 1)


def contributions(block: Tensor, arguments: tuple[Any, ...]) -> Tensor:
    """Summed contributions of the rows; see `ProductMap`."""
    *products, bounds = arguments
    norm_bound, factor_range, size_range, size_cap = (int(value) for value in bounds)
    n_products = len(products[2]) + block.shape[1]
    total = torch.zeros(n_products + 2, dtype=torch.int64, device=block.device)
    for part in block.split(_rows_at_a_time(n_products)):
        z, square, size = _products(part, *products)
        long = square > float(norm_bound) * float(norm_bound)
        factor = torch.where(long, _quotient(norm_bound, square.sqrt()) * INSIDE, 1.0)
        z = torch.where(long[:, None], (z * factor[:, None]).trunc_(), z)
        total[:n_products] += z.sum(dim=0).to(torch.int64)
        shares = torch.where(long, (factor * factor_range).to(torch.int64), factor_range)
        total[n_products] += shares.sum()
        sizes = size.to(torch.int64).clamp_(max=size_cap) * size_range // size_cap
        total[n_products + 1] += sizes.sum()
    return total


def norm_counts(block: Tensor, arguments: tuple[Any, ...], n_bins: int) -> Tensor:
    """How many rows have their norm in each bin; see `ProductMap`."""
    total = torch.zeros(n_bins, dtype=torch.int64, device=block.device)
    for part in block.split(_rows_at_a_time(len(arguments[2]) + block.shape[1])):
        _, square, _ = _products(part, *arguments)
        mantissa, exponent = torch.frexp(square)
        bins = 2 * exponent.to(torch.int64) + (mantissa >= ROOT_HALF)
        total += torch.bincount(bins, minlength=n_bins)
    return total


def _rows_at_a_time(n_products: int) -> int:
    return max(1, min(EXACT_ROWS, _PRODUCT_BYTES // (8 * n_products)))


def _products(
    block: Tensor, multipliers: Any, half_width: float, rows: Any, columns: Any, weights: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Weighted products of each row, their squared norm and that of the row."""
    pair_weight, diagonal_weight, centre = (float(weight) for weight in weights)
    y = integers_on_grid(block, multipliers, half_width)
    own = y * y
    n_pairs = len(rows)
    z = torch.empty((len(y), n_pairs + y.shape[1]), dtype=y.dtype, device=y.device)
    left = torch.as_tensor(rows, device=y.device)
    right = torch.as_tensor(columns, device=y.device)
    torch.mul(y[:, left], y[:, right], out=z[:, :n_pairs])
    z[:, :n_pairs] *= pair_weight
    z[:, n_pairs:] = (own - centre) * diagonal_weight
    return z, (z * z).sum(dim=1), own.sum(dim=1)
