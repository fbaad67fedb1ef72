"""`hushcov start` and `demo`: what they ask, run and show; no record is read before yes."""

import builtins
import importlib
import io
import json
import os
import pty
import re
import select
import shlex
import signal
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from command_line import PATIENCE, seeded
from hushcov import load
from hushcov.cli.main import cli
from hushcov.cli.prompts import an_integer, columns_in
from hushcov.exceptions import ParameterError
from hushcov.ledger import Ledger
from hushcov.paper.verification.claims import N_CLAIMS
from hushcov.release.files import read_release
from hushcov.tables import files, formats

STUDIES = Path(__file__).resolve().parents[2] / "benchmarks" / "studies"
N = 3000
NAMES = ("patient_id", "age", "smoker", "region", "bmi", "pulse")
HEADER = ",".join(NAMES) + "\n"
# One row a person, a public number of rows, columns of three kinds, gaps, a new ledger.
WHOSE, ROWS = ["", ""], [str(N)]
KINDS = ["", "ask", "smoker", "yes", "4", "north|south", "age", "0 120", "", "", "", ""]
PROMISE, LEDGER, FOLDER = ["2", ""], ["", "", ""], [""]
ANSWERS = [*WHOSE, *ROWS, *KINDS, *PROMISE, *LEDGER, *FOLDER]
PROMISED = ("--epsilon", 2, "--delta", 1e-6)
PLAIN = [*WHOSE, *ROWS, "1-4", "none", "", "no", "2", "", "none", ""]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    build = rng.normal(size=N)
    frame = pd.DataFrame(
        {
            "patient_id": [f"P{i % 1500:05d}" for i in range(N)],
            "age": rng.integers(18, 90, N),
            "smoker": rng.choice(["yes", "no"], N),
            "region": rng.choice(["north", "south", "west"], N),
            "bmi": 26 + 4 * build,
            "pulse": 72 + 6 * build + 8 * rng.normal(size=N),
        },
        columns=NAMES,
    )
    frame.to_csv("patients.csv", index=False)
    return frame


def start(answers, *args, code=0):
    """Answer one question after the other; return all that was printed."""
    given = "".join(f"{each}\n" for each in answers)
    words = ["start", *args] if args else ["start", "patients.csv"]
    result = CliRunner(env={"COLUMNS": "80"}).invoke(cli, words, input=given, prog_name="hushcov")
    assert result.exit_code == code, result.output
    return result.output


def printed_commands(output):
    lines = output[output.index("6. The command") :].splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith(("hushcov f", "hushcov l"))]


def kept(stem="patients"):
    """Return the settings that were written."""
    return tomllib.loads(Path(f"{stem}-settings.toml").read_text())


def test_a_first_release(table, run):
    output = start([*ANSWERS, "yes"])
    assert max(len(line) for line in output.splitlines() if "hushcov ledger" not in line) <= 80
    release = read_release("patients-release").release
    assert release.column_names == (
        *("age", "smoker", "region=north", "region=south", "bmi", "pulse"),
    )
    assert release.making.bounds[0] == (0, 120)
    assert release.guarantee.epsilon == 2
    assert len(Ledger("budget.db").history("patients")) == 1
    assert "report.html in a browser" in output
    said = " ".join(output[output.index("What now") :].split())
    for line in re.findall(r"hushcov (show \S+|ask components [^ ,]+)", said):
        assert run(*line.split()).exit_code == 0, line
    assert "hushcov ask components patients-release" in said
    for note in ("List all answers, the usual one last", "If you say no and there is a gap"):
        assert note in output  # without asking for help
    # What was printed is what was run: the same commands do the same elsewhere.
    init, fit = printed_commands(output)
    init[init.index("budget.db")] = "other.db"
    assert run(*init).exit_code == 0
    again = run(*fit, "--ledger", "other.db", "--output", "again", "--dry-run")
    assert again.exit_code == 0, again.output
    assert "charge would fit, and epsilon 0" in " ".join(again.output.split())


def test_no_leaves_the_settings_and_charges_nothing(table, run, refused):
    output = start([*ANSWERS, "no"])
    assert "nothing was charged" in output
    assert {each.name for each in Path().iterdir()} == {
        *("patients.csv", "patients-settings.toml", "patients-codebook.csv")
    }
    line = refused(6, "fit", "--settings", "patients-settings.toml")
    assert "budget.db" in line  # which nobody has opened
    init, _ = printed_commands(output)
    assert run(*init).exit_code == 0
    result = run("fit", "--settings", "patients-settings.toml", "--epsilon", 1.5, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "(1.5, 1e-6)-differential privacy" in " ".join(result.output.split())
    assert "3,000 records of 6 features" in result.output
    # Settings are defaults of the next time.
    output = start([""] * 30, "--settings", "patients-settings.toml")
    assert printed_commands(output)[-1] == ["fit", "--settings", "patients-settings.toml"]
    assert "[patients-codebook.csv] >" in output
    assert not Path("patients-release").exists()


def test_the_plan_is_that_of_the_fit(table, run):
    output = " ".join(start([*PLAIN, "no"]).split())
    (fit,) = printed_commands(start([*PLAIN, "no"]))
    announced = " ".join(run(*fit, "--dry-run").output.split())
    for label in ("expected error", "will find", "memory"):
        words = re.search(rf"{label} (.*?) (?=will find|memory|will read|into)", announced)
        assert words is not None
        assert words[1] in output


class _Header(io.BytesIO):
    """A file that may be read up to the end of its first line."""

    def read(self, size=-1):
        part = super().read(size)
        assert size == 1, "a record was read"
        assert self.tell() <= len(HEADER), "a record was read"
        return part


@pytest.fixture
def watched(monkeypatch):
    real = builtins.open

    def opened(path, *args, **options):
        if str(path).endswith("patients.csv"):
            with real(path, "rb") as file:
                return _Header(file.read())
        return real(path, *args, **options)

    def looked(*_, **__):
        raise AssertionError("a record was read")

    monkeypatch.setattr(builtins, "open", opened)
    monkeypatch.setattr(io, "open", opened)
    for name in ("_dataset", "find_layout", "read_blocks", "read_batches"):
        monkeypatch.setattr(formats, name, looked)


@pytest.mark.parametrize("answers", [ANSWERS, PLAIN], ids=["codebook", "plain"])
def test_no_record_is_read_before_yes(table, watched, answers):
    assert "No record was looked at" in start([*answers, "no"])


def _reads_all(path, *_, **__):
    with open(path, "rb") as file:
        return file.read().splitlines()[0].decode().split(",")


def _reads_types(path, *_, **__):
    formats.schema_of(formats.whole_file(path, "csv", files.TextOptions()))
    return HEADER.strip().split(",")


@pytest.mark.parametrize("looks", [_reads_all, _reads_types])
def test_a_version_that_looks_is_found(table, watched, monkeypatch, looks):
    monkeypatch.setattr(files, "first_fields", looks)
    result = CliRunner().invoke(cli, ["start", "patients.csv"], input="\n" * 30)
    assert isinstance(result.exception, AssertionError)


def test_what_is_said_does_not_depend_on_the_records(table):
    said = start([*ANSWERS, "no"])
    written = Path("patients-settings.toml").read_bytes()
    Path("patients-settings.toml").unlink()
    Path("patients-codebook.csv").unlink()
    Path("patients.csv").write_bytes(HEADER.encode() + bytes(range(256)) * 50)
    assert start([*ANSWERS, "no"]) == said
    assert Path("patients-settings.toml").read_bytes() == written


@pytest.mark.parametrize("whose", [["yes", "1", "3"], ["yes", "", "find", "2"], ["no", "no"]])
def test_a_number_of_rows_that_is_not_public_is_not_looked_up(table, run, monkeypatch, whose):
    table.to_parquet("patients.parquet")
    monkeypatch.setattr(files, "whole_file", None)
    rest = ["region, smoker, 1", "none", "", "", "2", "", "", "", "", ""]
    rest[0] = rest[0] if whose[0] == "no" else "region, smoker"
    output = start([*whose, "20,000", *rest, "no"], "patients.parquet")
    init, _ = printed_commands(output)
    found = kept()
    assert "records" not in found
    if whose[0] == "yes":
        assert found["unit"] == init[init.index("--unit") + 1] == "patient_id"
        assert ("max-rows-per-unit" in found) == (whose[2] != "find")
        assert f"at most {whose[-1]} are summed" in " ".join(output.split())
        plan = run("plan", "--settings", "patients-settings.toml")
        assert f"at most {whose[-1]} of one unit" in " ".join(plan.output.split())
    else:
        assert found["neighbours"] == init[init.index("--neighbours") + 1] == "add-remove"


def test_tables_without_names_with_semicolons_and_with_tabs(table, run):
    np.save("x.npy", table[["age", "bmi", "pulse"]].to_numpy(float))
    output = start(["", "", "", "", "2", "", "none", "", "no"], "x.npy")
    assert "All 3 columns are used" in output
    assert printed_commands(output) == [["fit", "--settings", "x-settings.toml"]]
    del (found := kept("x"))["plan"]
    assert found == {"data": "x.npy", "output": "x-release", "epsilon": 2, "delta": 1e-6}
    table.to_csv("german.csv", sep=";", index=False)
    output = start(["yes", *PLAIN, "no"], "german.csv")
    assert "separated by semicolons?" in output
    assert kept("german")["delimiter"] == ";"
    table.to_csv("tabs.csv", sep="\t", index=False)
    start(["yes", *PLAIN, "no"], "tabs.csv")
    start([""] * 30, "--settings", "tabs-settings.toml")
    assert kept("tabs")["delimiter"] == "tab"


def test_how_yes_is_written_is_asked_column_by_column(table, run):
    """The answer for one column is not that for the next, and synthetic rows have its word."""
    rng = np.random.default_rng(1)
    table["diabetic"] = rng.choice(["Y", "N"], N)
    table["raucher"] = rng.choice(["ja", "Nein", "J"], N)
    table["insured"] = rng.choice([0, 1], N)
    table["sex"] = rng.choice(["F", "M"], N)
    table.to_csv("patients.csv", index=False)
    kinds = ["smoker, diabetic, raucher, insured", "", "usual", "ja|j", "nein", "1", "sex"]
    kinds += ["F|Female, M|Male", "F, M", "none", "none", "none"]  # of which the first is unclear
    words = [*WHOSE, *ROWS, "region, 1", "ask", *kinds, "none", "no"]
    output = start([*words, *PROMISE, "none", *FOLDER, "yes"])
    asked = "written in {}? (a word, several as ja|j, or usual)\n  [{}] >"
    plain = output.replace("written in\n", "written in ").replace("or\nusual", "or usual")
    assert "F|Female -> F; M|Male -> M" in " ".join(output.split())
    for name in ("smoker", "diabetic", "raucher", "insured"):
        assert "How is yes " + asked.format(name, "yes") in plain
    assert Path("patients-codebook.csv").read_text().splitlines()[1:] == [
        *("smoker,,,binary,yes|no,,", "diabetic,,,binary,,,"),
        "raucher,,,binary,yes|ja|j -> yes; no|nein -> no,,",
        *("insured,,,binary,1|0,,", "sex,,,category,F|M,,"),
    ]
    release = read_release("patients-release").release
    assert {"smoker", "diabetic", "raucher", "insured", "sex=F", "sex=M"} < {*release.column_names}
    assert release.making.unresolved == ()
    rows = load("patients-release").synthesize(500, random_state=1).table()
    drawn = [{*rows[name]} for name in ("smoker", "diabetic", "insured", "sex")]
    assert drawn == [{"yes", "no"}, {0, 1}, {0, 1}, {"F", "M"}]
    asked_by_word = ("ask", "predict", "patients-release", "Pulse", "--given")
    given = json.loads(run(*asked_by_word, "SMOKER=Yes,insured=n,sex=f", "--json").stdout)["given"]
    assert given == {"smoker": 1, "insured": 0, "sex=F": 1}
    assert "NAME=yes" in run(*asked_by_word, "bmi=yes").output
    # The next time, each column has its own answer as the default.
    again = start([""] * 4 + ["ask"] + [""] * 30, "--settings", "patients-settings.toml")
    plain = again.replace("written in\n", "written in ").replace("or\nusual", "or usual")
    assert "How is yes " + asked.format("raucher", "ja|j") in plain
    assert "How is no " + asked.format("raucher", "nein") in plain
    assert "[F|M] >" in again


def test_what_is_not_known_yet_is_left_to_be_filled_in(table):
    output = start([*WHOSE, *ROWS, "", "template"])
    assert "hushcov start --settings patients-settings.toml" in output
    assert Path("patients-codebook.csv").read_text() == (
        "name,low,high,kind,values,missing_codes,thousands\nage,,,number,,,\n"
        "smoker,,,number,,,\nregion,,,number,,,\nbmi,,,number,,,\npulse,,,number,,,\n"
    )
    assert not Path("budget.db").exists()
    # Nothing that somebody filled in is written over.
    output = start([*WHOSE, *ROWS, "", "ask", "", "region", "later", "", "", ""])
    assert "Fill in the values of column 'region'" in " ".join(output.split())
    assert "category" in Path("patients-codebook-2.csv").read_text()
    assert "category" not in Path("patients-codebook.csv").read_text()


def test_codes_and_commas_of_fields_are_asked_for(table):
    """Otherwise -99 was a number, and 1,234.56 none, until somebody edited the codebook."""
    table["bmi"] = [f"{1000 + each:,.1f}" for each in table["bmi"]]
    table["age"] = table["age"].where(table.index % 9 > 0, -99)
    table.to_csv("patients.csv", index=False)
    kinds = ["", "ask", "smoker", "", "region", "north, south", "", "north", "-99|999", "BMI"]
    output = start([*WHOSE, *ROWS, *kinds, "", "", *PROMISE, "none", *FOLDER, "yes"])
    assert "got 'north' twice" in " ".join(output.split())  # a code that is a value
    assert Path("patients-codebook.csv").read_text().splitlines()[1:] == [
        *("smoker,,,binary,yes|no,-99|999,", "region,,,category,north|south,-99|999,"),
        *("age,,,number,,-99|999,", "bmi,,,number,,-99|999,comma", "pulse,,,number,,-99|999,"),
    ]
    release = read_release("patients-release").release
    assert release.location[0] > 40  # with -99 it is 36
    assert release.location[4] == pytest.approx(1026, abs=5)
    # The next time they are defaults, for each column those that it has.
    path = Path("patients-codebook.csv")
    path.write_text(path.read_text().replace("number,,-99|999,\n", "number,,-99,\n", 1))
    words = ("--settings", "patients-settings.toml")
    again = start(["", "", "", "", "ask", *[""] * 17, "no"], *words)
    assert "[-99|999] >" in again
    assert "[bmi] >" in again
    assert not Path("patients-codebook-2.csv").exists()  # it is as before


def test_every_question_has_help(table):
    asked = start([*ANSWERS, "no"]).count(" > ")
    Path("patients-settings.toml").unlink()
    Path("patients-codebook.csv").unlink()
    explained = start([line for each in [*ANSWERS, "no"] for line in ("?", each)])
    assert explained.count(" > ") == 2 * asked
    assert "Not that" not in explained


def test_the_end_of_the_answers_is_an_end(table):
    for length in (0, 4, len(ANSWERS)):
        output = start(ANSWERS[:length], code=2)
        assert "the answers ended at the question" in output
        assert "nothing was charged" in output
        assert not Path("budget.db").exists()
        Path("patients-codebook.csv").unlink(missing_ok=True)
        Path("patients-settings.toml").unlink(missing_ok=True)


def test_a_hopeless_plan_is_refused_and_can_be_changed(table):
    few = [*WHOSE, "40", *PLAIN[3:]]
    output = start([*few, "no"], code=8)
    assert "this would be refused" in output
    output = start([*few, "yes", *PLAIN, "no"])
    assert "for about 3,000 rows" in output


def test_a_file_without_names(table, run, refused):
    table[["age", "bmi", "pulse"]].to_csv("bare.csv", index=False, header=False, sep=";")
    answers = ["", "", *WHOSE, "count", "", "none", "", "no", "2", "", "none", "", "no"]
    output = start(answers, "bare.csv")
    assert "Is the first line a record" in output
    assert "1 column_1" in output
    assert "for about 3,000 rows" in output
    assert "if it is somebody's record" not in output
    first = Path("bare.csv").read_text().split("\n")[0]
    assert not any(value in output for value in first.split(";")[1:])
    (fit,) = printed_commands(output)
    assert kept("bare")["no-header"] is True
    assert run(*fit, "--dry-run").exit_code == 0
    assert "the first line a record" not in start([""] * 30, "--settings", "bare-settings.toml")
    said = start(["", "no"], "bare.csv", "--settings", "other.toml", code=3)
    assert "must begin with the names of its columns" in said


def test_what_is_typed_is_read():
    typed = ("15000", "15_000", "15,000", "15 000", "15k", "1.5e4")
    assert {an_integer(text) for text in typed} == {15000}
    assert an_integer("1,234,567") == 1234567
    for text in ("0,10", "18 90", "age, salary", "1,23", "k", "1.2345k", "15000,"):
        with pytest.raises(ParameterError, match=f"'{text}' is not a whole number"):
            an_integer(text)
    names = ("age", "lab_1", "lab_2", "7", "x y")
    assert columns_in("none", names) == []
    assert columns_in("lab_*, 1, lab_2", names) == ["lab_1", "lab_2", "age"]  # as they were typed
    assert columns_in("2-3,x y", names) == ["lab_1", "lab_2", "x y"]
    assert columns_in("7", names) == ["7"]  # a name comes before a number
    assert columns_in("1-5", names, ["7"]) == ["7"]
    for text in ("6", "0", "3-2", "agee, lag_1", "*_x"):
        with pytest.raises(ParameterError, match="no column"):
            columns_in(text, names)
    with pytest.raises(ParameterError, match="left out"):
        columns_in("age", names, ["7"])
    likely = ("id", "patient_id", "ID", "id_2", "userId", "Email", "last name")
    dates = ("date", "Visit Date", "date_of_birth", "dob", "admissionDate", "end_timestamp")
    others = ("age", "paid", "humid", "lipid", "monkey", "grid", "update_rate", "dates", "mandate")
    names = (*likely, *dates, *others)
    found = files.Header(("x.csv",), "csv", len(names), names).no_measurements
    assert set(found) == {*likely, *dates}
    assert {found[name] for name in likely} == {files.IDENTIFIER}


def test_what_is_refused_without_questions_leaves_the_settings(table, run):
    start([*PLAIN[:-2], "", "", "", "", "no"])
    assert run("ledger", "init", "budget.db", "--dataset", "patients", *PROMISED).exit_code == 0
    before = Path("patients-settings.toml").read_bytes()
    start([], "--settings", "patients-settings.toml", "--yes")
    assert Path("patients-settings.toml").read_bytes() != before  # the dataset is not new any more
    before = Path("patients-settings.toml").read_bytes()
    start([], "--settings", "patients-settings.toml", "--yes", code=7)
    assert Path("patients-settings.toml").read_bytes() == before


def test_a_known_dataset_of_the_ledger(table, run):
    Ledger("budget.db").open_dataset("patients", 2.5, 1e-6)
    Ledger("budget.db").open_dataset("visits", 2.5, 1e-6, unit="patient")
    answers = [*PLAIN[:-2], "budget.db", "visits", "patients", ""]
    output = start([*answers, "no"])
    assert "epsilon 2.5 left of 2.5" in output
    assert "is for replacing all records of any one patient" in " ".join(output.split())
    assert kept()["dataset"] == "patients"
    Ledger("small.db").open_dataset("patients", 1, 1e-6)
    assert "would be refused" in start([*PLAIN[:-2], "small.db", "", "", "no"], code=7)


def test_without_questions(table, run):
    output = start([], "patients.csv", "--yes", code=2)
    assert "there is no default for the question 'About how many rows" in output
    start([*PLAIN, "no"])
    output = start([], "--settings", "patients-settings.toml", "--yes")
    assert read_release("patients-release").release.column_names == ("bmi", "pulse")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "Missing argument 'DATA'"),
        (("--settings", "nowhere.toml"), "nowhere.toml does not exist"),
        (("nowhere.csv",), "nowhere.csv does not exist"),
        (("notes.txt",), "must be a folder, a pattern, or a file"),
        (("values.csv",), "the answers ended at the question 'Is the first line a record"),
        (("empty.csv",), "must begin with the names of its columns"),
        (("twice.csv",), "once, got more"),
    ],
)
def test_what_cannot_be_started(run, table, words, line):
    Path("values.csv").write_text("1.5,2.5\n1,2\n")
    Path("empty.csv").write_text("")
    Path("twice.csv").write_text("a,b,a\n1,2,3\n")
    result = run("start", *words)
    assert result.exit_code in (2, 3, 6)
    assert line in result.stderr


def test_ctrl_c_in_a_terminal_charges_nothing(table):
    pid, terminal = pty.fork()
    if pid == 0:
        program = [sys.executable, "-m", "hushcov.cli.main"]
        os.execv(program[0], [*program, "start", "patients.csv"])
    said = ""

    def wait_for(words):
        nonlocal said
        while words not in said:
            ready, _, _ = select.select([terminal], [], [], PATIENCE)
            assert ready, said
            try:
                said += os.read(terminal, 4096).decode()
            except OSError:  # it has ended
                assert words in said
                return

    wait_for("[no] > ")
    os.write(terminal, b"?\n")
    wait_for("belong together")
    os.write(terminal, b"\n\n")
    wait_for("or count)")
    while "> " not in said.partition("or count)")[2]:
        assert select.select([terminal], [], [], PATIENCE)[0], said
        said += os.read(terminal, 4096).decode()
    # The interpreter misses a signal between its prompt and its reading: a person presses again.
    for _ in range(int(PATIENCE)):
        os.kill(pid, signal.SIGINT)
        if select.select([terminal], [], [], 1.0)[0]:
            break
    wait_for("hushcov: interrupted. No record was looked at, and nothing was charged.")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert "Traceback" not in said
    assert [each.name for each in Path().iterdir()] == ["patients.csv"]


def _words(text: str) -> str:
    return " ".join(text.replace("|", " ").split())


@pytest.mark.slow
def test_as_a_newcomer_runs_it(program, tmp_path):
    plain = os.environ | {"COLUMNS": "80", "PYTHONIOENCODING": "ascii"}
    answer = program("demo", env=seeded(plain, tmp_path / "seed"))
    assert answer.returncode == 0
    assert re.fullmatch(r"(hushcov: .* done\n)*", answer.stderr)  # on a slow computer
    assert answer.stdout.isascii()
    assert max(map(len, answer.stdout.splitlines())) <= 80
    text = _words(answer.stdout)
    parts = (
        "1. A table demo/patients.csv holds 20,000 simulated patients, one a row, and 12 columns.",
        "$ hushcov fit demo/patients.csv --epsilon 1 --delta 1e-6 -o demo/release",
        "Largest correlations",
        "What to see: 'Largest correlations'",
        "$ hushcov ask regression demo/release weight --on height,age",
        "The true ones are 1 kg for a cm of height",
        "What to see: demo/release/report.html, in a browser, and demo/release/heatmap.png",
        f"$ hushcov paper verify --features 20 --runs 1 {N_CLAIMS} of the {N_CLAIMS} claims",
        "Algorithm 1 is MultiscaleCovariance, exact, and needs 1e9 records or more",
        "made by the default, an adaptive mechanism of our own",
        "'hushcov start DATA'",
    )
    assert [part for part in parts if part not in text] == []
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    # What the sentences say of the release: related pairs near their truth, and the regression.
    for pair, true in (("glucose, hba1c", 0.87), ("ldl, cholesterol", 0.78)):
        assert abs(float(re.search(rf"{pair} ([\d.]+) ", text)[1]) - true) < 0.2
    assert abs(float(re.search(r"height ([\d.]+) ", text.split("standardized")[1])[1]) - 1) < 0.3
    assert (tmp_path / "demo/patients.csv").read_text().startswith("age,height,weight,systolic,")
    assert (tmp_path / "demo/release/report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("-o", "here"), 6, "here already exists: choose another folder with --output"),
        (("-o", "file/below"), 6, "file/below: Not a directory"),
        (("--records", 5), 2, "There is no option --records"),
    ],
)
def test_bad_options(refused, arguments, code, message):
    Path("here").mkdir()
    Path("file").write_text("")
    assert message in refused(code, "demo", *arguments)


# Raw tables with every defect that they have, from `start` to a regression: see the study.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hospital", "households"])
def test_a_walk_from_a_raw_table_to_a_regression(tmp_path, monkeypatch, name):
    """Four times the width of an interval: wrong once in many millions of releases."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(STUDIES))
    study = importlib.import_module("raw_tables")
    made = getattr(study, name)(30_000, 5)
    for what, truth, estimate, low, high in study.walk(made):
        assert abs(estimate - truth) < 4 * (high - low), what
        assert high - low < (0.05 if what.startswith("share") else max(1.0, abs(truth))), what
    rows = pd.read_csv(f"{name}-rows.csv")
    assert [*rows] == [*made.table][1:]  # all but the identifier
    flag, count = ("smoker", "age") if name == "hospital" else ("online", "PERSONS")
    assert {*rows[flag]} == {"yes", "no"}
    assert rows[count].dtype.kind == "i"
