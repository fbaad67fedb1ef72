"""Empirical lower bounds on epsilon: every mechanism attacked on neighbouring datasets."""

from hushcov.lab.audit.attacks import MECHANISMS, attacks_on
from hushcov.lab.audit.run import AuditResult, audit, check_path, run_attack

__all__ = ["MECHANISMS", "AuditResult", "attacks_on", "audit", "check_path", "run_attack"]
