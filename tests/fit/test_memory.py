"""Predicted memory against what a fit allocates."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from estimators.settings import fit
from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.exceptions import CapacityError
from hushcov.fit import check_memory, fit_memory, mechanisms, registry, total_memory

D, N = 1200, 4500
PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 5, "feature_scale": 1.0}
PUBLIC |= {"assume_centered": True}


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((N, D))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "sparse"),
    [("screened", False), ("screened", True), ("gaussian", False), ("multiscale", False)],
)
def test_what_a_fit_allocates_is_what_was_predicted(rows, mechanism, sparse):
    estimator = PrivateSparseCovariance(**PUBLIC, mechanism=mechanism, sparse_output=sparse)
    fit(estimator, rows[:, :60], hopeless=True)  # compiled code is not counted
    estimator.plan(N, D)
    tracemalloc.start()
    fit(estimator, rows, hopeless=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    blocks = registry._BLOCKS * 2048 * D * 8  # these rows are in memory: no block is made
    predicted = fit_memory(mechanism, N, D, sparse=sparse, prepared=False)
    predicted -= registry._PROCESS + blocks
    assert peak < predicted < peak + registry._FIXED + 0.25 * peak


def test_the_compact_copy_of_a_prepared_fit_is_predicted():
    """Two bytes a value, of many records of few features."""
    rows = np.random.default_rng(0).standard_normal((400_000, 40))
    estimator = GaussianCovariance(epsilon=1.0, delta=1e-8)
    fit(estimator, rows[:2_000], hopeless=True)  # compiled code is not counted
    tracemalloc.start()
    fit(estimator, rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    copy = fit_memory("gaussian", *rows.shape) - fit_memory("gaussian", *rows.shape, prepared=False)
    assert copy == 2 * rows.size
    blocks = registry._BLOCKS * 4 * 2**20  # these rows are in memory: no block is made
    predicted = fit_memory("gaussian", *rows.shape) - registry._PROCESS - blocks
    assert copy < peak < predicted < peak + registry._FIXED + 0.25 * peak


CLIENT = """
import sys, warnings
from pathlib import Path
from dask.distributed import Client
from hushcov import PrivateSparseCovariance
from hushcov.tables.cluster import DaskRecords
from hushcov.tables.files import FileRecords
warnings.simplefilter("ignore")
with Client(sys.argv[1]):
    told = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 5}
    told |= {"mechanism": sys.argv[2], "on_hopeless": "warn", "on_large_delta": "warn"}
    for path in sys.argv[3:]:
        PrivateSparseCovariance(**told).fit(DaskRecords(FileRecords(path)))
        status = Path("/proc/self/status").read_text()  # without those of the parent, as resources
        print(1024 * int(status.partition("VmHWM:")[2].split()[0]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of a process")
def test_what_the_client_of_a_cluster_takes_is_predicted(tmp_path):
    """In a process of its own, after a fit of few features, which compiles."""
    from distributed import LocalCluster

    n, d, paths = 4_000, 2_000, [str(tmp_path / name) for name in ("few", "many")]
    for path, (rows, features) in zip(paths, ((500, 50), (n, d)), strict=True):
        columns = [*np.random.default_rng(0).standard_normal((features, rows)).astype(np.float32)]
        table = pyarrow.table(columns, names=[f"x{i}" for i in range(features)])
        parquet.write_table(table, f"{path}.parquet", row_group_size=rows // 4)
    size = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 60}
    with LocalCluster(**size) as local:
        for mechanism in ("gaussian", "screened", "adaptive"):
            told = [local.scheduler_address, mechanism, *(f"{path}.parquet" for path in paths)]
            done = subprocess.run(
                [sys.executable, "-c", CLIENT, *told], capture_output=True, text=True, check=True
            )
            least, peak = map(int, done.stdout.split())
            predicted = fit_memory(mechanism, n, d, elsewhere=True)
            assert least + 8 * d * d < peak < predicted < 1.5 * peak


@pytest.mark.parametrize("mechanism", mechanisms())
def test_memory_grows_with_the_square_of_features_and_not_with_records(mechanism):
    small, large = (fit_memory(mechanism, 10**6, d) for d in (50_000, 100_000))
    assert large / small == pytest.approx(4, rel=0.15)
    few = fit_memory(mechanism, 100, 50_000)
    assert few == fit_memory(mechanism, 10**9, 50_000) + 2 * 100 * 50_000  # the compact copy
    assert fit_memory(mechanism, 10**9, 50_000, prepared=False) == few - 2 * 100 * 50_000


def test_a_fit_that_does_not_fit_is_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr(registry, "total_memory", lambda: 10**8)

    rows = np.full((100, 20), np.nan)  # reading them would be another error
    for estimator in (
        PrivateSparseCovariance(**PUBLIC),
        ScreenedCovariance(**PUBLIC),
        GaussianCovariance(**PUBLIC),
    ):
        with pytest.raises(CapacityError, match="20 features need"):
            fit(estimator, rows, hopeless=True)


def test_what_the_system_says(monkeypatch, tmp_path):
    physical = total_memory()
    assert physical > 10**8
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(registry, "_CONTAINER_LIMIT", limit)
    for text, expected in (("max\n", None), ("123456789\n", 123456789), ("9" * 30, None)):
        limit.write_text(text)
        assert registry.total_memory() == (expected or max(physical, registry.total_memory()))
    monkeypatch.setattr(registry.os, "sysconf", _refuse)
    assert registry.total_memory() is None
    check_memory("gaussian", 10, 10**6)


def _refuse(name):
    raise ValueError


LAYOUTS = {
    "groups": {"row_group_size": 8_000, "use_dictionary": False},
    "one group": {"row_group_size": 60_000, "use_dictionary": False},
}
READ = """
import sys, tracemalloc, pyarrow
from hushcov.tables.files import FileRecords, reader_bytes
for block in FileRecords(sys.argv[1])._blocks():  # compiles
    pass
records = FileRecords(sys.argv[1])
tracemalloc.start()
for block in records._blocks():
    pass
rows = tracemalloc.get_traced_memory()[1]
print(reader_bytes(records.n_features), rows + pyarrow.default_memory_pool().max_memory())
"""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_pyarrow_takes_of_a_file_is_what_was_predicted(layout, tmp_path):
    columns = np.random.default_rng(0).standard_normal((80, 60_000))
    table = pyarrow.table([*columns], names=[f"x{i}" for i in range(80)])
    parquet.write_table(table, tmp_path / "rows.parquet", **LAYOUTS[layout])
    command = [sys.executable, "-c", READ, str(tmp_path / "rows.parquet")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    predicted, taken = map(int, done.stdout.split())
    assert taken * 0.9 < predicted < 3 * taken  # more than it uses
