"""A first look at all pairs: by their signs, which is cheap, or by their products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._triangle import mirror, spread_pairs
from hushcov.accounting import Budget, smallest_sigma
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive.matrix import WholeMatrix
from hushcov.mechanisms.gaussian.mechanism import NOISE_STRIP
from hushcov.mechanisms.screened import TO_CORRELATION, SignScreen
from hushcov.noise import Entropy, rounded_normal
from hushcov.postprocess import largest
from hushcov.steps.norms import NormBound

_LEAST_VARIANCE = 0.5  # of centred signs, on average


@dataclass(frozen=True, eq=False)
class Probe:
    """About the covariance in units of the scales, and the noise of an entry, off the diagonal.

    `whole` has the sums behind it where it was a look at the matrix itself: the look is not lost.
    """

    mean: FloatArray
    noise_sd: float
    whole: WholeMatrix | None = None

    @cached_property
    def energy(self) -> float:
        """The sum of all squares."""
        return float(np.vdot(self.mean, self.mean))


def look_at_matrix(whole: WholeMatrix, mu: float, budget: Budget, entropy: Entropy) -> Probe:
    """A look at the matrix itself; see `WholeMatrix.look`."""
    whole.look(mu, budget, entropy)
    return Probe(whole.mean, whole.noise_sd[0], whole)


def sees(screen: SignScreen, n_features: int) -> bool:
    """Whether signs show nearly as much as products: those of skewed features hardly differ."""
    return float(screen.variances(n_features).mean()) > _LEAST_VARIANCE


def look_at_signs(
    sums: IntArray,
    screen: SignScreen,
    inputs: ReleaseInputs,
    typical: float,
    mu: float,
    budget: Budget,
    entropy: Entropy,
) -> Probe:
    """Release the sums of products of signs of all pairs, and make a covariance of them.

    `typical` is about the variance of a feature, in squared scales.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. What a record adds to all pairs has a norm of
    at most sqrt(d (d - 1) / 2) and a distance of at most d from what another adds, and rounding a
    sum moves it by less than 1.
    The noise makes that `mu` deviations, whose time is taken before it is drawn.
    """
    n, d = inputs.n_records, inputs.n_features
    root = math.isqrt(d * (d - 1) // 2) + 1
    moved = inputs.neighbours.moved(replaced=d, removed=min(d, root))
    sensitivity = screen.resolution * moved + screen.rounding * root
    budget.gaussian(mu)  # proof: step 7
    sigma = smallest_sigma(sensitivity**2, mu)  # proof: step 7
    variances = screen.variances(d)
    unit = typical / float(variances.mean())
    in_scales = TO_CORRELATION * unit / (n * screen.resolution)
    mean = np.empty((d, d))
    for start in range(0, len(sums), NOISE_STRIP):
        part = sums[start : start + NOISE_STRIP]
        noisy = part + rounded_normal(entropy.generator, sigma, len(part))
        spread_pairs(start, noisy * in_scales, mean)
    mirror(mean)
    np.fill_diagonal(mean, variances * unit)
    # Sampling errors are larger by the same factor as scores.
    sampling = typical * math.sqrt((TO_CORRELATION**2 - 1) / inputs.n_sampled)
    return Probe(mean, math.hypot(sigma * in_scales, sampling))


def missing_share(seen: Probe, norm: NormBound) -> float:
    """Which share of what a bound cuts off is missing in the direction of the largest eigenvalue.

    For normal records the squared norm has the variance 2 F^2, F^2 being the sum of all squared
    eigenvalues, and directions have parts of it in proportion to the squares of theirs. What varies
    beyond that comes from heavy tails, which all directions have in proportion to their variance.
    """
    mean, d, noise = seen.mean, len(seen.mean), seen.noise_sd
    trace = float(np.trace(mean))
    top = max(largest(mean) - 2 * noise * math.sqrt(d), trace / d, 0.0)
    energy = max(seen.energy - (noise * d) ** 2, top**2, trace**2 / d, 1e-300)
    normal = min(1.0, 2 * energy / max(norm.variance, 1e-300))
    return normal * top**2 / energy + (1 - normal) * min(1.0, top / max(trace, 1e-300))
