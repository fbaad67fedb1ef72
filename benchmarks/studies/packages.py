"""Other packages' private covariances beside hushcov's: same records, same guarantee, same facts.

    python benchmarks/studies/packages.py

Gaussian records of mean zero, block model, k = 5, n = 100,000; replacing one record costs
epsilon = 1 in every row. All methods know the same: mean zero, the standard deviation of the
features, n and d; one row knows less. Other packages ask for a bound on the norm of a record, and
get the one that `GaussianCovariance` takes from these numbers. diffprivlib and OpenDP are installed
in an environment of their own, `results/packages-env`, because diffprivlib does not load with
recent releases of scikit-learn.

Every fit is a process of its own on one thread, with a limit on its time. Seconds are processor
time of the fit, so that other load on the machine does not count, nor do imports and, for hushcov,
the compilation in a first small fit. Fits that were measured are kept in the output file and
skipped on a rerun.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

# This file also runs in the other environment, which has no hushcov: nothing else is imported here.

REQUIREMENTS = ("diffprivlib==0.6.6", "scikit-learn<=1.8", "opendp[numpy,scikit-learn]==0.16.*")
ENVIRONMENT = Path("results/packages-env")
EPSILON, DELTA, ROW_SPARSITY = 1.0, 1e-6, 5
WARM_UP = 2_000  # records of the first fit, which compiles
SIZES = (5, 10, 20, 50, 100, 200)


@dataclass(frozen=True)
class Public:
    """What every method may know."""

    row_norm: float  # in the unit of the records
    feature_scale: float  # the same for all features


Fit = Callable[[np.ndarray, Public], np.ndarray]


def clipped(X: np.ndarray, norm: float) -> np.ndarray:
    lengths = np.linalg.norm(X, axis=1)
    return X * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))[:, None]


def diffprivlib_pca(X: np.ndarray, public: Public) -> np.ndarray:
    """`covariance_eig` behind scikit-learn's PCA; its sensitivities are those of a replacement."""
    from diffprivlib.models import PCA

    pca = PCA(epsilon=EPSILON, data_norm=public.row_norm, centered=True)
    return pca.fit(X).get_covariance()


def opendp_pca(X: np.ndarray, public: Public) -> np.ndarray:
    """The class as documented, which spends a third of the budget on the mean.

    `n_changes` counts additions and removals, and a replacement is one of each.
    """
    n, d = X.shape
    pca = opendp().sklearn.decomposition.PCA(
        epsilon=EPSILON, row_norm=public.row_norm, n_samples=n, n_features=d, n_changes=2
    )
    return pca.fit(X).get_covariance()


def opendp_centred(X: np.ndarray, public: Public) -> np.ndarray:
    """The function behind the class, told that the mean is zero."""
    dp = opendp()
    n, d = X.shape
    domain = dp.numpy.array2_domain(
        num_columns=d, size=n, T=float, norm=public.row_norm, p=2, origin=np.zeros(d)
    )
    pca = dp.sklearn.decomposition.make_private_pca(domain, dp.symmetric_distance(), EPSILON)
    assert pca.map(2) <= EPSILON * (1 + 1e-9)  # two changes are a replacement
    found = pca(clipped(X, public.row_norm))
    return (found.Vt.T * found.S**2) @ found.Vt / n


def opendp_gaussian(X: np.ndarray, public: Public) -> np.ndarray:
    """What a user can write: X'X of clipped rows, with Gaussian noise on its upper triangle.

    The sensitivity is the user's to know; sqrt(2) norm^2 for a replacement is the textbook's.
    """
    dp = opendp()
    n, d = X.shape
    rows = clipped(X, public.row_norm)
    upper = np.triu_indices(d)
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def noise(scale: float) -> Any:
        gaussian = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
        return dp.c.make_fix_delta(gaussian, DELTA)

    sensitivity = math.sqrt(2) * public.row_norm**2
    add_noise = dp.binary_search_chain(noise, sensitivity, (EPSILON, DELTA), T=float)
    estimate = np.zeros((d, d))
    estimate[upper] = add_noise((rows.T @ rows)[upper].tolist())
    return (estimate + np.triu(estimate, 1).T) / n


def opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious", "floating-point")
    return dp


def hushcov_fit(name: str, *, known: bool = True, **given: object) -> Fit:
    """A fit of the estimator of this name."""

    def fit(X: np.ndarray, public: Public) -> np.ndarray:
        facts = {"feature_scale": public.feature_scale, "assume_centered": True} if known else {}
        kind = getattr(importlib.import_module("hushcov"), name)
        new = kind(epsilon=EPSILON, **facts, **given)
        if "on_hopeless" in new.get_params():  # the small first fit would be refused
            new.set_params(on_hopeless="warn")
        return new.fit(X).covariance_

    return fit


@dataclass(frozen=True)
class Method:
    """One row of the table."""

    fit: Fit
    package: str
    delta: float = DELTA

    @property
    def python(self) -> Path:
        """The interpreter that has the package."""
        own = self.package == "hushcov"
        return Path(sys.executable) if own else ENVIRONMENT / "bin/python"


_SPARSE = {"delta": DELTA, "row_sparsity": ROW_SPARSITY}
METHODS = {
    "diffprivlib PCA": Method(diffprivlib_pca, "diffprivlib", 0.0),
    "OpenDP PCA": Method(opendp_pca, "opendp", 0.0),
    "OpenDP PCA, mean known": Method(opendp_centred, "opendp", 0.0),
    "hushcov EigenSamplingCovariance": Method(
        hushcov_fit("EigenSamplingCovariance"), "hushcov", 0.0
    ),
    "OpenDP Gaussian noise on X'X": Method(opendp_gaussian, "opendp"),
    "hushcov GaussianCovariance": Method(hushcov_fit("GaussianCovariance", **_SPARSE), "hushcov"),
    "hushcov PrivateSparseCovariance": Method(
        hushcov_fit("PrivateSparseCovariance", **_SPARSE), "hushcov"
    ),
    "the same, mean and scales unknown": Method(
        hushcov_fit("PrivateSparseCovariance", known=False, **_SPARSE),
        "hushcov",
    ),
}
REFERENCE = "hushcov GaussianCovariance"  # whose time is 1
# Imported before the clock starts.
IMPORTS = {
    "diffprivlib": "diffprivlib.models",
    "opendp": "opendp.prelude",
    "hushcov": "hushcov.estimators",
}


def work(name: str, folder: Path, limit: float) -> None:
    """Run one fit here: what `run_fit` starts in the environment that has the package."""
    method = METHODS[name]
    X = np.load(folder / "records.npy")
    public = Public(**json.loads((folder / "public.json").read_text()))
    importlib.import_module(IMPORTS[method.package])
    if method.package == "hushcov":
        method.fit(X[:WARM_UP], public)
    start = time.process_time()
    end = math.ceil(start + limit)
    resource.setrlimit(resource.RLIMIT_CPU, (end, end + 5))
    estimate = method.fit(X, public)
    seconds = time.process_time() - start
    np.save(folder / "estimate.npy", estimate)
    (folder / "seconds.json").write_text(json.dumps(seconds))


def run_fit(name: str, folder: Path, truth: np.ndarray, limit: float) -> dict[str, float | None]:
    """One fit in a process of its own; no error and no seconds if it passes the limit."""
    command = [METHODS[name].python, __file__, "--work", name, folder, "--limit", str(limit)]
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = os.environ | dict.fromkeys(threads, "1")
    environment["PYTHONWARNINGS"] = "ignore"  # of the packages, and of the small first fit
    status = subprocess.run(command, env=environment, check=False).returncode
    if status == -signal.SIGXCPU:
        return {"error": None, "seconds": None}
    if status:
        raise RuntimeError(f"{name} failed with status {status}: see above.")
    error = np.load(folder / "estimate.npy") - truth  # the truth has operator norm 1
    seconds = json.loads((folder / "seconds.json").read_text())
    return {"error": float(np.linalg.norm(error, 2)), "seconds": seconds}


def public_facts(n: int, truth: np.ndarray) -> Public:
    from hushcov.fit.gaussian.mechanism import gaussian_parameters
    from hushcov.inputs import ReleaseInputs

    inputs = ReleaseInputs(
        n_records=n,
        n_features=len(truth),
        row_sparsity=ROW_SPARSITY,
        epsilon=EPSILON,
        delta=DELTA,
    )
    parameters = gaussian_parameters(inputs)
    scale = math.sqrt(truth[0, 0])
    return Public(parameters.norm_bound * parameters.step * scale, scale)


def measure(d: int, seed: int, names: list[str], arguments: argparse.Namespace, found: dict):
    """All fits on one set of records; `found` holds earlier runs of each method at this size."""
    from hushcov.simulate import gaussian_records, sparse_covariance

    truth = sparse_covariance("block", d, ROW_SPARSITY)
    missing = [
        name
        for name in names
        if str(seed) not in found.get(name, {})
        and all(run["seconds"] is not None for run in found.get(name, {}).values())
    ]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        np.save(
            folder / "records.npy", gaussian_records(truth, arguments.records, random_state=seed)
        )
        facts = asdict(public_facts(arguments.records, truth))
        (folder / "public.json").write_text(json.dumps(facts))
        for name in missing:
            run = run_fit(name, folder, truth, arguments.limit)
            found.setdefault(name, {})[str(seed)] = run
            print(f"d={d} seed={seed} {name}: {run}", flush=True)


def prepare_environment() -> None:
    """Create the environment of the other packages, unless it is there."""
    if (ENVIRONMENT / "ready").exists():
        return
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    python = METHODS["diffprivlib PCA"].python
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    (ENVIRONMENT / "ready").touch()


def versions() -> str:
    """Return the date and the versions that a page must state beside the table."""
    code = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
    names = ("diffprivlib", "opendp", "scikit-learn")
    python = METHODS["diffprivlib PCA"].python
    others = subprocess.check_output([python, "-c", code, *names], text=True).split()
    found = zip(("hushcov", *names), (metadata.version("hushcov"), *others), strict=True)
    return f"{time.strftime('%Y-%m-%d')}: " + ", ".join(map(" ".join, found))


def print_table(results: dict, limit: float) -> None:
    sizes = sorted(results, key=int)
    print(f"\n| method | delta | {' | '.join(f'd = {d}' for d in sizes)} |")
    print("|" + "---|" * (len(sizes) + 2))
    for name, method in METHODS.items():
        cells = [cell(results[d], name) for d in sizes]
        if any(cells):
            print(f"| {name} | {method.delta:g} | {' | '.join(cells)} |")
    print(
        "median error relative to the covariance's norm, and how many times as long as "
        f"{REFERENCE}; -: did not finish in {limit:g} s"
    )


def cell(found: dict, name: str) -> str:
    runs = list(found.get(name, {}).values())
    if not runs:
        return ""
    finished = [run for run in runs if run["seconds"] is not None]
    if len(finished) < len(runs):
        return "-" if not finished else f"- ({len(finished)} of {len(runs)} did)"
    error = statistics.median(run["error"] for run in runs)
    seconds = statistics.median(run["seconds"] for run in runs)
    unit = [run["seconds"] for run in found.get(REFERENCE, {}).values()]
    if not unit:
        return f"{error:.2g}, {seconds:.2g} s"
    return f"{error:.2g}, {float(f'{seconds / statistics.median(unit):.2g}'):,g} x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--features", type=int, nargs="+", default=SIZES)
    parser.add_argument("--runs", type=int, default=3, help="sets of records for each size")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of a fit")
    parser.add_argument("--only", default="", help="methods whose name contains this")
    parser.add_argument("--output", type=Path, default=Path("results/packages.json"))
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work[0], Path(arguments.work[1]), arguments.limit)
        return
    prepare_environment()
    path = arguments.output
    path.parent.mkdir(parents=True, exist_ok=True)
    document = json.loads(path.read_text()) if path.exists() else {"sizes": {}}
    names = [name for name in METHODS if arguments.only in name]
    for d in arguments.features:
        for seed in range(arguments.runs):
            found = document["sizes"].setdefault(str(d), {})
            measure(d, seed, names, arguments, found)
            document |= {"n_records": arguments.records, "limit_seconds": arguments.limit}
            path.write_text(json.dumps(document, indent=1) + "\n")
    print_table(document["sizes"], arguments.limit)
    print(f"\n{versions()}")


if __name__ == "__main__":
    main()
