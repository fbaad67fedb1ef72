"""Fixtures of every test of a command."""

from command_line import known_keys, program, refused, run

__all__ = ["known_keys", "program", "refused", "run"]
