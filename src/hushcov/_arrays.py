"""Types of arrays, the largest integers in them, and what arrays and tensors have in common."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]
ObjectArray = npt.NDArray[np.object_]
#: A NumPy array, or a sparse array of SciPy; of a release it stores the entries that were released,
#: zeros too.
Matrix = Any

#: Every integer up to this size is a float64, so sums that stay below it are exact in any order.
LARGEST_EXACT_FLOAT = 2**53
#: The same for float32.
LARGEST_EXACT_FLOAT32 = 2**24
#: Sums of records stay within this, so that int64 has room for the noise that is added to them.
LARGEST_SUM = 2**62


def is_tensor(block: object) -> bool:
    """Return whether this is a PyTorch tensor; it is none where PyTorch was never imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(block, torch.Tensor)


def namespace(block: object) -> Any:
    """Return the module to call on a block: `torch` for tensors, else `numpy`."""
    return sys.modules["torch"] if is_tensor(block) else np


def like(values: Any, block: Any) -> Any:
    """Return NumPy values as a tensor on the block's device, or as they are for a NumPy block."""
    return namespace(block).tensor(values, device=block.device) if is_tensor(block) else values


_STEPS = 100
_NEAR_ROOT = 2e-12  # absolute, of a root


def root(function: Callable[[float], float], low: float, high: float, *, relative: float) -> float:
    """Return a zero of a function that changes its sign between `low` and `high`.

    Brent's method, step by step that of `scipy.optimize.brentq`, which takes longer to load than
    a plan takes.
    """
    last, here = low, high
    at_last, at = function(last), function(here)
    if at_last == 0:
        return last
    if not at_last * at <= 0:
        raise ValueError("the function has one sign at both ends")
    other, at_other, before, step = last, at_last, 0.0, 0.0
    for _ in range(_STEPS):
        if at and (at_last < 0) != (at < 0):
            other, at_other, before, step = last, at_last, here - last, here - last
        if abs(at_other) < abs(at):
            last, here, other = here, other, here
            at_last, at, at_other = at, at_other, at
        near, half = (_NEAR_ROOT + relative * abs(here)) / 2, (other - here) / 2
        if at == 0 or abs(half) < near:
            break
        tried = math.inf
        if abs(before) > near and abs(at) < abs(at_last):
            if last == other:  # along a line, else by a quadratic
                tried = -at * (here - last) / (at - at_last)
            else:
                one, two = (at_last - at) / (last - here), (at_other - at) / (other - here)
                bend = two * one * (at_other - at_last)
                tried = -at * (at_other * two - at_last * one) / bend if bend else math.inf
        short = 2 * abs(tried) < min(abs(before), 3 * abs(half) - near)
        before, step = (step, tried) if short else (half, half)
        last, at_last = here, at
        here += step if abs(step) > near else math.copysign(near, half)
        at = function(here)
    return here
