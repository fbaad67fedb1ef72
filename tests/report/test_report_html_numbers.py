"""The numbers of the report: the estimator's own, the planner's own, and of bounded size."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from report_releases import BUDGET, fitted, made

from documents import quick_forecast
from hushcov.estimators import PrivateSparseCovariance
from hushcov.fit import forecast
from hushcov.fit import outlook as outlook_module
from hushcov.fit.outlook import MULTIPLES, outlook
from hushcov.kernel.accounting import Approximate, BoundedRange, Gaussian, Pure, TotalVariation
from hushcov.postprocess import symmetric_sparse
from hushcov.postprocess.strongest import scan
from hushcov.release import Making, Structure
from hushcov.release.document import FOURTH_POWERS
from hushcov.release.findings import error_bound, spectrum
from hushcov.release.view import BEYOND, KEPT, SELECTED, STRONGEST, ShownPair, view
from hushcov.report import sections
from hushcov.report.heat import strongest_map
from hushcov.report.pages import page_number as number
from hushcov.report.pages import short, subject_of
from hushcov.report.svg import map_svg
from hushcov.text.description import describe, relation_words, verdict
from hushcov.text.rows import EPSILON, ZCDP, budget


def report_page(release) -> str:
    return " ".join(sections.report_page(release).split())


#: Sound, beyond 1, and two pairs of features whose variances are noise.
NOISY = np.array(
    [
        *([1000, 500, 0, 0, 0, 0], [500, 1000, 0, 0, 0, 0]),
        *([0, 0, 1000, -1300, 0, 0], [0, 0, -1300, 1000, 0, 0]),
        *([0, 0, 0, 0, -40, 300], [0, 0, 0, 0, 300, 1000]),
    ]
)


def test_noise_is_said_to_be_noise(monkeypatch):
    monkeypatch.setattr(outlook_module, "forecast", quick_forecast)
    release = made(NOISY)
    findings = view(release)
    assert findings.found.places == [(0, 1), (2, 3)]  # 4 does not vary beyond noise
    table = findings.listed(3)
    np.testing.assert_array_equal(table.correlation, [0.5, np.nan])
    assert list(table.noise) == [False, True]
    assert list(findings.lost) == [False] * 4 + [True, False]
    page = re.sub(r"<svg.*?</svg>", "", report_page(release), flags=re.DOTALL)
    for part in (
        "1 of 6 variances came out negative: noise",
        ">not found</td>",
        "Grey cells are noise, 6 pairs",
        "Not found means a correlation beyond 1, or none because a variance is not positive",
        "Noise hides how <bdi>2</bdi> and <bdi>3</bdi> go together: correlation not found.",
    ):
        assert part in page, part
    assert "in opposite directions (deepest: 0.75)" in page
    sound = np.clip(NOISY, -900, 900)
    np.fill_diagonal(sound, 1000)
    page = report_page(made(sound)).split("<script")[0]
    for part in (">not found<", ": noise<", "are noise", "negative: noise", "Noise hides"):
        assert part not in page, part


def test_a_sentence_has_the_direction_of_its_relation():
    """Numbers, levels of categories and flags, which are 0 or 1 by their public bounds."""
    names = ("age", "weight", "region=north", "smoker=yes", "retired")
    bounds = ((None, None),) * 4 + ((0.0, 1.0),)
    making = Making(n_records=10_000, bounds=bounds)
    release = made(np.eye(5, dtype=np.int64), column_names=names, making=making)

    def said(i, j, correlation, ends=None):
        pair = ShownPair((i, j), 1.0, correlation, None, ends)
        return relation_words(release, pair).format(names[i], names[j])

    for found, sentence in (
        (said(0, 1, 0.432), "Records with a higher age tend to have a higher weight"),
        (said(0, 1, -0.432), "Records with a higher age tend to have a lower weight"),
        (said(0, 4, 0.432), "Records with retired tend to have a higher age"),
        (said(2, 1, -0.432), "Records with region=north tend to have a lower weight"),
        (said(2, 3, 0.432), "Records with region=north have smoker=yes more often"),
        (said(3, 4, -0.432), "Records with smoker=yes have retired less often"),
    ):
        sign = "-" if "low" in sentence or "less" in sentence else ""
        assert found == f"{sentence}: correlation {sign}0.43."
    assert said(0, 1, 0.432, (0.3812, 0.4)).endswith("correlation 0.43, between 0.38 and 0.40.")
    doubt = "correlation 0.02, between -0.0051 and 0.10, so that noise may explain it."
    assert said(0, 1, 0.02, (-0.0051, 0.1)).endswith(doubt)
    assert said(0, 1, None) == "Noise hides how age and weight go together: correlation not found."


def test_an_estimate_outside_its_interval_is_marked_and_explained(monkeypatch):
    """A pair that barely passed its threshold: its interval allows for having been shown."""
    monkeypatch.setattr(outlook_module, "forecast", quick_forecast)
    matrix = 10**6 * np.eye(3, dtype=np.int64)
    making = Making(n_records=10_000, threshold=0.05)
    matrix[0, 1] = matrix[1, 0] = 50_002
    matrix[0, 2] = matrix[2, 0] = 700_000
    release = made(matrix, unit=1e-6, making=making)
    shown = describe(release).strongest
    assert [pair.features for pair in shown] == [(0, 2), (0, 1)]
    assert [pair.outside for pair in shown] == [False, True]
    page = report_page(release)
    assert len(re.findall(r"to [\d.e-]+\*<", page)) == 2  # of the correlation and the covariance
    assert "* An estimate outside" in page
    matrix[0, 1] = matrix[1, 0] = 0
    assert "outside its interval" not in report_page(made(matrix, unit=1e-6, making=making))


@pytest.mark.parametrize(
    ("mechanism", "rule"),
    [
        *(("screened", KEPT), ("gaussian", BEYOND), ("row-top-k", SELECTED)),
        ("gaussian-threshold", KEPT),
        *(("multiscale", SELECTED), ("theorem", SELECTED), ("coinpress", STRONGEST)),
    ],
)
def test_what_counts_as_found(mechanism, rule):
    found = view(fitted(mechanism).release_)
    assert found.rule == rule
    sizes = np.abs(found.found.values)
    assert np.all(sizes[:-1] >= sizes[1:])
    true_pairs = {(0, 1), (2, 3), (4, 5)}
    assert true_pairs <= set(found.found.places) or mechanism == "multiscale"


def test_an_estimate_that_was_projected_keeps_the_released_intervals():
    integers = np.array([[1000, 990, -990], [990, 1000, 990], [-990, 990, 1000]])
    plain = view(made(integers))
    moved = view(made(integers, making=Making(n_records=10_000, projected=True)))
    assert np.linalg.eigvalsh(moved.matrix)[0] > -1e-12
    assert not np.allclose(moved.matrix, plain.matrix)
    assert set(moved.found.places) == set(plain.found.places)
    assert moved.n_found == plain.n_found == 3
    tables = moved.listed(3), plain.listed(3)
    for name in ("lower", "upper"):
        np.testing.assert_allclose(*(np.sort(getattr(table, name)) for table in tables))
    assert all(pair.outside for pair in tables[0].pairs())


def test_shares_are_of_what_adds_up():
    def unit(*events):
        return budget(made(np.eye(2, dtype=np.int64), events=events))["unit"]

    assert unit(Gaussian(0.3), BoundedRange(0.1, 5), TotalVariation(1e-9)) == ZCDP
    assert unit(Approximate(0.1, 1e-8), Pure(0.2)) == EPSILON
    assert unit(Approximate(0.1, 1e-8), Gaussian(0.2)) is None
    rows = budget(fitted("screened").release_)["rows"]
    rho = sum(float(spent) for _, _, spent, _ in rows)
    events = fitted("screened").release_.guarantee.events
    costs = [e.mu**2 / 2 if isinstance(e, Gaussian) else e.count * e.eta**2 / 8 for e in events]
    assert rho == pytest.approx(sum(costs), rel=0.01)  # of rounded numbers
    assert float(rows[-1][-1]) < fitted("screened").release_.guarantee.transcript_epsilon


def test_errors_at_other_numbers_of_records_change_as_the_planner_predicts():
    release = fitted("gaussian").release_
    error = verdict(release).error
    found = outlook(release, error)
    inputs = release.parameters["inputs"]
    estimator = PrivateSparseCovariance(**BUDGET, row_sparsity=inputs["row_sparsity"])
    # Steps before the values keep the share that they took here.
    names = [part.name for part in release.making.parts]
    before = release.making.parts[: names.index(FOURTH_POWERS) + 1]
    spent = math.hypot(*(event.mu for part in before for event in part.events))

    def predicted(n):
        return forecast(replace(estimator._public_inputs(n, 6), before=spent), "gaussian")

    here = predicted(4_000).typical_error
    rows = list(zip(found.records, found.errors, found.limits, strict=True))
    for multiple, (n, each, limit) in zip(MULTIPLES, rows, strict=True):
        expected = predicted(n)
        assert n == round(4_000 * multiple)
        assert each == pytest.approx(min(1.0, error * expected.typical_error / here))
        assert limit == expected.detection_limit
    assert found.errors[MULTIPLES.index(1)] == pytest.approx(error)
    # Noise is a third of this error, and what was cut off large values stays.
    structure = Structure("dense", 0, "many", error, error / 2, 2 * error, noise=error / 3)
    kept = replace(release, making=replace(release.making, structure=structure))
    rest = math.sqrt(8 / 9) * error
    for by_noise, each in zip(found.errors, outlook(kept, error).errors, strict=True):
        assert each == pytest.approx(min(1.0, math.hypot(by_noise / 3, rest))) or by_noise == 1.0
    alone = outlook(release, None)  # where the release does not tell its error
    assert alone.errors[MULTIPLES.index(1)] == pytest.approx(here)


def test_spectrum_of_few_and_of_many_features():
    found = spectrum(view(fitted("gaussian").release_))
    assert found.complete
    covariance = fitted("gaussian").release_.covariance()
    deviation = np.sqrt(np.diag(covariance))
    expected = np.linalg.eigvalsh(covariance / np.multiply.outer(deviation, deviation))[::-1]
    np.testing.assert_allclose(found.values, expected)

    d = 1_200
    rows = np.arange(0, d, 3)
    values = np.linspace(100, 900, len(rows)).astype(np.int64)
    matrix = symmetric_sparse((rows, rows + 1), values, np.full(d, 1000))
    release = made(matrix, selected=np.stack([rows, rows + 1]))
    found = spectrum(view(release))
    assert not found.complete
    exact = 1 + np.sort(values)[::-1] / 1000
    np.testing.assert_allclose(found.values[:1], exact[:1], rtol=1e-4)
    np.testing.assert_allclose(found.low[-1:], 2 - exact[:1], atol=1e-3)


def test_reach_of_errors_is_the_norm_of_noise():
    d, noise, n = 200, 0.02, 10_000
    release = made(1000 * np.eye(d, dtype=np.int64) + 1, noise_sd=(noise, noise))
    reach = error_bound(view(release))
    generator = np.random.default_rng(3)
    draws = np.triu(generator.normal(0, np.hypot(noise, 1 / np.sqrt(n)), (d, d)))
    norm = np.linalg.norm(draws + np.triu(draws, 1).T, 2)
    assert norm == pytest.approx(reach, rel=0.1)
    assert error_bound(view(fitted("separate").release_)) is None


def test_the_strongest_of_many_pairs(monkeypatch):
    generator = np.random.default_rng(0)
    d = 60
    matrix = generator.normal(size=(d, d))
    matrix += matrix.T
    factors = generator.uniform(0.5, 2, d)
    monkeypatch.setattr("hushcov.postprocess.matrices._BLOCK", 500)
    found = scan(matrix, factors, most=100, above=0.1)
    values = np.abs(matrix * np.multiply.outer(factors, factors))[np.triu_indices(d, 1)]
    assert found.total == np.count_nonzero(values > 0.1)
    expected = np.sort(values)[::-1][:100]
    np.testing.assert_allclose(np.sort(np.abs(found.pairs.values))[::-1], expected)
    assert np.all(np.diff(found.pairs.rows) >= 0)


def test_the_map_has_the_cells_of_the_estimate():
    release = fitted("gaussian-threshold").release_
    found = strongest_map(view(release), 120)
    exact = fitted("gaussian-threshold").correlation_
    np.testing.assert_array_equal(found.cells, exact[np.ix_(found.order, found.order)])
    picture = map_svg(found.cells, found.limit, "all", names=[f"<{i}>" for i in found.order])
    root = ElementTree.fromstring(picture)
    squares = {each.get("class"): each.get("d").count("z") for each in root.iter("path")}
    assert squares["diagonal"] == 6
    shown = [each.text for each in root.iter("text") if each.get("class") != "text"]
    shown += [each.text for each in root.iter("text") if "middle" in each.attrib.values()]
    values = exact[np.triu_indices(6, 1)]
    for value in values[values != 0]:
        assert shown.count(f"{value:.2f}".replace("-", "\N{MINUS SIGN}")) >= 2
    few = strongest_map(view(release), 3)
    assert len(few.order) == 3
    band = map_svg(found.cells[:2], 1.0, "band", kind="tile band")
    assert 'preserveAspectRatio="none"' in band
    assert "diagonal" not in band


def test_names_take_bounded_room():
    one = made(np.eye(1, dtype=np.int64), column_names=("a" * 10**6,))
    assert subject_of(one).names[0] == "a" * 59 + "\N{HORIZONTAL ELLIPSIS}"
    assert short("abcdef", 4) == "abc\N{HORIZONTAL ELLIPSIS}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.00123456, "0.00123"), (12345.6, "1.23e4"), (-0.5, "\N{MINUS SIGN}0.5")),
        *((1234.5, "1,230"), (1e-6, "1e-6"), (float("nan"), "out of range")),
    ],
)
def test_numbers(value, text):
    assert number(value) == text
