"""Renyi differential privacy of a composition and its conversion to (epsilon, delta)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hushcov.accounting.gaussian import ROUNDING
from hushcov.accounting.parts import Parts

Array = NDArray[np.float64]

# Orders are searched as log(order - 1): first this grid, then ever finer ones at its best point.
_LOG_ORDERS = np.linspace(math.log(1e-4), math.log(1e10), 256)
_ZOOMS = 5
_MACHINE = sys.float_info.epsilon
# sinh(x)/x - 1 = x^2 (1/3! + x^2/5! + ...); ten terms are exact in doubles for x <= 1.
_SINHC_COEFFICIENTS = tuple(1 / math.factorial(2 * k + 3) for k in reversed(range(10)))


def renyi_divergence(parts: Parts, order: Array) -> Array:
    """Return the Renyi divergence bound of the whole composition at each order above 1."""
    # proof: step 9
    total = order * (parts.mu * parts.mu / 2)
    for eta, count in parts.bounded_range:
        total = total + count * bounded_range_divergence(eta, order)
    for epsilon, count in parts.pure:
        total = total + count * pure_divergence(epsilon, order)
    return total


def renyi_epsilon(parts: Parts, order: Array, delta: float) -> Array:
    """Return the epsilon that each order proves at this delta."""
    # proof: step 13
    divergence = renyi_divergence(parts, order)
    slope = (_log_prefactor(order) - math.log(delta)) / (order - 1)
    return np.asarray(divergence + slope + 8 * _MACHINE * (divergence + np.abs(slope)))


def pure_divergence(epsilon: float, order: Array) -> Array:
    """Return the largest Renyi divergence of an (epsilon, 0)-DP mechanism."""
    # proof: step 11
    spread = _log_cosh((order - 0.5) * epsilon) - _log_cosh(np.asarray(epsilon / 2))
    exact = spread / (order - 1) * _rounding_guard(1 + 1 / (order - 1))
    return np.minimum(exact, np.minimum(epsilon, order * (epsilon * epsilon / 2)))


def bounded_range_divergence(eta: float, order: Array) -> Array:
    """Return the largest Renyi divergence of one eta-bounded-range step.

    The worst pair is binary with losses u and u - eta; the maximum over u has a closed form.
    """
    # proof: step 12
    at_order = order * _log_sinhc(order * eta / 2)
    below = (order - 1) * _log_sinhc((order - 1) * eta / 2)
    exact = (at_order - below - _log_sinhc(np.asarray(eta / 2))) / (order - 1)
    exact = exact * _rounding_guard(order + 1 / (order - 1))
    return np.minimum(exact, np.minimum(eta, order * (eta * eta / 8)))


class RenyiCurve:
    """The (epsilon, delta) curve by Renyi DP and the Canonne-Kamath-Steinke conversion."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # proof: step 10
        # With Gaussians alone the divergence is the line rho * order: that is zCDP.
        self.method = "rdp" if parts.bounded_range or parts.pure else "zcdp"

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon at this delta, rounded up; inf at delta = 0."""
        if delta <= sys.float_info.min:
            return math.inf

        def epsilon(order: Array) -> Array:
            return renyi_epsilon(self._parts, order, delta)

        return max(0.0, _minimum(epsilon) * (1 + ROUNDING))

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta at this epsilon, rounded up."""

        # proof: step 13
        def log_delta(order: Array) -> Array:
            divergence = renyi_divergence(self._parts, order)
            rounding = 8 * _MACHINE * (divergence + epsilon)
            return (order - 1) * (divergence - epsilon + rounding) + _log_prefactor(order)

        log_best = _minimum(log_delta) + math.log1p(ROUNDING)
        return max(math.exp(min(log_best, 0.0)), sys.float_info.min)


def _log_prefactor(order: Array) -> Array:
    # Near order 1 the quotient keeps the digits that 1 - 1/order would lose.
    log_ratio = np.where(order < 2, np.log((order - 1) / order), np.log1p(-1 / order))
    return (order - 1) * log_ratio - np.log(order)


def _minimum(objective: Callable[[Array], Array]) -> float:
    """Minimise over the order. Every order is a valid bound, so a miss only costs tightness."""
    log_orders = _LOG_ORDERS
    for _ in range(_ZOOMS):
        values = objective(1 + np.exp(log_orders))
        best = int(np.argmin(values))
        low, high = max(best - 1, 0), min(best + 1, len(log_orders) - 1)
        log_orders = np.linspace(log_orders[low], log_orders[high], 33)
    return float(np.min(values))


def _rounding_guard(cancellation: Array) -> Array:
    """Return a factor above the relative error of a closed form that cancels this much."""
    return 1 + 32 * _MACHINE * cancellation


def _log_cosh(x: Array) -> Array:
    half_sinh: Array = np.sinh(np.minimum(x, 1.0) / 2)
    large = x - math.log(2) + np.log1p(np.exp(-2 * x))
    return np.where(x < 1.0, np.log1p(2 * half_sinh * half_sinh), large)


def _log_sinhc(x: Array) -> Array:
    """Return log(sinh(x) / x) to full relative accuracy for x > 0."""
    square: Array = np.minimum(x, 1.0) ** 2
    small = np.log1p(square * np.polyval(_SINHC_COEFFICIENTS, square))
    x = np.maximum(x, 1.0)
    large = x + np.log1p(-np.exp(-2 * x)) - np.log(2 * x)
    return np.where(square < 1.0, small, large)
