"""Where the time of a fit goes. Nothing is measured unless it is asked for.

Times depend on the records, and nothing bounds how much they tell of one: they are no part of a
release, and no release holds them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])

PLANNING, SELECTION, NOISE, WRITING, OTHER = "planning", "selection", "noise", "writing", "other"
_PASS = "pass: "


@dataclass
class Profile:
    """Seconds by what they were spent on, each of them once, and how often records were read."""

    seconds: dict[str, float] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    readings: int = 0
    total: float = 0.0
    started: float = 0.0
    _inner: list[float] = field(default_factory=list, repr=False)

    def rows(self) -> list[tuple[str, int, float]]:
        """What was done, how often, and the seconds it took; the rest last."""
        found = [(what, self.times[what], spent) for what, spent in self.seconds.items()]
        return [*found, (OTHER, 1, max(0.0, self.total - sum(self.seconds.values())))]

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "private": False,
            "readings": self.readings,
            "total_seconds": self.total,
            "parts": [
                {"what": what, "times": times, "seconds": spent}
                for what, times, spent in self.rows()
            ],
        }

    def stop(self) -> None:
        """The end of what is measured: now."""
        self.total = time.perf_counter() - self.started

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        """Add the time of what is inside, less that of what is measured in there by itself."""
        started = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            own = spent - self._inner.pop()
            if self._inner:
                self._inner[-1] += spent
            self.seconds[what] = self.seconds.get(what, 0.0) + own
            self.times[what] = self.times.get(what, 0) + 1


_current: ContextVar[Profile | None] = ContextVar("profile", default=None)
_pass: ContextVar[str] = ContextVar("pass", default="")


@contextmanager
def profiled() -> Iterator[Profile]:
    """Measure whatever runs inside, in this thread."""
    profile = Profile(started=time.perf_counter())
    token = _current.set(profile)
    try:
        yield profile
    finally:
        _current.reset(token)
        profile.stop()


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Say what the time inside is spent on; also a decorator of functions."""
    profile = _current.get()
    if profile is None:
        yield
    else:
        with profile.measure(what):
            yield


def reading(method: Method) -> Method:
    """For a method that reads all records once, and sums a function of their blocks.

    Views call the method of what they wrap: only the first call counts.
    """

    @wraps(method)
    def read(records: Any, block_function: Any, **named: Any) -> Any:
        if _pass.get():
            return method(records, block_function, **named)
        token = _pass.set(_words(block_function))
        profile = _current.get()
        try:
            if profile is None:
                return method(records, block_function, **named)
            profile.readings += 1
            with profile.measure(_PASS + _pass.get()):
                return method(records, block_function, **named)
        finally:
            _pass.reset(token)

    return cast(Method, read)


def current_pass() -> str:
    """What is summed by the reading that is under way, in words."""
    return _pass.get()


def _words(block_function: Any) -> str:
    """The name of a function, or of its class, in words."""
    name = getattr(block_function, "__name__", type(block_function).__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).strip().lower()
