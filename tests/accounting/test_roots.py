"""Roots are those of SciPy, to the last bit; calibrations are those of plain bisection."""

from __future__ import annotations

import math
import random

import pytest
from scipy.optimize import brentq

from hushcov.accounting import BoundedRange, Gaussian, calibrate, compose, composition
from hushcov.accounting.curves import gaussian_log_delta, root


def test_the_same_steps_as_scipy():
    chance, tried = random.Random(3), 0
    for _ in range(300):
        mu = 10 ** chance.uniform(-4, 1.5)
        goal = math.log(10 ** chance.uniform(-12, -2))
        high = (mu * mu / 2 + mu * math.sqrt(-2 * goal)) * (1 + 1e-9)

        def excess(x, mu=mu, goal=goal):
            return gaussian_log_delta(mu, x) - goal

        if excess(0.0) > 0 > excess(high):
            tried += 1
            assert root(excess, 0.0, high, relative=1e-14) == brentq(excess, 0.0, high, rtol=1e-14)
    assert tried > 200


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
        monkeypatch.setattr(composition, "root", lambda *_, wrong=wrong, **__: math.log(wrong))
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
