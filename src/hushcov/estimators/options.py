"""Make parameters of estimators from annotated attributes, and describe them from the table."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar, dataclass_transform

from hushcov.options import PURPOSES, TABLE

T = TypeVar("T")

# Readers of a docstring look for these first, then for what is special to a class.
_FIRST = ("covariance_",)
_PLACES = {option.name: place for place, option in enumerate(TABLE)}
_LAST = ("Notes", "References", "Examples")
_NEXT_SECTION = re.compile(r"\n\n[^\n]+\n---")


@dataclass_transform(kw_only_default=True, eq_default=False)
def with_options(cls: type[T]) -> type[T]:
    """Decorate an estimator: its annotated attributes, and those of its bases, are its options.

    The constructor takes them by keyword, in the order of the table of options, and stores them as
    they are, as scikit-learn requires.
    What the docstring of the class does not describe is added to it: from the docstrings of its
    bases, and parameters from the table of options (`hushcov.options`).
    """
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    made.__doc__ = _completed(made)
    make: Any = made.__init__
    make.__signature__ = _in_order(inspect.signature(make))
    return made


def _in_order(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature with its parameters in the order of the table, others last."""
    places = {name: _PLACES.get(name, len(TABLE)) for name in signature.parameters} | {"self": -1}
    parameters = sorted(signature.parameters.values(), key=lambda each: places[each.name])
    return signature.replace(parameters=parameters)


def documented(doc: str, section: str) -> dict[str, str]:
    """Return the entries of a section of a docstring, by the names that they are about."""
    body = _parts(doc, section)[1]
    found = {}
    for entry in re.split(r"\n(?=\S)", body) if body else ():
        names = entry.partition("\n")[0].partition(" : ")[0]
        found.update(dict.fromkeys(names.split(", "), entry))
    return found


def _completed(cls: type) -> str:
    """Return the docstring of a class with what its bases and the table say besides."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    own = {field.name for field in fields(cls)}  # a class may fix an option of its bases
    for section in ("Parameters", "Attributes", "Warns"):
        entries = documented(doc, section)
        for base in filter(is_dataclass, cls.__bases__):
            for name, entry in documented(base.__doc__ or "", section).items():
                if section != "Parameters" or name in own:
                    entries.setdefault(name, entry)
        for option in TABLE if section == "Parameters" else ():
            if option.type and option.name in own:
                entries.setdefault(option.name, option.entry)
        if entries:
            first = [entries[name] for name in (*_FIRST, *_PLACES) if name in entries]
            before, _, after = _parts(doc, section)
            ordered = dict.fromkeys((*first, *entries.values()))
            doc = "\n".join((before + _heading(section), *ordered)) + after
    return doc


def _parts(doc: str, section: str) -> tuple[str, str, str]:
    """Split a docstring into what comes before a section, what is in it, and what comes after."""
    before, found, rest = doc.partition(_heading(section) + "\n")
    if not found:  # it goes before the remarks and the examples
        ends = [end for name in _LAST if (end := doc.find(_heading(name))) >= 0]
        end = min(ends, default=len(doc))
        return doc[:end], "", doc[end:]
    following = _NEXT_SECTION.search(rest)
    end = len(rest) if following is None else following.start()
    return before, rest[:end], rest[end:]


def _heading(section: str) -> str:
    return f"\n\n{section}\n{'-' * len(section)}"


@with_options
class DeltaOptions:
    """Options of guarantees that have a delta.

    Warns
    -----
    PrivacyWarning
        Where delta is above 0.1 / n.
    """

    delta: float | None = None
    on_large_delta: str = "raise"


@with_options
class ForecastOptions:
    """Options of estimators that know before a fit whether it is worth its charge.

    Warns
    -----
    AccuracyWarning
        With `on_hopeless="warn"`, where the predicted error is no better than that of the zero
        matrix; and where scales cannot be found. Any number of records is private, but
        few make no estimate.
    """

    on_hopeless: str = "raise"


@with_options
class CentreOptions(ForecastOptions):
    """Options of estimators that can find means privately.

    Parameters
    ----------
    assume_centered : bool, default=False
        Whether the records have mean zero. False finds means, scales and norms from a share of the
        budget; what cannot be found is in `unresolved_features_`, and too few records to find
        anything are refused (`HopelessError`).

    Attributes
    ----------
    location_ : ndarray
        The released means; zeros with `assume_centered=True`.
    unresolved_features_ : ndarray of int
        Features whose mean or scale could not be told from noise, by column: their entries are
        zero, and nothing is known of them.
    """

    bounds: Any = None
    transforms: Any = None
    marginals: float | None = None


@with_options
class PurposeOptions:
    """Options of estimators that may measure the covariance again, in the basis of a first look."""

    purpose: str = PURPOSES[0]
    target: Any = None
    basis: Any = None


@with_options
class CandidateOptions:
    """Options of estimators that use public knowledge of which pairs may covary.

    Attributes
    ----------
    noise_sd_ : ndarray
        Standard deviation of the privacy noise of each released entry, NaN elsewhere.
    detection_limit_ : float or None
        The smallest correlation that is found nine times out of ten, by prediction; 1 where none
        is, None where there is no threshold.
    """

    bandwidth: int | str | None = None
    candidate_pairs: Any = None
