"""Options of estimators: each is declared and described once, by the class that has it first."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

# What a reader of a docstring looks for comes first, then what is special to a class.
_FIRST = ("epsilon", "delta", "row_sparsity", "feature_scale", "covariance_")
_NEXT_SECTION = re.compile(r"\n\n[^\n]+\n---")


@dataclass_transform(kw_only_default=True, eq_default=False)
def with_options(cls: type[T]) -> type[T]:
    """Decorate an estimator: its annotated attributes, and those of its bases, are its options.

    The constructor takes them by keyword and stores them as they are, as scikit-learn wants it.
    Parameters and attributes that the docstring of the class does not describe are added to it
    from the docstrings of its bases.
    """
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    made.__doc__ = _completed(made)
    return made


def documented(doc: str, section: str) -> dict[str, str]:
    """What a section of a docstring says, by the names that it is about."""
    body = _parts(doc, section)[1]
    found = {}
    for entry in re.split(r"\n(?=\S)", body) if body else ():
        names = entry.partition("\n")[0].partition(" : ")[0]
        found.update(dict.fromkeys(names.split(", "), entry))
    return found


def _completed(cls: type) -> str:
    """The docstring of a class with what those of its bases say besides."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    for section in ("Parameters", "Attributes"):
        entries = documented(doc, section)
        for base in filter(is_dataclass, cls.__bases__):
            for name, entry in documented(base.__doc__ or "", section).items():
                if section != "Parameters" or name in _options(cls):
                    entries.setdefault(name, entry)
        if entries:
            first = [entries[name] for name in _FIRST if name in entries]
            before, _, after = _parts(doc, section)
            ordered = dict.fromkeys((*first, *entries.values()))
            doc = "\n".join((before + _heading(section), *ordered)) + after
    return doc


def _options(cls: type) -> set[str]:
    """Names that its constructor takes: a class may fix an option of its bases."""
    return {field.name for field in fields(cls)}


def _parts(doc: str, section: str) -> tuple[str, str, str]:
    """What comes before a section, what is in it, and what comes after."""
    before, _, rest = doc.partition(_heading(section) + "\n")
    following = _NEXT_SECTION.search(rest)
    end = len(rest) if following is None else following.start()
    return before, rest[:end], rest[end:]


def _heading(section: str) -> str:
    return f"\n\n{section}\n{'-' * len(section)}"


@with_options
class DeltaOptions:
    """Options of guarantees that have a delta.

    Parameters
    ----------
    delta : float
        Privacy budget, 0 < delta <= 0.1. Required.
    on_large_delta : {"raise", "warn"}, default="raise"
        What to do where delta is 1 / n or more, n being the number of rows: refuse
        (`ParameterError`), or warn and release. Above 0.1 / n it warns in any case.
    """

    delta: float | None = None
    on_large_delta: str = "raise"


@with_options
class ForecastOptions:
    """Options of estimators that know before a fit whether it is worth its charge.

    Parameters
    ----------
    on_hopeless : {"raise", "warn"}, default="raise"
        What to do where the predicted error is no better than that of the zero matrix, or no mean
        could be found: refuse (`HopelessError`), or warn and release. Nothing is charged before.
    """

    on_hopeless: str = "raise"


@with_options
class CentreOptions(ForecastOptions):
    """Options of estimators that can find means privately.

    Parameters
    ----------
    assume_centered : bool, default=False
        Whether the records have mean zero, as `partial_fit` and `fit_statistics` need it. False
        finds means, scales and norms from a share of the budget; what cannot be found is in
        `unresolved_features_`, and too few records to find anything are refused (`HopelessError`).
    bounds : array of shape (n_features, 2) or mapping, optional
        Public bounds of the features, low and high: NaN, None or infinite where one is not known;
        a mapping is by name or index of columns and may leave some out. Values beyond them are
        moved to them. Where means are found, a feature with both is never unresolved: where it
        cannot be told from noise, its scale is what noise and bounds allow. Low and high alike say
        that it is constant. They must be public knowledge, as of a questionnaire, and not be
        looked up in X. `codebook.bounds` has those of a codebook (`hushcov.read_codebook`).

    Attributes
    ----------
    location_ : ndarray
        The released means; zeros with `assume_centered=True`.
    unresolved_features_ : ndarray of int
        Features whose mean or scale could not be told from noise, by column: their entries are
        zero, and nothing is known of them.
    """

    bounds: Any = None


@with_options
class CandidateOptions:
    """Options of estimators that can be told which pairs may covary.

    Parameters
    ----------
    bandwidth : int, optional
        How many columns apart two features can be that covary, where the order of the columns has a
        meaning and that is public: positions along a genome, sensors of a chain, maturities, time
        lags. All other covariances are taken for zero: nothing is spent on them, and work, memory
        and output grow with the number of pairs in the band, never with n_features^2. Estimates are
        sparse matrices then, unless `sparse_output=False`.
    candidate_pairs : sparse matrix, array, list, mapping, path or Candidates, optional
        The same for pairs of any kind: a sparse matrix or square array of booleans; pairs or groups
        of columns by name or position, all pairs within a group; a mapping whose values are groups;
        or a file with one of them (`.npz`, or text or Parquet with a pair or group in each row).
        They must be public knowledge, and not be looked up in X. Not with `bandwidth`.
    """

    bandwidth: int | None = None
    candidate_pairs: Any = None


@with_options
class SparseOptions:
    """Options of estimators that may select few of many pairs.

    Parameters
    ----------
    sparse_output : "auto" or bool, default="auto"
        Whether estimates are sparse matrices (`scipy.sparse.csr_array`) of what was selected, with
        no `precision_`. "auto": above 10,000 features, and with candidates.
    """

    sparse_output: Any = "auto"
