"""Errors: none refers to another, on any way in, and all come back from a cluster."""

import ast
import numbers
import pickle
from pathlib import Path

import dask
import dask.array
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tblib.pickling_support
import torch
from pyarrow import ipc, parquet

import hushcov
from fuzz.cases import Finding, messages
from hushcov import GaussianCovariance, exceptions
from hushcov.engines.records import DeviceRecords
from hushcov.exceptions import (
    CapacityError,
    DataError,
    ForeignError,
    HushcovError,
    MissingPackageError,
    StatisticsError,
    raise_alone,
)
from hushcov.kernel.sums.statistics import Statistics
from hushcov.ledger import Ledger
from hushcov.tables.cluster import DaskRecords
from hushcov.tables.sources import ArrayRecords, open_records
from hushcov.tables.units import units_of
from hushcov_genotypes.estimator import GenotypeCovariance
from hushcov_genotypes.reading import GenotypeRecords, open_genotypes
from project import PACKAGES

SOURCE = Path(hushcov.__file__).parent
#: Modules that see records, or what is computed from them before a release.
FOLDERS = ("kernel/sums", "kernel/records", "engines", "tables")
SEEING = [path for each in FOLDERS for path in sorted((SOURCE / each).glob("*.py"))]
SEEING += [SOURCE / "kernel" / "grids.py"]
SEEING += [SOURCE / "_files.py", PACKAGES["hushcov_genotypes"] / "reading.py"]
SEEING += [SOURCE / "answers" / "regression.py"]
SECRET = "s3cret-7731"
KINDS = [
    kind
    for kind in vars(exceptions).values()
    if isinstance(kind, type) and issubclass(kind, HushcovError)
]


def alone(error):
    """Check that nothing which is reachable from an error holds the value of a record."""
    assert isinstance(error, HushcovError)
    assert error.__cause__ is None
    assert error.__context__ is None
    for text in messages(error):
        assert SECRET not in text
    return str(error)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_come_back_as_they_were(kind):
    """With what dask installs for tracebacks, too."""
    tblib.pickling_support.install()
    error = kind(*"abc") if kind is MissingPackageError else kind("a message")
    try:
        raise error
    except kind as raised:
        found = pickle.loads(pickle.dumps(raised))
    assert type(found) is kind
    assert str(found) == str(error)


def test_an_error_that_is_raised_alone_refers_to_no_other():
    def refuse():
        try:
            float(SECRET)
        except ValueError:
            raise_alone(DataError("no number"))

    with pytest.raises(DataError, match="no number") as caught:
        refuse()
    alone(caught.value)
    with pytest.raises(Finding, match="pickled"):
        list(messages(DataError(lambda: None)))
    code = "try:\n    f()\nexcept ValueError:\n    raise DataError('no') from None\n"
    assert raised_in_handlers(ast.parse(code)) == [4]


def raised_in_handlers(tree):
    """Lines on which an error is raised while another is being handled."""
    return [
        node.lineno
        for block in ast.walk(tree)
        if isinstance(block, ast.ExceptHandler | ast.FunctionDef)
        and (isinstance(block, ast.ExceptHandler) or block.name == "__exit__")
        for node in ast.walk(block)
        if isinstance(node, ast.Raise)
        and node.exc is not None
        # Of packages that are not installed nothing is secret.
        and "MissingPackageError" not in ast.dump(node.exc)
    ]


@pytest.mark.parametrize("path", SEEING, ids=lambda path: path.name)
def test_what_sees_records_raises_alone(path):
    """`from None` would keep the error that is handled, and hide it alone."""
    assert raised_in_handlers(ast.parse(path.read_text())) == []


# Ways in that the fuzz does not try: columns that are no features, categories, genotypes, sites


def fit(X, **options):
    about = {"epsilon": 1.0, "delta": 1e-8, "feature_scale": 1.0, "assume_centered": True}
    about |= {"max_sample_weight": 1.0} if "sample_weight" in options else {}
    about |= {"on_hopeless": "warn", "on_large_delta": "warn", "on_invalid": "raise"}
    GaussianCovariance(**about).fit(X, **options)


def weigh(X, weights="id"):
    fit(X, sample_weight=weights)


def table(odd, kind=object):
    return pd.DataFrame({"id": pd.Series(odd, dtype=kind), "x": [1.0, 2.0, 3.0]})


def in_file(folder, odd, ending):
    path = folder / f"x.{ending}"
    rows = pa.table({"id": pa.array(odd), "x": [1.0, 2.0, 3.0]})
    if ending == "parquet":
        parquet.write_table(rows, path)
    elif ending == "arrow":
        with ipc.new_file(path, rows.schema) as file:
            file.write_table(rows)
    else:
        lines = [f"{each},{x}" for each, x in zip(odd, (1.0, 2.0, 3.0), strict=True)]
        path.write_text("\n".join(["id,x", *lines, ""]))
    return path


def damaged(folder):
    path = folder / "site.stats"
    path.write_bytes(b'hushcov statistics 1\n{"feature_names": ["' + SECRET.encode() + b'"]}\n')
    return path


def broken_bed(folder):
    for ending, content in ((".bed", b"l\x1b\x01\0"), (".fam", SECRET.encode() + b" 1 0 0 0 -9\n")):
        (folder / f"x{ending}").write_bytes(content)
    (folder / "x.bim").write_bytes(b"1\tv\t0\t" + SECRET.encode() + b"\tA\tG\n")
    return folder / "x.bed"


WAYS = {
    "unit, list": lambda _: units_of([SECRET, 1, 2], 3),
    "unit, objects": lambda _: units_of(np.array([SECRET, None, "a"], dtype=object), 3),
    "unit, pandas": lambda _: fit(table([SECRET, 1, 2]), unit="id"),
    "unit, polars": lambda _: fit(pl.DataFrame(table([SECRET, None, "a"])), unit="id"),
    "unit, tensor": lambda _: fit(torch.tensor([[1.0], [2.0]]), unit=torch.tensor([1.5, 2.0])),
    "unit, dask": lambda _: fit(dd.from_pandas(table([SECRET, 1, 2]), npartitions=2), unit="id"),
    "unit, missing": lambda at: fit(in_file(at, [SECRET, "", "a"], "parquet"), unit="id"),
    "unit, csv": lambda at: fit(in_file(at, [SECRET, "NA", "a"], "csv"), unit="id"),
    "weights, list": lambda _: weigh(np.ones((3, 1)), [SECRET, 1, 2]),
    "weights, pandas": lambda _: weigh(table([SECRET, 1, 2])),
    "weights, parquet": lambda at: weigh(in_file(at, [SECRET, "1", "2"], "parquet")),
    "weights, arrow": lambda at: weigh(in_file(at, [SECRET, "1", "2"], "arrow")),
    "text in a file": lambda at: fit(in_file(at, ["1", SECRET, "2"], "csv")),
    "a line in other bytes": lambda at: fit(latin(at)),
    "names in other bytes": lambda at: fit(latin(at, first=True)),
    "on workers": lambda at: fit(DaskRecords(open_records(long_csv(at)))),
    "genotypes, text": lambda _: read_all(np.array([[SECRET], [1]], dtype=object)),
    "genotypes, bim": lambda at: open_genotypes(broken_bed(at)),
    "statistics": lambda at: Statistics.load(damaged(at)),
    "a file of no format": lambda at: open_records(no_parquet(at)),
}


def read_all(genotypes):
    list(open_genotypes(genotypes).blocks(1, 0))


def latin(folder, *, first=False):
    path, lines = folder / "x.csv", ["a,b", "1,2", "3,4", ""]
    lines[0 if first else 2] = f"\xff{SECRET},2"
    path.write_bytes("\n".join(lines).encode("latin-1"))
    return path


def long_csv(folder):
    """With a text after the first block, from which types are guessed."""
    path = folder / "x.csv"
    path.write_text("a,b\n" + "1.25,2.5\n" * 200_000 + f"{SECRET},1\n")
    return path


def no_parquet(folder):
    path = folder / "x.parquet"
    path.write_bytes(f"PAR1{SECRET}PAR1".encode())
    return path


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@pytest.mark.parametrize("way", WAYS)
def test_refusals_hold_no_value(way, tmp_path):
    with (
        dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}),
        pytest.raises((DataError, StatisticsError)) as caught,
    ):
        WAYS[way](tmp_path)
    alone(caught.value)


def test_what_a_worker_sends_holds_no_value(tmp_path):
    """The bytes of an error, as dask makes them where a task fails."""
    from distributed.core import error_message

    records = open_records(long_csv(tmp_path))
    with pytest.raises(DataError) as caught:
        records.map_sum(lambda block: np.array([len(block)]))
    sent = error_message(caught.value)
    for part in sent.values():
        assert SECRET not in str(part)
        assert SECRET.encode() not in pickle.dumps(getattr(part, "data", part))
    assert SECRET.encode() not in pickle.dumps(sent["exception"].data)


# Errors of other packages, of which some are no `Exception`: on every way in they become ours.


class Panic(BaseException):
    """As that of polars."""


def fails(*_, **__):
    raise FAULT[0](SECRET)


FAULT = {0: Panic}


class Odd:
    """Cannot be converted to anything."""

    shape, dtype, device = (3, 1), np.dtype(object), "cpu"
    __array__ = __float__ = __len__ = __iter__ = to_numpy = fails


@numbers.Real.register
class OddNumber:
    """Is a number, by its type alone."""

    __float__ = fails


class Broken(ArrayRecords):
    """Fails in the second block."""

    def _blocks(self):
        yield np.zeros((1, 1))
        fails()


def fit_genotypes(source):
    about = {"epsilon": 1.0, "delta": 1e-6, "bandwidth": 1, "on_hopeless": "warn"}
    GenotypeCovariance(**about, on_large_delta="warn").fit(source)


FOREIGN = {
    "rows": lambda: fit(Broken(np.ones((3, 1)))),
    "a pass": lambda: Broken(np.ones((3, 1))).map_sum(lambda block: np.array([len(block)])),
    "objects": lambda: fit(np.array([[1.0], [OddNumber()], [2.0]], dtype=object)),
    "a table": lambda: fit(Odd()),
    "opening": lambda: open_records(Odd()),
    "a frame": lambda: fit(pd.DataFrame({"x": [1.0, OddNumber(), 2.0]})),
    "identifiers": lambda: fit(np.ones((3, 1)), unit=Odd()),
    "weights": lambda: weigh(np.ones((3, 1)), Odd()),
    "a device": lambda: fit(DeviceRecords(Broken(np.ones((3, 1))), "cpu")),
    "dask": lambda: fit(dask.array.ones((3, 1), chunks=1).map_blocks(fails, meta=np.ones((0, 0)))),
    "genotypes, opened": lambda: fit_genotypes(Odd()),
    "genotypes, read": lambda: fit_genotypes(GenotypeRecords((3, 2), fails)),
}


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@pytest.mark.filterwarnings("ignore::hushcov.exceptions.PrivacyWarning")
@pytest.mark.parametrize("error", [Panic, MemoryError, OSError, RecursionError])
@pytest.mark.parametrize("way", FOREIGN)
def test_foreign_errors_end_in_ours(way, error, monkeypatch):
    monkeypatch.setitem(FAULT, 0, error)
    with dask.config.set(scheduler="synchronous"), pytest.raises(HushcovError) as caught:
        FOREIGN[way]()
    alone(caught.value)
    assert isinstance(caught.value, DataError | CapacityError)


@pytest.mark.parametrize("way", FOREIGN)
@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@pytest.mark.filterwarnings("ignore::hushcov.exceptions.PrivacyWarning")
def test_interrupts_are_no_errors(way, monkeypatch):
    monkeypatch.setitem(FAULT, 0, KeyboardInterrupt)
    with dask.config.set(scheduler="synchronous"), pytest.raises(KeyboardInterrupt):
        FOREIGN[way]()


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
def test_foreign_errors_say_what_was_spent(tmp_path):
    about = {"epsilon": 1.0, "delta": 1e-8, "feature_scale": 1.0, "assume_centered": True}
    about |= {"on_hopeless": "warn", "on_large_delta": "warn"}
    ledger = Ledger(tmp_path / "l.db")
    ledger.open_dataset("d", epsilon=10.0, delta=1e-6)
    words = {}
    for name, X, more in (
        ("opened", Odd(), {}),
        ("read", Broken(np.ones((3, 1))), {}),
        ("charged", Broken(np.ones((3, 1))), {"ledger": ledger, "dataset": "d"}),
        ("counted", Broken(np.ones((3, 1))), {"neighbours": "add-remove"}),
    ):
        with pytest.raises(ForeignError, match="an error of type Panic at line") as caught:
            GaussianCovariance(**about, **more).fit(X)
        words[name] = " ".join(caught.value.__notes__)
    assert words["opened"] == "Nothing was charged. Nothing was released."
    assert words["read"] == "There is no ledger: nothing was charged, and nothing was released."
    assert "was charged epsilon 1" in words["charged"]
    assert "number of records was released" in words["counted"]


def test_identifiers_of_polars_that_are_not_utf_8(capfd):
    """They are compared as bytes: polars would panic, and print them."""
    odd = [b"a", b"\xff" + SECRET.encode(), b"a"]
    units = pl.from_arrow(pa.table({"u": pa.array(odd, pa.binary()).view(pa.string())}))["u"]
    assert units_of(units, 3).codes.tolist() == [0, 1, 0]
    assert not any(capfd.readouterr())
