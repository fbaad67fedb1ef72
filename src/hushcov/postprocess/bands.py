"""Bands of correlations made positive semidefinite, in time and memory of the band alone.

Privacy
-------
Post-processing: what is computed from a release is covered by its guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import share_out
from hushcov.postprocess.matrices import project_psd

#: No eigenvalue is smaller afterwards, up to rounding.
LEAST_EIGENVALUE = 1e-6
#: Rounds of projections in windows before what is left is shrunk.
ROUNDS = 4


@dataclass(frozen=True)
class BandRules:
    """Windows in which bands are mended, and the search for what is left; see `export_psd.py`."""

    # Features of a window of projections, or that many widths of the band; and the same of a window
    # whose smallest eigenvalue is found.
    least_small: int = 32
    small_widths: int = 4
    least_window: int = 1024
    window_widths: int = 32
    # Entries of windows worked on at a time, and windows.
    batch: int = 2**20
    at_once: int = 8
    # Amounts that are tried on the diagonal: the first, how they grow, and halvings afterwards.
    smallest: float = 1e-5
    growth: float = 4.0
    halvings: int = 8


_RULES = BandRules()


Progress = Callable[[float], None]


def mend_band(band: FloatArray, progress: Progress | None = None) -> FloatArray:
    """Return correlations near these whose matrix has no eigenvalue below zero.

    `band[i, k]` is the entry at (i, i + k), with ones in its first column and zeros beyond the
    last feature; the answer has the same form. `progress` is told which share is done. A matrix
    without eigenvalues below `LEAST_EIGENVALUE` is returned as it is.

    1. Rounds of projections: negative eigenvalues of overlapping windows are taken out, what that
       adds is put together with weights whose squares sum to one, and what it adds to the diagonal
       and outside the band is left out. In the last round rows and columns are scaled instead, so
       that the diagonal is one.
    2. What is left is mended by S (R + T) S with S = (I + T)^(-1/2), where T is diagonal and about
       as large as the smallest eigenvalue near each feature asks for. Cholesky's factorization of
       the whole band shows that R + T has none below `LEAST_EIGENVALUE`, or T grows.
    """
    tell = progress or (lambda share: None)
    band = np.array(band, dtype=np.float64, order="C")
    if not definite(band, -LEAST_EIGENVALUE):
        for done in range(ROUNDS):
            _project(band, rescale=done == ROUNDS - 1)
            tell((done + 1) / (ROUNDS + 1))
        _shrink(band)
    tell(1.0)
    return band


def definite(band: FloatArray, added: float | FloatArray = 0.0) -> bool:
    """Return whether a band, with `added` on its diagonal, has positive eigenvalues."""
    form = band.T.copy(order="F")  # which the factorization overwrites
    form[0] += added
    _, failed_at = lapack.dpbtrf(form, lower=1, overwrite_ab=1)
    return bool(failed_at == 0)


def _project(band: FloatArray, *, rescale: bool) -> None:
    """Take negative eigenvalues out of windows, in place; the diagonal stays one."""
    d, width = band.shape[0], band.shape[1] - 1
    half = max(_RULES.least_small, _RULES.small_widths * width) // 2
    number = -(-d // half) + 1  # of windows: every feature is in two
    padded = np.zeros(((number + 1) * half, width + 1))
    padded[:, 0] = 1.0
    padded[half : half + d] = band
    change = np.zeros_like(padded)
    many = max(1, _RULES.batch // (4 * half * half))
    for parity in (0, 1):  # windows of one parity do not overlap
        starts = np.arange(parity, number, 2) * half
        parts = np.array_split(starts, -(-len(starts) // many))
        _in_threads(lambda some: _windows(padded, change, some, half), parts)
    band += change[half : half + d]
    if rescale:
        _rescale(band, 1 / np.sqrt(band[:, 0]))
    band[:, 0] = 1.0


def _in_threads(work: Callable[[IntArray], None], parts: Sequence[IntArray]) -> None:
    """Work on all parts in threads; numpy and LAPACK run without the interpreter."""
    with threadpool_limits(1, "blas"):  # small matrices: threads of LAPACK would wait for others
        share_out(work, parts)


def _windows(padded: FloatArray, change: FloatArray, starts: IntArray, half: int) -> None:
    """Add what some windows that do not overlap need to be positive semidefinite."""
    width = padded.shape[1] - 1
    i = np.arange(2 * half)
    lag, low = np.abs(i[:, None] - i), np.minimum(i[:, None], i)
    inside = np.minimum(lag, width)
    windows = padded[starts[:, None, None] + low, inside]
    windows *= lag <= width
    values, vectors = np.linalg.eigh(windows)
    weight = np.sin(np.pi * (i + 0.5) / (2 * half))
    root = vectors * np.sqrt(np.maximum(-values, 0.0))[:, None, :] * weight[:, None]
    added = root @ root.transpose(0, 2, 1)
    rows, columns = np.nonzero((lag <= width) & (i[:, None] <= i))
    change[starts[:, None] + rows, columns - rows] += added[:, rows, columns]


def _rescale(band: FloatArray, scale: FloatArray) -> None:
    """Multiply rows and columns by these factors, in place; the diagonal becomes one."""
    d = len(band)
    for lag in range(1, band.shape[1]):
        band[: d - lag, lag] *= scale[: d - lag] * scale[lag:]
    band[:, 0] = 1.0


def _shrink(band: FloatArray) -> None:
    """Take correlations towards zero, near each feature by about what its neighbourhood needs."""
    d, width = band.shape[0], band.shape[1] - 1
    half = max(_RULES.least_window, _RULES.window_widths * width) // 2
    starts = np.arange(0, max(1, d - half), half)
    found = np.zeros(len(starts))

    def look(places: IntArray) -> None:
        for place in places:
            found[place] = _needed(band[starts[place] : starts[place] + 2 * half])

    _in_threads(look, np.array_split(np.arange(len(starts)), -(-len(starts) // _RULES.at_once)))
    needed = np.zeros(d)
    for start, amount in zip(starts, found, strict=True):
        near = slice(start, start + 2 * half)
        needed[near] = np.maximum(needed[near], amount)
    more = LEAST_EIGENVALUE
    while not definite(band, needed - LEAST_EIGENVALUE):
        needed += more
        more *= _RULES.growth
    _rescale(band, 1 / np.sqrt(1 + needed))


def _needed(window: FloatArray) -> float:
    """Return about the smallest amount on the diagonal that makes a window definite; not less."""
    if definite(window, -LEAST_EIGENVALUE):
        return 0.0
    low, high = 0.0, _RULES.smallest
    while not definite(window, high - LEAST_EIGENVALUE):
        low, high = high, _RULES.growth * high
    for _ in range(_RULES.halvings):
        middle = 0.5 * (low + high)
        if definite(window, middle - LEAST_EIGENVALUE):
            high = middle
        else:
            low = middle
    return high


def mend_dense(matrix: FloatArray, *, rounds: int = ROUNDS) -> FloatArray:
    """Mend a whole correlation matrix; entries that are zero stay zero.

    Alternating projections (Higham, IMA J. Numer. Anal. 22, 2002, without his correction), then
    all off-diagonal entries are multiplied by what leaves no eigenvalue below the least.
    """
    there, mended = matrix != 0, matrix.copy()
    smallest = float(np.linalg.eigvalsh(mended)[0])
    if smallest >= LEAST_EIGENVALUE:
        return mended
    for _ in range(rounds):
        mended = np.where(there, project_psd(mended), 0.0)
        np.fill_diagonal(mended, 1.0)
    smallest = float(np.linalg.eigvalsh(mended)[0])
    mended *= min(1.0, (1 - LEAST_EIGENVALUE) / (1 - smallest))  # eigenvalues but 1 move towards 1
    np.fill_diagonal(mended, 1.0)
    return mended
