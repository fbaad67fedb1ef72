"""The R package reads what hushcov wrote; `python tests/r/test_r_package.py` renews its example."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hushcov
from command_line import PATIENCE
from hushcov.exceptions import AccuracyWarning
from hushcov.release.schema import FORMAT
from hushcov.text.description import summary_dict

PACKAGE = Path(__file__).resolve().parents[2] / "r" / "hushcov"
EXAMPLE = PACKAGE / "inst" / "extdata" / "release"
HOSTILE = ["=1+1", " \uff1d2", "\u3000\t@x", "'=3", "\x1b[31m\u202ered\u200b"]
NAMES = ["age", "height", "weight", *HOSTILE, 'ü, "x"', "NA", "constant"]
# Writes everything that was read, with every digit.
DUMP = """
for (path in list.files(file.path(commandArgs(TRUE)[1], "R"), full.names = TRUE)) source(path)
invisible(lapply(c("head", "read.csv"), function(x) assign(x, getExportedValue("utils", x))))
digits <- function(x) {
  if (is.list(x)) x[] <- lapply(x, digits)
  if (is.double(x)) x[] <- ifelse(is.na(x), "#nan", sprintf("#%.17g", x))
  x
}
found <- lapply(commandArgs(TRUE)[-1], function(folder) {
  release <- read_release(folder)
  release$printed <- c(capture.output(print(release)), capture.output(print.summary.hushcov_release(
    summary.hushcov_release(release))))
  release$names <- rownames(release$covariance)
  digits(unclass(release)[setdiff(names(release), "document")])
})
cat(jsonlite::toJSON(found, auto_unbox = TRUE, null = "null"))
"""


def needs_r() -> None:
    program = shutil.which("Rscript")
    if program is None:
        pytest.skip("there is no R; on Debian: apt-get install r-base-core r-cran-jsonlite")
    asked = [program, "-e", "quit(status = !requireNamespace('jsonlite', quietly = TRUE))"]
    if subprocess.run(asked, capture_output=True, check=False, timeout=PATIENCE).returncode:
        pytest.skip("R has no jsonlite; on Debian: apt-get install r-cran-jsonlite")


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    age, build, other, *rest = rng.normal(size=(10, 20_000))
    columns = [50 + 15 * age, 170 + 9 * build, 76 + 9 * build + 9 * other, *rest]
    return np.column_stack([*columns, np.ones(20_000)])


def read_by_r(*folders: Path) -> list[dict]:
    done = subprocess.run(
        ["Rscript", "--vanilla", "-e", DUMP, PACKAGE, *folders],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return with_numbers(json.loads(done.stdout))


def with_numbers(value):
    """Put numbers in place of their digits."""
    if isinstance(value, list):
        return [with_numbers(each) for each in value]
    if isinstance(value, dict):
        return {key: with_numbers(each) for key, each in value.items()}
    return float(value[1:]) if isinstance(value, str) and value.startswith("#") else value


def same(found, expected, where) -> None:
    """Compare fourteen digits: some builds of R read decimals with errors beyond them."""
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-14, err_msg=where)


def test_every_number_is_that_of_python(tmp_path):
    needs_r()
    rows, budget = pd.DataFrame(table(), columns=NAMES), {"epsilon": 1.0, "delta": 1e-6}
    with pytest.warns(AccuracyWarning, match="constant"):
        adaptive = hushcov.PrivateSparseCovariance(**budget).fit(rows)
    with pytest.warns(AccuracyWarning, match="constant"):
        told = hushcov.GaussianCovariance(**budget, threshold="universal").fit(rows)
    nothing = hushcov.load(EXAMPLE)
    folders = [tmp_path / "a folder", tmp_path / "told"]
    for made, folder in zip((adaptive, told), folders, strict=True):
        made.save(folder)
    for made, found in zip((adaptive, told, nothing), read_by_r(*folders, EXAMPLE), strict=True):
        np.testing.assert_array_equal(found["covariance"], made.covariance_)  # not from decimals
        same(found["correlation"], made.correlation_, "correlation")
        for name, expected in (("pairs", made.pairs()), ("variances", made.variances())):
            read = pd.DataFrame(found[name])
            assert list(read) == list(expected)
            for title in expected:
                if expected[title].dtype == np.float64:
                    same(read[title], expected[title], title)
                else:
                    assert read[title].tolist() == expected[title].tolist()
        summary, guarantee = summary_dict(made.release_), made.release_.guarantee
        assert found["verdict"] == summary["verdict"]
        assert found["structure"] == json.loads(json.dumps(summary["structure"]))
        assert found["found"] == summary["found_pairs"]
        assert found["level"] == 0.95
        read = found["guarantee"]
        assert (read["epsilon"], read["delta"]) == (guarantee.epsilon, guarantee.delta)
        assert read["promise"] in str(summary["promise"])
        assert summary["verdict"]["word"] in " ".join(found["printed"])
        assert re.search("files match their SHA-256|sizes of", found["checked"])
        assert found["names"] == list(made.variances()["feature"])
        assert "".join(found["printed"]).replace("\u3000", " ").isprintable()


REFUSED = """
for (path in list.files(file.path(commandArgs(TRUE)[1], "R"), full.names = TRUE)) source(path)
for (folder in commandArgs(TRUE)[-1])
  cat(tryCatch({read_release(folder); "read"}, error = conditionMessage), sep = "\n")
"""


def test_the_list_of_files_does_not_leave_the_folder(tmp_path):
    needs_r()
    (tmp_path / "secret").write_text("text")
    about, folders = {"bytes": 4, "sha256": "0" * 64}, []
    names = ("../secret", str(tmp_path / "secret"), "..", ".", "", "a/b", "a\\b", "a\nb", None)
    for i, name in enumerate(names):
        folders.append(shutil.copytree(EXAMPLE, tmp_path / str(i)))
        path = folders[-1] / "release.json"
        document = json.loads(path.read_text())
        document["files"] |= {} if name is None else {name: about}
        path.write_text(json.dumps(document | ({"files": {}} if name is None else {})))
    done = subprocess.run(
        ["Rscript", "--vanilla", "-e", REFUSED, PACKAGE, *folders],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    said = done.stdout.splitlines()
    assert len(said) == len(names), done.stdout
    assert all("release.json must list files of this folder by name" in each for each in said)


def test_the_package_is_of_this_version():
    assert f"Version: {hushcov.__version__}\n" in (PACKAGE / "DESCRIPTION").read_text()
    written = json.loads((EXAMPLE / "release.json").read_text())
    assert written["format"] == FORMAT, "renew the example: python tests/r/test_r_package.py"
    assert written["private"]


@pytest.mark.slow
def test_r_cmd_check(tmp_path):
    needs_r()
    for command in (["build", PACKAGE], ["check", "--no-manual", "hushcov_0.1.0.tar.gz"]):
        done = subprocess.run(
            ["R", "CMD", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "Status: OK" in done.stdout, done.stdout


if __name__ == "__main__":
    shutil.rmtree(EXAMPLE, ignore_errors=True)
    people = pd.DataFrame(table()[:, :5], columns=["age", "height", "weight", "pulse", "sleep"])
    hushcov.PrivateSparseCovariance(epsilon=1.0, delta=1e-6).fit(people).save(EXAMPLE)
