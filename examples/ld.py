"""Private linkage-disequilibrium (LD) matrices, and what they are good for.

    pip install 'hushcov-genotypes[examples]'    # brings msprime, which simulates genotypes
    python examples/ld.py              # 20,000 people, about a minute
    python examples/ld.py --people 2000 20000 200000 --epsilon 0.3 1 3 10 --figures docs/figures

Simulated: genotypes of a growing population at 1,000 common variants. Correlations of variants at
most 49 apart are released once (`GenotypeCovariance`). Then, with z-scores of simulated traits:
which variants act (fine-mapping) and how well a trait is predicted (a polygenic score), beside the
exact LD matrix and beside public panels of 500 people, of the same population and of one that split
off. All of that uses the release alone: post-processing is free.

z-scores are taken as given. They are of the same people, so they must be released privately too, or
have been published before; this guarantee does not cover them. A record is one person: relatives
are not protected as a group.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from ld_genotypes import PANEL, Calls, Population, ld, simulate
from ld_uses import Matrix, draw_z, fine_map, polygenic_weights, score_accuracy, usable
from rich.console import Console
from rich.progress import Progress
from threadpoolctl import threadpool_limits

from hushcov import GenotypeCovariance

DELTA, WINDOW = 1e-6, 50
SEED_PEOPLE, SEED_NEW, SEED_TRAITS = 1, 2, 3
NEW_PEOPLE = 20_000
TRAITS = 10  # of the score; each locus has half as many of its own
MOST_ACTING = 3  # variants in a locus
ACTING, SIGNAL = 0.1, 1.0  # share of variants in a score; variance of an effect, in units of z
FREE = (
    "exact LD, not private",
    "panel, same population",
    "panel, other population",
    "other panel, error known",
    "no LD",
)


def release(genotypes: Calls, epsilon: float, missing: float) -> tuple[Matrix, float]:
    """Private LD of all pairs in a band, and the deviation of its noise."""
    if missing:
        lost = np.random.default_rng(0).random(genotypes.shape, dtype=np.float32) < missing
        genotypes = np.where(lost, np.int8(-1), genotypes)
    est = GenotypeCovariance(
        epsilon=epsilon, delta=DELTA, bandwidth=WINDOW - 1, on_hopeless="warn"
    ).fit(genotypes)
    return est.correlation_.toarray(), min(1.0, est.plan_.noise)


def windows(matrix: Matrix) -> list[Matrix]:
    """Blocks along the diagonal."""
    starts = range(0, len(matrix) - WINDOW + 1, WINDOW)
    return [matrix[start : start + WINDOW, start : start + WINDOW] for start in starts]


def window_errors(found: list[Matrix], exact: list[Matrix]) -> Matrix:
    """Operator norm of what is wrong in each window, over the norm of the window."""
    pairs = zip(found, exact, strict=True)
    return np.array([np.linalg.norm(a - b, 2) / np.linalg.norm(b, 2) for a, b in pairs])


def judge_mapping(
    blocks: list[Matrix], exact: list[Matrix], noise: float, strength: tuple[float, float]
) -> dict[str, float]:
    """Variants found and false sets, over loci with one to three acting variants each."""
    generator = np.random.default_rng(SEED_TRAITS)
    acting, found, false, sets, sizes = 0, 0, 0, 0, []
    for block, truth in zip(blocks, exact, strict=True):
        for _ in range(TRAITS // 2):
            number = generator.integers(1, MOST_ACTING + 1)
            causes = generator.choice(WINDOW, number, replace=False)
            effects = np.zeros(WINDOW)
            effects[causes] = generator.uniform(*strength, number)
            effects[causes] *= generator.choice([-1, 1], number)
            answer = fine_map(draw_z(truth, effects, generator), block, noise)
            acting, sets = acting + number, sets + len(answer.sets)
            inside = [np.isin(causes, held) for held in answer.sets]
            found += int(np.any(inside, axis=0).sum()) if inside else 0
            false += sum(not each.any() for each in inside)
            sizes += [len(held) for held in answer.sets]
    return {
        "found": found / acting,
        "false": false / sets if sets else 0.0,
        "sets": sets,
        "size": float(np.mean(sizes)) if sizes else 0.0,
    }


def judge_score(blocks: list[Matrix], sample: Matrix, new: Matrix, noise: float) -> float:
    """Mean accuracy of a score in new people."""
    generator = np.random.default_rng(SEED_TRAITS)
    d, accuracies = len(sample), []
    for _ in range(TRAITS):
        acts = generator.random(d) < ACTING
        effects = acts * generator.standard_normal(d) * np.sqrt(SIGNAL / ACTING)
        weights = polygenic_weights(draw_z(sample, effects, generator), blocks, SIGNAL, noise)
        accuracies.append(score_accuracy(weights, effects, new))
    return float(np.mean(accuracies))


def measure(options: argparse.Namespace, tick: Any) -> list[dict[str, Any]]:
    """One row for each number of people and each LD matrix."""
    population: Population = simulate(options.variants, rarest=options.rarest)
    new = ld(population.table(NEW_PEOPLE, SEED_NEW))
    near, far, none = ld(population.panel), ld(population.far), np.eye(options.variants)
    rows = []
    for n in options.people:
        genotypes = population.table(n, SEED_PEOPLE)
        sample = ld(genotypes)
        exact = windows(sample)
        rival = 1 / np.sqrt(PANEL)
        # Nobody knows how far off a panel of another population is; this is what knowing brings.
        off = np.sqrt(np.mean((np.array(windows(far)) - np.array(exact)) ** 2))
        pairs = (sample, 0.0), (near, rival), (far, rival), (far, float(off)), (none, 0.0)
        makers: list[tuple[str, float, Any]] = [
            (name, 0.0, found) for name, found in zip(FREE, pairs, strict=True)
        ]
        makers += [("private", epsilon, None) for epsilon in options.epsilon]
        for name, epsilon, given in makers:
            matrix, noise = given or release(genotypes, epsilon, options.missing)
            noise *= not options.trusting
            blocks = [usable(block) for block in windows(matrix)]
            errors = window_errors(blocks, exact)
            row = {"people": n, "ld": name, "epsilon": epsilon, "noise": noise}
            row |= {"error": float(np.median(errors)), "worst": float(errors.max())}
            row |= judge_mapping(blocks, exact, noise, tuple(options.strength))
            row["accuracy"] = judge_score(blocks, sample, new, noise)
            rows.append(row | {"window": np.round(blocks[0], 3).tolist()})
            tick()
    return rows


def say(rows: list[dict[str, Any]]) -> None:
    """A table for each number of people."""
    head = "error: median, worst | acting variants found | false sets | score accuracy"
    for n in dict.fromkeys(row["people"] for row in rows):
        print(f"\n{n:,} people{'LD matrix':>16} | noise | {head}")
        for row in (row for row in rows if row["people"] == n):
            name = row["ld"] + (f", epsilon {row['epsilon']:g}" if row["epsilon"] else "")
            print(
                f"{name:>28} | {row['noise']:5.3f} | {row['error']:14.3f}, {row['worst']:5.3f} | "
                f"{row['found']:21.0%} | {row['false']:10.0%} | {row['accuracy']:.3f}"
            )


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--people", type=int, nargs="+", default=[20_000], help="sizes of the study")
    add("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    add("--variants", type=int, default=1_000, help="common variants of 3 million base pairs")
    add("--rarest", type=float, default=0.05, help="least share of the rarer allele")
    add("--strength", type=float, nargs=2, default=[6.0, 12.0], help="z-scores of effects alone")
    add("--missing", type=float, default=0.0, help="share of calls that fail")
    add("--trusting", action="store_true", help="take every LD matrix for exact")
    add("--output", type=Path, help="file for all numbers (JSON)")
    add("--figures", type=Path, help="folder to draw into (extra report)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Simulate, release, use, and say how it went."""
    options = parsed(arguments)
    warnings.filterwarnings("ignore", category=UserWarning, module="hushcov")
    total = len(options.people) * (len(FREE) + len(options.epsilon))
    with Progress(console=Console(stderr=True), transient=True) as bar, threadpool_limits(1):
        task = bar.add_task("LD matrices", total=total)
        rows = measure(options, lambda: bar.advance(task))
    print(
        f"Private LD of {options.variants:,} variants, pairs at most {WINDOW - 1} apart, delta "
        f"{DELTA:g}. Windows of {WINDOW}: error is the operator norm of what is wrong over that of "
        "the exact LD. A false set is a 95 % credible set without an acting variant."
    )
    say(rows)
    print("\nWithout LD everything that correlates with an acting variant counts as acting.")
    if options.output:
        options.output.write_text(json.dumps(rows) + "\n")
    if options.figures:
        from ld_figure import draw_uses, draw_windows

        draw_windows(options.figures / "ld-windows.png", rows)
        draw_uses(options.figures / "ld-uses.png", rows)


if __name__ == "__main__":
    main()
