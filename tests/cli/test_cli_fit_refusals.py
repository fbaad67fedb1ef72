"""`hushcov fit` on files that cannot be used as they are, and what it says of memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hushcov._words import memory

BUDGET = ("--epsilon", 1, "--delta", 1e-6)


def test_all_bad_columns_are_named_at_once(refused, tmp_path):
    (tmp_path / "x.csv").write_text("age,pulse,city,name\n1,2,a,b\n3,4,c,d\n")
    line = refused(3, "fit", "x.csv", *BUDGET, "--columns", "age,age,plse,city,name")
    assert "column 'age' more than once" in line
    assert "column 'plse', got none of that name: did you mean 'pulse'?" in line
    assert "columns 'city', 'name' have type text" in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("age,pulse\n", "at least 1 record"),
        ("age;pulse\n1;2\n", "use --delimiter ';'."),
        ("age;pulse\n1,5;2,5\n", "use --delimiter ';'."),
        ("age,pulse,age\n1,2,3\n", "must have column 'age' once, got more"),
    ],
)
def test_what_is_wrong_with_a_text_file_is_said(refused, tmp_path, text, words):
    (tmp_path / "x.csv").write_text(text)
    assert words in refused(3, "fit", "x.csv", *BUDGET)


def test_plan_and_fit_say_the_same_memory(run, tmp_path):
    rows = np.random.default_rng(0).normal(size=(4_000, 3))
    np.save(tmp_path / "x.npy", rows)
    (tmp_path / "x.csv").write_text("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in rows))
    size = ("--records", 4_000, "--features", 3)
    (plan,) = json.loads(run("plan", *size, *BUDGET, "--json").stdout)["plans"]
    dry = (*BUDGET, "--dry-run", "--json")
    fits = [json.loads(run("fit", file, *dry).stdout) for file in ("x.npy", "x.csv")]
    assert fits[0]["predicted_memory_bytes"] == plan["memory_bytes"]
    said = " ".join(run("fit", "x.csv", *BUDGET, "--dry-run").stdout.split())
    assert f"{memory(plan['memory_bytes'])} for the fit and" in said
    assert fits[1]["predicted_memory_bytes"] > plan["memory_bytes"]
