"""The default's estimate of its own error, on tables of several kinds."""

import numpy as np
import pytest
from scipy import stats

from hushcov import PrivateSparseCovariance
from hushcov.mechanisms.adaptive import pairs
from statistics_helpers import FALSE_ALARM

pytestmark = pytest.mark.filterwarnings("ignore")


def related(rng, n, d):
    loadings = 0.5 * rng.normal(size=(d, 4)) * (rng.random((d, 4)) < 0.4)
    covariance = loadings @ loadings.T + np.eye(d)
    root = np.sqrt(np.diag(covariance))
    correlation = covariance / np.multiply.outer(root, root)
    return rng.standard_normal((n, d)) @ np.linalg.cholesky(correlation).T


def medical(rng):
    x = related(rng, 10_000, 20)
    x[:, 1::5] = np.exp(0.6 * x[:, 1::5])
    x[:, 3::5] = x[:, 3::5] > 1
    return x


def counts(rng):
    u = stats.norm.cdf(related(rng, 20_000, 15))
    return stats.nbinom.ppf(u, 1.0, 0.2)


TABLES = {
    "normal": lambda rng: related(rng, 15_000, 20),
    "medical": medical,
    "counts": counts,
    "amounts": lambda rng: np.exp(1.3 * related(rng, 10_000, 20)),
    "uniform": lambda rng: stats.norm.cdf(related(rng, 20_000, 12)),
    "answers": lambda rng: np.digitize(related(rng, 10_000, 30), [-1, 0, 1]) * 1.0,
}


def measured(kind, seed):
    x = TABLES[kind](np.random.default_rng([7, seed]))
    found = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, random_state=seed).fit(x)
    deviation, truth = x.std(axis=0), np.corrcoef(x.T)
    off = found.covariance_ / np.multiply.outer(deviation, deviation) - truth
    error = np.linalg.norm(off, 2) / np.linalg.norm(truth, 2)
    return error, found.error_estimate_


def test_an_error_made_by_tails_is_seen(monkeypatch):
    """Lognormal columns lose most of their variance: noise explains less than half of the error."""
    error, found = measured("amounts", 0)
    assert error > 0.4
    assert found.least < error < found.most
    assert 0.5 < found.error / error < 2
    monkeypatch.setattr(pairs, "missing_logarithm", lambda tails, v, *_: np.zeros_like(v))
    monkeypatch.setattr(pairs, "common_logarithm", lambda *_: 0.0)
    assert measured("amounts", 0)[1].error < 0.5 * error


@pytest.mark.slow
def test_the_error_is_inside_its_interval_nine_times_out_of_ten():
    """On 60 tables; intervals a third as wide would hold less often than that allows."""
    found = [measured(kind, seed) for kind in TABLES for seed in range(10)]
    inside = sum(each.least <= error <= each.most for error, each in found)
    assert inside >= stats.binom.ppf(FALSE_ALARM, len(found), 0.9)
    ratios = np.array([each.error / error for error, each in found])
    assert 0.6 < np.quantile(ratios, 0.1) < np.quantile(ratios, 0.9) < 2.0  # rather too high
    assert max(each.most / each.least for error, each in found if error < 0.5) <= 6
    narrow = np.abs(np.log(ratios)) <= 0.89 / 6
    assert narrow.sum() < stats.binom.ppf(FALSE_ALARM, len(found), 0.9)
