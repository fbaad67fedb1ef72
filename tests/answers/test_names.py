"""Names of columns in questions: case, categories, transforms, and what is suggested."""

from dataclasses import replace

import numpy as np
import pytest
from answer_documents import document

from hushcov.answers.association import associate
from hushcov.answers.columns import answered
from hushcov.answers.components import components
from hushcov.answers.conditional import conditional
from hushcov.answers.names import matching, positions
from hushcov.answers.partial import partial_correlations
from hushcov.answers.regression import regress
from hushcov.answers.tables import window
from hushcov.exceptions import ParameterError
from hushcov.kernel.transforms import Transform
from hushcov.release.document import Making

NAMES = ("Age", "log1p(total_cost)", "diabetes=yes", "sex=F", "sex=M", "weight", "Weight")
MAPS = (None, Transform("log1p"), *[None] * 5)


def release_of(**changes):
    """A release with a transform, a category of one column, and one of two that add up."""
    S = np.full((7, 7), 0.2) + 0.8 * np.eye(7)
    S[2:5, 2:5] = np.diag([0.1, 0.25, 0.25])
    S[3, 4] = S[4, 3] = -0.25
    S[2:5, [0, 1, 5, 6]] = S[[0, 1, 5, 6], 2:5] = 0.0
    S[2, 0] = S[0, 2] = 0.1
    S = S + 1e-7 * np.eye(7)
    making = Making(n_records=10_000, transforms=MAPS, **changes)
    return document(S, column_names=NAMES, location=np.full(7, 0.1), making=making)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        *((" AGE", 0), ("age", 0), ("Weight", 6), ("weight", 5), (1, 1)),
        *(("LOG1P(TOTAL_COST)", 1), ("total_cost", 1), ("Total_Cost", 1)),
        *(("diabetes", 2), ("Diabetes", 2), ("DIABETES=YES", 2)),
    ],
)
def test_one_column_is_meant(given, place):
    assert positions(release_of(), given).tolist() == [place]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("WEIGHT", "did you mean"),
        ("AGEE", "did you mean 'Age'"),
        ("DIABETTES", "did you mean 'diabetes"),
        ("SEX", "which became sex=F, sex=M: name those"),
        (7, "got 7"),
    ],
)
def test_what_is_ambiguous_or_unknown_is_refused_with_a_suggestion(given, words):
    with pytest.raises(ParameterError, match=words):
        positions(release_of(), given)


def test_every_question_takes_names_in_any_case():
    release = release_of()
    assert components(release, 1, features=["age", "TOTAL_COST"]).features.tolist() == [
        "Age",
        "log1p(total_cost)",
    ]
    assert partial_correlations(release, ["AGE", "weight"]).features.tolist() == ["Age", "weight"]
    assert window(release, "AGE", "Total_cost").features == NAMES[:2]
    assert matching(release, "AGE").tolist() == [0]
    assert associate(release, "SEX", "age").table()["level"].tolist() == ["sex=F", "sex=M"]
    assert answered(release, "Diabetes", "YES") == {"diabetes=yes": 1.0}


def test_a_category_is_a_target_where_one_column_says_it_all():
    release = release_of()
    found = regress(release, "diabetes", ["age"])
    assert found.target == "diabetes=yes"
    assert found.notes == ("diabetes stands for diabetes=yes.",)
    np.testing.assert_array_equal(
        found.coefficients, regress(release, "diabetes=yes", ["Age"]).coefficients
    )
    assert regress(release, "Sex", "age").target == "sex=F"  # sex=M is what it leaves
    assert regress(release, "age", ["DIABETES", "sex"]).features == ("diabetes=yes", "sex=F")


def test_a_transformed_column_goes_by_its_own_name():
    release = release_of()
    found = regress(release, "total_cost", ["age"])
    assert found.target == "log1p(total_cost)"
    assert found.notes == ("total_cost stands for log1p(total_cost).",)
    by_value = conditional(release, {"total_cost": 99.0}, "age")
    mapped = conditional(release, {"log1p(total_cost)": np.log(100.0)}, "age")
    assert by_value.given == mapped.given
    np.testing.assert_array_equal(by_value.mean, mapped.mean)
    twice = replace(
        release,
        column_names=(*NAMES[:5], "sqrt(total_cost)", "Weight"),
        making=replace(release.making, transforms=(*MAPS[:5], Transform("sqrt"), None)),
    )
    with pytest.raises(ParameterError, match="got 'total_cost'"):
        positions(twice, "total_cost")


def test_columns_that_were_not_found_are_left_out_of_those_named():
    release = release_of(unresolved=(0,))
    found = regress(release, "weight", ["age", "total_cost"])
    assert found.features == ("log1p(total_cost)",)
    assert "Left out: Age, which does not vary or cannot be told from noise." in found.warning
    with pytest.raises(ParameterError, match="on must be found, got column 'Age'"):
        regress(release, "weight", ["age"])


def test_a_column_that_came_out_constant_is_left_out():
    """One with public bounds always has a scale: noise is all that its variance is."""
    release = release_of()
    integers = release.integers.copy()
    integers[0, 1:] = integers[1:, 0] = 0
    integers[0, 0] = round(2 * release.noise_sd[1] / release.unit)
    still = replace(release, integers=integers)
    found = regress(still, "weight", ["age", "total_cost", "sex"])
    without = regress(still, "weight", ["total_cost", "sex"])
    assert "Left out: Age, which does not vary or cannot be told from noise." in found.warning
    np.testing.assert_array_equal(found.upper, without.upper)
    with pytest.raises(ParameterError, match="target must be found, got column 'Age'"):
        regress(still, "age", ["weight"])
