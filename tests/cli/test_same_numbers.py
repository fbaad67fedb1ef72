"""A number that a release is asked for is the same wherever it appears.

Every place that shows numbers of a release is read: what `fit` and `show` print, the answers of
`ask`, the report, exported tables, the files of the folder, and the methods of what `load` returns.
Each number has a label, such as ("correlation", "a", "b"), and those of one label must agree up to
the digits that are shown.
"""

import json
import math
import re
from collections import defaultdict
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas
import pytest

import hushcov
from hushcov.release.view import (
    COLUMN_NOT_FOUND,
    CONSTANT_COLUMN,
    MAY_BE_ZERO,
    NONZERO,
    NOT_KNOWN,
    UNRELIABLE,
    View,
)
from hushcov.simulate import gaussian_records, sparse_covariance

FULL = 15  # digits of a double that is written in full
NAMES = [f"c{i}" for i in range(8)]
BUDGET = ("--epsilon", 2, "--delta", 1e-6)
EVERY = {
    "adaptive, sparse": (),
    "adaptive, dense": (),
    "gaussian": ("--mechanism", "gaussian"),
    "band of candidates": ("--bandwidth", 2),
    "units": ("--unit", "who", "--max-rows-per-unit", 2),
    "add-remove": ("--neighbours", "add-remove"),
    "gaps": (),
    "no nulls": ("--no-nulls",),
    "screened": ("--mechanism", "screened", "--row-sparsity", 3),
    "no noise level": ("--mechanism", "separate", "--allow", "hopeless"),
}
SHOWN = "correlation", "lower", "upper"
STATUS = NONZERO, MAY_BE_ZERO, UNRELIABLE, CONSTANT_COLUMN, COLUMN_NOT_FOUND, NOT_KNOWN


class Numbers:
    """Numbers by label, each with the place that shows it and the digits that it shows."""

    def __init__(self) -> None:
        self.found = defaultdict(list)

    def add(self, label, value, where, digits=FULL) -> None:
        if label[0] == "status":
            value = float(STATUS.index(value))
        elif isinstance(value, str):
            value = float(value.replace(",", "").replace("\N{MINUS SIGN}", "-"))
        if value is not None and not math.isnan(value):
            self.found[label].append((float(value), digits, where))

    def disagreements(self) -> list[str]:
        return [
            f"{label}: {first[0]:.10g} in {first[2]}, {other[0]:.10g} in {other[2]}"
            for label, (first, *others) in self.found.items()
            for other in others
            if not agree(first, other)
        ]

    def places(self, name: str) -> set[str]:
        return {
            where for label, each in self.found.items() if label[0] == name for _, _, where in each
        }


def agree(one, other) -> bool:
    if one[0] == other[0]:
        return True
    size = max(abs(one[0]), abs(other[0]))
    if not math.isfinite(size):
        return False
    unit = sum(10.0 ** (math.floor(math.log10(size)) + 1 - digits) for _, digits, _ in (one, other))
    return abs(one[0] - other[0]) <= 0.501 * unit + 1e-9 * size


def add_pair(found: Numbers, where, names, digits=FULL, /, **values) -> None:
    for name, value in values.items():
        found.add((name, *sorted(names)), value, where, digits)


def of_estimator(found: Numbers, release) -> None:
    of_pairs(found, "pairs()", release.pairs())
    for row in release.variances().to_dict("records"):
        of_variance(found, "variances()", row)
    of_matrix(found, "covariance_", "covariance", release.covariance_, "variance")
    of_matrix(found, "correlation_", "correlation_cut_to_1", release.correlation_, None)
    for name, holds in zip(NAMES, release.interval_holds_, strict=True):
        found.add(("holds", name), holds, "interval_holds_")
    if release.release_.noise_sd is not None:
        for end, matrix in zip(("lower", "upper"), release.covariance_interval(), strict=True):
            of_matrix(
                found, "covariance_interval()", f"covariance_{end}", matrix, f"variance_{end}"
            )
    window = release.window(0, len(NAMES) - 1)
    for name in SHOWN:
        title = name if name == "correlation" else f"correlation_{name}"
        of_matrix(found, "window()", title, getattr(window, name), None)
    said = re.search(r"of ([\d,]+) features .* epsilon (\S+), delta (\S+)>", repr(release))
    for label, text in zip(("features", "epsilon", "delta"), said.groups(), strict=True):
        found.add((label,), text, "repr", 6)


def of_pairs(found: Numbers, where, table) -> None:
    for row in table.to_dict("records"):
        names = row.pop("feature_1"), row.pop("feature_2")
        row["covariance_lower"], row["covariance_upper"] = row.pop("lower"), row.pop("upper")
        add_pair(found, where, names, **row)


def of_matrix(found: Numbers, where, name, matrix, own) -> None:
    dense = matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
    stored = dense != 0 if hasattr(matrix, "toarray") else np.ones(dense.shape, dtype=bool)
    for i, one in enumerate(NAMES):
        for j in range(i + 1, len(NAMES)):
            if stored[i, j]:
                add_pair(found, where, (one, NAMES[j]), **{name: dense[i, j]})
        if own is not None:
            found.add((own, one), dense[i, i], where)


def of_variance(found: Numbers, where, row) -> None:
    for title, name in (("lower", "variance_lower"), ("upper", "variance_upper")):
        row[name] = row.pop(title)
    name = row.pop("feature")
    for title, value in row.items():
        found.add((f"variance_{title}" if title == "noise_sd" else title, name), value, where)


def of_files(found: Numbers, folder) -> None:
    of_pairs(found, "pairs.csv", pandas.read_csv(folder / "pairs.csv"))
    for row in pandas.read_csv(folder / "variances.csv").to_dict("records"):
        of_variance(found, "variances.csv", row)
    matrix = pandas.read_csv(folder / "covariance.csv").set_index("feature").to_numpy()
    of_matrix(found, "covariance.csv", "covariance", matrix, "variance")
    matrix = pandas.read_csv(folder / "correlation.csv").set_index("feature").to_numpy()
    of_matrix(found, "correlation.csv", "correlation", matrix, None)
    told = json.loads((folder / "summary.json").read_text())
    found.add(("found",), told["found_pairs"], "summary.json")
    for end, name in (("error", "error"), ("least", "error_least"), ("most", "error_most")):
        found.add((name,), told["verdict"][end], "summary.json")


def of_json(found: Numbers, where, told) -> None:
    for pair in told["largest_pairs"]:
        names = [NAMES[i] for i in pair["features"]]
        ends = {
            f"{kind}_{end}": None if pair[key] is None else pair[key][at]
            for kind, key in (("covariance", "interval"), ("correlation", "correlation_interval"))
            for at, end in enumerate(("lower", "upper"))
        }
        values = {name: pair[name] for name in ("covariance", "correlation", "status")}
        add_pair(found, where, names, **values, **ends)
    found.add(("found",), told["found_pairs"], where)
    found.add(("error",), told["verdict"]["error"], where)
    if told["structure"]:
        found.add(("error",), told["structure"]["error_estimate"], where)
        for end, value in zip(("least", "most"), told["structure"]["error_interval"], strict=True):
            found.add((f"error_{end}",), value, where)
    for at, sd in enumerate(told["noise_sd"] or ()):
        found.add(("noise of pairs", "noise of variances")[at : at + 1], sd, where)
    for name in ("epsilon", "delta"):
        found.add((name,), told["guarantee"][name], where)


def of_text(found: Numbers, where, text) -> None:
    """What `fit` and `show` print."""
    line = r"^ *(c\d), (c\d) +(-?[\d.]+) +(?:(-?[\d.e]+) to (-?[\d.e]+)\*? +)?(-?[\d.e-]+)$"
    for one, other, correlation, low, high, covariance in re.findall(line, text, re.MULTILINE):
        digits = max(1, len(correlation.lstrip("-0.")))  # of three decimals
        add_pair(found, where, (one, other), digits, correlation=correlation)
        ends = {"correlation_lower": low or None, "correlation_upper": high or None}
        add_pair(found, where, (one, other), 3, covariance=covariance, **ends)
    of_sentences(found, where, " ".join(text.split()))


def of_sentences(found: Numbers, where, text) -> None:
    number = r"(-?[\d.,]*\d(?:e-?\d+)?)"
    sentences = {
        ("error",): rf"off by about {number} of the covariance",
        ("error_least",): rf"of the covariance's size \(its norm\), between {number} and",
        ("error_most",): rf"of the covariance's size \(its norm\), between \S+ and {number}",
        ("found",): rf"(?:pairs|relations) {number} of [\d,]+ (?:candidate )?pairs",
        ("pairs",): rf"(?:pairs|relations) [\d,]+ of {number} (?:candidate )?pairs",
        ("kept",): rf"sparse: {number} of [\d,]+ (?:candidate )?pairs? (?:is|are) kept",
        ("kept of",): rf"sparse: [\d,]+ of {number} (?:candidate )?pairs? (?:is|are) kept",
        ("noise of pairs",): rf"standard deviation {number} on a (?:pair|correlation)",
        ("sampling error",): rf"sampling error alone has {number}",
    }
    for label, pattern in sentences.items():
        for text_found in re.findall(pattern, text):
            exact = label[0] in ("found", "pairs", "kept", "kept of")
            found.add(label, text_found, where, FULL if exact else 2)
    for label, title in (("kept", "found"), ("kept of", "pairs")):
        if "pass the threshold" in text:  # which is why they are kept
            for value, digits, place in list(found.found.get((label,), ())):
                if place == where:
                    found.add((title,), value, f"{place}, structure", digits)


class Cells(HTMLParser):
    """Tables of a page by their label, as rows of cells, and the words of each section."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables, self.words = defaultdict(list), defaultdict(str)
        self._table = self._section = None
        self._depth = 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("section", "header"):
            self._section = given.get("id", tag)
        elif tag == "table":
            self._table = given.get("aria-label", "")
        elif tag == "tr" and self._table is not None:
            self.tables[self._table].append([])
        elif tag in ("td", "th") and self._table is not None and self.tables[self._table]:
            self.tables[self._table][-1].append("")

    def handle_endtag(self, tag):
        if tag == "table":
            self._table = None

    def handle_data(self, data):
        if self._section is not None:
            self.words[self._section] += f" {data}"
        if self._table is not None and self.tables[self._table] and self.tables[self._table][-1]:
            self.tables[self._table][-1][-1] += data


def of_report(found: Numbers, page: str) -> None:
    cells = Cells(page)
    ends = re.compile(r"(\S+) to ([^\s*]+)")
    for label, rows in cells.tables.items():
        if label.startswith(("The strongest pairs", "Weaker pairs")):
            for row in rows[1:]:
                of_report_row(found, ends, row)
        elif label.startswith("Features in the order"):
            for name, *rest in rows[1:]:
                mean, of_mean, error, deviation, interval, variance = (
                    rest if len(rest) == 6 else (rest[0], "", "", rest[1], "", rest[2])
                )
                if error.strip():
                    found.add(("mean_se", name.strip()), error.strip(), "report", 2)
                of_report_variance(found, ends, name.strip(), mean, of_mean, "mean")
                of_report_variance(found, ends, name.strip(), deviation, interval, "sd")
                of_report_variance(found, ends, name.strip(), variance, "", "variance")
        elif label.startswith("Error by the number of records"):
            here = next(row for row in rows if row[0].strip() == "\N{MULTIPLICATION SIGN} 1")
            found.add(("error",), here[2], "report, other numbers of records", 2)
    of_relations(found, cells.words["largest"])
    for section in ("header", "largest", "pairs", "structure", "error"):
        words = " ".join(cells.words[section].split())
        of_sentences(found, f"report, {section}", words.replace("\N{MINUS SIGN}", "-"))
    said = re.search(
        r"Error estimate (\S+), between (\S+) and (\S+) of",
        " ".join(cells.words["structure"].split()),
    )
    for label, text in zip(
        ("error", "error_least", "error_most"), said.groups() if said else (), strict=False
    ):
        found.add((label,), text, "report, structure", 2)
    head = " ".join(cells.words["header"].split())
    said = re.search(r"([\d,]+) features\..* epsilon (\S+), delta (\S+)", head)
    for label, text in zip(("features", "epsilon", "delta"), said.groups(), strict=True):
        found.add((label,), text, "report", 3)


def of_relations(found: Numbers, text: str) -> None:
    """Sentences of the report: what they call higher or lower has the sign of the correlation."""
    number = r"(\S+\d)"
    sentence = (
        r"Records with a higher (c\d) tend to have a (higher|lower) (c\d) ?: "
        rf"correlation {number}(?:, between {number} and {number})?[.,]"
    )
    for one, way, other, *numbers in re.findall(sentence, " ".join(text.split())):
        correlation, low, high = (each.replace("\N{MINUS SIGN}", "-") or None for each in numbers)
        assert (way == "lower") == correlation.startswith("-")
        ends = {"correlation_lower": low, "correlation_upper": high}
        add_pair(found, "report, sentence", (one, other), 2, correlation=correlation, **ends)


def of_report_row(found: Numbers, ends, row) -> None:
    names = row[0].split(" \N{MULTIPLICATION SIGN} ")
    names = [name.strip() for name in names]
    numbers = [cell.strip() for cell in row[1:-1] if cell.strip()]
    intervals = [ends.search(cell) for cell in numbers if " to " in cell]
    plain = [cell.removeprefix("± ") for cell in numbers if " to " not in cell]
    plain = [cell for cell in plain if cell != "\N{EN DASH}"]
    correlation, *_, covariance = plain
    values = {"covariance": covariance, "status": row[-1].strip()}
    if "none" not in correlation:
        values["correlation"] = correlation.removesuffix(": noise")
    for kind, each in zip(("correlation", "covariance"), intervals, strict=False):
        values[f"{kind}_lower"], values[f"{kind}_upper"] = each.groups()
    add_pair(found, "report", names, 3, **values)


def of_report_variance(found: Numbers, ends, name, value, interval, kind) -> None:
    title = "standard_deviation" if kind == "sd" else kind
    if "noise" not in value and "not found" not in value:
        found.add((title, name), value.strip(), "report", 3)
    each = ends.search(interval)
    for end, text in zip(("lower", "upper"), each.groups() if each else (), strict=False):
        found.add((f"{kind}_{end}", name), text, "report", 3)


def of_columns(found: Numbers, run) -> None:
    where = "show --column"
    told = json.loads(run("show", "out", "--column", "c0", "--json").stdout)
    for name in ("mean", "mean_lower", "mean_upper", "mean_se"):
        found.add((name, "c0"), told.get(name), where)
    for row in told["pairs"]:
        values = {name: row[name] for name in ("covariance", "correlation", "noise_sd", "status")}
        ends = {f"correlation_{end}": row[f"correlation_{end}"] for end in ("lower", "upper")}
        of_covariance = {f"covariance_{end}": row[end] for end in ("lower", "upper")}
        add_pair(found, where, ("c0", row["feature"]), **values, **ends, **of_covariance)
    text = run("show", "out", "--column", "c0").stdout
    found.add(("variance", "c0"), re.search(r"variance +(\S+)", text)[1], where, 4)
    mean = re.search(r"mean +(\S+)", text)
    found.add(("mean", "c0"), mean and mean[1], where, 4)
    told = json.loads(run("show", "out", "--columns", "c0..c7", "--json").stdout)
    for name in SHOWN:
        title = name if name == "correlation" else f"correlation_{name}"
        matrix = np.array(told[name], dtype=float)
        of_matrix(found, "show --columns", title, matrix, None)


def of_export(found: Numbers, run) -> None:
    for kind in ("correlation", "covariance"):
        where = f"export --{kind}"
        result = run("export", "out", "--to", "csv", f"--{kind}", "--no-psd", "-o", kind)
        assert result.exit_code == 0, result.output
        for row in pandas.read_csv(f"{kind}/pairs.csv").to_dict("records"):
            names = row["feature_1"], row["feature_2"]
            title = "correlation_cut_to_1" if kind == "correlation" else kind
            add_pair(found, where, names, **{title: row[kind]})
            ends = {f"{kind}_{end}": row[end] for end in ("lower", "upper")}
            add_pair(found, where, names, **ends)
            if kind == "covariance":
                add_pair(found, where, names, noise_sd=row["noise_sd"])
        for row in pandas.read_csv(f"{kind}/features.csv").to_dict("records"):
            if row["variance"] > 0:
                found.add(("variance", row["name"]), row["variance"], where)
            found.add(("mean", row["name"]), row.get("mean"), where)


def of_answers(found: Numbers, run, release) -> None:
    told = json.loads(run("ask", "regression", "out", "c0", "--on", "c1,c2", "--json").stdout)
    asked = release.regression("c0", ["c1", "c2"])
    found.add(("R^2",), told["r_squared"], "ask")
    found.add(("R^2",), asked.r_squared, "regression()")
    for line, row in zip(told["table"], asked.frame().to_dict("records"), strict=True):
        for title in ("coefficient", "lower", "upper"):
            found.add((title, "c0", line["feature"]), line[title], "ask")
            found.add((title, "c0", row["feature"]), row[title], "regression()")
    told = json.loads(run("ask", "predict", "out", "c0", "--given", "c1=1", "--json").stdout)
    found.add(("mean", "c0"), told["table"][0]["unconditional_mean"], "ask")
    told = json.loads(run("ask", "components", "out", "--number", 2, "--json").stdout)
    for at, share in enumerate(release.components(2).share):
        found.add(("share", at), told["components"][at]["share"], "ask")
        found.add(("share", at), share, "components()")


def data_of(way: str) -> str:
    truth = sparse_covariance("block", 8, 3)
    truth[6, 7] = truth[7, 6] = 0.08  # it barely stands out of the noise
    truth[0, 7] = truth[7, 0] = -0.06
    if way == "adaptive, dense":
        truth = 0.4 + 0.6 * np.eye(8)
    rows = 5 + gaussian_records(truth, 6_000, random_state=3) * np.linspace(0.5, 4, 8)
    table = pandas.DataFrame(rows, columns=NAMES)
    if way == "gaps":
        table.loc[::50, "c1"] = np.nan
    if way == "units":
        table["who"] = np.arange(len(table)) // 2
    table.to_csv("x.csv", index=False)
    return "x.csv"


def collected(run, way: str) -> Numbers:
    found = Numbers()
    result = run("fit", data_of(way), *BUDGET, *EVERY[way], "-o", "out")
    assert result.exit_code == 0, result.output
    after = result.stdout[result.stdout.index("verdict") :]
    of_text(found, "fit", after)
    of_text(found, "show", run("show", "out").stdout)
    of_json(found, "show --json", json.loads(run("show", "out", "--json").stdout))
    of_report(found, Path("out/report.html").read_text(encoding="utf-8"))
    of_files(found, Path("out"))
    of_columns(found, run)
    of_export(found, run)
    release = hushcov.load("out")
    of_estimator(found, release)
    if release.release_.noise_sd is not None:
        of_answers(found, run, release)
    for label, each in list(found.found.items()):  # where noise put none beyond 1
        if label[0] == "correlation_cut_to_1":
            for value, digits, where in each:
                if abs(value) < 1:
                    found.add(("correlation", *label[1:]), value, where, digits)
    return found


SHORT = "adaptive, sparse", "adaptive, dense", "band of candidates", "units", "gaps"


@pytest.mark.parametrize(
    "way", [way if way in SHORT else pytest.param(way, marks=pytest.mark.slow) for way in EVERY]
)
def test_a_number_is_the_same_wherever_it_appears(run, way):
    found = collected(run, way)
    assert found.disagreements() == []
    shown = {"fit", "show", "show --json", "report", "report, sentence", "pairs()", "pairs.csv"}
    assert shown <= found.places("correlation")
    assert {"report", "variances()", "variances.csv", "show --column"} <= found.places("mean")
    assert {"report", "variances()", "variances.csv", "show --column"} <= found.places("variance")
    if way != "no noise level":
        everywhere = {
            "report",
            "pairs()",
            "covariance_interval()",
            "export --covariance",
            "show --json",
        }
        assert everywhere <= found.places("covariance_lower")
        assert {"show", "fit", "report, header", "report, error"} <= found.places("error") | (
            {"report, error"} if "band" in way else set()
        )


@pytest.mark.parametrize("change", ["correlation", "upper", "variance"])
def test_a_planted_difference_is_noticed(run, monkeypatch, change):
    """One place shows a number of its own, which is 2 % larger."""
    shown, features = View.listed, View.features

    def larger_pairs(view, *args):
        table = shown(view, *args)
        return replace(table, **{change: 1.02 * getattr(table, change)})

    def larger_variances(view, level=0.95):
        table = features(view, level)
        return table | {change: 1.02 * table[change]}

    if change == "variance":
        monkeypatch.setattr(View, "features", larger_variances)
    else:
        monkeypatch.setattr(View, "listed", larger_pairs)
    assert collected(run, "adaptive, sparse").disagreements()
