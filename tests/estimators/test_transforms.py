"""Transforms of columns: public maps, caps and normal scores, through the estimators."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata, t

from hushcov import GaussianCovariance, PrivateSparseCovariance, read_codebook
from hushcov.exceptions import ParameterError
from hushcov.kernel.transforms import Transform
from hushcov.release import Release
from hushcov.release.scores import score_variances
from hushcov.tables.sources import open_records

pytestmark = pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")

NAMES = ("income", "fee", "visits", "flag")
LOADINGS = np.array([0.9, 0.7, 0.8, 0.5, 0.6, 0.3, 0.7, 0.85])


def latent(n, seed=0, loadings=LOADINGS[:4]):
    rng = np.random.default_rng(seed)
    factor, own = rng.normal(size=(n, 1)), rng.normal(size=(n, len(loadings)))
    return factor * loadings + np.sqrt(1 - loadings**2) * own


def table(n=4000, seed=0):
    Z = latent(n, seed)
    columns = [np.exp(2 * Z[:, 0]), t.ppf(ndtr(Z[:, 1]), 3), np.maximum(Z[:, 2], 0), Z[:, 3] > 1]
    return pd.DataFrame(np.stack(columns, axis=1), columns=NAMES)


def scores(X):
    ranks = (rankdata(X, axis=0) - 0.5) / len(X)
    return np.clip(ndtri(ranks), -3.5, 3.5)


def fitted(X, **options):
    usual = {"epsilon": 3.0, "delta": 1e-6, "random_state": 7}
    how = {name: options.pop(name) for name in ("unit",) if name in options}
    return PrivateSparseCovariance(**usual | options).fit(X, **how)


MAPS = {
    "log:0.5": lambda x: np.log(np.maximum(x, 0.5)),
    "log1p": lambda x: np.sign(x) * np.log1p(np.abs(x)),
    "sqrt": lambda x: np.sign(x) * np.sqrt(np.abs(x)),
}


@pytest.mark.parametrize("text", MAPS)
def test_public_maps_are_those_of_records_mapped_beforehand(text):
    frame = table()
    beforehand = frame.assign(fee=MAPS[text](frame.fee))
    here, there = fitted(frame, transforms={"fee": text}), fitted(beforehand)
    name = text.partition(":")[0]
    assert here.release_.column_names == ("income", f"{name}(fee)", "visits", "flag")
    assert list(here.feature_names_in_) == list(NAMES)
    assert np.array_equal(here.release_.integers, there.release_.integers)
    assert here.release_.guarantee == there.release_.guarantee  # they cost nothing
    assert list(here.labelled_covariance().columns) == list(here.release_.column_names)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"income": "ln"},
            "transforms must be one of log, log1p, sqrt, square, winsorise, rank,",
        ),
        ({"salary": "log1p"}, "transforms must name columns of the records, got 'salary'"),
        ({"income": "log"}, "must have a number after log for column 'income'"),
        ({"income": "log:-1"}, "transforms must be above 0"),
        ({"income": "log:x"}, "must have a number after log"),
        ({"income": "rank:3"}, "only log, square, winsorise take a number"),
        ({"income": "winsorise:0.4"}, "at most 0.25"),
        (["log1p"], "transforms must be a name, 4 names or a mapping"),
        (7, "transforms must be a name, 4 names or a mapping"),
    ],
)
def test_what_is_refused_before_a_record_is_read(given, words):
    with pytest.raises(ParameterError, match="transform") as caught:
        fitted(table(50), transforms=given)
    assert words in str(caught.value)


def test_options_that_contradict_are_refused():
    for more in ({"assume_centered": True}, {"feature_scale": 1.0}):
        with pytest.raises(ParameterError, match="quantiles that are released"):
            fitted(table(50), transforms="rank", **more)
    kind = {"epsilon": 1.0, "delta": 1e-6, "feature_scale": 1.0, "assume_centered": True}
    sums = GaussianCovariance(**kind, transforms="sqrt")
    with pytest.raises(ParameterError, match="transforms must be None for partial_fit"):
        sums.partial_fit(table(50), total_records=50)


def test_bounds_are_of_columns_before_and_are_mapped():
    frame = table()
    made = fitted(frame, bounds={"income": (1.0, 100.0)}, transforms={"income": "log"})
    assert made.release_.making.transforms[0].number == 1.0
    assert made.release_.making.bounds[0] == (0.0, pytest.approx(np.log(100.0)))


def sources(frame, folder):
    frame.to_csv(folder / "t.csv", index=False)
    np.save(folder / "t.npy", frame.to_numpy())
    yield "frame", frame, {}
    yield "csv", open_records(folder / "t.csv"), {}
    yield "npy", folder / "t.npy", {}
    yield "removed", frame, {"neighbours": "add-remove"}
    units = frame.assign(person=np.arange(len(frame)) // 2)
    yield "units", units, {"unit": "person", "max_rows_per_unit": 2}


def test_normal_scores_wherever_records_are(tmp_path):
    """Errors are at most 6 deviations of noise; a map that is left out is off by 0.3."""
    frame = table(12_000)
    wanted = np.corrcoef(scores(frame.to_numpy()).T)
    raw = np.corrcoef(frame.to_numpy().T)
    assert np.abs(raw - wanted).max() > 0.3
    for name, X, more in sources(frame, tmp_path):
        made = fitted(X, transforms="rank", **more)
        assert np.abs(made.correlation_ - wanted).max() < (0.09 if more else 0.05), name
        first = made.release_.column_names[0]
        assert first == ("rank(x0)" if name == "npy" else "rank(income)")
    again = Release.read(made.release_.write(tmp_path / "out"))
    assert again == made.release_
    assert again.making.transforms == made.release_.making.transforms


def test_a_codebook_has_transforms(tmp_path):
    path = tmp_path / "book.csv"
    path.write_text("name,low,high,kind,transform\nincome,1,,number,log\nflag,0,1,number,\n")
    assert read_codebook(path).transforms == {"income": "log"}
    path.write_text("name,low,high,kind,values,transform\nflag,,,category,a|b,log1p\n")
    with pytest.raises(ParameterError, match="which is a category"):
        read_codebook(path)
    path.write_text("name,low,high,kind,transform\nincome,0,,number,log\n")
    with pytest.raises(ParameterError, match="smallest value that counts"):
        read_codebook(path)


def shared(*shares):
    edges = tuple(float(i) for i in range(len(shares) - 1))
    return Transform("rank", None, edges, tuple(shares))


def test_sampling_variances_of_scores_in_two_cases_that_are_known():
    one = np.array([0]), np.array([1])
    fine = shared(*np.full(400, 1 / 400))
    for r in (-0.9, -0.5, 0.0, 0.3, 0.8):
        found = score_variances((fine, fine), one, np.array([r]))
        assert found[0] == pytest.approx((1 - r**2) ** 2, abs=0.02)
    # Two columns of 0 and 1: x^2 = 1 + s x, where s is the skewness.
    p, r = 0.2, 0.3
    s = (1 - 2 * p) / np.sqrt(p * (1 - p))
    both, fourth = 1 + s**2 * r, 1 + s**2
    exact = both - 2 * r * (r + s * (s * r)) + r**2 / 4 * (2 * fourth + 2 * both)
    flag = shared(1 - p, p)
    assert score_variances((flag, flag), one, np.array([r]))[0] == pytest.approx(exact, rel=0.05)
    assert np.isnan(score_variances((flag, None), one, np.array([r]))).all()


def mixed(n, kind, seed):
    """Eight columns of one factor, through increasing maps, and some of them in steps."""
    Z = latent(n, seed, LOADINGS)
    U = ndtr(Z)
    if kind == "lognormal":
        return np.exp(Z * np.tile([1.0, 2.0], 4) + 3)
    if kind == "t(3)":
        return t.ppf(U, 3) * 7 + 50
    zeros = np.tile([0.3, 0.5, 0.7, 0.9], 2)
    if kind == "zero-inflated":
        return np.where(zeros > U, 0, np.exp(Z))
    several = [np.exp(2 * Z[:, 0]), t.ppf(U[:, 1], 3), U[:, 2] > 0.8, np.floor(3 * U[:, 3] ** 2)]
    several += [np.where(U[:, 4] < 0.6, 0, U[:, 4]), np.floor(5 * U[:, 5]), *Z[:, 6:].T]
    return np.stack(several, axis=1).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lognormal", "t(3)", "zero-inflated", "mixed"])
def test_intervals_of_normal_scores_cover(kind):
    """Share of pairs inside 95 % intervals, over fits: between 0.93 and 0.97.

    The mean over 60 fits must be within 5 of its standard errors of that: a false alarm once in
    10^6. Intervals of half and of twice the width are rejected by the same rule.
    """
    truth = np.mean([np.corrcoef(scores(mixed(10**6, kind, seed)).T) for seed in (1, 2, 3)], axis=0)
    above = np.triu_indices(8, 1)
    inside = {1.0: [], 0.5: [], 2.0: []}
    for seed in range(60):
        X = mixed(20_000, kind, 100 + seed)
        made = fitted(X, epsilon=1.0, transforms="rank", random_state=seed)
        found = made.pairs(library="pandas").set_index(["feature_1", "feature_2"])
        names = made.release_.column_names
        rows = found.loc[[(names[i], names[j]) for i, j in zip(*above, strict=True)]]
        middle = (rows.correlation_lower + rows.correlation_upper).to_numpy() / 2
        half = (rows.correlation_upper - rows.correlation_lower).to_numpy() / 2
        for factor, hits in inside.items():
            hits.append(np.mean(np.abs(truth[above] - middle) <= factor * half))
    plausible = {}
    for factor, hits in inside.items():
        mean, error = np.mean(hits), max(np.std(hits, ddof=1), 0.01) / np.sqrt(len(hits))
        plausible[factor] = 0.93 - 5 * error <= mean <= 0.97 + 5 * error
    assert plausible == {1.0: True, 0.5: False, 2.0: False}


def test_squares_are_added_and_bounded(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"years": rng.uniform(0, 40, 20_000), "wage": rng.normal(size=20_000)})
    frame["wage"] += 0.06 * frame.years - 0.001 * frame.years**2
    known = {"bounds": {"years": (0.0, 40.0)}, "transforms": {"years": "square"}}
    made = fitted(frame, **known)
    assert made.release_.column_names == ("years", "wage", "square(years)")
    assert (made.n_features_in_, made.release_.n_features) == (2, 3)
    assert made.release_.making.bounds == ((0.0, 40.0), (None, None), (0.0, 400.0))
    beforehand = frame.assign(square=(frame.years - 20) ** 2)
    wanted = np.corrcoef(beforehand.to_numpy().T)
    assert np.abs(made.correlation_ - wanted).max() < 0.05
    assert Release.read(made.release_.write(tmp_path / "out")) == made.release_
    other = fitted(frame, transforms={"years": "square:20"})
    assert np.array_equal(other.release_.integers, fitted(beforehand).release_.integers)
    plan = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, transforms=["square:1", None])
    assert plan._fit_plan(20_000, 2).inputs.n_features == 3
    with pytest.raises(ParameterError, match="number after square"):
        fitted(frame, transforms={"years": "square"})


def test_bounds_under_maps_and_ranks():
    """Bounds are mapped once, whatever stages follow."""
    frame = table()
    known = {"bounds": {"income": (1.0, 100.0), "fee": (-5.0, 5.0)}}
    made = fitted(frame, **known, transforms={"income": "log", "fee": "rank"})
    first, second, *_ = made.release_.making.bounds
    assert first == (0.0, pytest.approx(np.log(100.0)))
    assert second == (-5.0, 5.0)  # of the column before it is ranked
