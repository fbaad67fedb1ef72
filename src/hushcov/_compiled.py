"""Compilation of hot loops, and their spread over cores.

A kernel is a function `kernel(start, stop, *arrays)` that fills positions start..stop-1 of its
output arrays. It releases the interpreter lock, so plain threads run it in parallel: unlike
numba's own parallel loops this is safe when hushcov itself is called from several threads.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")

_SMALLEST_CHUNK = 20_000


class _Later:
    """A function of compiled code, made when it is first called: loading numba takes a while.

    `make(function, called_by_python)` compiles. What only compiled code calls is compiled without
    an entry for Python and without a file of its own, which takes less time.
    """

    def __init__(self, function: Any, make: Callable[[Any, bool], Any]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._make = function, make
        self._made: dict[bool, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        return (self._made.get(True) or self.made())(*arguments)

    def __reduce__(self) -> str:
        return str(self._function.__qualname__)  # as for any function: by its name

    def made(self, *, called_by_python: bool = True) -> Any:
        """The compiled function; those that it calls are made first."""
        if called_by_python not in self._made:
            with _making:
                made = self._make(_with_made(self._function), called_by_python)
                self._made[called_by_python] = made
        return self._made[called_by_python]


_making = threading.RLock()


def _with_made(function: Any) -> Any:
    """Return a copy of a function whose globals that it names are compiled."""
    known = function.__globals__
    later = {n: known[n] for n in function.__code__.co_names if isinstance(known.get(n), _Later)}
    if not later:
        return function
    known = known | {name: each.made(called_by_python=False) for name, each in later.items()}
    return FunctionType(function.__code__, known, function.__name__, function.__defaults__)


def compiled(function: Function, *, any_order: bool = False) -> Function:
    """Compile `function` to machine code, cached on disk; floating point stays IEEE.

    Sums of integers in floating point are exact in `any_order`, which is faster.
    """

    def make(function: Any, called_by_python: bool) -> Any:
        import numba

        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
        if any_order:
            options["fastmath"] = {"reassoc"}
        if not called_by_python:
            options |= {"no_cpython_wrapper": True, "forceinline": True}
        made = numba.njit(cache=called_by_python, **options)(function)
        if called_by_python:
            _keep_types_apart(made)
        return made

    return cast(Function, _Later(function, make))


class _FilesOfTypes:
    """Machine code on disk, where each types of arguments have files of their own.

    numba has one index for all types of a function, and numbers their files. Of two processes that
    compile a function for two types at the same time both take the next number, and the code of
    one is loaded for the types of the other later. Here only what is equal has the same name.
    """

    def __init__(self, numbas: Callable[[str], Any], version: object) -> None:
        self._numbas, self._version = numbas, version

    def load(self, key: object) -> Any:
        """Return the code compiled for the types in `key`; None where there is none."""
        return self._of(key).load(key)

    def save(self, key: object, code: Any) -> None:
        """Keep what was compiled."""
        self._of(key).save(key, code)

    def _of(self, key: object) -> Any:
        return self._numbas(hashlib.sha256(repr((self._version, key)).encode()).hexdigest()[:16])


def _keep_types_apart(made: Any) -> None:
    """Let processes that compile at the same time share one cache."""
    from numba import __version__
    from numba.core import caching

    try:
        cache, stamp = made._cache, made._cache._impl.locator.get_source_stamp()
        folder, name = cache.cache_path, cache._impl.filename_base
        numbas = functools.partial(caching.IndexDataCacheFile, folder, source_stamp=stamp)
    except AttributeError:
        return  # another numba, which keeps its own files: right for one process at a time
    cache._cache_file = _FilesOfTypes(
        lambda types: numbas(filename_base=f"{name}-{types}"), (__version__, stamp)
    )


def intrinsic(function: Callable[..., Any]) -> Any:
    """For use in compiled code: what `function` says of types and machine code (see numba)."""

    def make(function: Any, _: bool) -> Any:
        from numba.extending import intrinsic as numba_intrinsic

        return numba_intrinsic(function)

    return _Later(function, make)


@intrinsic
def popcount(context: Any, word: Any) -> Any:
    """The number of bits that are one, in compiled code."""
    from numba import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), code


def threads() -> int:
    """Return how many threads to use: all cores, unless OMP_NUM_THREADS asks for fewer.

    Cluster workers that share a machine set it, so that together they use each core once.
    """
    cores, asked = _cores(os.cpu_count), os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdecimal() and int(asked) > 0 else cores


@functools.cache
def _cores(count: Callable[[], int | None]) -> int:
    """Return how many there are; the system takes a while to say it."""
    return count() or 1


def run_in_chunks(kernel: Callable[..., None], size: int, *arrays: Any) -> None:
    """Run `kernel(start, stop, *arrays)` over 0..size, on all cores when that pays."""
    workers = min(threads(), size // _SMALLEST_CHUNK)
    if workers <= 1:
        kernel(0, size, *arrays)
        return
    # Several chunks a worker: entries differ in cost, and finished workers take the next chunk.
    bounds = [size * part // (4 * workers) for part in range(4 * workers + 1)]
    chunks = list(itertools.pairwise(bounds))
    share_out(lambda chunk: kernel(*chunk, *arrays), chunks, workers)


def share_out(
    work: Callable[[Any], Result], items: Sequence[Any], workers: int | None = None
) -> list[Result]:
    """Return what `work` does with each item; see `run_parts`."""
    return run_parts(work, [(item,) for item in items], workers)


def even_parts(size: int, least: int) -> list[tuple[int, int]]:
    """Return where parts of 0..size begin and end: one a thread, none below `least`."""
    parts = max(1, min(threads(), size // least))
    return list(itertools.pairwise(size * part // parts for part in range(parts + 1)))


def run_parts(
    function: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], workers: int | None = None
) -> list[Result]:
    """Call `function` with the arguments of each job; threads that have finished take the next."""
    others = min(workers or threads(), len(jobs)) - 1
    if others < 1:
        return [function(*job) for job in jobs]
    waiting, found = iter(list(enumerate(jobs))), {}

    def take() -> None:
        for place, job in waiting:
            found[place] = function(*job)

    started = [_workers(os.getpid(), others).submit(take) for _ in range(others)]
    take()
    for each in started:
        each.result()
    return [found[place] for place in range(len(jobs))]


@functools.cache
def _workers(process: int, number: int) -> ThreadPoolExecutor:
    """Threads that wait for work: starting some for every block would take longer than the block.

    A process that was forked has none of its parent's, and starts its own.
    """
    return ThreadPoolExecutor(number)
