"""Records in blocks on a device, and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hushcov._arrays import FloatArray, namespace
from hushcov._validation import shown
from hushcov.exceptions import MissingPackageError, ParameterError, raise_alone
from hushcov.kernel.records.base import Records, WrappedRecords

_BLOCK_BYTES = 2**30  # of a block: large enough to keep a device busy


def device_block_rows(n_features: int) -> int:
    """Return the rows in a block on a device."""
    return max(1, _BLOCK_BYTES // (8 * n_features))


def import_torch() -> Any:
    """Return the package torch, or raise an error that says how to install it."""
    try:
        import torch
    except ImportError:
        raise MissingPackageError("accelerators", "PyTorch", "torch") from None
    return torch


class DeviceRecords(WrappedRecords):
    """Records in blocks on a device: "cuda", "cuda:1", "cpu" and so on."""

    in_arrays = False

    def __init__(self, records: Records, device: str) -> None:
        super().__init__(records)
        self.on_device = True
        torch = import_torch()
        try:
            self.device = str(torch.device(device))
            self._public = {"device": self.device}
            # Try it: a device may exist in name only, or have no doubles.
            torch.ones(1, dtype=torch.float64, device=self.device).cpu()
        except (RuntimeError, AssertionError, TypeError, ValueError, OverflowError):
            raise_alone(
                ParameterError(
                    f"device must name one that PyTorch can use, got {shown(device)}: 'cuda' for "
                    "an NVIDIA card, or None for this computer's processor."
                )
            )

    def _blocks(self) -> Iterator[Any]:
        # Blocks are joined to larger ones: few large copies to a device are faster than many. They
        # are new and writeable: PyTorch warns of read-only arrays.
        torch, largest = import_torch(), device_block_rows(self.n_features)
        waiting: list[Any] = []
        for block in itertools.chain(self._records._blocks(), [None]):
            if waiting and (block is None or sum(map(len, waiting)) + len(block) > largest):
                rows = namespace(waiting[0]).concatenate(waiting)
                yield torch.as_tensor(rows).to(self.device)
                waiting = []
            if block is not None:
                waiting.append(block)


class _FromDevice(WrappedRecords):
    """Rows of a tensor, in arrays."""

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self.on_device = False

    def _blocks(self) -> Iterator[FloatArray]:
        for block in self._records._blocks():
            yield block.cpu().numpy()  # type: ignore[attr-defined]


def on_processor(records: Records) -> Records:
    """Return the records without the device that is somewhere in their views, or theirs."""
    if not records.on_device:
        return records
    if not isinstance(records, WrappedRecords):
        return _FromDevice(records)
    inner = on_processor(records._records)
    if isinstance(records, DeviceRecords):
        return inner
    return records.off_device(inner)
