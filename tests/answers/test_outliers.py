"""Scores of rows from a release: their law, what is missing, and what noise drowns."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from answer_documents import document
from scipy import stats

from hushcov.answers.outliers import outlier_scores
from hushcov.exceptions import DataError, ParameterError
from hushcov.release.document import Making
from statistics_helpers import FALSE_ALARM

D = 4
SCALE = np.array([1.0, 10.0, 0.1, 2.0])
COVARIANCE = (np.full((D, D), 0.5) + 0.5 * np.eye(D)) * np.multiply.outer(SCALE, SCALE)
MEAN = np.array([1.0, -20.0, 0.3, 4.0])
NAMES = ("age", "weight", "pulse", "temp")


@pytest.fixture(scope="module")
def release():
    return document(COVARIANCE, n=10**12, location=MEAN, column_names=NAMES)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, 2_000)


def test_without_noise_they_are_mahalanobis_distances(release, rows):
    found = outlier_scores(release, rows)
    off = rows - MEAN
    precision = np.linalg.inv(COVARIANCE)
    np.testing.assert_allclose(found.distance, np.einsum("ri,ij,rj->r", off, precision, off), 1e-5)
    np.testing.assert_allclose(found.z, off @ precision / np.sqrt(np.diag(precision)), 1e-4, 1e-4)
    assert set(found.directions) == {D}
    assert found.n_left_out == 0
    assert stats.kstest(found.p_value, "uniform").pvalue > FALSE_ALARM
    # A covariance that is wrong by a fifth would be seen.
    wrong = stats.chi2.sf(1.2 * found.distance, D)
    assert stats.kstest(wrong, "uniform").pvalue < FALSE_ALARM


def test_the_column_that_is_off_is_named(release):
    found = outlier_scores(release, [MEAN + np.array([0, 0, 0.4, 0]), MEAN])
    table = found.table()
    assert table["feature"][0] == "pulse"
    assert table["p_value"][0] < 1e-4
    assert table["p_value"][1] == 1
    own = 0.1 * np.sqrt(1 - np.array([0.5] * 3) @ np.full(3, 0.25))
    assert table["z"][0] == pytest.approx(0.4 / own, rel=1e-4)


def test_missing_values_and_frames(release, rows):
    some = rows[:5].copy()
    some[0, 2] = np.nan
    some[1] = np.nan
    found = outlier_scores(release, some)
    part = outlier_scores(release, rows[:1, [0, 1, 3]], [0, 1, 3])
    assert found.distance[0] == pytest.approx(part.distance[0])
    assert found.directions.tolist() == [3, 0, 4, 4, 4]
    assert found.p_value[1] == 1
    assert np.isnan(found.z[0, 2])
    frame = pandas.DataFrame(rows[:3, ::-1], columns=NAMES[::-1]).assign(other="text")
    by_name = outlier_scores(release, frame)
    np.testing.assert_allclose(by_name.distance, outlier_scores(release, rows[:3]).distance)


def test_directions_that_noise_drowns_do_not_count():
    near = np.array([[1.0, 0.999, 0], [0.999, 1.0, 0], [0, 0, 1.0]])
    release = document(near, n=10_000, noise=0.05, location=np.zeros(3))
    found = outlier_scores(release, [[1.0, -1.0, 0.0]])
    assert found.n_left_out == 1
    assert found.directions[0] == 2
    assert found.p_value[0] > 0.5
    assert "cannot be told from noise" in found.warning


def test_bad_rows_are_refused_without_their_values(release):
    for rows, words in (
        ([[1.0, 2.0]], "4 columns"),
        ([[np.inf] * 4], "finite"),
        ([["secret"] * 4], "numbers"),
    ):
        with pytest.raises(DataError, match=words) as caught:
            outlier_scores(release, rows)
        assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match="'temp'"):
        outlier_scores(release, pandas.DataFrame({"age": [1.0]}), ["age", "temp"])
    with pytest.raises(ParameterError, match="means is required"):
        outlier_scores(document(COVARIANCE), [MEAN])
    lost = document(COVARIANCE, location=MEAN, making=Making(n_averaged=9, unresolved=(0, 1, 2, 3)))
    with pytest.raises(ParameterError, match="got none"):
        outlier_scores(lost, [MEAN])
