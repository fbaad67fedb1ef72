"""Empirical lower bounds on epsilon: every mechanism attacked on neighbouring datasets."""

from hushcov.lab.audit.attacks import AUDITED, attacks_on
from hushcov.lab.audit.run import AuditResult, audit, check_path, run_attack

__all__ = ["AUDITED", "AuditResult", "attacks_on", "audit", "check_path", "run_attack"]
