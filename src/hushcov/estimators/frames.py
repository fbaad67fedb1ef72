"""Whose data frames come in, and whose go out."""

from __future__ import annotations

from typing import Self

from sklearn import get_config
from sklearn.base import BaseEstimator

from hushcov._validation import LIBRARIES, check_choice

_DEFAULT = "default"


def library_of(table: object) -> str | None:
    """Whose data frame it is; None for all else. Nothing but its class is looked at."""
    roots = (cls.__module__.partition(".")[0] for cls in type(table).__mro__)
    return next((root for root in roots if root in LIBRARIES), None)


class FrameChoice(BaseEstimator):
    """An estimator whose tables are frames of the library that came in, or was asked for."""

    _frames: str | None = None  # whose frames are returned; None where nothing says
    _frames_in: str | None = None
    _frames_asked: str | None = None

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose whose data frames tables such as `labelled_covariance()` are.

        It is scikit-learn's way to say so, and kept by `clone`. There is no `transform` here.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            "default" is the library of the rows that were fitted, else pandas; None changes
            nothing. Where it is not called, `sklearn.set_config(transform_output=...)` counts.
        """
        if transform is not None:
            check_choice("transform", transform, (_DEFAULT, *LIBRARIES))
            self._frames_asked = transform
            self._choose_frames()
        return self

    def __sklearn_clone__(self) -> Self:
        """As scikit-learn makes it, and with what was asked of frames."""
        copy: Self = super().__sklearn_clone__()
        if self._frames_asked is not None:
            copy.set_output(transform=self._frames_asked)
        return copy

    def _frames_of(self, library: str | None) -> None:
        """Note whose frame came in."""
        self._frames_in = library
        self._choose_frames()

    def _choose_frames(self) -> None:
        asked = self._frames_asked or get_config()["transform_output"]
        self._frames = self._frames_in if asked == _DEFAULT else asked
