"""`sign` and `show --verify`: keys are checked first, and what is said of a signature."""

import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from hushcov.cli.sign import PASSPHRASE

BUDGET = ("--epsilon", 1, "--delta", 1e-6, "--row-sparsity", 1, "--mechanism", "gaussian")
FIT = ("fit", "x.npy", *BUDGET, "--feature-scale", 1, "-o", "out")
SIGN = ("sign", "out", "--key")
PEM = serialization.Encoding.PEM


@pytest.fixture
def keys(run):
    for name in ("key", "other"):
        key = ed25519.Ed25519PrivateKey.generate()
        for file, lock in (
            (f"{name}.pem", serialization.NoEncryption()),
            (f"{name}.locked", serialization.BestAvailableEncryption(b"a secret")),
        ):
            content = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, lock)
            Path(file).write_bytes(content)
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        Path(f"{name}.pub").write_bytes(key.public_key().public_bytes(PEM, form))
    np.save("x.npy", np.random.default_rng(0).standard_normal((2_000, 2)))
    assert run(*FIT).exit_code == 0


def said(result) -> str:
    return " ".join(result.stdout.split())


COMMANDS = {
    "show": ("show", "out"),
    "report": ("report", "out"),
    "export": ("export", "out", "--to", "npz"),
    "ask": ("ask", "partial", "out"),
}


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_every_command_that_reads_a_release_can_check_its_signature(run, refused, command):
    assert run(*SIGN, "key.pem").exit_code == 0
    result = run(*command, "--verify", "key.pub")
    assert result.exit_code == 0, result.output
    assert "out cannot be trusted" in refused(1, *command, "--verify", "other.pub")
    Path("out/release.sig").unlink()
    assert "not signed" in refused(1, *command, "--verify", "key.pub")


@pytest.mark.usefixtures("keys")
def test_signed_and_checked(run, refused):
    result = run(*SIGN, "key.pem")
    assert result.exit_code == 0, result.output
    assert "release.sig" in said(result)
    text = said(run("show", "out"))
    assert "not checked" in text
    assert "not part of it" not in text
    text = said(run("show", "out", "--verify", "key.pub"))
    assert "signature valid" in text
    found = json.loads(run("show", "out", "--verify", "key.pub", "--json").stdout)
    assert (found["undamaged"], found["signature"]) == (True, "valid")
    assert json.loads(run("show", "out", "--json").stdout)["signature"] == "not checked"
    words = refused(1, "show", "out", "--verify", "other.pub")
    assert "out cannot be trusted" in words
    Path("out/release.sig").unlink()
    assert "not signed" in refused(1, "show", "out", "--verify", "key.pub")
    refused(2, "show", "out", "--verify", "key.pem")
    refused(6, "show", "out", "--verify", "nowhere")


@pytest.mark.usefixtures("keys")
def test_keys_that_cannot_sign_and_damaged_releases_are_refused(run, refused, monkeypatch):
    monkeypatch.delenv(PASSPHRASE, raising=False)
    for key, words in (
        ("key.pub", "must be the PEM file of a private key"),
        ("nowhere", "does not exist"),
        ("key.locked", PASSPHRASE),
    ):
        assert words in refused(6 if key == "nowhere" else 2, *SIGN, key)
    monkeypatch.setenv(PASSPHRASE, "wrong")
    assert "passphrase is wrong" in refused(2, *SIGN, "key.locked")
    monkeypatch.setenv(PASSPHRASE, "a secret")
    assert run(*SIGN, "key.locked").exit_code == 0
    assert run(*SIGN, "other.pem").exit_code == 0  # in place of the one before
    assert run("show", "out", "--verify", "other.pub").exit_code == 0
    with Path("out/integers.npy").open("ab") as file:
        file.write(b"0")
    assert "Restore it from a copy" in refused(1, *SIGN, "key.pem")


@pytest.mark.usefixtures("keys")
def test_a_terminal_is_asked_for_the_passphrase(run, monkeypatch):
    monkeypatch.delenv(PASSPHRASE, raising=False)
    monkeypatch.setattr("hushcov.cli.sign.at_terminal", lambda: True)
    asked = []
    monkeypatch.setattr(
        "hushcov.cli.sign.click.prompt", lambda *a, **k: asked.append((a, k)) or "a secret"
    )
    assert run(*SIGN, "key.locked").exit_code == 0
    assert asked[0][1]["hide_input"]
    assert run("show", "out", "--verify", "key.pub").exit_code == 0
