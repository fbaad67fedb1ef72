"""One spelling for arrays of NumPy and of PyTorch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_tensor(block: object) -> bool:
    """Whether this is a PyTorch tensor. Without PyTorch in use there is none."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(block, torch.Tensor)


def namespace(block: object) -> Any:
    """The module whose functions take this array: `numpy`, or `torch`, which names them alike."""
    return sys.modules["torch"] if is_tensor(block) else np


def like(values: Any, block: Any) -> Any:
    """A NumPy array in the library of a block, on its device."""
    return namespace(block).as_tensor(values, device=block.device) if is_tensor(block) else values
