"""Mechanisms: from records, public parameters and entropy to a release with its guarantee."""
