"""How option values are read."""

from __future__ import annotations

import click
import pytest

from hushcov.cli.options import INTEGER, NUMBER


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("53338474066", 53338474066),
        ("53_000", 53_000),
        ("1e16", 10**16),
        ("1E16", 10**16),
        ("1e+16", 10**16),
        ("1.5e3", 1500),
        ("9007199254740993", 2**53 + 1),
        ("1.2345678901234567891e19", 12345678901234567891),
        (" 7 ", 7),
        ("7.0", 7),
        ("70e-1", 7),
        ("-5", -5),
        ("+5", 5),
        ("0", 0),
        (12, 12),
    ],
)
def test_integers_are_exact(text, value):
    number = INTEGER.convert(text, None, None)
    assert number == value
    assert type(number) is int


@pytest.mark.parametrize(
    "text",
    ["1.5", "abc", "", "1e-1", "nan", "inf", "0x10", "1__0", "_1", "1_", "1e", "1 000", "\u0663"],
)
def test_what_is_not_whole_is_refused(text):
    with pytest.raises(click.BadParameter, match="whole number") as caught:
        INTEGER.convert(text, None, None)
    assert repr(text.strip()) in caught.value.message


@pytest.mark.parametrize("text", ["1e101", "1e999999999999", "9" * 102])
def test_absurd_sizes_are_refused_at_once(text):
    with pytest.raises(click.BadParameter, match="is too large"):
        INTEGER.convert(text, None, None)


def test_numbers():
    assert NUMBER.convert("1e-6", None, None) == 1e-6
    with pytest.raises(click.BadParameter, match="'abc' is not"):
        NUMBER.convert("abc", None, None)
