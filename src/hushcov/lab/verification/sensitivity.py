"""Lemmas 7 and 8: how far one record can move S and the vector of queries."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hushcov.lab.verification.claim import Claim, agree, at_most
from hushcov.lab.verification.second_reading import read_again
from hushcov.lab.verification.setting import Setting
from hushcov.mechanisms.multiscale import TheoremParameters
from hushcov.records import IntegerGrid, open_records, second_moments

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_PAIRS = 40
_ROWS = 6  # records of a random dataset: only the replaced one moves the sums
_MOST_COLUMNS = 50


def entry_sensitivity(setting: Setting, *, seed: int = 0) -> Claim:
    """Replacing one record moves an entry of S by at most Delta = 2 R^2 / n."""
    parameters = setting.parameters
    grid = _grid(parameters)
    columns = min(parameters.inputs.n_features, _MOST_COLUMNS)
    generator = np.random.default_rng(seed)
    moved = 0
    for pair in range(_PAIRS):
        rows = _wild_rows(generator, (_ROWS, columns), grid.radius)
        if pair == 0:
            rows[0] = grid.radius
            rows[1] = grid.radius * np.where(np.arange(columns) % 2, -1, 1)
        moved = max(moved, int(np.abs(_gram_change(rows, grid)).max()))
    # In units of S an integer step weighs (R/h)^2 / n, an exact rational.
    unit = (Fraction(parameters.clip_radius) / grid.half_width) ** 2 / parameters.inputs.n_records
    again = read_again(parameters.inputs).sensitivity
    return at_most(
        "entry sensitivity",
        "Lemma 7",
        "|S_e(D) - S_e(D')| <= Delta = 2 R^2/n",
        bound=parameters.entry_sensitivity,
        measured=float(moved * unit),
        second=again,
        also=moved == 2 * grid.half_width**2 and agree(parameters.entry_sensitivity, again),
        detail=f"integer Gram of {_PAIRS} neighbouring pairs; (R, R) against (R, -R) attains it; "
        "second: 80-digit decimals",
    )


def query_sensitivity(setting: Setting) -> Claim:
    """The selected queries together move by at most Delta sqrt(A) in l2."""
    parameters = setting.parameters
    exact = _budget(parameters, parameters.quotas)
    again = read_again(parameters.inputs).query_budget
    # Every entry that this pair moves by Delta is queried as often as the quota allows.
    moved = _most_moved_entries(parameters)
    counts = [
        min(s_ell, moved * m_ell)
        for s_ell, m_ell in zip(parameters.quotas, parameters.repetitions, strict=True)
    ]
    attained = _budget(parameters, counts)
    bound = parameters.entry_sensitivity * math.sqrt(parameters.query_budget)
    return at_most(
        "query sensitivity",
        "Lemma 8",
        "||F_j(D) - F_j(D')||_2 <= Delta sqrt(A), A = sum s_l/t_l^2; unit Delta sqrt(A)",
        bound=1.0,
        measured=parameters.entry_sensitivity * math.sqrt(attained) / bound,
        second=parameters.entry_sensitivity * math.sqrt(exact) / bound,
        also=exact == again,
        detail=f"attained by alternating signs ({moved} entries move by Delta), thresholds at t_l; "
        "second: s_l/t_l^2 summed in rationals",
    )


def budget_size(setting: Setting) -> Claim:
    """A is at most 65 d rho k L + 260 H / (3 t_0^2)."""
    parameters = setting.parameters
    inputs = parameters.inputs
    bound = (
        65 * inputs.n_features * parameters.test_rate * inputs.row_sparsity * parameters.n_levels
        + 260 * parameters.log_factor / (3 * setting.base_threshold**2)
    )
    return at_most(
        "query budget",
        "Lemma 11",
        "A <= 65 d rho k L + 260 H/(3 t_0^2); unit the right side",
        bound=1.0,
        measured=parameters.query_budget / bound,
        second=float(read_again(inputs).query_budget) / bound,
        detail=f"A = {parameters.query_budget:.6g}; second: exact rationals",
    )


def _grid(parameters: TheoremParameters) -> IntegerGrid:
    return IntegerGrid(parameters.clip_radius, IntegerGrid.largest_half_width)


def _budget(parameters: TheoremParameters, counts: tuple[int, ...] | list[int]) -> Fraction:
    """Sum of counts / t_l^2, exactly: t_0 is a rational of the inputs."""
    inputs = parameters.inputs
    t_0 = Fraction(inputs.target_error) * Fraction(inputs.scale) ** 2 / (256 * inputs.row_sparsity)
    terms = (count / (t_0 * 2**ell) ** 2 for ell, count in enumerate(counts))
    return sum(terms, Fraction(0))


def _most_moved_entries(parameters: TheoremParameters) -> int:
    """Entries that move by the full sensitivity between (h, h, ...) and (h, -h, h, ...)."""
    grid = _grid(parameters)
    d = parameters.inputs.n_features
    rows = np.full((2, d), grid.radius)
    rows[1, 1::2] *= -1
    change = np.triu(_gram_change(rows, grid))
    return int(np.count_nonzero(np.abs(change) == 2 * grid.half_width**2))


def _gram_change(rows: FloatArray, grid: IntegerGrid) -> IntArray:
    """Gram of all rows but the second, minus Gram of all rows but the first: neighbours."""
    one = second_moments(open_records(np.delete(rows, 1, axis=0)), grid).gram
    other = second_moments(open_records(np.delete(rows, 0, axis=0)), grid).gram
    return np.asarray(one - other)


def _wild_rows(generator: np.random.Generator, shape: tuple[int, int], radius: float) -> FloatArray:
    """Rows inside the radius, at it, and absurdly far outside."""
    size = generator.choice([0.3, 1.0, 1e3, 1e250], size=(shape[0], 1))
    return np.asarray(radius * size * generator.standard_normal(shape))
