"""A slice of the hostile cases, and Hypothesis on the parts that read what others wrote.

`python -m tests.fuzz.run --cases 100000` runs many more.
"""

from __future__ import annotations

import json
from io import BytesIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hushcov
from hushcov.accounting import Guarantee
from hushcov.exceptions import HushcovError
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.release_schema import parse
from hushcov.planning import smallest_n
from hushcov.records import open_records

from .cases import KINDS, Finding, judged, run_case

SLICE = {kind: 45 if kind == "commands" else 120 for kind in KINDS}
few = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(3))
def test_hostile_cases(kind, part, tmp_path):
    size = SLICE[kind] // 3
    for number in range(part * size, (part + 1) * size):
        try:
            run_case(kind, number, tmp_path / "case")
        except Finding as finding:
            pytest.fail(f"{kind} {number}: {finding}")


def test_the_judge_is_not_lenient():
    def raises(error):
        def work():
            raise error

        return work

    with pytest.raises(Finding, match="ZeroDivisionError"):
        judged(lambda: 1 / 0)
    with pytest.raises(Finding, match="data is quoted"):
        judged(raises(HushcovError("got 1234.56789")))
    with pytest.raises(Finding, match="RuntimeWarning"):
        judged(lambda: np.float64(1) / np.float64(0))
    assert judged(raises(HushcovError("no"))) == "HushcovError"
    assert judged(lambda: None) == "released"


@few
@given(
    hnp.arrays(
        hnp.scalar_dtypes(),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
    )
)
def test_any_array_is_released_or_refused(X):
    def work():
        estimator = hushcov.GaussianCovariance(
            epsilon=1.0, delta=1e-6, row_sparsity=1, assume_centered=True
        )
        release = estimator.fit(X).release_
        assert release.integers.shape == (X.shape[1],) * 2

    judged(work)


@few
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_records_or_refused(tmp_path, content, with_magic):
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" * with_magic + content)
    judged(lambda: open_records(path))


@few
@given(st.text(max_size=80))
def test_any_header_is_read_or_refused(tmp_path, header):
    file = BytesIO()
    text = header.encode("latin1", "replace")
    file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(48))
    (tmp_path / "x.npy").write_bytes(file.getvalue())
    judged(lambda: open_records(tmp_path / "x.npy"))


@few
@given(plain)
def test_any_json_is_a_description_or_refused(value):
    judged(lambda: parse(json.dumps(value).encode()))


@few
@given(plain)
def test_any_data_is_a_guarantee_or_refused(value):
    judged(lambda: Guarantee.from_dict(value))


def test_the_search_for_records_ends_where_two_are_enough():
    # It once went on for ever between 2 and 3 records.
    for target in (0.999, 1.0, 1.5, 10.0):
        found = smallest_n(ReleaseInputs(100, 3, 2, 0.5, 1e-6), "gaussian", "block", target)
        assert found is None or found >= 1
