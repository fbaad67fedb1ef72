"""`hushcov fit`: say what will be released and what to expect of it, then release it, or refuse."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from hushcov._charged import ledger_asked, stated_charges
from hushcov._plugins import (
    SUFFIXES,
    installed_plugins,
    load_plugin,
    missing_plugins,
    require_plugin,
)
from hushcov._validation import meant
from hushcov._words import number
from hushcov.answers.tables import write_estimate, write_tables
from hushcov.bounds import check_bounds, place_of
from hushcov.cli.answers import show_pairs
from hushcov.cli.files import (
    chosen_columns,
    holds_release,
    known_pairs,
    opened,
    output_folder,
    reserved,
)
from hushcov.cli.fitting import (
    Job,
    OtherColumns,
    Settled,
    Slice,
    Source,
    check_count,
    check_size,
    quiet,
    split_off,
)
from hushcov.cli.options import Command, check_budget, options_of, settings_option
from hushcov.cli.output import busy, console, echo_json, facts, heading, paragraph, show, warning
from hushcov.cli.report import HEAT_MAP, REPORT
from hushcov.estimators import PrivateSparseCovariance
from hushcov.exceptions import MissingPackageError, ParameterError
from hushcov.fit import check_installed, mechanisms
from hushcov.kernel.accounting import RECORD, Guarantee, is_counted
from hushcov.ledger import Ledger
from hushcov.options import ALLOWED, Taker
from hushcov.release import Release
from hushcov.report import write_release_heatmap, write_report
from hushcov.tables.codebook import Codebook, read_codebook
from hushcov.tables.sources import WILDCARDS
from hushcov.transforms import check_transforms

if TYPE_CHECKING:
    from hushcov.kernel.records.base import Records

# Slices with a way to fit of their own, by their name for --mechanism.
SLICES: dict[str, Slice] = {
    **{name: load_plugin("slices", name) for name in installed_plugins("slices")},
    "theorem": import_module("hushcov.paper.fit_command").SLICE,
}
_AUTO = "auto"
_SUBTRACT = "Subtract means that are public from the records."
_NO_DELTA = "its guarantee has no delta, which"
_PURE_REFUSED = {
    "drop_nulls": f"{_NO_DELTA} a count of complete records needs. Nulls are an error."
}
_PURE_NEEDED = {
    "assume_centered": f"{_NO_DELTA} finding means needs. {_SUBTRACT}",
    "feature_scale": f"{_NO_DELTA} estimating scales needs. Give standard deviations that are "
    "public.",
}


@click.command(cls=Command, name="fit")
@click.argument("file", metavar="DATA", type=click.Path(path_type=Path))
@settings_option
@options_of(
    "fit",
    *(entry for each in SLICES.values() for entry in each.taker.own),
    mechanism=(
        *(_AUTO, *mechanisms(), *missing_plugins("mechanisms")),
        *(*missing_plugins("slices"), *SLICES),
    ),
)
def command(**options: Any) -> None:
    """Release the covariance of the records in DATA under differential privacy.

    DATA is a .npy file with one record a row (numpy.save), a Parquet, Arrow or CSV file (.csv,
    .tsv, .csv.gz), a folder with any number of them (folders in it included), a pattern in
    quotes, or genotypes in a PLINK file (.bed); a settings file may name it, too. The command first
    prints what will be released, under which guarantee, from which public inputs and with which
    error to expect. 'hushcov start DATA' asks for what is needed.

    A settings file takes every option, and besides: delimiter, device, frequencies, marginals,
    memory, names, no-header, on-invalid, scheduler and scratch, which docs/parameters.md describes.

    \b
    Examples:
      hushcov fit patients.npy --epsilon 1 --delta 1e-6
      hushcov fit 'visits/*.parquet' --columns age,pulse --epsilon 1 --delta 1e-6
      hushcov fit survey.csv --codebook codebook.csv --epsilon 1 --delta 1e-6
      hushcov fit visits.parquet --unit patient_id --epsilon 1 --delta 1e-6
      hushcov fit cohort.bed --bandwidth 20 --epsilon 3 --delta 1e-6
      hushcov fit --settings survey-settings.toml
    """
    if options["ledger"] is not None:
        ledger_asked()
    check_budget(options["epsilon"], options["delta"], options["file"])
    out = console(stderr=options["as_json"])
    job = prepare(options, out)
    folder = job.source.folder

    def released() -> str:
        made = hasattr(job.estimator, "release_") and holds_release(folder)
        return f"The release is in {folder}/." if made else ""

    with stated_charges(released):
        guarantee = _announce(out, job)
        if options["dry_run"]:
            _dry_run(out, job, guarantee, options["as_json"])
            return
        started = time.perf_counter()
        with reserved(folder):
            try:
                with quiet(), job.watched() as rows:
                    job.fit(rows)
            except BaseException:
                if hasattr(job.estimator, "release_"):  # paid for: what failed came after it
                    _named(job).write(folder)
                raise
            written = _write(job)
        _summarise(out, job, written, time.perf_counter() - started)
        if options["as_json"]:
            echo_json(job.source.to_dict() | job.to_dict())


def prepare(
    options: dict[str, Any],
    out: Console | None = None,
    open_data: Callable[..., AbstractContextManager[Records]] = opened,
) -> Job:
    """Check the options, open DATA, and settle everything public about the release.

    `open_data` is `opened`, or opens records that are only declared, to plan with.
    """
    name, suffix = options["mechanism"], Path(options["file"]).suffix
    check_installed(name)
    require_plugin("slices", name, f"--mechanism {name}")
    require_plugin("slices", SUFFIXES.get(suffix, ""), f"a file that ends in {suffix}")
    for each, other in SLICES.items():
        if suffix == other.suffix and name not in (_AUTO, each):
            raise ParameterError(f"--mechanism must be auto or {each} for {other.reads % name}")
        name = each if suffix == other.suffix else name
    found = SLICES.get(name)
    taker = Taker(f"--mechanism {name}") if found is None else found.taker
    if found is None and name != _AUTO and mechanisms()[name].pure:
        taker = replace(taker, refused=_PURE_REFUSED, needed=_PURE_NEEDED)
    others = [each.taker for each in SLICES.values() if each is not found]
    taker.check(options, others)
    if (options["ledger"] is None) != (options["dataset"] is None):
        raise ParameterError(
            "--ledger and --dataset must be given together, got one of them: a release is charged "
            "to a dataset of a ledger. Give both, or neither."
        )
    if found is not None:
        return found.prepare(options, lambda: settle(options, open_data), out)
    source, known, columns = settle(options, open_data)
    return Job.prepare(source, known, columns, out)


def settle(
    options: dict[str, Any], open_data: Callable[..., AbstractContextManager[Records]] = opened
) -> Settled:
    """Open DATA: return the records, what is known of them, and columns that are no features."""
    file, unit, dry_run = options["file"], options["unit"], options["dry_run"]
    weight, most_weight = _weight(options["sample_weight"])
    apart = [name for name in (unit, weight) if name is not None]
    if apart and options["scheduler"] is not None:
        raise ParameterError(
            "scheduler must be left out with --unit and --weight: workers that read files would "
            "see parts of a unit. Use fit(dask.dataframe.read_parquet(...), unit=...) in Python, "
            "which brings units together, or leave it out of the settings."
        )
    counts, n_records = bool(apart) or is_counted(options["neighbours"]), options["n_records"]
    check_count(counts=counts, n_records=n_records, dry_run=dry_run)
    book = None if options["codebook"] is None else read_codebook(options["codebook"])
    reading = ("columns", "scheduler", "header", "names", "delimiter", "scratch", "memory")
    lines = {name: options[name] for name in reading}
    described = () if book is None else book.names
    lines["columns"], left_out = chosen_columns(file, lines, apart, described)
    found = open_data(file, **lines, codebook=book, leave_out=apart)
    records = click.get_current_context().with_resource(found)
    if unit is not None and weight is not None:
        raise ParameterError(
            "--weight must be left out with --unit: rows of one unit with weights of their own are "
            "not bounded together. Use one of them."
        )
    word, identifiers, weights = RECORD, None, None
    if unit is not None:
        records, identifiers, word = split_off(records, unit, "unit")
    if weight is not None:
        records, weights, _ = split_off(records, weight, "sample_weight")
    check_size(file, records, None if counts else n_records)
    folder = output_folder(file, options["output"])
    parameters = {each.name for each in fields(PrivateSparseCovariance)}
    known = {n: value for n, value in options.items() if n in parameters and value is not None}
    known |= {ALLOWED[each]: "warn" for each in options["allow"]}
    known |= {"max_sample_weight": most_weight}
    pairs = known_pairs(known, records.n_features, records.feature_names)
    known |= {} if "candidate_pairs" not in known else {"candidate_pairs": pairs}
    names = records.feature_names or ()
    ends = {} if book is None else {n: b for n, b in book.bounds.items() if meant(n, names)}
    if ends:
        known["bounds"] = check_bounds(ends, records.n_features, names)
    maps = transforms_of(options["transforms"], book, names, records.n_features)
    check_transforms(maps or None, records.n_features, names or None, known.get("bounds"))
    places = {name: place for place, name in enumerate(names)}
    placed = (place_of("transforms", key, places, records.n_features, "") for key in maps)
    known["transforms"] = dict(zip(placed, maps.values(), strict=True)) or None
    source = Source(file, folder, records, options["assume_centered"], counts, left_out)
    guess = n_records if counts else None
    return source, known, OtherColumns(word, identifiers, weights, guess)


def transforms_of(
    texts: Sequence[str], book: Codebook | None, names: Sequence[str], n_features: int
) -> dict[str | int, str]:
    """Return transforms by column: those of a codebook, and COLUMN=NAME, or NAME for all others."""
    every = [text for text in texts if "=" not in text]
    found: dict[str | int, str] = dict.fromkeys(range(n_features) if every else (), *every[-1:])
    if book is not None:
        found |= {n: each for n, each in book.transforms.items() if meant(n, names)}
    for text in texts:
        column, equals, name = text.rpartition("=")
        if equals:
            by_place = column.isdecimal() and not meant(column, names)
            found[int(column) if by_place else column] = name
    return found


def _weight(text: str | None) -> tuple[str | None, float | None]:
    """Return the column of weights and the largest weight that --weight names."""
    if text is None:
        return None, None
    column, _, most = text.rpartition("=")
    try:
        if column:
            return column, float(most)
    except ValueError:
        pass
    raise ParameterError(
        "--weight must be a column and the largest weight that any record can have, as "
        f"weight=50, got {text!r}: that number is public. Give both."
    )


def quoted(ledger: Path, dataset: str, guarantee: Guarantee) -> dict[str, Any]:
    """Return what the ledger would have left after a charge, or refuse as the charge would."""
    left = Ledger(ledger).quote(dataset, guarantee)
    return {
        "file": str(ledger),
        "dataset": dataset,
        "epsilon_left": left.epsilon,
        "pure_epsilon_left": left.pure_epsilon,
        "delta": left.delta,
    }


def _announce(out: Console, job: Job) -> Guarantee:
    """Refuse a release, or print what will be released and warnings about it."""
    refuse(job)
    ledger, dataset = job.estimator.ledger, job.estimator.dataset
    if ledger is not None and job.counted is None:
        quoted(ledger, dataset, job.certify())
    heading(out, "What will be released")
    charged = ("ledger", f"{ledger}, dataset {dataset}: charged before any record is read")
    lines = [("from", str(job.source)), *job.source.left_words(), *job.announcement()]
    facts(out, [*lines, *([] if ledger is None else [charged]), ("into", f"{job.source.folder}/")])
    warn(out, job)
    guarantee = job.certify()
    show(out, "")
    facts(out, [("odds", str(guarantee.odds()))])
    return guarantee


def warn(out: Console, job: Job) -> None:
    """Print the warnings about a release."""
    for caution in job.cautions:
        if not caution.refused_by(job.estimator):
            show(out, "")
            warning(out, caution.sentence)


def refuse(job: Job) -> None:
    """Refuse a release for a caution; the error says what a count before it spent."""
    spent = "" if job.counted is None else number(job.counted.guarantee.epsilon)
    for caution in job.cautions:
        if caution.refused_by(job.estimator):
            raise caution.refusal(spent)


def _dry_run(out: Console, job: Job, guarantee: Guarantee, as_json: bool) -> None:
    """Print whether the ledger would allow the release."""
    quote, ledger, dataset = None, job.estimator.ledger, job.estimator.dataset
    heading(out, "Dry run")
    if ledger is not None:
        quote = quoted(ledger, dataset, guarantee)
        left = f"epsilon {number(quote['epsilon_left'])} at delta {number(quote['delta'])}"
        words = f"{ledger}, dataset {dataset}: the charge would fit, and {left} would be left"
        facts(out, [("ledger", words)])
    paragraph(out, "No record was read, and nothing was charged or written.")
    if as_json:
        known = {"guarantee": guarantee.to_dict(), "ledger": quote, "dry_run": True}
        echo_json(job.source.to_dict() | job.expected() | known)


def _summarise(out: Console, job: Job, written: list[tuple[str, str]], seconds: float) -> None:
    """Print what was found and spent, and which files were written."""
    spent = job.release.guarantee
    delta = spent.transcript_delta + spent.numerical_delta
    words = (
        f"epsilon {number(spent.transcript_epsilon)} of the promised {number(spent.epsilon)}, "
        f"delta {number(delta)} of {number(spent.delta)}"
    )
    lines = [*job.summary(), ("spent", words), ("time", f"{seconds:.1f} s")]
    heading(out, "Released")
    facts(out, lines)
    show_pairs(out, job.found)
    heading(out, f"Files in {job.source.folder}/")
    sealed = [
        ("integers.npy", "what was released: integers"),
        ("release.json", "their unit, scales, guarantee and every public parameter"),
        ("release.sha256", "checksums, by which 'hushcov show' finds damage"),
    ]
    facts(out, [*written, *sealed])
    paragraph(
        out,
        "\nWhatever is computed from these files is covered by the guarantee. Fitting the same "
        "records again spends again.",
    )


def _named(job: Job) -> Release:
    """Return the release with the name of its data: that of the dataset, file or folder."""
    release = job.release
    if release.making.dataset is None:
        place = job.source.file.absolute()
        name = (place.parent if set(place.name) & WILDCARDS else place).name or None
        release = replace(release, making=replace(release.making, dataset=name))
        job.estimator.release_ = release
    return release


def _write(job: Job) -> list[tuple[str, str]]:
    """Write the release and its tables, picture and report; return a description of each file."""
    release, folder, estimate = _named(job), job.source.folder, job.estimator.covariance_
    notes, failed = dict[str, str](), dict[str, Exception]()

    def heat_map(draft: Path) -> list[tuple[str, str]]:
        write_release_heatmap(draft / HEAT_MAP, release)
        return [(HEAT_MAP, "the estimated correlations as a picture")]

    def page(draft: Path) -> list[tuple[str, str]]:
        with busy("writing the report"):
            write_report(draft / REPORT, release)
        words = "verdict, relations, variances, heat map and guarantee: open it in a browser"
        return [(REPORT, words)]

    makers: dict[str, Callable[[Path], list[tuple[str, str]]]] = {
        "covariance": lambda draft: [write_estimate(draft, estimate)],
        "pairs.csv": lambda draft: write_tables(draft, release, estimate, "csv"),
        HEAT_MAP: heat_map,
        REPORT: page,
    }

    def attach(draft: Path) -> None:
        for name, make in makers.items():
            before = set(draft.iterdir())
            try:
                notes.update(make(draft))
            except Exception as error:  # the budget is spent: no picture is worth the release
                for path in set(draft.iterdir()) - before:
                    path.unlink()
                failed[name] = error

    release.write(folder, attach=attach)
    lines = [(name, words) for name, words in notes.items() if (folder / name).exists()]
    page_later = f"'hushcov report {folder}' makes the page with all pictures"
    for name, error in failed.items():
        said = f"{error}, then {page_later}"
        if not isinstance(error, MissingPackageError):
            said = " ".join(f"{type(error).__name__}. {error}".split())
            words = f"{name} was not written: {said}. The release in {folder}/ is complete;"
            warnings.warn(f"{words} {page_later}.", stacklevel=2)
        lines.append((name, f"not written: {said}"))
    return lines
