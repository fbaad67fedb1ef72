"""Nothing tells a table without records from its neighbours, and no refusal how many there are."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from pyarrow import feather, parquet

from hushcov import GaussianCovariance, GenotypeCovariance, Ledger, PrivateSparseCovariance
from hushcov.exceptions import DataError, HushcovError, TooFewCompleteError
from hushcov.tables.codebook import read_codebook
from hushcov.tables.sources import open_records

N = 3_217
ROWS = np.random.default_rng(3).standard_normal((N, 3))
NONE = pd.DataFrame(ROWS[:0], columns=["age", "pulse", "height"])
ONE = pd.DataFrame(ROWS[:1], columns=NONE.columns)
OPTIONS = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "add-remove", "random_state": 1}
OPTIONS |= {"on_hopeless": "warn", "on_large_delta": "warn"}

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::hushcov.exceptions.{kind}")
    for kind in ("SeededNoiseWarning", "AccuracyWarning", "PrivacyWarning")
]


def estimator(**options):
    return PrivateSparseCovariance(**OPTIONS | options)


def written(table, path):
    if path.suffix == ".npy":
        np.save(path, table.to_numpy())
    elif path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".feather":
        feather.write_feather(pa.table(table), path)
    else:
        parquet.write_table(pa.table(table), path)
    return path


WAYS = {
    "array": lambda table, _: table.to_numpy(),
    "objects": lambda table, _: table.astype(object),
    "pandas": lambda table, _: table,
    "polars": lambda table, _: pl.from_pandas(table),
    "arrow": lambda table, _: pa.table(table),
    "tensor": lambda table, _: torch.tensor(table.to_numpy()),
    "dask": lambda table, _: dd.from_pandas(table, npartitions=1),
    "dask array": lambda table, _: da.from_array(table.to_numpy()),
    "npy": lambda table, folder: written(table, folder / "x.npy"),
    "csv": lambda table, folder: written(table, folder / "x.csv"),
    "parquet": lambda table, folder: written(table, folder / "x.parquet"),
    "feather": lambda table, folder: written(table, folder / "x.feather"),
    "folder": lambda table, folder: written(table, folder / "x.parquet").parent,
    "records": lambda table, _: open_records(table),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_record_and_one_are_released_alike(tmp_path, way):
    found = [estimator().fit(way(table, tmp_path)) for table in (NONE, ONE)]
    assert found[0].release_.making.n_records in range(1, 1_000)
    assert found[0].n_features_in_ == 3
    with pytest.raises(DataError, match=r"at least 1 record: found an array with 0 sample\(s\)"):
        estimator(neighbours="replace").fit(way(NONE, tmp_path))


@pytest.mark.parametrize(
    "options",
    [
        *({"mechanism": "gaussian"}, {"mechanism": "screened"}),
        {"mechanism": "gaussian-threshold", "assume_centered": True},
        {"assume_centered": True, "feature_scale": 1.0},
        *({"bandwidth": 1}, {"bounds": [(0.0, 1.0)] * 3}, {"device": "cpu"}),
        *({"drop_nulls": False}, {"epsilon": 10.0}),
    ],
)
def test_no_record_by_other_options(options):
    """All that is refused is refused by the released number, which has noise."""
    kinds = []
    for table in (NONE, ONE):
        try:
            estimator(**options).fit(table)
        except TooFewCompleteError as error:
            kinds.append(str(error))
    assert len(kinds) in (0, 2)


def test_no_weight_no_genotype_and_no_coded_record(tmp_path):
    weights = {"max_sample_weight": 2.0}
    for rows, given in ((ROWS[:0], []), (ROWS[:5], np.zeros(5)), (ROWS[:5], np.full(5, 1e-9))):
        assert estimator(**weights).fit(rows, sample_weight=given).n_features_in_ == 3
    calls = np.zeros((0, 3), dtype=int)
    options = OPTIONS | {"bandwidth": 1}
    assert GenotypeCovariance(**options).fit(calls).n_features_in_ == 3
    with pytest.raises(DataError, match="at least 1 record"):
        GenotypeCovariance(**options | {"neighbours": "replace"}).fit(calls)
    (tmp_path / "book.csv").write_text("name,low,high,kind,values\nsmoker,,,category,yes|no\n")
    book = read_codebook(tmp_path / "book.csv")
    table = pd.DataFrame({"age": [41.0], "smoker": ["yes"]})
    for X in (table[:0], table):
        assert estimator().fit(open_records(X, codebook=book)).n_features_in_ == 3


MASKED = np.ma.masked_array(ROWS, ROWS > 3)


@pytest.mark.parametrize(
    ("X", "options"),
    [
        *((ROWS, {"unit": 9}), (open_records(ROWS), {"unit": 9}), (ROWS, {"sample_weight": 9})),
        *((ROWS[:, 0], {}), (ROWS[:, 0], {"unit": 0}), (ROWS[:, :0], {}), (ROWS[:, :, None], {})),
        *((MASKED, {}), (scipy.sparse.csr_matrix(ROWS), {}), (ROWS, {"unit": np.arange(N - 1)})),
        *((torch.tensor(ROWS)[:, 0], {}), (da.from_array(ROWS)[:, 0], {})),
        (ROWS.astype(complex), {}),
    ],
)
def test_refusals_before_the_count_do_not_say_it(X, options):
    own = {"max_sample_weight": 1.0} if "sample_weight" in options else {}
    with pytest.raises(HushcovError) as info:
        estimator(**own).fit(X, **options)
    words = " ".join([str(info.value), *getattr(info.value, "__notes__", [])])
    for told in (N, N - 1):
        assert str(told) not in words.replace(",", "")


def test_whatever_fails_after_the_count_says_that_it_is_paid(tmp_path, monkeypatch):
    # A count of none is within eight deviations, but for once in 1e15 times; noise is not seeded.
    monkeypatch.setattr("hushcov.fit.complete._FEWEST_DEVIATIONS", 8)
    bad = ROWS.copy()
    bad[3, 1] = np.nan
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_dataset("people", 5.0, 1e-5, neighbours="add-remove")
    for kept in ({}, {"ledger": ledger, "dataset": "people", "random_state": None}):
        with pytest.raises(DataError) as info:
            GaussianCovariance(**OPTIONS | kept, drop_nulls=False).fit(bad)
        (note,) = info.value.__notes__
        assert "nothing was charged" not in note
        assert ("charged epsilon" if kept else "epsilon of 0.02 is spent") in note
        with pytest.raises(TooFewCompleteError) as info:
            GaussianCovariance(**OPTIONS | kept).fit(np.full_like(bad, np.nan))
        (note,) = info.value.__notes__
        assert ("charged epsilon 0.98" if kept else "epsilon of 0.02 is spent") in note
    with pytest.raises(DataError) as info:
        GaussianCovariance(**OPTIONS | {"neighbours": "replace"}, drop_nulls=False).fit(bad)
    assert info.value.__notes__ == [
        "There is no ledger: nothing was charged, and nothing was released."
    ]
