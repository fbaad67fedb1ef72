"""Exact sums of integers over records: Gram matrices, scores, products, counts, statistics."""
