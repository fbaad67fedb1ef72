"""`hushcov fit`: say what will be released and what to expect of it, then release it, or refuse."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from hushcov._charged import stated_charges
from hushcov._words import number
from hushcov.accounting import ADD_REMOVE, Guarantee
from hushcov.answers.files import FORMATS, write_estimate, write_tables
from hushcov.answers.tables import check_parquet
from hushcov.cli.files import (
    PASSPHRASE,
    holds_release,
    opened,
    read_signing_key,
    refuse_taken,
    reserved,
    stem_of,
)
from hushcov.cli.fit_options import THEOREM, check_budget, check_options
from hushcov.cli.fit_source import Source, quoted
from hushcov.cli.fit_units import Columns, check_columns, unit_options
from hushcov.cli.fitting import Job, prepare
from hushcov.cli.known_pairs import estimator_options
from hushcov.cli.options import CODEBOOK, INTEGER, NUMBER, SCALES, Command, public_inputs
from hushcov.cli.output import (
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    show,
    warning,
)
from hushcov.cli.report import REPORT, attach_report
from hushcov.cli.settings import settings_option
from hushcov.cli.words import show_pairs
from hushcov.exceptions import DataError, MissingPackageError
from hushcov.genotypes import NAME
from hushcov.genotypes.fit_command import OWN, GenotypeJob, genotype_options, takes_genotypes
from hushcov.planning import mechanisms
from hushcov.postprocess import released_correlations
from hushcov.report import write_release_heatmap
from hushcov.sums.knowledge import Bounds, check_bounds
from hushcov.sums.protocol import Records
from hushcov.tables.codebook import Codebook, read_codebook


@click.command(cls=Command, name="fit")
@click.argument("file", metavar="DATA", type=click.Path(path_type=Path))
@settings_option
@public_inputs
@click.option(
    "--columns",
    metavar="A,B,C",
    help="Features by name, for files that have names.  [default: all columns]",
)
@genotype_options
@unit_options
@CODEBOOK
@click.option(
    "--drop-nulls",
    is_flag=True,
    help="Leave out records with nulls or NaN; about how many are complete is released, too.",
)
@click.option(
    "--no-header",
    "header",
    is_flag=True,
    flag_value=False,
    default=True,
    help="The first line of CSV files is a record. Columns are column_1, column_2, ... or --names.",
)
@click.option(
    "--names",
    metavar="A,B,C",
    help="Names for all columns of CSV files, in place of those in the first line.",
)
@click.option(
    "--delimiter",
    metavar="SIGN",
    help="What separates the fields of CSV files.  [default: a comma; a tab in .tsv files]",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Dask scheduler whose workers read the files; they must see them under the same path.",
)
@click.option(
    "--device",
    metavar="NAME",
    help="Where to sum over the records, by PyTorch's name for it, as cuda; same result.",
)
@click.option(
    "--feature-scale",
    type=SCALES,
    metavar="S|FILE.npy",
    help="Public standard deviations of the features: one number for all, or a file with one for "
    "each. Without it they are estimated from a part of the budget.",
)
@click.option(
    "--mechanism",
    type=click.Choice(("auto", *mechanisms(), NAME, THEOREM)),
    default="auto",
    show_default=True,
    help="What to run; auto finds out whether few pairs, few factors or neither matter. 'theorem' "
    "is the paper's mechanism at the constants of its proof, which refuse fewer than 1e9 records "
    "or more.",
)
@click.option(
    "--psd", is_flag=True, help="Make the estimate positive semidefinite, which fills in zeros."
)
@click.option(
    "--scale",
    type=NUMBER,
    metavar="SIGMA",
    help="With --mechanism theorem: public bound on the standard deviation in every direction.",
)
@click.option(
    "--target-error",
    type=NUMBER,
    metavar="ALPHA",
    help="With --mechanism theorem: error sought, in units of scale^2; at most 0.25, the default.",
)
@click.option(
    "--failure-probability",
    type=NUMBER,
    metavar="BETA",
    help="With --mechanism theorem: how often the target may be missed; at most 0.1, the default.",
)
@click.option(
    "--records",
    "n_records",
    type=INTEGER,
    metavar="N",
    help="Declared number of records; a file with another number is refused.",
)
@click.option(
    "--features",
    "n_features",
    type=INTEGER,
    metavar="D",
    help="Declared number of features; a file with another number is refused.",
)
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Privacy budget ledger to charge before any record is read; see 'hushcov ledger'.",
)
@click.option(
    "--dataset",
    metavar="NAME",
    help="Name of these records in the ledger and in the report; else that of the file.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Release even if no better than the zero matrix is to be expected, which is refused "
    "otherwise.",
)
@click.option(
    "--allow-large-delta",
    is_flag=True,
    help="Accept a delta of 1 / records or more, which is refused otherwise: it would allow "
    "publishing a record or more as they are.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say everything, and whether the ledger would allow it; read no record, charge and write "
    "nothing.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the release is written.  [default: FILE-release]",
)
@click.option(
    "--tables",
    type=click.Choice(FORMATS),
    default="csv",
    show_default=True,
    help="What pairs, variances and the matrix with its names are written as.",
)
@click.option(
    "--sign",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="Private Ed25519 key (PEM) to sign the release with; 'hushcov show --verify' checks it. "
    f"The passphrase of an encrypted key is asked for, or taken from {PASSPHRASE}.",
)
@click.option(
    "--scratch",
    type=click.Path(exists=True, file_okay=False),
    metavar="FOLDER",
    help="Where a copy of files may be written that is read in their place, two bytes a value. It "
    "has no name and goes with this command, but is not encrypted. None is written otherwise.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON, the rest on standard error."
)
def command(dry_run: bool, as_json: bool, **options: Any) -> None:
    """Release the covariance of the records in DATA under differential privacy.

    DATA is a .npy file with one record a row (numpy.save), a Parquet, Arrow or CSV file (.csv,
    .tsv, .csv.gz), a folder with any number of them (folders in it included), a pattern in
    quotes, or genotypes in a PLINK file (.bed); a file of settings may name it, too. Says first
    what will be released, under which guarantee, from which public inputs and with which error to
    expect. 'hushcov start DATA' asks for all that is needed.

    \b
    Examples:
      hushcov fit patients.npy --epsilon 1 --delta 1e-6
      hushcov fit 'visits/*.parquet' --columns age,weight,pulse --drop-nulls \\
        --epsilon 1 --delta 1e-6 -o release/
      hushcov fit survey.csv --codebook codebook.csv --epsilon 1 --delta 1e-6
      hushcov fit visits.parquet --unit patient_id --epsilon 1 --delta 1e-6
      hushcov fit cohort.bed --bandwidth 20 --epsilon 3 --delta 1e-6
      hushcov fit --settings survey-settings.toml
    """
    check_budget(options["epsilon"], options["delta"], options["file"])
    out = console(stderr=as_json)
    job = _job(out, dry_run, options)
    with stated_charges(lambda: _outcome(job.source.folder)):
        guarantee = _announce(out, job)
        if dry_run:
            result = _dry_run(out, job, guarantee)
        else:
            _run(out, job)
            result = job.to_dict()
        if as_json:
            echo_json(job.source.to_dict() | result)


def _outcome(folder: Path) -> str:
    """What became of a release that was charged."""
    return f"The release is in {folder}/." if holds_release(folder) else "No estimate was released."


def _job(out: Console, dry_run: bool, options: dict[str, Any]) -> Job:
    """What is to be run, by the options: a table, or genotypes."""
    if takes_genotypes(options):
        return GenotypeJob.prepare(dry_run=dry_run, out=out, **options)
    for name in OWN:
        options.pop(name)
    source, mechanism, public = settle(opened, dry_run=dry_run, **options)
    return prepare(source, mechanism, out=out, **public)


def settle(
    open_data: Callable[..., AbstractContextManager[Records]],
    *,
    file: Path,
    columns: str | None,
    codebook: Path | None,
    drop_nulls: bool,
    header: bool,
    names: str | None,
    delimiter: str | None,
    scheduler: str | None,
    mechanism: str,
    known_mean: bool,
    unit: str | None,
    sample_weight: str | None,
    n_records: int | None,
    n_features: int | None,
    output: Path | None,
    sign: Path | None,
    tables: str,
    force: bool,
    allow_large_delta: bool,
    dry_run: bool,
    scratch: str | None,
    **public: Any,
) -> tuple[Source, str, dict[str, Any]]:
    """Check the options and open DATA: the source, the mechanism and what `prepare` is told.

    `open_data` is `opened`, or opens records that are only declared, to plan with.
    """
    asked: dict[str, Any] = {"drop_nulls": drop_nulls, "force": force, "known_mean": known_mean}
    asked |= {"codebook": codebook, "unit": unit, "sample_weight": sample_weight}
    check_options(mechanism, public | asked)
    apart = [name for name in (unit, sample_weight) if name is not None]
    counts = bool(apart) or public["neighbours"] == ADD_REMOVE
    declared: dict[str, Any] = {"n_records": n_records, "dry_run": dry_run}
    check_columns(unit=unit, weight=sample_weight, scheduler=scheduler, counts=counts, **declared)
    if tables == "parquet":
        check_parquet()
    key = read_signing_key(sign)
    book = None if codebook is None else read_codebook(codebook)
    lines: dict[str, Any] = {"header": header, "names": names, "delimiter": delimiter}
    lines |= {"codebook": book, "scratch": scratch, "leave_out": apart}
    found = open_data(file, columns=columns, drop_nulls=drop_nulls, scheduler=scheduler, **lines)
    records = click.get_current_context().with_resource(found)
    records, others = Columns.of(records, unit, sample_weight, guess=n_records if counts else None)
    _check_size(file, records, None if counts else n_records, n_features)
    folder = output if output is not None else Path(f"{stem_of(file)}-release")
    refuse_taken(folder)
    source = Source(file, folder, records, known_mean, key, tables, counts)
    known = estimator_options(public, records.n_features, records.feature_names)
    public = {name: value for name, value in public.items() if value is not None} | known
    public |= {} if book is None else {"bounds": _bounds(book, records)}
    public |= {"on_hopeless": "warn"} if force else {}
    public |= {"on_large_delta": "warn"} if allow_large_delta else {}
    return source, mechanism, public | {"columns": others}


def _bounds(book: Codebook, records: Records) -> Bounds | None:
    """Bounds of the features by a codebook, if it has any of those that are read."""
    names = records.feature_names or ()
    known = {name: ends for name, ends in book.bounds.items() if name in names}
    return check_bounds(known, records.n_features, names) if known else None


def _check_size(
    file: Path, records: Records, n_records: int | None, n_features: int | None
) -> None:
    """Hold the size of the data against what was declared; no record is read."""
    for option, declared, found in (
        ("--records", n_records, records.n_records),
        ("--features", n_features, records.n_features),
    ):
        if declared is not None and declared != found:
            raise DataError(
                f"{option} must be what {file} holds, {found:,}, got {declared:,}: check that "
                f"this is the right file, or leave {option} out. No record was read."
            )


def _announce(out: Console, job: Job) -> Guarantee:
    """Refuse what is not to be released; else say what will be, and what to heed of it."""
    check_allowed(job)
    heading(out, "What will be released")
    folder, ledger, dataset = job.source.folder, job.estimator.ledger, job.estimator.dataset
    charged = ("ledger", f"{ledger}, dataset {dataset}: charged before any record is read")
    lines = [("from", str(job.source)), *job.announcement()]
    facts(out, [*lines, *([] if ledger is None else [charged]), ("into", f"{folder}/")])
    guarantee = certified(out, job)
    show(out, "")
    facts(out, [("odds", str(guarantee.odds()))])
    return guarantee


def check_allowed(job: Job) -> None:
    """Refuse what is hopeless, or not within the budget, before anything is said of it."""
    for caution in job.cautions:
        if caution.refused_by(job.estimator):
            raise caution.refusal(job.spent_before)
    ledger, dataset = job.estimator.ledger, job.estimator.dataset
    if ledger is not None and dataset is not None and not job.spent_before:
        quoted(ledger, dataset, job.certify())


def certified(out: Console, job: Job) -> Guarantee:
    """Say what to heed, and refuse what is not to be released; what will be charged."""
    for caution in job.cautions:
        if not caution.refused_by(job.estimator):
            show(out, "")
            warning(out, caution.sentence)
    guarantee = job.certify()
    for caution in job.cautions:
        if caution.refused_by(job.estimator):
            raise caution.refusal(job.spent_before)
    return guarantee


def _dry_run(out: Console, job: Job, guarantee: Guarantee) -> dict[str, object]:
    """Say whether the ledger would allow it, and return what is known."""
    quote, ledger, dataset = None, job.estimator.ledger, job.estimator.dataset
    heading(out, "Dry run")
    if ledger is not None and dataset is not None:
        quote = quoted(ledger, dataset, guarantee)
        left = f"epsilon {number(quote['epsilon_left'])} at delta {number(quote['delta'])}"
        words = f"{ledger}, dataset {dataset}: the charge would fit, and {left} would be left"
        facts(out, [("ledger", words)])
    paragraph(out, "No record was read, and nothing was charged or written.")
    known = {"guarantee": guarantee.to_dict(), "ledger": quote, "dry_run": True}
    return job.expected() | known


def _run(out: Console, job: Job) -> None:
    """Release, write and summarise."""
    started, folder = time.perf_counter(), job.source.folder
    with reserved(folder):
        with job.watched() as rows:
            job.fit(rows)
        written = _write(job)
    spent = job.release.guarantee
    delta = spent.transcript_delta + spent.numerical_delta
    words = (
        f"epsilon {number(spent.transcript_epsilon)} of the promised {number(spent.epsilon)}, "
        f"delta {number(delta)} of {number(spent.delta)}"
    )
    lines = [*job.summary(), ("spent", words), ("time", f"{time.perf_counter() - started:.1f} s")]
    heading(out, "Released")
    facts(out, lines)
    show_pairs(out, job.release, job.found)
    _files(out, job, written)


def _write(job: Job) -> list[tuple[str, str]]:
    """Write the release with the estimate and, if possible, its pictures; say what they show."""
    notes: dict[str, str] = {}

    def attach(draft: Path) -> None:
        notes.update([write_estimate(draft, job.covariance), *_tables(draft, job)])
        notes["heatmap.png"] = "the estimated correlations as a picture"
        correlations = released_correlations(job.covariance)
        try:
            names, kept = job.release.column_names, job.release.in_order
            write_release_heatmap(draft / "heatmap.png", correlations, names, in_order=kept)
        except MissingPackageError as error:
            notes["heatmap.png"] = f"not drawn: {error}"
        notes[REPORT] = attach_report(draft / REPORT, job.source.folder, job.release)

    job.release.write(job.source.folder, attach=attach, sign=job.source.key)
    return list(notes.items())


def _tables(draft: Path, job: Job) -> list[tuple[str, str]]:
    """Write tables beside the release; the budget is spent, and no table is worth the release."""
    kind = job.source.tables
    try:
        return write_tables(draft, job.release, job.covariance, kind)
    except Exception as error:
        for path in draft.glob(f"*.{kind}"):
            path.unlink()
        return [(f"pairs.{kind}", f"not written: {type(error).__name__}. {error}")]


def _files(out: Console, job: Job, written: list[tuple[str, str]]) -> None:
    signed = job.source.key is not None
    heading(out, f"Files in {job.source.folder}/")
    facts(
        out,
        (
            *written,
            ("integers.npy", "what was released: integers"),
            ("release.json", "their unit, scales, guarantee and every public parameter"),
            ("release.sha256", "checksums, by which 'hushcov show' finds damage"),
            *([("release.sig", "the signature of all files")] if signed else []),
        ),
    )
    paragraph(
        out,
        "\nWhatever is computed from these files is covered by the guarantee. Fitting the same "
        "records again spends again.",
    )
