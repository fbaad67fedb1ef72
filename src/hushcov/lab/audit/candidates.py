"""Attacks on the release of known candidates: whole releases of one pair, in one look or two."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.candidates import Candidates
from hushcov.lab.audit import neighbours
from hushcov.lab.audit.adaptive import weak_pair
from hushcov.lab.audit.attack import (
    FEATURES,
    FITTED,
    RECORDS,
    Attack,
    Draw,
    Handmade,
    Target,
    Turned,
    flat,
    inputs_of,
    matrix_statistics,
    records_of,
    summed,
)
from hushcov.lab.audit.neighbours import HUGE, Pair, Turn, replaced
from hushcov.mechanisms.candidates import (
    CandidateParameters,
    candidate_parameters,
    release_candidates,
)
from hushcov.mechanisms.candidates.parameters import NAME
from hushcov.noise import Entropy
from hushcov.release import Release
from hushcov.steps import Prepared

_WIDTH = 2


@dataclass(frozen=True)
class CandidatesTarget(Target):
    """`release_candidates`: the matrix, zeros beside the pairs that are left."""

    parameters: CandidateParameters

    def release(self, rows: FloatArray, entropy: Entropy) -> Release:
        """A whole release of records at scale 1."""
        records = records_of(rows, self.parameters.inputs.n_records)
        prepared = Prepared(records, np.ones(rows.shape[1]))
        budget = self.parameters.budget(private=entropy.private)
        return release_candidates(prepared, self.parameters, budget, entropy)

    def quick(self, rows: FloatArray) -> Draw:
        """A whole release each time."""
        return lambda generator: self.released(rows, Entropy(generator, private=False))

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """The matrix in the unit of the records."""
        release = self.release(rows, entropy)
        return flat(np.asarray(release.integers.toarray() * release.unit))


def _target(pair: Pair, width: int, *, adaptive_width: bool) -> CandidatesTarget:
    known = Candidates.band(pair.n_features, width)
    inputs = replace(inputs_of(pair, min(2, pair.n_features)), candidates=known)
    return CandidatesTarget(candidate_parameters(inputs, adaptive_width=adaptive_width))


def _attacks(name: str, turn: Turn, *, adaptive_width: bool) -> tuple[Attack, ...]:
    """A weak pair and a record at its bound; and a band whose record flips its signs."""
    weak = weak_pair(turn)
    flips = turn(neighbours.sign_flips(RECORDS, FEATURES, HUGE))
    one = _target(weak, 1, adaptive_width=adaptive_width)
    band = _target(flips, _WIDTH, adaptive_width=adaptive_width)
    value = summed("pair value", [1, 2], weak.n_features**2)
    return (
        Attack(name, one, weak, (value, FITTED), slowness=3),
        Attack(name, band, flips, matrix_statistics(flips), slowness=3),
    )


def _plain(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """All candidates in one look."""
    return _attacks(name, turn, adaptive_width=False)


def _width(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """Two looks, where the first one decides on the width."""
    return _attacks(name, turn, adaptive_width=True)


HANDMADE: Handmade = {NAME: {"": _plain, "width": _width}}

TURNED: dict[str, Turned] = {NAME: _plain, f"{NAME}-width": _width}
