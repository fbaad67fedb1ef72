"""Further looks: the law of their noise, what shortening does, and when there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special
from sklearn.base import clone

from hushcov import GaussianCovariance, PrivateSparseCovariance
from hushcov.answers.uncertain import Uncertain, what_is_lost
from hushcov.exceptions import DamagedReleaseError, ParameterError
from hushcov.fit.looks import (
    RULES,
    SeenMoments,
    averaged,
    choose_bound,
    expected_width,
    first_seen,
    look_further,
    shares_of,
    step_of_target,
)
from hushcov.fit.mechanism import Prepared
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import Budget
from hushcov.kernel.noise import Entropy
from hushcov.kernel.session import Session
from hushcov.options import PURPOSES
from hushcov.release import Release
from hushcov.release.looks import FurtherLook, without_pull
from hushcov.tables.sources import open_records

USUAL = {"epsilon": 1.0, "delta": 1e-6}
D, N = 6, 20_000


def collinear(d: int = D) -> np.ndarray:
    """Return correlations of a model with two factors, whose smallest eigenvalue is small."""
    loadings = np.random.default_rng(1).standard_normal((d, 2))
    model = loadings @ loadings.T + 0.05 * np.eye(d)
    deviations = np.sqrt(model.diagonal())
    return model / np.multiply.outer(deviations, deviations)


def rows_of(seed: int, n: int = N) -> np.ndarray:
    """Draw normal rows of the model, far from the origin in odd units."""
    root = np.linalg.cholesky(collinear())
    rows = np.random.default_rng(seed).standard_normal((n, D)) @ root.T
    return rows * np.geomspace(1, 100, D) + np.arange(D)


def session_of(
    rows: np.ndarray, mu: float, seed: int = 0, block_rows: int | None = None
) -> Session:
    entropy = Entropy(np.random.default_rng(seed), private=False)
    budget = Budget(10.0, 1e-6, mu=mu, checked=(), private=False)
    return Session(open_records(rows, block_rows=block_rows), budget, entropy)


def prepared(ones: bool) -> Prepared:
    """Return input of a mechanism that says whether means were released."""
    return Prepared(None, np.ones(1), location=np.zeros(1) if ones else None)


def one_look(rows: np.ndarray, mu: float, seed: int = 0, *, ones: bool = True) -> FurtherLook:
    """Look once at rows of scale 1, in the basis of what they are."""
    n, d = rows.shape
    inputs = ReleaseInputs(n, d, d, **USUAL)
    scale = np.ones(d)
    seen = first_seen(np.cov(rows.T), 0.0, scale, prepared(ones))
    return look_further(session_of(rows, mu, seed, None), inputs, scale, seen, (1.0,))[0]


# ---- what is measured ----


def test_a_look_without_noise_is_the_covariance():
    rows = rows_of(0) / np.geomspace(1, 100, D) - np.arange(D) / np.geomspace(1, 100, D)
    found = one_look(rows, 1.0).moments
    # Shortening of normal rows is undone to second order, and the rest is rounding.
    np.testing.assert_allclose(found.values, np.cov(rows.T), atol=0.01)
    relative = np.linalg.solve(np.cov(rows.T), found.values)
    np.testing.assert_allclose(relative, np.eye(D), atol=0.03)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_a_centre_that_is_off_changes_means_and_no_covariance(shift):
    rows = np.random.default_rng(0).standard_normal((N, 3)) @ np.diag([1.0, 1.0, 0.2]) + shift
    found = one_look(rows, 1.0).moments
    np.testing.assert_allclose(found.means, rows.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(found.values, np.cov(rows.T), atol=0.03)
    without = one_look(rows, 1.0, ones=False).moments
    second = without.values - np.cov(rows.T)
    np.testing.assert_allclose(second, np.full((3, 3), shift**2), atol=0.06)


def test_noise_has_the_stated_law():
    """Sixty releases: a variance is off by a factor of 2 once in 1e4; there are 3."""
    rows = rows_of(0, 2_000) / np.geomspace(1, 100, D) - np.arange(D) / np.geomspace(1, 100, D)
    looks = [one_look(rows, 0.6, seed) for seed in range(60)]
    values = np.array([each.moments.values for each in looks])
    u, v = np.linalg.eigh(np.cov(rows.T))[1][:, [0, -1]].T
    for one, other in ((u, u), (u, v), (v, v)):
        S = np.mean([each.moments.noise for each in looks], axis=0)
        stated = (one @ S @ one) * (other @ S @ other) + (one @ S @ other) ** 2
        drawn = np.var([one @ each @ other for each in values])
        assert 0.5 < drawn / stated < 2


@pytest.mark.filterwarnings("ignore:about")
def test_rows_that_miss_a_value_count_as_nothing():
    rows = rows_of(0)
    holes = rows.copy()
    holes[: N // 2, 0] = np.nan
    found = [
        PrivateSparseCovariance(**USUAL).fit(each).release_ for each in (rows[N // 2 :], holes)
    ]
    looks = [each.making.look for each in found]
    assert None not in looks
    traces = [np.trace(each.products) * each.unit for each in looks]
    assert traces[0] == pytest.approx(traces[1], rel=0.25)  # 2 where ones were added to holes


def test_products_do_not_depend_on_the_size_of_a_block():
    rows = np.random.default_rng(0).standard_normal((500, 3))
    inputs, scale = ReleaseInputs(500, 3, 3, **USUAL), np.ones(3)
    found = []
    for size in (1, 7, 500):
        session = session_of(rows, 0.2, 3, size)
        seen = first_seen(np.cov(rows.T), 0.01, scale, prepared(True))
        found.append(look_further(session, inputs, scale, seen, (0.5, 0.5))[0].products)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


# ---- shortening ----


def test_shortening_is_undone_to_second_order():
    w = np.linspace(0.8, 1.2, 9)
    for pull in (0.01, 0.05):
        damped = w - pull * (w - 1) - pull * (w - 1) ** 2
        np.testing.assert_allclose(without_pull(damped, pull), w, atol=5 * pull**2)
    assert np.array_equal(without_pull(w, 0.0), w)


def test_the_bound_lets_through_what_noise_does_not_hide():
    squares = special.chdtri(20, (np.arange(100) + 0.5) / 100)
    shares = np.full(100, 0.01)
    much, little = (choose_bound(squares, shares, 20, n, 0.2) for n in (2_000, 200_000))
    assert much.square < little.square
    assert much.kept < little.kept <= 1
    for each in (much, little):
        short = np.minimum(squares, each.square)
        assert each.kept == pytest.approx(short.mean() / squares.mean(), abs=0.02)


# ---- the basis ----


def test_whole_numbers_hold_every_basis():
    """Also where a feature is constant, or two are one: eigenvalues have a floor."""
    scale = np.array([1.0, 1.0, 0.0, 1.0])
    for first in (np.ones((4, 4)), np.zeros((4, 4)), np.diag([1.0, 1e-12, 0.0, 1e12])):
        for noise in (0.0, 1e-9, 0.1):
            seen = first_seen(first, noise, scale, prepared(True))
            basis, step = seen.next_basis(scale)
            again, _ = SeenMoments(basis, np.eye(4), noise).next_basis(scale)
            for each in (basis, again):
                assert np.linalg.cond(each) < 1e9
            assert np.array_equal(basis / step, np.rint(basis / step))
            largest = max(np.abs(basis[:3]).max() / step, np.abs(basis[3]).max() / step * 2**11)
            assert (4 * 2**15 + 1) * largest < 2**53


# ---- when there are looks ----


def test_public_numbers_say_whether_there_are_looks():
    inputs = ReleaseInputs(20_000, 15, 5, **USUAL)
    assert shares_of(inputs, np.ones(15), 0.2) == RULES.shares_for_both
    assert (
        shares_of(inputs.changed(purpose="relations"), np.ones(15), 0.2)
        == RULES.shares_for_relations
    )
    assert shares_of(inputs.changed(purpose="covariance"), np.ones(15), 0.2) == (1.0,)
    assert shares_of(inputs.changed(n_records=1_000), np.ones(15), 0.2) == (1.0,)
    assert shares_of(inputs, np.array([1.0, 0.0]), 0.2) == (1.0,)
    for shares in (RULES.shares_for_both, RULES.shares_for_relations):
        assert sum(shares) == pytest.approx(1)


@pytest.mark.parametrize("kind", [PrivateSparseCovariance, GaussianCovariance])
def test_looks_make_regressions_precise(kind):
    rows, width = rows_of(0), {}
    for purpose in PURPOSES:
        fitted = kind(**USUAL, purpose=purpose).fit(rows)
        found = fitted.regression(0, "all", ridge=0)
        width[purpose] = np.median(found.upper - found.lower)
        assert (fitted.release_.making.look is None) is (purpose == "covariance")
        assert fitted.release_.guarantee.epsilon <= 1
    assert width["both"] < width["covariance"] / 4
    assert width["relations"] < 1.5 * width["both"]


def test_intervals_of_regressions_cover():
    """150 intervals at 95 %: fewer than 132 have a chance of 1e-4."""
    truth = np.linalg.solve(collinear()[1:, 1:], collinear()[1:, 0])
    unit = np.geomspace(1, 100, D)
    covered = 0
    for seed in range(30):
        fitted = PrivateSparseCovariance(**USUAL).fit(rows_of(seed))
        found = fitted.regression(0, "all", ridge=0)
        true = truth * unit[0] / unit[1:]
        covered += int(((found.lower <= true) & (true <= found.upper)).sum())
    assert covered >= 132


def with_far_records(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw a target, and features of which the third has another effect in 2 % of the records."""
    X = rng.standard_normal((n, 5))
    far = 8 * (1 + X[:, 2] / 2) * (rng.random(n) < 0.02)
    y = X @ [0.5, -0.3, 0.2, 0.0, 0.1] + far + rng.standard_normal(n)
    return np.column_stack([y, X])


def test_intervals_cover_where_far_records_have_another_relation():
    """0.8 of the intervals do, and 6 of 14 with a chance of 1 - 1e-3; 0.03 if all loss is equal."""
    covered = 0
    for seed in range(14):
        fitted = PrivateSparseCovariance(**USUAL).fit(
            with_far_records(np.random.default_rng(seed), N)
        )
        found = fitted.regression(0, "all", ridge=0)
        covered += int(found.lower[2] <= 0.2 + 0.02 * 8 / 2 <= found.upper[2])
    assert covered >= 6


def first_matrix(values: np.ndarray, noise: float, tail: tuple[float, ...]) -> Uncertain:
    known, sd = np.ones(values.shape, dtype=bool), np.full(values.shape, noise)
    return Uncertain(np.arange(len(values)), values, sd, known, N, 0.0, np.array(tail))


def test_what_a_look_lost_is_seen_where_the_first_matrix_is_precise():
    values, shape = np.eye(3), 1e-9 * np.eye(3)
    first = first_matrix(np.diag([2.0, 1.0, 1.0]), 1e-9, (0.0, np.log(1.5), 0.0))
    found = what_is_lost(0.01, 5, values, shape, first)
    np.testing.assert_allclose(found, np.diag([1.01, 0.51, 0.01]), atol=1e-6)
    noisy = first_matrix(np.diag([2.0, 1.0, 1.0]), 10.0, (0.0, 0.0, 0.0))
    np.testing.assert_allclose(what_is_lost(0.01, 5, values, shape, noisy), 0.01 * values)


@pytest.mark.parametrize("of_look", [True, False])
def test_forms_add_up_to_weighted_traces(of_look):
    rng = np.random.default_rng(0)
    b, root = rng.standard_normal(D - 1), rng.standard_normal((D, D))
    part = first_matrix(collinear(), 0.1, (0.0,) * D)
    part = replace(part, noise_sd=np.abs(root + root.T), shape=root @ root.T if of_look else None)
    weights, tilde = root[1:, 1:] @ root[1:, 1:].T, np.concatenate([[1.0], -b])
    found = tilde @ part.of_traces(weights) @ tilde
    assert found == pytest.approx(np.trace(weights @ part.of_equations(b)))


def test_the_planning_figure_is_near_what_is_measured():
    """Medians of three releases of twelve columns are within a third of it."""
    d, n = 12, 40_000
    loadings = np.random.default_rng(3).standard_normal((d, 3))
    truth = loadings @ loadings.T + 0.3 * np.eye(d)
    own = np.sqrt(np.linalg.inv(np.linalg.inv(truth)[:1, :1])[0, 0])
    least = 1.96 * own * np.sqrt(np.linalg.inv(truth[1:, 1:]).diagonal() / n)
    for options in ({}, {"purpose": "relations"}, {"target": 0}):
        widths = []
        for seed in range(3):
            rows = np.random.default_rng(seed).standard_normal((n, d)) @ np.linalg.cholesky(truth).T
            found = (
                PrivateSparseCovariance(**USUAL, **options).fit(rows).regression(0, "all", ridge=0)
            )
            widths.append(np.median((found.upper - found.lower) / 2 / least))
        expected = expected_width(ReleaseInputs(n, d, 5, **USUAL).changed(**options))
        assert expected is not None
        assert 0.75 < np.median(widths) / expected < 1.33
    assert expected_width(ReleaseInputs(1_000, d, 5, **USUAL)) is None


# ---- a declared target ----


@pytest.mark.parametrize("ones", [True, False])
def test_a_step_finds_what_the_look_before_was_off_by(ones):
    """Without noise to speak of, the step is least squares, wherever the look was."""
    rows = np.random.default_rng(0).standard_normal((N, D)) @ np.linalg.cholesky(collinear()).T
    inputs, scale = ReleaseInputs(N, D, D, **USUAL).changed(target=2), np.ones(D)
    wrong = one_look(rows[: N // 20], 1.0, ones=ones)
    step = step_of_target(session_of(rows, 1.0, 1), inputs, scale, wrong, 1.0)
    given = np.column_stack([np.delete(rows, 2, axis=1), np.ones(N)])[:, : D - 1 + ones]
    truth = np.linalg.lstsq(given, rows[:, 2], rcond=None)[0]
    deviations = np.sqrt(step.noise_sd**2 + step.bias**2 + step.spread / N) * np.linalg.norm(
        step.root, axis=1
    )
    np.testing.assert_array_less(np.abs(step.coefficients - truth), 3 * deviations)
    before = -np.delete(step.basis[:, -1], 2) / step.basis[2, -1]
    assert np.linalg.norm(step.coefficients - truth) < 0.5 * np.linalg.norm(before - truth)


def test_intervals_of_a_declared_target_cover_and_are_shorter():
    """150 intervals at 95 %: fewer than 132 have a chance of 1e-4."""
    truth = np.linalg.solve(collinear()[1:, 1:], collinear()[1:, 0])
    unit = np.geomspace(1, 100, D)
    covered, widths = 0, []
    for seed in range(30):
        fitted = PrivateSparseCovariance(**USUAL, target=0).fit(rows_of(seed))
        found = fitted.regression(0)
        true = truth * unit[0] / unit[1:]
        covered += int(((found.lower <= true) & (true <= found.upper)).sum())
        widths.append(found.upper - found.lower)
    assert covered >= 132
    assert "declared" in found.ridge_reason
    others = PrivateSparseCovariance(**USUAL).fit(rows_of(0)).regression(0, "all", ridge=0)
    assert np.median(widths) < np.median(others.upper - others.lower)


def test_a_level_that_is_left_out_is_what_others_are_compared_with():
    """Levels add up to one: coefficients are theirs less that of the last."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, N)
    x, noise = rng.standard_normal((2, N))
    effect = np.array([1.0, 0.0, -1.0])[level]
    names = ["y", "x", "g=a", "g=b", "g=c"]
    frame = pd.DataFrame(
        np.column_stack([x + effect + noise, x, *(level == each for each in range(3))]),
        columns=names,
    )
    bounds = dict.fromkeys(names[2:], (0, 1))
    fitted = PrivateSparseCovariance(epsilon=3.0, delta=1e-6, target="y", bounds=bounds).fit(frame)
    found = fitted.regression("y", "all")
    assert found.features == ("x", "g=a", "g=b")
    np.testing.assert_allclose(found.coefficients, [1, 2, 1], atol=0.15)


@pytest.mark.parametrize("target", ["age", -1, 6, 1.5])
def test_a_target_that_there_is_not_is_refused_before_anything_is_read(target):
    with pytest.raises(ParameterError, match="target must be"):
        PrivateSparseCovariance(**USUAL, target=target).fit(rows_of(0))


# ---- a basis that was given ----


@pytest.mark.parametrize("given", ["covariance", "release", "folder"])
def test_a_basis_from_before_makes_looks_more_precise(given, tmp_path):
    columns = list("abcdef")
    early, late = (pd.DataFrame(rows_of(seed), columns=columns) for seed in (0, 1))
    release = PrivateSparseCovariance(epsilon=4.0, delta=1e-6).fit(early[columns[::-1]]).release_
    basis = {
        "covariance": lambda: np.cov(early.to_numpy().T),
        "release": lambda: release,
        "folder": lambda: release.write(tmp_path / "release"),
    }[given]()
    sizes = []  # of the noise of the last look, over the covariance
    for known in (None, basis):
        est = PrivateSparseCovariance(epsilon=0.4, delta=1e-6, basis=known)
        made = [clone(est).fit(late).release_.making.look.moments for _ in range(40)]
        noise = [np.trace(np.linalg.solve(each.values, each.noise)) for each in made]
        sizes.append(np.mean(np.sqrt(noise)))
    assert sizes[1] < sizes[0]


OTHERS = [np.eye(D - 1), np.arange(D * D).reshape(D, D), np.full((D, D), np.nan)]


@pytest.mark.parametrize("basis", OTHERS)
def test_a_basis_of_other_columns_is_refused(basis):
    with pytest.raises(ParameterError, match="basis must be"):
        PrivateSparseCovariance(**USUAL, basis=basis).fit(rows_of(0))


def test_a_mean_of_both_is_better_than_either():
    truth = collinear()
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(truth)
    root = (vectors * np.sqrt(values)) @ vectors.T

    def noise(size: float) -> np.ndarray:
        upper = np.triu(rng.standard_normal((D, D)), 1)
        return size * (upper + upper.T + np.diag(rng.standard_normal(D) * np.sqrt(2)))

    errors = []
    for _ in range(40):
        first, second = truth + noise(0.05), np.eye(D) + noise(0.05)
        integers = np.rint(second * 2**20).astype(np.int64)
        sd = 0.05, 0.05 * np.sqrt(2)
        look = FurtherLook(np.arange(D), np.linalg.inv(root), integers, 2.0**-20, sd, 1.0, 0.0, 1.0)
        mean, left = averaged(first, sd, look)
        assert left[0] <= sd[0]
        assert left[1] <= sd[1]
        found = first, look.moments.values, mean
        errors.append([np.linalg.norm(each - truth) for each in found])
    first, second, mean = np.mean(errors, axis=0)
    assert mean < 0.95 * min(first, second)


# ---- on disk ----


def test_a_release_with_a_look_is_read_as_it_was_written(tmp_path):
    fitted = PrivateSparseCovariance(**USUAL, target=1).fit(rows_of(0))
    assert fitted.release_.making.step is not None
    folder = fitted.release_.write(tmp_path / "release")
    again = Release.read(folder)
    assert again == fitted.release_
    assert again.making.look == fitted.release_.making.look
    other = replace(again.making.look, unit=2 * again.making.look.unit)
    assert again != replace(again, making=replace(again.making, look=other))


def test_a_damaged_look_is_refused(tmp_path):
    from hushcov.release.schema import describe, rebuild

    release = PrivateSparseCovariance(**USUAL).fit(rows_of(0)).release_
    for field, value in (("basis", [[1.0]]), ("kept", 0.0), ("products", [[1, 2], [3, 4]])):
        described = describe(release)
        stored = {
            name: getattr(each, "tolist", lambda e=each: e)()
            for name, each in described["making"]["look"].items()
        }
        described["making"]["look"] = stored | {field: value}
        with pytest.raises(DamagedReleaseError, match="look"):
            rebuild(described, release.integers)


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateSparseCovariance(**USUAL, sparse_output=True),
        PrivateSparseCovariance(**USUAL, bandwidth=1),
        PrivateSparseCovariance(**USUAL, mechanism="screened", row_sparsity=2),
        GaussianCovariance(**USUAL, threshold="universal"),
        GaussianCovariance(**USUAL, bandwidth=1),
    ],
)
@pytest.mark.parametrize(
    "given", [{"purpose": "relations"}, {"target": 0}, {"basis": np.eye(D)}], ids=repr
)
def test_options_about_looks_are_refused_where_there_are_none(estimator, given):
    with pytest.raises(ParameterError, match=f"{next(iter(given))} must be left out"):
        clone(estimator).set_params(**given).fit(rows_of(0))


def test_a_mean_is_of_all_records_where_some_miss_a_value():
    """The first matrix counts these as zeros, and a look does not."""
    truth, sd = collinear(), (0.05, 0.05 * np.sqrt(2))
    values, vectors = np.linalg.eigh(truth)
    basis = (vectors / np.sqrt(values)) @ vectors.T
    integers = np.rint(np.eye(D) * 2**20).astype(np.int64)
    noise = 0.05, 0.05 * np.sqrt(2)
    look = FurtherLook(np.arange(D), basis, integers, 2.0**-20, noise, 1.0, 0.0, 1.0)
    mean, _ = averaged(0.8 * truth, sd, look, 0.8)
    np.testing.assert_allclose(mean, 0.8 * truth, atol=1e-5)
    assert np.abs(averaged(0.8 * truth, sd, look)[0] - 0.8 * truth).max() > 1e-3


@pytest.mark.parametrize("seen", [0.0, 0.05, -0.05])
def test_a_bound_is_what_a_release_can_hold_whatever_noise_made_of_the_counts(seen):
    rng = np.random.default_rng(0)
    squares = 20 * np.exp2(np.arange(-3, 4, 0.25))
    for _ in range(50):
        parts = rng.normal(seen, 0.1, len(squares))
        parts += (0.2 - parts.sum()) / len(parts)
        bound = choose_bound(squares, parts, 20, 2_000, 0.2)
        assert 0 < bound.kept <= 1
        assert 0 <= bound.pull < 1
        assert bound.spread > 0
        assert bound.square > 0
