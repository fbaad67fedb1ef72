"""What all commands have in common: examples, JSON, and completion by the shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import click
import pytest

from hushcov.cli.main import COMMANDS, cli

# The script of a shell is no data, and neither are questions nor a tour of other commands.
NO_JSON = {"completion", "demo", "start"}


def _all_commands():
    """Names and commands, groups opened."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {sub}", each) for sub, each in command.commands.items())
        else:
            yield name, command


EVERY = dict(_all_commands())


@pytest.mark.parametrize("name", EVERY)
def test_help_has_an_example_that_is_understood(run, name):
    command, text = EVERY[name], run(*name.split(), "--help").stdout
    _, found, after = text.partition("Example")
    assert found
    examples = [line.strip() for line in after.splitlines() if line.startswith("    hushcov ")]
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


def test_ledger_in_json(run):
    amount = ("--dataset", "p", "--epsilon", 1, "--delta", 1e-6)
    for command in ("init", "change"):
        (dataset,) = json.loads(run("ledger", command, "b.db", *amount, "--json").stdout)[
            "datasets"
        ]
        assert dataset["epsilon"] == 1.0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_of_shells(run, shell):
    script = run("completion", shell).stdout
    assert f"_HUSHCOV_COMPLETE={shell}_complete" in script
    assert "%(" not in script


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
    assert _completed("fit --drop") == ["--drop-nulls"]
    assert _completed("verify --row") == ["--row-sparsity"]  # of the laboratory


def test_completing_a_command_imports_none():
    context = click.Context(cli)
    loaded = set(sys.modules)
    assert [item.value for item in cli.shell_complete(context, "a")] == ["ask", "audit"]
    assert [item.value for item in cli.shell_complete(context, "pl")] == ["plan"]
    assert set(sys.modules) == loaded
