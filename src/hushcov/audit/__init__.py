"""Empirical lower bounds on epsilon: every mechanism attacked on neighbouring datasets."""

from hushcov.audit.attack import Attack
from hushcov.audit.attacks import MECHANISMS, attacks_on
from hushcov.audit.audit import (
    ALARM_RATE,
    BATCHES,
    DEFAULT_RUNS,
    QUICK_RUNS,
    AuditResult,
    audit,
    check_path,
    run_attack,
)

__all__ = [
    "ALARM_RATE",
    "BATCHES",
    "DEFAULT_RUNS",
    "MECHANISMS",
    "QUICK_RUNS",
    "Attack",
    "AuditResult",
    "attacks_on",
    "audit",
    "check_path",
    "run_attack",
]
