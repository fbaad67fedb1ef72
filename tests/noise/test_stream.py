"""ChaCha20 in vectors against its standard and another program; and that threads do not matter."""

from __future__ import annotations

import numpy as np
import pytest
from randomgen import ChaCha

from hushcov.kernel.noise import gumbel, gumbel_top, normal, rounded_normal
from hushcov.kernel.noise.entropy import GROUP, buffer_length, fill_groups, key_stream, random_words
from statistics_helpers import FALSE_ALARM, chi_square_p_value

KEY = np.arange(8, dtype=np.uint32) * 0x01020304 + 7


def source(seed=1):
    """A generator whose words are good for keys; with a seed, for tests."""
    return np.random.Generator(ChaCha(key=seed))


@pytest.fixture(params=[1, 2, 3])
def cores(request, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: request.param)
    return request.param


def test_the_stream_is_that_of_the_standard():
    """RFC 8439, appendix A.1, test vector 1: a key of zeros."""
    stream = key_stream(np.zeros(8, dtype=np.uint32), 8).tobytes().hex()
    assert stream == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )


@pytest.mark.parametrize("size", [1, GROUP - 1, GROUP, GROUP + 1, 70_000])
def test_the_stream_is_that_of_another_program(size, cores):
    key = sum(int(word) << 32 * place for place, word in enumerate(KEY))
    other = np.random.Generator(ChaCha(key=key, rounds=20))
    expected = other.integers(0, 2**64, size=size, dtype=np.uint64)
    buffer = np.empty(buffer_length(size), dtype=np.uint64)
    assert np.array_equal(key_stream(KEY, size), expected)
    assert np.array_equal(key_stream(KEY, size, buffer), expected)


def test_no_key_is_used_twice_and_other_generators_make_their_own_words():
    generator = source()
    first, second = (random_words(generator, 10_000) for _ in range(2))
    assert len(np.intersect1d(first, second)) == 0
    counts = np.bincount(first.view(np.uint8), minlength=256)
    assert chi_square_p_value(counts, np.full(256, 1 / 256)) > FALSE_ALARM
    own = np.random.default_rng(5).integers(0, 2**64, size=10_000, dtype=np.uint64)
    assert np.array_equal(random_words(np.random.default_rng(5), 10_000), own)


def literal_block(key, counter):
    """A block of ChaCha20 as the standard describes it; the counter has 64 bits."""
    words = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *map(int, key)]
    words += [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    x = list(words)
    for _ in range(10):
        for shift in (0, 1):
            for i in range(4):
                places = i, 4 + (i + shift) % 4, 8 + (i + 2 * shift) % 4, 12 + (i + 3 * shift) % 4
                a, b, c, d = places
                for p, q, r, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                    x[p] = (x[p] + x[q]) & 0xFFFFFFFF
                    mixed = x[r] ^ x[p]
                    x[r] = (mixed << bits | mixed >> 32 - bits) & 0xFFFFFFFF
    return np.array([(p + q) & 0xFFFFFFFF for p, q in zip(x, words, strict=True)], dtype=np.uint32)


@pytest.mark.parametrize("stream", [0, 1, 77])
def test_streams_of_a_key_are_blocks_by_their_counter(stream):
    out = np.empty(2 * 2 * GROUP, dtype=np.uint32)
    fill_groups(3, 5, stream, KEY, out)
    first = 3 * GROUP // 8
    blocks = [literal_block(KEY, (stream << 32) + first + i) for i in range(2 * GROUP // 8)]
    assert np.array_equal(out, np.concatenate(blocks))


def literal_draws(key, sigma, size):
    """The draws of streams, one at a time, in exact arithmetic."""
    drawn = np.empty(size, dtype=np.int64)
    for stream, start in enumerate(range(0, size, normal._STREAM)):
        group, pending = 0, list(range(start, min(size, start + normal._STREAM)))
        while pending:
            made = np.empty(buffer_length(3 * len(pending)), dtype=np.uint64)
            fill_groups(group, group + len(made) // GROUP, stream, key, made.view(np.uint32))
            group += len(made) // GROUP
            trials = made[: 3 * len(pending)].reshape(3, -1)
            left = []
            for place, trial in zip(pending, trials.T, strict=True):
                uniforms = [normal.LazyUniform(None, int(word) >> 1, 63) for word in trial]
                size_of = normal._exact_trial(sigma, *uniforms)
                drawn[place] = size_of * (1 - 2 * int(trial[0] & np.uint64(1)))
                left += [place] if size_of == normal._REJECTED else []
            pending = left
    return drawn


def test_normals_are_those_of_the_literal_algorithm(cores, monkeypatch):
    monkeypatch.setattr(normal, "_KEYED", normal._STREAM)
    size = normal._STREAM + 500
    key = source().integers(0, 2**32, size=8, dtype=np.uint32)
    assert np.array_equal(rounded_normal(source(), 1_000, size), literal_draws(key, 1_000, size))


def test_selections_do_not_depend_on_threads(cores, monkeypatch):
    scores = np.random.default_rng(0).poisson(30, 300_000).astype(np.int32)
    found = gumbel_top(source(), scores, 0.2, 500)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert np.array_equal(gumbel_top(source(), scores, 0.2, 500), found)
    # The literal algorithm: all keys, sorted.
    words = random_words(source(), len(scores))
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-64
    keys = 0.2 * scores - np.log(-np.log1p(-uniform))
    assert np.array_equal(np.sort(np.argsort(-keys)[:500]), found)
    for chunk in (50_000, 2**20):
        # Other chunks have other keys for their words, and another outcome; a generator of its own
        # words has the same one.
        seeded = [
            gumbel._select(np.random.default_rng(1), scores, 0.2, 500, chunk=size, widening=0.0)
            for size in (chunk, 10_000)
        ]
        assert np.array_equal(*seeded)
