"""How far any person of few variants moves every query of genotypes, and a release of several.

Every class of `hushcov_genotypes.queries` is attacked, on the views that a release takes.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from coupling import coupled
from fit.settings import seeded
from genotype_settings import KINDS, planned, released
from hushcov.exceptions import PrivacyConditionError
from hushcov.kernel.queries import Query
from hushcov_genotypes import queries
from hushcov_genotypes.mechanism import Variants, kept_products
from hushcov_genotypes.queries import BlockNormCounts, CallCounts, KeptProducts, ScaledBlock
from hushcov_genotypes.reading import open_genotypes
from literal_genotypes import LiteralGenotypes, linked_genotypes

D = 3
EVERY = np.array(list(itertools.product((0.0, 1.0, 2.0, np.nan), repeat=D)))
OTHERS = np.array([[2.0, 1.0, 0.0], [0.0, np.nan, 1.0], [1.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
QUERIES = [
    kind
    for kind in vars(queries).values()
    if isinstance(kind, type) and issubclass(kind, Query) and kind.__module__ == queries.__name__
]
# Windows, variants of a block, and public frequencies.
EVEN, UNEVEN = (0.5, 0.5, 0.5), (0.01, 0.3, 0.9)
CASES = [(1, 3, EVEN), (2, 2, EVEN), (2, 3, UNEVEN), (1, 1, UNEVEN)]


def asked(kind, neighbours, parameters, number):
    """Queries of a class: of rare genotypes nearly no records are kept, or some, or all."""
    start, _, end = parameters.span(number)
    edges = parameters.edges(number)
    if kind is CallCounts:
        choices = itertools.product(range(end - start), (True, False))
        return [kind(first, end - start - first, alleles) for first, alleles in choices]
    if kind is BlockNormCounts:
        return [kind(edges), kind(edges[60:61])]
    bounds = [int(edge**0.5) for edge in edges[[24, 30, 44, 48, 52, 56, 60, 80, 128]]]
    heavy = [kind(bound, 2 * bound) for bound in bounds[::4]]
    return [*heavy, *(kept_products(bound, neighbours) for bound in bounds)]


def seen(table, parameters, scaled):
    """What queries read of each block of a table, by the views of a release."""
    blocks = queries.streamed(open_genotypes(table), parameters.block, parameters.candidates.reach)
    for number in range(parameters.n_blocks):
        start, stop, end = span = parameters.span(number)
        block = queries.next_block(blocks, span)
        if scaled is not None:
            integers = scaled.slopes[start:end], scaled.offsets[start:end]
            block = ScaledBlock(block, *integers, parameters.ends[start:stop])
        yield block


def reached(kind, neighbours):
    """The largest share of the distance that a query states which some neighbours have."""
    tables = [OTHERS, *(np.vstack([OTHERS, record]) for record in EVERY)]
    shares = []
    for width, block, frequencies in CASES:
        parameters = planned(100, D, width, neighbours=neighbours, known=True, block=block)
        scaled = None if issubclass(kind, CallCounts) else Variants.unknown(D, 0.0)
        if scaled is not None:
            scaled.fill(np.ones(D), 2 * np.array(frequencies))
        every = zip(*(seen(table, parameters, scaled) for table in tables), strict=True)
        for number, blocks in enumerate(every):
            for query in asked(kind, neighbours, parameters, number):
                found = np.array([query.exact(each) for each in blocks])
                others = found[1:] if neighbours.public_size else found[:1]
                most = ((found[1:, None] - others[None]) ** 2).sum(axis=2).max()
                shares.append(most / query.squared_distance(neighbours))
    return max(shares) ** 0.5


@pytest.mark.parametrize("relation", KINDS)
@pytest.mark.parametrize("kind", QUERIES, ids=lambda kind: kind.__name__)
def test_nobody_moves_a_query_further_than_it_says_and_somebody_half_as_far(kind, relation):
    assert 0.5 <= reached(kind, KINDS[relation]) <= 1


@pytest.mark.parametrize("relation", KINDS)
@pytest.mark.parametrize("kind", QUERIES, ids=lambda kind: kind.__name__)
def test_half_of_the_distance_is_found_out(monkeypatch, kind, relation):
    right = kind.squared_distance
    monkeypatch.setattr(kind, "squared_distance", lambda *given: right(*given) / 4)
    assert reached(kind, KINDS[relation]) > 1


@pytest.mark.parametrize("planted", [0, 0.25])
def test_norms_that_leave_out_some_of_the_products_are_found_out(monkeypatch, planted):
    """A wrong implementation: longer records are kept than noise is for."""
    right = ScaledBlock.squared_norms.func
    monkeypatch.setattr(ScaledBlock, "squared_norms", property(lambda own: planted * right(own)))
    assert reached(KeptProducts, KINDS["replace"]) > 1


def test_a_release_that_forgets_that_blocks_add_up_is_refused(monkeypatch):
    parameters = planned(300, 12, 3, epsilon=8.0, block=4)
    table = linked_genotypes(300, 12, 1)
    monkeypatch.setattr(type(parameters), "share", lambda *_: 0.9)
    with pytest.raises(PrivacyConditionError, match="as much noise as it is charged for"):
        released(table, parameters, seeded())


def test_counts_have_as_much_noise_as_all_variants_need():
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
        moved = kept_products(bound, KINDS[kind]).squared_distance(KINDS[kind]) / sigma**2
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
        return released(table, parameters, seeded(), frequencies=frequencies)

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

    with pytest.raises(PrivacyConditionError, match="the next block must be of variants 0 to 4"):
        released(Other(linked_genotypes(50, 12, 1)), parameters, seeded())
