"""Signatures of releases: what they cover, and every way in which one does not fit."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from documents import described, forge, guarantee
from hushcov.exceptions import (
    DamagedReleaseError,
    MissingPackageError,
    ParameterError,
    ReleaseError,
    SignatureError,
)
from hushcov.release import PublicKey, Release, SigningKey
from hushcov.release.files import read_release
from hushcov.release.signature import PREFIX

SIGNED = ("integers.npy", "covariance.npy", "release.json", "release.sha256", "release.sig")


def private_pem(key, passphrase: bytes | None = None) -> bytes:
    lock = serialization.NoEncryption()
    if passphrase is not None:
        lock = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


def public_pem(key) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> dict[str, Path]:
    """Files of keys: private ones, and their public halves with `.pub`."""
    place = tmp_path_factory.mktemp("keys")
    ours = ed25519.Ed25519PrivateKey.generate()
    made = {
        "ours": ours,
        "other": ed25519.Ed25519PrivateKey.generate(),
        "rsa": rsa.generate_private_key(65537, 1024),
    }
    content = {"locked": private_pem(ours, b"a secret"), "text": b"not a key\n", "empty": b""}
    for name, key in made.items():
        content |= {name: private_pem(key), f"{name}.pub": public_pem(key)}
    for name, pem in content.items():
        (place / name).write_bytes(pem)
    return {name: place / name for name in content}


def release_of(value: int = 1) -> Release:
    return Release(
        mechanism="gaussian",
        integers=np.array([[9, value], [value, 4]]),
        unit=0.5,
        guarantee=guarantee(),
        parameters={},
    )


def attach(folder: Path) -> None:
    np.save(folder / "covariance.npy", np.eye(2))


@pytest.fixture
def folder(tmp_path, keys) -> Path:
    return release_of().write(tmp_path / "out", attach=attach, sign=keys["ours"])


def reseal(folder: Path) -> None:
    for name in described(folder)["files"]:
        forge(folder, name, (folder / name).read_bytes())


def not_trusted(folder: Path, key: Path, words: str) -> None:
    with pytest.raises(SignatureError) as caught:
        Release.read(folder, verify=key)
    assert f"{folder} cannot" in str(caught.value)
    assert words in str(caught.value)


def test_a_signed_release_is_read_with_its_key_and_without(folder, keys):
    assert {each.name for each in folder.iterdir()} == set(SIGNED)
    for key in (keys["ours.pub"], str(keys["ours.pub"]), PublicKey.read(keys["ours.pub"])):
        assert Release.read(folder, verify=key) == release_of()
    checked = read_release(folder, verify=keys["ours.pub"])
    assert (checked.signed, checked.verified, checked.unlisted) == (True, True, ())
    unchecked = read_release(folder)
    assert (unchecked.signed, unchecked.verified, unchecked.unlisted) == (True, False, ())
    assert "release.sig" not in unchecked.files


def test_what_is_signed_is_the_seal_after_a_line_of_its_own(folder, keys):
    """So that the signature can be checked by other programs, and fits nothing else."""
    key = serialization.load_pem_public_key(keys["ours.pub"].read_bytes())
    signature = (folder / "release.sig").read_bytes()
    key.verify(signature, PREFIX + (folder / "release.sha256").read_bytes())
    assert b"hushcov release" in PREFIX
    # A signature of the bare seal, which somebody might be asked for, is none of the release.
    ours = serialization.load_pem_private_key(keys["ours"].read_bytes(), None)
    (folder / "release.sig").write_bytes(ours.sign((folder / "release.sha256").read_bytes()))
    not_trusted(folder, keys["ours.pub"], "not made by this key for these files")


@pytest.mark.parametrize("name", SIGNED)
def test_no_file_can_be_changed(folder, keys, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    kind = SignatureError if name == "release.sig" else DamagedReleaseError
    with pytest.raises(kind):
        Release.read(folder, verify=keys["ours.pub"])


@pytest.mark.parametrize("name", ["integers.npy", "covariance.npy"])
def test_new_checksums_hide_a_change_and_the_signature_shows_it(folder, keys, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-8] + bytes([content[-8] ^ 1]) + content[-7:])
    reseal(folder)
    assert (Release.read(folder) == release_of()) is (name == "covariance.npy")
    not_trusted(folder, keys["ours.pub"], "not made by this key for these files")


def test_signatures_of_others_and_of_other_releases_do_not_fit(folder, keys, tmp_path):
    not_trusted(folder, keys["other.pub"], "not made by this key for these files")
    second = release_of(2).write(tmp_path / "second", attach=attach, sign=keys["ours"])
    shutil.copy(second / "release.sig", folder / "release.sig")
    not_trusted(folder, keys["ours.pub"], "not made by this key for these files")
    path = folder / "release.json"
    path.write_text(path.read_text().replace('"unit": 0.5', '"unit": 5.0', 1))
    reseal(folder)
    assert Release.read(folder).unit == 5.0
    not_trusted(folder, keys["ours.pub"], "not made by this key for these files")


@pytest.mark.parametrize("content", [None, b"", b"x" * 63, b"x" * 64, b"x" * 65])
def test_a_missing_or_damaged_signature_is_none(folder, keys, content):
    (folder / "release.sig").unlink()
    if content is None:
        not_trusted(folder, keys["ours.pub"], "it is not signed, release.sig is missing")
        assert read_release(folder).signed is False
        return
    (folder / "release.sig").write_bytes(content)
    not_trusted(folder, keys["ours.pub"], "signature")
    assert Release.read(folder) == release_of()  # the files themselves are undamaged


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rsa", "must be an Ed25519 key"),
        ("ours.pub", "must be the PEM file of a private key"),
        ("text", "must be the PEM file of a private key"),
        ("empty", "must be the PEM file of a private key"),
        ("locked", "is encrypted: pass its passphrase"),
        ("nowhere", "does not exist"),
        (7, "got a int"),
    ],
)
def test_keys_that_cannot_sign_are_refused_before_anything_is_written(tmp_path, keys, name, words):
    key = keys.get(name, tmp_path / name if isinstance(name, str) else name)
    with pytest.raises((ParameterError, ReleaseError)) as caught:
        release_of().write(tmp_path / "out", sign=key)
    assert words in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rsa.pub", "must be an Ed25519 key"),
        ("ours", "holds a private one"),
        ("locked", "holds a private one"),
        ("text", "must be the PEM file of a public key"),
        ("nowhere", "does not exist"),
    ],
)
def test_keys_that_cannot_verify_are_refused(tmp_path, keys, folder, name, words):
    with pytest.raises((ParameterError, ReleaseError)) as caught:
        Release.read(folder, verify=keys.get(name, tmp_path / name))
    assert words in str(caught.value)


def test_encrypted_keys_take_a_passphrase(tmp_path, keys):
    key = SigningKey.read(keys["locked"], passphrase="a secret")
    folder = release_of().write(tmp_path / "out", sign=key)
    assert Release.read(folder, verify=keys["ours.pub"]) == release_of()
    with pytest.raises(ParameterError, match="passphrase is wrong"):
        SigningKey.read(keys["locked"], passphrase="another")
    with pytest.raises(ParameterError, match="is not encrypted"):
        SigningKey.read(keys["ours"], passphrase="a secret")


def test_without_the_package_its_extra_is_named(tmp_path, keys, folder, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=r"hushcov\[signing\]"):
        release_of().write(tmp_path / "two", sign=keys["ours"])
    with pytest.raises(MissingPackageError, match=r"hushcov\[signing\]"):
        Release.read(folder, verify=keys["ours.pub"])
    assert Release.read(folder) == release_of()
