"""Other distributions: found by entry points, loaded late, and named where they are missing."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from click.testing import CliRunner

import hushcov
from command_line import PATIENCE
from hushcov import _plugins
from hushcov.cli.main import cli, commands
from hushcov.exceptions import MissingPackageError
from hushcov.fit import mechanisms

# A process in which no other distribution is installed runs each of some command lines.
CORE_ALONE = """
import importlib.metadata, json, sys
importlib.metadata.entry_points = lambda **_: ()
sys.modules.update(dict.fromkeys(("hushcov_lab", "hushcov_genotypes")))
from click.testing import CliRunner
from hushcov.cli.main import cli
found = []
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(cli, words, prog_name="hushcov")
    found.append((done.exit_code, done.output))
print(json.dumps(found))
"""
BUDGET = {"epsilon": 2.0, "delta": 1e-6}
ASKED = ["--epsilon", "2", "--delta", "1e-6"]


def run_core_alone(*lines, folder):
    done = subprocess.run(
        [sys.executable, "-c", CORE_ALONE, json.dumps(lines)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture
def core_alone(monkeypatch):
    """This process, with no other distribution to be found."""
    monkeypatch.setattr(_plugins, "entry_points", lambda **_: ())
    _plugins.installed_plugins.cache_clear()
    yield
    monkeypatch.undo()
    _plugins.installed_plugins.cache_clear()


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
def test_releases_of_other_distributions_are_read_without_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows, calls = rng.normal(size=(3000, 4)), rng.integers(0, 3, (3000, 6), dtype=np.int8)
    usual = BUDGET | {"random_state": 0, "on_hopeless": "warn"}
    hushcov.RowTopKCovariance(row_sparsity=2, **usual).fit(rows).save("peer")
    hushcov.CoinPressCovariance(**usual).fit(rows).save("dense")
    usual.pop("on_hopeless")
    hushcov.GenotypeCovariance(bandwidth=2, **usual).fit(calls).save("genotypes")
    lines = [["show", name] for name in ("peer", "dense", "genotypes")]
    lines += [["ask", "regression", name, "x0", "--on", "x1"] for name in ("peer", "genotypes")]
    found = run_core_alone(*lines, folder=tmp_path)
    here = [CliRunner().invoke(cli, words, prog_name="hushcov") for words in lines]
    assert found == [[done.exit_code, done.output] for done in here]
    assert {code for code, _ in found} == {0}


def test_a_command_line_names_what_is_missing(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((9, 2)))
    lab, genotypes = "pip install hushcov-lab", "pip install hushcov-genotypes"
    lines = {
        ("audit", "--list"): lab,
        ("bench", "all"): lab,
        ("fit", "rows.npy", *ASKED, "--mechanism", "pace"): lab,
        ("fit", "rows.npy", *ASKED, "--mechanism", "genotypes"): genotypes,
        ("fit", "cohort.bed", *ASKED): genotypes,
        ("plan", "--mechanism", "genotypes", "--features", "9", *ASKED): genotypes,
    }
    found = run_core_alone(*lines, ["--help"], folder=tmp_path)
    *refused, (_, said) = found
    for (code, output), cure in zip(refused, lines.values(), strict=True):
        assert code == 6
        assert cure in " ".join(output.split())
    assert "figures. Needs hushcov-lab." in " ".join(said.split())


def test_python_names_what_is_missing(core_alone):
    for name in ("RowTopKCovariance", "GenotypeCovariance"):
        package = "hushcov-lab" if name.startswith("Row") else "hushcov-genotypes"
        with pytest.raises(MissingPackageError, match=f"{name} needs.*pip install {package}, or"):
            getattr(hushcov, name)
        assert name not in dir(hushcov)
    estimator = hushcov.PrivateSparseCovariance(**BUDGET, mechanism="coinpress")
    with pytest.raises(
        MissingPackageError, match=r"'coinpress' needs.*pip install hushcov-lab, or"
    ):
        estimator.fit(np.zeros((9, 2)))
    with pytest.raises(
        MissingPackageError, match=r"pip install hushcov-lab, or.* 'make install' again$"
    ):
        mechanisms()["coinpress"]
    assert "coinpress" not in mechanisms()
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        hushcov.Nothing  # noqa: B018


def test_anybody_can_add_a_mechanism_a_command_and_an_estimator(core_alone, monkeypatch):
    added = {
        "hushcov.mechanisms": ("mine", "hushcov.fit.gaussian.plan:GAUSSIAN"),
        "hushcov.commands": ("weigh", "hushcov.cli.show:command"),
        "hushcov.estimators": ("MineCovariance", "hushcov.estimators:GaussianCovariance"),
    }

    def entry_points(group):
        return [EntryPoint(*added[group], group)] if group in added else []

    monkeypatch.setattr(_plugins, "entry_points", entry_points)
    _plugins.installed_plugins.cache_clear()
    assert list(mechanisms())[-1] == "mine"
    assert mechanisms()["mine"] is mechanisms()["gaussian"]
    assert hushcov.MineCovariance is hushcov.GaussianCovariance
    assert commands()["weigh"].startswith("Provided by ")
    assert "Usage: hushcov weigh" in CliRunner().invoke(cli, ["weigh", "--help"]).output


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["plan", "--help"]])
def test_help_loads_no_other_distribution(words):
    """But for the options that genotypes add."""
    code = (
        "import sys; from click.testing import CliRunner; from hushcov.cli.main import cli\n"
        "assert CliRunner().invoke(cli, sys.argv[1:]).exit_code == 0\n"
        "print(*(name for name in sys.modules if name.startswith('hushcov_')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert set(done.stdout.split()) <= {"hushcov_genotypes", "hushcov_genotypes.slice"}
