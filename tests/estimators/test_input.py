"""What goes in: every kind of table and of scales for every class, and data that are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from estimators.settings import (
    RECORDS,
    D,
    each_class,
    fit,
    setting,
)
from hushcov import ThresholdedCovariance
from hushcov.exceptions import DataError, ParameterError
from hushcov.tables.sources import ArrayRecords

NAMES = [f"gene {i}" for i in range(D)]
FRAME = pd.DataFrame(RECORDS, columns=NAMES)


def integers(name, X, **changes):
    """What is released, which a seed makes a function of the records."""
    return fit(setting(name, **changes), X).release_.integers


SAME = {
    "lists": RECORDS.tolist(),
    "pandas": FRAME,
    "polars": pl.DataFrame(RECORDS, schema=NAMES),
    "Fortran order": np.asfortranarray(RECORDS),
    "every second of twice the rows": np.repeat(RECORDS, 2, axis=0)[::2],
    "objects": RECORDS.astype(object),
    "pandas objects": FRAME.astype(object),
    "wider floats": RECORDS.astype(np.longdouble),
    "Records": ArrayRecords(RECORDS),
    "Records in blocks of 333": ArrayRecords(RECORDS, block_rows=333),
}


@each_class
def test_the_same_numbers_in_another_form_give_the_same_release(name, tmp_path):
    expected = integers(name, RECORDS)
    np.save(tmp_path / "X.npy", RECORDS)
    for X in (*SAME.values(), tmp_path / "X.npy", str(tmp_path / "X.npy")):
        np.testing.assert_array_equal(integers(name, X), expected)


@each_class
@pytest.mark.parametrize("frame", [FRAME, pl.DataFrame(RECORDS, schema=NAMES)])
def test_names_are_kept(name, frame):
    estimator = fit(setting(name), frame)
    np.testing.assert_array_equal(estimator.feature_names_in_, NAMES)
    table = estimator.labelled_covariance("pandas")
    assert list(table.index) == list(table.columns) == NAMES
    np.testing.assert_array_equal(table.to_numpy(), estimator.covariance_)
    table = estimator.labelled_covariance("polars")
    assert table.columns == ["feature", *NAMES]
    assert table["feature"].to_list() == NAMES
    np.testing.assert_array_equal(table.drop("feature").to_numpy(), estimator.covariance_)


def test_labels_where_there_are_no_names():
    estimator = fit(setting("gaussian"), FRAME.set_axis(range(D), axis=1))
    assert not hasattr(estimator, "feature_names_in_")
    assert list(estimator.labelled_covariance("pandas").columns) == [f"x{i}" for i in range(D)]
    with pytest.raises(ParameterError, match="library must"):
        estimator.labelled_covariance("excel")
    estimator = fit(setting("gaussian"), FRAME.rename(columns={"gene 3": "feature"}))
    assert estimator.labelled_covariance().columns[3] == "feature"
    with pytest.raises(ParameterError, match="called 'feature'"):
        estimator.labelled_covariance("polars")
    for each in (setting("gaussian"), ThresholdedCovariance()):
        with pytest.raises(DataError, match=r"gene 4.* more than once"):
            each.fit(FRAME.rename(columns={"gene 3": "gene 4"}))


def test_the_reference_without_privacy_takes_the_same_tables(tmp_path):
    expected = ThresholdedCovariance().fit(RECORDS)
    np.save(tmp_path / "X.npy", RECORDS)
    for X in (*SAME.values(), tmp_path / "X.npy"):
        estimator = ThresholdedCovariance().fit(X)
        np.testing.assert_array_equal(estimator.covariance_, expected.covariance_)
        assert estimator.n_features_in_ == D
    with pytest.raises(DataError, match="at least 2 records"):
        ThresholdedCovariance().fit(RECORDS[:1])


SCALES = 1.0 + np.arange(D) / 10


@each_class
def test_scales_come_in_any_form(name):
    expected = fit(setting(name, feature_scale=SCALES), RECORDS)
    series = pd.Series(SCALES, index=NAMES), pl.Series(SCALES)
    for scales in (SCALES.tolist(), tuple(SCALES), *series):
        estimator = fit(setting(name, feature_scale=scales), RECORDS)
        np.testing.assert_array_equal(estimator.feature_scale_, SCALES)
        np.testing.assert_array_equal(estimator.release_.integers, expected.release_.integers)
    for scale in (2, np.float32(2), np.full(D, 2), np.full(D, 2, dtype=object)):
        estimator = fit(setting(name, feature_scale=scale), RECORDS)
        np.testing.assert_array_equal(estimator.feature_scale_, np.full(D, 2.0))
