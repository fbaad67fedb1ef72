"""Columns of one category: which add up is told from the release, and said."""

from dataclasses import replace

import numpy as np
import pytest
from answer_documents import document, fewest, sparse_document

from hushcov.answers.association import associate
from hushcov.answers.columns import adds_up, answered, spelt_out
from hushcov.answers.components import components
from hushcov.answers.conditional import conditional
from hushcov.answers.partial import partial_correlations
from hushcov.answers.regression import regress
from hushcov.answers.tables import around, pairs_table
from hushcov.exceptions import ParameterError
from hushcov.kernel.transforms import Transform
from hushcov.release.document import Making
from hushcov.release.findings import released_pairs
from hushcov.release.view import NONZERO, view
from hushcov.text.description import counted_facts, describe

SHARES = np.array([0.5, 0.3, 0.2])
NAMES = ("age", "team=a", "team=b", "team=c", "remote=yes")


def staff(listed=3, noise=1e-3):
    """A release of an age, so many of three answers, and a yes or no."""
    d = 2 + listed
    covariance = np.diag(np.full(d, 0.25))
    covariance[0, 0] = 100.0
    block = slice(1, 1 + listed)
    shares = SHARES[:listed]
    covariance[block, block] = np.diag(shares) - np.multiply.outer(shares, shares)
    names = (*NAMES[: 1 + listed], NAMES[-1])
    bounds = ((18.0, 90.0), *[(0.0, 1.0)] * listed, (None, None))
    making = Making(n_records=10_000, bounds=bounds)
    location = np.array([40.0, *shares, 0.5])
    return document(covariance, noise=noise, column_names=names, location=location, making=making)


def test_columns_that_add_up_are_told_from_others():
    assert adds_up(staff(), np.array([1, 2, 3]))
    assert not adds_up(staff(), np.array([1, 2]))
    assert not adds_up(staff(2), np.array([1, 2]))
    assert not adds_up(staff(), np.array([0]))
    assert not adds_up(staff(noise=0.2), np.array([1, 2, 3]))  # nobody can tell
    release = replace(staff(), selected=np.array([[1], [2]]))
    assert adds_up(release, np.array([1, 2, 3]))
    assert not adds_up(release, np.array([1, 3]))


def test_pairs_of_levels_of_one_category_are_not_counted_as_released():
    assert released_pairs(staff()) == 10 - 3
    selected = np.array([[0, 1, 1], [1, 2, 4]])
    assert released_pairs(replace(staff(), selected=selected)) == 2


def test_variances_end_at_what_public_bounds_allow():
    found = view(staff(noise=0.3)).features()
    assert found["variance"][1] < 0.25
    assert found["upper"][1] == 0.25
    assert found["upper"][4] > 0.25  # without bounds


def test_the_name_of_a_category_stands_for_its_columns_but_one():
    names, said = spelt_out(staff(), ["age", "team"])
    assert names == ["age", "team=a", "team=b", "team=c"]
    assert said == ["team stands for team=a, team=b and team=c."]
    found = regress(staff(), "remote=yes", ["age", "team"])
    assert found.features == ("age", "team=a", "team=b")
    assert found.notes == (
        said[0],
        "team=c is left out, as what to compare team=a and team=b with.",
    )
    assert np.isfinite(found.upper).all()
    every = regress(staff(), "remote=yes", names)  # each level by its name is no other question
    np.testing.assert_array_equal(every.upper, found.upper)
    found = regress(staff(2), "age", ["team", "remote"])
    assert found.features == ("team=a", "team=b", "remote=yes")  # all: one is left out already
    assert "left out" not in " ".join(found.notes)
    with pytest.raises(ParameterError, match="became team=a, team=b, team=c: name those, all but"):
        regress(staff(), "team", "age")


def test_answers_are_values_of_columns():
    assert answered(staff(), "team", "b") == {"team=a": 0.0, "team=b": 1.0}
    assert answered(staff(), "team", "c") == {"team=a": 0.0, "team=b": 0.0}
    assert answered(staff(), "remote", "no") == {"remote=yes": 0.0}
    assert answered(staff(), "team", "d") is None
    assert answered(staff(), "age", "old") is None
    rare = replace(staff(), making=replace(staff().making, unresolved=(3,)))
    assert spelt_out(rare, ["team"])[0] == ["team=a", "team=b"]
    assert answered(rare, "team", "b") == {"team=a": 0.0, "team=b": 1.0}
    with pytest.raises(ParameterError, match=r"did you mean 'age'\?\): they are age, team=a"):
        regress(staff(), "aeg")
    nothing = replace(staff(), making=replace(staff().making, unresolved=(0, 1, 2, 3, 4)))
    with pytest.raises(ParameterError, match="nothing was found in this release"):
        regress(nothing, "age")


def test_partial_correlations_leave_out_what_follows_from_others():
    found = partial_correlations(staff())
    assert found.warning == ""
    assert found.notes == (
        "team=c is left out, as what to compare team=a and team=b with.",
        "Levels of one category exclude each other, so that no pair of them is an edge.",
    )
    assert abs(found.matrix[1, 2]) > 0.5
    assert not found.edges.any()  # levels exclude each other, which is no finding
    assert partial_correlations(staff(2)).notes == found.notes[1:]
    directions = components(staff())
    assert directions.notes[0] == found.notes[0]
    assert "team=c" not in directions.features


def test_values_outside_of_public_bounds_are_said():
    found = conditional(staff(), {"age": 400.0}, "remote=yes")
    assert found.warning is not None
    assert "age = 400 is outside its public bounds (at most 90)" in found.warning
    assert "at least 18" in (conditional(staff(), {"age": 1.0}, "remote=yes").warning or "")
    assert "bounds" not in (conditional(staff(), {"age": 90.0}, "team=a").warning or "")


# ---- pairs of levels are no findings ----


def related(noise=1e-3, **changes):
    """Four answers that go with an age, and a release that found all of that."""
    rng = np.random.default_rng(0)
    team = rng.choice(4, size=20_000, p=[0.4, 0.3, 0.2, 0.1])
    hot = (team[:, None] == np.arange(4)).astype(float)
    age = 40 + 5.0 * (team == 0) + 10 * rng.standard_normal(len(team))
    remote = (rng.random(len(team)) < 0.2 + 0.5 * (team == 2)).astype(float)
    rows = np.column_stack([age, hot, remote])
    names = ("age", *(f"team={name}" for name in "abcd"), "remote")
    making = Making(n_records=len(rows), bounds=((None, None), *[(0.0, 1.0)] * 5))
    options = {"column_names": names, "location": rows.mean(axis=0), "making": making} | changes
    return document(np.cov(rows.T, bias=True), n=len(rows), noise=noise, **options), rows


def test_pairs_of_levels_are_in_the_matrix_and_in_no_list():
    release, _ = related()
    seen, words = view(release), describe(release)
    within = [(i, j) for i in range(1, 5) for j in range(i + 1, 5)]
    assert abs(view(release).correlation_matrix()[1, 2]) > 0.5
    assert seen.found.places
    assert not set(seen.found.places) & set(within)
    assert seen.n_found == len(seen.found)
    assert words.candidates == 15 - 6
    listed = pairs_table(release, 0.95)
    assert len(listed["feature_1"]) == 9
    assert NONZERO not in seen.table(tuple(np.array(within).T)).status
    assert "team=b" not in around(release, "team=a")["feature"]
    ((_, sentence),) = [each for each in counted_facts(release) if each[0] == "categories"]
    assert "levels of one category (team) exclude each other" in sentence
    alone = replace(release, column_names=tuple(name.replace("=", " ") for name in (*NAMES, "x")))
    assert set(view(alone).found.places) & set(within)  # other names are other columns
    maps = (None, *[Transform("log1p")] * 4, None)
    for form, own in (("={}", None), (" ={}", None), ("log1p(={})", maps)):  # not levels either
        names = ("age", *(form.format(each) for each in "abcd"), "x")
        alone = replace(release, column_names=names, making=replace(release.making, transforms=own))
        assert alone.categories == {}
        assert set(view(alone).found.places) & set(within)
    untold = replace(release, noise_sd=None, making=Making())
    assert view(untold).rule == "strongest"
    assert not set(view(untold).found.places) & set(within)


def test_associations_are_differences_of_means():
    release, rows = related()
    found = associate(release, "team", "age")
    in_level = rows[:, 1:5].astype(bool)
    exact = [rows[each, 0].mean() - rows[~each, 0].mean() for each in in_level.T]
    np.testing.assert_allclose(found.lines["difference"], exact, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.lines["share"], in_level.mean(axis=0))
    means = [rows[each, 0].mean() for each in in_level.T]
    np.testing.assert_allclose(found.lines["mean"], means, rtol=1e-4)
    between = sum(
        each.mean() * (mean - rows[:, 0].mean()) ** 2
        for each, mean in zip(in_level.T, means, strict=True)
    )
    assert found.explained[0] == pytest.approx(between / rows[:, 0].var(), rel=0.02)
    assert found.explained[1] < found.explained[0] < found.explained[2]
    assert "team=a: age is 5" in str(found)
    other = associate(release, "age", "team")  # either way
    np.testing.assert_array_equal(other.lines["lower"], found.lines["lower"])
    two = associate(release, "team", "remote")
    assert two.explained is not None
    both = associate(release, "remote", "team")
    assert both.lines["column"].tolist() == ["team=a", "team=b", "team=c", "team=d"]
    assert both.explained is None
    with pytest.raises(ParameterError, match="category must be a category"):
        associate(release, "team", "team")
    with pytest.raises(ParameterError, match="category must be a category"):
        associate(replace(release, making=Making(n_records=100)), "age", "remote")
    lost = replace(release, making=replace(release.making, unresolved=(2,)))
    assert associate(lost, "team", "age").lines["level"].tolist() == ["team=a", "team=c", "team=d"]
    with pytest.raises(ParameterError, match="category must be found"):
        associate(lost, "team=b", "age")


def test_shares_among_records_of_a_rare_level_stay_between_0_and_1():
    """Whatever noise makes of a covariance: here shares would be -0.5 and 1.5, and ages 155."""
    p, sure = 0.001, 0.02
    covariance = np.array(
        [[p, -p, p, 0.1], [-p, 0.25, -0.25, 0], [p, -0.25, 0.25, 0], [0.1, 0, 0, 200]]
    )
    making = Making(
        n_records=20_000,
        bounds=((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (18.0, 90.0)),
        indicators=(0, 1, 2),
        means_sd=(sure * p, 1e-3, 1e-3, 0.1),
    )
    names, location = ("rare", "sex=f", "sex=m", "age"), np.array([p, 0.5, 0.5, 55.0])
    release = document(covariance, noise=1e-3, column_names=names, location=location, making=making)
    both = associate(release, "rare", "sex").lines
    np.testing.assert_allclose(both["mean"], [0, 1], atol=2e-3)
    assert ((both["lower"] <= both["difference"]) & (both["difference"] <= both["upper"])).all()
    assert (np.abs(both["difference"]) <= 1).all()
    assert both["difference"][0] == pytest.approx(-both["difference"][1])
    assert associate(release, "rare", "age").lines["mean"][0] == 90


def test_pairs_of_rare_flags_that_were_not_selected_may_be_strong():
    """Signs say less of them: counted as zero like others, the pair missed in half of all fits."""
    p, sure = np.array([0.5, 0.02]), 1e-4
    covariance = np.diag([*(p * (1 - p)), 1.0, 1.0])
    covariance[2, 3] = covariance[3, 2] = 0.5
    known = {"bounds": ((0.0, 1.0), (0.0, 1.0), (None, None), (None, None)), "indicators": (0, 1)}
    making = Making(n_records=20_000, means_sd=(sure,) * 4, **known)
    location, names = np.array([*p, 0.0, 0.0]), ("often", "rare", "x", "y")
    about = {"making": making, "location": location, "column_names": names}
    release = sparse_document(covariance, noise_sd=(0.01, 0.015), **about)
    found = np.array([associate(release, name, "x").lines["upper"][0] for name in names[:2]])
    largest = found * np.sqrt(p * (1 - p))  # as correlations
    np.testing.assert_allclose(largest[0], 1.96 * 6 * 0.01, rtol=0.05)
    np.testing.assert_allclose(largest[1] * 2 * np.sqrt(p[1] * (1 - p[1])), largest[0], rtol=0.05)


@pytest.mark.parametrize("narrower", [1.0, 0.6])
def test_intervals_of_associations_cover(narrower):
    # One level counts of each release; false alarms are once in 1e6.
    exact, _ = related(noise=1e-9)
    truth = associate(exact, "team", "age").lines["difference"]
    covariance, rng, covered = exact.covariance(), np.random.default_rng(1), 0
    for _ in range(100):
        options = {"column_names": exact.column_names, "location": exact.location}
        near = covariance + 1e-9 * np.diag(np.diag(covariance))  # levels add up
        release = document(near, n=20_000, noise=0.01, rng=rng, **options)
        found = associate(release, "team", "age").lines
        off = np.abs(found["difference"] - truth)
        covered += np.count_nonzero(off <= narrower * (found["upper"] - found["lower"]) / 2) / 4
    assert (covered >= fewest(100)) == (narrower == 1.0)
