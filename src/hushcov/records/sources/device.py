"""Records on a device such as a GPU, through PyTorch: the same integers, bit for bit.

Every step that decides an integer is one IEEE operation on doubles: a product, a quotient, a root
or a rounding to an integer. Processors and devices round these alike. All sums are sums of
integers that doubles hold exactly, so their order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from hushcov._validation import shown
from hushcov.exceptions import DataError, MissingPackageError, ParameterError
from hushcov.records.protocol import Records, check_block_rows, namespace
from hushcov.records.sources.memory import check_table
from hushcov.records.views import View, WrappedRecords

# Blocks large enough to keep a device busy; a processor's blocks are far smaller.
_BLOCK_BYTES = 2**30


class DeviceRecords(WrappedRecords):
    """The same records, in blocks on a device: "cuda", "cuda:1", "cpu" and so on."""

    def __init__(self, records: Records, device: str) -> None:
        super().__init__(records)
        torch = _torch()
        try:
            self._device = str(torch.device(device))
            # Try it: a device may exist in name only, or have no doubles.
            torch.ones(1, dtype=torch.float64, device=self._device).cpu()
        except (RuntimeError, AssertionError, TypeError, ValueError, OverflowError):
            raise ParameterError(
                f"device must name one that PyTorch can use, got {shown(device)}: 'cuda' for an "
                "NVIDIA card, or None for this computer's processor."
            ) from None

    def _blocks(self) -> Iterator[Any]:
        torch = _torch()
        for rows in self._joined():
            yield torch.as_tensor(rows).to(self._device)

    def _joined(self) -> Iterator[Any]:
        """Blocks joined to larger ones: few large copies to a device are faster than many."""
        largest = max(1, _BLOCK_BYTES // (8 * self.n_features))
        waiting: list[Any] = []
        n_rows = 0
        for block in self._records._blocks():
            if waiting and n_rows + len(block) > largest:
                yield _joined(waiting)
                waiting, n_rows = [], 0
            waiting.append(block)
            n_rows += len(block)
        if waiting:
            yield _joined(waiting)

    def _view(self) -> View:
        return partial(DeviceRecords, device=self._device)


class TensorRecords(Records):
    """Rows of a PyTorch tensor, summed over on its own device.

    Parameters
    ----------
    tensor : torch.Tensor of shape (n_records, n_features)
        Real numbers; the tensor is not copied, so leave it unchanged while in use.
    block_rows : int, optional
        Most rows in a block. It changes speed and memory, never a result.
    """

    def __init__(self, tensor: Any, *, block_rows: int | None = None) -> None:
        torch = _torch()
        if tensor.is_complex() or tensor.is_sparse or tensor.is_quantized:
            raise DataError(
                f"X must be a dense tensor of real numbers, got {tensor.dtype}: convert it first."
            )
        check_table("X", tuple(tensor.shape), np.dtype(np.float64), kinds="f")
        self.n_records, self.n_features = tensor.shape
        self.block_rows = check_block_rows(
            block_rows, max(1, _BLOCK_BYTES // (8 * self.n_features))
        )
        self._tensor, self._double = tensor.detach(), torch.float64

    def _blocks(self) -> Iterator[Any]:
        for start in range(0, self.n_records, self.block_rows):
            yield self._tensor[start : start + self.block_rows].to(self._double)


def _joined(blocks: list[Any]) -> Any:
    """Join blocks into a new, writeable one: PyTorch warns of read-only arrays."""
    return namespace(blocks[0]).concatenate(blocks)


def _torch() -> Any:
    """Return the package torch, or raise an error that says how to install it."""
    try:
        import torch
    except ImportError:
        raise MissingPackageError("accelerators", "PyTorch", "torch") from None
    return torch
