"""What a release would cost in the ledger, and what it did where something failed later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hushcov._words import number
from hushcov.accounting import Guarantee
from hushcov.accounting.ledger import Ledger
from hushcov.cli.folders import holds_release
from hushcov.estimators.base import PrivateCovariance, charge_words


def quoted(ledger: Path, dataset: str, guarantee: Guarantee) -> dict[str, object]:
    """What the ledger would say to a charge; a refusal is the same as that of the charge."""
    book = Ledger(ledger)
    left = book.quote(dataset, guarantee)
    return {
        "file": str(ledger),
        "dataset": dataset,
        "epsilon_left": left.epsilon,
        "pure_epsilon_left": left.pure_epsilon,
        "delta": left.delta,
    }


def quote_words(quote: dict[str, object]) -> str:
    """The same in words."""
    left, delta = float(str(quote["epsilon_left"])), float(str(quote["delta"]))
    return (
        f"{quote['file']}, dataset {quote['dataset']}: the charge would fit, and epsilon "
        f"{number(left)} at delta {number(delta)} would be left"
    )


@contextmanager
def stated_charge(estimator: PrivateCovariance, folder: Path) -> Iterator[None]:
    """Whatever fails after the release says what was charged, and what became of the files."""
    try:
        yield
    except BaseException as error:
        if hasattr(estimator, "receipt_"):
            files = (
                f"The release is in {folder}/." if holds_release(folder) else "Nothing was written."
            )
            error.add_note(f"{charge_words(estimator.ledger, estimator.receipt_)} {files}")
        raise
