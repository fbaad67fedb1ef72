"""The group: help, JSON, completion, laziness, numbers as options; every failure as one line."""

import os
import subprocess
import sys
import warnings

import click
import numpy as np
import pytest

from command_line import PATIENCE
from hushcov import __version__
from hushcov._words import number
from hushcov.cli.main import COMMANDS, EXIT_CODES, cli
from hushcov.cli.options import INTEGER
from hushcov.cli.output import steps, watched
from hushcov.exceptions import (
    CapacityError,
    DataError,
    HushcovError,
    MissingPackageError,
    ParameterError,
    PrivacyConditionError,
)
from hushcov.release.view import ShownPair
from hushcov.tables.sources import ArrayRecords
from hushcov.text.description import pair_remarks
from hushcov.text.rows import pair_table

HEAVY = ("numba", "sklearn", "matplotlib", "scipy", "numpy")


def test_help_lists_commands_and_exit_codes(run):
    result = run("--help")
    assert result.exit_code == 0
    for name, summary in COMMANDS.items():
        assert f"  {name}" in result.stdout
        assert summary in " ".join(result.stdout.split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code:<4} {meaning}" in result.stdout
    assert run().stdout == run("--help").stdout
    assert run().exit_code == 0
    assert run("--version").stdout == f"hushcov {__version__}\n"


def test_help_imports_no_command_and_nothing_heavy():
    code = (
        "import sys\nfrom hushcov.cli.main import cli\n"
        "try:\n    cli.main(['--help'], prog_name='hushcov')\n"
        "except SystemExit as stop:\n    assert stop.code == 0\n"
        "print('MODULES', *sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, timeout=PATIENCE, check=True
    )
    loaded = set(answer.stdout.splitlines()[-1].split())
    assert "hushcov.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY)
    assert loaded.isdisjoint(f"hushcov.cli.{name}" for name in COMMANDS)
    assert not any(name.startswith("hushcov_lab") for name in loaded)


@pytest.fixture
def failing(monkeypatch):
    """Make `hushcov paper` do something else."""

    def install(action):
        command = click.Command("paper", callback=action)
        monkeypatch.setattr(cli, "get_command", lambda ctx, name: command)

    return install


def _raiser(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ParameterError("epsilon must be above 0"), 2),
        (HushcovError("something else"), 2),
        (DataError("records must be finite"), 3),
        (PrivacyConditionError("n_records must be larger", 10), 4),
        (CapacityError("too many candidates"), 5),
        (MemoryError("Unable to allocate 8. TiB"), 5),
        (FileNotFoundError(2, "No such file or directory", "here.npy"), 6),
        (PermissionError("here cannot be written to"), 6),
        (MissingPackageError("figures", "matplotlib", "report"), 6),
        (click.UsageError("no such thing"), 2),
    ],
)
def test_errors_become_one_line_and_a_code(refused, failing, error, code):
    failing(_raiser(error))
    line = refused(code, "paper")
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    assert text.rstrip(".") in line
    assert "Traceback" not in line


def test_other_exit_codes(run, failing):
    failing(_raiser(KeyboardInterrupt()))
    result = run("paper")
    assert result.exit_code == 130
    assert result.stderr.strip() == "hushcov: interrupted"
    failing(lambda: click.get_current_context().exit(1))
    result = run("paper")
    assert (result.exit_code, result.stderr) == (1, "")
    failing(lambda: 3)
    assert run("paper").exit_code == 0


def test_bugs_keep_their_traceback_and_warnings_are_one_line(failing, run):
    failing(_raiser(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        cli.main(["paper"], prog_name="hushcov")

    def warn():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("the noise is\npredictable", UserWarning, stacklevel=1)

    failing(warn)
    assert run("paper").stderr == "hushcov: warning: the noise is predictable\n"


def test_unknown_command_and_option(refused, program):
    line = refused(2, "parms")
    assert "'parms'" in line
    assert all(name in line for name in COMMANDS)
    assert "did you mean 'hushcov paper verify'?" in refused(2, "verify")
    assert "--version" in refused(2, "--verson")
    line = refused(2, "paper", "params", "--recods", 5)
    assert "--records" in line
    assert line.endswith("See 'hushcov paper params --help'.")
    budget = ("--epsilon", "1", "--delta", "1e-6")
    answer = program("fit", "nowhere.npy", *budget, "--row-sparsity", "2")
    assert answer.returncode == 6
    assert answer.stdout == ""
    assert answer.stderr.startswith("hushcov: error: nowhere.npy does not exist")
    assert answer.stderr.count("\n") == 1


SIZE = ("--row-sparsity", "2", "--scale", "1")


def test_a_reader_that_leaves_ends_it_quietly(tmp_path):
    command = (
        f"'{sys.executable}' -m hushcov.cli.main paper params --records 1e16 --features 20 "
        f"--epsilon 1 --delta 1e-6 {' '.join(SIZE)} | true; echo ${{PIPESTATUS[0]}}"
    )
    answer = subprocess.run(
        ["bash", "-c", command], text=True, capture_output=True, timeout=PATIENCE, check=True
    )
    assert answer.stderr == ""
    assert answer.stdout.strip() in {"0", "141"}


# Questions and a tour of other commands are no data.
NO_JSON = {"demo", "start"}


def _all_commands():
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if not isinstance(command, click.Group):
            yield name, command
        below = getattr(command, "commands", {})
        yield from ((f"{name} {sub}", each) for sub, each in below.items())


EVERY = dict(_all_commands())


@pytest.mark.parametrize("name", EVERY)
def test_help_has_an_example_that_is_understood(run, name):
    command, text = EVERY[name], run(*name.split(), "--help").stdout
    assert f"Usage: hushcov {name}" in text
    assert run(*name.split(), "-h").stdout == text
    _, found, after = text.partition("Example")
    assert found
    examples = [
        line.strip() for line in after.splitlines() if line.startswith(f"    hushcov {name} ")
    ]
    assert examples
    for option in (word for line in examples for word in line.split() if word.startswith("--")):
        known = {opt for parameter in command.params for opt in parameter.opts}
        assert option in known, option


@pytest.mark.parametrize("name", sorted(set(EVERY) - NO_JSON))
def test_every_command_can_answer_in_json(name):
    assert "--json" in {opt for parameter in EVERY[name].params for opt in parameter.opts}


@pytest.mark.parametrize("name", EVERY)
def test_every_option_says_what_it_is(name):
    """In words, or by a default that shows what values look like."""
    for parameter in EVERY[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help or parameter.show_default, parameter.name


def _completed(words: str) -> list[str]:
    """What the program answers when a shell asks, in a process of its own."""
    asked = {"_HUSHCOV_COMPLETE": "bash_complete", "COMP_WORDS": f"hushcov {words}"}
    asked["COMP_CWORD"] = str(len(words.split(" ")))
    code = "from hushcov.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_shells_complete_commands_and_options():
    assert _completed("fit --no-n") == ["--no-nulls"]
    assert _completed("paper verify --row") == ["--row-sparsity"]  # of the laboratory


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("53338474066", 53338474066), ("53_000", 53_000), ("1e16", 10**16), ("1E16", 10**16)),
        *(("1e+16", 10**16), ("1.5e3", 1500), ("9007199254740993", 2**53 + 1)),
        ("1.2345678901234567891e19", 12345678901234567891),
        *((" 7 ", 7), ("7.0", 7), ("70e-1", 7), ("-5", -5), ("+5", 5), ("0", 0), (12, 12)),
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


# How numbers are written, and correlations read off a release.


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        *((0.00123456, 2, "0.0012"), (140.2, 2, "140"), (2345.6, 2, "2,300")),
        *((12345.6, 3, "1.23e4"), (1e-6, 4, "1e-6"), (-1.5e15, 4, "-1.5e15"), (0.999, 2, "1")),
        (float("inf"), 2, "inf"),
    ],
)
def test_numbers_have_few_digits(value, digits, text):
    assert number(value, digits) == text


def _cells(table) -> list[list[str]]:
    return [list(map(str, column.cells)) for column in table.columns]


def test_pairs_with_and_without_intervals():
    pairs = [ShownPair((0, 2), 1.25, 0.5, (1.0, 1.5)), ShownPair((1, 2), -2.0, -0.25, (-2.5, -1.5))]
    assert _cells(pair_table(pairs)) == [
        ["0, 2", "1, 2"],
        ["0.500", "-0.250"],
        ["none", "none"],
        ["1.25", "-2"],
    ]
    alone = [ShownPair((0, 2), 1.25, 0.5, None)]
    assert len(pair_table(alone).columns) == 3
    inside = ShownPair((0, 1), 1.25, 0.5, (1.0, 1.5), (0.4, 0.6))
    outside = ShownPair((0, 2), 0.3, 0.3, (-0.1, 0.2), (-0.2, 0.1), outside=True)
    assert _cells(pair_table([inside, outside]))[2] == ["0.4 to 0.6", "-0.2 to 0.1*"]
    assert [pair.to_dict()["outside_interval"] for pair in (inside, outside)] == [False, True]
    assert "*" not in pair_remarks([inside])
    words = pair_remarks([inside, outside])
    assert "* outside its interval: the estimate barely passed the threshold" in words
    assert "semidefinite" not in words
    assert "semidefinite" in pair_remarks([outside], projected=True)


def test_progress_where_there_is_no_terminal(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("hushcov.cli.output._EVERY", 10.0)
    monkeypatch.setattr("hushcov.cli.output.time.monotonic", lambda: now[0])
    with steps(4) as step:
        for wait, words in ((0, "one"), (9.9, "two"), (0.2, "three"), (0.1, "four")):
            now[0] += wait
            step(words)
    assert capsys.readouterr().err == "hushcov: three: 50 % done\n"
    with watched(ArrayRecords(np.zeros((100, 1)), block_rows=50)) as rows:
        now[0] += 11
        rows.map_sum(lambda block: np.zeros(1, dtype=np.int64) + len(block))
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "hushcov: reading records, pass 1: 0 % done"
