"""Options of the table on the command line, and how their values are read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import click

from hushcov.exceptions import ParameterError
from hushcov.options import TABLE, Option

Function = TypeVar("Function", bound=Callable[..., Any])

_NUMBER = re.compile(r"[+-]?\d+(_\d+)*(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_MOST_DIGITS = 100  # far beyond any number of records, and still a double


# Other keywords by which estimators call what an option sets.
_ALSO = {entry.name: entry.also for entry in TABLE}


class IntegerType(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """A whole number, exact at any size: 53338474066, 53_000 or 1e16."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or refuse anything that is not whole."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        number = Decimal(text) if _NUMBER.fullmatch(text) else None
        if number is not None and number.adjusted() >= _MOST_DIGITS:
            self.fail(f"{text!r} is too large: at most {_MOST_DIGITS} digits are read.", param, ctx)
        if number is None or number != number.to_integral_value():
            self.fail(
                f"{text!r} is not a whole number: write it like 15000, 15_000 or 1e6.",
                param,
                ctx,
            )
        return int(number)


class NumberType(click.ParamType):  # type: ignore[type-arg]
    """A real number; whether it is in range is for the library to say."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number, or refuse what is not one."""
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number: write it like 0.5 or 1e-6.", param, ctx)


class ScalesType(click.ParamType):  # type: ignore[type-arg]
    """A number, or a .npy file with one number for each feature."""

    name = "scales"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number or the array; whether it is in range is for the library to say."""
        try:
            return float(value)
        except ValueError:
            pass
        if not str(value).endswith(".npy"):
            self.fail(f"{value!r} is neither a number nor a .npy file.", param, ctx)
        import numpy as np

        try:
            return np.load(value, allow_pickle=False)
        except (OSError, MemoryError):
            raise
        except Exception:  # numpy's header parser lets errors of many types through
            self.fail(f"{value!r} is not a .npy file of numbers.", param, ctx)


class BandwidthType(IntegerType):
    """A number of columns, or a distance in base pairs: 20 or 500000bp."""

    name = "bandwidth"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, as text with its unit where it counts base pairs."""
        text = str(value).strip()
        number = super().convert(text.removesuffix(BASE_PAIRS), param, ctx)
        return f"{number}{BASE_PAIRS}" if text.endswith(BASE_PAIRS) else number


#: The unit of a bandwidth in base pairs.
BASE_PAIRS = "bp"
INTEGER = IntegerType()
NUMBER = NumberType()
SCALES = ScalesType()
_TYPES: dict[str, Any] = {
    "number": NUMBER,
    "integer": INTEGER,
    "scales": SCALES,
    "bandwidth": BandwidthType(),
    "path": click.Path(path_type=Path),
    "folder": click.Path(exists=True, file_okay=False),
}


class Command(click.Command):
    """A command whose errors speak of options: `--row-sparsity`, not `row_sparsity`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; name the option where the library names its keyword argument."""
        try:
            return super().invoke(ctx)
        except ParameterError as error:
            keyword, space, rest = str(error).partition(" ")
            renamed = ParameterError(self._option(keyword, ctx) + space + rest)
            for note in getattr(error, "__notes__", ()):
                renamed.add_note(note)
            raise renamed from None

    def _option(self, keyword: str, ctx: click.Context) -> str:
        for param in self.params:
            known = (param.name, *_ALSO.get(str(param.name), ()))
            if keyword in known and ctx.params.get(str(param.name)) is not None:
                return max(param.opts, key=len)
        return keyword


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def click_option(entry: Option, choices: tuple[str, ...] = ()) -> Callable[[Function], Function]:
    """Return the decorator that adds an option of the table to a command."""
    names = [each for each in (entry.short, entry.flag, entry.name) if each]
    more: dict[str, Any] = {"help": entry.help}
    if entry.kind == "flag":
        more["is_flag"] = True
        if entry.default:
            more |= {"flag_value": False, "default": True}
        return click.option(*names, **more)
    if entry.kind in ("choice", "choices"):
        more["type"] = click.Choice(choices or entry.choices)
        more["multiple"] = entry.kind == "choices"
    elif entry.kind in _TYPES:
        more["type"] = _TYPES[entry.kind]
    if entry.default is not None:
        more |= {"default": entry.default, "show_default": True}
    return click.option(*names, metavar=entry.metavar, **more)


def options_of(
    command: str, *own: Option, **choices: tuple[str, ...]
) -> Callable[[Function], Function]:
    """Return the decorator that adds the options of a command: those of the table, then its own.

    `choices` are words for options whose choices the table does not know.
    """

    def add(function: Function) -> Function:
        entries = [each for each in TABLE if each.flag and command in each.commands]
        for entry in reversed([*entries, *own]):
            function = click_option(entry, choices.get(entry.name, ()))(function)
        return function

    return add


def check_budget(epsilon: float | None, delta: float | None, file: Path | None = None) -> None:
    """Refuse a command line without a promise; say usual values, and what asks for all of it."""
    given = {"--epsilon": epsilon, "--delta": delta}
    missing = [option for option, value in given.items() if value is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise click.UsageError(
            f"{' and '.join(missing)} {are} required: how much privacy. --epsilon 1 and --delta "
            f"1e-6 are usual; 'hushcov start {'DATA' if file is None else shlex.quote(str(file))}' "
            "asks for all of it."
        )
