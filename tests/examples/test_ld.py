"""The example of private LD runs, and what it does with LD matrices is right."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODULES = ("ld", "ld_figure", "ld_genotypes", "ld_uses")


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def chain(d: int, step: float) -> np.ndarray:
    """Correlations that fall by a factor from one variant to the next."""
    place = np.arange(d)
    return step ** np.abs(place[:, None] - place)


def test_fine_mapping_finds_two_effects_among_their_neighbours(module):
    uses = module("ld_uses")
    truth, effects = chain(40, 0.9), np.zeros(40)
    effects[[7, 25]] = 12.0, -9.0
    z = uses.draw_z(truth, effects, np.random.default_rng(0))
    answer = uses.fine_map(z, truth)
    assert len(answer.sets) == 2
    assert {7, 25} <= {int(each) for held in answer.sets for each in held}
    assert all(len(held) <= 8 for held in answer.sets)
    assert answer.inclusion[[7, 25]].min() > 0.2
    assert np.delete(answer.inclusion, np.r_[4:11, 20:31]).max() < 0.1


def test_noise_of_ld_that_is_known_makes_no_false_sets(module):
    """Without it counted, the same matrix gives many."""
    uses = module("ld_uses")
    generator = np.random.default_rng(2)
    truth, false = chain(40, 0.8), {0.0: 0, 0.2: 0}
    for _ in range(12):
        noise = np.triu(generator.normal(0, 0.2, (40, 40)), 1)
        block = uses.usable(truth + noise + noise.T)
        effects = np.zeros(40)
        effects[20] = 15.0
        z = uses.draw_z(truth, effects, generator)
        for counted in false:
            false[counted] += sum(20 not in held for held in uses.fine_map(z, block, counted).sets)
    assert false[0.2] <= 2
    assert false[0.0] >= 10


def test_the_example_runs_at_a_small_size(module, monkeypatch, tmp_path, capsys):
    pytest.importorskip("msprime", reason="genotypes are simulated by msprime, not installed here")
    genotypes, example = module("ld_genotypes"), module("ld")
    monkeypatch.setattr(example, "NEW_PEOPLE", 500)
    monkeypatch.setattr(
        example,
        "simulate",
        lambda n, rarest: genotypes.simulate(n, rarest=rarest, length=2e5, founders=200),
    )
    output = tmp_path / "found.json"
    wanted = ["--people", "3000", "--epsilon", "10", "--variants", "100", "--missing", "0.02"]
    example.main([*wanted, "--output", str(output), "--figures", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "3,000 people" in printed
    rows = {row["ld"]: row for row in json.loads(output.read_text())}
    assert rows["exact LD, not private"]["error"] == pytest.approx(0, abs=1e-6)
    assert 0 < rows["private"]["error"] < 0.5 < rows["no LD"]["error"]
    for name in ("ld-windows.png", "ld-uses.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_without_msprime_it_says_how_to_get_it(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "msprime", None)
    with pytest.raises(SystemExit, match="pip install"):
        module("ld_genotypes").simulate(10)
