"""Where random bits come from, and that predictable ones are called so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from randomgen import ChaCha

from hushcov._validation import shown
from hushcov.exceptions import ParameterError, SeededNoiseWarning
from hushcov.noise import entropy_source

# RFC 8439, appendix A.1: (key, block number, start of the keystream), nonce zero.
CHACHA20_VECTORS = [
    (bytes(32), 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),
    (bytes(32), 1, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"),
    (bytes(31) + b"\1", 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
    (b"\0\xff" + bytes(30), 2, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"),
]


def test_the_default_is_private_and_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entropy = entropy_source()
        assert entropy_source(None).private is True
    assert entropy.private is True
    assert isinstance(entropy.generator, np.random.Generator)


@pytest.mark.parametrize("renewed", [False, True])
def test_the_default_is_chacha20_under_a_full_fresh_key(renewed):
    """Also the key that a forked child gets."""
    sources = [entropy_source().generator.bit_generator for _ in range(8)]
    for source in sources:
        if renewed:
            source.renew()
    assert all(isinstance(source, ChaCha) for source in sources)
    states = [ChaCha.state.__get__(source) for source in sources]  # what the source itself hides
    assert {state["state"]["rounds"] for state in states} == {20}
    keys = np.stack([state["state"]["keysetup"] for state in states])
    # Every 32-bit word of the key differs between sources: none is constant or zero.
    # Two words are equal by chance with probability 28 * 8 / 2^32 = 5e-8.
    assert all(len(set(word)) == len(states) for word in keys.T)


def test_the_global_seed_has_no_influence():
    """Legacy code that seeds NumPy must not make a release predictable."""
    streams = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        streams.append(entropy_source().generator.random(4))
    assert not np.array_equal(*streams)


@pytest.mark.parametrize(("key", "block", "keystream"), CHACHA20_VECTORS)
def test_the_generator_is_the_cipher_of_rfc_8439(key, block, keystream):
    source = ChaCha(key=int.from_bytes(key, "little"), rounds=20)
    stream = source.random_raw(8 * (block + 1)).astype("<u8").tobytes()
    assert stream[64 * block :][:32].hex() == keystream


@pytest.mark.parametrize(
    "make",
    [
        lambda: 0,
        lambda: 12345678901234567890123,
        lambda: np.int64(3),
        lambda: np.random.RandomState(3),
        lambda: np.random.default_rng(3),
    ],
    ids=["zero", "large", "numpy integer", "RandomState", "Generator"],
)
def test_a_seed_is_reproducible_and_marked_as_not_private(make):
    draws = []
    for _ in range(2):
        with pytest.warns(SeededNoiseWarning, match="NOT private"):
            entropy = entropy_source(make())
        assert entropy.private is False
        draws.append(entropy.generator.random(5))
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize(
    "bad", [-1, 1.0, "7", True, False, np.True_, (1, 2), np.array([1]), object], ids=repr
)
def test_other_values_are_refused(bad):
    with pytest.raises(ParameterError, match="random_state must") as info:
        entropy_source(bad)
    assert shown(bad) in str(info.value)
