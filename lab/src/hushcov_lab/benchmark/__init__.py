"""A benchmark that anyone can rerun: every estimator on the same simulated records.

Nothing is imported here, so that a worker starts with what it needs.
"""
