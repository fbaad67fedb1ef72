"""The group: help, version, laziness, and every kind of failure as one line and an exit code."""

from __future__ import annotations

import subprocess
import sys
import warnings

import click
import pytest

from command_line import PATIENCE
from hushcov import __version__
from hushcov.cli.main import COMMANDS, EXIT_CODES, cli
from hushcov.exceptions import (
    CapacityError,
    DataError,
    HushcovError,
    MissingPackageError,
    ParameterError,
    PrivacyConditionError,
)

HEAVY = ("numba", "sklearn", "matplotlib", "scipy", "numpy")


def test_help_lists_commands_and_exit_codes(run):
    result = run("--help")
    assert result.exit_code == 0
    for name, summary in COMMANDS.items():
        assert f"  {name}" in result.stdout
        assert summary in " ".join(result.stdout.split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code:<4} {meaning}" in result.stdout


def test_no_argument_shows_the_help(run):
    assert run().stdout == run("--help").stdout
    assert run().exit_code == 0


def test_version(run):
    assert run("--version").stdout == f"hushcov {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"Usage: hushcov {name}" in result.stdout
    assert run(name, "-h").stdout == result.stdout


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
    assert not any(name.startswith("hushcov.lab") for name in loaded)


@pytest.fixture
def failing(monkeypatch):
    """Make `hushcov params` do something else."""

    def install(action):
        command = click.Command("params", callback=action)
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
    line = refused(code, "params")
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    assert text.rstrip(".") in line
    assert "Traceback" not in line


def test_a_message_of_several_lines_becomes_one(refused, failing):
    failing(_raiser(DataError("first\n  second")))
    assert refused(3, "params") == "first second"


def test_a_file_error_names_the_file_and_the_cure(refused, failing):
    failing(_raiser(FileNotFoundError(2, "No such file or directory", "here.npy")))
    assert refused(6, "params").startswith("here.npy: No such file or directory. Check the path")


def test_an_interrupt_is_130(run, failing):
    failing(_raiser(KeyboardInterrupt()))
    result = run("params")
    assert result.exit_code == 130
    assert result.stderr.strip() == "hushcov: interrupted"


def test_a_failed_check_is_1(run, failing):
    failing(lambda: click.get_current_context().exit(1))
    result = run("params")
    assert (result.exit_code, result.stderr) == (1, "")


def test_the_value_a_command_returns_is_not_an_exit_code(run, failing):
    failing(lambda: 3)
    assert run("params").exit_code == 0


def test_a_bug_keeps_its_traceback(failing):
    failing(_raiser(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        cli.main(["params"], prog_name="hushcov")


def test_warnings_are_one_line_without_source(run, failing):
    def warn():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("the noise is\npredictable", UserWarning, stacklevel=1)

    failing(warn)
    assert run("params").stderr == "hushcov: warning: the noise is predictable\n"


def test_unknown_command_and_option(refused):
    line = refused(2, "parms")
    assert "'parms'" in line
    assert all(name in line for name in COMMANDS)
    assert "--version" in refused(2, "--verson")
    line = refused(2, "params", "--recods", 5)
    assert "--records" in line
    assert line.endswith("See 'hushcov params --help'.")


def test_the_program_answers_like_the_group(program):
    budget = ("--epsilon", "1", "--delta", "1e-6")
    answer = program("fit", "nowhere.npy", *budget, "--row-sparsity", "2")
    assert answer.returncode == 6
    assert answer.stdout == ""
    assert answer.stderr.startswith("hushcov: error: nowhere.npy does not exist")
    assert answer.stderr.count("\n") == 1


SIZE = ("--row-sparsity", "2", "--scale", "1")


def test_a_reader_that_leaves_ends_it_quietly(tmp_path):
    command = (
        f"'{sys.executable}' -m hushcov.cli.main params --records 1e16 --features 20 --epsilon 1 "
        f"--delta 1e-6 {' '.join(SIZE)} | true; echo ${{PIPESTATUS[0]}}"
    )
    answer = subprocess.run(
        ["bash", "-c", command], text=True, capture_output=True, timeout=PATIENCE, check=True
    )
    assert answer.stderr == ""
    assert answer.stdout.strip() in {"0", "141"}
