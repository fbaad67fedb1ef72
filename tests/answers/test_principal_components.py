import math
from dataclasses import replace

import numpy as np
import pytest
from answer_documents import document, fewest, sparse_document

from hushcov import PrivateSparseCovariance
from hushcov.answers.components import components
from hushcov.exceptions import ParameterError, SeededNoiseWarning
from hushcov.release.document import Structure
from hushcov.simulate import structured_covariance

CHAIN = structured_covariance("ar-0.8", 6)
SCALED = CHAIN * np.multiply.outer(*[np.geomspace(1, 3, 6)] * 2)
NAMES = ("age", "height", "weight", "pulse", "pressure", "sugar")


def eigen(matrix):
    values, vectors = np.linalg.eigh(matrix)
    vectors = vectors[:, ::-1]
    sizes = np.abs(vectors)
    largest = np.argmax(sizes > sizes.max(axis=0) - 1e-6, axis=0)
    return values[::-1], vectors * np.sign(vectors[largest, np.arange(len(vectors))])


@pytest.mark.parametrize("correlation", [True, False])
def test_without_noise_it_is_what_numpy_says(correlation):
    found = components(document(SCALED, n=10**15), 6, correlation=correlation)
    values, vectors = eigen(CHAIN if correlation else SCALED)
    np.testing.assert_allclose(found.variance, values, rtol=1e-6)
    np.testing.assert_allclose(found.share, values / values.sum(), rtol=1e-6)
    np.testing.assert_allclose(found.loadings, vectors, atol=1e-6)
    np.testing.assert_array_equal(found.stands_out, values > values.mean())
    assert found.angle[:4].max() < 1e-3
    ends = found.variance_interval[:4] / found.variance[:4, None]
    np.testing.assert_allclose(ends, 1, rtol=1e-5)


def inside(ends, truth, times=1.0):
    """Whether intervals, made narrower by `times`, have the truth."""
    middle, half = ends.mean(axis=-1), times * np.ptp(ends, axis=-1) / 2
    return np.abs(truth - middle) <= half


@pytest.mark.parametrize(
    ("correlation", "n", "noise"),
    [(True, 10_000, 0.02), (False, 10_000, 0.02), (True, 1_000, 0.001)],
)
def test_intervals_cover_and_half_of_them_would_not(correlation, n, noise):
    """False alarms: 1e-6 for each of the four, which all reject half the width."""
    rng = np.random.default_rng(1)
    truth = CHAIN if correlation else SCALED
    values, vectors = eigen(truth)
    runs, hits = 120, np.zeros((4, 2))
    for _ in range(runs):
        found = components(document(SCALED, n=n, noise=noise, rng=rng), 2, correlation=correlation)
        sign = np.sign(found.loadings[:, 0] @ vectors[:, 0])
        turned = abs(found.loadings[:, 0] @ vectors[:, 0])
        angle = math.degrees(math.acos(min(1.0, turned)))
        for at, times in enumerate((1.0, 0.5)):
            hits[0, at] += inside(found.variance_interval[0], values[0], times)
            hits[1, at] += inside(found.share_interval[1], values[1] / values.sum(), times)
            hits[2, at] += inside(found.loading_interval[0, 0], sign * vectors[0, 0], times)
            hits[3, at] += angle <= times * found.angle[0]
    assert (hits[:, 0] >= fewest(runs)).all(), hits
    assert (hits[:, 1] < fewest(runs)).all(), hits


def test_what_noise_adds_is_taken_off():
    """One strong factor of 60 features: the raw eigenvalue is too large, the answer is not."""
    rng = np.random.default_rng(2)
    truth = 0.95 * np.eye(60) + 0.05
    noise, top = 0.1, np.linalg.eigvalsh(truth)[-1]
    raw, found = [], []
    for _ in range(40):
        release = document(truth, n=10**9, noise=noise, rng=rng)
        raw.append(np.linalg.eigvalsh(release.covariance())[-1])
        found.append(components(release, 1, correlation=False).variance[0])
    error = 5 * 2**0.5 * noise / 40**0.5  # five deviations of a mean
    assert abs(np.mean(found) - top) < error
    assert abs(np.mean(raw) - top) > error


def test_components_that_are_noise_do_not_stand_out_and_strong_ones_do():
    """Once in a thousand a component of independent features does: 5 of 60 are an alarm."""
    rng = np.random.default_rng(3)
    releases = [document(np.eye(8), noise=0.03, rng=rng) for _ in range(60)]
    found = [components(release) for release in releases]
    assert sum(each.n_standing_out > 0 for each in found) < 5
    nothing = next(each for each in found if each.n_standing_out == 0)
    assert nothing.loadings.shape == (8, 0)
    assert len(nothing.table()["loading"]) == len(nothing.summary()["share"]) == 0
    assert "No component stands out" in nothing.notes[-1]
    strong = components(document(CHAIN, noise=0.03, rng=rng))
    assert strong.n_standing_out == len(strong.variance) >= 1
    assert "those that stand out" in strong.notes[-1]


def test_few_components_of_a_table_of_many_related_columns_stand_out():
    """All eigenvalues of a chain differ beyond the noise; only the first exceed the mean."""
    chain, rng = structured_covariance("ar-0.8", 13), np.random.default_rng(5)
    expected = int(np.count_nonzero(eigen(chain)[0] > 1.1))
    found = components(document(chain, n=50_000, noise=0.005, rng=rng))
    assert found.n_standing_out == len(found.share) == expected <= 4
    shown = found.page().table
    first = np.abs(shown["loading"][shown["component"] == 1])
    assert np.all(np.diff(first) <= 0)


def test_equal_eigenvalues_have_no_direction_but_a_space():
    blocks = np.kron(np.eye(3), np.full((3, 3), 0.6) + 0.4 * np.eye(3))
    found = components(document(blocks, noise=0.01, rng=np.random.default_rng(4)))
    assert found.n_standing_out == 3
    assert found.angle[1] == found.span_angle[0] == found.span_angle[1] == 90
    assert found.span_angle[2] < 10
    assert (found.loading_interval[:, 1] == [-1, 1]).all()
    space = np.kron(np.eye(3), np.ones((3, 1)) / 3**0.5)
    cosines = np.linalg.svd(space.T @ found.loadings, compute_uv=False)
    assert math.degrees(math.acos(cosines.min())) <= found.span_angle[2]


def test_pairs_that_were_not_released_make_intervals_by_the_norm_of_the_error():
    blocks = np.kron(np.diag([1.0, 4.0, 9.0]), np.full((3, 3), 0.6) + 0.4 * np.eye(3))
    structure = Structure("sparse", 0, "few pairs", 0.02, 0.01, 0.05)
    release = sparse_document(blocks)
    release = replace(release, making=replace(release.making, structure=structure))
    found = components(release, 3, correlation=False)
    np.testing.assert_allclose(found.variance, [19.8, 8.8, 3.6], rtol=1e-6)
    half = 0.05 * 19.8
    np.testing.assert_allclose(np.ptp(found.variance_interval, axis=1), 2 * half, rtol=1e-6)
    gap = 11 - half
    assert found.angle[0] == pytest.approx(math.degrees(math.asin(half / gap)))
    assert "Not all pairs were released" in found.notes[-1]
    dense = replace(release, integers=release.integers.toarray())
    np.testing.assert_allclose(components(dense, 3, correlation=False).angle, found.angle)
    found = components(sparse_document(np.kron(np.eye(2), CHAIN)), 2)
    assert np.isnan(found.variance_interval).all()
    assert (found.loading_interval == [-1, 1]).all() or np.isnan(found.loading_interval).all()
    assert found.n_standing_out == 0
    assert "There are no intervals" in found.notes[-1]


def test_many_features_need_few_directions():
    """Beyond a thousand features only the first directions are computed."""
    truth = np.kron(np.diag(np.linspace(1, 2, 170)), CHAIN)
    structure = Structure("sparse", 0, "few pairs", 0.001, 0.0, 0.001)
    release = sparse_document(truth)
    release = replace(release, making=replace(release.making, structure=structure))
    found = components(release, 3, correlation=False)
    np.testing.assert_allclose(found.variance, eigen(truth)[0][:3], rtol=1e-6)
    assert found.loadings.shape == (1020, 3)
    release = document(SCALED, n=10**15, column_names=NAMES)
    found = components(release, 2, features=["sugar", "age", "pulse"])
    assert found.features.tolist() == ["sugar", "age", "pulse"]
    assert found.variance == pytest.approx(eigen(CHAIN[np.ix_([5, 0, 3], [5, 0, 3])])[0][:2])


def test_tables_and_projections():
    release = document(SCALED, column_names=NAMES, location=np.arange(6.0))
    found = components(release, 2)
    assert list(found.table()) == ["component", "feature", "loading", "lower", "upper"]
    assert found.table()["feature"][:7].tolist() == [*NAMES, NAMES[0]]
    assert found.table()["component"].tolist() == [1] * 6 + [2] * 6
    np.testing.assert_array_equal(found.table()["loading"][6:], found.loadings[:, 1])
    assert {"variance", "share", "angle", "stands_out"} <= set(found.summary())
    rows = np.arange(6.0) + np.vstack([np.zeros(6), found.unit * found.loadings[:, 1]])
    projected = found.transform(rows)
    np.testing.assert_allclose(projected, [[0, 0], [0, 1]], atol=1e-9)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=list(NAMES))[list(NAMES)[::-1]]
    np.testing.assert_allclose(found.transform(frame), projected)
    with pytest.raises(ParameterError, match="rows must have 6 columns"):
        found.transform(rows[:, 1:])
    with pytest.raises(ParameterError, match="the column 'age'"):
        found.transform(frame.drop(columns="age"))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"features": ["age", "hight"]}, "did you mean 'height'"),
        ({"features": ["age"]}, "at least 2"),
        ({"features": ["age", "age"]}, "one twice"),
        ({"n_components": 0}, "n_components must be"),
        ({"n_components": 7}, "n_components must be"),
        ({"level": 1.0}, "level must be"),
    ],
)
def test_bad_questions(asked, message):
    with pytest.raises(ParameterError, match=message):
        components(document(SCALED, column_names=NAMES), **asked)


def test_features_without_variance_are_left_out_or_refused():
    release = document(SCALED, noise=0.01, column_names=NAMES)
    scale, integers = release.feature_scale.copy(), release.integers.copy()
    scale[1] = 0.0  # constant
    integers[2, :] = integers[:, 2] = 0  # drowned in noise
    making = replace(release.making, unresolved=(4,))
    release = replace(release, feature_scale=scale, integers=integers, making=making)
    found = components(release, 1)
    assert found.left_out == ("height", "weight", "pressure")
    assert found.features.tolist() == ["age", "pulse", "sugar"]
    assert "3 features left out" in found.notes[0]
    with pytest.raises(ParameterError, match="'height', 'pressure' have none"):
        components(release, features=["age", "height", "pressure"])


def test_features_that_only_factors_show_are_kept_in_components_of_the_covariance():
    """Noise drowns the variance of each feature, and not what they all have in common."""
    generator = np.random.default_rng(6)
    basis = np.linalg.qr(generator.standard_normal((100, 2)))[0]
    X = (generator.standard_normal((3_000, 2)) * np.sqrt([10.0, 5.0])) @ basis.T
    X += 0.02 * generator.standard_normal(X.shape)
    with pytest.warns(SeededNoiseWarning):
        fitted = PrivateSparseCovariance(epsilon=1.0, delta=1e-5, random_state=3).fit(X)
    assert len(fitted.components(2).features) < 60  # correlations need variances
    found = fitted.components(2, correlation=False)
    assert (found.left_out, found.n_standing_out) == ((), 2)
    away = np.linalg.norm(basis - found.loadings @ (found.loadings.T @ basis), 2)
    assert np.degrees(np.arcsin(away)) < found.span_angle[1] < 25
    lower, upper = np.moveaxis(found.loading_interval, -1, 0)
    truth = basis * np.sign((basis * found.loadings).sum(axis=0))
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.85
