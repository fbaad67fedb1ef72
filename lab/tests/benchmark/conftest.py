"""Fixtures of every test of a command."""

from __future__ import annotations

from command_line import program, refused, run

__all__ = ["program", "refused", "run"]
