"""A release: one complete document, what can be read off it, and its files."""

from hushcov.release.document import Making, Part, Release, named_parts
from hushcov.release.signature import PublicKey, SigningKey

__all__ = ["Making", "Part", "PublicKey", "Release", "SigningKey", "named_parts"]
