"""Sums on a device by kernels of Triton, which read every value once; the integers of `device`.

Compact rows are a tensor of features by records, integers of two bytes in units of their feature.
Products of doubles are rounded one by one: kernels are launched without fused operations. Numbers
that change from fit to fit are not specialised: a kernel would be compiled again for some of them.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import functools
from typing import Any

import torch
import triton
import triton.language as tl

from hushcov.kernel.sums.counts import N_OCTAVES, N_SIGNED_BINS, OCTAVE_SHIFT
from hushcov.kernel.sums.products import N_NORM_BINS
from hushcov.kernel.sums.rows import MISSING, Centring, norm_bins, shortening

Tensor = Any
_MISSING, _SHIFT = tl.constexpr(MISSING), tl.constexpr(OCTAVE_SHIFT)
_OCTAVES, _NEAR = tl.constexpr(N_OCTAVES), tl.constexpr(N_SIGNED_BINS - 1)
_ROUNDING = tl.constexpr(1.5 * 2.0**52)  # added and taken off: rounds to integers, halves to even
_PLAIN, _FOURTHS, _SQUARES = 0, 1, 2  # what is made of integers
_FEATURES, _RECORDS, _PAIRS, _STEPS = 16, 128, 16, 8  # of a tile, and tiles of a program
_TOGETHER, _COUNTED = 2**16, 2**22  # records of which integers are held, and that are counted
_PANEL = 2560  # features whose signs are multiplied at a time


@functools.cache
def works(device: str) -> bool:
    """Return whether kernels can be compiled for a device."""
    try:
        rows = torch.ones((1, 1), dtype=torch.float64, device=device)
        return bool(compact(rows, [0.0], [2.0], [1.0])[0, 0] == 1)
    except Exception:  # whatever is missing there: a compiler, a driver, a type
        return False


def _launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    kernel[grid](*arguments, **constants, enable_fp_fusion=False)


def _vectors(device: Any, *values: Any) -> list[Tensor]:
    return [torch.tensor(each, dtype=torch.float64, device=device) for each in values]


# Rows of doubles, as they come.


def compact(block: Tensor, centre: Any, reach: Any, per_unit: Any) -> Tensor:
    """Return rows as compact ones: features by records. They are finite."""
    n, d = block.shape
    found = torch.empty((d, n), dtype=torch.int16, device=block.device)
    public = _vectors(block.device, centre, reach, per_unit)
    grid = triton.cdiv(n, 64), triton.cdiv(d, 32)
    _launch(_compact, grid, block.contiguous(), n, d, *public, found)
    return found


@triton.jit
def _compact(x, n, d, centre, reach, per_unit, found):
    j = tl.program_id(1) * 32 + tl.arange(0, 32)
    i = tl.program_id(0).to(tl.int64) * 64 + tl.arange(0, 64)
    own = j < d
    inside = (i < n)[:, None] & own[None, :]
    y = tl.load(x + i[:, None] * d + j[None, :], inside, 0.0)
    y = y - tl.load(centre + j, own, 0.0)[None, :]
    most = tl.load(reach + j, own, 0.0)[None, :]
    y = tl.minimum(tl.maximum(y, -most), most) * tl.load(per_unit + j, own, 0.0)[None, :]
    y = tl.trans((y + _ROUNDING - _ROUNDING).to(tl.int32).to(tl.int16))
    tl.store(found + j.to(tl.int64)[:, None] * n + i[None, :], y, tl.trans(inside))


def count_signed_octaves(block: Tensor, centre: Any, nothing: Any, columns: Any) -> Tensor:
    """Count values by octave on each side of a centre."""
    about = _vectors(block.device, centre, nothing)
    return _count(_count_octaves, block, columns, N_SIGNED_BINS, *about)


def count_cells(
    block: Tensor, columns: Any, starts: Any, widths: Any, firsts: Any, n_cells: int
) -> Tensor:
    """Count values by cell."""
    places = _vectors(block.device, starts, widths, firsts)
    return _count(_count_cells, block, columns, n_cells, *places, n_cells)


def _count(kernel: Any, block: Tensor, columns: Any, n_bins: int, *public: Any) -> Tensor:
    size = len(columns)
    counts = torch.zeros((n_bins, size), dtype=torch.int32, device=block.device)
    places = torch.tensor(columns, device=block.device)
    for part in block.split(_COUNTED) if size and len(block) else ():  # a grid ends at 65,535
        grid = triton.cdiv(size, 128), triton.cdiv(len(part), 16 * _STEPS)
        _launch(kernel, grid, part.contiguous(), *part.shape, places, size, *public, counts)
    return counts.T.to(torch.int64)


@triton.jit
def _values(x, n, d, columns, j, size, step):
    """Load a tile of some columns: the values, and which of them there are."""
    i = ((tl.program_id(1) * 8 + step) * 16 + tl.arange(0, 16)).to(tl.int64)
    inside = (i < n)[:, None] & (j < size)[None, :]
    place = tl.load(columns + j, j < size, 0)
    return tl.load(x + i[:, None] * d + place[None, :], inside, 0.0), inside


@triton.jit(do_not_specialize=["size"])
def _count_octaves(x, n, d, columns, size, centre, nothing, counts):
    j = tl.program_id(0) * 128 + tl.arange(0, 128)
    middle = tl.load(centre + j, j < size, 0.0)[None, :]
    least = tl.load(nothing + j, j < size, 0.0)[None, :]
    for step in range(8):
        value, inside = _values(x, n, d, columns, j, size, step)
        y = value - middle
        octave = (((y.to(tl.int64, bitcast=True) >> 52) & 0x7FF) + _SHIFT).to(tl.int32)
        bins = tl.minimum(octave, _OCTAVES) - 1 + tl.where(y > 0, _OCTAVES, 0)
        bins = tl.where((octave <= 0) | (tl.abs(y) <= least), _NEAR, bins)
        tl.atomic_add(counts + bins * size + j[None, :], 1, inside, sem="relaxed")


@triton.jit(do_not_specialize=["size"])
def _count_cells(x, n, d, columns, size, starts, widths, firsts, n_cells, counts):
    j = tl.program_id(0) * 128 + tl.arange(0, 128)
    start = tl.load(starts + j, j < size, 0.0)[None, :]
    width = tl.load(widths + j, j < size, 1.0)[None, :]
    first = tl.load(firsts + j, j < size, 0.0)[None, :]
    for step in range(8):
        value, inside = _values(x, n, d, columns, j, size, step)
        cell = tl.floor((value - start) / width) - first
        inside = inside & (cell >= 0) & (cell < n_cells)
        bins = tl.where(inside, cell, 0.0).to(tl.int32)
        tl.atomic_add(counts + bins * size + j[None, :], 1, inside, sem="relaxed")


# Compact rows, about a centre and within reach of it.


class CompactRows:
    """Some compact rows, and what is taken off them."""

    def __init__(self, rows: Tensor, about: Centring) -> None:
        self.rows, (self.d, self.n) = rows, rows.shape
        assert rows.stride(1) == 1
        self.device = rows.device
        self._about = _vectors(rows.device, about.unit, about.centre, about.reach)

    def parts(self) -> list[CompactRows]:
        """Return as many rows at a time as have room."""
        found = []
        for rows in self.rows.split(_TOGETHER, dim=1):
            part = object.__new__(CompactRows)
            vars(part).update(vars(self), rows=rows, n=rows.shape[1])
            found.append(part)
        return found

    def _given(self, grid: Any) -> tuple[Any, ...]:
        (factors,) = _vectors(self.device, grid[0])
        size = self.rows.stride(0), self.n, self.d
        return (self.rows, *size, *self._about, factors, float(grid[1]))

    def norms(self, grid: Any, kind: int, numbers: tuple[float, ...] = ()) -> tuple[Tensor, Tensor]:
        """Return squared norms of what is made of integers, and of the integers themselves."""
        square, size = torch.zeros((2, self.n), dtype=torch.float64, device=self.device)
        cells = (triton.cdiv(self.n, _RECORDS),)
        numbers = (*numbers, 0.0, 0.0)[:2]
        tile = {"KIND": kind, "BD": _FEATURES, "BN": _RECORDS}
        _launch(_norms, cells, *self._given(grid), *numbers, square, size, **tile)
        return square, size

    def sums(
        self, grid: Any, kind: int, numbers: tuple[float, ...], factor: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return sums of what is made of integers, times factors, towards zero; and of signs."""
        total, signs = torch.zeros((2, self.d), dtype=torch.int64, device=self.device)
        cells = triton.cdiv(self.d, _FEATURES), triton.cdiv(self.n, _RECORDS * _STEPS)
        numbers = (*numbers, 0.0, 0.0)[:2]
        tile = {"KIND": kind, "BD": _FEATURES, "BN": _RECORDS, "STEPS": _STEPS}
        _launch(_sums, cells, *self._given(grid), *numbers, factor, total, signs, **tile)
        return total, signs

    def integers(self, grid: Any) -> Tensor:
        """Return the integers of rows on a grid, below 2^15: features by records."""
        return self._filled(grid, torch.int16)

    def signs(self) -> Tensor:
        """Return the signs, beside zeros up to a multiple of 16 records and features."""
        return self._filled(([1.0] * self.d, 1.0), torch.int8)

    def _filled(self, grid: Any, kind: Any) -> Tensor:
        shape = triton.cdiv(self.d, 32) * 32, triton.cdiv(self.n, 32) * 32
        found = torch.empty(shape, dtype=kind, device=self.device)
        cells = shape[0] // 32, triton.cdiv(shape[1], 256)
        signs = {"SIGNS": kind == torch.int8, "BD": 32, "BN": 256}
        _launch(_fill, cells, *self._given(grid), found, shape[1], **signs)
        return found


@triton.jit
def _tile(rows, stride, n, d, unit, centre, reach, j, i):
    """Load a tile of centred rows: features by records."""
    inside = (j < d)[:, None] & (i < n)[None, :]
    q = tl.load(rows + j.to(tl.int64)[:, None] * stride + i[None, :], inside, 0)
    y = q.to(tl.float64) * tl.load(unit + j, j < d, 0.0)[:, None]
    y = y - tl.load(centre + j, j < d, 0.0)[:, None]
    most = tl.load(reach + j, j < d, 0.0)[:, None]
    y = tl.minimum(tl.maximum(y, -most), most)
    return tl.where((q == _MISSING) | (inside == 0), 0.0, y)


@triton.jit
def _rounded(y, factors, half_width, j, d):
    y = y * tl.load(factors + j, j < d, 0.0)[:, None]
    return tl.minimum(tl.maximum(y, -half_width), half_width) + _ROUNDING - _ROUNDING


@triton.jit
def _made(y, first, second, KIND: tl.constexpr):
    """Return integers as they are; their fourth powers; or their squares less a centre."""
    if KIND == 1:
        square = tl.minimum(y * y, first)
        y = tl.floor(square * square * second)
    if KIND == 2:
        y = first * (y * y - second)
    return y


@triton.jit
def _norms(
    rows, stride, n, d, unit, centre, reach, factors, half_width, first, second, square, size,
    KIND: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BN + tl.arange(0, BN)
    made, own = tl.zeros([BD, BN], tl.float64), tl.zeros([BD, BN], tl.float64)
    for start in range(0, d, BD):
        j = start + tl.arange(0, BD)
        y = _rounded(
            _tile(rows, stride, n, d, unit, centre, reach, j, i), factors, half_width, j, d
        )
        v = tl.where((j < d)[:, None], _made(y, first, second, KIND), 0.0)
        own += y * y
        made += v * v
    tl.store(square + i, tl.sum(made, 0), i < n)
    tl.store(size + i, tl.sum(own, 0), i < n)


@triton.jit
def _sums(
    rows, stride, n, d, unit, centre, reach, factors, half_width, first, second, scale, total,
    signs, KIND: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    j = tl.program_id(0) * BD + tl.arange(0, BD)
    made, above = tl.zeros([BD, BN], tl.int64), tl.zeros([BD, BN], tl.int32)
    for step in range(STEPS):
        i = (tl.program_id(1) * STEPS + step) * BN + tl.arange(0, BN)
        y = _tile(rows, stride, n, d, unit, centre, reach, j, i)
        above += (y > 0).to(tl.int32) - (y < 0).to(tl.int32)
        v = _made(_rounded(y, factors, half_width, j, d), first, second, KIND)
        made += (v * tl.load(scale + i, i < n, 0.0)[None, :]).to(tl.int64)
    tl.atomic_add(total + j, tl.sum(made, 1), j < d, sem="relaxed")
    tl.atomic_add(signs + j, tl.sum(above, 1).to(tl.int64), j < d, sem="relaxed")


@triton.jit
def _fill(
    rows, stride, n, d, unit, centre, reach, factors, half_width, found, width,
    SIGNS: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    j, i = tl.program_id(0) * BD + tl.arange(0, BD), tl.program_id(1) * BN + tl.arange(0, BN)
    y = _tile(rows, stride, n, d, unit, centre, reach, j, i)
    if SIGNS:
        z = (y > 0).to(tl.int8) - (y < 0).to(tl.int8)
    else:
        z = _rounded(y, factors, half_width, j, d).to(tl.int32).to(tl.int16)
    tl.store(found + j.to(tl.int64)[:, None] * width + i[None, :], z, (i < width)[None, :])


@triton.jit
def _products(y, width, left, right, n_pairs, e, i):
    """Load the products of a tile of pairs, by records."""
    own = e < n_pairs
    a = tl.load(left + e, own, 0)[:, None] * width + i[None, :]
    b = tl.load(right + e, own, 0)[:, None] * width + i[None, :]
    inside = own[:, None] & (i < width)[None, :]
    return tl.load(y + a, inside, 0).to(tl.int32) * tl.load(y + b, inside, 0).to(tl.int32)


@triton.jit(do_not_specialize=["n_pairs"])
def _pair_norms(y, width, left, right, n_pairs, square, STEPS, BE: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(1) * BN + tl.arange(0, BN)
    found = tl.zeros([BE, BN], tl.float64)
    for step in range(STEPS):
        e = (tl.program_id(0) * STEPS + step) * BE + tl.arange(0, BE)
        z = _products(y, width, left, right, n_pairs, e, i).to(tl.float64)
        found += z * z
    tl.atomic_add(square + i, tl.sum(found, 0), i < width, sem="relaxed")


@triton.jit(do_not_specialize=["n_pairs", "weight"])
def _pair_sums(
    y, width, left, right, n_pairs, weight, n, scale, total,
    STEPS: tl.constexpr, BE: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(0) * BE + tl.arange(0, BE)
    found = tl.zeros([BE, BN], tl.int64)
    for step in range(STEPS):
        i = (tl.program_id(1) * STEPS + step) * BN + tl.arange(0, BN)
        z = (_products(y, width, left, right, n_pairs, e, i) * weight).to(tl.float64)
        found += (z * tl.load(scale + i, i < n, 0.0)[None, :]).to(tl.int64)
    tl.atomic_add(total + e, tl.sum(found, 1), e < n_pairs, sem="relaxed")


def sum_rows(rows: CompactRows, grid: Any, bound: float) -> Tensor:
    """Sum bounded rows."""
    return rows.sums(grid, _PLAIN, (), shortening(rows.norms(grid, _PLAIN)[0], bound))[0]


def sum_fourths(rows: CompactRows, grid: Any, most: float, unit: float, bound: float) -> Tensor:
    """Sum fourth powers."""
    numbers = most, 1 / unit
    factor = shortening(rows.norms(grid, _FOURTHS, numbers)[0], bound)
    return rows.sums(grid, _FOURTHS, numbers, factor)[0]


def count_norms(rows: CompactRows, grid: Any, edges: Any, n_signs: int) -> Tensor:
    """Count rows by squared norm, after the sums of signs if there are any."""
    square, _ = rows.norms(grid, _PLAIN)
    (limits,) = _vectors(rows.device, edges)
    counts = torch.bincount(torch.searchsorted(limits, square), minlength=len(edges) + 1)
    return torch.cat([sum_signs(rows), counts]) if n_signs else counts


def sum_signs(rows: CompactRows) -> Tensor:
    """Sum the signs of each column; sgn(0) is 0."""
    nothing = torch.zeros(rows.n, dtype=torch.float64, device=rows.device)
    return rows.sums(([0.0] * rows.d, 1.0), _PLAIN, (), nothing)[1]


def add_panel(rows: CompactRows, start: int, stop: int) -> Tensor:
    """Sum signs, and their products in bytes, with 32-bit sums, from the diagonal on."""
    assert rows.n < 2**31
    first, last = start // 32 * 32, -(-stop // 32) * 32
    shape = last - first, -(-rows.d // 32) * 32 - first
    gram = torch.zeros(shape, dtype=torch.int32, device=rows.device)
    for part in rows.parts():
        signs = part.signs()[first:]
        for low in range(0, len(gram), _PANEL):  # no products below the diagonal
            own = signs[low : min(low + _PANEL, len(gram))]
            gram[low : low + _PANEL, low:] += torch._int_mm(own, signs[low:].T)
    low = start - first
    gram = gram[low : low + stop - start, low : low + rows.d - start].to(torch.int64)
    return torch.cat([sum_signs(rows)[None, start:], gram])


def add_contributions(
    rows: CompactRows, grid: Any, left: Any, right: Any, weights: Any, bounds: Any
) -> Tensor:
    """Sum the contributions of the rows; without bounds, count their norms."""
    n_pairs, (weight, *own) = len(left), (float(each) for each in weights)
    places = [torch.tensor(each, dtype=torch.int64, device=rows.device) for each in (left, right)]
    total = torch.zeros(
        n_pairs + rows.d + 2 if len(bounds) else N_NORM_BINS, dtype=torch.int64, device=rows.device
    )
    for part in rows.parts():
        square, size = part.norms(grid, _SQUARES, tuple(own))
        y = part.integers(grid) if n_pairs else None
        if y is not None:
            pairs = torch.zeros(y.shape[1], dtype=torch.float64, device=rows.device)
            cells = triton.cdiv(n_pairs, 64 * _PAIRS), triton.cdiv(y.shape[1], _RECORDS)
            tile: dict[str, Any] = {"BE": _PAIRS, "BN": _RECORDS}
            _launch(_pair_norms, cells, y, y.shape[1], *places, n_pairs, pairs, 64, **tile)
            square += weight * weight * pairs[: part.n]
        if not len(bounds):
            total += torch.bincount(norm_bins(square, N_NORM_BINS), minlength=N_NORM_BINS)
            continue
        norm_bound, factor_range, size_range, size_cap = (int(value) for value in bounds)
        factor = shortening(square, float(norm_bound))
        if y is not None:
            cells = triton.cdiv(n_pairs, _PAIRS), triton.cdiv(part.n, _RECORDS * _STEPS)
            given = (y, y.shape[1], *places, n_pairs, int(weight), part.n, factor, total)
            _launch(_pair_sums, cells, *given, STEPS=_STEPS, **tile)
        total[n_pairs:-2] += part.sums(grid, _SQUARES, tuple(own), factor)[0]
        shares = (factor * factor_range).to(torch.int64)
        total[-2] += torch.where(factor < 1.0, shares, factor_range).sum()
        total[-1] += (size.to(torch.int64).clamp_(max=size_cap) * size_range // size_cap).sum()
    return total
