"""Plant single-line faults in the lines that privacy rests on, and see which tests find them.

    python benchmarks/guards/mutation.py --list                 # lines and faults, none tried
    python benchmarks/guards/mutation.py --output results/mutation.json
    python benchmarks/guards/mutation.py --sample 500 --module kernel/noise/normal.py

The lines are found by a rule, so that new ones are found by themselves (`lines_of`). The tests run
once, to learn their time and which functions and kernels each of them calls. Then, for every
fault, a copy of this process (a fork, with everything loaded) gets the changed code and runs tests
that call it, the quickest first: pairs of `hushcov audit replay`, other tests of privacy, other
fast tests. The first that fails, or does not end, catches the fault. What is left is tried with the
golden releases, and with `--slow` by slow tests, in a new process of a changed copy of the tree.

The file of results grows while this runs; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import math
import os
import pickle
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "hushcov"
PACKAGES = ("kernel", "engines", "fit", "tables")
NEEDS_GPU = ("engines/fused.py",)  # Triton is for such machines alone: mutation_device.py there
WHOLE = ("engines/device.py", *NEEDS_GPU)  # sums on a device: all of it, and what launches kernels
RELEASING = "fit"  # what is done with noisy numbers there is no line of privacy
# Constants elsewhere divide a budget: what is divided is charged.
CONSTANTS = ("kernel/noise", "kernel/accounting")
#: Calls that bound, charge, draw or say what is summed: their statements are lines of privacy.
BEARING = {
    *("moved", "shared", "smallest_sigma", "for_group", "charged", "compose"),
    *("ProductMap", "FeatureGrid", "RowSums", "fourth_sums_of", "bounded_sums_of", "unit_means"),
    *("gaussian", "select", "laplace", "rounded_normal", "gumbel_top", "discrete_laplace"),
}
MARGINS = {"INSIDE", "UP", "ROUNDING", "CLOCK_ROUNDING"}
KERNELS = {"compiled"}
#: Constants and functions that decide how fast or how tight it is: whatever they say, what is
#: summed is the same, what is drawn has the same law, and what is claimed holds.
SPEED = {
    *("_guess_cut", "_minimum", "_guessed", "_read_ahead", "_reader", "_STRIP_ROWS"),
    *("_CHUNK", "_LARGEST_CHUNK", "_A_THREAD", "_PART", "_LEAST", "_BATCH", "_SAMPLE", "_STRIDE"),
    *("_SPARSE", "_BLOCK", "_STREAMS", "_KEYED", "_UNCLEAR", "_AT_ONCE", "_ZOOMS", "_GUESS"),
}
Function = ast.FunctionDef


@dataclass(frozen=True)
class Fault:
    """One change of the source: bytes `start` to `stop` of a file become `new`."""

    path: str  # from the folder of the package
    line: int
    start: int
    stop: int
    kind: str
    old: str
    new: str
    owner: str  # the outermost function; "" in a module, the class in a class

    @property
    def name(self) -> str:
        """Say which it is, the same in every run."""
        return f"{self.path}:{self.line} [{self.start}] {self.kind}: {self.old} -> {self.new}"

    def planted(self) -> bytes:
        """Return the source with the fault."""
        source = (SOURCE / self.path).read_bytes()
        return source[: self.start] + self.new.encode() + source[self.stop :]


# Faults that no test finds, since they change no guarantee: a module, part of the line, what is
# planted ("" for anything), and why; @ stands before what is changed. Most say that either choice
# gives the same sums or law.
EXPLAINED: tuple[tuple[str, str, str, str], ...] = (
    ("kernel/noise/laplace.py", "_below(generator, 2) == @0", "1", "either half of a fair bit"),
    ("kernel/noise/laplace.py", "_below(generator, 2) @== 0", "!=", "either half of a fair bit"),
    ("kernel/noise/gumbel.py", "np.partition(low, count)[count]", "<=", "keys tie with chance 0"),
    ("kernel/noise/gumbel.py", "low > np.partition(high", ">=", "keys tie with chance 0"),
    ("kernel/noise/gumbel.py", "_CHORD, _SLOPES", "0.7186300000000001", "wider: exact bounds decide more"),
    (
        "kernel/noise/gumbel.py",
        "_CHORD, _SLOPES",
        "0.06567000000000001",
        "wider: exact bounds decide more",
    ),
    ("kernel/noise/gumbel.py", "_CHORD, _SLOPES", "0.45", "wider: exact bounds decide more"),
    ("kernel/noise/normal.py", "_STREAM = 2**12", "", "how many draws are of one stream, which has room"),
    ("kernel/noise/entropy.py", "for i in range(4):", "5", "the fifth word is overwritten by the key"),
    ("kernel/noise/gumbel.py", "below = words[item] >= 0", ">", "a word of 0 is too near the end"),
    ("kernel/noise/gumbel.py", "if words[item] >= 0 else _UPPER", "1", "a word of 0 is too near the end"),
    *(("kernel/sums/products.py", "2.0 ** ((index - @1.5) / 4)", new, "any place in the bin is valid")
      for new in ("1.6500000000000001", "1.35")),
    ("kernel/sums/products.py", "return max(@1, min(norm", "2", "any bound is valid"),
    ("fit/location.py", "n @> _SEEN * sigma", ">=", "wide or narrow at the limit: both valid"),
    *(("tables/files.py", text, new, "how many blocks are read ahead") for text, new in (
        ("count = _AHEAD_BYTES // (@8 *", ""), ("count = @_AHEAD_BYTES", ""),
        ("count = _AHEAD_BYTES @// (8 *", ""), ("blocks, min(max(@1, count)", "2"),
    )),
    ("tables/files.py", "return parts if position @>=", ">", "in groups or in batches"),
    ("tables/files.py", "* len(parts) > @0 else None", "1", "in groups or in batches"),
    ("kernel/sums/products.py", "while stop @< len(rows) and", ">=", "slid along or added up"),
    *(("kernel/sums/signs.py", text, "", "how many features a panel has") for text in (
        "max(1, gram.PANEL_BYTES @// (8 *", "max(1, @gram.PANEL_BYTES", "// (8 @* (d - start)",
        "// (8 * (d @- start)",
    )),
    ("kernel/sums/products.py", "if too_fine or self.largest_square_norm", ">", "2**53 itself is exact"),
    ("kernel/accounting/budget.py", "math.sqrt(self.left) * (1 - 2.0**-50)", "1.8", "a wider margin"),
    ("kernel/accounting/budget.py", "(delta - numerical_delta) * (1 - 2.0**-50)", "1.8", "a wider margin"),
    *((f"fit/{name}.py", "+ rounded_normal(entropy.generator", "-", "noise is symmetric")
      for name in ("preparation", "norms", "complete")),
    ("kernel/sums/statistics.py", "to_disk(place.parent)", "", "a file is on the disk a little later"),
    ("kernel/noise/gumbel.py", "digits = max(0,", "1", "one more digit"),
    ("kernel/noise/normal.py", "_SLACK = Fraction(1, 10**12)", "11", "the error is below 1e-15"),
    ("kernel/noise/normal.py", "_SLACK = Fraction(1, 10**12)", "13", "the error is below 1e-15"),
    ("kernel/noise/gumbel.py", "items = items.where(low <= threshold)", "<", "keys tie with chance 0"),
    ("tables/files.py", "or tuple(spans[:1])", "2", "files without rows"),
    ("kernel/sums/signs.py", "p, q, out = positive[k : k + width]", "-", "kernels do not look at ends"),
    ("kernel/noise/normal.py", "COIN_MARGIN + widening * 2.0**-BITS", "1.8", "wider: more is exact"),
    ("kernel/noise/entropy.py", "x = np.zeros((16, _LANES)", "17", "a row that nobody reads"),
    ("tables/cluster.py", "rows = min(_ROWS_OF_PIECE", "", "how many rows a piece has"),
    ("kernel/sums/statistics.py", "gram.setflags(write=False)", "True", "it only warns who writes"),
    ("kernel/sums/products.py", "largest * self.size_range >= LARGEST_SUM", ">", "2**62 itself fits"),
    ("kernel/records/units.py", "if most_rows > 1:", ">=", "one row of a unit, either way"),
    ("tables/cluster.py", "fewest = max(_FEWEST_ROWS", "", "how many rows a piece has"),
    ("kernel/accounting/composition.py", "<= late < delta]", "<=", "it has an infinite epsilon"),
    ("kernel/noise/normal.py", "COIN_MARGIN + widening * 2.0**-BITS", "(BITS)", "wider: more is exact"),
    ("kernel/sums/signs.py", "if i + 1 < end:", "-", "it is added where nobody reads"),
    ("calibration.py", "while abs(unsafe - safe)", "", "tightness: safe has passed"),
    *(("kernel/accounting/composition.py", text, "", "both formulas hold there") for text in (
        "_SMALL_MU = 0.5", "if mu < _SMALL_MU", "_LARGEST_MU = 1e4", "_LARGEST_NEAR = 1e5",
        "_FAR = 50.0", "leggauss(20)", "_SMALLEST_ANGLE = 1e-150",
        "SMALLEST_MU = 1e-300",
    )),
    *(("kernel/accounting/composition.py", text, "", "any order, rate or share is valid") for text in (
        "_LATES = tuple(", "_LOG_ORDERS = np.linspace(",
        "_SMALLEST_SHARE = 1e-3", "_ANGLES = np.geomspace(1e-6",
        "<= late < delta]", "if late < _SMALLEST_SHARE * best",
    )),
    *(("kernel/accounting/composition.py", text, "", "errors are a tenth of it") for text in (
        "ROUNDING = 1e-11", "CLOCK_ROUNDING = 1e-12",
    )),
    ("kernel/accounting/composition.py", "for k in reversed(range(10))", "11", "a smaller term"),
    *(("kernel/accounting/ledger.py", "distance * (1 + 1e-12)", new, "a wide margin either way")
      for new in ("9e-13", "1.1000000000000002e-12")),
    ("kernel/sums/signs.py", "while start < d - 1:", "<=", "a panel without pairs more"),
    ("kernel/sums/signs.py", "np.concatenate(found) if len(found) != @1", "0", "joined, or as it is"),
    *(("kernel/sums/signs.py", "max(1, gram.PANEL_BYTES // (@8 *", new, "how many features a panel has")
      for new in ("7", "9")),
    ("kernel/sums/signs.py", "max(@1, gram.PANEL_BYTES // (8 *", "2", "how many features a panel has"),
    ("kernel/sums/signs.py", "most = TILE_BYTES * 8 //", "", "how many records wait"),
    ("kernel/sums/counts.py", "RowSums(count_rows, (), (1,)", "2", "a number that nobody reads"),
    ("fit/preparation.py", "size_range=1, size_cap=@1", "", "a number that nobody reads"),
    ("kernel/sums/statistics.py", "or d < 1 or size - start", "0", "refused below, in other words"),
    *(("tables/files.py", text, "", "how many rows are held at a time") for text in (
        "parts = self._parts(8)", "room = reader_bytes(d)", "room += (self.memory or 0)",
        "rows = room - 3 * threads()", "rows = max(1, rows // (value_bytes",
        "if last - first > 2 * rows", "half = last - first if",
        "if self._ahead and self.n_records",
        "step = max(1, _COLUMNS_BYTES",
        "if threads() == 1 or not self._ahead", "most = min(batch_rows(",
    )),
    *(("tables/cluster.py", text, "", "where copies are kept") for text in (
        "taken = dict.fromkeys(rooms", "for i in sorted(range(len(sizes))", "able = [place for",
        "place = min(able, key", "taken[place] += sizes", "if place not in held.keepers",
        "return {None: (_MOST_KEPT, 1)}", "int(_SHARE_KEPT *",
    )),
    *(("tables/cluster.py", "if data.numblocks[1] > 1:", new, "cut in the one block that it is")
      for new in (">=", "0")),
    ("tables/cluster.py", "data.to_delayed()[:, 0]", "(-1)", "the last of one block"),
    ("tables/cluster.py", "return PartitionUnits(np.zeros(0", "1", "a number that nobody reads"),
    ("kernel/records/units.py", "if most_rows > 1:", "0", "one row of a unit, either way"),
    ("kernel/records/units.py", "max(1, int(self._times.max(initial=0)))", "1", "at least 1, either way"),
    ("tables/codebook.py", "gaps, (name,))[:, 0]", "(-1)", "the last of one column"),
    *(("kernel/noise/gumbel.py", text, new, "words of -1, 0 and 1 are too near an end") for text, new in (
        ("below = words[item] >= 0", "(-1)"), ("below = words[item] >= 0", "1"),
        ("if words[item] >= 0 else _UPPER", "(-1)"), ("if words[item] >= 0 else _UPPER", ">"),
    )),
    ("kernel/noise/gumbel.py", "_UPPER_HALF = (-0.367, 3.5)", repr(3.5 * 1.1), "exact bounds decide"),
    *(("kernel/noise/gumbel.py", text, "", "exact bounds decide what is left")
      for text in ("_MOST_MOVES = 2", "if ruler.rate * abs(at_cut - ruler.reference) <= _NEAR")),
    *(("kernel/noise/gumbel.py", "prec=2 * uniform.length + digits + 25", new, "digits to spare")
      for new in ("3", "24", "26")),
    *(("kernel/noise/normal.py", "_SLACK = Fraction(1, 10**12)", new, "the error is below 1e-15")
      for new in ("2", "9")),
    ("kernel/noise/normal.py", "first, last = low + unit // 2", "-(-(unit) // (2))", "units are even"),
    *(("kernel/noise/normal.py", "for reached in range(len(LEVELS) - 1)", new, "the exact path meets it")
      for new in ("0", "2")),
    ("kernel/noise/normal.py", "unclear_place = beyond < widening", "<=", "wider: more is exact"),
    ("kernel/noise/normal.py", "place = _REJECTED if excess > 0.0", ">=", "a tie is decided exactly"),
    ("engines/int16.py", "squares = np.zeros((2, d)", "3", "a row that nobody reads"),
    ("kernel/sums/products.py", "while e + 1 < stop and rows[e] == rows[e + 1] == i", "!=",
     "one at a time: the same sums"),
    ("kernel/sums/signs.py", "if i + 1 < end:", "0", "it is added where nobody reads"),
    ("kernel/noise/gumbel.py", "_NEAR = _LIBRARY_ERROR", "", "exact bounds decide what is left"),
    *(("kernel/noise/normal.py", "while len(cumulated) <= k or len(cumulated) ** 2 < 5", new, why)
      for new, why in (("<=", "one weight more"), ("6", "some weights more"),
                       ("4", "what is left out is below the slack up to 800 bits"))),
    ("kernel/noise/normal.py", "_BUFFER = buffer_length(3 * _STREAM)", "4", "more room"),
    ("kernel/noise/normal.py", "if size >= _KEYED and has_keys", ">", "both have the law"),
    ("kernel/noise/normal.py", "unclear = np.empty((room, 4)", "5", "more room"),
    ("engines/int16.py", "_PAIRS = STRIP // 2", "-(-(STRIP) // (2))", "a strip has whole pairs"),
    ("engines/int16.py", "if end > 0:", ">=", "a chunk without pairs adds zeros"),
    ("engines/int16.py", "if end > 0:", "(-1)", "a chunk without pairs adds zeros"),
    ("kernel/sums/products.py", "if stop - e >= _WINDOW:", "", "slid along or added up: the same sums"),
    ("kernel/sums/products.py", "stop += 1", "-=", "slid along or added up: the same sums"),
    ("kernel/sums/products.py", "_WINDOW = 9", "", "slid along or added up: the same sums"),
    ("kernel/sums/products.py", "_NEAR = 8", "", "there is room for 22 squares whose products are exact"),
    *(("kernel/sums/signs.py", "return max(1, n_rows // CELL_ROWS)", new, "how many records wait")
      for new in ("2", "-(-(n_rows) // (CELL_ROWS))")),
    ("kernel/records/base.py", "complete = zeros_stay or not (", "and", "centred before or while summed"),
    ("kernel/records/base.py", "if complete and sums is not None and sums.centring", "is not",
     "centred before or while summed"),
    ("kernel/records/base.py", "self._check_gaps(block_function)", "pass", "the records inside check it"),
    ("kernel/records/base.py", "n_readings = -(-max(1,", "2", "a buffer holds more than two rows"),
    ("kernel/records/base.py", "ends = [self.n_records * k // n_readings",
     "-(-(self.n_records * k) // (n_readings))", "other rows in each reading"),
    *(("kernel/records/base.py", "if np.diff(self.unit_starts).max(initial=0)", new, "units have rows")
      for new in ("1", "(-1)")),
    *(("kernel/records/base.py", "if (np.diff(own) < 0).any():", new, "put in the order that they have")
      for new in ("<=", ">=", "1")),
    ("fit/location.py", "counts + noise.reshape(counts.shape)", "-", "noise is symmetric"),
    ("fit/quantiles.py", "(counts + noise).astype(np.float64)", "-", "noise is symmetric"),
    ("fit/scales.py", "counts += noise.reshape(counts.shape)", "-=", "noise is symmetric"),
    ("fit/preparation.py", "nowhere, nowhere, @1, 1, unit", "", "there are no pairs to weigh"),
    ("fit/preparation.py", "wanted.append(fourth_sums_of(", "pass", "summed later, the same"),
    *(("kernel/accounting/composition.py", text, new, "both formulas hold there") for text, new in (
        ("log_ratio = np.where(order < 2", "<="), ("log_ratio = np.where(order < 2", "3"),
        ("return np.where(x < 1.0", "0.9"), ("return np.where(x < 1.0", "<="),
        ("np.sinh(np.minimum(x, 1.0) / 2)", "1.1"), ("= np.minimum(x, 1.0) ** 2", "1.1"),
        ("x = np.maximum(x, 1.0)", "0.9"),
    )),
    ("kernel/accounting/composition.py", "_rounding_guard(1 + 1 / (order - 1))", "2", "a wider margin"),
    *(("kernel/accounting/composition.py", "trial = epsilon * (1 + 1e-9)", new, "any trial is valid")
      for new in ("9e-10", "1.1000000000000001e-09")),
    *(("kernel/accounting/composition.py", "epsilon * _REFUSED, 2.0 * epsilon", new, "where a search begins")
      for new in ("1.8", "2.2")),
    ("kernel/accounting/composition.py", "_HALVINGS = 50", "", "tightness: what is returned was accepted"),
    ("tables/files.py", "types.is_integer(column.type) or", "and", "Arrow makes the same numbers"),
    ("tables/files.py", "part._ahead = False", "True", "read ahead or not: the same rows"),
    ("tables/files.py", "if part.stop > start", ">=", "a part without rows more"),
    ("tables/files.py", "if first < last:", "<=", "a batch without rows more"),
    *(("kernel/records/compact.py", text, new, why) for text, new, why in (
        ("self.copy.most_bytes > 0", "1", "a copy has two bytes at least"),
        ("max(1, step)", "0", "blocks have rows"),
        ("max(1, step)", "2", "a step of one row is of a block of one row"),
        ("rows[integers[:, 0] == MISSING]", "(-1)", "all integers of such a row are MISSING"),
    )),
    ("kernel/sums/statistics.py", "gram.setflags(write=False)", "pass", "copied and read-only then"),
    ("kernel/sums/statistics.py", "if file.read(_CHECKSUM_BYTES + 1)", "0", "its size was compared"),
    ("kernel/sums/statistics.py", "if file.read(_CHECKSUM_BYTES + 1)", "2", "its size was compared"),
    ("kernel/sums/statistics.py", "json.dumps(about, allow_nan=False)", "True", "all are finite"),
    *(("engines/device.py", text, new, why) for text, new, why in (
        ("_PRODUCT_BYTES = 2**30", "", "how many rows are held at a time"),
        ("pin_memory=True", "False", "copied by way of other memory"),
        ("left = padded[:, : min(_tiled(n_rows)", "max", "rows that are cut off"),
    )),
    *(("kernel/noise/gumbel.py", "if sum(map(len, pool)) >= 2 * count", new, "sorted out now or later")
      for new in ("1", "3", ">")),
    ("kernel/noise/gumbel.py", "digits = max(0, Decimal(rate", "(-1)", "digits to spare"),
    ("kernel/noise/gumbel.py", "slack, unit = Decimal((0, (1,)", "2", "wider: more is exact"),
    ("kernel/noise/gumbel.py", "near = word ^ (word >> 63)", "62", "a cell of 2**62: within the error"),
    ("kernel/accounting/composition.py", "or parts.total_variation == 0", "(-1)", "found once more"),
    ("engines/int16.py", "strip, pair = a // STRIP", "-(-(a % STRIP) // (2))", "rows are even"),
    ("engines/int16.py", "if a + 1 < len(integers) else (nothing, 0)", "(-1)", "the only row"),
    *(("engines/int16.py", "rows, n_vectors = (8, 2) if lanes == 16", new, "the shape of a tile")
      for new in ("!=", "1")),
    ("kernel/sums/signs.py", "if i + 1 < end:", "<=", "it is added where nobody reads"),
)  # fmt: skip


# Which lines


def _decorators(node: ast.AST) -> set[str]:
    found = [d.func if isinstance(d, ast.Call) else d for d in getattr(node, "decorator_list", ())]
    return {ast.unparse(each) for each in found}


def _has_section(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return False
    return any(line.strip() == "Privacy" for line in (ast.get_docstring(node) or "").splitlines())


def _called(node: ast.AST) -> set[str]:
    return {
        getattr(each.func, "id", getattr(each.func, "attr", ""))
        for each in ast.walk(node)
        if isinstance(each, ast.Call)
    }


def functions_of(tree: ast.Module) -> dict[str, Function]:
    """Return functions of a module and methods of its classes, by qualified name."""
    found = {node.name: node for node in tree.body if isinstance(node, Function)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{f.name}": f for f in node.body if isinstance(f, Function)}
    return found


def lines_of(
    source: str, constants: bool = True, helpers: bool = True, sums: bool = False
) -> set[int]:
    """Return the lines of a module that privacy rests on.

    - functions and classes with a section `Privacy`, functions with a line of its own for the mark
      `# proof: step N`, compiled kernels, with `sums` all functions, and private functions that all
      these call; without `helpers` not these, nor what follows the last draw;
    - statements with such a mark, that bound, charge or draw (`BEARING`), or that have a margin for
      roundings (`MARGINS`);
    - constants of the module that kernels name, or with `constants` all these functions, but for
      those that decide how fast it is (`SPEED`).
    """
    tree, lines = ast.parse(source), source.splitlines()
    marked = {i for i, line in enumerate(lines, 1) if "# proof: step" in line}
    alone = {i for i in marked if lines[i - 1].strip().startswith("#")}
    functions = functions_of(tree)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    whole = {node.name for node in classes if _has_section(node)}
    kernels = {name for name, node in functions.items() if sums or _decorators(node) & KERNELS}
    chosen = kernels | {
        name
        for name, node in functions.items()
        if _has_section(node)
        or name.split(".")[0] in whole
        or name in BEARING
        or alone & _span(node)
    }
    waiting = list(chosen) if helpers else []
    while waiting:
        called = _called(functions[waiting.pop()])
        more = {n for n in functions if (own := n.split(".")[-1]) in called and own[0] == "_"}
        more = {name for name in more - chosen - SPEED if not name.endswith("__")}
        waiting += more
        chosen |= more
    named = _names(*(functions[name] for name in (chosen if constants else kernels))) - SPEED
    found = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            above = marked & {node.lineno - 1} & alone
            if above or marked & _span(node) or _called(node) & BEARING or _names(node) & MARGINS:
                found |= _span(node)
    for name in chosen:
        body = _span(functions[name], inside=True)
        last = max(body if helpers else body & found or body)
        found |= {line for line in body if line <= last}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if _names(*targets) & named:
                found |= _span(node)
    return found


def _span(node: Any, inside: bool = False) -> set[int]:
    first = node.body[0].lineno if inside else node.lineno
    return set(range(first, node.end_lineno + 1))


def _names(*nodes: ast.AST) -> set[str]:
    every = (each for node in nodes for each in ast.walk(node))
    return {each.id for each in every if isinstance(each, ast.Name)}


# Which faults

_OTHER: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("/",),
    ast.Div: ("*",),
    ast.FloorDiv: ("*",),
    ast.Mod: ("*",),
    ast.Pow: ("*",),
    ast.LShift: (">>",),
    ast.RShift: ("<<",),
    ast.BitAnd: ("|",),
    ast.BitOr: ("&",),
    ast.BitXor: ("&",),
}
_SWAPPED = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil", "any": "all"} | {
    "minimum": "maximum", "maximum": "minimum", "all": "any", "rint": "floor", "trunc": "ceil"
}  # fmt: skip
_DROPPED = {"abs", "fabs", "sqrt", "shared", "isqrt", "rint", "trunc", "floor", "ceil"}


class _Faults(ast.NodeVisitor):
    """Collects the faults of one module that are on given lines."""

    def __init__(self, path: str, source: bytes, lines: set[int]) -> None:
        self.path, self.source, self.lines = path, source, lines
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.owner, self.inside, self.found = "", False, list[Fault]()

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def span(self, node: Any) -> tuple[int, int]:
        return (
            self.at(node.lineno, node.col_offset),
            self.at(node.end_lineno, node.end_col_offset),
        )

    def text(self, node: ast.AST) -> str:
        start, stop = self.span(node)
        return self.source[start:stop].decode()

    def add(self, kind: str, start: int, stop: int, new: str) -> None:
        line = self.source[:start].count(b"\n") + 1
        old = self.source[start:stop].decode()
        if line in self.lines and old != new and old.count("\n") == new.count("\n"):
            self.found.append(Fault(self.path, line, start, stop, kind, old, new, self.owner))

    def instead(self, kind: str, node: ast.AST, new: str) -> None:
        start, stop = self.span(node)
        lost = self.source[start:stop].decode().count("\n") - new.count("\n")
        self.add(kind, start, stop, new + "\n" * max(0, lost) if kind == "deleted" else new)

    def between(self, kind: str, left: ast.AST, right: ast.AST, new: Iterable[str]) -> None:
        """Change the operator that stands between two expressions."""
        start, stop = self.span(left)[1], self.span(right)[0]
        gap = self.source[start:stop].decode()
        word = gap.strip(" ()\n")
        if word:
            place = start + len(gap[: gap.index(word)].encode())
            for each in new:
                self.add(kind, place, place + len(word.encode()), each)

    def visit_FunctionDef(self, node: Function) -> None:
        """Visit bodies alone: no decorators, annotations or defaults."""
        outer, was = self.owner, self.inside
        if not self.inside:
            self.owner, self.inside = f"{outer}.{node.name}" if outer else node.name, True
        for each in node.body[ast.get_docstring(node) is not None :]:
            self.visit(each)
        self.owner, self.inside = outer, was

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Remember the class."""
        outer, self.owner = self.owner, node.name
        for each in node.body[ast.get_docstring(node) is not None :]:
            self.visit(each)
        self.owner = outer

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave words."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """Leave `zip(strict=True)`: lengths that differ are a mistake elsewhere."""
        if node.arg != "strict":
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Raise nothing."""
        self.instead("deleted", node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave a call out."""
        if isinstance(node.value, ast.Call):
            self.instead("deleted", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Change what is added."""
        start, stop = self.span(node.target)[1], self.span(node.value)[0]
        gap = self.source[start:stop].decode()
        if (sign := gap.strip(" ()\n"))[:-1] and type(node.op) in _OTHER:
            place = start + gap.index(sign)
            self.add("operator", place, place + len(sign), _OTHER[type(node.op)][0] + "=")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Change comparisons."""
        for left, op, right in zip(
            [node.left, *node.comparators[:-1]], node.ops, node.comparators, strict=True
        ):
            self.between("comparison", left, right, _OTHER[type(op)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Change signs and operators; leave a margin out."""
        self.between("operator", node.left, node.right, _OTHER.get(type(node.op), ()))
        named = isinstance(node.right, ast.Name) and node.right.id.isupper()
        if named and isinstance(node.op, ast.Mult | ast.Div):
            self.instead("margin", node, self.text(node.left))
        if isinstance(node.op, ast.FloorDiv):
            new = f"-(-({self.text(node.left)}) // ({self.text(node.right)}))"
            self.instead("rounding", node, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Swap and, or."""
        new = "or" if isinstance(node.op, ast.And) else "and"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between("logic", left, right, [new])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Drop a sign or a negation."""
        if isinstance(node.op, ast.USub | ast.Not):
            self.instead("sign" if isinstance(node.op, ast.USub) else "logic", node,
                         f"({self.text(node.operand)})")  # fmt: skip
        if not isinstance(node.operand, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Make numbers a little larger and smaller."""
        value = node.value
        if isinstance(value, bool):
            self.instead("constant", node, str(not value))
        elif isinstance(value, int):
            for new in (value + 1, value - 1):
                self.instead("constant", node, str(new) if new >= 0 else f"({new})")
        elif isinstance(value, float):
            for factor in (1.1, 0.9) if value else ():
                self.instead("constant", node, repr(value * factor))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Leave places in tuples: what is at another place fails at once."""
        self.visit(node.value)
        if not isinstance(node.slice, ast.Constant):
            self.visit(node.slice)

    def visit_If(self, node: ast.If) -> None:
        """Take the other branch."""
        if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            self.instead("logic", node.test, f"not ({self.text(node.test)})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Swap or drop functions, and what `moved` is told."""
        own = node.func.attr if isinstance(node.func, ast.Attribute) else self.text(node.func)
        if own in _SWAPPED:
            stop = self.span(node.func)[1]
            self.add("function", stop - len(own), stop, _SWAPPED[own])
        if own in _DROPPED and len(node.args) == 1 and not node.keywords:
            self.instead("function", node, f"({self.text(node.args[0])})")
        given = {each.arg: each.value for each in node.keywords}
        if own == "moved" and len(given) == 2:
            for one, other in (("replaced", "removed"), ("removed", "replaced")):
                self.instead("relation", given[one], self.text(given[other]))
        self.generic_visit(node)


def faults_of(path: str, source: bytes | None = None) -> list[Fault]:
    """Return the faults of a module that compile."""
    source = (SOURCE / path).read_bytes() if source is None else source
    constants, helpers = path.startswith(CONSTANTS), not path.startswith(RELEASING)
    lines = lines_of(source.decode(), constants, helpers, path.startswith("kernel/sums/"))
    if path in WHOLE:
        lines = set(range(1, 1 + source.count(b"\n")))
    finder = _Faults(path, source, lines)
    finder.visit(ast.parse(source))
    return finder.found


def modules(packages: Iterable[str] = PACKAGES) -> list[str]:
    """Return the modules of packages that run anywhere, as paths."""
    paths = [path for name in packages for path in sorted((SOURCE / name).rglob("*.py"))]
    found = [str(path.relative_to(SOURCE)) for path in paths]
    return [each for each in found if each not in NEEDS_GPU]


# How one is planted into a process that has everything loaded

Key = tuple[str, str]  # a file and the qualified name of an outermost function


def key_of(code: CodeType) -> Key:
    """Return the outermost function of a code."""
    return code.co_filename, code.co_qualname.split(".<locals>")[0]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType) and "<locals>" not in each.co_qualname:
            yield each
            yield from _codes(each)


def _all_names(code: CodeType) -> set[str]:
    """Return what a code names, and those inside it: an intrinsic makes its machine code there."""
    inside = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_all_names, inside))


class Process:
    """Functions and kernels of hushcov as they are in this process."""

    def __init__(self) -> None:
        from hushcov import _compiled

        self._later = _compiled._Later
        self._call = self._later.__call__.__code__
        self.functions: dict[Key, list[FunctionType]] = {}
        self.kernels: list[Any] = []
        self.forgotten = 0  # kernels that a fault is in
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename.startswith(str(SOURCE)):
                if "<locals>" not in each.__code__.co_qualname:
                    self.functions.setdefault(key_of(each.__code__), []).append(each)
            elif type(each) is self._later:
                self.kernels.append(each)

    def seen(self, frame: Any) -> CodeType:
        """Return the code that a call runs, of a kernel the kernel's."""
        code: CodeType = frame.f_code
        if code is self._call:
            code = frame.f_locals["self"]._function.__code__
        return code

    def callees(self, keys: set[Key]) -> set[Key]:
        """Add kernels that kernels call."""
        known = {key_of(each._function.__code__): each for each in self.kernels}
        waiting = [known[key] for key in keys if key in known]
        found = set(keys)
        while waiting:
            function = waiting.pop()._function
            for name in function.__code__.co_names:
                each = function.__globals__.get(name)
                if isinstance(each, self._later):
                    key = key_of(each._function.__code__)
                    if key not in found:
                        found.add(key)
                        waiting.append(each)
        return found

    def plant(self, fault: Fault) -> bool:
        """Change the code, and forget what was made from it; return whether that is possible."""
        filename = str(SOURCE / fault.path)
        source = fault.planted()
        names: set[str] = set()
        if (filename, fault.owner) in self.functions:
            new = {key_of(each): each for each in _codes(compile(source, filename, "exec"))}
            for function in self.functions[filename, fault.owner]:
                if function.__code__.co_freevars != new[filename, fault.owner].co_freevars:
                    return False  # `super()` left out
                function.__code__ = new[filename, fault.owner]
        elif fault.owner:
            return False  # the body of a class
        else:
            names = _set_constants(fault, source)
        self._forget((filename, fault.owner), names)
        return True

    def _forget(self, key: Key, names: set[str]) -> None:
        """Compile kernels again that have the fault, and those that call them, not on the disk."""
        import numba

        touched: list[Any] = []

        def reached(kernel: Any) -> bool:
            function = kernel._function
            named = _all_names(function.__code__)
            if key_of(function.__code__) == key or names & named:
                return True
            known = [function.__globals__.get(name) for name in named]
            return any(any(one is each for one in known) for each in touched)

        more = True
        while more:
            new = [each for each in self.kernels if each not in touched and reached(each)]
            touched += new
            more = bool(new)
        for each in touched:
            each._made.clear()
        self.forgotten = len(touched)
        keys = {key_of(each._function.__code__) for each in touched}
        njit: Any = numba.njit

        def uncached(*given: Any, **options: Any) -> Any:
            if given:  # by numba itself
                return njit(*given, **options)
            return lambda function: njit(
                **options
                | {"cache": options.get("cache") and key_of(function.__code__) not in keys}
            )(function)

        vars(numba)["njit"] = uncached
        clear_caches()


def _set_constants(fault: Fault, source: bytes) -> set[str]:
    """Give constants of a module their new values, wherever they were imported."""
    module = sys.modules["hushcov." + fault.path.removesuffix(".py").replace("/", ".")]
    changed: set[str] = set()
    for node in ast.parse(source).body:
        if node.lineno <= fault.line <= (node.end_lineno or 0):
            known = dict(vars(module))
            exec(compile(ast.Module([node], []), str(SOURCE / fault.path), "exec"), known)
            for name, value in known.items():
                old = vars(module).get(name)
                if value is old or name.startswith("__builtins"):
                    continue
                changed.add(name)
                for each in list(sys.modules.values()):
                    if getattr(each, "__name__", "").startswith("hushcov") and (
                        vars(each).get(name) is old
                    ):
                        setattr(each, name, value)
    return changed


def clear_caches(packages: Iterable[str] = ("",)) -> None:
    """Empty the caches of functions."""
    for name, module in list(sys.modules.items()):
        if any(name.startswith(f"hushcov.{each}" if each else "hushcov") for each in packages):
            for value in list(vars(module).values()):
                own = vars(value).values() if isinstance(value, type) else ()
                for each in (value, *own):
                    function = getattr(each, "__func__", each)
                    if callable(clear := getattr(function, "cache_clear", None)):
                        clear()


# Which tests

REPLAY, PRIVACY, OTHER, SLOW, NONE = "replay", "privacy", "other", "slow", "none"
TIERS = (REPLAY, PRIVACY, OTHER)
LOADING, NOT_PLANTED = "loading", "not planted"
PAIRS, MOST_ANEW = 60, 40
WARM = 15  # pairs that load kernels
STILL = 8.0  # seconds after which a copy that sleeps is ended
TESTS = (
    *(f"tests/{each}" for each in ("noise", "accounting", "fit", "sums", "tables")),
    *("lab/tests/audit", "tests/mutation", "tests/estimators/test_units_sources.py"),
)
#: Tests of laws, sensitivities, accounts and attacks: by folder, or by what they import.
_OF_PRIVACY = ("noise/", "accounting/", "lab/tests/audit/", "mutation/", "test_neighbours")
_HELPERS = ("coupling", "movements", "statistics_helpers")


def tier_of(path: Path) -> str:
    """Return the kind of the tests in a file."""
    if path == Path(__file__):
        return REPLAY
    if any(each in str(path) for each in _OF_PRIVACY):
        return PRIVACY
    tree = ast.parse(path.read_text())
    imported = {each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    return PRIVACY if imported & set(_HELPERS) else OTHER


def pytest_generate_tests(metafunc: Any) -> None:
    """Give `test_pair` its pairs."""
    if "case" in metafunc.fixturenames:
        from hushcov_lab.audit.neighbours import some_cases

        cases = list(some_cases(4000, 7))
        random.Random(0).shuffle(cases)
        metafunc.parametrize("case", cases[:PAIRS], ids=map(str, range(PAIRS)))


def test_pair(case: Any, tmp_path: Path) -> None:
    """Replay one pair of `hushcov audit replay`."""
    from hushcov_lab.audit.neighbours import replay_case

    assert not replay_case(case, tmp_path / "case").faults


@dataclass
class Known:
    """What is known of a test."""

    tier: str
    seconds: float
    calls: set[Key]
    stamp: float = 0.0  # of the file of the test


class Server:
    """A plugin of pytest that collects tests, learns what they call, and tries faults with them."""

    def __init__(
        self,
        faults: list[Fault],
        output: Path,
        most: dict[str, float],
        longest: float,
        again: bool = False,
        cases: int | None = None,
        slow: bool = False,
    ) -> None:
        self.faults, self.output, self.most, self.longest = faults, output, most, longest
        self.again, self.cases, self.slow = again, cases, slow
        self.known: dict[str, Known] = {}
        self.caught: Counter[tuple[str, str]] = Counter()  # by file and test
        self.sound: dict[str, bool] = {}  # whether a test passes in a copy without a fault
        self.results: dict[str, dict[str, Any]] = {}

    def pytest_configure(self) -> None:
        """Let Hypothesis try the same every time, write nothing and not shrink."""
        from hypothesis import Phase, settings

        usual: dict[str, Any] = {"deadline": None, "database": None, "derandomize": True}
        settings.register_profile("mutation", phases=(Phase.explicit, Phase.generate), **usual)
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: Any) -> bool:
        """Learn, then try every fault."""
        self.items = {item.nodeid: item for item in _some(session.items, self.cases)}
        self.process = Process()
        self.results = {each["name"]: each for each in results_of(self.output)}
        self.learn()
        self.process = Process()  # with what was loaded meanwhile
        cluster = str(SOURCE / "tables" / "cluster.py")
        for nodeid, known in self.known.items():  # a copy has no threads to wait for
            if known.tier == REPLAY and any(file == cluster for file, _ in known.calls):
                self.sound[nodeid] = False
        gc.freeze()
        for number, fault in enumerate(self.faults, 1):
            known = self.results.get(fault.name)
            if known and not (self.again and known["tier"] in (NONE, NOT_PLANTED)):
                continue
            found = self.try_fault(fault)
            if self.slow and found["tier"] in (NONE, NOT_PLANTED) and not explanation(fault):
                found |= self.try_anew(fault)
            self.results[fault.name] = found
            with self.output.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(f"{number}/{len(self.faults)} {found['tier']:8} {fault.name}", flush=True)
        return True

    def try_anew(self, fault: Fault) -> dict[str, Any]:
        """Return what catches a fault in a new process, with slow tests of its package."""
        chosen = [each for each in self.chosen(fault) if self.known[each].tier != REPLAY]
        if chosen and (by := caught_anew(fault, chosen[:MOST_ANEW])):
            return {
                "tier": PRIVACY if tier_of(ROOT / by.split("::")[0]) == PRIVACY else OTHER,
                "by": by,
            }
        tests = ["tests/golden", f"tests/{fault.path.split('/')[0]}"]
        by = caught_anew(fault, tests, "slow")
        return {"tier": SLOW if by else NONE, "by": by}

    def run(self, nodeid: str) -> bool:
        """Run a test; return whether it passes."""
        from _pytest.runner import runtestprotocol

        reports = runtestprotocol(self.items[nodeid], nextitem=None, log=False)
        return all(report.passed for report in reports)

    def learn(self) -> None:
        """Run every test once; remember its time and what it calls."""
        kept = self.output.with_suffix(".tests")
        if kept.exists():
            self.known = pickle.loads(kept.read_bytes())
        tiers: dict[Path, str] = {}
        for nodeid, item in self.items.items():
            known, stamp = self.known.get(nodeid), item.path.stat().st_mtime
            fresh = known and (stamp == known.stamp or item.path == Path(__file__))
            if known and fresh and not (self.again and known.seconds == math.inf):
                if known.tier == REPLAY and int(item.callspec.id) < WARM:
                    self.run(nodeid)  # loads kernels
                continue
            codes: dict[int, CodeType] = {}

            def see(frame: Any, event: str, argument: Any, codes: Any = codes) -> None:
                if frame.f_code.co_filename.startswith(str(SOURCE)):
                    code = self.process.seen(frame)
                    codes[id(code)] = code

            clear_caches(PACKAGES)
            start = time.process_time()
            signal.signal(signal.SIGPROF, _too_long)
            signal.setitimer(signal.ITIMER_PROF, self.longest)
            threading.settrace(see)
            sys.settrace(see)
            try:
                passed = self.run(nodeid)
            except TimeoutError:
                passed = False
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                sys.settrace(None)
                threading.settrace(None)
            seconds = time.process_time() - start
            path = Path(item.path)
            tiers.setdefault(path, tier_of(path))
            calls = self.process.callees({key_of(code) for code in codes.values()})
            self.known[nodeid] = Known(tiers[path], seconds if passed else math.inf, calls, stamp)
            print(f"{self.known[nodeid].seconds:6.2f} {nodeid}", flush=True)
            if len(self.known) % 50 == 0:
                kept.write_bytes(pickle.dumps(self.known))
        kept.write_bytes(pickle.dumps(self.known))

    def chosen(self, fault: Fault) -> list[str]:
        """Return tests that call what a fault is in, those that found others and quick ones first.

        Where none was seen to call it, as in other threads, those that call anything of its module.
        """
        file, usable = str(SOURCE / fault.path), self.known.keys() & self.items.keys()
        usable = {nodeid for nodeid in usable if self.sound.get(nodeid, True)}
        own = {nodeid for nodeid in usable if (file, fault.owner) in self.known[nodeid].calls}
        if not own:
            own = {i for i in usable if any(key[0] == file for key in self.known[i].calls)}
        found = []
        for tier in TIERS:
            ordered = sorted(
                (nodeid for nodeid in own if self.known[nodeid].tier == tier),
                key=lambda i: (self.known[i].seconds / (1 + self.caught[fault.path, i]), i),
            )
            spent = 0.0
            for nodeid in ordered:
                spent += self.known[nodeid].seconds
                if spent > self.most[tier]:
                    break
                found.append(nodeid)
        return found

    def try_fault(self, fault: Fault) -> dict[str, Any]:
        """Return what catches a fault."""
        start = time.time()
        while True:
            chosen = self.chosen(fault)
            by = self.in_copy(chosen, fault)
            if by is None or by in (LOADING, NOT_PLANTED):
                tier = {None: NONE, LOADING: OTHER}.get(by, NOT_PLANTED)
                break
            if by not in self.sound:
                self.sound[by] = self.in_copy([by]) is None
            if self.sound[by]:
                self.caught[fault.path, by] += 1
                tier = self.known[by].tier
                break
        return asdict(fault) | {
            "name": fault.name,
            "tier": tier,
            "by": by,
            "tests": len(chosen),
            "seconds": round(time.time() - start, 1),
        }

    def in_copy(self, chosen: list[str], fault: Fault | None = None) -> str | None:
        """Run tests in a copy of this process; return the first that fails or does not end."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._child(chosen, fault, writing)
        os.close(writing)
        text, used, still = b"", -1.0, 0.0
        while True:
            if select.select([reading], [], [], 2.0)[0]:
                if not (more := os.read(reading, 2**16)):
                    break
                text, still = text + more, 0.0
                continue
            before, (asleep, used) = used, _state_of(child)
            still = still + 2.0 if asleep and used == before else 0.0
            if still > STILL:
                os.kill(child, signal.SIGKILL)  # waits for a thread that this process had
                break
        os.close(reading)
        _, status = os.waitpid(child, 0)
        lines = text.decode().split("\n")
        said = [line for line in lines if line]
        if said and said[-1] == "done":
            return None
        if not said:
            raise RuntimeError(f"a copy ended with {status} before a test, for {fault}")
        return said[-1]

    def _child(self, chosen: list[str], fault: Fault | None, writing: int) -> None:
        """Run tests, say each before it begins, and end."""
        try:
            errors, quiet = os.dup(2), os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            if "dask.threaded" in sys.modules:  # threads of its pools are not in a copy
                dask: Any = sys.modules["dask.threaded"]
                dask.default_pool = None
                dask.pools.clear()
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + 3 * 2**30, size + 3 * 2**30))
            if fault is not None:
                os.write(writing, f"{LOADING}\n".encode())
                if not self.process.plant(fault):
                    os.write(writing, f"{NOT_PLANTED}\n".encode())
                    os._exit(0)
            patience = 20 if self.process.forgotten else 8  # to compile kernels
            for nodeid in chosen:
                os.write(writing, nodeid.encode() + b"\n")
                signal.setitimer(signal.ITIMER_PROF, patience + 5 * self.known[nodeid].seconds)
                if not self.run(nodeid):
                    os._exit(1)
            os.write(writing, b"done\n")
        except BaseException as error:  # a fault may do anything
            os.write(errors, f"{error!r}\n".encode())
            os._exit(2)
        os._exit(0)


def caught_anew(fault: Fault, tests: list[str], marks: str = "not slow") -> str | None:
    """Run tests in a new process that has a changed copy of the tree; return the first that fails.

    Nothing that was computed before is kept: constants of modules, of tests, and bodies of classes.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        kept = shutil.copytree(SOURCE.parent, copy)  # with compiled kernels and the times of files
        path = copy / "hushcov" / fault.path
        path.write_bytes(fault.planted())
        if path.is_relative_to(copy / "hushcov" / "kernel") or path.parent.name in (
            "engines",
            "tables",
        ):
            for each in kept.rglob("*.nb?"):
                each.unlink()  # kernels that call a changed one have it inside
        command = [sys.executable, "-m", "pytest", "-xq", "-n", "0", "-m", marks, *tests]
        command += ["-p", "no:cacheprovider", "--basetemp", str(Path(folder) / "tests")]
        environment = os.environ | {"PYTHONPATH": str(copy)}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode in (0, 5):
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" ")[1] if failed else LOADING


def _some(items: list[Any], cases: int | None) -> list[Any]:
    """Return so many cases of every test with parameters, spread evenly; all pairs and limits."""
    groups: dict[tuple[Any, str], list[Any]] = {}
    for item in items:
        groups.setdefault((item.path, item.originalname), []).append(item)
    found = []
    for (path, _), own in groups.items():
        whole = path == Path(__file__) or path.parent.name == "mutation"
        few = cases is not None and len(own) > cases and not whole
        found += [own[i * len(own) // cases] for i in range(cases)] if few and cases else own
    return found


def _state_of(process: int) -> tuple[bool, float]:
    """Return whether a process sleeps, and what it and those that it waited for have computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return fields[0] == "S", float(sum(map(int, fields[11:15])))


def _too_long(*_: object) -> None:
    raise TimeoutError("this test takes too long to be used")


def wilson(hits: int, number: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval of a share."""
    share, more = hits / number, z * z / number
    middle = (share + more / 2) / (1 + more)
    half = z / (1 + more) * math.sqrt(share * (1 - share) / number + more / number / 4)
    return middle - half, middle + half


@dataclass
class Score:
    """How many faults were caught, and by what."""

    tiers: Counter[str]
    explained: int

    @property
    def tried(self) -> int:
        """Faults that change something."""
        return self.tiers.total() - self.explained

    @property
    def caught(self) -> int:
        """Those that some test finds."""
        return self.tiers.total() - self.tiers[NONE]

    def row(self, name: str, lines: int, faults: int) -> str:
        """Return a row of the table in docs/audit.md."""
        counts = [self.tiers[tier] for tier in (REPLAY, PRIVACY, OTHER, SLOW)]
        left = self.tiers[NONE] - self.explained
        share = self.caught / self.tried if self.tried else math.nan
        cells = [lines, faults, self.tiers.total(), *counts, self.explained, left, f"{share:.3f}"]
        return " | ".join(["", name, *map(str, cells), ""]).strip()


def results_of(output: Path) -> list[dict[str, Any]]:
    """Read a file of results: the last of each fault."""
    lines = output.read_text().splitlines() if output.exists() else []
    return list({(each := json.loads(line))["name"]: each for line in lines}.values())


def report(faults: list[Fault], results: list[dict[str, Any]]) -> str:
    """Return the table of a run, the score with its interval, and what is left to explain."""
    known = {fault.name: fault for fault in faults}
    tried = [each for each in results if each["name"] in known and each["tier"] != NOT_PLANTED]
    scores: dict[str, Score] = {}
    left = []
    for each in tried:
        for name in (each["path"].split("/")[0], "all"):
            score = scores.setdefault(name, Score(Counter(), 0))
            score.tiers[each["tier"]] += 1
            why = explanation(known[each["name"]]) if each["tier"] == NONE else None
            score.explained += why is not None
            if name == "all" and each["tier"] == NONE:
                left.append(f"{each['name']}: {why or 'NOT EXPLAINED'}")
    heads = ["package", "lines", "faults", "tried", REPLAY, PRIVACY, OTHER, SLOW]
    rows = [" | ".join(["", *heads, "change nothing", "none", "score", ""]).strip()]
    for name, score in scores.items():
        own = [each for each in faults if name in ("all", each.path.split("/")[0])]
        rows.append(score.row(name, len({(each.path, each.line) for each in own}), len(own)))
    whole = scores["all"]
    low, high = wilson(whole.caught, whole.tried)
    share = whole.caught / whole.tried
    rows.append(f"score {share:.3f}, 95 % interval {low:.3f} to {high:.3f}")
    return "\n".join([*rows, "", *sorted(left)])


def explanation(fault: Fault) -> str | None:
    """Return why a fault changes no guarantee, where that was found out."""
    source = (SOURCE / fault.path).read_bytes()
    line = source.splitlines()[fault.line - 1].decode()
    column = fault.start - source.rfind(b"\n", 0, fault.start) - 1
    for path, text, new, why in EXPLAINED:
        before, mark, _ = text.partition("@")
        place = line.find(text.replace("@", "", 1) if mark else text)
        here = not mark or place + len(before) == column
        if path == fault.path and place >= 0 and here and new in ("", fault.new):
            return why
    return None


def sampled(faults: list[Fault], number: int | None, seed: int = 0) -> list[Fault]:
    """Return so many faults, of every module and kind in proportion."""
    if number is None or number >= len(faults):
        return faults
    shuffled = sorted(faults, key=lambda each: each.name)
    random.Random(seed).shuffle(shuffled)
    shuffled.sort(key=lambda each: (each.path, each.kind))  # stable: at random within
    step = len(shuffled) / number
    first = random.Random(seed + 1).random() * step
    found = [shuffled[int(first + i * step)] for i in range(number)]
    random.Random(seed).shuffle(found)  # what was tried when it is stopped is a sample, too
    return found


def main() -> None:
    """List faults, or try them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="list lines and faults alone")
    parser.add_argument(
        "--module", action="append", help="such as kernel/noise/normal.py; may be repeated"
    )
    parser.add_argument("--tests", action="append", help="folders or files of tests")
    parser.add_argument("--sample", type=int, help="try so many, of every module and kind")
    parser.add_argument("--new-to", type=Path, action="append", default=[],
                        help="leave out what a file of results has; may be repeated")  # fmt: skip
    parser.add_argument("--again", action="store_true", help="try once more what no test found")
    parser.add_argument("--slow", action="store_true", help="then in a new process, and slow tests")
    parser.add_argument("--report", action="store_true", help="print the table of --output alone")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--cases", type=int, help="parameters of a test that are used, at most")
    parser.add_argument("--longest", type=float, default=20.0, help="seconds of a test, at most")
    parser.add_argument("--most", type=float, default=30.0, help="seconds of tests for a fault")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "mutation.json")
    options = parser.parse_args()
    paths = options.module or modules()
    faults = [fault for path in paths for fault in faults_of(path)]
    seen = {each["name"] for path in options.new_to for each in results_of(path)}
    faults = [fault for fault in faults if fault.name not in seen]
    if options.again:
        left = {e["name"] for e in results_of(options.output) if e["tier"] in (NONE, NOT_PLANTED)}
        faults = [fault for fault in faults if fault.name in left and not explanation(fault)]
    if options.list:
        for fault in faults:
            print(fault.name)
        lines = len({(each.path, each.line) for each in faults})
        print(f"{lines} lines, {len(faults)} faults")
        return
    if options.report:
        print(report(faults, results_of(options.output)))
        return
    import pytest

    options.output.parent.mkdir(parents=True, exist_ok=True)
    most = {REPLAY: options.most / 3, PRIVACY: options.most, OTHER: options.most}
    how = (options.longest, options.again, options.cases, options.slow)
    server = Server(sampled(faults, options.sample, options.seed), options.output, most, *how)
    tests = [str(ROOT / each) for each in options.tests or TESTS]
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["-q", "-n0", "-pno:cacheprovider", "--capture=sys", f"--basetemp={folder}"]
        pytest.main([*arguments, __file__, *tests], plugins=[server])
    print("the table: --report")


if __name__ == "__main__":
    main()
