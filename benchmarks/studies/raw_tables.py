"""Two raw tables, from `hushcov start` to a regression, with the truth beside it.

    python benchmarks/studies/raw_tables.py              # about a minute on one core

A hospital table and a household survey, simulated with a known regression. Both have everything
that raw tables have: several codes of missing values (-99 among them), yes and no in many
spellings, categories in several cases, names of columns in mixed case, a flag that is set in one
record of two hundred, a flag that is set in all, thousands separators, and single typos, one of
them in row 95,000. A walk answers the questions of `start`, runs the commands that it prints, asks
for the regression by `hushcov ask`, with names in another case than those of the table and a cost
by its own name that was released as a logarithm, and draws synthetic rows.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushcov import load

MISSING = ["", "NA", "N/A", "n/a", "NaN", "null", "None", ".", "-99"]
YES, NO = ["yes", "Yes", "YES", "Y", " y", "true", "1"], ["no", "No", "NO", "N", "n ", "False", "0"]
ROW_OF_TYPO = 95_000


@dataclass(frozen=True)
class Walk:
    """A table, answers to `start`, and the question with its truth: coefficients and shares."""

    name: str
    table: dict[str, list[str]]
    answers: list[str]
    target: str
    truth: dict[str, float]
    shares: dict[str, float]


def spoilt(rng: np.random.Generator, fields: list[str], share: float, codes: list[str]) -> None:
    """Set a share of the fields to codes of missing values, each alike often."""
    for i in np.flatnonzero(rng.random(len(fields)) < share):
        fields[i] = codes[int(rng.integers(len(codes)))]


def said(rng: np.random.Generator, yes: Any, spellings: tuple[list[str], list[str]]) -> list[str]:
    """Return yes and no in many spellings."""
    pick = rng.integers(0, 1000, len(yes))
    return [
        spellings[0][k % len(spellings[0])] if is_yes else spellings[1][k % len(spellings[1])]
        for is_yes, k in zip(yes, pick, strict=True)
    ]


def typed(fields: list[str], n: int, typo: str) -> None:
    """Put a typo near the start and one near the end."""
    fields[17], fields[min(ROW_OF_TYPO, n - 5)] = typo, f"{typo}?"


def hospital(n: int, seed: int) -> Walk:
    """Return patients; the blood pressure depends on age, build, diabetes and smoking."""
    rng = np.random.default_rng(seed)
    age, build = np.clip(rng.normal(52, 15, n), 18, 99).round(), rng.normal(26, 4, n).round(1)
    diabetes, smoker = rng.random(n) < 0.081, rng.random(n) < 0.25
    female = rng.random(n) < 0.55
    transplant = rng.random(n) < 0.005
    pressure = 50 + 0.5 * age + 1.2 * build + 9 * diabetes + 4 * smoker - 3 * female
    pressure += rng.normal(0, 9, n)
    cost = rng.gamma(2, 1500, n).round(2)
    pressure = (pressure + 3 * np.log1p(cost)).round()
    table = {
        "patient_id": [f"P{i:07d}" for i in rng.permutation(n)],
        "age": [f"{x:g}" for x in age],
        "BMI": [f"{x:g}" for x in build],
        "Diabetes": said(rng, diabetes, (YES, NO)),
        "smoker": said(rng, smoker, (YES, NO)),
        "Transplant": said(rng, transplant, (YES, NO)),
        "Consent": said(rng, np.ones(n, bool), (YES, NO)),
        "sex": said(rng, female, (["F", "f", "Female", " F"], ["M", "m", "male"])),
        "Total_Cost": [f"{x:,.2f}" for x in cost],
        "Systolic_BP": [f"{x:g}" for x in pressure],
    }
    for name in list(table)[1:]:
        spoilt(rng, table[name], 0.02, MISSING)
    typed(table["Systolic_BP"], n, "12o")
    typed(table["Diabetes"], n, "unknown")
    answers = ["", "", str(n), "", "ask", "diabetes, smoker, transplant, consent", "", "yes"]
    answers += ["usual", "", "sex", "F|female -> F; M|male -> M"]
    answers += ["age, bmi, systolic_bp", "0 120 whole", "10 80", "60 260"]
    answers += ["-99", "total_cost", "total_cost=log1p"]
    return Walk(
        "hospital",
        table,
        answers,
        "systolic_bp",
        {
            **{"age": 0.5, "bmi": 1.2, "diabetes": 9.0, "smoker": 4.0, "sex=F": -3.0},
            "log1p(total_cost)": 3.0,
        },
        {"diabetes": 0.081, "smoker": 0.25, "transplant": 0.005, "sex=F": 0.55},
    )


def households(n: int, seed: int) -> Walk:
    """Return households; what they spend depends on income, persons, and owning the home."""
    rng = np.random.default_rng(seed)
    income = np.clip(rng.gamma(6, 600, n), 200, 20_000).round(2)
    persons = 1 + rng.poisson(1.4, n).clip(0, 8)
    owner, online = rng.random(n) < 0.45, rng.random(n) < 0.9
    place = rng.choice(["city", "town", "country"], n, p=[0.5, 0.3, 0.2])
    evicted = rng.random(n) < 0.005
    spent = 300 + 0.45 * income + 180 * persons - 250 * owner + 120 * (place == "city")
    spent = (spent + rng.normal(0, 350, n)).round(2)
    table = {
        "household_id": [str(i) for i in rng.permutation(n)],
        "Income": [f"{x:,.2f}" if k % 3 else f"{x:.2f}" for k, x in enumerate(income)],
        "PERSONS": [str(x) for x in persons],
        "owner": said(rng, owner, (["ja", "Ja", "J", "1"], ["nein", "NEIN", "n", "0"])),
        "online": said(rng, online, (["T", "t", "TRUE"], ["F", "f", "false"])),
        "Evicted": said(rng, evicted, (YES, NO)),
        "Place": [each.upper() if k % 5 == 0 else each for k, each in enumerate(place)],
        "Spent": [f"{x:,.2f}" for x in spent],
    }
    for name in list(table)[1:]:
        spoilt(rng, table[name], 0.015, MISSING if name == "Place" else [*MISSING, "refused"])
    typed(table["Spent"], n, "1,2,3")
    typed(table["PERSONS"], n, "two")
    answers = [
        "",
        "",
        str(n),
        "",
        "ask",
        "owner, online, evicted",
        "ja, J",
        "nein",
        "",
        "",
        "place",
    ]
    answers += [
        "city, town, country",
        "income, persons, spent",
        "0 20000",
        "1 9 whole",
        "-2000 20000",
    ]
    answers += ["-99, refused", "income, spent", ""]
    return Walk(
        "households",
        table,
        answers,
        "spent",
        {"income": 0.45, "persons": 180.0, "owner": -250.0, "place=city": 120.0},
        {"owner": 0.45, "online": 0.9, "evicted": 0.005, "place=city": 0.5},
    )


def hushcov(*words: str, answers: list[str] | None = None) -> str:
    """Run a command as somebody would type it; return what it prints."""
    given = None if answers is None else "".join(f"{each}\n" for each in answers)
    call = [sys.executable, "-m", "hushcov.cli.main", *words]
    done = subprocess.run(call, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"hushcov {shlex.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def walk(made: Walk) -> list[tuple[str, float, float, float, float]]:
    """Go from the raw table to the regression; return what, truth, estimate and its interval."""
    with open(f"{made.name}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(made.table)
        writer.writerows(zip(*made.table.values(), strict=True))
    rest = [*[""] * 7, "no"]  # gaps, the promise, a new ledger, the folder
    printed = hushcov("start", f"{made.name}.csv", answers=[*made.answers, *rest])
    for command in re.findall(r"^hushcov (.*)", printed[printed.index("The command") :], re.M):
        hushcov(*shlex.split(command))
    folder, plain = f"{made.name}-release", [re.sub(r"log1p.(.+).", r"\1", x) for x in made.truth]
    plain += ["consent"] if "Consent" in made.table else []  # it does not vary, and is left out
    question = ("ask", "regression", folder, made.target, "--on", ",".join(plain), "--json")
    found = {each["feature"].lower(): each for each in json.loads(hushcov(*question))["table"]}
    rows = []
    for name, truth in made.truth.items():
        own = found[name.lower()]
        what = f"coefficient of {name}"
        rows.append((what, truth, own["coefficient"], own["lower"], own["upper"]))
    means = {
        each["feature"].lower(): each
        for each in load(folder).variances(library="pandas").to_dict("records")
    }
    for name, truth in made.shares.items():
        own = means[name.lower()]
        rows.append((f"share of {name}", truth, own["mean"], own["mean_lower"], own["mean_upper"]))
    hushcov("export", folder, "--to", "rows", "-n", "1000", "-o", f"{made.name}-rows.csv")
    return rows


def main() -> None:
    """Print both walks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for make in (hospital, households):
            print(f"\n{make.__name__}, {args.rows:,} rows")
            print(f"{'':32}{'truth':>8}{'release':>10}   95 % interval")
            for what, truth, estimate, low, high in walk(make(args.rows, args.seed)):
                print(f"{what:32}{truth:8g}{estimate:10.4g}   {low:.4g} to {high:.4g}")
            rows = Path(f"{make.__name__}-rows.csv").read_text().splitlines()
            print("Synthetic rows:", *rows[:3], sep="\n")
        os.chdir(Path(__file__).parent)


if __name__ == "__main__":
    main()
