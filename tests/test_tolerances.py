"""Tiny numbers are told apart: the suite's `approx` has no absolute tolerance by accident."""

import numpy as np
import pytest


@pytest.mark.parametrize("tiny", [2e-81, -1e-9, [1.0, 1e-7], np.array([3e-13]), {"delta": 1e-8}])
def test_a_tolerance_that_nobody_chose_is_refused(tiny):
    with pytest.raises(AssertionError, match="approx needs abs=0"):
        pytest.approx(tiny)


@pytest.mark.parametrize("relative", [1e-13, 1e-15])
def test_so_is_one_wider_than_what_was_chosen(relative):
    with pytest.raises(AssertionError, match="approx needs abs=0"):
        pytest.approx(0.5, rel=relative)


def test_others_are_as_in_pytest():
    assert pytest.approx(2e-81, rel=1e-6, abs=0) == 2.000001e-81
    assert pytest.approx(2e-81, rel=1e-6, abs=0) != 4e-81
    assert pytest.approx(0.0) == 1e-13
    assert pytest.approx([0.0, 3.0]) == [0.0, 3.0]
    assert pytest.approx(1e-20, abs=1e-12) == 0.0
    assert pytest.approx(float("inf")) == float("inf")
    assert pytest.approx("text") == "text"
