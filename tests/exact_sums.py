"""Sums of records that tests compare, read alone."""

from hushcov.kernel.sums.bounded import bounded_sums_of
from hushcov.kernel.sums.counts import norm_counts_of
from hushcov.kernel.sums.signs import sign_gram_and_sums


def bounded_sums(records, grid, norm_bound):
    return records.map_sum(bounded_sums_of(records, grid, norm_bound))


def norm_histogram(records, grid, squared_edges):
    return records.map_sum(norm_counts_of(records, grid, squared_edges))


def sign_gram(records, start=0, stop=None):
    return sign_gram_and_sums(records, start, stop)[0]
