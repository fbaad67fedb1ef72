"""The exact matrix of a step of CoinPress, and the same with its noise, apart from a session."""

import numpy as np

from hushcov.kernel.noise import normal
from hushcov.kernel.queries import Gram
from hushcov.kernel.records.multiplied import MultipliedRecords
from hushcov_lab.peers.coinpress import grids_of


def exact_gram_of(records, feature_scale, parameters):
    """Return the exact statistic of a step, as a function of its public integer matrix."""
    own, multiplied = grids_of(feature_scale, parameters)
    query = Gram(multiplied, parameters.norm_bound)
    return lambda matrix: query.exact(MultipliedRecords(records, own, matrix))


def noisy(gram_of, parameters, seed):
    """Return a function that adds to such a matrix the noise of its step."""
    generator = np.random.default_rng(seed)

    def noisy_gram_of(matrix, step):
        sigmas = parameters.sigmas[step], parameters.diagonal_sigmas[step]
        return gram_of(matrix) + normal.symmetric_noise(generator, len(matrix), *sigmas)

    return noisy_gram_of
