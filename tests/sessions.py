"""Sessions on rows, for tests of queries, steps and mechanisms."""

from __future__ import annotations

import numpy as np

from hushcov.calibration import full_budget
from hushcov.kernel.accounting import ONE_REPLACED, Budget
from hushcov.kernel.noise import Entropy, entropy_source
from hushcov.kernel.records.base import Records
from hushcov.kernel.session import Session
from hushcov.tables.sources import ArrayRecords


def seeded(seed=3):
    """Entropy that repeats itself, without a warning."""
    return Entropy(np.random.default_rng(seed), private=False)


def records_of(X):
    return X if isinstance(X, Records) else ArrayRecords(X)


def ample(neighbours=ONE_REPLACED, **known):
    """A budget that has room for any step, and says what a step is that has no name."""
    budget = full_budget(50.0, 0.05, neighbours, private=False, **known)
    budget.part = "a step that does not say what it is"
    return budget


def session_of(X, budget=None, entropy=None, *, neighbours=ONE_REPLACED, units=None):
    """A session with an ample budget, unless one is given."""
    budget = ample(neighbours) if budget is None else budget
    return Session(records_of(X), budget, entropy or seeded(), units)


def certified(X, parameters, entropy=None):
    """A session with the budget of a mechanism."""
    entropy = entropy_source() if entropy is None else entropy
    return Session(records_of(X), parameters.budget(private=entropy.private), entropy)


class Unlimited(Budget):
    """A budget that takes any event beside its clock, for laws at rates that nobody is sold."""

    def fixed(self, event, part):
        self.charges.append((part, event))


def unlimited(X, entropy):
    return Session(records_of(X), Unlimited(50.0, 0.05, mu=0.1, private=False), entropy)
