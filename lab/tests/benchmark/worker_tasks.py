"""What the workers of the tests do; imported by them, so nothing heavy."""

from __future__ import annotations

import os
import signal


def squares(numbers):
    for number in numbers:
        yield number**2


def environment():
    yield os.getpid(), os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]


def failing():
    yield 1
    raise ZeroDivisionError("a bug")


def out_of_memory():
    yield 1
    raise MemoryError


def ended():
    yield 1
    os.kill(os.getpid(), signal.SIGKILL)


def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    yield "still here"
