"""Basic composition, with all Gaussians together taken by their exact curve."""

from __future__ import annotations

from hushcov.accounting.gaussian import gaussian_delta, gaussian_epsilon
from hushcov.accounting.parts import Parts


class BasicCurve:
    """Pure epsilons add up; all Gaussians together are one more mechanism beside them."""

    def __init__(self, parts: Parts) -> None:
        self._mu = parts.gaussian
        self._pure_epsilon = parts.pure_epsilon
        self.method = "gaussian" if self._mu and not self._pure_epsilon else "basic"

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon at this delta; inf at delta = 0 unless all is pure."""
        return self._pure_epsilon + (gaussian_epsilon(self._mu, delta) if self._mu else 0.0)

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta at this epsilon; 1 where basic composition has nothing."""
        if epsilon < self._pure_epsilon:
            return 1.0
        return gaussian_delta(self._mu, epsilon - self._pure_epsilon) if self._mu else 0.0
