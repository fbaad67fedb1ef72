"""Refuse searches by scikit-learn that nobody pays for.

`GridSearchCV`, `cross_validate` and their kin fit many times, and each fit is a release. They score
held-out rows, which are records too, and no guarantee covers such a score. So a fit in a search
needs a ledger, and the score of held-out rows is refused with one as well.

An estimator is not told that a search fits it: what a search does (`clone`, `set_params`, `fit`) is
what anybody may do. The only trace that reaches all fits, in threads and processes too, is who
called: a function of `sklearn.model_selection`. Fits that a user writes down, clones and loops of
them included, are left alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any, TypeVar, cast

from hushcov.exceptions import ParameterError

_SEARCHES = "sklearn.model_selection"
_SCORERS = "sklearn.metrics._scorer"
_IN_BETWEEN = ("hushcov.estimators.", "sklearn.pipeline", "sklearn.utils.")

_NO_LEDGER = (
    "ledger is required where scikit-learn searches or cross-validates, got None: each fit of "
    "{name} is a release that spends the budget again, and the score of held-out rows is one more, "
    "which nothing counts. Choose parameters from public inputs (`hushcov plan`, or "
    "PrivateSparseCovariance.plan(n_records, n_features)), or on simulated or public rows in a "
    "loop of your own; or pass ledger, dataset, and a scoring that looks at no sensitive row."
)
_NO_SCORING = (
    "scoring must be a function that looks at no sensitive row where scikit-learn searches or "
    "cross-validates, got None: the score of held-out rows is a release that no ledger counts. "
    "Pass for example scoring=lambda estimator, X, y=None: estimator.score(public_rows)."
)

Method = TypeVar("Method", bound=Callable[..., Any])


def refuse_unpaid_search(estimator: Any) -> None:
    """Refuse a fit in a search of scikit-learn without a ledger; before any record is read."""
    if estimator.ledger is None and _in_search():
        raise ParameterError(_NO_LEDGER.format(name=type(estimator).__name__))


def not_of_held_out_rows(method: Method) -> Method:
    """Decorate `score`: scikit-learn's scorers do not get it in a search, users always do."""
    return cast(Method, _Guarded(method))


class _Guarded:
    """A method that is refused when it is looked up, which scorers do before the first fit."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, estimator: Any, owner: type | None = None) -> Callable[..., Any]:
        if estimator is None:
            return self._method
        if _in_search():
            callers = list(_callers())
            direct = callers[0].startswith(_SCORERS)
            asks = next(name for name in callers if not name.startswith(_IN_BETWEEN))
            # A pipeline would turn the refusal into "has no score". Without a ledger it is left to
            # fit, whose refusal keeps its words; with one, nothing must be charged before it.
            if direct and estimator.ledger is None:
                raise ParameterError(_NO_LEDGER.format(name=type(estimator).__name__))
            if asks.startswith(_SCORERS) and estimator.ledger is not None:
                raise ParameterError(_NO_SCORING)
        return MethodType(self._method, estimator)


def _in_search() -> bool:
    return any(name.startswith(_SEARCHES) for name in _callers())


def _callers() -> Iterator[str]:
    """Names of the modules on the stack, the innermost first, without this one."""
    frame = inspect.currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != __name__:
            yield name
        frame = frame.f_back
