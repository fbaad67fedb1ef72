"""A slice of the hostile cases, and Hypothesis on the parts that read what others wrote.

`python -m tests.fuzz.run --cases 100000` runs many more.
"""

import inspect
import json
from collections import Counter
from io import BytesIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.covariance import EmpiricalCovariance

import hushcov
from hushcov.exceptions import HushcovError
from hushcov.fit import smallest_n
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import Guarantee
from hushcov.release.schema import parse
from hushcov.tables.sources import open_records

from . import cases
from .cases import ESTIMATORS, FLAGS, KINDS, OPTIONS, USUAL, Finding, judged, run_case

SLICE = {
    "arrays": 240,
    "parameters": 240,
    "npy": 120,
    "folders": 180,
    "settings": 90,
    "pairs": 120,
    "commands": 45,
}
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
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2))]
)
def test_hostile_cases(kind, part, tmp_path):
    size = SLICE[kind] // 3
    for number in range(part * size, (part + 1) * size):
        try:
            run_case(kind, number, tmp_path / "case")
        except Finding as finding:
            pytest.fail(f"{kind} {number}: {finding}")


def test_every_estimator_with_every_parameter_is_among_the_cases():
    public = [getattr(hushcov, name) for name in dir(hushcov)]
    kinds = {item for item in public if isinstance(item, type)}
    assert {kind for kind in kinds if issubclass(kind, EmpiricalCovariance)} == {*ESTIMATORS}
    for kind in ESTIMATORS:
        names = set(inspect.signature(kind).parameters)
        assert names <= {*USUAL, *FLAGS}
        assert set(OPTIONS.get(kind, ())) <= names


def test_the_slice_has_fits_of_every_estimator(monkeypatch, tmp_path):
    """But for the theorem's constants, and numbers that are no genotypes."""
    fits = Counter()
    monkeypatch.setattr(cases, "fitted", lambda estimator, _: fits.update([type(estimator)]))
    for number in range(SLICE["arrays"]):
        run_case("arrays", number, tmp_path / "case")
    refused = {hushcov.MultiscaleCovariance, hushcov.GenotypeCovariance}
    assert set(fits) == {*ESTIMATORS} - refused


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
    for covariance in ([[np.nan]], [[1.0, 0.5], [0.4, 1.0]]):
        estimator = hushcov.ThresholdedCovariance()
        estimator.covariance_ = np.array(covariance)
        with pytest.raises(Finding, match="not symmetric"):
            cases.fitted(estimator, None)


@settings(few, max_examples=180)
@given(
    st.sampled_from([kind for kind in ESTIMATORS if kind is not hushcov.MultiscaleCovariance]),
    hnp.arrays(
        hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
    ),
)
def test_any_array_is_released_or_refused(kind, X):
    known = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 1, "assume_centered": True}
    if kind is hushcov.PrivateSparseCovariance:
        known["mechanism"] = "screened"  # comparing all of them takes seconds
    if kind is hushcov.EigenSamplingCovariance:
        known["feature_scale"] = 1.0
    names = inspect.signature(kind).parameters
    estimator = kind(**{name: value for name, value in known.items() if name in names})

    def work():
        assert estimator.fit(X).covariance_.shape == (X.shape[1],) * 2

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
