"""The privacy budget of datasets over all releases, kept in one SQLite file."""

from hushcov.accounting.ledger.balance import Remaining
from hushcov.accounting.ledger.charges import Budget, Receipt
from hushcov.accounting.ledger.ledger import Ledger, Statement

__all__ = ["Budget", "Ledger", "Receipt", "Remaining", "Statement"]
