"""What goes in: every kind of table and of scales for every class, and data that are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from estimators.settings import (
    BUDGET,
    RECORDS,
    SETTINGS,
    D,
    each_class,
    fit,
    setting,
)
from fuzz.cases import messages
from hushcov import MultiscaleCovariance, ThresholdedCovariance
from hushcov.exceptions import DataError, HushcovError, ParameterError
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


# Every value holds these digits, so that a leak of any of them is seen.
SECRET = "73737"
ROWS = 73737.0 + 1e-3 * np.arange(40).reshape(20, 2)
BAD_DATA = {
    "one dimension": ROWS[:, 0],
    "three dimensions": ROWS[None],
    "no dimension": ROWS[0, 0],
    "no records": ROWS[:0],
    "no features": ROWS[:, :0],
    "strings": ROWS.astype(str),
    "bytes": ROWS.astype(str).astype(bytes),
    "complex": ROWS + 1j * ROWS,
    "sparse": sparse.csr_array(ROWS),
    "masked": np.ma.masked_array(ROWS, mask=ROWS > 73737.005),
    "objects that are words": np.array([["ab73737", 1.0], [2.0, 3.0]], dtype=object),
    "objects that are lists": [[73737.0, 2.0], [[73737.0], 3.0]],
    "words in pandas": pd.DataFrame({"a": ["73737", "b"], "b": [1.0, 2.0]}),
    "missing in pandas": pd.DataFrame(ROWS.astype(int)).astype("Int64").mask(ROWS > 73737.005),
    "missing in polars": pl.DataFrame({"a": [73737.0, None], "b": [1.0, 2.0]}),
    "dates": np.full((4, 2), "1973-07-03", dtype="datetime64[D]"),
    "ragged": [[73737.0, 1.0], [73737.0]],
    "a dictionary": {"a": [73737.0, 1.0]},
    "a generator": (row for row in ROWS),
    "nothing": None,
}
NOT_FINITE = {
    "NaN": np.where(np.arange(20)[:, None] == 19, np.nan, ROWS),
    "infinite": np.where(np.arange(20)[:, None] == 0, -np.inf, ROWS),
    "NaN in the last record": np.concatenate([ROWS, [[np.nan, 73737.0]]]),
}
READING = {
    **{name: lambda name=name: setting(name, row_sparsity=1) for name in SETTINGS},
    "thresholded": ThresholdedCovariance,
    "multiscale": lambda: MultiscaleCovariance(**BUDGET | {"row_sparsity": 1}, scale=1.0),
}
SAMPLERS = (
    *(f"hushcov.kernel.session.{name}" for name in ("rounded_normal", "symmetric_noise")),
    "hushcov_lab.peers.separate.rounded_normal",
    *(f"hushcov_lab.peers.row_top_k.{name}" for name in ("gumbel_top", "rounded_normal")),
    *(f"hushcov_lab.peers.pace.{name}" for name in ("gumbel_top", "rounded_normal")),
    *(f"hushcov_lab.peers.eigen_sampling.{name}" for name in ("discrete_laplace", "Bingham")),
)


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@pytest.mark.parametrize("name", READING)
def test_bad_data_are_refused_without_a_value_and_nothing_is_drawn(monkeypatch, name):
    """Noise is drawn after the first pass over the records, which is what finds NaN."""
    for sampler in SAMPLERS:
        monkeypatch.setattr(sampler, None)
    # The theorem of the paper refuses so few records before it reads them.
    for what, X in (BAD_DATA | ({} if name == "multiscale" else NOT_FINITE)).items():
        estimator = READING[name]()
        known = {"on_hopeless": "warn", "drop_nulls": False}
        estimator.set_params(**{n: known[n] for n in known if n in estimator.get_params()})
        with pytest.raises(DataError if name != "multiscale" else HushcovError) as info:
            estimator.fit(X)
        assert not any(SECRET in text for text in messages(info.value)), what
        assert not {"covariance_", "release_", "parameters_"} & set(vars(estimator))


@pytest.mark.parametrize("name", ["screened", "multiscale"])
def test_a_missing_or_foreign_file_is_refused(name, tmp_path):
    for path in (tmp_path / "none.npy", tmp_path / "table.csv", str(tmp_path)):
        with pytest.raises(DataError, match=str(tmp_path)):
            READING[name]().fit(path)


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
