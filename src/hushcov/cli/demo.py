"""`hushcov demo`: a private release of simulated records, told as a story."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from hushcov._arrays import FloatArray
from hushcov._validation import check_integer
from hushcov._words import counted, exact, number
from hushcov.accounting.promise import promise_words
from hushcov.answers.files import write_estimate
from hushcov.cli.files import reserved
from hushcov.cli.forecasts import Planner, mechanism_table, remarks
from hushcov.cli.options import INTEGER, Command
from hushcov.cli.output import (
    busy,
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    plain_table,
    show,
)
from hushcov.cli.words import LEVEL_WORDS, found_pairs, pair_remarks, pair_table
from hushcov.estimators import MultiscaleCovariance, PrivateSparseCovariance
from hushcov.exceptions import MissingPackageError, SeededNoiseWarning
from hushcov.mechanisms.multiscale import PublicInputs, TheoremParameters, theorem_parameters
from hushcov.metrics import operator_norm, operator_norm_error
from hushcov.release.findings import LEVEL
from hushcov.report import write_truth_figure
from hushcov.simulate import MODELS, gaussian_records, sparse_covariance, wishart_moments

EPSILON, DELTA = 1.0, 1e-6
_RIVALS = ("gaussian-threshold", "gaussian")
_SHOWN_PAIRS = 6
#: The size at which the theorem runs.
THEOREM_FEATURES, THEOREM_ROW_SPARSITY = 100, 5


@dataclass(frozen=True)
class Simulated:
    """Records and the covariance they were drawn with."""

    model: str
    records: FloatArray
    covariance: FloatArray

    @property
    def correlation(self) -> FloatArray:
        """The true correlations."""
        return self.in_true_units(self.covariance)

    def in_true_units(self, matrix: FloatArray) -> FloatArray:
        """A matrix with every feature divided by its true standard deviation."""
        deviation = np.sqrt(np.diag(self.covariance))
        return np.asarray(matrix / np.multiply.outer(deviation, deviation))

    def error(self, estimate: FloatArray) -> float:
        """Operator-norm error of an estimate, in true units, over the norm of the truth."""
        truth = self.correlation
        return operator_norm_error(self.in_true_units(estimate), truth) / operator_norm(truth)

    def pairs(self, estimate: FloatArray) -> tuple[int, int, int]:
        """Related pairs found and missed, and unrelated ones shown."""
        upper = np.triu_indices(len(estimate), 1)
        found, present = estimate[upper] != 0, self.covariance[upper] != 0
        hits = int(np.count_nonzero(found & present))
        return hits, int(np.count_nonzero(present)) - hits, int(np.count_nonzero(found)) - hits


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
    """See a private release of simulated records; takes about fifteen seconds.

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
    check_integer("n_records", n_records, at_least=1, cure="give the number of records.")
    estimator.public_inputs(n_records, n_features)  # refuses what is out of range
    out = console(stderr=as_json)
    with reserved(output, replace_simulated=True):
        with busy("drawing records"):
            data = _simulate(model, n_features, row_sparsity, n_records, seeds[1])
        _tell_data(out, data, row_sparsity)
        _tell_plan(out, estimator, data)
        started = time.perf_counter()
        _fit(estimator, data)
        seconds = time.perf_counter() - started
        names = [name for name in _RIVALS if name != estimator.mechanism_]
        rivals = [
            _fit(PrivateSparseCovariance(**estimator.get_params() | {"mechanism": name}), data)
            for name in names
        ]
        _tell_release(out, data, [estimator, *rivals], seconds)
        _tell_entries(out, data, estimator)
        theorem_error = _tell_theorem(out, seeds[2:])
        _tell_files(out, output, data, estimator)
    if as_json:
        result = {
            "model": model,
            "n_records": n_records,
            "n_features": n_features,
            "row_sparsity": row_sparsity,
            "output": str(output),
            "releases": [_against_truth(data, each) for each in (estimator, *rivals)],
            "theorem_error": theorem_error,
        }
        echo_json(result)


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


def _tell_data(out: Console, data: Simulated, row_sparsity: int) -> None:
    """Say what the data is, and what the estimator is told of it."""
    n, d = data.records.shape
    pairs = np.count_nonzero(np.triu(data.covariance, 1))
    heading(out, "1. The data: simulated, nobody's")
    paragraph(
        out,
        f"{counted(n, 'record')} of {counted(d, 'feature')}, with means far from zero and standard "
        f"deviations from 0.1 to 100. {pairs:,} of the {math.comb(d, 2):,} pairs of features are "
        f"related (model: {data.model}); every other covariance is zero. The estimator is told "
        f"that a row of the covariance has at most {row_sparsity} nonzeros, and nothing else: no "
        "mean, no scale, no position.",
    )


def _tell_plan(out: Console, estimator: PrivateSparseCovariance, data: Simulated) -> None:
    """Say what is known before any data is seen."""
    n, d = data.records.shape
    with busy("comparing the mechanisms, from public inputs"):
        row = Planner(estimator.request(d), d).chosen(n)
    heading(out, "2. The plan: all of this is known before any record is read")
    paragraph(
        out,
        f"{promise_words(row.inputs.epsilon, row.inputs.delta)} Every mechanism below keeps "
        "this promise. Predicted errors, relative to the covariance's norm (the zero matrix has "
        "1), if the covariance is like one of three models:",
    )
    show(out, "")
    show(out, mechanism_table(row))
    for remark in remarks([row]):
        paragraph(out, remark)


def _tell_release(
    out: Console, data: Simulated, estimators: Sequence[PrivateSparseCovariance], seconds: float
) -> None:
    """Hold the releases against the truth; the first is the one that was chosen."""
    best = estimators[0]
    heading(out, f"3. The release, by {best.mechanism_}, against the truth")
    show(out, _truth_table(data, estimators))
    hits, missed, false = data.pairs(best.covariance_)
    error = data.error(best.covariance_)
    paragraph(
        out,
        f"\nThe release is off by {number(100 * error, 2)} % of the covariance's norm. It found "
        f"{hits:,} of {hits + missed:,} related pairs and shows {false:,} unrelated ones, in "
        f"{seconds:.1f} s. Errors are in units of the true standard deviations. Sensitive records "
        "would get the guarantee above; simulated ones need none, so this release is marked as "
        "not private.",
    )


def _truth_table(data: Simulated, estimators: Sequence[PrivateSparseCovariance]) -> Table:
    table = plain_table()
    table.add_column("mechanism", no_wrap=True, vertical="bottom")
    for title in ("predicted\nerror", "measured\nerror", "pairs\nfound", "pairs\nmissed", "false"):
        table.add_column(title, justify="right", no_wrap=True, vertical="bottom")
    for each in estimators:
        found = _against_truth(data, each)
        errors = (number(found[name], 2) for name in ("predicted_error", "measured_error"))
        counts = (f"{found[name]:,}" for name in ("pairs_found", "pairs_missed", "false_pairs"))
        table.add_row(each.mechanism_, *errors, *counts)
    return table


def _against_truth(data: Simulated, estimator: PrivateSparseCovariance) -> dict[str, Any]:
    """What was predicted of a release, and what came out, as plain, JSON-ready data."""
    plans = {forecast.mechanism: forecast for forecast in estimator.plan_.forecasts}
    hits, missed, false = data.pairs(estimator.covariance_)
    return {
        "mechanism": estimator.mechanism_,
        "predicted_error": plans[estimator.mechanism_].predicted_error[data.model],
        "measured_error": data.error(estimator.covariance_),
        "pairs_found": hits,
        "pairs_missed": missed,
        "false_pairs": false,
    }


def _tell_entries(out: Console, data: Simulated, estimator: PrivateSparseCovariance) -> None:
    """Show the strongest pairs with their intervals, and count how many intervals are right."""
    found = found_pairs(estimator.release_, _SHOWN_PAIRS)
    if estimator.detection_limit_ is None or not found.number:
        return
    heading(out, "4. The strongest pairs, with intervals that count privacy noise")
    show(out, pair_table(found.strongest, data.covariance))
    lower, upper = estimator.covariance_interval(LEVEL)
    shown = ~np.isnan(lower) & np.triu(np.ones_like(lower, dtype=bool), 1)
    inside = (lower <= data.covariance) & (data.covariance <= upper)
    paragraph(
        out,
        f"\nOf all {found.number:,} intervals, {np.count_nonzero(inside & shown):,} hold the true "
        f"covariance; {LEVEL_WORDS} would be {LEVEL * found.number:,.0f}. "
        f"{pair_remarks(found.strongest)}",
    )


def _tell_files(
    out: Console, folder: Path, data: Simulated, estimator: PrivateSparseCovariance
) -> None:
    """Write the release with its heat map, and name the files."""
    figures = ["truth and release side by side: look at this one"]

    def attach(draft: Path) -> None:
        write_estimate(draft, estimator.covariance_)
        try:
            _draw(draft / "heatmap.png", data, estimator)
        except MissingPackageError as error:
            figures.append(f"not drawn: {error}")

    # What is there already was simulated too, or the folder would not have been reserved.
    estimator.release_.write(folder, overwrite=True, attach=attach)
    heading(out, "6. Files")
    facts(
        out,
        (
            (f"{folder}/heatmap.png", figures[-1]),
            (f"{folder}/covariance.npy", "the estimate"),
            (f"{folder}/integers.npy", "what was released: integers"),
            (f"{folder}/release.json", "their unit, the guarantee and every public parameter"),
            (f"{folder}/release.sha256", "checksums, by which 'hushcov show' finds damage"),
        ),
    )
    paragraph(out, "\nNext: 'hushcov plan' for your sizes, 'hushcov fit' for your records.")


def _draw(path: Path, data: Simulated, estimator: PrivateSparseCovariance) -> None:
    n, d = data.records.shape
    guarantee = estimator.release_.guarantee
    note = (
        f"Simulated: {counted(n, 'record')} of {counted(d, 'feature')}, epsilon = "
        f"{number(guarantee.epsilon)}, delta = {number(guarantee.delta)}, by "
        f"{estimator.mechanism_}."
    )
    estimate = data.in_true_units(estimator.covariance_)
    write_truth_figure(path, data.correlation, estimate, note=note)


def _tell_theorem(out: Console, seeds: Sequence[int]) -> float:
    """Run the theorem at the fewest records for which it proves accuracy, on drawn moments.

    Return the error.
    """
    parameters = _theorem()
    inputs, tests = parameters.inputs, sum(parameters.candidates)
    error, seconds = _run_theorem(inputs, seeds)
    heading(out, "5. The paper's theorem, at its own constants")
    paragraph(
        out,
        f"The mechanism of the paper has a proof of accuracy, whose constants ask for more records "
        f"than there are. Their second moments can be drawn without them: "
        f"{counted(inputs.n_features, 'feature')}, row sparsity {inputs.row_sparsity}, "
        f"{number(inputs.n_records, 3)} records.",
    )
    show(out, "")
    drawn = f"drawn with their exact law and never listed, in {seconds:.1f} s"
    fewest = exact(parameters.smallest_private_n)
    promised = f"where {number(inputs.target_error)} was promised"
    facts(
        out,
        (
            ("error", f"{number(error, 2)} in operator norm, {promised}"),
            ("tests", f"{number(tests, 3)}, {drawn}"),
            ("refuses", f"fewer than {fewest} records, for which nothing is proved"),
        ),
    )
    paragraph(out, "\n'hushcov verify' checks the theorem claim by claim.")
    return error


def _theorem() -> TheoremParameters:
    inputs = PublicInputs(
        n_records=1,
        n_features=THEOREM_FEATURES,
        row_sparsity=THEOREM_ROW_SPARSITY,
        target_error=0.25,
        epsilon=EPSILON,
        delta=DELTA,
        failure_probability=0.1,
        scale=1.0,
    )
    needed = theorem_parameters(inputs).smallest_accurate_n
    return theorem_parameters(replace(inputs, n_records=needed))


def _run_theorem(inputs: PublicInputs, seeds: Sequence[int]) -> tuple[float, float]:
    """The error on simulated moments, and how long it took."""
    d, k = inputs.n_features, inputs.row_sparsity
    truth = sparse_covariance("random", d, k, random_state=seeds[0])
    options = asdict(inputs)
    del options["n_records"], options["n_features"]
    estimator = MultiscaleCovariance(**options, store_precision=False, random_state=seeds[2])
    moments = wishart_moments(truth, inputs.n_records, random_state=seeds[1])
    started = time.perf_counter()
    with (
        warnings.catch_warnings(),
        busy("drawing the tests (the first run on a machine also compiles the sampler)"),
    ):
        warnings.simplefilter("ignore", SeededNoiseWarning)  # simulated: nothing to protect
        estimator.fit_statistics(moments)
    return operator_norm_error(estimator.covariance_, truth), time.perf_counter() - started
