"""The report of a release in a real browser: by mouse, touch and keyboard, large and small."""

import re
from dataclasses import replace

import numpy as np
import pytest

from chromium import each_screen
from command_line import PATIENCE
from documents import guarantee, quick_forecast
from hushcov.fit import outlook
from hushcov.kernel.accounting import Gaussian
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Making, Release, Structure
from hushcov.report import write_report

HOSTILE = "</script><img src=x onerror=document.title='hacked'>"
NAMES = ["age", "weight", "pulse", HOSTILE, *(f"feature {i}" for i in range(4, 40))]
PAIRS = np.array([[0, 2, 0, 10, 11], [1, 3, 39, 11, 30]])
VALUES = np.array([500, -300, 200, 450, -250])
SCALE = np.full(40, 2.0)


def release(**changes) -> Release:
    events = (Gaussian(0.05), Gaussian(0.2))
    said = {"events": events, "preconditions": ("rows are bounded",), "private": False}
    inputs = {"n_records": 10_000, "n_features": 40, "row_sparsity": 3, "epsilon": 1.0}
    parts = {
        "mechanism": "row-top-k",
        "integers": symmetric_sparse((PAIRS[0], PAIRS[1]), VALUES, np.full(40, 1000)),
        "unit": 0.001,
        "guarantee": guarantee(**said),
        "parameters": {"inputs": inputs | {"delta": 1e-6}},
        "feature_scale": SCALE,
        "noise_sd": (0.02, 0.03),
        "selected": PAIRS,
        "column_names": tuple(NAMES),
        "making": Making(n_records=10_000),
    }
    return Release(**parts | changes)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlook, "forecast", quick_forecast)
        path = tmp_path_factory.mktemp("report") / "report.html"
        return write_report(path, release())


def words(page, selector: str) -> str:
    text = page.locator(selector).inner_text()
    return text.replace("\N{MULTIPLICATION SIGN}", "x").replace("\N{MINUS SIGN}", "-")


def until(page, holds) -> None:
    for _ in range(50 * PATIENCE):
        if holds():
            return
        page.wait_for_timeout(20)
    pytest.fail("it did not happen")


def found_release(kind: str) -> Release:
    """Releases of 40 columns with all that a first screen can have, a word longer than most."""
    d, rng = 40, np.random.default_rng(0)
    structure = Structure("sparse", 0, "what is left looks like noise", 0.05, 0.02, 0.1)
    names = tuple(f"measurement_{i:02d}" for i in range(d))
    shape = {"column_names": names, "location": rng.normal(0, 50, d), "feature_scale": np.ones(d)}
    shape |= {"selected": None, "mechanism": "adaptive", "noise_sd": (0.01, 0.01)}
    matrix = 1000 * np.eye(d, dtype=np.int64)
    if kind == "small sparse":
        for i in range(0, 24, 2):
            matrix[i, i + 1] = matrix[i + 1, i] = 600 - 60 * i
    elif kind == "factors":
        loading = rng.choice([-1, 1], d) * rng.uniform(0.5, 0.9, d)
        matrix = np.rint(1000 * np.multiply.outer(loading, loading)).astype(np.int64)
        np.fill_diagonal(matrix, 1000)
        structure = replace(structure, kind="factors", rank=1, why="one eigenvalue stands out")
    else:
        structure = replace(structure, error=0.7, least=0.3, most=1.1)
        shape["warnings"] = ("40 records of 40 features are too few: nothing could be told apart.",)
    making = Making(n_records=10_000, dataset="table.csv", threshold=0.02, structure=structure)
    private = guarantee(events=(Gaussian(0.2),), preconditions=("rows are bounded",))
    return release(integers=matrix, making=making, guarantee=private, **shape)


# Words on the page of such a release when all sections stood one after the other, in a browser
# and before anything was opened. No more than half of them may be there now.
WORDS = {"small sparse": 2295, "factors": 2516, "hopeless": 2014}


@pytest.fixture(
    scope="module",
    params=["small sparse"]
    + [pytest.param(kind, marks=pytest.mark.slow) for kind in ("factors", "hopeless")],
)
def kind_and_page(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlook, "forecast", quick_forecast)
        path = tmp_path_factory.mktemp("first") / "report.html"
        return request.param, write_report(path, found_release(request.param))


def test_the_first_screen_answers(open_page, kind_and_page):
    """The verdict, the heat map and ten relations are there without scrolling, in few words."""
    kind, path = kind_and_page
    page = open_page(path, viewport={"width": 1280, "height": 800})
    relations = page.locator(".relations li")
    assert relations.count() == (0 if kind == "hopeless" else 10)
    shown = [page.locator(".verdict"), page.locator(".map"), *relations.all()]
    boxes = [each.bounding_box() for each in shown]
    assert all(box["y"] >= 0 and box["y"] + box["height"] <= 800 for box in boxes)
    verdict, heat, *others = boxes
    assert heat["width"] > 400
    assert all(box["x"] + box["width"] <= heat["x"] for box in others)  # beside, not below
    assert all(box["y"] > verdict["y"] + verdict["height"] for box in (heat, *others))
    assert len(page.locator("body").inner_text().split()) <= WORDS[kind] / 2
    page.locator("#details").evaluate("each => { each.open = true; }")
    assert len(page.locator("body").inner_text().split()) <= 0.65 * WORDS[kind]


def test_no_page_scrolls_sideways_on_a_phone(open_page, kind_and_page):
    page = open_page(kind_and_page[1], viewport={"width": 390, "height": 844}, has_touch=True)
    for opened in (False, True):
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        wide = page.evaluate("""() => Array.from(document.querySelectorAll("main > *, section > *"))
          .filter((each) => each.getBoundingClientRect().right > 390.5)
          .map((each) => each.outerHTML.slice(0, 80))""")
        assert wide == []
        if not opened:
            page.locator("summary").evaluate_all("all => all.forEach((each) => each.click())")


def test_links_into_details_open_them(open_page, kind_and_page):
    path = kind_and_page[1]
    page = open_page(path, reduced_motion="reduce")
    promise = page.locator("#promise h2")
    assert not promise.is_visible()
    page.click(".facts a")
    until(page, lambda: promise.is_visible() and 0 <= promise.bounding_box()["y"] < 800)
    page.locator("#details > summary").click()
    assert not promise.is_visible()
    page.click(".facts a")  # its address is that of the page already
    until(page, promise.is_visible)
    page.goto(path.resolve().as_uri())
    assert not promise.is_visible()
    page.goto(f"{path.resolve().as_uri()}#budget")
    until(page, page.locator("#budget table").is_visible)


@each_screen
def test_fits_any_screen_in_light_and_dark(open_page, report, viewport, scheme):
    page = open_page(report, viewport=viewport, color_scheme=scheme)
    page.locator("summary").evaluate_all("all => all.forEach((each) => each.click())")
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    # The map is drawn: its cells have more than one colour.
    fills = page.locator(".map path").evaluate_all(
        "all => all.map((each) => getComputedStyle(each).fill + each.getAttribute('fill-opacity'))"
    )
    assert len(set(fills)) >= 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(open_page, report, scheme):
    page = open_page(report, color_scheme=scheme)
    ratios = page.evaluate("""() => {
      const style = getComputedStyle(document.documentElement);
      const light = (key) => {
        const [red, green, blue] = style.getPropertyValue(`--${key}`).trim().match(/[0-9a-f]{2}/gi)
          .map((pair) => parseInt(pair, 16) / 255)
          .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      };
      const ratio = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
      };
      return [
        ...["page", "panel", "marked"].map((behind) => ratio("text", behind)),
        ...["page", "panel"].flatMap((behind) => [ratio("muted", behind), ratio("link", behind)]),
        ratio("warn", "warn-panel"),
      ];
    }""")
    assert min(ratios) > 4.5


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    variances = np.full(40, 1000)
    variances[10] = -30
    values = np.array([500, -1300, 200, 450, -250])
    matrix = symmetric_sparse((PAIRS[0], PAIRS[1]), values, variances)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlook, "forecast", quick_forecast)
        path = tmp_path_factory.mktemp("noisy") / "report.html"
        return write_report(path, release(integers=matrix))


def test_noise_is_said_and_grey_in_the_heat_map(open_page, noisy):
    page = open_page(noisy)
    assert "Grey cells are noise" in words(page, "#correlations")
    style = "getComputedStyle(document.documentElement).getPropertyValue('--noise')"
    grey = tuple(bytes.fromhex(page.evaluate(style).strip().removeprefix("#")))
    fill = page.locator(".map .noise").evaluate("each => getComputedStyle(each).fill")
    assert fill == f"rgb{grey}"


@pytest.mark.slow
def test_everything_is_reached_with_the_tab_key(open_page, report):
    page = open_page(report)
    page.locator("summary").evaluate_all("all => all.forEach((each) => each.click())")
    wanted = page.evaluate("""() => {
      const stops = "a, input, summary, .wide, pre";
      return Array.from(document.querySelectorAll(stops), (each, at) => {
        each.dataset.stop = at;
        return String(at);
      });
    }""")
    reached = []
    for _ in range(len(wanted) + 1):
        page.keyboard.press("Tab")
        at = page.evaluate("document.activeElement.dataset.stop")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        if at is None:
            break
        assert outline == "solid"  # one sees where one is
        reached.append(at)
    assert reached == wanted


@pytest.mark.slow
def test_names_are_text_and_variances_are_found(open_page, report):
    page = open_page(report)
    page.locator("summary").evaluate_all("all => all.forEach((each) => each.click())")
    assert page.title() == "Private covariance of 40 features"
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator("#largest").inner_text()
    assert HOSTILE in page.locator("#pairs").inner_text()
    page.fill("#variance-find", "FEATURE 1")
    assert page.locator("#variance-rows tr:visible").count() == 10
    assert "feature 10" in page.locator("#variance-rows").inner_text()
    assert words(page, "#variances [role=status]") == "10 of 40 rows"
    page.fill("#variance-find", "")
    assert page.locator("#variance-rows tr:visible").count() == 40


def test_colours_follow_the_scheme_while_the_page_is_open(open_page, report):
    page = open_page(report)
    cell = page.locator(".map .positive").first
    assert cell.evaluate("each => getComputedStyle(each).fill") == "rgb(178, 24, 43)"
    page.emulate_media(color_scheme="dark")
    assert cell.evaluate("each => getComputedStyle(each).fill") == "rgb(255, 138, 117)"


@pytest.mark.slow
def test_weaker_pairs_are_found_by_name(open_page, tmp_path, monkeypatch):
    monkeypatch.setattr(outlook, "forecast", quick_forecast)
    matrix = 300 + 700 * np.eye(40, dtype=np.int64)
    many = release(integers=matrix, selected=None, mechanism="gaussian")
    page = open_page(write_report(tmp_path / "many.html", many))
    page.locator("#details > summary").click()
    assert page.locator("#pairs tbody tr:visible").count() == 10
    page.fill("#pair-find", "feature 3")
    rows = page.locator("#pairs tbody tr:visible")
    assert rows.count() > 10  # those of the closed table, too
    assert all("feature 3" in each for each in rows.all_inner_texts())
    page.fill("#pair-find", "")
    assert page.locator("#pairs tbody tr:visible").count() == 10


@pytest.mark.slow
def test_printed_pages_are_light_whole_and_without_controls(open_page, report):
    page = open_page(report, viewport={"width": 688, "height": 900}, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for hidden in (".controls", "summary"):
        assert not any(
            page.locator(hidden).evaluate_all("all => all.map((a) => a.checkVisibility())")
        )
    cut = page.evaluate("""() => Array.from(document.querySelectorAll("section *"))
      .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
      .map((each) => each.outerHTML.slice(0, 80))""")
    assert cut == []
    frame = page.locator(".tall").first
    assert frame.evaluate("each => each.scrollHeight <= each.clientHeight + 1")
    assert page.locator("#promise").is_visible()  # details are printed, and stay closed
    page.emulate_media(media="screen")
    assert not page.locator("#promise").is_visible()
    sheets = re.compile(rb"/Type\s*/Page\b")
    printed = len(sheets.findall(page.pdf()))
    assert not page.locator("#promise").is_visible()
    page.locator("#details").evaluate("each => each.remove()")
    assert printed > len(sheets.findall(page.pdf()))
