"""Records that stand for files nobody can store, and records that must not be read."""

import numpy as np

from hushcov.kernel.records.base import Records


class RepeatedRecords(Records):
    """A block of rows repeated until it fills n: sums over it are exact multiples."""

    def __init__(self, block, repeats):
        self.block = np.ascontiguousarray(block, dtype=np.float64)
        self.block.setflags(write=False)
        self.repeats = repeats
        self.n_records, self.n_features = len(block) * repeats, block.shape[1]

    def map_sum(self, block_function):
        return block_function(self.block) * self.repeats

    def _blocks(self):
        for _ in range(self.repeats):
            yield self.block


class RecordsReadError(KeyboardInterrupt, AssertionError):
    """Passes through a fit as interrupts do, which replaces other errors by its own."""


class UntouchableRecords(Records):
    """Public sizes only; the test fails when a row is asked for."""

    def __init__(self, n_records, n_features):
        self.n_records, self.n_features = n_records, n_features

    def map_sum(self, block_function):
        raise RecordsReadError("the records were read")

    def _blocks(self):
        raise RecordsReadError("the records were read")
        yield
