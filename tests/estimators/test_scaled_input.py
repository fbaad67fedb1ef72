"""What goes in: every kind of table and of scales, and refusals that come before any record."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from estimators.settings import BUDGET, ESTIMATORS, RECORDS, D, fit, make
from estimators.stand_ins import UntouchableRecords
from fuzz.cases import messages
from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov._validation import shown
from hushcov.accounting import calibrate_zcdp
from hushcov.exceptions import DataError, HushcovError, ParameterError
from hushcov.tables.sources import ArrayRecords

NAMES = [f"gene {i}" for i in range(D)]
FRAME = pd.DataFrame(RECORDS, columns=NAMES)
UNREAD = UntouchableRecords(len(RECORDS), D)
each_estimator = pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)


def integers(estimator, X):
    """What is released, which a seed makes a function of the records."""
    return fit(estimator, X).release_.integers


@pytest.fixture(scope="module", params=ESTIMATORS, ids=lambda cls: cls.__name__)
def plain(request):
    return request.param, integers(make(request.param), RECORDS)


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
    "Records in blocks of three": ArrayRecords(RECORDS, block_rows=3),
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_numbers_in_another_form_give_the_same_release(plain, kind):
    cls, expected = plain
    np.testing.assert_array_equal(integers(make(cls), SAME[kind]), expected)


def test_a_file_gives_the_same_release(plain, tmp_path):
    cls, expected = plain
    np.save(tmp_path / "X.npy", RECORDS)
    for path in (tmp_path / "X.npy", str(tmp_path / "X.npy")):
        np.testing.assert_array_equal(integers(make(cls), path), expected)


mixed = FRAME.assign(**{"gene 0": RECORDS[:, 0] > 0, "gene 1": (5 * RECORDS[:, 1]).astype(int)})


@each_estimator
@pytest.mark.parametrize(
    "X",
    [
        RECORDS.astype(np.float32),
        (20 * RECORDS).astype(np.int8),
        (20 * RECORDS).astype(np.int64),
        RECORDS > 0,
        mixed,
        pl.DataFrame(mixed),
        (100 * FRAME).astype(int).astype("Int64"),
    ],
    ids=["float32", "int8", "int64", "booleans", "pandas mixed", "polars mixed", "pandas Int64"],
)
def test_other_numbers_are_taken_as_floats(cls, X):
    table = np.asarray(X).astype(np.float64)
    np.testing.assert_array_equal(integers(make(cls), X), integers(make(cls), table))


@each_estimator
@pytest.mark.parametrize("frame", [FRAME, pl.DataFrame(RECORDS, schema=NAMES)])
def test_names_are_kept(cls, frame):
    estimator = fit(make(cls), frame)
    np.testing.assert_array_equal(estimator.feature_names_in_, NAMES)
    table = estimator.labelled_covariance("pandas")
    assert list(table.index) == list(table.columns) == NAMES
    np.testing.assert_array_equal(table.to_numpy(), estimator.covariance_)
    table = estimator.labelled_covariance("polars")
    assert table.columns == ["feature", *NAMES]
    assert table["feature"].to_list() == NAMES
    np.testing.assert_array_equal(table.drop("feature").to_numpy(), estimator.covariance_)


@pytest.mark.parametrize("make_arrow", [pa.table, pa.record_batch])
def test_arrow_tables_are_fitted_by_name(make_arrow):
    table = make_arrow({name: FRAME[name].to_numpy() for name in NAMES})
    estimator, same = fit(make(GaussianCovariance), table), fit(make(GaussianCovariance), FRAME)
    np.testing.assert_array_equal(estimator.feature_names_in_, NAMES)
    np.testing.assert_array_equal(estimator.covariance_, same.covariance_)
    assert estimator.log_likelihood(table) == pytest.approx(same.log_likelihood(FRAME))


def test_labels_where_there_are_no_names():
    estimator = fit(make(GaussianCovariance), FRAME.set_axis(range(D), axis=1))
    assert not hasattr(estimator, "feature_names_in_")
    assert list(estimator.labelled_covariance("pandas").columns) == [f"x{i}" for i in range(D)]
    with pytest.raises(ParameterError, match="library must"):
        estimator.labelled_covariance("excel")


def test_names_that_make_trouble_are_refused():
    estimator = fit(make(GaussianCovariance), FRAME.rename(columns={"gene 3": "feature"}))
    assert estimator.labelled_covariance().columns[3] == "feature"
    with pytest.raises(ParameterError, match="called 'feature'"):
        estimator.labelled_covariance("polars")
    with pytest.raises(DataError, match=r"gene 4.* more than once"):
        make(GaussianCovariance).fit(FRAME.rename(columns={"gene 3": "gene 4"}))


# Every value holds these digits, so that a leak of any of them is seen.
SECRET = "73737"
ROWS = 73737.0 + 1e-3 * np.arange(40).reshape(20, 2)
BAD_DATA = {
    "one dimension": ROWS[:, 0],
    "three dimensions": ROWS[None],
    "no records": ROWS[:0],
    "no features": ROWS[:, :0],
    "strings": ROWS.astype(str),
    "bytes": ROWS.astype(str).astype(bytes),
    "complex": ROWS + 1j * ROWS,
    "sparse": sparse.csr_array(ROWS),
    "masked": np.ma.masked_array(ROWS, mask=ROWS > 73737.005),
    "objects that are words": np.array([["ab73737", 1.0], [2.0, 3.0]], dtype=object),
    "words in pandas": pd.DataFrame({"a": ["73737", "b"], "b": [1.0, 2.0]}),
    "missing in pandas": pd.DataFrame(ROWS.astype(int)).astype("Int64").mask(ROWS > 73737.005),
    "missing in polars": pl.DataFrame({"a": [73737.0, None], "b": [1.0, 2.0]}),
    "dates": np.full((4, 2), "1973-07-03", dtype="datetime64[D]"),
    "ragged": [[73737.0, 1.0], [73737.0]],
    "a dictionary": {"a": [73737.0, 1.0]},
    "a generator": (row for row in ROWS),
    "nothing": None,
    "NaN": np.where(np.arange(20)[:, None] == 19, np.nan, ROWS),
    "infinite": np.where(np.arange(20)[:, None] == 0, -np.inf, ROWS),
    "NaN in the last record": np.concatenate([ROWS, [[np.nan, 73737.0]]]),
}


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@pytest.mark.parametrize("cls", [GaussianCovariance, ScreenedCovariance])
@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_refused_without_a_value_and_nothing_is_released(monkeypatch, cls, name):
    """Noise is drawn after the first pass over the records, which is what finds NaN."""
    for module in (
        "steps.scales",
        "mechanisms.gaussian.mechanism",
        "mechanisms.screened.values",
    ):
        monkeypatch.setattr(f"hushcov.{module}.rounded_normal", None)
    estimator = make(cls, row_sparsity=1, on_hopeless="warn")
    with pytest.raises(DataError) as info:
        estimator.fit(BAD_DATA[name])
    assert not any(SECRET in text for text in messages(info.value))
    assert not [name for name in vars(estimator) if name.endswith("_")]


def test_a_missing_or_foreign_file_is_refused(tmp_path):
    for path in (tmp_path / "none.npy", tmp_path / "table.csv", str(tmp_path)):
        with pytest.raises(DataError, match=str(tmp_path)):
            make(ScreenedCovariance).fit(path)


SCALES = 1.0 + np.arange(D) / 10


@each_estimator
@pytest.mark.parametrize(
    "scales",
    [SCALES.tolist(), tuple(SCALES), pd.Series(SCALES, index=NAMES), pl.Series(SCALES)],
    ids=["list", "tuple", "pandas", "polars"],
)
def test_scales_come_in_any_form(cls, scales):
    expected = fit(make(cls, feature_scale=SCALES), RECORDS)
    estimator = fit(make(cls, feature_scale=scales), RECORDS)
    np.testing.assert_array_equal(estimator.feature_scale_, SCALES)
    np.testing.assert_array_equal(estimator.release_.integers, expected.release_.integers)


@each_estimator
@pytest.mark.parametrize("scale", [2, np.float32(2), np.full(D, 2), np.full(D, 2, dtype=object)])
def test_one_scale_for_all(cls, scale):
    estimator = fit(make(cls, feature_scale=scale), RECORDS)
    np.testing.assert_array_equal(estimator.feature_scale_, np.full(D, 2.0))


@each_estimator
def test_a_scale_of_zero_marks_a_constant_feature(cls):
    """Its entries are zero without noise, and nobody else's change."""
    scales = np.ones(D)
    scales[[2, 7]] = 0.0
    estimator = fit(make(cls, feature_scale=scales, positive_semidefinite=True), RECORDS)
    assert not estimator.covariance_[[2, 7]].any()
    assert not np.signbit(estimator.covariance_[[2, 7]]).any()
    noise, (lower, upper) = estimator.noise_sd_, estimator.covariance_interval()
    for matrix in (noise, lower, upper):
        np.testing.assert_array_equal(matrix[[2, 7], [2, 7]], 0.0)
    others = np.delete(np.arange(D), [2, 7])
    np.testing.assert_allclose(np.diag(estimator.covariance_)[others], 1.0, atol=0.25)
    np.testing.assert_allclose(estimator.get_precision()[2], 0.0, atol=1e-12)


@each_estimator
@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (np.ones(D - 1), r"one for each of 10 features, got shape \(9,\)"),
        (np.ones((D, 1)), r"got shape \(10, 1\)"),
        ([[1.0], [1.0, 2.0]], "got list"),
        (-1.0, " be 0"),
        (np.nan, " be 0"),
        (np.where(np.arange(D) == 3, np.inf, 1.0), " be 0"),
        (1e-200, " be 0"),
        ([None] * D, " be 0"),
        ("1.0", "got str"),
        (True, "got bool"),
        (np.ones(D, dtype=bool), "got ndarray"),
        (np.ones(D) + 1j, "got ndarray"),
        (np.ma.masked_array(np.ones(D), mask=np.eye(D)[0]), "got MaskedArray"),
        ({"gene 0": 1.0}, "got dict"),
    ],
)
def test_scales_that_mean_nothing_are_refused_unread(cls, scale, message):
    with pytest.raises(ParameterError, match=f"feature_scale must.*{message}"):
        make(cls, feature_scale=scale).fit(UNREAD)


@each_estimator
def test_known_scales_spend_nothing(cls):
    known = make(cls, feature_scale=1.0, assume_centered=True)
    assert known.public_inputs(1000, D).before == 0


@each_estimator
def test_the_share_chosen_falls_with_the_number_of_records(cls):
    rho = calibrate_zcdp(BUDGET["epsilon"], BUDGET["delta"])
    estimator = make(cls, assume_centered=True)
    shares = [estimator.public_inputs(n, D).before ** 2 / 2 / rho for n in (1, 10**4, 10**6)]
    assert shares[0] == pytest.approx(0.2, rel=1e-6, abs=0)
    assert shares[0] > shares[1] > 50 * shares[2] > 0


EVERYWHERE = {
    "epsilon": [None, 0, -1.0, 10.5, math.nan, math.inf, "1", True, [1.0], np.ones(2)],
    "delta": [None, 0, 0.2, 1, math.nan, "1e-6", [1e-6], np.array([1e-6])],
    "row_sparsity": [0, D + 1, 2.0, "2", True, [2], np.arange(3)],
    "positive_semidefinite": [1, "no", None],
    "store_precision": [0, "yes", None],
    "assume_centered": [0, "no", None],
    "random_state": [-1, 1.5, "seed", True, [1]],
}
ITS_OWN = {
    GaussianCovariance: {
        "row_norm": [0, -1.0, math.inf, "5", True, [5.0]],
        "threshold": [-0.1, math.nan, math.inf, "auto", True, False, [0.1]],
    },
    ScreenedCovariance: {
        "row_sparsity": [None],
        "threshold": [-1, math.nan, 101, "universal", True, False, [3.0]],
    },
    PrivateSparseCovariance: {
        "mechanism": ["best", None, ["auto"]],
    },
}
BAD_PARAMETERS = [
    (cls, name, value)
    for cls in ESTIMATORS
    for table in (EVERYWHERE, ITS_OWN[cls])
    for name, values in table.items()
    for value in values
]


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize(("cls", "name", "value"), BAD_PARAMETERS)
def test_bad_parameters_are_refused_before_any_record_is_read(cls, name, value):
    """With the name of the parameter, what it was, and no trace of a fit."""
    estimator = make(cls, **{name: value})
    with pytest.raises(ParameterError, match=f"{name} (must be|is required)") as info:
        estimator.fit(UNREAD)
    assert value is None or shown(value) in str(info.value)
    assert ": " in str(info.value)  # a cure follows
    assert vars(estimator) == vars(make(cls, **{name: value}))


def test_parameters_that_belong_together():
    with pytest.raises(ParameterError, match="n_features = 10"):
        make(ScreenedCovariance, row_sparsity=11).fit(UNREAD)


@each_estimator
def test_good_parameters_go_on_to_read(cls):
    with pytest.raises(AssertionError, match="records were read"):
        make(cls).fit(UNREAD)


@pytest.mark.parametrize("size", [(0, 5), (5.0, 5), ("5", 5), (5, 0), (5, "5"), (5, True), (5, 1)])
@pytest.mark.parametrize("cls", [ScreenedCovariance, PrivateSparseCovariance])
def test_sizes_that_mean_nothing_cannot_be_planned(cls, size):
    with pytest.raises(HushcovError, match=r"n_records|n_features"):
        make(cls).plan(*size)
