"""A release played again: what was released is held, and what was not is changed.

A tape records every noisy number, and plays it in the place of what other records would have given.
Decisions that follow from released numbers alone come out the same; others show as another release.
"""

from __future__ import annotations

import numpy as np

from hushcov.kernel import session
from hushcov.kernel.noise import gumbel_top, rounded_normal
from hushcov.kernel.noise.normal import symmetric_noise


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
        """Put the tape where noise is added."""

        def noise(generator, sigma, size):
            return Noise.of(rounded_normal(generator, sigma, size), self)

        def matrix_noise(generator, d, *sigmas):
            return Noise.of(symmetric_noise(generator, d, *sigmas), self)

        monkeypatch.setattr(session, "rounded_normal", noise)
        monkeypatch.setattr(session, "symmetric_noise", matrix_noise)
        monkeypatch.setattr(session, "gumbel_top", self.select)


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
        return out[0].view(np.ndarray)  # noise no more


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
