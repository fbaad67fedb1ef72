"""The table of options: estimators, commands, settings, refusals and the reference follow it."""

from dataclasses import fields

import click
import pytest

import hushcov
from hushcov.cli import options as command_options
from hushcov.cli.fit import SLICES
from hushcov.cli.fit import command as fit
from hushcov.cli.plan import command as plan
from hushcov.estimators import options as estimator_options
from hushcov.exceptions import ParameterError
from hushcov.options import TABLE, Option, Taker, check_parameters

NEW = Option(
    "patience",
    "integer",
    "--patience",
    "How long to wait.",
    metavar="N",
    type="int, optional",
    doc="How long to wait. It means nothing.",
    limits={"at_least": 1},
    cure="it counts minutes.",
)


@pytest.fixture
def new(monkeypatch):
    """A table with one entry more, which is all that is done about it."""
    table = (*TABLE, NEW)
    for module in (command_options, estimator_options):
        monkeypatch.setattr(module, "TABLE", table)
    monkeypatch.setattr("hushcov.options.TABLE", table)


@pytest.mark.usefixtures("new")
def test_an_entry_makes_an_option_and_a_key_of_settings(tmp_path, monkeypatch):
    seen = []
    add = command_options.options_of("fit", mechanism=("auto",), tables=("csv",))
    made = click.command()(
        command_options.settings_option(add(lambda **x: seen.append(x["patience"])))
    )
    monkeypatch.setattr(command_options, "_fit", lambda: made)
    made.main(["--patience", "3"], standalone_mode=False)
    file = tmp_path / "s.toml"
    file.write_text("patience = 4\n")
    made.main(["--settings", str(file)], standalone_mode=False)
    assert seen == [3, 4]
    file.write_text("patience = 'long'\n")
    with pytest.raises(ParameterError, match="patience must be a whole number"):
        made.main(["--settings", str(file)], standalone_mode=False)


@pytest.mark.usefixtures("new")
def test_an_entry_makes_a_parameter_that_is_checked_and_described():
    @estimator_options.with_options
    class Patient:
        """An estimator."""

        patience: int | None = None

    assert "patience : int, optional\n    How long to wait. It means nothing." in Patient.__doc__
    check_parameters(Patient(patience=2))
    with pytest.raises(ParameterError, match="patience must be an integer at least 1, got 0: it"):
        check_parameters(Patient(patience=0))


@pytest.mark.usefixtures("new")
@pytest.mark.parametrize("name", SLICES)
def test_an_entry_makes_a_refusal(name):
    taker = SLICES[name].taker
    given = {"epsilon": 1.0, "delta": 1e-6, "header": True, "patience": 3}
    with pytest.raises(ParameterError, match=f"--patience must be left out with {taker.words}: "):
        taker.check(given)
    Taker("--mechanism auto").check(given)


def test_what_is_needed_and_what_is_refused_names_the_option():
    taker = Taker("x", refused={"drop_nulls": "why"}, needed={"feature_scale": "because"})
    with pytest.raises(ParameterError, match=r"^--no-nulls must be left out with x: why$"):
        taker.check({"drop_nulls": False})
    with pytest.raises(ParameterError, match=r"^--feature-scale is required with x: because$"):
        taker.check({"drop_nulls": True})


@pytest.mark.parametrize("command", [fit, plan])
def test_commands_have_what_the_table_says(command):
    found = {max(each.opts, key=len): each.name for each in command.params}
    for entry in TABLE:
        if entry.flag and command.name in entry.commands:
            assert found[entry.flag] == entry.name
    known = {entry.flag for entry in TABLE}
    own = {entry.flag for each in SLICES.values() for entry in each.taker.own}
    if command is fit:
        assert set(found) - known - own == {"file", "--settings"}


def test_names_and_options_are_unique_and_no_entry_is_dead():
    for names in ([e.name for e in TABLE], [e.flag for e in TABLE if e.flag]):
        assert len(set(names)) == len(names)
    classes = [getattr(hushcov, n) for n in dir(hushcov) if n.endswith("Covariance")]
    every = {each.name for own in classes for each in fields(own)}
    assert [e.name for e in TABLE if not e.flag and e.name not in every] == []
