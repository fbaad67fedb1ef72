"""From a preset to tasks, and what workers do: fit contenders, weigh them, predict mechanisms.

Worker processes stream what they find, and leave nothing behind when they are stopped.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import multiprocessing
import operator
import os
import signal
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hushcov._arrays import FloatArray
from hushcov._version import __version__
from hushcov.exceptions import (
    AccuracyWarning,
    HushcovError,
    PrivacyConditionError,
    PrivacyWarning,
    SeededNoiseWarning,
)
from hushcov.fit import forecast, predicted
from hushcov.inputs import ReleaseInputs
from hushcov.metrics import operator_norm, operator_norm_error, support_recovery
from hushcov.simulate import MODELS, gaussian_records, sparse_covariance, structured_covariance
from hushcov_lab.benchmark.cells import DELTA, Cell, Cost, Fit, Point, PredictedErrors, Preset
from hushcov_lab.benchmark.contenders import CONTENDERS, ContenderSetting, Estimator

# Read by the libraries below numpy when they are loaded.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_FOUND, _DONE, _FAILED, _NO_MEMORY = "found", "done", "failed", "no memory"


@dataclass(frozen=True)
class Task:
    """A function of a module that yields cells, and its arguments; both are sent to a worker."""

    function: Callable[..., Iterable[Any]]
    arguments: tuple[Any, ...]


def run_tasks(
    tasks: Sequence[Task], workers: int, keep: Callable[[Any], object], *, fresh: bool = False
) -> None:
    """Run tasks in `workers` processes, the first ones first, and `keep` each cell as it comes.

    With `fresh` every task has a process of its own. However this ends, no process is left: an
    error or an interrupt ends them all, and a worker whose parent was killed ends by itself.
    """
    waiting = deque(tasks)
    running: dict[Connection, BaseProcess] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                connection, process = _start()
                running[connection] = process
                connection.send(waiting.popleft())
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                if _received(ready, keep):
                    continue
                if waiting and not fresh:
                    ready.send(waiting.popleft())
                else:
                    ready.close()
                    running.pop(ready).join()
    finally:
        for process in running.values():
            process.terminate()
        for connection, process in running.items():
            process.join()
            connection.close()


def usable_cores() -> int:
    """Return the cores this program may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start() -> tuple[Connection, BaseProcess]:
    # A fork would share the parent's threads and compiled code; spawn starts from nothing.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there,), daemon=True)
    # Ctrl-C reaches all processes of a terminal: one that is just starting inherits deafness.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    there.close()
    return here, process


def _received(connection: Connection, keep: Callable[[Any], object]) -> bool:
    """Take one message of a worker, and return whether its task goes on."""
    try:
        what, content = connection.recv()
    except EOFError:
        raise ChildProcessError(
            "a worker was ended from outside, likely for lack of memory. Finished cells are kept: "
            "run the same command again, with fewer --workers."
        ) from None
    if what == _FOUND:
        keep(content)
        return True
    if what == _NO_MEMORY:
        raise MemoryError("Finished cells are kept: run again with fewer --workers.")
    if what == _FAILED:
        raise RuntimeError(f"a worker failed:\n{content}")
    return False


def _work(connection: Connection) -> None:
    """Answer tasks until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    threadpool_limits(1)  # for what the main module of the parent has loaded already
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task: Task = connection.recv()
            end: tuple[str, str | None] = _DONE, None
            try:
                for cell in task.function(*task.arguments):
                    connection.send((_FOUND, cell))
            except (BrokenPipeError, ConnectionResetError):
                raise
            except MemoryError:
                end = _NO_MEMORY, None
            except Exception:
                end = _FAILED, traceback.format_exc()
            connection.send(end)


_PROCESS = Path("/proc/self")  # Linux tells memory here
_FEW_RECORDS, _FEW_FEATURES, _FEW_NONZEROS = 500, 20, 2
_SEED_BY_SEED = 5e9  # from this much work on the seeds of a point are tasks of their own
# Processes whose time is taken run two at a time at most: more would wait for one memory.
_MOST_TIMED = 2


@dataclass(frozen=True)
class Benchmark:
    """A preset and the names of the contenders that are measured."""

    preset: Preset
    contenders: tuple[str, ...]

    def identity(self) -> dict[str, object]:
        """Fields that must agree before cells are compared."""
        design = json.dumps(asdict(self.preset), sort_keys=True)
        return {
            "version": __version__,
            "preset": self.preset.name,
            "contenders": list(self.contenders),
            "design": hashlib.sha256(design.encode()).hexdigest(),
        }

    def cell_keys(self) -> list[tuple[object, ...]]:
        """Return every cell, in the order of results."""
        points = self.preset.measured().items()
        fits = [
            Fit(point, seed, name).key
            for point, seeds in points
            for name in self.contenders
            for seed in range(seeds)
        ]
        predictions = [PredictedErrors(point, {}).key for point in self.preset.predicted()]
        return fits + predictions + [Cost(self.preset.base, name).key for name in self.contenders]


@dataclass(frozen=True)
class OpenWork:
    """Tasks that are left: those that share workers, and those with processes of their own."""

    n_cells: int
    shared: tuple[Task, ...]
    alone: tuple[Task, ...]

    def run(self, workers: int, keep: Callable[[Cell], object]) -> None:
        """Do it all; time is taken when the rest is done."""
        run_tasks(self.shared, workers, keep)
        run_tasks(self.alone, min(workers, _MOST_TIMED), keep, fresh=True)


def missing_work(benchmark: Benchmark, cells: Iterable[Cell]) -> OpenWork:
    """Return the cells that are not finished."""
    done = {cell.key for cell in cells}
    left = [key for key in benchmark.cell_keys() if key not in done]
    base = benchmark.preset.base
    costs = [name for name in benchmark.contenders if Cost(base, name).key not in done]
    # One task for each number of features: predictions at one share what is computed first.
    ahead = [
        each for each in benchmark.preset.predicted() if PredictedErrors(each, {}).key not in done
    ]
    columns = operator.attrgetter("row_sparsity", "n_features")
    groups = itertools.groupby(sorted(ahead, key=columns), key=columns)
    predictions = [Task(predict, (list(points),)) for _, points in groups]
    return OpenWork(
        n_cells=len(left),
        shared=(*_fits(benchmark, done), *predictions),
        alone=tuple(Task(measure_cost, (base, name)) for name in costs),
    )


def _fits(benchmark: Benchmark, done: Collection[tuple[object, ...]]) -> list[Task]:
    tasks = []
    for point, seeds in benchmark.preset.measured().items():
        left = []
        for seed in range(seeds):
            names = tuple(n for n in benchmark.contenders if Fit(point, seed, n).key not in done)
            if names:
                left.append((seed, names))
        # Seeds that share a plan stay together, unless each is a lot of work by itself.
        parts = [[each] for each in left] if point.work > _SEED_BY_SEED else [left]
        tasks += [Task(measure, (point, part)) for part in parts if part]
    return tasks


def measure(point: Point, wanted: Sequence[tuple[int, tuple[str, ...]]]) -> Iterator[Fit]:
    """Fit contenders on the same records: for each seed those that are named with it.

    The plan of a mechanism is kept in memory, so that `seconds` holds it for the first seed only.
    """
    truth = _truth(point)
    for seed, names in wanted:
        X = gaussian_records(truth, point.n_records, random_state=seed)
        for name in names:
            yield _fit(point, seed, name, X, truth)


def measure_cost(point: Point, name: str) -> Iterator[Cost]:
    """Time and peak memory of one fit with its plan; to be run in a process of its own.

    A small fit comes first, so that code is loaded and compiled. Then the records are drawn, and
    memory is counted from there.
    """
    contender = CONTENDERS[name]
    refusal = contender.refusal(point.n_features)
    if refusal is not None:
        yield Cost(point, name, skipped=refusal)
        return
    try:
        small = Point(point.model, _FEW_RECORDS, _FEW_FEATURES, _FEW_NONZEROS, point.epsilon)
        for each in (small, point):
            truth = _truth(each)
            X = gaussian_records(truth, each.n_records, random_state=0)
            estimator = _built(name, each, 0, truth)
            if each is small:
                _timed(estimator, X)
        gc.collect()
        try:  # let the peak start anew, where the operating system is Linux
            (_PROCESS / "clear_refs").write_text("5")
            before = _memory("VmRSS")
        except OSError:
            before = None
        seconds = _timed(estimator, X)
        peak = None if before is None else (_memory("VmHWM") - before) / 1024
    except HushcovError as error:
        yield Cost(point, name, skipped=str(error))
        return
    yield Cost(point, name, seconds, peak)


def predict(points: Sequence[Point]) -> Iterator[PredictedErrors]:
    """Predicted errors of every mechanism, roughly for slow ones; no data is drawn."""
    for point in points:
        size = point.n_records, point.n_features, point.row_sparsity
        inputs = ReleaseInputs(*size, point.epsilon, DELTA)
        errors = {}
        for name, mechanism in predicted().items():
            try:
                found = forecast(inputs, name, rough=mechanism.slow)
            except PrivacyConditionError:
                continue
            errors[name] = found.predicted_error[point.model]
        yield PredictedErrors(point, errors)


def _fit(point: Point, seed: int, name: str, X: FloatArray, truth: FloatArray) -> Fit:
    refusal = CONTENDERS[name].refusal(point.n_features)
    if refusal is not None:
        return Fit(point, seed, name, skipped=refusal)
    estimator = _built(name, point, seed, truth)
    try:
        seconds = _timed(estimator, X)
    except HushcovError as refused:
        return Fit(point, seed, name, skipped=str(refused))
    estimate = estimator.covariance_
    if not np.isfinite(estimate).all():
        raise ArithmeticError(f"{name} returned an estimate that is not finite at {point}")
    error = operator_norm_error(estimate, truth) / operator_norm(truth)
    recall, precision = support_recovery(estimate, truth)
    return Fit(point, seed, name, error, recall, precision, seconds)


def _truth(point: Point) -> FloatArray:
    if point.model in MODELS:
        return sparse_covariance(point.model, point.n_features, point.row_sparsity)
    return structured_covariance(point.model, point.n_features)


def _built(name: str, point: Point, seed: int, truth: FloatArray) -> Estimator:
    return CONTENDERS[name].build(ContenderSetting(point, np.sqrt(np.diag(truth)), seed))


def _timed(estimator: Estimator, X: FloatArray) -> float:
    with warnings.catch_warnings():  # of seeded noise and hopeless sizes, which are meant
        for kind in (SeededNoiseWarning, AccuracyWarning, PrivacyWarning):
            warnings.simplefilter("ignore", kind)
        start = time.perf_counter()
        estimator.fit(X)
        return time.perf_counter() - start


def _memory(field: str) -> int:
    """Return a number of kibibytes that Linux tells of this process."""
    lines = (_PROCESS / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
