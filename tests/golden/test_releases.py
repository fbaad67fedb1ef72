"""Seeded releases are as they were, bit for bit."""

import pytest

from .releases import differences


@pytest.mark.slow
def test_seeded_releases_are_as_they_were():
    """After a change that is meant to change them: `python -m tests.golden.releases --write`."""
    assert differences() == []
