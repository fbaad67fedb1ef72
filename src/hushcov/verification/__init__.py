"""Theorem 1 and every lemma of the paper, checked numerically at the paper's own constants."""

from hushcov.verification.claim import Claim
from hushcov.verification.setting import Setting, at_records, make_setting
from hushcov.verification.simulation import Run, error_against_records, simulate_runs
from hushcov.verification.verify import N_CLAIMS, check_claims, verify

__all__ = [
    "N_CLAIMS",
    "Claim",
    "Run",
    "Setting",
    "at_records",
    "check_claims",
    "error_against_records",
    "make_setting",
    "simulate_runs",
    "verify",
]
