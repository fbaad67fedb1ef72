"""What a plan says that a fit finds, held against fits; and fits that would find nothing."""

import numpy as np
import pytest
from click.testing import CliRunner

from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.cli.plan import command
from hushcov.exceptions import HopelessError
from hushcov.fit.plan import Request
from hushcov.fit.registry import forecast

pytestmark = pytest.mark.filterwarnings("ignore")
MECHANISMS = {
    "adaptive": (PrivateSparseCovariance, {}),
    "screened": (ScreenedCovariance, {"row_sparsity": 5}),
    "gaussian-threshold": (GaussianCovariance, {"row_sparsity": 5, "threshold": "universal"}),
}
GRID = [
    (epsilon, d, n)
    for epsilon in (0.5, 1.0, 3.0)
    for d in (6, 20, 60, 150)
    for n in (600, 1_000, 3_000, 10_000, 30_000)
]


def limit(mechanism, epsilon, d, n):
    """The strength that is promised; None where nothing is."""
    request = Request(min(5, d), epsilon, 1e-6)
    found = forecast(request.inputs(n, d), mechanism).detection_limit
    return None if found is None or found >= 0.97 else found


def found_shares(mechanism, epsilon, d, n, strength, seeds):
    """Return which share of planted pairs of this correlation each fit reports as nonzero."""
    cls, options = MECHANISMS[mechanism]
    shares, pairs = [], max(1, d // 10)
    for seed in seeds:
        rng = np.random.default_rng([n, d, seed])
        x = rng.standard_normal((n, d))
        x[:, 1 : 2 * pairs : 2] *= np.sqrt(1 - strength**2)
        x[:, 1 : 2 * pairs : 2] += strength * x[:, : 2 * pairs : 2]
        x = x * np.exp(rng.normal(size=d)) + 3 * rng.normal(size=d)
        budget = {"epsilon": epsilon, "delta": 1e-6, "random_state": seed}
        table = cls(**budget, **options).fit(x).pairs()
        table = table[table["status"] == "nonzero"]
        found = {frozenset(each) for each in table[["feature_1", "feature_2"]].to_numpy()}
        shares.append(np.mean([{f"x{2 * i}", f"x{2 * i + 1}"} in found for i in range(pairs)]))
    return shares


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_promised_is_reported_as_nonzero(mechanism):
    size = 1.0, 20, 3_000
    strength = limit(mechanism, *size)
    assert strength < 0.6
    assert np.mean(found_shares(mechanism, *size, strength, range(5))) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_promised_is_reported_on_a_grid_of_sizes(mechanism):
    promised = {size: limit(mechanism, *size) for size in GRID}
    assert sum(each is not None for each in promised.values()) >= len(GRID) / 4
    for size, strength in promised.items():
        if strength is not None:
            shares = found_shares(mechanism, *size, strength, range(10))
            assert np.mean(shares) >= 0.8, (size, strength)


def test_nothing_is_promised_where_columns_may_not_be_found():
    for mechanism in MECHANISMS:
        assert limit(mechanism, 1.0, 20, 1_000) is None
    options = ["--records", "1000", "--features", "20", "--epsilon", "1", "--delta", "1e-6"]
    said = CliRunner().invoke(command, options).output
    assert "error" in said
    assert "nine times out of ten" not in said
    options[1] = "5000"
    said = " ".join(CliRunner().invoke(command, options).output.split())
    promise = "found nine times out of ten (k = 5), where columns are about normal"
    assert promise in said


@pytest.mark.parametrize("d", [3, 5, 20])
def test_a_few_hundred_rows_are_refused_before_the_charge(d):
    x = np.random.default_rng(0).normal(size=(600, d)) + 5
    est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, random_state=0)
    with pytest.raises(HopelessError, match=r"too few at this budget.*Nothing was read.*on_hopel"):
        est.fit(x)
    known = dict.fromkeys(range(d), (0, 10))
    if d == 3:  # limits of the columns help, and one may insist
        est.set_params(bounds=known).fit(x)
        est.set_params(bounds=None, on_hopeless="warn").fit(x)


@pytest.mark.parametrize(
    ("n", "d", "epsilon"), [(2_000, 2, 0.3), (4_000, 10, 0.3), (1_000, 5, 1.0), (600, 3, 1.0)]
)
def test_the_expected_share_of_features_is_found(n, d, epsilon):
    """Columns a few scales from zero; most are missed only where the plan refuses the fit."""
    request, shares = Request(2, epsilon, 1e-6), []
    inputs, stages = request.divide(n, d)
    budget = {"epsilon": epsilon, "delta": 1e-6, "on_hopeless": "warn"}
    for seed in range(60 // d):
        rng = np.random.default_rng([seed, n, d])
        x = rng.standard_normal((n, d)) + 3 * rng.standard_normal(d)
        fitted = GaussianCovariance(row_sparsity=2, random_state=seed, **budget).fit(x)
        shares.append(1 - fitted.unresolved_features_.size / d)
    assert abs(np.mean(shares) - inputs.found.share) < 0.25
    refused = any(each.error is HopelessError for each in request.cautions(inputs, stages, None))
    assert refused == (inputs.found.share < 0.5)
