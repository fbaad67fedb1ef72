"""How hot loops are compiled and spread over cores.

A kernel is a function `kernel(start, stop, *arrays)` that fills positions start..stop-1 of its
output arrays. It releases the interpreter lock, so plain threads run it in parallel: unlike
numba's own parallel loops this is safe when hushcov itself is called from several threads.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")

_SMALLEST_CHUNK = 20_000


def compiled(function: Function) -> Function:
    """Compile `function` to machine code, cached on disk; floating point stays IEEE."""
    fast: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return cast(Function, fast)


def threads() -> int:
    """How many threads to use: all cores, unless OMP_NUM_THREADS asks for fewer.

    Cluster workers that share a machine set it, so that together they use each core once.
    """
    cores, asked = os.cpu_count() or 1, os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdecimal() and int(asked) > 0 else cores


def run_in_chunks(kernel: Callable[..., None], size: int, *arrays: Any) -> None:
    """Run `kernel(start, stop, *arrays)` over 0..size, on all cores when that pays."""
    workers = min(threads(), size // _SMALLEST_CHUNK)
    if workers <= 1:
        kernel(0, size, *arrays)
        return
    # Several chunks a worker: entries differ in cost, and finished workers take the next chunk.
    bounds = [size * part // (4 * workers) for part in range(4 * workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(kernel, start, stop, *arrays) for start, stop in itertools.pairwise(bounds)
        ]
        for job in jobs:
            job.result()


def run_parts(function: Callable[..., Result], jobs: Sequence[tuple[Any, ...]]) -> list[Result]:
    """Call `function` with the arguments of each job, the first here and the others in threads."""
    if len(jobs) == 1:
        return [function(*jobs[0])]
    others = _workers(os.getpid(), len(jobs) - 1)
    waiting = [others.submit(function, *job) for job in jobs[1:]]
    first = function(*jobs[0])
    return [first, *(each.result() for each in waiting)]


@functools.cache
def _workers(process: int, number: int) -> ThreadPoolExecutor:
    """Threads that wait for work: starting some for every block would take longer than the block.

    A process that was forked has none of its parent's, and starts its own.
    """
    return ThreadPoolExecutor(number)
