"""Whatever is released is a function of noisy numbers: documents of two datasets are equal.

See `coupling` for how noise is chosen. Each mechanism goes through its estimator, so that scales,
counts of complete records and everything that an estimator keeps are compared as well.
"""

import json
import re
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import sparse

from coupling import ADDED, coupled
from estimators.settings import OURS, RECORDS, SCALING, SETTINGS, D, make, setting
from estimators.site_settings import BILLION, BLOCK, multiscale, summed
from estimators.stand_ins import RepeatedRecords
from fit.screened.settings import DESIGN
from hushcov import (
    GaussianCovariance,
    MultiscaleCovariance,
    PrivateSparseCovariance,
    ScreenedCovariance,
)
from hushcov.exceptions import AccuracyWarning, PrivacyWarning
from hushcov.fit import complete
from hushcov.fit.screened import mechanism as screened
from hushcov.fit.screened.mechanism import screened_parameters
from hushcov.kernel.sums.products import ProductMap
from hushcov.release import Release
from hushcov.tables.sources import ArrayRecords
from hushcov_lab.peers import plan as peers_plan
from hushcov_lab.peers import row_top_k
from project import modules
from sessions import certified

pytestmark = pytest.mark.usefixtures("no_search")

# Other scales, other correlations, heavy tails, and one feature that hardly varies.
OTHER = RECORDS[::-1] ** 3 @ np.linspace(-1.0, 1.0, D * D).reshape(D, D)
OTHER[:, 3] *= 1e-9
OTHER.setflags(write=False)
# A hundredth as long: bounds on norms that are chosen from records would be other ones.
SHORT = 0.01 * RECORDS[::-1]
SHORT.setflags(write=False)


def with_gaps(X, every):
    records = ArrayRecords(np.where(np.arange(X.size).reshape(X.shape) % every == 0, np.nan, X))
    records.gaps = True
    return records


@contextmanager
def quiet():
    with warnings.catch_warnings():
        for expected in (AccuracyWarning, PrivacyWarning):
            warnings.simplefilter("ignore", expected)
        yield


def fitted(make_estimator):
    def fit(X):
        with quiet():
            return make_estimator().fit(X)

    return fit


def calibrated(reconstruction):
    def make_estimator():
        return MultiscaleCovariance(
            epsilon=1.0,
            delta=1e-6,
            row_sparsity=2,
            scale=1.0,
            constants="calibrated",
            reconstruction=reconstruction,
        )

    return make_estimator


def of_statistics(make_estimator, total):
    def release(X):
        with quiet():
            return make_estimator().fit_statistics(summed(make_estimator(), X, total=total))

    return release


RECORDS_WITH_GAPS = with_gaps(RECORDS, 301), with_gaps(OTHER, 97)
CASES = {
    f"{name}, {what}": (fitted(lambda name=name, changes=changes: setting(name, **changes)), *data)
    for names, what, changes, data in (
        (SETTINGS, "mean known", {"assume_centered": True}, (RECORDS, OTHER)),
        (SETTINGS, "scales known", {"feature_scale": 1.0}, (RECORDS, SHORT)),
        (SCALING, "nothing known", {"assume_centered": False}, (RECORDS, OTHER)),
        (OURS, "gaps, mean known", {"assume_centered": True}, RECORDS_WITH_GAPS),
        (OURS, "gaps", {}, RECORDS_WITH_GAPS),
        (OURS, "gaps, scales known", {"feature_scale": 1.0}, RECORDS_WITH_GAPS),
    )
    for name in names
} | {
    "PrivateSparseCovariance, pairs selected": (
        fitted(lambda: make(PrivateSparseCovariance, sparse_output=True)),
        RECORDS,
        OTHER,
    ),
    "PrivateSparseCovariance, normal scores": (
        fitted(lambda: make(PrivateSparseCovariance, transforms="rank")),
        RECORDS,
        OTHER,
    ),
    "PrivateSparseCovariance, marginals": (
        fitted(lambda: make(PrivateSparseCovariance, marginals=0.1)),
        RECORDS,
        OTHER,
    ),
    "PrivateSparseCovariance, caps and gaps": (
        fitted(lambda: make(PrivateSparseCovariance, transforms={0: "winsorise", 1: "log1p"})),
        *RECORDS_WITH_GAPS,
    ),
    "multiscale, gates": (fitted(calibrated("gate")), RECORDS, OTHER),
    "multiscale, values": (fitted(calibrated("value")), RECORDS, OTHER),
    "multiscale, theorem": (
        fitted(multiscale),
        RepeatedRecords(BLOCK, 10**6),
        RepeatedRecords(BLOCK[::-1] ** 3, 10**6),
    ),
    "gaussian, sums": (
        of_statistics(
            lambda: make(GaussianCovariance, feature_scale=1.0, assume_centered=True), len(RECORDS)
        ),
        RECORDS,
        OTHER,
    ),
    "multiscale, sums": (
        of_statistics(multiscale, BILLION),
        RepeatedRecords(BLOCK, 10**6),
        RepeatedRecords(BLOCK[::-1] ** 3, 10**6),
    ),
}


def same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(
            one, other, equal_nan=one.dtype != object
        )
    if sparse.issparse(one):
        return same(one.toarray(), other.toarray())
    return one == other


def document(release, folder):
    release.write(folder)
    description = json.loads((folder / "release.json").read_text())
    del description["making"]["made"]
    return description, (folder / "integers.npy").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_equal_noisy_numbers_give_equal_documents(name, tmp_path):
    release, first, second = CASES[name]
    one, other = coupled(release, first, second)
    assert one.release_ == other.release_
    assert document(one.release_, tmp_path / "1") == document(other.release_, tmp_path / "2")
    assert vars(one).keys() == vars(other).keys()
    for attribute, value in vars(one).items():
        assert same(value, vars(other)[attribute]), attribute


def test_a_screened_release_by_itself(tmp_path):
    inputs = make(ScreenedCovariance, feature_scale=1.0)._public_inputs(len(RECORDS), D)
    parameters = screened_parameters(inputs, DESIGN)

    def release(X):
        return screened.release_screened(certified(X, parameters), np.ones(D), parameters)

    one, other = coupled(release, RECORDS, SHORT)
    assert document(one, tmp_path / "1") == document(other, tmp_path / "2")


def trace_leaked(monkeypatch):
    gram_of, seen = row_top_k.row_bounded_gram, {}

    def watched(*rest, **options):
        gram = gram_of(*rest, **options)
        seen["trace"] = int(np.trace(gram))
        return gram

    def document_with_it(**fields):
        return Release(**fields | {"parameters": fields["parameters"] | seen})

    monkeypatch.setattr(row_top_k, "row_bounded_gram", watched)
    monkeypatch.setattr(peers_plan, "Release", document_with_it)


def size_leaked(monkeypatch):
    total, seen = ProductMap.sum, {}

    def watched(self, *rest, **options):
        sums = total(self, *rest, **options)
        seen["size"] = int(sums[-1])
        return sums

    def document_with_it(**fields):
        return Release(**fields | {"parameters": fields["parameters"] | seen})

    monkeypatch.setattr(ProductMap, "sum", watched)
    monkeypatch.setattr(screened, "Release", document_with_it)


@pytest.mark.parametrize(
    ("name", "leak"),
    [("row_top_k, mean known", trace_leaked), ("screened, mean known", size_leaked)],
)
def test_an_exact_number_in_the_document_is_noticed(name, leak, monkeypatch):
    leak(monkeypatch)
    one, other = coupled(*CASES[name])
    assert one.release_ != other.release_


def test_all_noise_is_watched():
    """Every module of a mechanism or a stage that draws noise, but for the one whose count is."""
    watched = {module.__name__ for module, _ in ADDED} | {complete.__name__}
    folders = ("hushcov.fit.", "hushcov_lab.peers.", "hushcov_genotypes.")
    drawing = {
        name
        for name, path in modules()
        if name.startswith(folders)
        and re.search(
            r"\b(rounded_normal|symmetric_noise)\((entropy\.)?generator", path.read_text()
        )
    }
    assert drawing
    assert drawing <= watched
