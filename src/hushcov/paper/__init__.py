"""The paper's mechanism: Algorithm 1 as printed, exact samplers of it at any size, its release."""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy

__all__ = [
    "AlgorithmTranscript",
    "clipped_moments",
    "run_algorithm",
    "run_algorithm_on_moments",
    "theorem_parameters",
]

if TYPE_CHECKING:
    from hushcov.paper.algorithm import (
        AlgorithmTranscript,
        clipped_moments,
        run_algorithm,
        run_algorithm_on_moments,
    )
    from hushcov.paper.parameters import theorem_parameters
else:
    __getattr__ = lazy(
        __name__,
        algorithm="AlgorithmTranscript clipped_moments run_algorithm run_algorithm_on_moments",
        parameters="theorem_parameters",
    )
