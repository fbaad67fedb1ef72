"""Replay a fit on a neighbour, with noise that leads to the same released numbers.

On one table noise is drawn as usual, and every charge, draw and noisy number is written down. On a
neighbour the noise is what is left to the same noisy numbers. Then whatever can be observed must be
equal, and each exact number may have moved by no more than what was charged for it: one pair of
neighbours shows that a sensitivity is too small, or that something depends on a record and not on
released numbers. Noise is watched where it is drawn (`hushcov.kernel.noise`), charges where
they are spent (`Budget`), passes where records are read, files where they are opened. Noise is
added, or decides in a selection; directions on a sphere (eigen-sampling) and tests of the paper
(multiscale) are drawn once, and are the same in the replay.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import math
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
from scipy import special

import hushcov_lab.peers.coinpress
import hushcov_lab.peers.separate  # so that all that draws a matrix of noise is loaded  # noqa: F401
from hushcov.estimators import base
from hushcov.exceptions import ForeignError, HushcovError, TooFewCompleteError
from hushcov.kernel.accounting import ONE_REPLACED, BoundedRange, Budget, Gaussian, Neighbours, Pure
from hushcov.kernel.noise import TAKEN, gumbel, laplace, normal
from hushcov.kernel.records.base import PartitionedRecords, Records
from hushcov.paper import mechanism as multiscale
from hushcov.tables import cluster
from hushcov.tables.codebook import FrameRecords
from hushcov.tables.files import FileRecords
from hushcov.tables.sources import TableRecords, TensorRecords
from hushcov_genotypes.reading import GenotypeRecords
from hushcov_lab.peers.eigen_sampling import Bingham

Array = npt.NDArray[Any]

_WITHIN = 1 + 1e-9  # of roundings here
_ALARM = 1e-12  # how often noise of the right size is taken for another
_SPENT = ("gaussian", "select", "fixed")  # methods of a budget
_READERS = {
    TableRecords: ("_blocks", "column"),
    FileRecords: ("_blocks_from", "column"),
    FrameRecords: ("_blocks",),
    TensorRecords: ("_blocks",),
    GenotypeRecords: ("blocks",),
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_RANDOM_NAME = re.compile(r"(?<=-)[0-9a-f]{16}(?=\.partial)|(?<=tmp)[a-z0-9_]{8}")


class OtherStepError(KeyboardInterrupt):
    """A replayed fit does something that the first did not; no fit catches an interrupt."""


@dataclass
class Trace:
    """All that can be seen of one fit, and the exact numbers below the noise."""

    #: Charges, draws, sums with noise and passes, in their order; all of it may be known.
    events: list[tuple[Any, ...]] = field(default_factory=list)
    #: Exact numbers, and what was released in their place, by positions in `events`.
    exact: dict[int, Array] = field(default_factory=dict)
    released: dict[int, Any] = field(default_factory=dict)
    #: Deviations of noise and the noise, of each draw.
    noise: list[tuple[float, Array]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    observed: dict[str, Any] = field(default_factory=dict)
    error: HushcovError | None = None
    #: Numbers of rows of the blocks of each pass, and neighbours whose privacy was charged for.
    passes: list[list[int]] = field(default_factory=list)
    #: Files that were opened to be read, and how often.
    read: dict[tuple[str, ...], int] = field(default_factory=dict)
    relation: Neighbours | None = None


@dataclass
class Compared:
    """Findings of a replay: faults in words, and the largest movements over charges."""

    faults: list[str] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)
    refused: bool = False

    def moved(self, kind: str, used: float, allowed: float) -> None:
        """Note a movement, and that it is a fault if it was not paid for."""
        share = used / allowed if allowed else math.inf if used else 0.0
        self.shares[kind] = max(self.shares.get(kind, 0.0), share)
        if share > _WITHIN:
            what = "nothing was charged" if not allowed else f"{share:.4g} times what was charged"
            self.faults.append(f"a statistic moves: {kind}, {what}")


class Recorder:
    """Writes down one fit after another; all but the first get the noisy numbers of the first."""

    def __init__(self) -> None:
        self.first: Trace | None = None
        self.trace = Trace()
        self._whole = False  # a matrix of noise is being drawn, out of several draws
        self._elsewhere = False  # tasks of a cluster read partitions, of which some may be empty
        self._bits: Any = None

    def _note(self, *event: Any, exact: Any = None, draw: Callable[[], Any] | None = None) -> Any:
        """Add an event, and return what is released by it."""
        place = len(self.trace.events)
        self.trace.events.append(event)
        if self.first is not None and self.first.events[place : place + 1] != [event]:
            there = self.first.events[place : place + 1] or [("the end",)]
            raise OtherStepError(f"a step depends on records: {event} in place of {there[0]}")
        if draw is None:
            return None
        self.trace.exact[place] = np.array(exact)
        found = draw() if self.first is None else self.first.released[place]
        self.trace.released[place] = copy.deepcopy(found)
        return copy.deepcopy(found)

    def meet(self, law: tuple[Any, ...], exact: Any, noise: Any) -> Any:
        """Return the noisy number: a sum in the first fit, the same in others."""
        event = ("sum", *law[:2], np.shape(exact))
        return self._note(*event, exact=exact, draw=lambda: np.add(exact, noise))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch draws, charges and passes of everything that runs inside."""
        with contextlib.ExitStack() as stack:

            def patch(place: Any, name: str, new: Any) -> None:
                stack.enter_context(mock.patch.object(place, name, new))

            patch(normal, "_draw", self._normal(normal._draw))
            patch(gumbel, "_select", self._selection(gumbel._select))
            patch(laplace, "_draw", self._laplace(laplace._draw))
            ours = [each for name, each in sys.modules.items() if name.startswith("hushcov")]
            for module in ours:
                if hasattr(module, "symmetric_noise"):
                    patch(module, "symmetric_noise", self._matrix(module.symmetric_noise))
            patch(Bingham, "draw", self._direction(Bingham.draw))
            for name in ("sample_transcript", "sample_exact"):
                patch(multiscale, name, self._tests(name, getattr(multiscale, name)))
            patch(Records, "map_sum", self._summed(Records.map_sum))
            parts = PartitionedRecords.sum_partitions
            patch(PartitionedRecords, "sum_partitions", self._partitioned(parts))
            patch(cluster, "computed", self._asked(cluster.computed))
            for name in ("__init__", *_SPENT):
                patch(Budget, name, self._charge(name, getattr(Budget, name)))
            for source, names in _READERS.items():
                for name in names:
                    patch(source, name, self._pass(source, name))
            patch(base, "datetime", _Noon)
            yield

    def run(self, fit: Callable[[], dict[str, Any]], folder: Path | None = None) -> Trace:
        """Run a fit that returns what it left to be observed; refusals and warnings are, too.

        Which files of the folder are opened, made, renamed and removed is, where one is given.
        """
        self.trace, self._bits, printed = Trace(), None, io.StringIO()
        with (
            self.watching(),
            warnings.catch_warnings(record=True) as caught,
            _files_touched(folder) as touched,
            _logged() as logged,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            try:
                self.trace.observed = fit()
            except ForeignError as error:
                self.trace.faults.append(f"an error of another kind: {error}")
            except HushcovError as error:
                self.trace.error = error
                said = (str(error), *getattr(error, "__notes__", ()))
                self.trace.observed = {"error": (type(error).__name__, *said)}
            except OtherStepError as error:
                self.trace.faults.append(str(error))
            except Exception as error:
                self.trace.faults.append(f"an error of another kind: {error!r}")
        warned = [(each.category.__name__, str(each.message)) for each in caught]
        self.trace.observed |= {"warnings": warned, "logs": logged, "printed": printed.getvalue()}
        self.trace.observed["files written"] = {k: n for k, n in touched.items() if k[0] != _READ}
        self.trace.read = {k: n for k, n in touched.items() if k[0] == _READ}
        drawn = [each[3] for each in self.trace.events if each[0] == "draw"]
        met = [_independent(each) for each in self.trace.events if each[0] == "sum"]
        if self.trace.error is None and not self.trace.faults and sum(drawn) != sum(met):
            self.trace.faults.append("noise is drawn that is added to nothing, or twice")
        paid = sum(each[:2] == ("charge", _SPENT[0]) for each in self.trace.events)
        noisy = sum(each[0] == "sum" and each[1] != "laplace" for each in self.trace.events)
        if self.trace.error is None and not self.trace.faults and noisy < paid:
            self.trace.faults.append("a sum that is charged for has no noise")
        if self.first is None:
            self.first = self.trace
        return self.trace

    @contextlib.contextmanager
    def _drawing(self, generator: np.random.Generator, *, needed: bool) -> Iterator[None]:
        """Check that bits are used, and that nothing else used any since the last draw."""
        before = getattr(generator.bit_generator, "state", None)  # that of a private one is secret
        if self._bits is not None and self._bits[0] is generator and self._bits[1] != before:
            self.trace.faults.append("random bits are used by something that is not watched")
        yield
        self._bits = generator, getattr(generator.bit_generator, "state", None)
        if needed and before is not None and self._bits[1] == before:
            self.trace.faults.append("a draw uses no random bits")

    def _normal(self, draw: Callable[..., Array]) -> Callable[..., Array]:
        def drawn(generator: Any, sigma: int, size: int, **more: Any) -> Array:
            with self._drawing(generator, needed=size > 0):
                noise = draw(generator, sigma, size, **more)
            self._note("draw", "normal", sigma, size)
            self.trace.noise.append((sigma, noise.copy()))  # sums may be added to it in place
            return noise if self._whole else _Noise.of(noise, self, ("normal", sigma))

        return drawn

    def _matrix(self, draw: Callable[..., Array]) -> Callable[..., Array]:
        def drawn(generator: Any, d: int, *sigmas: int) -> Array:
            self._whole, start = True, len(self.trace.noise)
            try:
                noise = draw(generator, d, *sigmas)
            finally:
                self._whole = False
            used = [sigma for sigma, _ in self.trace.noise[start:]]
            return _Noise.of(noise, self, ("matrix", (used[0], used[-1])))

        return drawn

    def _laplace(self, draw: Callable[..., int]) -> Callable[..., int]:
        def drawn(generator: Any, scale: int) -> int:
            with self._drawing(generator, needed=True):
                noise = draw(generator, scale)
            self._note("draw", "laplace", scale, 1)
            return _NoiseNumber.of(noise, self, ("laplace", scale))

        return drawn

    def _selection(self, select: Callable[..., Array]) -> Callable[..., Array]:
        def selected(generator: Any, scores: Array, rate: float, count: int, **more: Any) -> Array:
            def draw() -> Array:
                with self._drawing(generator, needed=True):
                    return select(generator, scores, rate, count, **more)

            left = np.flatnonzero(scores == TAKEN).tolist()
            event = ("select", rate, count, (len(scores), left))
            found: Array = self._note(*event, exact=scores, draw=draw)
            return found

        return selected

    def _direction(self, draw: Callable[..., Array]) -> Callable[..., Array]:
        def drawn(law: Bingham, generator: Any, size: int = 1) -> Array:
            def direction() -> Array:
                with self._drawing(generator, needed=True):
                    return draw(law, generator, size)

            event = ("direction", law._law.rate, size)
            found: Array = self._note(*event, exact=law._law.matrix, draw=direction)
            return found

        return drawn

    def _tests(self, name: str, sample: Callable[..., Any]) -> Callable[..., Any]:
        def sampled(statistic: Array, schedule: Any, generator: Any) -> Any:
            def draw() -> Any:
                with self._drawing(generator, needed=True):
                    return sample(statistic, schedule, generator)

            return self._note("tests", schedule, name, exact=statistic, draw=draw)

        return sampled

    def _summed(self, total: Callable[..., Array]) -> Callable[..., Array]:
        """Watch which sums are made, and how large they are."""

        def summed(records: Records, function: Any) -> Array:
            found = total(records, function)
            if not self._elsewhere:
                self._note("sum of", type(function).__name__, np.shape(found), str(found.dtype))
            return found

        return summed

    def _partitioned(self, total: Callable[..., Array]) -> Callable[..., Array]:
        def summed(records: Records, *given: Any) -> Array:
            self._note("pass", type(records).__name__, "sum_partitions")
            self._elsewhere = True
            try:
                return total(records, *given)
            finally:
                self._elsewhere = False

        return summed

    def _asked(self, computed: Callable[..., Any]) -> Callable[..., Any]:
        """Watch what dask is asked for: sums, shuffles, and rows to be kept."""

        def asked(compute: Any) -> Any:
            self._note("dask", getattr(compute, "func", compute).__name__)
            return computed(compute)

        return asked

    def _charge(self, name: str, charge: Callable[..., None]) -> Callable[..., None]:
        def charged(budget: Budget, *given: Any, **named: Any) -> None:
            before = getattr(budget, "_taken", 0.0)
            charge(budget, *given, **named)
            taken = (budget._taken - before) * _WITHIN  # what was spent, whatever was asked for
            paid: tuple[Any, ...] = ()
            if name == _SPENT[0] and taken:
                paid = (Gaussian(min(given[0], math.sqrt(taken))),)
            elif name == _SPENT[1] and taken >= given[1] * budget.step_time(given[0]):
                paid = (BoundedRange(given[0], given[1]),)
            elif name == _SPENT[2]:
                paid = (given[0],)
            paid = budget.relation.charged(paid)
            self.trace.relation = budget.relation
            self._note("charge", name, paid, repr((given, sorted(named.items()))))

        return charged

    def _pass(self, source: type, name: str) -> Callable[..., Any]:
        read = getattr(source, name)

        def counted(*given: Any, **named: Any) -> Any:
            found = read(*given, **named)
            if self._elsewhere:
                return found
            self._note("pass", source.__name__, name)
            return self._counted(given[0], found) if "blocks" in name else found

        return counted

    def _counted(self, records: Any, blocks: Iterator[Any]) -> Iterator[Any]:
        """Write down the rows of each block; of text, where values decide, those of all blocks."""
        own: list[int] = []
        self.trace.passes.append(own)
        text = any(getattr(each, "is_text", False) for each in getattr(records, "spans", ()))
        for block in blocks:
            n_rows = getattr(block, "n_rows", None) or len(block)
            if text and own:
                own[0] += n_rows
            else:
                own.append(n_rows)
            yield block


#: Who is told what happens to files, and to those of which folder: a hook cannot be taken away.
_told: list[tuple[str, Counter[tuple[str, ...]]]] = []
_READ = "read"
_FILE_EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")


def _tell(event: str, given: tuple[Any, ...]) -> None:
    if not _told or event not in (*_FILE_EVENTS, "sqlite3.connect"):
        return
    folder, found = _told[-1]
    paths = [os.fsdecode(each) for each in given[:2] if isinstance(each, str | bytes | os.PathLike)]
    own = [_RANDOM_NAME.sub("*", each[len(folder) :]) for each in paths if each.startswith(folder)]
    if own:
        reads = event == "open" and isinstance(given[2], int) and not given[2] & _WRITES
        found[_READ if reads else event, *own] += 1


@contextlib.contextmanager
def _files_touched(folder: Path | None) -> Iterator[Counter[tuple[str, ...]]]:
    """Count what is done to files of a folder: their names are observable, and how often."""
    if not _HOOKED:
        sys.addaudithook(_tell)
        _HOOKED.append(True)
    found: Counter[tuple[str, ...]] = Counter()
    if folder is not None:
        _told.append((str(folder), found))
    try:
        yield found
    finally:
        if folder is not None:
            _told.pop()


_HOOKED: list[bool] = []


@contextlib.contextmanager
def _logged() -> Iterator[list[tuple[str, str]]]:
    """Collect what is logged."""
    found: list[tuple[str, str]] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append((record.name, record.getMessage()))  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        yield found
    finally:
        logging.getLogger().removeHandler(handler)


class _Noon(datetime):
    """The time of all releases here."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime(2000, 1, 1, 12, tzinfo=UTC)


class _Noise(np.ndarray[Any, Any]):
    """Noise that tells the recorder what it is added to."""

    recorder: Recorder
    law: tuple[Any, ...]

    @classmethod
    def of(cls, noise: Array, recorder: Recorder, law: tuple[Any, ...]) -> _Noise:
        made = noise.view(cls)
        made.recorder, made.law = recorder, law
        return made

    def __array_finalize__(self, source: Any) -> None:
        self.recorder = getattr(source, "recorder", None)  # type: ignore[assignment]
        self.law = getattr(source, "law", ())

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        own = [np.asarray(each) if each is self else each for each in inputs]
        if ufunc is not np.add or method != "__call__":
            self.recorder.trace.faults.append(f"noise is not added, but used by {ufunc.__name__}")
            return getattr(ufunc, method)(*own, **options)
        exact = next(each for each in inputs if each is not self)
        noisy = self.recorder.meet(self.law, exact, np.asarray(self))
        if not options.get("out"):
            return noisy
        options["out"][0][...] = noisy
        return options["out"][0].view(np.ndarray)  # noise no more


class _NoiseNumber(int):
    """A noise number for one integer of Python."""

    recorder: Recorder
    law: tuple[Any, ...]

    @classmethod
    def of(cls, noise: int, recorder: Recorder, law: tuple[Any, ...]) -> _NoiseNumber:
        made = cls(noise)
        made.recorder, made.law = recorder, law
        return made

    def __radd__(self, exact: int) -> int:
        return int(self.recorder.meet(self.law, exact, int(self)))


def compare(first: Trace, second: Trace) -> Compared:
    """Compare two fits: of a table, and of its neighbour with the same noisy numbers."""
    found = Compared([*first.faults, *second.faults])
    _compare_steps(first, second, found)
    found.faults += _wrong_noise(first)
    if first.error is not None and not isinstance(first.error, TooFewCompleteError):
        found.faults.append(f"usual records are refused: {first.error}")
    elif second.error is not None and not isinstance(second.error, TooFewCompleteError):
        found.refused = True  # `judge_refusal` says whether that may be
    elif not second.faults:
        if len(first.events) != len(second.events):
            found.faults.append("a fit on a neighbour ends before all steps are taken")
        for name in {**first.observed, **second.observed}:
            before, after = first.observed.get(name), second.observed.get(name)
            if before != after:
                found.faults.append(f"{name} differ: {_difference(before, after)}")
        known = first.relation is None or first.relation == ONE_REPLACED  # how many rows there are
        if known and first.passes != second.passes:
            found.faults.append(f"rows of blocks differ: {first.passes} / {second.passes}")
        if known and first.read != second.read:
            found.faults.append(f"files read differ: {_difference(first.read, second.read)}")
    return found


def _compare_steps(first: Trace, second: Trace, found: Compared) -> None:
    """Hold movements since each charge against what was charged."""
    squared = absolute = 0.0  # of all sums since the last charge
    paid: list[Any] = []
    ranges: list[float] = []
    used = True
    for place, event in enumerate(second.events):
        kind = event[0]
        if kind == "charge":
            if used:
                paid, ranges, squared, absolute, used = [], [], 0.0, 0.0, False
            paid += event[2]
            for each in event[2]:
                ranges += [each.eta] * each.count if isinstance(each, BoundedRange) else []
        elif place in second.exact:
            used = True
            if place not in first.exact:
                return
            moved = np.asarray(first.exact[place], float) - np.asarray(second.exact[place], float)
            if kind == "select":
                left = np.asarray(first.exact[place]) != TAKEN
                width = float(np.ptp(moved[left])) * event[1]
                own, ranges = ranges[: event[2]], ranges[event[2] :]
                found.moved("selections", width, min(own, default=0.0) * (len(own) == event[2]))
            elif kind == "direction":
                values = np.linalg.eigvalsh(moved)  # how scores of directions move, all of them
                absolute += float(values[-1] - values[0]) * event[1]
                pure = sum(each.epsilon for each in paid if isinstance(each, Pure))
                found.moved("directions", absolute, pure)
            elif kind == "tests":
                _compare_tests(first.exact[place], second.exact[place], event[1], paid, found)
            elif event[1] == "laplace":
                absolute += float(np.abs(moved).sum()) / event[2]
                pure = sum(each.epsilon for each in paid if isinstance(each, Pure))
                found.moved("Laplace sums", absolute, pure)
            else:
                squared += _squared(moved, event)
                room = sum(each.mu**2 for each in paid if isinstance(each, Gaussian))
                found.moved("Gaussian sums", math.sqrt(squared), math.sqrt(room))


def _compare_tests(
    first: Array, second: Array, schedule: Any, paid: list[Any], found: Compared
) -> None:
    """Hold scores and answers of the paper's tests, in units of the smallest threshold, likewise.

    Scores of a level move as sizes of entries do, or not at all; any test may be among the
    answered ones.
    """
    ranges = [each for each in paid if isinstance(each, BoundedRange)]
    sizes = np.append(np.abs(first) - np.abs(second), 0.0)
    most, squared = float(np.max(np.abs(first - second))), 0.0
    for place, level in enumerate(schedule.levels):
        squared += level.quota * math.ldexp(most, -place) ** 2
        if level.selection_scale is not None:
            width = math.ldexp(float(np.ptp(sizes)), -place) / level.selection_scale
            own = ranges.pop(0) if ranges else BoundedRange(1e-300, 1)
            found.moved("selections", width, own.eta * (own.count >= level.quota))
    room = sum(each.mu**2 for each in paid if isinstance(each, Gaussian))
    found.moved("Gaussian sums", math.sqrt(squared) / schedule.gate_noise, math.sqrt(room))


def _independent(event: tuple[Any, ...]) -> int:
    """Return how many draws the noise of a sum has: a matrix has one for each pair."""
    return math.comb(event[3][0] + 1, 2) if event[1] == "matrix" else math.prod(event[3])


def _squared(moved: Array, event: tuple[Any, ...]) -> float:
    """Return the squared movement in deviations; a matrix of noise has it once for each pair."""
    if event[1] == "normal":
        return float(np.sum((moved / event[2]) ** 2))
    off, on = event[2]
    upper = moved[np.triu_indices(len(moved), 1)]
    return float(np.sum((upper / off) ** 2) + np.sum((np.diag(moved) / on) ** 2))


def _wrong_noise(trace: Trace) -> list[str]:
    """Return a fault if all normal noise together is not of the size that was asked for."""
    # Normal numbers were rounded: their squares lie between these, and one draw may well be 0.
    least, most = (
        sum(float(np.sum((np.abs(drawn) + by).clip(0) ** 2)) / s**2 for s, drawn in trace.noise)
        for by in (-0.5, 0.5)
    )
    number = sum(drawn.size for _, drawn in trace.noise)
    if number and min(special.chdtr(number, most), special.chdtrc(number, least)) < _ALARM:
        return [f"noise has {math.sqrt(least / number):.3g} times the deviation it was asked for"]
    return []


def observe(estimator: Any, folder: Path) -> dict[str, Any]:
    """Return all that a fitted estimator and its release folder show."""
    estimator.save(folder, tables="csv", overwrite=True)
    own = {name: value for name, value in vars(estimator).items() if name != "random_state"}
    return {"attributes": _plain(own), "files": files_of(folder)}


def files_of(folder: Path) -> dict[str, bytes]:
    """Return names and bytes of all files of a folder."""
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in sorted(folder.rglob("*"))
        if each.is_file()
    }


def _plain(value: Any) -> Any:
    """Return something that can be compared, however deep."""
    found: Any = repr(value).partition(" at 0x")[0]
    if isinstance(value, np.ndarray):
        whole = value.tolist() if value.dtype.kind == "O" else value.tobytes()
        found = str(value.dtype), value.shape, whole
    elif isinstance(value, dict):
        found = {str(key): _plain(each) for key, each in value.items()}
    elif isinstance(value, list | tuple):
        found = [_plain(each) for each in value]
    elif is_dataclass(value) and not isinstance(value, type):
        found = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        found = type(value).__name__, _plain(vars(value))  # a sparse matrix, too
    return found


def _difference(before: Any, after: Any, where: str = "") -> str:
    """Return the first place where two observations differ, with what is there."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            if before.get(key) != after.get(key):
                return _difference(before.get(key), after.get(key), f"{where}{key}: ")
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        for place, (one, other) in enumerate(zip(before, after, strict=False)):
            if one != other:
                return _difference(one, other, f"{where}{place}: ")
    if isinstance(before, bytes) and isinstance(after, bytes):
        place = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
        before, after = (
            before[max(0, place - 30) : place + 50],
            after[max(0, place - 30) : place + 50],
        )
    return f"{where}{str(before)[:160]} / {str(after)[:160]}"
