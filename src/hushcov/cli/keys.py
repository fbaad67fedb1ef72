"""Keys for signatures, from files and with their passphrases."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from hushcov.exceptions import ParameterError
from hushcov.release import SigningKey

PASSPHRASE = "HUSHCOV_SIGN_PASSPHRASE"


def at_terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty()


def read_signing_key(file: Path | None) -> SigningKey | None:
    """The private key in a file, if one is named; an encrypted one asks for its passphrase."""
    if file is None:
        return None
    passphrase = None
    if SigningKey.is_encrypted(file):
        passphrase = os.environ.get(PASSPHRASE)
        if passphrase is None and not at_terminal():
            raise ParameterError(
                f"the key in {file} is encrypted, and there is no terminal to ask for its "
                f"passphrase: set the environment variable {PASSPHRASE}."
            )
        if passphrase is None:
            passphrase = click.prompt(f"Passphrase of {file}", hide_input=True, err=True)
    return SigningKey.read(file, passphrase)
