"""`Ledger`: charge a dataset's budget, then release; never the other way round."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from hushcov._charged import Attempt, begin, ledger_asked, stated_charges
from hushcov._validation import check_choice, check_real, shown
from hushcov._words import number
from hushcov.accounting.charges import (
    BUDGET,
    CHARGE,
    Charge,
    DatasetBudget,
    Receipt,
    Remaining,
    as_charge,
    budget_body,
    charge_json,
    charge_to,
    read_entry,
    remaining,
    total,
    within,
)
from hushcov.accounting.composition import Bound
from hushcov.accounting.events import Event, Pure
from hushcov.accounting.guarantee import Guarantee
from hushcov.accounting.ledger_file import Book, Store
from hushcov.accounting.neighbours import RECORD, RELATIONS, REPLACE, check_unit
from hushcov.exceptions import BudgetError, ParameterError

__all__ = ["DatasetBudget", "Ledger", "Receipt", "Remaining", "Statement"]

_LONGEST_NAME = 200
_LARGEST_DELTA = 0.1
_SMALLEST_DELTA = 1e-300  # of which doubles hold every share


@dataclass(frozen=True)
class Statement:
    """Everything the ledger knows of one dataset, read at one moment.

    `promises` are the budgets set so far; the last one counts.
    """

    promises: tuple[DatasetBudget, ...]
    receipts: tuple[Receipt, ...]

    @property
    def budget(self) -> DatasetBudget:
        """The total budget that counts."""
        return self.promises[-1]

    @property
    def charges(self) -> tuple[Charge, ...]:
        """The charges, without what the receipts say about them."""
        return tuple(receipt.charge for receipt in self.receipts)

    def spent(self) -> Bound:
        """Return what all charges cost together, at the budget's delta."""
        return total(self.charges, self.budget)

    def remaining(self) -> Remaining:
        """Return what still fits the budget."""
        return remaining(self.charges, self.budget)


class Ledger:
    """The privacy budgets of datasets, and everything charged to them, in one SQLite file.

    Parameters
    ----------
    path : str or path
        The file. `open_dataset` creates it.
    timeout : float, default=60
        How many seconds to wait for other processes that use the file.

    Privacy
    -------
    Charge before data is read and before noise is drawn. A charge is on the disk when `charge`
    returns, so a crash between charge and release loses budget, never privacy. All charges, by any
    number of processes and threads, compose to at most the dataset's (epsilon, delta) for the
    neighbours it was opened for (one replaced record by default), also where what a release costs
    was chosen in the light of earlier ones: `docs/proofs/accounting.md`, steps 19 to 25.
    `docs/ledger.md` has what a ledger cannot see.

    Examples
    --------
    >>> import tempfile
    >>> from hushcov.accounting import Gaussian
    >>> from hushcov.accounting.ledger import Ledger
    >>> ledger = Ledger(tempfile.mkdtemp() + "/budget.db")
    >>> budget = ledger.open_dataset("patients", epsilon=1.0, delta=1e-6)
    >>> receipt = ledger.charge("patients", Gaussian(mu=0.1), label="first look")
    >>> round(ledger.spent("patients").epsilon, 3), round(ledger.remaining("patients").epsilon, 3)
    (0.397, 0.853)
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 60.0) -> None:
        if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path):
            raise ParameterError(
                f"path must be the path of a file, got {shown(path)}: pass a str or a Path."
            )
        self.named = os.fspath(path)  # in messages; the file stays where it is
        self.path = Path(path).absolute()
        cure = "it is how many seconds to wait for other processes."
        self.timeout = check_real("timeout", timeout, above=0, at_most=1e6, cure=cure)

        self._store = Store(self.path, self.timeout)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def open_dataset(
        self,
        name: str,
        epsilon: float,
        delta: float,
        neighbours: str = REPLACE,
        unit: str = RECORD,
    ) -> DatasetBudget:
        """Set the total budget of a dataset, once; the same budget again changes nothing.

        `delta` may be 0 where every release is pure. The budget is promised for a `unit`, in one
        word, that is replaced, or that is added or removed: `neighbours` is "replace" or
        "add-remove". The file is created if it is not there.
        """
        asked = _check_budget(name, epsilon, delta, neighbours, unit)
        with self._store.writing(create=True) as book:
            promises = _statement(book, name).promises
            if not promises:
                return _promise(book, asked)
            budget = promises[-1]
            if (budget.epsilon, budget.delta) != (asked.epsilon, asked.delta):
                raise ParameterError(
                    f"the budget of dataset {name!r} must stay epsilon {budget.epsilon!r} and "
                    f"delta {budget.delta!r}, as promised before, got {asked.epsilon!r} and "
                    f"{asked.delta!r}: leave it, or make a new promise with change_budget or "
                    "'hushcov ledger change'."
                )
            if (budget.neighbours, budget.unit) != (asked.neighbours, asked.unit):
                raise ParameterError(
                    f"the budget of dataset {name!r} must stay for {budget.change}, as promised "
                    f"before, got one for {asked.change}: open another dataset for it. The two "
                    "have budgets of their own, and what both cost together nobody counts."
                )
            return budget

    def change_budget(self, name: str, epsilon: float, delta: float) -> DatasetBudget:
        """Promise another total from now on; the ledger keeps both. Refused below what is spent.

        Whom it protects stays. A larger total weakens what people were told before: it is theirs to
        decide.
        """
        # proof: step 25
        asked = _check_budget(name, epsilon, delta)
        with self._store.writing() as book:
            known = _known(book, name)
            asked = replace(asked, neighbours=known.budget.neighbours, unit=known.budget.unit)
            spent = total(known.charges, asked)
            if not within(spent, asked):
                raise BudgetError(
                    f"epsilon of dataset {name!r} must be at least {spent.epsilon:.6g} at delta "
                    f"{asked.delta!r}, which is spent already, got {asked.epsilon!r}: keep a "
                    "larger total. Nothing was changed."
                )
            return _promise(book, asked)

    def charge(
        self,
        dataset: str,
        cost: Guarantee | Event | Sequence[Event],
        *,
        label: str,
        whole: float = 0.0,
    ) -> Receipt:
        """Charge a release that is about to be made, or refuse it.

        Parameters
        ----------
        dataset
            A dataset that was opened.
        cost
            The guarantee of the release, known before any record is read, or its events. A
            guarantee for adding or removing costs a budget for replacing twice as much, and the
            receipt says `charge.converted`; the other way round, and for another unit, it is
            refused. Events by themselves are taken to be those of the budget's own neighbours.
        label
            What the release is, in a few words. Never put a value from the data here.
        whole
            The epsilon of the whole release where this is its first part, a count, and what the
            rest costs is charged once it is planned. If it is the first charge, and more than half
            of the budget, epsilons and deltas are added up from then on.

        Raises
        ------
        BudgetError
            If all charges together would pass the budget.
        PrivacyConditionError
            If the guarantee is not for whom the budget protects: what it would cost is not known.
        LedgerError
            If the file cannot be read or written. Do not release.

        In all cases nothing is charged, unless the error has a note that says what was: one that
        comes with the last write, as an interrupt may.
        """
        as_charge(cost)  # refused before the file is touched, if at all
        _check_name("label", label)
        attempt: Attempt | None = None
        with stated_charges():
            with self._store.writing() as book:
                statement = _known(book, dataset)
                new = replace(charge_to(statement.budget, cost), whole=whole)
                after = total((*statement.charges, new), statement.budget)
                if within(after, statement.budget):
                    entry = book.append(CHARGE, dataset, charge_json(label, new, after))
                    number = len(statement.receipts) + 1
                    receipt = replace(cast("Receipt", read_entry(entry)), number=number)
                    attempt = begin(self, receipt)  # from here on it may get to the disk
            if attempt is not None:
                attempt.returned = True
                return receipt
        # Outside of the transaction: finding out what is left takes longer than others should wait.
        raise _refusal(statement, after, new)

    def quote(self, dataset: str, cost: Guarantee | Event | Sequence[Event]) -> Remaining:
        """Return what a charge would leave, or refuse it as `charge` does; nothing is charged."""
        statement = self.statement(dataset)
        new = charge_to(statement.budget, cost)
        charges = (*statement.charges, new)
        after = total(charges, statement.budget)
        if not within(after, statement.budget):
            raise _refusal(statement, after, new)
        return remaining(charges, statement.budget)

    def spent(self, dataset: str) -> Bound:
        """Return what all charges of a dataset cost together, at its delta."""
        return self.statement(dataset).spent()

    def remaining(self, dataset: str) -> Remaining:
        """Return what still fits the budget of a dataset."""
        return self.statement(dataset).remaining()

    def history(self, dataset: str) -> tuple[Receipt, ...]:
        """Return all charges of a dataset, in their order."""
        return self.statement(dataset).receipts

    def statement(self, dataset: str) -> Statement:
        """Return budgets and charges of a dataset as they are at one moment."""
        ledger_asked()
        with self._store.reading() as book:
            return _known(book, dataset)

    def datasets(self) -> tuple[str, ...]:
        """Return the names of all datasets, in the order in which they were opened."""
        with self._store.reading() as book:
            return _names(book)


def _statement(book: Book, dataset: str) -> Statement:
    mine = [read_entry(entry) for entry in book.entries if entry.dataset == dataset]
    receipts = [entry for entry in mine if isinstance(entry, Receipt)]
    return Statement(
        promises=tuple(entry for entry in mine if isinstance(entry, DatasetBudget)),
        receipts=tuple(replace(each, number=place) for place, each in enumerate(receipts, 1)),
    )


def _promise(book: Book, budget: DatasetBudget) -> DatasetBudget:
    entry = book.append(BUDGET, budget.dataset, budget_body(budget))
    return replace(budget, time=entry.time)


def _known(book: Book, dataset: str) -> Statement:
    statement = _statement(book, dataset)
    if not statement.promises:
        known = ", ".join(repr(name) for name in _names(book)) or "none"
        raise ParameterError(
            f"dataset must be one of this ledger's ({known}), got {dataset!r}: open it first with "
            "open_dataset or 'hushcov ledger init'. Nothing was charged."
        )
    return statement


def _names(book: Book) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry.dataset for entry in book.entries))


def _refusal(statement: Statement, after: Bound, new: Charge) -> BudgetError:
    budget, left = statement.budget, statement.remaining()
    left = left.converted() if new.converted else left
    twice = f"For {budget.change} it counts twice. " if new.converted else ""
    advice = _advice(left, pure=isinstance(new.promise, Pure))
    spent, then = statement.spent().epsilon, "this release does not fit beside it"
    if math.isfinite(after.epsilon):
        then = f"with this release it would be {number(after.epsilon)}"
        then += " (epsilons of several releases do not simply add up)" * (spent > 0)
    return BudgetError(
        f"dataset {budget.dataset!r} has a total budget of epsilon {number(budget.epsilon)} and "
        f"delta {number(budget.delta)}. Epsilon {number(spent)} is spent, and {then}. {twice}"
        f"{advice} It was not charged, so it may not be made. A larger total is a new "
        "promise: 'hushcov ledger change FILE "
        f"--dataset {shlex.quote(budget.dataset)} --epsilon TOTAL --delta {number(budget.delta)}', "
        "or change_budget in Python.",
        left.epsilon,
    )


def _advice(left: Remaining, *, pure: bool) -> str:
    """What would fit; of releases without a delta first, where this is one."""
    most, alone = _rounded_down(left.epsilon), _rounded_down(left.pure_epsilon)
    noisy = f"epsilon {most:g} at delta {number(_rounded_down(left.delta))}"
    if pure and alone > 0:
        other = f", or one by Gaussian noise of {noisy}" if most > 0 else ""
        return f"What still fits is a release of epsilon {alone:g} and delta 0{other}."
    if most > 0:
        return f"What still fits is a release of {noisy}."
    if alone > 0:
        return f"No delta is left: only a release of delta 0 and epsilon up to {alone:g} fits."
    return "Nothing is left."


def _rounded_down(value: float) -> float:
    """Round to four digits such that what is said to fit does fit."""
    shorter = float(f"{value:.4g}")
    return shorter if shorter <= value else float(f"{value * (1 - 1e-3):.4g}")


def _check_budget(
    name: str, epsilon: float, delta: float, neighbours: str = REPLACE, unit: str = RECORD
) -> DatasetBudget:
    _check_name("dataset", name)
    check_choice("neighbours", neighbours, tuple(RELATIONS))
    check_unit(unit)
    epsilon = check_real("epsilon", epsilon, above=0, cure="it is the total budget, a real number.")
    delta = check_real(
        "delta",
        delta,
        above=_SMALLEST_DELTA,
        at_most=_LARGEST_DELTA,
        or_zero=True,
        cure="choose it well below 1 / records; 0 is allowed where every release is pure.",
    )
    return DatasetBudget(name, epsilon, delta, neighbours=neighbours, unit=unit)


def _check_name(what: str, name: object) -> None:
    printable = isinstance(name, str) and name.isprintable() and name.strip() == name
    if not (printable and 0 < len(str(name)) <= _LONGEST_NAME):
        raise ParameterError(
            f"{what} must be 1 to {_LONGEST_NAME} printable characters without blanks at its "
            f"ends, got {name!r}: choose a short name."
        )
