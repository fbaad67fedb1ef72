"""The file of settings: what it may hold, who wins, and that what is read is what was written."""

import json
import tomllib
from pathlib import Path

import click
import numpy as np
import pytest

from hushcov.cli.fit import command as fit
from hushcov.cli.options import (
    Settings,
    SettingsOption,
    key_of,
    plain_number,
    read_settings,
    write_settings,
)
from hushcov.cli.plan import command as plan

GOOD = 'data = "x.csv"\nepsilon = 2\ndelta = 1e-6\ncolumns = ["b", "a"]\n'


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(4000, 3)).round(3)
    np.savetxt("x.csv", rows, "%g", ",", header="a,b,c", comments="")


def dry(run, *words):
    result = run("fit", *words, "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_options_come_from_the_file_and_the_command_line_wins(run):
    Path("s.toml").write_text(
        GOOD + 'no-nulls = true\nallow = ["hopeless"]\nneighbours = "replace"\n'
    )
    found = dry(run, "--settings", "s.toml")
    assert (found["n_records"], found["n_features"]) == (4000, 2)
    assert found["guarantee"]["epsilon"] == 2
    found = dry(run, "--settings", "s.toml", "--epsilon", 1.5, "--columns", "a,b,c")
    assert (found["guarantee"]["epsilon"], found["n_features"]) == (1.5, 3)
    Path("y.csv").write_text(Path("x.csv").read_text())
    assert dry(run, "y.csv", "--settings", "s.toml")["file"] == "y.csv"
    Path("s.toml").write_text(GOOD + "no-nulls = true\n[plan]\nrecords = 4000\nfeatures = 2\n")
    found = json.loads(run("plan", "--settings", "s.toml", "--json").stdout)
    assert (found["n_features"], found["epsilon"]) == (2, 2)
    assert [plan["n_records"] for plan in found["plans"]] == [4000]
    more = ("--records", 100, "--records", 900)
    found = json.loads(run("plan", "--settings", "s.toml", *more, "--json").stdout)
    assert [plan["n_records"] for plan in found["plans"]] == [100, 900]


FLAGS = [
    (command, param)
    for command in (fit, plan)
    for param in command.params
    if getattr(param, "is_flag", False) and key_of(param) in map(key_of, fit.params)
]


def flag_of(command, param, said, *words):
    """What a command is told of a flag, if the settings say `said` of it."""
    Path("s.toml").write_text(GOOD + f"{key_of(param)} = {said}\n")
    more = ["--features", "2"] if command is plan else []
    with command.make_context("hushcov", ["--settings", "s.toml", *more, *words]) as context:
        return context.params[param.name]


def check_flag(command, param):
    off = key_of(param) in ("no-header", "no-nulls")  # which set that there are some
    assert flag_of(command, param, "true") is not off
    assert flag_of(command, param, "false") is off
    for said in ("true", "false") if not isinstance(param, SettingsOption) else ():
        assert flag_of(command, param, said, f"--{key_of(param)}") is not off


def name_of_flag(found):
    return found.name if isinstance(found, click.Command) else key_of(found)


@pytest.mark.parametrize(("command", "param"), FLAGS, ids=name_of_flag)
def test_every_flag_is_taken(command, param):
    check_flag(command, param)


def test_what_settings_files_alone_have_is_no_option(run, refused):
    np.savetxt("semi.csv", np.random.default_rng(0).normal(size=(4000, 2)), "%g", ";")
    line = refused(2, "fit", "semi.csv", "--delimiter", ";", "--epsilon", 2, "--delta", 1e-6)
    assert "Write a line 'delimiter = ...' into a settings file" in line
    lines = 'data = "semi.csv"\nepsilon = 2\ndelta = 1e-6\ndelimiter = ";"\nno-header = true\n'
    Path("s.toml").write_text(lines + 'names = ["a", "b"]\n')
    assert dry(run, "--settings", "s.toml")["n_features"] == 2
    only = {key_of(param) for param in fit.params if isinstance(param, SettingsOption)}
    assert only == {
        *("delimiter", "device", "frequencies", "marginals", "memory", "names", "no-header"),
        *("on-invalid", "scheduler", "scratch"),
    }
    shown = run("fit", "--help").stdout
    assert not any(f"--{key}" in shown for key in only)
    assert all(key in shown for key in only)


def test_paths_start_at_the_folder_of_the_file(run):
    Path("inner").mkdir()
    Path("x.csv").rename("inner/x.csv")
    Path("inner/s.toml").write_text(GOOD + 'output = "out"\n')
    found = dry(run, "--settings", "inner/s.toml")
    assert (found["file"], found["output"]) == ("inner/x.csv", "inner/out")
    write_settings(Path("inner/t.toml"), read_settings(Path("inner/s.toml")))
    assert tomllib.loads(Path("inner/t.toml").read_text()) == tomllib.loads(
        Path("inner/s.toml").read_text()
    )


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("epsilom = 1", "'epsilom' is no setting of 'hushcov fit': did you mean 'epsilon'?"),
        ("no_nulls = true", "did you mean 'no-nulls'?"),
        ("zzzzzz = 1", "'zzzzzz' is no setting of 'hushcov fit': leave it out."),
        ('settings = "s.toml"', "'settings' is no setting"),
        ('epsilon = "1"', "epsilon must be a number, without quotes, got the text '1'"),
        ("epsilon = true", "epsilon must be a number, without quotes, got true"),
        ("no-nulls = 1", "no-nulls must be true or false, got 1"),
        ("max-rows-per-unit = 1.5", "max-rows-per-unit must be a whole number"),
        ("unit = 3", "unit must be text in quotes, got 3"),
        ("columns = [1, 2]", "columns must be a list of names"),
        ('neighbours = "replce"', "did you mean 'replace'?"),
        ("feature-scale = true", "feature-scale must be a number, or a .npy file"),
        ('output = "x\\u0000y"', "output must be a name that a file can have"),
        ("plan = 3", "plan must be a table"),
        ("[plan]\nrecrods = 3", "'recrods' is no entry of [plan]: did you mean 'records'?"),
        ("[budget]\nepsilon = 'x'", "epsilon must be a number"),
        ("epsilon = ", "must be a TOML file of settings"),
        ("epsilon = 1\nepsilon = 2", "must be a TOML file of settings"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "plan"])
def test_what_is_wrong_is_refused_with_the_cure(refused, command, lines, words):
    Path("s.toml").write_text(lines + "\n")
    line = refused(2, command, "--settings", "s.toml")
    assert line.startswith("s.toml")
    assert words in line


def test_files_that_are_not_there_or_not_text(refused):
    assert "nowhere.toml do not exist" in refused(6, "fit", "--settings", "nowhere.toml")
    Path("staff-settings.toml").write_text(GOOD)
    assert "did you mean staff-settings.toml?" in refused(6, "fit", "--settings", "staff.toml")
    Path("s.toml").write_bytes(b"epsilon = '\xff'\n")
    assert "UTF-8" in refused(2, "fit", "--settings", "s.toml")
    Path("s.toml").write_text('data = "x.csv"\nepsilon = 1\n')
    assert "--delta is required: how much" in refused(2, "fit", "--settings", "s.toml")
    Path("s.toml").write_text("epsilon = 1\ndelta = 1e-6\n")
    assert "Missing argument 'DATA'" in refused(2, "fit", "--settings", "s.toml")


def test_what_is_written_is_read_again():
    nasty = 'a "b" \\ \x7f ü\t\n\'#=[]'
    settings = Settings(
        {
            "data": nasty,
            "columns": [nasty, "x"],
            "epsilon": 0.1,
            "delta": 1e-06,
            "no-nulls": True,
        },
        {"records": 10**20},
        {"epsilon": 1 / 3},
    )
    write_settings(Path("s.toml"), settings)
    assert read_settings(Path("s.toml")) == settings
    assert all(line.isascii() or "ü" in line for line in Path("s.toml").read_text().splitlines())
    keys = [key_of(param) for param in fit.params]
    assert len(set(keys)) == len(keys)
    assert {"data", "epsilon", "unit", "no-header", "output"} <= set(keys)


@pytest.mark.parametrize("value", [1, 1.0, 0.1, 1e-6, 1e-300, 1.5e200, 1 / 3, 123456.789, 10**17])
def test_numbers_are_read_as_they_were(value):
    assert float(plain_number(value)) == value
    assert tomllib.loads(f"x = {plain_number(value)}") == {"x": value}
