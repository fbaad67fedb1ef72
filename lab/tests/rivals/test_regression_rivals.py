"""Regression rivals: least squares without noise, sensitivities, noise, and what they spend."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from hushcov.kernel.accounting import Gaussian, Pure, compose
from hushcov_lab.rivals import binagg, bounds, dpsgd, sufficient, tukey
from hushcov_lab.rivals.regression import RIVALS, ColumnBounds, RivalSilent
from statistics_helpers import FALSE_ALARM, chi_square_p_value, variance_p_value

SLOPES = np.array([1.5, -0.7, 0.2])
EXTREMES = (0.0, 1.0, -1.0, 1e-300, -1e-30, 1e30, -1e308)


def linear(n, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal([5.0, 0.0, -100.0], [2.0, 1.0, 30.0], (n, 3))
    return X, 3.0 + X @ SLOPES + noise * rng.standard_normal(n)


def public(X, y):
    table = np.column_stack([X, y])
    return ColumnBounds(table.min(axis=0), table.max(axis=0))


def neighbours(n, length, seed):
    """A table, and with one more record: values of all sizes, and a record of extreme ones."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n, length)) * np.exp(3 * rng.standard_normal(length))
    record = rng.choice(EXTREMES, length)
    return table, np.vstack([table, record])


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("given", [True, False])
def test_without_noise_it_is_least_squares(name, given):
    X, y = linear(4000)
    rng = np.random.default_rng(1)
    told = public(X, y) if given else None
    found = RIVALS[name].fit(X, y, epsilon=1e3, delta=1e-6, bounds=told, rng=rng)
    design = np.column_stack([np.ones(len(y)), X])
    exact = np.linalg.lstsq(design, y, rcond=None)[0]
    assert np.abs(found.predict(X) - design @ exact).max() < 0.05 * y.std()
    assert np.abs((found.coefficients - exact[1:]) * X.std(axis=0)).max() < 0.02 * y.std()


@pytest.mark.parametrize("name", [name for name in RIVALS if name != "tukey"])
@pytest.mark.parametrize("given", [True, False])
def test_answers_are_useful_and_noisier_with_less_budget(name, given):
    X, y = linear(10_000)
    told = public(X, y) if given else None
    error = {}
    for epsilon in (0.3, 30.0):
        fits = [
            RIVALS[name].fit(
                X, y, epsilon=epsilon, delta=1e-9, bounds=told, rng=np.random.default_rng(seed)
            )
            for seed in range(3)
        ]
        error[epsilon] = np.median([np.mean((y - fit.predict(X)) ** 2) / y.var() for fit in fits])
    assert error[30.0] < error[0.3] < 0.7
    assert error[30.0] < 0.02


@pytest.mark.parametrize("seed", range(20))
def test_one_record_moves_statistics_by_no_more_than_stated(seed):
    table, more = neighbours(30, 4, seed)
    limits = ColumnBounds(np.array([-1.0, 0.0, -5.0, 0.0]), np.array([1.0, 1e9, 5.0, 0.0]))
    for octaves in (1, 4):
        moved = bounds.count_magnitudes(more, octaves) - bounds.count_magnitudes(table, octaves)
        assert np.linalg.norm(moved) == math.sqrt(4)
    moved = bounds.sum_moments(more, limits) - bounds.sum_moments(table, limits)
    assert np.linalg.norm(moved) <= math.sqrt(8) + 1e-12
    rows = bounds.scale_rows(more[:, :3], more[:, 3], None, 5.0, np.random.default_rng(seed))
    assert np.all(np.isfinite(rows.rows))
    assert np.all(np.isfinite(rows.target))
    assert np.linalg.norm(rows.rows, axis=1).max() <= 1 + 1e-12
    gram, less = (each.T @ each for each in (rows.rows, rows.rows[:-1]))
    assert np.linalg.norm(gram - less) <= 1 + 1e-12
    smallest = [np.linalg.eigvalsh(each)[0] for each in (gram, less)]
    assert 0 <= smallest[0] - smallest[1] + 1e-12 <= 1 + 2e-12


@pytest.mark.parametrize("seed", range(10))
def test_one_record_moves_sums_of_bins_by_no_more_than_stated(seed):
    rng = np.random.default_rng(seed)
    rows, target = rng.uniform(-1, 1, (50, 3)), rng.uniform(-1, 1, 50)
    rows[-1], target[-1] = rng.choice([-1.0, 0.0, 1.0], 3), rng.choice([-1.0, 1.0])
    bins = binagg.grow_bins(rows, 5.0, rng)
    less = binagg.Bins(bins.lower, bins.upper, bins.place[:-1])
    sums = binagg.sum_bins(rows, target, bins), binagg.sum_bins(rows[:-1], target[:-1], less)
    for more, fewer, most in zip(*sums, (1.0, math.sqrt(3), 1.0), strict=True):
        assert np.linalg.norm(more - fewer) <= most + 1e-12
    inside = (bins.lower[bins.place] <= rows) & (rows <= bins.upper[bins.place])
    assert np.all(inside)
    assert np.sum(np.prod(bins.upper - bins.lower, axis=1)) == pytest.approx(8.0)


def log_laplace(x):
    """Return the logarithm of the Laplace law's cdf."""
    return math.log(0.5) + x if x < 0 else math.log1p(-0.5 * math.exp(-x))


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_bins_are_split_privately(epsilon):
    """A record is in one bin of each depth: its worst path costs epsilon, and nearly all of it."""

    def cost(counts, factor=1.0):
        total = 0.0
        for depth, count in enumerate(counts):
            sides = []
            for number in (count, count + 1):
                score, noise = binagg.score_bin(number, depth, epsilon)
                sides.append(score / (noise * factor))
            last = depth == len(counts) - 1
            low, high = ((-side if last else side) for side in sides)
            total += abs(log_laplace(high) - log_laplace(low))
        return total

    rng = np.random.default_rng(0)
    paths = [np.sort(rng.geometric(epsilon / 30, rng.integers(1, 60)))[::-1] for _ in range(100)]
    paths += [np.repeat(count, 60) for count in range(0, int(200 / epsilon), int(3 / epsilon))]
    worst = max(cost(path) for path in paths)
    assert worst <= epsilon
    assert max(cost(path, 0.5) for path in paths) > epsilon  # half of the noise is not enough


@pytest.mark.parametrize("wrong", [1.0, 0.85])
def test_noise_has_the_deviation_that_is_spent(wrong):
    rng = np.random.default_rng(3)
    mu, accepts = 0.2, wrong == 1.0
    entries = np.array([sufficient.symmetric_noise(2, wrong / mu, rng) for _ in range(6000)])
    products = np.array(
        [
            sufficient.release_products(np.zeros((1, 1)), np.zeros(1), 3.0 * wrong, mu, rng)
            for _ in range(6000)
        ]
    )
    p_values = [
        variance_p_value(entries[:, 0, 0], 1 / mu),
        variance_p_value(entries[:, 0, 1], math.sqrt(0.5) / mu),
        variance_p_value(products, 3.0 / mu),
    ]
    assert all((p_value > FALSE_ALARM) == accepts for p_value in p_values)


def test_released_counts_and_means_have_the_deviation_that_is_spent():
    rng = np.random.default_rng(4)
    n, mu = 10_000, 0.5
    counts = np.array([bounds.release_count(n, mu, rng) for _ in range(6000)])
    table, limits = np.zeros((1, 2)), ColumnBounds(np.full(2, -3.0), np.full(2, 3.0))
    means = np.array([bounds.release_moments(table, limits, n, mu, rng)[0] for _ in range(6000)])
    assert variance_p_value(counts - n, 1 / mu) > FALSE_ALARM
    for factor, accepts in ((1.0, True), (1.15, False)):
        p_value = variance_p_value(means[:, 0], factor * 3 * math.sqrt(4) / mu / n)
        assert (p_value > FALSE_ALARM) == accepts


def spend(monkeypatch, name, told, epsilon=1.0, delta=1e-8):
    """Events of one fit, by what its steps were called with."""
    events = []

    def record(module, function, *places):
        inner = getattr(module, function)

        def outer(*args):
            events.extend(Gaussian(args[place]) for place in places)
            return inner(*args)

        monkeypatch.setattr(module, function, outer)

    record(bounds, "release_count", 1)
    record(bounds, "release_ranges", 2)
    record(bounds, "release_moments", 3)
    record(sufficient, "release_gram", 1)
    record(sufficient, "release_smallest", 1)
    record(sufficient, "release_products", 3)
    X, y = linear(3000)
    told = public(X, y) if told else None
    rng = np.random.default_rng(0)
    RIVALS[name].fit(X, y, epsilon=epsilon, delta=delta, bounds=told, rng=rng)
    return events


@pytest.mark.parametrize("name", ["adassp", "boosted"])
@pytest.mark.parametrize("given", [True, False])
def test_all_steps_together_spend_the_budget_and_no_more(monkeypatch, name, given):
    total = compose(spend(monkeypatch, name, given), delta=1e-8).epsilon
    assert 0.999 < total <= 1.0
    monkeypatch.setattr(sufficient, "_ADASSP_SHARES", (0.5, 0.45, 0.1))
    monkeypatch.setattr(sufficient, "_BOOSTED_SHARES", (0.3, 0.65, 0.1))
    assert compose(spend(monkeypatch, name, given), delta=1e-8).epsilon > 1.0


@pytest.mark.parametrize("given", [True, False])
def test_sketches_are_charged_beside_all_other_steps(monkeypatch, given):
    called, inner = [], sufficient.mixing_level
    monkeypatch.setattr(
        sufficient, "mixing_level", lambda *args: called.append(args) or inner(*args)
    )
    events = spend(monkeypatch, "ihm", given)
    (epsilon, delta, mu, n_rows) = called[0]
    assert epsilon == 1.0
    assert delta == pytest.approx(0.99e-8, rel=1e-9, abs=0)
    assert mu == pytest.approx(math.hypot(*(event.mu for event in events)), rel=1e-9)
    assert n_rows == 5 * math.ceil(6 * math.log(200 / 1e-8))


@pytest.mark.parametrize("given", [True, False])
def test_samples_are_charged_beside_all_other_steps(monkeypatch, given):
    called, inner = [], dpsgd.calibrate_steps
    monkeypatch.setattr(dpsgd, "calibrate_steps", lambda *args: called.append(args) or inner(*args))
    events = spend(monkeypatch, "dpsgd", given)
    ((epsilon, delta, rate, steps, beside),) = called
    assert (epsilon, delta) == (1.0, 1e-8)
    assert (rate, steps) == (dpsgd.TUNED.rate, dpsgd.TUNED.steps)
    assert beside == pytest.approx(math.hypot(*(event.mu for event in events)), rel=1e-6)


@pytest.mark.parametrize("given", [True, False])
def test_scaling_and_bins_leave_what_they_say(monkeypatch, given):
    scaling, inner = [], bounds.release_scaling
    monkeypatch.setattr(
        binagg, "release_scaling", lambda *args: scaling.append(inner(*args)) or scaling[0]
    )
    pure = Pure(bounds.total_mu(1.0, 1e-8) / math.sqrt(28))
    events = [*spend(monkeypatch, "binagg", given), pure, Gaussian(scaling[0].mu_left)]
    assert 0.999 < compose(events, delta=1e-8).epsilon <= 1.0


def test_ranges_hold_the_records_and_little_else():
    rng = np.random.default_rng(5)
    table = rng.normal([0.0, 1000.0, -0.003, 0.0], [1.0, 3.0, 0.0001, 1e6], (20_000, 4))
    found, _ = bounds.release_ranges(table, 4, 0.1, rng)
    share = np.mean((found.lower <= table) & (table <= found.upper), axis=0)
    assert np.all(share > 0.98)
    size = np.abs(table).max(axis=0)
    assert np.all(np.maximum(np.abs(found.lower), np.abs(found.upper)) <= 256 * size)
    centre, scale, _ = bounds.release_moments(table, found, len(table), 0.1, rng)
    assert np.all(np.abs(centre - table.mean(axis=0)) < 0.1 * size)
    assert np.all(scale <= np.maximum(3 * table.std(axis=0), 2 * size))
    nothing, _ = bounds.release_ranges(table[:10], 4, 0.1, rng)
    assert np.all(nothing.lower == nothing.upper)  # dropped, rather than found by chance


def test_sketches_are_charged_exactly():
    """Without Gaussian steps beside them, by the law of chi-square; and the eigenvalue matters."""
    epsilon, n_rows, level = 1.0, 60, 30.0
    variance = 1 - 1 / level
    edge = (epsilon - n_rows / 2 * math.log(variance)) / ((1 / variance - 1) / 2)
    removed = stats.chi2.sf(edge, n_rows) - math.e * stats.chi2.sf(edge / variance, n_rows)
    edge = (epsilon + n_rows / 2 * math.log(variance)) / (-(1 - variance) / 2)
    added = stats.chi2.cdf(edge, n_rows) - math.e * stats.chi2.cdf(edge * variance, n_rows)
    found = sufficient.mixing_delta(epsilon, 1e-6, 1e-3, n_rows, level)
    assert max(removed, added) <= found <= 1.03 * max(removed, added)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_sketches_get_what_is_left_and_no_more(epsilon):
    delta, n_rows = 1e-9, 500
    mu = 0.8 * bounds.total_mu(epsilon, delta)
    level = sufficient.mixing_level(epsilon, delta, mu, n_rows)
    assert sufficient.mixing_delta(epsilon, delta, mu, n_rows, level) <= delta
    assert sufficient.mixing_delta(epsilon, delta, mu, n_rows, 0.99 * level) > delta
    # A sketch is nearly a Gaussian step of this mu.
    assert level * 0.6 * mu / 0.8 == pytest.approx(math.sqrt(n_rows / 2), rel=0.25)


@pytest.mark.parametrize("seed", range(10))
def test_one_record_changes_a_sketch_by_no_more_than_its_level(seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((40, 3))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1))[:, np.newaxis]
    rows[-1] /= np.linalg.norm(rows[-1])
    more, level = rows.T @ rows, 15.0
    added = max(0.0, level - np.linalg.eigvalsh(more)[0]) * np.eye(3)
    less = rows[:-1].T @ rows[:-1]
    ratio = np.linalg.eigvals(np.linalg.solve(more + added, less + added)).real
    assert ratio.min() >= 1 - 1 / level - 1e-12
    assert np.sort(ratio)[1:] == pytest.approx([1.0, 1.0])


def test_test_of_tukey_is_private_and_cannot_pass_more_often():
    epsilon, delta = 0.5, 1e-6
    curve = np.array(tukey.passing_probabilities(epsilon, delta))
    assert curve[0] == 0
    assert curve[-1] == 1
    up = curve[1:] - np.exp(epsilon) * curve[:-1]
    down = (1 - curve[:-1]) - np.exp(epsilon) * (1 - curve[1:])
    worst = np.maximum(up, down)
    assert worst.max() <= delta * (1 + 1e-6)
    assert worst[:-1] == pytest.approx(np.full(len(worst) - 1, delta), rel=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_one_model_moves_the_distance_by_at_most_one(seed):
    rng = np.random.default_rng(seed)
    models = rng.standard_normal((80, 2)) * rng.choice([1.0, 1e4])
    other = models.copy()
    other[rng.integers(80)] = rng.choice([0.0, 1e9, -1e9, 0.3], 2)
    eta = rng.uniform(0.5, 3)
    distances = [
        tukey.safe_distance(tukey.log_volumes(each), eta, 1e-4) for each in (models, other)
    ]
    assert abs(distances[0] - distances[1]) <= 1


@pytest.mark.parametrize("seed", range(20))
def test_deep_points_of_neighbours_are_as_close_as_promised(seed):
    """In one dimension the law is a step function: its divergence is computed exactly."""
    rng = np.random.default_rng(seed)
    models = rng.standard_normal(60) * rng.choice([1.0, 10.0], 60)
    other = models.copy()
    other[rng.integers(60)] = rng.choice([0.0, 1e6, -1e6, 0.2])
    eta, shallow = 1.0, 1e-3
    edges = np.unique(np.concatenate([models, other]))
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    laws = []
    for each in (models, other):
        assert tukey.safe_distance(tukey.log_volumes(each[:, np.newaxis]), eta, shallow) >= 0
        below = np.searchsorted(np.sort(each), middles)
        depth = np.minimum(below, 60 - below)
        weight = np.where(depth >= 15, np.exp(eta * depth) * widths, 0.0)
        laws.append(weight / weight.sum())
    for first, second in (laws, laws[::-1]):
        epsilon = 2 * eta - math.log1p(-shallow)
        assert np.sum(np.maximum(0, first - np.exp(epsilon) * second)) <= shallow
    drawn = np.array([tukey.sample_deep(models[:, np.newaxis], eta, rng)[0] for _ in range(1000)])
    seen = np.histogram(drawn, edges)[0]
    assert chi_square_p_value(seen, laws[0]) > FALSE_ALARM
    assert chi_square_p_value(seen, np.sqrt(laws[0]) / np.sqrt(laws[0]).sum()) < FALSE_ALARM


def test_a_record_changes_one_model():
    X, y = linear(500)
    models = [tukey.fit_models(X[:n], y[:n], 20, np.random.default_rng(0)) for n in (500, 499)]
    # The draws of the parts are the same for the records that both have; those after them are not.
    assert np.sum(np.abs(models[0] - models[1]).max(axis=1) > 1e-9) == 1


def test_a_constant_with_a_few_outliers_is_left_out():
    """Its released scale is of the constant, so that a slope would be absurd at the outliers."""
    X, y = linear(10_000)
    X[:, 1] = -1e-8
    X[:3, 1] = 1e-4
    for seed in range(10):
        rng = np.random.default_rng(seed)
        scaling = bounds.release_scaling(X, y, None, 0.3, rng)
        assert np.array_equal(np.isinf(scaling.scale), [False, True, False])


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("case", ["constant", "copies", "one", "huge"])
def test_odd_tables_are_answered_in_finite_numbers_or_by_silence(name, given, case):
    X, y = linear(400)
    X[:, 1] = 7.0
    if case == "constant":
        y[:] = 3.0
    elif case == "copies":
        X[:], y[:] = X[0], y[0]
    elif case == "one":
        X, y = X[:1], y[:1]
    else:
        X[3], y[3] = 1e300, -1e300
    told = public(X, y) if given else None
    try:
        found = RIVALS[name].fit(
            X, y, epsilon=1.0, delta=1e-6, bounds=told, rng=np.random.default_rng(0)
        )
    except RivalSilent:
        return
    assert np.all(np.isfinite(found.coefficients))
    assert math.isfinite(found.intercept)


def test_too_few_records_are_answered_by_silence():
    X, y = linear(300)
    for name in ("tukey", "binagg"):
        with pytest.raises(RivalSilent):
            RIVALS[name].fit(
                X, y, epsilon=0.05, delta=1e-6, bounds=None, rng=np.random.default_rng(0)
            )


def test_intervals_of_bins_cover():
    """On the model of the publication; 0.95 stated, and half as wide is found out."""
    hits, narrow, truth = [], [], np.array([1.0, -0.5])
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (3000, 2))
        y = 0.4 + X @ truth + 0.3 * rng.standard_normal(3000)
        told = ColumnBounds(np.array([-1.0, -1.0, -4.0]), np.array([1.0, 1.0, 4.0]))
        fit = RIVALS["binagg"].fit(X, y, epsilon=3.0, delta=1e-6, bounds=told, rng=rng)
        off = np.abs(fit.coefficients - truth)
        hits.append(off <= (fit.upper - fit.lower) / 2)
        narrow.append(off <= (fit.upper - fit.lower) / 4)
    law = stats.binom(100, 0.95)
    for column in range(2):
        assert law.cdf(np.sum(hits, axis=0)[column]) > FALSE_ALARM
        assert law.cdf(np.sum(narrow, axis=0)[column]) < FALSE_ALARM


def test_curve_of_gaussian_steps_goes_on_below_zero():
    epsilon = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    exact = ndtr(0.35 - epsilon / 0.7) - np.exp(epsilon) * ndtr(-0.35 - epsilon / 0.7)
    found = sufficient._gaussian_deltas(0.7, epsilon)
    assert np.all(found >= exact)
    assert found == pytest.approx(exact, rel=1e-6)
