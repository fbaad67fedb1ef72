"""Looks at cells: where a column lies that may be far from its centre for its spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.steps.location import cells, octaves
from hushcov.steps.location.state import Column, Found, Look, Way, Window
from hushcov.sums.counts import cell_counts

# Clusters beyond so many scales are a law of their own.
_CLUSTERS = 6.01
# So often a column that lies in one place is looked at in narrower cells, too: 2^30 scales.
_DEEPEST = 3


def look_at_cells(look: Look, columns: Sequence[Column], n_tested: int) -> None:
    """Two levels of cells: the second in the four cells that hold nearly all."""
    firsts = np.zeros(len(columns), dtype=np.int64)
    level = _Level(look, columns, firsts, cells.N_CELLS, 1, None, n_tested)
    opened = level.take_spreads()
    if not opened:
        return
    firsts = np.array([cells.first_opened(level.counts[i]) for i in opened], dtype=np.int64)
    parents = np.stack(
        [cells.opened_counts(level.counts[i], int(f)) for i, f in zip(opened, firsts, strict=True)]
    )
    inner = [columns[i] for i in opened]
    level = _Level(look, inner, firsts * cells.N_CELLS, cells.N_CHILDREN, 2, parents, n_tested)
    for i in level.take_spreads():
        level.take_place(i)


class _Level:
    """One level of cells of some columns, counted with noise."""

    def __init__(
        self,
        look: Look,
        columns: Sequence[Column],
        firsts: IntArray,
        n_cells: int,
        depth: int,
        parents: FloatArray | None,
        n_tested: int,
    ) -> None:
        self.look, self.columns, self.firsts, self.parents = look, columns, firsts, parents
        self.n_tested = n_tested
        index = np.array([column.index for column in columns], dtype=np.int64)
        self.starts = np.array([column.window.start for column in columns])
        self.widths = np.array([column.window.width / cells.N_CELLS**depth for column in columns])
        self.counts = look.noisy(
            cell_counts(look.records, index, self.starts, self.widths, firsts, n_cells)
        )

    def take_spreads(self) -> list[int]:
        """Take in columns that spread over more than two cells; return the places of others."""
        look = self.look
        # Each column is tested at two levels.
        z = look.offset_deviations(2 * self.n_tested)
        narrow = cells.concentrated(self.counts, look.n, look.sigma, z)
        wide = np.flatnonzero(~narrow)
        if len(wide):
            z = octaves.deviations(self.n_tested * cells.CELLS_LOOKED_AT, look.level)
            parents = None if self.parents is None else self.parents[wide]
            spreads = cells.read_spreads(self.counts[wide], parents, look.sigma, look.n, z)
            for i, spread in zip(wide, spreads, strict=True):
                if spread is not None and spread.in_one_place:
                    narrow[i] = True
                else:
                    self._take_spread(int(i), spread)
        return [int(i) for i in np.flatnonzero(narrow)]

    def _take_spread(self, i: int, spread: cells.Spread | None) -> None:
        column = self.columns[i]
        if spread is None:
            column.settle(column.fallback)
            return
        centre, scale = self._position(i, spread.centre), spread.scale * float(self.widths[i])
        if spread.reach is not None and spread.reach > _CLUSTERS * spread.scale:
            reach = octaves.bounded_reach(spread.reach / spread.scale, self.look.low_reach)
            column.settle(Found(centre, scale, reach))
        else:
            column.way = Way.REFINED
            column.count_about(centre)

    def take_place(self, i: int) -> None:
        """Take in a column that lies in two cells: it may be constant, or nearly."""
        column = self.columns[i]
        first, width = cells.first_opened(self.counts[i]), float(self.widths[i])
        column.count_about(
            self._position(i, first + cells.N_OPENED / 2), cells.N_OPENED / 2 * width
        )
        column.window = Window(self._position(i, first), cells.N_OPENED * width)
        column.depth += 1
        column.in_one_place, column.fallback = True, None
        column.way = Way.BOTH if column.depth < _DEEPEST else Way.OCTAVES

    def _position(self, i: int, cell: float) -> float:
        """Where a cell of this level begins."""
        return float(self.starts[i] + (self.firsts[i] + cell) * self.widths[i])
