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


def test_fine_mapping_finds_nothing_where_nothing_acts(module):
    uses = module("ld_uses")
    generator = np.random.default_rng(1)
    truth = chain(40, 0.8)
    found = [uses.fine_map(uses.draw_z(truth, np.zeros(40), generator), truth) for _ in range(10)]
    assert sum(len(answer.sets) for answer in found) <= 1


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


def test_ld_made_usable_has_unit_diagonal_and_no_negative_eigenvalue(module):
    noise = np.random.default_rng(3).normal(0, 0.3, (30, 30))
    given = chain(30, 0.5) + noise + noise.T
    given[3, 4] = given[4, 3] = np.nan
    made = module("ld_uses").usable(given)
    assert np.linalg.eigvalsh(made).min() > -1e-9
    np.testing.assert_allclose(np.diag(made), 1.0)


def test_a_score_from_exact_ld_is_better_than_from_none(module):
    uses = module("ld_uses")
    generator = np.random.default_rng(4)
    truth, effects = chain(200, 0.9), generator.normal(0, 3, 200)
    z = uses.draw_z(truth, effects, generator)
    exact, none = (
        uses.score_accuracy(uses.polygenic_weights(z, [block], 9.0, 0.0), effects, truth)
        for block in (truth, np.eye(200))
    )
    assert exact > none + 0.02


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


def test_genotypes_follow_the_population(module, tmp_path):
    pytest.importorskip("msprime", reason="genotypes are simulated by msprime, not installed here")
    genotypes = module("ld_genotypes")
    made = genotypes.simulate(60, n_chromosomes=2, length=1e5, founders=300)
    path = tmp_path / "people.npy"
    made.table(4_000, 5, path)
    table = np.load(path)
    assert table.shape == (4_000, 60)
    assert set(np.unique(table)) == {0, 1, 2}
    assert np.array_equal(table, made.table(4_000, 5))
    frequency = made.founders.mean(axis=0)
    # A mean of 8,000 draws; the false-alarm rate is 1e-6 for all 60 variants together.
    assert np.abs(table.mean(axis=0) / 2 - frequency).max() < 5.8 * np.sqrt(0.25 / 8_000)
    found = genotypes.ld(table)
    expected = np.corrcoef(table.T.astype(np.float64))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    across = found[:30, 30:]  # two chromosomes
    assert np.sqrt(np.mean(across**2)) < 0.05


def test_without_msprime_it_says_how_to_get_it(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "msprime", None)
    with pytest.raises(SystemExit, match="pip install"):
        module("ld_genotypes").simulate(10)
