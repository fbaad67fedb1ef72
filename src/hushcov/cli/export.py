"""`hushcov export`: check a release on disk, and write its matrix for other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from hushcov._words import counted, number
from hushcov.answers.clients import CLIENTS
from hushcov.answers.export import CHROMOSOME, EXPORTS, STATEMENT, Correction, Exported, export
from hushcov.cli.answers import check_outside, columns_of, features_option, open_page, reads_release
from hushcov.cli.options import JSON, Command, output_option
from hushcov.cli.output import clean, echo_json, facts, shares
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.release.files import StoredRelease

_MOST_FILES = 6  # named on the screen


@click.command(cls=Command, name="export")
@reads_release
@click.option(
    "--to",
    type=click.Choice(EXPORTS),
    required=True,
    metavar="FORMAT",
    help="What to write: sparse triangles with a table of features (npz), zarr, tidy pairs with "
    f"intervals (parquet, csv), or what a program takes ({', '.join(CLIENTS)}).",
)
@output_option("Where the files are written.  [default: RELEASE-FORMAT]", folder=True)
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
@click.option("--overwrite", is_flag=True, help="Replace an export that is there.")
@JSON
def command(
    folder: Path,
    read: Callable[[], StoredRelease],
    to: str,
    output: Path | None,
    correlation: bool,
    psd: bool,
    block_size: str | None,
    features: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write the matrix of a release for other programs, with names and positions.

    lavaan, semopy, statsmodels, psych, graphical-lasso and skfolio get the matrix, a script that
    runs, and the noise of this release: as the covariance of all entries where the program takes
    one, else as a smaller number of records, so that its standard errors are not too small.

    Correlations keep their signs and have a diagonal of ones. Noise leaves a matrix with negative
    eigenvalues, with which many programs stop: they are taken out with little change of any
    entry, pairs that were not released stay zero, and export.json says how much was changed. Every
    file of the release must match its checksum, and with --verify the signature, or the exit code
    is 1. No record is needed, and nothing is spent. Zarr needs the extra 'hushcov[zarr]', Parquet
    'hushcov[files]'.

    \b
    Examples:
      hushcov export ld-release --to npz --block-size chromosome
      hushcov export patients-release --to csv -o pairs
      hushcov export patients-release --to lavaan --features age,weight,pulse
    """
    path = Path(f"{folder.resolve().name}-{to}") if output is None else output
    check_outside(folder, path)
    size: int | str | None = block_size
    if block_size is not None and block_size != CHROMOSOME:
        if not block_size.isdecimal():
            raise ParameterError(
                "--block-size must be a number of features or 'chromosome', got "
                f"{block_size!r}: leave it out for one matrix."
            )
        size = int(block_size)
    release = read().release
    with shares() as tell:
        found = export(
            release,
            path,
            to=to,
            covariance=not correlation,
            psd=psd,
            block_size=size,
            features=columns_of(release, features)[0],
            overwrite=overwrite,
            progress=tell,
        )
    if as_json:
        echo_json({"folder": str(path), "files": list(found.files), **found.statement})
        return
    out = open_page(f"Export of {clean(str(folder))}/", release)
    facts(out, _lines(release, found))


def _lines(release: Release, found: Exported) -> list[tuple[str, str]]:
    correction, files = found.correction, list(found.files)
    lines = list(found.lines)
    if correction is not None:
        matrix = f"{counted(release.n_features, 'feature')}, {counted(correction.pairs, 'pair')}"
        if len(correction.blocks) > 1:
            matrix += f", in {counted(len(correction.blocks), 'block')}"
        lines = [(f"{found.statement['values']}s", matrix), *_correction_lines(correction)]
    named = ", ".join(files[:_MOST_FILES])
    more = f" and {len(files) - _MOST_FILES:,} more" if len(files) > _MOST_FILES else ""
    return [
        *lines,
        ("written", f"{clean(str(found.folder))}/: {clean(named)}{more}"),
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
