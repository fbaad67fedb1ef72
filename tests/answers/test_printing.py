"""`print` of every answer: a table with intervals, what its columns mean, and what was left out."""

from dataclasses import replace

import numpy as np
import pytest

from answers.answer_documents import document
from hushcov._arrays import FloatArray
from hushcov._words import figure
from hushcov.estimators.answering import LoadedCovariance
from hushcov.release.document import Making
from hushcov.text.printing import AnswerPage

NAMES = ("age", "<weight>", "team=a", "team=b", "pulse")
ROWS: FloatArray = np.random.default_rng(3).normal(size=(400, 5)) @ (np.eye(5) + 0.3)
ROWS[:, 2] = ROWS[:, 2] > 0
ROWS[:, 3] = (1 - ROWS[:, 2]) * (np.random.default_rng(4).random(400) < 0.9)


@pytest.fixture(scope="module")
def loaded():
    bounds = ((None, None), (None, None), (0.0, 1.0), (0.0, 1.0), (None, None))
    making = Making(n_records=10_000, bounds=bounds)
    location = ROWS.mean(axis=0) + 170 * np.eye(5)[0]
    named = {"column_names": NAMES, "making": making, "location": location}
    return LoadedCovariance(document(np.cov(ROWS.T), noise=0.01, **named))


QUESTIONS = {
    "Regression": lambda est: est.regression("age", ["<weight>", "pulse"]),
    "Odds ratios": lambda est: est.logistic("team=a", ["<weight>", "pulse"]),
    "Prediction": lambda est: est.conditional({"pulse": 1.0}, ["age", "<weight>"]),
    "Association": lambda est: est.association("team", "age"),
    "Principal components": lambda est: est.components(2),
    "Partial correlations": lambda est: est.partial_correlations(["age", "<weight>", "pulse"]),
    "Window": lambda est: est.window("age", "team=b"),
}


@pytest.mark.parametrize("title", QUESTIONS)
def test_every_answer_is_readable(loaded, title):
    found = QUESTIONS[title](loaded)
    text = str(found)
    assert repr(found) == text
    assert text.startswith(f"{title}\n")
    assert max(map(len, text.splitlines())) <= 100
    flat = " ".join(text.split())
    assert "the true value is between lower and upper in 95 % of releases" in flat
    assert all(note in flat for note in getattr(found, "notes", ()))
    assert " ".join((getattr(found, "warning", None) or "").split()) in flat
    columns = [column for column in found.table().values() if column.dtype == object]
    assert all(str(column[0]) in text for column in columns)
    html = found._repr_html_()
    assert "<weight>" not in html
    assert html.count("<tr>") == 1 + min(30, len(found.page().table["lower"]))
    assert "nan" not in text + html


def test_digits_tell_the_ends_of_an_interval_apart(loaded):
    found = loaded.conditional({"pulse": 1.0}, ["age"])
    line = next(line for line in str(found).splitlines() if line.startswith("age"))
    mean, low, high = map(float, line.split()[1:4])
    assert low < mean < high
    assert (low, high) == pytest.approx((found.lower[0], found.upper[0]), abs=0.06)


def test_long_tables_and_values_that_are_not_there():
    value = np.linspace(0, 1, 40)
    value[1] = np.nan
    table = {"feature": np.array(["a\x1b"] * 40, dtype=object), "correlation": value}
    table |= {"lower": value - 0.1, "upper": value + np.inf, "noise": np.zeros(40, dtype=bool)}
    page = AnswerPage("Title", [("fact", "sentence")], table, "legend", ["note"], "take care")
    text = str(page)
    assert "10 more lines: frame() has all" in text
    assert "not found none" in " ".join(text.split())
    assert "inf" in text
    assert "noise" not in text  # all of it is "no"
    assert "\x1b" not in text
    assert "WARNING: take care" in text
    assert "Warning: take care" in page.html()
    assert "noise" in str(replace(page, table=table | {"noise": value > 0.5}))


def test_zero_has_no_sign():
    assert figure(-0.0) == figure(0.0) == "0"
