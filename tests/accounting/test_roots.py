"""Roots, and calibrations, which are those of plain bisection."""

from __future__ import annotations

import math

import pytest

from hushcov.accounting import BoundedRange, Gaussian, calibrate, compose, composition
from hushcov.accounting.composition import root


def test_ends_and_what_has_no_root():
    assert root(lambda x: x, 0.0, 1.0, relative=1e-12) == 0.0
    assert root(lambda x: x - 1, 0.0, 1.0, relative=1e-12) == 1.0
    with pytest.raises(ValueError, match="sign"):
        root(lambda x: x + 1, 0.0, 1.0, relative=1e-12)


def family(noise):
    return (Gaussian(0.1), BoundedRange(0.02 / noise, 40), Gaussian(0.2 / noise))


def test_a_guess_changes_no_calibration(monkeypatch):
    guessed = calibrate(family, 1.0, 1e-6, (0.5, 5.0))
    bound = compose(family(guessed), delta=1e-6)
    assert bound.epsilon <= 1.0
    monkeypatch.setattr(
        composition,
        "_guessed",
        lambda holds, excess, safe, unsafe, precision: composition._bisect(
            holds, safe, unsafe, precision
        ),
    )
    assert calibrate(family, 1.0, 1e-6, (0.5, 5.0)) == guessed


def test_a_wrong_guess_is_found_out(monkeypatch):
    right = calibrate(family, 1.0, 1e-6, (0.5, 5.0))
    for wrong in (0.6, 4.0):  # too little noise, and too much

        def guess(*given, relative, wrong=wrong):
            guessed = relative == composition._GUESS
            return math.log(wrong) if guessed else root(*given, relative=relative)

        monkeypatch.setattr(composition, "root", guess)
        found = calibrate(family, 1.0, 1e-6, (0.5, 5.0))
        assert compose(family(found), delta=1e-6).epsilon <= 1.0
        assert found >= right


def test_few_compositions_are_tried(monkeypatch):
    asked = []

    def counted(noise):
        asked.append(noise)
        return family(noise)

    calibrate(counted, 1.0, 1e-6, (0.5, 5.0))
    assert len(asked) < 30  # bisection alone asks for more than 30
