"""Every mechanism, once. `fit`, `plan`, `bench`, `audit` and the report read this list.

A new mechanism is one more line here. Mechanisms are loaded when they are first asked for.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module

from hushcov._words import memory
from hushcov.exceptions import CapacityError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.room import Mechanism
from hushcov.planning.memory import process_memory, total_memory
from hushcov.predicting import Forecast
from hushcov.records import default_block_rows

# The room in `hushcov.mechanisms`, and the mechanism in it, in the order of tables; first the
# default. Those whose error is predicted, and the others.
_PREDICTED = (
    "adaptive:ADAPTIVE",
    "screened:SCREENED",
    "gaussian:GAUSSIAN_THRESHOLD",
    "gaussian:GAUSSIAN",
    "multiscale:MULTISCALE",
)
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


def default_mechanism() -> Mechanism:
    """The one to run where nobody asks for another."""
    return next(iter(predicted().values()))


@cache
def predicted() -> dict[str, Mechanism]:
    """Those whose error is predicted, among which the default chooses."""
    return _load(_PREDICTED)


def _load(listed: tuple[str, ...]) -> dict[str, Mechanism]:
    places = (place.split(":") for place in listed)
    found = (getattr(import_module(f"hushcov.mechanisms.{room}"), name) for room, name in places)
    return {each.name: each for each in found}


def _named(mechanism: str) -> Mechanism:
    return predicted().get(mechanism) or mechanisms()[mechanism]


@lru_cache(maxsize=4096)
def forecast(inputs: ReleaseInputs, mechanism: str, *, rough: bool = False) -> Forecast:
    """Predict one mechanism's error."""
    return predicted()[mechanism].forecast(inputs, rough=rough)


def fit_memory(
    mechanism: str,
    n_records: int,
    n_features: int,
    *,
    sparse: bool = False,
    reader: int = 0,
    prepared: bool = True,
) -> int:
    """Bytes that a process needs to fit so many features, without records held in memory.

    `reader` is what pyarrow takes of files, `FileRecords.reader_bytes`. `prepared` says
    that means are found privately, so that a compact copy of few records is kept.
    """
    from hushcov.records.compact import copy_bytes
    from hushcov.records.together import early_signs

    rows = default_block_rows(n_features)
    work = _named(mechanism).work(n_records, n_features, rows, sparse)
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
) -> None:
    """Refuse a fit that this computer cannot hold, before anything is spent on it."""
    there = total_memory()
    needed = fit_memory(mechanism, n_records, n_features, sparse=sparse, prepared=prepared)
    if there is None or needed <= there:
        return
    able = " or ".join(name for name, each in mechanisms().items() if each.sparse)
    cure = (
        "use fewer features or a larger computer."
        if sparse
        else f"use a {able} release with sparse output, fewer features, or a larger computer."
    )
    raise CapacityError(
        f"{n_features:,} features need about {memory(needed)} of memory for the {mechanism} "
        f"mechanism, and {memory(there)} are there: {cure} Nothing was spent."
    )
