"""Which questions of a survey belong together, from one private release of the answers.

    python examples/survey.py [--records N] [--figure PATH]

Simulated: 36 questions, answered from 1 to 5 by 10,000 people. Four to six questions ask for the
same trait, some of them the other way round; six questions have nothing in common. The covariance
is released once. Scales, reversed questions and reliabilities use the release alone:
post-processing is free, however much there is.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score

from hushcov import PrivateSparseCovariance
from hushcov.postprocess import released_correlations
from hushcov.report.style import caption, new_figure, write_png

SIZES = (6, 6, 5, 5, 4, 4, *[1] * 6)  # questions for each trait
QUESTIONS = sum(SIZES)
APART = 0.8  # clusters are kept apart if correlations between them are below 0.2 on average
CAPTION = (
    "What to see. A tree of the questions, made of released correlations (epsilon = 1, delta = "
    "1e-6). Branches that meet below the dashed line are scales; letters are the simulated traits."
)


def simulate(n_records: int) -> tuple[Any, Any]:
    """Answers, and the trait of each question: traits and chance, cut at thresholds."""
    generator = np.random.default_rng(2)
    trait = generator.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    sign = generator.choice([-1, 1], QUESTIONS, p=[0.25, 0.75])
    loading = sign * generator.uniform(0.6, 0.85, QUESTIONS)
    cuts = np.array([-1.2, -0.4, 0.4, 1.2])[:, None] + generator.normal(0, 0.3, QUESTIONS)
    of_trait = generator.standard_normal((n_records, len(SIZES)))[:, trait]
    own = np.sqrt(1 - loading**2) * generator.standard_normal((n_records, QUESTIONS))
    return 1.0 + (loading * of_trait + own > cuts[:, None]).sum(axis=0), trait


def reliability(covariance: Any, sign: Any) -> float:
    """Cronbach's alpha of the sum of these questions, reversed ones subtracted."""
    k, total = len(covariance), sign @ covariance @ sign
    return float(k / (k - 1) * (1 - np.trace(covariance) / total))


def draw(path: Path, tree: Any, trait: Any) -> None:
    """The tree of the questions."""
    figure = new_figure(10, 4.8)
    axes = figure.subplots()
    letters = [chr(ord("A") + each) for each in trait]
    hierarchy.dendrogram(tree, ax=axes, labels=letters, color_threshold=APART, leaf_rotation=0)
    axes.axhline(APART, color="0.4", linestyle="--", linewidth=1)
    axes.set(xlabel="question (letter: its trait)", ylabel="1 - |correlation|, on average")
    caption(figure, CAPTION, width=115)
    write_png(path, figure)


def main(arguments: list[str] | None = None) -> None:
    """Release once; find scales, reversed questions and reliabilities."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000, help="rows to simulate")
    parser.add_argument("--figure", type=Path, help="file to draw into")
    options = parser.parse_args(arguments)
    answers, trait = simulate(options.records)

    # The one look at the answers. Their scale is public: a quarter of the range from 1 to 5.
    est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, feature_scale=1.0)
    released = est.fit(answers).covariance_
    print("One release:", str(est.release_.guarantee).splitlines()[0])

    # Everything from here on is post-processing, and free.
    correlation = released_correlations(released)
    distance = 1 - np.minimum(np.abs(correlation), 1)
    tree = hierarchy.linkage(squareform(distance, checks=False), "average")
    cluster = hierarchy.fcluster(tree, APART, "distance")
    agreement = adjusted_rand_score(trait, cluster)
    print(f"1. Clusters of questions: {cluster.max()} ({len(SIZES)} are true).")
    print(f"   Agreement with the traits (adjusted Rand index): {agreement:.2f} of 1.")
    print("2. Scales, with a minus where a question asks the other way round, and")
    print("3. their reliability (Cronbach's alpha), beside that without privacy:")
    for label in np.flatnonzero(np.bincount(cluster) > 2):
        scale = np.flatnonzero(cluster == label)
        sign, block = np.sign(correlation[scale[0], scale]), np.ix_(scale, scale)
        sample = reliability(np.cov(answers.T)[block], sign)
        questions = " ".join(f"{number:3.0f}" for number in sign * (scale + 1))
        print(f"   {questions:24} {reliability(released[block], sign):5.2f} {sample:5.2f}")
    if options.figure:
        draw(options.figure, tree, trait)


if __name__ == "__main__":
    main()
