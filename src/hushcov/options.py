"""Define every option once: its type, its constraint, its help, and where it is given.

Estimators check their parameters and describe them from this table, `hushcov fit` and `plan` take
their command-line options from it, and so do settings files. To add an option, add an entry here
and use the value where it belongs. Options of one command, mechanism or slice stand with that.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from hushcov._validation import (
    BUDGET_WORDS,
    DELTA_WORDS,
    LARGEST_DELTA,
    LARGEST_EPSILON,
    OF_COMPLETE,
    check_choice,
    check_integer,
    check_real,
    shown,
)
from hushcov.exceptions import ParameterError
from hushcov.kernel.accounting import RELATIONS, REPLACE

#: What may be estimated: the covariance of rows, or of the means of units that have several.
ESTIMANDS = ("rows", "unit-means")
FOR_BOTH, FOR_COVARIANCE, FOR_RELATIONS = "both", "covariance", "relations"
#: What a release is to be precise for.
PURPOSES = (FOR_BOTH, FOR_COVARIANCE, FOR_RELATIONS)
#: What a bandwidth begins with that is a maximum, up to which the width is found.
UP_TO = "up-to:"
#: What becomes of a fit that should stop a careful user.
REACTIONS = ("raise", "warn")
#: How a value that is not a number is treated: as missing, or as an error.
INVALID = ("missing", "raise")
#: Refusals that `--allow` turns into warnings, and the estimators' parameters for them.
ALLOWED = {"hopeless": "on_hopeless", "large-delta": "on_large_delta"}
_USUAL = "epsilon=1.0 and delta=1e-6, which are usual,"
_WIDTH = 96
_BAND = (
    "How many columns apart two features can be that covary, where the order of the columns has a "
    "meaning and that is public: neighbours on a genome, sensors of a chain, maturities. All other "
    "covariances are taken for zero."
)


@dataclass(frozen=True)
class Option:
    """One option of estimators, of the command line, or of both.

    Parameters
    ----------
    name : str
        The keyword of estimators, and of the functions of commands.
    kind : str
        "flag", "number", "integer", "choice", "choices", "text", "texts", "names", "path",
        "folder", "scales" or "bandwidth"; "any" for what the command line cannot take.
    flag : str
        The command-line option, and without dashes the key in settings; empty if there is none.
    help, metavar : str
        What the command line says of it.
    type, doc : str
        What the reference of estimators says of it; without `doc` the same as the command line.
    choices : tuple of str
        Where it is one of few words; empty where the command knows them.
    limits : mapping
        Bounds of numbers, as `check_real` and `check_integer` take them.
    cure : str
        What an error adds.
    required : str
        What to pass where it is missing, if it must be given.
    commands : tuple of str
        Commands that take it.
    shared : bool
        Whether it means the same whatever is run, so that no mechanism refuses it.
    also : tuple of str
        Other keywords of estimators that the command-line option sets.
    in_settings : bool
        Whether it is a line of settings files alone, and no option of the command line.
    """

    name: str
    kind: str
    flag: str = ""
    help: str = ""
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default: Any = None
    type: str = ""
    doc: str = ""
    limits: Mapping[str, Any] = field(default_factory=dict)
    cure: str = ""
    required: str = ""
    commands: tuple[str, ...] = ("fit",)
    shared: bool = False
    also: tuple[str, ...] = ()
    short: str = ""
    in_settings: bool = False

    @property
    def key(self) -> str:
        """Its key in settings files."""
        return self.flag.lstrip("-")

    @property
    def shown(self) -> str:
        """Its name in messages: an option, or a line of a settings file."""
        return self.key if self.in_settings else self.flag

    @property
    def entry(self) -> str:
        """Its entry in the section Parameters of a docstring."""
        words, _, usual = self.help.partition("  [")
        if usual and "default" not in self.type:
            words += f" {usual[:-1].capitalize()}."
        lines = textwrap.wrap(self.doc or words, _WIDTH - 4, break_on_hyphens=False)
        return "\n".join([f"{self.name} : {self.type}", *(f"    {line}" for line in lines)])

    def check(self, value: Any) -> None:
        """Refuse a value outside its constraint; None stands for what was not given."""
        if self.kind == "flag":
            if not isinstance(value, bool | np.bool_):
                raise ParameterError(
                    f"{self.name} must be True or False, got {shown(value)}: choose one."
                )
        elif self.kind == "choice" and self.choices:
            check_choice(self.name, value, self.choices)
        elif value is None or not self.limits:
            return
        elif self.kind == "integer":
            check_integer(self.name, value, **self.limits, cure=self.cure)
        elif self.kind == "number":
            check_real(self.name, value, **self.limits, cure=self.cure)


TABLE = (
    Option(
        "epsilon",
        "number",
        "--epsilon",
        "Privacy budget; above 0 and at most 10, or 1 for the paper's theorem.  [required]",
        metavar="EPSILON",
        type="float",
        doc="Privacy budget, 0 < epsilon <= 10. Required.",
        limits={"above": 0, "at_most": LARGEST_EPSILON},
        cure=BUDGET_WORDS,
        required=_USUAL,
        commands=("fit", "plan"),
    ),
    Option(
        "delta",
        "number",
        "--delta",
        "Privacy budget; above 0 and at most 0.1, well below 1 / records.  [required]",
        metavar="DELTA",
        type="float",
        doc="Privacy budget, 0 < delta <= 0.1. Required.",
        limits={"above": 0, "at_most": LARGEST_DELTA},
        cure=f"{DELTA_WORDS} The eigen-sampling mechanism (EigenSamplingCovariance) needs none.",
        required=_USUAL,
        commands=("fit", "plan"),
    ),
    Option(
        "row_sparsity",
        "integer",
        "--row-sparsity",
        "Approximate number of nonzero entries in a row of the covariance, the diagonal included, "
        "if that is known. The default takes it as advice; other mechanisms follow it.",
        metavar="K",
        type="int, optional",
        doc="Most nonzero entries in a row of the covariance, the diagonal included. It helps to "
        "place the bound on the norm of records; None assumes few.",
        commands=("fit", "plan"),
    ),
    Option(
        "bounds",
        "any",
        type="array of shape (n_features, 2) or mapping, optional",
        doc="Public bounds of the features, low and high: NaN, None or infinite where one is not "
        "known; a mapping is by name or index of columns and may leave some out. Values beyond "
        "them are moved to them. Where means are found, a feature with both is never unresolved: "
        "where it cannot be told from noise, its scale is what noise and bounds allow. Low and "
        "high alike say that it is constant. They must be public knowledge, as of a "
        "questionnaire, and not be looked up in X. `codebook.bounds` has those of a codebook "
        "(`hushcov.read_codebook`).",
    ),
    Option(
        "columns",
        "names",
        "--columns",
        "Features by name, for files that have names.  [default: all columns]",
        metavar="A,B,C",
    ),
    Option(
        "codebook",
        "path",
        "--codebook",
        "Table of what is publicly known of columns: name, low, high, kind (number, integer, "
        "binary, category), values (separated by '|'), missing_codes (such as -99), missing (which "
        "fills in missing values), thousands and transform. Values are clipped to low and high, "
        "and categories become one-hot columns. Do not make it from the records.",
        metavar="FILE.csv",
        commands=("fit", "plan"),
    ),
    Option(
        "transforms",
        "texts",
        "--transform",
        "Map a column first: log:SMALLEST (values below count as that), log1p and sqrt (with the "
        "sign of the value), square:CENTRE (added as a column), winsorise or winsorise:SHARE "
        "(capped at released quantiles), rank (normal scores). A name alone is for all columns; "
        "may be repeated.",
        metavar="COLUMN=NAME",
        type="str, mapping or list, optional",
        doc="Maps of columns: a name for all columns, one for each (None for none), or a mapping "
        "by name or index. 'log:0.01' is the logarithm, where values below 0.01 count as that "
        "(without a number, a public lower bound must be above 0); 'log1p' is sign(x) log(1 + "
        "|x|), and 'sqrt' sign(x) sqrt(|x|). 'square:20' adds the square of the column less 20 "
        "(without a number, less the middle of public bounds). 'winsorise:0.01' caps the column "
        "where about 1 % of the records lie beyond, on each side (0.1 % without a number), and "
        "'rank' gives normal scores, both by quantiles that are released from 2 to 15 % of the "
        "budget. Bounds are of columns before it. Chosen without looking at X.",
    ),
    Option(
        "assume_centered",
        "flag",
        "--known-mean",
        "The records have mean zero; subtract a public mean first. Without it, means, scales and "
        "norms are estimated from a part of the budget.",
        type="bool, default=False",
        doc="Whether the records have mean zero. It must be True: subtract public means first.",
        commands=("fit", "plan"),
    ),
    Option(
        "feature_scale",
        "scales",
        "--feature-scale",
        "Public standard deviations of the features: one number for all, or a file with one for "
        "each. Without it they are estimated from a part of the budget. With --mechanism theorem: "
        "one bound on the standard deviation in every direction.",
        metavar="S|FILE.npy",
        type="None, float or array of shape (n_features,)",
        doc="Public standard deviations of the features in the order of the columns, or numbers "
        "close to them; 0 marks a constant feature, whose covariances are zero. A number that is "
        "wrong by a factor costs accuracy, never privacy. None estimates them privately: from "
        "1e-17 to 1e19, smaller ones count as constant and larger ones are clipped.",
        also=("scale",),
    ),
    Option(
        "drop_nulls",
        "flag",
        "--no-nulls",
        "Promise that no value is missing; you must know this without looking at the records. "
        "Nothing is counted then, and a missing value stops the fit after its budget is spent.  "
        "[default: records with missing values are left out, and the number of complete records "
        f"is released from {100 * OF_COMPLETE:g} % of the budget]",
        default=True,
        type="bool, default=True",
        doc="Whether records that miss a value (NaN, None, null) are left out, and the number of "
        f"complete records is released from {100 * OF_COMPLETE:g} % of the budget. False promises "
        "that no value is missing, which you must know without looking at the records: a missing "
        "value is a `DataError` then, and the budget is spent. Without a delta missing values are "
        "not counted, and any missing value is an error.",
        commands=("fit", "plan"),
    ),
    Option(
        "unit",
        "text",
        "--unit",
        "Column of identifiers, such as those of patients: all rows with one identifier are "
        "protected together. In a .npy file, its position counted from 0. It is no feature.",
        metavar="COLUMN",
    ),
    Option(
        "purpose",
        "choice",
        "--purpose",
        "What the release is to be precise for: the covariance itself, relations between columns "
        "such as regressions and partial correlations, or both. Relations take further looks at "
        "the records, in the basis of the first matrix, which gets less of the budget then.  "
        f"[default: {PURPOSES[0]}]",
        choices=PURPOSES,
        type='{"both", "covariance", "relations"}, default="both"',
        commands=("fit", "plan"),
    ),
    Option(
        "target",
        "text",
        "--target",
        "A column that is to be regressed on all others. A part of the budget goes into that one "
        "regression then, which is more precise; all other questions are answered as before.",
        metavar="COLUMN",
        type="str or int, optional",
        commands=("fit", "plan"),
    ),
    Option(
        "basis",
        "path",
        "--basis",
        "Folder of an earlier release of the same columns, in whose basis the first further look "
        "is taken: a better one than a part of this budget buys.",
        metavar="RELEASE",
        type="Release, path of a release, or array of shape (n_features, n_features), optional",
        doc="An earlier release of the same columns, or a covariance that is public, in the unit "
        "of the data. The first further look is taken in its basis, which is a better one than a "
        "part of this budget buys. If it is far off, relations are less precise, and nothing else.",
        commands=("fit",),
    ),
    Option(
        "neighbours",
        "choice",
        "--neighbours",
        "How neighbouring datasets differ in one unit: its records are replaced, or it is added or "
        "removed. add-remove needs about half the noise at the same epsilon, and the number of "
        f"records is not public then: 2 % of epsilon release it first.  [default: {REPLACE}]",
        choices=tuple(RELATIONS),
        type='{"replace", "add-remove"}, default="replace"',
        commands=("fit", "plan"),
    ),
    Option(
        "max_rows_per_unit",
        "integer",
        "--max-rows-per-unit",
        "Largest number of rows of one unit that are summed. Noise grows by how far units are from "
        "having so many, not with the number itself.  [default: found from 1 % of epsilon]",
        metavar="M",
        type="int, optional",
        limits={"at_least": 1},
        cure="it is how many rows of one unit are summed, at most.",
        commands=("fit", "plan"),
    ),
    Option(
        "estimand",
        "choice",
        "--estimand",
        "Estimate the covariance of rows, each of which counts; or, where there are units, that of "
        f"the means of units.  [default: {ESTIMANDS[0]}]",
        choices=ESTIMANDS,
        type='{"rows", "unit-means"}, default="rows"',
    ),
    Option(
        "sample_weight",
        "text",
        "--weight",
        "Column of public survey weights, and the largest weight that any record can have, which "
        "is public, too; larger weights count as that. The column is no feature.",
        metavar="COLUMN=MAX",
        also=("max_sample_weight",),
    ),
    Option(
        "max_sample_weight",
        "number",
        type="float, optional",
        doc="The largest survey weight that any record can have; public. Required with "
        "`sample_weight`.",
        limits={"above": 0},
        cure="it is the largest weight that any record can have.",
    ),
    Option(
        "bandwidth",
        "bandwidth",
        "--bandwidth",
        f"{_BAND} up-to:W finds the width by a first release of the whole band, and spends the "
        "rest of the budget there. Genotypes take base pairs, too, as 500000bp.",
        metavar="W|up-to:W",
        type="int or str, optional",
        doc=f"{_BAND} 'up-to:20' is a maximum: a first release of the whole band finds the width, "
        "and the rest of the budget goes there. Nothing is spent on other pairs, and work, memory "
        "and output grow with the number of pairs in the band, never with n_features^2. Estimates "
        "are sparse matrices then, unless `sparse_output=False`.",
        commands=("fit", "plan"),
        also=("window_bp",),
    ),
    Option(
        "candidate_pairs",
        "path",
        "--candidate-pairs",
        "Pairs of columns that may covary; all others are taken for zero. A sparse matrix (.npz), "
        "or text or Parquet with a pair or a group of columns in each row, by name or by position "
        "from 0. Public; never made from the records.",
        metavar="FILE",
        type="sparse matrix, array, list, mapping, path or Candidates, optional",
        doc="Pairs of columns that may covary, like `bandwidth`: a sparse matrix or square array "
        "of booleans; pairs or groups of columns by name or position, all pairs within a group; a "
        "mapping whose values are groups; or a file with one of them (`.npz`, or text or Parquet "
        "with a pair or group in each row). They must be public knowledge, and not be looked up "
        "in X. Not with `bandwidth`.",
        commands=("fit", "plan"),
    ),
    Option(
        "mechanism",
        "choice",
        "--mechanism",
        "What to run. auto finds out whether few pairs, few factors or neither matter. theorem is "
        "the paper's mechanism at the constants of its proof, which refuse fewer than 1e9 records "
        "or more. The names of others, such as genotypes for a table of them, work as well.",
        metavar="auto|gaussian|screened|theorem",
        default="auto",
        shared=True,
    ),
    Option(
        "n_records",
        "integer",
        "--records",
        "Declared number of records; a file with another number is refused. In a dry run it is a "
        "guess where the number is not public.",
        metavar="N",
        shared=True,
    ),
    Option(
        "ledger",
        "path",
        "--ledger",
        "Privacy budget ledger (see 'hushcov ledger'): the release is charged before any record is "
        "read, and refused if all releases of the dataset together would cost too much.",
        metavar="FILE",
        type="path or Ledger, optional",
        shared=True,
    ),
    Option(
        "dataset",
        "text",
        "--dataset",
        "Name of these records in the ledger and in the report.  [default: name of the file]",
        metavar="NAME",
        type="str, optional",
        doc="The name of the dataset in the ledger, which the release keeps. Give both or neither.",
        shared=True,
    ),
    Option(
        "allow",
        "choices",
        "--allow",
        "Release what is refused otherwise; may be repeated. hopeless: the expected error is no "
        "better than that of a matrix of zeros. large-delta: delta is 1 / records or more, with "
        "which records might be published as they are.",
        choices=tuple(ALLOWED),
        also=tuple(ALLOWED.values()),
        shared=True,
    ),
    Option(
        "on_hopeless",
        "choice",
        choices=REACTIONS,
        type='{"raise", "warn"}, default="raise"',
        doc="What to do where the predicted error is no better than that of the zero matrix, or no "
        "mean could be found: refuse (`HopelessError`), or warn and release. Nothing is charged "
        "before.",
    ),
    Option(
        "on_large_delta",
        "choice",
        choices=REACTIONS,
        type='{"raise", "warn"}, default="raise"',
        doc="What to do where delta is 1 / n or more, n being the number of rows: refuse "
        "(`ParameterError`), or warn and release. Above 0.1 / n it warns in any case.",
    ),
    Option(
        "dry_run",
        "flag",
        "--dry-run",
        "Print the plan, and whether the ledger would allow it. No record is read, and nothing is "
        "charged or written.",
        shared=True,
    ),
    Option(
        "output",
        "path",
        "--output",
        "Where the release is written.  [default: FILE-release]",
        metavar="FOLDER",
        short="-o",
        shared=True,
    ),
    Option(
        "as_json",
        "flag",
        "--json",
        "Print the result as JSON, and everything else on standard error.",
        shared=True,
    ),
    Option(
        "positive_semidefinite",
        "flag",
        type="bool, default=False",
        doc="Whether the estimate is projected, in units of the scales, on the positive "
        "semidefinite matrices, which fills in zeros.",
    ),
    Option(
        "sparse_output",
        "any",
        type='"auto" or bool, default="auto"',
        doc="Whether estimates are sparse matrices (`scipy.sparse.csr_array`) of what was "
        'selected, with no `precision_`. "auto": above 10,000 features, and with candidates. Only '
        "pairs are looked for then.",
    ),
    Option(
        "on_invalid",
        "choice",
        "--on-invalid",
        "How to treat a value that is not a number, such as a typo: as missing, or as an error "
        f"that stops the fit after its budget is spent.  [default: {INVALID[0]}]",
        choices=INVALID,
        type='{"missing", "raise"}, default="missing"',
        doc="How to treat infinite values, values that are not numbers in a column of numbers, "
        'such as typos, and values that are neither yes nor no in a binary column. "missing" '
        'counts them as missing, record by record. "raise" raises a `DataError`, after the '
        "budget is spent. With `drop_nulls=False` they are an error in any case.",
        in_settings=True,
    ),
    Option(
        "marginals",
        "number",
        "--marginals",
        "Share of the budget from which quantiles of every column are released, such as 0.05, so "
        "that synthetic rows ('hushcov export --to rows') have the shapes of the columns.  "
        "[default: none]",
        metavar="SHARE",
        type="float, optional",
        limits={"above": 0, "at_most": 0.5},
        cure="it is a share of the budget, such as 0.05; leave it out to buy no quantiles.",
        in_settings=True,
    ),
    Option(
        "header",
        "flag",
        "--no-header",
        "The first line of CSV files is a record, and columns are column_1, column_2, ...",
        default=True,
        in_settings=True,
    ),
    Option(
        "names",
        "names",
        "--names",
        "Names for all columns of CSV files, in place of those in the first line.",
        metavar="A,B,C",
        in_settings=True,
    ),
    Option(
        "delimiter",
        "text",
        "--delimiter",
        "What separates the fields of CSV files.  [default: a comma; a tab in .tsv files]",
        metavar="SIGN",
        in_settings=True,
    ),
    Option(
        "scheduler",
        "text",
        "--scheduler",
        "Dask scheduler whose workers read the files; they must see them under the same path.",
        metavar="ADDRESS",
        in_settings=True,
    ),
    Option(
        "device",
        "text",
        "--device",
        "Where sums over the records are taken, by PyTorch's name for it: 'cuda' is the first "
        "NVIDIA card. The result is the same bit for bit. Needs the extra 'hushcov[torch]'.  "
        "[default: the processor, or the device of a tensor]",
        metavar="NAME",
        type="str, optional",
        in_settings=True,
    ),
    Option(
        "scratch",
        "folder",
        "--scratch",
        "Where a copy of files may be written that is read in their place, two bytes a value. It "
        "has no name and goes with this command, but is not encrypted. None is written otherwise.",
        metavar="FOLDER",
        in_settings=True,
    ),
    Option(
        "memory",
        "number",
        "--memory",
        "GB of memory that a copy of files may take, two bytes a value: what fits is not read "
        "again.  [copies of up to 0.067 GB]",
        metavar="GB",
        limits={"above": 0, "or_zero": True},
        in_settings=True,
    ),
    Option(
        "random_state",
        "any",
        type="None, int, RandomState or Generator",
        doc="None draws operating-system entropy. Anything else makes the noise predictable: it "
        "warns and marks the release as not private.",
    ),
)


def shared_by(estimator: Any) -> tuple[str, ...]:
    """Return the shared options that a class of estimators has as parameters."""
    known = estimator._get_param_names()
    return tuple(option.name for option in TABLE if option.shared and option.name in known)


@dataclass(frozen=True)
class Taker:
    """A way to fit with options of its own: which it takes, which it needs, and why not others.

    Parameters
    ----------
    words : str
        What options are refused with: "--mechanism theorem".
    own : tuple of Option
        Options that no other way takes.
    taken : sequence of str, optional
        Options of the table that it takes beside the shared ones; None: all but `refused`.
    refused : mapping
        Why an option is refused.
    otherwise : str
        Why those are refused that are not named.
    absent : str
        What to do about one of `own` where something else is run.
    needed : mapping
        Why an option is required.
    """

    words: str
    own: tuple[Option, ...] = ()
    taken: Sequence[str] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    otherwise: str = ""
    absent: str = ""
    needed: Mapping[str, str] = field(default_factory=dict)

    def check(self, options: Mapping[str, Any], others: Sequence[Taker] = ()) -> None:
        """Refuse options that have no effect here, and the lack of one that is needed."""
        for entry in TABLE:
            taken = entry.shared or self.taken is None or entry.name in self.taken
            if (not taken or entry.name in self.refused) and _given(entry, options):
                reason = self.refused.get(entry.name, self.otherwise)
                raise ParameterError(f"{entry.shown} must be left out with {self.words}: {reason}")
        for other in others:
            for entry in other.own:
                if _given(entry, options):
                    raise ParameterError(
                        f"{entry.shown} must be left out without {other.words}: {other.absent}"
                    )
        by_name = {entry.name: entry for entry in (*TABLE, *self.own)}
        for name, reason in self.needed.items():
            if not _given(by_name[name], options):
                raise ParameterError(
                    f"{by_name[name].shown} is required with {self.words}: {reason}"
                )


def _given(entry: Option, options: Mapping[str, Any]) -> bool:
    """Return whether a command line has an option, or settings do."""
    value = options.get(entry.name)
    if entry.kind == "flag":
        return value is not None and value is not bool(entry.default)
    return value is not None and not (isinstance(value, tuple) and not value)


def check_parameters(estimator: Any) -> None:
    """Check the parameters of an estimator against the table.

    The paper's mechanism allows a smaller epsilon, and checks that with its other inputs.
    """
    check_options({each.name: getattr(estimator, each.name) for each in fields(estimator)})


def check_options(given: Mapping[str, Any]) -> None:
    """Check options by name against the table; None stands for what was not given."""
    for entry in TABLE:
        if entry.name in given:
            entry.check(given[entry.name])


def check_given(estimator: Any, *names: str) -> None:
    """Refuse an estimator that lacks a parameter which is never inferred from records."""
    usual = {entry.name: entry.required for entry in TABLE if entry.required}
    for name in names:
        if getattr(estimator, name) is None:
            raise ParameterError(
                f"{name} is required: it is a public input and is never inferred from X. "
                f"Pass {usual.get(name, f'{name}=...')} to {type(estimator).__name__}."
            )


def read_bandwidth(bandwidth: Any) -> tuple[Any, bool]:
    """Return the number of columns in a bandwidth, and whether it is a maximum."""
    if isinstance(bandwidth, str) and bandwidth.startswith(UP_TO):
        width = bandwidth.removeprefix(UP_TO)
        if width.isdecimal():
            return int(width), True
    return bandwidth, False
