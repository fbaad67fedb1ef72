"""Options of `hushcov fit` and `hushcov plan` for genotypes, loaded before any genotypes are."""

from __future__ import annotations

from typing import Any

from hushcov.cli.fitting import Slice
from hushcov.options import Option, Taker

# Options that mean something for genotypes, beside those that mean the same for all.
KNOWN = ("epsilon", "delta", "bandwidth", "candidate_pairs", "neighbours", "frequencies")
_REFUSED = {
    "columns": "all variants of a file are read. Write one with these alone.",
    "device": "they are summed on the processor, two bits each.",
}
_FREQUENCIES = Option(
    "frequencies",
    "path",
    "--frequencies",
    "Genotypes: public frequencies of the counted allele, one for each variant. Without it they "
    "are estimated from a part of the budget.",
    metavar="FILE.npy",
    in_settings=True,
)


def _prepare(*given: Any) -> Any:
    from hushcov_genotypes.commands import prepare

    return prepare(*given)


def _plan(*given: Any) -> None:
    from hushcov_genotypes.commands import plan

    plan(*given)


SLICE = Slice(
    Taker(
        "genotypes",
        own=(_FREQUENCIES,),
        taken=(*KNOWN, "header"),
        refused=_REFUSED,
        otherwise="every record is one person, and means, scales and bounds are known from allele "
        "frequencies.",
        absent="pass --mechanism genotypes for a table of them.",
    ),
    _prepare,
    suffix=".bed",
    reads="a PLINK file, got %s: genotypes are read by variants, and no other mechanism does.",
    plan=_plan,
)
