"""Below the estimators, records with gaps are refused: NaN would be some integer or other."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

from estimators.settings import BUDGET
from hushcov import (
    CoinPressCovariance,
    EigenSamplingCovariance,
    GaussianCovariance,
    PaceCovariance,
    PrivateSparseCovariance,
    RowTopKCovariance,
    ScreenedCovariance,
    SeparateCovariance,
    fit,
)
from hushcov.exceptions import DataError, ParameterError, SeededNoiseWarning
from hushcov.fit.adaptive.pairs import AdaptiveParameters, release_pairs
from hushcov.fit.complete import complete_parameters
from hushcov.fit.location import LocationParameters, find_location
from hushcov.fit.mechanism import Prepared
from hushcov.fit.norms import norm_counts, release_unit_bound
from hushcov.fit.preparation import centre_sums, fourths_of, squares_of
from hushcov.fit.quantiles import bin_edges, level_counts
from hushcov.fit.scales import release_scales, scale_parameters
from hushcov.fit.screened import mechanism
from hushcov.fit.screened.mechanism import release_unit_values, release_values, select_pairs
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import REPLACE, Neighbours
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import entropy_source
from hushcov.kernel.queries import SignSums
from hushcov.kernel.records.base import CompleteRecords
from hushcov.kernel.sums.bounded import bounded_sums, unit_means
from hushcov.kernel.sums.counts import (
    cell_counts,
    edge_counts,
    log2_histogram,
    norm_histogram,
    sign_sums,
    signed_octaves,
)
from hushcov.kernel.sums.gram import record_statistics, row_bounded_gram, second_moments
from hushcov.kernel.sums.signs import (
    candidate_sign_sums,
    sign_gram,
    sign_gram_and_sums,
    sign_scores,
)
from hushcov.kernel.sums.statistics import RecordMap
from hushcov.paper.mechanism import grid_for
from hushcov.tables.sources import open_records
from hushcov.tables.units import units_of
from hushcov_lab.peers.coinpress import transformed_gram
from sessions import certified, session_of

pytestmark = pytest.mark.usefixtures("no_search")

N, D = 4_000, 3
ROWS = np.random.default_rng(0).normal(size=(N, D))
ROWS[7, 1] = np.nan
ONES = np.ones(D)
GRID = FeatureGrid(ONES, 4.0, 15)
PEOPLE = Neighbours(REPLACE, 2, "person", combined=True)
PURE = {"epsilon": 1.0, "row_sparsity": 2, "feature_scale": 1.0, "assume_centered": True}


def planned(cls, **options):
    """What this estimator would run on so many records, from public inputs alone."""
    known = PURE if cls is EigenSamplingCovariance else BUDGET | {"feature_scale": 1.0}
    return cls(**known | options)._fit_plan(N, D).chosen


def parameters(cls, **options):
    return planned(cls, **options).parameters


def runs(cls, **options):
    """The release of this estimator's mechanism, as the estimator calls it."""

    def run(records, entropy):
        plan = planned(cls, **options)
        return plan.release(Prepared(certified(records, plan, entropy), ONES))

    return run


def scales(records, entropy):
    return release_scales(session_of(records), scale_parameters(N, D, 0.5))


def selected(records, entropy):
    chosen = parameters(ScreenedCovariance)
    return select_pairs(certified(records, chosen, entropy), chosen)


def values_of_pairs(records, entropy):
    chosen = parameters(ScreenedCovariance)
    grid = FeatureGrid(ONES, mechanism.RADIUS, chosen.half_width)
    products = mechanism.product_map(grid, np.array([0]), np.array([1]), chosen.norm_bound)
    return release_values(session_of(records), products, 0.1)


def measured(session, query):
    return session.measure(query(session), 0.1)


def measures(query):
    """The measurement of a query that steps make, with what says which."""
    return lambda records, _: measured(session_of(records), query)


def of_people(records):
    return units_of(np.arange(N) // 2, N).bounded(records, 2)


def unit_values(records, entropy):
    pair = np.array([0]), np.array([1])
    session = session_of(of_people(records), neighbours=PEOPLE)
    return release_unit_values(session, GRID, pair, (1.0, 1.0))


def unit_bound(records, entropy):
    inputs = ReleaseInputs(N, D, 1, 1.0, 1e-6, neighbours=PEOPLE)
    session = session_of(of_people(records), neighbours=PEOPLE)
    return release_unit_bound(session, GRID, inputs, 1.0, 0.1)


def pairs_of_a_ladder(records, entropy):
    chosen = parameters(PrivateSparseCovariance)
    places = np.array([0]), np.array([1])
    session = certified(records, chosen, entropy)
    return release_pairs(session, ONES, AdaptiveParameters(chosen.inputs), places, 1.0, 1.0)


def step_of_coinpress(records, _):
    return transformed_gram(records, ONES, parameters(CoinPressCovariance))(np.eye(D))


def moments(records, _):
    run = planned(PrivateSparseCovariance, mechanism="multiscale")
    return second_moments(records, grid_for(run.parameters))


LISTED = np.array([0]), np.array([1])
EDGES = bin_edges(0 * ONES, ONES)
FUNCTIONS = {
    "release_gaussian": runs(GaussianCovariance),
    "release_screened": runs(ScreenedCovariance),
    "release_adaptive": runs(PrivateSparseCovariance),
    "release_candidates": runs(PrivateSparseCovariance, bandwidth=1),
    "release_values": values_of_pairs,
    "release_pairs": pairs_of_a_ladder,
    "release_narrowed": pairs_of_a_ladder,
    "release_coinpress": runs(CoinPressCovariance),
    "release_separate": runs(SeparateCovariance),
    "release_row_top_k": runs(RowTopKCovariance),
    "release_pace": runs(PaceCovariance),
    "release_eigen_sampling": runs(EigenSamplingCovariance),
    "multiscale": runs(PrivateSparseCovariance, mechanism="multiscale"),
    "release_scales": scales,
    "select_pairs": selected,
    "transformed_gram": step_of_coinpress,
    "second_moments": moments,
    "record_statistics": lambda records, _: record_statistics(records, RecordMap(D, GRID)),
    "row_bounded_gram": lambda records, _: row_bounded_gram(records, GRID, 20),
    "candidate_sign_sums": lambda records, _: candidate_sign_sums(records, *LISTED),
    "sign_gram": lambda records, _: sign_gram(records),
    "sign_gram_and_sums": lambda records, _: sign_gram_and_sums(records),
    "sign_scores": lambda records, _: sign_scores(records, lambda products, *_: products, N),
    "log2_histogram": lambda records, _: log2_histogram(records),
    "signed_octaves": lambda records, _: signed_octaves(records, ONES, 0 * ONES, np.arange(D)),
    "edge_counts": lambda records, _: edge_counts(records, np.arange(D), EDGES),
    "level_counts": measures(lambda _: level_counts(np.arange(D), EDGES)),
    "cell_counts": lambda records, _: cell_counts(records, np.arange(D), ONES, ONES, 0 * ONES, 3),
    "bounded_sums": lambda records, _: bounded_sums(records, GRID, 20),
    "norm_histogram": lambda records, _: norm_histogram(records, GRID, (1,)),
    "sign_sums": lambda records, _: sign_sums(records),
    "find_location": lambda records, _: find_location(
        session_of(records), LocationParameters(N, D, 0.2)
    ),
    "centre_sums": measures(lambda session: centre_sums(session, ONES, 0.1)),
    "centre_sums of units": lambda records, _: measured(
        session_of(of_people(records), neighbours=PEOPLE),
        lambda session: centre_sums(session, ONES, 0.1),
    ),
    "release_unit_values": unit_values,
    "release_unit_bound": unit_bound,
    "unit_means": lambda records, _: unit_means(of_people(records), GRID, 20, 5, 2),
    "norm_counts": measures(lambda _: norm_counts(ONES)),
    "squares_of": measures(lambda session: squares_of(session, ONES, 0.1)),
    "fourths_of": measures(lambda session: fourths_of(session, ONES, 1.0, 0.1)),
    "sign sums": measures(lambda _: SignSums(D)),
}


@pytest.fixture
def entropy():
    with pytest.warns(SeededNoiseWarning):
        return entropy_source(0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gaps_are_refused_and_complete_records_are_not(name, entropy):
    records = open_records(ROWS).with_gaps()
    with pytest.raises(DataError, match="must be complete"):
        FUNCTIONS[name](records, entropy)
    FUNCTIONS[name](CompleteRecords(records), entropy)


def test_every_function_of_the_mechanisms_that_takes_records_is_among_them():
    found = set()
    for module in pkgutil.walk_packages(fit.__path__, "hushcov.fit."):
        for name, function in inspect.getmembers(
            importlib.import_module(module.name), inspect.isfunction
        ):
            first = next(iter(inspect.signature(function).parameters.values()), None)
            taken = first is not None and first.annotation in ("Records", "Session")
            if taken and name[0] != "_":
                found.add(name)
    assert "release_gaussian" in found
    measure_the_above = {"release_centre", "release_squares", "release_tails", "release_signs"}
    others = {"probe_signs", "release_gaussian_sums", "release_most_rows", "unwrap"}
    assert found - measure_the_above - others <= set(FUNCTIONS)


def test_a_count_needs_a_delta():
    """Its noise is normal: no pure guarantee covers it, and nulls are an error."""
    sparse = PrivateSparseCovariance(**PURE, delta=1e-6, mechanism="eigen-sampling")
    for estimator in (EigenSamplingCovariance(**PURE), sparse):
        assert not estimator._fit_plan(N, D).stages
        with pytest.raises(DataError, match="some are NaN"):
            estimator.fit(open_records(ROWS).with_gaps())
    with pytest.raises(ParameterError):
        complete_parameters(EigenSamplingCovariance(**PURE)._public_inputs(N, D))
