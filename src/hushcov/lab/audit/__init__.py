"""Empirical lower bounds on epsilon: every mechanism attacked on neighbouring datasets."""

from hushcov.lab.audit.attack import Attack
from hushcov.lab.audit.attacks import MECHANISMS, attacks_on
from hushcov.lab.audit.run import (
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
