"""What is printed for common mistakes is what mistakes.txt has."""

import pytest

import mistakes

PRINTED = mistakes.PRINTED.read_text()


@pytest.fixture(scope="module")
def workplace():
    with mistakes.workplace():
        yield


@pytest.mark.parametrize(
    "mistake", [each for each in mistakes.MISTAKES if not each.fits], ids=lambda each: each.title
)
def test_what_is_printed_is_in_the_file(workplace, mistake):
    found = mistakes.section(mistake)
    assert found in PRINTED
    assert "raceback" not in found
    assert "(exit code 0)" not in found


def test_the_file_has_all_and_nothing_else():
    titles = [f"## {each.title}" for each in mistakes.MISTAKES]
    assert [line for line in PRINTED.splitlines() if line.startswith("## ")] == titles
    assert PRINTED.startswith(mistakes.HEAD)
