"""`gumbel_top` against the peeled exponential mechanism, and every comparison against mpmath."""

from __future__ import annotations

import decimal
import functools
import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from hushcov.exceptions import ParameterError
from hushcov.kernel.noise import TAKEN, entropy_source, gumbel_top
from hushcov.kernel.noise import gumbel as module
from hushcov.kernel.noise.entropy import LazyUniform
from statistics_helpers import FALSE_ALARM, chi_square_p_value

RUNS = 7_000
TOP = 2**53
DIGITS = 450  # of mpmath: products of 1e76, and bounds to 1e-256

# scores, rate, count. In the far settings the same differences matter as in the first.
SPREAD = np.array([0, 1, 2, 4, 6])
FAST = ("two groups", "the largest scores", "thousands apart")
SETTINGS = {
    "spread": (SPREAD, 0.7, 2),
    "two groups": (np.array([3, 3, 3, 0, 0, 0]), 0.9, 3),
    "one winner": (np.array([0] * 20 + [10]), 0.3, 1),
    "all but one": (np.array([0] + [4] * 6), 0.5, 6),
    "tiny rate": (10**12 * SPREAD, 0.7e-12, 2),
    "products of 1e6": (10**9 + 1_000 * SPREAD, 0.7e-3, 2),
    "the largest scores": (TOP - 6 + SPREAD, 0.7, 2),
    "thousands apart": (np.array([*(10**6 + SPREAD), 0, 10**6 + 5_000, 4 * 10**6]), 0.7, 4),
}


def peeled(scores, rate, count):
    """The probability of each set: `count` picks in every order, none of them rounded away."""
    weights = rate * (scores - min(scores))
    items = range(len(scores))
    law = dict.fromkeys(itertools.combinations(items, count), 0.0)
    for order in itertools.permutations(items, count):
        left, logarithm = list(items), 0.0
        for pick in order:
            logarithm += weights[pick] - np.logaddexp.reduce(weights[left])
            left.remove(pick)
        law[tuple(sorted(order))] += math.exp(logarithm)
    return law


def p_value(sets, law):
    """Sets of probability zero must not occur; the others are compared by chi-square."""
    counts = dict.fromkeys(law, 0)
    for chosen in sets:
        counts[tuple(chosen)] += 1
    possible = sorted((chosen for chosen in law if law[chosen] > 0), key=law.get)
    if sum(counts[chosen] for chosen in possible) < len(sets):
        return 0.0
    return chi_square_p_value([counts[c] for c in possible], [law[c] for c in possible])


def imitation(noise, scores, rate, count):
    keys = rate * (scores - min(scores)) + noise((RUNS, len(scores)))
    return np.sort(np.argsort(-keys, axis=1)[:, :count], axis=1).tolist()


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in SETTINGS],
)
def test_has_the_law_of_the_peeled_exponential_mechanism(name):
    """False-alarm rate 1e-6; a rate wrong by a tenth and Laplace noise are noticed."""
    scores, rate, count = SETTINGS[name]
    law = peeled(scores, rate, count)
    assert math.isclose(sum(law.values()), 1.0, rel_tol=1e-9)
    generator = np.random.default_rng(1)
    drawn = [gumbel_top(generator, scores, rate, count).tolist() for _ in range(RUNS)]
    assert p_value(drawn, law) > FALSE_ALARM
    gumbel = functools.partial(generator.gumbel, 0.0, 1.0)
    laplace = functools.partial(generator.laplace, 0.0, 1.0)
    assert p_value(imitation(gumbel, scores, rate, count), law) > FALSE_ALARM
    assert p_value(imitation(gumbel, scores, 1.1 * rate, count), law) < FALSE_ALARM
    assert p_value(imitation(laplace, scores, rate, count), law) < FALSE_ALARM


@pytest.mark.parametrize("base", [10**6, TOP - 10])
def test_one_among_many_wins_half_the_time(base):
    """A score of log(20000) noise scales more, far out in the tails. False-alarm rate 1e-6."""
    scores = np.full(20_001, base)
    scores[7_000] += 4
    rate, runs = math.log(20_000) / 4, 500

    def wins_p_value(rate):
        generator = np.random.default_rng(4)
        wins = sum(int(gumbel_top(generator, scores, rate, 1)[0]) == 7_000 for _ in range(runs))
        return chi_square_p_value([wins, runs - wins], [0.5, 0.5])

    assert wins_p_value(rate) > FALSE_ALARM
    assert wins_p_value(1.1 * rate) < FALSE_ALARM


@pytest.mark.parametrize(("base", "rate"), [(0, 1.0), (10**9, 1e-3)])
def test_two_large_groups_share_as_wallenius_says(base, rate):
    """Picks without replacement with odds exp(2), in products of 1e6. False-alarm rate 1e-6."""
    few, many, count, runs = 400, 4_000, 300, 800
    scores = np.full(few + many, base)
    scores[:few] += round(2 / rate)

    def share_p_value(rate_used):
        generator = np.random.default_rng(5)
        shares = [
            int((gumbel_top(generator, scores, rate_used, count) < few).sum()) for _ in range(runs)
        ]
        law = stats.nchypergeom_wallenius(few + many, few, count, math.exp(2))
        masses = law.pmf(np.arange(count + 1))
        return chi_square_p_value(np.bincount(shares, minlength=count + 1), masses)

    assert share_p_value(rate) > FALSE_ALARM
    assert share_p_value(1.1 * rate) < FALSE_ALARM


def exact_key(leading, length, score, rate):
    """log E - rate * score at U = leading / 2^length."""
    with mpmath.workdps(DIGITS):
        waiting = -mpmath.log1p(-mpmath.mpf(leading) / 2**length)
        return mpmath.log(waiting) - mpmath.mpf(rate) * int(score)


def exact_top(words, scores, rate, count):
    """The selection from the first 64 bits, which are taken for the middles of their cells."""
    keys = [
        exact_key(2 * int(word) + 1, 65, score, rate)
        for word, score in zip(words, scores, strict=True)
    ]
    return sorted(sorted(range(len(keys)), key=keys.__getitem__)[:count])


# Scores by their range, and the rate: products from nothing to 1e60.
REGIMES = [
    *((0, 5, 0.8), (0, 10**6, 1.0), (0, 10**6, 3e-4), (10**9, 10**9 + 3_000, 1e-3)),
    *((TOP - 5, TOP, 0.9), (TOP - 3, TOP, 1e44), (0, TOP, 1e-14), (0, TOP, 123.456)),
    (0, 10, 1e-310),
]


def draw_scores(low, high, size, seed):
    """Integers of the range, crowded towards some of its points so that there are ties."""
    generator = np.random.default_rng(seed)
    places = generator.integers(low, high, size=6, endpoint=True)
    spread = generator.integers(low, high, size=size, endpoint=True)
    return np.where(generator.random(size) < 0.7, generator.choice(places, size=size), spread)


@pytest.mark.parametrize(("low", "high", "rate"), REGIMES)
def test_every_selection_is_the_exact_one(low, high, rate, monkeypatch):
    """Against mpmath from the same bits; then with most comparisons left to the exact path."""
    scores = draw_scores(low, high, 60, seed=6)
    exact_bounds, calls = module._exact_bounds, []

    def counted(*arguments):
        calls.append(arguments)
        return exact_bounds(*arguments)

    monkeypatch.setattr(module, "_exact_bounds", counted)
    for seed, count in enumerate([1, 9, 59]):
        words = np.random.default_rng(seed).integers(0, 2**64, size=60, dtype=np.uint64)
        expected = exact_top(words, scores, rate, count)
        assert gumbel_top(np.random.default_rng(seed), scores, rate, count).tolist() == expected
        assert calls == []
        for widening in (0.1, 3.0, math.inf):
            forced = module._select(
                np.random.default_rng(seed), scores, rate, count, chunk=25, widening=widening
            )
            assert forced.tolist() == expected
        assert len(calls) >= 60
        calls.clear()


@pytest.mark.parametrize("chunk", [1, 7, 64, 999, 1_000, 2_000])
@pytest.mark.parametrize("count", [1, 40, 700])
def test_chunks_do_not_matter(chunk, count):
    scores = draw_scores(0, 10**6, 2_000, seed=7)
    whole = gumbel_top(np.random.default_rng(8), scores, 1e-3, count)
    for widening in (0.0, 0.05):
        parts = module._select(
            np.random.default_rng(8), scores, 1e-3, count, chunk=chunk, widening=widening
        )
        np.testing.assert_array_equal(parts, whole)


EDGE_WORDS = [0, 1, 2, 3, 1_000, 2**40, 2**62, 2**63 - 1]
EDGE_WORDS += [2**64 - 1 - word for word in EDGE_WORDS]


def test_the_quick_bounds_hold_the_whole_cell():
    """For words at both ends and anywhere, and products of all magnitudes."""
    generator = np.random.default_rng(10)
    inner = generator.integers(0, 2**64, size=100, dtype=np.uint64)
    words = np.concatenate([np.array(EDGE_WORDS, dtype=np.uint64), inner])
    for reference, rate in [(0, 0.3), (TOP, 0.3), (10**6, 1.0), (5, 1e-9), (77, 1e60)]:
        scores = generator.integers(0, 2 ** generator.integers(1, 54, size=len(words)))
        items = module._Items(np.arange(len(words)), words.view(np.int64), scores)
        low, high = module._Ruler(rate, reference, 0.0).bounds(items)
        for item, word in enumerate(map(int, words)):
            shift = int(scores[item]) - reference
            if word > 0:
                assert low[item] <= exact_key(word, 64, shift, rate)
            if word < 2**64 - 1:
                assert exact_key(word + 1, 64, shift, rate) <= high[item]
            near = min(word, 2**64 - 1 - word)
            if near > 0:
                allowed = 2**-40 + 2**-49 * rate * abs(shift) + 4 / near
                assert high[item] - low[item] <= 1.5 * allowed
            else:
                assert (low[item], high[item]) == (-math.inf, math.inf)


def rough_words():
    """Both ends, the halves, powers of two and their neighbours, and anywhere."""
    near = [*range(4), *(2**k + step for k in range(2, 63) for step in (-1, 0, 1)), 2**63 - 1]
    ends = np.array([*near, *(2**64 - 1 - word for word in near)], dtype=np.uint64)
    inner = np.random.default_rng(14).integers(0, 2**64, size=5_000, dtype=np.uint64)
    return np.concatenate([ends, inner]).view(np.int64)


def test_the_rough_bounds_hold_the_quick_ones(monkeypatch):
    """With a smaller chord or slope they do not: no constant has room to be wrong by a tenth."""
    words = rough_words()

    def held():
        generator = np.random.default_rng(15)
        answers = []
        for reference, rate, widening in [(0, 0.3, 0.0), (TOP, 1e-9, 0.1), (77, 1e60, 0.0)]:
            scores = generator.integers(0, 2 ** generator.integers(1, 54, size=len(words)))
            scores[::50] = reference
            items = module._Items(np.arange(len(words)), words, scores)
            ruler = module._Ruler(rate, reference, widening)
            low, high = ruler.bounds(items)
            rough_low, rough_high = ruler.rough_bounds(words, scores)
            answers.append(bool(np.all((rough_low <= low) & (high <= rough_high))))
        return answers

    assert held() == [True, True, True]
    rough = module._bound_roughly
    for name, wrong in [
        ("_CHORD", 0.9 * module._CHORD),
        ("_SLOPES", (1.1 * module._SLOPES[0], module._SLOPES[1])),
        ("_SLOPES", (module._SLOPES[0], 0.9 * module._SLOPES[1])),
        ("_UPPER_HALF", (0.9 * module._UPPER_HALF[0], module._UPPER_HALF[1])),
        ("_UPPER_HALF", (module._UPPER_HALF[0], 0.9 * module._UPPER_HALF[1])),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, wrong)
            patch.setattr(module, "_bound_roughly", rough.__wrapped__)  # not the compiled one
            assert not all(held()), name


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_what_is_left_out_early_would_not_have_been_selected(kind, monkeypatch):
    """The same items with and without rough bounds, which leave out most; some are taken."""
    generator = np.random.default_rng(16)
    scores = np.abs(300 * generator.standard_normal(60_000)).astype(kind)
    scores[::400] += 9_000
    scores[::7] = TAKEN
    for rate, count in [(1e-4, 1), (1e-3, 50), (1e-3, 3_000), (5e-3, 200), (1.0, 150)]:
        looked_at = []
        joined = module._Items.joined

        def watched(parts, joined=joined, looked_at=looked_at):
            looked_at.append(sum(map(len, parts)))
            return joined(parts)

        with monkeypatch.context() as patch:
            patch.setattr(module._Items, "joined", watched)
            quick = gumbel_top(np.random.default_rng(17), scores, rate, count)
        assert max(looked_at) < 10 * count + 5_000
        with monkeypatch.context() as patch:
            patch.setattr(module, "_guess_cut", lambda *_: math.inf)
            slow = gumbel_top(np.random.default_rng(17), scores, rate, count)
        np.testing.assert_array_equal(quick, slow)


def test_a_cut_that_was_guessed_too_low_is_not_used(monkeypatch):
    """So many keys are surely below it, or it is as if there were none."""
    generator = np.random.default_rng(18)
    scores = generator.integers(0, 50, size=50_000)
    words = generator.integers(-(2**63), 2**63, size=len(scores))
    ruler = module._Ruler(0.3, 0, 0.0)
    for count in (1, 40, 3_000):
        cut = module._guess_cut(words, scores, ruler, count)
        certain = (ruler.rough_bounds(words, scores)[1] <= cut).sum()
        assert count <= certain == ruler.find_below(words, scores, cut)[1]
        assert cut < math.inf
        expected = gumbel_top(np.random.default_rng(19), scores, 0.3, count)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_guess_cut", lambda *_, low=cut - 30.0: low)
            found = gumbel_top(np.random.default_rng(19), scores, 0.3, count)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("length", [1, 2, 64, 128])
@pytest.mark.parametrize("rate", [0.3, 1e-300, 1e60])
def test_the_exact_bounds_hold_the_cell_and_little_more(length, rate):
    generator = np.random.default_rng(11)
    inner = [int.from_bytes(generator.bytes(length // 8), "little") for _ in range(5)]
    for leading in {0, 1, 2**length - 2, 2**length - 1, *inner}:
        score = int(generator.integers(-TOP, TOP))
        low, high = module._exact_bounds(LazyUniform(None, leading, length), rate, score)
        with mpmath.workdps(DIGITS):
            if leading == 0:
                assert low == -math.inf
            else:
                gap = exact_key(leading, length, score, rate) - mpmath.mpf(str(low))
                assert 0 <= gap <= mpmath.mpf(10) ** (1 - 2 * length)
            if leading == 2**length - 1:
                assert high == math.inf
            else:
                gap = mpmath.mpf(str(high)) - exact_key(leading + 1, length, score, rate)
                assert 0 <= gap <= mpmath.mpf(10) ** (1 - 2 * length)


class Script:
    """A generator that gives the listed words, and then those of a seed; it keeps a record."""

    def __init__(self, words, seed=None):
        self.words = list(words)
        self.later = [] if seed is None else np.random.default_rng(seed)
        self.given = []

    def integers(self, low, high, *, dtype, size=None):
        assert (low, high, dtype) == (0, 2**64, np.uint64)
        wanted = 1 if size is None else size
        while len(self.words) < wanted:
            self.words.append(int(self.later.integers(0, 2**64, dtype=np.uint64)))
        taken, self.words = self.words[:wanted], self.words[wanted:]
        self.given += taken
        return np.array(taken, dtype=np.uint64) if size else np.uint64(taken[0])


def test_ties_are_broken_by_the_next_bits_of_each_item():
    """Five equal items in the same cell: the smallest continuations win."""
    for word in EDGE_WORDS:
        script = Script([word] * 5 + [50, 30, 90, 10, 70])
        assert gumbel_top(script, np.full(5, 123), 2.5, 2).tolist() == [1, 3]
        assert script.words == []


@pytest.mark.parametrize(("base", "rate"), [(0, 0.5), (10**9, 1e-3), (TOP - 20, 0.7)])
def test_the_first_and_last_cells_are_followed_as_far_as_needed(base, rate):
    """Uniforms that start with 64 zeros or ones, against mpmath at the bits finally drawn."""
    steps = round(1 / rate) * np.array([0, 1, 2, 0, 3, 1, 2, 5])
    for seed in range(25):
        word = [0, 2**64 - 1][seed % 2]
        script = Script([word] * 8, seed)
        chosen = gumbel_top(script, base + steps, rate, 3).tolist()
        continuations = script.given[8:]
        assert len(continuations) >= 8  # a rare ninth belongs to an item still undecided
        keys = [
            exact_key(((word << 64 | more) << 1) + 1, 129, score, rate)
            for more, score in zip(continuations[:8], steps, strict=True)
        ]
        assert chosen == sorted(np.argsort(np.array(keys, dtype=object))[:3].tolist())


def test_extreme_words_compete_with_ordinary_ones():
    """An exponential of 2^-64 makes up for 44 noise scales, and not for 46."""
    words = [2**63, 2**63 + 1, 1, 0, 2**64 - 1]
    for gap, chosen in [(40, [2, 3]), (46, [0, 3]), (4_000, [0, 1])]:
        scores = 10**6 + gap * np.array([1, 1, 0, 0, 1])
        # The bits that follow leave item 3 below 2^-70, which makes up for 48.
        script = Script([*words, *[2**57] * 5])
        assert gumbel_top(script, scores, 1.0, 2).tolist() == chosen


def test_the_decimal_context_of_the_caller_has_no_influence():
    scores = draw_scores(0, 10**6, 60, seed=12)
    with decimal.localcontext() as context:
        context.prec, context.rounding, context.Emin = 2, decimal.ROUND_UP, -3
        drawn = module._select(
            np.random.default_rng(13), scores, 1e-3, 9, chunk=20, widening=math.inf
        )
    np.testing.assert_array_equal(drawn, gumbel_top(np.random.default_rng(13), scores, 1e-3, 9))


@pytest.mark.parametrize("size", [0, 1, 6])
def test_nothing_is_drawn_where_nothing_is_random(size):
    scores = np.arange(size)
    for count in (0, size):
        chosen = gumbel_top(None, scores, 1.0, count)
        assert chosen.tolist() == list(range(count))
        assert chosen.dtype == np.int64


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("count", [-1, 4, 1.0, None, True]),
        ("rate", [0.0, -1.0, math.inf, math.nan, 1e101, None, "1"]),
        ("scores", [[1, 2, 987_654], np.array([1.0, 2.0, 987_654.0]), None]),
        ("scores", [np.array([1, 2, 987], dtype=np.int16), np.array([[1, 2, 987_654]])]),
        ("scores", [np.array([1, 2, -987_654]), np.array([1, 987_654, TOP + 1])]),
    ],
)
def test_other_arguments_are_refused_and_scores_are_not_shown(name, values):
    for value in values:
        given = {"scores": np.arange(3), "rate": 1.0, "count": 1} | {name: value}
        with pytest.raises(ParameterError, match=name) as info:
            gumbel_top(None, **given)
        assert "987" not in str(info.value)


@pytest.mark.parametrize("count", [1, 7, 40, 60])
def test_four_bytes_or_eight_and_items_that_are_taken(count):
    """The same choice for either size of integers, and never an item that is no candidate."""
    scores = np.random.default_rng(0).integers(0, 50, 100)
    scores[::5] = scores[3::5] = TAKEN
    chosen = [
        gumbel_top(np.random.default_rng(1), scores.astype(dtype), 0.1, count)
        for dtype in (np.int32, np.int64)
    ]
    assert chosen[0].tolist() == chosen[1].tolist()
    assert len(chosen[0]) == count
    assert (scores[chosen[0]] != TAKEN).all()
    with pytest.raises(ParameterError, match="count"):
        gumbel_top(None, scores, 0.1, 61)


def test_a_private_source_selects_as_the_law_says_over_several_chunks(monkeypatch):
    """A tenth of the items has nearly all the weight; the cut is known after the first chunk."""
    monkeypatch.setattr(module, "_CHUNK", 2**12)
    monkeypatch.setattr(module, "_A_THREAD", 1)
    scores = np.where(np.arange(2**16 + 3) % 10 == 0, 60, 0)
    best = gumbel_top(entropy_source().generator, scores, 1.0, 200)
    assert len(np.unique(best)) == 200
    assert (best % 10 == 0).all()  # another one is selected once in e^49 times
    assert best.min() < 2**14  # from all chunks: 200 miss a quarter once in 10^25 times
    assert best.max() > 3 * 2**14
