"""What the tests of the screened release share: designs, parameters, seeded entropy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hushcov.exceptions import SeededNoiseWarning
from hushcov.fit.screened.mechanism import ScreenedDesign, release_screened, screened_parameters
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.noise import entropy_source
from hushcov.kernel.records.base import Records
from hushcov.tables.sources import ArrayRecords
from sessions import certified

DESIGN = ScreenedDesign(0.4, 1.2, 2, 0.5, 0.6, 1.0, 3.0)
ALL_PAIRS = dataclasses.replace(DESIGN, n_levels=0)


def inputs_of(n, d, k, *, epsilon=1.0, delta=1e-6, before=0.0):
    return ReleaseInputs(n, d, k, epsilon, delta, before)


def parameters_of(n, d, k, *, epsilon=1.0, delta=1e-6, before=0.0, **design):
    return screened_parameters(
        inputs_of(n, d, k, epsilon=epsilon, delta=delta, before=before),
        dataclasses.replace(DESIGN, **design),
    )


def seeded(seed):
    with pytest.warns(SeededNoiseWarning):
        return entropy_source(seed)


def released(X, parameters, *, scale=1.0, seed=0):
    records = X if isinstance(X, Records) else ArrayRecords(X)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), records.n_features)
    return release_screened(certified(records, parameters, seeded(seed)), scales, parameters)
