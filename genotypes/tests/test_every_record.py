"""How far any person of few variants moves every noisy number: packed records, and one block."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from coupling import coupled
from fit.settings import seeded
from genotype_settings import KINDS, planned
from hushcov.exceptions import PrivacyConditionError
from hushcov_genotypes import mechanism
from hushcov_genotypes.mechanism import (
    Sums,
    Variants,
    count_weight,
    release_block,
    release_genotypes,
    run_blocks,
    squared_movement,
)
from hushcov_genotypes.reading import open_genotypes
from literal_genotypes import LiteralGenotypes, linked_genotypes
from movements import Played

D = 3
EVERY = np.array(list(itertools.product((0.0, 1.0, 2.0, np.nan), repeat=D)))
OTHERS = np.array([[2.0, 1.0, 0.0], [0.0, np.nan, 1.0], [1.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
CASES = [
    # width, variants of a block, bin of the bound on norms: nearly none kept, some, or all
    (1, 3, 30),
    (1, 1, 52),
    (2, 2, 44),
    (2, 3, 60),
    (2, 1, 128),
]


def played(monkeypatch, case, relation, **options):
    width, block, bound = case
    removed = relation == "add-remove"
    n = len(OTHERS) + 1
    parameters = planned(n, D, width, neighbours=KINDS[relation], block=block, **options)
    frequencies = np.array([0.02, 0.3, 0.5]) if parameters.known else None
    found = Played()
    monkeypatch.setattr(mechanism, "rounded_normal", found.noise)
    monkeypatch.setattr(mechanism, "chosen_bin", lambda *_: bound)
    for name, kind in (("release_counts", "counts"), ("release_bound", "norms")):
        monkeypatch.setattr(mechanism, name, found.named(kind, getattr(mechanism, name)))
    tables = [np.vstack([OTHERS, record]) for record in EVERY]
    tables = [OTHERS, *tables] if removed else tables

    def release(table):
        return run_blocks(open_genotypes(table), parameters, seeded(), frequencies)

    found.play(release, tables)
    assert found.kinds.count("values") == found.kinds.count("norms") == parameters.n_blocks
    mus = {"counts": parameters.count_mu, "norms": parameters.norm_mu}
    mus["values"] = parameters.value_mu
    return {kind: found.square(kind, removed=removed) / mu**2 for kind, mu in mus.items()}


@pytest.mark.parametrize("relation", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_all_blocks_move_by_no_more_than_is_charged(monkeypatch, case, relation):
    known = case[2] == 52
    shares = played(monkeypatch, case, relation, known=known)
    assert all(0 < share <= 1 for share in shares.values())
    assert shares["counts"] > 0.7  # attained, but for the rounding of sigma
    assert shares["norms"] > 0.7


def test_a_budget_that_forgets_that_blocks_add_up_is_found(monkeypatch):
    parameters = type(planned(9, D, 1))
    monkeypatch.setattr(parameters, "share", lambda *_: 1.0)
    assert played(monkeypatch, (1, 1, 128), "replace")["norms"] > 1


def test_a_bound_that_counts_half_of_the_pairs_is_found(monkeypatch):
    """A wrong implementation: longer records are kept than noise is for."""
    kind = type(next(open_genotypes(OTHERS).blocks(D, 1)))
    correct = kind.squared_norms
    monkeypatch.setattr(kind, "squared_norms", lambda *arguments: correct(*arguments) // 4)
    assert any(played(monkeypatch, case, "replace")["values"] > 1 for case in CASES)


# The definition of one block, and what follows from noisy numbers.


def movements(monkeypatch, bin_of_bound, width, frequencies, norms=None):
    """What each record alone adds to the noisy numbers of a block: one row for each record."""
    parameters = planned(1, D, width, known=True)
    variants = Variants.unknown(D, 0.0)
    variants.fill(np.ones(D), 2 * np.array(frequencies))
    monkeypatch.setattr(mechanism, "chosen_bin", lambda *_: bin_of_bound)
    noiseless = []

    def spied(_, sigma, size):
        noiseless.append(sigma)
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(mechanism, "rounded_normal", spied)
    monkeypatch.setattr(mechanism, "_LEAST_KEPT", 0.0)
    bound = math.isqrt(int(parameters.edges(0)[bin_of_bound]))
    found = []
    for record in EVERY:
        block = next(iter(LiteralGenotypes(record[None]).blocks(D, width)))
        if norms is not None:
            block.squared_norms = norms
        sums = Sums.none(parameters)
        release_block(block, 0, variants, sums, parameters, seeded())
        weight = count_weight(bound, parameters.inputs.neighbours)
        found.append([*sums.pairs, *sums.squares, weight * sums.kept[0]])
    return np.array(found), bound


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("frequencies", [(0.5, 0.5, 0.5), (0.01, 0.3, 0.9)])
def test_sums_move_no_further_than_noise_is_for(monkeypatch, width, frequencies):
    largest = 0.0
    for bin_of_bound in (24, 48, 56, 80, 128):
        with monkeypatch.context() as patch:
            found, bound = movements(patch, bin_of_bound, width, frequencies)
        between = ((found[:, None] - found[None]) ** 2).sum(axis=2).max()
        assert between <= squared_movement(bound, KINDS["replace"])
        largest = max(largest, between / squared_movement(bound, KINDS["replace"]))
        # Where a record is removed, its number weighs less.
        found[:, -1] = np.sign(found[:, -1]) * count_weight(bound, KINDS["add-remove"])
        alone = (found**2).sum(axis=1).max()
        assert alone <= squared_movement(bound, KINDS["add-remove"])
    assert largest > 0.25  # the bound is not idle


def test_norms_that_leave_out_the_squares_are_found_out(monkeypatch):
    """A wrong implementation: the records pass, and move sums further than noise is for."""
    found, bound = movements(
        monkeypatch, 32, 1, (0.5,) * D, norms=lambda *_: np.zeros(1, dtype=int)
    )
    between = ((found[:, None] - found[None]) ** 2).sum(axis=2).max()
    assert between > squared_movement(bound, KINDS["replace"])


def test_counts_move_by_two_for_each_variant():
    pairs = []
    for record in EVERY:
        block = next(iter(open_genotypes(record[None]).blocks(D, 0)))
        pairs.append(np.concatenate(block.counts()))
    found = np.array(pairs)
    between = ((found[:, None] - found[None]) ** 2).sum(axis=2).max()
    calls = ((found[:, None, D:] - found[None, :, D:]) ** 2).sum(axis=2).max()
    assert (between, (found**2).sum(axis=1).max(), calls) == (4 * D, 2 * D, D)
    for name, square in (("replace", 4 * D), ("add-remove", 2 * D)):
        parameters = planned(100, D, 1, neighbours=KINDS[name])
        assert square / parameters.count_sigma**2 <= parameters.count_mu**2
        assert square / (parameters.count_sigma - 1) ** 2 > parameters.count_mu**2
        known = planned(100, D, 1, neighbours=KINDS[name], known=True)
        assert D / known.count_sigma**2 <= known.count_mu**2


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_blocks_are_within_the_budget(kind):
    parameters = planned(1000, 103, 7, neighbours=KINDS[kind], block=10)
    assert parameters.n_blocks == 11
    shares = [parameters.share(number) for number in range(parameters.n_blocks)]
    assert 1 - 1e-9 < sum(share**2 for share in shares) < 1
    for number, bound in ((0, 5), (10, 10**6)):
        sigma = parameters.sum_sigma(number, bound)
        moved = squared_movement(bound, KINDS[kind]) / sigma**2
        assert moved <= (parameters.value_mu * shares[number]) ** 2
    mus = parameters.count_mu, parameters.norm_mu, parameters.value_mu
    assert sum(mu**2 for mu in mus) <= parameters.inputs.largest_mu() ** 2


@pytest.mark.parametrize("options", [{}, {"known": True}, {"block": 4}])
def test_a_release_is_a_function_of_noisy_numbers(options):
    parameters = planned(300, 12, 3, epsilon=8.0, **options)
    frequencies = np.full(12, 0.3) if options.get("known") else None
    first = linked_genotypes(300, 12, 1)
    second = linked_genotypes(300, 12, 2, link=0.2, missing=0.3)

    def release(table):
        records = open_genotypes(table)
        return release_genotypes(records, parameters, seeded(), frequencies=frequencies)

    one, other = coupled(release, first, second)
    assert one == other


def test_bounds_on_norms_stay_where_norms_are_exact():
    """For as many pairs as may be named, all in one block: no edge goes beyond integers."""
    d = 2**16
    edges = planned(10**6, d, d - 1, block=d).edges(0)
    assert np.all(np.diff(edges) >= 0)
    assert edges[0] > 0
    assert edges[-1] == 2**62


def test_other_blocks_than_planned_are_refused():
    parameters = planned(50, 12, 3, block=4)

    class Other(LiteralGenotypes):
        def blocks(self, n_variants, reach):
            return super().blocks(n_variants + 1, reach)

    with pytest.raises(PrivacyConditionError, match="blocks must be of 4 variants"):
        release_genotypes(Other(linked_genotypes(50, 12, 1)), parameters, seeded())
