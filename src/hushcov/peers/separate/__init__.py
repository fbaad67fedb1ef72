"""Eigenvectors and eigenvalues released apart: Dong, Liang and Yi (NeurIPS 2022).

GaussCov, SeparateCov and AdaptiveCov of "Differentially Private Covariance Revisited"
(arXiv 2205.14324), on exact integers. The proof is `docs/proofs/separate.md`, which also says where
this departs from the published description.
"""

from hushcov.peers.separate.mechanism import (
    SEPARATE,
    Transcript,
    certify_separate,
    draw_transcript,
    recombine,
    release_separate,
    rounded_eigenvalues,
)
from hushcov.peers.separate.parameters import (
    METHODS,
    Choice,
    MatrixNoise,
    SeparateParameters,
    choose,
    eigenvalue_sensitivity,
    matrix_noise,
    separate_parameters,
)

__all__ = [
    "METHODS",
    "SEPARATE",
    "Choice",
    "MatrixNoise",
    "SeparateParameters",
    "Transcript",
    "certify_separate",
    "choose",
    "draw_transcript",
    "eigenvalue_sensitivity",
    "matrix_noise",
    "recombine",
    "release_separate",
    "rounded_eigenvalues",
    "separate_parameters",
]
