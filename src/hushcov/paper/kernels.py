"""Probabilities of one candidate test, integrated over its random threshold.

A level is measured in its own unit: threshold T = t_ell * tau with tau uniform on [1, 2], and
alpha = |S_e| / t_ell. The normalised query of an active test is omega = alpha / tau, so omega
runs over [alpha/2, alpha] with density alpha / omega^2. Scores are shifted by one: an active test
has noisy score omega + zeta, an inactive one -1 + zeta, zeta Laplace (the paper) or Gumbel with
scale b.

Integrals are Gauss-Legendre over panels that are walked from left to right. A panel never spans
more than a few b near an end of the score interval, nor more than two r near omega = 1, and it
never crosses a kink. Distances to those points are formed from the panel's own end, where the
subtraction is exact, so every mass is accurate in relative terms however narrow its interval is
and however small b and r are. `parameters.LOG_ODDS_ERROR` bounds what is left of errors.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray
from hushcov._compiled import compiled

INACTIVE = -1.0  # stands for alpha in the pooled group of inactive tests

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
# Selection noise varies over a few b around an end of the score interval: how wide a panel may be
# there, and how far below and above the end that lasts. Beyond, exp(-80) = 2e-35 is left.
_LAPLACE_PANEL, _LAPLACE_BELOW, _LAPLACE_ABOVE = 4.0, 80.0, 80.0
_GUMBEL_PANEL, _GUMBEL_BELOW, _GUMBEL_ABOVE = 1.5, 80.0, 5.0  # exp(-e^5) = 3e-65
_GATE_PANEL, _GATE_REACH = 2.0, 13.0  # in units of r; P(N(0,1) > 13) = 6e-39
_SQRT2 = math.sqrt(2.0)
_LARGEST_ALPHA = 1e100
_TINY, _FLAT = 1e-290, 1e-200


@compiled
def laplace_mass(low: float, high: float, width: float, b: float) -> float:
    """P(low < zeta <= high) for zeta Laplace with scale b, without cancellation.

    `width` is high - low, given because the two ends may be rounded to more than it.
    """
    if low >= 0.0:
        return -0.5 * math.exp(-low / b) * math.expm1(-width / b)
    if high <= 0.0:
        return -0.5 * math.exp(high / b) * math.expm1(-width / b)
    return -0.5 * (math.expm1(low / b) + math.expm1(-high / b))


@compiled
def gumbel_mass(low: float, high: float, width: float, b: float) -> float:
    """P(low < zeta <= high) for zeta Gumbel with scale b: exp(-A2) - exp(-A1), A = e^(-end/b)."""
    upper = math.exp(-high / b)
    if width < 30.0 * b:
        return -math.exp(-upper) * math.expm1(-upper * math.expm1(width / b))
    return (
        math.exp(-upper) - math.exp(-math.exp(-low / b))
        if low < 0.0
        else (-math.exp(-upper) * math.expm1(upper - math.exp(-low / b)))
    )


@compiled
def noise_mass(low: float, high: float, width: float, b: float, gumbel: bool) -> float:
    """P(low < zeta <= high) for the selection noise of the level."""
    return gumbel_mass(low, high, width, b) if gumbel else laplace_mass(low, high, width, b)


@compiled
def _limited(alpha: float) -> float:
    """Alpha within a range whose squares are representable; nothing larger or smaller matters."""
    if alpha > _LARGEST_ALPHA:
        return _LARGEST_ALPHA
    return 0.0 if 0.0 < alpha < 1.0 / _LARGEST_ALPHA else alpha


@compiled
def _panel_end(
    start: float, stop: float, lo: float, hi: float, b: float, r: float, gumbel: bool
) -> float:
    """How far a panel from `start` may reach without losing accuracy; at most `stop`."""
    panel = (_GUMBEL_PANEL if gumbel else _LAPLACE_PANEL) * b
    below = (_GUMBEL_BELOW if gumbel else _LAPLACE_BELOW) * b
    above = (_GUMBEL_ABOVE if gumbel else _LAPLACE_ABOVE) * b
    end = min(stop, 2.0 * start)
    for edge in (lo, hi):
        if math.isinf(edge):
            continue
        if start < edge - below:
            end = min(end, edge - below)
        elif start < edge + above:
            end = min(end, start + panel)
        if start < edge:
            end = min(end, edge)
    if r > 0.0:
        reach = _GATE_REACH * r
        if start < 1.0 - reach:
            end = min(end, 1.0 - reach)
        elif start < 1.0 + reach:
            end = min(end, start + _GATE_PANEL * r)
    # Where b or r is below the last bit of omega a panel still has to advance.
    return max(end, min(stop, float(np.nextafter(start, np.inf))))


@compiled
def _relevant_range(
    alpha: float, lo: float, hi: float, b: float, gumbel: bool
) -> tuple[float, float]:
    """The part of [alpha/2, alpha] that carries the mass of (lo, hi] to relative accuracy."""
    start, stop = 0.5 * alpha, alpha
    if not math.isinf(lo):
        start = max(start, min(lo, stop) - (_GUMBEL_BELOW if gumbel else _LAPLACE_BELOW) * b)
    if not math.isinf(hi):
        stop = min(stop, max(hi, start) + (_GUMBEL_ABOVE if gumbel else _LAPLACE_ABOVE) * b)
    return start, stop


@compiled
def score_mass(alpha: float, lo: float, hi: float, b: float, gumbel: bool = False) -> float:
    """P(lo < noisy score <= hi) for one test with query ceiling `alpha` (or INACTIVE)."""
    alpha = _limited(alpha)
    if alpha <= 0.0:
        return noise_mass(lo - alpha, hi - alpha, hi - lo, b, gumbel)
    start, stop = _relevant_range(alpha, lo, hi, b, gumbel)
    total = 0.0
    while start < stop:
        end = _panel_end(start, stop, lo, hi, b, 0.0, gumbel)
        width = end - start
        panel = 0.0
        for node in range(len(_NODES)):
            step = 0.5 * width * (1.0 + _NODES[node])
            omega = start + step
            mass = noise_mass((lo - start) - step, (hi - start) - step, hi - lo, b, gumbel)
            panel += _WEIGHTS[node] * mass / (omega * omega)
        total += 0.5 * width * panel
        start = end
    return alpha * total


@compiled
def gate_tail(y: float, r: float, clip: float) -> float:
    """P(Z > y) for Z the N(0, r^2) noise clipped to [-clip, clip]."""
    if y >= clip:
        return 0.0
    if y < -clip:
        return 1.0
    return 0.5 * math.erfc(y / (_SQRT2 * r))


@compiled
def gate_masses(
    alpha: float, lo: float, hi: float, b: float, r: float, clip: float, gumbel: bool = False
) -> tuple[float, float, float]:
    """P(score in (lo, hi] and gate = g) for g = sign of S, the opposite sign, and 0."""
    alpha = _limited(alpha)
    if alpha <= 0.0:
        kept = noise_mass(lo, hi, hi - lo, b, gumbel)
        fire = kept * gate_tail(1.0, r, clip)
        return fire, fire, kept - 2.0 * fire
    start, stop = _relevant_range(alpha, lo, hi, b, gumbel)
    same = opposite = silent = 0.0
    while start < stop:
        end = _panel_end(start, stop, lo, hi, b, r, gumbel)
        for kink in (1.0 - clip, 1.0 + clip):
            if start < kink:
                end = min(end, kink)
        width = end - start
        middle = start + 0.5 * width
        below, above = middle <= 1.0 - clip, middle >= 1.0 + clip
        for node in range(len(_NODES)):
            step = 0.5 * width * (1.0 + _NODES[node])
            omega = start + step
            kept = noise_mass((lo - start) - step, (hi - start) - step, hi - lo, b, gumbel)
            weight = 0.5 * width * _WEIGHTS[node] * kept / (omega * omega)
            y = ((1.0 - start) - step) / (_SQRT2 * r)
            fire = 0.0 if below else 1.0 if above else 0.5 * math.erfc(y)
            rest = 1.0 if below else 0.0 if above else 0.5 * math.erfc(-y)
            wrong = gate_tail(1.0 + omega, r, clip)
            same += weight * fire
            opposite += weight * wrong
            silent += weight * (rest - wrong)
        start = end
    return alpha * same, alpha * opposite, alpha * silent


@compiled
def fill_score_masses(
    start: int,
    stop: int,
    alpha: FloatArray,
    lo: float,
    split: float,
    hi: float,
    b: float,
    gumbel: bool,
    above: FloatArray,
    below: FloatArray,
) -> None:
    """Masses of (split, hi] and (lo, split] for every test group in start..stop-1."""
    for group in range(start, stop):
        above[group] = score_mass(alpha[group], split, hi, b, gumbel)
        below[group] = score_mass(alpha[group], lo, split, b, gumbel)


@compiled
def fill_gate_masses(
    start: int,
    stop: int,
    alpha: FloatArray,
    lo: float,
    hi: float,
    b: float,
    r: float,
    clip: float,
    gumbel: bool,
    masses: FloatArray,
) -> None:
    """Rows of `masses` (same sign, opposite sign, silent) for test groups start..stop-1."""
    for group in range(start, stop):
        same, opposite, silent = gate_masses(alpha[group], lo, hi, b, r, clip, gumbel)
        masses[0, group] = same
        masses[1, group] = opposite
        masses[2, group] = silent


@compiled
def _truncated_laplace(low: float, high: float, width: float, b: float, uniform: float) -> float:
    """zeta - low for zeta Laplace given low < zeta <= high, by inversion; both ends finite."""
    if low >= 0.0:
        return -b * math.log1p(uniform * math.expm1(-width / b))
    if high <= 0.0:
        return width + b * math.log1p(uniform * math.expm1(-width / b))
    left, right = -math.expm1(low / b), -math.expm1(-high / b)
    position = uniform * (left + right)
    if position < left:
        return b * math.log1p(-position) - low
    return -b * math.log1p(left - position) - low


@compiled
def _truncated_gumbel(low: float, high: float, width: float, b: float, uniform: float) -> float:
    """zeta - low for zeta Gumbel given low < zeta <= high, by inversion; both ends finite."""
    # e^(-zeta/b) is an exponential variable between A2 = e^(-high/b) and A1 = e^(-low/b).
    upper, lower = math.exp(-high / b), math.exp(-low / b)
    if lower < _FLAT:  # uniform between the two, which may be too small to be represented
        share = math.exp(-width / b) - uniform * math.expm1(-width / b)
        if share < 0.5:
            return -b * math.log(share + _TINY)
        return -b * math.log1p((1.0 - uniform) * math.expm1(-width / b))
    spread = upper * math.expm1(width / b) if width < 30.0 * b else lower - upper
    excess = -math.log1p(uniform * math.expm1(-spread))
    if upper > _TINY:
        return width - b * math.log1p(excess / upper)
    # A quotient by a number that small would overflow, and `high` is out of reach anyway.
    return -b * math.log(excess + upper + _TINY) - low


@compiled
def _best_centre(lo: float, hi: float, b: float, gumbel: bool) -> float:
    """The omega around which the selection noise has most mass in (lo, hi]; both ends finite."""
    if not gumbel:
        return 0.5 * (lo + hi)
    ratio = (hi - lo) / b
    return hi + b * math.log(ratio / math.expm1(ratio)) if ratio < 700.0 else 0.5 * (lo + hi)


@compiled
def attempt_points(
    pending: npt.NDArray[np.intp],
    alpha: FloatArray,
    lo: float,
    hi: float,
    b: float,
    gumbel: bool,
    uniforms: FloatArray,
    offset: FloatArray,
    omega: FloatArray,
    accepted: npt.NDArray[np.bool_],
) -> None:
    """Try to draw one noisy score in the finite interval (lo, hi] for each pending point.

    omega is proposed from its own law within reach of the interval and accepted in proportion to
    the interval's mass around it, at worst about one time in a hundred.
    """
    for position in range(len(pending)):
        start = stop = _limited(alpha[position])
        if stop > 0.0:
            start, stop = _relevant_range(stop, lo, hi, b, gumbel)
        # omega = alpha / tau, tau uniform, restricted to [start, stop].
        proposal = stop
        if start < stop:
            proposal = start * stop / (stop - uniforms[0, position] * (stop - start))
        best = min(max(_best_centre(lo, hi, b, gumbel), start), stop)
        low, high = lo - proposal, hi - proposal
        mass = noise_mass(low, high, hi - lo, b, gumbel)
        peak = noise_mass(lo - best, hi - best, hi - lo, b, gumbel)
        accepted[position] = uniforms[1, position] * peak <= mass
        if accepted[position]:
            point = pending[position]
            omega[point] = proposal
            if gumbel:
                offset[point] = _truncated_gumbel(low, high, hi - lo, b, uniforms[2, position])
            else:
                offset[point] = _truncated_laplace(low, high, hi - lo, b, uniforms[2, position])
