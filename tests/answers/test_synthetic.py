"""Synthetic rows have the law that the document says, read nothing else, and say what they lack."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from answer_documents import document, sparse_document
from scipy import special, stats
from test_any_release import any_release

import hushcov
from hushcov import PrivateSparseCovariance
from hushcov.answers import synthetic
from hushcov.answers.synthetic import MOST_FEATURES, OTHER, synthesize
from hushcov.exceptions import CapacityError, HushcovError, MissingPackageError, ParameterError
from hushcov.kernel.transforms import Transform
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Release
from hushcov.release.document import Kind, Making
from hushcov.release.view import view
from hushcov.tables.codebook import Codebook, CodebookColumn
from hushcov.tables.sources import open_records
from statistics_helpers import FALSE_ALARM, normal_p_value

pytestmark = pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")

N = 40_000
CORRELATION = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])


def told(correlation, mean, deviation, names, bounds=None, transforms=None, **changes):
    """An exact document of columns with these moments."""
    covariance = np.array(correlation) * np.multiply.outer(deviation, deviation)
    ends = None if bounds is None else tuple(bounds)
    making = Making(n_records=10_000, bounds=ends, transforms=transforms)
    known = {"location": np.array(mean, dtype=float), "column_names": tuple(names)}
    return document(covariance, **known | {"making": making} | changes)


@pytest.fixture(autouse=True)
def fewer_trials(monkeypatch):
    """Make categories quickly, where a test does not look at their correlations."""
    monkeypatch.setattr(synthetic, "_TRIED", 2**14)


def rows_of(release, n=N, **options):
    return synthesize(release, n, **{"random_state": 1} | options).frame()


def p_value_of(rows, correlation):
    """Of all correlations, by the law of those of normal columns."""
    i, j = np.triu_indices(len(correlation), 1)
    off = np.arctanh(np.corrcoef(rows.to_numpy().T)[i, j]) - np.arctanh(np.array(correlation)[i, j])
    return normal_p_value(off * np.sqrt(len(rows) - 3))


def test_normal_columns_have_the_released_moments():
    release = told(CORRELATION, [50, -3, 0.02], [10, 2, 1e-4], "abc")
    rows = rows_of(release)
    scores = (rows.mean() - [50, -3, 0.02]) / [10, 2, 1e-4] * np.sqrt(N)
    assert normal_p_value(scores.to_numpy()) > FALSE_ALARM
    spread = (rows.var() / np.array([10, 2, 1e-4]) ** 2 - 1) * np.sqrt(N / 2)
    assert normal_p_value(spread.to_numpy()) > FALSE_ALARM
    assert p_value_of(rows, CORRELATION) > FALSE_ALARM
    tenth_less = 0.9 * CORRELATION + 0.1 * np.eye(3)
    assert p_value_of(rows, tenth_less) < FALSE_ALARM
    assert set(rows.a) == set(rows.a.round(2))  # digits follow the deviation


def raw_table(n=20_000):
    """A table as people have it: words, codes, counts, and a flag that is a number."""
    rng = np.random.default_rng(0)
    age = rng.normal(50, 15, n).clip(18, 90)
    smoker = rng.random(n) < special.expit((50 - age) / 10 - 1)
    return pd.DataFrame(
        {
            "age": age.round(),
            "smoker": np.where(smoker, "Yes", "No"),
            "region": np.array(["north", "south", "west"])[rng.integers(0, 3, n)],
            "stage": rng.integers(1, 4, n),
            "visits": rng.poisson(1.0 + smoker),
            "cost": rng.poisson(3, n),
            "diabetes": (rng.random(n) < 0.08).astype(float),
        }
    )


def raw_codebook(path):
    path.write_text(
        "name,low,high,kind,values,transform\n"
        "age,18,90,integer,,\nsmoker,,,category,Yes,\nregion,,,category,north|south|west,\n"
        "stage,,,category,1|2|3,\nvisits,0,,integer,,\ncost,0,,integer,,log1p\n"
        "diabetes,,,binary,,\n"
    )
    return hushcov.read_codebook(path)


def test_rows_have_the_columns_and_values_of_the_table(tmp_path):
    """What the codebook of the fit says is in the release: no codebook is needed to draw rows."""
    table, book = raw_table(), raw_codebook(tmp_path / "codebook.csv")
    est = PrivateSparseCovariance(
        epsilon=4.0, delta=1e-6, bounds=book.bounds, transforms=book.transforms, random_state=1
    ).fit(open_records(table, codebook=book))
    est.save(tmp_path / "release")
    rows = hushcov.load(tmp_path / "release").synthesize(4_000, random_state=1)
    path = rows.save(tmp_path / "rows.csv")
    for found in (rows.frame(), pd.read_csv(path)):
        assert list(found) == list(table)
        for name in ("smoker", "region", "stage", "diabetes"):
            assert set(found[name]) == set(table[name])
        for name in ("age", "visits", "cost"):
            assert pd.api.types.is_integer_dtype(found[name])
            assert found[name].min() >= 0
        share = (found.smoker == "Yes").mean()
        assert share == pytest.approx((table.smoker == "Yes").mean(), abs=0.05)
        assert (found.smoker == "Yes").astype(float).corr(found.age) < -0.15
    without = replace(est.release_, making=replace(est.release_.making, kinds=None))
    assert set(rows_of(without, 100).smoker) == {"Yes", "No"}  # its bounds are 0 and 1


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("yes", "no"), {"yes", "no"}),
        (("N", "Y"), {"N", "Y"}),
        (("0", "1"), {0, 1}),
        ((), {0, 1}),
        (("a", "b"), {0, 1}),
    ],
)
def test_a_binary_column_has_its_words(words, values):
    release = told(
        CORRELATION, [0.2, 0, 0], [0.4, 1, 1], "abc", bounds=[(0.0, 1.0), *[(None,) * 2] * 2]
    )
    kinds = Kind("binary", words), None, None
    rows = rows_of(replace(release, making=replace(release.making, kinds=kinds)), 2_000)
    assert set(rows.a) == values
    if words and len(values & {"yes", "Y"}):
        assert rows.a.str.upper().str[0].eq("Y").mean() == pytest.approx(0.2, abs=0.06)


def test_the_same_seed_draws_the_same_rows_in_any_blocks(tmp_path, monkeypatch):
    release = category_release()
    found = synthesize(release, 500, random_state=3)
    path = found.save(tmp_path / "rows.csv")
    monkeypatch.setattr(synthetic, "_BLOCK", 64)
    again = synthesize(release, 500, random_state=3)
    pd.testing.assert_frame_equal(again.frame(), found.frame())
    pd.testing.assert_frame_equal(pd.read_csv(again.save(tmp_path / "b.csv")), pd.read_csv(path))
    whole = pd.read_parquet(again.save(tmp_path / "c.parquet"))
    assert (whole.to_numpy() == found.frame().to_numpy()).all()
    assert synthesize(release, 500).seed != synthesize(release, 500).seed
    generator = np.random.default_rng(5)
    drawn = [synthesize(release, 5, random_state=generator).seed for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert found.frame("polars").shape == (500, 3)


def test_without_pyarrow_csv_is_written_and_parquet_refused(tmp_path, monkeypatch):
    found = synthesize(category_release(), 20, random_state=0)
    with_it = found.save(tmp_path / "a.csv")
    monkeypatch.setattr("hushcov.answers.files.find_spec", lambda name: None)
    without = found.save(tmp_path / "b.csv")
    pd.testing.assert_frame_equal(pd.read_csv(with_it), pd.read_csv(without))
    with pytest.raises(MissingPackageError, match="files"):
        found.save(tmp_path / "b.parquet")


def category_release(**changes):
    """Weight with three levels, of which the middle one is not related to it."""
    shares = np.array([0.5, 0.3, 0.2])
    deviation = np.sqrt(shares * (1 - shares))
    between = -np.outer(shares, shares) / np.outer(deviation, deviation)
    correlation = np.eye(5)
    correlation[1:4, 1:4] = np.where(np.eye(3) > 0, 1.0, between)
    effect = np.array([-0.55, 0.3, 0.4])
    effect -= shares * (effect * deviation).sum() / deviation
    correlation[0, 1:4] = correlation[1:4, 0] = effect
    correlation[0, 4] = correlation[4, 0] = 0.3
    names = ["weight", *(f"region={level}" for level in ("north", "south", "west")), "smokes"]
    ends = ((None, None), *[(0.0, 1.0)] * 4)
    mean, own = [70, *shares, 0.25], [12, *deviation, np.sqrt(0.1875)]
    return told(correlation, mean, own, names, ends, **changes)


def test_levels_of_a_category_go_together_and_keep_their_correlations():
    release = category_release()
    rows = rows_of(release, 200_000)
    assert list(rows) == ["weight", "region", "smokes"]
    assert set(rows.region) == {"north", "south", "west"}
    assert set(rows.smokes) == {0, 1}
    assert rows.smokes.dtype == np.int64
    coded = pd.get_dummies(rows.region, dtype=float)
    coded = pd.concat([rows.weight, coded, rows.smokes], axis=1)
    wanted = view(release).correlation_matrix()
    assert np.linalg.norm(np.corrcoef(coded.to_numpy().T) - wanted, 2) < 0.03
    np.testing.assert_allclose(coded.mean()[1:], [0.5, 0.3, 0.2, 0.25], atol=0.01)


def test_two_categories_with_strong_ties_keep_their_correlations():
    """A copula of one normal number for each level is off by 0.2 here."""
    rng = np.random.default_rng(0)
    well, z = rng.normal(size=100_000), rng.normal(size=(2, 100_000))
    school = np.digitize(well + 0.4 * z[0], [-0.6, 0.8])
    region = (np.stack([well, 0 * well, -well]) + rng.gumbel(size=(3, len(well)))).argmax(axis=0)
    columns = {"income": well + 0.3 * z[1]}
    columns |= {f"school={k}": school == k for k in range(3)}
    columns |= {f"region={k}": region == k for k in range(3)}
    table = pd.DataFrame(columns, dtype=float)
    release = told(table.corr(), table.mean(), table.std().to_numpy(), list(table))
    rows = rows_of(release, 100_000)
    groups = ["school", "region"]
    coded = pd.get_dummies(rows, columns=groups, prefix_sep="=", dtype=float)[list(table)]
    assert np.linalg.norm((coded.corr() - table.corr()).to_numpy(), 2) < 0.05


def test_levels_that_are_not_listed_are_other():
    release = category_release()
    fewer = replace(release, location=np.array([70, 0.5, 0.3, -0.01, 0.25]))
    found = synthesize(fewer, N, random_state=0)
    shares = found.frame().region.value_counts(normalize=True)
    assert sorted(shares.index) == sorted([OTHER, "north", "south"])
    assert shares[OTHER] == pytest.approx(0.2, abs=0.02)
    assert "region=west" in str(found)
    fewer = replace(release, location=np.array([70, 0.47, 0.28, 0.18, 0.25]))
    assert OTHER not in set(rows_of(fewer).region)  # by their covariances they add up
    centred = replace(release, location=None)  # of records of mean zero these are numbers
    assert list(rows_of(centred, 10)) == list(release.column_names)


@pytest.mark.parametrize(
    ("bounds", "mean", "deviation", "shape"),
    [
        ((0.0, 100.0), 40.0, 20.0, "bounds"),
        ((0.0, None), 2.0, 2.0, "bounds"),
        ((None, 5.0), 4.0, 2.0, "bounds"),
        ((0.0, 1e9), 50.0, 5.0, "normal"),
        ((1.0, 2.0), 1.25, np.sqrt(0.1875), "known"),
        ((7.0, 7.0), 7.0, 1e-9, "known"),
    ],
)
def test_bounds_are_kept_with_mean_and_deviation(bounds, mean, deviation, shape):
    ends = ((None, None), bounds)
    correlation = [[1.0, 0.5], [0.5, 1.0]]
    release = told(correlation, [0.0, mean], [1.0, deviation], "ab", ends)
    drawn = synthesize(release, N, random_state=2)
    rows = drawn.frame()
    low, high = (-np.inf if bounds[0] is None else bounds[0], bounds[1] or np.inf)
    assert low <= rows.b.min()
    assert rows.b.max() <= high
    assert rows.b.mean() == pytest.approx(mean, abs=0.05 * deviation + 1e-9)
    assert rows.b.std() == pytest.approx(deviation, rel=0.05, abs=1e-8)
    assert drawn._numbers[1].shape == shape
    if low < high:
        assert rows.corr().iloc[0, 1] == pytest.approx(0.5, abs=0.03)
    if shape == "known":
        assert set(rows.b) <= set(bounds)


def edges_of(values, share=1 / 64):
    """Exact quantiles as a release has them."""
    edges = np.unique(np.quantile(values, np.arange(share, 1, share)))
    below = np.searchsorted(np.sort(values), edges, side="right") / len(values)
    return tuple(edges.tolist()), tuple(np.diff(below, prepend=0.0, append=1.0).tolist())


def test_transforms_are_undone():
    rng = np.random.default_rng(0)
    income = np.exp(1 + 0.5 * rng.normal(size=100_000))
    maps = (
        Transform("log1p"),
        Transform("rank", None, *edges_of(income)),
        Transform("winsorise", 0.01, (-2.0, 2.0)),
        Transform("square", 0.0),
    )
    names = [f"{own.name}({name})" for own, name in zip(maps, "abca", strict=True)]
    correlation = 0.4 + 0.6 * np.eye(4)
    release = told(correlation, [2, 0, 0, 3], [0.5, 1, 0.8, 1], names, transforms=maps)
    found = synthesize(release, N, random_state=0)
    rows = found.frame()
    assert list(rows) == ["a", "b", "c"]
    assert "squares" in str(found)
    back = np.log1p(rows.a)
    assert back.mean() == pytest.approx(2.0, abs=0.01)
    np.testing.assert_allclose(
        rows.b.quantile([0.1, 0.5, 0.9]), np.quantile(income, [0.1, 0.5, 0.9]), rtol=0.05
    )
    assert rows.c.between(-2, 2).all()
    ranked = special.ndtri((stats.rankdata(rows.b) - 0.5) / N)
    scores = np.corrcoef([back, ranked, rows.c])
    np.testing.assert_allclose(scores[np.triu_indices(3, 1)], 0.4, atol=0.03)


def test_released_marginals_without_what_noise_puts_far_away():
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.5, 100_000).astype(float)
    edges, shares = edges_of(counts, 1 / 512)
    far = Transform("rank", None, (-300.0, *edges), (0.01, *np.multiply(shares, 0.99)))
    release = told(np.eye(2), [0, 1.5], [1, np.sqrt(1.5)], "ab")
    release = replace(release, making=replace(release.making, marginals=(None, far)))
    book = Codebook((CodebookColumn("B", "integer", 0, None),))
    found = synthesize(release, N, random_state=0, codebook=book)
    rows = found.frame()
    assert rows.b.dtype == np.int64
    assert rows.b.min() == 0
    seen = rows.b.value_counts(normalize=True)
    np.testing.assert_allclose(
        seen.sort_index().loc[0:4], stats.poisson(1.5).pmf(range(5)), atol=0.03
    )
    assert "released quantiles of b" in str(found)
    assert "for a. A line 'marginals = 0.05'" in " ".join(str(found).split())


def test_columns_that_were_not_found_are_left_out_and_constant_ones_stay():
    release = told(np.eye(4), [1, 2, 0, 4], [1, 1, 1, 1], "abcd")
    integers = release.integers.copy()
    integers[3, 3] = -integers[3, 3]  # noise put its variance below zero
    making = replace(release.making, unresolved=(1, 2))
    scale = np.array([1.0, 0.0, 0.0, 1.0])
    release = replace(
        release, integers=integers, making=making, feature_scale=scale, noise_sd=(0.2, 0.2)
    )
    found = synthesize(release, 100, random_state=0)
    assert list(found.frame()) == ["a", "b"]
    assert set(found.frame().b) == {2.0}
    assert "left out: c, d" in str(found)
    lost = replace(release, making=replace(making, unresolved=(0, 1, 2)), location=np.zeros(4))
    with pytest.raises(ParameterError, match="nothing was found in this one"):
        synthesize(lost, 10)


def test_pairs_that_were_not_released_count_as_zero():
    release = sparse_document(np.eye(4) + 0.5 * (np.eye(4, k=1) + np.eye(4, k=-1)))
    found = synthesize(release, N, random_state=0)
    assert np.abs(found.frame().corr().iloc[0, 2:]).max() < 0.15
    assert "pairs that were not released" in str(found)
    assert "means of zero" in str(found)


def test_genotypes_are_counts_of_alleles():
    release = replace(
        told(np.eye(2), [0.4, 1.0], [0.5, 0.7], ["rs1", "rs2"]), mechanism="genotypes"
    )
    rows = rows_of(release)
    np.testing.assert_allclose(
        rows.rs1.value_counts(normalize=True).loc[[0, 1, 2]], [0.64, 0.32, 0.04], atol=0.015
    )


def test_any_release_gives_rows_or_a_refusal():
    rng, drawn = np.random.default_rng(0), 0
    for _ in range(40):
        try:
            rows = rows_of(any_release(rng), 50)
        except HushcovError:
            continue
        drawn += 1
        numbers = rows.select_dtypes("number").to_numpy()
        assert np.isfinite(numbers).all()
    assert drawn > 20


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "10", None, 10**10])
def test_how_many_must_be_a_whole_number(n):
    with pytest.raises(ParameterError, match=r"^n (must be an integer|is required)"):
        synthesize(category_release(), n)


def test_what_is_refused_before_anything_is_written(tmp_path):
    found = synthesize(category_release(), 10)
    (tmp_path / "there.txt").write_text("mine")
    (tmp_path / "folder.csv").mkdir()
    refused = {
        "there.csv": "exists",
        "rows.xlsx": "must end in .csv or .parquet",
        "folder.csv": "exists",
    }
    for name, words in refused.items():
        with pytest.raises(ParameterError, match=words):
            found.save(tmp_path / name)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["folder.csv", "there.txt"]
    found.save(tmp_path / "there.csv", overwrite=True)
    assert "Not kept:" in (tmp_path / "there.txt").read_text()
    with pytest.raises(ParameterError, match="random_state must be an integer at least 0"):
        synthesize(category_release(), 10, random_state="x")
    twice = told(np.eye(2), [0, 0], [1, 1], "aa")
    with pytest.raises(ParameterError, match="names differ, got a twice"):
        synthesize(twice, 10)
    d = MOST_FEATURES + 1
    none = np.empty((2, 0), dtype=np.int64)
    integers = symmetric_sparse(
        tuple(none), np.empty(0, dtype=np.int64), np.ones(d, dtype=np.int64)
    )
    wide = replace(document(np.eye(2)), integers=integers, selected=none, feature_scale=np.ones(d))
    with pytest.raises(CapacityError, match="release fewer columns"):
        synthesize(wide, 10)


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    found = synthesize(category_release(), 10)
    monkeypatch.setattr(
        synthetic, "table_writer", lambda path: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(ParameterError, match="cannot be written"):
        found.save(tmp_path / "rows.csv")
    assert list(tmp_path.iterdir()) == []


# ---- nothing but the document ----


def people(n, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 4)) + rng.normal(size=(n, 1))
    return pd.DataFrame(rows, columns=list("abcd"))


def test_a_seed_of_the_draws_takes_no_privacy(tmp_path):
    release = category_release()
    path = synthesize(release, 10, random_state=1).save(tmp_path / "a.csv")
    text = path.with_suffix(".txt").read_text()
    assert release.guarantee.private
    assert "NOT PRIVATE" not in text
    assert "no privacy rests on it" in text
    seeded = replace(release, guarantee=replace(release.guarantee, private=False))
    assert "NOT PRIVATE" in str(synthesize(seeded, 10))


# ---- quantiles that are bought ----


@pytest.fixture(scope="module")
def bought():
    rng = np.random.default_rng(0)
    table = people(20_000, 0).assign(d=lambda x: np.exp(x.d))
    table["e"] = rng.poisson(2, len(table)).astype(float)
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": 7}
    return table, PrivateSparseCovariance(**options, marginals=0.1).fit(table), options


def test_bought_quantiles_are_near_those_of_the_records(bought, tmp_path):
    """Counts have noise of 0.005 of the records; a column drawn as a normal one is off by more."""
    table, est, options = bought
    rows = est.synthesize(N, random_state=0).frame()
    for name in table:
        digits = 0 if name == "e" else 3  # values of a bin lie next to each other
        off = stats.ks_2samp(rows[name].round(digits), table[name].round(digits)).statistic
        assert off < 0.06, name
    plain = PrivateSparseCovariance(**options).fit(table)
    assert plain.release_.making.marginals is None
    normal = plain.synthesize(N, random_state=0).frame()
    assert stats.ks_2samp(normal.d, table.d).statistic > 0.15
    release = est.release_
    assert Release.read(release.write(tmp_path / "out")) == release


def test_marginals_beside_transforms_and_what_they_are_refused_with():
    table = people(20_000, 0)
    options = {"epsilon": 1.0, "delta": 1e-6, "marginals": 0.05, "random_state": 7}
    made = PrivateSparseCovariance(**options, transforms={"a": "rank", "b": "log1p"}).fit(table)
    assert [own and own.name for own in made.release_.making.transforms] == [
        "rank",
        "log1p",
        None,
        None,
    ]
    assert all(own.edges for own in made.release_.making.marginals)
    rows = made.synthesize(N, random_state=0).frame()
    assert rows.corr().iloc[2, 3] == pytest.approx(0.5, abs=0.08)
    for more in ({"assume_centered": True}, {"feature_scale": 1.0}):
        with pytest.raises(ParameterError, match="marginals must be left out with assume_centered"):
            PrivateSparseCovariance(**options, **more).fit(table)
    for share in (0.0, 0.6, "x"):
        with pytest.raises(ParameterError, match="marginals must be"):
            PrivateSparseCovariance(**options | {"marginals": share}).fit(table)
