"""A small file of settings: what `hushcov start` remembers and `fit` and `plan` take.

It is TOML. Its keys are the options of `hushcov fit` without their dashes, and `data` for the
records. What only a plan or a new ledger needs has a table of its own. It holds nothing secret and
nothing that was computed from records.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import tomli_w

from hushcov._validation import shown
from hushcov.cli.options import INTEGER, NUMBER, SCALES, BandwidthType, Function
from hushcov.exceptions import ParameterError
from hushcov.options import TABLE

DATA, SETTINGS = "data", "settings"
PLAN, BUDGET = "plan", "budget"
MOST_ROWS = "max-rows-per-unit"
#: What the tables may have: of the plan its options, of the budget what a new dataset is promised.
_TABLES = {
    PLAN: (INTEGER, ("records", "features", MOST_ROWS)),
    BUDGET: (NUMBER, ("epsilon", "delta")),
}
_LISTS = {entry.key for entry in TABLE if entry.kind == "names"}  # with commas as an option
_REPEATED = {entry.key for entry in TABLE if entry.kind == "choices"}
_NOT_REMEMBERED = (SETTINGS, "help")
_COMMENTS = {
    DATA: "the records, and where the release goes",
    "unit": "whom it protects",
    "columns": "what is known of the columns; nothing here was looked up in the records",
    "epsilon": "the promise",
    "ledger": "what keeps count of all releases of these records",
}
_TABLE_COMMENTS = {
    PLAN: "for the plan alone: rough public numbers",
    BUDGET: "the total that is promised when the ledger opens this dataset",
}
_HEAD = (
    "# Settings of hushcov, for: hushcov fit --settings {name}\n"
    "# Each line is an option of 'hushcov fit'; what is given on the command line wins.\n"
    "# Paths start at the folder of this file.\n"
)


@dataclass
class Settings:
    """Options of `fit` by their long names, in order, and what belongs to a plan and a budget."""

    options: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)


def read_settings(path: Path) -> Settings:
    """Read and check a file; whatever `fit` does not know is refused."""
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except FileNotFoundError:
        others = [each.name for each in path.parent.glob("*.toml")]
        close = difflib.get_close_matches(path.name, others, 1)
        hint = f"did you mean {path.with_name(close[0])}?" if close else "check the path."
        raise FileNotFoundError(
            f"the settings {path} do not exist: {hint} 'hushcov start DATA' writes such a file."
        ) from None
    except UnicodeError:
        raise ParameterError(f"{path} must be in UTF-8: save it so.") from None
    except (ValueError, RecursionError) as error:
        # The parser lets errors of Python through: numbers of too many digits, lists in lists.
        known = isinstance(error, tomllib.TOMLDecodeError)
        why = error if known else "a number is too long, or lists lie too deep in each other"
        raise ParameterError(
            f"{path} must be a TOML file of settings, with lines such as epsilon = 1: {why}. "
            "Repair it, or write a new one with 'hushcov start'."
        ) from None
    params = _params(_fit())
    settings = Settings()
    for key, value in found.items():
        if key in _TABLES:
            getattr(settings, key).update(_checked_table(path, key, value))
            continue
        if key not in params:
            _refuse(path, key, (*params, *_TABLES), "option of 'hushcov fit'")
        checked, is_path = _checked(path, key, value, params[key]), _is_path(params[key])
        # Paths in the file start at its own folder.
        settings.options[key] = str(path.parent / checked) if is_path else checked
    return settings


def _fit() -> click.Command:
    """Import the command whose options there are, which takes seconds."""
    from hushcov.cli.fit import command

    return command


def _params(command: click.Command) -> dict[str, click.Parameter]:
    """Return the parameters of a command by how the file calls them."""
    found: dict[str, click.Parameter] = {}
    for param in command.params:
        name = key_of(param)
        if name not in _NOT_REMEMBERED:
            found[name] = param
    return found


def key_of(param: click.Parameter) -> str:
    """Return how a file calls a parameter: its long option without dashes."""
    return DATA if isinstance(param, click.Argument) else max(param.opts, key=len).lstrip("-")


def _checked_table(path: Path, table: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ParameterError(f"{path}: {table} must be a table, which begins with [{table}].")
    kind, known = _TABLES[table]
    for key in value:
        if key not in known:
            _refuse(path, key, known, f"entry of [{table}]")
    param = click.Option(["--value"], type=kind)
    return {key: _checked(path, key, value[key], param) for key in value}


def _refuse(path: Path, key: str, known: Sequence[str], what: str) -> None:
    dashed = key.lstrip("-").replace("_", "-")
    close = [dashed] if dashed in known else difflib.get_close_matches(dashed, known, 1)
    cure = f"did you mean {close[0]!r}?" if close else "leave it out."
    raise ParameterError(f"{path}: {key!r} is no {what}: {cure} See 'hushcov fit --help'.")


def _checked(path: Path, key: str, value: Any, param: click.Parameter) -> Any:
    """Return a value of the type that its option takes."""
    kind, what = param.type, "text in quotes"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    listed = isinstance(value, list) and all(isinstance(each, str) for each in value)
    fine = isinstance(value, str)
    if getattr(param, "is_flag", False):
        fine, what = isinstance(value, bool), "true or false"
    elif kind is INTEGER:
        fine, what = number and value == int(value), "a whole number, without quotes"
    elif kind is NUMBER:
        fine, what = number, "a number, without quotes"
    elif kind is SCALES:
        fine, what = number or fine, "a number, or a .npy file in quotes"
    elif isinstance(kind, BandwidthType):
        fine, what = number or fine, 'a whole number, or base pairs in quotes: "500000bp"'
    elif key in _LISTS | _REPEATED:
        fine, what = listed or fine, 'a list of names: ["a", "b"]'
    if not fine:
        got = f"the text {shown(value)}" if isinstance(value, str) else shown(value)
        got = str(value).lower() if isinstance(value, bool) else got
        raise ParameterError(f"{path}: {key} must be {what}, got {got}: write it so.")
    for each in value if listed else [value]:
        if isinstance(kind, click.Choice) and each not in kind.choices:
            close = difflib.get_close_matches(str(each), [str(one) for one in kind.choices], 1)
            hint = f"did you mean {close[0]!r}?" if close else "choose one of them."
            choices = ", ".join(map(repr, kind.choices))
            raise ParameterError(
                f"{path}: {key} must be one of {choices}, got {shown(each)}: {hint}"
            )
    return int(value) if kind is INTEGER else value


def _is_path(param: click.Parameter) -> bool:
    return isinstance(param.type, click.Path)


def write_settings(path: Path, settings: Settings) -> None:
    """Write the file whole, or not at all."""
    params, lines = _params(_fit()), [_HEAD.format(name=path.name)]
    for key, value in settings.options.items():
        if key in _COMMENTS:
            lines.append(f"\n# {_COMMENTS[key]}\n")
        inside = _is_path(params[key]) and not os.path.isabs(value)
        there = os.path.relpath(value, path.parent) if inside else value
        lines.append(tomli_w.dumps({key: there}))
    for table, values in ((PLAN, settings.plan), (BUDGET, settings.budget)):
        if values:
            lines.append(f"\n# {_TABLE_COMMENTS[table]}\n{tomli_w.dumps({table: values})}")
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text("".join(lines), encoding="utf-8")
    draft.replace(path)


def plain_number(value: float) -> str:
    """A number such that reading it gives the same again: 1, 0.5, 1e-6."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return str(int(value))
    base, mark, exponent = repr(value).partition("e")
    return base + (f"e{int(exponent)}" if mark else "")


def arguments(settings: Settings) -> list[str]:
    """Return the words after `hushcov fit`; names of files never begin with a dash."""
    options = dict(settings.options)
    data = str(options.pop(DATA))
    found = [f"./{data}" if data.startswith("-") else data]
    for key, value in options.items():
        if value is True:
            found.append(f"--{key}")
        elif key in _REPEATED:
            for each in [value] if isinstance(value, str) else value:
                found += [f"--{key}", each]
        elif value is not None and value is not False:
            found += [f"--{key}", argument(value)]
    return found


def argument(value: Any) -> str:
    """A value as it is written on a command line."""
    if isinstance(value, list | tuple):
        return ",".join(value)
    return plain_number(value) if isinstance(value, int | float) else str(value)


def settings_option(function: Function) -> Function:
    """Add --settings, whose values are defaults: what the command line has wins."""
    return click.option(
        "--settings",
        type=click.Path(path_type=Path),
        metavar="FILE.toml",
        is_eager=True,
        expose_value=False,
        callback=_take,
        help="File with options of 'hushcov fit', as 'hushcov start' writes it. Options that are "
        "given here win.",
    )(function)


def _take(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    found = read_settings(path)
    values = dict(found.options)
    if ctx.command is not _fit():
        values |= found.plan
    known = _params(ctx.command)
    ctx.default_map = {
        str(known[key].name): _default(known[key], value)
        for key, value in values.items()
        if key in known and value is not False
    }


def _default(param: click.Parameter, value: Any) -> Any:
    """Return click's default for a value; a flag may stand for false, as --no-header does."""
    if getattr(param, "is_flag", False):
        # Newer versions of click leave it unset where it is true, in place of saying so.
        return getattr(param, "flag_value", value) is not False
    if param.multiple:
        return value if isinstance(value, list) else [value]
    return argument(value) if isinstance(value, list) else value
