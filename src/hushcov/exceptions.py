"""Every exception and warning hushcov raises on purpose.

All errors derive from `HushcovError`, and from `ValueError` as scikit-learn users expect
(from `OSError` where a file is at fault).
A message names the parameter, its constraint, its value and the cure. It never contains a
value taken from the data, and neither does anything that is reachable from the error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import NoReturn


def printable(text: str, instead: str = "?") -> str:
    """Return text in one line, without characters that a terminal or a browser would obey.

    Control characters, line ends, signs that turn the direction of writing and halves of surrogate
    pairs may be in the names of columns, files and datasets. All that is shown goes through here.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else instead for each in text)


# What ends a program on purpose: it passes through every `except` block.
INTERRUPTS = (KeyboardInterrupt, SystemExit, GeneratorExit)


def _shown(error: BaseException) -> str:
    """Return the message in one line; names in it may have characters that a terminal obeys."""
    return printable(BaseException.__str__(error).replace("\n", " "))


class HushcovError(Exception):
    """Base class of all hushcov errors."""

    __str__ = _shown


class ParameterError(HushcovError, ValueError):
    """A public parameter is missing or outside its allowed range."""


class DataError(HushcovError, ValueError):
    """The records, or statistics computed from them, cannot be used as they are."""


class DataTypeError(DataError, TypeError):
    """The records hold something that is not a number."""


class RecordsFileError(OSError, DataError):  # in this order it comes back from clusters
    """A file of records is not there, or cannot be opened."""

    __str__ = _shown


class ForeignError(DataError):
    """Another package failed on the records; its own message may quote them and is left out."""


class TooFewCompleteError(DataError):
    """Nearly all records miss a value: nothing useful can be released of the others."""


class PrivacyConditionError(HushcovError, ValueError):
    """The condition under which the privacy guarantee is proved does not hold.

    `smallest_private_n` is the smallest number of records for which it would, where the
    number of records is what decides; otherwise None.
    """

    def __init__(self, message: str, smallest_private_n: int | None = None) -> None:
        super().__init__(message)
        self.smallest_private_n = smallest_private_n


class HopelessError(HushcovError, ValueError):
    """Releasing nothing is expected to be as accurate: refused before anything is charged."""


class BudgetError(PrivacyConditionError):
    """A dataset's total privacy budget does not allow the release: nothing was charged.

    `remaining` is the largest epsilon of a Gaussian release that would still fit, at the
    dataset's delta.
    """

    def __init__(self, message: str, remaining: float = 0.0) -> None:
        super().__init__(message)
        self.remaining = remaining


class LedgerError(HushcovError, OSError):
    """The file of a ledger cannot be read, written or trusted: nothing was charged."""


class ReleaseError(HushcovError, OSError):
    """A release cannot be written to its folder, or read from it."""


class DamagedReleaseError(ReleaseError):
    """The files of a release are not what was written: they must not be used."""


class SignatureError(ReleaseError):
    """A release has no signature, or not that of the key it was checked with."""


class StatisticsError(HushcovError, OSError):
    """A file of statistics cannot be written or read, or is not what was written."""


class CapacityError(HushcovError, ValueError):
    """The request is valid but larger than this implementation can represent or hold."""


class MissingPackageError(HushcovError, ImportError):
    """An optional package is needed and not installed.

    `extra` installs it, if there is one, of `distribution`.
    """

    def __init__(
        self, what: str, package: str, extra: str | None = None, distribution: str = "hushcov"
    ) -> None:
        self._parts = what, package, extra, distribution
        needs, wanted = "need", f"'{distribution}[{extra}]'"
        if extra is None:
            needs, wanted = "needs", f"{package}, or, in a checkout, run 'make install' again"
        super().__init__(f"{what} {needs} {package}, which is not installed: pip install {wanted}")

    def __reduce__(
        self,
    ) -> tuple[type[MissingPackageError], tuple[str, str, str | None, str]]:
        # It comes back from workers of a cluster, and exceptions pickle their message alone.
        return type(self), self._parts


class SeededNoiseWarning(UserWarning):
    """Noise came from a seed, so anyone who knows the seed can subtract it: not private."""


class AccuracyWarning(UserWarning):
    """The release is private, but what is known beforehand says that it will be of little use."""

    __str__ = _shown


class PrivacyWarning(UserWarning):
    """The release keeps its promise, but the promise is weaker than it may seem."""

    __str__ = _shown


def raise_alone(error: Exception) -> NoReturn:
    """Raise an error that refers to no other; for `except` blocks where records may be in sight.

    The exception that is being handled may hold a value of a record, in its message or in its
    arguments. Python keeps it as `__context__`, also with `from None`, and clusters send it on.
    """
    try:
        raise error
    finally:
        error.__context__ = None


_OURS = (HushcovError, SeededNoiseWarning, AccuracyWarning, PrivacyWarning)


@contextmanager
def own_errors(where: str = "while the records were read") -> Iterator[None]:
    """Replace every error inside that is not ours, as it may quote records; interrupts pass.

    Whatever makes records, reads them or computes with them before noise is added runs inside. Not
    all errors are an `Exception`: those of polars, as of all packages made with PyO3, may not be.
    """
    try:
        yield
        return
    except INTERRUPTS:
        raise
    except _OURS as error:
        error.__cause__ = error.__context__ = None
        raise
    except BaseException as error:
        found = _replaced(error, where)
    raise_alone(found)


def _replaced(error: BaseException, where: str) -> HushcovError:
    """Return one of our errors that says what happened, and nothing of a record."""
    if isinstance(error, MemoryError):
        return CapacityError(
            f"memory must suffice for the records, but it ran out {where}: use fewer features, or "
            "a computer with more memory."
        )
    if isinstance(error, OSError) and error.errno is not None:
        return RecordsFileError(
            f"files must be there for the records, but {where} the system said: "
            f"{os.strerror(error.errno)}. Check the path, its permissions and the disk."
        )
    return ForeignError(
        f"records must be read without an error, but {where} there was an error "
        f"of type {type(error).__name__} at {_place(error.__traceback__)}. Its message may quote "
        "records and is left out: read the records by themselves, where only those who may see "
        "them look on."
    )


def _place(trace: TracebackType | None) -> str:
    """Return the last line of ours that an error came through."""
    found = "an unknown place"
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if module.startswith(("hushcov.", "hushcov_")) and module != __name__:
            found = f"line {trace.tb_lineno} of {module}"
        trace = trace.tb_next
    return found
