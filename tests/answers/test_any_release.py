"""Questions to small releases of every kind: an answer or a refusal, and no warning of numpy."""

from dataclasses import replace

import numpy as np
import pytest
from answer_documents import UNIT, document

from hushcov.answers.association import associate
from hushcov.answers.components import components
from hushcov.answers.conditional import conditional
from hushcov.answers.odds import logistic
from hushcov.answers.partial import partial_correlations
from hushcov.answers.regression import regress
from hushcov.exceptions import ParameterError
from hushcov.postprocess import symmetric_sparse
from hushcov.release.document import Making, Structure

STRUCTURES = (
    None,
    Structure("sparse", 0, "", 0.1, 0.05, 0.3),
    Structure("factors", 1, "", 0.1, 0.05, 0.3, 0.9),
    Structure("dense", 0, "", 0.1, 0.05, 2.0),
)


def any_release(rng):
    d, n = int(rng.integers(2, 7)), int(rng.choice([2, 300, 10**9]))
    half = rng.normal(size=(d, int(rng.integers(1, d + 2))))
    matrix = np.eye(d) if rng.random() < 0.2 else half @ half.T + np.eye(d) * rng.integers(2)
    scale = np.sqrt(np.diag(matrix))
    noise = float(rng.choice([0.0, 1e-9, 1e-4, 0.01, 0.1, 10.0]))
    errors = np.tril(rng.normal(size=(d, d))) * noise
    matrix = matrix / np.multiply.outer(scale, scale) + errors + errors.T
    if rng.random() < 0.2:
        matrix = np.round(matrix)  # eigenvalues that are the same
    if rng.random() < 0.1:
        matrix[0] = matrix[:, 0] = 0.0
    reach = rng.choice([0, 3, 100])
    scale = 10.0 ** rng.uniform(-reach, reach, d) * (rng.random(d) > 0.05)
    making = Making(
        n_records=n,
        unresolved=tuple(np.flatnonzero(rng.random(d) < 0.1).tolist()),
        structure=STRUCTURES[rng.integers(4)],
        threshold=float(rng.choice([0.0, 0.01, 0.3, 5.0])),
    )
    release = document(
        np.eye(d),
        integers=np.rint(matrix / UNIT).astype(np.int64),
        feature_scale=scale,
        noise_sd=(noise, noise * 2**0.5),
        location=rng.normal(size=d) * scale,
        making=making,
        column_names=tuple(f"{'ab'[i % 2]}={i}" for i in range(d)),
    )
    release = release if rng.random() < 0.6 else of_pairs(release, rng)
    if rng.random() < 0.9:
        return release
    return replace(release, noise_sd=None, making=replace(release.making, structure=None))


def of_pairs(release, rng):
    pairs = np.array(np.triu_indices(release.n_features, 1))
    pairs = pairs[:, rng.random(pairs.shape[1]) < 0.5]
    values, own = release.integers[tuple(pairs)], release.integers.diagonal()
    integers = symmetric_sparse(tuple(pairs), values, own)
    if rng.random() < 0.5:
        integers = integers.toarray()
    making = replace(release.making, structure=STRUCTURES[rng.integers(2)])
    return replace(release, integers=integers, selected=pairs, making=making)


def levels_of(release):
    names = ("y", *(f"x={i}" for i in range(1, release.n_features)))
    return replace(release, column_names=names)


def shares_of(release):
    """The same, where columns may be shares: their means lie between 0 and 1."""
    return replace(levels_of(release), location=np.full(release.n_features, 0.3))


def questions(release, rng):
    d, location = release.n_features, release.location
    return (
        lambda: components(release),
        lambda: components(release, 1, level=0.9999),
        lambda: components(release, 2, correlation=False),
        lambda: partial_correlations(release),
        lambda: regress(release, 0),
        lambda: regress(release, 0, list(range(1, d))),
        lambda: regress(release, 0, "all", limit=float(rng.choice([1e-6, 1.0, 1e6]))),
        lambda: logistic(levels_of(release), 1, "all"),
        lambda: logistic(shares_of(release), 1),
        lambda: associate(levels_of(release), "x", 0),
        lambda: conditional(release, {0: location[0]}),
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(8))
def test_every_question_is_answered_or_refused(seed):
    rng = np.random.default_rng(seed)
    answered = 0
    for _ in range(12):
        for question in questions(any_release(rng), rng):
            try:
                question().table()
            except ParameterError:
                continue
            answered += 1
    assert answered > 40  # of 120


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_units_do_not_matter(size, sparse):
    rng = np.random.default_rng(0)
    half = rng.normal(size=(4, 6))
    usual = document(half @ half.T, noise=0.01)
    if sparse:
        pairs = np.array(np.triu_indices(4, 1))
        values, own = usual.integers[tuple(pairs)], usual.integers.diagonal()
        integers = symmetric_sparse(tuple(pairs), values, own)
        usual = replace(usual, integers=integers, selected=pairs)
        usual = replace(usual, making=replace(usual.making, structure=STRUCTURES[1]))
    other = replace(usual, feature_scale=usual.feature_scale * size)
    one, two = components(usual, 2), components(other, 2)
    np.testing.assert_allclose(two.variance_interval, one.variance_interval, rtol=1e-9)
    one, two = (components(each, 2, correlation=False) for each in (usual, other))
    np.testing.assert_allclose(two.variance_interval, one.variance_interval * size**2, rtol=1e-9)
    np.testing.assert_allclose(two.angle, one.angle, rtol=1e-6)
    one, two = partial_correlations(usual), partial_correlations(other)
    np.testing.assert_allclose(two.lower, one.lower, rtol=1e-9)
