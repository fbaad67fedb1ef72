"""Which tests of a level are kept: the quota's largest noisy scores, by groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import run_in_chunks
from hushcov.mechanisms.multiscale import kernels
from hushcov.mechanisms.multiscale.schedule import Level
from hushcov.noise import Selection, binomial, select_largest


def select_tests(
    alpha: FloatArray, level: Level, gumbel: bool, generator: np.random.Generator
) -> Selection:
    """Select among all tests of a level, active and inactive.

    `alpha` is |S_e| / t_ell in decreasing order. In the answer group len(alpha) pools the
    inactive tests, and the detail of a single is its omega.
    """
    active = active_tests(len(alpha), level, generator)
    inactive = level.candidates - int(active.sum())
    return select_largest(
        generator,
        np.append(active, inactive),
        level.quota,
        noisy_scores(alpha, level, gumbel),
        most_single=level.most_single,  # proof: step 8
    )


def active_tests(n_entries: int, level: Level, generator: np.random.Generator) -> IntArray:
    """How many tests of each entry are active, Binomial(m_ell, p_ell)."""
    return binomial(
        generator,
        np.full(n_entries, level.repetitions, dtype=np.int64),
        np.full(n_entries, level.activation),
        np.full(n_entries, level.inactivation),
    )


def noisy_scores(alpha: FloatArray, level: Level, gumbel: bool) -> NoisyScores:
    """The law of the noisy scores of a level that selects."""
    assert level.selection_scale is not None
    return NoisyScores(np.append(alpha, kernels.INACTIVE), level.selection_scale, gumbel)


@dataclass(frozen=True)
class NoisyScores:
    """Noisy scores plus one: omega + noise(b), omega = alpha / tau; inactive tests at -1."""

    alpha: FloatArray
    b: float
    gumbel: bool

    @property
    def support(self) -> tuple[float, float]:
        """All but e^-60 of every score's probability."""
        return kernels.INACTIVE - 60 * self.b, float(self.alpha[0]) + 60 * self.b

    def masses(
        self, groups: IntArray, lo: float, split: float, hi: float
    ) -> tuple[FloatArray, FloatArray]:
        """Probabilities of (split, hi] and (lo, split] for one test of each group."""
        above, below = np.empty((2, len(groups)))
        run_in_chunks(
            kernels.fill_score_masses,
            len(groups),
            self.alpha[groups],
            lo,
            split,
            hi,
            self.b,
            self.gumbel,
            above,
            below,
        )
        return above, below

    def draw(
        self, generator: np.random.Generator, groups: IntArray, lo: float, hi: float
    ) -> tuple[FloatArray, FloatArray]:
        """Distance of each score from `lo`, and its omega."""
        offset, omega = np.empty((2, len(groups)))
        pending = np.arange(len(groups))
        while len(pending):
            accepted = np.empty(len(pending), dtype=np.bool_)
            kernels.attempt_points(
                pending,
                self.alpha[groups[pending]],
                lo,
                hi,
                self.b,
                self.gumbel,
                generator.random((3, len(pending))),
                offset,
                omega,
                accepted,
            )
            pending = pending[~accepted]
        return offset, omega
