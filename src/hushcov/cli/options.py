"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import click

from hushcov.accounting import RELATIONS, REPLACE
from hushcov.exceptions import ParameterError

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


INTEGER = IntegerType()
NUMBER = NumberType()
SCALES = ScalesType()


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
            if param.name == keyword and ctx.params.get(keyword) is not None:
                return max(param.opts, key=len)
        return keyword


CODEBOOK = click.option(
    "--codebook",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="What is publicly known of columns: name, low, high, kind (number, integer, binary, "
    "category) and values, separated by '|'. Values are clipped to low and high; categories "
    "become one-hot columns. Never made from the records.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_ROW_SPARSITY = click.option(
    "--row-sparsity",
    type=INTEGER,
    required=True,
    metavar="K",
    help="Most nonzero entries in a row of the covariance, the diagonal included.",
)
_ADVICE = click.option(
    "--row-sparsity",
    type=INTEGER,
    metavar="K",
    help="About how many entries of a row of the covariance are not zero, the diagonal included, "
    "if that is known. The default takes it as advice; mechanisms chosen by --mechanism follow it.",
)
_TARGET_ERROR = click.option(
    "--target-error",
    type=NUMBER,
    default=0.25,
    show_default=True,
    metavar="ALPHA",
    help="Operator-norm error sought by the theorem, in units of scale^2; at most 0.25.",
)
_BUDGET = {
    "--epsilon": "Privacy budget; above 0 and at most 10, or 1 for the paper's theorem.",
    "--delta": "Privacy budget; above 0 and at most 0.1, well below 1 / records.",
}


def _budget(name: str, needed: str = "", **more: Any) -> Callable[[Function], Function]:
    """Epsilon or delta; `needed` is said where the command itself asks for both at once."""
    help_text = _BUDGET[name] + (f"  [{needed}]" if needed else "")
    metavar = name.removeprefix("--").upper()
    return click.option(name, type=NUMBER, metavar=metavar, help=help_text, **more)


_EPSILON, _DELTA = (_budget(name, required=True) for name in _BUDGET)
_FIT_EPSILON, _FIT_DELTA = (_budget(name, "required") for name in _BUDGET)
_FAILURE_PROBABILITY = click.option(
    "--failure-probability",
    type=NUMBER,
    default=0.1,
    show_default=True,
    metavar="BETA",
    help="Probability with which the theorem's target may be missed; at most 0.1.",
)
_SCALE = click.option(
    "--scale",
    type=NUMBER,
    required=True,
    metavar="SIGMA",
    help="Public bound on the standard deviation in every direction (the "
    "sub-Gaussian scale). Never inferred from the data.",
)

_KNOWN_MEAN = click.option(
    "--known-mean",
    is_flag=True,
    help="The records have mean zero (subtract a public mean first). Otherwise means, scales and "
    "norms are found from a share of the budget.",
)


_NEIGHBOURS = click.option(
    "--neighbours",
    type=click.Choice(tuple(RELATIONS)),
    help="What becomes of one unit in a neighbouring dataset: it has other records, or it is not "
    "there at all. Then there is about half the noise, and 2 % of epsilon release the number of "
    f"records first.  [default: {REPLACE}]",
)
_MOST_ROWS = click.option(
    "--max-rows-per-unit",
    type=INTEGER,
    metavar="M",
    help="How many rows of one unit are summed, at most.  [default: found from 1 % of epsilon]",
)


_BANDWIDTH = click.option(
    "--bandwidth",
    type=INTEGER,
    metavar="W",
    help="How many columns apart two features can be that covary, where the order of the columns "
    "has a meaning and that is public: neighbours on a genome, sensors of a chain, maturities. All "
    "other covariances are taken for zero.",
)
_PAIRS = click.option(
    "--candidate-pairs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The same for pairs of any kind: a sparse matrix (.npz), or text or Parquet with a pair "
    "or a group of columns in each row, by name or by position from 0. Public; never made from "
    "the records.",
)
_WIDTH = click.option(
    "--adaptive-width",
    is_flag=True,
    help="With --bandwidth: that is only a maximum, and a part of the budget finds how wide the "
    "band is.",
)
_KNOWN_PAIRS = _BANDWIDTH, _PAIRS, _WIDTH


def theorem_inputs(function: Function) -> Function:
    """Add the public inputs of the theorem that do not describe the size of the data."""
    return _with(
        function, _ROW_SPARSITY, _TARGET_ERROR, _EPSILON, _DELTA, _FAILURE_PROBABILITY, _SCALE
    )


def public_inputs(function: Function) -> Function:
    """Add what every estimator must be told, and what may be known of the records."""
    known = _ADVICE, *_KNOWN_PAIRS, _KNOWN_MEAN, _NEIGHBOURS, _MOST_ROWS
    return _with(function, _FIT_EPSILON, _FIT_DELTA, *known)


def _with(function: Function, *options: Callable[[Function], Function]) -> Function:
    for option in reversed(options):
        function = option(function)
    return function
