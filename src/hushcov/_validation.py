"""Check public parameters; every error names parameter, constraint, value and cure."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from numbers import Integral, Real

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.exceptions import ParameterError, raise_alone

_MOST_SHOWN = 10**100
_MOST_LISTED = 10

LARGEST_EPSILON, LARGEST_DELTA = 10.0, 0.1  # of a release
#: Limits on the scale of a feature: grids neither overflow nor become subnormal.
SMALLEST_SCALE, LARGEST_SCALE = 1e-100, 1e100
#: Share of the budget that counts complete records.
OF_COMPLETE = 0.005
#: Why a budget has its range, in plain words.
BUDGET_WORDS = (
    "it is the privacy budget. Odds of a guess about one person may grow by a factor of e^epsilon: "
    "2.7 at 1, which is usual, 20 at 3, 22,000 at 10, the most allowed, which protects hardly "
    "anybody."
)
DELTA_WORDS = (
    "it is about the chance that the promise fails for somebody. Choose it well below 1 / "
    "records, such as 1e-6 for 100,000 records."
)
#: Libraries of data frames that are supported.
LIBRARIES = ("pandas", "polars")


def check_real(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    at_most: float = math.inf,
    or_zero: bool = False,
    cure: str,
) -> float:
    """Return `value` as a float in (above, at_most], or 0 with `or_zero`, or raise."""
    number = None
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if or_zero and number == 0:
            return 0.0
        if math.isfinite(number) and above < number <= at_most:
            return number
    low = "" if above == -math.inf else f"above {above:g} and "
    constraint = low + ("finite" if at_most == math.inf else f"at most {at_most:g}")
    if value is None:
        raise ParameterError(f"{name} is required ({constraint}): {cure}")
    kind = "a real number " if number is None else ""
    raise ParameterError(f"{name} must be {kind}{constraint}, got {shown(value)}: {cure}")


def check_integer(
    name: str, value: object, *, at_least: int, at_most: int | None = None, cure: str
) -> int:
    """Return `value` as an int in [at_least, at_most], or raise `ParameterError`."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        value = int(value)
        if at_least <= value and (at_most is None or value <= at_most):
            return value
    short = at_most is None or not 10**15 <= at_most < _MOST_SHOWN
    most = "" if at_most is None else f" and at most {shown(at_most) if short else f'{at_most:g}'}"
    constraint = f"at least {at_least}{most}"
    if value is None:
        raise ParameterError(f"{name} is required (an integer, {constraint}): {cure}")
    raise ParameterError(f"{name} must be an integer {constraint}, got {shown(value)}: {cure}")


def check_feature_scale(feature_scale: object, n_features: int) -> FloatArray:
    """Return scales as a read-only array with one number per feature, or raise."""
    try:
        scale = np.array(feature_scale, dtype=np.float64)
    except Exception:  # an object's own conversion may raise anything
        raise_alone(
            ParameterError(
                "feature_scale must be a number or one number for each feature, got "
                f"{type(feature_scale).__name__}: pass public standard deviations, or None."
            )
        )
    if scale.ndim == 0:
        scale = np.full(n_features, float(scale))
    if scale.shape != (n_features,):
        raise ParameterError(
            f"feature_scale must be a number or have one for each of {n_features} features, got "
            f"shape {scale.shape}: pass standard deviations in the order of the columns."
        )
    inside = (scale == 0) | ((scale >= SMALLEST_SCALE) & (scale <= LARGEST_SCALE))
    if not inside.all():
        raise ParameterError(
            f"feature_scale must be 0 (a constant feature) or from {SMALLEST_SCALE:g} to "
            f"{LARGEST_SCALE:g}: rescale the features outside this range."
        )
    scale.setflags(write=False)
    return scale


def check_numbers(
    name: str,
    values: object,
    length: int,
    *,
    at_least: float = -math.inf,
    finite: bool = True,
    cure: str,
) -> FloatArray:
    """Return public values as a fresh array of `length` numbers, none of them NaN, or raise."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except Exception:  # an object's own conversion may raise anything
        raise_alone(
            ParameterError(f"{name} must be {length} numbers, got {type(values).__name__}: {cure}")
        )
    if numbers.shape != (length,):
        raise ParameterError(f"{name} must be {length} numbers, got shape {numbers.shape}: {cure}")
    if not (numbers >= at_least).all() or (finite and not np.isfinite(numbers).all()):
        kind = "finite numbers" if finite else "numbers"
        least = "" if at_least == -math.inf else f" of at least {at_least:g}"
        raise ParameterError(f"{name} must be {kind}{least}, got others: {cure}")
    return numbers


def check_level(level: object) -> float:
    """Return how often an interval is to cover, or raise `ParameterError`."""
    return check_real("level", level, above=0, at_most=0.9999, cure="0.95 is usual.")


def check_choice(
    name: str, value: object, choices: tuple[str, ...], cure: str = "choose one of them."
) -> str:
    """Return `value` if it is one of `choices`, or raise `ParameterError`."""
    if not isinstance(value, str) or value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ParameterError(f"{name} must be one of {allowed}, got {shown(value)}: {cure}")
    return value


def shown(value: object) -> str:
    """Return a number or short text as it is, anything else by its type, which quotes no data."""
    if isinstance(value, int | float | np.number | Fraction):
        # Python refuses to print integers of thousands of digits.
        big = isinstance(value, int) and abs(value) >= _MOST_SHOWN
        return "an integer of more than 100 digits" if big else repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    return "None" if value is None else f"a {type(value).__name__}"


def listed(columns: Sequence[object]) -> str:
    """Return the names of columns in words, the first few of many; names are public."""
    names = ", ".join(shown(str(name)) for name in columns[:_MOST_LISTED])
    more = len(columns) - _MOST_LISTED
    return f"column{'s' * (len(columns) > 1)} {names}" + (f" and {more} more" if more > 0 else "")


def meant(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is meant: the same, or the only one that differs in case alone."""
    if name in known:
        return name
    wanted = name.strip().casefold()
    same = [each for each in known if each.strip().casefold() == wanted]
    return same[0] if len(same) == 1 else None


def nearest(names: Iterable[object], known: Iterable[str]) -> list[str]:
    """Return the known names that resemble these most, regardless of case."""
    plain = {each.casefold(): each for each in known}
    close = (difflib.get_close_matches(str(name).casefold(), plain, 1) for name in names)
    return list(dict.fromkeys(plain[each] for found in close for each in found))


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that are there more than once, each once."""
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]
