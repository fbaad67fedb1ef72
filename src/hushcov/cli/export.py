"""`hushcov export`: write a release on disk for other programs, or synthetic rows drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from hushcov._words import counted, number, some_of
from hushcov.answers.clients import CLIENTS
from hushcov.answers.export import CHROMOSOME, EXPORTS, STATEMENT, Correction, Exported, export
from hushcov.answers.synthetic import check_output, synthesize
from hushcov.cli.answers import check_outside, columns_of, features_option, open_page, reads_release
from hushcov.cli.options import INTEGER, JSON, PATH, Command, output_option
from hushcov.cli.output import clean, echo_json, facts, paragraph, progress
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.files import StoredRelease
from hushcov.tables.codebook import read_codebook

_ROWS = "rows"
_MOST_FILES = 6  # named on the screen
_OF_MATRIX, _OF_ROWS = ("correlation", "psd", "block_size", "features"), ("n", "codebook", "seed")


@click.command(cls=Command, name="export")
@reads_release
@click.option(
    "--to",
    type=click.Choice((*EXPORTS, _ROWS)),
    required=True,
    metavar="FORMAT",
    help="What to write: sparse triangles with a table of features (npz), zarr, tidy pairs with "
    f"intervals (parquet, csv), what a program takes ({', '.join(CLIENTS)}), or synthetic rows "
    "(rows).",
)
@output_option(
    "Folder of the files.  [default: RELEASE-FORMAT]. For rows a CSV or Parquet file, by its "
    "ending.  [default: RELEASE-rows.csv]",
    folder=True,
)
@click.option(
    "--correlation/--covariance",
    default=True,
    help="Correlations with a diagonal of ones, or covariances.  [default: correlation]",
)
@click.option(
    "--psd/--no-psd",
    default=True,
    help="Make the matrix positive semidefinite, and say what that changes.  [default: psd]",
)
@click.option(
    "--block-size",
    metavar="N|chromosome",
    help="Features of a block; pairs across blocks are left out.  [default: one matrix]",
)
@features_option("Columns that a program gets")
@click.option("-n", "--rows", "n", type=INTEGER, metavar="N", help="How many synthetic rows.")
@click.option(
    "--codebook",
    type=PATH,
    metavar="FILE.csv",
    help="A codebook for synthetic rows: integers are rounded, and binary columns have two "
    "values.  [default: that of the fit, which the release keeps]",
)
@click.option(
    "--seed",
    type=INTEGER,
    metavar="S",
    help="Draws the same synthetic rows again. It need not be secret: no privacy rests on it.",
)
@click.option("--overwrite", is_flag=True, help="Replace an export that is there.")
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    folder: Path,
    read: Callable[[], StoredRelease],
    to: str,
    output: Path | None,
    correlation: bool,
    psd: bool,
    block_size: str | None,
    features: str | None,
    n: int | None,
    codebook: Path | None,
    seed: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write a release for other programs, with names and positions; no record is needed.

    lavaan, semopy, statsmodels, psych, graphical-lasso and skfolio get the matrix, a script that
    runs, and the noise of this release: as the covariance of all entries where the program takes
    one, else as a smaller number of records, so that its standard errors are not too small.

    Correlations keep their signs and have a diagonal of ones. Noise leaves a matrix with negative
    eigenvalues, with which many programs stop: they are taken out with little change of any
    entry, pairs that were not released stay zero, and export.json says how much was changed.

    Synthetic rows (--to rows) have the correlations, means and scales of the release, and the
    shapes of its columns where 'marginals' in the settings of the fit bought them. A text beside
    them says what they keep. Use them to test code; take results from the release ('hushcov ask').

    Every file of the release must match its checksum, and with --verify the signature, or the exit
    code is 1. Nothing is spent. Zarr needs the extra 'hushcov[zarr]', Parquet 'hushcov[files]'.

    \b
    Examples:
      hushcov export ld-release --to npz --block-size chromosome
      hushcov export patients-release --to csv -o pairs
      hushcov export patients-release --to lavaan --features age,weight,pulse
      hushcov export patients-release --to rows -n 20000 -o synthetic.csv
    """
    chosen = click.core.ParameterSource.COMMANDLINE
    for param in ctx.command.params:
        if param.name in (_OF_MATRIX if to == _ROWS else _OF_ROWS) and (
            ctx.get_parameter_source(str(param.name)) is chosen
        ):
            only = "a matrix" if to == _ROWS else "--to rows"
            raise click.UsageError(f"{max(param.opts, key=len)} is for {only}: leave it out.", ctx)
    name = f"{folder.resolve().name}-{to}"
    path = output or Path(f"{name}.csv" if to == _ROWS else name)
    check_outside(folder, path)
    if to == _ROWS:
        if n is None:
            raise click.UsageError("Missing option '-n': say how many rows to draw.", ctx)
        _export_rows(folder, read, path, n, codebook, seed, overwrite, as_json)
        return
    size: int | str | None = block_size
    if block_size is not None and block_size != CHROMOSOME:
        if not block_size.isdecimal():
            raise ParameterError(
                "--block-size must be a number of features or 'chromosome', got "
                f"{block_size!r}: leave it out for one matrix."
            )
        size = int(block_size)
    release = read().release
    with progress(100) as tell:
        found = export(
            release,
            path,
            to=to,
            covariance=not correlation,
            psd=psd,
            block_size=size,
            features=columns_of(release, features)[0],
            overwrite=overwrite,
            progress=lambda words, share: tell(words, int(100 * share)),
        )
    if as_json:
        echo_json({"folder": str(path), "files": list(found.files), **found.statement})
        return
    out = open_page(f"Export of {clean(str(folder))}/", release)
    facts(out, _lines(release, found))


def _export_rows(
    folder: Path,
    read: Callable[[], StoredRelease],
    path: Path,
    n: int,
    codebook: Path | None,
    seed: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Draw synthetic rows, and write them with a text that says what they keep."""
    path, beside = check_output(path, overwrite=overwrite, name="output")
    book = None if codebook is None else read_codebook(codebook)
    found = synthesize(read().release, n, random_state=seed, codebook=book)
    found.save(path, overwrite=overwrite)
    if as_json:
        known = {"columns": list(found.columns), "seed": found.seed, "charge": "none"}
        said = {"kept": list(found.kept), "not_kept": list(found.not_kept)}
        files = {"file": str(path), "statement": str(beside)}
        echo_json({**files, "rows": found.n_rows, **known, **said})
        return
    out = open_page(f"Synthetic rows of {clean(str(folder))}/", found.release)
    size = f"{counted(found.n_rows, 'row')} of {counted(len(found.columns), 'column')}"
    lines = [("rows", f"{size}, by the seed {found.seed}")]
    lines += [("kept", each) for each in found.kept]
    lines += [("not kept", each) for each in found.not_kept]
    lines.append(("written", f"{path}, and {beside.name}, which says all this"))
    facts(out, [*lines, ("charged", "nothing: no record was read")])
    paragraph(
        out,
        "\nTake results from the release ('hushcov ask'): intervals computed from synthetic rows "
        "ignore its noise.",
    )


def _lines(release: Release, found: Exported) -> list[tuple[str, str]]:
    correction = found.correction
    lines = list(found.lines)
    if correction is not None:
        matrix = f"{counted(release.n_features, 'feature')}, {counted(correction.pairs, 'pair')}"
        if len(correction.blocks) > 1:
            matrix += f", in {counted(len(correction.blocks), 'block')}"
        lines = [(f"{found.statement['values']}s", matrix), *_correction_lines(correction)]
    return [
        *lines,
        ("written", f"{found.folder}/: {some_of(list(found.files), _MOST_FILES)}"),
        ("charged", f"nothing; {STATEMENT} says all this{', block by block' * bool(correction)}"),
    ]


def _correction_lines(correction: Correction) -> list[tuple[str, str]]:
    """Describe what was changed and left out, in labelled sentences."""
    words = "nothing: the matrix was positive semidefinite"
    if not correction.psd:
        words = "nothing: the matrix may have negative eigenvalues"
    elif correction.largest_change != 0:
        words = (
            f"correlations by {number(correction.largest_change, 2)} at most, to make the matrix "
            f"positive semidefinite; Frobenius norm {number(correction.frobenius, 3)}, operator "
            f"norm about {number(correction.norm, 2)}"
        )
    lines = [("changed", words)]
    if correction.cut_pairs:
        pairs, most = counted(correction.cut_pairs, "pair"), number(correction.cut_largest, 2)
        lines.append(("left out", f"{pairs} across blocks, the largest {most}"))
    if correction.without_variance:
        count = counted(correction.without_variance, "feature")
        lines.append(("left out", f"pairs of {count} without a positive released variance"))
    return lines
