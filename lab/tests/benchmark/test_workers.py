"""Workers: cells stream, failures are told, and no process is left."""

from __future__ import annotations

import multiprocessing

import pytest

from hushcov_lab.benchmark.work import Task, run_tasks

from .worker_tasks import ended, failing, interrupted, out_of_memory, squares


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert multiprocessing.active_children() == []


def collected(tasks, workers, **options):
    found = []
    run_tasks(tasks, workers, found.append, **options)
    return found


@pytest.mark.slow
def test_all_cells_arrive():
    tasks = [Task(squares, ([1, 2],)), Task(squares, ([3],)), Task(squares, ([],))]
    assert sorted(collected(tasks, 2)) == [1, 4, 9]
    assert collected(tasks, 1) == [1, 4, 9]  # the first ones first
    assert collected([], 3) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (failing, RuntimeError, "ZeroDivisionError: a bug"),
        (out_of_memory, MemoryError, "fewer --workers"),
        (ended, ChildProcessError, "fewer --workers"),
    ],
)
def test_failures_keep_what_was_found(function, error, words):
    found = []
    with pytest.raises(error, match=words):
        run_tasks([Task(function, ()), Task(squares, ([2] * 10**6,))], 1, found.append)
    assert found == [1]


@pytest.mark.slow
def test_an_interrupt_ends_everything():
    def stop(cell):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks([Task(squares, (range(10**9),))] * 2, 2, stop)


@pytest.mark.slow
def test_workers_do_not_hear_interrupts():
    assert collected([Task(interrupted, ())], 1) == ["still here"]
