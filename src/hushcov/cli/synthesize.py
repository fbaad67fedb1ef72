"""`hushcov synthesize`: draw synthetic rows from a release on disk, and write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from hushcov._words import counted
from hushcov.answers.synthetic import check_output, synthesize
from hushcov.cli.answers import check_outside, open_page, reads_release
from hushcov.cli.options import INTEGER, JSON, PATH, Command, output_option
from hushcov.cli.output import clean, echo_json, facts, paragraph
from hushcov.release.files import StoredRelease
from hushcov.tables.codebook import read_codebook


@click.command(cls=Command, name="synthesize")
@reads_release
@click.option("-n", "--rows", "n", type=INTEGER, required=True, metavar="N", help="How many rows.")
@output_option("CSV or Parquet file, by its ending.  [default: RELEASE-synthetic.csv]")
@click.option(
    "--codebook",
    type=PATH,
    metavar="FILE.csv",
    help="A codebook of the table: integers are rounded, and binary columns have two values.  "
    "[default: that of the fit, which the release keeps]",
)
@click.option(
    "--seed",
    "random_state",
    type=INTEGER,
    metavar="S",
    help="Draws the same rows again. It need not be secret: no privacy rests on it.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@JSON
def command(
    folder: Path,
    read: Callable[[], StoredRelease],
    n: int,
    output: Path | None,
    codebook: Path | None,
    random_state: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Draw synthetic rows from a release: its correlations, means, scales and marginals.

    No record is read, and nothing is spent. A text beside the rows, of the same name and the ending
    .txt, says what they keep and what they do not: shapes of columns unless --marginals of 'hushcov
    fit' bought them, tails, interactions, nulls. Use them to write and try programs. For results
    ask the release, whose intervals count the noise ('hushcov ask'). Every file of the release must
    match its checksum, and with --verify the signature, or the exit code is 1. Parquet needs the
    extra 'hushcov[files]'.

    \b
    Examples:
      hushcov synthesize patients-release -n 20000 -o synthetic.csv
      hushcov synthesize survey-release -n 1000 --seed 1 -o synthetic.parquet
    """
    default = Path(f"{folder.resolve().name}-synthetic.csv")
    path, beside = check_output(output or default, overwrite=overwrite, name="output")
    check_outside(folder, path)
    book = None if codebook is None else read_codebook(codebook)
    found = synthesize(read().release, n, random_state=random_state, codebook=book)
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
    lines += [("kept", clean(each)) for each in found.kept]
    lines += [("not kept", clean(each)) for each in found.not_kept]
    lines.append(("written", f"{clean(str(path))}, and {clean(beside.name)}, which says all this"))
    facts(out, [*lines, ("charged", "nothing: no record was read")])
    paragraph(
        out,
        "\nFor results ask the release ('hushcov ask'): intervals computed from synthetic rows "
        "ignore its noise.",
    )
