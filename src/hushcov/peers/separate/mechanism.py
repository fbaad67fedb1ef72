"""Release a Gram matrix, or its eigenvectors and eigenvalues apart."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Guarantee
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian import symmetric_noise
from hushcov.mechanisms.room import Mechanism, PooledPlan, pool_of, shared
from hushcov.noise import Entropy, check_entropy, rounded_normal
from hushcov.peers.separate.parameters import (
    Choice,
    MatrixNoise,
    SeparateParameters,
    choose,
    matrix_noise,
    separate_parameters,
    squared_edges,
)
from hushcov.release import Making, Release, named_parts
from hushcov.steps import Prepared
from hushcov.sums.counts import norm_histogram
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.records import Progress, Records

_TRUSTED = (
    "assumed, not checked: the eigenvalue solver errs by less than 15 * n_features * 2**-53 times "
    "the norm of the matrix"
)

NAME = "separate"
_ROOM_TO_CHOOSE = 2.0  # times the released bound on norms, below which "adaptive" finds its own


@dataclass(frozen=True, eq=False)
class Transcript:
    """The noisy integers that a release is computed from: a Gram matrix, perhaps its eigenvalues.

    `eigenvalues` are in increasing order but for the noise.
    """

    gram: IntArray
    eigenvalues: IntArray | None


def certify_separate(parameters: SeparateParameters, *, private: bool) -> Guarantee:
    """Let the accountant bound the events of these very parameters, or raise.

    Privacy
    -------
    Neighbours: replace one record. The release is post-processing of Gaussian mechanisms, whose
    noise is drawn exactly; `docs/proofs/separate.md`. Where eigenvalues may be released, the error
    bound of the eigenvalue solver is trusted, and the guarantee says so.
    """
    guarantee = parameters.inputs.certify(parameters.events, private=private)  # proof: step 9
    if parameters.method == "gauss":
        return guarantee
    return replace(guarantee, preconditions=(*guarantee.preconditions, _TRUSTED))


def release_separate(
    records: Records,
    feature_scale: npt.NDArray[np.float64],
    parameters: SeparateParameters,
    entropy: Entropy,
    *,
    progress: Progress | None = None,
) -> Release:
    """Certify, choose where to bound the records if that is asked for, and release their matrix.

    Privacy
    -------
    See `certify_separate`. `feature_scale` must be public, or released by the events in
    `parameters.inputs.spent`; it may be anything that is not computed from the records otherwise.
    """
    inputs = parameters.inputs
    inputs.check_size(records)
    check_entropy(entropy)
    guarantee = certify_separate(parameters, private=entropy.private)
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    choice, noisy_counts = Choice(parameters.method, parameters.norm_bound), None
    if parameters.histogram_sigma is not None:
        edges = squared_edges(parameters.norm_bound)
        counts = norm_histogram(records, grid, edges, progress=progress)  # proof: step 5
        noisy_counts = draw_counts(entropy.generator, counts, parameters)
        choice = choose(parameters, noisy_counts)  # proof: step 7
    gram = row_bounded_gram(records, grid, choice.norm_bound, progress=progress)  # proof: step 1
    noise = matrix_noise(parameters, choice.method, choice.norm_bound)
    eigenvalues = None if noise.eigenvalue_sigma is None else rounded_eigenvalues(gram)
    transcript = draw_transcript(entropy.generator, gram, eigenvalues, noise)
    return Release(
        mechanism=NAME,
        integers=recombine(transcript, parameters, choice),
        unit=parameters.unit,
        guarantee=guarantee,
        parameters=parameters.to_dict() | _released(parameters, choice, noise, noisy_counts),
        feature_scale=grid.feature_scale,
        making=Making(
            n_averaged=parameters.inputs.n_records,
            parts=named_parts(guarantee.events, parameters.part_names),
        ),
    )


def draw_counts(
    generator: np.random.Generator, counts: IntArray, parameters: SeparateParameters
) -> IntArray:
    """Counts of norms with their noise."""
    assert parameters.histogram_sigma is not None
    return counts + rounded_normal(generator, parameters.histogram_sigma, len(counts))


def rounded_eigenvalues(gram: IntArray) -> IntArray:
    """Eigenvalues of an integer Gram matrix in increasing order, rounded to integers."""
    values = np.linalg.eigvalsh(gram.astype(np.float64))  # proof: step 4
    return np.rint(values).astype(np.int64)


def draw_transcript(
    generator: np.random.Generator,
    gram: IntArray,
    eigenvalues: IntArray | None,
    noise: MatrixNoise,
) -> Transcript:
    """Add the noise: to the upper triangle, and to the eigenvalues if they are released."""
    matrix = gram + symmetric_noise(generator, len(gram), noise.sigma, noise.diagonal_sigma)
    if eigenvalues is None or noise.eigenvalue_sigma is None:
        return Transcript(matrix, None)
    # proof: step 6
    drawn = rounded_normal(generator, noise.eigenvalue_sigma, len(eigenvalues))
    return Transcript(matrix, eigenvalues + drawn)


def recombine(transcript: Transcript, parameters: SeparateParameters, choice: Choice) -> IntArray:
    """The matrix with the eigenvectors of the noisy Gram matrix and the released eigenvalues.

    Without released eigenvalues they are those of the noisy Gram matrix. They are brought into
    the range that those of Gram matrices have.

    Privacy
    -------
    Post-processing of the transcript; `docs/proofs/separate.md`, step 8.
    """
    # proof: step 8
    values, vectors = np.linalg.eigh(transcript.gram.astype(np.float64))
    if transcript.eigenvalues is not None:
        # The nearest increasing sequence: noise that breaks the order averages out.
        from scipy import optimize

        noisy = transcript.eigenvalues.astype(np.float64)
        values = optimize.isotonic_regression(noisy).x
    largest = parameters.inputs.n_records * choice.norm_bound**2
    root = vectors * np.sqrt(np.clip(values, 0.0, float(largest)))
    # One matrix times its own transpose: exactly symmetric.
    return np.asarray(np.rint(root @ root.T), dtype=np.int64)


def _released(
    parameters: SeparateParameters,
    choice: Choice,
    noise: MatrixNoise,
    noisy_counts: IntArray | None,
) -> dict[str, object]:
    """What is known after the release only, as plain data."""
    return {
        "chosen_method": choice.method,
        "chosen_row_norm": choice.norm_bound * parameters.step,
        "noisy_counts": None if noisy_counts is None else noisy_counts.tolist(),
        **asdict(noise),
    }


@dataclass(frozen=True)
class PlannedSeparate(PooledPlan[SeparateParameters]):
    """Eigenvalues, directions and the choice between methods with their noise.

    `row_norm` is the bound on norms where it is one's own.
    """

    row_norm: float | None = None

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_separate`."""
        return certify_separate(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_separate`."""
        return release_separate(records, feature_scale, self.parameters, entropy)

    @property
    def pool(self) -> float:
        """The mu of counts and matrix, and of what the plan set aside before them."""
        return pool_of(self.parameters.inputs, *self.parameters.mus)

    def after(self, prepared: Prepared) -> PlannedSeparate:
        """See `PooledPlan.after`; the bound follows the released norms, unless it is one's own."""
        planned, row_norm = self.parameters, self.row_norm
        if row_norm is None and prepared.norm is not None:
            room = _ROOM_TO_CHOOSE if planned.method == "adaptive" else 1.0
            row_norm = room * prepared.norm.norm
        inputs = shared(self, prepared)
        parameters = separate_parameters(inputs, method=planned.method, row_norm=row_norm)
        return replace(self, parameters=parameters)


class Separate(Mechanism):
    """Eigenvectors and eigenvalues apart, or the matrix as a whole, whichever is better."""

    name = NAME
    title = "AdaptiveCov (Dong et al.)"
    pooled = True
    estimator = ("SeparateCovariance", {})

    def plan(
        self,
        inputs: ReleaseInputs,
        *,
        sparse: bool = False,
        method: str = "adaptive",
        row_norm: float | None = None,
    ) -> PlannedSeparate:
        """See `Mechanism.plan` and `separate_parameters`."""
        parameters = separate_parameters(inputs, method=method, row_norm=row_norm)
        return PlannedSeparate(self, parameters, row_norm=row_norm)


SEPARATE = Separate()
