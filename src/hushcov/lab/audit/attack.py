"""One attack: a mechanism, neighbouring datasets, and what is computed from its outputs."""

from __future__ import annotations

from dataclasses import dataclass

from hushcov.lab.audit.neighbours import Pair
from hushcov.lab.audit.statistics import FITTED, Statistic, along_change, trace
from hushcov.lab.audit.targets import Target

# Sizes are small, so that one record matters and tens of thousands of runs are quick. Budgets are
# large enough for a bound to be close, and small enough for few runs to break a false claim.
EPSILON = 4.0
DELTA = 1e-5
RECORDS = 20
FEATURES = 4


@dataclass(frozen=True, eq=False)
class Attack:
    """A mechanism on a pair of neighbouring datasets, and what is computed from its outputs.

    A mechanism that is `slowness` times as slow as others makes that many times fewer runs.
    """

    mechanism: str
    target: Target
    pair: Pair
    statistics: tuple[Statistic, ...]
    slowness: int = 1

    @property
    def name(self) -> str:
        """The name of the pair."""
        return self.pair.name


def matrix_statistics(pair: Pair) -> tuple[Statistic, ...]:
    """What to compute from all entries of a released matrix."""
    return along_change(pair.first[0], pair.second[0]), trace(pair.n_features), FITTED
