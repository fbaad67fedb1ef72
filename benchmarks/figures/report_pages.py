"""Reports of four releases as pictures: few, many and very many columns, and a hopeless one.

    python benchmarks/figures/report_pages.py --output docs/figures

Makes the tables of docs/outputs.md, releases each, draws its report, and takes pictures of the
first screens on a desktop, on a phone and by night, and of the first printed pages. The tables are
made up, and the noise is that of a private release, so that numbers differ from run to run.
Chromium is `$CHROMIUM`, or the one in the path. Releases and pages are kept in `--releases`, and
releases that are there are taken. It needs pandas, Pillow and, for printed pages, pypdfium2.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from PIL import Image

from hushcov import PrivateSparseCovariance
from hushcov.release import Release
from hushcov.report import write_report

Table = tuple[np.ndarray, list[str], dict[str, Any]]

_DESKTOP, _PHONE = (1280, 800), (390, 844)
_PARTS = {"health": ("variances", "details"), "laboratory": ("graph",)}  # beside the first screens
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
_COLOURS = 128  # of a picture, to keep its file small


# ---- the tables ----


def health(rng: np.random.Generator) -> Table:
    """Twelve measurements of 20,000 people."""
    n = 20_000
    age, size, fitness, stress = rng.standard_normal((4, n))
    noise = rng.standard_normal((12, n))
    columns = {
        "age": 52 + 14 * age,
        "height_cm": 171 + 9 * size,
        "weight_kg": 78 + 10 * size - 6 * fitness + 8 * noise[0],
        "waist_cm": 92 + 6 * size - 7 * fitness + 4 * age + 5 * noise[1],
        "systolic_mmhg": 131 + 9 * age - 4 * fitness + 10 * noise[2],
        "diastolic_mmhg": 79 + 3 * age - 4 * fitness + 7 * noise[3],
        "resting_pulse": 68 - 6 * fitness + 3 * stress + 6 * noise[4],
        "hba1c_percent": 5.7 + 0.25 * age - 0.25 * fitness + 0.4 * noise[5],
        "ldl_mmol_l": 3.2 + 0.2 * age - 0.2 * fitness + 0.8 * noise[6],
        "sleep_hours": 7.1 - 0.7 * stress + 0.7 * noise[7],
        "income_1000": 41 + 12 * noise[8],
        "steps_per_day": 7_100 + 2_300 * fitness - 500 * age + 1_500 * noise[9],
    }
    return np.stack(list(columns.values()), axis=1), list(columns), {"epsilon": 1.0}


def laboratory(rng: np.random.Generator) -> Table:
    """Groups of related values among 300 of 200,000 samples, spread over the table."""
    n, d, kinds = 200_000, 300, 12
    rows = rng.standard_normal((n, d), dtype=np.float32)
    kind = rng.permutation(np.arange(d) % 20)  # those from 12 on are related to nothing
    for each in range(kinds):
        members = np.flatnonzero(kind == each)
        common = rng.standard_normal((n, 1), dtype=np.float32)
        sign = np.where(np.arange(len(members)) % 4 == 3, -1, 1).astype(np.float32)
        rows[:, members] = 0.8 * rows[:, members] + 0.6 * common * sign
    names = [f"lab_{kind[i] + 1:02d}_{i:03d}" for i in range(d)]
    return rows, names, {"epsilon": 1.0, "delta": 1e-7}


def expression(rng: np.random.Generator) -> Table:
    """5,000 genes of 20,000 cells, of which few are related."""
    n, d = 20_000, 5_000
    rows = rng.standard_normal((n, d), dtype=np.float32)
    places = rng.permutation(d)[:240].reshape(-1, 6)
    for members in places:
        common = rng.standard_normal((n, 1), dtype=np.float32)
        rows[:, members] = 0.6 * rows[:, members] + 0.8 * common
    return rows, [f"GENE{i:05d}" for i in range(d)], {"epsilon": 4.0, "row_sparsity": 6}


def survey(rng: np.random.Generator) -> Table:
    """Forty answers of 300 people: too few for this budget."""
    common = rng.standard_normal((300, 5))
    rows = common[:, np.arange(40) % 5] + rng.standard_normal((300, 40))
    return rows, [f"question_{i + 1:02d}" for i in range(40)], {"epsilon": 0.5}


TABLES = {
    "health": health,
    "laboratory": laboratory,
    "expression": expression,
    "survey": survey,
}


def released(name: str, folder: Path) -> Release:
    """The release of a table, from the folder where it is there already."""
    if folder.is_dir():
        return Release.read(folder)
    rows, names, options = TABLES[name](np.random.default_rng(20))
    sparse = len(names) > 1_000
    estimator = PrivateSparseCovariance(
        **{"delta": 1e-6, "on_hopeless": "warn", "sparse_output": sparse} | options
    )
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(pandas.DataFrame(rows, columns=names))
    print(f"{name}: released in {time.perf_counter() - started:.1f} s")
    release = estimator.release_
    release = replace(release, making=replace(release.making, dataset=f"{name}.csv"))
    release.write(folder)
    return release


# ---- the pictures ----


def on_screens(browser: Any, page: Path, name: str) -> Iterator[tuple[str, Any]]:
    """Name and picture of the first screen, large, small and by night; and of parts."""
    for kind, (width, height), scheme in (
        ("desktop", _DESKTOP, "light"),
        ("phone", _PHONE, "light"),
        ("dark", _DESKTOP, "dark"),
    ):
        tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        started = time.perf_counter()
        tab.goto(page.resolve().as_uri())
        spent, across = time.perf_counter() - started, tab.evaluate("document.body.scrollWidth")
        print(f"{name}, {kind}: opened in {spent:.2f} s, {across} px wide")
        yield f"report-{name}-{kind}", Image.open(io.BytesIO(tab.screenshot()))
        if kind == "desktop":
            tab.evaluate("document.getElementById('details').open = true")
            for part in _PARTS.get(name, ()):
                shot = tab.locator(f"#{part}").screenshot()
                yield f"report-{name}-{part}", Image.open(io.BytesIO(shot))
        tab.close()


def printed(browser: Any, page: Path, folder: Path, name: str) -> Iterator[tuple[str, Any]]:
    """The first two printed pages; the print style on a screen where nothing draws PDF files."""
    tab = browser.new_page()
    tab.goto(page.resolve().as_uri())
    pdf = folder / f"{name}.pdf"
    tab.pdf(path=pdf, prefer_css_page_size=True)
    tab.close()
    try:
        import pypdfium2
    except ModuleNotFoundError:
        tab = browser.new_page(viewport={"width": 688, "height": 1017})  # A4 within its margins
        tab.emulate_media(media="print")
        tab.goto(page.resolve().as_uri())
        yield f"report-{name}-print", Image.open(io.BytesIO(tab.screenshot()))
        tab.close()
        return
    pages = pypdfium2.PdfDocument(pdf)
    print(f"{name}: {len(pages)} printed pages")
    first = [pages[place].render(scale=1.2).to_pil() for place in range(2)]
    sheet = Image.new("RGB", (first[0].width + first[1].width + 24, first[0].height), "grey")
    sheet.paste(first[0], (0, 0))
    sheet.paste(first[1], (first[0].width + 24, 0))
    yield f"report-{name}-print", sheet


def write_small(path: Path, image: Image.Image) -> None:
    """Write a picture with few colours: pages have few."""
    few = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def main(arguments: list[str] | None = None) -> None:
    """Make the releases and their pictures."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/figures"))
    parser.add_argument("--releases", type=Path, default=Path("results/report-pages"))
    parser.add_argument("--only", choices=TABLES, action="append")
    options = parser.parse_args(arguments)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    for folder in (options.releases, options.output):
        folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        for name in options.only or TABLES:
            release = released(name, options.releases / name)
            started = time.perf_counter()
            page = write_report(options.releases / f"{name}.html", release)
            spent, size = time.perf_counter() - started, page.stat().st_size
            print(f"{name}: page of {size / 1e3:.0f} kB in {spent:.1f} s")
            for title, picture in (
                *on_screens(browser, page, name),
                *printed(browser, page, options.releases, name),
            ):
                write_small(options.output / f"{title}.png", picture)
        browser.close()


if __name__ == "__main__":
    main()
