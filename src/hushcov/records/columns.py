"""Rows out of columns: files keep a feature together, blocks keep a record together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

from hushcov._compiled import compiled

FloatArray = npt.NDArray[np.float64]

# Eight columns make a line of the cache, written whole; this many rows of them stay in it. Copying
# one column after another takes 1.5 times as long, and five times where d is a power of two.
_WIDTH = 8
_HEIGHT = 256


class Columns:
    """Features of successive records, each on its own; at least one, and of one length."""

    def __init__(self, columns: Sequence[FloatArray]) -> None:
        self.n_rows = len(columns[0])
        # Compiled loops follow addresses without checking them.
        for column in columns:
            assert column.dtype == np.float64
            assert column.flags.c_contiguous
            assert column.shape == (self.n_rows,)
        self._columns = tuple(columns)  # they live as long as their addresses are of use
        self._addresses = np.array([column.ctypes.data for column in columns], dtype=np.uint64)

    def fill(self, rows: FloatArray, start: int) -> None:
        """Fill `rows` with the records from `start` on."""
        assert rows.shape[1] == len(self._columns)
        assert 0 <= start <= self.n_rows - len(rows)
        _interleave(self._addresses, start, rows)


def _define_pointer(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    to_numbers: Any = types.CPointer(types.float64)  # type: ignore[no-untyped-call]
    return to_numbers(address), generate


#: In compiled code: the numbers at an address. A list of arrays would be copied element by element.
_pointer: Any = intrinsic(_define_pointer)


@compiled
def _interleave(addresses: npt.NDArray[np.uint64], start: int, rows: FloatArray) -> None:
    n, d = rows.shape
    for top in range(0, n, _HEIGHT):
        for left in range(0, d, _WIDTH):
            for a in range(top, min(top + _HEIGHT, n)):
                for i in range(left, min(left + _WIDTH, d)):
                    rows[a, i] = _pointer(addresses[i])[start + a]
