"""Every mechanism, once. `fit`, `plan`, `bench`, `audit` and the report read this list.

A new mechanism of the core is one more line here; other distributions add theirs as entry points.
Mechanisms are loaded when they are first asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._plugins import installed_plugins, load_plugin, require_plugin
from hushcov._words import memory
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.fit.mechanism import REFERENCE_MODELS, Forecast
from hushcov.inputs import ReleaseInputs

if TYPE_CHECKING:
    from hushcov.candidates import Candidates
    from hushcov.fit.mechanism import Mechanism


_MAX_REFERENCE_FEATURES = 200  # above this, references stand in whose features may be lost
# Name, module below `hushcov` and object there, in the order of tables; first the default. Their
# errors are predicted; those of mechanisms from other distributions are not.
_PREDICTED = (
    "adaptive = fit.adaptive.plan:ADAPTIVE",
    "screened = fit.screened.plan:SCREENED",
    "gaussian-threshold = fit.gaussian.plan:GAUSSIAN_THRESHOLD",
    "gaussian = fit.gaussian.plan:GAUSSIAN",
    "multiscale = paper.plan:MULTISCALE",
)
# Mechanisms that accept candidate pairs. The first is the default where candidates are given; it
# cannot run without them.
_WITH_CANDIDATES = (
    "candidates = fit.candidates:CANDIDATES",
    "screened = fit.screened.plan:SCREENED",
    "gaussian = fit.gaussian.plan:GAUSSIAN",
)


class _Listed(Mapping[str, "Mechanism"]):
    """Mechanisms by their names, each loaded when it is first asked for.

    `others` says that mechanisms of other distributions are listed, too, after those of the core.
    """

    def __init__(self, *lines: str, others: bool = False) -> None:
        self._places, self._others = dict(line.split(" = ") for line in lines), others

    def __getitem__(self, name: str) -> Mechanism:
        if name not in self._places and self._others:
            check_installed(name)
            other: Mechanism = load_plugin("mechanisms", name)
            return other
        module, variable = self._places[name].split(":")
        found: Mechanism = getattr(import_module(f"hushcov.{module}"), variable)
        return found

    def __contains__(self, name: object) -> bool:
        return any(name == each for each in self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places | (installed_plugins("mechanisms") if self._others else {}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_ALL, _ERROR_PREDICTED = _Listed(*_PREDICTED, others=True), _Listed(*_PREDICTED)
_FOR_CANDIDATES = _Listed(*_WITH_CANDIDATES)
_ANY = _Listed(*_PREDICTED, *_WITH_CANDIDATES, others=True)


def mechanisms() -> Mapping[str, Mechanism]:
    """Return every mechanism that is installed, by its name."""
    return _ALL


def predicted() -> Mapping[str, Mechanism]:
    """Return the mechanisms whose error is predicted."""
    return _ERROR_PREDICTED


def candidate_mechanisms() -> Mapping[str, Mechanism]:
    """Return the mechanisms that accept candidate pairs."""
    return _FOR_CANDIDATES


def comparable(candidates: Candidates | None) -> Mapping[str, Mechanism]:
    """Return the mechanisms whose error is predicted: of all pairs, or of candidates alone."""
    return _ERROR_PREDICTED if candidates is None else _FOR_CANDIDATES


def default_mechanism(*, known: bool = False) -> Mechanism:
    """Return the one to run where nobody asks for another; `known`: candidates are given."""
    return _FOR_CANDIDATES["candidates"] if known else _ERROR_PREDICTED["adaptive"]


def named(mechanism: str) -> Mechanism:
    """Return the mechanism of this name, also one that requires candidate pairs."""
    return _ANY[mechanism]


def check_installed(mechanism: str) -> None:
    """Refuse a mechanism of another distribution that is not installed, and name that."""
    require_plugin("mechanisms", str(mechanism), f"the mechanism {mechanism!r}")


def check_candidates(mechanism: str, candidates: Candidates | None) -> None:
    """Refuse candidate pairs that a mechanism has no use for, or their lack where it has."""
    if candidates is None and mechanism not in _ALL and mechanism in _FOR_CANDIDATES:
        raise ParameterError(
            f"bandwidth or candidate_pairs is required by {mechanism}: it releases pairs that are "
            "known to be the only ones that may covary. Leave the mechanism out where none are."
        )
    if candidates is not None and not named(mechanism).takes_candidates:
        raise ParameterError(
            f"bandwidth and candidate_pairs must be left out with {mechanism}, which looks at all "
            f"pairs: use {' or '.join(_FOR_CANDIDATES)}, or leave the mechanism out."
        )


@lru_cache(maxsize=4096)
def forecast(
    inputs: ReleaseInputs, mechanism: str, *, rough: bool = False, adaptive_width: bool = False
) -> Forecast:
    """Predict one mechanism's error; features that are not found count.

    `adaptive_width` says that the bandwidth is a maximum, to the mechanism that finds a width.
    """
    check_candidates(mechanism, inputs.candidates)
    chosen = comparable(inputs.candidates)[mechanism]
    if adaptive_width and chosen is default_mechanism(known=True):
        found = chosen.plan(inputs, adaptive_width=True).forecast  # type: ignore[call-arg]
        assert found is not None, f"{mechanism} is said to be predicted"
        return with_missing(found, inputs)
    return with_missing(chosen.forecast(inputs, rough=rough), inputs)


def with_missing(forecast: Forecast, inputs: ReleaseInputs) -> Forecast:
    """Return the forecast for all features where some may not be found: their entries are 0."""
    found = inputs.found
    if found.every == 1:
        return forecast
    known = inputs.row_sparsity if inputs.candidates is None else _MAX_REFERENCE_FEATURES
    size = inputs.n_features, min(inputs.row_sparsity, known)
    missing = min(1.0, (1 - found.share) / (1 - found.every))  # where some are
    errors = {}
    for model, error in forecast.predicted_error.items():
        lost = math.hypot(lost_error(model, *size, missing), (1 - missing) * min(1.0, error))
        worse = max(min(1.0, lost), min(1.0, error))
        errors[model] = found.every * error + (1 - found.every) * worse
    limit = forecast.detection_limit if found.share > 0 else None
    return replace(forecast, predicted_error=errors, detection_limit=limit)


def lost_error(model: str, n_features: int, row_sparsity: int, missing: float) -> float:
    """Return the norm of the entries of a share of the features over that of all entries.

    Where all features move together, it is that of u u' - v v' for a unit vector u and its part v.
    """
    from hushcov.fit.reference import reference  # not before errors are predicted

    if missing == 0:
        return 0.0
    kept = 1 - missing
    together = (missing + math.sqrt(missing**2 + 4 * kept * missing)) / 2
    if model not in REFERENCE_MODELS:
        return together
    matrix = reference(model, n_features, row_sparsity, _MAX_REFERENCE_FEATURES).matrix
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
    candidates: Candidates | None = None,
    elsewhere: bool = False,
    memory: int | None = None,
) -> int:
    """Return the bytes that a fit of so many features needs, without records held in memory.

    `reader` is what pyarrow takes of files, `records.files.reader_bytes`. `prepared` says
    that means are found privately, so that a compact copy of few records is kept. `candidates`
    are the pairs that may covary, where that is known. `elsewhere` says that workers of a cluster
    have the records, so that this process holds their sums alone, one at a time. `memory` are bytes
    that were given to the copy, of which as many rows as fit are kept.
    """
    from hushcov.kernel.queries import copy_bytes, default_block_rows

    rows = default_block_rows(n_features)
    chosen = named(mechanism)
    here = 1 if elsewhere and n_records < 2**31 else n_records  # no signs; scores have four bytes
    if candidates is None:
        work = chosen.work(here, n_features, rows, sparse)
    else:
        work = chosen.listed_work(here, n_features, candidates.n_pairs, sparse)
    if elsewhere:
        return _PROCESS + _FIXED + _CLIENT + work
    kept = 0
    if prepared:
        kept = copy_bytes(n_records, n_features, memory=memory)
    kept += reader_memory(n_features, rows, reader) if reader else 0
    return _PROCESS + _FIXED + _BLOCKS * rows * n_features * 8 + work + kept


def check_memory(
    mechanism: str,
    n_records: int,
    n_features: int,
    *,
    sparse: bool = False,
    prepared: bool = True,
    candidates: Candidates | None = None,
    given: int | None = None,
) -> None:
    """Refuse a fit that this computer cannot hold, before anything is spent on it."""
    there = total_memory()
    known: Any = {"prepared": prepared, "candidates": candidates, "memory": given}
    needed = fit_memory(mechanism, n_records, n_features, sparse=sparse, **known)
    if there is None or needed <= there:
        return
    able = " or ".join(name for name, each in mechanisms().items() if each.sparse)
    cure = "use fewer features or a larger computer."
    if not sparse:
        cure = f"use a {able} release with sparse output, fewer features, or a larger computer."
    size = f"{n_features:,} features"
    if candidates is not None:
        size += f" and {candidates.n_pairs:,} candidate pairs"
        cure = "use sparse output, a narrower band, fewer pairs or a larger computer."
    if given:
        cure = f"give the copy of files less memory than {memory(given)}, or {cure}"
    raise CapacityError(
        f"{size} need about {memory(needed)} of memory for the {mechanism} "
        f"mechanism, and {memory(there)} are there: {cure} Nothing was spent on it."
    )


#: Features up to which an estimate is a dense matrix where nothing else is asked for.
LARGEST_DENSE = 10_000
# Python, NumPy, SciPy, scikit-learn and compiled code, before any fit.
_PROCESS = 280 * 10**6
# What pyarrow adds to it.
_ARROW = 20 * 10**6
# What dask, its client and pyarrow add to it.
_CLIENT = 110 * 10**6
# Blocks of rows that are there at the same time: of files of columns one being read, one waiting
# and one in use, of others one.
_BLOCKS_READ, _BLOCKS = 3, 1
# Working arrays whose size depends on nothing.
_FIXED = 50 * 10**6
#: What a command takes beside its fit, to draw the heat map and to write the report.
PICTURES = 65 * 10**6
#: What compiling takes, the first time that a fit runs on a computer.
COMPILING = 80 * 10**6
# Linux: what a container may use. "max" in the file says that there is no limit.
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def reader_memory(n_features: int, rows: int, reader: int) -> int:
    """Return the bytes that reading files adds: pyarrow, its buffers, and blocks read ahead."""
    return _ARROW + reader + (_BLOCKS_READ - _BLOCKS) * rows * n_features * 8


def total_memory() -> int | None:
    """Return the bytes of memory that this process may use; None where they are unknown."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        limit = int(_CONTAINER_LIMIT.read_text())
    except (OSError, ValueError):
        limit = physical
    return min(physical, limit)
