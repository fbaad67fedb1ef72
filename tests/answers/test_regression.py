"""Regressions from a release: exact without noise, and covered by their intervals with it."""

from dataclasses import replace

import numpy as np
import pytest
from answer_documents import document, fewest, sparse_document

from hushcov import GaussianCovariance, PrivateSparseCovariance
from hushcov.answers.conditional import conditional
from hushcov.answers.linear import LIMIT, chosen_ridge, explained_share, linear
from hushcov.answers.regression import regress
from hushcov.answers.uncertain import missing_sd, uncertain, width_of
from hushcov.exceptions import ParameterError, SeededNoiseWarning
from hushcov.release.document import Making
from statistics_helpers import short_and_long

D = 5
SCALE = np.array([1.0, 10.0, 0.1, 2.0, 30.0])
COVARIANCE = (np.full((D, D), 0.5) + 0.5 * np.eye(D)) * np.multiply.outer(SCALE, SCALE)
MEAN = np.array([1.0, -20.0, 0.3, 0.0, 5.0])
NAMES = ("age", "weight", "pulse", "temp", "dose")
RUNS = 200


def truth(target, on):
    b = np.linalg.solve(COVARIANCE[np.ix_(on, on)], COVARIANCE[on, target])
    return b, COVARIANCE[on, target] @ b / COVARIANCE[target, target]


def test_without_noise_it_is_least_squares():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, D)) @ rng.standard_normal((D, D)) * SCALE + MEAN
    S = np.cov(X, rowvar=False, bias=True)
    release = document(S, n=10**12, location=X.mean(axis=0), column_names=NAMES)
    found = regress(release, "pulse", ["age", "dose", "temp"])
    design = np.column_stack([np.ones(500), X[:, [0, 4, 3]]])
    exact, (left,), *_ = np.linalg.lstsq(design, X[:, 2], rcond=None)
    np.testing.assert_allclose([found.intercept, *found.coefficients], exact, rtol=1e-5)
    np.testing.assert_allclose(found.residual_variance, left / 500, rtol=1e-5)
    np.testing.assert_allclose(found.r_squared, 1 - left / 500 / S[2, 2], rtol=1e-5)
    assert found.features == ("age", "dose", "temp")
    assert found.n_assumed_zero == 0
    assert np.all(found.upper - found.lower < 1e-3 * np.abs(exact[1:]))
    assert not found.noise.any()


def shares_covered(noise, n, narrower=1.0):
    """How many of the intervals of coefficients and of R^2 cover, of how many."""
    rng = np.random.default_rng(1)
    on = [1, 2, 4]
    b, share = truth(0, on)
    covered = covered_shares = 0
    for _ in range(RUNS):
        found = regress(document(COVARIANCE, n=n, noise=noise, rng=rng), 0, on)
        below, above = found.coefficients - found.lower, found.upper - found.coefficients
        off = b - found.coefficients
        covered += np.count_nonzero((off >= -narrower * below) & (off <= narrower * above))
        below, above = (
            found.r_squared - found.r_squared_lower,
            found.r_squared_upper - found.r_squared,
        )
        covered_shares += -narrower * below <= share - found.r_squared <= narrower * above
    return covered, covered_shares


@pytest.mark.parametrize(("noise", "n"), [(0.1, 2_000), (0.03, 2_000), (1e-6, 500)])
def test_intervals_cover_at_any_noise(noise, n):
    # Coefficients of a run depend on each other; a third of them counts as independent.
    covered, shares = shares_covered(noise, n)
    assert covered / 3 >= fewest(RUNS)
    assert shares >= fewest(RUNS, 0.92)


def test_intervals_of_half_the_width_do_not():
    covered, shares = shares_covered(0.03, 2_000, narrower=0.5)
    assert covered / 3 < fewest(RUNS)
    assert shares < fewest(RUNS, 0.92)


def test_noise_as_large_as_the_matrix_leaves_nothing_to_say():
    rng = np.random.default_rng(1)
    found = regress(document(COVARIANCE, n=1_000, noise=0.6, rng=rng), 0, [1, 2, 3, 4])
    assert found.noise.all()
    assert np.isfinite(found.coefficients).all()
    assert (found.r_squared_lower, found.r_squared_upper) == (0, 1)
    assert "fewer features" in found.warning
    assert found.table()["noise"].all()


def test_without_features_the_partners_are_taken_as_far_as_noise_goes():
    S = np.eye(30)
    S[:3, :3] = 0.5
    np.fill_diagonal(S, 1.0)
    rng = np.random.default_rng(3)
    found = regress(document(S, n=20_000, noise=0.03, rng=rng), 0)
    assert set(found.features) == {"x1", "x2"}
    alone = regress(document(S, n=20_000, noise=0.03, rng=rng), 20)
    assert alone.features == ()
    assert "No partner" in alone.warning
    assert alone.r_squared == 0
    crowd = np.full((30, 30), 0.6) + 0.4 * np.eye(30)
    some = regress(document(crowd, n=20_000, noise=0.05, rng=rng), 0)
    assert 0 < len(some.features) < 29
    assert not some.noise.any()
    assert "were left out: their effects cannot be told" in some.warning


def test_pairs_that_were_not_released_make_intervals_wider():
    S = np.eye(4)
    S[0, 1] = S[1, 0] = S[0, 2] = S[2, 0] = 0.4
    release = sparse_document(S, noise_sd=(0.02, 0.03))
    found = regress(release, 0, [1, 2])
    assert found.n_assumed_zero == 1
    assert "did not stand out" in found.warning
    full = regress(document(S, noise=0.02), 0, [1, 2], ridge=0)
    np.testing.assert_allclose(full.coefficients, 0.4, rtol=0.01)
    assert np.all(found.upper - found.lower > 1.2 * (full.upper - full.lower))
    assert regress(release, 0).features == ("x1", "x2")
    # Selected pairs that are noise do not say that those which were not selected are as small.
    noise = replace(release.making, threshold=0.1)
    weak = sparse_document(S + 1e-3 * (np.eye(4)[:, ::-1]), noise_sd=(0.02, 0.03), making=noise)
    assert weak.selected.shape == (2, 4)
    assert missing_sd(weak) == pytest.approx(6 * 0.02, rel=0.01) == missing_sd(release)
    release = document(COVARIANCE, n=2_000, noise=0.05, rng=np.random.default_rng(4))
    one, other = regress(release, 0, [1, 2, 3]), regress(release, 0, [3, 1, 2])
    np.testing.assert_allclose(one.lower[[2, 0, 1]], other.lower)
    larger = replace(release, feature_scale=release.feature_scale * [1, 10, 1, 1, 1])
    scaled = regress(larger, 0, [1, 2, 3])
    np.testing.assert_allclose(scaled.upper * [10, 1, 1], one.upper)
    np.testing.assert_allclose(scaled.standardized, one.standardized)


def test_the_table_has_the_order_of_the_coefficients():
    release = document(COVARIANCE, column_names=NAMES)
    found = regress(release, "age", ["temp", "dose", "weight"])
    table = found.table()
    assert tuple(table["feature"]) == found.features == ("temp", "dose", "weight")
    np.testing.assert_array_equal(table["coefficient"], found.coefficients)
    np.testing.assert_array_equal(table["upper"], found.upper)


def test_means_and_the_intercept():
    noise = 0.02 * SCALE
    making = Making(n_records=1_000, means_sd=tuple(noise))
    release = document(COVARIANCE, n=1_000, location=MEAN, making=making)
    found = regress(release, 0, [1])
    b = truth(0, [1])[0]
    assert found.intercept == pytest.approx(MEAN[0] - b[0] * MEAN[1], rel=1e-6)
    half = found.intercept_upper - found.intercept
    assert half > 1.96 * 0.999 * noise[0]
    assert found.warning is None
    unsure = regress(replace(release, making=replace(making, means_sd=None)), 0, [1])
    assert "how much noise its means have" in unsure.warning
    without = regress(replace(release, location=None), 0, [1])
    assert without.intercept is None
    assert "No mean was released" in without.warning
    release = document(COVARIANCE, column_names=NAMES)
    text = str(regress(release, "age", ["dose", "temp"]))
    assert "0.333, between" in text
    assert "dose  " in text


@pytest.mark.parametrize(
    ("target", "on", "words"),
    [
        ("age", ["age", "dose"], "must not hold the target"),
        *(("agee", None, "did you mean 'age'"), ("age", ["dos"], "did you mean 'dose'")),
        *(("age", [], "at least one"), ("age", ["dose", "dose"], "must all differ")),
        ("age", ["temp"], "'temp', which does not vary"),
        ("temp", None, "target must be found, got column 'temp'"),
    ],
)
def test_bad_questions_are_refused(target, on, words):
    making = Making(n_records=10, unresolved=(3,))
    release = document(COVARIANCE, column_names=NAMES, making=making)
    with pytest.raises(ParameterError, match=words):
        regress(release, target, on)


# ---- columns that noise does not let apart ----

TOGETHER = {"pair": (0.285, -0.19, 0.35, -0.2), "strong": (0.9, -0.7, 0.3, -0.2)}
ALIKE = (0.3, 0.25, 0.4, -0.2)


def collinear(correlation, kind="pair"):
    """A target and four columns, of which the first two have this correlation; coefficients."""
    b, S = np.array(TOGETHER.get(kind, ALIKE)), np.eye(5)
    S[1, 2] = S[2, 1] = correlation
    S[3, 1:3] = S[1:3, 3] = -0.35
    S[0, 1:] = S[1:, 0] = S[1:, 1:] @ b
    return b, S


def test_a_ridge_bounds_what_noise_hides():
    b, S = collinear(0.97)
    rng = np.random.default_rng(0)
    release = document(S, n=50_000, noise=0.03, rng=rng, column_names=NAMES)
    found = regress(release, "age", NAMES[1:])
    assert found.hidden.tolist() == [True, True, False, False]
    assert not found.noise.any()
    half = (found.upper - found.lower) / 2
    assert np.all(half[:2] > 1)  # little more than the limit
    assert np.all(half[2:] < 0.4)
    assert np.all((found.lower <= b) & (b <= found.upper))
    assert 0.05 < found.r_squared_lower < S[0, 1:] @ b < found.r_squared_upper < 1
    assert "what tells weight and pulse apart" in found.warning
    assert "at most 4 (limit 2)" in found.warning
    assert "square:CENTRE" in found.warning
    assert found.table()["hidden"].sum() == 2
    wider = regress(release, "age", NAMES[1:], limit=4)
    assert np.all(wider.upper - wider.lower > 1.3 * (found.upper - found.lower))
    alone = regress(release, "age", ["weight", "temp", "dose"])
    assert not alone.hidden.any()
    with pytest.raises(ParameterError, match="limit must be above 0"):
        regress(release, "age", NAMES[1:], limit=0)
    refuted = regress(release, "age", NAMES[1:], limit=0.05)  # coefficients are larger than that
    assert refuted.noise.all()
    assert not refuted.hidden.any()


def test_predictions_along_columns_that_go_together_are_narrow():
    _, S = collinear(0.995, "alike")
    rng = np.random.default_rng(1)
    making = Making(n_records=50_000, means_sd=(1e-3,) * 5)
    options = {"location": np.zeros(5), "making": making}
    release = document(S, n=50_000, noise=0.03, rng=rng, **options)
    same = conditional(release, {"x1": 1.0, "x2": 1.0}, "x0")
    other = conditional(release, {"x1": 1.0, "x2": -1.0}, "x0")
    assert "Noise hides what tells x1 and x2 apart" in same.warning
    assert same.n_used == 2
    assert same.upper - same.lower < 0.4
    assert other.upper - other.lower > 2
    away = np.linalg.solve(S[1:3, 1:3], S[1:3, 0]) @ [1.0, 1.0]
    assert same.lower < away < same.upper


def ridges_covered(kind, correlation, runs, *, biased=True):
    """How many intervals of the columns that go together cover, and of the others."""
    b, S = collinear(correlation, kind)
    rng, covered = np.random.default_rng(3), np.zeros(2)
    for _ in range(runs):
        part = uncertain(document(S, n=50_000, noise=0.03, rng=rng), np.arange(5))
        found = linear(part, width_of(0.95), limit=LIMIT)
        assert found.bounded
        if not biased:
            found = replace(found, limit=1e-9 if found.limit else 0.0)
        _, lower, upper = found.ends(np.diag(part.deviations[0] / part.deviations[1:]))
        covered += ((lower <= b) & (b <= upper)).reshape(2, 2).sum(axis=1)
    return covered


@short_and_long("runs", 60, 1_500)
@pytest.mark.parametrize("kind", TOGETHER)
def test_intervals_of_a_ridge_cover_since_they_count_its_bias(kind, runs):
    # Two intervals of a run depend on each other, and count as one: false alarms are once in 1e6.
    assert np.all(ridges_covered(kind, 0.97, runs) / 2 >= fewest(runs))
    assert ridges_covered(kind, 0.97, runs, biased=False)[0] / 2 < fewest(runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOGETHER)
@pytest.mark.parametrize("correlation", [0.5, 0.97, 0.995])
@pytest.mark.parametrize("estimator", [GaussianCovariance, PrivateSparseCovariance])
def test_intervals_of_real_releases_cover(estimator, correlation, kind):
    runs, n = 300, 20_000
    (b, S), rng = collinear(correlation, kind), np.random.default_rng(4)
    root, covered, shares = np.linalg.cholesky(S), np.zeros(2), 0
    for seed in range(runs):
        rows = rng.standard_normal((n, 5)) @ root.T * SCALE + MEAN
        with pytest.warns(SeededNoiseWarning):
            release = estimator(epsilon=1.0, delta=1e-6, random_state=seed).fit(rows).release_
        found = regress(release, 0, [1, 2, 3, 4])
        lower, upper = (ends * SCALE[1:] / SCALE[0] for ends in (found.lower, found.upper))
        covered += ((lower <= b) & (b <= upper)).reshape(2, 2).sum(axis=1)
        shares += found.r_squared_lower <= S[0, 1:] @ b <= found.r_squared_upper
    # Of each two one counts; nominal is 0.95 less 0.02 for bounds on records.
    assert np.all(covered / 2 >= fewest(runs, 0.93))
    assert shares >= fewest(runs, 0.92)


def test_of_all_columns_those_that_were_not_found_are_left_out_and_named():
    making = Making(n_records=10_000, unresolved=(3,))
    release = document(COVARIANCE, column_names=NAMES, making=making)
    found = regress(release, "age", "all")
    assert found.features == ("weight", "pulse", "dose")
    assert found.notes == (
        "1 feature left out, whose variance does not stand out of the noise: temp.",
    )
    assert found.notes[0] in str(found)
    named = regress(release, "age", ["weight", "temp"])
    assert named.features == ("weight",)
    assert "Left out: temp, which does not vary or cannot be told from noise." in named.warning
    named = replace(release, column_names=("age", "all", "pulse", "temp", "dose"))
    assert regress(named, "age", "all").features == ("all",)
    target = regress(replace(release, making=replace(making, unresolved=())), "dose", "all")
    assert target.features == NAMES[:4]
    assert target.notes == ()


def drawn_parts(runs, seed):
    """Standardized parts of releases of a matrix with two near-equal columns, and that matrix."""
    _, S = collinear(0.97)
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        yield S, uncertain(document(S, noise=0.05, rng=rng), np.arange(5)).standardized()


def with_ridge(part, ridge):
    G = np.linalg.inv(part.covariance[1:, 1:] + ridge * np.eye(4))
    return G @ part.values[1:, 0], G


def test_the_estimated_error_of_predictions_has_the_right_mean_and_deviation():
    runs, ridge = 3_000, 0.2
    off, naive = [], []
    for S, part in drawn_parts(runs, 6):
        b, G = with_ridge(part, ridge)
        share, deviation = explained_share(part, b, G)
        error, deviation = part.values[0, 0] * (1 - share), part.values[0, 0] * deviation
        tilde = np.concatenate([[1.0], -b])
        off.append(error - tilde @ S @ tilde)
        naive.append(tilde @ part.values @ tilde - tilde @ S @ tilde)
    doubt = np.std(off) / np.sqrt(runs)
    # 5 deviations are false alarms of 6e-7; what fitting takes off is far more than that.
    assert abs(np.mean(off)) < 5 * doubt + 0.1 * abs(np.mean(naive))
    assert np.mean(naive) < -20 * doubt
    E = np.random.default_rng(9).standard_normal((runs, 5, 5)) * part.noise_sd
    E = np.tril(E) + np.swapaxes(np.tril(E, -1), 1, 2)
    # The relative deviation of a deviation is 1 / sqrt(2 runs), of which 5 are 0.065.
    np.testing.assert_allclose(np.std(tilde @ E @ tilde - E[:, 0, 0]), deviation, rtol=0.065)


def test_a_structure_counts_where_the_equations_do_not_refute_it():
    loading = np.array([0.8, 0.7, 0.6, 0.5, 0.7])
    S = np.outer(loading, loading) + np.diag(1 - loading**2)
    rng = np.random.default_rng(8)
    part = uncertain(document(S, noise=0.05, rng=rng), np.arange(5)).standardized()
    best = np.linalg.solve(S[1:, 1:], S[1:, 0])
    alone, both = chosen_ridge(part).coefficients, chosen_ridge(part, shape=S).coefficients
    assert np.linalg.norm(both - best) < 0.5 * np.linalg.norm(alone - best)
    other = S.copy()
    other[0, 1:] = other[1:, 0] = -S[0, 1:]
    np.testing.assert_array_equal(chosen_ridge(part, shape=other).coefficients, alone)


def test_a_given_ridge_is_that_ridge():
    release = document(COVARIANCE, n=10**12)
    R = np.full((D, D), 0.5) + 0.5 * np.eye(D)
    for ridge in (0, 0.3, np.float64(2)):
        found = regress(release, 0, [1, 2, 4], ridge=ridge)
        exact = np.linalg.solve(R[1:4, 1:4] + float(ridge) * np.eye(3), R[1:4, 0])
        np.testing.assert_allclose(found.standardized, exact, rtol=1e-6)
        assert np.all((found.lower <= found.coefficients) & (found.coefficients <= found.upper))
    for wrong in (-1, np.nan, "some", None, True):
        with pytest.raises(ParameterError, match="or pass 'auto'"):
            regress(release, 0, [1, 2, 4], ridge=wrong)


GRID = {  # a correlation of the first two columns, the noise, and coefficients
    "one, little noise": (0.0, 0.01, [0.6]),
    "one, usual noise": (0.0, 0.04, [0.4]),
    "one, weak": (0.0, 0.04, [0.2]),
    "three, little noise": (0.5, 0.01, [0.5, 0.2, -0.3]),
    "three, usual noise": (0.5, 0.04, [0.5, 0.2, -0.3]),
    "near-equal": (0.97, 0.01, [0.3, 0.25, 0.4]),
    "many": (0.3, 0.03, [0.3, -0.3, 0.2, 0.2, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0]),
    "unrelated": (0.3, 0.03, [0.0] * 6),
}


def errors_of(kind, runs, seed=0):
    """Squared errors of predictions with the chosen ridge, with ridge 0, and the answers."""
    correlation, noise, b = GRID[kind]
    b, S = np.array(b), np.eye(len(b) + 1)
    if len(b) > 1:
        S[1, 2] = S[2, 1] = correlation
    S[0, 1:] = S[1:, 0] = S[1:, 1:] @ b
    rng, on = np.random.default_rng(seed), list(range(1, len(S)))
    for _ in range(runs):
        release = document(S, n=5_000, noise=noise, rng=rng)
        found = [regress(release, 0, on, ridge=ridge) for ridge in ("auto", 0)]
        off = np.array([each.coefficients - b for each in found])
        yield 1 - S[0, 1:] @ b + np.einsum("ij,jk,ik->i", off, S[1:, 1:], off), found


@pytest.mark.parametrize("kind", GRID)
def test_the_chosen_ridge_is_never_significantly_worse_than_0(kind):
    errors = np.array([each for each, _ in errors_of(kind, 60)])
    worse = errors[:, 0] - errors[:, 1]
    assert worse.mean() <= 2 * worse.std() / 60**0.5
    if kind == "unrelated":
        assert errors[:, 0].mean() - 1 < 0.3 * (errors[:, 1].mean() - 1)


@pytest.mark.parametrize("kind", GRID)
def test_estimates_lie_inside_their_intervals_and_answers_say_which_ridge(kind):
    for _, (found, least_squares) in errors_of(kind, 5, seed=1):
        for each in (found, least_squares):
            assert np.all((each.lower < each.coefficients) & (each.coefficients < each.upper))
            assert "ridge  " in str(each)
            assert each.ridge_reason in " ".join(str(each).split())
        assert found.predicted_r_squared >= 0
        assert (least_squares.ridge, least_squares.multiplier) == (0, 1)
        if found.ridge == 0 and found.multiplier == 1:
            np.testing.assert_allclose(found.coefficients, least_squares.coefficients)
            np.testing.assert_allclose(found.lower, least_squares.lower)
        if found.multiplier == 0:
            assert not found.coefficients.any()
            assert found.predicted_r_squared == 0


def test_a_given_ridge_that_predicts_worse_than_the_mean_is_said():
    _, S = collinear(0.999)
    release = document(S, n=5_000, noise=0.05, rng=np.random.default_rng(2))
    found = regress(release, 0, [1, 2, 3, 4], ridge=0)
    assert found.predicted_r_squared < 0
    assert "expected to predict worse than the mean" in found.warning
    assert regress(release, 0, [1, 2, 3, 4]).predicted_r_squared >= 0
