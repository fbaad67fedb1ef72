"""Release of known candidates: bands and listed pairs, where it is public which may covary."""

from hushcov.mechanisms.candidates.mechanism import release_candidates
from hushcov.mechanisms.candidates.parameters import CandidateParameters, candidate_parameters
from hushcov.mechanisms.candidates.room import CANDIDATES, PlannedCandidates

__all__ = [
    "CANDIDATES",
    "CandidateParameters",
    "PlannedCandidates",
    "candidate_parameters",
    "release_candidates",
]
