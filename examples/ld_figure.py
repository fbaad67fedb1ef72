"""The figures of `ld.py`: one window of LD matrices, and what they are good for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hushcov.report.figures import colour_bar, panel
from hushcov.report.style import BLUE, caption, new_figure, tidy, write_png

EXACT, SAME, OTHER = "exact LD, not private", "panel, same population", "panel, other population"
SHOWN = ((EXACT, 0.0), ("private", 1.0), ("private", 3.0), (SAME, 0.0), (OTHER, 0.0))
LINES = {
    EXACT: ("0.2", "-"),
    SAME: ("#009E73", "--"),
    OTHER: ("#D55E00", ":"),
    "no LD": ("0.6", "-."),
}
QUESTIONS = (
    ("found", "acting variants found\n(share of all)", (0, 1.02)),
    ("false", "false credible sets\n(share of all sets)", (0, 0.8)),
    ("accuracy", "accuracy of the score\n(correlation)", (0.7, 0.82)),
)
WINDOW_CAPTION = (
    "What to see. Correlations r of {variants} neighbouring variants, {people:,} people, delta = "
    "1e-6. Private LD has the blocks of the exact one, under noise that falls with epsilon; signs "
    "are kept. A panel of 500 people of the same population is about as good as epsilon = 3 here. "
    "That of a population which split off 1,000 generations ago has other blocks."
)
USES_CAPTION = (
    "What to see. Blue: private LD (1,000 variants, pairs at most 49 apart, delta = 1e-6) comes up "
    "to exact LD with more people or epsilon. It passes the panel of another population early, and "
    "500 people of the same population hardly. False sets stay few at any epsilon, because "
    "the noise is known and counted; where noise is large, little is found instead. In each column "
    "effects are so that single z-scores are 6 to 12, whatever the number of people."
)


def draw_windows(path: Path, rows: list[dict[str, Any]]) -> None:
    """The first window: exact, private at two budgets, and panels."""
    people = sorted({row["people"] for row in rows})
    n = people[min(1, len(people) - 1)]
    mine = {(row["ld"], row["epsilon"]): row for row in rows if row["people"] == n}
    kept = [key for key in SHOWN if key in mine]
    figure = new_figure(3.1 * len(kept) + 0.6, 4.4)
    axes = figure.subplots(1, len(kept), sharey=True)
    for each, key in zip(np.atleast_1d(axes), kept, strict=True):
        title = f"private, epsilon = {key[1]:g}" if key[1] else key[0]
        image = panel(each, np.array(mine[key]["window"]), 1.0, title)
        each.set_xlabel("variant, in order of position", fontsize=9)
        each.title.set_fontsize(10)
    np.atleast_1d(axes)[0].set_ylabel("variant")
    colour_bar(image, list(np.atleast_1d(axes)), shrink=0.6)
    size = len(mine[kept[0]]["window"])
    caption(figure, WINDOW_CAPTION.format(people=n, variants=size), width=175)
    write_png(path, figure)


def draw_uses(path: Path, rows: list[dict[str, Any]]) -> None:
    """Each question in a row, each number of people in a column, over epsilon."""
    people = sorted({row["people"] for row in rows})
    figure = new_figure(3.6 * len(people) + 1.2, 8.6)
    grid = figure.subplots(len(QUESTIONS), len(people), squeeze=False, sharex=True, sharey="row")
    for column, n in enumerate(people):
        mine = [row for row in rows if row["people"] == n]
        for axes, (key, label, limits) in zip(grid[:, column], QUESTIONS, strict=True):
            for row in mine:
                if row["ld"] in LINES:
                    colour, style = LINES[row["ld"]]
                    axes.axhline(row[key], color=colour, linestyle=style, label=row["ld"])
            private = sorted((row["epsilon"], row[key]) for row in mine if row["ld"] == "private")
            axes.plot(*zip(*private, strict=True), "o-", color=BLUE, label="private LD")
            axes.set(xscale="log", ylim=limits)
            axes.set_xticks([each for each, _ in private], [f"{each:g}" for each, _ in private])
            axes.minorticks_off()
            tidy(axes)
            if column == 0:
                axes.set_ylabel(label)
        grid[0, column].set_title(f"{n:,} people")
        grid[-1, column].set_xlabel("epsilon (no unit)")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, fontsize=9)
    caption(figure, USES_CAPTION, width=44 * len(people) + 30)
    write_png(path, figure)
