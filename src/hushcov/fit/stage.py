"""Private steps that mechanisms share, each with its parameters, proof and words.

Here is what they have in common: the interface of a step, and what it hands on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from hushcov._arrays import FloatArray, IntArray
from hushcov.inputs import Found

if TYPE_CHECKING:
    from hushcov.fit.location import Location
    from hushcov.fit.norms import NormBound
    from hushcov.kernel.queries import SignedOctaves
    from hushcov.kernel.session import Session


@dataclass(frozen=True, eq=False)
class Prepared:
    """Input of a step or a mechanism: a session, and what was released before.

    Parameters
    ----------
    session : Session
        Access to the records as they are to be read, and to the budget.
    feature_scale : ndarray
        Scales of the features, public or released; ones before they are known.
    share : float
        About which share of the records is complete; sums count the others as zeros.
    location : ndarray, optional
        What was taken off the features, where that was released.
    place : Location, optional
        Centres, scales and reaches of the features, where these were released before.
    norm : NormBound, optional
        What was released of the norms of records.
    tilt : ndarray of int, optional
        About how much more often each feature lies above its centre than below, in 1024ths.
    indicators : tuple of int
        Features that hold 0 and 1 alone, by public knowledge.
    making : mapping
        What the document of the release is to say of it, see `hushcov.release.Making`.
    wanted : SignedOctaves, optional
        `Stage.first_octaves` of the next step: one that reads the records may read them meanwhile.
    first : SignedOctaves, optional
        The same of this step, which the session may hold.
    """

    session: Session
    feature_scale: FloatArray
    share: float = 1.0
    location: FloatArray | None = None
    place: Location | None = None
    norm: NormBound | None = None
    tilt: IntArray | None = None
    indicators: tuple[int, ...] = ()
    making: Mapping[str, Any] = field(default_factory=dict)
    wanted: SignedOctaves | None = None
    first: SignedOctaves | None = None


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

    @property
    def expected(self) -> Found:
        """What it is expected to find of means and scales, from public numbers."""
        return Found()

    @property
    def drowns(self) -> bool:
        """Whether what it finds may be off by orders of magnitude, from public numbers."""
        return False

    def for_mechanism(self, *, tilts: bool, alone: bool) -> Stage:
        """Return the step for a mechanism that wants `tilts`, or has a clock `alone`."""
        return self

    @property
    def first_octaves(self) -> SignedOctaves | None:
        """The counts of complete records that it begins with, where public numbers say which."""
        return None

    @abstractmethod
    def run(self, prepared: Prepared) -> Prepared:
        """Release, and hand on what the next step starts with."""
