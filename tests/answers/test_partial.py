from dataclasses import replace

import numpy as np
import pytest
from answer_documents import document, fewest, sparse_document
from scipy import stats

from hushcov.answers.partial import partial_correlations
from hushcov.exceptions import ParameterError
from hushcov.simulate import structured_covariance
from statistics_helpers import FALSE_ALARM

CHAIN = structured_covariance("ar-0.5", 5)
SCALED = CHAIN * np.multiply.outer(*[np.geomspace(1, 30, 5)] * 2)
NAMES = ("age", "height", "weight", "pulse", "sugar")
OFF = ~np.eye(5, dtype=bool)


def partials(matrix):
    inverse = np.linalg.inv(matrix)
    unit = np.sqrt(np.diag(inverse))
    found = -inverse / np.multiply.outer(unit, unit)
    np.fill_diagonal(found, 1.0)
    return found


def test_without_noise_it_is_the_inverse():
    found = partial_correlations(document(SCALED, n=10**15, column_names=NAMES))
    np.testing.assert_allclose(found.matrix, partials(CHAIN), atol=1e-6)
    np.testing.assert_allclose(found.lower[OFF], found.upper[OFF], atol=1e-5)
    assert found.warning == ""
    np.testing.assert_array_equal(found.edges, np.abs(np.subtract.outer(*[range(5)] * 2)) == 1)
    table = found.table()
    assert list(table) == [
        "feature_1",
        "feature_2",
        "partial_correlation",
        "lower",
        "upper",
        "edge",
        "noise",
    ]
    assert table["edge"].tolist() == [True] * 4 + [False] * 6
    some = partial_correlations(document(SCALED, n=10**15), ["x0", "x2", "x4"])
    np.testing.assert_allclose(some.matrix, partials(CHAIN[::2, ::2]), atol=1e-6)


@pytest.mark.parametrize(("n", "noise"), [(10_000, 0.015), (1_000, 0.001)])
def test_intervals_cover_and_half_of_them_would_not(n, noise):
    """False alarms: 1e-6 for an edge and for a pair that is none."""
    rng = np.random.default_rng(1)
    truth, runs = partials(CHAIN), 120
    hits = np.zeros((2, 2))
    for _ in range(runs):
        found = partial_correlations(document(SCALED, n=n, noise=noise, rng=rng))
        for at, pair in enumerate([(1, 2), (0, 3)]):
            low, value, high = (m[pair] for m in (found.lower, found.matrix, found.upper))
            hits[at, 0] += low <= truth[pair] <= high
            hits[at, 1] += (low + value) / 2 <= truth[pair] <= (value + high) / 2
    assert (hits[:, 0] >= fewest(runs)).all(), hits
    assert (hits[:, 1] < fewest(runs)).all(), hits


def test_few_graphs_of_independent_features_have_an_edge():
    """At most 0.05 of all; without the correction for 28 pairs it would be half of them."""
    rng, runs = np.random.default_rng(2), 150
    most = stats.binom.isf(FALSE_ALARM, runs, 0.06)
    edges, alone = 0, 0
    for _ in range(runs):
        found = partial_correlations(document(np.eye(8), noise=0.01, rng=rng))
        edges += found.edges.any()
        alone += bool(((found.lower > 0) | (found.upper < 0)).any())
    assert edges <= most < alone


def test_what_noise_adds_to_an_inverse_is_taken_off():
    """Noise pulls partial correlations towards zero; the mean of the answers is not pulled."""
    rng = np.random.default_rng(3)
    truth, noise = structured_covariance("ar-0.5", 30), 0.012
    strong = np.eye(30, k=1, dtype=bool)
    raw, found = [], []
    for _ in range(40):
        release = document(truth, n=10**9, noise=noise, rng=rng)
        raw.append(partials(release.covariance())[strong].mean())
        found.append(partial_correlations(release).matrix[strong].mean())
    error = 5 * np.std(found) / 40**0.5
    wanted = partials(truth)[strong].mean()
    assert abs(np.mean(found) - wanted) < error
    assert abs(np.mean(raw) - wanted) > error


def test_noise_is_said_and_has_no_values():
    release = document(CHAIN, noise=0.15, rng=np.random.default_rng(4), column_names=NAMES)
    found = partial_correlations(release)
    assert found.noise[OFF].all()
    assert np.isnan(found.matrix[OFF]).all()
    assert np.isnan(found.lower[OFF]).all()
    assert not found.edges.any()
    assert "noise for 5 of 5 features" in found.warning
    assert found.table()["noise"].all()
    blocks = np.kron(np.eye(20), np.array([[1, 0.6], [0.6, 1]]))
    found = partial_correlations(document(blocks, noise=0.04, rng=np.random.default_rng(5)))
    assert np.bincount(found.groups).tolist() == [2] * 20
    pair = np.arange(0, 40, 2)
    assert (np.abs(found.matrix[pair, pair + 1] - 0.6) < 0.3).all()
    assert np.isnan(found.matrix[0, 2])
    assert not found.noise.any()
    assert "20 groups" in found.notes[-1]
    assert len(found.table()["lower"]) == 20


def test_a_group_with_pairs_that_were_not_released_is_not_inverted():
    complete = np.full((3, 3), 0.5) + 0.5 * np.eye(3)
    part = np.array([[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]])
    truth = np.kron(np.diag([1.0, 0]), complete) + np.kron(np.diag([0, 1.0]), part)
    found = partial_correlations(sparse_document(truth))
    np.testing.assert_allclose(found.matrix[:3, :3], partials(complete), atol=1e-6)
    assert found.noise[3:, 3:].sum() == 6
    assert np.isnan(found.matrix[3, 4])
    assert "3 of 6 features" in found.warning


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"features": ["age", "hight"]}, "did you mean 'height'"),
        ({"features": ["age"]}, "at least 2"),
        ({"level": 0.0}, "level must be"),
    ],
)
def test_bad_questions(asked, message):
    with pytest.raises(ParameterError, match=message):
        partial_correlations(document(SCALED, column_names=NAMES), **asked)


def test_features_without_variance_and_releases_without_noise():
    release = document(SCALED, column_names=NAMES)
    scale = release.feature_scale.copy()
    scale[1] = 0.0
    release = replace(release, feature_scale=scale)
    assert partial_correlations(release).left_out == ("height",)
    with pytest.raises(ParameterError, match="'height' has none"):
        partial_correlations(release, ["age", "height", "sugar"])


@pytest.mark.parametrize("twins", [[(0, 12)], [(0, 12), (5, 11)]])
def test_a_near_duplicate_is_named_and_costs_no_other_column(twins):
    """A copy of a column, with a little added, leaves the partial correlations of the others."""
    d, rng = 13, np.random.default_rng(6)
    truth = structured_covariance("ar-0.5", d)
    for first, copy in twins:
        truth[copy], truth[:, copy] = truth[first], truth[:, first]
        truth[copy, copy] = 1.0005
    names = tuple(f"c{i}" for i in range(d))
    release = document(truth, n=50_000, noise=0.005, rng=rng, column_names=names)
    found = partial_correlations(release)
    lost = [copy for _, copy in twins]
    kept = [i for i in range(d) if i not in lost]
    assert not np.isnan(found.matrix[np.ix_(kept, kept)]).any()
    wanted = partials(truth[np.ix_(kept, kept)])
    assert np.abs(found.matrix[np.ix_(kept, kept)] - wanted).max() < 0.1
    for first, copy in twins:
        assert f"c{copy} is left out" in found.warning
        assert f"it from c{first}." in found.warning
        assert found.noise[copy, kept].all()
