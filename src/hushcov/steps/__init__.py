"""Private steps that mechanisms share, each with its parameters, proof and words.

Here is what they have in common: the interface of a step, and what it hands on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Budget
from hushcov.noise import Entropy

if TYPE_CHECKING:
    from hushcov.steps.norms import NormBound
    from hushcov.sums.records import Records


@dataclass(frozen=True, eq=False)
class Prepared:
    """Input of a step or a mechanism: records, and what was released before.

    Parameters
    ----------
    records : Records
        As they are to be read.
    feature_scale : ndarray
        Scales of the features, public or released; ones before they are known.
    share : float
        About which share of the records is complete; sums count the others as zeros.
    location : ndarray, optional
        What was taken off the features, where that was released.
    norm : NormBound, optional
        What was released of the norms of records.
    tilt : ndarray of int, optional
        About how much more often each feature lies above its centre than below, in 1024ths.
    making : mapping
        What the document of the release is to say of it, see `hushcov.release.Making`.
    """

    records: Records
    feature_scale: FloatArray
    share: float = 1.0
    location: FloatArray | None = None
    norm: NormBound | None = None
    tilt: IntArray | None = None
    making: Mapping[str, Any] = field(default_factory=dict)


class Stage(ABC):
    """One private step with its public parameters, fixed before any record is read.

    `released` says what it releases in a few words, and `unknown` what is not known without it.
    The proof is a page of `docs/proofs/` of the name of its module.
    """

    released: ClassVar[str]
    unknown: ClassVar[str]

    @property
    @abstractmethod
    def cost(self) -> float:
        """About the mu that it takes of the budget, of one record, from public numbers."""

    @property
    def most_cost(self) -> float:
        """The mu that it takes at most, whatever is in the records."""
        return self.cost

    @abstractmethod
    def run(self, prepared: Prepared, budget: Budget, entropy: Entropy) -> Prepared:
        """Release, and hand on what the next step starts with."""
