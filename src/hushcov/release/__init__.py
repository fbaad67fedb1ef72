"""A release: one complete document, what can be read off it, and its files."""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy
from hushcov.release.document import (
    FOURTH_POWERS,
    Making,
    Part,
    Release,
    Structure,
    Tails,
    named_parts,
    parts_of,
)

if TYPE_CHECKING:
    from hushcov.release.signature import PublicKey, SigningKey

__getattr__ = lazy(__name__, signature="PublicKey SigningKey")
