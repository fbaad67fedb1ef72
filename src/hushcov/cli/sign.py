"""`hushcov sign`: sign a release on disk with a private Ed25519 key."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from hushcov.cli.options import JSON, Command
from hushcov.cli.output import clean, console, echo_json, facts
from hushcov.exceptions import ParameterError
from hushcov.release import SigningKey
from hushcov.release.files import SIGNATURE, sign_release

PASSPHRASE = "HUSHCOV_SIGN_PASSPHRASE"


@click.command(cls=Command, name="sign")
@click.argument("folder", metavar="RELEASE", type=click.Path(path_type=Path))
@click.option(
    "--key",
    required=True,
    type=click.Path(path_type=Path),
    metavar="KEY.pem",
    help="Private Ed25519 key. The passphrase of an encrypted key is asked for, or taken from "
    f"{PASSPHRASE}.",
)
@JSON
def command(folder: Path, key: Path, as_json: bool) -> None:
    """Sign the release in a folder, so that others can check who made it.

    Every file must match its checksum, or the exit code is 1 and nothing is signed. The signature
    is a file in the folder, and covers all others. 'hushcov show --verify' checks it with the
    public key. An earlier signature is replaced. It needs the extra 'hushcov[signing]'.

    \b
    Examples:
      openssl genpkey -algorithm ed25519 -out key.pem
      openssl pkey -in key.pem -pubout -out key.pub
      hushcov sign patients-release --key key.pem
      hushcov show patients-release --verify key.pub
    """
    sign_release(folder, read_signing_key(key))
    if as_json:
        echo_json({"folder": str(folder), "signature": SIGNATURE})
        return
    facts(console(), [("signed", f"{clean(str(folder))}/: {SIGNATURE} covers all of its files")])


def read_signing_key(file: Path) -> SigningKey:
    """Read the private key in a file; ask for the passphrase of an encrypted one."""
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


def at_terminal() -> bool:
    """Return whether there is somebody to ask."""
    return sys.stdin.isatty()
