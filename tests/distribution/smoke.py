"""What must work right after `pip install hushcov`: run by the Python of such an environment.

It needs nothing but hushcov, and stops at the first thing that is wrong. With `--all` it tries the
other distributions, too, which must not be there without it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

OPTIONAL = (
    "dask",
    "distributed",
    "dp_accounting",
    "jinja2",
    "matplotlib",
    "pandas",
    "pyarrow",
    "torch",
)
BUDGET = ("--epsilon", "1", "--delta", "1e-6", "--row-sparsity", "2")


def hushcov(*arguments: str, fails: bool = False) -> str:
    """Run the installed program; what it prints, or what it says where it must fail."""
    program = Path(sys.executable).with_name("hushcov")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode != 0) == fails, f"{arguments}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr if fails else done.stdout


def refusal(action: object) -> str:
    """What an action says that needs an optional package."""
    try:
        action()  # type: ignore[operator]
    except ImportError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def check_import() -> None:
    """`import hushcov` is light, and no optional package is needed or there."""
    loaded = set(sys.modules)
    import hushcov

    heavy = {"numpy", "scipy", "sklearn", "numba"} & (set(sys.modules) - loaded)
    assert not heavy, heavy
    assert "site-packages" in str(hushcov.__file__), hushcov.__file__
    there = [name for name in OPTIONAL if importlib.util.find_spec(name)]
    assert not there, f"installed although nothing asks for them: {there}"
    for name in hushcov.__all__:
        getattr(hushcov, name)


def check_fit(rows: Path) -> None:
    """A small fit, and what is said where an extra is missing."""
    import numpy as np

    from hushcov import GaussianCovariance
    from hushcov.report.style import new_figure
    from hushcov.tables.sources import open_records

    estimator = GaussianCovariance(epsilon=1.0, delta=1e-6, feature_scale=1.0)
    np.save(rows, np.random.default_rng(0).normal(size=(2000, 4)))
    assert np.abs(estimator.fit(rows).covariance_ - np.eye(4)).max() < 0.5
    assert estimator.release_.guarantee.private
    rows.with_suffix(".parquet").touch()
    estimator.set_params(device="cuda")
    for extra, action in {
        "files": lambda: open_records(rows.with_suffix(".parquet")),
        "torch": lambda: estimator.fit(rows),
        "report": lambda: new_figure(1, 1),
    }.items():
        assert f"pip install 'hushcov[{extra}]'" in refusal(action), extra


def check_program(rows: Path) -> None:
    """The command line, with a release and without the extras."""
    from hushcov import __version__

    assert hushcov("--version") == f"hushcov {__version__}\n"
    assert "screened" in hushcov("plan", "--records", "2000", "--features", "4", *BUDGET)
    release = rows.with_name("release")
    fit = ("fit", str(rows), "--mechanism", "gaussian", *BUDGET, "-o", str(release))
    said = " ".join(hushcov(*fit).split())  # lines are broken anywhere
    assert said.count("pip install 'hushcov[report]'") == 2  # for the heat map and for the page
    assert (release / "covariance.npy").exists()
    said = hushcov("report", str(release), fails=True)
    assert "pip install 'hushcov[report]'" in said
    said = hushcov("fit", str(rows.with_suffix(".parquet")), *BUDGET, fails=True)
    assert "pip install 'hushcov[files]'" in said


def check_missing(rows: Path) -> None:
    """What is said where another distribution is missing, by every way to it."""
    import hushcov as package

    lab, genotypes = "pip install hushcov-lab", "pip install hushcov-genotypes"
    assert lab in refusal(lambda: package.RowTopKCovariance)
    assert genotypes in refusal(lambda: package.GenotypeCovariance)
    with_peer = package.PrivateSparseCovariance(epsilon=1, delta=1e-6, mechanism="row-top-k")
    assert lab in refusal(lambda: with_peer.fit(rows))
    assert lab in hushcov("audit", fails=True)
    assert lab in hushcov("fit", str(rows), *BUDGET, "--mechanism", "row-top-k", fails=True)
    assert genotypes in hushcov("fit", "cohort.bed", *BUDGET, fails=True)
    plan = ("plan", "--mechanism", "genotypes", "--features", "9", "--bandwidth", "2", *BUDGET[:4])
    assert genotypes in hushcov(*plan, fails=True)


def check_others(rows: Path) -> None:
    """The commands, mechanisms and estimators of the other distributions."""
    assert "pace" in hushcov("audit", "--list")
    release = rows.with_name("peer")
    fit = ("fit", str(rows), "--mechanism", "row-top-k", *BUDGET, "-o", str(release))
    assert "row-top-k" in hushcov(*fit)
    import numpy as np

    from hushcov import GenotypeCovariance, RowTopKCovariance
    from hushcov_genotypes.reading import write_bed

    assert RowTopKCovariance(epsilon=1.0, delta=1e-6, row_sparsity=2).fit(rows).release_
    calls = np.random.default_rng(0).integers(0, 3, (2000, 6), dtype=np.int8)
    write_bed("cohort.bed", calls)
    assert GenotypeCovariance(epsilon=1.0, delta=1e-6, bandwidth=2).fit("cohort.bed").release_
    hushcov("fit", "cohort.bed", "--bandwidth", "2", "--epsilon", "1", "--delta", "1e-6")


if __name__ == "__main__":
    everything = sys.argv[1:] == ["--all"]
    check_import()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_fit(Path("rows.npy"))
        check_program(Path("rows.npy"))
        (check_others if everything else check_missing)(Path("rows.npy"))
    print(f"hushcov works, {'with all distributions' if everything else 'the core alone'}")
