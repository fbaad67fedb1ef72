"""Row-wise top-k with the noise as its authors print it. Nothing here is certified.

Algorithm 2 ("PrivCov") of Kumar, Pandey, Sarkar and Tian (COLT 2026, arXiv 2606.21951), to see what
its published constants do. `docs/proofs/row_top_k.md` lists the gaps of its privacy argument.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, BoolArray, FloatArray, IntArray
from hushcov._validation import check_real
from hushcov.accounting import NOT_CERTIFIED, Guarantee, compose
from hushcov.exceptions import CapacityError, PrivacyConditionError
from hushcov.inputs import ReleaseInputs, guaranteed
from hushcov.mechanisms.gaussian import LARGEST_HALF_WIDTH
from hushcov.mechanisms.peers.row_top_k.mechanism import NAME, mutual_pairs
from hushcov.noise import Entropy, check_entropy
from hushcov.records import FeatureGrid, Progress, Records, row_bounded_gram
from hushcov.release import Making, Release, named_parts

PRINTED_FAILURE_PROBABILITY = 0.1  # beta, which only the radius depends on
_LARGEST_NOISE = 2**52  # of sums in squared steps, such that their rounding is an integer


def printed_radius(n_records: int, n_features: int, failure_probability: float) -> float:
    """R = sqrt(2 log(6 n d/beta)) in units of the scale."""
    return math.sqrt(2 * math.log(6 * n_records * n_features / failure_probability))


def printed_laplace_scale(
    sensitivity: float, n_features: int, row_sparsity: int, epsilon: float, delta: float
) -> float:
    """b = (2 Delta/eps_row) sqrt(k log(d/delta_row)) for entries that move by Delta."""
    d = n_features
    delta_row = delta / (2 * d)
    epsilon_row = epsilon / 4 / math.sqrt(2 * d * math.log(2 / delta))
    return 2 * sensitivity / epsilon_row * math.sqrt(row_sparsity * math.log(d / delta_row))


@dataclass(frozen=True)
class PrintedParameters:
    """The printed radius and noise; `laplace_scale` is in squared steps of the grid."""

    inputs: ReleaseInputs
    radius: float
    half_width: int
    laplace_scale: float

    @property
    def unit(self) -> float:
        """The public value of one released integer: half a squared step over n.

        Half, because an entry is the average of two whole numbers.
        """
        return (self.radius / self.half_width) ** 2 / self.inputs.n_records / 2

    @property
    def noise_sd(self) -> tuple[float, float]:
        """Deviation of an average of two Laplace draws, and of one, in units of scale^2."""
        sd = self.laplace_scale * 2 * self.unit
        return sd, math.sqrt(2) * sd

    def to_dict(self) -> dict[str, object]:
        """Return inputs and parameters as plain, JSON-ready data."""
        spent = [{"type": type(event).__name__, **asdict(event)} for event in self.inputs.spent]
        return {
            "inputs": self.inputs.to_dict() | {"spent": spent},
            "constants": "paper",
            "radius": self.radius,
            "half_width": self.half_width,
            "laplace_scale": self.laplace_scale,
        }


def printed_parameters(inputs: ReleaseInputs) -> PrintedParameters:
    """Evaluate Algorithm 2 for the given public inputs, at features of scale 1.

    Events that were spent before get half of delta and the epsilon they need there; the printed
    noise is computed for the rest.
    """
    n, d, epsilon = inputs.n_records, inputs.n_features, inputs.epsilon
    delta = check_real("delta", inputs.delta, above=0, cure="the printed noise needs one.")
    if inputs.spent:
        delta /= 2
        epsilon -= compose(inputs.spent, delta=delta, pld=False).epsilon
        if epsilon <= 0:
            raise PrivacyConditionError(
                f"spent must leave some of epsilon = {inputs.epsilon!r} at half of delta, and "
                "leaves nothing: spend less before, or pass feature_scale."
            )
    radius = printed_radius(n, d, PRINTED_FAILURE_PROBABILITY)
    # Entries of the sum move by n Delta = 2 R^2, which is 2 h^2 in squared steps.
    per_square = printed_laplace_scale(2.0, d, inputs.row_sparsity, epsilon, delta)
    finest = min(
        LARGEST_HALF_WIDTH,
        math.isqrt(LARGEST_EXACT_FLOAT // n),
        math.floor(math.sqrt(_LARGEST_NOISE / (64 * per_square))),
    )
    if finest < 1:
        raise CapacityError(
            f"{n:,} records of {d:,} features at epsilon {inputs.epsilon:g} and delta "
            f"{inputs.delta:g} need larger sums or more noise than doubles hold: use fewer, or a "
            "larger budget."
        )
    return PrintedParameters(inputs, radius, finest, per_square * finest**2)


def claim_printed(parameters: PrintedParameters) -> Guarantee:
    """What the authors claim, marked as not certified and not private.

    Privacy
    -------
    None is promised.
    """
    inputs = parameters.inputs
    return Guarantee(
        epsilon=inputs.epsilon,
        delta=inputs.delta,
        transcript_epsilon=inputs.epsilon,
        transcript_delta=inputs.delta,
        numerical_delta=0.0,
        events=inputs.spent,
        method=NOT_CERTIFIED,
        preconditions=(),
        private=False,
        **guaranteed(inputs.neighbours),
    )


def release_printed(
    records: Records,
    feature_scale: FloatArray,
    parameters: PrintedParameters,
    entropy: Entropy,
    *,
    progress: Progress | None = None,
) -> Release:
    """Run Algorithm 2 with its printed noise.

    Privacy
    -------
    None is promised: the published argument has gaps, and noise is drawn in doubles. The release
    is marked as not private, whatever the entropy is.
    """
    parameters.inputs.check_size(records)
    check_entropy(entropy)
    guarantee = claim_printed(parameters)
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    gram = row_bounded_gram(records, grid, None, progress=progress)
    picked = pick_noisy_largest(gram, parameters, entropy.generator)
    rows, columns = mutual_pairs(picked)
    return Release(
        mechanism=NAME,
        integers=averaged_values(gram, rows, columns, parameters, entropy.generator),
        unit=parameters.unit,
        guarantee=guarantee,
        parameters=parameters.to_dict(),
        feature_scale=grid.feature_scale,
        noise_sd=parameters.noise_sd,
        selected=np.stack([rows, columns]),
        making=Making(
            n_averaged=parameters.inputs.n_records,
            parts=named_parts(guarantee.events, ()),
        ),
    )


def pick_noisy_largest(
    gram: IntArray, parameters: PrintedParameters, generator: np.random.Generator
) -> BoolArray:
    """For each row its k largest |entry + Laplace noise|, the diagonal among them."""
    noisy = np.abs(gram + generator.laplace(0.0, parameters.laplace_scale, gram.shape))
    k = parameters.inputs.row_sparsity
    largest = np.argpartition(-noisy, k - 1, axis=1)[:, :k]
    picked = np.zeros(gram.shape, dtype=bool)
    np.put_along_axis(picked, largest, True, axis=1)
    return picked


def averaged_values(
    gram: IntArray,
    rows: IntArray,
    columns: IntArray,
    parameters: PrintedParameters,
    generator: np.random.Generator,
) -> IntArray:
    """Twice the average of the two noisy values of each pair, and of the diagonal with itself."""
    n_pairs, scale = len(rows), parameters.laplace_scale
    draws = np.rint(generator.laplace(0.0, scale, 2 * n_pairs + len(gram))).astype(np.int64)
    released = np.zeros_like(gram)
    both = 2 * gram[rows, columns] + draws[:n_pairs] + draws[n_pairs : 2 * n_pairs]
    released[rows, columns] = released[columns, rows] = both
    np.fill_diagonal(released, 2 * (np.diag(gram) + draws[2 * n_pairs :]))
    return released
