"""Types of arrays, the largest integers that sums in them hold, and arrays or tensors alike."""

from __future__ import annotations

import sys
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
