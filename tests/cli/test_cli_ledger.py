"""`hushcov ledger`: promise, charge, show, and exit codes that scripts can rely on."""

import json

import pytest

from hushcov.kernel.accounting import Approximate, BoundedRange, Gaussian
from hushcov.ledger import Ledger

PEOPLE = ("--dataset", "people")
BUDGET = (*PEOPLE, "--epsilon", 1, "--delta", 1e-6)


@pytest.fixture
def ledger(run, tmp_path):
    result = run("ledger", "init", "budget.db", *BUDGET)
    assert result.exit_code == 0, result.stderr
    return Ledger(tmp_path / "budget.db")


def _words(result):
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return " ".join(result.stdout.split())


def test_init_charge_show_and_change(run, ledger):
    assert ledger.statement("people").budget.epsilon == 1.0
    text = _words(run("ledger", "init", "budget.db", *BUDGET))  # the same again is no new promise
    assert "promised epsilon 1, delta 1e-6, on 20" in text
    assert "spent nothing" in text
    assert "a release of epsilon 1 at" in text
    assert len(ledger.statement("people").promises) == 1
    charge = ("ledger", "charge", "budget.db", *PEOPLE, "--label", "ages [by year]")
    assert "Charged as release 1 of people." in _words(run(*charge, "--epsilon", 0.25))
    assert "together: epsilon 0.5," in _words(run(*charge, "--epsilon", 0.25, "--delta", 1e-7))
    assert ledger.history("people")[1].charge.events == (Approximate(0.25, 1e-7),)
    text = _words(run("ledger", "show", "budget.db"))
    assert "by 2 releases together" in text
    assert text.count("ages [by year]") == 2
    assert "epsilon 0.25, delta 1e-7" in text
    text = _words(run("ledger", "change", "budget.db", *PEOPLE, "--epsilon", 2, "--delta", 1e-6))
    assert "promised before epsilon 1," in text
    assert "promised epsilon 2," in text


def test_json_is_the_ledger(run, ledger):
    ledger.open_dataset("others", 2.0, 0.0)
    ledger.charge("people", [Gaussian(0.1), BoundedRange(0.01, 20)], label="screened")
    found = json.loads(run("ledger", "show", "budget.db", "--json").stdout)["datasets"]
    assert [each["dataset"] for each in found] == ["people", "others"]
    (charge,) = found[0]["charges"]
    assert charge == json.loads(json.dumps(ledger.history("people")[0].to_dict()))
    assert charge["events"][1] == {"type": "BoundedRange", "eta": 0.01, "count": 20}
    assert found[0]["spent"]["epsilon"] == ledger.spent("people").epsilon
    assert found[0]["remaining"]["epsilon"] == ledger.remaining("people").epsilon
    assert found[1]["charges"] == []
    only = json.loads(run("ledger", "show", "budget.db", *PEOPLE, "--json").stdout)["datasets"]
    assert only == found[:1]
    ledger.change_budget("people", 3.0, 1e-6)
    options = ("--epsilon", 0.1, "--label", "x", "--json")
    found = json.loads(run("ledger", "charge", "budget.db", *PEOPLE, *options).stdout)
    assert found == json.loads(json.dumps(ledger.history("people")[1].to_dict()))


def test_whom_a_budget_protects(run, tmp_path):
    whom = ("--unit", "patient", "--neighbours", "add-remove")
    text = _words(run("ledger", "init", "visits.db", *BUDGET, *whom))
    assert "for adding or removing all records of any one patient" in text
    (found,) = json.loads(run("ledger", "show", "visits.db", "--json").stdout)["datasets"]
    assert (found["neighbours"], found["unit"]) == ("add-remove", "patient")
    assert run("ledger", "init", "visits.db", *BUDGET).exit_code != 0  # another promise
    assert run("ledger", "init", "other.db", *BUDGET, "--unit", "").exit_code != 0
    assert not (tmp_path / "other.db").exists()


def test_over_budget_is_7(refused, ledger):
    line = refused(7, "ledger", "charge", "budget.db", *PEOPLE, "--epsilon", 1.1, "--label", "x")
    assert "dataset 'people' has" in line
    assert "a release of epsilon 1 and delta 0" in line
    assert "It was not charged, so it may not be made." in line
    assert "'hushcov ledger change FILE --dataset people --epsilon TOTAL --delta 1e-6'" in line
    assert ledger.history("people") == ()
    ledger.charge("people", Gaussian(0.1), label="x")
    line = refused(7, "ledger", "change", "budget.db", *PEOPLE, "--epsilon", 0.1, "--delta", 1e-6)
    assert "already, got 0.1" in line


def test_bad_options_are_2_and_bad_files_6(refused, ledger):
    charge = ("ledger", "charge", "budget.db", "--label", "x", "--epsilon")
    line = refused(2, *charge, 0.1, "--dataset", "persons")
    assert line.startswith("--dataset must be one of this ledger's ('people'), got 'persons'")
    assert refused(2, *charge, -1, *PEOPLE).startswith("--epsilon must be above 0")
    assert refused(2, *charge, 1, *PEOPLE, "--delta", 0.5).startswith("--delta must be above 0")
    assert refused(2, *charge[:3], *PEOPLE, "--label", " ", "--epsilon", 1).startswith("--label")
    assert "Missing option '--label'" in refused(2, *charge[:3], *PEOPLE, "--epsilon", 1)
    other = (*PEOPLE, "--epsilon", 2, "--delta", 1e-6)
    assert "must stay epsilon 1.0" in refused(2, "ledger", "init", "budget.db", *other)
    assert "command 'burn'" in refused(2, "ledger", "burn")
    assert "not there" in refused(6, "ledger", "show", "nothing.db")
    assert "got the folder" in refused(6, "ledger", "show", ".")
    ledger.path.write_bytes(ledger.path.read_bytes()[:-1])
    for command in (("show", "budget.db"), ("init", "budget.db", *BUDGET)):
        assert "is damaged" in refused(6, "ledger", *command)
