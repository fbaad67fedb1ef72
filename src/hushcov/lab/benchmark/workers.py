"""Worker processes that stream what they find, and leave nothing behind when they are stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from threadpoolctl import threadpool_limits

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
    """The cores this program may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start() -> tuple[Connection, BaseProcess]:
    # A fork would share the parent's threads and compiled code; spawn starts from nothing.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there,), daemon=True)
    with _no_interrupts():
        process.start()
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
            connection.send((_attempted(task, connection), None))


def _attempted(task: Task, connection: Connection) -> str:
    try:
        for cell in task.function(*task.arguments):
            connection.send((_FOUND, cell))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except MemoryError:
        return _NO_MEMORY
    except Exception:
        connection.send((_FAILED, traceback.format_exc()))
    return _DONE


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal: one that is just starting inherits deafness."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
