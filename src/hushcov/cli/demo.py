"""`hushcov demo`: a private release of simulated records, told as a story."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import click
import numpy as np

from hushcov._validation import check_integer
from hushcov.cli.folders import reserved
from hushcov.cli.options import INTEGER, Command
from hushcov.cli.output import console
from hushcov.cli.progress import busy
from hushcov.cli.story import (
    Simulated,
    against_truth,
    tell_data,
    tell_entries,
    tell_files,
    tell_plan,
    tell_release,
)
from hushcov.cli.theorem_story import tell_theorem
from hushcov.estimators import PrivateSparseCovariance
from hushcov.simulate import MODELS, gaussian_records, sparse_covariance

EPSILON, DELTA = 1.0, 1e-6
_RIVALS = ("gaussian-threshold", "gaussian")


@click.command(cls=Command, name="demo")
@click.option(
    "--features",
    "n_features",
    type=INTEGER,
    default=200,
    show_default=True,
    metavar="D",
    help="Number of features.",
)
@click.option(
    "--row-sparsity",
    type=INTEGER,
    default=5,
    show_default=True,
    metavar="K",
    help="Most nonzero entries in a row of the true covariance.",
)
@click.option(
    "--records",
    "n_records",
    type=INTEGER,
    default=100_000,
    show_default=True,
    metavar="N",
    help="Number of simulated records.",
)
@click.option(
    "--model",
    type=click.Choice(tuple(MODELS)),
    default="random",
    show_default=True,
    help="Pattern of the true covariance.",
)
@click.option(
    "--seed", type=INTEGER, metavar="S", help="Makes the run reproducible.  [default: fresh]"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    metavar="FOLDER",
    help="Where the heat map and the release are written.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON, the story on standard error."
)
def command(
    n_features: int,
    row_sparsity: int,
    n_records: int,
    model: str,
    seed: int | None,
    output: Path,
    as_json: bool,
) -> None:
    """See a private release of simulated records, in a few seconds.

    Draws records from a known sparse covariance, with means and scales that nobody is told, plans
    and fits them as 'hushcov plan' and 'hushcov fit' would, and compares the release with the
    truth and with simpler mechanisms. Then, in short, the paper's theorem at its own constants.

    \b
    Examples:
      hushcov demo
      hushcov demo --features 1000 --records 300000 --model block -o large-demo
    """
    seeds = _seeds(seed)
    estimator = PrivateSparseCovariance(
        epsilon=EPSILON,
        delta=DELTA,
        row_sparsity=row_sparsity,
        store_precision=False,
        random_state=seeds[0],
        on_hopeless="warn",  # the story says what to expect, and nobody is to be protected
        on_large_delta="warn",
    )
    cure = "differences of pairs need two records."
    check_integer("n_records", n_records, at_least=2, cure=cure)
    estimator.public_inputs(n_records // 2, n_features)  # refuses what is out of range
    out = console(stderr=as_json)
    with reserved(output, replace_simulated=True):
        with busy("drawing records"):
            data = _simulate(model, n_features, row_sparsity, n_records, seeds[1])
        tell_data(out, data, row_sparsity)
        tell_plan(out, estimator, data)
        started = time.perf_counter()
        _fit(estimator, data)
        seconds = time.perf_counter() - started
        names = [name for name in _RIVALS if name != estimator.mechanism_]
        rivals = [
            _fit(PrivateSparseCovariance(**estimator.get_params() | {"mechanism": name}), data)
            for name in names
        ]
        tell_release(out, data, [estimator, *rivals], seconds)
        tell_entries(out, data, estimator)
        theorem_error = tell_theorem(out, EPSILON, DELTA, seeds[2:])
        tell_files(out, output, data, estimator)
    if as_json:
        result = {
            "model": model,
            "n_records": n_records,
            "n_features": n_features,
            "row_sparsity": row_sparsity,
            "output": str(output),
            "releases": [against_truth(data, each) for each in (estimator, *rivals)],
            "theorem_error": theorem_error,
        }
        click.echo(json.dumps(result, indent=1, allow_nan=False))


def _seeds(seed: int | None) -> list[int]:
    """Independent seeds. Noise is seeded in any case: simulated records need no protection."""
    if seed is not None:
        check_integer("seed", seed, at_least=0, cure="leave it out for a fresh run.")
    return [int(state) for state in np.random.SeedSequence(seed).generate_state(5)]


def _simulate(
    model: str, n_features: int, row_sparsity: int, n_records: int, seed: int
) -> Simulated:
    """Records whose features have scales from 0.1 to 100 and means far from zero."""
    generator = np.random.default_rng(seed)
    shape = sparse_covariance(model, n_features, row_sparsity, random_state=seed)
    deviation = 10 ** generator.uniform(-1, 2, n_features)
    scale = deviation / np.sqrt(np.diag(shape))
    records = gaussian_records(shape, n_records, random_state=seed + 1)
    records *= scale
    records += 10 * deviation * generator.standard_normal(n_features)
    return Simulated(model, records, shape * np.multiply.outer(scale, scale))


def _fit(estimator: PrivateSparseCovariance, data: Simulated) -> PrivateSparseCovariance:
    with warnings.catch_warnings(), busy("reading records and releasing"):
        # The demo says itself that nothing here is private, and what to expect.
        warnings.simplefilter("ignore")
        return estimator.fit(data.records)
