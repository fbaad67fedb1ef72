"""Records that say how far each pass over them is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hushcov.kernel.records.base import Chain, Progress, Records, View, WrappedRecords


class WatchedRecords(WrappedRecords):
    """Records of which each pass calls `start` once, then `progress` with the rows of a block."""

    def __init__(self, records: Records, start: Callable[[], object], progress: Progress) -> None:
        super().__init__(records)
        self.start, self.progress, self._told = start, progress, progress

    def _blocks(self) -> Iterator[Any]:
        return self._watched(self._records._blocks())

    def _blocks_from(self, start: int) -> Iterator[Any]:
        return self._watched(self._records._blocks_from(start), start)

    def _watched(self, blocks: Iterator[Any], done: int = 0) -> Iterator[Any]:
        self.start()
        if done:
            self._told(done)
        for block in blocks:
            yield block
            self._told(len(block))

    def _view(self) -> View:
        return Chain()  # workers report rows to this process, which tells `progress`
