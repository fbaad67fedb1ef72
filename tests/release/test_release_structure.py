"""What a release says of its structure, its factors and its error, in words and as data."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from documents import guarantee
from hushcov import GaussianCovariance
from hushcov.release import Making, Release, Structure
from hushcov.release.findings import released_factors
from hushcov.release.view import BEYOND, KEPT, view
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.text.description import (
    GOOD,
    HOPELESS,
    ROUGH,
    UNKNOWN,
    describe,
    structure_dict,
    verdict,
)

NAMES = tuple(f"item {i}" for i in range(20))
LOADING = np.linspace(0.2, 0.9, 20) * np.where(np.arange(20) == 3, -1, 1)
SPARSE = Structure("sparse", 0, "the rest looks like noise", 0.04, 0.02, 0.07)


def release(structure: Structure | None = SPARSE, **changes) -> Release:
    matrix = np.multiply.outer(LOADING, LOADING)
    np.fill_diagonal(matrix, 1.0)
    unit = 1e-6
    making = Making(n_records=10_000, threshold=0.01, structure=structure)
    made = Release(
        mechanism="adaptive",
        integers=np.rint(matrix / unit).astype(np.int64),
        unit=unit,
        guarantee=guarantee(),
        parameters={},
        feature_scale=np.full(20, 3.0),
        noise_sd=(1e-4, 1e-4),
        column_names=NAMES,
        making=making,
    )
    return replace(made, **changes)


def test_kind_reason_and_error_are_said():
    lines = dict(describe(release()).structure())
    assert list(lines) == ["structure", "error estimate"]
    assert lines["structure"].startswith("sparse: 190 of 190 pairs are kept")
    assert lines["structure"].endswith("the rest looks like noise")
    assert (
        "0.04 of the covariance's size (its norm), between 0.02 and 0.07" in lines["error estimate"]
    )
    assert "do as well" not in lines["error estimate"]
    told = release(parameters={"inputs": {"bandwidth": 3}, "taper": [1, 2]})
    assert (told.n_candidates, release().n_candidates) == (54, None)
    lines = dict(describe(told).structure())
    assert lines["structure"].startswith(
        "sparse: 19 of 54 candidate pairs are kept"
    )  # others are tapered
    assert "missed among the candidate pairs" in lines["error estimate"]
    assert "if all pairs but the candidates are zero" in verdict(told).sentence
    assert "candidate" not in verdict(release()).sentence


def test_other_structures_and_their_data():
    assert describe(release(None)).structure() == []
    assert structure_dict(release(None)) is None
    assert released_factors(release()) == ()
    found = release(Structure("factors", 1, "one", 0.02, 0.01, 0.03), column_names=None)
    assert "most correlated with it: 19 (0." in dict(describe(found).structure())["factor 1"]
    assert structure_dict(found)["factors"][0]["features"][0]["name"] is None
    found = structure_dict(release(Structure("factors", 1, "one", 0.02, 0.01, 0.03)))
    assert json.loads(json.dumps(found)) == found
    assert (found["kind"], found["n_factors"], found["error_estimate"]) == ("factors", 1, 0.02)
    assert found["error_interval"] == [0.01, 0.03]
    assert found["factors"][0]["features"][0]["name"] == "item 19"
    assert view(release()).rule == KEPT
    assert view(release(Structure("factors", 1, "one", 0.02, 0.01, 0.03))).rule == BEYOND
    alone = release(integers=np.diag(np.full(20, 10**6)))
    assert dict(describe(alone).structure())["structure"].startswith("sparse: no pair stands out")
    one = release(integers=np.full((1, 1), 10**6), feature_scale=np.ones(1), column_names=("age",))
    assert dict(describe(one).structure())["structure"] == "a variance: one feature has no pairs"


def test_factors_have_their_share_and_their_strongest_features():
    found = release(Structure("factors", 1, "one eigenvalue stands out", 0.02, 0.01, 0.03))
    (factor,) = released_factors(found)
    # The diagonal is no part of what is taken for the factor, which makes it a little weaker.
    assert factor.share == pytest.approx(np.sum(LOADING**2) / 20, rel=0.1)
    assert [i for i, _ in factor.strongest[:3]] == [19, 18, 17]
    assert factor.strongest[0][1] == pytest.approx(0.9, rel=0.1)
    values = dict(factor.strongest)
    assert values[3] < 0 < values[2]
    words = dict(describe(found).structure())
    assert words["structure"].startswith("factors: 1 factor that many features follow")
    assert "% of the variance; most correlated with it: item 19 (0." in words["factor 1"]
    assert words["factor 1"].count("item") == 5
    kind = Structure("factors", 1, "one", 0.02, 0.01, 0.03)
    mirrored = release(kind).integers * np.multiply.outer(
        np.where(np.arange(20) < 19, -1, 1), np.where(np.arange(20) < 19, -1, 1)
    )
    (factor,) = released_factors(release(kind, integers=mirrored))
    assert factor.strongest[0][0] == 19
    assert factor.strongest[0][1] > 0 > factor.strongest[1][1]


@pytest.mark.parametrize(
    ("error", "most", "kept", "said", "not_said"),
    [
        (
            0.95,
            1.05,
            1.0,
            "Zeros for all entries, which need no data, would do as well",
            "multiplied",
        ),
        (0.5, 1.02, 1.0, "may be no better than zeros", "do as well"),
        (0.95, 1.05, 0.25, "multiplied by 0.25", "may be"),
        (0.3, 0.6, 1.0, "zeros for all entries would have 1", "do as well"),
    ],
)
def test_an_error_near_1_is_called_what_it_is(error, most, kept, said, not_said):
    found = release(Structure("dense", 0, "many", error, 0.1, most, kept))
    words = dict(describe(found).structure())["error estimate"]
    assert said in words
    assert not_said not in words
    assert structure_dict(found)["as_bad_as_zeros"] == (error == 0.95)


@pytest.mark.parametrize(
    ("error", "most", "unresolved", "word"),
    [
        *((0.02, 0.05, (), GOOD), (0.1, 0.2, (), GOOD), (0.02, 0.21, (), ROUGH)),
        *((0.3, 0.8, (), ROUGH), (0.1, 0.81, (), HOPELESS), (0.5, 1.05, (), HOPELESS)),
        *((0.02, 0.05, (3,), GOOD), (0.02, 0.05, tuple(range(20)), HOPELESS)),
    ],
)
def test_the_verdict_follows_the_error_estimate(error, most, unresolved, word):
    found = release(Structure("sparse", 0, "few", error, 0.01, most))
    found = replace(found, making=replace(found.making, unresolved=unresolved))
    said = verdict(found)
    assert (said.word, said.error, said.least, said.most) == (word, error, 0.01, most)
    assert f"about {error:.2g} of the covariance's size (its norm), between 0.01" in said.sentence
    assert said.not_found == tuple(f"item {i}" for i in unresolved)
    named = f"{len(unresolved)} of 20 features could not be found: " + ", ".join(said.not_found[:2])
    assert (named in said.sentence) == bool(unresolved)


def test_without_an_error_estimate_noise_decides():
    """The true error is near what noise and sampling alone make: within a factor of two."""
    truth = sparse_covariance("block", 20, 4)
    for n, word in ((200_000, GOOD), (8_000, ROUGH), (300, HOPELESS)):
        rows = gaussian_records(truth, n, random_state=1)
        options = {"feature_scale": 1.0, "assume_centered": True, "random_state": 2}
        options["purpose"] = "covariance"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = GaussianCovariance(epsilon=1.0, delta=1e-6, **options).fit(rows)
        found = verdict(estimator.release_)
        assert found.word == word
        assert "by noise and sampling alone" in found.sentence
        error = np.linalg.norm(estimator.covariance_ - truth, 2) / np.linalg.norm(truth, 2)
        if word != HOPELESS:
            assert error / 2 < found.error < 2 * error
    silent = replace(estimator.release_, noise_sd=None)
    assert (verdict(silent).word, verdict(silent).error) == (UNKNOWN, None)
