"""Hostile input: every outcome is a valid release or a typed error that quotes no data."""
