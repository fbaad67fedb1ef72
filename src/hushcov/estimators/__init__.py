"""Estimators in scikit-learn's convention: validate, plan, call a mechanism, store its release.

Each is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy

if TYPE_CHECKING:
    from hushcov.estimators.gaussian import GaussianCovariance, ScreenedCovariance
    from hushcov.estimators.sparse import PrivateSparseCovariance
    from hushcov.estimators.thresholded import ThresholdedCovariance
    from hushcov.paper.estimator import MultiscaleCovariance

__getattr__ = lazy(
    __name__,
    gaussian="GaussianCovariance ScreenedCovariance",
    sparse="PrivateSparseCovariance",
    thresholded="ThresholdedCovariance",
    **{".paper.estimator": "MultiscaleCovariance"},
)
