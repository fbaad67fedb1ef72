"""Reports and figures of columns in a known order: few of them, and very many."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from after_release import DECAY, banded_release
from hushcov.report import report_page, sections
from hushcov.report.heat import condense_band
from hushcov.report.pages import subject_of
from hushcov.report.sections import Along

D, W = 2_000, 12


@pytest.fixture(scope="module")
def release():
    return banded_release(D, W)


@pytest.fixture(scope="module")
def seen(release) -> Along:
    return Along(subject_of(release))


@pytest.fixture(scope="module")
def large_page(release) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sections, "LARGE", D - 1)
        return report_page(release)


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])


def test_sizes_fade_with_distance_down_to_noise(seen):
    found = seen.by_distance
    assert [k for k, _, _ in found] == list(range(1, W + 1))
    assert [n for _, n, _ in found] == pytest.approx([D - k for k in range(1, W + 1)], rel=0.01)
    means = np.array([mean for _, _, mean in found])
    assert np.all(np.diff(means) < 0)
    assert means[1] / means[0] == pytest.approx(DECAY, abs=0.05)
    noise = replace(seen.subject.release, integers=seen.subject.release.integers * 0)
    assert 0 < seen.noise < means[-1]
    assert Along(subject_of(noise)).noise > 0


def test_a_cell_of_the_band_is_the_strongest_of_its_pairs():
    rows, columns = np.array([0, 1, 2, 500]), np.array([1, 2, 4, 501])
    cells = condense_band(rows, columns, np.array([0.2, -0.5, 0.1, 0.3]), 1_000, 2)
    assert cells.shape == (2, 240)
    assert cells[0, 0] == -0.5
    assert cells[1, 0] == 0.1
    assert cells[0, 500 * 240 // 1_000] == 0.3
    assert np.count_nonzero(cells) == 3


def test_windows_begin_with_the_first_and_do_not_overlap(seen):
    tiles = seen.tiles
    assert tiles[0]["names"] == ("rs1", "rs40")
    starts = sorted(
        int(re.search(r"columns ([\d,]+) to", each["where"])[1].replace(",", "")) for each in tiles
    )
    assert np.all(np.diff(starts) >= 40)
    assert "chromosome" in tiles[0]["where"]


def test_a_page_of_very_many_features_is_small_and_has_no_map_of_all(large_page):
    assert len(large_page.encode()) < 1_500_000
    for section in ("along", "windows", "columns", "spreads"):
        assert f'<section id="{section}"' in large_page
    for section in ("correlations", "spectrum", "variances"):
        assert f'<section id="{section}"' not in large_page
    assert "hushcov show RELEASE --column NAME" in large_page
    entries = data_of(large_page)["entries"]
    assert 0 < len(entries) <= 4_000
    sizes = [abs(each[2]) for each in entries if each[2] is not None]
    assert sizes == sorted(sizes, reverse=True)
    assert "candidate pairs" in large_page


def test_a_known_order_is_kept(release):
    page = report_page(release)
    for section in ("along", "windows", "variances"):
        assert f'<section id="{section}"' in page
    unknown = replace(release, positions=None, chromosomes=None, parameters={})
    assert '<section id="correlations"' in report_page(unknown)
