"""Commands that pages and helps print are run as they are printed.

Blocks of ``console`` are run by `test_pages`, with what they show. Here are all others: indented
lines, blocks of text and of bash, and the examples of every help. Commands that stand together run
one after the other in one folder; a file or release that they name and do not make is put there.
"""

import re
import shlex
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from docs.pages import DOCS, blocks
from docs.test_pages import ANSWER, TRANSCRIPT
from hushcov import read_codebook
from hushcov.cli.main import cli
from hushcov.tables.sources import open_records
from hushcov_genotypes.reading import write_bed

N = 4000
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
# Minutes each, and run at small sizes by tests of their own: they are only parsed here.
LONG = re.compile(r"hushcov (audit|bench|paper verify|demo)\b")
FENCED = re.compile(r"^```\w*\n.*?^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Printed:
    """Commands that stand together, and where."""

    place: str
    lines: tuple[str, ...]


def commands_in(text: str) -> tuple[str, ...]:
    """Return commands without remarks after them; other lines are left out."""
    joined = re.sub(r" *\\\n *", " ", text)
    lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    return tuple(line.partition("  #")[0].strip() for line in lines if line.startswith("hushcov "))


def of_pages() -> list[Printed]:
    found = []
    for path in PAGES:
        page, place = path.read_text(), path.relative_to(DOCS.parent).as_posix()
        texts = [b.text for b in blocks(page) if b.language in ("text", "bash")]
        texts += re.findall(r"(?:^    \S.*\n)+", FENCED.sub("", page), re.MULTILINE)
        found += [Printed(place, lines) for text in texts if (lines := commands_in(text))]
    return found


def helps(command: click.Command, name: str = "hushcov") -> list[Printed]:
    """Return the examples of a command and of all below it."""
    text = (command.help or "").partition("Example")[2]
    found = [Printed(f"{name} --help", (line,)) for line in commands_in(text)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found += helps(command.get_command(context, each), f"{name} {each}")
    return found


@cache
def everything() -> tuple[Printed, ...]:
    return (*of_pages(), *helps(cli))


def words_of(line: str) -> list[str]:
    """Return the words after `hushcov`, up to where a shell writes the output."""
    words = shlex.split(line)[1:]
    return words[: next((i for i, word in enumerate(words) if word.startswith(">")), len(words))]


def test_every_command_has_options_that_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.toml").write_text('data = "x.csv"\nepsilon = 1\ndelta = 1e-6\n')
    lines = [line for printed in everything() for line in printed.lines]
    assert len(lines) > 80
    monkeypatch.setattr(click.Command, "invoke", lambda *_: None)  # all is parsed, nothing is run
    for line in lines:
        words = words_of(re.sub(r"\S+-settings.toml", "settings.toml", line))
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, (line, result.output)


def test_what_is_printed_is_found():
    assert commands_in("x\n$ hushcov a \\\n  b  # c\nhushcov d\n") == ("hushcov a b", "hushcov d")
    places = {printed.place for printed in everything()}
    assert {"README.md", "docs/start.md", "docs/parameters.md", "hushcov ask --help"} <= places


def the_table_of_the_first_steps() -> None:
    code = next(b.text for b in blocks((DOCS / "start.md").read_text()) if b.language == "python")
    exec(code, {})


def the_codebook() -> str:
    page = (DOCS / "parameters.md").read_text()
    (text,) = [b.text for b in blocks(page) if b.text.startswith("name,low,high,kind")]
    return text


def the_first_steps() -> None:
    """Make what is there after the questions of docs/start.md, of which the last says no."""
    the_table_of_the_first_steps()
    Path("codebook.csv").write_text(the_codebook())
    *answers, _ = (found.strip() for found in ANSWER.findall(TRANSCRIPT))
    given = "\n".join([*answers, "no", ""])
    result = CliRunner().invoke(cli, ["start", "patients.csv"], input=given)
    assert result.exit_code == 0, result.output


def test_the_codebook_of_the_parameters_describes_the_table_of_the_first_steps(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    the_table_of_the_first_steps()
    (tmp_path / "codebook.csv").write_text(the_codebook())
    book = read_codebook("codebook.csv")
    records = open_records("patients.csv", codebook=book, columns=book.names).with_gaps()
    rows = np.concatenate(list(records._blocks()))
    assert not np.isnan(rows).any()
    assert rows[:, 2:6].sum() == len(rows)  # each has a region
    assert 0.2 < rows[:, 1].mean() < 0.3
    line = "fit patients.csv --codebook codebook.csv --epsilon 1 --delta 1e-6 --dry-run"
    result = CliRunner().invoke(cli, shlex.split(line))
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A folder with every file and release that a command may name."""
    folder = tmp_path_factory.mktemp("stage")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _make_stage(folder)
    return folder


def _make_stage(folder) -> None:
    rng = np.random.default_rng(0)
    names = ("age", "height", "weight", "pulse", "dose", "systolic")
    table = pd.DataFrame(rng.normal(50, 10, (N, len(names))), columns=names)
    table["weight"] += table["height"]
    table.to_csv("patients.csv", index=False)
    np.save("patients.npy", table.to_numpy())
    visits = table.assign(patient_id=np.arange(N) // 2)
    visits.to_parquet("visits.parquet")
    (folder / "visits").mkdir()
    table.to_parquet("visits/a.parquet")
    survey = table.assign(
        region=rng.choice(["north", "south"], N), income=rng.gamma(3, 900, N), fee=table["dose"]
    )
    survey.to_csv("survey.csv", index=False)
    (folder / "codebook.csv").write_text(
        "name,low,high,kind,values\nregion,,,category,north|south\nage,0,120,integer,\n"
    )
    (folder / "survey-settings.toml").write_text(
        'data = "survey.csv"\ncodebook = "codebook.csv"\nepsilon = 1.0\ndelta = 1e-6\n'
    )
    (folder / "patients-settings.toml").write_text(
        'data = "patients.csv"\nepsilon = 1.0\ndelta = 1e-6\n[plan]\nrecords = 4000\nfeatures = 6\n'
    )
    wide = pd.DataFrame(rng.normal(size=(N, 30)), columns=[f"c{i}" for i in range(30)])
    wide.to_parquet("spectra.parquet")
    wide.to_csv("assets.csv", index=False)
    (folder / "sectors.csv").write_text("c0,c1\nc2,c3\n")
    calls = rng.binomial(2, 0.3, (N, 30)).astype(np.int8)
    names = [f"rs{i}" for i in range(95, 125)]
    write_bed(folder / "cohort.bed", calls, names=names, positions=list(range(1, 31)))
    key, pem = ed25519.Ed25519PrivateKey.generate(), serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    (folder / "key.pem").write_bytes(key.private_bytes(pem, *plain))
    (folder / "key.pub").write_bytes(key.public_key().public_bytes(pem, public))
    budget = "--epsilon 8 --delta 1e-6"
    for line in (
        f"fit survey.csv --codebook codebook.csv {budget} -o release",
        f"fit survey.csv --codebook codebook.csv {budget} -o survey-release",
        f"fit survey.csv --codebook codebook.csv {budget} -o patients-release",
        "sign patients-release --key key.pem",
        "fit cohort.bed --bandwidth 12 --epsilon 8 --delta 1e-6 -o ld-release",
        "ledger init budget.db --dataset patients --epsilon 2 --delta 1e-5",
    ):
        result = CliRunner().invoke(cli, shlex.split(line))
        assert result.exit_code == 0, result.output
    shutil.copytree("ld-release", "genotypes-release")


def supply(stage, folder, line: str) -> None:
    """Put what a command names into the folder, unless it is there or the command makes it."""
    words = shlex.split(line)
    made = {words[i + 1].rstrip("/") for i, w in enumerate(words[:-1]) if w in ("-o", "--output")}
    if words[1:3] == ["ledger", "init"]:
        made.add(words[3])
    if "survey-settings.toml" in words:
        words += ["survey.csv", "codebook.csv"]
    if "patients-settings.toml" in words:
        words.append("patients.csv")
    if "cohort.bed" in words:
        words += ["cohort.bim", "cohort.fam"]
    for word in words:
        name = word.rstrip("/").partition("/")[0]
        there, here = stage / name, folder / name
        if name and there.exists() and not here.exists() and name not in made:
            (shutil.copytree if there.is_dir() else shutil.copy)(there, here)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["pages", "helps"])
def test_printed_commands_run(where, stage, tmp_path, monkeypatch):
    failed = []
    for number, printed in enumerate(of_pages() if where == "pages" else helps(cli)):
        if LONG.match(printed.lines[0]):
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        if printed.place in ("docs/start.md", "docs/parameters.md"):
            the_first_steps()
        for line in printed.lines:
            supply(stage, folder, line)
            words = words_of(line)
            given = "\n\n4000\n" + "\n" * 30 if words[0] == "start" else None
            result = CliRunner().invoke(cli, words, input=given, prog_name="hushcov")
            if result.exit_code:
                failed.append((printed.place, line, result.output[-300:]))
    assert not failed, "\n".join(map(str, failed))
