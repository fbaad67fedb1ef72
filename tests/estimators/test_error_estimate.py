"""The default's estimate of its own error, on tables of several kinds."""

import numpy as np
import pytest
from scipy import stats

from hushcov import GaussianCovariance, PrivateSparseCovariance
from hushcov.fit.adaptive import pairs
from hushcov.release.view import view
from hushcov.text.description import CONSTANT, HEAVY, UNRESOLVED, preparation_words, verdict
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


def elliptical(rng):
    return related(rng, 30_000, 20) * np.sqrt(3 / rng.chisquare(3, size=(30_000, 1)))


def spikes(rng):
    return related(rng, 30_000, 20) * np.where(rng.random((30_000, 20)) < 0.001, 30, 1)


def mixed(rng):
    x = np.exp(1.5 * related(rng, 40_000, 24))
    x[:, ::3] = np.log(x[:, ::3])
    return x


HEAVY_TABLES = {
    "elliptical t": elliptical,
    "rare large values": spikes,
    "half lognormal": mixed,
    "lognormal": lambda rng: np.exp(1.5 * related(rng, 30_000, 20)),
    "very lognormal": lambda rng: np.exp(2 * related(rng, 30_000, 20)),
    "t": lambda rng: stats.t.ppf(stats.norm.cdf(related(rng, 30_000, 20)), 3),
    "counts": lambda rng: np.floor(np.exp(1.3 * related(rng, 60_000, 40) - 0.5)),
}


def heavy_result(kind, seed):
    """Whether the error is inside its interval, and how many intervals cover the whole table."""
    x = (HEAVY_TABLES | TABLES)[kind](np.random.default_rng([8, seed]))
    release = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, random_state=seed).fit(x).release_
    found, seen, (rows, columns) = verdict(release), view(release), np.triu_indices(x.shape[1], 1)
    truth, deviation = np.corrcoef(x.T), x.std(axis=0)
    units = np.multiply.outer(deviation, deviation)
    estimate = seen.matrix.toarray() if hasattr(seen.matrix, "toarray") else seen.matrix
    error = np.linalg.norm(estimate / units - truth, 2) / np.linalg.norm(truth, 2)
    table, true = seen.table((rows, columns)), truth[rows, columns]
    covered = (table.correlation_lower <= true) & (true <= table.correlation_upper)
    own = seen.features()
    of_variances = (own["lower"] <= deviation**2) & (deviation**2 <= own["upper"])
    return found, found.least <= error <= found.most, covered.mean(), of_variances.mean()


@pytest.mark.parametrize("kind", ["elliptical t", "rare large values", "half lognormal"])
def test_records_far_away_are_seen_in_the_bound_on_norms(kind):
    """Error and intervals are those of the table before anything was cut off."""
    found, inside, correlations, variances = heavy_result(kind, 1)
    assert found.heavy_tails
    assert "far outside the others" in found.sentence
    assert inside
    assert min(correlations, variances) >= 0.9


def test_far_records_that_no_bin_shows_are_seen_in_several():
    """400 of 20,000 records, of many norms: before, this was called good, with an error of 0.05."""
    rng = np.random.default_rng(0)
    x = related(rng, 20_000, 40)
    x[:400, :13] += 15 * np.abs(rng.normal(size=(400, 13)))
    found = verdict(PrivateSparseCovariance(epsilon=1, delta=1e-6, random_state=0).fit(x).release_)
    assert found.heavy_tails
    assert found.word != "good"


@pytest.mark.slow
def test_errors_and_intervals_of_heavy_tails():
    found = {kind: [heavy_result(kind, seed)[1:] for seed in range(5)] for kind in HEAVY_TABLES}
    for kind, runs in found.items():
        inside, correlations, variances = np.mean(runs, axis=0)
        assert inside >= 0.8, kind
        assert min(correlations, variances) >= 0.9, kind


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_usual_tables_have_no_records_far_away(kind):
    found, inside, *_ = heavy_result(kind, 0)
    assert (found.heavy_tails, inside) == (False, True)
    assert "far outside" not in found.sentence


ADDED = {  # columns, bounds, and whether they are constant or not found
    "zeros": (lambda n: np.zeros((n, 1)), {}, UNRESOLVED),
    "sevens": (lambda n: np.full((n, 1), 7.0), {}, CONSTANT),
    "bounded": (lambda n: np.zeros((n, 1)), {0: (0, 1)}, CONSTANT),
    "rare": (lambda n: (np.arange(n)[:, None] % 4000 == 0) * 1.0, {}, UNRESOLVED),
    "many": (lambda n: np.full((n, 20), 7.0) * np.arange(1, 21), {}, CONSTANT),
}


@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("cls", [PrivateSparseCovariance, GaussianCovariance])
def test_a_constant_column_is_named_and_changes_no_verdict(cls, added):
    x = np.random.default_rng(4).standard_normal((20_000, 15)) + 3
    x[:, :8] += np.random.default_rng(5).standard_normal((20_000, 1))
    make, bounds, label = ADDED[added]
    more = make(len(x))
    budget = {"epsilon": 1.0, "delta": 1e-6, "random_state": 2}
    alone = verdict(cls(**budget).fit(x).release_)
    release = cls(bounds=bounds, **budget).fit(np.hstack([more, x])).release_
    found = verdict(release)
    assert (alone.word, found.word) == ("good", "good")
    assert 1 / 2 < found.error / alone.error < 2
    names = tuple(str(i) for i in range(more.shape[1]))
    assert (found.not_found, found.constant) == (
        (names, ()) if label == UNRESOLVED else ((), names)
    )
    assert f"{len(names)} of {x.shape[1] + len(names)} features" in found.sentence
    words = dict(preparation_words(release))
    assert label in words
    assert HEAVY not in words


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
