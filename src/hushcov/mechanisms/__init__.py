"""Mechanisms: from statistics, public parameters and entropy to a release with its guarantee."""

from hushcov.mechanisms.release import Release
from hushcov.mechanisms.release_signature import PublicKey, SigningKey

__all__ = ["PublicKey", "Release", "SigningKey"]
