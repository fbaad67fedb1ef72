"""A release played again: what was released is held, and what was not is changed.

A tape records every noisy number, and plays it in the place of what other records would have given.
Decisions that follow from released numbers alone come out the same; others show as another release.
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
from hushcov.kernel.noise import gumbel_top, rounded_normal

#: Modules in which noise is added to arrays, and those in which it is added to a number.
ARRAYS = (
    *(hushcov.mechanisms.adaptive.mechanism, hushcov.mechanisms.screened.values),
    hushcov.steps.complete,
    *(hushcov.steps.location, hushcov.steps.norms, hushcov.steps.preparation, hushcov.steps.scales),
)
NUMBERS = (hushcov.mechanisms.adaptive.pairs,)
MATRIX, LADDER = hushcov.mechanisms.adaptive.mechanism, hushcov.mechanisms.adaptive.pairs


class OtherStepError(KeyboardInterrupt):  # fits let interrupts pass
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
        exact = np.array(np.broadcast_to(exact, noise.shape))
        released = self.tape.next(exact, noise.view(np.ndarray))
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


def others(n, d):
    """Records that have nothing in common with those of any case."""
    rng = np.random.default_rng(8)
    common = rng.standard_t(2, size=(n, 1)) * rng.standard_normal(d)
    return 1e3 * (common + rng.exponential(size=(n, d))) - 50


def replayed(monkeypatch, release, rows, other):
    """A release of one table, and what another gives while all that was released is held.

    None where its steps were others.
    """
    tape = Tape()
    tape.install(monkeypatch)
    before = release(rows)
    tape.rewind()
    try:
        after = release(other)
    except OtherStepError:
        return before, None
    return before, after if tape.finished else None
