"""What a release of known candidates settles beforehand: a clock, and how it may be spent."""

from __future__ import annotations

from dataclasses import dataclass

from hushcov.candidates import Candidates
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive import AdaptiveParameters
from hushcov.sums.products import MOST_PRODUCTS

NAME = "candidates"
# Shares of the time on the clock. Chosen on the families of benchmarks/studies/known_band.py.
WIDTH_LOOK = 0.15  # the look at a whole band of which only a maximum is known
WIDE_LOOK = 0.10  # the look at candidates that are so many that few may matter
NARROW = 24  # partners of a feature up to which all are released, whatever they are


@dataclass(frozen=True)
class CandidateParameters(AdaptiveParameters):
    """Everything that is fixed before a record is read, and what earlier steps released.

    `adaptive_width` says that the bandwidth is a maximum; `single` that there is one look at all
    candidates and that nothing is decided from it.
    """

    adaptive_width: bool = False
    single: bool = False

    @property
    def candidates(self) -> Candidates:
        """The pairs that may covary."""
        assert self.inputs.candidates is not None
        return self.inputs.candidates

    @property
    def partners(self) -> float:
        """How many candidates a feature is in, on average."""
        return 2 * self.candidates.n_pairs / self.inputs.n_features

    @property
    def wide(self) -> bool:
        """Whether candidates are so many that it is worth asking which of them matter."""
        return not (self.single or self.adaptive_width) and self.partners > NARROW

    @property
    def selects(self) -> bool:
        """Whether pairs may be selected."""
        return self.wide

    @property
    def part(self) -> str:
        """What is released, in words."""
        number, d = self.candidates.n_pairs, self.inputs.n_features
        return f"values of the candidate pairs ({number:,}) and of all variances ({d:,})"

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        own = {"adaptive_width": self.adaptive_width, "single": self.single}
        return super().to_dict() | own


def candidate_parameters(
    inputs: ReleaseInputs, *, adaptive_width: bool = False, single: bool = False
) -> CandidateParameters:
    """Check what a release of known candidates is asked for, from public inputs alone."""
    known = inputs.candidates
    if known is None:
        raise ParameterError(
            "candidates must be given for a release of known candidates: pass bandwidth or "
            "candidate_pairs, or use another mechanism."
        )
    if adaptive_width and known.bandwidth is None:
        raise ParameterError(
            "adaptive_width must be False where there is no bandwidth, got True: it chooses a "
            "width up to that one. Pass bandwidth, or leave it out."
        )
    number = known.n_pairs + inputs.n_features
    if inputs.neighbours.together > 1 and number > MOST_PRODUCTS:
        raise CapacityError(
            f"candidate pairs and features must be at most {MOST_PRODUCTS:,} where records of a "
            f"unit are bounded together, got {number:,}: use fewer candidates, or "
            "max_rows_per_unit=1."
        )
    return CandidateParameters(inputs, adaptive_width=adaptive_width, single=single)
