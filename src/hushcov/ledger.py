"""The ledger of a dataset's budget as people use it: charges, what is left, and advice.

The kernel keeps the file and decides what fits (`hushcov.kernel.accounting.ledger`). What is left
is found here by asking it for one amount after another, and is only told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hushcov._words import number, shell_word
from hushcov.calibration import calibrate_gaussian
from hushcov.exceptions import BudgetError
from hushcov.kernel.accounting.composition import Bound, gaussian_epsilon
from hushcov.kernel.accounting.events import Event, Gaussian, Pure
from hushcov.kernel.accounting.guarantee import Guarantee
from hushcov.kernel.accounting.ledger import (
    LAST_PLACES,
    Charge,
    LedgerFile,
    OverBudgetError,
    Receipt,
    Statement,
    TotalBudget,
    adds_promises,
    as_charge,
    charge_to,
    promised,
    total,
    within,
)
from hushcov.promise import largest_factor

__all__ = ["Ledger", "Receipt", "Remaining", "Statement", "TotalBudget"]

_HALVINGS = 30


@dataclass(frozen=True)
class Remaining:
    """The rest of a budget: `epsilon` at `delta`, or `pure_epsilon` at delta 0.

    The two are alternatives; each uses up the budget. `epsilon` is that of a Gaussian release;
    one by other noise costs about what a Gaussian one does at the same (epsilon, delta).
    """

    epsilon: float
    pure_epsilon: float
    delta: float

    def converted(self) -> Remaining:
        """Return what fits of releases for a unit added or removed, which count twice."""
        epsilon = 0.0
        if self.epsilon > 0:
            mu = calibrate_gaussian(self.epsilon, self.delta) / 2
            epsilon = min(self.epsilon / 2, gaussian_epsilon(mu * (1 - 1e-9), self.delta))
        delta = self.delta / (1 + largest_factor(epsilon)) * (1 - 1e-9)
        return Remaining(epsilon, self.pure_epsilon / 2 * (1 - 1e-9), delta)


def remaining_of(statement: Statement) -> Remaining:
    """Return what still fits the budget of a dataset."""
    return remaining(statement.charges, statement.budget)


def remaining(charges: Sequence[Charge], budget: TotalBudget) -> Remaining:
    """Return the largest release that could still be charged."""

    def fits(event: Event) -> bool:
        return within(total((*charges, as_charge(event)), budget), budget)

    pure = _largest(lambda epsilon: fits(Pure(epsilon)), budget.epsilon)
    difference = budget.epsilon - total(charges, budget).epsilon
    if difference > pure and fits(Pure(difference)):
        pure = difference  # a plain sum, to its last place
    if charges and adds_promises(charges, budget):
        delta = max(0.0, budget.delta - promised(charges, budget)[1])
        delta = delta if delta > LAST_PLACES * budget.delta else 0.0
        return Remaining(pure if delta else 0.0, pure, delta)
    if budget.delta == 0:
        return Remaining(0.0, pure, 0.0)
    mu = _largest(lambda mu: fits(Gaussian(mu)), calibrate_gaussian(budget.epsilon, budget.delta))
    left = budget.epsilon if not charges else gaussian_epsilon(mu, budget.delta) if mu else 0.0
    return Remaining(left, pure, budget.delta)


def _largest(fits: Callable[[float], bool], most: float) -> float:
    """Return the largest amount up to `most` that fits, from below."""
    if fits(most):
        return most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class Ledger(LedgerFile):
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
    >>> from hushcov.kernel.accounting import Gaussian
    >>> from hushcov.ledger import Ledger
    >>> ledger = Ledger(tempfile.mkdtemp() + "/budget.db")
    >>> budget = ledger.open_dataset("patients", epsilon=1.0, delta=1e-6)
    >>> receipt = ledger.charge("patients", Gaussian(mu=0.1), label="first look")
    >>> round(ledger.spent("patients").epsilon, 3), round(ledger.remaining("patients").epsilon, 3)
    (0.397, 0.853)
    """

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
        try:
            return super().charge(dataset, cost, label=label, whole=whole)
        except OverBudgetError as error:
            # Finding out what is left takes longer than others should wait for the file.
            refusal = _refusal(error.statement, error.refused, error.after)
        raise refusal

    def quote(self, dataset: str, cost: Guarantee | Event | Sequence[Event]) -> Remaining:
        """Return what a charge would leave, or refuse it as `charge` does; nothing is charged."""
        statement = self.statement(dataset)
        new = charge_to(statement.budget, cost)
        charges = (*statement.charges, new)
        after = total(charges, statement.budget)
        if not within(after, statement.budget):
            raise _refusal(statement, new, after)
        return remaining(charges, statement.budget)

    def spent(self, dataset: str) -> Bound:
        """Return what all charges of a dataset cost together, at its delta."""
        return self.statement(dataset).spent()

    def remaining(self, dataset: str) -> Remaining:
        """Return what still fits the budget of a dataset."""
        return remaining_of(self.statement(dataset))

    def history(self, dataset: str) -> tuple[Receipt, ...]:
        """Return all charges of a dataset, in their order."""
        return self.statement(dataset).receipts

    def datasets(self) -> tuple[str, ...]:
        """Return the names of all datasets, in the order in which they were opened."""
        with self._store.reading() as book:
            return book.datasets()


def _refusal(statement: Statement, new: Charge, after: Bound) -> BudgetError:
    """Say what does not fit, and what would."""
    budget, left, twice = statement.budget, remaining_of(statement), ""
    if new.converted:
        left, twice = left.converted(), f"For {budget.change} it counts twice. "
    # What would fit, first without a delta where this release has none.
    most, alone = _rounded_down(left.epsilon), _rounded_down(left.pure_epsilon)
    noisy = f"epsilon {most:g} at delta {number(_rounded_down(left.delta))}"
    if isinstance(new.promise, Pure) and alone > 0:
        other = f", or one by Gaussian noise of {noisy}" if most > 0 else ""
        advice = f"What still fits is a release of epsilon {alone:g} and delta 0{other}."
    elif most > 0:
        advice = f"What still fits is a release of {noisy}."
    elif alone > 0:
        advice = f"No delta is left: only a release of delta 0 and epsilon up to {alone:g} fits."
    else:
        advice = "Nothing is left."
    spent, then = statement.spent().epsilon, "this release does not fit beside it"
    if math.isfinite(after.epsilon):
        then = f"with this release it would be {number(after.epsilon)}"
        then += " (epsilons of several releases do not simply add up)" * (spent > 0)
    return BudgetError(
        f"dataset {budget.dataset!r} has a total budget of epsilon {number(budget.epsilon)} and "
        f"delta {number(budget.delta)}. Epsilon {number(spent)} is spent, and {then}. {twice}"
        f"{advice} It was not charged, so it may not be made. A larger total is a new "
        "promise: 'hushcov ledger change FILE "
        f"--dataset {shell_word(budget.dataset)} --epsilon TOTAL --delta {number(budget.delta)}', "
        "or change_budget in Python.",
        left.epsilon,
    )


def _rounded_down(value: float) -> float:
    """Round to four digits such that what is said to fit does fit."""
    shorter = float(f"{value:.4g}")
    return shorter if shorter <= value else float(f"{value * (1 - 1e-3):.4g}")
