"""Mechanisms: from statistics, public parameters and entropy to a release with its guarantee."""

from hushcov.mechanisms.release import Release

__all__ = ["Release"]
