"""The planner's page in a browser: every slider, by keyboard, gives the planner's own numbers."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from chromium import each_screen
from hushcov._words import memory, number
from hushcov.planning import COMPARED_MODELS
from planner_pages import MECHANISMS, RECORDS, embedded_data, planner, write_small_page

START = {"n_features": 3, "row_sparsity": 2, "epsilon": 1.0, "delta": 1e-6, "n_records": RECORDS[1]}
# From where the page starts, one step to the other value of each slider.
MOVES = {
    "n_records": ("ArrowRight", RECORDS[2]),
    "n_features": ("ArrowLeft", 1),
    "row_sparsity": ("ArrowLeft", 1),
    "epsilon": ("ArrowRight", 3.0),
    "delta": ("ArrowLeft", 1e-8),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        return write_small_page(tmp_path_factory.mktemp("planner") / "plan.html", monkeypatch)


def _figures(page, table="#numbers") -> dict[tuple[str, str], tuple[float | None, str]]:
    """Value at full precision and text of each cell, by mechanism and field."""
    cells = page.eval_on_selector_all(
        f"{table} td[data-field]",
        "cells => cells.map(cell => [cell.dataset.mechanism, cell.dataset.field, "
        "cell.dataset.value ?? null, cell.textContent])",
    )
    return {
        (name, field): (None if value is None else float(value), text)
        for name, field, value, text in cells
    }


def _expected(**values) -> dict[tuple[str, str], tuple[float | None, str]]:
    """The same from the planner."""
    n_records = values.pop("n_records")
    row = planner(**values).row(n_records)
    found = {}
    for each in row.forecasts:
        errors = {"typical": each.typical_error}
        errors |= {model: each.predicted_error[model] for model in COMPARED_MODELS}
        for field, error in errors.items():
            found[each.mechanism, field] = (error, number(error, 2))
        limit = each.detection_limit
        words = "-" if limit is None else number(limit, 2) if limit < 1 else "none"
        found[each.mechanism, "finds from"] = (limit, words)
        needed = row.memory(each.mechanism)
        found[each.mechanism, "memory"] = (needed, memory(needed))
    return found


def _press(page, name, key):
    page.focus(f"#{name}")
    page.keyboard.press(key)


def test_the_page_starts_with_the_values_asked_for(open_page, path):
    page = open_page(path)
    assert _figures(page) == _expected(**START)
    best = planner().row(START["n_records"]).best
    assert page.inner_text(f"#numbers td.best[data-mechanism={best.mechanism}] >> nth=0") == "best"
    assert page.inner_text("#summary") == (
        f"Best: {best.mechanism}. Its typical error is {number(best.typical_error, 2)} with 3,000 "
        "records of 3 features."
    )
    assert page.inner_text("#n_records-label") == "3,000 records"
    assert page.inner_text("#command").endswith("--row-sparsity 2 --epsilon 1 --delta 1e-6")


@pytest.mark.parametrize("name", [name for name in MOVES if name != "n_features"])
def test_each_slider_moves_by_keyboard_to_the_planners_numbers(open_page, path, name):
    page = open_page(path)
    before = _figures(page)
    key, value = MOVES[name]
    _press(page, name, key)
    after = _figures(page)
    assert after == _expected(**(START | {name: value}))
    assert after != before
    slider = next(each for each in embedded_data(path)["sliders"] if each["name"] == name)
    label = slider["labels"][slider["values"].index(value)]
    assert page.get_attribute(f"#{name}", "aria-valuetext") == label
    assert page.inner_text(f"#{name}-label") == label


def test_all_combinations_are_the_planners(open_page, path):
    page = open_page(path)
    sliders = embedded_data(path)["sliders"]
    now = [each["start"] for each in sliders]
    for steps in itertools.product(*(range(len(each["values"])) for each in sliders)):
        for place, slider in enumerate(sliders):
            if steps[place] != now[place]:
                page.fill(f"#{slider['name']}", str(steps[place]))
        now = steps
        values = {
            each["name"]: each["values"][step] for each, step in zip(sliders, steps, strict=True)
        }
        if values["row_sparsity"] <= values["n_features"]:
            assert _figures(page) == _expected(**values)


def test_what_cannot_be_planned_is_explained(open_page, path):
    page = open_page(path)
    _press(page, "n_features", "ArrowLeft")
    figures = _figures(page)
    assert set(figures.values()) == {(None, "-")}
    assert page.inner_text("#summary").startswith("Nothing can be planned with 3,000 records")
    (reason,) = page.locator("#refusals li").all_inner_texts()
    assert reason.startswith("row_sparsity must be an integer at least 1 and at most 1, got 2")
    _press(page, "row_sparsity", "ArrowLeft")
    assert _figures(page) == _expected(**(START | {"n_features": 1, "row_sparsity": 1}))
    assert page.locator("#refusals li").count() == 0


@pytest.mark.parametrize("shown", ["typical", "random"])
def test_curves_and_their_table_show_the_chosen_error(open_page, path, shown):
    page = open_page(path)
    page.select_option("#shown", shown)
    page.click("details summary")
    rows = {n: _expected(**(START | {"n_records": n})) for n in RECORDS}
    assert _figures(page, "#curve-numbers") == {
        (name, str(n)): rows[n][name, shown] for n in RECORDS for name in MECHANISMS
    }
    places = {
        (n, rows[n][name, shown][0]): place
        for name in MECHANISMS
        for n, place in zip(RECORDS, _places(page, name), strict=True)
    }
    assert _is_line([(math.log(n), x) for (n, _), (x, _) in places.items()])
    assert _is_line([(-math.log(error), y) for (_, error), (_, y) in places.items()])
    texts = page.locator("#chart text").all_text_contents()
    assert "zero matrix: 1" in texts
    assert "number of records n (log scale)" in texts
    assert f"predicted error, {shown} (relative, log scale)" in texts


def _places(page, mechanism) -> list[tuple[float, float]]:
    """Where the marks of a curve are drawn."""
    marks = page.locator(f"#chart g[data-mechanism={mechanism}] .mark")
    moves = marks.evaluate_all("marks => marks.map(mark => mark.getAttribute('transform'))")
    return [tuple(map(float, re.findall(r"[-\d.]+", move)[:2])) for move in moves]


def _is_line(points) -> bool:
    """Whether the second numbers are a rising line in the first."""
    (x0, y0), (x1, y1) = min(points), max(points)
    slope = (y1 - y0) / (x1 - x0)
    return slope > 0 and all(y0 + slope * (x - x0) == pytest.approx(y) for x, y in points)


def test_the_smallest_number_of_records_for_a_target(open_page, path):
    page = open_page(path)
    for target in (0.5, 0.02, 1e-9):
        page.fill("#target", str(target))
        found = page.eval_on_selector_all(
            "#enough li", "lines => lines.map(each => [each.dataset.mechanism, each.dataset.value])"
        )
        for name, value in found:
            errors = [_expected(**(START | {"n_records": n}))[name, "typical"][0] for n in RECORDS]
            enough = [n for n, error in zip(RECORDS, errors, strict=True) if error <= target]
            assert value == (str(enough[0]) if enough else "")
    page.fill("#target", "7")
    assert page.inner_text("#target-note").startswith("Give a number above 0 and at most 1")
    assert page.get_attribute("#target", "aria-invalid") == "true"


def test_a_link_brings_the_state_back(open_page, path):
    page = open_page(path)
    for name, (key, _) in MOVES.items():
        _press(page, name, key)
    page.select_option("#shown", "banded")
    page.fill("#target", "0.3")
    state = page.evaluate("location.hash")
    assert "epsilon=3&" in state
    again = open_page(path)
    again.goto(path.resolve().as_uri() + state)
    again.reload()
    values = {name: value for name, (_, value) in MOVES.items()}
    assert _figures(again) == _expected(**values)
    assert again.input_value("#shown") == "banded"
    assert again.input_value("#target") == "0.3"
    again.click("#reset")
    assert _figures(again) == _expected(**START)


def test_a_broken_link_is_ignored(open_page, path):
    page = open_page(path)
    page.goto(path.resolve().as_uri() + "#epsilon=7&delta=%3Cimg%3E&shown=x&target=-1&n_records=")
    page.reload()
    assert _figures(page) == _expected(**START)
    assert page.locator("img").count() == 0


def test_the_keyboard_reaches_everything_in_order(open_page, path):
    page = open_page(path)
    expected = ["n_records", "n_features", "row_sparsity", "epsilon", "delta", "reset"]
    expected += ["shown", "SUMMARY", "DIV", "target"]  # the curves, the table, the target
    for name in expected:
        page.keyboard.press("Tab")
        reached = page.evaluate("document.activeElement.id || document.activeElement.tagName")
        assert reached == name
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


@each_screen
def test_it_is_readable_on_phones_and_desktops_by_day_and_night(open_page, path, viewport, scheme):
    page = open_page(path, viewport=viewport, color_scheme=scheme)
    page.click("details summary")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width == viewport["width"]
    for table in page.locator(".wide").all():
        assert table.evaluate("each => each.scrollWidth <= each.clientWidth")
    named = page.locator("#chart text.name").count() or page.locator("#legend li").count()
    assert named == len(MECHANISMS)
    for selector in ("body", "#numbers td.best", "figcaption", "#settings output", "#chart text"):
        assert page.locator(selector).first.evaluate(_CONTRAST) > 4.5, selector
    for name in MECHANISMS:
        mark = page.locator(f"#chart g[data-mechanism={name}] .curve").first
        assert mark.evaluate(_CONTRAST) > 3, name


# Contrast of text, or of a line, with the panel behind it, as accessibility guidelines count it.
_CONTRAST = """each => {
  const style = getComputedStyle(each);
  const inPicture = style.fill === "none" ? style.stroke : style.fill;
  const paint = each.closest("svg") ? inPicture : style.color;
  const behind = getComputedStyle(each.closest("section, form") ?? document.body).backgroundColor;
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const [one, other] = [light(paint), light(behind)];
  return Math.max(one, other) / Math.min(one, other);
}"""
