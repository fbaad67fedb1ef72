"""Fixtures of every test of a report."""

from command_line import known_keys

__all__ = ["known_keys"]
