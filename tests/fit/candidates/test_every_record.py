"""How far any record of few features moves what gets noise, look by look, in a whole release."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hushcov.candidates import Candidates
from hushcov.fit.candidates import candidate_parameters, release_candidates
from hushcov.fit.mechanism import Prepared
from hushcov.inputs import ReleaseInputs
from hushcov.kernel import session
from hushcov.kernel.accounting import ADD_REMOVE, ONE_REPLACED, Budget, Neighbours
from hushcov.kernel.noise import Entropy
from hushcov.kernel.records.base import CountedRecords
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.units import units_of
from movements import Played
from sessions import certified

D = 3
# Far beyond every bound, inside, at zero of both signs, and what is no more than rounding.
EVERY = np.array(list(itertools.product((-1e30, -1.0, -1e-3, 0.0, 0.7, 40.0), repeat=D)))
OTHERS = np.random.default_rng(0).standard_normal((8, D))
RELATIONS = {"replace": ONE_REPLACED, "add-remove": Neighbours(ADD_REMOVE)}
UNITS = {  # of two records each, bounded as one
    f"{name}, units": Neighbours(each.relation, 2, "person", combined=True)
    for name, each in RELATIONS.items()
}
# Two records of a unit that are alike, opposite, or have nothing to do with each other.
IN_PAIRS = np.stack([EVERY, np.roll(EVERY, 1, axis=0), EVERY, -EVERY], axis=1)
IN_PAIRS = np.concatenate([IN_PAIRS[::3, :2], IN_PAIRS[::3, 2:], IN_PAIRS[::3, [0, 0]]])
CASES = {
    "one look": (Candidates.band(D, 1), {}),
    "single": (Candidates.of_pairs(D, np.array([0]), np.array([2])), {"single": True}),
    "width": (Candidates.band(D, 2), {"adaptive_width": True}),
}


def played(monkeypatch, case, relation):
    """Each squared movement over what was taken from the clock for it, and their sum over all."""
    neighbours = (RELATIONS | UNITS)[relation]
    known, options = CASES[case]
    most, fresh = neighbours.most_rows, IN_PAIRS if relation in UNITS else EVERY[:, None]
    n = len(OTHERS) + most
    inputs = ReleaseInputs(
        n, D, 2, epsilon=2.0, delta=1e-6, neighbours=neighbours, candidates=known
    )
    parameters = candidate_parameters(inputs, **options)
    found, taken = Played(), []
    monkeypatch.setattr(session, "rounded_normal", found.noise)
    take = Budget.gaussian
    monkeypatch.setattr(
        Budget, "gaussian", lambda self, mu, part=None: (taken.append(mu), take(self, mu, part))
    )
    entropy = Entropy(np.random.default_rng(0), private=False)

    def release(rows):
        taken.clear()
        records = ArrayRecords(rows)
        if most > 1:
            records = units_of(np.arange(len(rows)) // most, len(rows)).bounded(records, most)
        access = certified(CountedRecords(records, n), parameters, entropy)
        return release_candidates(Prepared(access, np.full(D, 0.5)), parameters)

    removed = neighbours.relation == ADD_REMOVE
    tables = [np.vstack([OTHERS, *records[None]]) for records in fresh]
    found.play(release, [OTHERS, *tables] if removed else tables)
    assert len(taken) == len(found.kinds)
    assert sum(mu**2 for mu in taken) <= parameters.budget().mu ** 2
    squares = [found.squares(place, removed=removed) for place in range(len(taken))]
    # What is charged for a unit is the clock of so many records, one after the other.
    each = [float(x.max()) / (most * mu) ** 2 for x, mu in zip(squares, taken, strict=True)]
    return each, float(sum(squares).max()) / (most * math.sqrt(sum(mu**2 for mu in taken))) ** 2


@pytest.mark.parametrize("relation", [*RELATIONS, *UNITS])
@pytest.mark.parametrize(
    "case",
    [each if each == "single" else pytest.param(each, marks=pytest.mark.slow) for each in CASES],
)
def test_looks_move_by_no_more_than_is_taken(monkeypatch, case, relation):
    each, together = played(monkeypatch, case, relation)
    looks = 2 if case == "width" or relation in UNITS else 1
    assert len(each) == 2 * looks  # norms and values of each
    assert max(each) <= 1
    assert min(each) > 0.25  # the bound is not idle
    assert together <= 1
