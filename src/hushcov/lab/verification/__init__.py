"""Theorem 1 and every lemma of the paper, checked numerically at the paper's own constants."""

from hushcov.lab.verification.claim import Claim
from hushcov.lab.verification.setting import Setting, make_setting
from hushcov.lab.verification.simulation import (
    SWEEP_RUNS,
    Progress,
    Run,
    Sweep,
    error_against_records,
    records_sweep,
    simulate_runs,
)
from hushcov.lab.verification.verify import (
    DEFAULT_RUNS,
    N_CLAIMS,
    Verification,
    check_claims,
    to_dict,
    verify,
    verify_setting,
)

__all__ = [
    "DEFAULT_RUNS",
    "N_CLAIMS",
    "SWEEP_RUNS",
    "Claim",
    "Progress",
    "Run",
    "Setting",
    "Sweep",
    "Verification",
    "check_claims",
    "error_against_records",
    "make_setting",
    "records_sweep",
    "simulate_runs",
    "to_dict",
    "verify",
    "verify_setting",
]
