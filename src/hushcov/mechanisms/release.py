"""What a mechanism hands out: integers, one public unit, and the guarantee they carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hushcov._version import __version__
from hushcov.accounting import Guarantee


@dataclass(frozen=True)
class Release:
    """A released symmetric matrix: `integers * unit`, times the scales of its two features.

    Integers leave no floating-point fingerprint of the data, and everything computed from
    a release is covered by its guarantee. `noise_sd` is the standard deviation of the noise of
    off-diagonal and of diagonal entries, in the unit of the data over the features' scales.
    `selected` has the rows and columns of the pairs that were released, None for all of them.
    """

    mechanism: str
    integers: npt.NDArray[np.int64]
    unit: float
    guarantee: Guarantee
    parameters: Mapping[str, object]
    feature_scale: npt.NDArray[np.float64] | None = None
    noise_sd: tuple[float, float] | None = None
    selected: npt.NDArray[np.int64] | None = None

    def covariance(self) -> npt.NDArray[np.float64]:
        """The released matrix in the unit of the data."""
        matrix = np.multiply(self.integers, self.unit, dtype=np.float64)
        if self.feature_scale is not None:
            # In one factor, which is the same above and below the diagonal.
            matrix *= np.multiply.outer(self.feature_scale, self.feature_scale)
        return matrix

    @property
    def released(self) -> npt.NDArray[np.bool_]:
        """Where the release holds a value: selected pairs and the diagonal."""
        if self.selected is None:
            return np.ones(self.integers.shape, dtype=bool)
        mask = np.eye(len(self.integers), dtype=bool)
        rows, columns = self.selected
        mask[rows, columns] = mask[columns, rows] = True
        return mask

    def write(self, folder: str | Path) -> Path:
        """Write `integers.npy` and `release.json` into `folder`, and return the folder."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        np.save(path / "integers.npy", self.integers)
        description = {
            "hushcov": __version__,
            "mechanism": self.mechanism,
            "unit": self.unit,
            "guarantee": self.guarantee.to_dict(),
            "parameters": dict(self.parameters),
            "feature_scale": None if self.feature_scale is None else self.feature_scale.tolist(),
            "noise_sd": self.noise_sd,
            "selected": None if self.selected is None else self.selected.tolist(),
        }
        (path / "release.json").write_text(json.dumps(description, indent=1) + "\n")
        return path
