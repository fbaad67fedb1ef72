"""The probabilities of `kernels`, straight from their definitions in 50-digit arithmetic."""

from __future__ import annotations

import functools
import itertools

import mpmath as mp
from mpmath.calculus.quadrature import GaussLegendre

DIGITS = 50


@functools.cache
def _gauss_nodes():
    """24 nodes and weights on [-1, 1]."""
    with mp.workdps(DIGITS):
        return GaussLegendre(mp.mp).calc_nodes(4, mp.mp.prec)


def laplace_mass(low, high, b):
    """P(low < zeta <= high) for zeta Laplace with scale b."""
    if low >= 0:
        return (mp.exp(-low / b) - mp.exp(-high / b)) / 2
    if high <= 0:
        return (mp.exp(high / b) - mp.exp(low / b)) / 2
    return 1 - (mp.exp(low / b) + mp.exp(-high / b)) / 2


def gate_tail(y, r, clip):
    """P(Z > y) for Z the N(0, r^2) noise clipped to [-clip, clip]."""
    if y >= clip:
        return mp.mpf(0)
    if y < -clip:
        return mp.mpf(1)
    return mp.erfc(y / (r * mp.sqrt(2))) / 2


def _panels(alpha, lo, hi, b, r, clip):
    """Break points that resolve b around lo and hi, and r around omega = 1."""
    points = {alpha / 2, alpha}
    for edge in (lo, hi):
        if not mp.isinf(edge):
            points |= {edge + 4 * j * b for j in range(-22, 23)}
    if r is not None:
        points |= {1 + j * r for j in range(-15, 16)}
        if not mp.isinf(clip):
            points |= {1 - clip, 1 + clip}
    return sorted(point for point in points if alpha / 2 <= point <= alpha)


def _integrate(integrand, points):
    """24-point Gauss-Legendre on every panel."""
    totals = None
    for start, stop in itertools.pairwise(points):
        middle, half = (start + stop) / 2, (stop - start) / 2
        for node, weight in _gauss_nodes():
            values = [half * weight * value for value in integrand(middle + half * node)]
            totals = (
                values if totals is None else [a + v for a, v in zip(totals, values, strict=True)]
            )
    return totals


def score_mass(alpha, lo, hi, b):
    """P(lo < noisy score + 1 <= hi); alpha = -1 stands for an inactive test."""
    with mp.workdps(DIGITS):
        alpha, lo, hi, b = (mp.mpf(value) for value in (alpha, lo, hi, b))
        if alpha <= 0:
            return laplace_mass(lo - alpha, hi - alpha, b)

        def density(omega):
            return [laplace_mass(lo - omega, hi - omega, b) * alpha / omega**2]

        return _integrate(density, _panels(alpha, lo, hi, b, None, None))[0]


def gate_masses(alpha, lo, hi, b, r, clip):
    """(gate of the sign of S, opposite gate, no gate) together with lo < score + 1 <= hi."""
    with mp.workdps(DIGITS):
        alpha, lo, hi, b, r, clip = (mp.mpf(value) for value in (alpha, lo, hi, b, r, clip))

        def integrand(omega):
            kept = laplace_mass(lo - omega, hi - omega, b)
            same, opposite = gate_tail(1 - omega, r, clip), gate_tail(1 + omega, r, clip)
            return [kept * same, kept * opposite, kept * (1 - same - opposite)]

        if alpha == 0:
            return integrand(alpha)
        return _integrate(
            lambda omega: [value * alpha / omega**2 for value in integrand(omega)],
            _panels(alpha, lo, hi, b, r, clip),
        )


def gate_correction(r, clip):
    """E[1 / (1 - Z)]: Gaussian inside the clip, two atoms at its ends."""
    with mp.workdps(DIGITS):
        r, clip = mp.mpf(r), mp.mpf(clip)
        reach = min(clip / r, mp.mpf(16))
        points = [-reach + 2 * reach * j / 16 for j in range(17)]
        inside = mp.quad(lambda w: mp.npdf(w) / (1 - r * w), points)
        atom = mp.erfc(clip / (r * mp.sqrt(2))) / 2
        return inside + atom * (1 / (1 - clip) + 1 / (1 + clip))
