"""What tests of tables share: the rows of records, and refusals that quote no value."""

import numpy as np
import pytest

from fuzz.cases import messages
from hushcov.exceptions import DataError


def rows_of(records):
    """All rows of records, in their order."""
    return np.concatenate(list(records._blocks()))


def refused(action, kind=DataError, *, secrets):
    """The message of an error, of which neither it nor what it refers to has a secret."""
    with pytest.raises(kind) as info:
        action()
    assert not [text for text in messages(info.value) for secret in secrets if secret in text]
    return str(info.value)
