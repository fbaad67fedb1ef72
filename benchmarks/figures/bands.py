"""What a known band saves: noise by formula and by simulation, rates, and which width is best.

    python benchmarks/figures/bands.py --figure docs/figures/bands.png

Three parts, each kept in the JSON file beside the figure as soon as it is there; `--parts` runs
some of them, `--draw` draws again. "norms": the norm of Gaussian noise in a band. "rates": errors
of `GaussianCovariance(bandwidth=w)` over columns, widths and records, with their exponents.
"widths": errors over the width where covariances fall off and none is right, beside
`adaptive_width`. Normal columns, means and scales known, epsilon = 1, delta = 1e-6; a few minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh

from hushcov import GaussianCovariance, PrivateSparseCovariance
from hushcov.calibration import calibrate_gaussian
from hushcov.report.style import LOOKS, caption, log_ticks, new_figure, tidy, write_png
from hushcov.simulate import gaussian_records

EPSILON, DELTA = 1.0, 1e-6
NORM_FEATURES, NORM_WIDTHS = (100, 1_000, 10_000), (1, 2, 5, 10, 20, 50)
MIDDLE = {"features": 500, "width": 5, "records": 20_000}
SWEEPS = {
    "features": (125, 250, 500, 1_000, 2_000),
    "width": (2, 5, 10, 20, 40),
    "records": (5_000, 10_000, 20_000, 40_000, 80_000),
}
EXPECTED = {"features": 0.5, "width": 1.0, "records": -1.0}
DECAYS = {"ar-0.8": "0.8^lag", "power": "1 / (1 + lag)^2"}
DECAY_SIZE = (300, 20_000)
WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
RUNS = 3
TEXT = (
    "What to see. Left: the norm of noise in a band (points, simulated) is 2 sqrt(2w + 1) "
    "deviations (line), and more where bands are narrow and columns many. Middle: what privacy "
    "adds to the sample's error (points) beside the formula (dashed): sqrt(d), w and 1/n. Right: "
    "where covariances fall off, too narrow a band cuts off what there is, and too wide a one pays "
    "for noise; dashed is adaptive_width, told 32 at most. Normal columns, means and scales known, "
    "epsilon = 1, delta = 1e-6, medians of 3."
)


def band_noise(d: int, weights: np.ndarray, generator: np.random.Generator) -> sparse.csr_array:
    """Symmetric noise of deviation 1 in a band, times a weight for each lag."""
    bands = [weight * generator.standard_normal(d - k) for k, weight in enumerate(weights)]
    places = range(len(weights))
    return sparse.diags_array(
        [*bands, *bands[1:]], offsets=[*places, *(-k for k in places if k)]
    ).tocsr()


def norm(matrix: object) -> float:
    """The largest eigenvalue, by size."""
    start = np.ones(matrix.shape[0])
    found = eigsh(matrix, k=1, which="LM", v0=start, tol=1e-4, return_eigenvectors=False)
    return float(abs(found[0]))


def taper(width: int) -> np.ndarray:
    """Weights of lags 0 to `width`: 1 up to the half, then falling to zero at `width` + 1."""
    half = (width + 1) / 2
    return np.clip(2 - np.arange(width + 1) / half, 0, 1)


def row_size(weights: np.ndarray) -> float:
    """Root of the sum of squares of a row in the middle."""
    return math.sqrt(2 * np.sum(weights**2) - weights[0] ** 2)


def norms() -> list[dict]:
    generator = np.random.default_rng(1)
    found = []
    for d in NORM_FEATURES:
        for w in NORM_WIDTHS:
            if 4 * w > d:
                continue
            for shape, weights in (("cut", np.ones(w + 1)), ("taper", taper(w))):
                drawn = [norm(band_noise(d, weights, generator)) for _ in range(5)]
                found.append(
                    {
                        "features": d,
                        "width": w,
                        "shape": shape,
                        "norm": statistics.fmean(drawn),
                        "formula": 2 * row_size(weights),
                    }
                )
    return found


def triangle(d: int, w: int) -> np.ndarray:
    """Correlations that fall to zero in a straight line, beyond lag w."""
    lag = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    return np.clip(1 - lag / (w + 1), 0, None)


def decaying(name: str, d: int) -> np.ndarray:
    lag = np.abs(np.subtract.outer(np.arange(d), np.arange(d))).astype(float)
    return 0.8**lag if name == "ar-0.8" else (1 + lag) ** -2.0


def released(estimator: type, rows: np.ndarray, seed: int, **options: object) -> object:
    est = estimator(
        epsilon=EPSILON,
        delta=DELTA,
        feature_scale=np.ones(rows.shape[1]),
        assume_centered=True,
        on_hopeless="warn",
        random_state=np.random.default_rng([11, seed]),
        **options,
    ).fit(rows)
    return est


def error(matrix: object, truth: np.ndarray) -> float:
    return norm(np.asarray(sparse.csr_array(matrix).toarray()) - truth)


def formula(d: int, w: int, n: int) -> float:
    """Norm of the noise: a record of products has norm sqrt(pairs + d), and replaces another."""
    mu = calibrate_gaussian(EPSILON, DELTA)
    deviation = 2 * math.sqrt(d * (w + 1)) / (n * mu)
    return 2 * math.sqrt(2 * w + 1) * deviation


def rates() -> list[dict]:
    found = []
    for name, values in SWEEPS.items():
        for value in values:
            size = {**MIDDLE, name: value}
            d, w, n = size["features"], size["width"], size["records"]
            truth = triangle(d, w)
            errors, noises = [], []
            for seed in range(RUNS):
                rows = gaussian_records(truth, n, random_state=seed)
                est = released(GaussianCovariance, rows, seed, bandwidth=w)
                errors.append(error(est.covariance_, truth))
                noises.append(error(est.covariance_, (truth > 0) * (rows.T @ rows) / n))
            found.append(
                {
                    "sweep": name,
                    **size,
                    "error": statistics.median(errors),
                    "noise": statistics.median(noises),
                    "formula": formula(d, w, n),
                }
            )
            print(found[-1], flush=True)
    return found


def widths() -> list[dict]:
    d, n = DECAY_SIZE
    found = []
    for name in DECAYS:
        truth = decaying(name, d)
        for seed in range(RUNS):
            rows = gaussian_records(truth, n, random_state=seed)
            for w in WIDTHS:
                est = released(GaussianCovariance, rows, seed, bandwidth=w)
                plain = sparse.csr_array(est.covariance_).toarray()
                weights = np.zeros(d)
                weights[: w + 1] = taper(w)
                lag = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
                both = {"cut": plain, "taper": plain * weights[lag]}
                for shape, matrix in both.items():
                    found.append(
                        {"decay": name, "seed": seed, "width": w, "shape": shape}
                        | {"error": error(matrix, truth) / norm(truth)}
                    )
            for way in ("adaptive", "default"):
                options = {"bandwidth": f"up-to:{WIDTHS[-1]}"} if way == "adaptive" else {}
                est = released(PrivateSparseCovariance, rows, seed, **options)
                found.append(
                    {"decay": name, "seed": seed, "shape": way}
                    | {"error": error(est.covariance_, truth) / norm(truth)}
                )
                print(found[-1], flush=True)
    return found


PARTS = {"norms": norms, "rates": rates, "widths": widths}


def exponent(cells: list[dict], name: str) -> float:
    """Slope of the noise over what is varied, both as logarithms."""
    chosen = [each for each in cells if each["sweep"] == name]
    x, y = ([math.log(each[key]) for each in chosen] for key in (name, "noise"))
    return float(np.polyfit(x, y, 1)[0])


def medians(cells: list[dict], **wanted: object) -> float:
    return statistics.median(
        each["error"] for each in cells if all(each.get(k) == v for k, v in wanted.items())
    )


def say(found: dict) -> None:
    """The numbers of docs/candidates.md."""
    for each in found.get("norms", []):
        ratio = each["norm"] / each["formula"]
        print(f"{each['shape']:6} d {each['features']:6} w {each['width']:3} ratio {ratio:.2f}")
    for name, expected in EXPECTED.items() if "rates" in found else ():
        print(f"exponent in {name}: {exponent(found['rates'], name):.2f}, expected {expected}")
    for name in DECAYS if "widths" in found else ():
        cells = found["widths"]
        for shape in ("cut", "taper"):
            by = {w: medians(cells, decay=name, width=w, shape=shape) for w in WIDTHS}
            print(name, shape, {w: round(value, 3) for w, value in by.items()})
        for shape in ("adaptive", "default"):
            print(name, shape, round(medians(cells, decay=name, shape=shape), 3))


def draw(found: dict, path: Path) -> None:
    figure = new_figure(13.5, 5.4)
    left, middle, right = figure.subplots(1, 3)
    if "norms" in found:
        draw_norms(left, found["norms"])
    if "rates" in found:
        draw_rates(middle, found["rates"])
    if "widths" in found:
        draw_widths(right, found["widths"])
    for axes in (left, middle, right):
        tidy(axes)
    headline = "A known band: noise of size w sqrt(d) / (n epsilon), and which width is best"
    write_png(path, caption(figure, TEXT, width=160, headline=headline))


def draw_norms(axes, cells: list[dict]) -> None:
    w = np.geomspace(NORM_WIDTHS[0], NORM_WIDTHS[-1], 50)
    axes.plot(w, 2 * np.sqrt(2 * w + 1), color="0.3", label="2 sqrt(2w + 1)")
    for (colour, marker), d in zip(LOOKS, NORM_FEATURES, strict=False):
        chosen = [each for each in cells if (each["features"], each["shape"]) == (d, "cut")]
        axes.plot(
            [each["width"] for each in chosen],
            [each["norm"] for each in chosen],
            marker,
            color=colour,
            label=f"simulated, d = {d:,}",
            markersize=5,
        )
    axes.set(xscale="log", yscale="log", xlabel="width w of the band (columns)")
    axes.set(ylabel="operator norm of the noise\n(standard deviations of an entry)")
    log_ticks(axes.xaxis, NORM_WIDTHS)
    log_ticks(axes.yaxis, (4, 6, 10, 15, 20))
    axes.legend(frameon=False, fontsize=9)


def draw_rates(axes, cells: list[dict]) -> None:
    words = {"features": "columns d", "width": "width w", "records": "records n"}
    for (colour, marker), (name, said) in zip(LOOKS, words.items(), strict=False):
        chosen = [each for each in cells if each["sweep"] == name]
        axes.plot(
            [each[name] / MIDDLE[name] for each in chosen],
            [each["noise"] for each in chosen],
            marker + "-",
            color=colour,
            markersize=5,
            label=f"{said}: exponent {exponent(cells, name):.2f}",
        )
        axes.plot(
            [each[name] / MIDDLE[name] for each in chosen],
            [each["formula"] for each in chosen],
            "--",
            color=colour,
            linewidth=1,
        )
    axes.set(xscale="log", yscale="log", xlabel="size, over 500 columns, width 5, 20,000 records")
    axes.set_ylabel("error of privacy, operator norm (unit variances)")
    log_ticks(axes.xaxis, (0.25, 0.5, 1, 2, 4, 8))
    log_ticks(axes.yaxis, (0.05, 0.1, 0.2, 0.5, 1, 2))
    axes.legend(frameon=False, fontsize=9)


def draw_widths(axes, cells: list[dict]) -> None:
    for (colour, marker), (name, words) in zip(LOOKS, DECAYS.items(), strict=False):
        for shape, style in (("cut", "-"), ("taper", ":")):
            values = [medians(cells, decay=name, width=w, shape=shape) for w in WIDTHS]
            label = f"correlations {words}, {shape}"
            axes.plot(WIDTHS, values, marker + style, color=colour, label=label, markersize=4)
        axes.axhline(
            medians(cells, decay=name, shape="adaptive"),
            color=colour,
            linestyle="--",
            linewidth=1,
            label="adaptive_width=True",
        )
    axes.set(xscale="log", yscale="log", xlabel="width that was told (columns)")
    axes.set_ylabel("operator-norm error / norm of the covariance")
    log_ticks(axes.xaxis, WIDTHS[::2])
    axes.set_ylim(0.04, 4)  # room for the legend
    log_ticks(axes.yaxis, (0.05, 0.1, 0.2, 0.5, 1))
    axes.legend(frameon=False, fontsize=9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", type=Path, default=Path("results/bands.png"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--draw", action="store_true", help="draw again what was measured")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of seeded noise, and of errors that are predicted large
    path = options.figure.with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    for part in () if options.draw else options.parts:
        found[part] = PARTS[part]()
        path.write_text(json.dumps(found, indent=1) + "\n")
    say(found)
    draw(found, options.figure)


if __name__ == "__main__":
    main()
