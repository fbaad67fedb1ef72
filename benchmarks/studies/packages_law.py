"""The eigenvector samplers of diffprivlib and OpenDP: how often they accept, what they leak.

    python benchmarks/studies/packages.py --features 5    # once: makes the packages' environment
    python benchmarks/studies/packages_law.py

Amin et al. (NeurIPS 2019) sample u with density exp(-u'Au) on the sphere: propose from the angular
Gaussian of Omega = I + 2A/b, and accept with probability exp(-u'Au) (u'Omega u)^(d/2) / M (Kent,
Ganeiber and Mardia 2018). Both packages divide by that power. What they draw has the density
exp(-u'Au) (u'Omega u)^(-d), which is not the law of the proof, and is rarely accepted.

Three parts: acceptance rates of either rule; the exact ratio of densities of the packages' law on a
pair of neighbours, by quadrature; and that ratio measured on the packages themselves, by counting.
The pair has m records e_1 and m - 2 records e_2, one e_1 of which is replaced by e_2.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PYTHON = Path("results/packages-env/bin/python")
ANGLE = math.radians(70)  # from e_1 on, in the plane of e_1 and e_2: the counted event
RECORDS = 1_000  # m
MISTAKE = 1e-5  # probability that a measured bound is too large


def acceptance(
    d: int, row_sparsity: int, n: int, epsilon: float, draws: int
) -> tuple[float, float]:
    """Acceptance rates by the correct rule and by the packages', for a first eigenvector.

    Block model; rows clipped at 1.5 times their root mean square, and an equal share of epsilon for
    each of d directions.
    """
    from hushcov.simulate import sparse_covariance

    truth = sparse_covariance("block", d, row_sparsity)
    C = truth * n / (1.5**2 * np.trace(truth))
    values = np.linalg.eigvalsh(C)
    A = epsilon / d / 4 * (values[-1] * np.eye(d) - C)
    b = proposal_constant(np.linalg.eigvalsh(A))
    root = np.linalg.cholesky(np.linalg.inv(np.eye(d) + 2 * A / b))
    z = np.random.default_rng(0).standard_normal((draws, d)) @ root.T
    u = z / np.linalg.norm(z, axis=1, keepdims=True)
    q = np.einsum("ri,ij,rj->r", u, A, u)
    power = d / 2 * np.log1p(2 * q / b)
    log_bound = -(d - b) / 2 + d / 2 * math.log(d / b)
    return (
        float(np.exp(-q + power - log_bound).mean()),
        float(np.exp(-q - power - log_bound).mean()),
    )


def proposal_constant(values: np.ndarray) -> float:
    """The b with sum of 1 / (b + 2 a_j) = 1."""
    from scipy.optimize import brentq

    return brentq(lambda b: float(np.sum(1 / (b + 2 * values))) - 1, 1e-9, len(values) + 1e-9)


def leak(d: int, epsilon: float) -> float:
    """Log-ratio of the densities of the angle at e_2, for m to infinity, over epsilon.

    Off the plane the law then has the width 1/sqrt(m), and integrating it out leaves one integral.
    The replacement makes the angle uniform; before it, the density at angle t is `plane` of
    (epsilon/2) sin^2 t.
    """
    from scipy.integrate import quad

    gap = epsilon / 2
    b = proposal_constant(np.array([0.0, gap]))

    def plane(q: float) -> float:
        def density(x: float) -> float:
            return math.exp(-q - x * x) * (1 + 2 * (q + x * x) / b) ** -d * x ** (d - 3)

        return float(quad(density, 0, math.inf, limit=500, epsabs=0)[0])

    angles = (np.arange(200) + 0.5) / 200 * math.pi / 2
    mean = float(np.mean([plane(gap * math.sin(t) ** 2) for t in angles]))
    return math.log(mean / plane(gap)) / epsilon


def sampler(package: str, C: np.ndarray, epsilon: float) -> Callable[[], Any]:
    """One eigenvector of the package, which says that it costs epsilon for a replacement."""
    if package == "diffprivlib":
        from diffprivlib.mechanisms import Bingham

        return lambda: Bingham(epsilon=epsilon).randomise(C)
    import opendp.prelude as dp
    from opendp.extras.numpy import _sscp_domain
    from opendp.extras.sklearn._make_eigenvector import make_private_eigenvector

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    size = round(np.trace(C))
    domain = _sscp_domain(num_features=len(C), norm=1.0, p=2, size=size, T=float)
    measurement = make_private_eigenvector(domain, dp.symmetric_distance(), epsilon)
    assert measurement.map(2) == epsilon
    return lambda: np.array(measurement(C))


def quotes_a_record() -> bool:
    """Whether an error of diffprivlib has the norm of the longest row; runs in its environment."""
    from diffprivlib.models.utils import covariance_eig

    X = np.full((50, 3), 0.1)
    X[7] = 123.456
    try:
        covariance_eig(X, epsilon=1.0, norm=1.0)
    except ValueError as error:
        return str(np.linalg.norm(X[7])) in str(error)
    return False


def count(package: str, diagonal: list[float], epsilon: float, draws: int) -> int:
    """How often the vector is beyond `ANGLE`; runs in the environment of the packages."""
    draw = sampler(package, np.diag(diagonal), epsilon)
    limit = math.tan(ANGLE)
    return sum(abs(u[1]) > limit * abs(u[0]) for u in (draw() for _ in range(draws)))


def measured(package: str, d: int, epsilon: float, draws: int) -> tuple[float, list[int]]:
    """A lower bound on epsilon from both counts (Clopper-Pearson), and the counts."""
    from scipy import stats

    counts = []
    for first, second in ((RECORDS, RECORDS - 2), (RECORDS - 1, RECORDS - 1)):
        diagonal = [float(first), float(second)] + [0.0] * (d - 2)
        task = json.dumps([package, diagonal, epsilon, draws])
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        command = [PYTHON, __file__, "--work", task]
        answer = subprocess.run(command, env=environment, check=True, capture_output=True)
        counts.append(int(answer.stdout))
    few, many = counts
    upper = stats.beta.ppf(1 - MISTAKE / 2, few + 1, draws - few)
    lower = stats.beta.ppf(MISTAKE / 2, many, draws - many + 1)
    return math.log(lower / upper), counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=Path("results/packages_law.json"))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        task = json.loads(arguments.work)
        print(count(*task) if task else quotes_a_record())
        return
    document: dict[str, Any] = {"acceptance": {}, "leak": {}, "measured": {}}
    for d in (5, 10, 20):
        rates = acceptance(d, 5, 100_000, 1.0, 200_000)
        document["acceptance"][d] = rates
        print(
            f"d={d}: accepted {rates[0]:.2g} by the correct rule, {rates[1]:.1e} by the packages'"
        )
    for d in (3, 4, 5, 10, 20, 50):
        ratios = {epsilon: leak(d, epsilon) for epsilon in (0.05, 0.2, 1.0)}
        document["leak"][d] = ratios
        shown = ", ".join(f"{ratio:.2f} at {epsilon:g}" for epsilon, ratio in ratios.items())
        print(f"d={d}: exact loss over the stated epsilon {shown}")
    for package in ("diffprivlib", "opendp"):
        bound, counts = measured(package, 5, 1.0, arguments.draws)
        document["measured"][package] = {"epsilon_at_least": bound, "counts": counts}
        print(f"{package}, d=5: states epsilon 1, at least {bound:.2f} measured; counts {counts}")
    command = [PYTHON, __file__, "--work", "[]"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    document["diffprivlib_quotes_a_record"] = answer == "True"
    print(f"an error of diffprivlib quotes the norm of a record: {answer}")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(document | {"draws": arguments.draws}, indent=1) + "\n")


if __name__ == "__main__":
    main()
