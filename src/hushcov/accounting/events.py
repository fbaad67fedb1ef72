"""Privacy events: what a mechanism did, as frozen data, for the accountant to charge.

Every sensitivity is already the replace-one one: two datasets are neighbours when they have
equally many records and differ in one of them. An event records the mechanism that ran, not
what it costs; the cost follows from all events together (`hushcov.accounting.composition`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushcov._validation import check_integer, check_real
from hushcov.exceptions import ParameterError

# The range in which Qiao, Su and Zhang (2021), Theorem 2.2, prove their approximate bound.
QIAO_LARGEST_EPSILON = 0.2
QIAO_LARGEST_DELTA = 0.05
QIAO_FEWEST_CANDIDATES = 2


@dataclass(frozen=True)
class Gaussian:
    """Continuous Gaussian noise; `mu` is the l2 sensitivity divided by the standard deviation."""

    mu: float

    def __post_init__(self) -> None:
        _set_positive(self, "mu", cure="it is l2 sensitivity / standard deviation.")


@dataclass(frozen=True)
class DiscreteGaussian:
    """Discrete Gaussian noise on integers; `mu` is the l2 sensitivity divided by sigma.

    It satisfies mu^2/2 zCDP in every dimension, but not the exact Gaussian curve.
    """

    mu: float

    def __post_init__(self) -> None:
        _set_positive(self, "mu", cure="it is l2 sensitivity / sigma.")


@dataclass(frozen=True)
class BoundedRange:
    """`count` adaptive steps, each `eta`-bounded-range: Gumbel one-shot top-`count` selection.

    With l_inf sensitivity g and Gumbel scale beta, eta = 2 g / beta, and g / beta when one
    dataset's scores are all at least the other's.
    """

    eta: float
    count: int

    def __post_init__(self) -> None:
        # proof: step 1
        _set_positive(self, "eta", cure="it is 2 * l_inf sensitivity / Gumbel scale.")
        _set_count(self, "count", at_most=10**100, cure="it is the number of labels selected.")


@dataclass(frozen=True)
class OneShotLaplace:
    """Unordered top-`selected` of `candidates` scores with Laplace noise of the given scale.

    `sensitivity` is the l_inf sensitivity of the score vector. With `target_delta` the event
    may be read as (`certified_epsilon`, `target_delta`)-DP where the theorem's range allows
    it; the (2 selected sensitivity / scale, 0) reading is always there.
    """

    sensitivity: float
    scale: float
    selected: int
    candidates: int
    target_delta: float | None = None

    def __post_init__(self) -> None:
        _set_positive(self, "sensitivity", cure="it is the l_inf sensitivity of the scores.")
        _set_positive(self, "scale", cure="it is the scale of the Laplace noise.")
        _set_count(self, "candidates", cure="it is the number of scores.")
        _set_count(self, "selected", at_most=self.candidates, cure="select at most all candidates.")
        if self.target_delta is not None:
            _set_positive(
                self,
                "target_delta",
                at_most=QIAO_LARGEST_DELTA,
                cure="use a smaller target_delta, or None for the pure bound.",
            )

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of the (epsilon, 0) reading; infinite if it overflows."""
        # proof: step 2
        return 2 * self.selected * (self.sensitivity / self.scale)

    @property
    def certified_epsilon(self) -> float | None:
        """The epsilon certified at `target_delta`, or None where the theorem does not reach."""
        if self.target_delta is None or self.candidates < QIAO_FEWEST_CANDIDATES:
            return None
        # proof: step 3
        spread = math.sqrt(self.selected * math.log(self.candidates / self.target_delta))
        epsilon = 8 * (self.sensitivity / self.scale) * spread
        return epsilon if epsilon <= QIAO_LARGEST_EPSILON else None


@dataclass(frozen=True)
class Pure:
    """Any (epsilon, 0)-DP mechanism."""

    epsilon: float

    def __post_init__(self) -> None:
        _set_positive(self, "epsilon", cure="leave the event out if nothing was spent.")


@dataclass(frozen=True)
class Approximate:
    """Any (epsilon, delta)-DP mechanism."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _set_positive(self, "epsilon", cure="leave the event out if nothing was spent.")
        _set_probability(self, "delta", cure="use Pure for a mechanism with delta 0.")


@dataclass(frozen=True)
class TotalVariation:
    """The mechanism that ran is within `distance` in total variation of the one accounted for.

    This holds for every dataset and every earlier output. It costs an additive delta of
    (1 + e^epsilon) * distance at the total epsilon.
    """

    distance: float

    def __post_init__(self) -> None:
        _set_probability(self, "distance", cure="leave the event out if there is no slack.")


Event = (
    Gaussian
    | DiscreteGaussian
    | BoundedRange
    | OneShotLaplace
    | Pure
    | Approximate
    | TotalVariation
)


def _set_positive(event: object, field: str, *, at_most: float = math.inf, cure: str) -> None:
    name = f"{type(event).__name__}.{field}"
    value = check_real(name, getattr(event, field), above=0, at_most=at_most, cure=cure)
    # Frozen: this is the one moment at which NumPy scalars become plain, JSON-ready numbers.
    object.__setattr__(event, field, value)


def _set_probability(event: object, field: str, *, cure: str) -> None:
    _set_positive(event, field, at_most=1, cure=cure)
    if getattr(event, field) == 1:
        name = f"{type(event).__name__}.{field}"
        raise ParameterError(f"{name} must be below 1, got 1.0: {cure}")


def _set_count(event: object, field: str, *, at_most: int | None = None, cure: str) -> None:
    name = f"{type(event).__name__}.{field}"
    value = check_integer(name, getattr(event, field), at_least=1, at_most=at_most, cure=cure)
    object.__setattr__(event, field, value)
