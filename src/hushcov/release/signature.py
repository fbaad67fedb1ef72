"""Ed25519 signatures of releases: a checksum shows damage, a signature shows who wrote the files.

Signed is the seal, `release.sha256`, which holds the checksum of `release.json`, which holds those
of every other file. A line before it says what is signed, so that no signature made for another
purpose fits. `release.sig` holds the 64 bytes of the signature.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hushcov.exceptions import MissingPackageError, ParameterError, ReleaseError, SignatureError

KeyFile = str | os.PathLike[str]

#: What is signed before the seal; another format of the seal must have another line.
PREFIX = b"hushcov release signature, version 1\n"
SIGNATURE_BYTES = 64
_MOST_KEY = 100_000  # bytes of a key file
_MAKE = "'openssl genpkey -algorithm ed25519 -out key.pem' makes one"
_MAKE_PUBLIC = "'openssl pkey -in key.pem -pubout -out key.pub' makes it of a private one"


class SigningKey:
    """A private Ed25519 key, to sign releases with."""

    def __init__(self, key: Any) -> None:
        self._key = key

    @classmethod
    def read(cls, file: KeyFile, passphrase: str | None = None) -> SigningKey:
        """Read a private key from a PEM file, as `openssl genpkey -algorithm ed25519` writes it."""
        ed25519, serialization = _cryptography()
        content = _content("sign", file)
        secret = None if passphrase is None else passphrase.encode()
        try:
            key = serialization.load_pem_private_key(content, secret)
        except TypeError:
            fault = "encrypted: pass its" if secret is None else "not encrypted: leave out the"
            raise ParameterError(f"the key in {file} is {fault} passphrase.") from None
        except Exception:  # its parser lets errors of many types through
            wrong = "" if passphrase is None else ", or the passphrase is wrong"
            raise ParameterError(
                f"sign must be the PEM file of a private key, got {file}, which is none{wrong}: "
                f"{_MAKE}."
            ) from None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise ParameterError(
                f"sign must be an Ed25519 key, and {file} holds a key of another kind: {_MAKE}."
            )
        return cls(key)

    @staticmethod
    def is_encrypted(file: KeyFile) -> bool:
        """Return whether the file asks for a passphrase."""
        return b"ENCRYPTED" in _content("sign", file)

    def sign(self, seal: bytes | bytearray) -> bytes:
        """Return the signature of a seal."""
        return bytes(self._key.sign(PREFIX + bytes(seal)))


class PublicKey:
    """A public Ed25519 key, to check signatures of releases with."""

    def __init__(self, key: Any) -> None:
        self._key = key

    @classmethod
    def read(cls, file: KeyFile) -> PublicKey:
        """Read a public key from a PEM file, as `openssl pkey -pubout` writes it."""
        ed25519, serialization = _cryptography()
        content = _content("verify", file)
        if b"PRIVATE KEY" in content:
            raise ParameterError(
                f"verify must be a public key, and {file} holds a private one: {_MAKE_PUBLIC}. "
                "Keep the private one secret."
            )
        try:
            key = serialization.load_pem_public_key(content)
        except Exception:  # its parser lets errors of many types through
            raise ParameterError(
                f"verify must be the PEM file of a public key, got {file}, which is none: "
                f"{_MAKE_PUBLIC}."
            ) from None
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise ParameterError(
                f"verify must be an Ed25519 key, and {file} holds a key of another kind: use the "
                "public half of the key that signed."
            )
        return cls(key)

    def check(self, seal: bytes | bytearray, signature: bytes | bytearray) -> None:
        """Refuse a signature that the private half of this key did not make of this seal."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(bytes(signature), PREFIX + bytes(seal))
        except InvalidSignature:
            raise SignatureError(
                "its signature was not made by this key for these files. Do not trust them; ask "
                "the sender for the release and for the public key again"
            ) from None


def public_key(given: PublicKey | KeyFile) -> PublicKey:
    """Return a key, or the one in a file."""
    return given if isinstance(given, PublicKey) else PublicKey.read(given)


def _content(name: str, file: KeyFile) -> bytes:
    if not isinstance(file, str | os.PathLike):
        raise ParameterError(
            f"{name} must be a key or its path, got a {type(file).__name__}: name a PEM file."
        )
    try:
        with Path(file).open("rb") as opened:
            return opened.read(_MOST_KEY)
    except FileNotFoundError:
        raise ReleaseError(f"{name}: the key file {file} does not exist: check the path.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ParameterError(
            f"{name} must be a key file that can be read, got {file} ({reason}): check the path."
        ) from None


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingPackageError("signatures", "cryptography", "signing") from None
    return ed25519, serialization
