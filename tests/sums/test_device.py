"""Tensors instead of arrays: the same integers, bit for bit, for whatever values."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from estimators.settings import skip_search
from exact_sums import bounded_sums, sign_gram
from hushcov import Ledger, PrivateSparseCovariance
from hushcov.engines.records import DeviceRecords
from hushcov.exceptions import DataError, MissingPackageError, ParameterError
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.records.base import CentredRecords, CompleteRecords
from hushcov.kernel.sums.counts import cell_counts, count_complete, signed_octaves
from hushcov.kernel.sums.gram import row_bounded_gram, second_moments
from hushcov.kernel.sums.products import ProductMap
from hushcov.kernel.sums.rows import shortened
from hushcov.paper.plan import ScaledRecords
from hushcov.tables.sources import ArrayRecords, TensorRecords, open_records

D = 3
# Zeros of both signs, the smallest and largest numbers, and halves between points of the grids.
HOSTILE = [0.0, -0.0, 5e-324, -5e-324, 2.3e-308, 1.7e308, -1.7e308, 1e300, 0.25, -0.75, 1.25, 2.0]
coordinates = st.sampled_from(HOSTILE) | st.floats(-9, 9) | st.floats(-1.7e308, 1.7e308)
tables = st.integers(1, 9).flatmap(lambda n: hnp.arrays(np.float64, (n, D), elements=coordinates))
SCALES = np.array([1.0, 0.0, 1e-3])


def product_map(scale=1.0, **changes):
    numbers = {"norm_bound": 500, "factor_range": 250, "size_range": 200, "size_cap": 777}
    grid, pairs = FeatureGrid(np.full(D, scale), 8.0, 64), (np.array([0, 1]), np.array([2, 2]))
    return ProductMap(grid, *pairs, 4, 3, 64, **numbers | changes)


GRIDS = (
    FeatureGrid(np.ones(D), 4.0, 8),  # twice the value: many lie halfway between integers
    FeatureGrid(SCALES, 4.0, 1000),
    FeatureGrid(np.array([1e-60, 1.0, 1e60]), 3.0, 2**20),
)
STATISTICS = {
    **{f"rows {g.half_width}": lambda r, g=g: row_bounded_gram(r, g, None) for g in GRIDS},
    **{
        f"rows {g.half_width} within {bound}": lambda r, g=g, b=bound: row_bounded_gram(r, g, b)
        for g in GRIDS
        for bound in (1, 7, 1500)
    },
    "signs": lambda r: np.triu(sign_gram(r)),
    "signs of a panel": lambda r: np.triu(sign_gram(r, 1, 2)),
    "signed octaves": lambda r: signed_octaves(
        r, np.array([0.25, -2.0, 0.0, 1e300]), np.array([0, 0.5, 0, 1e299]), np.array([0, 1, 2, 0])
    ),
    "cells": lambda r: cell_counts(
        r, np.array([2, 0, 1]), [-4.0, 0.3, 1e300], [0.25, 0.7, 1e307], [0, -9, -20], 32
    ),
    "sums": lambda r: bounded_sums(r, GRIDS[1], 1500),
    "fine sums": lambda r: bounded_sums(r, GRIDS[2], 10**6),
    "sums without a bound that binds": lambda r: bounded_sums(r, GRIDS[0], 10**6),
    "products": lambda r: product_map().sum(r),
    "small products": lambda r: product_map(norm_bound=1).sum(r),
    "free products": lambda r: product_map(norm_bound=10**9, scale=1e-3).sum(r),
    "norms": lambda r: product_map().norm_histogram(r),
    "moments": lambda r: second_moments(r, IntegerGrid(4.0, 8)).gram,
    "fine moments": lambda r: second_moments(r, IntegerGrid(0.1, 32767)).gram,
    "wide moments": lambda r: second_moments(r, IntegerGrid(4.0, 10**12)).gram,
}
VIEWS = {
    "rows": lambda r: r,
    "scaled": lambda r: ScaledRecords(r, SCALES),
    "complete": CompleteRecords,
    "centred": lambda r: CentredRecords(r, np.array([0.3, -1e300, 2.0]), np.array([2, np.inf, 0])),
}


def check_equal(on_device, memory, names=tuple(STATISTICS)):
    for name in names:
        found, expected = STATISTICS[name](on_device), STATISTICS[name](memory)
        assert isinstance(found, np.ndarray)
        assert found.dtype == expected.dtype == (object if "wide" in name else np.int64)
        np.testing.assert_array_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("view", VIEWS)
@settings(deadline=None, max_examples=12)
@given(X=tables.filter(lambda X: len(X) > 1), block_rows=st.none() | st.integers(1, 4))
def test_equals_memory_for_hostile_values(view, X, block_rows):
    made = VIEWS[view]
    tensor = TensorRecords(torch.from_numpy(X), block_rows=block_rows)
    check_equal(made(tensor), made(ArrayRecords(X)))


@pytest.mark.parametrize("view", VIEWS)
def test_equals_memory_for_many_rows(view):
    """More than are added up at a time in doubles, and in several blocks."""
    X = np.random.default_rng(0).standard_normal((9_001, D)) * [1, 30, 1e-3]
    X[::7] = np.round(X[::7] * 4) / 4
    made = VIEWS[view]
    for block_rows in (4_000, None):
        tensor = TensorRecords(torch.from_numpy(X), block_rows=block_rows)
        check_equal(made(tensor), made(ArrayRecords(X)))


@settings(deadline=None)
@given(X=tables, data=st.data())
def test_gaps(X, data):
    missing = data.draw(hnp.arrays(np.bool_, X.shape))
    X = np.where(missing, np.nan, X)
    tensor, memory = TensorRecords(torch.from_numpy(X)), ArrayRecords(X)
    tensor.gaps = memory.gaps = True
    assert count_complete(tensor) == count_complete(memory)
    names = ["signs", "moments", "signed octaves", "cells", "sums"]
    centred = VIEWS["centred"]
    for view in (lambda r: r, centred):
        check_equal(view(CompleteRecords(tensor)), view(CompleteRecords(memory)), names)
    check_equal(CompleteRecords(centred(tensor)), centred(CompleteRecords(memory)), names)


# Factors by which long records are shrunk: all their bits, which sums of integers hardly show.


def test_the_factor_of_a_long_record_has_the_same_bits():
    """One number over a tensor is no division in PyTorch, but a reciprocal and a product."""
    random = np.random.default_rng(1)
    X = random.standard_normal((300, D)) * 4
    differ = 0
    for bound in (777, 1_001, 12_345):
        products = product_map(norm_bound=bound, factor_range=2**52)
        for row in X:
            memory = products.sum(ArrayRecords(row[None]))
            np.testing.assert_array_equal(
                products.sum(open_records(torch.tensor(row[None]))), memory
            )
            y = np.rint(np.clip(row * 8, -64, 64))
            z = np.append(4 * y[[0, 1]] * y[[2, 2]], 3 * (y * y - 64))
            norm = np.sqrt(z @ z)
            differ += norm > bound and bound / norm != bound * (1 / norm)
    assert differ > 50  # so that the test would notice


def test_shrunk_rows_have_the_same_bits():
    """Integers so large that truncation leaves nearly all bits of the factor."""
    random = np.random.default_rng(2)
    integers = random.integers(2**20, 2**22, (2_000, 1)) * 2.0**40
    bound = 3.0 * 2**55
    expected = shortened(integers, bound)
    found = shortened(torch.from_numpy(integers), bound)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert (expected != integers).sum() > 1_000


# Where tensors come from


@pytest.mark.parametrize(
    "name", ["float64", "float32", "float16", "bfloat16", "int8", "int64", "uint8", "bool"]
)
def test_dtypes(name):
    doubles = torch.from_numpy(np.random.default_rng(3).integers(0, 7, (40, D)) / 4)
    tensor = doubles.to(getattr(torch, name))
    check_equal(open_records(tensor), ArrayRecords(tensor.to(torch.float64).numpy()))


# Refusals


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        *((torch.zeros(5), "two dimensions"), (torch.zeros(2, 2, 2), "two dimensions")),
        *((torch.zeros(3, 0), "at least one feature"), (torch.full((2, 2), 987j), "real numbers")),
        (torch.full((2, 2), 987.0).to_sparse(), "dense"),
    ],
)
def test_bad_tensors(tensor, words):
    with pytest.raises(DataError, match=words) as info:
        open_records(tensor)
    assert "987" not in str(info.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("view", ["rows", "scaled"])
def test_values_that_are_not_finite(view, bad):
    tensor = torch.tensor([[1.0, 2.0, 3.0], [987.0, bad, 1.0]])
    with pytest.raises(DataError, match="finite") as info:
        sign_gram(VIEWS[view](open_records(tensor)))
    assert "987" not in str(info.value)


@pytest.mark.parametrize("name", ["", "gpu", "meta", "cuda:-1", "cuda:12345", None, 1.5, 10**400])
def test_bad_devices(name):
    with pytest.raises(ParameterError, match="device must"):
        DeviceRecords(ArrayRecords(np.ones((2, 2))), name)


@pytest.mark.parametrize("mechanism", ["gaussian", "screened", "multiscale"])
def test_estimators_send_records_to_their_device(mechanism, monkeypatch):
    skip_search(monkeypatch)
    X = np.random.default_rng(3).standard_t(4, size=(501, 6))
    fits = []
    for where, table in ((None, X), ("cpu", X), ("cpu", torch.from_numpy(X))):
        estimator = PrivateSparseCovariance(
            epsilon=1.0,
            delta=1e-6,
            row_sparsity=2,
            mechanism=mechanism,
            device=where,
            on_hopeless="warn",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits.append(estimator.set_params(random_state=0).fit(table))
    assert fits[0].release_ == fits[1].release_ == fits[2].release_


def test_a_bad_device_is_refused_before_the_charge(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open_dataset("patients", epsilon=1.0, delta=1e-5)
    estimator = PrivateSparseCovariance(
        epsilon=1.0, delta=1e-6, row_sparsity=2, device="abacus", ledger=ledger, dataset="patients"
    )
    with pytest.raises(ParameterError, match="device"):
        estimator.fit(np.full((100, 3), np.nan))
    assert not ledger.history("patients")


def test_without_pytorch_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hushcov\[torch\]'"):
        DeviceRecords(ArrayRecords(np.ones((2, 2))), "cpu")
