"""Answers of the regression rivals."""

from __future__ import annotations

from dataclasses import dataclass

from hushcov._arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Regression of y on X with an intercept, in the units of the data.

    `lower` and `upper` are 95 % intervals of the coefficients, where a method has them.
    """

    intercept: float
    coefficients: FloatArray
    lower: FloatArray | None = None
    upper: FloatArray | None = None

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the predicted target of each record."""
        predicted: FloatArray = self.intercept + X @ self.coefficients
        return predicted


class RivalSilent(Exception):
    """A method did not answer: its test of the records failed, as privacy demands of it."""
