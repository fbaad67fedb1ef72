"""Options of commands: those of the table, how values are read, and files of settings.

A file of settings is what `hushcov start` remembers and `fit` and `plan` take. It is TOML: its keys
are the options of `hushcov fit` without their dashes, and `data` for the records. What only a plan
or a new ledger needs has a table of its own. It holds nothing secret and nothing that was computed
from records.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import click
import tomli_w

from hushcov._files import is_file_name
from hushcov._validation import shown
from hushcov._words import shell_word
from hushcov.exceptions import ParameterError, printable
from hushcov.options import TABLE, UP_TO, Option

Function = TypeVar("Function", bound=Callable[..., Any])

_NUMBER = re.compile(r"[+-]?\d+(_\d+)*(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_MOST_DIGITS = 100  # far beyond any number of records, and still a double


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
            words = f"{text!r} is not a whole number: write it like 15000, 15_000 or 1e6."
            self.fail(words, param, ctx)
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
    """A number of columns, a maximum of it, or a distance in base pairs: 20, up-to:20, 500000bp."""

    name = "bandwidth"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or text where it is a maximum or counts base pairs."""
        text = str(value).strip()
        start, end = text.startswith(UP_TO) * UP_TO, text.endswith(BASE_PAIRS) * BASE_PAIRS
        number = super().convert(text.removeprefix(start).removesuffix(end), param, ctx)
        return f"{start}{number}{end}" if start or end else number


class SettingsOption(click.Option):
    """An option that only settings files give: the command line neither shows nor takes it."""

    @property
    def settings_key(self) -> str:
        """Its key in a settings file."""
        return key_of(self)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Keep it from the command line."""


#: The unit of a bandwidth in base pairs.
BASE_PAIRS = "bp"
INTEGER, NUMBER, PATH = IntegerType(), NumberType(), click.Path(path_type=Path)
_TYPES: dict[str, Any] = {
    "number": NUMBER,
    "integer": INTEGER,
    "scales": ScalesType(),
    "bandwidth": BandwidthType(),
    "path": PATH,
    "folder": click.Path(exists=True, file_okay=False),
}


class Command(click.Command):
    """A command that names options in errors: `--row-sparsity`, not `row_sparsity`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; name the option where the library names its keyword argument."""
        try:
            return super().invoke(ctx)
        except ParameterError as error:
            keyword, space, rest = str(error).partition(" ")
            also = {entry.name: entry.also for entry in TABLE}
            for param in self.params:
                name = str(param.name)
                if keyword in (name, *also.get(name, ())) and ctx.params.get(name) is not None:
                    named = isinstance(param, SettingsOption)
                    keyword = key_of(param) if named else max(param.opts, key=len)
            renamed = ParameterError(keyword + space + rest)
            for note in getattr(error, "__notes__", ()):
                renamed.add_note(note)
            raise renamed from None


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SEED = click.option("--seed", type=INTEGER, default=0, show_default=True, metavar="S")


def figure_option(words: str) -> Callable[[Function], Function]:
    """Return the decorator that adds `--figure PNG`, with what is drawn."""
    path = click.Path(path_type=Path, dir_okay=False)
    return click.option("--figure", type=path, metavar="PNG", help=words)


def output_option(words: str, *, folder: bool = False) -> Callable[[Function], Function]:
    """Return the decorator that adds `-o` and `--output`, with what is written there."""
    path = click.Path(path_type=Path, dir_okay=folder)
    metavar = "FOLDER" if folder else "FILE"
    return click.option("-o", "--output", type=path, metavar=metavar, help=words)


def _click_option(entry: Option, choices: tuple[str, ...]) -> Callable[[Function], Function]:
    """Return the decorator that adds an option of the table to a command."""
    names = [each for each in (entry.short, entry.flag, entry.name) if each]
    more: dict[str, Any] = {"help": entry.help}
    if entry.in_settings:
        more |= {"cls": SettingsOption, "hidden": True}
    if entry.kind == "flag":
        more["is_flag"] = True
        if entry.default:
            more |= {"flag_value": False, "default": True}
        return click.option(*names, **more)
    if entry.kind in ("choice", "choices"):
        more["type"] = click.Choice(choices or entry.choices)
    elif entry.kind in _TYPES:
        more["type"] = _TYPES[entry.kind]
    if entry.default is not None:
        more |= {"default": entry.default, "show_default": True}
    more["multiple"] = entry.kind in ("texts", "choices")
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
            function = _click_option(entry, choices.get(entry.name, ()))(function)
        return function

    return add


def check_budget(epsilon: float | None, delta: float | None, file: Path | None = None) -> None:
    """Refuse a command line without epsilon or delta, and suggest usual values."""
    given = {"--epsilon": epsilon, "--delta": delta}
    missing = [option for option, value in given.items() if value is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise click.UsageError(
            f"{' and '.join(missing)} {are} required: how much privacy. --epsilon 1 and --delta "
            f"1e-6 are usual; 'hushcov start {'DATA' if file is None else shell_word(file)}' "
            "asks for all of it."
        )


# ---- files of settings ----

DATA = "data"
MOST_ROWS = "max-rows-per-unit"
# What the tables may have: of the plan its options, of the budget what a new dataset is promised.
_TABLES = {
    "plan": (INTEGER, ("records", "features", MOST_ROWS)),
    "budget": (NUMBER, ("epsilon", "delta")),
}
_LISTS = {entry.key for entry in TABLE if entry.kind in ("names", "texts", "choices")}
_COMMENTS = {
    DATA: "the records, and where the release goes",
    "unit": "whom it protects",
    "columns": "what is known of the columns; nothing here was looked up in the records",
    "epsilon": "the promise",
    "ledger": "what keeps count of all releases of these records",
    "plan": "for the plan alone: rough public numbers",
    "budget": "the total that is promised when the ledger opens this dataset",
}
_HEAD = (
    "# Settings of hushcov, for: hushcov fit --settings {name}\n"
    "# Each line is a setting of 'hushcov fit'; options on the command line win.\n"
    "# Paths start at the folder of this file.\n"
)


@dataclass
class Settings:
    """Options of `fit` by their long names, in order, and what belongs to a plan and a budget."""

    options: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)


def read_settings(path: Path) -> Settings:
    """Read and check a settings file; keys that `fit` does not know are refused."""
    import tomllib

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
            if not isinstance(value, dict):
                raise ParameterError(f"{path}: {key} must be a table, which begins with [{key}].")
            kind, entries = _TABLES[key]
            param = click.Option(["--value"], type=kind)
            for each in value:
                if each not in entries:
                    _refuse(path, each, entries, f"entry of [{key}]")
                getattr(settings, key)[each] = _checked(path, each, value[each], param)
            continue
        if key not in params:
            _refuse(path, key, (*params, *_TABLES), "setting of 'hushcov fit'")
        checked = _checked(path, key, value, params[key])
        is_path = isinstance(params[key].type, click.Path)  # which starts at the folder of the file
        settings.options[key] = str(path.parent / checked) if is_path else checked
    return settings


def _fit() -> click.Command:
    """Import `hushcov fit`, whose options are the keys; that takes seconds."""
    from hushcov.cli.fit import command

    return command


def _params(command: click.Command) -> dict[str, click.Parameter]:
    """Return the parameters of a command by their keys in settings files."""
    known = {key_of(param): param for param in command.params}
    return {key: param for key, param in known.items() if key not in ("settings", "help")}


def key_of(param: click.Parameter) -> str:
    """Return the key of a parameter in settings files: its long option without dashes."""
    return DATA if isinstance(param, click.Argument) else max(param.opts, key=len).lstrip("-")


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
    elif isinstance(kind, ScalesType):
        fine, what = number or fine, "a number, or a .npy file in quotes"
    elif isinstance(kind, BandwidthType):
        fine, what = number or fine, 'a whole number, or text in quotes: "up-to:20", "500000bp"'
    elif isinstance(kind, click.Path) and fine:
        fine, what = is_file_name(value), "a name that a file can have"
    elif key in _LISTS:
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


def write_settings(path: Path, settings: Settings) -> None:
    """Write the file whole, or not at all."""
    params, lines = _params(_fit()), [_HEAD.format(name=printable(path.name))]
    for key, value in settings.options.items():
        if key in _COMMENTS:
            lines.append(f"\n# {_COMMENTS[key]}\n")
        inside = isinstance(params[key].type, click.Path) and not os.path.isabs(value)
        there = os.path.relpath(value, path.parent) if inside else value
        lines.append(tomli_w.dumps({key: there}))
    for table in _TABLES:
        if values := getattr(settings, table):
            lines.append(f"\n# {_COMMENTS[table]}\n{tomli_w.dumps({table: values})}")
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text("".join(lines), encoding="utf-8")
    draft.replace(path)


def plain_number(value: float) -> str:
    """Return the shortest text that reads as the same number: 1, 0.5, 1e-6."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return str(int(value))
    base, mark, exponent = repr(value).partition("e")
    return base + (f"e{int(exponent)}" if mark else "")


def settings_option(function: Function) -> Function:
    """Add --settings: its values are defaults, which options on the command line override."""
    return click.option(
        "--settings",
        type=PATH,
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
    return ",".join(value) if isinstance(value, list) else value
