"""Random command lines, of small sizes wherever they are valid."""

import random

import click

from hushcov.cli.main import COMMANDS, cli
from hushcov.cli.options import SettingsOption

_NUMBERS = (
    *("0", "-1", "1", "2", "3", "0.5", "1e-6", "1e-320", "1e400", "nan", "inf", "-inf", "", "x"),
    *("1_0", "0x10", "١٢", "1e99", "9" * 200, "1e-400", "-0", " 1 ", "1,2", "\x1b[2J", "None", "é"),
)
# No NUL: a command line cannot hold it.
_FILES = ("x.npy", "y.npy", "nowhere.npy", "folder", "text", ".", "", "/", "n" * 300, "x.csv")
_WORDS = ("patients", "", "x" * 300, "\x1b[2J", "é", "a\nb", "--json", "'; --")
# Values with which a command does something, and is done soon.
_USUAL = {
    "--epsilon": ("1", "0.5"),
    "--delta": ("1e-6",),
    "--row-sparsity": ("2", "1"),
    "--features": ("3",),
    "--records": ("20", "50"),
    "--scale": ("1",),
    "--feature-scale": ("1", "y.npy", "x.npy"),
    "--runs": ("1", "2"),
    "--seed": ("1",),
    "--dataset": ("patients",),
    "--label": ("table",),
    "--ledger": ("ledger.db",),
    "--output": ("out",),
    "--figure": ("figure.png",),
    "--target-error": ("0.2",),
    "--failure-probability": ("0.1",),
    "--preset": ("quick",),
    "--contenders": ("gaussian,coinpress", "thresholded"),
    "--workers": ("1",),
}
_SLOW = {"--refine", "--help"}
# What makes a command fail that would take seconds or minutes; the last value of an option counts.
_MUST_FAIL = {
    "verify": ("--no-such-option", "--seed=x", "--seed=-1.5"),
    "audit": ("--no-such-option", "--seed=x", "--seed=-1.5"),
    "demo": ("--no-such-option", "--output=."),
    "bench": ("--no-such-option", "--preset=x", "--workers=0", "--contenders=", "--contenders=x"),
}


def arguments(rng: random.Random) -> list[str]:
    """A command with its required options, most of them usual, and some others."""
    name = rng.choice([*COMMANDS, "fit", "fit", "show", "ledger", "plan"])
    if rng.random() < 0.03:
        bare = "fit" if name in _MUST_FAIL else name
        return [rng.choice(["", "fitt", "--version", "-h", "--nope", bare]), *_noise(rng)]
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    words = [name]
    if isinstance(found, click.Group):
        sub = rng.choice(sorted(found.commands))
        words.append(sub)
        found = found.commands[sub]
    words += _options(rng, found)
    if found.name in _MUST_FAIL:
        words.append(rng.choice(_MUST_FAIL[found.name]))
    if rng.random() < 0.1:
        words[rng.randrange(1, len(words) + 1) : 0] = _noise(rng)
    return words


def _noise(rng: random.Random) -> list[str]:
    return [rng.choice((*_NUMBERS, *_FILES, *_WORDS)) for _ in range(rng.randrange(3))]


def _options(rng: random.Random, command: click.Command) -> list[str]:
    words = []
    for param in command.params:
        if isinstance(param, click.Argument):
            words.append(_value(rng, "file", param))
            continue
        if isinstance(param, SettingsOption):
            continue
        if rng.random() > (0.97 if param.required else 0.2) or set(param.opts) & _SLOW:
            continue
        option = rng.choice(param.opts)
        words.append(option)
        if isinstance(param, click.Option) and not param.is_flag:
            words.append(_value(rng, max(param.opts, key=len), param))
    if command.name == "plan" and "--records" not in words:
        words += ["--records", "20"]
    if command.name == "fit" and "--mechanism" not in words and rng.random() < 0.98:
        words += ["--mechanism", "gaussian"]  # comparing all of them takes seconds
    if command.name == "fit" and rng.random() < 0.95:
        words += ["--allow", "hopeless"]  # the files have few records, and are to be read
    return words


def _value(rng: random.Random, option: str, param: click.Parameter) -> str:
    if option in _USUAL and rng.random() < 0.85:
        return rng.choice(_USUAL[option])
    if isinstance(param.type, click.Choice):
        choices = [str(each) for each in param.type.choices if each != "multiscale"]
        return rng.choice([*choices, "", "x"])
    if isinstance(param.type, click.Path) or option == "file":
        return rng.choice((*_FILES, "y.npy", "y.npy", "x.npy", "x.npy", "ledger.db"))
    if option in ("--dataset", "--label"):
        return rng.choice(_WORDS)
    return rng.choice(_NUMBERS)
