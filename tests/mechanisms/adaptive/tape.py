"""A release played again: what was released is held, and what was not is changed.

While a tape records, everything that gets noise is kept as it was released. When it plays, each of
these numbers is put in the place of what the records at hand would have given. Decisions that
follow from public and released numbers alone then come out the same for all records of the same
size, and so does the whole release. A decision that looks at anything else shows as another
release, or as a step that the tape does not have.
"""

from __future__ import annotations

import numpy as np

import hushcov.mechanisms.adaptive.mechanism
import hushcov.mechanisms.adaptive.pairs
import hushcov.mechanisms.screened.values
import hushcov.steps.complete
import hushcov.steps.location
import hushcov.steps.norms
import hushcov.steps.preparation
import hushcov.steps.scales
from hushcov.noise import gumbel_top, rounded_normal

#: Modules in which noise is added to arrays, and those in which it is added to a number.
ARRAYS = (
    hushcov.mechanisms.adaptive.mechanism,
    hushcov.mechanisms.screened.values,
    hushcov.steps.location,
    hushcov.steps.norms,
    hushcov.steps.preparation,
    hushcov.steps.scales,
)
NUMBERS = (hushcov.mechanisms.adaptive.pairs, hushcov.steps.complete)
MATRIX, LADDER = hushcov.mechanisms.adaptive.mechanism, hushcov.mechanisms.adaptive.pairs


class OtherStepError(Exception):
    """A release takes a step that the tape does not have."""


class Tape:
    """Released numbers in their order, recorded or played."""

    def __init__(self):
        self.entries, self.place = None, 0
        self.recorded = []

    def rewind(self):
        """From now on, play what was recorded."""
        self.entries, self.place = self.recorded, 0

    @property
    def finished(self):
        return self.place == len(self.entries)

    def next(self, exact, noise):
        """What is released: the sum, or what the tape has in its place."""
        if self.entries is None:
            self.recorded.append(exact + noise)
            return exact + noise
        if self.finished or np.shape(self.entries[self.place]) != np.shape(exact):
            raise OtherStepError
        self.place += 1
        return np.copy(self.entries[self.place - 1])

    def select(self, generator, scores, rate, count):
        """The same for a selection, which is no sum."""
        found = gumbel_top(generator, scores, rate, count)
        return self.next(found, np.zeros(len(found), dtype=np.int64))

    def install(self, monkeypatch):
        """Put the tape wherever noise is added."""
        symmetric = MATRIX.symmetric_noise

        def noise(generator, sigma, size):
            return Noise.of(rounded_normal(generator, sigma, size), self)

        def matrix_noise(generator, d, *sigmas):
            return Noise.of(symmetric(generator, d, *sigmas), self)

        def number_noise(generator, sigma, size):
            return [Number(int(rounded_normal(generator, sigma, size)[0]), self)]

        for module in ARRAYS:
            monkeypatch.setattr(module, "rounded_normal", noise)
        for module in NUMBERS:
            monkeypatch.setattr(module, "rounded_normal", number_noise)
            monkeypatch.setattr(module, "int", number_or_int, raising=False)
        monkeypatch.setattr(MATRIX, "symmetric_noise", matrix_noise)
        monkeypatch.setattr(LADDER, "gumbel_top", self.select)


class Noise(np.ndarray):
    """Noise that asks the tape when it is added."""

    @classmethod
    def of(cls, noise, tape):
        made = noise.view(cls)
        made.tape = tape
        return made

    def __array_finalize__(self, source):
        self.tape = getattr(source, "tape", None)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        assert ufunc is np.add
        assert method == "__call__"
        exact, noise = inputs
        released = self.tape.next(np.array(exact), noise.view(np.ndarray))
        if out is None:
            return released
        out[0][...] = released
        return out[0]


class Number:
    """The same for one number."""

    def __init__(self, noise, tape):
        self.noise, self.tape = noise, tape

    def __radd__(self, exact):
        return int(self.tape.next(exact, self.noise))


def number_or_int(value):
    return value if isinstance(value, Number) else int(value)
