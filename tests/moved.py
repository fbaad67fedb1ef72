"""How far neighbours move everything that gets noise, over that noise, given the same past.

A release is made of one dataset, and what is released is kept. Then it is made of a neighbour, and
every noisy number is put in the place of what the neighbour would have given, so that both take the
same steps. What differs are the exact numbers below the noise: their distance over the deviation of
the noise is what a Gaussian step costs, and the distance of scores times twice their rate what a
selection does.
"""

import sys
from itertools import pairwise

import numpy as np

from hushcov.kernel.accounting import BoundedRange, Budget, Clocked, Gaussian
from hushcov.kernel.noise import gumbel_top, rounded_normal


class Recorder:
    """Steps of releases with the same past."""

    def __init__(self):
        self.released, self.runs, self.place = [], [], 0
        self.etas = []  # what a budget was asked for, for selections on its clock

    def start(self):
        """The next release: the first is kept, others repeat what it released."""
        self.runs.append([])
        self.place = 0

    def add(self, exact, noise, sigma):
        if len(self.runs) == 1:
            self.released.append(exact + noise)
        self.runs[-1].append((np.array(exact, dtype=object), sigma, None))
        self.place += 1
        return np.copy(self.released[self.place - 1])

    def select(self, generator, scores, rate, count):
        if len(self.runs) == 1:
            self.released.append(gumbel_top(generator, np.array(scores), rate, count))
        self.runs[-1].append((np.array(scores, dtype=object), None, (rate, count)))
        self.place += 1
        return np.copy(self.released[self.place - 1])

    def costs(self):
        """The sum of squares of all Gaussian steps, and range and number of all selections."""
        first, second = self.runs
        assert len(first) == len(second) == len(self.released) > 0
        square, ranges = 0.0, []
        for (before, sigma, picked), (after, other, again) in zip(first, second, strict=True):
            moved = np.asarray(before - after, dtype=np.float64)
            assert picked == again
            if picked is None:
                assert np.array_equal(sigma, other)
                square += float(np.sum((moved / sigma) ** 2))
            else:
                ranges.append((2 * float(np.max(np.abs(moved), initial=0.0)) * picked[0], picked))
        return square, ranges

    def install(self, monkeypatch):
        """Stand wherever noise is drawn."""
        for name, module in list(sys.modules.items()):
            ours = name.startswith(("hushcov.", "hushcov_"))
            if not ours or name.startswith("hushcov.kernel.noise"):
                continue
            if hasattr(module, "rounded_normal"):
                monkeypatch.setattr(module, "rounded_normal", self._array)
            if hasattr(module, "symmetric_noise"):
                monkeypatch.setattr(module, "symmetric_noise", self._matrix)
            if hasattr(module, "gumbel_top"):
                monkeypatch.setattr(module, "gumbel_top", self.select)

        spend = Budget.select

        def select(budget, eta, count, *rest, **named):
            self.etas.append((eta, count))
            spend(budget, eta, count, *rest, **named)

        monkeypatch.setattr(Budget, "select", select)

    def _array(self, generator, sigma, size):
        return _Noise.of(rounded_normal(generator, sigma, size), self, sigma)

    def _matrix(self, generator, d, sigma, diagonal_sigma):
        """Entries below the diagonal are copies, and have no noise of their own."""
        sigmas = np.where(np.eye(d, dtype=bool), float(diagonal_sigma), float(sigma))
        sigmas[np.tril_indices(d, -1)] = np.inf
        noise = np.triu(rounded_normal(generator, sigma, d * d).reshape(d, d))
        return _Noise.of(noise + np.triu(noise, 1).T, self, sigmas)


class _Noise(np.ndarray):
    """Noise that tells the recorder what it is added to."""

    @classmethod
    def of(cls, noise, recorder, sigma):
        made = noise.view(cls)
        made.recorder, made.sigma = recorder, sigma
        return made

    def __array_finalize__(self, source):
        self.recorder, self.sigma = getattr(source, "recorder", None), getattr(source, "sigma", 0)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        assert ufunc is np.add
        exact, noise = inputs
        released = self.recorder.add(np.array(exact), noise.view(np.ndarray), self.sigma)
        if out is None:
            return released
        out[0][...] = released
        return out[0].view(np.ndarray)  # noise no more


def shares(monkeypatch, release, first, second, events):
    """What two datasets cost over what is charged: Gaussian steps, and the widest selection.

    `release` runs on records; `events` are those it is charged, its own and for these neighbours.
    """
    recorder = Recorder()
    with monkeypatch.context() as patch:
        recorder.install(patch)
        for records in (first, second):
            recorder.start()
            release(records)
    square, ranges = recorder.costs()
    allowed = sum(event.mu**2 for event in events if isinstance(event, Gaussian | Clocked))
    charged = [event for event in events if isinstance(event, BoundedRange)]
    widest = 0.0
    if charged:
        assert sum(event.count for event in charged) == sum(count for _, (_, count) in ranges)
        ends = np.cumsum([0, *(event.count for event in charged)])
        places = np.cumsum([0, *(count for _, (_, count) in ranges)])
        for (length, _), (start, _) in zip(ranges, pairwise(places), strict=True):
            event = charged[int(np.searchsorted(ends, start, side="right")) - 1]
            widest = max(widest, length / event.eta)
    if recorder.etas:
        clocked = recorder.etas[: len(recorder.etas) // 2]
        assert [count for _, count in clocked] == [count for _, (_, count) in ranges]
        for (length, _), (eta, _) in zip(ranges, clocked, strict=True):
            widest = max(widest, length / eta)
    return np.sqrt(square / allowed) if allowed else 0.0, widest
