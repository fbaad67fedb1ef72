"""Every mechanism, once. `fit`, `plan`, `bench`, `audit` and the report read this list.

A new mechanism is one more line here. Mechanisms are loaded when they are first asked for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module

import numpy as np

from hushcov._words import memory
from hushcov.exceptions import CapacityError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.room import Mechanism
from hushcov.planning.memory import process_memory, total_memory
from hushcov.predicting import REFERENCE_MODELS, Forecast, reference
from hushcov.records import default_block_rows

_LARGEST_LOST = 200  # features of a reference of which some are lost
# The room in `hushcov.mechanisms`, and the mechanism in it, in the order of tables; first the
# default. Those whose error is predicted, and the others.
_PREDICTED = (
    "adaptive:ADAPTIVE",
    "screened:SCREENED",
    "gaussian:GAUSSIAN_THRESHOLD",
    "gaussian:GAUSSIAN",
    "multiscale:MULTISCALE",
)
# Run where it is known which pairs may covary; it makes nothing of the whole table otherwise.
_KNOWN = ("candidates:CANDIDATES",)
_PAIR_BYTES = 96  # of working arrays and of the release, for each candidate
_OTHERS = (
    "peers.row_top_k:ROW_TOP_K",
    "peers.separate:SEPARATE",
    "peers.coinpress:COINPRESS",
    "peers.eigen_sampling:EIGEN_SAMPLING",
)


@cache
def mechanisms() -> dict[str, Mechanism]:
    """Every mechanism by its name."""
    return predicted() | _load(_OTHERS)


def default_mechanism(*, known: bool = False) -> Mechanism:
    """The one to run where nobody asks for another; `known` says that candidates are given."""
    return next(iter((_load(_KNOWN) if known else predicted()).values()))


@cache
def predicted() -> dict[str, Mechanism]:
    """Those whose error is predicted, among which the default chooses."""
    return _load(_PREDICTED)


def _load(listed: tuple[str, ...]) -> dict[str, Mechanism]:
    places = (place.split(":") for place in listed)
    found = (getattr(import_module(f"hushcov.mechanisms.{room}"), name) for room, name in places)
    return {each.name: each for each in found}


def _named(mechanism: str) -> Mechanism:
    return (predicted() | _load(_KNOWN)).get(mechanism) or mechanisms()[mechanism]


@lru_cache(maxsize=4096)
def forecast(inputs: ReleaseInputs, mechanism: str, *, rough: bool = False) -> Forecast:
    """Predict one mechanism's error; features that are not found count."""
    return with_missing(_named(mechanism).forecast(inputs, rough=rough), inputs)


def with_missing(forecast: Forecast, inputs: ReleaseInputs) -> Forecast:
    """The forecast for all features, where some may not be found: their entries are zero."""
    found = inputs.found
    if found.every == 1:
        return forecast
    size = inputs.n_features, inputs.row_sparsity
    missing = min(1.0, (1 - found.share) / (1 - found.every))  # where some are
    errors = {}
    for model, error in forecast.predicted_error.items():
        lost = math.hypot(lost_error(model, *size, missing), (1 - missing) * min(1.0, error))
        worse = max(min(1.0, lost), min(1.0, error))
        errors[model] = found.every * error + (1 - found.every) * worse
    limit = forecast.detection_limit if found.share > 0 else None
    return replace(forecast, predicted_error=errors, detection_limit=limit)


def lost_error(model: str, n_features: int, row_sparsity: int, missing: float) -> float:
    """The norm of the entries of a share of the features, over that of all entries.

    Where all features move together, that of u u' - v v' for a unit vector u and the part v of it.
    """
    if missing == 0:
        return 0.0
    kept = 1 - missing
    together = (missing + math.sqrt(missing**2 + 4 * kept * missing)) / 2
    if model not in REFERENCE_MODELS:
        return together
    matrix = reference(model, n_features, row_sparsity, _LARGEST_LOST).matrix
    n_missing = max(1, round(missing * len(matrix)))
    places = np.floor((np.arange(n_missing) + 0.5) * len(matrix) / n_missing).astype(np.int64)
    lost = matrix.copy()
    there = np.setdiff1d(np.arange(len(matrix)), places)
    lost[np.ix_(there, there)] = 0.0
    return float(np.linalg.norm(lost, 2) / np.linalg.norm(matrix, 2))


def fit_memory(
    mechanism: str,
    n_records: int,
    n_features: int,
    *,
    sparse: bool = False,
    reader: int = 0,
    prepared: bool = True,
    n_pairs: int = 0,
) -> int:
    """Bytes that a process needs to fit so many features, without records held in memory.

    `n_pairs` are candidates, where they are known. `reader` is what pyarrow takes of files,
    `FileRecords.reader_bytes`. `prepared` says that means are found privately, so that a compact
    copy of few records is kept.
    """
    from hushcov.records.compact import copy_bytes
    from hushcov.records.together import early_signs

    rows = default_block_rows(n_features)
    work = _named(mechanism).work(n_records, n_features, rows, sparse) + _PAIR_BYTES * n_pairs
    kept = 0
    if prepared:  # where no copy is kept, signs are: most have one bit, since zeros are few
        kept = copy_bytes(n_records, n_features) or early_signs(n_records, n_features) // 2
    return process_memory(n_features, rows, reader=reader) + work + kept


def check_memory(
    mechanism: str,
    n_records: int,
    n_features: int,
    *,
    sparse: bool = False,
    prepared: bool = True,
    n_pairs: int = 0,
) -> None:
    """Refuse a fit that this computer cannot hold, before anything is spent on it."""
    there = total_memory()
    size = n_records, n_features
    needed = fit_memory(mechanism, *size, sparse=sparse, prepared=prepared, n_pairs=n_pairs)
    if there is None or needed <= there:
        return
    able = " or ".join(name for name, each in mechanisms().items() if each.sparse)
    cure = (
        f"use fewer features{' or candidates' * (n_pairs > 0)}, or a larger computer."
        if sparse
        else f"use a {able} release with sparse output, fewer features, or a larger computer."
    )
    raise CapacityError(
        f"{n_features:,} features need about {memory(needed)} of memory for the {mechanism} "
        f"mechanism, and {memory(there)} are there: {cure} Nothing was spent."
    )
