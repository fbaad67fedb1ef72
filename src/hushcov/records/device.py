"""Records on an accelerator, through PyTorch: the same integers, bit for bit.

Every step that decides an integer is one IEEE operation on doubles, correctly rounded on
processors and accelerators alike: a product, a quotient, a root, a rounding to an integer. All
sums are sums of integers that doubles hold exactly, in whatever order they are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from hushcov._validation import check_integer, shown
from hushcov.exceptions import DataError, MissingPackageError, ParameterError
from hushcov.records.arrays import namespace
from hushcov.records.source import Records
from hushcov.records.tables import check_table
from hushcov.records.wrapped import View, WrappedRecords

# Blocks that keep an accelerator busy; a processor's blocks are far smaller.
_BLOCK_BYTES = 2**30


class DeviceRecords(WrappedRecords):
    """The same records, in blocks on a device: "cuda", "cuda:1", "cpu" and so on."""

    def __init__(self, records: Records, device: str) -> None:
        super().__init__(records)
        torch = torch_module()
        try:
            self._device = str(torch.device(device))
            # There and back again: a device may exist in name only, or have no doubles.
            torch.ones(1, dtype=torch.float64, device=self._device).cpu()
        except (RuntimeError, AssertionError, TypeError, ValueError, OverflowError):
            raise ParameterError(
                f"device must name one that PyTorch can use, got {shown(device)}: 'cuda' for an "
                "NVIDIA card, or None for this computer's processor."
            ) from None

    def _blocks(self) -> Iterator[Any]:
        torch = torch_module()
        for rows in self._joined():
            yield torch.as_tensor(rows).to(self._device)

    def _joined(self) -> Iterator[Any]:
        """Blocks of the records, joined to such that pay the way to the device."""
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
    """Rows of a PyTorch tensor, summed over on the device where it lies.

    Parameters
    ----------
    tensor : torch.Tensor of shape (n_records, n_features)
        Real numbers; the tensor is not copied, so leave it unchanged while in use.
    block_rows : int, optional
        Most rows in a block. It changes speed and memory, never a result.
    """

    def __init__(self, tensor: Any, *, block_rows: int | None = None) -> None:
        torch = torch_module()
        if tensor.is_complex() or tensor.is_sparse or tensor.is_quantized:
            raise DataError(
                f"X must be a dense tensor of real numbers, got {tensor.dtype}: convert it first."
            )
        check_table("X", tuple(tensor.shape), np.dtype(np.float64), kinds="f")
        self.n_records, self.n_features = tensor.shape
        if block_rows is None:
            block_rows = max(1, _BLOCK_BYTES // (8 * self.n_features))
        self.block_rows = check_integer(
            "block_rows", block_rows, at_least=1, cure="leave it out for the default."
        )
        self._tensor, self._double = tensor.detach(), torch.float64

    def _blocks(self) -> Iterator[Any]:
        for start in range(0, self.n_records, self.block_rows):
            yield self._tensor[start : start + self.block_rows].to(self._double)


def _joined(blocks: list[Any]) -> Any:
    """Blocks of rows as one, which may be written to: PyTorch knows no other arrays."""
    return namespace(blocks[0]).concatenate(blocks)


def torch_module() -> Any:
    """PyTorch, or how to install it."""
    try:
        import torch
    except ImportError:
        raise MissingPackageError("accelerators", "PyTorch", "torch") from None
    return torch
