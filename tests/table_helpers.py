"""What tests of tables share: the rows of records, and refusals that quote no value."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from fuzz.cases import messages
from hushcov.exceptions import DataError

#: pandas 2 rounds the last digit of numbers unless it is told not to; pandas 3 need not be told.
EXACTLY = {} if pd.__version__ >= "3" else {"float_precision": "round_trip"}
read_exactly = partial(pd.read_csv, **EXACTLY)


def rows_of(records):
    """All rows of records, in their order."""
    return np.concatenate(list(records._blocks()))


def refused(action, kind=DataError, *, secrets):
    """The message of an error, of which neither it nor what it refers to has a secret."""
    with pytest.raises(kind) as info:
        action()
    assert not [text for text in messages(info.value) for secret in secrets if secret in text]
    return str(info.value)
