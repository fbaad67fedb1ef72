"""Columns of one category: which add up is told from the release, and said."""

from dataclasses import replace

import numpy as np
import pytest
from answer_documents import document

from hushcov.answers.components import partial_correlations
from hushcov.answers.regression import conditional, regress
from hushcov.answers.uncertain import adds_up, answered, spelt_out
from hushcov.exceptions import ParameterError
from hushcov.release.document import Making

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


def test_the_name_of_a_category_stands_for_its_columns_but_one():
    names, said = spelt_out(staff(), ["age", "team"])
    assert names == ["age", "team=a", "team=b"]
    assert "team=c is left out" in said[0]
    assert np.isfinite(regress(staff(), "remote=yes", names).upper).all()
    names, said = spelt_out(staff(2), ["team", "remote"])
    assert names == ["team=a", "team=b", "remote=yes"]  # all: one is left out already
    assert "left out" not in " ".join(said)
    with pytest.raises(ParameterError, match="became team=a, team=b, team=c: name those, all but"):
        regress(staff(), "age", "team")


def test_answers_are_values_of_columns():
    assert answered(staff(), "team", "b") == {"team=a": 0.0, "team=b": 1.0}
    assert answered(staff(), "team", "c") == {"team=a": 0.0, "team=b": 0.0}
    assert answered(staff(), "remote", "no") == {"remote=yes": 0.0}
    assert answered(staff(), "team", "d") is None
    assert answered(staff(), "age", "old") is None
    rare = replace(staff(), making=replace(staff().making, unresolved=(3,)))
    assert spelt_out(rare, ["team"])[0] == ["team=a", "team=b"]
    assert answered(rare, "team", "b") == {"team=a": 0.0, "team=b": 1.0}
    assert spelt_out(staff(), ["team"], every=True)[0] == ["team=a", "team=b", "team=c"]
    with pytest.raises(ParameterError, match=r"did you mean 'age'\?\): they are age, team=a"):
        regress(staff(), "aeg")
    nothing = replace(staff(), making=replace(staff().making, unresolved=(0, 1, 2, 3, 4)))
    with pytest.raises(ParameterError, match="nothing was found in this release"):
        regress(nothing, "age")


def test_partial_correlations_name_columns_that_add_up():
    found = partial_correlations(staff())
    assert "team=a, team=b and team=c add up" in found.warning
    assert "such as team=c" in found.warning
    assert partial_correlations(staff(2)).warning == ""


def test_values_outside_of_public_bounds_are_said():
    found = conditional(staff(), {"age": 400.0}, "remote=yes")
    assert found.warning is not None
    assert "age = 400 is outside its public bounds (at most 90)" in found.warning
    assert "at least 18" in (conditional(staff(), {"age": 1.0}, "remote=yes").warning or "")
    assert "bounds" not in (conditional(staff(), {"age": 90.0}, "team=a").warning or "")
