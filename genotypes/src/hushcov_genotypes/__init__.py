"""Genotypes: covariances within windows of variants, in one pass over blocks of them."""
