"""Every kernel of noise beside a literal implementation, at ties, margins and ends."""

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from randomgen import ChaCha

from hushcov.exceptions import ParameterError
from hushcov.kernel.noise import discrete_laplace, gumbel, normal
from hushcov.kernel.noise.entropy import key_stream

BITS = 2**63
PRECISE = Context(prec=60)


def survival(k, offset):
    """Return exp(-x (2k + x) / 2) at x = offset / 2^63, and a coin's place there."""
    x = PRECISE.divide(Decimal(offset), Decimal(BITS))
    return PRECISE.exp(PRECISE.divide(PRECISE.multiply(-x, 2 * k + x), Decimal(2)))


def literal_trial(level, offset, coin, sigma, widening):
    """What `_trial` returns, in exact arithmetic; None beside a rounding error of its own."""
    levels = normal.LEVELS.tolist()
    k = sum(level > each for each in levels[:-1])
    excess = Fraction(coin, BITS) - Fraction(survival(k, offset))
    margin = Fraction(normal.COIN_MARGIN) + Fraction(widening, BITS)
    if abs(abs(excess) - margin) < 2.0**-46:
        return None
    if abs(excess) <= margin or any(abs(level - each) <= widening for each in levels):
        return normal._UNDECIDED
    if excess > 0:
        return normal._REJECTED
    place, beyond = divmod(sigma * (k * BITS + offset) + BITS // 2, BITS)
    beyond -= BITS if beyond > BITS // 2 else 0  # from the nearest tie, of either side
    return normal._UNDECIDED if -sigma - widening < beyond < widening else place


@pytest.mark.parametrize("sigma", [1, 2, 7, 2**20 + 1, 2**40])
@pytest.mark.parametrize("widening", [0, 5, 2**50])
def test_quick_draws_are_the_exact_ones_and_what_is_near_a_tie_is_left_open(sigma, widening):
    random = np.random.default_rng(3)
    levels, trials = normal.LEVELS.tolist(), []
    steps = (0, 1, widening, widening + 1)
    near = {each + sign * step for each in levels for step in steps for sign in (1, -1)}
    near = sorted(each for each in near if 0 <= each < BITS)
    for level in [*near, *random.integers(0, BITS, 40).tolist()]:
        tie = (int(random.integers(0, sigma)) * BITS + BITS // 2) // sigma
        step = int(random.choice([0, 1, 2, -1, -2, widening // sigma, -widening // sigma - 1]))
        k = sum(level > each for each in levels[:-1])
        for offset in (min(max(0, tie + step), BITS - 1), int(random.integers(0, BITS))):
            coin = int(survival(k, offset) * BITS)
            margin = int(random.choice([0, 2**15, 2**17, -(2**17), 2**19, -(2**19), 2**60]))
            for own in (coin + margin, coin // 2, 0, BITS - 1):
                trials.append((level, offset, min(max(0, own), BITS - 1)))
    uniforms = np.array(trials, dtype=np.int64).T
    found = normal._trial(*uniforms, sigma, widening).tolist()
    # In compiled code, which draws of many numbers take, the same lines say the same.
    assert found == [normal._quick_trial(*each, sigma, widening) for each in trials]
    expected = [literal_trial(*trial, sigma, widening) for trial in trials]
    assert all(b in (None, a) for a, b in zip(found, expected, strict=True))
    assert expected.count(None) < len(trials) / 4


def test_what_was_kept_is_put_in_its_place_with_the_sign_of_a_bit_of_its_own(monkeypatch):
    monkeypatch.setattr(normal, "_trial", lambda level, *_: level - 1)  # -1 is a rejection
    first = np.array([[2, 7, 0, 5], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=np.uint64)
    second = np.array([[1, 12], [0, 0], [0, 0]], dtype=np.uint64)
    third = np.array([[4], [0], [0]], dtype=np.uint64)
    drawn = np.zeros(4, dtype=np.int64)
    normal._fill(Scripted(first, second[:, :1], third), 3, drawn, 0)
    assert drawn.tolist() == [0, -2, 1, -1]


def test_margins_of_normal_noise_are_those_of_its_proof(monkeypatch):
    assert 2.0**-46 <= normal.COIN_MARGIN <= 2.0**-44
    assert Fraction(1, 10**14) < normal._SLACK < Fraction(1, 10**10)
    assert (normal._REJECTED, normal._UNDECIDED) == (-1, -2)  # no magnitudes
    assert [normal._context(63 + 64 * k).prec for k in range(4)] == [46, 67, 88, 110]
    monkeypatch.setattr(normal, "_draw", lambda *_, widening: widening)
    assert normal.rounded_normal(None, 3, 5) == 0


class Scripted:
    """A generator of given words."""

    def __init__(self, *words):
        self.words = list(words)

    def integers(self, *_, **__):
        return self.words.pop(0)


@pytest.mark.parametrize("later", [False, True])
def test_what_the_bits_do_not_tell_takes_more_bits(later, monkeypatch):
    """What is nearer to an end than a decimal may be wrong by, too."""
    slack, far = normal._SLACK, 2**200
    for highest, lowest, told in (
        (60, 51 + slack, True),
        (60, 51 + slack / 2, None),
        (60, 40, None),
        (50 - slack / 2, 40, None),
        (50 - slack, 40, False),
    ):
        ends = {(9, 63): Fraction(highest), (10, 63): Fraction(lowest)}
        ends |= {(9 * 2**64 + more, 127): Fraction(far * later) for more in (0, 1)}
        monkeypatch.setattr(normal, "_scaled_survival", lambda k, *known, ends=ends: ends[known])
        offset, coin = (normal.LazyUniform(Scripted(0), each, 63) for each in (9, 50))
        assert normal._is_kept(2, offset, coin) == (later if told is None else told)
        assert offset.length == coin.length == (127 if told is None else 63)
    ends = {63: (50, 52), 127: (far * later, far * later)}
    monkeypatch.setattr(normal, "_cumulative", lambda k, length: ends[length])
    for leading, told in ((49, False), (50, None), (51, None), (52, True)):
        level = normal.LazyUniform(Scripted(0), leading, 63)
        assert normal._reaches(level, 3) == (not later if told is None else told)
        assert level.length == (127 if told is None else 63)


@pytest.mark.parametrize("widening", [0.0, 0.25])
def test_bounds_of_keys_hold_what_is_exact_and_the_rough_ones_hold_them(widening):
    random = np.random.default_rng(2)
    near = [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 2**40, 2**62, 2**63 - 1]
    words = [*near, *(~each for each in near), *random.integers(-(2**63), 2**63, 40).tolist()]
    words = np.array(words, dtype=np.int64)
    for rate, reference in ((1.0, 0), (1e-3, 2**53), (1e60, 5)):
        scores = np.resize([0, 5, 2**53, 7], len(words)).astype(np.int64)
        items = gumbel._Items(np.arange(len(words)), words, scores)
        ruler = gumbel._Ruler(rate, reference, widening)
        (low, high), (least, most) = ruler.bounds(items), ruler.rough_bounds(words, scores)
        assert (least <= low).all()
        assert (high <= most).all()
        for i, word in enumerate(words.tolist()):
            uniform = gumbel.LazyUniform(None, word % 2**64, 64)
            first, last = gumbel._exact_bounds(uniform, rate, int(scores[i]) - reference)
            assert Decimal(low[i]) <= first < last <= Decimal(high[i])
            product, cells = rate * float(scores[i] - reference), word ^ (word >> 63)
            error = 2.0**-41 + 2.0**-50 * abs(product) + 2 / cells + widening if cells else math.inf
            rounded = math.ulp(high[i])
            assert (high[i] - low[i]) / 2 == pytest.approx(error, rel=1e-2, abs=rounded)
            for threshold in (least[i], math.nextafter(least[i], -math.inf), 1e300):
                one = (words[i : i + 1], scores[i : i + 1], rate, reference, widening, threshold)
                assert gumbel._may_be_below(*one, np.empty(3)) == (least[i] <= threshold)
        taken = ruler.rough_bounds(words, np.full(len(words), gumbel.TAKEN))
        assert np.isposinf(taken).all()


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 2049, 5000, 64 * 257])
@pytest.mark.parametrize("threshold", [-9.0, -2.0, 0.5, 40.0])
def test_items_below_a_threshold_are_those_of_their_bounds(n, threshold):
    key, scores = np.arange(8, dtype=np.uint32), np.arange(n, dtype=np.int32) % 5 - 1
    ruler, words = gumbel._Ruler(0.7, 3, 0.0), key_stream(key, n).view(np.int64)
    low, high = ruler.rough_bounds(words, scores)
    found, certain = gumbel._find_below(words, scores, 0.7, 3, 0.0, threshold)
    assert found.tolist() == np.flatnonzero(low <= threshold).tolist()
    assert certain == (high <= threshold).sum()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_candidates_are_counted_and_other_numbers_refused(kind, monkeypatch):
    monkeypatch.setattr(gumbel, "_CHUNK", 2)
    for own in ([], [3], [-1], [-1, -1, 4], [5, 9, 9, 1]):
        assert gumbel._check_scores(np.array(own, dtype=kind)) == sum(each != -1 for each in own)
    for own in ([0, -7, 2], [-2, -2], [1, 2, -2]):
        with pytest.raises(ParameterError, match="from 0 to"):
            gumbel._check_scores(np.array(own, dtype=kind))


@pytest.mark.parametrize("count", range(7))
def test_intervals_are_sorted_out_where_no_key_could_change_it(count):
    for seed in range(5):
        low = np.random.default_rng(seed).uniform(0, 10, 6)
        high = low + np.random.default_rng(seed + 9).uniform(0, 4, 6)
        inside, outside = gumbel._sorted_out(low, high, count)
        for i in range(6):
            surely_less = sum(high[j] < low[i] for j in range(6))
            maybe_less = sum(low[j] < high[i] for j in range(6) if j != i)
            assert inside[i] == (maybe_less < count)
            assert outside[i] == (surely_less >= count)


def test_rough_bounds_leave_room_for_what_the_others_add():
    assert gumbel._NO_CELLS == 2.0**20
    assert 2 / gumbel._NO_CELLS + gumbel._LIBRARY_ERROR < gumbel._ROUGH_ERROR <= 2.0**-18


class Watched(np.random.Generator):
    """A generator of which it is known what it is asked for."""

    def integers(self, low, high, **given):
        assert (low, high) in ((0, 2**64), (0, 2**32))
        return super().integers(low, high, **given)


@pytest.mark.parametrize("source", [ChaCha, np.random.PCG64])
def test_all_bits_are_asked_for(source, monkeypatch):
    """One value of 2^64 that never comes would be seen by no test of a law."""
    generator = Watched(source(7))
    monkeypatch.setattr(normal, "_KEYED", 100)
    for size in (3, 100):
        normal._draw(generator, 5, size, widening=2**58)
    discrete_laplace(generator, 2**70, 3)
    scores = np.arange(3 * 2**12, dtype=np.int32) % 9
    gumbel._select(generator, scores, 0.1, 9, chunk=2**12, widening=0.01)
    gumbel._select(generator, scores[:50], 0.1, 9, chunk=2**12, widening=5.0)
