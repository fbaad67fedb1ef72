"""An accelerator: bit identity with NumPy, the rate of the Gram stage, and a fit of many features.

    python benchmarks/guards/device.py --device cuda --output results/device.json

The rate is set beside that of the bare product of the same blocks in doubles, in one run. Records
are normal and are made on the device.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from hushcov import PrivateSparseCovariance
from hushcov.engines.records import DeviceRecords
from hushcov.exceptions import SeededNoiseWarning
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.queries import PairSigns
from hushcov.kernel.records.base import CentredRecords, CompleteRecords, Records
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums.bounded import bounded_sums_of, fourth_sums_of
from hushcov.kernel.sums.counts import cell_counts, norm_counts_of, signed_octaves
from hushcov.kernel.sums.gram import row_bounded_gram, second_moments
from hushcov.kernel.sums.products import ProductMap
from hushcov.kernel.sums.signs import sign_gram_and_sums
from hushcov.metrics import support_recovery
from hushcov.postprocess import symmetric_sparse
from hushcov.tables.sources import ArrayRecords, open_records

GROUP = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fit-records", type=int, default=200_000)
    parser.add_argument("--fit-features", type=int, default=50_000)
    parser.add_argument("--only", help="one part: identical, fits, rates, default or many")
    parser.add_argument("--output", type=Path, default=Path("results/device.json"))
    arguments = parser.parse_args()
    device = arguments.device
    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    result: dict[str, object] = {"device": name, "torch": torch.__version__}
    parts = {
        "identical": lambda: {"identical": identical(device)},
        "fits": lambda: {"identical fits": identical_fits(device)},
        "rates": lambda: rates(device, arguments.records, arguments.features, arguments.rounds),
        "default": lambda: default_fit(
            device, arguments.records, arguments.features, arguments.rounds
        ),
        "many": lambda: many_features(device, arguments.fit_records, arguments.fit_features),
    }
    for part in [arguments.only] if arguments.only else parts:
        found = parts[part]()
        print(json.dumps(found, indent=1), flush=True)
        result |= found
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


def hostile_rows(n_records: int = 20_001, n_features: int = 300) -> np.ndarray:
    """Heavy tails, scales over decades, a constant feature and one that is often zero."""
    generator = np.random.default_rng(0)
    rows = generator.standard_t(3, size=(n_records, n_features))
    rows *= np.exp(generator.normal(size=n_features))
    rows[:, 3], rows[::7, 4] = 0.0, 0.0
    return rows


def statistics_on(rows: np.ndarray) -> dict[str, Callable[[Records], np.ndarray]]:
    scale, d = np.abs(rows).mean(0), rows.shape[1]
    fine = FeatureGrid(scale, 6.0, 20_000)
    products = ProductMap(
        grid=FeatureGrid(scale, 6.0, 500),
        rows=np.arange(d - 1),
        columns=np.arange(1, d),
        pair_weight=4,
        diagonal_weight=3,
        centre=2000,
        norm_bound=60_000,
        factor_range=1000,
        size_range=1000,
        size_cap=10**8,
    )
    return {
        "bounded rows": lambda records: row_bounded_gram(records, fine, 60_000),
        "bounded coordinates": lambda records: row_bounded_gram(records, fine, None),
        "signs": lambda records: np.triu(sign_gram_and_sums(records)[0]),
        "signed histogram": lambda records: signed_octaves(records, scale, scale / 9, np.arange(d)),
        "cells": lambda records: cell_counts(
            records, np.arange(d), -scale, (scale + 1e-3) / 7, np.full(d, -20), 64
        ),
        "sums": lambda records: records.map_sum(bounded_sums_of(records, fine, 60_000)),
        "products": products.sum,
        "norms": products.norm_histogram,
        "moments": lambda records: second_moments(records, IntegerGrid(4.0, 1000)).gram,
    }


def identical(device: str) -> dict[str, bool]:
    """Whether every statistic has the same bits as NumPy's."""
    rows = hostile_rows()
    tensor = torch.from_numpy(rows).to(device)
    found = {"compact " + name: same for name, same in identical_compact(rows, tensor).items()}
    for name, statistic in statistics_on(rows).items():
        expected = statistic(ArrayRecords(rows))
        others = (open_records(tensor), DeviceRecords(ArrayRecords(rows), device))
        found[name] = all(np.array_equal(statistic(other), expected) for other in others)
    return found


def identical_compact(rows: np.ndarray, tensor: torch.Tensor) -> dict[str, bool]:
    """The same for compact copies, of which some records miss a value, about another centre."""
    gaps, scale = rows.copy(), np.abs(rows).mean(0)
    gaps[::11, 5], there = np.nan, tensor.clone()
    there[::11, 5] = float("nan")
    found, pairs = {}, np.stack([np.arange(299), np.arange(1, 300)])
    grid = FeatureGrid(scale, 64.0, 2**15 - 1)
    views = [
        CentredRecords(CompactRecords(CompleteRecords(each), scale, 50 * scale, scale), scale / 9)
        for each in (ArrayRecords(gaps).with_gaps(), open_records(there).with_gaps())
    ]
    products = functools.partial(ProductMap, FeatureGrid(scale, 8.0, 500), *pairs, 4, 3, 2000)
    edges = tuple(int(4.0**k) for k in range(10, 24))
    for name, statistic in {
        "sums": lambda records: records.map_sum(bounded_sums_of(records, grid, 60_000)),
        "fourth powers": lambda records: records.map_sum(fourth_sums_of(records, grid, 30, 900)),
        "norms": lambda records: records.map_sum(norm_counts_of(records, grid, edges, signs=True)),
        "signs": lambda records: np.triu(sign_gram_and_sums(records)[0]),
        "scores": lambda records: PairSigns(300, tuple(range(-150, 150))).exact(records),
        "products": lambda records: products(60_000, 1000, 1000, 10**8).sum(records),
        "product norms": lambda records: products(1, 1, 1, 1).norm_histogram(records),
        "bounded rows": lambda records: row_bounded_gram(records, grid, 60_000),
    }.items():
        expected, other = (statistic(view) for view in views)
        found[name] = bool(np.array_equal(expected, other))
    return found


def identical_fits(device: str) -> dict[str, bool]:
    """Whether a seeded fit with device=... releases the same integers as one without."""
    rows = hostile_rows()[:, :60]
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        for mechanism in ("auto", "screened", "gaussian-threshold", "multiscale"):
            here, there = (
                PrivateSparseCovariance(
                    epsilon=1.0,
                    delta=1e-6,
                    on_hopeless="warn",
                    on_large_delta="warn",
                    row_sparsity=3,
                    mechanism=mechanism,
                    device=where,
                    random_state=0,
                ).fit(rows)
                for where in (None, device)
            )
            found[mechanism] = bool(here.release_ == there.release_)
    return found


def rates(device: str, n_records: int, n_features: int, rounds: int) -> dict[str, object]:
    """Time of the Gram and sign stages beside the bare product of the same blocks."""
    rows = torch.empty((n_records, n_features), dtype=torch.float64, device=device)
    for block in rows.split(20_000):
        block.normal_()
    records = open_records(rows)
    grid = FeatureGrid(np.ones(n_features), 6.0, 3000)
    bound = int(np.sqrt(n_features) * 500)

    def product() -> None:
        total = torch.zeros((n_features, n_features), dtype=torch.float64, device=device)
        for block in rows.split(records.block_rows):
            total += block.T @ block

    stages = {
        "product": product,
        "bounded rows": lambda: row_bounded_gram(records, grid, bound),
        "bounded coordinates": lambda: row_bounded_gram(records, grid, None),
        "signs": lambda: sign_gram_and_sums(records)[0],
    }
    product()
    times: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(rounds):
        for name, stage in stages.items():
            times[name].append(seconds(device, stage))
    operations = 2.0 * n_records * n_features**2
    best = {name: min(values) for name, values in times.items()}
    return {
        "n_records": n_records,
        "n_features": n_features,
        "seconds": times,
        "tera_operations_a_second": {name: operations / best[name] / 1e12 for name in best},
        "share_of_the_bare_product": {name: best["product"] / best[name] for name in best},
    }


# Stages of a default fit, by the functions that they are.
STAGES = {
    "looks at centres and scales": ("hushcov.fit.location", "find_location"),
    "centres and scales, refined": ("hushcov.fit.preparation", "Preparation._refined"),
    "norms, tails and tilts": ("hushcov.fit.preparation", "Preparation._measured"),
    "signs of all pairs": ("hushcov.kernel.scores", "sign_scores"),
    "noisy look at all pairs": ("hushcov.fit.adaptive.mechanism", "probe_signs"),
    "selection": ("hushcov.kernel.session", "gumbel_top"),
    "what is beside selected pairs": ("hushcov.fit.adaptive.mechanism", "_hidden"),
    "values of selected pairs": ("hushcov.fit.adaptive.pairs", "release_narrowed"),
    "estimate": ("hushcov.estimators.answering", "Answers._keep_estimate"),
}


@contextmanager
def staged(device: str, times: dict[str, float]) -> Iterator[None]:
    """Add the seconds of each stage to `times`."""
    with ExitStack() as changed:
        for name, (module, path) in STAGES.items():
            *owner, leaf = path.split(".")
            holder = functools.reduce(getattr, owner, importlib.import_module(module))

            timed = _timed(device, getattr(holder, leaf), name, times)
            changed.enter_context(mock.patch.object(holder, leaf, timed))
        yield


def _timed(device: str, action: Callable, name: str, times: dict[str, float]) -> Callable:
    @functools.wraps(action)
    def timed(*given: object, **named: object) -> object:
        found: list[object] = []
        taken = seconds(device, lambda: found.append(action(*given, **named)))
        times[name] = times.get(name, 0.0) + taken
        return found[0]

    return timed


def default_fit(device: str, n_records: int, n_features: int, rounds: int) -> dict[str, object]:
    """The default with nothing known, groups of five features: over the bare double product.

    The first fit compiles kernels and is told apart; the ratio is that of the median of others.
    """
    rows = torch.empty((n_records, n_features), dtype=torch.float64, device=device)
    for block in rows.split(20_000):
        shared = torch.randn((len(block), n_features // GROUP), device=device, dtype=block.dtype)
        block.normal_().add_(shared.repeat_interleave(GROUP, dim=1)).mul_(0.5**0.5).add_(3.0)

    def product() -> None:
        total = torch.zeros((n_features, n_features), dtype=torch.float64, device=device)
        for block in rows.split(open_records(rows).block_rows):
            total += block.T @ block

    def fit() -> None:
        PrivateSparseCovariance(epsilon=1.0, delta=1e-8, on_hopeless="warn").fit(rows)

    product()
    bare = statistics_of([seconds(device, product) for _ in range(rounds)])
    first = seconds(device, fit)
    taken = statistics_of([seconds(device, fit) for _ in range(rounds)])
    times: dict[str, float] = {}
    with staged(device, times):
        whole = seconds(device, fit)
    return {
        "default fit over the bare product": taken[1] / bare[1],
        "bare product, seconds: least, median, most": bare,
        "default fit, seconds: least, median, most": taken,
        "the first fit, which compiles": first,
        "stages of another": times | {"all others": whole - sum(times.values()), "all": whole},
    }


def statistics_of(values: list[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


def many_features(device: str, n_records: int, n_features: int) -> dict[str, object]:
    """A whole private fit with sparse output, of groups of five features, held as bytes."""
    rows = torch.empty((n_records, n_features), dtype=torch.int8, device=device)
    for block in rows.split(5_000):
        shared = torch.randn((len(block), n_features // GROUP), device=device)
        values = shared.repeat_interleave(GROUP, dim=1)
        values += torch.randn(block.shape, device=device)
        block.copy_(values.mul_(30 * 0.5**0.5).round_().clamp_(-127, 127))
    estimator = PrivateSparseCovariance(
        epsilon=1.0,
        delta=1e-6,
        on_hopeless="warn",
        on_large_delta="warn",
        row_sparsity=GROUP,
        feature_scale=30.0,
        sparse_output=True,
        assume_centered=True,
    )
    taken = seconds(device, lambda: estimator.fit(rows))
    truth = _groups(n_features)
    found, true = support_recovery(estimator.covariance_, truth)
    return {
        "fit": {
            "n_records": n_records,
            "n_features": n_features,
            "seconds": taken,
            "mechanism": estimator.mechanism_,
            "stored_entries": int(estimator.covariance_.nnz),
            "pairs_found": found,
            "of_those_true": true,
            "largest_entry_error": float(abs(estimator.covariance_ / 900 - truth).max()),
        }
    }


def _groups(n_features: int) -> object:
    members = np.arange(n_features).reshape(-1, GROUP)
    first, second = np.triu_indices(GROUP, 1)
    pairs = members[:, first].ravel(), members[:, second].ravel()
    return symmetric_sparse(pairs, np.full(len(pairs[0]), 0.5), np.ones(n_features))


def seconds(device: str, action: Callable[[], object]) -> float:
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    wait()
    start = time.perf_counter()
    action()
    wait()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
